//! Parameters of the loss-based estimator.

use super::super::arithmetic::{KBPS, MS, SECOND};

/// Parameters of the loss-based estimator; the default holds since 2025.
///
/// Source: libwebrtc 068e6ba696 (May 2025), `loss_based_bwe_v2.cc`. Times are in microseconds, rates in bit/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::cc) struct LossEstimatorConfig {
    /// An observation covers at least this span of send times.
    pub(in crate::cc) observation_min: i64,
    /// Number of observations that count.
    pub(in crate::cc) window: usize,
    /// Number of observations before the estimate is used.
    pub(in crate::cc) min_observations: u64,
    /// Weight of an observation relative to the next younger one.
    pub(in crate::cc) temporal_weight: f64,
    /// Multiples of the current estimate that are candidates for the next one.
    pub(in crate::cc) candidate_factors: [f64; 3],
    /// The acknowledged rate times this is a candidate; 0 for none.
    pub(in crate::cc) acked_candidate: f64,
    /// Whether the acknowledged rate is a candidate even while the application limits the rate.
    pub(in crate::cc) acked_candidate_in_alr: bool,
    /// Whether the delay-based estimate is a candidate.
    pub(in crate::cc) delay_candidate: bool,
    /// Whether the upper bound from the loss is a candidate while the application limits the rate.
    pub(in crate::cc) upper_bound_candidate_in_alr: bool,
    /// Inherent loss before the first observation.
    pub(in crate::cc) inherent_loss_start: f64,
    /// Smallest inherent loss.
    pub(in crate::cc) inherent_loss_min: f64,
    /// Largest inherent loss at an infinite rate.
    pub(in crate::cc) inherent_loss_max: f64,
    /// Rate at which the largest inherent loss is one higher than at an infinite rate.
    pub(in crate::cc) inherent_loss_balance: i64,
    /// Newton steps per candidate.
    pub(in crate::cc) newton_steps: u32,
    /// Fraction of a full Newton step that is taken.
    pub(in crate::cc) newton_step_size: f64,
    /// Preference of high rates, per kbit/s.
    pub(in crate::cc) bias: f64,
    /// Preference of high rates, per natural logarithm of the rate in kbit/s.
    pub(in crate::cc) log_bias: f64,
    /// Loss above which low rates are preferred.
    pub(in crate::cc) bias_threshold: f64,
    /// Smooths the change of the preference at its threshold.
    pub(in crate::cc) bias_smoothing: f64,
    /// Rate that the upper bound has when the loss is one above `upper_bound_loss`.
    pub(in crate::cc) upper_bound_balance: i64,
    /// Loss up to which there is no upper bound.
    pub(in crate::cc) upper_bound_loss: f64,
    /// The estimate is at least the acknowledged rate times this; 0 for no such bound.
    pub(in crate::cc) lower_bound_by_acked: f64,
    /// The estimate grows to at most the acknowledged rate times this.
    pub(in crate::cc) ramp_up: f64,
    /// The same, while the acknowledged rate is near the rate of the last hold.
    pub(in crate::cc) ramp_up_in_hold: f64,
    /// The acknowledged rate is near the rate of the last hold when it is below this multiple of it.
    pub(in crate::cc) ramp_up_hold_threshold: f64,
    /// The estimate grows by at most this factor within an increase window.
    pub(in crate::cc) increase_factor: f64,
    /// Length of an increase window.
    pub(in crate::cc) increase_window: i64,
    /// Duration of the first hold after a decrease; 0 for no hold.
    pub(in crate::cc) hold_first: i64,
    /// Each further hold is longer by this factor; 0 for no hold.
    pub(in crate::cc) hold_factor: f64,
    /// Longest hold.
    pub(in crate::cc) hold_max: i64,
    /// Padding follows an increase for this long; 0 for no padding.
    pub(in crate::cc) padding: i64,
    /// Whether the estimate itself, and not only the result, is bounded.
    pub(in crate::cc) bounds_best: bool,
    /// The highest and the lowest loss are left out unless the former came at this multiple of the median rate.
    pub(in crate::cc) median_factor: f64,
    /// Whether the estimate stays while the loss is above the inherent loss.
    pub(in crate::cc) holds_above_inherent_loss: bool,
    /// Whether the result is used in the first seconds of a call.
    pub(in crate::cc) at_start: bool,
    /// Whether loss counts bytes; otherwise packets.
    pub(in crate::cc) counts_bytes: bool,
}

impl Default for LossEstimatorConfig {
    fn default() -> Self {
        LossEstimatorConfig {
            observation_min: 250 * MS,
            window: 15,
            min_observations: 3,
            temporal_weight: 0.9,
            candidate_factors: [1.02, 1.0, 0.95],
            acked_candidate: 1.0,
            acked_candidate_in_alr: false,
            delay_candidate: true,
            upper_bound_candidate_in_alr: false,
            inherent_loss_start: 0.01,
            inherent_loss_min: 0.001,
            inherent_loss_max: 0.05,
            inherent_loss_balance: 100 * KBPS,
            newton_steps: 1,
            newton_step_size: 0.75,
            bias: 0.0002,
            log_bias: 0.02,
            bias_threshold: 0.2,
            bias_smoothing: 0.002,
            upper_bound_balance: 100 * KBPS,
            upper_bound_loss: 0.05,
            lower_bound_by_acked: 1.0,
            ramp_up: 1.5,
            ramp_up_in_hold: 1.2,
            ramp_up_hold_threshold: 1.3,
            increase_factor: 1.3,
            increase_window: 300 * MS,
            hold_first: 300 * MS,
            hold_factor: 2.0,
            hold_max: 60 * SECOND,
            padding: 2 * SECOND,
            bounds_best: true,
            median_factor: 2.0,
            holds_above_inherent_loss: true,
            at_start: true,
            counts_bytes: true,
        }
    }
}
