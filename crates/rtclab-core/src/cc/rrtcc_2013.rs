//! `rrtcc-2013`: receive-side delay control and sender-side loss control as Chrome 27 ran them.
//!
//! Source: libwebrtc 4d06db557a (27 March 2013). The options select what
//! draft-alvestrand-rmcat-congestion-02 and the papers of 2013 say instead.

use super::control::{Halves, RateBounds};
use super::loss_based::{Growth, LossBased, LossBasedConfig, STEP, TfrcRole};
use super::options::{OptionSpec, Options, switch};
use super::receive_side::detector::{DetectorConfig, Threshold};
use super::receive_side::increase::IncreaseLaw;
use super::receive_side::kalman::KalmanConfig;
use super::receive_side::rate_control::{DecreaseLaw, Limit, RateControlConfig};
use super::receive_side::{GroupingClock, ReceiveSide, ReceiveSideConfig, Updates};
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
    initialisation: Some(Time::from_millis(500)),
    signal_initialises: false,
    increase: IncreaseLaw::ResponseTime,
    decrease: DecreaseLaw::BY_REGION,
    recovers: true,
    under_use_factor: None,
    limit: Limit::Veto,
};

/// The receiver's equation of the papers of 2013, which holds the rate unless the detector signals over-use or
/// under-use. It has no start: the first of these signals sets the first estimate.
const RATE_CONTROL_THAT_HOLDS: RateControlConfig = RateControlConfig {
    initialisation: None,
    signal_initialises: true,
    increase: IncreaseLaw::None,
    recovers: false,
    ..RATE_CONTROL_2013
};

pub(crate) const RECEIVER_2013: ReceiveSideConfig = ReceiveSideConfig {
    clock: GroupingClock::Frames,
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
    step: STEP,
    tfrc: TfrcRole::FloorOfDecreases,
    once_per_report: false,
    probes: false,
    halves_without_feedback: false,
};

/// Options for what the papers of 2013 and the draft print instead: Singh, Abelló Lozano, Ott, section II, and Abelló
/// Lozano's thesis, equations 8 and 9.
pub(crate) const OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        name: "decrease",
        meaning: "fraction of the incoming rate left after over-use, in every region (papers: 0.85)",
        bounds: (0.5, 1.0),
    },
    OptionSpec {
        name: "under_use_factor",
        meaning: "under-use sets the receiver's estimate to this multiple of the incoming rate (papers: 1.5)",
        bounds: (1.0, 2.0),
    },
    switch(
        "stable_holds",
        "without over-use or under-use the receiver's estimate stays as it is; the first of them sets the first one (papers)",
    ),
    OptionSpec {
        name: "low_loss_factor",
        meaning: "below 2 % loss the rate plus 1 kbit/s grows by this factor a second (papers and draft: 1.05)",
        bounds: (1.0, 1.5),
    },
    switch(
        "halve_without_feedback",
        "the rate is halved after every 2 s without feedback, from the first feedback on (papers and draft)",
    ),
    switch(
        "tfrc_floor",
        "the rate is never below the TFRC rate (papers' section on the sender, and draft)",
    ),
    switch("tfrc_cap", "the rate is never above the TFRC rate (thesis, 6.3.3)"),
];

/// Creates both halves.
pub(crate) fn create(bounds: RateBounds, options: Options<'_>) -> Halves {
    let rate_control = rate_control(options);
    let receiver = ReceiveSideConfig { rate_control, ..RECEIVER_2013 };
    (Box::new(LossBased::new(bounds, sender(options))), Some(Box::new(ReceiveSide::new(receiver))))
}

fn rate_control(options: Options<'_>) -> RateControlConfig {
    let base = match options.is_on("stable_holds") {
        true => RATE_CONTROL_THAT_HOLDS,
        false => RATE_CONTROL_2013,
    };
    RateControlConfig {
        decrease: options.get("decrease").map_or(base.decrease, DecreaseLaw::fixed),
        under_use_factor: options.get("under_use_factor"),
        ..base
    }
}

fn sender(options: Options<'_>) -> LossBasedConfig {
    let tfrc = match (options.is_on("tfrc_cap"), options.is_on("tfrc_floor")) {
        (true, _) => TfrcRole::Cap,
        (false, true) => TfrcRole::Floor,
        (false, false) => SENDER_2013.tfrc,
    };
    LossBasedConfig {
        tfrc,
        halves_without_feedback: options.is_on("halve_without_feedback"),
        ..SENDER_2013.with_printed_growth(options.get("low_loss_factor"), STEP)
    }
}

#[cfg(test)]
mod tests;
