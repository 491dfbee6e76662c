//! The same inputs for this control and for the published port.
//!
//! They differ on purpose where the port has faults, or defaults of December 2024:
//! - it feeds its push-back the window as outstanding data, so push-back is not compared;
//! - its regions of application-limited sending start at wall-clock times, so no such probes are asked for;
//! - its loss-based estimator has other defaults (growth, thresholds, window, hold, padding, packets for
//!   bytes), waits for a receiver report and takes the smaller of two equal candidates;
//! - its pacing factor is 2.5, and padding has no part in loss;
//! - it takes fractions of kbit/s for the link's capacity and for the preference of high rates;
//! - it sorts arrivals by receive time only.

use super::super::port::Port;
use super::*;
use proptest::prelude::*;

/// Runs a loop driven by one control, and gives its inputs to both. Returns the targets of both after each
/// report.
fn targets(link: Link, seconds: u64, seed: u64, port_drives: bool) -> Vec<(f64, f64)> {
    let limits = bounds(300, 5_000);
    let (mut ours, mut port) = (GoogCc::new(limits), Port::new(limits));
    let mut inputs = Vec::new();
    let driver: &mut dyn Controller =
        if port_drives { &mut Port::new(limits) } else { &mut GoogCc::new(limits) };
    Loop::new(link, seed)
        .run(driver, Time::from_secs(seconds), |input, _| inputs.push(input.clone()));
    let mut pairs = Vec::new();
    for input in &inputs {
        for control in [&mut ours as &mut dyn Controller, &mut port] {
            input.give(control);
            while control.poll_probe().is_some() {}
        }
        if matches!(input, Input::Reports(..)) {
            if std::env::var("SHOW").is_ok() && ours.decision().target != port.decision().target {
                let mut out = Vec::new();
                ours.observe(&mut out);
                let text: Vec<_> =
                    out.iter().map(|o| format!("{}={:.4}", o.name, o.value)).collect();
                println!(
                    "{} {:?} {:?} {}",
                    input.at(),
                    ours.decision().target,
                    port.decision().target,
                    text.join(" ")
                );
            }
            pairs.push((ours.decision().target.0 as f64, port.decision().target.0 as f64));
        }
    }
    pairs
}

/// Share of the reports after which the targets are less than this far apart.
fn agreement(pairs: &[(f64, f64)], tolerance: f64) -> f64 {
    let close = pairs.iter().filter(|(ours, port)| (ours / port - 1.0).abs() <= tolerance).count();
    close as f64 / pairs.len() as f64
}

#[test]
fn without_loss_the_targets_are_those_of_the_port() {
    for kbps in [300, 1_000, 2_500] {
        for delay_ms in [10, 50, 150] {
            for port_drives in [false, true] {
                let pairs = targets(link(kbps, delay_ms, 0.0), 40, 1, port_drives);
                let (all, exact) = (agreement(&pairs, 0.01), agreement(&pairs, 0.0));
                println!("{kbps} {delay_ms} {port_drives}: {all} {exact} of {}", pairs.len());
            }
        }
    }
}
