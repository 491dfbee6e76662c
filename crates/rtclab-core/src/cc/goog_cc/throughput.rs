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
struct AckedPacket {
    sent: i64,
    received: i64,
    size: i64,
}

/// The acknowledged rate, in bit/s.
///
/// Sums, gaps and the order of sending are kept up to date with each packet, so that a rate seldom needs a look
/// at the whole window.
#[derive(Debug)]
pub(super) struct Throughput {
    /// Sorted by arrival.
    window: VecDeque<AckedPacket>,
    /// Sum of the sizes in the window.
    size: i64,
    /// Packets that were sent before their predecessor in the window.
    reordered: usize,
    /// Longest and second longest time between arrivals, if known.
    gaps: Option<(i64, i64)>,
    /// Latest send time among the packets that left the window.
    newest_left: i64,
}

impl Throughput {
    /// Starts without packets.
    pub(super) fn new() -> Self {
        Throughput {
            window: VecDeque::new(),
            size: 0,
            reordered: 0,
            gaps: Some((0, 0)),
            newest_left: i64::MIN,
        }
    }

    /// Adds the packets that arrived. Those of one report are sorted by arrival.
    pub(super) fn add(&mut self, packets: &[PacketResult]) {
        for packet in packets {
            let Some(received) = packet.received else { continue };
            self.insert(AckedPacket { sent: packet.sent, received, size: packet.size });
            if self.window.back().is_some_and(|last| last.received - received > MAX_REORDERING) {
                self.clear();
            }
        }
        while self.is_too_long() {
            self.drop_first();
        }
    }

    fn clear(&mut self) {
        self.window.clear();
        (self.size, self.reordered) = (0, 0);
        (self.gaps, self.newest_left) = (Some((0, 0)), i64::MIN);
    }

    /// Inserts behind the last packet that did not arrive later.
    fn insert(&mut self, arrival: AckedPacket) {
        self.size += arrival.size;
        let Some(last) = self.window.back() else { return self.window.push_back(arrival) };
        if arrival.received >= last.received {
            let gap = arrival.received - last.received;
            self.gaps = self.gaps.map(|gaps| with_gap(gaps, gap));
            self.reordered += usize::from(arrival.sent < last.sent);
            return self.window.push_back(arrival);
        }
        let mut index = self.window.len();
        while index > 0 && arrival.received < self.window[index - 1].received {
            index -= 1;
        }
        self.window.insert(index, arrival);
        self.gaps = None;
        let pairs = self.window.iter().zip(self.window.iter().skip(1));
        self.reordered = pairs.filter(|(before, after)| after.sent < before.sent).count();
    }

    fn drop_first(&mut self) {
        let Some(first) = self.window.pop_front() else { return };
        self.size -= first.size;
        self.newest_left = self.newest_left.max(first.sent);
        if let Some(next) = self.window.front() {
            self.reordered -= usize::from(next.sent < first.sent);
            let gap = next.received - first.received;
            self.gaps = self.gaps.filter(|(_, second)| gap < *second);
        }
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
    pub(super) fn rate(&mut self) -> Option<i64> {
        if self.window.len() < MIN_PACKETS {
            return None;
        }
        let (longest, second) = *self.gaps.get_or_insert_with(|| longest_gaps(&self.window));
        let (first, last) = (self.window.front()?, self.window.back()?);
        let span = last.received - first.received - longest + second;
        let received = rate_of(self.size - first.size, span.max(MS));
        Some(self.sent_rate(first, last).map_or(received, |sent| received.min(sent)))
    }

    /// Rate at which the packets were sent that left after all that are no longer in the window; `None` if they
    /// are too few.
    fn sent_rate(&self, first: &AckedPacket, last: &AckedPacket) -> Option<i64> {
        if self.reordered == 0 && first.sent >= self.newest_left {
            // Of packets sent at the same time the first counts as the last one.
            let same = self.window.iter().rev().take_while(|packet| packet.sent == last.sent);
            let last_size = same.last().map_or(0, |packet| packet.size);
            return Some(rate_of(self.size - last_size, (last.sent - first.sent).max(MS)));
        }
        let mut sent = PacketSums::default();
        self.window
            .iter()
            .filter(|packet| packet.sent >= self.newest_left)
            .for_each(|p| sent.add(p));
        (sent.packets >= MIN_PACKETS).then(|| sent.rate())
    }
}

/// Longest and second longest of two gaps and another one.
fn with_gap((longest, second): (i64, i64), gap: i64) -> (i64, i64) {
    (longest.max(gap), second.max(gap.min(longest)))
}

fn longest_gaps(window: &VecDeque<AckedPacket>) -> (i64, i64) {
    let mut before = window.front().map_or(0, |first| first.received);
    let (mut longest, mut second) = (0, 0);
    let (front, back) = window.as_slices();
    for half in [front, back] {
        for arrival in half {
            (longest, second) = with_gap((longest, second), arrival.received - before);
            before = arrival.received;
        }
    }
    (longest, second)
}

/// Sums over packets in any order.
struct PacketSums {
    packets: usize,
    size: i64,
    first: i64,
    last: i64,
    last_size: i64,
}

impl Default for PacketSums {
    fn default() -> Self {
        PacketSums { packets: 0, size: 0, first: i64::MAX, last: i64::MIN, last_size: 0 }
    }
}

impl PacketSums {
    fn add(&mut self, packet: &AckedPacket) {
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

    /// The rate by its definition, from the whole window.
    fn by_definition(throughput: &Throughput) -> Option<i64> {
        let window = &throughput.window;
        if window.len() < MIN_PACKETS {
            return None;
        }
        let mut gaps: Vec<i64> = window
            .iter()
            .zip(window.iter().skip(1))
            .map(|(before, after)| after.received - before.received)
            .collect();
        gaps.sort_unstable_by_key(|gap| -gap);
        let size: i64 = window.iter().map(|packet| packet.size).sum();
        let span = window[window.len() - 1].received - window[0].received - gaps[0] + gaps[1];
        let received = rate_of(size - window[0].size, span.max(MS));
        let mut sent = PacketSums::default();
        for packet in window.iter().filter(|packet| packet.sent >= throughput.newest_left) {
            sent.add(packet);
        }
        Some(if sent.packets < MIN_PACKETS { received } else { received.min(sent.rate()) })
    }

    proptest! {
        /// The sums that are updated with each packet equal the sums over the whole window, in whatever order packets
        /// were sent and arrived.
        #[test]
        fn the_rate_is_that_of_the_whole_window(
            packets in proptest::collection::vec((0i64..60, -30i64..400, 0i64..80, 0i64..1_500), 0..400)
        ) {
            let mut throughput = Throughput::new();
            let mut at = 0;
            for (seq, (step, late, back, size)) in packets.into_iter().enumerate() {
                at += step;
                // Most packets are in order; some arrive before their predecessors, or were sent before them.
                let received = (at - late.min(0) * 50) * MS;
                let sent = (at - if back > 70 { back } else { 0 }) * MS;
                let one = PacketResult { size, ..packet(seq as i64, sent, received) };
                throughput.add(&[one]);
                let window = &throughput.window;
                prop_assert_eq!(throughput.size, window.iter().map(|packet| packet.size).sum::<i64>());
                prop_assert!(window.iter().is_sorted_by_key(|packet| packet.received));
                prop_assert!(window.len() <= MAX_PACKETS);
                let expected = by_definition(&throughput);
                prop_assert_eq!(throughput.rate(), expected);
            }
        }
    }
}
