//! RFC 8698 by hand, and in a closed loop.

use super::*;
use crate::cc::closed_loop::{Link, Loop, Marker, shown};
use crate::packet::Kind;
use crate::units::{Bitrate, RemoteTime};

fn ms(ms: u64) -> Time {
    Time::from_millis(ms)
}

fn nada(start: u64, min: u64, max: u64, config: NadaConfig) -> Nada {
    let kbps = Bitrate::from_kbps;
    let bounds = RateBounds {
        start: kbps(start),
        min: kbps(min),
        max: kbps(max),
        audio: Bitrate::ZERO,
        has_video: true,
    };
    Nada::new(bounds, config)
}

/// Rates of RFC 8698, figure 3, for a codec that gives none, but for a minimum of 150 kbit/s.
fn rfc() -> Nada {
    nada(150, 150, 3_000, NadaConfig::default())
}

fn close(value: f64, expected: f64) -> bool {
    (value - expected).abs() < 1e-9 * expected.abs().max(1.0)
}

/// 50/(50 + 100 + 120) with a round trip of 50 ms, and at most GAMMA_MAX.
#[test]
fn growth_without_congestion_depends_on_the_round_trip() {
    let config = NadaConfig::default();
    assert!(close(config.gamma(50.0 * MS), 50.0 / 270.0));
    assert!(close(config.gamma(0.0), 50.0 / 220.0));
    assert!(close(NadaConfig { queue_bound: 500.0 * MS, ..config }.gamma(50.0 * MS), 0.5));
}

/// 1 % of loss counts as 10 ms, five times as much as 25 times that; 1 % of marks as 2 ms.
#[test]
fn loss_and_marks_add_the_square_of_their_share() {
    let config = NadaConfig::default();
    for (lost, expected) in [(0.0, 0.0), (0.01, 10.0), (0.05, 250.0), (0.1, 1_000.0)] {
        assert!(close(config.penalty(lost, 0.0), expected * MS), "{lost}");
    }
    for (marked, expected) in [(0.01, 2.0), (0.1, 200.0), (0.4, 3_200.0)] {
        assert!(close(config.penalty(0.0, marked), expected * MS), "{marked}");
    }
    assert!(close(config.penalty(0.01, 0.01), 12.0 * MS));
}

/// Above 50 ms the delay counts as 50 ms times e to the power of minus half of what it exceeds 50 ms by, in units of 50.
#[test]
fn a_long_queue_counts_less_while_losses_matter() {
    let config = NadaConfig::default();
    assert!(close(config.warped(49.0 * MS, 1.0), 49.0 * MS));
    assert!(close(config.warped(100.0 * MS, 1.0), 50.0 * MS * libm::exp(-0.5)));
    assert!(close(config.warped(100.0 * MS, 0.0), 100.0 * MS));
    assert!(close(config.warped(100.0 * MS, 0.5), 50.0 * MS + 25.0 * MS * libm::exp(-0.5)));
}

/// Events 10 packets apart, the last 30 packets ago. Closed intervals average 10. The open one with weight 1 gives
/// (30 + 10 (1 + 1 + 1 + 0.8 + 0.6 + 0.4 + 0.2)) / 6 = 80/6. Losses within a round trip are one event.
#[test]
fn the_loss_interval_is_the_average_of_eight_by_weight_or_more_with_the_open_one() {
    let mut intervals = LossIntervals::default();
    assert_eq!((intervals.average(), intervals.memory(7.0)), (None, 0.0));
    let mut sent = 0.0;
    for _ in 0..12 {
        (0..9).for_each(|_| intervals.on_received());
        sent += SECOND;
        intervals.on_lost(sent, 100.0 * MS);
    }
    // The first interval ended after nine packets, and is forgotten by now.
    assert!(close(intervals.average().expect("losses"), 10.0));
    intervals.on_lost(sent + 100.0 * MS, 100.0 * MS);
    assert!(close(intervals.average().expect("losses"), 10.0));
    (0..28).for_each(|_| intervals.on_received());
    assert!(close(intervals.average().expect("losses"), 80.0 / 6.0));
}

/// Eight intervals of 100 packets, and 5500 packets since: the average with the open one is (5501 + 5 × 100)/6. A loss
/// matters for 5 of these and half of it after 5.5. With MULTILOSS = 7 it always matters, for the packets since are at
/// most 6 averages.
#[test]
fn a_loss_fades_in_the_interval_after_the_last_that_it_matters_for() {
    let mut intervals = LossIntervals::default();
    for event in 0..9 {
        (0..99).for_each(|_| intervals.on_received());
        intervals.on_lost(SECOND * f64::from(event), 100.0 * MS);
    }
    assert_eq!(intervals.memory(5.0), 1.0);
    (0..5_500).for_each(|_| intervals.on_received());
    let average = (5_501.0 + 500.0) / 6.0;
    assert!(close(intervals.average().expect("losses"), average));
    assert!(close(intervals.memory(5.0), 6.0 - 5_500.0 / average));
    assert!((intervals.memory(5.0) - 0.5).abs() < 0.01);
    (0..100_000).for_each(|_| intervals.on_received());
    assert_eq!((intervals.memory(4.0), intervals.memory(7.0)), (0.0, 1.0));
    // One interval only: the open one replaces it.
    let mut one = LossIntervals::default();
    (0..100).for_each(|_| one.on_received());
    one.on_lost(SECOND, 100.0 * MS);
    (0..149).for_each(|_| one.on_received());
    assert_eq!(one.average(), Some(150.0));
}

/// At r = 600 kbit/s with RMAX = 3 Mbit/s the reference level is 50 ms. 70 ms, up from 65, after 100 ms: the offset takes
/// 0.5 × 100/500 × 20/500 = 0.4 %, and the change 0.5 × 2 × 5/500 = 1 %. After 2 s the offset counts for 500 ms only.
#[test]
fn gradual_updates_follow_the_offset_and_the_change_of_the_level() {
    let mut nada = rfc();
    nada.rate = 600e3;
    nada.level = 65.0 * MS;
    assert!(close(nada.gradual_change(100.0 * MS, 70.0 * MS), -0.014));
    assert!(close(nada.gradual_change(2.0 * SECOND, 70.0 * MS), -0.03));
    nada.level = 50.0 * MS;
    assert!(close(nada.gradual_change(100.0 * MS, 50.0 * MS), 0.0));
}

/// 2000 B in the pacer are 0.1 × 8 × 2000 × 30 = 48 kbit/s, but at most a twentieth of the rate.
#[test]
fn what_waits_in_the_pacer_raises_the_pacing_rate_and_lowers_the_target() {
    let mut nada = nada(1_000, 150, 3_000, NadaConfig::default());
    let decide = |nada: &mut Nada, queued| {
        let sender = SenderState { queued: Bytes(queued), ..SenderState::default() };
        nada.on_timeout(Time::ZERO, &sender).expect("a timeout");
        let decision = nada.decision();
        (decision.target.0, decision.pacing_rate.map_or(0, |rate| rate.0))
    };
    assert_eq!(decide(&mut nada, 0), (1_000_000, 1_000_000));
    assert_eq!(decide(&mut nada, 2_000), (952_000, 1_048_000));
    assert_eq!(decide(&mut nada, 100_000), (950_000, 1_050_000));
    nada.rate = nada.min;
    assert_eq!(decide(&mut nada, 2_000), (150_000, 157_500));
    nada.rate = nada.max;
    assert_eq!(decide(&mut nada, 2_000), (2_952_000, 3_000_000));
}

fn sent(seq: i64, at: Time) -> SentPacket {
    SentPacket {
        transport_seq: seq,
        at,
        size: Bytes(1_000),
        kind: Kind::Video,
        probe: None,
        in_flight: Bytes(1_000),
        ecn: Ecn::NotCapable,
    }
}

/// The rate is halved every second without reports, from a second after the first packet on, and not below RMIN.
#[test]
fn missing_feedback_halves_the_rate_every_second() {
    let mut nada = nada(1_000, 150, 3_000, NadaConfig::default());
    let mut rates = Vec::new();
    for n in 0..=50 {
        nada.on_timeout(ms(100 * n), &SenderState::default()).expect("a timeout");
        if n == 5 {
            nada.on_sent(&sent(0, ms(500))).expect("a packet");
        }
        if n % 10 == 5 {
            rates.push(nada.decision().target.0 / 1_000);
        }
    }
    assert_eq!(rates, [1_000, 500, 250, 150, 150]);
}

/// A packet that was reported as lost stays lost when it arrives: it is out of order.
#[test]
fn recovered_packets_change_nothing() {
    let run = |recovers: bool| {
        let mut nada = rfc();
        for n in 0..40u64 {
            let report = |seq, received: bool, lost_before| PacketReport {
                sent: sent(seq, ms(25 * n)),
                received: received.then_some(RemoteTime(ms(25 * n + 50))),
                ecn: None,
                held: None,
                lost_before,
            };
            let reports =
                [report(3 * n as i64, true, false), report(3 * n as i64 + 1, false, false)];
            let late = [report(3 * n as i64 - 2, true, true)];
            let feed = |nada: &mut Nada, reports: &[PacketReport]| {
                let feedback =
                    Feedback::Packets { reports, in_flight: Bytes(1_000), resolution: ms(1) };
                nada.on_feedback(ms(25 * n + 100), feedback).expect("a report");
            };
            feed(&mut nada, &reports);
            if recovers {
                feed(&mut nada, &late);
            }
        }
        (nada.lost, nada.rate)
    };
    assert_eq!(run(true), run(false));
    // Half of the packets are lost, and the ratio has risen to half by a tenth of the rest at each of 19 updates.
    let expected = 0.5 * (1.0 - libm::pow(0.9, 19.0));
    assert!((run(false).0 - expected).abs() < 0.03, "{}", run(false).0);
}

/// Runs a loop at the control's own rate and returns mean rate in kbit/s and mean wait in ms after `from` seconds.
fn settled(nada: &mut Nada, link: Link, from: u64, to: u64) -> (f64, f64) {
    let mut road = Loop::new(link, 1_000);
    let start = Bitrate::from_kbps(150);
    road.run(nada, start, Time::from_secs(from), |_, _| ());
    road.totals = Default::default();
    let mut rates = Vec::new();
    road.run(nada, start, Time::from_secs(to), |_, nada| {
        rates.push(shown(nada, "target_bps") / 1e3)
    });
    (rates.iter().sum::<f64>() / rates.len() as f64, road.totals.mean_wait_ms())
}

/// Where the level is XREF × RMAX / r the rate stays, so the queue is 10 ms times RMAX over the capacity.
#[test]
fn alone_on_a_link_the_queue_is_the_reference_level_at_its_capacity() {
    for (kbps, max, delay) in
        [(500, 1_500, 25), (1_000, 1_500, 50), (1_000, 3_000, 50), (2_000, 3_000, 100)]
    {
        let mut nada = nada(150, 150, max, NadaConfig::default());
        let (rate, wait) = settled(&mut nada, Link::new(Some(kbps), delay), 60, 120);
        let expected = 10.0 * max as f64 / kbps as f64;
        let case = format!("{kbps} kbit/s, {delay} ms: {rate} kbit/s, {wait} ms of {expected}");
        assert!((0.8..1.2).contains(&(wait / expected)), "{case}");
        assert!((0.97..1.01).contains(&(rate / kbps as f64)), "{case}");
    }
}

/// RFC 8867, section 5.1: 1 Mbit/s, from 40 s on 2.5, from 60 s on 0.6, from 80 s on 1.0; 50 ms of delay and a queue of
/// 300 ms. Returns after how many seconds each step is reached to 10 %, and the longest wait in ms.
fn variable_capacity(start: u64) -> ([f64; 4], f64) {
    let steps = [(0, 1_000), (40, 2_500), (60, 600), (80, 1_000)];
    let capacity = steps.map(|(at, kbps)| (Time::from_secs(at), Some(Bitrate::from_kbps(kbps))));
    let link = Link { capacity: capacity.to_vec(), longest_wait: ms(300), ..Link::new(None, 50) };
    let mut road = Loop::new(link, 1_000);
    let mut nada = nada(start, 150, 3_000, NadaConfig::default());
    let mut reached = [None; 4];
    road.run(&mut nada, Bitrate::from_kbps(start), Time::from_secs(100), |road, nada| {
        let now = road.now.as_secs_f64();
        let step = steps.iter().rposition(|(at, _)| *at as f64 <= now).expect("a step");
        let share = shown(nada, "target_bps") / (steps[step].1 as f64 * 1e3);
        if (0.9..1.1).contains(&share) {
            reached[step].get_or_insert(now - steps[step].0 as f64);
        }
    });
    (reached.map(|at| at.unwrap_or(f64::INFINITY)), road.totals.longest.as_secs_f64() * 1e3)
}

/// An evaluation of 2015 (cesar-ilharco/rmcat_evaluation, draft-zhu-06, read from a figure) reaches 1 Mbit/s within 2 s and
/// 2.5 within 1.5 s after the step; twice these times are accepted. It does not say from which rate. Growth by 1 + γ, with
/// γ = 50/(108 + 220), takes the round trip, half of the window of r_recv and half of an update interval, 0.4 s, so from
/// 300 kbit/s to 900 it is ln 3/ln 1.152 × 0.4 s = 3.1 s, and from RMIN = 150 kbit/s 5.1 s.
///
/// The step down fills the queue of 300 ms, and a packet on the link takes 13 ms. Then loss lowers the rate to RMIN. A
/// packet takes 10.1 ms longer on 0.6 Mbit/s than at its fastest on 2.5, which is more than QEPS, so that the rate only
/// grows in gradual mode: by 0.5 × 75/500 × (3000/r × 10 − 10)/500 of r in 75 ms, or 60 kbit/s a second, from 300 kbit/s to
/// 540 in 4 to 5 s.
#[test]
fn it_follows_the_variable_capacity_of_rfc_8867() {
    let (reached, longest) = variable_capacity(300);
    assert!(reached[0] < 4.0 && reached[1] < 3.0 && reached[3] < 4.0, "{reached:?}");
    assert!((3.0..10.0).contains(&reached[2]), "{reached:?}");
    assert!((250.0..=314.0).contains(&longest), "{longest}");
    let (reached, _) = variable_capacity(150);
    assert!((4.3..5.5).contains(&reached[0]), "{reached:?}");
}

/// With ECT(0) and a queue that marks above 1 ms, marks replace the queue. Marks of share p count as 2 ms × (p/0.01)², so
/// the level of 10 ms × 1500/1000 = 15 ms needs 2.7 % of marks. There are more, because marks do not end accelerated
/// growth, which needs loss or a queue of 10 ms (section 4.2).
#[test]
fn with_ect0_marks_keep_the_queue_short() {
    let config = NadaConfig { ect0: true, ..NadaConfig::default() };
    let mut nada = nada(150, 150, 1_500, config);
    let link = Link { marker: Marker::Step(ms(1)), ..Link::new(Some(1_000), 50) };
    let mut road = Loop::new(link, 1_000);
    road.run(&mut nada, Bitrate::from_kbps(150), Time::from_secs(120), |_, _| ());
    let (share, wait) = (road.totals.marked_share(), road.totals.mean_wait_ms());
    assert!((0.027..0.3).contains(&share), "{share}, {wait} ms");
    assert!(wait < 5.0, "{wait}");
    // Without the option nothing is marked.
    let mut deaf = rfc();
    assert_eq!(deaf.decision().ecn, Ecn::NotCapable);
    let link = Link { marker: Marker::Step(ms(1)), ..Link::new(Some(1_000), 50) };
    let mut road = Loop::new(link, 1_000);
    road.run(&mut deaf, Bitrate::from_kbps(150), Time::from_secs(20), |_, _| ());
    assert_eq!(road.totals.marked, 0);
}

/// A far end that claims that all packets arrived at once fills the window, and no more than its bound.
#[test]
fn packets_that_all_arrived_at_once_are_not_kept_without_end() {
    let mut history = ObservationWindow::default();
    for _ in 0..100_000 {
        let delay = Some(0.0);
        history.add(Entry { at: 0.0, bytes: 1.0, delay, is_marked: true }, WINDOW);
    }
    assert_eq!(history.len(), 65_536);
    assert_eq!(history.received_rate(WINDOW), 65_536.0 / WINDOW);
    history.clear();
    assert_eq!((history.len(), history.received_rate(WINDOW)), (0, 0.0));
}
