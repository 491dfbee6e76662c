//! `CoDel`: drops or marks a packet when all packets have waited longer than a target for an interval, and then faster
//! and faster until one has not.
//!
//! Source: RFC 8289, sections 4 and 5. Marks, and the threshold for marks, as in Linux (`include/net/codel_impl.h`),
//! for which the RFC has no rule. Times are exact, where Linux counts in units of 1024 ns and approximates the square
//! root.

use super::fifo::{Fifo, MTU, Moment, QueuedPacket};
use crate::limits::{self, Checked};
use crate::path::{DropCause, MarkCause, Packet};
use crate::units::{Bytes, Time};
use serde::{Deserialize, Serialize};

/// Parameters of `CoDel` (RFC 8289). Packets are dropped, or marked, when they leave the queue.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Codel {
    /// Waiting time that may be exceeded for at most an interval. RFC 8289, section 4.3: 5 ms.
    pub target_ns: Time,
    /// About the longest usual round-trip time. RFC 8289, section 4.3: 100 ms.
    pub interval_ns: Time,
    /// Whether ECN-capable packets are marked in place of being dropped.
    pub ecn: bool,
    /// Waiting time above which all ECN-capable packets are marked, as in Linux; `None` for no such marks.
    pub ce_threshold_ns: Option<Time>,
}

impl Default for Codel {
    fn default() -> Self {
        Codel {
            target_ns: Time::from_millis(5),
            interval_ns: Time::from_millis(100),
            ecn: false,
            ce_threshold_ns: None,
        }
    }
}

impl Codel {
    pub(super) fn check(&self) -> Checked {
        limits::duration("target_ns", self.target_ns)?;
        limits::duration("interval_ns", self.interval_ns)?;
        let (target, interval) = (self.target_ns, self.interval_ns);
        let expected = format!("at most the interval of {} ns", interval.0);
        limits::require(
            target <= interval,
            "target_ns",
            format_args!("{} ns", target.0),
            expected,
        )?;
        limits::time("ce_threshold_ns", self.ce_threshold_ns.unwrap_or_default())
    }

    /// Marks a packet in place of dropping it, if that is possible.
    fn marks<P>(&self, moment: &Moment<P>, next: &mut QueuedPacket<P>) -> bool {
        self.ecn && moment.mark(&mut next.packet, MarkCause::Classic)
    }
}

/// On re-entry within this many intervals the rate of drops goes on where it was (RFC 8289, section 5.5).
const REMEMBERED_INTERVALS: u64 = 16;

/// State of the control law for one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct CodelLaw {
    /// When packets will have waited too long for an interval; `None` while they do not.
    first_above: Option<Time>,
    dropping: bool,
    drop_next: Time,
    /// Drops since the dropping state was entered.
    count: u32,
    /// `count` when it was entered.
    last_count: u32,
}

impl CodelLaw {
    /// Counts drops that something else made.
    pub(super) fn count_drops(&mut self, drops: u32) {
        self.count = self.count.saturating_add(drops);
    }

    /// Removes the next packet to serve. `take` removes the first packet of the queue and tells how many bytes then
    /// wait for the link, in this queue and in others.
    #[inline]
    pub(super) fn dequeue<P>(
        &mut self,
        rules: &Codel,
        moment: &mut Moment<P>,
        mut take: impl FnMut() -> Option<(QueuedPacket<P>, Bytes)>,
    ) -> Option<QueuedPacket<P>> {
        let (mut next, is_late) = self.take(rules, moment.now, &mut take)?;
        if self.dropping || is_late {
            next = self.act(rules, moment, take, next, is_late)?;
        }
        if rules.ce_threshold_ns.is_some_and(|most| moment.now.saturating_sub(next.entered) > most)
        {
            moment.mark(&mut next.packet, MarkCause::Threshold);
        }
        Some(next)
    }

    /// The first packet, and whether it may be dropped.
    #[inline]
    fn take<P>(
        &mut self,
        rules: &Codel,
        now: Time,
        take: &mut impl FnMut() -> Option<(QueuedPacket<P>, Bytes)>,
    ) -> Option<(QueuedPacket<P>, bool)> {
        let Some((next, left)) = take() else {
            (self.first_above, self.dropping) = (None, false);
            return None;
        };
        if now.saturating_sub(next.entered) < rules.target_ns || left <= MTU {
            self.first_above = None;
            return Some((next, false));
        }
        let is_late = match self.first_above {
            Some(at) => now >= at,
            None => {
                self.first_above = Some(now.saturating_add(rules.interval_ns));
                false
            }
        };
        Some((next, is_late))
    }

    fn act<P>(
        &mut self,
        rules: &Codel,
        moment: &mut Moment<P>,
        mut take: impl FnMut() -> Option<(QueuedPacket<P>, Bytes)>,
        mut next: QueuedPacket<P>,
        mut is_late: bool,
    ) -> Option<QueuedPacket<P>> {
        let now = moment.now;
        if !self.dropping {
            // A packet that is marked is served: at most one is marked in each call.
            let served = if rules.marks(moment, &mut next) {
                Some(next)
            } else {
                moment.drop(DropCause::Aqm, next.packet);
                self.take(rules, now, &mut take).map(|(following, _)| following)
            };
            self.enter(rules, now);
            return served;
        }
        while is_late && now >= self.drop_next {
            self.count = self.count.saturating_add(1);
            if rules.marks(moment, &mut next) {
                self.drop_next = self.after(rules, self.drop_next);
                return Some(next);
            }
            moment.drop(DropCause::Aqm, next.packet);
            (next, is_late) = self.take(rules, now, &mut take)?;
            if is_late {
                self.drop_next = self.after(rules, self.drop_next);
            }
        }
        self.dropping = is_late;
        Some(next)
    }

    fn enter(&mut self, rules: &Codel, now: Time) {
        let drops = self.count.saturating_sub(self.last_count);
        let since = now.saturating_sub(self.drop_next).0;
        let is_soon = since / REMEMBERED_INTERVALS < rules.interval_ns.0;
        self.count = if drops > 1 && is_soon { drops } else { 1 };
        self.last_count = self.count;
        self.dropping = true;
        self.drop_next = self.after(rules, now);
    }

    /// When to drop next after a drop: the interval divided by the square root of the number of drops.
    fn after(&self, rules: &Codel, at: Time) -> Time {
        let gap = rules.interval_ns.0 as f64 / f64::from(self.count.max(1)).sqrt();
        at.saturating_add(Time(gap as u64))
    }
}

/// A queue under `CoDel`.
pub(super) struct CodelQueue<P> {
    pub(super) rules: Codel,
    control: CodelLaw,
    pub(super) fifo: Fifo<P>,
}

impl<P> CodelQueue<P> {
    pub(super) fn new(rules: Codel) -> Self {
        CodelQueue { rules, control: CodelLaw::default(), fifo: Fifo::default() }
    }

    #[inline]
    pub(super) fn dequeue(&mut self, moment: &mut Moment<P>) -> Option<(Packet<P>, Time)> {
        let CodelQueue { rules, control, fifo } = self;
        let next = control.dequeue(rules, moment, || Some((fifo.pop()?, fifo.bytes())))?;
        Some(moment.served(next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ecn::Ecn;
    use std::collections::VecDeque;

    /// A control law, and a queue that is never empty.
    struct Law {
        rules: Codel,
        control: CodelLaw,
        ecn: Ecn,
        /// Times of drops.
        drops: Vec<Time>,
        /// Times of marks.
        marks: Vec<Time>,
    }

    impl Law {
        fn new(rules: Codel, ecn: Ecn) -> Self {
            Law { rules, control: CodelLaw::default(), ecn, drops: Vec::new(), marks: Vec::new() }
        }

        /// Serves a packet at each time; all have waited for `sojourn`, and `left` bytes wait behind each.
        fn serve(&mut self, times: impl Iterator<Item = Time>, sojourn: Time, left: u64) {
            for now in times {
                let mut dropped = VecDeque::new();
                let mut moment = Moment { now, path: 3, dropped: &mut dropped };
                let packet = Packet { ecn: self.ecn, ..Packet::new(MTU, ()) };
                let take = || {
                    let entered = now.saturating_sub(sojourn);
                    Some((QueuedPacket { entered, packet }, Bytes(left)))
                };
                let served =
                    self.control.dequeue(&self.rules, &mut moment, take).expect("a packet");
                self.marks.extend(served.packet.mark.map(|_| now));
                self.drops.extend(dropped.iter().map(|(at, ..)| *at));
            }
        }
    }

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    /// Times from 1 s on, every 0.1 ms.
    fn every_tenth_ms(from_ms: u64, until_ms: u64) -> impl Iterator<Item = Time> {
        (from_ms * 10..until_ms * 10)
            .map(|tenths| Time::from_secs(1) + Time::from_micros(tenths * 100))
    }

    const LATE: Time = Time::from_millis(6);
    const MUCH: u64 = 100_000;

    #[test]
    fn drops_follow_the_inverse_square_root_of_their_number() {
        // 100, then each time 100 / sqrt(n) later: 200, 270.7, 328.4, 378.4, 423.2, 464.0, 501.8 ms
        let mut law = Law::new(Codel::default(), Ecn::NotCapable);
        law.serve(every_tenth_ms(0, 10_000), LATE, MUCH);
        let drops: Vec<f64> =
            law.drops.iter().map(|at| (*at - Time::from_secs(1)).as_secs_f64() * 1e3).collect();
        for (found, expected) in
            drops.iter().zip([100.0, 200.0, 270.7, 328.4, 378.4, 423.2, 464.0, 501.8])
        {
            assert!(
                (expected - 0.05..=expected + 0.15).contains(found),
                "{found} instead of {expected}"
            );
        }
        for (until_ms, expected) in [(500.0, 7), (1e3, 27), (2e3, 105), (5e3, 637), (1e4, 2523)] {
            assert_eq!(drops.iter().filter(|at| **at < until_ms).count(), expected, "{until_ms}");
        }
    }

    #[test]
    fn the_drop_rate_grows_by_50_per_second_in_every_second() {
        // After n drops it is 10 sqrt(n) per s: 20, 50, 100 and 200 per s at 0.33, 0.94, 1.95 and 3.95 s.
        let mut law = Law::new(Codel::default(), Ecn::NotCapable);
        law.serve(every_tenth_ms(0, 5_000), LATE, MUCH);
        for (at_ms, rate) in [(330, 20.0), (940, 50.0), (1_950, 100.0), (3_950, 200.0)] {
            let begin = Time::from_secs(1) + ms(at_ms);
            let next = law.drops.partition_point(|at| *at < begin);
            let gap = (law.drops[next] - law.drops[next - 1]).as_secs_f64();
            assert!((gap * rate - 1.0).abs() < 0.05, "{at_ms}: {gap} s");
        }
    }

    #[test]
    fn one_short_wait_begins_the_interval_anew() {
        let mut law = Law::new(Codel::default(), Ecn::NotCapable);
        law.serve(every_tenth_ms(0, 99), LATE, MUCH);
        law.serve(every_tenth_ms(99, 100).take(1), ms(4), MUCH);
        law.serve(every_tenth_ms(100, 400), LATE, MUCH);
        assert_eq!(law.drops[0], Time::from_secs(1) + ms(200));
    }

    #[test]
    fn neither_a_wait_below_the_target_nor_a_last_packet_is_dropped() {
        for (sojourn, left, drops) in
            [(Time(4_999_999), MUCH, 0), (ms(5), MUCH, 7), (LATE, MTU.0, 0), (LATE, MTU.0 + 1, 7)]
        {
            let mut law = Law::new(Codel::default(), Ecn::NotCapable);
            law.serve(every_tenth_ms(0, 500), sojourn, left);
            assert_eq!(law.drops.len(), drops, "{sojourn} {left}");
        }
    }

    #[test]
    fn soon_after_the_last_time_drops_go_on_at_the_rate_at_which_they_ended() {
        // Count 6 and 2 at the last entry: 4 on re-entry, so that the next drop is 100 / sqrt(4) = 50 ms later. More
        // than 16 intervals after the time at which it would have dropped next, it begins with 1: 100 ms.
        for (after_ms, gap_ms) in [(1_000, 50), (1_599, 50), (1_601, 100)] {
            let drop_next = Time::from_secs(1);
            let control = CodelLaw { count: 6, last_count: 2, drop_next, ..CodelLaw::default() };
            let mut law = Law { control, ..Law::new(Codel::default(), Ecn::NotCapable) };
            law.serve(every_tenth_ms(after_ms - 100, after_ms + 200), LATE, MUCH);
            assert_eq!(law.drops[0], drop_next + ms(after_ms));
            let gap = law.drops[1] - law.drops[0];
            assert!(gap >= ms(gap_ms) && gap <= ms(gap_ms) + Time::from_micros(100), "{gap}");
        }
    }

    #[test]
    fn ecn_capable_packets_are_marked_when_others_would_be_dropped_and_those_alone() {
        let marking = Codel { ecn: true, ..Codel::default() };
        for (rules, ecn, marks, drops) in [
            (marking, Ecn::Ect0, 7, 0),
            (marking, Ecn::Ect1, 7, 0),
            (marking, Ecn::NotCapable, 0, 7),
            (Codel::default(), Ecn::Ect0, 0, 7),
        ] {
            let mut law = Law::new(rules, ecn);
            law.serve(every_tenth_ms(0, 500), LATE, MUCH);
            assert_eq!((law.marks.len(), law.drops.len()), (marks, drops), "{ecn:?}");
        }
    }

    #[test]
    fn a_threshold_marks_all_that_waited_longer() {
        let ce_threshold_ns = Some(ms(1));
        let mut law = Law::new(Codel { ce_threshold_ns, ..Codel::default() }, Ecn::Ect1);
        law.serve(every_tenth_ms(0, 1), ms(1), MUCH);
        assert_eq!(law.marks.len(), 0);
        law.serve(every_tenth_ms(1, 2), Time(1_000_001), MUCH);
        assert_eq!(law.marks.len(), 10);
    }
}
