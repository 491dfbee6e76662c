//! Freezes, by the rule of webrtc-stats, and pauses, as Chromium 156 counts them.

use crate::units::Time;
use std::collections::VecDeque;

/// Number of intervals that the average is taken over (webrtc-stats, freezeCount).
const WINDOW: usize = 30;
/// Minimum number of intervals, including the new one (libwebrtc, `video_quality_observer2.cc`).
const MIN_INTERVALS: usize = 5;
/// A freeze exceeds the average interval by at least this.
const MARGIN: Time = Time::from_millis(150);

/// Tells freezes from the intervals between pictures: a freeze is at least as long as three average intervals, and as
/// an average interval and 150 ms.
pub(super) struct FreezeDetector {
    /// Averages are rounded down to a multiple of this.
    unit: Time,
    intervals: VecDeque<Time>,
    sum: Time,
}

impl FreezeDetector {
    /// A detector that has seen no interval, and rounds averages down to a multiple of `unit`.
    pub(super) fn new(unit: Time) -> Self {
        FreezeDetector { unit, intervals: VecDeque::new(), sum: Time::ZERO }
    }

    /// Takes the next interval. Returns whether it is a freeze.
    pub(super) fn is_freeze(&mut self, interval: Time) -> bool {
        if self.intervals.len() == WINDOW {
            self.sum -= self.intervals.pop_front().unwrap_or(Time::ZERO);
        }
        self.intervals.push_back(interval);
        self.sum += interval;
        let count = self.intervals.len();
        let average = Time(self.sum.0 / count as u64).floor_to(self.unit);
        count >= MIN_INTERVALS && interval >= (average * 3).max(average + MARGIN)
    }
}

/// Counts freezes and pauses from the times at which pictures were decoded, in whole milliseconds.
///
/// Source: libwebrtc, `video/video_quality_observer2.cc`.
pub(super) struct Freezes {
    detector: FreezeDetector,
    first_ms: u64,
    last_ms: Option<u64>,
    paused: bool,
    pub(super) freezes: u64,
    pub(super) frozen_ms: u64,
    pub(super) pauses: u64,
    pub(super) paused_ms: u64,
    /// Sum of the squared intervals in s².
    pub(super) squared_s2: f64,
}

impl Freezes {
    /// No pictures yet.
    pub(super) fn new() -> Self {
        Freezes {
            detector: FreezeDetector::new(Time::from_millis(1)),
            first_ms: 0,
            last_ms: None,
            paused: false,
            freezes: 0,
            frozen_ms: 0,
            pauses: 0,
            paused_ms: 0,
            squared_s2: 0.0,
        }
    }

    /// Takes the time at which a picture was decoded.
    pub(super) fn on_frame(&mut self, decoded: Time) {
        let now_ms = decoded.as_millis();
        let paused = std::mem::take(&mut self.paused);
        let Some(last_ms) = self.last_ms.replace(now_ms) else {
            self.first_ms = now_ms;
            return;
        };
        let interval_ms = now_ms - last_ms;
        let interval_s = interval_ms as f64 / 1e3;
        self.squared_s2 += interval_s * interval_s;
        if paused {
            self.pauses += 1;
            self.paused_ms += interval_ms;
        } else if self.detector.is_freeze(Time::from_millis(interval_ms)) {
            self.freezes += 1;
            self.frozen_ms += interval_ms;
        }
    }

    /// The sender sends nothing; the interval until its next picture is a pause.
    pub(super) fn on_inactive(&mut self) {
        self.paused = true;
    }

    /// Time from the first picture to the last, in milliseconds.
    pub(super) fn span_ms(&self) -> u64 {
        self.last_ms.unwrap_or(self.first_ms) - self.first_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Freezes after `steady` intervals of 33 and 34 ms (three make 100 ms) and one of `gap_ms`.
    fn freezes(steady: u64, gap_ms: u64) -> (u64, u64) {
        let mut freezes = Freezes::new();
        (0..=steady).for_each(|n| freezes.on_frame(Time::from_millis(n * 100 / 3)));
        freezes.on_frame(Time::from_millis(steady * 100 / 3 + gap_ms));
        (freezes.freezes, freezes.frozen_ms)
    }

    /// At 30 frames/s the average over 29 steady intervals and one of 188 ms is 38.5, rounded down to 38:
    /// the bound is 188 ms. The whole interval counts.
    #[test]
    fn at_thirty_frames_a_second_a_freeze_begins_at_188_ms() {
        assert_eq!(freezes(60, 187), (0, 0));
        assert_eq!(freezes(60, 188), (1, 188));
    }

    #[test]
    fn freezes_are_detected_from_the_fifth_interval_on() {
        assert_eq!(freezes(3, 1_000).0, 0);
        assert_eq!(freezes(4, 1_000).0, 1);
    }

    #[test]
    fn an_interval_in_which_nothing_was_sent_is_a_pause_and_not_a_freeze() {
        let mut freezes = Freezes::new();
        (0..10).for_each(|n| freezes.on_frame(Time::from_millis(n * 40)));
        freezes.on_inactive();
        freezes.on_frame(Time::from_millis(360 + 7_000));
        freezes.on_frame(Time::from_millis(360 + 7_040));
        assert_eq!((freezes.freezes, freezes.pauses, freezes.paused_ms), (0, 1, 7_000));
        assert_eq!(freezes.span_ms(), 7_400);
        let squared = 10.0 * 0.04 * 0.04 + 7.0 * 7.0;
        assert!((freezes.squared_s2 - squared).abs() < 1e-9);
    }
}
