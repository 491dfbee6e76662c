//! Queuing delay, its trend and its target (RFC 8298, sections 4.1.2 and 4.1.2.3).

use crate::cc::reals::{MS, SECOND, between};
use std::collections::VecDeque;

/// Samples of the delay over its target, one every 50 ms, from which the trend is taken.
const TREND_SAMPLES: usize = 20;
const TREND_INTERVAL: f64 = 50.0 * MS;
/// QDELAY_WEIGHT.
const WEIGHT: f64 = 0.1;
/// Samples of the delay whose variance shows competing flows, and whose mean shows the level.
const VARIANCE_SAMPLES: usize = 200;
const MEAN_SAMPLES: usize = 50;
/// Loss event rate above which competing flows are taken to fill the queue.
const COMPETING_LOSS: f64 = 0.002;
/// Variance of the delay over the lower target below which the delay is steady.
const STEADY: f64 = 0.2;
/// Intervals of the base delay, of a minute each (RFC 6817, section 4.2).
const BASE_INTERVALS: usize = 10;
const BASE_INTERVAL: f64 = 60.0 * SECOND;

/// The smallest one-way delay of the last minutes.
#[derive(Clone, Debug, Default)]
struct Base {
    /// Smallest of each minute, the oldest first.
    minima: VecDeque<f64>,
    since: f64,
}

impl Base {
    fn update(&mut self, now: f64, delay: f64) -> f64 {
        match self.minima.back_mut().filter(|_| now - self.since < BASE_INTERVAL) {
            Some(running) => *running = running.min(delay),
            None => {
                self.minima.push_back(delay);
                self.since = now;
            }
        }
        if self.minima.len() > BASE_INTERVALS {
            self.minima.pop_front();
        }
        self.minima.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

/// The last values, the oldest first.
#[derive(Clone, Debug, Default)]
struct Last(VecDeque<f64>);

impl Last {
    fn push(&mut self, value: f64, most: usize) {
        if self.0.len() == most {
            self.0.pop_front();
        }
        self.0.push_back(value);
    }

    fn mean(&self, newest: usize) -> f64 {
        let count = self.0.len().min(newest).max(1);
        self.0.iter().rev().take(newest).sum::<f64>() / count as f64
    }

    /// Sum over pairs `lag` apart of the products of their distances from the mean.
    fn covariance(&self, lag: usize) -> f64 {
        let mean = self.mean(self.0.len());
        let pairs = self.0.iter().zip(self.0.iter().skip(lag));
        pairs.map(|(one, other)| (one - mean) * (other - mean)).sum()
    }
}

/// Bounds on the target of the queuing delay, QDELAY_TARGET_LO and QDELAY_TARGET_HI, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Targets {
    pub(super) low: f64,
    pub(super) high: f64,
}

/// Queuing delay. Times are in microseconds.
#[derive(Clone, Debug)]
pub(super) struct QueuingDelay {
    targets: Targets,
    target: f64,
    base: Base,
    queue: f64,
    /// Average of the delay over its target.
    average: f64,
    samples: Last,
    sampled: f64,
    trend: f64,
    trend_memory: f64,
    /// Delays over the lower target.
    levels: Last,
}

impl QueuingDelay {
    pub(super) fn new(targets: Targets) -> Self {
        QueuingDelay {
            targets,
            target: targets.low,
            base: Base::default(),
            queue: 0.0,
            average: 0.0,
            samples: Last::default(),
            sampled: f64::NEG_INFINITY,
            trend: 0.0,
            trend_memory: 0.0,
            levels: Last::default(),
        }
    }

    /// Takes a one-way delay into account, with whatever offset the clocks have.
    pub(super) fn update(&mut self, now: f64, one_way: f64) {
        self.queue = one_way - self.base.update(now, one_way);
        let fraction = self.queue / self.target;
        self.average = (1.0 - WEIGHT) * self.average + WEIGHT * fraction;
        if now - self.sampled >= TREND_INTERVAL {
            self.sampled = now;
            self.samples.push(fraction, TREND_SAMPLES);
            self.follow_trend();
        }
        self.levels.push(self.queue / self.targets.low, VARIANCE_SAMPLES);
    }

    fn follow_trend(&mut self) {
        let variance = self.samples.covariance(0);
        // Equal samples have no trend; the RFC divides by zero.
        let correlation = if variance > 0.0 { self.samples.covariance(1) / variance } else { 0.0 };
        self.trend = between(correlation * self.average, 0.0, 1.0);
        self.trend_memory = (0.99 * self.trend_memory).max(self.trend);
    }

    /// Raises the target while the queue stays full, as other flows may keep it.
    pub(super) fn follow_target(&mut self, loss_event_rate: f64) {
        let Targets { low, high } = self.targets;
        let variance = self.levels.covariance(0) / self.levels.0.len().max(1) as f64;
        let level = low * (self.levels.mean(MEAN_SAMPLES) + variance.sqrt());
        let target = if loss_event_rate > COMPETING_LOSS {
            1.5 * level
        } else if variance < STEADY {
            level
        } else if level < low {
            (0.5 * self.target).max(level)
        } else {
            0.9 * self.target
        };
        self.target = between(target, low, high);
    }

    /// Queuing delay of the last packet.
    pub(super) fn queue(&self) -> f64 {
        self.queue
    }

    pub(super) fn target(&self) -> f64 {
        self.target
    }

    /// From 0, not growing, to 1.
    pub(super) fn trend(&self) -> f64 {
        self.trend
    }

    /// The largest trend lately.
    pub(super) fn trend_memory(&self) -> f64 {
        self.trend_memory
    }

    #[cfg(test)]
    pub(super) fn set(&mut self, queue: f64, target: f64, trend: f64, trend_memory: f64) {
        *self = QueuingDelay { queue, target, trend, trend_memory, ..self.clone() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delay() -> QueuingDelay {
        QueuingDelay::new(Targets { low: 100.0 * MS, high: 400.0 * MS })
    }

    /// A delay that alternates is anti-correlated: no trend. One that rises by 5 ms every 50 ms from 0 to 95 ms has
    /// R1/R0 = 0.85 for 20 evenly rising values: R0 = n(n²−1)/12 = 665, and R1 = Σ k(k+1) over k = −9.5 to 8.5 = 565.25.
    #[test]
    fn a_rising_delay_has_a_trend_of_its_autocorrelation_times_its_average() {
        let mut rising = delay();
        for n in 0..20 {
            rising.update(f64::from(n) * 50.0 * MS, f64::from(n) * 5.0 * MS);
        }
        let average = (0..20).fold(0.0, |average, n| 0.9 * average + 0.1 * f64::from(n) * 0.05);
        assert!((rising.trend() - 0.85 * average).abs() < 1e-9, "{}", rising.trend());
        let mut alternating = delay();
        for n in 0..20 {
            alternating.update(f64::from(n) * 50.0 * MS, f64::from(n % 2) * 80.0 * MS);
        }
        assert_eq!(alternating.trend(), 0.0);
    }

    #[test]
    fn the_memory_of_a_trend_fades_by_one_per_cent_every_50_ms() {
        let mut delay = delay();
        delay.set(0.0, 100.0 * MS, 0.0, 0.5);
        // Without queue there is no trend. Three samples.
        for n in 0..3 {
            delay.update(f64::from(n) * 50.0 * MS, 7.0);
        }
        assert!((delay.trend_memory() - 0.5 * 0.99 * 0.99 * 0.99).abs() < 1e-12);
    }

    /// A steady delay of 250 ms above the base has variance 0 once the base is out of the last 200 samples: the target
    /// becomes the delay; with loss it becomes 1.5 times as much, 375 ms.
    #[test]
    fn the_target_follows_a_standing_queue_of_others_up_to_its_bound() {
        let mut delay = delay();
        let mut update = |at: f64, one_way_ms: f64, loss_event_rate: f64| {
            delay.update(at, one_way_ms * MS);
            delay.follow_target(loss_event_rate);
            delay.target() / MS
        };
        update(0.0, 0.0, 0.0);
        let steady = (1..=201).map(|n| update(f64::from(n) * 50.0 * MS, 250.0, 0.0)).last();
        assert!((steady.expect("a target") - 250.0).abs() < 1e-3, "{steady:?}");
        let lossy = update(12.0 * SECOND, 250.0, 0.003);
        assert!((lossy - 375.0).abs() < 1e-3, "{lossy}");
        let high = (0..200).map(|n| update(12.0 * SECOND + f64::from(n), 800.0, 0.0)).last();
        assert_eq!(high, Some(400.0));
    }

    /// Within ten minutes the smallest delay is the base, and then it is forgotten.
    #[test]
    fn the_base_delay_is_that_of_ten_minutes() {
        let mut delay = delay();
        delay.update(0.0, 20.0 * MS);
        let minute = 60.0 * SECOND;
        (1..10).for_each(|n| delay.update(f64::from(n) * minute, 50.0 * MS));
        assert_eq!(delay.queue(), 30.0 * MS);
        delay.update(10.0 * minute, 50.0 * MS);
        assert_eq!(delay.queue(), 0.0);
    }
}
