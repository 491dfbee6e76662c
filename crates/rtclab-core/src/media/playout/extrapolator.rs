//! When a frame would arrive over a path of average delay.

use crate::units::{Time, rounded};

/// RTP clock ticks in a millisecond: the first slope.
const TICKS_PER_MS: f64 = 90.0;
/// First uncertainties of slope and offset.
const SLOPE_UNCERTAINTY: f64 = 1.0;
const OFFSET_UNCERTAINTY: f64 = 1e10;
/// Frames needed before the filter is used.
const STARTUP: u32 = 2;
/// After this long without a frame everything starts anew.
const TIMEOUT: Time = Time::from_secs(10);
/// A jump of the timestamp by more than this starts everything anew.
const MAX_JUMP: i64 = 900_000;
/// Bounds of the detector of changed delays, in ticks.
const MAX_ERROR: f64 = 7_000.0;
const DRIFT: f64 = 6_600.0;
const ALARM: f64 = 60_000.0;
/// Frames before which no residual is an outlier.
const OUTLIER_STARTUP: u32 = 300;
/// Outliers in a row that are ignored.
const MAX_OUTLIERS: u32 = 150;
/// Weight of the past in mean and variance of the residuals.
const RESIDUAL_WEIGHT: f64 = 0.999;
/// First variance of the residuals, in ticks².
const RESIDUAL_VARIANCE: f64 = 9e6;
/// A residual this many standard deviations from their mean is an outlier.
const OUTLIER_DEVIATIONS: f64 = 2.0;

/// Recursive least squares of RTP timestamps over arrival times, without forgetting.
///
/// Source: libwebrtc, `video/timing/timestamp_extrapolator.cc`, with its default configuration.
pub(super) struct Extrapolator {
    start: Time,
    last: Time,
    first_timestamp: Option<i64>,
    last_timestamp: i64,
    slope: f64,
    offset: f64,
    covariance: [[f64; 2]; 2],
    frames: u32,
    residual_mean: f64,
    residual_variance: f64,
    outliers: u32,
    /// Accumulated residuals above and below the line.
    above: f64,
    below: f64,
}

impl Extrapolator {
    pub(super) fn new(start: Time) -> Self {
        Extrapolator {
            start,
            last: start,
            first_timestamp: None,
            last_timestamp: 0,
            slope: TICKS_PER_MS,
            offset: 0.0,
            covariance: [[SLOPE_UNCERTAINTY, 0.0], [0.0, OFFSET_UNCERTAINTY]],
            frames: 0,
            residual_mean: 0.0,
            residual_variance: RESIDUAL_VARIANCE,
            outliers: 0,
            above: 0.0,
            below: 0.0,
        }
    }

    /// Takes the arrival time and timestamp of a frame without requested packets.
    pub(super) fn on_frame(&mut self, arrived: Time, timestamp: i64) {
        let jumped =
            self.first_timestamp.is_some() && (timestamp - self.last_timestamp).abs() > MAX_JUMP;
        if jumped || arrived.saturating_sub(self.last) > TIMEOUT {
            *self = Extrapolator::new(arrived);
        }
        self.last = arrived;
        let ms = rounded(arrived.saturating_sub(self.start).as_micros() as f64 / 1e3) as f64;
        if self.first_timestamp.is_none() {
            self.offset = -self.slope * ms;
            self.last_timestamp = timestamp;
        }
        let first = *self.first_timestamp.get_or_insert(timestamp);
        let residual = (timestamp - first) as f64 - ms * self.slope - self.offset;
        if self.is_outlier(residual) {
            self.outliers += 1;
            if self.outliers <= MAX_OUTLIERS {
                return;
            }
            self.reopen();
        }
        self.outliers = 0;
        if self.has_changed(residual) && self.frames >= STARTUP {
            self.reopen();
        }
        let [[a, b], [c, d]] = self.covariance;
        let (u, v) = (a * ms + b, c * ms + d);
        let scale = 1.0 + ms * u + v;
        let (g, h) = (u / scale, v / scale);
        self.slope += g * residual;
        self.offset += h * residual;
        self.covariance = [
            [a - g * (ms * a + c), b - g * (ms * b + d)],
            [c - h * (ms * a + c), d - h * (ms * b + d)],
        ];
        self.last_timestamp = timestamp;
        self.frames = self.frames.saturating_add(1);
    }

    /// When a frame with this timestamp would arrive; `None` before the first frame.
    pub(super) fn arrival(&self, timestamp: i64) -> Option<Time> {
        let first = self.first_timestamp?;
        let (from, ms) = match self.frames < STARTUP {
            true => (self.last, (timestamp - self.last_timestamp) as f64 / TICKS_PER_MS),
            false if self.slope < 1e-3 => (self.start, 0.0),
            false => {
                let ms = ((timestamp - first) as f64 - self.offset) / self.slope;
                (self.start, (ms + 0.5) as i64 as f64)
            }
        };
        Some(Time::from_secs_f64((from.as_secs_f64() + ms / 1e3).max(0.0)))
    }

    /// Makes the offset uncertain again.
    fn reopen(&mut self) {
        self.covariance[1][1] = OFFSET_UNCERTAINTY;
    }

    fn is_outlier(&mut self, residual: f64) -> bool {
        let deviation = residual - self.residual_mean;
        let bound = OUTLIER_DEVIATIONS * self.residual_variance.sqrt();
        if self.frames >= OUTLIER_STARTUP && deviation.abs() > bound {
            return true;
        }
        let (keep, take) = (RESIDUAL_WEIGHT, 1.0 - RESIDUAL_WEIGHT);
        self.residual_mean = keep * self.residual_mean + take * residual;
        let deviation = residual - self.residual_mean;
        let variance = keep * self.residual_variance + take * deviation * deviation;
        self.residual_variance = variance.max(1.0);
        false
    }

    /// Whether the delay has changed for longer (CUSUM).
    fn has_changed(&mut self, residual: f64) -> bool {
        let residual = residual.clamp(-MAX_ERROR, MAX_ERROR);
        self.above = (self.above + residual - DRIFT).max(0.0);
        self.below = (self.below + residual + DRIFT).min(0.0);
        let changed = self.above > ALARM || self.below < -ALARM;
        if changed {
            (self.above, self.below) = (0.0, 0.0);
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME_MS: i64 = 33;

    /// How late the next frame is expected after `count` frames, if frame `n` arrives `late(n)` ms late.
    fn expected_lateness(count: i64, late: impl Fn(i64) -> i64) -> i64 {
        let start = Time::from_secs(5);
        let mut extrapolator = Extrapolator::new(start);
        let at = |ms: i64| start + Time::from_millis(ms as u64);
        for n in 0..count {
            extrapolator.on_frame(at(n * FRAME_MS + late(n)), n * FRAME_MS * 90);
        }
        let next = extrapolator.arrival(count * FRAME_MS * 90).expect("frames came");
        let late_us = next.as_micros() as i64 - at(count * FRAME_MS).as_micros() as i64;
        (late_us as f64 / 1e3).round() as i64
    }

    #[test]
    fn on_a_steady_path_frames_are_expected_when_they_come() {
        for count in [1, 2, 3, 1_000] {
            assert!(expected_lateness(count, |_| 20).abs_diff(20) <= 1, "{count}");
        }
    }

    /// The average delay counts, not the smallest: half of the frames are 20 ms late.
    #[test]
    fn the_average_delay_counts() {
        let late = expected_lateness(2_000, |n| n % 2 * 20);
        assert!((8..=12).contains(&late), "{late}");
    }

    /// Without an alarm, least squares over 1000 frames would still be far off 10 s after a step of 500 ms:
    /// the detector accumulates at most 400 ticks a frame, so it needs 150 frames. As outliers, the first
    /// 150 frames are ignored, and the next re-opens the offset.
    #[test]
    fn a_lasting_change_of_the_delay_is_followed_within_ten_seconds() {
        let step = |n: i64| if n < 1_000 { 0 } else { 500 };
        assert!(expected_lateness(1_100, step).abs() <= 2);
        let late = expected_lateness(1_000 + 455, step);
        assert!((400..=520).contains(&late), "{late}");
    }

    #[test]
    fn after_ten_seconds_without_a_frame_everything_starts_anew() {
        let pause = |n: i64| if n < 500 { 0 } else { 11_000 };
        assert!(expected_lateness(501, pause).abs_diff(11_000) <= 1);
    }
}
