//! Congestion control: the two halves, and the table of what there is.
//!
//! A sender half ([`Controller`]) turns feedback into a [`Decision`]; a receiver half
//! ([`Estimator`]) turns arrivals into a REMB. An algorithm is a line in [`ALGORITHMS`] and one file.
//!
//! Neither is `Send` (the crate `goog_cc` is not): a run is made and finished on one thread.

mod dynamic_alpha;
mod fixed;
mod gcc_2016;
mod goog_cc;
mod loss_based;
mod options;
mod receive_side;
mod rrtcc_2013;
mod table;
mod tfrc;

use crate::rtp::AbsSendTime;
use crate::units::{Bitrate, Bytes, RemoteTime, Time};
pub use fixed::Fixed;
pub use goog_cc::GoogCc;
pub use options::OptionSpec;
pub use table::{
    ALGORITHMS, Algorithm, ConfigError, CongestionControlConfig, NAMES, check, create,
};

/// A packet that left, as the congestion control sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SentPacket {
    /// Transport-wide sequence number, unwrapped.
    pub transport_seq: i64,
    /// When it left the pacer.
    pub at: Time,
    /// IP total length.
    pub size: Bytes,
    /// Whether it carries audio.
    pub audio: bool,
    /// The probe it belongs to.
    pub probe: Option<u32>,
    /// Bytes sent and not yet reported on, this packet included.
    pub in_flight: Bytes,
}

/// What the other side says of one packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PacketReport {
    /// The packet.
    pub sent: SentPacket,
    /// Its arrival on the other side's clock; `None` if it had not arrived when the report left.
    pub received: Option<RemoteTime>,
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

/// What a rate counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateOf {
    /// Whole packets, headers included.
    Packets,
    /// What packets of video carry: until 2019 headers came on top of what was controlled, audio beside
    /// it, and encoders were asked for all of it.
    Payloads,
}

/// How packets leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pacing {
    /// At once: libjingle in 2013.
    None,
    /// At 2.5 times the target in ticks of 5 ms: since 2014.
    Factor,
}

impl Pacing {
    fn rate(self, target: Bitrate) -> Bitrate {
        match self {
            Pacing::None => UNPACED,
            Pacing::Factor => target.scaled(goog_cc::PACING_FACTOR),
        }
    }

    fn burst(self) -> Time {
        match self {
            Pacing::None => PACING_BURST,
            Pacing::Factor => PACING_TICK_2016,
        }
    }

    fn tick(self) -> Time {
        match self {
            Pacing::None => Time::ZERO,
            Pacing::Factor => PACING_TICK_2016,
        }
    }
}

/// So fast that nothing waits in the pacer.
const UNPACED: Bitrate = Bitrate::from_mbps(100_000);

/// libwebrtc 524ecc29dd, `paced_sender.cc`, kMinPacketLimitMs: what may leave in a tick leaves at once.
const PACING_TICK_2016: Time = Time::from_millis(5);

/// libwebrtc: today packets may leave this much ahead of the pacing rate.
pub const PACING_BURST: Time = Time::from_millis(40);

/// What the sender shall do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// Rate of everything sent.
    pub target: Bitrate,
    /// Whether headers are part of the target.
    pub target_of: RateOf,
    /// Rate at which the pacer may empty its queue.
    pub pacing_rate: Bitrate,
    /// How far packets may leave ahead of the pacing rate.
    pub pacing_burst: Time,
    /// How often the pacer looks at its queue; zero: whenever a packet is due.
    pub pacing_tick: Time,
    /// Rate up to which padding fills what the media leaves.
    pub padding_rate: Bitrate,
    /// Share of frames that the encoder shall drop, 0 to 1 (congestion window push-back).
    pub drop_ratio: f64,
}

/// Sender half: from feedback to a decision.
pub trait Controller {
    /// A packet left.
    fn on_sent(&mut self, _packet: &SentPacket) {}
    /// Something came back.
    fn on_feedback(&mut self, now: Time, feedback: Feedback<'_>);
    /// The time given by [`Controller::poll_timeout`] has come.
    fn on_timeout(&mut self, _now: Time) {}
    /// When to call [`Controller::on_timeout`].
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
    /// A probe to send now.
    fn poll_probe(&mut self) -> Option<Probe> {
        None
    }
    /// What the sender shall do, as of the last call.
    fn decision(&self) -> Decision;
    /// Internal values for the trace, named with their unit.
    fn observe(&self, _out: &mut dyn FnMut(&'static str, f64)) {}
}

/// A packet of video, retransmissions, FEC and padding included, that arrived.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReceivedPacket {
    /// When.
    pub at: Time,
    /// RTP payload and padding, without headers.
    pub payload: Bytes,
    /// RTP timestamp; of a retransmission that of the original.
    pub rtp_timestamp: u32,
    /// When it left, as its header says.
    pub abs_send_time: Option<AbsSendTime>,
}

/// When a REMB leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RembTiming {
    /// With the next regular report: until March 2014.
    WithReport,
    /// At once, in a report of its own.
    AtOnce,
}

/// Receiver half, for receive-side algorithms: from arrivals to REMB.
pub trait Estimator {
    /// A packet arrived.
    fn on_packet(&mut self, packet: &ReceivedPacket);
    /// A round trip was measured.
    fn on_rtt(&mut self, _now: Time, _rtt: Time) {}
    /// The time given by [`Estimator::poll_timeout`] has come.
    fn on_timeout(&mut self, _now: Time) {}
    /// When to call [`Estimator::on_timeout`].
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
    /// A REMB to send.
    fn poll_remb(&mut self) -> Option<Bitrate>;
    /// Whether packets that FEC has recovered are handed to it too, besides those on the wire.
    fn hears_recovered(&self) -> bool {
        false
    }
    /// When REMBs leave.
    fn remb_timing(&self) -> RembTiming {
        RembTiming::AtOnce
    }
    /// Internal values for the trace, named with their unit.
    fn observe(&self, _out: &mut dyn FnMut(&'static str, f64)) {}
}

/// Bounds of the rate of video, from the encoder; of audio, if there is no video.
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
