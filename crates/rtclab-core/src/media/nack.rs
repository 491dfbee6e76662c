//! Which packets are missing, and when to request them.
//!
//! Based on libwebrtc, `modules/video_coding/nack_requester.cc`.

use super::grid::{RepeatingTask, Timers};
use crate::units::Time;
use std::collections::VecDeque;
use std::ops::Range;

/// When a receiver repeats a request, and when it gives up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NackRules {
    /// Round trips between two requests for the same packet.
    pub repeat_round_trips: f64,
    /// Time added to these round trips.
    pub repeat_extra: Time,
    /// Maximum number of requests for the same packet.
    pub max_requests: u32,
    /// If more packets than this are missing, the receiver requests a key frame instead.
    pub max_missing: usize,
    /// Packets further than this behind the newest are given up.
    pub max_age: i64,
    /// When the list is checked for packets to request again.
    pub checks: Checks,
}

/// When a receiver checks its list of missing packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checks {
    /// At each new gap, and every 20 ms from then on.
    FromGap,
    /// By a task of 20 ms on the browser's timer grid. A new gap only causes requests for its own packets. They leave
    /// before FEC recovers any of them, or a complete frame makes them useless.
    OnGrid,
}

impl NackRules {
    /// libwebrtc in 2026, `modules/video_coding/nack_requester.cc`; 100 requests since July 2024.
    pub const SINCE_2024: NackRules =
        NackRules { max_requests: 100, checks: Checks::OnGrid, ..NackRules::UNTIL_2024 };
    /// libwebrtc until 2024, as far as it is modelled for earlier browsers.
    pub const UNTIL_2024: NackRules = NackRules {
        repeat_round_trips: 1.0,
        repeat_extra: Time::ZERO,
        max_requests: 10,
        max_missing: 1_000,
        max_age: 10_000,
        checks: Checks::FromGap,
    };
    /// libwebrtc 4d06db557a (2013), `rtp_rtcp_impl.cc` and `jitter_buffer.cc`: only age and number bound it.
    pub const OF_2013: NackRules = NackRules {
        repeat_round_trips: 1.5,
        repeat_extra: Time::from_millis(5),
        max_requests: u32::MAX,
        max_missing: 250,
        max_age: 450,
        checks: Checks::FromGap,
    };
    /// Requests nothing, but still tells late packets from duplicates.
    pub const NEVER: NackRules = NackRules { max_requests: 0, ..NackRules::UNTIL_2024 };
}

/// Maximum number of abandoned packets that are remembered.
const MAX_ABANDONED: usize = 1_000;
/// Interval at which libwebrtc checks the list.
const INTERVAL: Time = Time::from_millis(20);
/// An abandoned packet that arrives this far behind the newest counts as a duplicate.
const HISTORY: i64 = 4_096;

#[derive(Clone, Copy)]
struct Missing {
    seq: i64,
    requests: u32,
    asked: Time,
}

/// What an arriving packet turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NackArrival {
    /// Newer than all others, in order or after a gap.
    New,
    /// A packet that was missing.
    Filled {
        /// Whether it had been requested.
        requested: bool,
    },
    /// A packet that had been received before.
    Duplicate,
}

/// Missing packets of one stream.
pub struct Nack {
    rules: NackRules,
    highest: Option<i64>,
    first: i64,
    /// Packets from before the first that arrived.
    early: Vec<i64>,
    /// In order.
    missing: VecDeque<Missing>,
    /// Packets given up, but still of use if they arrive.
    abandoned: VecDeque<i64>,
    task: RepeatingTask,
    next_check: Option<Time>,
    /// When a gap was noticed whose packets have not been requested.
    new_gap: Option<Time>,
    /// Packets of new gaps, which are requested even if they are recovered or forgotten before the next poll.
    gap: Vec<i64>,
    overflow: bool,
}

impl Nack {
    /// Starts with nothing missing. The timers belong to the receiving browser.
    pub fn new(rules: NackRules, timers: Timers) -> Self {
        Nack {
            rules,
            highest: None,
            first: 0,
            early: Vec::new(),
            missing: VecDeque::new(),
            abandoned: VecDeque::new(),
            task: timers.task(INTERVAL),
            next_check: None,
            new_gap: None,
            gap: Vec::new(),
            overflow: false,
        }
    }

    /// Takes the unwrapped sequence number of an arriving packet.
    pub fn on_packet(&mut self, now: Time, seq: i64) -> NackArrival {
        let Some(highest) = self.highest else {
            self.highest = Some(seq);
            self.first = seq;
            return NackArrival::New;
        };
        if seq <= highest {
            return self.fill(seq, highest);
        }
        self.highest = Some(seq);
        if seq - highest > self.rules.max_missing as i64 {
            self.missing.clear();
            self.gap.clear();
            self.overflow = true;
            return NackArrival::New;
        }
        if seq > highest + 1 {
            self.on_gap(now, highest + 1..seq);
        }
        self.forget_before(seq - self.rules.max_age);
        if self.missing.len() > self.rules.max_missing {
            self.missing.clear();
            self.gap.clear();
            self.overflow = true;
        }
        NackArrival::New
    }

    /// Whether too many packets went missing to be repaired.
    pub fn has_overflow(&self) -> bool {
        self.overflow
    }

    /// Whether too many packets went missing to be repaired; resets the flag.
    pub fn take_overflow(&mut self) -> bool {
        std::mem::take(&mut self.overflow)
    }

    /// Forgets missing packets before `seq`.
    pub fn forget_before(&mut self, seq: i64) {
        while self.missing.front().is_some_and(|missing| missing.seq < seq) {
            self.missing.pop_front();
        }
    }

    fn on_gap(&mut self, now: Time, lost: Range<i64>) {
        match self.rules.checks {
            Checks::FromGap => {
                let unasked = |seq| Missing { seq, requests: 0, asked: Time::ZERO };
                self.missing.extend(lost.map(unasked));
                self.next_check = Some(now);
            }
            Checks::OnGrid => {
                let requested = |seq| Missing { seq, requests: 1, asked: now };
                self.missing.extend(lost.clone().map(requested));
                self.gap.extend(lost);
                self.new_gap = Some(now);
                if self.next_check.is_none_or(|at| at <= now) {
                    self.next_check = Some(self.task.after(now));
                }
            }
        }
    }

    /// When to call [`Nack::poll`] again.
    pub fn poll_timeout(&self) -> Option<Time> {
        let check = self.next_check.filter(|_| !self.missing.is_empty());
        match (check, self.new_gap) {
            (Some(check), Some(gap)) => Some(check.min(gap)),
            (check, gap) => check.or(gap),
        }
    }

    /// Adds the sequence numbers to request now to `out`.
    pub fn poll(&mut self, now: Time, rtt: Time, out: &mut Vec<i64>) {
        if self.poll_timeout().is_none_or(|at| at > now) {
            return;
        }
        let checks_all = self.next_check.is_some_and(|at| at <= now);
        if checks_all {
            self.next_check = Some(match self.rules.checks {
                Checks::FromGap => now + INTERVAL,
                Checks::OnGrid => self.task.after(now),
            });
        }
        self.new_gap = None;
        out.append(&mut self.gap);
        let NackRules { repeat_round_trips, repeat_extra, max_requests, .. } = self.rules;
        let pause = Time((rtt.0 as f64 * repeat_round_trips) as u64) + repeat_extra;
        let abandoned = &mut self.abandoned;
        self.missing.retain_mut(|missing| {
            if missing.requests > 0 && (!checks_all || now < missing.asked + pause) {
                return true;
            }
            if missing.requests >= max_requests {
                abandoned.push_back(missing.seq);
                return false;
            }
            missing.requests += 1;
            missing.asked = now;
            out.push(missing.seq);
            true
        });
        while abandoned.len() > MAX_ABANDONED {
            abandoned.pop_front();
        }
    }

    fn fill(&mut self, seq: i64, highest: i64) -> NackArrival {
        let place = self.missing.binary_search_by_key(&seq, |missing| missing.seq);
        if let Some(missing) = place.ok().and_then(|place| self.missing.remove(place)) {
            return NackArrival::Filled { requested: missing.requests > 0 };
        }
        let is_early = self.rules.checks == Checks::OnGrid && seq < self.first;
        if is_early && highest - seq < HISTORY && !self.early.contains(&seq) {
            self.early.push(seq);
            return NackArrival::Filled { requested: false };
        }
        if let Some(index) = self.abandoned.iter().position(|a| *a == seq) {
            self.abandoned.remove(index);
            return match highest - seq < HISTORY {
                true => NackArrival::Filled { requested: self.rules.max_requests > 0 },
                false => NackArrival::Duplicate,
            };
        }
        NackArrival::Duplicate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(nack: &mut Nack, at: Time) -> Vec<i64> {
        let mut out = Vec::new();
        nack.poll(at, Time::from_millis(100), &mut out);
        out
    }

    #[test]
    fn a_gap_is_requested_at_once_and_again_after_a_round_trip() {
        let mut nack = Nack::new(NackRules::UNTIL_2024, Timers::default());
        for seq in [1, 2, 5] {
            nack.on_packet(Time::ZERO, seq);
        }
        assert_eq!(ask(&mut nack, Time::ZERO), [3, 4]);
        assert_eq!(
            nack.on_packet(Time::from_millis(50), 4),
            NackArrival::Filled { requested: true }
        );
        assert_eq!(ask(&mut nack, Time::from_millis(60)), [0; 0]);
        assert_eq!(ask(&mut nack, Time::from_millis(100)), [3]);
    }

    #[test]
    fn a_packet_is_requested_ten_times_and_then_never_again() {
        let mut nack = Nack::new(NackRules::UNTIL_2024, Timers::default());
        nack.on_packet(Time::ZERO, 1);
        nack.on_packet(Time::ZERO, 3);
        let asked: usize = (0..100).map(|i| ask(&mut nack, Time::from_millis(100 * i)).len()).sum();
        assert_eq!(asked, 10);
        assert_eq!(nack.poll_timeout(), None);
    }

    #[test]
    fn the_same_packet_twice_is_a_duplicate() {
        let mut nack = Nack::new(NackRules::UNTIL_2024, Timers::default());
        assert_eq!(nack.on_packet(Time::ZERO, 7), NackArrival::New);
        assert_eq!(nack.on_packet(Time::ZERO, 7), NackArrival::Duplicate);
    }

    #[test]
    fn a_jump_of_more_than_a_thousand_requests_nothing_but_a_key_frame() {
        let mut nack = Nack::new(NackRules::UNTIL_2024, Timers::default());
        nack.on_packet(Time::ZERO, 1);
        nack.on_packet(Time::ZERO, 2_000);
        assert!(ask(&mut nack, Time::ZERO).is_empty());
        assert!(nack.take_overflow() && !nack.take_overflow());
    }

    /// The list of 20 ms is checked at 31.25, 46.875 and 62.5 ms (for 20, 40 and 60 ms), and so on: at the
    /// points of the grid at or after multiples of 20 ms.
    #[test]
    fn since_2024_packets_are_requested_again_on_the_grid_and_a_new_gap_does_not_hurry_old_ones() {
        let mut nack = Nack::new(NackRules::SINCE_2024, Timers::default());
        nack.on_packet(Time::ZERO, 1);
        let ms = Time::from_millis;
        nack.on_packet(ms(1), 3);
        assert_eq!(ask(&mut nack, ms(1)), [2]);
        // A round trip of 100 ms has passed at 101 ms, but the next check is at 109.375 ms.
        nack.on_packet(ms(105), 5);
        assert_eq!(ask(&mut nack, ms(105)), [4]);
        let check = Time::from_micros(109_375);
        assert_eq!(nack.poll_timeout().map(|at| at <= check), Some(true));
        let mut asked = Vec::new();
        while let Some(at) = nack.poll_timeout().filter(|at| *at < ms(400)) {
            asked.extend(ask(&mut nack, at).into_iter().map(|seq| (seq, at.as_micros())));
        }
        assert_eq!(asked[0], (2, 109_375));
        for pair in asked.iter().filter(|(seq, _)| *seq == 2).collect::<Vec<_>>().windows(2) {
            assert!((100_000..=131_250).contains(&(pair[1].1 - pair[0].1)), "{pair:?}");
        }
    }

    /// Packet 2 is of use no longer when the requests are collected: FEC recovered it, or it was FEC.
    #[test]
    fn since_2024_a_new_gap_is_requested_even_if_it_is_closed_at_once() {
        let mut nack = Nack::new(NackRules::SINCE_2024, Timers::default());
        nack.on_packet(Time::ZERO, 1);
        nack.on_packet(Time::ZERO, 3);
        assert_eq!(nack.on_packet(Time::ZERO, 2), NackArrival::Filled { requested: true });
        assert_eq!(ask(&mut nack, Time::ZERO), [2]);
        nack.on_packet(Time::ZERO, 5);
        nack.forget_before(6);
        assert_eq!(ask(&mut nack, Time::ZERO), [4]);
        assert_eq!(nack.poll_timeout(), None);
    }

    /// The first packets overtook others, which are not requested, but of use.
    #[test]
    fn since_2024_packets_from_before_the_first_are_taken_once() {
        let mut nack = Nack::new(NackRules::SINCE_2024, Timers::default());
        let arrivals = [5, 3, 3].map(|seq| nack.on_packet(Time::ZERO, seq));
        let filled = NackArrival::Filled { requested: false };
        assert_eq!(arrivals, [NackArrival::New, filled, NackArrival::Duplicate]);
        assert_eq!(nack.poll_timeout(), None);
    }

    #[test]
    fn since_2024_a_packet_is_requested_a_hundred_times() {
        let mut nack = Nack::new(NackRules::SINCE_2024, Timers::default());
        nack.on_packet(Time::ZERO, 1);
        nack.on_packet(Time::ZERO, 3);
        let mut asked = 0;
        while let Some(at) = nack.poll_timeout() {
            asked += ask(&mut nack, at).len();
        }
        assert_eq!(asked, 100);
    }

    #[test]
    fn in_2013_a_packet_is_requested_again_after_one_and_a_half_round_trips_and_5_ms() {
        let mut nack = Nack::new(NackRules::OF_2013, Timers::default());
        nack.on_packet(Time::ZERO, 1);
        nack.on_packet(Time::ZERO, 3);
        // A round trip of 100 ms: due after 155 ms, requested at the next check of 20 ms
        let asked: Vec<u64> = (0..=400)
            .step_by(5)
            .filter(|ms| !ask(&mut nack, Time::from_millis(*ms)).is_empty())
            .collect();
        assert_eq!(asked, [0, 160, 320]);
    }

    #[test]
    fn in_2013_a_packet_more_than_450_behind_the_newest_is_given_up() {
        let mut nack = Nack::new(NackRules::OF_2013, Timers::default());
        nack.on_packet(Time::ZERO, 0);
        for seq in 2..=451 {
            nack.on_packet(Time::ZERO, seq);
        }
        assert!(nack.poll_timeout().is_some());
        nack.on_packet(Time::ZERO, 452);
        assert_eq!(nack.poll_timeout(), None);
    }
}
