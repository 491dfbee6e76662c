//! Laws that hold for the controls of RFC 8888 feedback, whatever a far end reports.

use super::closed_loop::{Link, Loop, Marker};
use super::control::{
    Controller, Decision, Feedback, Halves, PacketReport, RateBounds, SenderState, SentPacket,
};
use super::options::{OptionSpec, Options};
use super::{nada, scream, scream_rfc8298};
use crate::ecn::Ecn;
use crate::packet::Kind;
use crate::units::{Bitrate, Bytes, RemoteTime, Time};
use proptest::prelude::*;
use std::collections::BTreeMap;

type Create = fn(RateBounds, Options<'_>) -> Halves;

const CONTROLS: [(&str, Create, &[OptionSpec]); 3] = [
    ("scream", scream::create, scream::OPTIONS),
    ("scream-rfc8298", scream_rfc8298::create, scream_rfc8298::OPTIONS),
    ("nada", nada::create, nada::OPTIONS),
];
const MIN: Bitrate = Bitrate::from_kbps(62);
const MAX: Bitrate = Bitrate::from_kbps(1_732);

fn control(create: Create, options: &[(&str, f64)]) -> Box<dyn Controller> {
    let kbps = Bitrate::from_kbps;
    let bounds = RateBounds {
        start: kbps(300),
        min: kbps(30),
        max: kbps(1_700),
        audio: kbps(32),
        has_video: true,
    };
    let options: BTreeMap<_, _> =
        options.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    create(bounds, Options(&options)).0
}

/// Something that a control is told, with values without sense.
#[derive(Clone, Debug)]
enum Absurd {
    Sent(SentPacket),
    Reports(Time, Vec<PacketReport>, Bytes),
    Receiver(Time, u64, u64),
    Remb(Time, Bitrate),
    MediaLimit(Time, Bitrate),
    Timeout(Time, Bytes, Bytes),
}

/// Mostly seconds, at times the ends of what fits.
fn any_time() -> impl Strategy<Value = Time> {
    prop_oneof![
        8 => (0u64..200_000_000_000).prop_map(Time),
        1 => Just(Time::ZERO),
        1 => any::<u64>().prop_map(Time),
        1 => Just(Time::MAX),
    ]
}

fn any_size() -> impl Strategy<Value = Bytes> {
    prop_oneof![
        8 => (0u64..2_000).prop_map(Bytes),
        1 => any::<u64>().prop_map(Bytes),
        1 => Just(Bytes(u64::MAX)),
    ]
}

fn any_ecn() -> impl Strategy<Value = Ecn> {
    (0u8..4).prop_map(Ecn::from_bits)
}

prop_compose! {
    fn any_sent()(
        transport_seq in prop_oneof![4 => -10i64..1_000, 1 => any::<i64>()],
        at in any_time(),
        size in any_size(),
        in_flight in any_size(),
        ecn in any_ecn(),
    ) -> SentPacket {
        SentPacket { transport_seq, at, size, kind: Kind::Video, probe: None, in_flight, ecn }
    }
}

prop_compose! {
    fn any_report()(
        sent in any_sent(),
        received in proptest::option::of(any_time()),
        ecn in proptest::option::of(any_ecn()),
        held in proptest::option::of(any_time()),
        lost_before: bool,
    ) -> PacketReport {
        PacketReport { sent, received: received.map(RemoteTime), ecn, held, lost_before }
    }
}

/// A report whose packets were all lost, or all marked, or that has none, is as likely as any.
fn any_reports() -> impl Strategy<Value = Vec<PacketReport>> {
    (proptest::collection::vec(any_report(), 0..20), 0u8..4).prop_map(|(mut reports, kind)| {
        for report in &mut reports {
            match kind {
                0 => report.received = None,
                1 => report.ecn = Some(Ecn::CongestionExperienced),
                _ => {}
            }
        }
        reports
    })
}

fn any_input() -> impl Strategy<Value = Absurd> {
    let rate = || prop_oneof![(0u64..5_000_000).prop_map(Bitrate), any::<u64>().prop_map(Bitrate)];
    prop_oneof![
        4 => any_sent().prop_map(Absurd::Sent),
        4 => (any_time(), any_reports(), any_size()).prop_map(|(at, r, f)| Absurd::Reports(at, r, f)),
        1 => (any_time(), any::<u64>(), any::<u64>()).prop_map(|(at, l, e)| Absurd::Receiver(at, l, e)),
        1 => (any_time(), rate()).prop_map(|(at, rate)| Absurd::Remb(at, rate)),
        1 => (any_time(), 0u64..100_000_000).prop_map(|(at, rate)| Absurd::MediaLimit(at, Bitrate(rate))),
        2 => (any_time(), any_size(), any_size()).prop_map(|(at, q, f)| Absurd::Timeout(at, q, f)),
    ]
}

fn feed(control: &mut dyn Controller, input: &Absurd) {
    let told = match input {
        Absurd::Sent(packet) => control.on_sent(packet),
        Absurd::Reports(at, reports, in_flight) => {
            let resolution = Time::from_millis(1);
            let in_flight = *in_flight;
            control.on_feedback(*at, Feedback::Packets { reports, in_flight, resolution })
        }
        Absurd::Receiver(at, lost, expected) => {
            let (lost, expected) = (*lost, *expected);
            let report = Feedback::ReceiverReport { lost, expected, fraction: 255, rtt: None };
            control.on_feedback(*at, report)
        }
        Absurd::Remb(at, rate) => control.on_feedback(*at, Feedback::Remb(*rate)),
        Absurd::MediaLimit(at, rate) => {
            control.on_media_limit(*at, *rate);
            Ok(())
        }
        Absurd::Timeout(at, queued, in_flight) => {
            let state =
                SenderState { queued: *queued, in_flight: *in_flight, ..SenderState::default() };
            control.on_timeout(*at, &state)
        }
    };
    told.expect("no error");
}

/// The decision can be followed: finite values within bounds.
fn check(name: &str, control: &dyn Controller) -> Result<(), TestCaseError> {
    let decision = control.decision();
    prop_assert!(decision.check().is_ok(), "{name}: {decision:?}");
    prop_assert!(decision.target >= MIN, "{name}: {decision:?}");
    // The window of SCReAM v2 bounds its target, beside a REMB; the encoders bound the others.
    prop_assert!(name == "scream" || decision.target <= MAX, "{name}: {decision:?}");
    let least = match name {
        // One and a half windows of 1000 B.
        "scream" => Bytes(1_500),
        _ => Bytes(3_000),
    };
    prop_assert!(decision.window.is_none_or(|window| window >= least), "{name}: {decision:?}");
    prop_assert!(decision.pacing_rate.is_none_or(|rate| rate >= Bitrate::from_kbps(50)), "{name}");
    let mut values = Vec::new();
    control.observe(&mut values);
    prop_assert!(values.iter().all(|value| value.value.is_finite()), "{name}: {values:?}");
    Ok(())
}

proptest! {
    #[test]
    fn absurd_reports_neither_stop_a_control_nor_move_it_out_of_bounds(
        inputs in proptest::collection::vec(any_input(), 1..60),
    ) {
        for (name, create, _) in CONTROLS {
            let mut control = control(create, &[]);
            check(name, control.as_ref())?;
            for input in &inputs {
                feed(control.as_mut(), input);
                check(name, control.as_ref())?;
            }
        }
    }

    /// The same with all options at either end.
    #[test]
    fn absurd_reports_do_not_stop_a_control_with_extreme_options(
        inputs in proptest::collection::vec(any_input(), 1..40),
        ends in any::<u64>(),
    ) {
        for (_, create, options) in CONTROLS {
            let end = |index: usize, spec: &OptionSpec| match ends >> (index % 64) & 1 {
                0 => spec.bounds.0,
                _ => spec.bounds.1,
            };
            let chosen: Vec<_> =
                options.iter().enumerate().map(|(n, spec)| (spec.name, end(n, spec))).collect();
            let mut control = control(create, &chosen);
            for input in &inputs {
                feed(control.as_mut(), input);
                prop_assert!(control.decision().check().is_ok());
                prop_assert!(control.decision().target >= MIN);
            }
        }
    }

    /// A REMB caps the target of SCReAM v2, but not below the least rate of the streams.
    #[test]
    fn a_remb_bounds_the_target(
        inputs in proptest::collection::vec(any_input(), 1..40),
        cap in 0u64..3_000_000,
    ) {
        let mut control = control(scream::create, &[]);
        let cap = Bitrate(cap);
        for input in inputs.iter().filter(|input| !matches!(input, Absurd::Remb(..))) {
            feed(control.as_mut(), &Absurd::Remb(Time::ZERO, cap));
            feed(control.as_mut(), input);
            prop_assert!(control.decision().target <= cap.max(MIN));
        }
    }
}

/// What a control does must not depend on where the clocks of both ends begin.
#[test]
fn the_far_ends_clock_does_not_matter() {
    for (name, create, _) in CONTROLS {
        let run = |remote_start| {
            let mut control = control(create, &[]);
            let mut road = Loop::new(Link::new(Some(1_000), 25), 1_000);
            road.remote_start = remote_start;
            road.run(control.as_mut(), Bitrate::from_kbps(300), Time::from_secs(20), |_, _| ());
            control.decision()
        };
        assert_eq!(run(Time::ZERO), run(Time::from_secs(1_000_000)), "{name}");
    }
}

/// A queue that only delays, jitter, marks, loss, and a capacity that changes.
fn links() -> [Link; 5] {
    let (kbps, at, ms) =
        (|rate| Some(Bitrate::from_kbps(rate)), Time::from_secs, Time::from_millis);
    let fifo = Link::new(Some(1_000), 30);
    let steps = vec![(at(0), kbps(2_000)), (at(6), kbps(300)), (at(12), kbps(1_500))];
    let short = Link { longest_wait: ms(60), loss: 0.02, delay: ms(8), ..fifo.clone() };
    [
        Link { marker: Marker::Step(ms(5)), ..fifo.clone() },
        short,
        Link { capacity: steps, ..fifo.clone() },
        Link { jitter: ms(4), ..fifo.clone() },
        fifo,
    ]
}

/// All decisions of a call of 35 s over a link. From 15 to 20 s little is sent, and at the end frames wait in the pacer.
fn decisions(create: Create, options: &[(&str, f64)], link: Link) -> Vec<Decision> {
    let mut control = control(create, options);
    let mut road = Loop::new(link, 1_200);
    let (start, mut decisions) = (Bitrate::from_kbps(300), Vec::new());
    let at = Time::from_secs;
    road.run(control.as_mut(), start, at(15), |_, control| decisions.push(control.decision()));
    while road.now < at(20) {
        road.until_report(control.as_mut(), Bitrate::from_kbps(100));
        decisions.push(control.decision());
    }
    road.is_paced = true;
    road.run(control.as_mut(), start, at(35), |_, control| decisions.push(control.decision()));
    for queued in [10_000, 40_000, 400_000] {
        road.now += Time::from_millis(200);
        feed(control.as_mut(), &Absurd::Timeout(road.now, Bytes(queued), Bytes(0)));
        decisions.push(control.decision());
    }
    decisions
}

/// A value that is not read changes nothing.
#[test]
fn every_option_changes_what_a_control_decides() {
    for (name, create, options) in CONTROLS {
        for option in options {
            // The number of intervals matters once there are as many, and so on.
            let beside: &[_] = match option.name {
                "base_intervals" => &[("base_interval_s", 1.0)],
                "drain_rtts" => &[("drain_period_s", 0.5)],
                "mark_reference" | "mark_penalty_ms" => &[("ect0", 1.0)],
                _ => &[],
            };
            let with = |value: f64, link: Link| {
                decisions(create, &[beside, &[(option.name, value)]].concat(), link)
            };
            let (least, most) = option.bounds;
            let differs =
                links().into_iter().any(|link| with(least, link.clone()) != with(most, link));
            assert!(differs, "{} of {name} changes nothing", option.name);
        }
    }
}
