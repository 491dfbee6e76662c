//! What goes through a path, and how it comes out.

use crate::ecn::Ecn;
use crate::units::{Bytes, Time};
use serde::{Deserialize, Serialize};

/// A packet as the network sees it: what a queue may look at, and a value that belongs to the caller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Packet<P> {
    /// IP total length.
    pub size: Bytes,
    /// ECN codepoint.
    pub ecn: Ecn,
    /// Number of its flow. The caller says which packets are a flow: those that a queue should treat alike.
    pub flow: u32,
    /// The first mark that a queue gave it.
    pub mark: Option<Mark>,
    /// The caller's value: an id in the simulator, a frame in the emulator.
    pub payload: P,
}

impl<P> Packet<P> {
    /// A packet of flow 0 that is not ECN-capable.
    pub const fn new(size: Bytes, payload: P) -> Self {
        Packet { size, ecn: Ecn::NotCapable, flow: 0, mark: None, payload }
    }

    /// The same packet with another value.
    pub(crate) fn map<Q>(self, value: impl FnOnce(P) -> Q) -> Packet<Q> {
        let Packet { size, ecn, flow, mark, payload } = self;
        Packet { size, ecn, flow, mark, payload: value(payload) }
    }
}

/// Congestion experienced: where a packet was marked, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Index of the path in its network.
    pub path: u32,
    /// Why its queue marked it.
    pub cause: MarkCause,
}

/// Why a packet was marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MarkCause {
    /// In place of a drop, as classic congestion controls expect it (RFC 3168).
    Classic,
    /// It had waited longer than a threshold, as scalable congestion controls expect it (RFC 9331).
    Threshold,
    /// Coupled to the drops of classic traffic on the same link (RFC 9332).
    Coupled,
}

impl MarkCause {
    /// All causes in the order of their codes in a trace.
    pub const ALL: [MarkCause; 3] = [MarkCause::Classic, MarkCause::Threshold, MarkCause::Coupled];

    /// Name used in traces.
    pub const fn name(self) -> &'static str {
        match self {
            MarkCause::Classic => "classic",
            MarkCause::Threshold => "threshold",
            MarkCause::Coupled => "coupled",
        }
    }
}

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DropCause {
    /// The queue was full.
    Queue,
    /// Random or recorded loss, or all attempts of a Wi-Fi hop failed.
    Loss,
    /// The queue has signalled congestion.
    Aqm,
}

impl DropCause {
    /// All causes in the order of their codes in a trace.
    pub const ALL: [DropCause; 3] = [DropCause::Queue, DropCause::Loss, DropCause::Aqm];

    /// Name used in traces.
    pub const fn name(self) -> &'static str {
        match self {
            DropCause::Queue => "queue",
            DropCause::Loss => "loss",
            DropCause::Aqm => "aqm",
        }
    }
}

/// A packet that leaves a path, with its logical time.
#[derive(Clone, Debug, PartialEq)]
pub enum Departure<P> {
    /// The last bit arrived at the far end.
    Delivered {
        /// Time of arrival.
        at: Time,
        /// How long it waited in the queue: from its entry until its service began.
        queued: Time,
        /// The packet that arrived.
        packet: Packet<P>,
    },
    /// The packet was dropped.
    Dropped {
        /// Time of the drop.
        at: Time,
        /// Cause of the drop.
        cause: DropCause,
        /// The packet that was dropped.
        packet: Packet<P>,
    },
}
