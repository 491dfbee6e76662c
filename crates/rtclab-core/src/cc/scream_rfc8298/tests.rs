//! RFC 8298 by hand, and in a closed loop.

use super::*;
use crate::cc::closed_loop::{Link, Loop, Marker, shown};
use crate::packet::Kind;
use crate::units::{Bitrate, RemoteTime};

fn ms(ms: u64) -> Time {
    Time::from_millis(ms)
}

fn control(start: u64, max: u64) -> ScreamV1 {
    with(Config::default(), start, max)
}

fn with(config: Config, start: u64, max: u64) -> ScreamV1 {
    let kbps = Bitrate::from_kbps;
    let bounds = RateBounds {
        start: kbps(start),
        min: kbps(30),
        max: kbps(max),
        audio: Bitrate::ZERO,
        has_video: true,
    };
    ScreamV1::new(bounds, config)
}

/// A control outside of fast increase, with this window, a round trip of 100 ms and 20 000 B in flight lately.
fn settled(window: f64) -> ScreamV1 {
    let mut control = control(1_000, 3_000);
    control.window = window;
    control.rtt = 100.0 * MS;
    control.in_fast_increase = false;
    control.in_flight = window;
    control.most_in_flight.add(ms(1_000), 20_000.0);
    control.has_feedback = true;
    control
}

/// Loss leaves 0.8 of the window and 0.9 of the rate, a mark 0.9 of both; at most once in a round trip.
#[test]
fn loss_and_marks_lower_window_and_rate_once_in_a_round_trip() {
    let mut control = settled(10_000.0);
    control.in_fast_increase = true;
    assert!(control.react(SECOND, true, true));
    assert_eq!((control.window, control.target, control.last_max), (8_000.0, 900e3, 1_000e3));
    assert!(!control.in_fast_increase);
    assert!(!control.react(SECOND + 99.0 * MS, true, false));
    assert!(control.react(SECOND + 100.0 * MS, false, true));
    assert_eq!((control.window, control.target, control.last_max), (7_200.0, 810e3, 900e3));
    assert!(!control.react(2.0 * SECOND, false, false));
    let mut small = settled(3_100.0);
    small.react(SECOND, true, false);
    assert_eq!(small.window, MIN_WINDOW);
}

/// Half of the target in the queue: the window of 10 000 B grows by 0.5 × 2000 × 1000/10 000 = 100 B. Twice the target
/// shrinks it by 200 B. What was not used does not grow it, and it stays within 1.1 of what was in flight.
#[test]
fn the_window_changes_by_how_far_the_delay_is_from_its_target() {
    let adapted = |queue_ms: f64, in_flight: f64, window: f64| {
        let mut control = settled(window);
        control.in_flight = in_flight;
        control.delay.set(queue_ms * MS, 100.0 * MS, 0.3, 0.3);
        control.adapt_window(SECOND, 2_000.0);
        control.window
    };
    assert_eq!(adapted(50.0, 10_000.0, 10_000.0), 10_100.0);
    assert_eq!(adapted(200.0, 10_000.0, 10_000.0), 9_800.0);
    // 6400 × 1.25 + 2000 is all of the window, which is not enough; one more byte in flight is.
    assert_eq!(adapted(50.0, 6_400.0, 10_000.0), 10_000.0);
    assert_eq!(adapted(50.0, 6_401.0, 10_000.0), 10_100.0);
    assert_eq!(adapted(200.0, 100.0, 10_000.0), 9_800.0);
    assert_eq!(adapted(50.0, 21_990.0, 21_990.0), 22_000.0);
}

/// Fast increase adds all that was acknowledged while two thirds of the window are used, until the trend is 0.2. It is back
/// after 5 s without trend.
#[test]
fn fast_increase_lasts_until_there_is_a_trend_and_resumes_after_five_seconds() {
    let mut control = settled(10_000.0);
    control.in_fast_increase = true;
    control.in_flight = 6_000.0;
    control.adapt_window(SECOND, 2_000.0);
    assert_eq!(control.window, 12_000.0);
    control.adapt_window(SECOND, 2_000.0);
    assert_eq!(control.window, 12_000.0);
    control.delay.set(50.0 * MS, 100.0 * MS, 0.2, 0.2);
    control.adapt_window(SECOND, 2_000.0);
    assert!(!control.in_fast_increase);
    control.delay.set(50.0 * MS, 100.0 * MS, 0.19, 0.2);
    for (seconds, fast) in [(2.0, false), (6.9, false), (7.0, true)] {
        control.adapt_window(seconds * SECOND, 0.0);
        assert_eq!(control.in_fast_increase, fast, "{seconds} s");
    }
}

/// Sent 1 Mbit/s. In fast increase the rate grows by 200 kbit/s a second: 40 kbit/s, or a fifth of that near the last
/// maximum. Otherwise by what was sent, less the queue, but no more than the same ramp; 20 000 bits or more in the pacer,
/// 20 ms of the rate, take another 5 %.
#[test]
fn the_rate_of_the_media_grows_by_the_ramp_and_falls_with_the_queue_of_the_pacer() {
    let rates = Rates { current: 1e6, media: 1e6, median: 1e6, queued: 0.0 };
    let adjusted = |change: &dyn Fn(&mut ScreamV1), rates: &Rates| {
        let mut control = settled(10_000.0);
        change(&mut control);
        control.adjust_rate(rates);
        control.target.round()
    };
    let fast = |control: &mut ScreamV1| control.in_fast_increase = true;
    assert_eq!(adjusted(&fast, &rates), 1_040e3);
    let near = |control: &mut ScreamV1| (control.in_fast_increase, control.last_max) = (true, 1e6);
    assert_eq!(adjusted(&near, &rates), 1_008e3);
    // (4 × 0.25)² = 1 at 1.25 Mbit/s, and (4 × 0.125)² = 0.25 at 1.143.
    let at = |target: f64| {
        move |control: &mut ScreamV1| {
            (control.in_fast_increase, control.target, control.last_max) = (true, target, 1e6);
        }
    };
    assert_eq!(adjusted(&at(1.25e6), &rates), 1_290e3);
    assert_eq!(adjusted(&at(1.125e6), &rates), 1_135e3);
    assert_eq!(adjusted(&|_| (), &rates), 1_040e3);
    // 1 Mbit/s less 1.2 Mbit of queue is −0.2 Mbit/s, and 5 % less of 0.8 Mbit/s.
    assert_eq!(adjusted(&|_| (), &Rates { queued: 1.2e6, ..rates }), 760e3);
    assert_eq!(adjusted(&|_| (), &Rates { queued: 20e3, ..rates }), 1_040e3);
    assert_eq!(adjusted(&|_| (), &Rates { queued: 20.1e3, ..rates }), 988e3);
    // A trend of 1 lowers what counts as sent by a tenth, and the limit from twice to once the rate.
    let trend = |control: &mut ScreamV1| control.delay.set(0.0, 1e5, 1.0, 1.0);
    assert_eq!(adjusted(&trend, &rates), 1_000e3);
    assert_eq!(adjusted(&trend, &Rates { media: 1.2e6, ..rates }), 1_040e3);
}

/// What left and what the queue grew by came from the encoders. 25 000 B in 200 ms are 1 Mbit/s.
#[test]
fn rates_are_those_of_the_last_interval() {
    let mut control = control(1_000, 3_000);
    assert_eq!(control.measure(0.0, 0.0), None);
    control.amounts.sent = 20_000.0;
    control.amounts.acked = 25_000.0;
    let rates = control.measure(200.0 * MS, 5_000.0).expect("rates");
    let expected = Rates { current: 1e6, media: 1e6, median: 1e6, queued: 40e3 };
    assert_eq!(rates, expected);
    // Nothing but the queue leaves; the median of two is the upper one.
    control.amounts.sent = 5_000.0;
    let rates = control.measure(400.0 * MS, 0.0).expect("rates");
    assert_eq!((rates.current, rates.media, rates.median), (200e3, 0.0, 1e6));
    // 50 intervals are remembered.
    for n in 3..100 {
        control.measure(f64::from(n) * 200.0 * MS, 0.0);
    }
    assert_eq!(control.media_rates.len(), MEDIA_RATES);
}

fn report(seq: i64, received: bool) -> PacketReport {
    let sent = SentPacket {
        transport_seq: seq,
        at: ms(900),
        size: Bytes(1_000),
        kind: Kind::Video,
        probe: None,
        in_flight: Bytes::ZERO,
        ecn: Ecn::Ect0,
    };
    PacketReport {
        sent,
        received: received.then_some(RemoteTime(ms(950))),
        ecn: received.then_some(Ecn::Ect0),
        held: received.then_some(ms(20)),
        lost_before: false,
    }
}

/// Everything up to the highest packet that arrived, what was lost included and nothing twice. The round trip is without
/// the 20 ms that the far end held the packet. One more packet than the window may be in flight without a queue, and it
/// leaves at a window per round trip.
#[test]
fn a_report_acknowledges_up_to_its_highest_packet() {
    let mut control = control(1_000, 3_000);
    let reports = [report(0, true), report(1, false), report(2, true), report(3, false)];
    let feed = |control: &mut ScreamV1, reports: &[PacketReport]| {
        let feedback = Feedback::Packets { reports, in_flight: Bytes(2_500), resolution: ms(1) };
        control.on_feedback(ms(1_000), feedback).expect("a report");
    };
    feed(&mut control, &reports);
    assert_eq!((control.amounts.acked, control.rtt), (3_000.0, 80.0 * MS));
    feed(&mut control, &[report(1, true), report(3, true)]);
    assert_eq!(control.amounts.acked, 4_000.0);
    let decision = control.decision();
    assert_eq!(decision.window, Some(size(control.window + MSS)));
    assert_eq!(decision.pacing_rate, Some(bitrate(control.window * 8.0 / 0.08)));
    assert_eq!(decision.ecn, Ecn::Ect0);
}

#[test]
fn the_most_in_flight_is_forgotten_after_five_seconds() {
    let mut most = MostInFlight::default();
    most.add(ms(500), 9_000.0);
    for second in 1..=5 {
        most.add(Time::from_secs(second), 1_000.0);
    }
    assert_eq!(most.get(), 9_000.0);
    most.add(Time::from_secs(6), 1_000.0);
    assert_eq!((most.get(), most.0.len()), (1_000.0, 6));
}

/// Share of packets marked, mean wait in ms and mean rate in kbit/s from 60 to 120 s.
fn run(config: Config, link: Link) -> (f64, f64, f64) {
    let mut control = with(config, 300, 3_000);
    let mut road = Loop::new(link, 1_000);
    road.is_paced = true;
    let start = Bitrate::from_kbps(300);
    road.run(&mut control, start, Time::from_secs(60), |_, _| ());
    road.totals = Default::default();
    let mut rates = Vec::new();
    road.run(&mut control, start, Time::from_secs(120), |_, control| {
        rates.push(shown(control, "target_bps") / 1e3);
    });
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    (road.totals.marked_share(), road.totals.mean_wait_ms(), mean)
}

fn fixed_target() -> Config {
    Config { compensates: false, ..Config::default() }
}

/// Where the delay is the target the window neither grows nor shrinks.
#[test]
fn alone_on_a_link_the_queue_settles_at_its_target() {
    for kbps in [500, 1_000, 2_000] {
        let (_, wait, rate) = run(fixed_target(), Link::new(Some(kbps), 25));
        assert!((90.0..105.0).contains(&wait), "{kbps} kbit/s: {wait} ms");
        assert!((0.97..1.03).contains(&(rate / kbps as f64)), "{kbps} kbit/s: {rate}");
    }
}

/// The RFC warns of it: a steady queue of one's own looks like one of others, so the target follows it up, as far as
/// 400 ms.
#[test]
fn alone_on_a_link_the_target_follows_the_own_queue_up() {
    for kbps in [500, 1_000, 2_000] {
        let (_, wait, rate) = run(Config::default(), Link::new(Some(kbps), 25));
        assert!((150.0..400.0).contains(&wait), "{kbps} kbit/s: {wait} ms");
        assert!((0.97..1.03).contains(&(rate / kbps as f64)), "{kbps} kbit/s: {rate}");
    }
}

/// Marks above 20 ms, or a queue that holds 50 ms, keep the queue below these, at nine tenths of the link and more.
#[test]
fn marks_and_loss_keep_the_queue_shorter_than_its_target() {
    for kbps in [500, 1_000, 2_000] {
        let link = || Link::new(Some(kbps), 25);
        let marks = Link { marker: Marker::Step(ms(20)), ..link() };
        let (marked, wait, rate) = run(Config::default(), marks.clone());
        assert!(marked > 0.01 && wait < 20.0 && rate > 0.9 * kbps as f64, "{marked} {wait} {rate}");
        let (_, wait, rate) = run(Config::default(), Link { longest_wait: ms(50), ..link() });
        assert!(wait < 50.0 && rate > 0.9 * kbps as f64, "{kbps}: {wait} {rate}");
        // Without ECN nothing is marked.
        let deaf = Config { ect0: false, ..fixed_target() };
        let (marked, wait, _) = run(deaf, marks);
        assert!(marked == 0.0 && wait > 90.0, "{marked} {wait}");
    }
}
