//! Congestion window, and the push-back of the rate while more than the window is in flight.
//!
//! Source: libwebrtc c37685b6db (August 2026), `congestion_window_pushback_controller.cc`, and
//! `goog_cc_network_control.cc` (UpdateCongestionWindowSize).

use super::arithmetic::{KBPS, MS, bytes_in, thousands, truncated};
use std::collections::VecDeque;

/// Number of reports whose round-trip times count (kMaxFeedbackRttWindow).
const REPORTS: usize = 32;

/// Parameters of window and push-back. Times are in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::cc) struct PushbackConfig {
    /// Queuing delay that the window allows on top of the smallest round-trip time.
    pub(in crate::cc) queue: i64,
    /// Push-back does not lower the rate below this, in bit/s.
    pub(in crate::cc) min_rate: i64,
    /// Smallest window, in bytes.
    pub(in crate::cc) min_window: i64,
}

impl Default for PushbackConfig {
    fn default() -> Self {
        PushbackConfig { queue: 350 * MS, min_rate: 30 * KBPS, min_window: 3_000 }
    }
}

/// The congestion window.
#[derive(Clone, Debug)]
pub(super) struct PushbackWindow {
    config: PushbackConfig,
    /// Largest round-trip time of each of the last reports, in whole milliseconds.
    rtts_ms: VecDeque<i64>,
    smallest_ms: Option<i64>,
    window: Option<i64>,
}

impl PushbackWindow {
    /// A window that is unknown until the first report.
    pub(super) fn new(config: PushbackConfig) -> Self {
        PushbackWindow {
            config,
            rtts_ms: VecDeque::with_capacity(REPORTS + 1),
            smallest_ms: None,
            window: None,
        }
    }

    /// Takes the largest round-trip time of a report's packets, in microseconds.
    pub(super) fn on_feedback_rtt(&mut self, rtt: i64) {
        let rtt_ms = thousands(rtt);
        self.rtts_ms.push_back(rtt_ms);
        let left = match self.rtts_ms.len() > REPORTS {
            true => self.rtts_ms.pop_front(),
            false => None,
        };
        // Only if the smallest one left, all others need a look.
        self.smallest_ms = match self.smallest_ms {
            Some(smallest) if left != Some(smallest) => Some(smallest.min(rtt_ms)),
            _ => self.rtts_ms.iter().min().copied(),
        };
    }

    /// The window in bytes at this target: the mean of the last window and of what the target carries in the
    /// smallest round-trip time and the queuing delay allowed. `None` before the first report.
    pub(super) fn update(&mut self, target: i64) -> Option<i64> {
        let smallest = self.smallest_ms?;
        let now = bytes_in(target, smallest * MS + self.config.queue);
        let mean = self.window.map_or(now, |before| (now + before) / 2);
        self.window = Some(mean.max(self.config.min_window));
        self.window
    }

    /// The least that the window becomes while the target and the round-trip times stay the same.
    pub(super) fn least(&self, target: i64) -> Option<i64> {
        let end = bytes_in(target, self.smallest_ms? * MS + self.config.queue);
        Some(self.window.map_or(end, |window| window.min(end)).max(self.config.min_window))
    }
}

/// Lowers the rate while more than the window is in flight.
#[derive(Clone, Debug)]
pub(super) struct Pushback {
    min_rate: i64,
    outstanding: i64,
    window: Option<i64>,
    ratio: f64,
}

impl Pushback {
    /// No push-back, and no window.
    pub(super) fn new(config: PushbackConfig) -> Self {
        Pushback { min_rate: config.min_rate, outstanding: 0, window: None, ratio: 1.0 }
    }

    /// Sets the bytes in flight.
    pub(super) fn set_outstanding(&mut self, bytes: i64) {
        self.outstanding = bytes;
    }

    /// Sets the window in bytes; `None` for no limit.
    pub(super) fn set_window(&mut self, window: Option<i64>) {
        self.window = window;
    }

    /// Moves the ratio by one step, and returns the target times the ratio.
    pub(super) fn update(&mut self, target: i64) -> i64 {
        let Some(window) = self.window.filter(|window| *window > 0) else { return target };
        let fill = self.outstanding as f64 / window as f64;
        self.ratio = match fill {
            fill if fill > 1.5 => self.ratio * 0.9,
            fill if fill > 1.0 => self.ratio * 0.95,
            fill if fill < 0.1 => 1.0,
            _ => (self.ratio * 1.05).min(1.0),
        };
        let pushed = truncated(target as f64 * self.ratio);
        if pushed < self.min_rate { target.min(self.min_rate) } else { pushed }
    }

    /// Whether every further step leaves the target as it is, unless more is in flight or the window becomes smaller
    /// than `least`.
    pub(super) fn is_silent(&self, least: Option<i64>) -> bool {
        self.ratio == 1.0 && least.is_none_or(|window| self.outstanding <= window)
    }

    /// Rate to which the target is lowered, as a fraction of it.
    pub(super) fn ratio(&self) -> f64 {
        self.ratio
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn with_window(window: i64, outstanding: i64) -> Pushback {
        let mut pushback = Pushback::new(PushbackConfig::default());
        pushback.set_window(Some(window));
        pushback.set_outstanding(outstanding);
        pushback
    }

    /// 0.9 x 80,000 = 72,000; 0.81 x 72,000 = 58,320.
    #[test]
    fn twice_the_window_in_flight_lowers_the_ratio_by_a_tenth_at_each_step() {
        let mut pushback = with_window(50_000, 100_000);
        assert_eq!(pushback.update(80_000), 72_000);
        assert_eq!(pushback.update(72_000), 58_320);
    }

    #[test]
    fn the_pushed_rate_stays_at_30_kbps_if_the_target_is_above() {
        let mut pushback = with_window(50_000, 100_000);
        assert_eq!(pushback.update(35_000), 31_500);
        pushback.set_window(Some(20_000));
        assert_eq!(pushback.update(31_500), 30_000);
        assert_eq!(pushback.update(20_000), 20_000);
    }

    #[test]
    fn up_to_a_full_window_there_is_no_push_back() {
        assert_eq!(with_window(200_000, 199_999).update(80_000), 80_000);
        // Without a window there is no limit.
        let mut pushback = Pushback::new(PushbackConfig::default());
        pushback.set_outstanding(1_000_000);
        assert_eq!(pushback.update(80_000), 80_000);
    }

    /// 0.9 x 1.05 = 0.945; 0.945 x 1.05 = 0.99225; then 1.
    #[test]
    fn the_ratio_recovers_in_steps_and_at_once_when_hardly_anything_is_in_flight() {
        let mut pushback = with_window(50_000, 100_000);
        pushback.update(1_000_000);
        pushback.set_outstanding(50_000);
        assert_eq!(pushback.update(1_000_000), 945_000);
        assert_eq!(pushback.update(1_000_000), 992_250);
        assert_eq!(pushback.update(1_000_000), 1_000_000);
        pushback.set_outstanding(60_000);
        assert_eq!(pushback.update(1_000_000), 950_000);
        pushback.set_outstanding(4_999);
        assert_eq!((pushback.update(1_000_000), pushback.ratio()), (1_000_000, 1.0));
    }

    /// 1 Mbit/s for 450 ms are 56,250 B; the mean with half of that is 42,187 B.
    #[test]
    fn the_window_is_the_mean_of_the_last_one_and_of_rate_times_round_trip_and_queue() {
        let mut window = PushbackWindow::new(PushbackConfig::default());
        assert_eq!(window.update(1_000_000), None);
        window.on_feedback_rtt(130 * MS);
        window.on_feedback_rtt(100 * MS);
        assert_eq!(window.update(1_000_000), Some(56_250));
        assert_eq!(window.update(500_000), Some(42_187));
        for _ in 0..10 {
            window.update(1_000);
        }
        assert_eq!(window.update(1_000), Some(3_000));
    }

    /// 1 Mbit/s for 550 ms are 68,750 B.
    #[test]
    fn the_smallest_round_trip_is_forgotten_after_32_reports() {
        let mut window = PushbackWindow::new(PushbackConfig::default());
        window.on_feedback_rtt(100 * MS);
        (0..31).for_each(|_| window.on_feedback_rtt(200 * MS));
        assert_eq!(window.clone().update(1_000_000), Some(56_250));
        window.on_feedback_rtt(200 * MS);
        assert_eq!(window.update(1_000_000), Some(68_750));
    }

    proptest! {
        #[test]
        fn the_pushed_rate_is_never_above_the_target(
            fills in proptest::collection::vec(0i64..300_000, 1..50), target in 5_000i64..10_000_000,
        ) {
            let mut pushback = with_window(100_000, 0);
            for outstanding in fills {
                pushback.set_outstanding(outstanding);
                let pushed = pushback.update(target);
                prop_assert!(pushed <= target && pushed >= target.min(30_000));
                prop_assert!(pushback.ratio() > 0.0 && pushback.ratio() <= 1.0);
            }
        }
    }
}
