//! Unit tests of `modules/congestion_controller/scream`, with their expectations, and the exact values where the rules
//! give them.

use super::*;
use crate::packet::Kind;
use crate::units::RemoteTime;

const RATE_OF_FIRST_REPORT: Bitrate = Bitrate::from_kbps(100);

fn ms(ms: u64) -> Time {
    Time::from_millis(ms)
}

fn kbps(rate: Bitrate) -> f64 {
    bps(rate) / KBPS
}

/// A packet of 1000 B that was sent and received at these milliseconds.
fn packet(sent: u64, received: Option<u64>) -> PacketReport {
    let sent = SentPacket {
        transport_seq: 0,
        at: ms(sent),
        size: Bytes(1_000),
        kind: Kind::Video,
        probe: None,
        in_flight: Bytes::ZERO,
        ecn: Ecn::Ect1,
    };
    PacketReport {
        sent,
        received: received.map(|at| RemoteTime(ms(at))),
        ecn: received.map(|_| Ecn::Ect1),
        held: None,
        lost_before: false,
    }
}

/// `count` packets that took half of a round trip and were reported at once.
fn packets(now: u64, rtt: u64, count: usize) -> Vec<PacketReport> {
    vec![packet(now - rtt, Some(now - rtt + rtt / 2)); count]
}

fn report(control: &mut ScreamV2, now: u64, reports: &[PacketReport], in_flight: u64) {
    let in_flight = Bytes(in_flight);
    let feedback = Feedback::Packets { reports, in_flight, resolution: ms(1) };
    control.on_feedback(ms(now), feedback).expect("a report");
}

fn read(now: u64, reports: &[PacketReport]) -> Report {
    Report::read(ms(now), reports, 0.0).expect("arrivals")
}

/// Alpha rises by an eighth of what is missing at each of 80 reports: 0.2 × (1 − (7/8)^80).
#[test]
fn alpha_approaches_the_share_of_marks() {
    let mut control = control(300, None);
    let mut last = 0.0;
    for n in 0..80 {
        let mut reports = packets(1_000 + 25 * n, 10, 20);
        reports.iter_mut().take(4).for_each(|r| r.ecn = Some(Ecn::CongestionExperienced));
        report(&mut control, 1_000 + 25 * n, &reports, 20_000);
        assert!(control.scream.alpha() > last);
        last = control.scream.alpha();
    }
    let exact = 0.2 * (1.0 - libm::pow(7.0 / 8.0, 80.0));
    assert!((last - exact).abs() < 1e-9, "{last}");
}

/// Without marks alpha falls to 127/128 of itself with each report, whatever the share of marks that is below it.
#[test]
fn alpha_falls_towards_zero_and_not_towards_the_share_of_marks() {
    let mut control = control(300, None);
    let mut all = packets(1_000, 10, 20);
    all.iter_mut().for_each(|r| r.ecn = Some(Ecn::CongestionExperienced));
    report(&mut control, 1_000, &all, 20_000);
    assert_eq!(control.scream.alpha(), 0.125);
    let mut some = packets(1_025, 10, 20);
    some.iter_mut().take(2).for_each(|r| r.ecn = Some(Ecn::CongestionExperienced));
    report(&mut control, 1_025, &some, 20_000);
    assert_eq!(control.scream.alpha(), 0.125 * 127.0 / 128.0);
}

/// 1280 B more than 1.1 times of what is in flight.
#[test]
fn the_window_grows_to_what_is_in_flight_and_a_little_more() {
    let mut control = control(300, None);
    for n in 0..80 {
        let now = 1_000 + 25 * n;
        report(&mut control, now, &packets(now, 10, 20), 10_000);
    }
    assert_eq!(control.scream.reference_window(), 12_280.0);
}

#[test]
fn without_a_limit_the_target_reaches_its_maximum_and_the_window_stays_when_less_is_sent() {
    let mut control = control(300, Some(2_000));
    let mut road = Loop::new(Link::new(None, 25), 1_000);
    let (mut rate, mut reached) = (RATE_OF_FIRST_REPORT, None);
    for n in 1..=100 {
        road.until_report(&mut control, rate);
        rate = control.decision().target;
        if rate == Bitrate::from_kbps(2_000) {
            reached.get_or_insert(n);
        }
    }
    assert_eq!(rate, Bitrate::from_kbps(2_000));
    // Both implementations round differently: libwebrtc's in whole microseconds and bytes.
    assert!((34..=36).contains(&reached.expect("the maximum")), "{reached:?}");
    let window = control.scream.reference_window();
    for _ in 0..20 {
        road.until_report(&mut control, rate.scaled(0.5));
    }
    assert_eq!(control.scream.reference_window(), window);
}

/// One lossy round trip is noise, three in a row are congestion. A packet that was reported as lost before is no news.
#[test]
fn loss_counts_after_three_round_trips() {
    let mut control = control(300, None);
    report(&mut control, 1_000, &packets(1_000, 10, 20), 20_000);
    let lossy = |now: u64, lost_before: bool| {
        let mut reports = packets(now, 10, 5);
        reports[3] = PacketReport { lost_before, ..packet(now - 10, None) };
        reports
    };
    let first = control.scream.reference_window();
    let mut windows = Vec::new();
    for now in [1_025, 1_050, 1_075] {
        report(&mut control, now, &lossy(now, false), 5_000);
        windows.push(control.scream.reference_window());
    }
    assert!(windows[0] >= first && windows[1] >= windows[0], "{windows:?}");
    // The report of the back-off grows the window again, by 1280 over it and (10/25)² of the 5000 B.
    let lowered = (windows[1] * 0.7).round();
    assert_eq!(windows[2], lowered + (5_000.0 * 1_280.0 / lowered * 0.16).round());
    report(&mut control, 1_125, &lossy(1_125, true), 5_000);
    assert!(control.scream.reference_window() >= windows[2]);
}

/// Two reports of 85 ms instead of 5 give averages of 0, because the smaller of two counts, and 20 ms; with the third it
/// is 35 ms, more than half of the target, so that a single loss counts.
#[test]
fn a_single_loss_counts_with_a_queue() {
    let mut control = control(300, None);
    let with_delay = |now: u64, delay: u64| vec![packet(now - 2 * delay, Some(now - delay)); 20];
    report(&mut control, 1_000, &with_delay(1_000, 5), 20_000);
    let mut averages = Vec::new();
    for now in [1_025, 1_050, 1_075] {
        let mut reports = with_delay(now, 85);
        if now == 1_075 {
            reports[3] = packet(now - 170, None);
        }
        let before = control.scream.reference_window();
        report(&mut control, now, &reports, 20_000);
        averages.push(control.scream.delay().queue() / MS);
        assert_eq!(control.scream.reference_window() < before, now == 1_075);
    }
    assert_eq!(averages, [0.0, 20.0, 35.0]);
}

#[test]
fn the_loss_level_climbs_in_thirds_and_falls_in_halves_and_recovery_clears_it() {
    let mut control = control(300, None);
    let mut levels = Vec::new();
    for (n, lost) in [true, true, true, false, true].into_iter().enumerate() {
        let now = 1_000 + 25 * n as u64;
        let mut reports = packets(now, 10, 5);
        if lost {
            reports[3] = packet(now - 10, None);
        }
        report(&mut control, now, &reports, 5_000);
        levels.push(control.scream.loss_level());
    }
    for (level, expected) in levels.iter().zip([1.0 / 3.0, 2.0 / 3.0, 1.0, 0.5, 0.5 + 1.0 / 3.0]) {
        assert!((level - expected).abs() < 1e-9, "{levels:?}");
    }
    // All four lost packets arrive after all. The report comes within the running round trip.
    let late = vec![PacketReport { lost_before: true, ..packet(1_090, Some(1_095)) }; 4];
    report(&mut control, 1_110, &late, 5_000);
    assert_eq!(control.scream.loss_level(), 0.0);
}

#[test]
fn the_round_trip_is_smoothed_by_an_eighth_and_slower_while_media_use_less() {
    let config = ScreamConfig::default();
    let with = |first: u64, then: u64, in_alr: bool| {
        let mut delay = delay::DelayAverages::new();
        delay.update(&config, &read(1_000, &packets(1_000, first, 1)), false);
        delay.update(&config, &read(1_300, &packets(1_300, then, 1)), in_alr);
        (delay.rtt() / 10.0).round() / 100.0
    };
    assert_eq!([with(200, 100, false), with(200, 100, true)], [187.5, 199.22]);
    assert_eq!([with(100, 200, false), with(100, 200, true)], [112.5, 100.78]);
}

/// Packets sent at 900 and 910 ms arrive at 950 and 970, and were held for 30 and 10 ms when the report left.
#[test]
fn a_report_gives_delays_holding_time_and_round_trip() {
    let held = |report: PacketReport, held: u64| PacketReport { held: Some(ms(held)), ..report };
    let reports = [held(packet(900, Some(950)), 30), held(packet(910, Some(970)), 10)];
    let read = read(1_050, &reports);
    assert_eq!((read.min_delay, read.max_delay), (50.0 * MS, 60.0 * MS));
    assert_eq!((read.hold, read.rtt), (30.0 * MS, 130.0 * MS));
    // A report without arrivals says nothing.
    assert_eq!(Report::read(ms(1_050), &[packet(900, None)], 0.0), None);
}

/// 5000 B that arrive in 101 ms by the far end's clock, however they were sent, are 396 kbit/s; 0.8 of it is more than 1.1
/// of a target of 100 kbit/s.
#[test]
fn the_rate_of_arrivals_is_measured_on_the_far_end_and_holds_the_pacing_rate_up() {
    let mut control = control(100, Some(100));
    control.scream.limits.min = 100.0 * KBPS;
    let spread = |now: u64, last: u64| {
        let mut reports = vec![packet(last - 40, Some(last - 20)); 4];
        reports.push(packet(last - 40, Some(last)));
        (now, reports)
    };
    for (now, reports) in [spread(1_000, 900), spread(1_450, 1_001)] {
        report(&mut control, now, &reports, 0);
    }
    let expected = 0.8 * 5_000.0 * 8.0 / 0.101;
    let pacing = control.decision().pacing_rate.map_or(0.0, bps);
    assert_eq!(control.decision().target, Bitrate::from_kbps(100));
    assert!((pacing - expected).abs() < 2.0, "{pacing}");
}

/// A packet of 1000 B takes 8 ms on 1 Mbit/s. At 100 kbit/s none waits; at 2 Mbit/s every other millisecond adds one of
/// queue, and ten reports later it is far above 50 ms.
#[test]
fn below_the_capacity_there_is_no_queue_and_above_there_is() {
    let run = |rate| {
        let mut control = control(300, None);
        let mut road = Loop::new(Link::new(Some(1_000), 25), 1_000);
        (0..10).for_each(|_| assert!(road.until_report(&mut control, Bitrate::from_kbps(rate))));
        (control.scream.delay().rtt() / MS, control.scream.delay().queue() / MS)
    };
    assert_eq!(run(100), (58.0, 0.0));
    assert!(run(2_000).1 > 50.0);
}

/// 1 up to a quarter of the threshold, 0.7 at half of it, 0.1 from the threshold on.
#[test]
fn jitter_scales_follow_the_delays_of_reports() {
    let config = ScreamConfig::default();
    let mut delay = delay::DelayAverages::new();
    let mut now = 10_000;
    for (queue_us, expected) in [(0, 1.0), (20_000, 0.1), (5_000, 0.7), (2_500, 1.0)] {
        for _ in 0..250 {
            now += 10;
            let mut late = packet(now - 100, Some(now));
            late.received = Some(RemoteTime(ms(now) + Time::from_micros(queue_us)));
            let report = Report::read(ms(now), &[late], 0.0).expect("an arrival");
            delay.update(&config, &report, false);
        }
        let scale = delay.queue_scale(&config, 0.1);
        assert!((scale - expected).abs() < 0.01, "{queue_us} us: {scale}");
    }
    let mut spread = delay::DelayAverages::new();
    for _ in 0..250 {
        now += 10;
        spread.update(
            &config,
            &read(now, &[packet(now - 100, Some(now)), packet(now - 105, Some(now))]),
            false,
        );
    }
    assert!((spread.spread_scale(&config) - 0.7).abs() < 0.01);
}

/// 150 kbit/s on a link of 100 build a queue that never drains.
#[test]
fn after_20_seconds_of_overuse_the_queue_counts_as_not_drained() {
    let mut control = control(300, None);
    let mut road = Loop::new(Link::new(Some(100), 25), 1_000);
    let is_drained = |control: &ScreamV2, now: Time| {
        control.scream.delay().is_drained_in_time(&ScreamConfig::default(), micros(now))
    };
    while is_drained(&control, road.now) && road.now < Time::from_secs(30) {
        road.until_report(&mut control, Bitrate::from_kbps(150));
    }
    assert!((20.0..20.6).contains(&road.now.as_secs_f64()), "{}", road.now);
}

#[test]
fn the_first_report_keeps_the_start_rate() {
    let mut control = control(3_000, None);
    let mut road = Loop::new(Link::new(Some(5_000), 50), 1_000);
    assert_eq!(control.decision().target, Bitrate::from_kbps(3_000));
    road.until_report(&mut control, RATE_OF_FIRST_REPORT);
    let target = kbps(control.decision().target);
    assert!((2_980.0..3_300.0).contains(&target), "{target}");
    // A report without arrivals changes nothing.
    report(&mut control, 1_000, &[packet(900, None)], 0);
    assert_eq!(kbps(control.decision().target), target);
}

/// When padding began and stopped. `follows` sends at the rate of the padding.
fn padding_of(control: &mut ScreamV2, road: &mut Loop, follows: bool) -> (f64, f64) {
    let (begins, mut rate, mut started) = (road.now, Bitrate::from_kbps(50), None);
    while road.now < begins + Time::from_secs(10) {
        road.until_report(control, rate);
        let padding = control.decision().padding_rate;
        match (padding > Bitrate::ZERO, started) {
            (true, _) => {
                started.get_or_insert(road.now);
                assert_eq!(padding, control.decision().target);
                if follows {
                    rate = padding;
                }
            }
            (false, Some(started)) => return (started.as_secs_f64(), road.now.as_secs_f64()),
            (false, None) => {}
        }
    }
    panic!("padding from {started:?} on does not end");
}

/// Packets of 1000 B at 50 kbit/s are 160 ms apart, and padding is seen after reports.
#[test]
fn padding_comes_for_three_seconds_every_six() {
    let mut control = control(300, None);
    let mut road = Loop::new(Link::new(Some(15_000), 10), 1_000);
    let first = padding_of(&mut control, &mut road, false);
    let second = padding_of(&mut control, &mut road, true);
    assert!((2.5..3.3).contains(&(first.1 - first.0)), "{first:?}");
    assert!((2.5..3.3).contains(&(second.0 - first.1)), "{first:?} {second:?}");
}

#[test]
fn padding_stops_at_congestion_and_waits() {
    let mut control = control(300, None);
    let mut road = Loop::new(Link::new(Some(500), 10), 1_000);
    road = road.with_marker(Marker::Ramp(ms(4), ms(8)));
    let first = padding_of(&mut control, &mut road, true);
    assert!(first.1 - first.0 < 1.0, "{first:?}");
    assert!(kbps(control.decision().target) < 720.0);
    let second = padding_of(&mut control, &mut road, false);
    assert!((2.5..3.5).contains(&(second.0 - first.1)), "{first:?} {second:?}");
}

/// The streams could use 1000 kbit/s and now 300: padding up to 600. Then 800: up to 1000, their highest so far.
#[test]
fn padding_ends_at_twice_of_what_the_streams_use_and_at_the_most_they_have_used() {
    let mut control = control(300, None);
    let mut road = Loop::new(Link::new(Some(5_000), 50), 1_000);
    control.on_media_limit(Time::ZERO, Bitrate::from_kbps(300));
    padding_of(&mut control, &mut road, true);
    let low = kbps(control.decision().target);
    assert!((600.0..700.0).contains(&low), "{low}");
    control.on_media_limit(road.now, Bitrate::from_kbps(800));
    padding_of(&mut control, &mut road, true);
    let high = kbps(control.decision().target);
    assert!((1_000.0..1_100.0).contains(&high), "{high}");
}

#[test]
fn a_remb_caps_target_and_padding_at_once_and_until_it_rises() {
    let mut control = control(300, Some(1_000));
    let mut road = Loop::new(Link::new(None, 25), 1_000);
    let mut rate = RATE_OF_FIRST_REPORT;
    for _ in 0..60 {
        road.until_report(&mut control, rate);
        rate = control.decision().target;
    }
    assert_eq!(rate, Bitrate::from_kbps(1_000));
    control.on_feedback(road.now, Feedback::Remb(Bitrate::from_kbps(500))).expect("a REMB");
    assert_eq!(control.decision().target, Bitrate::from_kbps(500));
    for _ in 0..10 {
        road.until_report(&mut control, Bitrate::from_kbps(500));
        assert_eq!(control.decision().target, Bitrate::from_kbps(500));
        assert_eq!(control.decision().padding_rate, Bitrate::ZERO);
    }
}

/// 900 kbit/s against a target that grows beyond, with marks or by the queue alone; 9 Mbit/s do not fill.
#[test]
fn bursts_are_short_after_congestion_and_40_ms_without() {
    let burst = |link: u64, marker: Marker, reports: usize| {
        let mut control = control(300, None);
        let mut road = Loop::new(Link::new(Some(link), 0), 1_000).with_marker(marker);
        let mut rate = Bitrate::from_kbps(500);
        for _ in 0..reports {
            road.until_report(&mut control, rate);
            rate = control.decision().target;
        }
        control.decision().pacing_burst
    };
    assert_eq!(burst(900, Marker::Ramp(ms(4), ms(8)), 20), Some(ms(10)));
    assert_eq!(burst(900, Marker::Never, 30), Some(ms(10)));
    assert_eq!(burst(9_000, Marker::Never, 30), Some(ms(40)));
}

/// 41 250 B take 300 ms at 1100 kbit/s: half-way from 100 to 500 ms. More in flight than the window is worse.
#[test]
fn the_encoder_is_pushed_back_by_the_wait_in_the_pacer_and_by_a_full_window() {
    let mut control = control(1_000, Some(1_000));
    let queued = |bytes| SenderState { queued: Bytes(bytes), ..SenderState::default() };
    control.on_timeout(Time::ZERO, &queued(41_250)).expect("a timeout");
    assert_eq!(control.decision().pacing_rate, Some(Bitrate::from_kbps(1_100)));
    assert!((control.decision().drop_ratio - 0.5).abs() < 1e-9);
    control.on_timeout(ms(25), &queued(13_750)).expect("a timeout");
    assert_eq!(control.decision().drop_ratio, 0.0);
    // Before the first report the window is 1000 B, so 3000 B may be in flight.
    assert_eq!(control.decision().window, Some(Bytes(3_000)));
    let mut sent = packet(30, None).sent;
    sent.in_flight = Bytes(3_001);
    control.on_sent(&sent).expect("a packet");
    assert!(control.is_changed_by_sending());
    assert_eq!(control.decision().drop_ratio, 1.0);
}
