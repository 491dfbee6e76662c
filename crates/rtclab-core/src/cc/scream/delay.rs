//! Round-trip time and queuing delay. Source: `delay_based_congestion_control.cc`.

use super::options::ScreamConfig;
use super::report::Report;
use crate::cc::reals::between;
use std::collections::VecDeque;

/// Delays and their averages, in microseconds.
#[derive(Clone, Debug)]
pub(super) struct DelayAverages {
    rtt: f64,
    /// Smallest one-way delays of the last intervals, the oldest first.
    minima: VecDeque<f64>,
    /// Smallest one-way delay of the running interval.
    running: f64,
    running_since: Option<f64>,
    /// Queuing delay of the last report.
    last: f64,
    average: f64,
    min_average: f64,
    spread_average: f64,
    /// Since when the queue has not been seen empty.
    standing_since: Option<f64>,
}

impl DelayAverages {
    pub(super) fn new() -> Self {
        DelayAverages {
            rtt: 0.0,
            minima: VecDeque::new(),
            running: f64::INFINITY,
            running_since: None,
            last: f64::INFINITY,
            average: f64::INFINITY,
            min_average: 0.0,
            spread_average: 0.0,
            standing_since: None,
        }
    }

    /// Takes a report into account.
    pub(super) fn update(&mut self, config: &ScreamConfig, report: &Report, in_alr: bool) {
        self.running = self.running.min(report.min_delay);
        let gain = if in_alr { config.rtt_gain_in_alr } else { config.rtt_gain };
        self.rtt = match self.rtt == 0.0 {
            true => report.rtt,
            false => report.rtt * gain + self.rtt * (1.0 - gain),
        };
        let queue = report.min_delay - self.base();
        self.standing_since = match queue > config.drain_threshold {
            true => self.standing_since.or(Some(report.now)),
            false => None,
        };
        self.average_queue(config, queue.min(self.last));
        self.last = queue;
        let gain = config.jitter_gain;
        let follow = |average: &mut f64, value: f64| {
            *average = (1.0 - gain) * *average + gain * value;
        };
        follow(&mut self.min_average, queue.min(2.0 * config.queue_threshold));
        let spread = report.max_delay - report.min_delay;
        follow(&mut self.spread_average, spread.min(2.0 * config.spread_threshold));
        self.store(config, report.now);
    }

    /// The average falls at once and rises slowly.
    fn average_queue(&mut self, config: &ScreamConfig, queue: f64) {
        self.average = match queue < self.average {
            true => queue,
            false => config.queue_gain * queue + (1.0 - config.queue_gain) * self.average,
        };
    }

    /// Ends the running interval when it is over. The first one ends with the first report.
    fn store(&mut self, config: &ScreamConfig, now: f64) {
        if self.running_since.is_some_and(|since| now - since < config.base_interval) {
            return;
        }
        while self.minima.len() >= config.base_intervals {
            self.minima.pop_front();
        }
        self.minima.push_back(self.running);
        self.running = f64::INFINITY;
        self.running_since = Some(now);
    }

    /// Smallest one-way delay that is known.
    fn base(&self) -> f64 {
        self.minima.iter().copied().fold(self.running, f64::min)
    }

    /// Forgets all queuing delays, so that the next one becomes the base.
    pub(super) fn reset_queue(&mut self) {
        *self = DelayAverages { rtt: self.rtt, last: self.last, ..DelayAverages::new() };
    }

    /// Smoothed round-trip time.
    pub(super) fn rtt(&self) -> f64 {
        self.rtt
    }

    /// Average queuing delay; infinite before the first report.
    pub(super) fn queue(&self) -> f64 {
        self.average
    }

    /// Whether the queue counts as congestion.
    pub(super) fn is_queue_detected(&self, config: &ScreamConfig) -> bool {
        self.average.is_finite() && self.average > config.queue_target / 2.0
    }

    /// The share of marks that the queuing delay stands for.
    pub(super) fn virtual_alpha(&self, config: &ScreamConfig) -> f64 {
        let half = config.queue_target / 2.0;
        between((self.average - half) / half, 0.0, 1.0)
    }

    /// Whether the queue was seen empty lately.
    pub(super) fn is_drained_in_time(&self, config: &ScreamConfig, now: f64) -> bool {
        self.standing_since.is_none_or(|since| now - since < config.drain_period)
    }

    /// Factor of changes of the window while the smallest delay of reports is high: 1 to a quarter of the threshold,
    /// `least` or 0.1 at the threshold.
    pub(super) fn queue_scale(&self, config: &ScreamConfig, least: f64) -> f64 {
        scale(self.min_average, config.queue_threshold, least)
    }

    /// The same for the spread of delays within reports.
    pub(super) fn spread_scale(&self, config: &ScreamConfig) -> f64 {
        scale(self.spread_average, config.spread_threshold, 0.1)
    }

    #[cfg(test)]
    pub(super) fn set(&mut self, rtt: f64, average: f64, min_average: f64, spread_average: f64) {
        *self = DelayAverages { rtt, average, min_average, spread_average, ..self.clone() };
    }
}

fn scale(average: f64, threshold: f64, least: f64) -> f64 {
    between(0.1 + 1.2 * (threshold - average) / threshold, least, 1.0)
}
