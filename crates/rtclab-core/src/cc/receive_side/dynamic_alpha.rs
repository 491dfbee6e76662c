//! How much of the rate over-use leaves, depending on how far the detector is above its threshold.
//!
//! Source: Iqbal, Shirmohammadi, Atwah, "A Dynamic Approach to Estimate Receiving Bandwidth for WebRTC",
//! equations 3 to 5.

use super::state::Region;

/// Alpha before the first decrease, and when the detector's value no longer exceeds its threshold.
pub(crate) const INITIAL_ALPHA: f64 = 0.9;
/// The detector's threshold in ms while no maximum is known.
const WHOLE_THRESHOLD_MS: f64 = 25.0;
/// Threshold in ms up to which the second divisor applies, if chosen by threshold.
const HALVED_THRESHOLD_MS: f64 = WHOLE_THRESHOLD_MS / 2.0;

/// Where equation 5 has its second case, with the divisor 1.14 instead of 1.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Divisor {
    /// Near a known maximum (equation 5).
    ByRegion,
    /// At the halved threshold (the paper's text).
    ByThreshold,
    /// Nowhere (the paper's table 1).
    One,
}

/// The paper's model of alpha, the fraction of the incoming rate that over-use leaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct DynamicAlpha {
    /// Where the second divisor applies.
    pub(crate) divisor: Divisor,
    /// Upper bound of alpha.
    pub(crate) max: f64,
    /// Whether gamma stays 25 ms while the detector's threshold is half of it, so that alpha exceeds 1 where
    /// the value is between the two.
    pub(crate) whole_threshold: bool,
    /// Whether alpha also replaces the factor of fast recovery and of the known maximum.
    pub(crate) replaces_beta: bool,
    /// Whether alpha is computed when the region changes, for the next over-use, instead of at over-use. It then
    /// also replaces the factor of fast recovery and of the known maximum, which is the same variable in libwebrtc.
    pub(crate) lagged: bool,
}

impl DynamicAlpha {
    /// Alpha for the detector's value and threshold in ms.
    pub(crate) fn alpha(self, (value_ms, threshold_ms): (f64, f64), region: Region) -> f64 {
        if value_ms <= threshold_ms {
            return INITIAL_ALPHA;
        }
        self.of_equations((value_ms, threshold_ms), region)
    }

    /// Alpha for the next over-use, from the detector's value and threshold in ms when the region changes. The
    /// value need not exceed the threshold then. Negative values give 0.76 to 0.95. The equations grow without bound as
    /// a positive value falls to 0; alpha is at most 1.
    pub(crate) fn lagged_alpha(self, detector_ms: (f64, f64), region: Region) -> f64 {
        self.of_equations(detector_ms, region).min(1.0)
    }

    fn of_equations(self, (value_ms, threshold_ms): (f64, f64), region: Region) -> f64 {
        let gamma_ms = if self.whole_threshold { WHOLE_THRESHOLD_MS } else { threshold_ms };
        let b = libm::exp(-(value_ms - gamma_ms) / (2.0 * value_ms));
        let near = match self.divisor {
            Divisor::ByRegion => region == Region::NearMax,
            Divisor::ByThreshold => threshold_ms <= HALVED_THRESHOLD_MS,
            Divisor::One => false,
        };
        let a = if near { (1.0 - b) / 1.14 } else { (0.99 - b) / 1.3 };
        (b + a).min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: DynamicAlpha = DynamicAlpha {
        divisor: Divisor::ByRegion,
        max: f64::INFINITY,
        whole_threshold: false,
        replaces_beta: false,
        lagged: false,
    };

    /// The paper's table 1: threshold, value and alpha as printed, then alpha computed from the equations
    /// with the divisors 1.3 and 1.14.
    const TABLE: [(f64, f64, f64, f64, f64); 10] = [
        (25.0, 26.0, 0.99, 0.9879, 0.9977),
        (25.0, 45.0, 0.95, 0.9463, 0.9755),
        (25.0, 100.0, 0.92, 0.9201, 0.9616),
        (25.0, 1000.0, 0.91, 0.9033, 0.9526),
        (25.0, 5000.0, 0.90, 0.9019, 0.9519),
        (12.5, 13.0, 0.99, 0.9879, 0.9977),
        (12.5, 20.0, 0.96, 0.9529, 0.9790),
        (12.5, 45.0, 0.93, 0.9224, 0.9628),
        (12.5, 100.0, 0.91, 0.9105, 0.9565),
        (12.5, 5000.0, 0.90, 0.9017, 0.9518),
    ];

    #[test]
    fn alpha_matches_the_equations_within_1e_4() {
        for (threshold, value, _, unknown, near) in TABLE {
            for (region, expected) in [(Region::MaxUnknown, unknown), (Region::NearMax, near)] {
                let alpha = MODEL.alpha((value, threshold), region);
                assert!((alpha - expected).abs() < 1e-4, "{threshold} {value} {region:?}: {alpha}");
            }
        }
    }

    #[test]
    fn the_printed_table_matches_the_first_divisor_within_0_008() {
        for (threshold, value, printed, _, _) in TABLE {
            let alpha = MODEL.alpha((value, threshold), Region::AboveMax);
            assert!((alpha - printed).abs() < 0.008, "{threshold} {value}: {alpha}");
        }
    }

    #[test]
    fn alpha_is_0_9_when_the_value_has_fallen_below_the_threshold() {
        assert_eq!(MODEL.alpha((20.0, 25.0), Region::NearMax), 0.9);
    }

    #[test]
    fn by_threshold_the_second_divisor_applies_at_12_5_ms_in_any_region() {
        let model = DynamicAlpha { divisor: Divisor::ByThreshold, ..MODEL };
        assert!((model.alpha((45.0, 12.5), Region::AboveMax) - 0.9628).abs() < 1e-4);
        assert!((model.alpha((45.0, 25.0), Region::NearMax) - 0.9463).abs() < 1e-4);
    }

    #[test]
    fn with_one_divisor_every_entry_of_the_printed_table_is_met_near_the_maximum_too() {
        let model = DynamicAlpha { divisor: Divisor::One, ..MODEL };
        for (threshold, value, printed, expected, _) in TABLE {
            let alpha = model.alpha((value, threshold), Region::NearMax);
            assert!((alpha - expected).abs() < 1e-4, "{threshold} {value}: {alpha}");
            assert!((alpha - printed).abs() < 0.008, "{threshold} {value}: {alpha}");
        }
    }

    /// T = -25 and gamma = 25: b = exp(-50 / 50) = 0.3679; times 0.2308 plus 0.7615, times 0.1228 plus 0.8772.
    #[test]
    fn lagged_alpha_follows_the_equations_below_the_threshold_but_is_at_most_1() {
        let lagged = |value, region| MODEL.lagged_alpha((value, 25.0), region);
        assert!((lagged(-25.0, Region::MaxUnknown) - 0.8464).abs() < 1e-4);
        assert!((lagged(-25.0, Region::NearMax) - 0.9224).abs() < 1e-4);
        assert!((lagged(45.0, Region::MaxUnknown) - 0.9463).abs() < 1e-4);
        for value in [0.0, 1e-9, 10.0, 23.0] {
            assert_eq!(lagged(value, Region::MaxUnknown), 1.0, "{value} ms");
        }
        assert!((0.76..0.77).contains(&lagged(-1e-9, Region::MaxUnknown)));
    }

    #[test]
    fn a_maximum_of_0_99_bounds_alpha() {
        let model = DynamicAlpha { max: 0.99, ..MODEL };
        assert_eq!(model.alpha((26.0, 25.0), Region::NearMax), 0.99);
    }

    /// exp((25 / 12.5 - 1) / 2) = 1.6487, times 0.1228 plus 0.8772.
    #[test]
    fn with_the_whole_threshold_alpha_exceeds_1_between_12_5_and_25_ms() {
        let model = DynamicAlpha { whole_threshold: true, ..MODEL };
        assert!((model.alpha((12.5001, 12.5), Region::NearMax) - 1.0797).abs() < 1e-4);
        assert_eq!(model.alpha((25.0, 12.5), Region::NearMax), 1.0);
        assert_eq!(
            model.alpha((100.0, 25.0), Region::MaxUnknown),
            MODEL.alpha((100.0, 25.0), Region::MaxUnknown)
        );
    }
}
