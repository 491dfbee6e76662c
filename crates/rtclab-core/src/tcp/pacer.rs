//! Spreads segments over time, as Linux does within TCP (`tcp_output.c`).

use super::{INITIAL_WINDOW, MAX_SEGMENT_BYTES};
use crate::units::Time;

/// Linux, `sk_pacing_shift`: a burst has what the rate sends in 1/1024 s.
const BURSTS_PER_SECOND: f64 = 1024.0;
/// Linux, `tcp_bbr.c`: a burst has at least two segments, or one below 1.2 Mbit/s. In segments per second.
const SINGLE_BELOW: f64 = 1.2e6 / 8.0 / MAX_SEGMENT_BYTES as f64;
/// Maximum time between two segments, however low the pacing rate is.
const MAX_GAP: Time = Time::from_secs(10);

/// Number of segments in a burst at `rate` segments per second, as in Linux.
pub(super) fn burst(rate: f64) -> u32 {
    let least = if rate < SINGLE_BELOW { 1 } else { 2 };
    ((rate / BURSTS_PER_SECOND) as u32).max(least)
}

/// Decides when the next segment may leave.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pacer {
    next: Time,
    /// How much later than allowed the burst left.
    credit: Time,
    /// Segments of the burst that have not left yet.
    left: u32,
    /// Segments sent by the end of the current burst.
    sent: u64,
}

impl Pacer {
    /// When the next burst may leave.
    pub(super) fn next(&self) -> Time {
        self.next
    }

    /// Whether a segment may leave now at `rate` segments per second, in bursts of `burst` segments. If so, counts it.
    pub(super) fn admits(&mut self, now: Time, rate: f64, burst: u32) -> bool {
        if self.left == 0 {
            if now < self.next {
                return false;
            }
            self.credit = now.saturating_sub(self.next);
            self.next = now;
            self.left = burst.max(1);
            self.sent += u64::from(self.left);
        }
        self.left -= 1;
        // Linux: no gap follows the first segments, up to the burst that completes the initial window.
        if self.sent >= u64::from(INITIAL_WINDOW) {
            let gap = Time::from_secs_f64(1.0 / rate.max(f64::MIN_POSITIVE)).min(MAX_GAP);
            // A late burst is made up for by up to half a gap per segment.
            let made_up = self.credit.min(Time(gap.0 / 2));
            self.credit = self.credit.saturating_sub(made_up);
            self.next += gap.saturating_sub(made_up);
        }
        true
    }

    /// Lets the next segment leave at once.
    pub(super) fn release(&mut self, now: Time) {
        self.next = now;
        self.left = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Departure times of `count` segments that are always waiting from `start` on.
    fn departures(pacer: &mut Pacer, start: Time, rate: f64, count: usize) -> Vec<Time> {
        let mut now = start;
        let mut at = Vec::new();
        while at.len() < count {
            if pacer.admits(now, rate, burst(rate)) {
                at.push(now);
            } else {
                now = pacer.next();
            }
        }
        at
    }

    #[test]
    fn the_first_ten_segments_leave_at_once_and_later_ones_in_pairs() {
        // 1000 segments/s: two every 2 ms. The fifth pair is the first that is followed by a gap.
        let at = departures(&mut Pacer::default(), Time::ZERO, 1000.0, 16);
        let ms: Vec<u64> = at.iter().map(|at| at.as_millis()).collect();
        assert_eq!(ms, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 4, 4, 6, 6]);
    }

    #[test]
    fn below_1_2_mbps_segments_leave_one_by_one() {
        // 1.2 Mbit/s are 150 000 B/s, or 103.6 segments of 1448 B. From 3 * 1024 segments/s on, a burst has
        // three.
        assert_eq!([103.0, 104.0, 3071.0, 3072.0].map(burst), [1, 2, 2, 3]);
    }

    #[test]
    fn a_late_burst_is_made_up_for_by_half_of_the_following_gap() {
        let mut pacer = Pacer::default();
        departures(&mut pacer, Time::ZERO, 1000.0, 10);
        // The burst is due at 2 ms and leaves at 5 ms: 3 ms late. The gap after two segments is 2 ms, half of
        // which is 1 ms. The rest of the lateness is forgotten because the next pair is not late.
        let at = departures(&mut pacer, Time::from_millis(5), 1000.0, 6);
        let ms: Vec<u64> = at.iter().map(|at| at.as_millis()).collect();
        assert_eq!(ms, [5, 5, 6, 6, 8, 8]);
    }
}
