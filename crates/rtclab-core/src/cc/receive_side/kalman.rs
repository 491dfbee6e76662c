//! Kalman filters that estimate how the one-way delay changes from group to group.

use super::groups::Deltas;
use super::state::Usage;
use std::collections::VecDeque;

/// Maximum number of differences counted.
const MAX_COUNT: u32 = 1_000;
/// Number of differences over which the shortest spacing of groups is taken.
const PERIODS: usize = 60;
/// Group spacing that the process noise refers to: 30 groups a second.
const REFERENCE_PERIOD_MS: f64 = 1_000.0 / 30.0;
/// Smoothing gain of the noise variance at 30 groups a second: early, and later.
const NOISE_GAIN: (f64, f64) = (0.01, 0.002);
/// Number of differences that use the early gain.
const EARLY: u32 = 300;
/// A residual beyond this many standard deviations is clamped to it before it enters the variance.
const OUTLIER_DEVIATIONS: f64 = 3.0;
/// Initial variance of the noise, in ms^2.
const INITIAL_NOISE: f64 = 50.0;
/// While the offset returns from an extreme, this many times its process noise is added once more.
const RETURN_FACTOR: f64 = 10.0;

/// Variant of the two-state filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct KalmanConfig {
    /// Process noise of slope and offset, per group.
    pub(crate) process_noise: [f64; 2],
    /// Whether the process noise is per 33.3 ms instead of per group.
    pub(crate) per_period: bool,
    /// The variance of the noise never falls below this, in ms^2.
    pub(crate) noise_floor: f64,
    /// Whether an outlier keeps its sign.
    pub(crate) signed_outliers: bool,
}

/// The history that both filters keep.
struct SpacingHistory {
    count: u32,
    periods: VecDeque<f64>,
}

impl SpacingHistory {
    fn new() -> Self {
        SpacingHistory { count: 0, periods: VecDeque::new() }
    }

    /// Counts a difference and returns the shortest recent spacing, in ms.
    fn add(&mut self, send_ms: f64) -> f64 {
        self.count = (self.count + 1).min(MAX_COUNT);
        if self.periods.len() == PERIODS {
            self.periods.pop_front();
        }
        self.periods.push_back(send_ms);
        self.periods.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// Weight of the old variance for groups this far apart.
    fn keep(&self, period_ms: f64) -> f64 {
        let gain = if self.count <= EARLY { NOISE_GAIN.0 } else { NOISE_GAIN.1 };
        libm::pow(1.0 - gain, period_ms * 30.0 / 1e3)
    }
}

/// The two-state filter, with inverse capacity and offset: d = dL / C + m + noise.
///
/// Source: libwebrtc 4d06db557a, `overuse_detector.cc`; draft-alvestrand-rmcat-congestion-02, 3.2.
pub(crate) struct Kalman {
    config: KalmanConfig,
    history: SpacingHistory,
    /// Inverse capacity, in ms per byte.
    slope: f64,
    offset: f64,
    previous_offset: f64,
    covariance: [[f64; 2]; 2],
    mean_noise: f64,
    noise: f64,
}

impl Kalman {
    fn new(config: KalmanConfig) -> Self {
        Kalman {
            config,
            history: SpacingHistory::new(),
            slope: 8.0 / 512.0,
            offset: 0.0,
            previous_offset: 0.0,
            covariance: [[100.0, 0.0], [0.0, 0.1]],
            mean_noise: 0.0,
            noise: INITIAL_NOISE,
        }
    }

    fn update(&mut self, deltas: &Deltas, usage: Usage, stable: bool) {
        let period = self.history.add(deltas.send_ms);
        let scale = if self.config.per_period { period / REFERENCE_PERIOD_MS } else { 1.0 };
        let [slope_noise, offset_noise] = self.config.process_noise.map(|noise| noise * scale);
        let e = &mut self.covariance;
        e[0][0] += slope_noise;
        e[1][1] += offset_noise;
        let returning = match usage {
            Usage::Over => self.offset < self.previous_offset,
            Usage::Under => self.offset > self.previous_offset,
            Usage::Normal => false,
        };
        if returning {
            e[1][1] += RETURN_FACTOR * offset_noise;
        }
        let h = [deltas.size, 1.0];
        let eh = [e[0][0] * h[0] + e[0][1] * h[1], e[1][0] * h[0] + e[1][1] * h[1]];
        let variation = deltas.arrival_ms - deltas.send_ms;
        let residual = variation - self.slope * deltas.size - self.offset;
        if stable {
            self.update_noise(residual, period);
        }
        let e = &mut self.covariance;
        let denominator = self.noise + h[0] * eh[0] + h[1] * eh[1];
        let k = [eh[0] / denominator, eh[1] / denominator];
        let before = *e;
        for row in 0..2 {
            for column in 0..2 {
                let gained = h[0] * before[0][column] + h[1] * before[1][column];
                e[row][column] = before[row][column] - k[row] * gained;
            }
        }
        self.slope += k[0] * residual;
        self.previous_offset = self.offset;
        self.offset += k[1] * residual;
    }

    fn update_noise(&mut self, residual: f64, period_ms: f64) {
        let limit = OUTLIER_DEVIATIONS * self.noise.sqrt();
        let residual = match residual.abs() < limit {
            true => residual,
            false if self.config.signed_outliers => limit.copysign(residual),
            false => limit,
        };
        let keep = self.history.keep(period_ms);
        self.mean_noise = keep * self.mean_noise + (1.0 - keep) * residual;
        let deviation = self.mean_noise - residual;
        let noise = keep * self.noise + (1.0 - keep) * deviation * deviation;
        self.noise = noise.max(self.config.noise_floor);
    }
}

/// The one-state filter, with the offset alone: d = m + noise.
///
/// Source: draft-ietf-rmcat-gcc-02, section 5.3.
pub(crate) struct ScalarKalman {
    history: SpacingHistory,
    offset: f64,
    error: f64,
    noise: f64,
}

impl ScalarKalman {
    const PROCESS_NOISE: f64 = 1e-3;
    const INITIAL_ERROR: f64 = 0.1;
    const NOISE_FLOOR: f64 = 1.0;

    fn update(&mut self, deltas: &Deltas) {
        let period = self.history.add(deltas.send_ms);
        let residual = deltas.arrival_ms - deltas.send_ms - self.offset;
        let limit = OUTLIER_DEVIATIONS * self.noise.sqrt();
        let clamped = residual.clamp(-limit, limit);
        let keep = self.history.keep(period);
        self.noise = (keep * self.noise + (1.0 - keep) * clamped * clamped).max(Self::NOISE_FLOOR);
        let error = self.error + Self::PROCESS_NOISE;
        let gain = error / (self.noise + error);
        self.offset += gain * residual;
        self.error = (1.0 - gain) * error;
    }
}

/// Either filter.
pub(crate) enum Filter {
    TwoState(Kalman),
    Scalar(ScalarKalman),
}

impl Filter {
    /// The two-state filter of libwebrtc, or with `None` the scalar filter of the 2016 draft.
    pub(crate) fn new(config: Option<KalmanConfig>) -> Self {
        match config {
            Some(config) => Filter::TwoState(Kalman::new(config)),
            None => Filter::Scalar(ScalarKalman {
                history: SpacingHistory::new(),
                offset: 0.0,
                error: ScalarKalman::INITIAL_ERROR,
                noise: INITIAL_NOISE,
            }),
        }
    }

    /// Adds a measured difference. `usage` is the detector's current state; `stable` says that the offset is
    /// within its threshold.
    pub(crate) fn update(&mut self, deltas: &Deltas, usage: Usage, stable: bool) {
        match self {
            Filter::TwoState(kalman) => kalman.update(deltas, usage, stable),
            Filter::Scalar(kalman) => kalman.update(deltas),
        }
    }

    /// Growth of the one-way delay per group, in ms (m in the papers).
    pub(crate) fn offset_ms(&self) -> f64 {
        match self {
            Filter::TwoState(kalman) => kalman.offset,
            Filter::Scalar(kalman) => kalman.offset,
        }
    }

    /// Variance of the measurement noise, in ms^2.
    pub(crate) fn noise(&self) -> f64 {
        match self {
            Filter::TwoState(kalman) => kalman.noise,
            Filter::Scalar(kalman) => kalman.noise,
        }
    }

    /// Number of differences seen, at most 1000.
    pub(crate) fn count(&self) -> u32 {
        match self {
            Filter::TwoState(kalman) => kalman.history.count,
            Filter::Scalar(kalman) => kalman.history.count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::rrtcc_2013::KALMAN_2013;

    fn feed(filter: &mut Filter, count: usize, of: impl Fn(usize) -> (f64, f64)) {
        for i in 0..count {
            let (variation, size) = of(i);
            let arrival_ms = 33.0 + variation;
            filter.update(&Deltas { send_ms: 33.0, arrival_ms, size }, Usage::Normal, true);
        }
    }

    #[test]
    fn delays_that_follow_frame_sizes_give_a_slope_and_no_offset() {
        // 1 Mbit/s: 8e-3 ms per byte
        let mut filter = Filter::new(Some(KALMAN_2013));
        let size = |i: usize| if i % 2 == 0 { 1000.0 } else { -1000.0 };
        feed(&mut filter, 300, |i| (size(i) * 8e-3, size(i)));
        assert!(filter.offset_ms().abs() < 0.05, "{}", filter.offset_ms());
        let Filter::TwoState(kalman) = filter else { panic!("the two-state filter") };
        assert!((kalman.slope - 8e-3).abs() < 1e-4, "{}", kalman.slope);
    }

    #[test]
    fn a_delay_that_grows_by_2_ms_per_frame_is_an_offset_of_2_ms_in_both_filters() {
        for config in [Some(KALMAN_2013), None] {
            let mut filter = Filter::new(config);
            feed(&mut filter, 1_000, |_| (2.0, 0.0));
            assert!((filter.offset_ms() - 2.0).abs() < 0.1, "{}", filter.offset_ms());
        }
    }

    #[test]
    fn the_first_step_with_equal_frames_matches_the_formula() {
        // E11 = 0.1 + 0.01 * 33/33.3; var after: beta = 0.99^(0.99), r = 1
        let mut filter = Filter::new(Some(KALMAN_2013));
        feed(&mut filter, 1, |_| (1.0, 0.0));
        let e11 = 0.1 + 0.01 * 0.99;
        let beta = libm::pow(0.99, 0.99);
        let mean = 1.0 - beta;
        let var = beta * 50.0 + (1.0 - beta) * (mean - 1.0) * (mean - 1.0);
        assert!((filter.offset_ms() - e11 / (var + e11)).abs() < 1e-12);
        assert!((filter.noise() - var).abs() < 1e-12);
    }

    #[test]
    fn a_negative_outlier_counts_as_positive_in_2013_only() {
        let noise = |signed_outliers| {
            let config = KalmanConfig { signed_outliers, ..KALMAN_2013 };
            let mut filter = Filter::new(Some(config));
            feed(&mut filter, 10, |_| (-100.0, 0.0));
            let Filter::TwoState(kalman) = filter else { panic!("the two-state filter") };
            kalman.mean_noise
        };
        assert!(noise(false) > 0.0 && noise(true) < 0.0);
    }
}
