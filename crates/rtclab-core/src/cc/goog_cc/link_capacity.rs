//! Estimate of the link's capacity from the rates at which it was over-used.
//!
//! Source: libwebrtc, `link_capacity_estimator.cc`.

use super::arithmetic::{INFINITE, KBPS, thousands, truncated};

/// Weight of a new rate at over-use.
const ALPHA: f64 = 0.05;
/// Bounds of the normalised variance. libwebrtc takes 32-bit numbers.
const DEVIATION: (f64, f64) = (0.4_f32 as f64, 2.5);
/// The bounds are this many standard deviations away.
const BOUND: f64 = 3.0;

/// Mean and variance of the rate at over-use, in kbit/s.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkCapacity {
    estimate_kbps: Option<f64>,
    /// Variance over the mean, in kbit/s. It survives [`LinkCapacity::forget`].
    deviation_kbps: f64,
}

impl Default for LinkCapacity {
    fn default() -> Self {
        LinkCapacity { estimate_kbps: None, deviation_kbps: DEVIATION.0 }
    }
}

impl LinkCapacity {
    /// Forgets the estimate.
    pub(super) fn forget(&mut self) {
        self.estimate_kbps = None;
    }

    /// Adds a rate at over-use, in bit/s.
    pub(super) fn add(&mut self, bps: i64) {
        let sample = thousands(bps) as f64;
        let estimate = match self.estimate_kbps {
            None => sample,
            Some(estimate) => (1.0 - ALPHA) * estimate + ALPHA * sample,
        };
        let error = estimate - sample;
        let deviation =
            (1.0 - ALPHA) * self.deviation_kbps + ALPHA * error * error / estimate.max(1.0);
        self.estimate_kbps = Some(estimate);
        self.deviation_kbps = deviation.clamp(DEVIATION.0, DEVIATION.1);
    }

    /// The estimate in bit/s.
    pub(super) fn estimate(&self) -> Option<i64> {
        self.estimate_kbps.map(|kbps| truncated(kbps * KBPS as f64))
    }

    /// The largest rate that agrees with the estimate, in bit/s; infinite without one.
    pub(super) fn upper(&self) -> i64 {
        self.estimate_kbps
            .map_or(INFINITE, |kbps| truncated((kbps + self.margin(kbps)) * KBPS as f64))
    }

    /// The smallest rate that agrees with the estimate, in bit/s; 0 without one.
    pub(super) fn lower(&self) -> i64 {
        let kbps = self.estimate_kbps.unwrap_or(0.0);
        truncated((kbps - self.margin(kbps)).max(0.0) * KBPS as f64)
    }

    fn margin(&self, kbps: f64) -> f64 {
        BOUND * (self.deviation_kbps * kbps).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_use_at_1000_900_800_and_1000_kbps_gives_the_values_derived_by_hand() {
        let mut capacity = LinkCapacity::default();
        assert_eq!((capacity.estimate(), capacity.upper(), capacity.lower()), (None, INFINITE, 0));
        let expected = [
            (1_000, 1_000.0, 0.4, 1_060.0, 940.0),
            (900, 995.0, 0.83352, 1_081.4, 908.6),
            (800, 985.25, 2.5, 1_134.14, 836.36),
            (1_000, 985.9875, 2.38496, 1_131.47, 840.51),
        ];
        for (kbps, estimate, deviation, upper, lower) in expected {
            capacity.add(kbps * KBPS);
            assert_eq!(capacity.estimate(), Some((estimate * 1e3) as i64), "{kbps}");
            assert!((capacity.deviation_kbps - deviation).abs() < 5e-6, "{capacity:?}");
            assert!((capacity.upper() as f64 / 1e3 - upper).abs() < 0.051, "{capacity:?}");
            assert!((capacity.lower() as f64 / 1e3 - lower).abs() < 0.051, "{capacity:?}");
        }
        capacity.forget();
        assert_eq!((capacity.estimate(), capacity.upper(), capacity.lower()), (None, INFINITE, 0));
        assert!(capacity.deviation_kbps > 2.0);
    }

    #[test]
    fn rates_count_in_whole_kilobits_per_second() {
        let mut capacity = LinkCapacity::default();
        capacity.add(999_499);
        assert_eq!(capacity.estimate(), Some(999_000));
    }
}
