//! Single steps by hand, from the rules of `scream_v2.cc`.

use super::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A report at 10 s: nothing lost, nothing marked.
fn report(unmarked: f64) -> Report {
    Report {
        now: 10e6,
        in_flight: 0.0,
        unmarked_bytes: unmarked,
        received_bytes: unmarked,
        received: 10,
        marked: 0,
        lost: 0,
        recovered: 0,
        min_delay: 25.0 * MS,
        max_delay: 25.0 * MS,
        last_received: 10e6,
        hold: 0.0,
        rtt: 50.0 * MS,
    }
}

/// A window, an inflection point and a smoothed round-trip time in ms. The queue is empty, and much is in flight.
fn state(window: f64, inflection: f64, rtt_ms: f64) -> Scream {
    let limits = Limits { min: 0.0, max: f64::INFINITY };
    let mut scream = Scream::new(ScreamConfig::default(), limits, 300e3);
    scream.window = window;
    scream.inflection = inflection;
    scream.most_in_flight = [1e6; 2];
    scream.delay.set(rtt_ms * MS, 0.0, 0.0, 0.0);
    scream
}

/// The window after an update.
fn updated(mut scream: Scream, report: &Report) -> f64 {
    scream.update_window(report);
    scream.window
}

/// 300 kbit/s for 70 ms are 2625 B. Growth is 1280/2625 × (1 + 0.02 × 2625/1280) = 0.5076 of 3000 B. The target is
/// 0.8 × 4148 B in 70 ms, and without a queue three windows may be in flight.
#[test]
fn the_first_report_sets_the_window_by_the_start_rate_and_grows_it() {
    let limits = Limits { min: 0.0, max: f64::INFINITY };
    let mut scream = Scream::new(ScreamConfig::default(), limits, 300e3);
    let first = Report { in_flight: 3_000.0, hold: 20.0 * MS, ..report(3_000.0) };
    scream.on_report(&first);
    assert_eq!(scream.window, 4_148.0);
    assert_eq!(scream.target, (0.8_f64 * 4_148.0 * 8.0 / 0.07).floor());
    assert_eq!(scream.send_window(), 12_444.0);
}

/// Alpha is 0.1 and a round trip is two virtual ones, so a mark takes 0.1/2/2 = 0.025. Near the inflection point it takes
/// a quarter of that, and with 5 ms of smallest delay 0.7 of the quarter.
#[test]
fn a_mark_takes_half_of_alpha_and_less_near_the_inflection_point_or_with_jitter() {
    let marked = Report { marked: 10, ..report(0.0) };
    let with = |inflection: f64, min_average_ms: f64| {
        let mut scream = state(20_000.0, inflection, 50.0);
        scream.alpha = 0.1;
        scream.delay.set(50.0 * MS, 0.0, min_average_ms * MS, 0.0);
        updated(scream, &marked)
    };
    assert_eq!(with(40_000.0, 0.0), 19_500.0);
    assert_eq!(with(20_000.0, 0.0), 19_875.0);
    // 20000 × 0.004375 = 87.5.
    assert_eq!(with(20_000.0, 5.0), 19_913.0);
}

/// The same mark with 4000 B unmarked in its report: after the back-off to 19500 B, growth is 1280/19500 = 0.0656 of
/// them, for the inflection point is far and the reaction is now.
#[test]
fn the_report_of_a_reaction_also_grows_the_window() {
    let mut scream = state(20_000.0, 40_000.0, 50.0);
    scream.alpha = 0.1;
    scream.hold = 25.0 * MS;
    assert_eq!(updated(scream, &Report { marked: 2, ..report(4_000.0) }), 19_763.0);
}

/// 5000 B of 20000 B grow the window by 1280/20000 of them, times 1 + 0.02 × 20000/1280 = 1.3125 if congestion is long
/// ago: 420 B. Near the inflection point by a quarter, times 1 + 0.03125: 82.5 B. With 15 ms of loop time by 0.36; with
/// both jitter averages at 5 ms by 0.7².
#[test]
fn growth_is_slower_near_the_inflection_point_after_congestion_in_short_loops_and_with_jitter() {
    let grown = |scream: Scream| updated(scream, &report(5_000.0)) - 20_000.0;
    assert_eq!(grown(state(20_000.0, 40_000.0, 50.0)), 420.0);
    assert_eq!(grown(state(20_000.0, 20_000.0, 50.0)), 83.0);
    let mut just_now = state(20_000.0, 40_000.0, 50.0);
    // A reaction a millisecond ago leaves 1/5000 of the multiplicative part.
    just_now.last_reaction = 10e6 - MS;
    assert_eq!(grown(just_now), 320.0);
    assert_eq!(grown(state(20_000.0, 40_000.0, 15.0)), 151.0);
    let mut jittery = state(20_000.0, 40_000.0, 50.0);
    jittery.delay.set(50.0 * MS, 0.0, 5.0 * MS, 5.0 * MS);
    assert_eq!(grown(jittery), 206.0);
}

/// From 30 to 60 ms the queue counts as marks from none to all, so a round trip of 50 ms backs off by up to 1/2/2.
#[test]
fn a_queue_backs_off_like_marks_from_half_of_its_target_on() {
    for (queue_ms, backoff) in [(30.0, 0.0), (45.0, 0.125), (60.0, 0.25), (80.0, 0.25)] {
        let mut scream = state(20_000.0, 40_000.0, 50.0);
        scream.delay.set(50.0 * MS, queue_ms * MS, 0.0, 0.0);
        assert_eq!(updated(scream, &report(0.0)), 20_000.0 * (1.0 - backoff), "{queue_ms} ms");
    }
}

/// Loss wins over marks, and marks over the queue; only one of them counts.
#[test]
fn the_strongest_cause_counts_alone() {
    let mut scream = state(20_000.0, 40_000.0, 50.0);
    scream.alpha = 1.0;
    scream.delay.set(50.0 * MS, 80.0 * MS, 0.0, 0.0);
    let marked = Report { marked: 10, ..report(0.0) };
    assert_eq!(updated(scream.clone(), &marked), 15_000.0);
    assert_eq!(updated(scream.clone(), &Report { lost: 1, ..marked }), 14_000.0);
    // A reaction is followed by another one after the shorter of a round trip and 25 ms.
    scream.last_reaction = 10e6 - 24.9 * MS;
    assert_eq!(updated(scream.clone(), &marked), 20_000.0);
    scream.last_reaction = 10e6 - 25.0 * MS;
    assert_eq!(updated(scream, &marked), 15_000.0);
}

/// The whole window in 62.5 ms, less 20 % where it is below 1280/0.3 B and 10 % at 1280/0.2 B.
#[test]
fn a_small_window_lowers_the_target_by_up_to_a_fifth() {
    for (window, kbps) in [
        (1_000.0, 102.4),
        (1_280.0, 131.072),
        (2_000.0, 204.8),
        (4_000.0, 409.6),
        (6_400.0, 737.28),
        (12_800.0, 1_638.4),
        (20_000.0, 2_560.0),
    ] {
        let mut scream = state(window, 1.0, 50.0);
        scream.hold = 12.5 * MS;
        scream.update_target(10e6);
        assert!((scream.target - kbps * 1e3).abs() < 1.5, "{window}: {}", scream.target);
    }
}

/// 3 windows without a queue, 1.5 × 1.1 at 10 ms, and 1.5 from 10.83 ms on, where 0.1 − 1.2 × 0.83/10 is zero.
#[test]
fn the_pacer_has_one_and_a_half_to_three_windows() {
    for (min_average_ms, factor) in
        [(0.0, 3.0), (2.5, 3.0), (10.0, 1.65), (10.84, 1.5), (20.0, 1.5)]
    {
        let mut scream = state(10_000.0, 1.0, 50.0);
        scream.delay.set(50.0 * MS, 0.0, min_average_ms * MS, 0.0);
        assert_eq!(scream.send_window(), 10_000.0 * factor, "{min_average_ms}");
    }
}

/// The inflection point is where the window was before it fell, and moves again only after the window has grown.
#[test]
fn the_inflection_point_moves_after_growth_only() {
    let mut scream = state(20_000.0, 1.0, 50.0);
    scream.alpha = 0.4;
    let at = |ms: f64, marked| Report { now: 10e6 + ms * MS, marked, ..report(0.0) };
    scream.update_window(&at(0.0, 10));
    assert_eq!((scream.window, scream.inflection), (18_000.0, 20_000.0));
    scream.update_window(&at(25.0, 10));
    assert!(scream.window < 18_000.0 && scream.inflection == 20_000.0);
    scream.update_window(&Report { unmarked_bytes: 5_000.0, ..at(50.0, 0) });
    let grown = scream.window;
    scream.update_window(&at(75.0, 10));
    assert_eq!(scream.inflection, grown);
}

/// With marks in every report, each report at least 25 ms after the last reaction backs off and grows. Reports between
/// do neither.
#[test]
fn reports_between_two_reactions_neither_back_off_nor_grow() {
    let mut scream = state(20_000.0, 40_000.0, 50.0);
    scream.alpha = 0.1;
    let at = |ms: f64| Report { now: 10e6 + ms * MS, marked: 2, ..report(4_000.0) };
    let mut windows = Vec::new();
    for ms in [0.0, 10.0, 20.0, 30.0] {
        scream.update_window(&at(ms));
        windows.push(scream.window);
    }
    assert_eq!(windows[..3], [19_763.0; 3]);
    assert!(windows[3] < 19_763.0);
}

/// More than 100 round trips after the last congestion libwebrtc does not lower the window to what was in flight, nor set
/// alpha to 0.25, although it means to.
#[test]
fn congestion_after_a_long_time_is_like_any_other() {
    let mut scream = state(20_000.0, 40_000.0, 50.0);
    scream.alpha = 0.1;
    scream.last_reaction = 10e6 - 5.1e6;
    scream.most_in_flight = [1e6, 3_000.0];
    scream.update_window(&Report { marked: 10, ..report(0.0) });
    assert_eq!((scream.window, scream.alpha), (19_500.0, 0.1));
}

/// After 20 s with more than 5 ms in the queue the rate is halved for 5 round trips, or at least 100 ms. Then what is left
/// becomes the base delay.
#[test]
fn a_queue_that_never_drains_halves_the_rate_and_then_becomes_the_base() {
    let limits = Limits { min: 0.0, max: f64::INFINITY };
    let mut scream = Scream::new(ScreamConfig::default(), limits, 300e3);
    let mut halved = Vec::new();
    for n in 0..1_000 {
        let delay = if n == 0 { 25.0 } else { 31.0 } * MS;
        let now = f64::from(n) * 25.0 * MS;
        let report = Report {
            now,
            last_received: now,
            min_delay: delay,
            max_delay: delay,
            ..report(3_000.0)
        };
        scream.on_report(&report);
        if scream.draining_since.is_some() {
            halved.push(now / MS);
        }
    }
    // The first high report comes at 25 ms. Ten reports within 250 ms have half the rate, and the eleventh resets.
    assert_eq!(halved.first().copied(), Some(20_025.0));
    assert_eq!(halved.len(), 11);
    assert_eq!(scream.delay.queue(), 0.0);
}

/// 12 800 B in 50 ms are 2048 kbit/s, and half of it is 1024, but less for the small window: 1 − (0.1 − 0.1).
#[test]
fn while_it_drains_the_target_is_half_of_what_the_window_gives() {
    let mut scream = state(12_800.0, 1.0, 50.0);
    scream.update_target(10e6);
    assert_eq!(scream.target, 2_048_000.0);
    let high = Report { now: 9e6, min_delay: 60.0 * MS, max_delay: 60.0 * MS, ..report(0.0) };
    scream.delay.update(&ScreamConfig::default(), &Report { min_delay: 25.0 * MS, ..high }, false);
    scream.delay.update(&ScreamConfig::default(), &high, false);
    scream.delay.set(50.0 * MS, 0.0, 0.0, 0.0);
    scream.update_target(9e6 + 20e6);
    assert_eq!(scream.target, 1_024_000.0);
}

/// Alpha rises sixteen times as fast as it falls, so its mean is far above the probability of a mark when reports have
/// few packets. Rows have 3, 10 and 50 packets per report, columns these probabilities; the means were computed apart.
#[test]
fn alpha_overestimates_independent_marks() {
    let probabilities = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5];
    let table = [
        (3, [0.109, 0.169, 0.254, 0.316, 0.453, 0.717]),
        (10, [0.066, 0.085, 0.130, 0.198, 0.311, 0.598]),
        (50, [0.027, 0.041, 0.078, 0.132, 0.233, 0.520]),
    ];
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    for (packets, means) in table {
        for (probability, mean) in probabilities.into_iter().zip(means) {
            let mut scream = state(20_000.0, 1.0, 50.0);
            let (mut sum, reports, settled) = (0.0, 200_000, 2_000);
            for n in 0..settled + reports {
                let marked =
                    (0..packets).filter(|_| rng.random::<f64>() < probability).count() as u64;
                scream.follow_marks(&Report { received: packets, marked, ..report(0.0) });
                sum += if n < settled { 0.0 } else { scream.alpha };
            }
            let found = sum / f64::from(reports);
            // The mean of some 1500 independent values is known to 2 %.
            assert!((found / mean - 1.0).abs() < 0.03, "{packets} {probability}: {found}");
        }
    }
}
