use super::*;
use crate::cc::gcc_2016::RATE_CONTROL_2016;
use crate::cc::receive_side::dynamic_alpha::Divisor;
use crate::cc::rrtcc_2013::RATE_CONTROL_2013;

fn input(usage: Usage, kbps: f64) -> Input {
    Input {
        usage,
        incoming_bps: kbps * 1e3,
        noise: 1.0,
        raised_ms: (26.0, 25.0),
        detector_ms: (26.0, 25.0),
    }
}

/// A rate control whose estimate is 1 Mbit/s at 2 s.
fn at_1_mbps(config: RateControlConfig) -> ReceiveSideRateControl {
    let mut control = ReceiveSideRateControl::new(config);
    control.set_estimate(Time::from_secs(2), Bitrate::from_mbps(1));
    control
}

fn kbps(control: &ReceiveSideRateControl) -> f64 {
    control.rate_bps / 1e3
}

#[test]
fn states_follow_the_table_of_the_draft() {
    use AimdState::{Decrease, Hold, Increase};
    let states = [Hold, Increase, Decrease];
    assert_eq!(states.map(|s| s.after(Usage::Over)), [Decrease, Decrease, Decrease]);
    assert_eq!(states.map(|s| s.after(Usage::Normal)), [Increase, Increase, Hold]);
    assert_eq!(states.map(|s| s.after(Usage::Under)), [Hold, Hold, Hold]);
}

#[test]
fn the_first_estimate_of_2013_is_what_arrives_after_half_a_second() {
    let mut control = ReceiveSideRateControl::new(RATE_CONTROL_2013);
    control.update(Time::from_millis(100), &input(Usage::Under, 200.0));
    assert_eq!(control.estimate(), None);
    control.update(Time::from_millis(601), &input(Usage::Under, 290.0));
    assert_eq!(control.estimate(), Some(Bitrate::from_kbps(290)));
}

#[test]
fn over_use_makes_the_first_estimate_since_2015_and_not_in_2013() {
    for (config, estimate) in [(RATE_CONTROL_2013, None), (RATE_CONTROL_2016, Some(255))] {
        let mut control = ReceiveSideRateControl::new(config);
        control.update(Time::from_millis(300), &input(Usage::Over, 300.0));
        // 0.85 * 300
        assert_eq!(control.estimate(), estimate.map(Bitrate::from_kbps));
    }
}

#[test]
fn in_2013_the_first_over_use_leaves_90_percent_and_later_ones_95_percent() {
    let mut control = at_1_mbps(RATE_CONTROL_2013);
    control.update(Time::from_secs(3), &input(Usage::Over, 900.0));
    assert!((kbps(&control) - 810.0).abs() < 1e-6);
    assert_eq!((control.region(), control.state()), (Region::NearMax, AimdState::Hold));
    control.update(Time::from_secs(4), &input(Usage::Over, 800.0));
    assert!((kbps(&control) - 760.0).abs() < 1e-6);
}

#[test]
fn over_use_in_2016_leaves_85_percent_whatever_the_region() {
    let mut control = at_1_mbps(RATE_CONTROL_2016);
    for (second, incoming) in [(3, 900.0), (4, 760.0)] {
        control.update(Time::from_secs(second), &input(Usage::Over, incoming));
        assert!((kbps(&control) - 0.85 * incoming).abs() < 1e-6);
    }
}

#[test]
fn over_use_never_raises_the_rate() {
    let mut control = at_1_mbps(RATE_CONTROL_2013);
    control.update(Time::from_secs(3), &input(Usage::Over, 2_000.0));
    assert!((kbps(&control) - 1_000.0).abs() < 1e-6);
}

#[test]
fn an_increase_above_one_and_a_half_times_the_incoming_rate_is_rejected() {
    for (incoming, expected) in [(600.0, 1_000.0), (900.0, 1_054.0)] {
        let mut control = at_1_mbps(RATE_CONTROL_2013);
        control.set_rtt(Time::ZERO);
        control.update(Time::from_secs(2), &input(Usage::Under, incoming));
        control.period_ms = 1e3;
        control.update(Time::from_secs(3), &input(Usage::Normal, incoming));
        // The first update after hold starts the clock: 0 s of growth, plus 1 kbit/s.
        control.update(Time::from_secs(4), &input(Usage::Normal, incoming));
        assert!((kbps(&control) - expected).abs() < 2.5, "{} of {expected}", kbps(&control));
    }
}

#[test]
fn after_hold_the_rate_returns_to_95_percent_of_what_arrived_during_it() {
    let mut control = at_1_mbps(RATE_CONTROL_2013);
    control.update(Time::from_secs(3), &input(Usage::Over, 300.0));
    assert!((kbps(&control) - 270.0).abs() < 1e-6);
    control.update(Time::from_secs(4), &input(Usage::Under, 800.0));
    control.update(Time::from_secs(5), &input(Usage::Normal, 270.0));
    // The decrease moved the region near the maximum, so the factor is 0.95; no veto.
    assert!((kbps(&control) - 760.0).abs() < 1e-6, "{}", kbps(&control));
    assert_eq!(control.region(), Region::NearMax);
}

/// 26 ms at a threshold of 25 ms leave 0.9879 of the incoming rate; fast recovery goes to 0.95 of what arrived.
#[test]
fn alpha_replaces_the_factor_of_fast_recovery_only_with_the_option() {
    for (replaces_beta, recovered) in [(false, 760.0), (true, 790.3)] {
        let law = DynamicAlpha {
            divisor: Divisor::ByRegion,
            max: f64::INFINITY,
            whole_threshold: false,
            replaces_beta,
            lagged: false,
        };
        let decrease = DecreaseLaw::Dynamic(law);
        let mut control = at_1_mbps(RateControlConfig { decrease, ..RATE_CONTROL_2013 });
        control.update(Time::from_secs(3), &input(Usage::Over, 300.0));
        assert!((kbps(&control) - 296.4).abs() < 0.1, "{}", kbps(&control));
        control.update(Time::from_secs(4), &input(Usage::Under, 800.0));
        control.update(Time::from_secs(5), &input(Usage::Normal, 296.0));
        assert!((kbps(&control) - recovered).abs() < 0.1, "{}", kbps(&control));
    }
}

/// The first over-use leaves the initial 0.9. It moves the region near the maximum, where 26 ms at a threshold of 25 ms
/// give 1 - 0.1228 * (1 - exp(-1 / 52)) = 0.99766 for the next one.
#[test]
fn lagged_alpha_applies_to_the_next_over_use() {
    let law = DynamicAlpha {
        divisor: Divisor::ByRegion,
        max: f64::INFINITY,
        whole_threshold: false,
        replaces_beta: false,
        lagged: true,
    };
    let decrease = DecreaseLaw::Dynamic(law);
    let mut control = at_1_mbps(RateControlConfig { decrease, ..RATE_CONTROL_2013 });
    for (second, arrives, expected) in [(3, 900.0, 810.0), (4, 800.0, 798.13)] {
        control.update(Time::from_secs(second), &input(Usage::Over, arrives));
        assert!((kbps(&control) - expected).abs() < 0.01, "{}", kbps(&control));
    }
}

#[test]
fn a_factor_of_each_region_applies_in_that_region() {
    let decrease = DecreaseLaw::Factors { near: 0.95, elsewhere: 0.85 };
    let mut control = at_1_mbps(RateControlConfig { decrease, ..RATE_CONTROL_2013 });
    for (second, arrives, expected) in [(3, 900.0, 765.0), (4, 700.0, 665.0)] {
        control.update(Time::from_secs(second), &input(Usage::Over, arrives));
        assert!((kbps(&control) - expected).abs() < 1e-6, "{}", kbps(&control));
    }
}

#[test]
fn an_incoming_rate_3_deviations_above_the_maximum_makes_it_unknown_again() {
    // After one decrease at 500 kbit/s: sqrt(0.4 * 500) = 14.1 kbit/s; limits 535.4 and 542.4
    for (incoming, region) in
        [(535.0, Region::NearMax), (536.0, Region::AboveMax), (543.0, Region::MaxUnknown)]
    {
        let mut control = at_1_mbps(RATE_CONTROL_2013);
        control.update(Time::from_secs(3), &input(Usage::Over, 500.0));
        control.update(Time::from_secs(4), &input(Usage::Normal, incoming));
        assert_eq!(control.region(), region, "{incoming} kbit/s");
    }
}

#[test]
fn reducing_again_waits_for_a_round_trip_of_at_most_200_ms() {
    let mut control = at_1_mbps(RATE_CONTROL_2013);
    control.set_rtt(Time::from_millis(500));
    let may = |ms| control.may_reduce_again(Time::from_millis(ms), 900e3);
    assert!(!may(2_199) && may(2_200));
    // 1000 - 480 > 1.05 * 480: at once
    assert!(control.may_reduce_again(Time::from_millis(2_001), 480e3));
}

#[test]
fn the_factor_in_the_papers_raises_the_rate_on_under_use() {
    let config = RateControlConfig { under_use_factor: Some(1.5), ..RATE_CONTROL_2013 };
    let mut control = at_1_mbps(config);
    control.update(Time::from_secs(3), &input(Usage::Under, 800.0));
    assert!((kbps(&control) - 1_200.0).abs() < 1e-6);
}
