//! Finds each packet of a stream again at the second point.
//!
//! A packet is identified by stream, sequence number and timestamp, which works across wraps, loss,
//! reordering and captures that begin at different times. Duplicates and retransmissions under the
//! original number look identical; each is matched with the latest candidate that came before it.
//!
//! Memory is bounded, however long the captures are and however little they overlap. A packet waits for
//! its counterpart for at most [`TIMEOUT_NS`]. After that it is remembered only if delays measured later
//! can still change how it is counted.

use super::points::Side;
use super::samples::Samples;
use crate::ecn::Ecn;
use crate::monitor::stream::sketch::PacketName;
use crate::monitor::watcher::Identified;
use std::collections::{HashMap, VecDeque};

/// A packet without a counterpart within 30 s is unmatched. Queues of 10 s exist.
const TIMEOUT_NS: i64 = 30_000_000_000;
/// Maximum number of waiting packets, about 200 bytes each: 30 s at 33,000 unmatched packets per second.
/// Above it, the oldest are counted as unmatched early.
const MAX_WAITING: usize = 1_000_000;
/// Maximum number of identical packets that wait. Further ones are not counted.
const MAX_ALIKE: usize = 16;
/// Maximum number of unsettled packets, 16 bytes each: a minute at 16,000 packets per second. Further packets
/// are counted by the delays measured so far.
const MAX_UNSETTLED: usize = 1_000_000;
/// How far a delay may lie below the smallest one so far when choosing among identical packets.
const TOLERANCE_NS: i64 = 1_000_000;

/// Outcome of a packet: matched, or seen at one point only.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fate {
    pub(super) pair: u32,
    pub(super) packet: Identified,
    /// Time at the first point, on its clock.
    pub(super) first_ns: Option<i64>,
    /// Time at the second point, on its clock.
    pub(super) second_ns: Option<i64>,
    /// ECN codepoint at the first point.
    pub(super) first_ecn: Option<Ecn>,
    /// ECN codepoint at the second point.
    pub(super) second_ecn: Option<Ecn>,
}

/// What is known about a pair of streams before its packets are matched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    /// True if B is the first point.
    pub(super) reverse: bool,
    /// Rough estimate of the clock of the second point minus the clock of the first.
    pub(super) clock_ns: i64,
    /// Times of the first and last frame at the first point.
    pub(super) first_span: (i64, i64),
    /// Times of the first and last frame at the second point.
    pub(super) second_span: (i64, i64),
}

/// Counts of one pair of streams.
pub(super) struct PairCounts {
    way: Way,
    pub(super) matched: u64,
    /// Packets seen at the first point only, while the second point was being captured.
    pub(super) lost: u64,
    /// Packets seen at the second point only, while the first point was being captured.
    pub(super) added: u64,
    /// Packets seen at one point while the other was not being captured.
    pub(super) outside: u64,
    /// Unmatched packets whose classification depends on delays measured later: whether the packet was seen
    /// at the second point, and its time at the point that saw it.
    unsettled: Vec<(bool, i64)>,
    pub(super) delays: Samples,
    /// Earliest time at the first point of a matched packet.
    matched_from_ns: Option<i64>,
    matched_to_ns: i64,
    least_delay_ns: i64,
    most_delay_ns: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct PacketKey {
    pair: u32,
    name: PacketName,
}

#[derive(Clone, Copy)]
struct UnmatchedPacket {
    /// Time on the common clock.
    since_ns: i64,
    side: Side,
    packet: Identified,
}

/// Packets seen at one point so far, and the counts of all pairs.
#[derive(Default)]
pub(super) struct Matcher {
    waiting: HashMap<PacketKey, Vec<UnmatchedPacket>>,
    waiting_packets: usize,
    /// Waiting packets of A and of B in reading order, with their time on the common clock. Entries of
    /// matched packets stay until the next sweep.
    order: [VecDeque<(i64, PacketKey)>; 2],
    unsettled_packets: usize,
    pub(super) pairs: Vec<PairCounts>,
    /// Packets given up early because [`MAX_WAITING`] or [`MAX_ALIKE`] was reached.
    pub(super) given_up: u64,
    /// Packets counted before all delays were known because [`MAX_UNSETTLED`] was reached.
    pub(super) settled_early: u64,
}

impl Matcher {
    pub(super) fn new(ways: impl Iterator<Item = Way>) -> Self {
        Matcher { pairs: ways.map(PairCounts::new).collect(), ..Matcher::default() }
    }

    /// Takes a packet of a pair. `common_ns` is its time on a clock that both points roughly share. Returns
    /// its outcome if its counterpart was waiting.
    pub(super) fn receive(
        &mut self,
        (pair, side): (u32, Side),
        common_ns: i64,
        packet: &Identified,
    ) -> Option<Fate> {
        let name = PacketName { seq: packet.header.seq, timestamp: packet.header.timestamp };
        let key = PacketKey { pair, name };
        let arrived = UnmatchedPacket { since_ns: common_ns, side, packet: *packet };
        let alike = self.waiting.entry(key).or_insert_with(|| Vec::with_capacity(1));
        let counts = &mut self.pairs[pair as usize];
        if let Some(index) = counterpart(alike, &arrived, counts) {
            let other = alike.swap_remove(index).packet;
            if alike.is_empty() {
                self.waiting.remove(&key);
            }
            self.waiting_packets -= 1;
            let (first, second) =
                if counts.is_second(side) { (other, *packet) } else { (*packet, other) };
            counts.matched(first.at_ns, second.at_ns);
            return Some(Fate {
                pair,
                packet: *packet,
                first_ns: Some(first.at_ns),
                second_ns: Some(second.at_ns),
                first_ecn: Some(first.ecn),
                second_ecn: Some(second.ecn),
            });
        }
        if alike.len() < MAX_ALIKE {
            alike.push(arrived);
            self.waiting_packets += 1;
            self.order[side as usize].push_back((common_ns, key));
            self.sweep();
        } else {
            self.given_up += 1;
        }
        None
    }

    /// Gives up packets that have waited for [`TIMEOUT_NS`], now that both captures have been read up to
    /// `read_ns` on the common clock.
    pub(super) fn expire(&mut self, read_ns: i64, fates: &mut dyn FnMut(Fate)) {
        for side in [Side::A, Side::B] {
            while let Some((since_ns, key)) = self.order[side as usize].front().copied() {
                if read_ns.saturating_sub(since_ns) < TIMEOUT_NS {
                    break;
                }
                self.order[side as usize].pop_front();
                self.give_up(side, since_ns, key, fates);
            }
        }
        while self.waiting_packets > MAX_WAITING {
            let gone = self.give_up_oldest(fates);
            self.given_up += u64::from(gone);
        }
    }

    /// Ends the matching: gives up all waiting packets and settles the counts.
    pub(super) fn finish(&mut self, fates: &mut dyn FnMut(Fate)) {
        while self.waiting_packets > 0 {
            self.give_up_oldest(fates);
        }
        self.pairs.iter_mut().for_each(PairCounts::settle);
    }

    /// Gives up the oldest entry. Returns false if its packet had been matched.
    fn give_up_oldest(&mut self, fates: &mut dyn FnMut(Fate)) -> bool {
        let since = |side: Side| self.order[side as usize].front().map_or(i64::MAX, |(at, _)| *at);
        let side = if since(Side::A) <= since(Side::B) { Side::A } else { Side::B };
        let Some((since_ns, key)) = self.order[side as usize].pop_front() else { return false };
        self.give_up(side, since_ns, key, fates)
    }

    /// Gives up a packet. Returns false if it had been matched.
    fn give_up(
        &mut self,
        side: Side,
        since_ns: i64,
        key: PacketKey,
        fates: &mut dyn FnMut(Fate),
    ) -> bool {
        let Some(alike) = self.waiting.get_mut(&key) else { return false };
        let same = |waiting: &UnmatchedPacket| waiting.side == side && waiting.since_ns == since_ns;
        let Some(index) = alike.iter().position(same) else { return false };
        let packet = alike.remove(index).packet;
        if alike.is_empty() {
            self.waiting.remove(&key);
        }
        self.waiting_packets -= 1;
        let counts = &mut self.pairs[key.pair as usize];
        let second = counts.is_second(side);
        let may_change = counts.may_change(second, packet.at_ns);
        if may_change && self.unsettled_packets < MAX_UNSETTLED {
            self.unsettled_packets += 1;
            counts.unsettled.push((second, packet.at_ns));
        } else {
            self.settled_early += u64::from(may_change);
            counts.unmatched(second, packet.at_ns);
        }
        let (at_ns, ecn) = (Some(packet.at_ns), Some(packet.ecn));
        let (first_ns, second_ns) = if second { (None, at_ns) } else { (at_ns, None) };
        let (first_ecn, second_ecn) = if second { (None, ecn) } else { (ecn, None) };
        fates(Fate { pair: key.pair, packet, first_ns, second_ns, first_ecn, second_ecn });
        true
    }

    /// Removes the entries of matched packets once they outnumber the waiting packets.
    fn sweep(&mut self) {
        const FEW: usize = 1024;
        let places = self.order[0].len() + self.order[1].len();
        if places < FEW + 2 * self.waiting_packets {
            return;
        }
        let waiting = &self.waiting;
        for (side, order) in [Side::A, Side::B].into_iter().zip(&mut self.order) {
            order.retain(|(since_ns, key)| {
                let alike = waiting.get(key).map_or(&[][..], Vec::as_slice);
                alike.iter().any(|w| w.side == side && w.since_ns == *since_ns)
            });
        }
    }
}

/// Returns the index of the waiting packet that is the counterpart of the one that arrived.
fn counterpart(
    alike: &[UnmatchedPacket],
    arrived: &UnmatchedPacket,
    pair: &PairCounts,
) -> Option<usize> {
    let is_other = |index: &usize| {
        let waiting = &alike[*index];
        let apart_ns = waiting.since_ns.abs_diff(arrived.since_ns);
        waiting.side != arrived.side && apart_ns < TIMEOUT_NS as u64
    };
    let mut others = (0..alike.len()).filter(is_other);
    let only = others.next()?;
    let rest: Vec<usize> = others.collect();
    if rest.is_empty() {
        return Some(only);
    }
    let (second, at_ns) = (pair.is_second(arrived.side), arrived.packet.at_ns);
    let plausible = |index: &usize| {
        let other_ns = alike[*index].packet.at_ns;
        let delay_ns = if second { at_ns - other_ns } else { other_ns - at_ns };
        pair.matched > 0 && delay_ns >= pair.least_delay_ns - TOLERANCE_NS
    };
    // The shortest plausible delay: the latest packet at the first point, or the earliest at the second.
    let all = std::iter::once(only).chain(rest);
    let key = |index: &usize| {
        let other_ns = alike[*index].packet.at_ns;
        if second { -other_ns } else { other_ns }
    };
    all.filter(plausible).min_by_key(key).or(Some(only))
}

/// Whether a packet would have passed the other point while that was being captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passed {
    Yes,
    No,
    /// Depends on the delay.
    Perhaps,
}

impl PairCounts {
    fn new(way: Way) -> Self {
        PairCounts {
            way,
            matched: 0,
            lost: 0,
            added: 0,
            outside: 0,
            unsettled: Vec::new(),
            delays: Samples::default(),
            matched_from_ns: None,
            matched_to_ns: 0,
            // Until the first match, the difference between the clocks stands in for the delay.
            least_delay_ns: way.clock_ns,
            most_delay_ns: way.clock_ns,
        }
    }

    fn is_second(&self, side: Side) -> bool {
        (side == Side::B) != self.way.reverse
    }

    fn matched(&mut self, first_ns: i64, second_ns: i64) {
        let delay_ns = second_ns - first_ns;
        if self.matched == 0 {
            (self.least_delay_ns, self.most_delay_ns) = (delay_ns, delay_ns);
            self.matched_to_ns = first_ns;
        }
        self.matched += 1;
        self.least_delay_ns = self.least_delay_ns.min(delay_ns);
        self.most_delay_ns = self.most_delay_ns.max(delay_ns);
        self.matched_from_ns =
            Some(self.matched_from_ns.map_or(first_ns, |from| from.min(first_ns)));
        self.matched_to_ns = self.matched_to_ns.max(first_ns);
        self.delays.push(first_ns, delay_ns);
    }

    /// Whether delays measured later can change how an unmatched packet is counted. A measured delay differs
    /// from the difference between the clocks by less than [`TIMEOUT_NS`].
    fn may_change(&self, second: bool, at_ns: i64) -> bool {
        let clock_ns = self.way.clock_ns;
        let delays = (clock_ns.saturating_sub(TIMEOUT_NS), clock_ns.saturating_add(TIMEOUT_NS));
        !self.is_among_matched(second, at_ns)
            && self.passed_other_point(second, at_ns, delays) == Passed::Perhaps
    }

    /// Counts an unmatched packet by the delays so far. It is lost or added if it lies between matched
    /// packets, or if it would have passed the other point while that was being captured. Otherwise it is
    /// outside.
    fn unmatched(&mut self, second: bool, at_ns: i64) {
        let delays = (self.least_delay_ns, self.most_delay_ns);
        let passed = self.passed_other_point(second, at_ns, delays) == Passed::Yes;
        if !(passed || self.is_among_matched(second, at_ns)) {
            self.outside += 1;
        } else if second {
            self.added += 1;
        } else {
            self.lost += 1;
        }
    }

    /// Whether a packet lies between matched packets, by its time at the first point.
    fn is_among_matched(&self, second: bool, at_ns: i64) -> bool {
        let delay_ns = if second { self.least_delay_ns } else { 0 };
        let at_ns = at_ns.saturating_sub(delay_ns);
        self.matched_from_ns.is_some_and(|from| (from..self.matched_to_ns).contains(&at_ns))
    }

    fn passed_other_point(&self, second: bool, at_ns: i64, (least, most): (i64, i64)) -> Passed {
        let ((from_ns, to_ns), (begin_ns, end_ns)) = if second {
            ((at_ns.saturating_sub(most), at_ns.saturating_sub(least)), self.way.first_span)
        } else {
            ((at_ns.saturating_add(least), at_ns.saturating_add(most)), self.way.second_span)
        };
        if from_ns >= begin_ns && to_ns <= end_ns {
            Passed::Yes
        } else if to_ns < begin_ns || from_ns > end_ns {
            Passed::No
        } else {
            Passed::Perhaps
        }
    }

    /// Counts the unsettled packets after all delays are known. If there is no match, all packets are
    /// outside.
    fn settle(&mut self) {
        for (second, at_ns) in std::mem::take(&mut self.unsettled) {
            self.unmatched(second, at_ns);
        }
        if self.matched == 0 {
            self.outside += std::mem::take(&mut self.lost) + std::mem::take(&mut self.added);
        }
    }
}

#[cfg(test)]
mod tests;
