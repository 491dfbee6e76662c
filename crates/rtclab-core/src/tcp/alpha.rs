//! The share of marked segments, as DCTCP and Prague estimate it.

use super::congestion_control::Marks;
use crate::units::Time;

/// RFC 8257, section 3.3: gain g of the estimate (`dctcp_shift_g` in Linux).
const GAIN: f64 = 1.0 / 16.0;

/// A round trip: from a moment until a segment sent later is acknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    start: Time,
    next: u32,
}

impl Round {
    pub(super) fn begin(now: Time, next: u32) -> Self {
        Round { start: now, next }
    }

    /// Whether a segment sent after its beginning is acknowledged, and it has taken at least `least`.
    pub(super) fn is_over(&self, now: Time, una: u32, least: Time) -> bool {
        una > self.next && now.saturating_sub(self.start) >= least
    }
}

/// Moving average of the share of marked segments (RFC 8257, section 3.3).
#[derive(Clone, Debug)]
pub(super) struct Alpha {
    value: f64,
    /// Minimum duration of the rounds in which the share is taken.
    least: Time,
    /// Whether a mark is awaited before the average changes.
    waits: bool,
    round: Option<Round>,
    delivered: u64,
    marked: u64,
}

impl Alpha {
    /// Begins with a share of one, so that the first mark halves the window (RFC 8257, section 3.5). If it `waits`,
    /// the average does not change before the first mark.
    pub(super) fn new(least: Time, waits: bool) -> Self {
        Alpha { value: 1.0, least, waits, round: None, delivered: 0, marked: 0 }
    }

    pub(super) fn value(&self) -> f64 {
        self.value
    }

    /// Counts the marks of an acknowledgement; once per round trip, moves the average.
    pub(super) fn on_marks(&mut self, marks: &Marks) {
        let Marks { now, una, next, .. } = *marks;
        self.delivered += u64::from(marks.delivered);
        self.marked += u64::from(marks.marked.min(marks.delivered));
        self.waits &= self.marked == 0;
        let round = self.round.get_or_insert(Round::begin(now, next));
        if !round.is_over(now, una, self.least) {
            return;
        }
        *round = Round::begin(now, next);
        let share = self.marked as f64 / self.delivered.max(1) as f64;
        if !self.waits {
            self.value += GAIN * (share - self.value);
        }
        (self.delivered, self.marked) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An acknowledgement of a whole round of ten segments, `ms` after the beginning.
    fn round(ms: u64, number: u32, marked: u32) -> Marks {
        let una = 10 * number + 1;
        Marks { now: Time::from_millis(ms), delivered: 10, marked, una, next: una + 9 }
    }

    #[test]
    fn the_average_moves_by_a_sixteenth_of_the_difference_each_round() {
        let mut alpha = Alpha::new(Time::ZERO, false);
        // The first acknowledgement begins a round.
        alpha.on_marks(&round(0, 0, 0));
        assert_eq!(alpha.value(), 1.0);
        // Half of 20 segments, then 3 of 10, then none: 15/16 + 0.5/16, and so on.
        alpha.on_marks(&round(50, 1, 10));
        assert!((alpha.value() - 0.968_75).abs() < 1e-12);
        alpha.on_marks(&round(100, 2, 3));
        assert!((alpha.value() - (0.968_75 * 15.0 / 16.0 + 0.3 / 16.0)).abs() < 1e-12);
        let before = alpha.value();
        alpha.on_marks(&round(150, 3, 0));
        assert!((alpha.value() - before * 15.0 / 16.0).abs() < 1e-12);
    }

    #[test]
    fn rounds_last_at_least_as_long_as_asked_and_the_average_waits_for_a_mark() {
        let mut alpha = Alpha::new(Time::from_millis(25), true);
        // Four rounds of 10 ms without marks.
        (0..4).for_each(|n| alpha.on_marks(&round(10 * u64::from(n), n, 0)));
        assert_eq!(alpha.value(), 1.0);
        // The round began at 30 ms, because its predecessor was over 30 ms after 0.
        alpha.on_marks(&round(40, 4, 4));
        alpha.on_marks(&round(50, 5, 0));
        assert_eq!(alpha.value(), 1.0);
        // 4 of 30 segments.
        alpha.on_marks(&round(60, 6, 0));
        assert!((alpha.value() - (15.0 + 4.0 / 30.0) / 16.0).abs() < 1e-12, "{}", alpha.value());
    }

    /// More marks than segments cannot be.
    #[test]
    fn the_average_stays_between_zero_and_one() {
        let mut alpha = Alpha::new(Time::ZERO, false);
        for number in 0..100 {
            alpha.on_marks(&round(u64::from(number), number, u32::MAX));
            assert!((0.0..=1.0).contains(&alpha.value()));
        }
        assert_eq!(alpha.value(), 1.0);
    }
}
