//! Trend of the one-way delay, and the over-use detector with its adaptive threshold.
//!
//! Source: libwebrtc, `trendline_estimator.cc`; draft-ietf-rmcat-gcc-02, section 5.4.

use super::arithmetic::{MS, thousands};
use super::inter_arrival::Deltas;
use crate::cc::receive_side::overuse::Overuse;
use crate::cc::receive_side::state::Usage;

/// Deltas count up to this many.
const MAX_DELTAS: u32 = 1_000;
/// The trend is multiplied by the number of deltas, up to this many.
const FULL_DELTAS: u32 = 60;
/// The detector says nothing before this many deltas.
const MIN_DELTAS: u32 = 2;
/// Over-use must last longer than this, in ms.
const OVER_USE_MS: f64 = 10.0;
/// Points are kept for this many windows.
const POINT_WINDOWS: usize = 4;

/// Constants of the trend and of the detector.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TrendlineConfig {
    /// Number of points of the line.
    pub(super) window: usize,
    /// Weight of the past in the smoothed delay.
    pub(super) smoothing: f64,
    /// The trend is multiplied by this.
    pub(super) gain: f64,
    /// Threshold at first, in ms.
    pub(super) threshold_ms: f64,
    /// Gain of the threshold per ms while the trend exceeds it.
    pub(super) k_up: f64,
    /// Gain of the threshold per ms while the trend is below it.
    pub(super) k_down: f64,
}

impl Default for TrendlineConfig {
    fn default() -> Self {
        TrendlineConfig {
            window: 20,
            smoothing: 0.9,
            gain: 4.0,
            threshold_ms: 12.5,
            k_up: 0.0087,
            k_down: 0.039,
        }
    }
}

/// Fits a line through the last delays, and compares its slope with a threshold.
#[derive(Debug)]
pub(super) struct Trendline {
    config: TrendlineConfig,
    deltas: u32,
    first_arrival_ms: Option<i64>,
    accumulated_ms: f64,
    smoothed_ms: f64,
    /// Arrival since the first and smoothed delay, in ms. The last [`TrendlineConfig::window`] of them count.
    points: Vec<(f64, f64)>,
    slope: f64,
    overuse: Overuse,
    adapted_ms: Option<i64>,
}

impl Trendline {
    /// Starts without any delay.
    pub(super) fn new(config: TrendlineConfig) -> Self {
        Trendline {
            config,
            deltas: 0,
            first_arrival_ms: None,
            accumulated_ms: 0.0,
            smoothed_ms: 0.0,
            points: Vec::with_capacity(POINT_WINDOWS * config.window),
            slope: 0.0,
            overuse: Overuse::new(config.threshold_ms),
            adapted_ms: None,
        }
    }

    /// What the detector concluded last.
    pub(super) fn usage(&self) -> Usage {
        self.overuse.usage()
    }

    /// What is compared with the threshold, in ms: the slope times number of deltas and gain.
    pub(super) fn trend_ms(&self) -> f64 {
        self.overuse.value_ms()
    }

    /// The threshold, in ms.
    pub(super) fn threshold_ms(&self) -> f64 {
        self.overuse.threshold_ms()
    }

    /// Adds the deltas of two groups at the arrival of the packet that ended them, in microseconds.
    pub(super) fn add(&mut self, deltas: Deltas, arrival: i64) {
        let (send_ms, arrival_ms) = (millis(deltas.send), thousands(arrival));
        self.deltas = (self.deltas + 1).min(MAX_DELTAS);
        let first_ms = *self.first_arrival_ms.get_or_insert(arrival_ms);
        self.accumulated_ms += millis(deltas.arrival) - send_ms;
        let smoothing = self.config.smoothing;
        self.smoothed_ms = smoothing * self.smoothed_ms + (1.0 - smoothing) * self.accumulated_ms;
        // All points are read at each delta, which is faster if they stay in one piece. Old ones are seldom removed.
        let window = self.config.window;
        if self.points.len() == POINT_WINDOWS * window {
            self.points.drain(..=self.points.len() - window);
        }
        self.points.push(((arrival_ms - first_ms) as f64, self.smoothed_ms));
        let last = self.points.len().checked_sub(window).map(|before| &self.points[before..]);
        let slope = last.and_then(slope).unwrap_or(self.slope);
        self.detect(slope, send_ms, arrival_ms);
    }

    fn detect(&mut self, slope: f64, send_ms: f64, now_ms: i64) {
        if self.deltas < MIN_DELTAS {
            return;
        }
        let trend_ms = f64::from(self.deltas.min(FULL_DELTAS)) * slope * self.config.gain;
        self.overuse.compare(trend_ms, slope >= self.slope, send_ms, OVER_USE_MS);
        self.slope = slope;
        let since_ms = self.adapted_ms.replace(now_ms).unwrap_or(now_ms);
        self.overuse.adapt((self.config.k_up, self.config.k_down), (now_ms - since_ms) as f64);
    }
}

fn millis(us: i64) -> f64 {
    us as f64 / MS as f64
}

/// Slope of the least-squares line; `None` if all points have the same time.
fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let count = points.len() as f64;
    let (sum_x, sum_y) = points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0, y + point.1));
    let (mean_x, mean_y) = (sum_x / count, sum_y / count);
    let (mut numerator, mut denominator) = (0.0, 0.0);
    for (x, y) in points {
        let dx = x - mean_x;
        numerator += dx * (y - mean_y);
        denominator += dx * dx;
    }
    (denominator != 0.0).then(|| numerator / denominator)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Groups sent every 20 ms that arrive `arrival_ms` apart. Returns (trend, threshold, usage) after each
    /// delta.
    fn run(arrival_ms: i64, deltas: i64) -> Vec<(f64, f64, Usage)> {
        let mut trendline = Trendline::new(TrendlineConfig::default());
        (1..=deltas)
            .map(|i| {
                let delta = Deltas { send: 20 * MS, arrival: arrival_ms * MS };
                trendline.add(delta, arrival_ms * i * MS);
                (trendline.trend_ms(), trendline.threshold_ms(), trendline.usage())
            })
            .collect()
    }

    fn close(value: f64, expected: f64, digits: i32) -> bool {
        (value - expected).abs() <= 0.5 * libm::exp10(f64::from(-digits)) * 1.000_001
    }

    #[test]
    fn a_growing_delay_is_over_use_at_the_24th_delta() {
        let steps = run(22, 24);
        let at = |delta: usize| steps[delta - 1];
        assert!(at(2).1 == 12.5 && at(3).1 == 6.0, "{:?}", &steps[..3]);
        assert!(close(at(20).0, 4.7297, 4) && close(at(22).0, 5.7341, 4), "{steps:?}");
        assert!(close(at(23).0, 6.2317, 4) && close(at(23).1, 6.044_341, 6), "{steps:?}");
        assert!(close(at(24).0, 6.7251, 4) && close(at(24).1, 6.174_634, 6), "{steps:?}");
        assert!(steps[..23].iter().all(|step| step.2 == Usage::Normal));
        assert_eq!(at(24).2, Usage::Over);
    }

    #[test]
    fn a_falling_delay_is_under_use_at_the_20th_delta_and_a_constant_one_never() {
        let steps = run(17, 20);
        assert!(close(steps[19].0, -9.1811, 4) && close(steps[19].1, 6.47049, 5), "{steps:?}");
        assert!(steps[..19].iter().all(|step| step.2 == Usage::Normal));
        assert_eq!(steps[19].2, Usage::Under);
        assert!(run(20, 200).iter().all(|step| step.2 == Usage::Normal));
    }
}
