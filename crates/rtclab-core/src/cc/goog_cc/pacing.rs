//! Rates of the pacer.
//!
//! Source: libwebrtc, `goog_cc_network_control.cc` (`GetPacingRates`).

use super::arithmetic::{MS, bytes_in, rate_of, scale};

/// The rate is carried as whole bytes in this time.
const WINDOW: i64 = 40 * MS;

/// What multiplies the target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PacingConfig {
    /// Factor, set by a camera's stream; without one, from the first transport feedback on.
    pub(super) factor: f64,
    /// Factor before the first transport feedback if no stream sets one.
    pub(super) early_factor: f64,
}

impl Default for PacingConfig {
    fn default() -> Self {
        PacingConfig { factor: 1.1, early_factor: 2.5 }
    }
}

/// What the rates follow, in bit/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PacingInput {
    /// Target rate.
    pub(super) target: i64,
    /// Target after the congestion window's push-back.
    pub(super) pushed: i64,
    /// Sum of the streams' minima.
    pub(super) min_total: i64,
    /// Whether the loss estimator wants to grow with padding.
    pub(super) pads: bool,
}

/// Pacing and padding rate, in bit/s.
pub(super) fn rates(factor: f64, input: PacingInput) -> (i64, i64) {
    let pacing = quantised(scale(input.target.max(input.min_total), factor));
    let padding = if input.pads { input.target.min(input.pushed) } else { 0 };
    (pacing, quantised(padding).min(pacing))
}

fn quantised(bps: i64) -> i64 {
    rate_of(bytes_in(bps, WINDOW), WINDOW)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INPUT: PacingInput =
        PacingInput { target: 300_000, pushed: 200_000, min_total: 80_000, pads: false };

    #[test]
    fn packets_leave_at_a_multiple_of_the_target_in_steps_of_200_bits_per_second() {
        assert_eq!(rates(1.1, INPUT), (330_000, 0));
        assert_eq!(rates(1.1, PacingInput { target: 300_100, ..INPUT }), (330_200, 0));
        assert_eq!(rates(2.5, PacingInput { target: 20_000, ..INPUT }), (200_000, 0));
    }

    #[test]
    fn padding_fills_the_target_but_not_beyond_the_push_back() {
        assert_eq!(rates(1.1, PacingInput { pads: true, ..INPUT }), (330_000, 200_000));
        let input = PacingInput { pads: true, pushed: 300_000, ..INPUT };
        assert_eq!(rates(0.5, input), (150_000, 150_000));
    }
}
