//! The queue before the serialiser.

use super::Packet;
use crate::limits::{self, Checked};
use crate::units::{Bitrate, Bytes, Time};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Limit of the queue before the serialiser. A packet that would exceed it is dropped (drop-tail).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "limit", rename_all = "lowercase")]
pub enum QueueLimit {
    /// At most this many packets.
    Packets(u64),
    /// At most this many bytes.
    Bytes(Bytes),
    /// At most the number of bytes that the capacity at the time of arrival serves in this time (RFC
    /// 8868, section 4: bytes = seconds * bit/s / 8).
    Time(Time),
}

impl QueueLimit {
    pub(super) fn check(self) -> Checked {
        match self {
            QueueLimit::Packets(_) => Ok(()),
            QueueLimit::Bytes(limit) => limits::size("limit", limit),
            QueueLimit::Time(limit) => limits::time("limit", limit),
        }
    }
}

/// A packet that waits to be served, and when it entered.
struct Waiting<P> {
    entered: Time,
    packet: Packet<P>,
}

/// A first-in first-out queue that drops a packet that does not fit when it arrives.
pub(super) struct DropTail<P> {
    limit: Option<QueueLimit>,
    waiting: VecDeque<Waiting<P>>,
    bytes: Bytes,
}

impl<P> DropTail<P> {
    /// An empty queue; without a limit it takes everything.
    pub(super) fn new(limit: Option<QueueLimit>) -> Self {
        DropTail { limit, waiting: VecDeque::new(), bytes: Bytes::ZERO }
    }

    /// Replaces the limit. Packets in the queue stay there.
    pub(super) fn set_limit(&mut self, limit: Option<QueueLimit>) {
        self.limit = limit;
    }

    /// Number of packets waiting.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Bytes waiting.
    pub(super) fn bytes(&self) -> Bytes {
        self.bytes
    }

    /// Puts a packet at the end at `now`. `rate` converts a limit in time to bytes.
    ///
    /// # Errors
    /// The packet does not fit.
    #[inline]
    pub(super) fn enqueue(
        &mut self,
        now: Time,
        packet: Packet<P>,
        rate: impl FnOnce() -> Bitrate,
    ) -> Result<(), Packet<P>> {
        let bytes = self.bytes + packet.size;
        let fits = match self.limit {
            None => true,
            Some(QueueLimit::Packets(limit)) => (self.len() as u64) < limit,
            Some(QueueLimit::Bytes(limit)) => bytes <= limit,
            Some(QueueLimit::Time(limit)) => bytes <= rate().bytes_in(limit),
        };
        if !fits {
            return Err(packet);
        }
        self.bytes = bytes;
        self.waiting.push_back(Waiting { entered: now, packet });
        Ok(())
    }

    /// Removes the packet that is served next, at `now`. Returns with it how long it has waited.
    #[inline]
    pub(super) fn dequeue(&mut self, now: Time) -> Option<(Packet<P>, Time)> {
        let Waiting { entered, packet } = self.waiting.pop_front()?;
        self.bytes -= packet.size;
        Some((packet, now.saturating_sub(entered)))
    }
}
