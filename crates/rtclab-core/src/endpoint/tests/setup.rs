//! Call set-up: who reaches which step when, and what a lost message costs.

use super::*;
use crate::packet::{DtlsFlight, Stun};

/// When alice and bob reach a step.
fn steps(pair: &Pair, event: &Event) -> [Option<Time>; 2] {
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
    assert_eq!(steps(&pair, &Event::Joined), at(0, 0));
    assert_eq!(steps(&pair, &Event::Signalled), at(1 + 1, 1));
    assert_eq!(steps(&pair, &Event::IceConnected), at(4, 3));
    assert_eq!(steps(&pair, &Event::DtlsConnected), at(6, 7));
}

/// Alice may send after 6 delays and bob after 7; a picture is shown 10 ms after it is complete.
#[test]
fn the_first_picture_is_shown_a_delay_and_ten_milliseconds_after_the_other_side_may_send() {
    let mut pair = call();
    pair.run(DELAY * 10);
    for (by, delays) in [(ALICE, 8), (BOB, 7)] {
        let at = pair.first(by, &Event::FirstFrame).expect("a picture");
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
        Event::Joined,
        Event::Signalled,
        Event::IceConnected,
        Event::DtlsConnected,
        Event::FirstFrame,
    ];
    for by in [ALICE, BOB] {
        let reported = pair.events.iter().filter(|(_, index, e)| *index == by && steps.contains(e));
        let reported: Vec<&Event> = reported.map(|(.., event)| event).collect();
        assert_eq!(reported, steps.iter().collect::<Vec<_>>());
    }
}

#[test]
fn a_lost_offer_costs_a_second() {
    let mut pair = call();
    pair.lose(ALICE, |sent| sent.at == Time::ZERO);
    pair.run(Time::from_secs(2));
    assert_eq!(
        steps(&pair, &Event::Signalled),
        [2, 1].map(|n| Some(Time::from_secs(1) + DELAY * n))
    );
    assert_eq!(pair.first(BOB, &Event::DtlsConnected), Some(Time::from_secs(1) + DELAY * 7));
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
    assert_eq!(pair.first(BOB, &Event::Signalled), Some(Time::from_secs(1) + DELAY));
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
    assert_eq!(pair.first(ALICE, &Event::Signalled), Some(Time::from_secs(1) + DELAY * 2));
    let is_segment = |sent: &&Sent| matches!(sent.datagram.content, Content::Signalling(_));
    assert_eq!(pair.sent_by(ALICE).filter(is_segment).count(), 6);
    assert_eq!(pair.sent_by(BOB).filter(is_segment).count(), 6);
}

/// Bob's first check leaves after one delay and is lost; his second follows 50 ms later. He measures the
/// round trip of the second one.
#[test]
fn a_lost_check_costs_fifty_milliseconds_and_does_not_lengthen_the_measured_round_trip() {
    let is_check = |content: &Content| *content == Content::Stun(Stun { success: false, check: 1 });
    let mut pair = call();
    pair.lose(BOB, move |sent| is_check(&sent.datagram.content));
    pair.run(Time::from_secs(1));
    assert_eq!(pair.first(BOB, &Event::IceConnected), Some(DELAY * 3 + Time::from_millis(50)));
    assert_eq!(pair.bob.setup.check_rtt, Some(DELAY * 2));
}

/// The answer to the first check arrives after the second check has left, and is matched to the first.
#[test]
fn a_check_that_takes_longer_than_fifty_milliseconds_is_measured_from_its_own_departure() {
    let mut pair = call();
    let delay = Time::from_millis(80);
    pair.fate = Box::new(move |_| vec![delay]);
    pair.run(delay * 4);
    assert_eq!(pair.first(BOB, &Event::IceConnected), Some(delay * 3));
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
        let connected = pair.first(BOB, &Event::DtlsConnected);
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
    assert_eq!(steps(&pair, &Event::DtlsConnected), [6, 7].map(|n| Some(DELAY * n)));
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
    assert_eq!(first.content, Content::Stun(Stun { success: false, check: 1 }));
}
