//! `gcc-2016`: adaptive threshold, additive and multiplicative increase, start probing.
//!
//! Source: libwebrtc 524ecc29dd (25 May 2016, Chrome 52), receive side; with the option `draft` the
//! filter and detector of draft-ietf-rmcat-gcc-02, sections 5.3 and 5.4.

use super::control::{Halves, RateBounds};
use super::loss_based::{Growth, LossBased, LossBasedConfig, STEP, TfrcRole};
use super::options::{OptionSpec, Options, switch};
use super::receive_side::detector::{DetectorConfig, Threshold};
use super::receive_side::increase::IncreaseLaw;
use super::receive_side::kalman::KalmanConfig;
use super::receive_side::rate_control::{DecreaseLaw, Limit, RateControlConfig};
use super::receive_side::{GroupingClock, ReceiveSide, ReceiveSideConfig, Updates};
use crate::units::{Bitrate, Time};

pub(crate) const KALMAN_2016: KalmanConfig = KalmanConfig {
    process_noise: [1e-13, 1e-3],
    per_period: false,
    noise_floor: 1.0,
    signed_outliers: true,
};

pub(crate) const DETECTOR_2016: DetectorConfig = DetectorConfig {
    threshold_ms: 12.5,
    over_use_ms: 10.0,
    accumulates: true,
    threshold: Threshold::Adaptive { up: 0.004, down: 0.000_06 },
};

const DETECTOR_OF_DRAFT: DetectorConfig = DetectorConfig {
    accumulates: false,
    threshold: Threshold::Adaptive { up: 0.01, down: 0.000_18 },
    ..DETECTOR_2016
};

pub(crate) const RATE_CONTROL_2016: RateControlConfig = RateControlConfig {
    initialisation: Some(Time::from_secs(5)),
    signal_initialises: true,
    increase: IncreaseLaw::Aimd { additive: 0.5 },
    decrease: DecreaseLaw::fixed(0.85),
    recovers: false,
    under_use_factor: None,
    limit: Limit::Veto,
};

pub(crate) const RECEIVER_2016: ReceiveSideConfig = ReceiveSideConfig {
    clock: GroupingClock::SendTimes,
    kalman: Some(KALMAN_2016),
    detector: DETECTOR_2016,
    rate_control: RATE_CONTROL_2016,
    window: Time::from_secs(1),
    updates: Updates::FivePercent,
    remb_interval: Time::from_millis(200),
};

pub(crate) const SENDER_2016: LossBasedConfig = LossBasedConfig {
    growth: Growth::FromMinimum,
    factor: 1.08,
    step: STEP,
    tfrc: TfrcRole::None,
    once_per_report: true,
    probes: true,
    halves_without_feedback: false,
};

/// Options for what the draft, later releases and Jansen et al. (2017) say instead.
pub(crate) const OPTIONS: &[OptionSpec] = &[
    switch("draft", "scalar filter and threshold on the offset itself, as in the draft"),
    OptionSpec {
        name: "k_up",
        meaning: "gain of the threshold per ms while it is exceeded (from August 2016: 0.0087)",
        bounds: (0.0, 1.0),
    },
    OptionSpec {
        name: "k_down",
        meaning: "gain of the threshold per ms while it is not (from August 2016: 0.039)",
        bounds: (0.0, 1.0),
    },
    OptionSpec {
        name: "over_use_ms",
        meaning: "time in ms that over-use must last (code and draft: 10; Jansen et al.: 100)",
        bounds: (0.0, 1_000.0),
    },
    OptionSpec {
        name: "window_ms",
        meaning: "time in ms over which the incoming rate is measured (code: 1000; draft and Jansen et al.: 500)",
        bounds: (100.0, 5_000.0),
    },
    OptionSpec {
        name: "increase_factor",
        meaning: "growth factor per second of the receiver's estimate, also near a known maximum (Jansen et al., eq. 1: 1.05)",
        bounds: (1.0, 1.5),
    },
    OptionSpec {
        name: "decrease",
        meaning: "fraction of the incoming rate left after over-use (code, draft and Jansen et al., eq. 1: 0.85)",
        bounds: (0.5, 1.0),
    },
    OptionSpec {
        name: "low_loss_factor",
        meaning: "below 2 % loss the rate grows by this factor a second (Jansen et al., eq. 6, and draft: 1.05)",
        bounds: (1.0, 1.5),
    },
    switch(
        "incoming_cap",
        "the receiver's estimate is at most 1.5 times the incoming rate (Jansen et al., eq. 2); the code only refuses to raise it further",
    ),
];

/// Creates both halves.
pub(crate) fn create(bounds: RateBounds, options: Options<'_>) -> Halves {
    let (kalman, mut detector) = match options.is_on("draft") {
        true => (None, DETECTOR_OF_DRAFT),
        false => (RECEIVER_2016.kalman, DETECTOR_2016),
    };
    if let Threshold::Adaptive { up, down } = &mut detector.threshold {
        *up = options.get("k_up").unwrap_or(*up);
        *down = options.get("k_down").unwrap_or(*down);
    }
    detector.over_use_ms = options.get("over_use_ms").unwrap_or(detector.over_use_ms);
    let window = options
        .get("window_ms")
        .map_or(RECEIVER_2016.window, |ms| Time::from_secs_f64(ms / 1_000.0));
    let rate_control = rate_control(options);
    let receiver = ReceiveSideConfig { kalman, detector, rate_control, window, ..RECEIVER_2016 };
    (Box::new(LossBased::new(bounds, sender(options))), Some(Box::new(ReceiveSide::new(receiver))))
}

fn sender(options: Options<'_>) -> LossBasedConfig {
    SENDER_2016.with_printed_growth(options.get("low_loss_factor"), Bitrate::ZERO)
}

fn rate_control(options: Options<'_>) -> RateControlConfig {
    let code = RATE_CONTROL_2016;
    RateControlConfig {
        increase: options
            .get("increase_factor")
            .map_or(code.increase, |per_second| IncreaseLaw::Factor { per_second }),
        decrease: options.get("decrease").map_or(code.decrease, DecreaseLaw::fixed),
        limit: if options.is_on("incoming_cap") { Limit::Cap } else { code.limit },
        ..code
    }
}

#[cfg(test)]
mod tests;
