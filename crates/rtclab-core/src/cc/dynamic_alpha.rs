//! `dynamic-alpha` reduces the rate on over-use according to how far the detector is above its threshold.
//! `fixed-alpha` is the same algorithm with the fixed factors that libwebrtc used at the time.
//!
//! Source: Iqbal, Shirmohammadi, Atwah, "A Dynamic Approach to Estimate Receiving Bandwidth for WebRTC",
//! equations 3 to 5, on libwebrtc 2f1509395b (30 June 2015), the last revision with the regions that the
//! equations name.

use super::control::{Halves, RateBounds};
use super::gcc_2016::SENDER_2016;
use super::loss_based::{LossBased, LossBasedConfig, TfrcRole};
use super::options::{OptionSpec, Options, switch};
use super::receive_side::dynamic_alpha::DynamicAlpha;
use super::receive_side::increase::IncreaseLaw;
use super::receive_side::kalman::KalmanConfig;
use super::receive_side::rate_control::{DecreaseLaw, RateControlConfig};
use super::receive_side::{Clock, ReceiveSide, ReceiveSideConfig, Updates};
use super::rrtcc_2013::{DETECTOR_2013, KALMAN_2013, RATE_CONTROL_2013};
use crate::units::Time;

const KALMAN_2015: KalmanConfig =
    KalmanConfig { per_period: false, signed_outliers: true, ..KALMAN_2013 };

const RATE_CONTROL_2015: RateControlConfig = RateControlConfig {
    initialisation: Time::from_secs(5),
    over_use_initialises: true,
    increase: IncreaseLaw::Aimd { additive: 1.0 },
    ..RATE_CONTROL_2013
};

const RECEIVER_2015: ReceiveSideConfig = ReceiveSideConfig {
    clock: Clock::SendTimes,
    kalman: Some(KALMAN_2015),
    detector: DETECTOR_2013,
    rate_control: RATE_CONTROL_2015,
    window: Time::from_secs(1),
    updates: Updates::FivePercent,
    remb_interval: Time::from_millis(200),
};

const SENDER_2015: LossBasedConfig =
    LossBasedConfig { tfrc: TfrcRole::FloorOfDecreases, once_per_report: false, ..SENDER_2016 };

/// Options for other readings of the paper.
pub(crate) const OPTIONS: &[OptionSpec] = &[
    switch(
        "divisor_by_threshold",
        "divisor 1.14 at the halved threshold instead of near the maximum",
    ),
    OptionSpec {
        name: "max_alpha",
        meaning: "upper bound of alpha (the paper's text: 0.99)",
        bounds: (0.5, 1.0),
    },
    switch(
        "whole_threshold",
        "gamma stays 25 ms where the detector halves it, so that alpha may exceed 1",
    ),
    switch(
        "replaces_beta",
        "alpha also replaces the fixed factor of fast recovery and of the known maximum",
    ),
];

/// Options of the algorithm that the paper compares with.
pub(crate) const OPTIONS_FIXED: &[OptionSpec] = &[OptionSpec {
    name: "alpha",
    meaning: "fixed fraction of the incoming rate left after over-use (the paper's text: 0.85)",
    bounds: (0.5, 1.0),
}];

/// Creates both halves of `dynamic-alpha`.
pub(crate) fn create(bounds: RateBounds, options: Options<'_>) -> Halves {
    with(
        bounds,
        DecreaseLaw::Dynamic(DynamicAlpha {
            divisor_by_threshold: options.is_on("divisor_by_threshold"),
            max: options.get("max_alpha").unwrap_or(f64::INFINITY),
            whole_threshold: options.is_on("whole_threshold"),
            replaces_beta: options.is_on("replaces_beta"),
        }),
    )
}

/// Creates both halves of `fixed-alpha`.
pub(crate) fn create_fixed(bounds: RateBounds, options: Options<'_>) -> Halves {
    with(bounds, options.get("alpha").map_or(DecreaseLaw::ByRegion, DecreaseLaw::Fixed))
}

fn with(bounds: RateBounds, decrease: DecreaseLaw) -> Halves {
    let rate_control = RateControlConfig { decrease, ..RATE_CONTROL_2015 };
    let receiver = ReceiveSideConfig { rate_control, ..RECEIVER_2015 };
    (Box::new(LossBased::new(bounds, SENDER_2015)), Some(Box::new(ReceiveSide::new(receiver))))
}
