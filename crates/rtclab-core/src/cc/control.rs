//! The two halves of a congestion control, and the values that pass between them and an endpoint.

use crate::packet::{Ecn, Kind};
use crate::rtp::AbsSendTime;
use crate::units::{Bitrate, Bytes, RemoteTime, Time};
use std::borrow::Cow;
use std::fmt;

/// A packet that left, as the congestion control sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SentPacket {
    /// Transport-wide sequence number, unwrapped.
    pub transport_seq: i64,
    /// When it left the pacer.
    pub at: Time,
    /// IP total length.
    pub size: Bytes,
    /// What it carries.
    pub kind: Kind,
    /// The probe it belongs to.
    pub probe: Option<u32>,
    /// Bytes sent and not yet reported on, this packet included.
    pub in_flight: Bytes,
    /// ECN codepoint that it left with.
    pub ecn: Ecn,
}

/// What the other side says of one packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PacketReport {
    /// The packet.
    pub sent: SentPacket,
    /// Its arrival on the other side's clock; `None` if it had not arrived when the report left.
    pub received: Option<RemoteTime>,
    /// ECN codepoint that it arrived with; `None` where the feedback format has no field for it.
    pub ecn: Option<Ecn>,
    /// An earlier report said that it had not arrived. With an arrival, the packet was recovered;
    /// without one, its loss is not news.
    pub lost_before: bool,
}

/// What came back.
#[derive(Clone, Copy, Debug)]
pub enum Feedback<'a> {
    /// Per-packet arrivals (transport-wide feedback or RFC 8888), in sending order.
    Packets {
        /// One entry for each packet reported.
        reports: &'a [PacketReport],
        /// Bytes still unreported after this feedback.
        in_flight: Bytes,
        /// Arrival times are rounded to multiples of this.
        resolution: Time,
    },
    /// A receiver report block (RFC 3550, section 6.4.1).
    ReceiverReport {
        /// Packets lost since the last report.
        lost: u64,
        /// Packets expected since the last report.
        expected: u64,
        /// Share of them that was lost, in 1/255, as the block has it.
        fraction: u8,
        /// Round trip from LSR and DLSR, if the other side has seen a sender report.
        rtt: Option<Time>,
    },
    /// Receiver estimated maximum bit rate.
    Remb(Bitrate),
}

/// What a sender tells its control at every tick.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SenderState {
    /// Bytes waiting in the pacer.
    pub queued: Bytes,
    /// Bytes sent and not yet reported on.
    pub in_flight: Bytes,
    /// What the encoders were last asked for, all streams together.
    pub media_rate: Bitrate,
    /// Nothing has waited in the pacer since the last tick: the media, not the control, limited the rate.
    pub application_limited: bool,
}

/// A burst at a given rate that measures capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probe {
    /// Returned in [`SentPacket::probe`].
    pub id: u32,
    /// Rate of the burst.
    pub rate: Bitrate,
    /// The burst ends when this many packets …
    pub min_packets: u32,
    /// … and this many bytes have left.
    pub min_bytes: Bytes,
    /// Smallest time between two groups of packets.
    pub min_spacing: Time,
}

/// What the sender shall do. Everything but the target is optional.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// Rate that media may take. What it counts is up to the stack profile.
    pub target: Bitrate,
    /// Media wait in the pacer while this much is in flight; `None` for no limit. Audio never waits.
    pub window: Option<Bytes>,
    /// Rate at which the pacer may empty its queue; `None` leaves it to the stack profile.
    pub pacing_rate: Option<Bitrate>,
    /// How far packets may leave ahead of the pacing rate; `None` leaves it to the stack profile.
    pub pacing_burst: Option<Time>,
    /// Rate up to which padding fills what the media leave.
    pub padding_rate: Bitrate,
    /// Share of frames that the encoder shall drop, 0 to 1 (congestion window push-back).
    pub drop_ratio: f64,
    /// ECN codepoint for RTP packets.
    pub ecn: Ecn,
}

impl Decision {
    /// Send at `target`, and leave everything else to the stack profile.
    pub const fn at(target: Bitrate) -> Self {
        Decision {
            target,
            window: None,
            pacing_rate: None,
            pacing_burst: None,
            padding_rate: Bitrate::ZERO,
            drop_ratio: 0.0,
            ecn: Ecn::NotCapable,
        }
    }
}

/// A value of a control's inner state, for the trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// Name, with its unit as a suffix: `target_bps`, `rtt_ms`.
    pub name: Cow<'static, str>,
    /// Value.
    pub value: f64,
}

impl Observation {
    /// A value under a fixed name.
    pub const fn new(name: &'static str, value: f64) -> Self {
        Observation { name: Cow::Borrowed(name), value }
    }
}

/// Why a control cannot go on; the run ends with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlError(pub String);

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for ControlError {}

/// Sender half: from feedback to a decision.
///
/// Time comes in as an argument and nothing is called back. An error of any method ends the run.
pub trait Controller: Send {
    /// A packet left.
    ///
    /// # Errors
    /// The control cannot go on.
    fn on_sent(&mut self, _packet: &SentPacket) -> Result<(), ControlError> {
        Ok(())
    }
    /// Something came back.
    ///
    /// # Errors
    /// The control cannot go on.
    fn on_feedback(&mut self, now: Time, feedback: Feedback<'_>) -> Result<(), ControlError>;
    /// Media begin, or the time given by [`Controller::poll_timeout`] has come.
    ///
    /// # Errors
    /// The control cannot go on.
    fn on_timeout(&mut self, _now: Time, _sender: &SenderState) -> Result<(), ControlError> {
        Ok(())
    }
    /// When to call [`Controller::on_timeout`] again.
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
    /// A probe to send now.
    fn poll_probe(&mut self) -> Option<Probe> {
        None
    }
    /// What the sender shall do, as of the last call.
    fn decision(&self) -> Decision;
    /// Adds its inner values to `out`.
    fn observe(&self, _out: &mut Vec<Observation>) {}
}

/// An RTP packet that arrived, or that FEC has made again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReceivedPacket {
    /// When.
    pub at: Time,
    /// Its stream.
    pub ssrc: u32,
    /// Sequence number on its stream.
    pub seq: u16,
    /// Whether it belongs to a stream of audio.
    pub audio: bool,
    /// IP total length.
    pub size: Bytes,
    /// RTP payload and padding, without headers.
    pub payload: Bytes,
    /// RTP timestamp; of a retransmission that of the original.
    pub rtp_timestamp: u32,
    /// When it left, as its header says.
    pub abs_send_time: Option<AbsSendTime>,
    /// Transport-wide sequence number, as its header says.
    pub transport_seq: Option<u16>,
    /// ECN codepoint that it arrived with.
    pub ecn: Ecn,
}

/// Receiver half, for receive-side algorithms: from arrivals to REMB.
pub trait Estimator: Send {
    /// A packet arrived.
    ///
    /// # Errors
    /// The control cannot go on.
    fn on_packet(&mut self, packet: &ReceivedPacket) -> Result<(), ControlError>;
    /// A round trip was measured.
    fn on_rtt(&mut self, _now: Time, _rtt: Time) {}
    /// The time given by [`Estimator::poll_timeout`] has come.
    ///
    /// # Errors
    /// The control cannot go on.
    fn on_timeout(&mut self, _now: Time) -> Result<(), ControlError> {
        Ok(())
    }
    /// When to call [`Estimator::on_timeout`].
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
    /// A REMB to send.
    fn poll_remb(&mut self) -> Option<Bitrate>;
    /// Adds its inner values to `out`.
    fn observe(&self, _out: &mut Vec<Observation>) {}
}

/// Bounds of the rate of video, from the encoders; of audio, if there is no video.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateBounds {
    /// Rate before any feedback.
    pub start: Bitrate,
    /// Never below.
    pub min: Bitrate,
    /// What the encoders can use at most; probing does not look beyond twice this.
    pub max: Bitrate,
    /// Audio beside video, on the wire.
    pub audio: Bitrate,
}

impl RateBounds {
    /// The same of everything sent, for algorithms that audio is part of.
    #[must_use]
    pub fn with_audio(self) -> RateBounds {
        let and_audio = |rate: Bitrate| Bitrate(rate.0 + self.audio.0);
        RateBounds {
            start: and_audio(self.start),
            min: and_audio(self.min),
            max: and_audio(self.max),
            audio: Bitrate::ZERO,
        }
    }
}

/// Both halves of an algorithm; a send-side algorithm has no estimator.
pub type Halves = (Box<dyn Controller>, Option<Box<dyn Estimator>>);
