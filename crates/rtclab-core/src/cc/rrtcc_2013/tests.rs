//! The equations of the papers, case by case: A_r of the receiver (Singh et al., section II-A; thesis, equation 8)
//! and A_s of the sender (II-B; equation 9).

use super::*;
use crate::cc::control::{Controller, Feedback, SenderState};
use crate::cc::receive_side::rate_control::{Input, ReceiveSideRateControl};
use crate::cc::receive_side::state::Usage;
use crate::units::Bitrate;
use std::collections::BTreeMap;

type Given = [(&'static str, f64)];

const PRINTED: [(&str, f64); 4] = [
    ("decrease", 0.85),
    ("under_use_factor", 1.5),
    ("stable_holds", 1.0),
    ("low_loss_factor", 1.05),
];

fn map(given: &Given) -> BTreeMap<String, f64> {
    given.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
}

/// A_r in kbit/s after a detector's signals, one a second from 3 s on, each with the incoming rate in kbit/s.
/// A_r is 1 Mbit/s before.
fn receiver(given: &Given, signals: &[(Usage, f64)]) -> f64 {
    let mut control = ReceiveSideRateControl::new(rate_control(Options(&map(given))));
    control.set_estimate(Time::from_secs(2), Bitrate::from_mbps(1));
    run(&mut control, signals).expect("an estimate")
}

fn run(control: &mut ReceiveSideRateControl, signals: &[(Usage, f64)]) -> Option<f64> {
    for (second, &(usage, kbps)) in (3..).zip(signals) {
        let raised_ms = (26.0, 25.0);
        let input = Input {
            usage,
            incoming_bps: kbps * 1e3,
            noise: 1.0,
            raised_ms,
            detector_ms: raised_ms,
        };
        control.update(Time::from_secs(second), &input);
    }
    control.estimate().map(|rate| rate.0 as f64 / 1e3)
}

#[test]
fn over_use_leaves_85_percent_of_what_arrives_in_every_region() {
    // 0.85 * 900, then 0.85 * 700 near the known maximum; the code: 0.9 * 900 and 0.95 * 700
    let signals = [(Usage::Over, 900.0), (Usage::Over, 700.0)];
    for (given, rates) in [(&PRINTED[..], [765.0, 595.0]), (&[], [810.0, 665.0])] {
        assert_eq!([1, 2].map(|n| receiver(given, &signals[..n])), rates);
    }
}

#[test]
fn a_stable_path_keeps_the_old_rate_where_the_code_grows() {
    // No growth in ten seconds, and none after over-use, to 0.85 and 0.9 of 300 kbit/s.
    let stable = [(Usage::Normal, 990.0); 10];
    assert_eq!(receiver(&PRINTED, &stable), 1_000.0);
    assert!((1_100.0..1_500.0).contains(&receiver(&[], &stable)));
    let after_over_use = [(Usage::Over, 300.0), (Usage::Normal, 800.0), (Usage::Normal, 800.0)];
    assert_eq!(receiver(&PRINTED, &after_over_use), 255.0);
    assert!((271.0..330.0).contains(&receiver(&[], &after_over_use)));
}

#[test]
fn under_use_sets_the_rate_to_one_and_a_half_times_what_arrives_up_or_down() {
    for (arrives, rate) in [(800.0, 1_200.0), (400.0, 600.0)] {
        assert_eq!(receiver(&PRINTED, &[(Usage::Under, arrives)]), rate);
        assert_eq!(receiver(&[], &[(Usage::Under, arrives)]), 1_000.0);
    }
    // The option's bounds reach 2; the veto of increases beyond 1.5 times what arrives does not apply.
    assert_eq!(receiver(&[("under_use_factor", 2.0)], &[(Usage::Under, 800.0)]), 1_600.0);
}

#[test]
fn the_printed_equation_has_no_estimate_before_the_first_signal() {
    let options = map(&PRINTED);
    for (usage, first) in
        [(Usage::Normal, None), (Usage::Over, Some(255.0)), (Usage::Under, Some(450.0))]
    {
        let mut control = ReceiveSideRateControl::new(rate_control(Options(&options)));
        assert_eq!(run(&mut control, &[(Usage::Normal, 300.0); 10]), None);
        assert_eq!(run(&mut control, &[(usage, 300.0)]), first);
    }
}

/// A sender of 300 kbit/s, between 50 and 2000.
fn sender_of(given: &Given) -> LossBased {
    let kbps = Bitrate::from_kbps;
    let bounds = RateBounds {
        start: kbps(300),
        min: kbps(50),
        max: kbps(2_000),
        audio: Bitrate::ZERO,
        has_video: true,
    };
    LossBased::new(bounds, sender(Options(&map(given))))
}

/// A_s in bit/s after a report at 1 s of `lost` of 255 packets, from 300 kbit/s.
fn reported(given: &Given, lost: u8, rtt_ms: u64) -> u64 {
    let mut sender = sender_of(given);
    report(&mut sender, lost, rtt_ms)
}

fn report(sender: &mut LossBased, lost: u8, rtt_ms: u64) -> u64 {
    let rtt = Some(Time::from_millis(rtt_ms));
    let feedback =
        Feedback::ReceiverReport { lost: lost.into(), expected: 255, fraction: lost, rtt };
    sender.on_feedback(Time::from_secs(1), feedback).expect("no error");
    sender.decision().target.0
}

#[test]
fn below_2_percent_the_rate_plus_1_kbps_grows_by_5_percent() {
    // 1.05 * (300 000 + 1000) = 316 050; the code: 1.08 * 300 000 + 1000. 5 of 255 are 1.96 %, 6 are 2.35 %.
    for lost in [0, 5] {
        assert_eq!(reported(&PRINTED, lost, 100), 316_050);
        assert_eq!(reported(&[], lost, 100), 325_000);
    }
    assert_eq!(reported(&PRINTED, 6, 100), 300_000);
}

#[test]
fn between_2_and_10_percent_the_rate_stays_and_above_it_falls_by_half_the_loss() {
    // 25 of 255 are 9.8 %. 51 of 255 are 20 %: 300 * (1 - 0.1) = 270; in the code's units, * 461/512.
    assert_eq!(reported(&PRINTED, 25, 100), 300_000);
    let reduced = reported(&PRINTED, 51, 100);
    assert!(reduced.abs_diff(270_000) < 270, "{reduced}");
}

/// TFRC at 20 % and 10 ms: 8000 bit / (0.01 s * 0.3651 + 0.04 s * 3 * 0.2739 * 0.2 * 2.28) = 8000 bit / 18.64 ms = 429
/// kbit/s. At 13 of 255 (5.1 %) and 100 ms: 8000 bit / (0.1 s * 0.1844 + 0.4 s * 0.4148 * 0.0510 * 1.083) = 8000 bit /
/// 27.60 ms = 290 kbit/s.
#[test]
fn tfrc_is_a_floor_or_a_cap_at_any_loss_and_in_the_code_a_floor_of_decreases() {
    let floor = &[("tfrc_floor", 1.0)];
    let cap = &[("tfrc_cap", 1.0)];
    let kbps = |given: &Given, lost, rtt_ms| reported(given, lost, rtt_ms) / 1_000;
    // From 300 kbit/s, 20 % leave 270. The floor raises that, in the code, too.
    assert_eq!([kbps(&[], 51, 10), kbps(floor, 51, 10), kbps(cap, 51, 10)], [429, 429, 270]);
    // Between 2 and 10 % the rate stays, and only the cap matters: 290 kbit/s.
    let held = [kbps(&[], 13, 100), kbps(floor, 13, 100), kbps(cap, 13, 100)];
    assert_eq!(held, [300, 300, 289]);
    // At 50 ms TFRC is 580 kbit/s: the floor raises a rate that the code keeps.
    assert_eq!([kbps(&[], 13, 50), kbps(floor, 13, 50)], [300, 579]);
    // Without loss there is no TFRC rate.
    assert_eq!(kbps(cap, 0, 100), kbps(&[], 0, 100));
}

#[test]
fn remb_bounds_the_rate_from_above_whatever_tfrc_says() {
    let mut sender = sender_of(&[("tfrc_floor", 1.0)]);
    sender.on_feedback(Time::ZERO, Feedback::Remb(Bitrate::from_kbps(400))).expect("no error");
    assert_eq!(report(&mut sender, 51, 10), 400_000);
}

/// Two intervals of 1 s after the last feedback.
#[test]
fn two_intervals_without_feedback_halve_the_rate() {
    let mut sender = sender_of(&[("halve_without_feedback", 1.0)]);
    let at = |sender: &mut LossBased, ms| {
        sender.on_timeout(Time::from_millis(ms), &SenderState::default()).expect("no error");
        sender.decision().target.0
    };
    report(&mut sender, 20, 100);
    assert_eq!(sender.poll_timeout(), Some(Time::from_millis(3_000)));
    assert_eq!([2_999, 3_000, 4_999].map(|ms| at(&mut sender, ms)), [300_000, 150_000, 150_000]);
    sender
        .on_feedback(Time::from_millis(4_500), Feedback::Remb(Bitrate::from_mbps(1)))
        .expect("no error");
    assert_eq!([6_499, 6_500, 8_500].map(|ms| at(&mut sender, ms)), [150_000, 75_000, 50_000]);
}
