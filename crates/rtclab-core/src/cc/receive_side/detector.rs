//! Detects over-use of the path from the offset that a filter estimates.

use super::overuse::Overuse;
use super::state::{Region, Usage};
use crate::units::Time;

/// Maximum number of differences that the offset is multiplied by.
const MAX_FACTOR: u32 = 60;

/// Variant of the detector.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct DetectorConfig {
    /// Initial threshold, in ms.
    pub(crate) threshold_ms: f64,
    /// How long the offset must be too large, in ms.
    pub(crate) over_use_ms: f64,
    /// Whether the offset is multiplied by the number of differences, at most 60, as in all of libwebrtc.
    pub(crate) accumulates: bool,
    /// How the threshold moves.
    pub(crate) threshold: Threshold,
}

/// How the threshold moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Threshold {
    /// Half the initial value near and above a known maximum.
    ByRegion,
    /// Follows the detector's value with these gains per ms.
    Adaptive {
        /// Gain while the value is above the threshold.
        up: f64,
        /// Gain while the value is below the threshold.
        down: f64,
    },
}

/// The over-use detector.
///
/// Source: libwebrtc 4d06db557a and 524ecc29dd, `overuse_detector.cc`; draft-ietf-rmcat-gcc-02, 5.4.
pub(crate) struct Detector {
    config: DetectorConfig,
    overuse: Overuse,
    previous_offset: f64,
    raised: (f64, f64),
    adapted: Option<Time>,
}

impl Detector {
    pub(crate) fn new(config: DetectorConfig) -> Self {
        Detector {
            config,
            overuse: Overuse::new(config.threshold_ms),
            previous_offset: 0.0,
            raised: (0.0, config.threshold_ms),
            adapted: None,
        }
    }

    pub(crate) fn usage(&self) -> Usage {
        self.overuse.usage()
    }

    /// The threshold in ms. With [`DetectorConfig::accumulates`] it applies to the offset times the count.
    pub(crate) fn threshold_ms(&self) -> f64 {
        self.overuse.threshold_ms()
    }

    /// The value last compared with the threshold, in ms.
    pub(crate) fn value_ms(&self) -> f64 {
        self.overuse.value_ms()
    }

    /// Value and threshold, in ms, when over-use was last signalled.
    pub(crate) fn raised_ms(&self) -> (f64, f64) {
        self.raised
    }

    /// Whether an offset after `count` differences lies within the threshold.
    pub(crate) fn is_stable(&self, offset_ms: f64, count: u32) -> bool {
        self.scaled(offset_ms, count).abs() < self.threshold_ms()
    }

    fn scaled(&self, offset_ms: f64, count: u32) -> f64 {
        if self.config.accumulates {
            f64::from(count.min(MAX_FACTOR)) * offset_ms
        } else {
            offset_ms
        }
    }

    /// Takes the filter's new offset after `count` differences. The last one spans `send_ms`.
    pub(crate) fn detect(&mut self, now: Time, offset_ms: f64, count: u32, send_ms: f64) {
        let rising = offset_ms >= self.previous_offset;
        self.previous_offset = offset_ms;
        if count < 2 {
            return;
        }
        let value = self.scaled(offset_ms, count);
        let threshold = self.threshold_ms();
        if self.overuse.compare(value, rising, send_ms, self.config.over_use_ms) {
            self.raised = (value, threshold);
        }
        if let Threshold::Adaptive { up, down } = self.config.threshold {
            let elapsed = now.saturating_sub(self.adapted.replace(now).unwrap_or(now));
            self.overuse.adapt((up, down), elapsed.as_secs_f64() * 1e3);
        }
    }

    /// Takes the region of the rate control.
    pub(crate) fn set_region(&mut self, region: Region) {
        if self.config.threshold == Threshold::ByRegion {
            self.overuse.set_threshold_ms(match region {
                Region::MaxUnknown => self.config.threshold_ms,
                Region::AboveMax | Region::NearMax => self.config.threshold_ms / 2.0,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::gcc_2016::DETECTOR_2016;
    use crate::cc::rrtcc_2013::DETECTOR_2013;

    const FRAME_MS: f64 = 100.0 / 3.0;

    /// Number of groups with this offset until over-use, if at most 100.
    fn groups_until_over_use(config: DetectorConfig, offset: f64) -> Option<usize> {
        let mut detector = Detector::new(config);
        let frames = (1..=100).find(|i| {
            let now = Time::from_secs_f64(*i as f64 * FRAME_MS / 1e3);
            detector.detect(now, offset, 60, FRAME_MS);
            detector.usage() == Usage::Over
        });
        frames.map(|i| i as usize)
    }

    #[test]
    fn in_2013_over_use_takes_four_frames_above_the_threshold() {
        // 16.7 + 3 * 33.3 = 116.7 ms > 100 ms
        assert_eq!(groups_until_over_use(DETECTOR_2013, 0.5), Some(4));
    }

    #[test]
    fn in_2016_over_use_takes_two_groups_above_the_threshold() {
        // 16.7 ms > 10 ms after the first, but one group is not enough
        assert_eq!(groups_until_over_use(DETECTOR_2016, 0.3), Some(2));
    }

    #[test]
    fn over_use_that_must_last_100_ms_takes_four_groups() {
        // 16.7 + 3 * 33.3 = 116.7 ms > 100 ms, while the threshold grows to less than 18 ms
        let config = DetectorConfig { over_use_ms: 100.0, ..DETECTOR_2016 };
        assert_eq!(groups_until_over_use(config, 0.3), Some(4));
    }

    #[test]
    fn with_sixty_differences_the_limit_is_25_sixtieths_of_a_millisecond() {
        assert_eq!(groups_until_over_use(DETECTOR_2013, 25.0 / 60.0 - 0.001), None);
        assert_eq!(groups_until_over_use(DETECTOR_2013, 25.0 / 60.0 + 0.001), Some(4));
    }

    #[test]
    fn near_a_known_maximum_the_threshold_is_halved_in_2013_but_not_in_2016() {
        let threshold = |config, region| {
            let mut detector = Detector::new(config);
            detector.set_region(region);
            detector.threshold_ms()
        };
        let regions = [Region::MaxUnknown, Region::AboveMax, Region::NearMax];
        assert_eq!(regions.map(|region| threshold(DETECTOR_2013, region)), [25.0, 12.5, 12.5]);
        assert_eq!(regions.map(|region| threshold(DETECTOR_2016, region)), [12.5; 3]);
    }

    #[test]
    fn a_shrinking_offset_is_not_over_use() {
        let mut detector = Detector::new(DETECTOR_2013);
        for i in 0..50 {
            detector.detect(Time::from_millis(33 * i), 5.0 - i as f64 * 0.05, 60, FRAME_MS);
        }
        assert_eq!(detector.usage(), Usage::Normal);
    }

    #[test]
    fn the_threshold_rises_by_0_4_of_the_distance_in_100_ms_and_falls_by_0_006_of_it() {
        // k_up 0.004 per ms, k_down 0.00006 per ms
        let mut detector = Detector::new(DETECTOR_2016);
        let at = Time::from_millis;
        detector.detect(at(0), 22.5 / 60.0, 60, 100.0);
        detector.detect(at(100), 22.5 / 60.0, 60, 100.0);
        assert!((detector.threshold_ms() - (12.5 + 0.4 * 10.0)).abs() < 1e-9);
        detector.detect(at(200), 0.0, 60, 100.0);
        assert!((detector.threshold_ms() - 16.5 * (1.0 - 0.006)).abs() < 1e-9);
    }

    #[test]
    fn a_spike_more_than_15_ms_above_the_threshold_does_not_move_it() {
        let mut detector = Detector::new(DETECTOR_2016);
        detector.detect(Time::ZERO, 0.0, 60, 100.0);
        detector.detect(Time::from_millis(100), 27.6 / 60.0, 60, 100.0);
        assert_eq!(detector.threshold_ms(), 12.5);
    }
}
