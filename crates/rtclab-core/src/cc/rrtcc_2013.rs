//! `rrtcc-2013`: receive-side delay control and sender-side loss control as Chrome 27 ran them.
//!
//! Source: libwebrtc 4d06db557a (27 March 2013). The options select what
//! draft-alvestrand-rmcat-congestion-02 and the papers of 2013 say instead.

use super::control::{Halves, RateBounds};
use super::loss_based::{Growth, LossBased, LossBasedConfig, TfrcRole};
use super::options::{OptionSpec, Options, switch};
use super::receive_side::detector::{DetectorConfig, Threshold};
use super::receive_side::increase::IncreaseLaw;
use super::receive_side::kalman::KalmanConfig;
use super::receive_side::rate_control::{DecreaseLaw, RateControlConfig};
use super::receive_side::{Clock, ReceiveSide, ReceiveSideConfig, Updates};
use crate::units::Time;

pub(crate) const KALMAN_2013: KalmanConfig = KalmanConfig {
    process_noise: [1e-10, 1e-2],
    per_period: true,
    noise_floor: 1e-7,
    signed_outliers: false,
};

pub(crate) const DETECTOR_2013: DetectorConfig = DetectorConfig {
    threshold_ms: 25.0,
    over_use_ms: 100.0,
    accumulates: true,
    threshold: Threshold::ByRegion,
};

pub(crate) const RATE_CONTROL_2013: RateControlConfig = RateControlConfig {
    initialisation: Time::from_millis(500),
    over_use_initialises: false,
    increase: IncreaseLaw::ResponseTime,
    decrease: DecreaseLaw::ByRegion,
    recovers: true,
    under_use_factor: None,
};

pub(crate) const RECEIVER_2013: ReceiveSideConfig = ReceiveSideConfig {
    clock: Clock::Frames,
    kalman: Some(KALMAN_2013),
    detector: DETECTOR_2013,
    rate_control: RATE_CONTROL_2013,
    window: Time::from_millis(500),
    updates: Updates::EverySecond,
    remb_interval: Time::from_secs(1),
};

pub(crate) const SENDER_2013: LossBasedConfig = LossBasedConfig {
    growth: Growth::EverySecond,
    factor: 1.08,
    tfrc: TfrcRole::FloorOfDecreases,
    once_per_report: false,
    probes: false,
    halves_without_feedback: false,
};

/// Options for what the draft and the papers say instead.
pub(crate) const OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        name: "decrease",
        meaning: "fixed fraction of the incoming rate left after over-use (papers: 0.85)",
        bounds: (0.5, 1.0),
    },
    OptionSpec {
        name: "under_use_factor",
        meaning: "under-use sets the rate to this multiple of the incoming rate (papers: 1.5)",
        bounds: (1.0, 2.0),
    },
    OptionSpec {
        name: "low_loss_factor",
        meaning: "growth factor per second below 2 % loss (draft: 1.05)",
        bounds: (1.0, 1.5),
    },
    switch("halve_without_feedback", "the rate is halved after 2 s without feedback (draft)"),
    switch("tfrc_floor", "the rate is never below the TFRC rate (draft)"),
    switch("tfrc_cap", "the rate is never above the TFRC rate (papers)"),
];

/// Creates both halves.
pub(crate) fn create(bounds: RateBounds, options: Options<'_>) -> Halves {
    let decrease = options.get("decrease").map_or(DecreaseLaw::ByRegion, DecreaseLaw::Fixed);
    let under_use_factor = options.get("under_use_factor");
    let rate_control = RateControlConfig { decrease, under_use_factor, ..RATE_CONTROL_2013 };
    let tfrc = match (options.is_on("tfrc_cap"), options.is_on("tfrc_floor")) {
        (true, _) => TfrcRole::Cap,
        (false, true) => TfrcRole::Floor,
        (false, false) => SENDER_2013.tfrc,
    };
    let sender = LossBasedConfig {
        factor: options.get("low_loss_factor").unwrap_or(SENDER_2013.factor),
        halves_without_feedback: options.is_on("halve_without_feedback"),
        tfrc,
        ..SENDER_2013
    };
    let receiver = ReceiveSideConfig { rate_control, ..RECEIVER_2013 };
    (Box::new(LossBased::new(bounds, sender)), Some(Box::new(ReceiveSide::new(receiver))))
}
