//! Call set-up: who reaches which step when, and what a lost message costs.
//!
//! The first half is about set-up as in the published measurements, the second one about the set-up of a page.

use super::*;
use crate::packet::{Dtls13, DtlsFlight, Ecn, SignalKind, Stun, StunForm};
use proptest::prelude::*;

/// When alice and bob reach a step.
fn steps(pair: &Pair, event: &EndpointEvent) -> [Option<Time>; 2] {
    [ALICE, BOB].map(|by| pair.first(by, event))
}

fn call() -> Pair {
    Pair::call("chrome-27", 500, Repair::Rtx)
}

fn flight(number: u8) -> impl Fn(&Content) -> bool {
    move |content| *content == Content::Dtls(DtlsFlight(number))
}

/// In delays: offer 0 to 1, answer and bob's check 1 to 2, its answer 2 to 3, DTLS flights 3 to 4 to 5 to 6
/// to 7. Alice's own check leaves when the answer arrives: 2 to 3, and back at 4.
#[test]
fn a_call_is_set_up_in_seven_delays() {
    let mut pair = call();
    pair.run(DELAY * 7);
    let at = |a: u64, b: u64| [Some(DELAY * a), Some(DELAY * b)];
    assert_eq!(steps(&pair, &EndpointEvent::Joined), at(0, 0));
    assert_eq!(steps(&pair, &EndpointEvent::Signalled), at(1 + 1, 1));
    assert_eq!(steps(&pair, &EndpointEvent::IceConnected), at(4, 3));
    assert_eq!(steps(&pair, &EndpointEvent::DtlsConnected), at(6, 7));
}

/// Alice may send after 6 delays and bob after 7; a picture is shown 10 ms after it is complete.
#[test]
fn the_first_picture_is_shown_a_delay_and_ten_milliseconds_after_the_other_side_may_send() {
    let mut pair = call();
    pair.run(DELAY * 10);
    for (by, delays) in [(ALICE, 8), (BOB, 7)] {
        let at = pair.first(by, &EndpointEvent::FirstFrame).expect("a picture");
        // The time is computed in seconds as a float.
        let late = at.0.abs_diff((DELAY * delays + Time::from_millis(10)).0);
        assert!(late < 1_000, "{by}: {at}");
    }
}

#[test]
fn a_peer_reports_each_step_once_and_in_order() {
    let mut pair = call();
    pair.run(Time::from_secs(3));
    let steps = [
        EndpointEvent::Joined,
        EndpointEvent::Signalled,
        EndpointEvent::IceConnected,
        EndpointEvent::DtlsConnected,
        EndpointEvent::FirstFrame,
    ];
    for by in [ALICE, BOB] {
        let reported = pair.events.iter().filter(|(_, index, e)| *index == by && steps.contains(e));
        let reported: Vec<&EndpointEvent> = reported.map(|(.., event)| event).collect();
        assert_eq!(reported, steps.iter().collect::<Vec<_>>());
    }
}

#[test]
fn a_lost_offer_costs_a_second() {
    let mut pair = call();
    pair.lose(ALICE, |sent| sent.at == Time::ZERO);
    pair.run(Time::from_secs(2));
    assert_eq!(
        steps(&pair, &EndpointEvent::Signalled),
        [2, 1].map(|n| Some(Time::from_secs(1) + DELAY * n))
    );
    assert_eq!(
        pair.first(BOB, &EndpointEvent::DtlsConnected),
        Some(Time::from_secs(1) + DELAY * 7)
    );
}

/// A description is three segments of at most 1400 bytes; all of them are repeated.
#[test]
fn one_lost_segment_of_the_offer_costs_a_second_too() {
    let mut pair = call();
    let mut count = 0;
    pair.lose(ALICE, move |_| {
        count += 1;
        count == 2
    });
    pair.run(Time::from_secs(2));
    assert_eq!(pair.first(BOB, &EndpointEvent::Signalled), Some(Time::from_secs(1) + DELAY));
    let is_segment = |sent: &&Sent| matches!(sent.datagram.content, Content::Signalling(_));
    assert_eq!(pair.sent_by(ALICE).filter(is_segment).count(), 6);
}

/// Alice repeats her offer after a second, and bob his answer.
#[test]
fn a_lost_answer_costs_a_second() {
    let mut pair = call();
    pair.lose(BOB, |sent| {
        sent.at == DELAY && matches!(sent.datagram.content, Content::Signalling(_))
    });
    pair.run(Time::from_secs(5));
    assert_eq!(pair.first(ALICE, &EndpointEvent::Signalled), Some(Time::from_secs(1) + DELAY * 2));
    let is_segment = |sent: &&Sent| matches!(sent.datagram.content, Content::Signalling(_));
    assert_eq!(pair.sent_by(ALICE).filter(is_segment).count(), 6);
    assert_eq!(pair.sent_by(BOB).filter(is_segment).count(), 6);
}

/// Bob's first check leaves after one delay and is lost; his second follows 50 ms later. He measures the
/// round trip of the second one.
#[test]
fn a_lost_check_costs_fifty_milliseconds_and_does_not_lengthen_the_measured_round_trip() {
    let is_check = |content: &Content| {
        *content == Content::Stun(Stun { success: false, check: 1, form: StunForm::Bare })
    };
    let mut pair = call();
    pair.lose(BOB, move |sent| is_check(&sent.datagram.content));
    pair.run(Time::from_secs(1));
    assert_eq!(
        pair.first(BOB, &EndpointEvent::IceConnected),
        Some(DELAY * 3 + Time::from_millis(50))
    );
    assert_eq!(pair.bob.setup.check_rtt, Some(DELAY * 2));
}

/// The answer to the first check arrives after the second check has left, and is matched to the first.
#[test]
fn a_check_that_takes_longer_than_fifty_milliseconds_is_measured_from_its_own_departure() {
    let mut pair = call();
    let delay = Time::from_millis(80);
    pair.fate = Box::new(move |_| vec![delay]);
    pair.run(delay * 4);
    assert_eq!(pair.first(BOB, &EndpointEvent::IceConnected), Some(delay * 3));
    assert_eq!(pair.bob.setup.check_rtt, Some(delay * 2));
}

/// Bob sends flights 0 and 2, alice 1 and 3. A side that is waiting repeats its last flight after 50 ms. The
/// last flight is not acknowledged: it is repeated when the third is, 50 ms after the third left at 5 delays.
#[test]
fn each_dtls_flight_that_is_lost_once_costs_fifty_milliseconds() {
    for number in 0..4 {
        let mut pair = call();
        let (is_flight, mut lost) = (flight(number), false);
        pair.fate = Box::new(move |sent| {
            let lose = !lost && is_flight(&sent.datagram.content);
            lost |= lose;
            if lose { vec![] } else { vec![DELAY] }
        });
        pair.run(Time::from_secs(1));
        let connected = pair.first(BOB, &EndpointEvent::DtlsConnected);
        assert_eq!(connected, Some(DELAY * 7 + Time::from_millis(50)), "flight {number}");
    }
}

/// The first repeat follows after 50 ms, the next ones after another 100, 200 and 400 ms.
#[test]
fn the_dtls_timer_doubles() {
    let mut pair = call();
    let is_first = flight(0);
    pair.lose(BOB, move |sent| is_first(&sent.datagram.content));
    pair.run(Time::from_secs(1));
    let is_first = flight(0);
    let first = pair.sent_by(BOB).filter(|sent| is_first(&sent.datagram.content));
    let after: Vec<u64> = first.map(|sent| (sent.at - DELAY * 3).as_millis()).collect();
    assert_eq!(after, [0, 50, 150, 350, 750]);
}

#[test]
fn a_repeated_message_changes_nothing() {
    let mut pair = call();
    pair.fate = Box::new(|_| vec![DELAY, DELAY + Time::from_millis(3)]);
    pair.run(Time::from_secs(1));
    assert_eq!(steps(&pair, &EndpointEvent::DtlsConnected), [6, 7].map(|n| Some(DELAY * n)));
    assert_eq!([&pair.alice, &pair.bob].map(|peer| peer.setup.check_rtt), [Some(DELAY * 2); 2]);
}

/// Three exchanges with the relay come between the description and the first check.
#[test]
fn with_a_relay_checks_start_after_three_exchanges_with_it() {
    let [mut a, mut b] = configs("chrome-27", [vec![], vec![]]);
    for config in [&mut a, &mut b] {
        config.addresses.relay = Some(NodeId(3));
    }
    let mut bob = Peer::new(b, fixed(100));
    let mut alice = Peer::new(a, fixed(100));
    alice.handle_timeout(Time::ZERO);
    bob.handle_timeout(Time::ZERO);
    while let Some(Transmit { datagram, .. }) = alice.poll_transmit(Time::ZERO) {
        bob.handle_datagram(Time::ZERO, ANYWHERE, &datagram);
    }
    let mut requests = 0;
    let first = loop {
        let transmit = bob.poll_transmit(Time::ZERO);
        match transmit.map(|transmit| transmit.datagram) {
            Some(request) if matches!(request.content, Content::Allocation(_)) => {
                requests += 1;
                bob.handle_datagram(Time::ZERO, ANYWHERE, &request);
            }
            Some(Datagram { content: Content::Signalling(_), .. }) => {}
            Some(other) => break other,
            None => bob.handle_timeout(Time::ZERO),
        }
    };
    assert_eq!(requests, 3);
    assert_eq!(
        first.content,
        Content::Stun(Stun { success: false, check: 1, form: StunForm::Bare })
    );
}

/// A call of two pages, or of two servers, whose work takes no time. Alice calls.
fn page_call(browser: bool, seed: u64) -> Pair {
    let streams = [ALICE_VIDEO, BOB_VIDEO].map(|ssrc| vec![video(ssrc, Repair::Rtx)]);
    let mut ends = configs("chrome-156", streams);
    for (end, seed) in ends.iter_mut().zip([seed, seed + 1]) {
        let described = Described::Video;
        end.session.negotiation =
            Negotiation::Page { seed, pace: seed, browser, described, server: None };
    }
    let [a, b] = ends;
    let mut pair = Pair::of(Peer::new(a, fixed(500)), Peer::new(b, fixed(500)));
    pair.alice.handle_present(Time::ZERO);
    pair
}

fn dtls(pair: &Pair, by: usize) -> Vec<(u64, Dtls13)> {
    let sent = pair.sent_by(by).filter_map(|sent| match sent.datagram.content {
        Content::Dtls13(datagram) => Some((sent.at.as_millis(), datagram)),
        _ => None,
    });
    sent.collect()
}

/// In delays: offer 0 to 1, answer and candidates 1 to 2. Alice's candidate is at bob's after 1, so he checks
/// at 1, and is answered at 3; alice checks at 2 and is answered at 4. Bob's ClientHello arrives at 4, alice's
/// flight at 5, his Finished at 6.
#[test]
fn a_page_is_connected_two_round_trips_after_it_has_answered() {
    let mut pair = page_call(false, 1);
    pair.run(DELAY * 8);
    let at = |a: u64, b: u64| [Some(DELAY * a), Some(DELAY * b)];
    assert_eq!(steps(&pair, &EndpointEvent::Signalled), at(2, 1));
    assert_eq!(steps(&pair, &EndpointEvent::IceConnected), at(4, 3));
    assert_eq!(steps(&pair, &EndpointEvent::DtlsConnected), at(6, 5));
    assert_eq!([&pair.alice, &pair.bob].map(|peer| peer.setup.check_rtt), [Some(DELAY * 2); 2]);
    use Dtls13::{
        Acknowledgement, ClientFinished, ClientHello, ClientHelloEnd, ServerFinished, ServerHello,
    };
    let bobs = [(60, ClientHello), (60, ClientHelloEnd), (100, ClientFinished)];
    assert_eq!(dtls(&pair, BOB), bobs);
    let alices = [
        (80, ServerHello),
        (80, ServerFinished),
        (120, Acknowledgement { records: 1, last: true }),
    ];
    assert_eq!(dtls(&pair, ALICE), alices);
}

#[test]
fn the_side_that_calls_nominates_and_the_other_does_not() {
    let mut pair = page_call(false, 1);
    pair.run(Time::from_secs(1));
    for (by, form) in [(ALICE, StunForm::Nominating), (BOB, StunForm::Full)] {
        let checks = pair.sent_by(by).filter_map(|sent| match sent.datagram.content {
            Content::Stun(stun) if !stun.success => Some(stun.form),
            _ => None,
        });
        let forms: Vec<StunForm> = checks.collect();
        assert!(forms.len() >= 3 && forms.iter().all(|of| *of == form), "{by}: {forms:?}");
    }
}

/// The TCP candidate follows 105 to 150 ms after a description, unless checks have succeeded before. Bob needs
/// at most 30 ms until he checks after his answer, and a round trip.
#[test]
fn the_tcp_candidate_is_left_out_if_the_checks_are_faster() {
    for (delay, count) in [(20, 0), (200, 1)] {
        let mut pair = page_call(true, 1);
        pair.fate = Box::new(move |_| vec![Time::from_millis(delay)]);
        pair.run(Time::from_secs(3));
        let is_tcp = |(_, by, event): &&(Time, usize, EndpointEvent)| {
            let kind = SignalKind::TcpCandidate;
            *by == BOB && matches!(event, EndpointEvent::Signal(signal) if signal.kind == kind)
        };
        assert_eq!(pair.events.iter().filter(is_tcp).count(), count, "{delay} ms");
    }
}

/// The work on the way to bob's connection: offer 12 to 65 ms, answer 18 to 80, first check 2.9 to 22, its answer 0.45 to
/// 5.5, ClientHello 0.7 to 2.1, server's flight 0.75 to 6.5, Finished 0.3 to 3.7. The medians add up to 80 ms.
#[test]
fn the_work_of_a_page_takes_a_twelfth_of_a_second() {
    let mut took: Vec<u64> = Vec::new();
    for seed in 0..50 {
        let mut pair = page_call(true, 10 * seed);
        pair.run(Time::from_secs(2));
        let at = pair.first(BOB, &EndpointEvent::DtlsConnected).expect("a connection");
        took.push((at - DELAY * 5).as_millis());
    }
    took.sort_unstable();
    assert!(took[0] >= 35 && took[49] <= 185, "{took:?}");
    assert!((66..98).contains(&took[25]), "{took:?}");
}

/// Bob's check arrives a delay after he sent it and is answered 0.45 to 5.5 ms later. So what bob sends when alice's answer
/// arrives, his ClientHello, is before his answer to her check.
#[test]
fn the_side_that_calls_answers_the_first_check_before_it_sends_its_own() {
    for seed in 0..20 {
        let mut pair = page_call(true, 10 * seed);
        pair.run(Time::from_secs(2));
        let first = |by: usize, success: bool| {
            let is = |content: &Content| matches!(content, Content::Stun(stun) if stun.success == success);
            pair.sent_by(by).find(|sent| is(&sent.datagram.content)).map(|sent| sent.at)
        };
        let check = first(BOB, false).expect("a check") + DELAY;
        let answer = first(ALICE, true).expect("an answer");
        let late = (answer - check).as_secs_f64() * 1e3;
        assert!((0.45..=5.5).contains(&late), "{late} ms");
        assert!(first(ALICE, false).expect("a check") >= answer);
    }
}

/// 0.9 to 4.5 ms after the answer to a check, and 2.2 to 24 ms after the first picture was decoded.
#[test]
fn a_page_hears_of_checks_and_pictures_later_than_the_browser() {
    for seed in 0..20 {
        let mut pair = page_call(true, 10 * seed);
        pair.run(Time::from_secs(2));
        let is_answer = |content: &Content| matches!(content, Content::Stun(stun) if stun.success);
        let answer = pair.sent_by(ALICE).find(|sent| is_answer(&sent.datagram.content));
        let answered = answer.expect("an answer").at + DELAY;
        let shown = pair.events.iter().find(|(_, by, event)| {
            *by == BOB && matches!(event, EndpointEvent::FrameRendered { .. })
        });
        let heard = |event: EndpointEvent| pair.first(BOB, &event).expect("an event");
        let ice = (heard(EndpointEvent::IceConnected) - answered).as_secs_f64() * 1e3;
        assert!((0.9..=4.5).contains(&ice), "{ice} ms");
        let frame =
            (heard(EndpointEvent::FirstFrame) - shown.expect("a picture").0).as_secs_f64() * 1e3;
        assert!((2.2..=24.0).contains(&frame), "{frame} ms");
    }
}

/// Bob's first check is lost; alice's own, at 2 delays, is answered at 4. His next one leaves on his grid.
#[test]
fn a_lost_check_of_a_page_costs_at_most_four_points_of_the_grid() {
    let is_check =
        |content: &Content| matches!(content, Content::Stun(Stun { success: false, check: 1, .. }));
    let mut pair = page_call(false, 1);
    pair.lose(BOB, move |sent| is_check(&sent.datagram.content));
    pair.run(Time::from_secs(1));
    let [alice, bob] = steps(&pair, &EndpointEvent::IceConnected).map(Option::unwrap_or_default);
    assert_eq!(alice, DELAY * 4);
    let late = (bob - DELAY * 3).as_millis();
    assert!((48..64).contains(&late), "{late}");
    assert_eq!(pair.bob.setup.check_rtt, Some(DELAY * 2));
}

/// At a round trip of 40 ms, a flight is repeated after 80 ms. Each datagram is lost once. The last one only
/// ends the repetition of the one before.
#[test]
fn each_datagram_of_dtls_1_3_that_is_lost_once_costs_two_round_trips() {
    for datagram in Dtls13::ALL {
        let mut pair = page_call(false, 1);
        let mut lost = false;
        pair.fate = Box::new(move |sent| {
            let lose = !lost && sent.datagram.content == Content::Dtls13(datagram);
            lost |= lose;
            if lose { vec![] } else { vec![DELAY] }
        });
        pair.run(Time::from_secs(1));
        let connected = pair.first(ALICE, &EndpointEvent::DtlsConnected).expect("a connection");
        let late = (connected - DELAY * 6).as_millis();
        let is_last = matches!(datagram, Dtls13::Acknowledgement { .. });
        assert_eq!(late, if is_last { 0 } else { 80 }, "{datagram:?}");
    }
}

/// Bob's last flight is lost once, so that alice may not decrypt for 80 ms. What he sends meanwhile is lost.
#[test]
fn media_that_overtakes_the_handshake_of_a_page_is_not_received() {
    let mut pair = page_call(false, 1);
    let mut lost = false;
    pair.fate = Box::new(move |sent| {
        let lose = !lost && sent.datagram.content == Content::Dtls13(Dtls13::ClientFinished);
        lost |= lose;
        if lose { vec![] } else { vec![DELAY] }
    });
    pair.run(Time::from_secs(1));
    let connected = pair.first(ALICE, &EndpointEvent::DtlsConnected).expect("a connection");
    let arrived = |since: Time| {
        let arrives = |sent: &&Sent| {
            sent.is_kind(Kind::Video) && (since..=Time::from_secs(1)).contains(&(sent.at + DELAY))
        };
        pair.sent_by(BOB).filter(arrives).count() as u64
    };
    assert!(arrived(Time::ZERO) > arrived(connected) + 2);
    assert_eq!(pair.alice.receiver.videos[0].reception.packets, arrived(connected));
}

/// A queue that never has room for the second datagram of the server's flight, which leaves at 80 ms and again
/// at 160. Bob's timeout is 160 ms from 140 on, so he acknowledges the copy of the first datagram 40 ms after it
/// came at 180. At 320 alice sends the second one alone, and bob's last flight arrives at 360.
#[test]
fn only_what_is_missing_of_a_flight_is_repeated_in_the_end() {
    let mut pair = page_call(false, 1);
    let mut last = Time::MAX;
    pair.lose(ALICE, move |sent| match sent.datagram.content {
        Content::Dtls13(Dtls13::ServerHello) => {
            last = sent.at;
            false
        }
        Content::Dtls13(Dtls13::ServerFinished) => sent.at == last,
        _ => false,
    });
    pair.run(Time::from_secs(1));
    assert_eq!(pair.first(ALICE, &EndpointEvent::DtlsConnected), Some(Time::from_millis(360)));
    let acknowledgement = Dtls13::Acknowledgement { records: 2, last: false };
    assert!(dtls(&pair, BOB).contains(&(220, acknowledgement)));
}

/// Alice acknowledges a copy of the ClientHello, which does not tell bob that his last flight has arrived.
#[test]
fn a_last_flight_is_repeated_until_it_is_acknowledged_itself() {
    let mut pair = page_call(false, 1);
    pair.fate = Box::new(|sent| match sent.datagram.content {
        // It comes twice, the second time after its answer has left.
        Content::Dtls13(Dtls13::ClientHello) => vec![DELAY, DELAY + Time::from_millis(5)],
        Content::Dtls13(Dtls13::ClientFinished) if sent.at < DELAY * 9 => vec![],
        _ => vec![DELAY],
    });
    pair.run(Time::from_secs(2));
    // Sent at 100 ms, and again after 80 ms.
    assert_eq!(pair.first(ALICE, &EndpointEvent::DtlsConnected), Some(Time::from_millis(200)));
}

#[test]
fn a_repeated_message_changes_nothing_for_a_page() {
    let mut pair = page_call(false, 1);
    pair.fate = Box::new(|_| vec![DELAY, DELAY + Time::from_millis(3)]);
    pair.run(Time::from_secs(1));
    assert_eq!(steps(&pair, &EndpointEvent::DtlsConnected), [6, 5].map(|n| Some(DELAY * n)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The network loses any share of the datagrams for five seconds, and none later. Both sides repeat their
    /// flights with timeouts that double, so a timeout that runs at 5 s has run out by 10 s, and both are connected
    /// by 20 s. (A loss that never ends has no such bound: ten tries fit into a minute, and all ten
    /// may be lost.)
    #[test]
    fn a_page_is_connected_whatever_is_lost_at_first(seed in 0u64..1 << 40, loss in 0.0f64..1.0) {
        use rand::RngExt;
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let mut pair = page_call(true, seed);
        pair.fate = Box::new(move |sent| match sent.at < Time::from_secs(5) && rng.random::<f64>() < loss {
            true => vec![],
            false => vec![DELAY],
        });
        pair.run(Time::from_secs(20));
        prop_assert!(steps(&pair, &EndpointEvent::DtlsConnected).iter().all(Option::is_some));
    }
}

/// Behind a NAT each side tells of its private candidate first; the STUN server answers at once, and the candidate
/// outside follows. Checks to a private candidate do not leave.
fn page_call_behind_nats(browser: bool) -> Pair {
    let mut pair = page_call(browser, 1);
    for peer in [&mut pair.alice, &mut pair.bob] {
        let mut config = peer.config.clone();
        config.session.behind_nat = true;
        *peer = Peer::new(config, fixed(500));
    }
    pair.alice.handle_present(Time::ZERO);
    pair
}

fn is_binding(content: &Content) -> bool {
    *content == Content::Binding
}

/// Gives both ends the answer of the STUN server.
fn answer_bindings(pair: &mut Pair, at: Time) {
    pair.run(at);
    let answer = Datagram::new(Ecn::NotCapable, Content::Binding);
    for index in [ALICE, BOB] {
        pair.end(index).handle_datagram(at, ANYWHERE, &answer);
        pair.drain(at, index);
    }
}

#[test]
fn an_end_behind_a_nat_tells_of_its_address_outside_when_the_stun_server_has_answered() {
    let mut pair = page_call_behind_nats(true);
    pair.fate =
        Box::new(|sent| if is_binding(&sent.datagram.content) { vec![] } else { vec![DELAY] });
    let answered = Time::from_millis(400);
    answer_bindings(&mut pair, answered);
    let is_check = |sent: &&Sent| matches!(sent.datagram.content, Content::Stun(_));
    for by in [ALICE, BOB] {
        assert_eq!(pair.sent_by(by).filter(is_check).count(), 0, "{by}");
    }
    pair.run(Time::from_secs(2));
    for by in [ALICE, BOB] {
        let at = |kind: SignalKind| {
            let signals = pair.events.iter().filter(|(_, index, _)| *index == by);
            let of = |event: &EndpointEvent| matches!(event, EndpointEvent::Signal(signal) if signal.kind == kind);
            signals.filter(|(.., event)| of(event)).map(|(at, ..)| *at).collect::<Vec<_>>()
        };
        let private = at(SignalKind::PrivateCandidate);
        assert!(private.len() == 1 && private[0] < answered, "{private:?}");
        assert_eq!(at(SignalKind::Candidate), [answered]);
        let ice = pair.first(by, &EndpointEvent::IceConnected).expect("a connection");
        // The candidate arrives after one delay and is checked at the next point in time, then a round trip.
        let late = (ice - answered).as_millis();
        assert!((60..=60 + 64 + 5).contains(&late), "{late}");
    }
}

/// 250 ms, doubled to at most 8 s: nine requests in 31.75 s.
#[test]
fn a_stun_server_that_does_not_answer_is_asked_nine_times() {
    let mut pair = page_call_behind_nats(false);
    pair.fate =
        Box::new(|sent| if is_binding(&sent.datagram.content) { vec![] } else { vec![DELAY] });
    pair.run(Time::from_secs(60));
    let asked: Vec<u64> = pair
        .sent_by(ALICE)
        .filter(|sent| is_binding(&sent.datagram.content))
        .map(|sent| sent.at.as_millis())
        .collect();
    assert_eq!(asked, [0, 250, 750, 1_750, 3_750, 7_750, 15_750, 23_750, 31_750]);
}

/// When an end sent its checks and its answers to checks.
fn stun_by(pair: &Pair, by: usize) -> Vec<Time> {
    let is_stun = |sent: &&Sent| matches!(sent.datagram.content, Content::Stun(_));
    pair.sent_by(by).filter(is_stun).map(|sent| sent.at).collect()
}

/// Nobody hears a check.
#[test]
fn checks_that_nobody_answers_end_after_fifteen_seconds() {
    for negotiates_in_bursts in [false, true] {
        let mut pair = if negotiates_in_bursts { call() } else { page_call(true, 1) };
        pair.fate = Box::new(|sent| match sent.datagram.content {
            Content::Stun(_) => vec![],
            _ => vec![DELAY],
        });
        pair.run(Time::from_secs(60));
        for by in [ALICE, BOB] {
            let checks = stun_by(&pair, by);
            let took = (checks[checks.len() - 1] - checks[0]).as_millis();
            assert!((14_900..15_000).contains(&took), "{took}");
            assert_eq!(pair.first(by, &EndpointEvent::IceConnected), None);
        }
    }
}

/// All checks are lost until both sides' have ended. Then a late one comes through, and all that follow.
#[test]
fn a_check_that_comes_after_the_own_ones_have_ended_begins_them_again() {
    for negotiates_in_bursts in [false, true] {
        let mut pair = if negotiates_in_bursts { call() } else { page_call(true, 1) };
        pair.fate = Box::new(|sent| match sent.datagram.content {
            Content::Stun(_) => vec![],
            _ => vec![DELAY],
        });
        let late = Time::from_secs(20);
        pair.run(late);
        assert!([ALICE, BOB].iter().all(|by| *stun_by(&pair, *by).last().expect("checks") < late));
        pair.fate = Box::new(|_| vec![DELAY]);
        let check = Content::Stun(Stun { success: false, check: 1, form: StunForm::Full });
        let check = Datagram::new(Ecn::NotCapable, check);
        pair.bob.handle_datagram(late, addresses(BOB).remote, &check);
        pair.drain(late, BOB);
        pair.run(late + Time::from_secs(1));
        for by in [ALICE, BOB] {
            assert!(pair.first(by, &EndpointEvent::IceConnected).expect("a connection") > late);
        }
    }
}
