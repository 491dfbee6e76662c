//! The same inputs for this control and for the published port of December 2024.
//!
//! On purpose they differ in this:
//! - the port feeds its push-back the window as outstanding data, so push-back is not compared;
//! - its application-limited regions start at wall-clock times, so these loops always send the target;
//! - its loss-based estimator has other defaults ([`of_the_port`] sets them here), waits for a receiver
//!   report, takes the first of two equal candidates and compares them by fractions of kbit/s;
//! - its pacing factor is 2.5, and padding has no part in loss, so pacing is not compared;
//! - it takes fractions of kbit/s for the link's capacity;
//! - it sorts arrivals by receive time only;
//! - it panics at a report without arrivals, which is why its wrapper holds such a report back.

use super::super::arithmetic::KBPS;
use super::super::loss_estimator::LossEstimatorConfig;
use super::super::port::Port;
use super::*;
use proptest::prelude::*;

/// The port's defaults of the loss-based estimator.
fn of_the_port() -> GoogCcConfig {
    let mut config = GoogCcConfig::default();
    config.send_side.loss_estimator = LossEstimatorConfig {
        window: 20,
        bias_threshold: 0.15,
        inherent_loss_balance: 75 * KBPS,
        upper_bound_balance: 75 * KBPS,
        lower_bound_by_acked: 0.0,
        ramp_up: 1e6,
        ramp_up_in_hold: 1e6,
        hold_factor: 0.0,
        padding: 0,
        bounds_best: false,
        at_start: false,
        counts_bytes: false,
        ..LossEstimatorConfig::default()
    };
    config
}

/// A control's target and the port's after each report, both in bit/s.
type Pairs = Vec<(f64, f64)>;

/// Runs a loop driven by the port or by ours, and gives its inputs to both.
fn targets(config: GoogCcConfig, link: Link, seed: u64, port_drives: bool) -> Pairs {
    let limits = bounds(300, 5_000);
    let (mut ours, mut port) = (GoogCc::with(limits, config), Port::new(limits));
    let mut inputs = Vec::new();
    let driver: &mut dyn Controller = match port_drives {
        true => &mut Port::new(limits),
        false => &mut GoogCc::with(limits, config),
    };
    let keep = |input: &Input, _| inputs.push(input.clone());
    Loop::new(link, seed).run(driver, Time::from_secs(40), keep);
    let mut pairs = Vec::new();
    for input in &inputs {
        for control in [&mut ours as &mut dyn Controller, &mut port] {
            input.give(control);
            while control.poll_probe().is_some() {}
        }
        if matches!(input, Input::Reports(..)) {
            pairs.push((ours.decision().target.0 as f64, port.decision().target.0 as f64));
        }
    }
    pairs
}

/// Share of the reports after which the targets are at most this far apart.
fn agreement(pairs: &[(f64, f64)], tolerance: f64) -> f64 {
    let close = pairs.iter().filter(|(ours, port)| (ours / port - 1.0).abs() <= tolerance).count();
    close as f64 / pairs.len() as f64
}

fn mean_ratio(pairs: &[(f64, f64)]) -> f64 {
    let sum = pairs.iter().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
    sum.0 / sum.1
}

#[test]
fn without_loss_the_ports_defaults_give_the_targets_of_the_port() {
    for kbps in [300, 1_000, 2_500] {
        for port_drives in [false, true] {
            let pairs = targets(of_the_port(), link(kbps, 50, 0.0), 1, port_drives);
            assert_eq!(agreement(&pairs, 0.0), 1.0, "{kbps} kbit/s");
        }
    }
}

/// Loss without consequences at first, loss by congestion, and loss with an upper bound. Once the controls have taken
/// different candidates of nearly equal likelihood, they differ until the next bound.
#[test]
fn with_loss_the_ports_defaults_give_the_targets_of_the_port_but_for_ties() {
    for loss in [0.01, 0.03, 0.1] {
        for port_drives in [false, true] {
            let pairs = targets(of_the_port(), link(1_000, 50, loss), 1, port_drives);
            let (close, mean) = (agreement(&pairs, 0.01), mean_ratio(&pairs));
            assert!((0.95..1.0).contains(&close), "{loss}: {close}");
            assert!((0.99..1.02).contains(&mean), "{loss}: {mean}");
        }
    }
}

/// Without loss only the first two seconds differ, and the moments in which the acknowledged rate, a lower bound
/// in 2026, is above the delay-based estimate of the last observation.
#[test]
fn without_loss_the_defaults_of_2026_give_nearly_the_targets_of_the_port() {
    for kbps in [300, 1_000, 2_500] {
        let pairs = targets(GoogCcConfig::default(), link(kbps, 50, 0.0), 1, false);
        let (close, mean) = (agreement(&pairs, 0.01), mean_ratio(&pairs));
        assert!((0.94..1.0).contains(&close), "{kbps} kbit/s: {close}");
        assert!((0.999..1.001).contains(&mean), "{kbps} kbit/s: {mean}");
    }
}

/// The estimator of 2026 does not let the rate grow far beyond what arrives, nor fall below it.
#[test]
fn with_loss_the_defaults_of_2026_give_other_targets_of_the_same_size() {
    for loss in [0.01, 0.03, 0.1] {
        let pairs = targets(GoogCcConfig::default(), link(1_000, 50, loss), 1, true);
        let (close, mean) = (agreement(&pairs, 0.01), mean_ratio(&pairs));
        assert!((0.2..0.6).contains(&close), "{loss}: {close}");
        assert!((0.9..1.1).contains(&mean), "{loss}: {mean}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Fractions of kbit/s in the link's capacity make a difference of less than one in a thousand. The first two
    /// seconds, of some forty reports, are those in which the port waits for a receiver report. On one of 525 links
    /// (2,481 kbit/s and 16 ms, whichever drives) the targets of 1.5 % of the reports differ, by up to 1 %. The reason is
    /// not known.
    #[test]
    fn on_every_link_without_loss_the_targets_are_those_of_the_port(
        kbps in 150u64..4_000, delay_ms in 5u64..300, queue_ms in 5_000u64..10_000, port_drives: bool
    ) {
        let queue = Time::from_millis(queue_ms);
        let pairs = targets(of_the_port(), Link { queue, ..link(kbps, delay_ms, 0.0) }, 1, port_drives);
        prop_assert!(agreement(&pairs[40..], 1e-3) >= 0.97);
        prop_assert_eq!(agreement(&pairs[40..], 0.02), 1.0);
    }
}
