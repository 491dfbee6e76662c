//! Acknowledged rate: what arrived in the last second or so, without its longest gap.
//!
//! Source: libwebrtc, `robust_throughput_estimator.cc`.

use super::arithmetic::{MS, SECOND, rate_of};
use super::packet::PacketResult;
use std::collections::VecDeque;

/// Packets before there is a rate.
const MIN_PACKETS: usize = 10;
/// The window shrinks to this many packets if they span more than [`SPAN`].
const PACKETS: usize = 20;
/// The window holds at most this many packets.
const MAX_PACKETS: usize = 500;
/// Span of the window.
const SPAN: i64 = SECOND;
/// Span of a window of few packets.
const MAX_SPAN: i64 = 5 * SECOND;
/// A packet that arrived this much earlier than the newest clears the window.
const MAX_REORDERING: i64 = SECOND;

#[derive(Clone, Copy, Debug)]
struct Arrival {
    sent: i64,
    received: i64,
    size: i64,
}

/// The acknowledged rate, in bit/s.
#[derive(Debug)]
pub(super) struct Throughput {
    /// Sorted by arrival.
    window: VecDeque<Arrival>,
    /// Sum of the sizes in the window.
    size: i64,
    /// Latest send time among the packets that left the window.
    newest_left: i64,
}

impl Throughput {
    /// Starts without packets.
    pub(super) fn new() -> Self {
        Throughput {
            window: VecDeque::with_capacity(MAX_PACKETS + 1),
            size: 0,
            newest_left: i64::MIN,
        }
    }

    /// Adds the packets that arrived. Those of one report are sorted by arrival.
    pub(super) fn add(&mut self, packets: &[PacketResult]) {
        for packet in packets {
            let Some(received) = packet.received else { continue };
            self.insert(Arrival { sent: packet.sent, received, size: packet.size });
            if self.window.back().is_some_and(|last| last.received - received > MAX_REORDERING) {
                (self.size, self.newest_left) = (0, i64::MIN);
                self.window.clear();
            }
        }
        while self.is_too_long() {
            let Some(first) = self.window.pop_front() else { break };
            self.size -= first.size;
            self.newest_left = self.newest_left.max(first.sent);
        }
    }

    /// Inserts behind the last packet that did not arrive later.
    fn insert(&mut self, arrival: Arrival) {
        let mut index = self.window.len();
        while index > 0 && arrival.received < self.window[index - 1].received {
            index -= 1;
        }
        self.window.insert(index, arrival);
        self.size += arrival.size;
    }

    fn is_too_long(&self) -> bool {
        let (Some(first), Some(last)) = (self.window.front(), self.window.back()) else {
            return false;
        };
        let span = last.received - first.received;
        let packets = self.window.len();
        packets > MAX_PACKETS || span > MAX_SPAN || packets > PACKETS && span > SPAN
    }

    /// The rate; `None` before the tenth packet.
    pub(super) fn rate(&self) -> Option<i64> {
        if self.window.len() < MIN_PACKETS {
            return None;
        }
        let (first, last) = (self.window.front()?, self.window.back()?);
        let (mut gap, mut second_gap, mut before) = (0, 0, first.received);
        let mut sent = Sent::default();
        for packet in &self.window {
            let current = packet.received - before;
            before = packet.received;
            second_gap = second_gap.max(current.min(gap));
            gap = gap.max(current);
            if packet.sent >= self.newest_left {
                sent.add(packet);
            }
        }
        let span = last.received - first.received - gap + second_gap;
        let received = rate_of(self.size - first.size, span.max(MS));
        Some(if sent.packets < MIN_PACKETS { received } else { received.min(sent.rate()) })
    }
}

/// Packets in the window that were sent after all that left it.
struct Sent {
    packets: usize,
    size: i64,
    first: i64,
    last: i64,
    last_size: i64,
}

impl Default for Sent {
    fn default() -> Self {
        Sent { packets: 0, size: 0, first: i64::MAX, last: i64::MIN, last_size: 0 }
    }
}

impl Sent {
    fn add(&mut self, packet: &Arrival) {
        self.packets += 1;
        self.size += packet.size;
        self.first = self.first.min(packet.sent);
        if packet.sent > self.last {
            self.last = packet.sent;
            self.last_size = packet.size;
        }
    }

    fn rate(&self) -> i64 {
        rate_of(self.size - self.last_size, (self.last - self.first).max(MS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet(seq: i64, sent: i64, received: i64) -> PacketResult {
        PacketResult { seq, sent, received: Some(received), size: 1_000, probe: None }
    }

    /// Packets of 1000 bytes, sent and received this many microseconds apart.
    fn fed(packets: i64, send_gap: i64, gap: i64) -> Throughput {
        let mut throughput = Throughput::new();
        for i in 0..packets {
            throughput.add(&[packet(i, i * send_gap, 50 * MS + i * gap)]);
        }
        throughput
    }

    #[test]
    fn the_tenth_packet_gives_the_first_rate() {
        assert_eq!(fed(9, 10 * MS, 10 * MS).rate(), None);
        assert_eq!(fed(10, 10 * MS, 10 * MS).rate(), Some(800_000));
    }

    #[test]
    fn the_slower_of_sending_and_receiving_counts() {
        assert_eq!(fed(100, 10 * MS, 40 * MS).rate(), Some(200_000));
        assert_eq!(fed(100, 40 * MS, 10 * MS).rate(), Some(200_000));
        // Every second packet is lost.
        assert_eq!(fed(100, 20 * MS, 20 * MS).rate(), Some(400_000));
    }

    #[test]
    fn the_longest_gap_counts_as_the_second_longest() {
        let mut throughput = fed(20, 10 * MS, 10 * MS);
        let at = 50 * MS + 19 * 10 * MS;
        for i in 20..40 {
            throughput.add(&[packet(i, i * 10 * MS, at + 300 * MS + (i - 19) * 10 * MS)]);
        }
        assert_eq!(throughput.rate(), Some(800_000));
    }

    #[test]
    fn a_packet_more_than_a_second_older_than_the_newest_clears_the_window() {
        let mut throughput = fed(30, 10 * MS, 10 * MS);
        let newest = 50 * MS + 29 * 10 * MS;
        throughput.add(&[packet(30, 0, newest - SECOND)]);
        assert_eq!(throughput.window.len(), 31);
        throughput.add(&[packet(31, 0, newest - SECOND - 1)]);
        assert!(throughput.window.is_empty());
    }

    proptest! {
        /// The running sum and the order hold for every order of arrivals.
        #[test]
        fn the_window_is_sorted_and_its_size_is_the_sum(
            packets in proptest::collection::vec((0i64..8_000, 0i64..1_500), 0..300)
        ) {
            let mut throughput = Throughput::new();
            for (seq, (received, size)) in packets.into_iter().enumerate() {
                let size = PacketResult { size, ..packet(seq as i64, received * MS / 2, received * MS) };
                throughput.add(&[size]);
                let window = &throughput.window;
                prop_assert_eq!(throughput.size, window.iter().map(|packet| packet.size).sum::<i64>());
                prop_assert!(window.iter().is_sorted_by_key(|packet| packet.received));
                prop_assert!(window.len() <= MAX_PACKETS);
                prop_assert!(throughput.rate().is_none_or(|rate| rate >= 0));
            }
        }
    }
}
