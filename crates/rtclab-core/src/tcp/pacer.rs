//! Spreads what leaves over time, as Linux does within TCP (`tcp_output.c`).

use super::{INITIAL_WINDOW, MAX_SEGMENT_BYTES};
use crate::units::Time;

/// Linux, `sk_pacing_shift`: a burst has what is sent in 1/1024 s …
const BURSTS_PER_SECOND: f64 = 1024.0;
/// … but two segments at least, or one below 1.2 Mbit/s (`tcp_bbr.c`), here in segments per second.
const SINGLE_BELOW: f64 = 1.2e6 / 8.0 / MAX_SEGMENT_BYTES as f64;
/// A pacing rate of almost nothing still sends once in a while.
const MAX_GAP: Time = Time::from_secs(10);

/// Segments that leave back to back at `rate` segments per second.
pub(super) fn burst(rate: f64) -> u32 {
    let least = if rate < SINGLE_BELOW { 1 } else { 2 };
    ((rate / BURSTS_PER_SECOND) as u32).max(least)
}

/// When the next segment may leave.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pacer {
    next: Time,
    /// By how much the burst left later than it might have.
    credit: Time,
    /// Segments of the burst that have not left.
    left: u32,
    /// Segments up to the end of the burst.
    sent: u64,
}

impl Pacer {
    /// When the next burst may leave.
    pub(super) fn next(&self) -> Time {
        self.next
    }

    /// Whether a segment may leave at `rate` segments per second; counts it if so.
    pub(super) fn admits(&mut self, now: Time, rate: f64) -> bool {
        if self.left == 0 {
            if now < self.next {
                return false;
            }
            self.credit = now.saturating_sub(self.next);
            self.next = now;
            self.left = burst(rate);
            self.sent += u64::from(self.left);
        }
        self.left -= 1;
        // Linux does not hold back what follows the first segments of a connection but the last of them.
        if self.sent >= u64::from(INITIAL_WINDOW) {
            let gap = Time::from_secs_f64(1.0 / rate.max(f64::MIN_POSITIVE)).min(MAX_GAP);
            // What was late is made up for, up to half of a gap.
            let made_up = self.credit.min(Time(gap.0 / 2));
            self.credit = self.credit.saturating_sub(made_up);
            self.next += gap.saturating_sub(made_up);
        }
        true
    }

    /// The next segment leaves at once.
    pub(super) fn release(&mut self, now: Time) {
        self.next = now;
        self.left = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When the first `count` segments leave, offered at `rate` from `start` whenever they may.
    fn departures(pacer: &mut Pacer, start: Time, rate: f64, count: usize) -> Vec<Time> {
        let mut now = start;
        let mut at = Vec::new();
        while at.len() < count {
            if pacer.admits(now, rate) {
                at.push(now);
            } else {
                now = pacer.next();
            }
        }
        at
    }

    #[test]
    fn the_first_ten_segments_leave_at_once_and_the_others_by_twos() {
        // 1000 segments/s: two every 2 ms; the fifth pair is the first that is followed by a gap.
        let at = departures(&mut Pacer::default(), Time::ZERO, 1000.0, 16);
        let ms: Vec<u64> = at.iter().map(|at| at.as_millis()).collect();
        assert_eq!(ms, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 4, 4, 6, 6]);
    }

    #[test]
    fn below_a_megabit_and_two_tenths_segments_leave_one_by_one() {
        // 1.2 Mbit/s are 150 000 B/s, 103.6 segments of 1448 B. From 3 * 1024 segments/s on there are three.
        assert_eq!([103.0, 104.0, 3071.0, 3072.0].map(burst), [1, 2, 2, 3]);
    }

    #[test]
    fn what_leaves_late_is_followed_after_half_a_gap_until_that_is_made_up_for() {
        let mut pacer = Pacer::default();
        departures(&mut pacer, Time::ZERO, 1000.0, 10);
        // Due at 2 ms, asked for at 5 ms: 3 ms late. Two segments have a gap of 2 ms, of which half is
        // 1 ms; what is left of the lateness is forgotten, since the next pair is not late.
        let at = departures(&mut pacer, Time::from_millis(5), 1000.0, 6);
        let ms: Vec<u64> = at.iter().map(|at| at.as_millis()).collect();
        assert_eq!(ms, [5, 5, 6, 6, 8, 8]);
    }
}
