//! The cases that libwebrtc's own tests describe, with values from an independent calculation.

use super::*;
use crate::cc::goog_cc::arithmetic::MS;
use proptest::prelude::*;

const LARGE: i64 = 15_000;
const NONE: i64 = INFINITE;

/// A packet sent at `ms`, whose number is its time in milliseconds.
fn packet(ms: i64, size: i64, arrived: bool) -> PacketResult {
    let sent = ms * MS;
    PacketResult { seq: ms, sent, received: arrived.then_some(sent), size, probe: None }
}

/// Two large packets 250 ms apart, the first sent together with the last of the pair before.
fn pair(index: i64, arrived: [bool; 2]) -> [PacketResult; 2] {
    let ms = 250 * index;
    [packet(ms, LARGE, arrived[0]), packet(ms + 250, LARGE, arrived[1])]
}

fn outcome(estimator: &LossEstimator) -> (i64, LossState) {
    (estimator.result(), estimator.state())
}

/// One observation suffices, and two count.
fn short() -> LossEstimatorConfig {
    LossEstimatorConfig { min_observations: 1, window: 2, ..LossEstimatorConfig::default() }
}

/// An estimator of this configuration at 600 kbit/s.
fn at_600_kbps(acked: i64) -> LossEstimator {
    let mut estimator = LossEstimator::new(&short());
    estimator.set_estimate(600 * KBPS);
    estimator.set_acknowledged(acked * KBPS);
    estimator
}

#[test]
fn when_everything_is_lost_the_estimate_falls_to_the_acknowledged_rate() {
    let mut estimator = at_600_kbps(100);
    estimator.update(&pair(0, [false; 2]), 5_000 * KBPS, false);
    assert_eq!(outcome(&estimator), (100 * KBPS, LossState::Decreasing));
    let mut estimator = at_600_kbps(500);
    estimator.update(&pair(0, [false; 2]), 5_000 * KBPS, false);
    assert_eq!(outcome(&estimator), (500 * KBPS, LossState::Decreasing));
}

/// 100 kbit/s / (1 - 0.05).
#[test]
fn while_the_application_limits_the_rate_the_acknowledged_rate_is_no_candidate() {
    let mut estimator = at_600_kbps(100);
    estimator.update(&pair(0, [false; 2]), 5_000 * KBPS, true);
    assert_eq!(outcome(&estimator), (105_263, LossState::Decreasing));
}

/// The state after a report of ten packets without the first `lost` ones.
struct Loop {
    estimator: LossEstimator,
    report: i64,
}

impl Loop {
    fn new() -> Loop {
        let mut estimator = LossEstimator::new(&LossEstimatorConfig::default());
        estimator.set_min_max(30 * KBPS, INFINITE);
        Loop { estimator, report: 0 }
    }

    fn report(&mut self, lost: i64, acked: i64) -> (i64, LossState) {
        self.estimator.set_acknowledged(acked * KBPS);
        let start = 250 * self.report;
        let packets: Vec<_> = (1..=10).map(|i| packet(start + 25 * i, 1_250, i > lost)).collect();
        self.estimator.update(&packets, 1_000 * KBPS, false);
        self.report += 1;
        outcome(&self.estimator)
    }
}

fn millionths(value: f64) -> i64 {
    (value * 1e6).round() as i64
}

#[test]
fn the_first_observation_ends_with_the_second_report() {
    let mut session = Loop::new();
    session.report(0, 400);
    assert_eq!(session.estimator.observations.count(), 0);
    session.report(0, 400);
    // 25,000 bytes in 475 ms.
    let rates: Vec<_> = session.estimator.observations.weighted().map(|(o, _)| o.rate).collect();
    assert_eq!(rates, [421_052]);
    assert!(!session.estimator.is_ready());
    session.report(0, 400);
    session.report(0, 400);
    assert!(session.estimator.is_ready());
}

#[test]
fn a_fifth_lost_lowers_the_estimate_after_two_seconds() {
    let mut session = Loop::new();
    for report in 0..16 {
        let (lost, acked) = if report < 8 { (0, 400) } else { (2, 320) };
        let result = session.report(lost, acked);
        assert_eq!(result, (1_000 * KBPS, LossState::DelayBased), "report {report}");
        match report {
            0..=8 => assert_eq!(session.estimator.average_loss(), 0.0),
            9 => assert_eq!(millionths(session.estimator.average_loss()), 41_707),
            _ => {}
        }
    }
    // The newest observation is in the first slot of the ring now, so it is the one of highest loss that is
    // left out: 100 kbit/s / (0.152734 - 0.05).
    assert_eq!(session.report(2, 320), (973_387, LossState::Decreasing));
    assert_eq!(millionths(session.estimator.average_loss()), 152_734);
    assert_eq!(session.estimator.hold.end, 4_550_000);
    assert_eq!(session.report(2, 320), (320 * KBPS, LossState::Decreasing));
}

#[test]
fn a_single_lossy_report_changes_nothing() {
    let mut session = Loop::new();
    for report in 0..40 {
        let result = session.report(if report == 8 { 2 } else { 0 }, 400);
        assert_eq!(result, (1_000 * KBPS, LossState::DelayBased), "report {report}");
        assert_eq!(session.estimator.average_loss(), 0.0);
    }
}

#[test]
fn after_heavy_loss_the_estimate_is_held_and_then_grows_with_padding() {
    let mut session = Loop::new();
    let mut results = Vec::new();
    for report in 0..33 {
        let lost = if (8..12).contains(&report) { 5 } else { 0 };
        let acked = if (8..14).contains(&report) { 200 } else { 400 };
        results.push(session.report(lost, acked));
        match report {
            9 => {
                assert_eq!(millionths(session.estimator.average_loss()), 104_267);
                assert_eq!(session.estimator.hold.end, 2_800_000);
            }
            29 => assert_eq!(session.estimator.hold.end, 8_100_000),
            _ => {}
        }
    }
    assert_eq!(results[8], (1_000 * KBPS, LossState::DelayBased));
    assert!(results[9..14].iter().all(|result| result.0 == 200 * KBPS));
    assert_eq!(results[9].1, LossState::Decreasing);
    assert_eq!(results[14], (400 * KBPS, LossState::IncreasingUsingPadding));
    // 1.3 times 400, one report after the loss has fallen below the inherent loss; then 1.5 times 400.
    assert_eq!([results[18].0, results[19].0], [400 * KBPS, 520 * KBPS]);
    assert_eq!(results[20].0, 600 * KBPS);
    assert_eq!(results[29], (600 * KBPS, LossState::Decreasing));
    assert_eq!(results[32], (600_003, LossState::IncreasingUsingPadding));
}

/// 1,020,000 and 1,020,008 bit/s are the same number of whole kbit/s.
#[test]
fn of_candidates_with_the_same_objective_the_higher_rate_wins() {
    let mut estimator = LossEstimator::new(&short());
    estimator.update(&pair(0, [true; 2]), 1_000 * KBPS, false);
    assert_eq!(estimator.result(), 1_000 * KBPS);
    estimator.update(&pair(1, [true; 2]), 1_020_008, false);
    assert_eq!(estimator.result(), 1_020_008);
}

/// 10 kbit/s / (0.1 - 0.05).
#[test]
fn the_upper_bound_from_the_loss_makes_the_estimate_fall() {
    let mut estimator = LossEstimator::new(&LossEstimatorConfig {
        candidate_factors: [1.0; 3],
        upper_bound_balance: 10 * KBPS,
        ..short()
    });
    estimator.set_estimate(500 * KBPS);
    estimator.set_acknowledged(100 * KBPS);
    let packets: Vec<_> = (0..10).map(|i| packet(250 * i, LARGE, i != 9)).collect();
    estimator.update(&packets, NONE, false);
    assert_eq!(millionths(estimator.average_loss()), 100_000);
    assert_eq!(outcome(&estimator), (200 * KBPS, LossState::Decreasing));
}

/// 300 of 435 kB; 100 kbit/s / (0.689655 - 0.05).
#[test]
fn loss_counts_bytes() {
    let mut estimator = LossEstimator::new(&short());
    estimator.set_estimate(500 * KBPS);
    estimator.set_acknowledged(100 * KBPS);
    let size = |i| if i == 9 { 300_000 } else { LARGE };
    let packets: Vec<_> = (0..10).map(|i| packet(250 * i, size(i), i != 9)).collect();
    estimator.update(&packets, NONE, false);
    assert_eq!(millionths(estimator.average_loss()), 689_655);
    assert_eq!(estimator.result(), 156_334);
}

/// 100 kbit/s / (0.5 - 0.05) = 222,222 bit/s.
#[test]
fn a_hold_ends_early_when_the_delay_limits_the_rate_again() {
    let mut estimator = LossEstimator::new(&short());
    estimator.set_estimate(2_500 * KBPS);
    estimator.update(&pair(0, [true, false]), NONE, false);
    assert_eq!(outcome(&estimator), (222_222, LossState::Decreasing));
    estimator.update(&pair(1, [true; 2]), 232_222, false);
    assert_eq!(estimator.result(), 222_222);
    estimator.update(&pair(2, [true; 2]), 232_222, false);
    assert_eq!(outcome(&estimator), (232_222, LossState::DelayBased));
}

#[test]
fn one_spike_of_loss_is_ignored_and_two_are_not() {
    let mut estimator =
        LossEstimator::new(&LossEstimatorConfig { window: 5, ..LossEstimatorConfig::default() });
    for index in 0..8 {
        let arrived = index != 5 && index != 7;
        estimator.update(&pair(index, [arrived; 2]), 500 * KBPS, false);
        if index < 7 {
            assert_eq!(outcome(&estimator), (500 * KBPS, LossState::DelayBased), "{index}");
        }
    }
    // The ring starts with the older of the two lossy observations, followed by the youngest without loss.
    // Without these, of ages 2 and 1, 1 / (1 + 0.9^3 + 0.9^4) is lost: 100 kbit/s / (0.419270 - 0.05).
    assert_eq!(millionths(estimator.average_loss()), 419_270);
    assert_eq!(outcome(&estimator), (270_805, LossState::Decreasing));
}

#[test]
fn a_packet_reported_again_counts_twice_and_is_no_longer_lost_once_it_arrives() {
    let mut estimator = LossEstimator::new(&short());
    estimator.update(&[packet(0, LARGE, false)], 500 * KBPS, false);
    estimator.update(&[packet(0, LARGE, true), packet(250, LARGE, true)], 500 * KBPS, false);
    let (observation, _) = estimator.observations.weighted().next().expect("one observation");
    assert_eq!((observation.sent, observation.lost), (45_000, 0));
}

#[test]
fn without_a_delay_based_estimate_or_packets_there_is_no_estimate() {
    let mut estimator = LossEstimator::new(&short());
    estimator.update(&[], 500 * KBPS, false);
    estimator.update(&pair(0, [true; 2]), NONE, false);
    assert!(!estimator.is_ready());
    assert_eq!(outcome(&estimator), (NONE, LossState::DelayBased));
}

/// One of 25 packets is lost, at a rate below the estimate. From p = 0.01, a step of 0.75 (1/p - 24/(1-p)) /
/// (1/p^2 + 24/(1-p)^2) leads to 0.015668; from 0.03 it leads to 0.035669. Both are below the loss of 0.04.
#[test]
fn the_inherent_loss_moves_by_one_newton_step_from_its_start() {
    for (start, expected) in [(0.01, 15_668), (0.03, 35_669)] {
        let config = LossEstimatorConfig { inherent_loss_start: start, ..short() };
        let mut estimator = LossEstimator::new(&config);
        let packets: Vec<_> = (0..25).map(|i| packet(11 * i, 1_000, i != 12)).collect();
        estimator.update(&packets, 5_000 * KBPS, false);
        assert_eq!(millionths(estimator.average_loss()), 40_000);
        assert_eq!(millionths(estimator.inherent_loss()), expected);
    }
}

#[test]
fn without_loss_a_candidate_with_the_least_inherent_loss_cannot_be_refined() {
    let mut session = Loop::new();
    for _ in 0..30 {
        session.report(0, 1_000);
    }
    let estimator = &session.estimator;
    assert!(estimator.lossless);
    for rate in [5 * KBPS, 400 * KBPS, 1_000 * KBPS, 100_000 * KBPS] {
        let fitted = estimator.fit(Candidate { rate, inherent: 0.0 });
        assert_eq!(fitted.inherent, estimator.config.inherent_loss_min);
        assert_eq!(estimator.refined(fitted).inherent, fitted.inherent);
        let above = Candidate { rate, inherent: 0.01 };
        assert!(estimator.fit(above).inherent < 0.01);
    }
    session.report(5, 1_000);
    session.report(5, 1_000);
    assert!(!session.estimator.lossless);
}

proptest! {
    /// Without loss the highest candidate wins; the likelihoods of all of them say the same.
    #[test]
    fn without_loss_the_likeliest_candidate_is_the_highest(
        sent in prop::collection::vec((100i64..3_000_000, 1i64..400_000), 1..20),
        rates in prop::collection::vec(100i64..5_000_000, 1..6),
        near in prop::collection::vec(-2i64..=2, 0..4),
    ) {
        let mut estimator = LossEstimator::new(&LossEstimatorConfig::default());
        let samples = sent.iter().enumerate().map(|(age, &(rate, bytes))| {
            let amount = bytes as f64 / 1_000.0;
            Sample { rate, sent: amount, lost: 0.0, received: amount, weight: libm::pow(0.9, age as f64) }
        });
        estimator.samples.extend(samples);
        let inherent = estimator.config.inherent_loss_min;
        let best = Candidate { rate: rates[0], inherent };
        prop_assert!(estimator.favours_high_rates(best));
        // Some candidates are so near to another one that their likelihoods hardly differ.
        let candidates = rates.iter().copied().chain(near.iter().map(|by| rates[0] + by));
        let highest = estimator.highest_of(best, candidates.clone());
        let likeliest = estimator.likeliest_of(best, candidates);
        prop_assert_eq!((highest.rate, highest.inherent), (likeliest.rate, likeliest.inherent));
    }
}
