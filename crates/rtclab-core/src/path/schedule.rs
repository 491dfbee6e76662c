//! The schedule of a plain path: when the service of each packet inside begins.
//!
//! On a [plain](PathConfig::is_plain) path nothing that enters later changes when a packet leaves. So a packet is put
//! on the wire as it enters, with the time of its exit: its service begins when it enters, or when the service before it
//! ends (D. V. Lindley, "The theory of queues with a single server", 1952). What is left to do is to count those that
//! wait, because the queue may have a limit. A path that gets another configuration recalls the packets whose service has
//! not ended. It serves them like any other path, and schedules again once nothing is in service.

use super::{DropCause, InService, OnWire, Packet, Path};
use crate::ecn::Ecn;
use crate::units::{Bytes, Time};
use std::collections::VecDeque;

/// What a path must know to recall a packet from the wire.
struct Scheduled {
    /// When its service begins.
    start: Time,
    size: Bytes,
    /// Codepoint with which it entered.
    ecn: Ecn,
    /// Arrival of the packet before it.
    last_arrival: Time,
}

/// The packets of a plain path whose service may not have ended.
#[derive(Default)]
pub(super) struct Schedule {
    /// The last packet whose service has begun.
    begun: Option<Scheduled>,
    /// Packets whose service has not begun, in order.
    waiting: VecDeque<Scheduled>,
    /// Bytes of the waiting packets.
    bytes: Bytes,
    /// End of the last service.
    free: Time,
}

impl Schedule {
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

    /// Lets all services begin that begin by `now`.
    #[inline]
    pub(super) fn advance(&mut self, now: Time) {
        while self.waiting.front().is_some_and(|next| next.start <= now) {
            self.begun = self.waiting.pop_front();
            self.bytes -= self.begun.as_ref().map_or(Bytes::ZERO, |begun| begun.size);
        }
    }

    #[inline]
    fn push(&mut self, now: Time, scheduled: Scheduled) {
        if scheduled.start <= now {
            self.begun = Some(scheduled);
        } else {
            self.bytes += scheduled.size;
            self.waiting.push_back(scheduled);
        }
    }
}

impl<P> Path<P> {
    /// Takes a packet that enters a plain path at `now`: drops it, or puts it on the wire.
    #[inline]
    pub(super) fn schedule(&mut self, now: Time, packet: Packet<P>) {
        let start = self.schedule.free.max(now);
        let (len, bytes) = (self.schedule.len() + 1, self.schedule.bytes + packet.size);
        let rate = || self.serialiser.rate_for_queue(now);
        if start > now && !self.queue.holds(len, bytes, rate) {
            return self.dropped.push_back((now, DropCause::Queue, packet));
        }
        let Packet { size, ecn, .. } = packet;
        let scheduled = Scheduled { start, size, ecn, last_arrival: self.last_arrival };
        self.schedule.push(now, scheduled);
        self.schedule.free = self.serialiser.finish_from(start, size);
        let exit = self.schedule.free.saturating_add(self.unobserved);
        self.last_arrival = self.last_arrival.max(exit);
        let packet = Packet { ecn: self.config.ecn.leaving(ecn), ..packet };
        self.put_on_wire(self.last_arrival, start - now, packet);
    }

    /// Takes the packets whose service has not ended at `now` off the wire, and puts them into service and into the queue, as
    /// on a path that is not plain.
    pub(super) fn recall(&mut self, now: Time) {
        let Schedule { begun, waiting, free, .. } = std::mem::take(&mut self.schedule);
        let end = waiting.front().map_or(free, |next| next.start);
        let mut recalled = Vec::with_capacity(waiting.len());
        for scheduled in waiting.into_iter().rev() {
            let start = scheduled.start;
            recalled
                .extend(self.take_back(scheduled).map(|(packet, queued)| (start - queued, packet)));
        }
        if let Some(begun) = begun.filter(|_| end > now) {
            self.serialiser.start(begun.start, begun.size);
            let served = self.take_back(begun);
            self.in_service = served.map(|(packet, queued)| InService {
                finish: end,
                packet,
                queued,
                lost: false,
            });
        }
        for (entered, packet) in recalled.into_iter().rev() {
            self.queue.restore(entered, packet);
        }
    }

    /// Takes the last packet off the wire; returns it as it entered, and how long it waits.
    fn take_back(&mut self, scheduled: Scheduled) -> Option<(Packet<P>, Time)> {
        let OnWire { queued, packet, .. } = self.wire.pop_back()?;
        self.count -= 1;
        self.last_arrival = scheduled.last_arrival;
        Some((Packet { ecn: scheduled.ecn, ..packet }, queued))
    }
}
