//! Finding each packet of a stream at the point where it comes second.
//!
//! A packet is known by stream, sequence number and timestamp: that survives wraps, loss, reordering and
//! captures that begin at different moments. Of packets that are alike (duplicates, retransmissions under
//! the original number) the one that comes second belongs to the latest one before it that it can have been.

use super::samples::Samples;
use crate::monitor::stream::sketch::PacketName;
use crate::monitor::watcher::Identified;
use std::collections::{HashMap, VecDeque};

/// A packet that has not come by now is lost: queues of 10 s are not unheard of.
const TIMEOUT_NS: i64 = 30_000_000_000;
/// The most packets that wait; 64 bytes each. The oldest are given up before that.
const MAX_WAITING: usize = 4_000_000;
/// Packets that are all alike and wait; more are not told apart.
const MAX_ALIKE: usize = 16;
/// By how much a delay may be below the smallest so far and still be believed of packets that are alike.
const TOLERANCE_NS: i64 = 1_000_000;

/// What became of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fate {
    pub(super) pair: u32,
    pub(super) packet: Identified,
    /// Where it came first.
    pub(super) first_ns: Option<i64>,
    /// Where it came second.
    pub(super) second_ns: Option<i64>,
}

/// Counts of one pair of streams.
#[derive(Default)]
pub(super) struct PairCounts {
    pub(super) matched: u64,
    /// Unmatched at the first point, between packets that were matched.
    pub(super) lost: u64,
    /// Unmatched at the second point.
    pub(super) added: u64,
    /// Packets that are unmatched before or after all that were matched: whether at the second point, and when.
    pub(super) margins: Vec<(bool, i64)>,
    pub(super) delays: Samples,
    /// At the first point, of matched packets.
    pub(super) matched_from_ns: Option<i64>,
    pub(super) matched_to_ns: i64,
    pub(super) least_delay_ns: i64,
    pub(super) most_delay_ns: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    pair: u32,
    name: PacketName,
}

#[derive(Clone, Copy)]
struct Waiting {
    second: bool,
    packet: Identified,
}

/// Packets that have been seen at one point only, so far.
#[derive(Default)]
pub(super) struct Matcher {
    waiting: HashMap<Key, Vec<Waiting>>,
    /// In the order of reading, with the time on the common clock.
    order: VecDeque<(i64, Key)>,
    pub(super) pairs: Vec<PairCounts>,
    /// Packets given up before their time for want of room.
    pub(super) given_up: u64,
}

impl Matcher {
    pub(super) fn new(pairs: usize) -> Self {
        let pairs = (0..pairs).map(|_| PairCounts::default()).collect();
        Matcher { pairs, ..Matcher::default() }
    }

    /// Takes a packet of a pair; `common_ns` is its time on a clock that both points roughly share.
    pub(super) fn receive(
        &mut self,
        (pair, second): (u32, bool),
        common_ns: i64,
        packet: &Identified,
        fates: &mut dyn FnMut(Fate),
    ) {
        self.expire(common_ns, fates);
        let name = PacketName { seq: packet.header.seq, timestamp: packet.header.timestamp };
        let key = Key { pair, name };
        let alike = self.waiting.entry(key).or_default();
        if let Some(index) = counterpart(alike, second, packet.at_ns, &self.pairs[pair as usize]) {
            let other = alike.swap_remove(index).packet;
            if alike.is_empty() {
                self.waiting.remove(&key);
            }
            let (first_ns, second_ns) =
                if second { (other.at_ns, packet.at_ns) } else { (packet.at_ns, other.at_ns) };
            self.pairs[pair as usize].matched(first_ns, second_ns);
            fates(Fate {
                pair,
                packet: *packet,
                first_ns: Some(first_ns),
                second_ns: Some(second_ns),
            });
        } else if alike.len() < MAX_ALIKE {
            alike.push(Waiting { second, packet: *packet });
            self.order.push_back((common_ns, key));
        } else {
            self.given_up += 1;
        }
    }

    /// Gives up packets whose counterpart has not come in time.
    fn expire(&mut self, common_ns: i64, fates: &mut dyn FnMut(Fate)) {
        while let Some((since_ns, key)) = self.order.front().copied() {
            let crowded = self.order.len() >= MAX_WAITING;
            let in_time = common_ns.saturating_sub(since_ns) < TIMEOUT_NS;
            if in_time && !crowded {
                break;
            }
            self.order.pop_front();
            let given_up = self.give_up_oldest(key, fates);
            self.given_up += u64::from(given_up && in_time);
        }
    }

    /// Says that no more packets come.
    pub(super) fn finish(&mut self, fates: &mut dyn FnMut(Fate)) {
        while let Some((_, key)) = self.order.pop_front() {
            self.give_up_oldest(key, fates);
        }
    }

    /// Whether one was still waiting: matched packets leave their place in the order behind.
    fn give_up_oldest(&mut self, key: Key, fates: &mut dyn FnMut(Fate)) -> bool {
        let Some(alike) = self.waiting.get_mut(&key) else { return false };
        let waiting = alike.remove(0);
        if alike.is_empty() {
            self.waiting.remove(&key);
        }
        self.pairs[key.pair as usize].unmatched(&waiting);
        let at_ns = Some(waiting.packet.at_ns);
        let (first_ns, second_ns) = if waiting.second { (None, at_ns) } else { (at_ns, None) };
        fates(Fate { pair: key.pair, packet: waiting.packet, first_ns, second_ns });
        true
    }
}

/// Among packets that are alike and wait, the one that is the same as a new one, seen at the other point.
fn counterpart(alike: &[Waiting], second: bool, at_ns: i64, pair: &PairCounts) -> Option<usize> {
    let mut others = (0..alike.len()).filter(|index| alike[*index].second != second);
    let only = others.next()?;
    let rest: Vec<usize> = others.collect();
    if rest.is_empty() {
        return Some(only);
    }
    let believable = |index: &usize| {
        let other_ns = alike[*index].packet.at_ns;
        let delay_ns = if second { at_ns - other_ns } else { other_ns - at_ns };
        pair.matched > 0 && delay_ns >= pair.least_delay_ns - TOLERANCE_NS
    };
    // The shortest believable delay: the latest of those before, or the earliest of those after.
    let all = std::iter::once(only).chain(rest);
    let key = |index: &usize| {
        let other_ns = alike[*index].packet.at_ns;
        if second { -other_ns } else { other_ns }
    };
    all.filter(believable).min_by_key(key).or(Some(only))
}

impl PairCounts {
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

    fn unmatched(&mut self, waiting: &Waiting) {
        let margin = (waiting.second, waiting.packet.at_ns);
        match (waiting.second, self.is_among_matched(margin)) {
            (true, true) => self.added += 1,
            (false, true) => self.lost += 1,
            (_, false) => self.margins.push(margin),
        }
    }

    /// By the time at the first point.
    fn is_among_matched(&self, (second, at_ns): (bool, i64)) -> bool {
        let delay_ns = if second { self.least_delay_ns } else { 0 };
        let at_ns = at_ns.saturating_sub(delay_ns);
        self.matched_from_ns.is_some_and(|from| (from..self.matched_to_ns).contains(&at_ns))
    }

    /// Sorts the packets before and after all matched ones: lost or added if the other capture ran when they
    /// should have been there, and else outside of it. Gives the number of those.
    pub(super) fn settle_margins(&mut self, first_ran: (i64, i64), second_ran: (i64, i64)) -> u64 {
        let mut outside = 0;
        for margin in std::mem::take(&mut self.margins) {
            let (second, at_ns) = margin;
            let (least, most) = (self.least_delay_ns, self.most_delay_ns);
            let in_time = if second {
                at_ns.saturating_sub(most) >= first_ran.0
                    && at_ns.saturating_sub(least) <= first_ran.1
            } else {
                at_ns.saturating_add(least) >= second_ran.0
                    && at_ns.saturating_add(most) <= second_ran.1
            };
            if self.matched == 0 || !(in_time || self.is_among_matched(margin)) {
                outside += 1;
            } else if second {
                self.added += 1;
            } else {
                self.lost += 1;
            }
        }
        outside
    }
}
