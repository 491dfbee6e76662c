//! Numbers and messages that no far end of ours would send.

use super::*;
use crate::packet::{
    Allocation, DtlsFlight, Ecn, Rtcp, RtpPayload, SignalKind, Signalling, Stun, StunForm,
    VideoPart,
};
use crate::rtp::RtpHeader;
use crate::rtp::rtcp::{NtpTime, ReceiverReport, Remb, ReportBlock};

/// Something arrives at alice.
fn arrive(pair: &mut Pair, at: Time, content: Content) {
    pair.run(at);
    let from = addresses(ALICE).remote;
    pair.alice.handle_datagram(at, from, &Datagram::new(Ecn::NotCapable, content));
    pair.drain(at, ALICE);
}

fn rtcp(packet: RtcpPacket) -> Content {
    Content::Rtcp(Rtcp::new([packet]).expect("a packet that fits"))
}

/// What alice has sent that is like this.
fn count(pair: &Pair, is_like: impl Fn(&Content) -> bool) -> usize {
    pair.sent_by(ALICE).filter(|sent| is_like(&sent.datagram.content)).count()
}

#[test]
fn a_flight_that_dtls_does_not_have_is_ignored() {
    let mut pair = Pair::call("chrome-27", 500, Repair::Rtx);
    // Alice waits for the flight 0 of the client, bob.
    pair.lose(BOB, |sent| matches!(sent.datagram.content, Content::Dtls(_)));
    for number in [4, 255] {
        arrive(&mut pair, DELAY * 5, Content::Dtls(DtlsFlight(number)));
    }
    assert_eq!(count(&pair, |content| matches!(content, Content::Dtls(_))), 0);
    assert_eq!(pair.first(ALICE, &EndpointEvent::DtlsConnected), None);
}

/// A description of 255 segments, whose last one has number 254.
#[test]
fn the_number_of_a_segment_of_a_description_may_be_any() {
    let mut pair = Pair::call("chrome-27", 500, Repair::Rtx);
    pair.run(DELAY * 3);
    for (index, count) in [(255, 0), (255, 255), (0, 255)] {
        let from = addresses(BOB).remote;
        let segment = Content::Signalling(Signalling { index, count, bytes: 1 });
        pair.bob.handle_datagram(pair.now, from, &Datagram::new(Ecn::NotCapable, segment));
    }
    let segments = |pair: &Pair| {
        let of_bob = pair.sent_by(BOB).map(|sent| &sent.datagram.content);
        of_bob.filter(|content| matches!(content, Content::Signalling(_))).count()
    };
    pair.drain(DELAY * 3, BOB);
    assert_eq!(segments(&pair), 3);
}

/// An allocation has three exchanges.
#[test]
fn answers_of_a_relay_that_nobody_asked_for_are_ignored() {
    for negotiation in [Negotiation::Bursts, page()] {
        let [mut config, _] = configs("chrome-156", [vec![], vec![]]);
        config.session = Session { offerer: true, negotiation, ..config.session };
        config.addresses.relay = Some(NodeId(2));
        let mut peer = Peer::new(config, fixed(500));
        peer.handle_timeout(Time::ZERO);
        for step in (0..=255).cycle().take(1_000) {
            let answer = Content::Allocation(Allocation { step });
            let datagram = Datagram::new(Ecn::NotCapable, answer);
            peer.handle_datagram(Time::ZERO, ANYWHERE, &datagram);
        }
        let mut sent = Vec::new();
        while let Some(transmit) = peer.poll_transmit(Time::ZERO) {
            sent.push(transmit.datagram.content);
        }
        assert!(!sent.iter().any(|content| matches!(content, Content::Stun(_))), "{negotiation:?}");
    }
}

fn page() -> Negotiation {
    Negotiation::Page { seed: 1, pace: 1, browser: true, described: Described::Video, server: None }
}

/// The far end gives up a check when 64 later ones have followed it.
#[test]
fn as_many_checks_are_answered_after_the_work_as_the_far_end_waits_for() {
    let [mut config, _] = configs("chrome-156", [vec![], vec![]]);
    config.session = Session { negotiation: page(), ..config.session };
    let mut peer = Peer::new(config, fixed(500));
    peer.handle_timeout(Time::ZERO);
    let signal = |kind| Signal { from: 1, to: 0, kind };
    peer.handle_signal(Time::ZERO, signal(SignalKind::Offer(Described::Video)));
    // The answer has been sent, so that checks are understood.
    let mut now = Time::ZERO;
    let is_answer = |event: &EndpointEvent| {
        matches!(event, EndpointEvent::Signal(Signal { kind: SignalKind::Answer(_), .. }))
    };
    while !std::iter::from_fn(|| peer.poll_event()).any(|event| is_answer(&event)) {
        now = peer.poll_timeout().expect("work");
        peer.handle_timeout(now);
    }
    for check in 0..1_000 {
        let stun = Content::Stun(Stun { success: false, check, form: StunForm::Full });
        peer.handle_datagram(now, ANYWHERE, &Datagram::new(Ecn::NotCapable, stun));
        peer.handle_signal(now, signal(SignalKind::Candidate));
    }
    let mut answers = 0;
    while let Some(at) = peer.poll_timeout().filter(|at| *at < now + Time::from_secs(1)) {
        peer.handle_timeout(at);
        while let Some(transmit) = peer.poll_transmit(at) {
            let content = transmit.datagram.content;
            answers += usize::from(matches!(content, Content::Stun(Stun { success: true, .. })));
        }
    }
    assert_eq!(answers, 64);
}

#[test]
fn feedback_before_anything_was_sent_changes_nothing() {
    let mut pair = Pair::call("chrome-27", 500, Repair::Rtx);
    let block = ReportBlock { ssrc: ALICE_VIDEO, highest_seq: 9, ..ReportBlock::default() };
    let blocks = vec![block];
    let report = RtcpPacket::ReceiverReport(ReceiverReport { ssrc: 101, blocks });
    let rate = Bitrate::from_kbps(100);
    let remb = RtcpPacket::Remb(Remb { sender_ssrc: 101, bitrate: rate, ssrcs: vec![] });
    for packet in [report.clone(), report, remb] {
        arrive(&mut pair, DELAY, rtcp(packet));
    }
    pair.run(Time::from_secs(1));
    assert!(pair.first(ALICE, &EndpointEvent::DtlsConnected).is_some());
    assert!(!pair.rtp_by(ALICE, Kind::Video).is_empty());
}

/// Numbers that jump by 30,000 from packet to packet, and a round trip of nine hours. The sender sends 30 pictures a second.
#[test]
fn a_peer_goes_on_sending_whatever_jumps() {
    let mut pair = Pair::call("chrome-156", 500, Repair::Rtx);
    pair.run(Time::from_secs(1));
    for number in 0..100_u16 {
        let header = RtpHeader {
            ssrc: BOB_VIDEO,
            seq: number.wrapping_mul(30_000),
            timestamp: u32::from(number).wrapping_mul(2_000_000_000),
            marker: true,
            ..RtpHeader::default()
        };
        let part = VideoPart {
            first: true,
            key: true,
            picture_id: number,
            resolution: (640, 480),
            bytes: 1,
        };
        let packet = Rtp { header, payload: RtpPayload::Video(part), kind: Kind::Video };
        let at = pair.now + Time::from_millis(10);
        arrive(&mut pair, at, Content::Rtp(packet));
        let middle = NtpTime::from_time(at).middle();
        let block = ReportBlock {
            ssrc: ALICE_VIDEO,
            highest_seq: u32::from(number) * 65_537,
            last_sender_report: middle.wrapping_sub(u32::MAX / 2),
            ..ReportBlock::default()
        };
        let report = ReceiverReport { ssrc: 101, blocks: vec![block] };
        arrive(&mut pair, at, rtcp(RtcpPacket::ReceiverReport(report)));
    }
    let sent = pair.rtp_by(ALICE, Kind::Video).len();
    pair.run(pair.now + Time::from_secs(10));
    assert!(pair.rtp_by(ALICE, Kind::Video).len() > sent + 10 * 20);
}
