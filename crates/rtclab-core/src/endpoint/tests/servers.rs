//! Set-up of a connection between a page, alice, and an SFU, bob, whose work takes no time.

use super::*;
use crate::endpoint::{ServerKind, ServerSetup};
use crate::packet::{Described, Dtls13, DtlsFlight, SignalKind, Stun, StunForm};

const ALL: [ServerSetup; 4] = [
    ServerSetup { kind: ServerKind::Janus, subscribes: false },
    ServerSetup { kind: ServerKind::Janus, subscribes: true },
    ServerSetup { kind: ServerKind::Str0m, subscribes: false },
    ServerSetup { kind: ServerKind::Str0m, subscribes: true },
];

fn call(server: ServerSetup, delay: Time) -> Pair {
    call_with(server, delay, vec![video(ALICE_VIDEO, Repair::Rtx)])
}

/// Alice sends these streams.
fn call_with(server: ServerSetup, delay: Time, streams: Vec<StreamConfig>) -> Pair {
    let mut ends = configs("chrome-156", [streams, vec![]]);
    for (end, browser) in ends.iter_mut().zip([true, false]) {
        let described = Described::Video;
        let server = Some(server);
        end.session.negotiation =
            Negotiation::Page { seed: 7, pace: 7, browser, described, server };
    }
    let [a, mut b] = ends;
    b.plays = false;
    let mut pair = Pair::of(Peer::new(a, fixed(500)), Peer::new(b, fixed(500)));
    pair.fate = Box::new(move |_| vec![delay]);
    pair.alice.handle_present(Time::ZERO);
    if server.subscribes {
        pair.bob.handle_published();
    }
    pair.drain(Time::ZERO, BOB);
    pair
}

fn signals(pair: &Pair, by: usize) -> Vec<SignalKind> {
    let own = pair.events.iter().filter(|(_, index, _)| *index == by);
    let signals = own.filter_map(|(.., event)| match event {
        EndpointEvent::Signal(signal) => Some(signal.kind),
        _ => None,
    });
    signals.collect()
}

fn stun(pair: &Pair, by: usize) -> Vec<(Time, Stun)> {
    let all = pair.sent_by(by).filter_map(|sent| match sent.datagram.content {
        Content::Stun(stun) => Some((sent.at, stun)),
        _ => None,
    });
    all.collect()
}

/// When the page's first nominating check arrives.
fn nominated(pair: &Pair, delay: Time) -> Time {
    let is_first = |(_, stun): &&(Time, Stun)| stun.form == StunForm::Nominating;
    stun(pair, ALICE).iter().find(is_first).expect("a nomination").0 + delay
}

/// Datagrams of the handshake: the number of the flight, and when it was sent.
fn flights(pair: &Pair, by: usize) -> Vec<(Time, u8)> {
    let all = pair.sent_by(by).filter_map(|sent| match sent.datagram.content {
        Content::Dtls13(Dtls13::ClientHello) => Some((sent.at, 0)),
        Content::Dtls(DtlsFlight(flight)) => Some((sent.at, flight)),
        _ => None,
    });
    all.collect()
}

/// Janus: create, attach and join before the offer; attach and join before Janus offers.
#[test]
fn a_page_makes_the_requests_of_the_server_before_descriptions_are_exchanged() {
    use SignalKind::{Answer, Candidate, Offer, Published, Reply};
    let request = |wants_offer| SignalKind::Request { wants_offer };
    let own = Described::Video;
    for (server, page, answers) in [
        (
            ALL[0],
            vec![request(false), request(false), request(false), Offer(own)],
            vec![Reply, Reply, Reply, Answer(own)],
        ),
        (
            ALL[1],
            vec![request(false), request(true), Answer(own)],
            vec![Published, Reply, Offer(own)],
        ),
        (ALL[2], vec![Offer(own)], vec![Answer(own)]),
        (ALL[3], vec![Offer(own)], vec![Published, Answer(own)]),
    ] {
        let mut pair = call(server, DELAY);
        pair.run(Time::from_secs(3));
        let is_description =
            |kind: &SignalKind| *kind != Candidate && *kind != SignalKind::TcpCandidate;
        for (by, expected) in [(ALICE, page), (BOB, answers)] {
            let sent: Vec<_> = signals(&pair, by).into_iter().filter(is_description).collect();
            assert_eq!(sent, expected, "{server:?}");
        }
    }
}

/// Three checks leave 62.5 ms apart. With a round trip of 140 ms the first answer comes after them, and the next check
/// 900 ms after the last one, at a look every 250 ms.
#[test]
fn a_browser_names_its_candidates_in_the_first_check_after_an_answer() {
    for server in ALL {
        for (delay, least, most) in [(20, 0, 79), (70, 700, 1_200)] {
            let delay = Time::from_millis(delay);
            let mut pair = call(server, delay);
            pair.run(Time::from_secs(5));
            assert!(stun(&pair, BOB).iter().all(|(_, stun)| stun.success), "{server:?}");
            let answered = stun(&pair, BOB)[0].0 + delay;
            for (at, check) in stun(&pair, ALICE) {
                assert_eq!(check.form == StunForm::Nominating, at >= answered, "{server:?}");
            }
            let waited = (nominated(&pair, delay) - delay - answered).as_millis();
            assert!((least..=most).contains(&waited), "{server:?}: {waited} ms");
        }
    }
}

#[test]
fn a_server_begins_or_answers_the_handshake_when_it_knows_the_candidates() {
    let delay = Time::from_millis(70);
    for server in ALL {
        let mut pair = call(server, delay);
        pair.run(Time::from_secs(8));
        let [page, sfu] = [ALICE, BOB].map(|by| flights(&pair, by));
        let known = nominated(&pair, delay);
        match server {
            ServerSetup { kind: ServerKind::Janus, subscribes: false } => {
                assert_eq!(sfu, [(known, 0), (sfu[1].0, 2)]);
                assert_eq!(page.iter().map(|(_, flight)| *flight).collect::<Vec<_>>(), [1, 3]);
            }
            // What came before is lost. The page sends it again.
            ServerSetup { kind: ServerKind::Janus, .. } => {
                let again = page.iter().find(|(at, flight)| *flight == 0 && *at + delay >= known);
                assert_eq!(sfu[0], (again.expect("a repeated hello").0 + delay, 1));
            }
            // What came before is kept.
            ServerSetup { kind: ServerKind::Str0m, .. } => assert_eq!(sfu[0], (known, 1)),
        }
        let ends = [ALICE, BOB].map(|by| pair.first(by, &EndpointEvent::DtlsConnected));
        assert!(ends.iter().all(Option::is_some), "{server:?}: {ends:?}");
        assert!(ends.iter().all(|at| at.is_some_and(|at| at > known + delay)), "{ends:?}");
    }
}

/// Whichever single flight is lost, the handshake is repeated and ends.
#[test]
fn a_lost_flight_is_sent_again() {
    for server in ALL {
        for flight in 0..=DtlsFlight::LAST.0 {
            let mut pair = call(server, DELAY);
            let mut is_lost = false;
            pair.fate = Box::new(move |sent| {
                let is_it = match sent.datagram.content {
                    Content::Dtls13(Dtls13::ClientHello) => flight == 0,
                    Content::Dtls(DtlsFlight(number)) => number == flight,
                    _ => false,
                };
                let is_first = is_it && !is_lost;
                is_lost |= is_it;
                if is_first { vec![] } else { vec![DELAY] }
            });
            pair.run(Time::from_secs(20));
            for by in [ALICE, BOB] {
                let at = pair.first(by, &EndpointEvent::DtlsConnected);
                assert!(at.is_some(), "{server:?}, flight {flight}: {by}");
            }
        }
    }
}

/// Others may subscribe to what Janus receives when the handshake is over, and to what rtclab's SFU receives when it
/// has answered the offer.
#[test]
fn a_server_says_when_others_may_subscribe() {
    for server in ALL {
        let mut pair = call(server, DELAY);
        pair.run(Time::from_secs(5));
        let step = match server.kind {
            ServerKind::Janus => EndpointEvent::DtlsConnected,
            ServerKind::Str0m => EndpointEvent::Signalled,
        };
        let published = pair.first(BOB, &EndpointEvent::Published);
        assert_eq!(published, pair.first(BOB, &step).filter(|_| !server.subscribes), "{server:?}");
        assert_eq!(pair.first(ALICE, &EndpointEvent::Published), None);
    }
}

/// A picture comes every 33 ms, so there is always something to report.
#[test]
fn a_server_reports_at_its_own_interval() {
    for (server, interval) in [(ALL[0], 200), (ALL[2], 50)] {
        let mut pair = call(server, DELAY);
        pair.run(Time::from_secs(5));
        let is_report = |packet: &RtcpPacket| matches!(packet, RtcpPacket::TransportFeedback(_));
        let reports = pair.sent_by(BOB).filter(|sent| sent.rtcp().iter().any(is_report));
        let at: Vec<u64> = reports.map(|sent| sent.at.as_millis()).collect();
        assert!(at.len() > 15, "{server:?}: {at:?}");
        assert!(at.windows(2).all(|pair| pair[1] - pair[0] == interval), "{server:?}: {at:?}");
    }
}

/// A packet of sound with 80 B of payload had 138 B of IP towards Janus, 144 B behind it, and 152 B with str0m. Without an SFU
/// it has 146 B.
#[test]
fn packets_are_as_long_as_the_server_makes_them() {
    for (server, sound, video, rtcp) in
        [(ALL[0], 138, -4, 0), (ALL[1], 144, 10, 6), (ALL[2], 152, 6, 6), (ALL[3], 152, 10, 6)]
    {
        let streams = vec![self::video(ALICE_VIDEO, Repair::Rtx), audio(1_003)];
        let mut pair = call_with(server, DELAY, streams);
        pair.run(Time::from_secs(3));
        let mut seen = [0; 4];
        for Sent { datagram, .. } in &pair.sent {
            let bare = Datagram::new(datagram.ecn, datagram.content.clone()).size;
            let change = datagram.size.0 as i64 - bare.0 as i64;
            let (index, expected) = match &datagram.content {
                Content::Rtp(packet) if packet.kind == Kind::Audio => {
                    assert_eq!(datagram.size, Bytes(sound), "{server:?}");
                    (0, sound as i64 - 146)
                }
                Content::Rtp(_) => (1, video),
                Content::Rtcp(_) => (2, rtcp),
                _ => (3, 0),
            };
            seen[index] += 1;
            assert_eq!(change, expected, "{server:?}: {:?}", datagram.content);
        }
        assert!(seen.iter().all(|count| *count > 0), "{server:?}: {seen:?}");
    }
}
