//! `dynamic-alpha` reduces the rate on over-use according to how far the detector is above its threshold.
//! `fixed-alpha` is the same algorithm with the fixed factors that libwebrtc used at the time.
//!
//! Source: Iqbal, Shirmohammadi, Atwah, "A Dynamic Approach to Estimate Receiving Bandwidth for WebRTC",
//! equations 3 to 5, on libwebrtc 2f1509395b (30 June 2015), the last revision with the regions that the
//! equations name.

use super::control::{Halves, RateBounds};
use super::gcc_2016::SENDER_2016;
use super::loss_based::{LossBased, LossBasedConfig, STEP, TfrcRole};
use super::options::{OptionSpec, Options, switch};
use super::receive_side::dynamic_alpha::{Divisor, DynamicAlpha};
use super::receive_side::increase::IncreaseLaw;
use super::receive_side::kalman::KalmanConfig;
use super::receive_side::rate_control::{BETA, DecreaseLaw, NEAR_BETA, RateControlConfig};
use super::receive_side::{GroupingClock, ReceiveSide, ReceiveSideConfig, Updates};
use super::rrtcc_2013::{DETECTOR_2013, KALMAN_2013, RATE_CONTROL_2013};
use crate::units::Time;

const KALMAN_2015: KalmanConfig =
    KalmanConfig { per_period: false, signed_outliers: true, ..KALMAN_2013 };

const RATE_CONTROL_2015: RateControlConfig = RateControlConfig {
    initialisation: Some(Time::from_secs(5)),
    signal_initialises: true,
    increase: IncreaseLaw::Aimd { additive: 1.0 },
    ..RATE_CONTROL_2013
};

const RECEIVER_2015: ReceiveSideConfig = ReceiveSideConfig {
    clock: GroupingClock::SendTimes,
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
        "one_divisor",
        "divisor 1.3 near the maximum, too, as in the paper's table 1, instead of 1.14",
    ),
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
    switch(
        "lagged",
        "alpha is computed where libwebrtc sets its factor, when the region changes, and so applies to the next over-use",
    ),
    LOW_LOSS_FACTOR,
];

const LOW_LOSS_FACTOR: OptionSpec = OptionSpec {
    name: "low_loss_factor",
    meaning: "below 2 % loss the rate plus 1 kbit/s grows by this factor a second (the paper's eq. 2: 1.05)",
    bounds: (1.0, 1.5),
};

/// Options of the algorithm that the paper compares with.
pub(crate) const OPTIONS_FIXED: &[OptionSpec] = &[
    OptionSpec {
        name: "alpha",
        meaning: "fixed fraction of the incoming rate left after over-use (the paper's text: 0.85 or 0.95)",
        bounds: (0.5, 1.0),
    },
    OptionSpec {
        name: "near_alpha",
        meaning: "the same near a known maximum, if another one (code: 0.95)",
        bounds: (0.5, 1.0),
    },
    LOW_LOSS_FACTOR,
];

/// Creates both halves of `dynamic-alpha`.
pub(crate) fn create(bounds: RateBounds, options: Options<'_>) -> Halves {
    let divisor = match (options.is_on("one_divisor"), options.is_on("divisor_by_threshold")) {
        (true, _) => Divisor::One,
        (false, true) => Divisor::ByThreshold,
        (false, false) => Divisor::ByRegion,
    };
    let law = DynamicAlpha {
        divisor,
        max: options.get("max_alpha").unwrap_or(f64::INFINITY),
        whole_threshold: options.is_on("whole_threshold"),
        replaces_beta: options.is_on("replaces_beta"),
        lagged: options.is_on("lagged"),
    };
    with(bounds, options, DecreaseLaw::Dynamic(law))
}

/// Creates both halves of `fixed-alpha`.
pub(crate) fn create_fixed(bounds: RateBounds, options: Options<'_>) -> Halves {
    with(bounds, options, fixed_factors(options))
}

fn fixed_factors(options: Options<'_>) -> DecreaseLaw {
    let alpha = options.get("alpha");
    DecreaseLaw::Factors {
        elsewhere: alpha.unwrap_or(BETA),
        near: options.get("near_alpha").or(alpha).unwrap_or(NEAR_BETA),
    }
}

fn with(bounds: RateBounds, options: Options<'_>, decrease: DecreaseLaw) -> Halves {
    let rate_control = RateControlConfig { decrease, ..RATE_CONTROL_2015 };
    let receiver = ReceiveSideConfig { rate_control, ..RECEIVER_2015 };
    (Box::new(LossBased::new(bounds, sender(options))), Some(Box::new(ReceiveSide::new(receiver))))
}

fn sender(options: Options<'_>) -> LossBasedConfig {
    SENDER_2015.with_printed_growth(options.get("low_loss_factor"), STEP)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Bitrate;

    #[test]
    fn alpha_applies_in_both_regions_unless_near_alpha_is_given() {
        let factors = |given: &[(&str, f64)]| {
            let options = given.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
            match fixed_factors(Options(&options)) {
                DecreaseLaw::Factors { near, elsewhere } => (elsewhere, near),
                DecreaseLaw::Dynamic(_) => panic!("no factors"),
            }
        };
        assert_eq!(factors(&[]), (0.9, 0.95));
        assert_eq!(factors(&[("alpha", 0.95)]), (0.95, 0.95));
        assert_eq!(factors(&[("alpha", 0.85), ("near_alpha", 0.95)]), (0.85, 0.95));
        assert_eq!(factors(&[("near_alpha", 0.85)]), (0.9, 0.85));
    }

    #[test]
    fn equation_2_grows_by_5_percent_of_the_rate_plus_1_kbps_and_the_code_by_8_percent_plus_1_kbps()
    {
        let options = [("low_loss_factor".to_owned(), 1.05)].into();
        let printed = sender(Options(&options));
        assert_eq!((printed.factor, printed.step), (1.05, Bitrate(1_050)));
        assert_eq!((SENDER_2015.factor, SENDER_2015.step), (1.08, Bitrate(1_000)));
    }
}
