//! Freezes and pauses, as Chromium 156 counts them.

use crate::units::Time;
use std::collections::VecDeque;

/// Number of intervals that the average is taken over (libwebrtc, `video_quality_observer2.cc`).
const WINDOW: usize = 30;
/// Minimum number of intervals, including the new one.
const MIN_INTERVALS: usize = 5;
/// A freeze exceeds the average interval by at least this many milliseconds.
const MARGIN_MS: u64 = 150;

/// Counts freezes and pauses from the times at which pictures were decoded, in whole milliseconds.
///
/// Source: libwebrtc, `video/video_quality_observer2.cc`.
#[derive(Default)]
pub(super) struct Freezes {
    first_ms: u64,
    last_ms: Option<u64>,
    intervals_ms: VecDeque<u64>,
    sum_ms: u64,
    paused: bool,
    pub(super) freezes: u64,
    pub(super) frozen_ms: u64,
    pub(super) pauses: u64,
    pub(super) paused_ms: u64,
    /// Sum of the squared intervals in s².
    pub(super) squared_s2: f64,
}

impl Freezes {
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
        } else if self.is_freeze(interval_ms) {
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

    fn is_freeze(&mut self, interval_ms: u64) -> bool {
        if self.intervals_ms.len() == WINDOW {
            self.sum_ms -= self.intervals_ms.pop_front().unwrap_or(0);
        }
        self.intervals_ms.push_back(interval_ms);
        self.sum_ms += interval_ms;
        let count = self.intervals_ms.len();
        let average_ms = self.sum_ms / count as u64;
        count >= MIN_INTERVALS && interval_ms >= (3 * average_ms).max(average_ms + MARGIN_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Freezes after `steady` intervals of 33 and 34 ms (three make 100 ms) and one of `gap_ms`.
    fn freezes(steady: u64, gap_ms: u64) -> (u64, u64) {
        let mut freezes = Freezes::default();
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
        let mut freezes = Freezes::default();
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
