//! How late frames are, apart from what their size explains.

use super::rtt::RttFilter;
use crate::units::{Time, rounded};
use std::collections::VecDeque;

/// First values of the filters of frame sizes, in bytes.
const INITIAL_SIZE: f64 = 500.0;
/// First variance of frame sizes, in bytes².
const INITIAL_SIZE_VARIANCE: f64 = 100.0;
/// Weight of the past in the average frame size.
const SIZE_WEIGHT: f64 = 0.97;
/// Decay of the largest frame size, per frame.
const MAX_SIZE_DECAY: f64 = 0.9999;
/// The average size is the plain mean of this many frames before it is filtered.
const SIZE_STARTUP: u32 = 5;
/// First variance of the noise, in ms².
const INITIAL_NOISE_VARIANCE: f64 = 4.0;
/// Delay variations are cut off at this many standard deviations of the noise.
const DELAY_CLAMP: f64 = 3.5;
/// Residuals from this many standard deviations on are outliers.
const DELAY_OUTLIER: f64 = 15.0;
/// Frames this many standard deviations above the average size are never outliers.
const SIZE_OUTLIER: f64 = 3.0;
/// A frame smaller than its predecessor by this share of the largest frame was held up by it.
const CONGESTED: f64 = -0.25;
/// Largest weight denominator of the noise filter.
const NOISE_COUNT_MAX: f64 = 400.0;
/// Number of frames after which a lower estimate no longer takes effect at once, and over which the
/// frame-rate scaling of the noise filter sets in.
const STARTUP: f64 = 30.0;
/// Standard deviations of the noise that the estimate covers.
const NOISE_DEVIATIONS: f64 = 2.33;
/// What is taken off that, in ms.
const NOISE_OFFSET_MS: f64 = 30.0;
/// Bounds of the estimate, in ms.
const MIN_ESTIMATE_MS: f64 = 1.0;
const MAX_ESTIMATE_MS: f64 = 10_000.0;
/// Added for what the operating system delays, in ms.
const OS_JITTER_MS: f64 = 10.0;
/// Number of requested frames from which the round trip is added.
const REQUESTED_FRAMES: u32 = 3;
/// Time without a requested frame after which it no longer is.
const REQUESTED_TIMEOUT: Time = Time::from_secs(60);
/// Share of the round trip that is added, and its bound in ms.
const RTT_SHARE: f64 = 0.9;
const RTT_MAX_MS: f64 = 200.0;
/// Frame rates between which the estimate is scaled from 0 to 1.
const SCALED_FPS: [f64; 2] = [5.0, 10.0];
/// Largest frame rate that is believed.
const MAX_FPS: f64 = 200.0;
/// Number of intervals that the frame rate is averaged over.
const FPS_WINDOW: usize = 30;

/// Estimates the de-jitter delay that the network makes necessary.
///
/// A Kalman filter fits a line through delay variation over size variation. What remains is noise; the estimate
/// covers the largest part of it. Frames with requested packets do not enter; from the third on,
/// most of a round trip is added instead.
///
/// Source: libwebrtc, `video/timing/jitter_estimator.cc`, with its default configuration.
#[derive(Default)]
pub(super) struct JitterEstimator {
    sizes: Sizes,
    noise: Noise,
    line: Line,
    /// Estimate in ms, once there is one.
    estimate_ms: Option<f64>,
    /// Estimate as of the last frame, in ms; 0 for the first frames.
    settled_ms: f64,
    frames: f64,
    requested: u32,
    last_requested: Time,
    pub(super) rtt: RttFilter,
}

impl JitterEstimator {
    /// Takes a frame without requested packets: its delay variation in ms and its size in bytes.
    pub(super) fn on_frame(&mut self, now: Time, variation_ms: f64, size: f64) {
        if size <= 0.0 {
            return;
        }
        let Some(previous) = self.sizes.on_frame(size) else { return };
        let growth = size - previous;
        let deviation = self.noise.variance.sqrt();
        let bound = DELAY_CLAMP * deviation + 0.5;
        let variation_ms = round(variation_ms.clamp(-bound, bound));
        let residual = variation_ms - self.line.at(growth);
        let is_large = size > self.sizes.average + SIZE_OUTLIER * self.sizes.variance.sqrt();
        if residual.abs() < DELAY_OUTLIER * deviation || is_large {
            self.noise.add(now, residual);
            if growth > CONGESTED * self.sizes.max {
                self.line.fit(variation_ms, growth, self.sizes.max, self.noise.variance);
            }
        } else {
            self.noise.add(now, DELAY_OUTLIER.copysign(residual) * deviation);
        }
        match self.frames >= STARTUP {
            true => self.settled_ms = self.estimate(),
            false => self.frames += 1.0,
        }
    }

    /// A frame arrived, and one of its packets had been requested.
    pub(super) fn on_requested_frame(&mut self, now: Time) {
        self.requested = (self.requested + 1).min(REQUESTED_FRAMES);
        self.last_requested = now;
    }

    /// The delay that the network makes necessary, in ms.
    pub(super) fn delay_ms(&mut self, now: Time) -> f64 {
        let mut delay_ms = (self.estimate() + OS_JITTER_MS).max(self.settled_ms);
        if now > self.last_requested + REQUESTED_TIMEOUT {
            self.requested = 0;
        }
        if self.requested >= REQUESTED_FRAMES {
            delay_ms += (RTT_SHARE * self.rtt.max_ms()).min(RTT_MAX_MS);
        }
        let [none, full] = SCALED_FPS;
        match self.noise.frame_rate() {
            Some(fps) => delay_ms * ((fps - none) / (full - none)).clamp(0.0, 1.0),
            None => delay_ms,
        }
    }

    fn estimate(&mut self) -> f64 {
        let noise_ms = (NOISE_DEVIATIONS * self.noise.variance.sqrt() - NOISE_OFFSET_MS).max(1.0);
        let ms = self.line.slope * (self.sizes.max - self.sizes.average) + noise_ms;
        let ms = match ms < MIN_ESTIMATE_MS {
            true => self.estimate_ms.unwrap_or(MIN_ESTIMATE_MS),
            false => ms.min(MAX_ESTIMATE_MS),
        };
        self.estimate_ms = Some(ms);
        ms
    }
}

/// Rounds to nearest, halves away from zero.
fn round(value: f64) -> f64 {
    (rounded(value.abs()) as f64).copysign(value)
}

/// Filters of frame sizes, in bytes.
struct Sizes {
    average: f64,
    variance: f64,
    max: f64,
    previous: Option<f64>,
    startup: (f64, u32),
}

impl Default for Sizes {
    fn default() -> Self {
        Sizes {
            average: INITIAL_SIZE,
            variance: INITIAL_SIZE_VARIANCE,
            max: INITIAL_SIZE,
            previous: None,
            startup: (0.0, 0),
        }
    }
}

impl Sizes {
    /// Takes the size of a frame; returns the size of the frame before.
    fn on_frame(&mut self, size: f64) -> Option<f64> {
        let (sum, count) = &mut self.startup;
        if *count < SIZE_STARTUP {
            *sum += size;
            *count += 1;
        } else if *count == SIZE_STARTUP {
            self.average = *sum / f64::from(SIZE_STARTUP);
            *count += 1;
        }
        let average = SIZE_WEIGHT * self.average + (1.0 - SIZE_WEIGHT) * size;
        // Key frames do not count.
        if size < self.average + 2.0 * self.variance.sqrt() {
            self.average = average;
        }
        let deviation = size - average;
        let variance = SIZE_WEIGHT * self.variance + (1.0 - SIZE_WEIGHT) * deviation * deviation;
        self.variance = variance.max(1.0);
        self.max = (MAX_SIZE_DECAY * self.max).max(size);
        self.previous.replace(size)
    }
}

/// Filter of what the line does not explain, in ms.
struct Noise {
    mean: f64,
    variance: f64,
    count: f64,
    last: Option<Time>,
    /// Intervals between updates in µs, and their sum.
    intervals: (VecDeque<u64>, u64),
}

impl Default for Noise {
    fn default() -> Self {
        Noise {
            mean: 0.0,
            variance: INITIAL_NOISE_VARIANCE,
            count: 1.0,
            last: None,
            intervals: (VecDeque::new(), 0),
        }
    }
}

impl Noise {
    fn add(&mut self, now: Time, residual: f64) {
        if let Some(last) = self.last.replace(now) {
            let (intervals, sum) = &mut self.intervals;
            if intervals.len() == FPS_WINDOW {
                *sum -= intervals.pop_front().unwrap_or(0);
            }
            let interval = now.saturating_sub(last).as_micros();
            intervals.push_back(interval);
            *sum += interval;
        }
        let mut keep = (self.count - 1.0) / self.count;
        self.count = (self.count + 1.0).min(NOISE_COUNT_MAX);
        if let Some(fps) = self.frame_rate() {
            let mut exponent = 30.0 / fps;
            if self.count < STARTUP {
                exponent = (self.count * exponent + STARTUP - self.count) / STARTUP;
            }
            keep = libm::pow(keep, exponent);
        }
        let deviation = residual - self.mean;
        self.mean = keep * self.mean + (1.0 - keep) * residual;
        self.variance = (keep * self.variance + (1.0 - keep) * deviation * deviation).max(1.0);
    }

    /// Frames per second; `None` until it is known.
    fn frame_rate(&self) -> Option<f64> {
        let (intervals, sum) = &self.intervals;
        (*sum > 0).then(|| (intervals.len() as f64 * 1e6 / *sum as f64).min(MAX_FPS))
    }
}

/// Kalman filter of delay variation (ms) over size variation (bytes).
///
/// Source: libwebrtc, `video/timing/frame_delay_variation_kalman_filter.cc`.
struct Line {
    /// In ms per byte.
    slope: f64,
    /// In ms.
    offset: f64,
    covariance: [[f64; 2]; 2],
}

impl Default for Line {
    fn default() -> Self {
        // 512 kbit/s
        Line { slope: 1.0 / 64_000.0, offset: 0.0, covariance: [[1e-4, 0.0], [0.0, 1e2]] }
    }
}

impl Line {
    const PROCESS_NOISE: [f64; 2] = [2.5e-10, 1e-10];
    const MIN_SLOPE: f64 = 1e-6;

    fn at(&self, growth: f64) -> f64 {
        self.slope * growth + self.offset
    }

    fn fit(&mut self, variation_ms: f64, growth: f64, max_size: f64, noise_variance: f64) {
        let [[a, b], [c, d]] = self.covariance;
        let (a, d) = (a + Line::PROCESS_NOISE[0], d + Line::PROCESS_NOISE[1]);
        let innovation = variation_ms - self.at(growth);
        let (u, v) = (a * growth + b, c * growth + d);
        // Frames of nearly the same size say little about the slope.
        let noise = (300.0 * libm::exp(-growth.abs() / max_size) + 1.0) * noise_variance.sqrt();
        let variance = growth * u + v + noise.max(1.0);
        let (g, h) = (u / variance, v / variance);
        self.slope = (self.slope + g * innovation).max(Line::MIN_SLOPE);
        self.offset += h * innovation;
        self.covariance = [
            [(1.0 - g * growth) * a - g * c, (1.0 - g * growth) * b - g * d],
            [c * (1.0 - h) - h * growth * a, d * (1.0 - h) - h * growth * b],
        ];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FRAME_MS: u64 = 33;

    /// An estimator after frames of (variation in ms, size in bytes).
    fn after(frames: impl IntoIterator<Item = (f64, f64)>) -> (JitterEstimator, Time) {
        let (mut estimator, mut now) = (JitterEstimator::default(), Time::from_secs(100));
        for (variation, size) in frames {
            now += Time::from_millis(FRAME_MS);
            estimator.on_frame(now, variation, size);
        }
        (estimator, now)
    }

    /// No variation, equal sizes: the least noise, 1 ms, and 10 ms for the operating system.
    #[test]
    fn on_a_perfect_path_frames_wait_eleven_milliseconds() {
        let (mut estimator, now) = after((0..300).map(|_| (0.0, 3_000.0)));
        let delay = estimator.delay_ms(now);
        assert!((11.0..11.2).contains(&delay), "{delay}");
    }

    /// A path of 1 Mbit/s takes 8 µs for a byte. Frames of 3600 and 4400 bytes alternate, 6.4 ms apart. With
    /// little noise variations are cut off at 4 ms, so that the slope tends to 5 µs. The figures come from
    /// an independent version of the filter.
    #[test]
    fn the_slope_is_found_from_frames_of_different_sizes() {
        let frames = |count| {
            (0..count).map(|n| match n % 2 {
                0 => (-6.4, 3_600.0),
                _ => (6.4, 4_400.0),
            })
        };
        for (count, expected) in [(201, 0.00707), (1_000, 0.00614), (3_001, 0.00515)] {
            let (mut estimator, now) = after(frames(count));
            let slope = estimator.line.slope;
            assert!((slope / expected - 1.0).abs() < 0.02, "{count}: {slope}");
            // The largest frame is 400 bytes above the average; 1 ms of noise and 10 ms are added.
            let delay = estimator.delay_ms(now);
            assert!((delay - 11.0 - slope * 400.0).abs() < 0.1, "{count}: {delay}");
        }
    }

    #[test]
    fn from_the_third_requested_frame_on_most_of_a_round_trip_is_added_for_sixty_seconds() {
        let (mut estimator, now) = after((0..300).map(|_| (0.0, 3_000.0)));
        let calm = estimator.delay_ms(now);
        estimator.rtt.update(84.0);
        for n in 1..=3 {
            estimator.on_requested_frame(now);
            let expected = if n < 3 { 0.0 } else { 0.9 * 84.0 };
            assert!((estimator.delay_ms(now) - calm - expected).abs() < 1e-9, "{n}");
        }
        (0..10).for_each(|_| estimator.rtt.update(1_000.0));
        assert!((estimator.delay_ms(now) - calm - 200.0).abs() < 1e-9);
        assert!(estimator.delay_ms(now + REQUESTED_TIMEOUT) > calm + 199.0);
        let later = now + REQUESTED_TIMEOUT + Time(1);
        assert!((estimator.delay_ms(later) - calm).abs() < 1e-9);
    }

    #[test]
    fn at_less_than_five_frames_a_second_nothing_waits() {
        let (mut estimator, mut now) = (JitterEstimator::default(), Time::from_secs(1));
        for _ in 0..60 {
            now += Time::from_millis(250);
            estimator.on_frame(now, 0.0, 3_000.0);
        }
        assert_eq!(estimator.delay_ms(now), 0.0);
    }

    proptest! {
        #[test]
        fn the_delay_is_always_between_zero_and_the_bounds(
            frames in proptest::collection::vec((-1e4f64..1e4, 1f64..1e5), 1..200),
        ) {
            let (mut estimator, now) = after(frames);
            let delay = estimator.delay_ms(now);
            prop_assert!((0.0..=MAX_ESTIMATE_MS + OS_JITTER_MS).contains(&delay), "{}", delay);
            prop_assert!(estimator.line.slope >= Line::MIN_SLOPE);
            let [[a, b], [c, d]] = estimator.line.covariance;
            prop_assert!(a >= 0.0 && a * d - b * c >= -1e-6, "{:?}", estimator.line.covariance);
        }
    }
}
