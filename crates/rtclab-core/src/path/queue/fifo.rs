//! What waits, in the order in which it came, and what becomes of it.

use crate::ecn::Ecn;
use crate::path::{DropCause, Mark, MarkCause, Packet};
use crate::units::{Bytes, Time};
use std::collections::VecDeque;

/// The longest packet that links commonly carry, in bytes of IP: the MTU in rules about queues that are nearly empty.
pub(super) const MTU: Bytes = Bytes(1500);

/// A packet that waits to be served, and when it entered.
pub(super) struct QueuedPacket<P> {
    pub(super) entered: Time,
    pub(super) packet: Packet<P>,
}

/// A first-in first-out queue without a limit.
pub(super) struct Fifo<P> {
    waiting: VecDeque<QueuedPacket<P>>,
    bytes: Bytes,
}

impl<P> Default for Fifo<P> {
    fn default() -> Self {
        Fifo { waiting: VecDeque::new(), bytes: Bytes::ZERO }
    }
}

impl<P> Fifo<P> {
    /// Number of packets waiting.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Bytes waiting.
    #[inline]
    pub(super) fn bytes(&self) -> Bytes {
        self.bytes
    }

    /// When the first packet entered.
    #[inline]
    pub(super) fn oldest(&self) -> Option<Time> {
        self.waiting.front().map(|first| first.entered)
    }

    /// Puts a packet at the end.
    #[inline]
    pub(super) fn push(&mut self, waiting: QueuedPacket<P>) {
        self.bytes += waiting.packet.size;
        self.waiting.push_back(waiting);
    }

    /// Removes the first packet.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<QueuedPacket<P>> {
        let first = self.waiting.pop_front()?;
        self.bytes -= first.packet.size;
        Some(first)
    }

    /// Removes all packets, in order.
    pub(super) fn drain(&mut self) -> Vec<QueuedPacket<P>> {
        self.bytes = Bytes::ZERO;
        self.waiting.drain(..).collect()
    }
}

/// A moment at which a queue is touched, and where packets go that it drops then.
pub(in crate::path) struct Moment<'a, P> {
    /// Now.
    pub(in crate::path) now: Time,
    /// Index of the path in its network.
    pub(in crate::path) path: u32,
    /// Packets dropped on the path, in order.
    pub(in crate::path) dropped: &'a mut VecDeque<(Time, DropCause, Packet<P>)>,
}

impl<P> Moment<'_, P> {
    /// Drops a packet.
    pub(super) fn drop(&mut self, cause: DropCause, packet: Packet<P>) {
        self.dropped.push_back((self.now, cause, packet));
    }

    /// Marks a packet if it is ECN-capable; returns whether it is.
    pub(super) fn mark(&self, packet: &mut Packet<P>, cause: MarkCause) -> bool {
        if packet.ecn == Ecn::NotCapable {
            return false;
        }
        packet.ecn = Ecn::CongestionExperienced;
        packet.mark.get_or_insert(Mark { path: self.path, cause });
        true
    }

    /// The packet with how long it has waited.
    #[inline]
    pub(super) fn served(
        &self,
        QueuedPacket { entered, packet }: QueuedPacket<P>,
    ) -> (Packet<P>, Time) {
        (packet, self.now.saturating_sub(entered))
    }
}
