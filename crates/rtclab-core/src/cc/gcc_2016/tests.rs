//! Equations 1, 2 and 6 of Jansen et al. (2017), case by case.

use super::*;
use crate::cc::control::{Controller, Feedback, SenderState};
use crate::cc::receive_side::rate_control::{Input, ReceiveSideRateControl};
use crate::cc::receive_side::state::{Region, Usage};
use std::collections::BTreeMap;

const PRINTED: [(&str, f64); 4] = [
    ("increase_factor", 1.05),
    ("decrease", 0.85),
    ("incoming_cap", 1.0),
    ("low_loss_factor", 1.05),
];

fn map(given: &[(&str, f64)]) -> BTreeMap<String, f64> {
    given.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
}

/// The receiver's rate control after signals, one a second from 3 s on, each with R in kbit/s. A_r is 1 Mbit/s before.
fn after(given: &[(&str, f64)], signals: &[(Usage, f64)]) -> ReceiveSideRateControl {
    let mut control = ReceiveSideRateControl::new(rate_control(Options(&map(given))));
    control.set_estimate(Time::from_secs(2), Bitrate::from_mbps(1));
    for (second, &(usage, kbps)) in (3..).zip(signals) {
        let detector_ms = (26.0, 12.5);
        let input = Input {
            usage,
            incoming_bps: kbps * 1e3,
            noise: 1.0,
            raised_ms: detector_ms,
            detector_ms,
        };
        control.update(Time::from_secs(second), &input);
    }
    control
}

/// A_r in bit/s.
fn receiver(given: &[(&str, f64)], signals: &[(Usage, f64)]) -> u64 {
    after(given, signals).estimate().expect("an estimate").0
}

#[test]
fn increase_is_5_percent_a_second_in_every_region_where_the_code_grows_by_8_percent_or_half_a_packet()
 {
    // The first update begins to count time: 0 s.
    let unknown = [(Usage::Normal, 1_000.0); 3];
    assert_eq!(receiver(&PRINTED, &unknown), 1_102_500);
    // The code adds at least 1 kbit/s: 1001 * 1.08^2.
    assert_eq!(receiver(&[], &unknown), 1_167_566);
    // 0.85 * 1000 = 850 kbit/s near a known maximum; over-use, hold, and a second of growth: 892.5.
    let near = [(Usage::Over, 1_000.0), (Usage::Normal, 850.0), (Usage::Normal, 850.0)];
    assert_eq!(after(&PRINTED, &near).region(), Region::NearMax);
    assert_eq!(receiver(&PRINTED, &near), 892_500);
    // Half a packet: 850 000 / 30 bit in 3 packets of 9444 bit each.
    assert!(receiver(&[], &near).abs_diff(850_000 + 9_444 / 2) < 2_000);
}

#[test]
fn decrease_is_to_85_percent_of_what_arrives_like_the_code() {
    for given in [&PRINTED[..], &[]] {
        assert_eq!(receiver(given, &[(Usage::Over, 900.0)]), 765_000);
    }
    assert_eq!(receiver(&[("decrease", 0.9)], &[(Usage::Over, 900.0)]), 810_000);
}

#[test]
fn hold_keeps_the_rate_up_to_one_and_a_half_times_what_arrives_where_the_code_keeps_any() {
    for (arrives, printed) in [(700.0, 1_000_000), (600.0, 900_000)] {
        assert_eq!(receiver(&PRINTED, &[(Usage::Under, arrives)]), printed);
        assert_eq!(receiver(&[], &[(Usage::Under, arrives)]), 1_000_000);
    }
}

fn sender_of(given: &[(&str, f64)]) -> LossBased {
    let kbps = Bitrate::from_kbps;
    let bounds = RateBounds {
        start: kbps(300),
        min: kbps(50),
        max: kbps(2_500),
        audio: Bitrate::ZERO,
        has_video: true,
    };
    LossBased::new(bounds, sender(Options(&map(given))))
}

#[test]
fn below_2_percent_the_sender_grows_by_5_percent_a_second_without_the_code_s_step_of_1_kbps() {
    for (given, rates) in [(&PRINTED[..], [315_000, 330_750]), (&[], [325_000, 352_000])] {
        let mut sender = sender_of(given);
        let rtt = Some(Time::from_millis(100));
        let feedback = Feedback::ReceiverReport { lost: 0, expected: 30, fraction: 0, rtt };
        sender.on_feedback(Time::from_secs(1), feedback).expect("no error");
        assert_eq!(sender.decision().target.0, rates[0]);
        sender.on_timeout(Time::from_secs(2), &SenderState::default()).expect("no error");
        assert_eq!(sender.decision().target.0, rates[1]);
    }
}
