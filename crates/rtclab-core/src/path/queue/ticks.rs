//! Updates of a controller at fixed times, made when its queue is touched.

use crate::limits::{self, Checked};
use crate::units::Time;

/// The probability 1. Whole numbers, so that many updates at once are exactly as many single ones.
pub(super) const ONE: i64 = GAIN_ONE * 1_000_000_000;
const GAIN_ONE: i64 = 1 << 20;

/// Highest gain in 1/s: from there on 1 ms of delay is everything.
const MOST: f64 = 1_000.0;

/// Gain of a controller: probability per second of delay.
#[derive(Clone, Copy)]
pub(super) struct Gain(i64);

impl Gain {
    pub(super) fn check(field: &str, gain: f64) -> Checked {
        limits::number(field, gain, (0.0, MOST))
    }

    /// From a gain in 1/s.
    pub(super) fn new(gain: f64) -> Self {
        Gain((gain * GAIN_ONE as f64).round_ties_even() as i64)
    }

    /// The gain times `delay - reference`.
    pub(super) fn times(self, delay: Time, reference: Time) -> i128 {
        i128::from(self.0) * (i128::from(delay.0) - i128::from(reference.0))
    }
}

/// Times of updates: a multiple of a period after a beginning.
pub(super) struct Ticks {
    next: Time,
    period: Time,
}

impl Ticks {
    /// The first update is a period after `now`.
    pub(super) fn new(now: Time, period: Time) -> Self {
        Ticks { next: now.saturating_add(period), period }
    }

    /// Replaces the period; the next update is at most the new one away.
    pub(super) fn set(&mut self, now: Time, period: Time) {
        *self = Ticks { next: self.next.min(now.saturating_add(period)), period };
    }

    /// The first update that is due by `now`, and how many are; `None` if none is.
    #[inline]
    pub(super) fn by(&mut self, now: Time) -> Option<(Time, u64)> {
        if now < self.next {
            return None;
        }
        let first = self.next;
        let count = (now - first).0 / self.period.0.max(1) + 1;
        self.next = Time(first.0.saturating_add(self.period.0.max(1).saturating_mul(count)));
        Some((first, count))
    }
}
