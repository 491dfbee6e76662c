//! Hands packets over to the network as soon as their exit is foreseen; see [`network`](crate::network).

use super::{Capacity, LossPosition, OnWire, Path, PathConfig, QueueLimit};
use crate::units::{Bitrate, Bytes, Time};

/// What a queue is certain to hold at any time, whatever the rate of the link is then. It is zero for a path that may
/// drop a packet for another reason when it enters, or let it pass at once.
#[derive(Clone, Copy)]
pub(super) struct Room {
    packets: u64,
    bytes: Bytes,
}

impl PathConfig {
    pub(super) fn room(&self) -> Room {
        const UNLIMITED: Room = Room { packets: u64::MAX, bytes: Bytes(u64::MAX) };
        let loses = self.loss.is_some() || !self.loss_steps.is_empty() || self.loss_trace.is_some();
        let loses_before_queue = loses && self.loss_position == LossPosition::Queue;
        let constant = matches!(self.capacity, Some(Capacity::Constant { .. }));
        let takes_time = constant || self.unobserved() > Time::ZERO;
        let measures = self.wifi.is_some() || self.tick_ns.is_some();
        if !takes_time || loses_before_queue || measures || self.aqm.is_some() {
            return Room { packets: 0, bytes: Bytes::ZERO };
        }
        match self.queue {
            None => UNLIMITED,
            Some(QueueLimit::Packets(packets)) => Room { packets, ..UNLIMITED },
            Some(QueueLimit::Bytes(bytes)) => Room { bytes, ..UNLIMITED },
            Some(QueueLimit::Time(limit)) => {
                let least = self.capacity.as_ref().map_or(Bitrate::ZERO, Capacity::least_rate);
                Room { bytes: least.bytes_in(limit), ..UNLIMITED }
            }
        }
    }
}

impl<P> Path<P> {
    /// Offers packets to the network from now on, as soon as their exit is foreseen.
    pub(crate) fn offer_exits(&mut self) {
        self.offers = true;
    }

    /// The next packet that is offered. The network keeps it, or returns it with [`Path::keep`].
    #[inline]
    pub(crate) fn offered(&mut self) -> Option<OnWire<P>> {
        self.offered.pop_front()
    }

    /// Whether the next packet on the wire exits by `now` and has a number above `last`.
    pub(crate) fn exits_after(&self, now: Time, last: u64) -> bool {
        self.wire.front().is_some_and(|next| next.at <= now && next.number > last)
    }

    /// Takes the packets off the wire that exit before `until` and are wanted.
    pub(crate) fn take_exits(
        &mut self,
        until: Time,
        is_wanted: impl Fn(&P) -> bool,
        mut take: impl FnMut(OnWire<P>),
    ) {
        let mut index = 0;
        while let Some(next) = self.wire.get(index).filter(|next| next.at < until) {
            match is_wanted(&next.packet.payload) {
                true => self.wire.remove(index).into_iter().for_each(&mut take),
                false => index += 1,
            }
        }
    }

    /// Puts a packet that was offered on the wire.
    pub(crate) fn keep(&mut self, packet: OnWire<P>) {
        self.wire.push_back(packet);
    }

    /// Puts a packet back on the wire that the network took when it was offered.
    pub(crate) fn put_back(&mut self, packet: OnWire<P>) {
        let index = self
            .wire
            .partition_point(|other| (other.at, other.number) < (packet.at, packet.number));
        self.wire.insert(index, packet);
    }

    /// Whether this many packets more, of `bytes` in total and none of them empty, have room whenever they enter, if no
    /// others enter: none is dropped then, and each exits later.
    #[inline]
    pub(crate) fn has_room(&self, packets: usize, bytes: Bytes) -> bool {
        let waiting = self.queue.len() + self.schedule.len();
        (waiting + packets) as u64 <= self.room.packets && self.queued() + bytes <= self.room.bytes
    }

    /// Lower bound of when a packet exits or is dropped later, if it enters at `at` and is not dropped at once.
    pub(crate) fn earliest_exit(&self, at: Time, size: Bytes) -> Time {
        let service = match &self.config.capacity {
            Some(Capacity::Constant { bps }) => bps.time_for(size).unwrap_or(Time::MAX),
            _ => Time::ZERO,
        };
        at.saturating_add(service).saturating_add(self.unobserved)
    }

    /// `true` if there is a packet on the wire, every packet that enters from now on exits after it, and none is lost on
    /// the wire. An ingress then needs no timeout of its own.
    #[inline]
    pub(crate) fn exits_in_order(&self) -> bool {
        self.plain_delay.is_some() && !self.wire.is_empty()
    }
}
