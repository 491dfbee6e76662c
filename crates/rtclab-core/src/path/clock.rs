//! The clock with which an emulating box measures its delay.

use crate::limits::{self, Checked};
use crate::normal::StandardNormal;
use crate::units::Time;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Time between changes of the clock's rate: the tick of a kernel at 1000 Hz.
const STEP: Time = Time::from_millis(1);
/// Lower limit of the clock's rate, because a clock does not stop.
const SLOWEST: f64 = 0.1;

/// A clock whose rate varies, like the timer of a virtual machine whose host catches up on missed ticks.
/// A delay measured by it varies too, and a long one more than a short one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clock {
    /// Relative standard deviation of the rate, which is Gaussian with an exponential autocorrelation.
    pub wander: f64,
    /// Time after which the autocorrelation of the rate has fallen to 1/e.
    pub correlation_ns: Time,
}

/// Longest delay that a clock measures. Readings, one for each millisecond, are kept for as long.
const LONGEST_MEASURED: Time = Time::from_secs(3_600);
/// Largest deviation of the rate, relative to the rate.
const MAX_WANDER: f64 = 10.0;

impl Clock {
    pub(super) fn check(&self, longest: Time) -> Checked {
        limits::number("wander", self.wander, (0.0, MAX_WANDER))?;
        limits::duration("correlation_ns", self.correlation_ns)?;
        let (value, most) = (longest.0, LONGEST_MEASURED.0);
        let expected = format!("a delay of at most {most} ns beside a clock");
        let fits = longest <= LONGEST_MEASURED;
        limits::require(fits, "wander", format_args!("with a delay of {value} ns it"), expected)
    }
}

/// Readings of a clock, generated as needed.
pub(super) struct ClockReadings {
    clock: Option<Clock>,
    rng: Pcg64Mcg,
    deviation: f64,
    /// Readings in ns at successive steps, the first one at step `begin`.
    readings: VecDeque<f64>,
    begin: u64,
}

impl ClockReadings {
    pub(super) fn new(clock: Option<Clock>, seed: u64) -> Self {
        let mut rng = Pcg64Mcg::seed_from_u64(seed ^ 0x636c_6f63_6b00);
        let deviation = rng.sample(StandardNormal);
        ClockReadings { clock, rng, deviation, readings: VecDeque::from([0.0]), begin: 0 }
    }

    pub(super) fn set(&mut self, clock: Option<Clock>) {
        self.clock = clock;
    }

    /// Time that the clock takes from `now` on to count `delay`. Calls must be ordered by time.
    #[inline]
    pub(super) fn count(&mut self, now: Time, delay: Time) -> Time {
        match self.clock {
            // Exact, because in a box with ticks 1 ns less would be a whole tick less.
            Some(clock) if clock.wander > 0.0 => self.count_wandering(clock, now, delay),
            _ => delay,
        }
    }

    fn count_wandering(&mut self, clock: Clock, now: Time, delay: Time) -> Time {
        let step = now.0 / STEP.0;
        self.read_until(clock, |this| this.begin + this.readings.len() as u64 > step + 1);
        while self.begin < step {
            self.readings.pop_front();
            self.begin += 1;
        }
        let (from, to) = (self.readings[0], self.readings[1]);
        let end = from + (to - from) * (now.0 % STEP.0) as f64 / STEP.0 as f64 + delay.0 as f64;
        self.read_until(clock, |this| this.readings.back().is_some_and(|last| *last > end));
        let after = self.readings.partition_point(|reading| *reading <= end).max(1);
        let (from, to) = (self.readings[after - 1], self.readings[after]);
        let steps = (self.begin + after as u64 - 1) as f64 + (end - from) / (to - from);
        Time((steps * STEP.0 as f64) as u64).saturating_sub(now)
    }

    fn read_until(&mut self, clock: Clock, enough: impl Fn(&Self) -> bool) {
        let correlation = libm::exp(-STEP.as_secs_f64() / clock.correlation_ns.as_secs_f64());
        let fresh = (1.0 - correlation * correlation).sqrt();
        while !enough(self) {
            let noise: f64 = self.rng.sample(StandardNormal);
            self.deviation = correlation * self.deviation + fresh * noise;
            let rate = (1.0 + clock.wander * self.deviation).max(SLOWEST);
            let last = self.readings.back().copied().unwrap_or_default();
            self.readings.push_back(last + rate * STEP.0 as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(wander: f64, correlation: Time, delay: Time) -> Vec<f64> {
        let clock = Clock { wander, correlation_ns: correlation };
        let mut readings = ClockReadings::new(Some(clock), 1);
        (0..40_000)
            .map(|i| readings.count(Time::from_millis(10 * i), delay).as_secs_f64())
            .collect()
    }

    fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance =
            values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / values.len() as f64;
        (mean, variance.sqrt())
    }

    #[test]
    fn a_delay_varies_by_the_integral_of_the_rate_over_it() {
        // The integral over D of a rate with standard deviation s and correlation time c has the variance
        // 2 s^2 c^2 (D/c - 1 + exp(-D/c)). With 2 %, 100 ms and 200 ms that is 3.01 ms squared.
        let (mean, deviation) =
            mean_and_deviation(&counted(0.02, Time::from_millis(100), Time::from_millis(200)));
        assert!((0.1995..0.2005).contains(&mean), "{mean}");
        assert!((0.0028..0.0032).contains(&deviation), "{deviation}");
    }

    #[test]
    fn a_clock_without_wander_loses_no_nanosecond() {
        let clock = Clock { wander: 0.0, correlation_ns: Time::from_millis(100) };
        let mut readings = ClockReadings::new(Some(clock), 1);
        let delay = Time::from_millis(50);
        let early = (0..100_000)
            .filter(|i| readings.count(Time::from_micros(1_337 * i), delay) < delay)
            .count();
        assert_eq!(early, 0);
    }

    #[test]
    fn a_packet_that_enters_later_leaves_later() {
        let delays = counted(0.3, Time::from_millis(20), Time::from_millis(100));
        for (i, pair) in delays.windows(2).enumerate() {
            assert!(pair[1] + 0.010 >= pair[0], "at {i}: {pair:?}");
        }
    }
}
