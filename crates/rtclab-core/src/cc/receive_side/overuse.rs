//! Compares what a filter says about the queue with a threshold.

use super::state::Usage;

/// Over-use needs a value that is too large for at least this many groups of packets in succession.
const MIN_GROUPS: u32 = 2;
/// A value further than this above an adaptive threshold does not move it, in ms.
const MAX_ADAPT_DISTANCE_MS: f64 = 15.0;
/// Bounds of an adaptive threshold, in ms.
const ADAPTIVE_BOUNDS_MS: (f64, f64) = (6.0, 600.0);
/// Longest time that a single step of an adaptive threshold accounts for, in ms.
const MAX_ADAPT_STEP_MS: f64 = 100.0;

/// What the values so far say about the use of the path. The filter may be of any kind.
///
/// Source: libwebrtc 524ecc29dd, `overuse_detector.cc`, and f3ae3eb62e, `trendline_estimator.cc`, which have the same
/// rules; draft-ietf-rmcat-gcc-02, 5.4.
#[derive(Debug)]
pub(crate) struct Overuse {
    usage: Usage,
    value_ms: f64,
    threshold_ms: f64,
    /// How long the value has exceeded the threshold.
    over_ms: Option<f64>,
    over_groups: u32,
}

impl Overuse {
    pub(crate) fn new(threshold_ms: f64) -> Self {
        let usage = Usage::Normal;
        Overuse { usage, value_ms: 0.0, threshold_ms, over_ms: None, over_groups: 0 }
    }

    /// The last conclusion.
    pub(crate) fn usage(&self) -> Usage {
        self.usage
    }

    /// The value last compared with the threshold.
    pub(crate) fn value_ms(&self) -> f64 {
        self.value_ms
    }

    /// The threshold.
    pub(crate) fn threshold_ms(&self) -> f64 {
        self.threshold_ms
    }

    /// Sets the threshold.
    pub(crate) fn set_threshold_ms(&mut self, threshold_ms: f64) {
        self.threshold_ms = threshold_ms;
    }

    /// Takes the value after a group that took `send_ms` to send. Returns whether it signals over-use, which it does if
    /// values were too large for more than `patience_ms` and the filter's slope is `rising`.
    pub(crate) fn compare(
        &mut self,
        value_ms: f64,
        rising: bool,
        send_ms: f64,
        patience_ms: f64,
    ) -> bool {
        self.value_ms = value_ms;
        let over = value_ms > self.threshold_ms;
        if !over {
            (self.over_ms, self.over_groups) = (None, 0);
            let under = value_ms < -self.threshold_ms;
            self.usage = if under { Usage::Under } else { Usage::Normal };
            return false;
        }
        let over_ms = self.over_ms.map_or(send_ms / 2.0, |over_ms| over_ms + send_ms);
        self.over_ms = Some(over_ms);
        self.over_groups += 1;
        let signals = over_ms > patience_ms && self.over_groups >= MIN_GROUPS && rising;
        if signals {
            (self.over_ms, self.over_groups) = (Some(0.0), 0);
            self.usage = Usage::Over;
        }
        signals
    }

    /// Moves the threshold towards the last value, with a gain per ms for each direction, `step_ms` after the last move.
    pub(crate) fn adapt(&mut self, (up, down): (f64, f64), step_ms: f64) {
        let size_ms = self.value_ms.abs();
        if size_ms > self.threshold_ms + MAX_ADAPT_DISTANCE_MS {
            return;
        }
        let gain = if size_ms < self.threshold_ms { down } else { up };
        let threshold_ms = self.threshold_ms
            + gain * (size_ms - self.threshold_ms) * step_ms.min(MAX_ADAPT_STEP_MS);
        self.threshold_ms = threshold_ms.clamp(ADAPTIVE_BOUNDS_MS.0, ADAPTIVE_BOUNDS_MS.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_far_beyond_the_threshold_does_not_move_it_and_a_step_lasts_100_ms_at_most() {
        let mut overuse = Overuse::new(20.0);
        for (value_ms, threshold_ms) in [(35.1, 20.0), (34.9, 20.0 + 0.0087 * 14.9 * 100.0)] {
            overuse.compare(value_ms, true, 5.0, 10.0);
            overuse.adapt((0.0087, 0.039), 200.0);
            assert!((overuse.threshold_ms() - threshold_ms).abs() < 1e-9, "{value_ms}");
        }
    }
}
