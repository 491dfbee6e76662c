//! Lost video: who requests what, how often, and what is retransmitted.

use super::*;
use crate::packet::RtpPayload;

/// Media starts at 120 ms; by this time the receiver has measured everything it uses.
const STEADY: Time = Time::from_secs(3);
const END: Time = Time::from_secs(8);

/// A call in which one packet of alice's video is lost: the first after `STEADY` that does not end a picture.
/// Also returns the packet, and when it was sent.
fn call_with_one_loss(repair: Repair) -> (Pair, Rtp, Time) {
    let mut pair = Pair::call("chrome-27", 500, repair);
    let lost: Arc<Mutex<Option<(Rtp, Time)>>> = Arc::default();
    let note = Arc::clone(&lost);
    pair.lose(ALICE, move |sent| {
        let mut lost = note.lock().expect("no poison");
        let packet = sent.rtp().filter(|p| p.kind == Kind::Video && !p.header.marker);
        let is_one = lost.is_none() && sent.at >= STEADY && packet.is_some();
        if is_one {
            *lost = packet.cloned().map(|packet| (packet, sent.at));
        }
        is_one
    });
    pair.run(END);
    let (packet, at) = lost.lock().expect("no poison").take().expect("a loss");
    (pair, packet, at)
}

/// Sequence numbers that bob requested, and when.
fn asked(pair: &Pair) -> Vec<(Time, Vec<u16>)> {
    let nacks = pair.sent_by(BOB).flat_map(|sent| sent.rtcp().iter().map(move |p| (sent.at, p)));
    let lost = nacks.filter_map(|(at, packet)| match packet {
        RtcpPacket::Nack(nack) => Some((at, nack.lost.clone())),
        _ => None,
    });
    lost.collect()
}

/// Without a pacer all packets of a picture leave at once: the next packet arrives one delay later, and the
/// request one delay after that.
#[test]
fn a_lost_packet_is_requested_once_and_retransmitted_on_the_repair_stream_two_delays_later() {
    let (pair, lost, at) = call_with_one_loss(Repair::Rtx);
    assert_eq!(asked(&pair), [(at + DELAY, vec![lost.header.seq])]);
    let again = pair.rtp_by(ALICE, Kind::Rtx);
    assert_eq!(again.len(), 1);
    let (when, packet) = again[0];
    assert_eq!((when, packet.header.ssrc), (at + DELAY * 2, ALICE_VIDEO + 1));
    assert_eq!((packet.header.timestamp, packet.header.seq), (lost.header.timestamp, 1));
    let RtpPayload::Video(part) = lost.payload else { panic!("no video") };
    assert_eq!(packet.payload, RtpPayload::Rtx { original_seq: lost.header.seq, part });
}

/// The first request arrives one round trip after the packet left, but the sender answers none for a round
/// trip plus 5 ms. The next one is due one and a half round trips plus 5 ms later and leaves with the next of
/// the checks every 20 ms, which is 80 ms later.
#[test]
fn in_2013_a_lost_packet_is_retransmitted_unchanged_at_the_second_request() {
    let (pair, lost, at) = call_with_one_loss(Repair::Nack2013);
    let second = at + DELAY + Time::from_millis(80);
    let seq = lost.header.seq;
    assert_eq!(asked(&pair), [(at + DELAY, vec![seq]), (second, vec![seq])]);
    let again = pair.rtp_by(ALICE, Kind::Rtx);
    assert_eq!(again.len(), 1);
    let (when, packet) = again[0];
    assert_eq!(when, second + DELAY);
    let identity = |p: &Rtp| (p.header.ssrc, p.header.seq, p.header.timestamp, p.payload.clone());
    assert_eq!(identity(packet), identity(&lost));
}

#[test]
fn no_picture_is_missing_after_repair_and_those_behind_a_loss_wait_for_the_repair() {
    for (repair, delays) in [(Repair::Rtx, 3), (Repair::Nack2013, 7)] {
        let (pair, _, at) = call_with_one_loss(repair);
        let shown: Vec<(i64, Time)> = pair
            .events
            .iter()
            .filter_map(|(_, index, event)| match event {
                EndpointEvent::FrameRendered { frame, .. } if *index == BOB => {
                    Some((frame.timestamp, frame.rendered))
                }
                _ => None,
            })
            .collect();
        // A thirtieth of a second is 3000 ticks, apart from rounding to nanoseconds.
        for pair in shown.windows(2) {
            assert!((2_999..=3_001).contains(&(pair[1].0 - pair[0].0)), "{pair:?}");
        }
        // From 120 ms to 8 s there are 237 pictures. The last ones are in transit or not shown yet, because
        // the buffer has grown by the delay of the late picture.
        assert!((231..=237).contains(&shown.len()), "{}", shown.len());
        // The lost packet arrives after this many delays; nothing is shown between the previous picture and
        // that.
        let whole = at + DELAY * delays;
        let waited = shown.iter().filter(|(_, t)| *t > at + DELAY && *t < whole).count();
        // The previous picture left 33 ms earlier and was shown 23 ms before the loss was noticed.
        assert_eq!(waited, 0);
        let soon = whole + Time::from_millis(34);
        assert!(shown.iter().any(|(_, t)| *t >= whole && *t <= soon));
    }
}

#[test]
fn without_repair_a_lost_packet_is_never_requested_but_a_key_frame_is_after_three_seconds() {
    let (pair, _, at) = call_with_one_loss(Repair::None);
    assert_eq!(asked(&pair), []);
    assert_eq!(pair.rtp_by(ALICE, Kind::Rtx).len(), 0);
    let request = pair
        .sent_by(BOB)
        .find(|sent| sent.rtcp().iter().any(|p| matches!(p, RtcpPacket::PictureLossIndication(_))));
    // The picture before the loss was shown 33 ms minus 30 ms before it: at + 7 to + 30 ms.
    let after = request.expect("a request").at - at;
    assert!((Time::from_millis(2_990)..Time::from_millis(3_031)).contains(&after), "{after}");
}

/// A request and its answer take 40 ms, less than the round trip after which bob requests again.
#[test]
fn a_lost_request_is_repeated_at_the_first_check_after_a_round_trip() {
    let mut pair = Pair::call("chrome-27", 500, Repair::Rtx);
    let (mut lost, mut lost_request) = (false, false);
    pair.fate = Box::new(move |sent| {
        let is_loss = !lost && sent.by == ALICE && sent.at >= STEADY && sent.is_kind(Kind::Video);
        lost |= is_loss;
        let is_request = !lost_request && sent.by == BOB && sent.is_nack();
        lost_request |= is_request;
        if is_loss || is_request { vec![] } else { vec![DELAY] }
    });
    pair.run(END);
    let asked = asked(&pair);
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0].1, asked[1].1);
    // The measured round trip is 40 ms to within a tick of 1/65536 s; the list is checked every 20 ms
    // or when something arrives.
    let after = (asked[1].0 - asked[0].0).as_millis();
    assert!((39..=60).contains(&after), "{after} ms");
    assert_eq!(pair.rtp_by(ALICE, Kind::Rtx).len(), 1);
}

#[test]
fn a_request_that_arrives_twice_is_answered_once() {
    for (repair, requests) in [(Repair::Rtx, 1), (Repair::Nack2013, 2)] {
        let mut pair = Pair::call("chrome-27", 500, repair);
        let mut lost = false;
        pair.fate = Box::new(move |sent| {
            let is_loss =
                !lost && sent.by == ALICE && sent.at >= STEADY && sent.is_kind(Kind::Video);
            lost |= is_loss;
            match is_loss {
                true => vec![],
                false if sent.is_nack() => vec![DELAY, DELAY + Time::from_millis(3)],
                false => vec![DELAY],
            }
        });
        pair.run(END);
        assert_eq!(pair.rtp_by(ALICE, Kind::Rtx).len(), 1, "{repair:?}");
        // In 2013 the first request is too early to be answered.
        assert_eq!(asked(&pair).len(), requests as usize, "{repair:?}");
        let outbound = &pair.statistics(ALICE).outbound[0];
        let counts = (outbound.nack_count, outbound.retransmitted_packets_sent);
        assert_eq!(counts, (Some(2 * requests), 1), "{repair:?}");
    }
}

/// One packet arrives 1 ms late, behind its successors; the gap is requested as soon as it is seen.
#[test]
fn an_overtaken_packet_is_requested_and_counts_as_received() {
    let mut pair = Pair::call("chrome-27", 500, Repair::Nack2013);
    let mut late = false;
    pair.fate = Box::new(move |sent| {
        let is_one = !late && sent.by == ALICE && sent.at >= STEADY && sent.is_kind(Kind::Video);
        late |= is_one;
        vec![if is_one { DELAY + Time::from_millis(1) } else { DELAY }]
    });
    pair.run(END);
    let inbound = &pair.statistics(BOB).inbound[0];
    assert_eq!(inbound.packets_lost, 0);
    assert_eq!(asked(&pair).len(), 1);
}

/// A call with round trips of 100 ms. A tenth of the packets is lost until `STEADY`, so that pictures have
/// FEC from then on; the packet `lost` is lost as well.
fn call_with_fec(lost: Option<u16>) -> Pair {
    let mut pair = Pair::call("chrome-27", 500, Repair::Hybrid2013);
    let delay = Time::from_millis(50);
    pair.fate = Box::new(move |sent| {
        let packet = sent.rtp().filter(|_| sent.by == ALICE);
        let is_lost = packet.is_some_and(|packet| {
            let first = packet.kind == Kind::Video || packet.kind == Kind::Fec;
            let early = sent.at < STEADY && packet.header.seq % 10 == 0;
            first && (early || Some(packet.header.seq) == lost)
        });
        if is_lost { vec![] } else { vec![delay] }
    });
    pair.run(END);
    pair
}

/// The lost packet is the last of a picture, with its FEC right behind it, so no gap shows before the FEC
/// arrives.
#[test]
fn fec_repairs_a_lost_packet_without_a_request() {
    let without = call_with_fec(None);
    let sent: Vec<&Rtp> = without
        .sent_by(ALICE)
        .filter(|sent| sent.at > STEADY + Time::from_secs(1))
        .filter_map(Sent::rtp)
        .collect();
    let seq = sent.windows(2).find_map(|pair| match &pair[1].payload {
        RtpPayload::Fec(block) => {
            let seq = pair[0].header.seq;
            block.packets().iter().any(|p| p.header.seq == seq).then_some(seq)
        }
        _ => None,
    });
    let seq = seq.expect("FEC right after a packet that it protects");
    let with = call_with_fec(Some(seq));
    let late = |pair: &Pair| -> Vec<(Time, Vec<u16>)> {
        let after = STEADY + Time::from_secs(1);
        asked(pair).into_iter().filter(|(at, _)| *at > after).collect()
    };
    assert_eq!((late(&without), late(&with)), (vec![], vec![]));
    let repaired = |pair: &Pair| pair.statistics(BOB).inbound[0].packets_repaired.expect("counted");
    assert_eq!(repaired(&with), repaired(&without) + 1);
    assert_eq!(with.shown(BOB, ALICE_VIDEO), without.shown(BOB, ALICE_VIDEO));
    let lost = |pair: &Pair| pair.statistics(BOB).inbound[0].packets_lost;
    assert_eq!(lost(&with), lost(&without) + 1);
}

/// The request takes one delay; the next picture is captured within a thirtieth of a second.
#[test]
fn a_request_for_a_key_frame_is_answered_with_the_next_picture() {
    let mut pair = Pair::call("chrome-27", 500, Repair::Rtx);
    pair.run(STEADY);
    pair.bob.request_key_frame(STEADY);
    pair.drain(STEADY, BOB);
    pair.run(END);
    let keys: Vec<Time> = pair
        .rtp_by(ALICE, Kind::Video)
        .iter()
        .filter(|(_, p)| matches!(p.payload, RtpPayload::Video(part) if part.key))
        .map(|(at, _)| *at)
        .collect();
    assert_eq!(keys.len(), 2);
    assert_eq!(keys[0], DELAY * 6);
    let after = keys[1] - (STEADY + DELAY);
    assert!(after < Time::from_micros(33_334), "{after}");
    let [sent, asked] = [ALICE, BOB].map(|by| pair.statistics(by).clone());
    let (sent, asked) = (&sent.outbound[0], &asked.inbound[0]);
    assert_eq!(
        (sent.pli_count, sent.key_frames_encoded, asked.pli_count),
        (Some(1), Some(2), Some(1))
    );
}
