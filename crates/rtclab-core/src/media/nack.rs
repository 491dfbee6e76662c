//! Which packets are missing, and when to request them.
//!
//! Based on libwebrtc, `modules/video_coding/nack_requester.cc`.

use crate::units::Time;
use std::collections::{BTreeMap, VecDeque};

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
}

impl NackRules {
    /// libwebrtc today, `modules/video_coding/nack_requester.cc`.
    pub const TODAY: NackRules = NackRules {
        repeat_round_trips: 1.0,
        repeat_extra: Time::ZERO,
        max_requests: 10,
        max_missing: 1_000,
        max_age: 10_000,
    };
    /// libwebrtc 4d06db557a (2013), `rtp_rtcp_impl.cc` and `jitter_buffer.cc`: only age and number bound it.
    pub const OF_2013: NackRules = NackRules {
        repeat_round_trips: 1.5,
        repeat_extra: Time::from_millis(5),
        max_requests: u32::MAX,
        max_missing: 250,
        max_age: 450,
    };
    /// Requests nothing, but still tells late packets from duplicates.
    pub const NEVER: NackRules = NackRules { max_requests: 0, ..NackRules::TODAY };
}

/// Maximum number of abandoned packets that are remembered.
const MAX_ABANDONED: usize = 1_000;
/// Interval at which libwebrtc checks the list.
const INTERVAL: Time = Time::from_millis(20);
/// An abandoned packet that arrives this far behind the newest counts as a duplicate.
const HISTORY: i64 = 4_096;

struct Missing {
    requests: u32,
    asked: Time,
}

/// What an arriving packet turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Newer than all others, in order or after a gap.
    New,
    /// A packet that was missing.
    Filled,
    /// A packet that had been received before.
    Duplicate,
}

/// Missing packets of one stream.
pub struct Nack {
    rules: NackRules,
    highest: Option<i64>,
    missing: BTreeMap<i64, Missing>,
    /// Packets given up, but still of use if they arrive.
    abandoned: VecDeque<i64>,
    next_check: Option<Time>,
    overflow: bool,
}

impl Nack {
    /// Starts with nothing missing.
    pub fn new(rules: NackRules) -> Self {
        Nack {
            rules,
            highest: None,
            missing: BTreeMap::new(),
            abandoned: VecDeque::new(),
            next_check: None,
            overflow: false,
        }
    }

    /// Takes the unwrapped sequence number of an arriving packet.
    pub fn on_packet(&mut self, now: Time, seq: i64) -> Arrival {
        let Some(highest) = self.highest else {
            self.highest = Some(seq);
            return Arrival::New;
        };
        if seq <= highest {
            return self.fill(seq, highest);
        }
        self.highest = Some(seq);
        if seq - highest > self.rules.max_missing as i64 {
            self.missing.clear();
            self.overflow = true;
            return Arrival::New;
        }
        for lost in highest + 1..seq {
            self.missing.insert(lost, Missing { requests: 0, asked: Time::ZERO });
        }
        if seq > highest + 1 {
            self.next_check = Some(now);
        }
        if self.missing.first_key_value().is_some_and(|(&old, _)| old < seq - self.rules.max_age) {
            self.forget_before(seq - self.rules.max_age);
        }
        if self.missing.len() > self.rules.max_missing {
            self.missing.clear();
            self.overflow = true;
        }
        Arrival::New
    }

    /// Whether too many packets went missing to be repaired; resets the flag.
    pub fn take_overflow(&mut self) -> bool {
        std::mem::take(&mut self.overflow)
    }

    /// Forgets missing packets before `seq`.
    pub fn forget_before(&mut self, seq: i64) {
        self.missing = self.missing.split_off(&seq);
    }

    /// When to call [`Nack::poll`] again.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.next_check.filter(|_| !self.missing.is_empty())
    }

    /// Adds the sequence numbers to request now to `out`.
    pub fn poll(&mut self, now: Time, rtt: Time, out: &mut Vec<i64>) {
        if self.poll_timeout().is_none_or(|at| at > now) {
            return;
        }
        self.next_check = Some(now + INTERVAL);
        let NackRules { repeat_round_trips, repeat_extra, max_requests, .. } = self.rules;
        let pause = Time((rtt.0 as f64 * repeat_round_trips) as u64) + repeat_extra;
        let abandoned = &mut self.abandoned;
        self.missing.retain(|seq, missing| {
            if missing.requests > 0 && now < missing.asked + pause {
                return true;
            }
            if missing.requests >= max_requests {
                abandoned.push_back(*seq);
                return false;
            }
            missing.requests += 1;
            missing.asked = now;
            out.push(*seq);
            true
        });
        while abandoned.len() > MAX_ABANDONED {
            abandoned.pop_front();
        }
    }

    fn fill(&mut self, seq: i64, highest: i64) -> Arrival {
        if self.missing.remove(&seq).is_some() {
            return Arrival::Filled;
        }
        if let Some(index) = self.abandoned.iter().position(|a| *a == seq) {
            self.abandoned.remove(index);
            return if highest - seq < HISTORY { Arrival::Filled } else { Arrival::Duplicate };
        }
        Arrival::Duplicate
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
        let mut nack = Nack::new(NackRules::TODAY);
        for seq in [1, 2, 5] {
            nack.on_packet(Time::ZERO, seq);
        }
        assert_eq!(ask(&mut nack, Time::ZERO), [3, 4]);
        assert_eq!(nack.on_packet(Time::from_millis(50), 4), Arrival::Filled);
        assert_eq!(ask(&mut nack, Time::from_millis(60)), [0; 0]);
        assert_eq!(ask(&mut nack, Time::from_millis(100)), [3]);
    }

    #[test]
    fn a_packet_is_requested_ten_times_and_then_never_again() {
        let mut nack = Nack::new(NackRules::TODAY);
        nack.on_packet(Time::ZERO, 1);
        nack.on_packet(Time::ZERO, 3);
        let asked: usize = (0..100).map(|i| ask(&mut nack, Time::from_millis(100 * i)).len()).sum();
        assert_eq!(asked, 10);
        assert_eq!(nack.poll_timeout(), None);
    }

    #[test]
    fn the_same_packet_twice_is_a_duplicate() {
        let mut nack = Nack::new(NackRules::TODAY);
        assert_eq!(nack.on_packet(Time::ZERO, 7), Arrival::New);
        assert_eq!(nack.on_packet(Time::ZERO, 7), Arrival::Duplicate);
    }

    #[test]
    fn a_jump_of_more_than_a_thousand_requests_nothing_but_a_key_frame() {
        let mut nack = Nack::new(NackRules::TODAY);
        nack.on_packet(Time::ZERO, 1);
        nack.on_packet(Time::ZERO, 2_000);
        assert!(ask(&mut nack, Time::ZERO).is_empty());
        assert!(nack.take_overflow() && !nack.take_overflow());
    }

    #[test]
    fn in_2013_a_packet_is_requested_again_after_one_and_a_half_round_trips_and_5_ms() {
        let mut nack = Nack::new(NackRules::OF_2013);
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
        let mut nack = Nack::new(NackRules::OF_2013);
        nack.on_packet(Time::ZERO, 0);
        for seq in 2..=451 {
            nack.on_packet(Time::ZERO, seq);
        }
        assert!(nack.poll_timeout().is_some());
        nack.on_packet(Time::ZERO, 452);
        assert_eq!(nack.poll_timeout(), None);
    }
}
