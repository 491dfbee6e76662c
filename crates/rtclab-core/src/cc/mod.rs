//! Congestion control: the two halves, and the table of what there is.
//!
//! A sender half ([`Controller`]) turns feedback into a [`Decision`]; a receiver half
//! ([`Estimator`]) turns arrivals into a REMB. An algorithm is a name in [`create`] and one file.
//!
//! Neither is `Send` (the crate `goog_cc` is not): a run is made and finished on one thread.

mod fixed;
mod goog_cc;

use crate::units::{Bitrate, Bytes, RemoteTime, Time};
pub use fixed::Fixed;
pub use goog_cc::GoogCc;
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

/// What the sender shall do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// Rate of everything sent, headers included.
    pub target: Bitrate,
    /// Rate at which the pacer may empty its queue.
    pub pacing_rate: Bitrate,
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

/// Receiver half, for receive-side algorithms: from arrivals to REMB.
pub trait Estimator {
    /// A media packet arrived.
    fn on_packet(&mut self, now: Time, size: Bytes, ssrc: u32, rtp_timestamp: u32);
    /// The time given by [`Estimator::poll_timeout`] has come.
    fn on_timeout(&mut self, _now: Time) {}
    /// When to call [`Estimator::on_timeout`].
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
    /// A REMB to send now.
    fn poll_remb(&mut self) -> Option<Bitrate>;
    /// Internal values for the trace, named with their unit.
    fn observe(&self, _out: &mut dyn FnMut(&'static str, f64)) {}
}

/// Bounds of the rate, from the encoder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateBounds {
    /// Rate before any feedback.
    pub start: Bitrate,
    /// Never below.
    pub min: Bitrate,
    /// What the encoders can use at most; probing does not look beyond twice this.
    pub max: Bitrate,
}

/// Both halves of an algorithm; a send-side algorithm has no estimator.
pub type Halves = (Box<dyn Controller>, Option<Box<dyn Estimator>>);

/// No algorithm of that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownAlgorithm(pub String);

impl fmt::Display for UnknownAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "congestion_control.name: unknown `{}`; expected one of {}",
            self.0,
            NAMES.join(", ")
        )
    }
}
impl std::error::Error for UnknownAlgorithm {}

/// The algorithms that [`create`] knows.
pub const NAMES: [&str; 2] = ["goog-cc", "fixed"];

/// Makes a congestion control by its name.
///
/// # Errors
/// The name is not in [`NAMES`].
pub fn create(name: &str, bounds: RateBounds) -> Result<Halves, UnknownAlgorithm> {
    match name {
        "goog-cc" => Ok((Box::new(GoogCc::new(bounds)), None)),
        "fixed" => Ok((Box::new(Fixed::new(bounds.max)), None)),
        _ => Err(UnknownAlgorithm(name.to_owned())),
    }
}
