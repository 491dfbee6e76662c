//! The two halves of a congestion control, and the values that pass between them and an endpoint.

use super::external::DecisionRequest;
use crate::packet::{Ecn, Kind};
use crate::rtp::AbsSendTime;
use crate::units::{Bitrate, Bytes, RemoteTime, Time};
use std::borrow::Cow;
use std::fmt;

/// A packet that left, as the congestion control sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SentPacket {
    /// Transport-wide sequence number, unwrapped. Packets are counted so also where it is not on the wire.
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

/// What the far end reports about one packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PacketReport {
    /// The packet.
    pub sent: SentPacket,
    /// Arrival time on the far end's clock, or on a clock that differs from it by a constant; `None` if it had not arrived
    /// when the report was sent.
    pub received: Option<RemoteTime>,
    /// ECN codepoint on arrival; `None` if the feedback format has no field for it, or the packet had not arrived.
    pub ecn: Option<Ecn>,
    /// How long the far end held it before it sent the report; `None` if the feedback format has no field for it, the
    /// time is unknown, or the packet had not arrived.
    pub held: Option<Time>,
    /// An earlier report said that it had not arrived. If it has arrived now, it was recovered; if not,
    /// its loss was already reported.
    pub lost_before: bool,
}

/// Feedback from the far end.
#[derive(Clone, Copy, Debug)]
pub enum Feedback<'a> {
    /// Per-packet arrivals (transport-wide feedback or RFC 8888), in sending order.
    Packets {
        /// One entry for each packet reported.
        reports: &'a [PacketReport],
        /// Bytes sent and not yet reported on after this feedback.
        in_flight: Bytes,
        /// Arrival times have steps of this.
        resolution: Time,
    },
    /// A receiver report block (RFC 3550, section 6.4.1).
    ReceiverReport {
        /// Packets lost since the last report.
        lost: u64,
        /// Packets expected since the last report.
        expected: u64,
        /// Fraction of them that was lost, in units of 1/255, as given in the block.
        fraction: u8,
        /// Round-trip time from LSR and DLSR, if the far end has received a sender report.
        rtt: Option<Time>,
    },
    /// Receiver estimated maximum bit rate.
    Remb(Bitrate),
}

/// State of the sender, given to its congestion control at every timeout.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SenderState {
    /// Bytes waiting in the pacer.
    pub queued: Bytes,
    /// Bytes sent and not yet reported on.
    pub in_flight: Bytes,
    /// Rate last requested from the encoders of all streams together.
    pub media_rate: Bitrate,
    /// Nothing has waited in the pacer since the last timeout, so the media limited the rate.
    pub application_limited: bool,
}

/// A burst at a given rate that measures capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probe {
    /// Identifies the probe's packets in [`SentPacket::probe`].
    pub id: u32,
    /// Rate of the burst.
    pub rate: Bitrate,
    /// The burst lasts for at least this many packets.
    pub min_packets: u32,
    /// The burst lasts for at least this many bytes.
    pub min_bytes: Bytes,
    /// Minimum time between two groups of packets.
    pub min_spacing: Time,
}

/// What the sender should do. Everything but the target is optional.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// Rate available to media. The stack profile defines which bytes count.
    pub target: Bitrate,
    /// Media waits in the pacer while this much is in flight; `None` for no limit. Audio never waits.
    pub window: Option<Bytes>,
    /// Rate at which the pacer may empty its queue; `None` leaves it to the stack profile.
    pub pacing_rate: Option<Bitrate>,
    /// How far packets may leave ahead of the pacing rate; `None` leaves it to the stack profile.
    pub pacing_burst: Option<Time>,
    /// Padding fills the rate up to this when media alone sends less.
    pub padding_rate: Bitrate,
    /// Fraction of frames that the encoder should drop, 0 to 1 (congestion window push-back).
    pub drop_ratio: f64,
    /// ECN codepoint for RTP packets, which promises to answer marks. Packets leave with it only where the feedback is
    /// RFC 8888's, and until a report shows that the path takes codepoints away.
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

/// Largest rate of padding and probes, beyond all links that carry calls. Each packet of padding is an event.
const MAX_PADDING: Bitrate = Bitrate::from_mbps(100_000);
/// Largest burst of a probe; it leaves at once: a second at 100 Mbit/s.
const MAX_PROBE_BURST: Bytes = Bytes(12_500_000);
/// A control may want this many probes at once. libwebrtc runs at most five and drops older ones.
const MAX_PROBES: usize = 100;
/// How often anything may be called at one moment at its own request. One call is the rule; a control that catches up
/// after a pause may need a few more.
pub(crate) const MAX_CALLS_AT_ONCE: u64 = 1_000;

impl Decision {
    /// Whether a sender can follow it.
    pub(crate) fn check(&self) -> Result<(), ControlError> {
        if !(0.0..=1.0).contains(&self.drop_ratio) {
            let ratio = self.drop_ratio;
            return Err(ControlError(format!("drop_ratio is {ratio}; expected 0 to 1")));
        }
        if self.padding_rate > MAX_PADDING {
            let (rate, max) = (self.padding_rate.0, MAX_PADDING.0);
            let text = format!("padding_rate is {rate} bit/s; expected at most {max} bit/s");
            return Err(ControlError(text));
        }
        Ok(())
    }
}

impl Probe {
    /// Whether a pacer can send it.
    fn check(&self) -> Result<(), ControlError> {
        let Probe { id, rate, min_spacing, .. } = *self;
        if rate == Bitrate::ZERO || rate > MAX_PADDING {
            let text = format!("probe {id} has {} bit/s; expected 1 to {}", rate.0, MAX_PADDING.0);
            return Err(ControlError(text));
        }
        let burst = rate.bytes_in(min_spacing);
        if burst > MAX_PROBE_BURST {
            let (burst, max) = (burst.0, MAX_PROBE_BURST.0);
            let text = format!("probe {id} has bursts of {burst} B; expected at most {max} B");
            return Err(ControlError(text));
        }
        Ok(())
    }
}

/// The probes that a control wants now, checked.
pub(crate) fn probes(controller: &mut dyn Controller) -> Result<Vec<Probe>, ControlError> {
    let mut probes = Vec::new();
    while let Some(probe) = controller.poll_probe() {
        probe.check()?;
        probes.push(probe);
        if probes.len() > MAX_PROBES {
            let text =
                format!("more than {MAX_PROBES} probes at once; the last one is {}", probe.id);
            return Err(ControlError(text));
        }
    }
    Ok(probes)
}

/// Notices when something is called at the same moment again and again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CallsAtOnce {
    at: Time,
    count: u64,
}

impl CallsAtOnce {
    /// Counts a call at `now`, after which the next one is wanted at `next`.
    pub(crate) fn count(&mut self, now: Time, next: Option<Time>) -> Result<(), ControlError> {
        if now != self.at {
            *self = CallsAtOnce { at: now, count: 0 };
        }
        self.count += 1;
        match next.filter(|next| *next <= now && self.count > MAX_CALLS_AT_ONCE) {
            Some(next) => Err(ControlError(format!(
                "it stands still: called {MAX_CALLS_AT_ONCE} times now, it wants the next call at {next}"
            ))),
            None => Ok(()),
        }
    }
}

/// A value from a congestion control's internal state, for the trace.
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

/// Why a congestion control cannot continue. It ends the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlError(pub String);

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for ControlError {}

/// Sender half: turns feedback into a decision.
///
/// Time is passed in as an argument, and there are no callbacks. An error from any method ends the run.
pub trait Controller: Send {
    /// A packet was sent.
    ///
    /// # Errors
    /// The congestion control cannot continue.
    fn on_sent(&mut self, _packet: &SentPacket) -> Result<(), ControlError> {
        Ok(())
    }
    /// Whether the last packet that was sent may have changed the decision, or may want a probe. A sender need not look
    /// at either otherwise.
    fn is_changed_by_sending(&self) -> bool {
        true
    }
    /// Whether FEC protects against the loss in receiver reports. Otherwise FEC takes the loss as zero.
    fn passes_loss_on(&self) -> bool {
        true
    }
    /// Feedback arrived.
    ///
    /// # Errors
    /// The congestion control cannot continue.
    fn on_feedback(&mut self, now: Time, feedback: Feedback<'_>) -> Result<(), ControlError>;
    /// Media starts, or the time given by [`Controller::poll_timeout`] is reached.
    ///
    /// # Errors
    /// The congestion control cannot continue.
    fn on_timeout(&mut self, _now: Time, _sender: &SenderState) -> Result<(), ControlError> {
        Ok(())
    }
    /// The most that the encoders of all video streams can use, without headers, is another one from now on.
    fn on_media_limit(&mut self, _now: Time, _max: Bitrate) {}
    /// When to call [`Controller::on_timeout`] again.
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
    /// The first of its timeouts that is not [silent](crate#silent-timeouts), if nothing else happens before it: that can
    /// change the decision or want a probe. A sender may skip the timeouts before, whatever its own state is then.
    fn skip_until(&mut self) -> Option<Time> {
        self.poll_timeout()
    }
    /// Makes up for the timeouts before `now` that were skipped.
    fn catch_up(&mut self, _now: Time) {}
    /// A probe to send now.
    fn poll_probe(&mut self) -> Option<Probe> {
        None
    }
    /// A request for a decision that is made outside of the run, such as [`External`](super::External) makes. It is asked
    /// for after feedback and timeouts.
    fn poll_request(&mut self, _now: Time) -> Option<Box<DecisionRequest>> {
        None
    }
    /// The answer to a request.
    ///
    /// # Errors
    /// The congestion control cannot continue, or it has not asked.
    fn handle_decision(&mut self, _now: Time, _decision: Decision) -> Result<(), ControlError> {
        Err(ControlError("it was given a decision that it has not asked for".to_owned()))
    }
    /// What the sender should do, as of the last call.
    fn decision(&self) -> Decision;
    /// Appends values of its internal state to `out`.
    fn observe(&self, _out: &mut Vec<Observation>) {}
}

/// An RTP packet that arrived, or that FEC recovered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReceivedPacket {
    /// Arrival time, or when FEC recovered it.
    pub at: Time,
    /// SSRC of its stream.
    pub ssrc: u32,
    /// RTP sequence number.
    pub seq: u16,
    /// Whether it belongs to an audio stream.
    pub audio: bool,
    /// IP total length.
    pub size: Bytes,
    /// RTP payload and padding, without headers.
    pub payload: Bytes,
    /// RTP timestamp; for a retransmission, the timestamp of the original packet.
    pub rtp_timestamp: u32,
    /// Send time from its header.
    pub abs_send_time: Option<AbsSendTime>,
    /// Transport-wide sequence number from its header.
    pub transport_seq: Option<u16>,
    /// ECN codepoint that it arrived with.
    pub ecn: Ecn,
}

/// Receiver half of a receive-side algorithm: turns arrivals into REMB.
pub trait Estimator: Send {
    /// A packet arrived.
    ///
    /// # Errors
    /// The congestion control cannot continue.
    fn on_packet(&mut self, packet: &ReceivedPacket) -> Result<(), ControlError>;
    /// A round-trip time was measured.
    fn on_rtt(&mut self, _now: Time, _rtt: Time) {}
    /// The time given by [`Estimator::poll_timeout`] is reached.
    ///
    /// # Errors
    /// The congestion control cannot continue.
    fn on_timeout(&mut self, _now: Time) -> Result<(), ControlError> {
        Ok(())
    }
    /// When to call [`Estimator::on_timeout`].
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
    /// A REMB to send.
    fn poll_remb(&mut self) -> Option<Bitrate>;
    /// Appends values of its internal state to `out`.
    fn observe(&self, _out: &mut Vec<Observation>) {}
}

/// Bounds on the video rate, set by the encoders; on the audio rate if there is no video.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateBounds {
    /// Rate before any feedback.
    pub start: Bitrate,
    /// Lower bound.
    pub min: Bitrate,
    /// The most that the encoders can use. Probes do not go beyond twice this.
    pub max: Bitrate,
    /// Rate on the wire of audio sent beside video.
    pub audio: Bitrate,
    /// Whether a camera's video is sent.
    pub has_video: bool,
}

impl RateBounds {
    /// Bounds on the total rate, for algorithms that include audio.
    #[must_use]
    pub fn with_audio(self) -> RateBounds {
        let and_audio = |rate: Bitrate| Bitrate(rate.0 + self.audio.0);
        RateBounds {
            start: and_audio(self.start),
            min: and_audio(self.min),
            max: and_audio(self.max),
            audio: Bitrate::ZERO,
            has_video: self.has_video,
        }
    }
}

/// Both halves of an algorithm; a send-side algorithm has no estimator.
pub type Halves = (Box<dyn Controller>, Option<Box<dyn Estimator>>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_calls_at_one_moment_are_no_error_and_more_are_unless_the_next_is_later() {
        let (mut calls, now) = (CallsAtOnce::default(), Time::from_secs(1));
        assert!((0..1_000).all(|_| calls.count(now, Some(now)).is_ok()));
        assert_eq!(calls.count(now, Some(now + Time(1))), Ok(()));
        assert_eq!(calls.count(now, None), Ok(()));
        assert!(calls.count(now, Some(now)).is_err());
        assert_eq!(calls.count(now + Time(1), Some(now)), Ok(()));
    }
}
