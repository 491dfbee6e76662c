//! Which packets are missing, and when to ask for them.
//!
//! After libwebrtc, `modules/video_coding/nack_requester.cc`.

use crate::units::Time;
use std::collections::{BTreeMap, VecDeque};

/// When a receiver asks again, and when it gives up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NackRules {
    /// Round trips between two requests for the same packet …
    pub repeat_round_trips: f64,
    /// … and this on top.
    pub repeat_extra: Time,
    /// Asks at most this often for the same packet.
    pub max_requests: u32,
    /// Length of the list at which it asks for a key frame instead.
    pub max_missing: usize,
    /// Packets this far behind the newest are given up.
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
    /// libwebrtc 4d06db557a (2013), `rtp_rtcp_impl.cc` and `jitter_buffer.cc`: age and length bound it.
    pub const OF_2013: NackRules = NackRules {
        repeat_round_trips: 1.5,
        repeat_extra: Time::from_millis(5),
        max_requests: u32::MAX,
        max_missing: 250,
        max_age: 450,
    };
    /// Never asks; what is missing too long is still told apart from what is received twice.
    pub const NEVER: NackRules = NackRules { max_requests: 0, ..NackRules::TODAY };
}

/// Packets given up that are remembered.
const MAX_ABANDONED: usize = 1_000;
/// libwebrtc: the list is looked through at this interval.
const INTERVAL: Time = Time::from_millis(20);
/// Sequence numbers remembered to tell duplicates.
const HISTORY: i64 = 4_096;

struct Missing {
    requests: u32,
    asked: Time,
}

/// What a sequence number turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// In order, or ahead of missing ones.
    New,
    /// One that was missing.
    Filled,
    /// Had been received.
    Duplicate,
}

/// Missing packets of one stream.
pub struct Nack {
    rules: NackRules,
    highest: Option<i64>,
    missing: BTreeMap<i64, Missing>,
    /// Given up, but still welcome.
    abandoned: VecDeque<i64>,
    next_check: Option<Time>,
    overflow: bool,
}

impl Nack {
    /// Nothing is missing yet.
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

    /// A packet arrived, by its unwrapped sequence number.
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

    /// Whether too much is missing to be repaired; true once for each time.
    pub fn take_overflow(&mut self) -> bool {
        std::mem::take(&mut self.overflow)
    }

    /// Forgets what lies before `seq`.
    pub fn forget_before(&mut self, seq: i64) {
        self.missing = self.missing.split_off(&seq);
    }

    /// When to call [`Nack::poll`] again.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.next_check.filter(|_| !self.missing.is_empty())
    }

    /// The sequence numbers to ask for now.
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
    fn a_gap_is_asked_for_at_once_and_again_after_a_round_trip() {
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
    fn a_packet_is_asked_for_ten_times_and_then_never_again() {
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
    fn a_jump_of_more_than_a_thousand_asks_for_nothing_but_a_key_frame() {
        let mut nack = Nack::new(NackRules::TODAY);
        nack.on_packet(Time::ZERO, 1);
        nack.on_packet(Time::ZERO, 2_000);
        assert!(ask(&mut nack, Time::ZERO).is_empty());
        assert!(nack.take_overflow() && !nack.take_overflow());
    }

    #[test]
    fn in_2013_a_packet_is_asked_for_again_after_one_and_a_half_round_trips_and_5_ms() {
        let mut nack = Nack::new(NackRules::OF_2013);
        nack.on_packet(Time::ZERO, 1);
        nack.on_packet(Time::ZERO, 3);
        // 100 ms of round trip: 155 ms, on the next look of 20 ms
        let asked: Vec<u64> = (0..=400)
            .step_by(5)
            .filter(|ms| !ask(&mut nack, Time::from_millis(*ms)).is_empty())
            .collect();
        assert_eq!(asked, [0, 160, 320]);
    }

    #[test]
    fn in_2013_a_packet_450_behind_the_newest_is_given_up() {
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
