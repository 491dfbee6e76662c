//! Decides by the time that encoding takes whether the processor needs a smaller picture or can encode a larger one.
//!
//! The usage of the processor is the time from the capture of a picture to its encoded frame, waiting included, through
//! the time between pictures, both smoothed. Source: libwebrtc of M138, `video/adaptation/overuse_frame_detector.cc`
//! (`SendProcessingUsage1`, with the options of a software encoder on Linux and Windows).

use super::quality_scaler::Advice;
use crate::units::Time;
use std::collections::VecDeque;

/// Usage in percent below which the picture may grow, and from which it shrinks.
const LOW: f64 = 42.0;
const HIGH: f64 = 85.0;
/// Time from the first picture, with which the encoder is configured, to the first check, and between checks.
const FIRST_CHECK: Time = Time::from_millis(100);
const INTERVAL: Time = Time::from_secs(5);
/// Checks without a result after each change of the resolution.
const CHECKS_WITHOUT_RESULT: u32 = 3;
/// Consecutive checks above [`HIGH`] before the picture shrinks.
const CHECKS_ABOVE: u32 = 2;
/// Frames that the usage needs.
const MIN_FRAMES: u32 = 120;
/// Frames count this long after their capture.
const SETTLED_AFTER: Time = Time::from_secs(1);
/// Without a picture for this long, the measurement begins again.
const TIMEOUT: Time = Time::from_millis(1_500);
/// What the averages keep after a picture at 30 frames per second.
const KEPT_OF_INTERVAL: f64 = 0.998;
const KEPT_OF_PROCESSING: f64 = 0.995;
const NOMINAL_INTERVAL_MS: f64 = 1_000.0 / 30.0;
/// No picture weighs more than this many.
const MOST_WEIGHT: f64 = 7.0;
/// The time between pictures, in ms, before the first one, and the most that counts: 33 ms times 1.35.
const FIRST_INTERVAL_MS: f64 = 40.0;
const LONGEST_INTERVAL_MS: f64 = 33.0 * 1.35;
/// Least time between two steps up in a row, and after other steps.
const QUICK_RAMP_UP: Time = Time::from_secs(10);
const STANDARD_RAMP_UP: Time = Time::from_secs(40);
const LONGEST_RAMP_UP: Time = Time::from_secs(240);
/// Steps down after which every step up that did not last makes the next one wait longer.
const PATIENT_STEPS: u32 = 4;

/// Smoothed times of the pictures of one resolution.
struct Usage {
    interval_ms: f64,
    processing_ms: f64,
    frames: u32,
    /// Capture of the last picture that was encoded, and of the last frame that counts.
    last_captured: Option<Time>,
    last_counted: Option<Time>,
    /// Capture of frames that do not count yet, and when they were encoded.
    recent: VecDeque<(Time, Time)>,
}

impl Usage {
    fn new() -> Self {
        Usage {
            interval_ms: FIRST_INTERVAL_MS,
            processing_ms: between() * FIRST_INTERVAL_MS / 100.0,
            frames: 0,
            last_captured: None,
            last_counted: None,
            recent: VecDeque::new(),
        }
    }

    fn on_frame(&mut self, captured: Time, encoded: Time) {
        if let Some(last) = self.last_captured.replace(captured) {
            let interval = millis(captured, last);
            smooth(&mut self.interval_ms, KEPT_OF_INTERVAL, interval, interval);
        }
        self.recent.push_back((captured, encoded));
        while let Some(&(captured, ready)) = self.recent.front() {
            if encoded.saturating_sub(captured) < SETTLED_AFTER {
                break;
            }
            self.recent.pop_front();
            if let Some(last) = self.last_counted.replace(captured) {
                self.frames += 1;
                let processing = millis(ready, captured);
                smooth(
                    &mut self.processing_ms,
                    KEPT_OF_PROCESSING,
                    processing,
                    millis(captured, last),
                );
            }
        }
    }

    fn percent(&self) -> f64 {
        if self.frames < MIN_FRAMES {
            return between();
        }
        100.0 * self.processing_ms / self.interval_ms.clamp(1.0, LONGEST_INTERVAL_MS)
    }
}

/// The usage in percent before enough frames are known.
fn between() -> f64 {
    f64::midpoint(LOW, HIGH)
}

fn millis(later: Time, earlier: Time) -> f64 {
    later.saturating_sub(earlier).as_secs_f64() * 1e3
}

/// Adds a sample that stands for `span_ms`.
fn smooth(average: &mut f64, kept: f64, sample: f64, span_ms: f64) {
    let kept = libm::pow(kept, (span_ms / NOMINAL_INTERVAL_MS).min(MOST_WEIGHT));
    *average = kept * *average + (1.0 - kept) * sample;
}

/// The detector of one stream.
pub(super) struct OveruseDetector {
    usage: Usage,
    pixels: u32,
    next_check: Option<Time>,
    /// Checks since the measurement began, and how many of the last ones were above the limit.
    checks: u32,
    above: u32,
    last_down: Option<Time>,
    last_up: Option<Time>,
    downs: u32,
    rises: bool,
    ramp_up: Time,
}

impl OveruseDetector {
    pub(super) fn new() -> Self {
        OveruseDetector {
            usage: Usage::new(),
            pixels: 0,
            next_check: None,
            checks: 0,
            above: 0,
            last_down: None,
            last_up: None,
            downs: 0,
            rises: false,
            ramp_up: STANDARD_RAMP_UP,
        }
    }

    /// Takes a frame of this many pixels.
    pub(super) fn on_frame(&mut self, captured: Time, encoded: Time, pixels: u32) {
        self.next_check = self.next_check.or(Some(captured + FIRST_CHECK));
        let last = self.usage.last_captured;
        let paused = last.is_some_and(|last| captured.saturating_sub(last) > TIMEOUT);
        if pixels != self.pixels || paused {
            self.pixels = pixels;
            self.usage = Usage::new();
            self.checks = 0;
        }
        self.usage.on_frame(captured, encoded);
    }

    /// What to do, if a check is due and has a result.
    pub(super) fn check(&mut self, now: Time) -> Option<Advice> {
        let mut advice = None;
        while let Some(at) = self.next_check.filter(|at| *at <= now) {
            advice = self.check_at(at).or(advice);
            self.next_check = Some(at + INTERVAL);
        }
        advice
    }

    fn check_at(&mut self, now: Time) -> Option<Advice> {
        self.checks += 1;
        if self.checks <= CHECKS_WITHOUT_RESULT || self.usage.frames == 0 {
            return None;
        }
        let usage = self.usage.percent().round();
        self.above = if usage >= HIGH { self.above + 1 } else { 0 };
        if self.above >= CHECKS_ABOVE {
            self.step_down(now);
            return Some(Advice::Shrink);
        }
        let wait = if self.rises { QUICK_RAMP_UP } else { self.ramp_up };
        if usage >= LOW || self.last_up.is_some_and(|last| now < last + wait) {
            return None;
        }
        self.last_up = Some(now);
        self.rises = true;
        Some(Advice::Grow)
    }

    fn step_down(&mut self, now: Time) {
        if self.last_up > self.last_down {
            let was_short = self.last_up.is_some_and(|up| now < up + STANDARD_RAMP_UP);
            self.ramp_up = match was_short || self.downs > PATIENT_STEPS {
                true => Time(self.ramp_up.0 * 2).min(LONGEST_RAMP_UP),
                false => STANDARD_RAMP_UP,
            };
        }
        self.last_down = Some(now);
        self.rises = false;
        self.above = 0;
        self.downs += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VGA: u32 = 640 * 480;

    /// Times in seconds and kinds of all advice in two minutes, for pictures that take `encoding` at 30 frames per second.
    fn advice(encoding: Time) -> Vec<(u64, Advice)> {
        let mut detector = OveruseDetector::new();
        let mut all = vec![];
        for picture in 0..3_600_u64 {
            let captured = Time(picture * 33_333_333);
            if let Some(advice) = detector.check(captured) {
                all.push((captured.0 / 1_000_000_000, advice));
            }
            detector.on_frame(captured, captured + encoding, VGA);
        }
        all
    }

    /// The checks at 0.1, 5.1 and 10.1 s have no result; of the others two in a row must be above the limit.
    #[test]
    fn a_slow_processor_is_noticed_at_the_fifth_check() {
        let all = advice(Time::from_millis(32));
        assert_eq!(all.first(), Some(&(20, Advice::Shrink)));
    }

    /// 85 % of 33.3 ms are 28.3 ms; the averages start at 63.5 %.
    #[test]
    fn between_the_limits_it_does_nothing() {
        assert_eq!(advice(Time::from_millis(27)), []);
        assert_eq!(advice(Time::from_millis(15)), []);
    }

    /// 42 % are 14 ms. Only the checks from 15 s on have a result, and steps up are 10 s apart.
    #[test]
    fn a_fast_processor_may_encode_more_every_ten_seconds() {
        let all = advice(Time::from_millis(5));
        let expected: Vec<_> = (15..120).step_by(10).map(|at| (at, Advice::Grow)).collect();
        assert_eq!(all, expected);
    }
}
