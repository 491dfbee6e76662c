//! Decides by the quantiser when a smaller or larger picture would look better.
//!
//! Source: libwebrtc f3ae3eb62e, `modules/video_coding/utility/quality_scaler.cc`; thresholds of VP8:
//! `libvpx_vp8_encoder.cc`.

use crate::units::Time;
use std::collections::VecDeque;

/// Quantiser index up to which the picture may grow, and above which it shrinks.
const LOW: f64 = 29.0;
const HIGH: f64 = 95.0;
/// What an average keeps after a millisecond.
const SLOW_DECAY: f64 = 0.9999;
const FAST_DECAY: f64 = 0.9995;
/// Frames that a decision needs, dropped ones included, and frames that the share of drops counts.
const MIN_FRAMES: usize = 60;
const DROP_WINDOW: usize = 150;
/// Share of dropped frames, in percent, from which the picture shrinks.
const DROPS: usize = 60;
/// Time between checks until the picture first shrinks, while frames are too few, and otherwise.
pub(super) const FIRST_INTERVAL: Time = Time::from_secs(2);
const WAITING_INTERVAL: Time = Time::from_secs(1);
const INTERVAL: Time = Time::from_secs(5);

/// What the quality says about the resolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advice {
    Shrink,
    Grow,
}

/// An average whose memory fades exponentially in time.
#[derive(Default)]
struct Average {
    value: Option<f64>,
    last: Time,
}

impl Average {
    fn add(&mut self, now: Time, sample: f64, decay: f64) {
        let elapsed = now.saturating_sub(self.last).as_secs_f64() * 1000.0;
        let kept = libm::pow(decay, elapsed);
        self.value = Some(self.value.map_or(sample, |value| kept * value + (1.0 - kept) * sample));
        self.last = now;
    }
}

/// The quality scaler of one stream.
pub(super) struct QualityScaler {
    slow: Average,
    fast: Average,
    /// Whether each of the last frames was dropped.
    frames: VecDeque<bool>,
    dropped: usize,
    next_check: Time,
    has_shrunk: bool,
}

impl QualityScaler {
    /// Creates a scaler that checks first at `first_check`.
    pub(super) fn new(first_check: Time) -> Self {
        QualityScaler {
            slow: Average::default(),
            fast: Average::default(),
            frames: VecDeque::with_capacity(DROP_WINDOW),
            dropped: 0,
            next_check: first_check,
            has_shrunk: false,
        }
    }

    /// Takes an encoded frame.
    pub(super) fn on_frame(&mut self, now: Time, qindex: u8) {
        self.slow.add(now, f64::from(qindex), SLOW_DECAY);
        self.fast.add(now, f64::from(qindex), FAST_DECAY);
        self.count(false);
    }

    /// Takes a frame that the encoder dropped.
    pub(super) fn on_drop(&mut self) {
        self.count(true);
    }

    /// What to do, if a check is due and has a result.
    pub(super) fn check(&mut self, now: Time) -> Option<Advice> {
        if now < self.next_check {
            return None;
        }
        let enough = self.frames.len() >= MIN_FRAMES;
        let advice = if enough { self.advice() } else { None };
        self.has_shrunk |= advice == Some(Advice::Shrink);
        let interval = match (self.has_shrunk, enough) {
            (false, _) => FIRST_INTERVAL,
            (true, false) => WAITING_INTERVAL,
            (true, true) => INTERVAL,
        };
        self.next_check = now + interval;
        if advice.is_some() {
            self.slow.value = None;
            self.fast.value = None;
            self.frames.clear();
            self.dropped = 0;
        }
        advice
    }

    fn advice(&self) -> Option<Advice> {
        if self.dropped * 100 / self.frames.len() >= DROPS || self.fast.value? > HIGH {
            return Some(Advice::Shrink);
        }
        (self.slow.value? <= LOW).then_some(Advice::Grow)
    }

    fn count(&mut self, dropped: bool) {
        if self.frames.len() == DROP_WINDOW && self.frames.pop_front() == Some(true) {
            self.dropped -= 1;
        }
        self.frames.push_back(dropped);
        self.dropped += usize::from(dropped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Time = Time::from_micros(33_333);

    /// First advice and its time in seconds, for frames with a quantiser; `None` is a dropped one.
    fn first_advice(
        scaler: &mut QualityScaler,
        from: Time,
        frames: impl Fn(u32) -> Option<u8>,
    ) -> Option<(Advice, f64)> {
        (0..1000).find_map(|i| {
            let now = from + Time(FRAME.0 * u64::from(i));
            match frames(i) {
                Some(qindex) => scaler.on_frame(now, qindex),
                None => scaler.on_drop(),
            }
            let advice = scaler.check(now)?;
            Some((advice, (now - from).as_secs_f64()))
        })
    }

    #[test]
    fn above_95_the_picture_shrinks_after_two_seconds_and_at_95_never() {
        let mut scaler = QualityScaler::new(FIRST_INTERVAL);
        let (advice, at) = first_advice(&mut scaler, Time::ZERO, |_| Some(96)).unwrap();
        assert_eq!(advice, Advice::Shrink);
        assert!((2.0..2.1).contains(&at), "{at}");
        assert_eq!(
            first_advice(&mut QualityScaler::new(FIRST_INTERVAL), Time::ZERO, |_| Some(95)),
            None
        );
    }

    #[test]
    fn after_it_has_shrunk_it_waits_five_seconds() {
        let mut scaler = QualityScaler::new(FIRST_INTERVAL);
        first_advice(&mut scaler, Time::ZERO, |_| Some(106));
        let from = Time::from_micros(2_033_313);
        let (advice, at) = first_advice(&mut scaler, from, |_| Some(106)).unwrap();
        assert_eq!(advice, Advice::Shrink);
        assert!((4.9..5.1).contains(&at), "{at}");
    }

    #[test]
    fn the_first_check_with_fewer_than_sixty_frames_is_lost() {
        let mut scaler = QualityScaler::new(Time::from_millis(1600));
        let (_, at) = first_advice(&mut scaler, Time::ZERO, |_| Some(106)).unwrap();
        assert!((3.6..3.7).contains(&at), "{at}");
    }

    #[test]
    fn six_of_ten_frames_dropped_shrink_the_picture_and_half_of_them_do_not() {
        let drops = |of_ten: u32| {
            let mut scaler = QualityScaler::new(FIRST_INTERVAL);
            first_advice(&mut scaler, Time::ZERO, |i| (i % 10 >= of_ten).then_some(60))
        };
        assert_eq!(drops(5), None);
        assert_eq!(drops(6).map(|(advice, _)| advice), Some(Advice::Shrink));
    }

    #[test]
    fn growing_waits_for_the_slow_average() {
        // From 60 to 20 the slow average needs 10 s * ln(40 / 9) = 14.9 s to reach 29.
        let mut scaler = QualityScaler::new(FIRST_INTERVAL);
        let (advice, at) =
            first_advice(&mut scaler, Time::ZERO, |i| Some(if i == 0 { 60 } else { 20 })).unwrap();
        assert_eq!(advice, Advice::Grow);
        assert!((14.8..17.0).contains(&at), "{at}");
    }
}
