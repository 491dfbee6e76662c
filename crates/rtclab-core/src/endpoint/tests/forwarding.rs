//! An end that forwards what another end at its node receives.

use super::*;
use crate::packet::{Ecn, Rtcp, RtpPayload, VideoPart, payload_type};
use crate::rtp::rtcp::{FullIntraRequest, Nack, PictureLossIndication, SenderReport};
use crate::rtp::{AbsSendTime, Extensions, RtpHeader};

/// Both ends are connected by then, and media is forwarded.
const CONNECTED: Time = Time::from_millis(500);
/// Bytes of encoded media in each packet.
const BYTES: u16 = 500;
/// SSRC of carol's audio.
const ALICE_AUDIO: u32 = 1_003;
/// Payload of each packet, which includes a descriptor of 4 bytes.
const PAYLOAD: u32 = 504;

/// A server in alice's place, for streams that carol sends, and bob, who watches them. Without `forwarding` it is a
/// translator.
fn unconnected(
    forwarding: Option<ForwardingMode>,
    repair: Repair,
    session: Session,
) -> Pair<ForwardingEnd, Peer> {
    let streams = vec![video(ALICE_VIDEO, repair), audio(ALICE_AUDIO)];
    let [a, b] = configs("chrome-156", [streams, vec![]]);
    let server = match forwarding {
        None => ForwardingEnd::Translator(Box::new(Translator::new(addresses(ALICE), session))),
        Some(_) => {
            ForwardingEnd::peer(PeerConfig { forwards: forwarding, session, ..a }, fixed(500))
        }
    };
    Pair::of(server, Peer::new(b, fixed(500)))
}

/// The same, connected.
fn pair(
    forwarding: impl Into<Option<ForwardingMode>>,
    repair: Repair,
) -> Pair<ForwardingEnd, Peer> {
    let mut pair = unconnected(forwarding.into(), repair, session(ALICE));
    pair.run(CONNECTED);
    pair
}

impl Pair<ForwardingEnd, Peer> {
    /// A datagram from carol arrives at the forwarder's node.
    fn forward(&mut self, at: Time, datagram: &Datagram) {
        self.run(at);
        self.alice.forward(at, Past::new(at), datagram);
        self.drain(at, ALICE);
    }

    /// Sender reports of the forwarder, and when they left.
    fn sender_reports(&self) -> Vec<(Time, SenderReport)> {
        let packets = self.sent_by(ALICE).flat_map(|sent| sent.rtcp().iter().map(|p| (sent.at, p)));
        let reports = packets.filter_map(|(at, packet)| match packet {
            RtcpPacket::SenderReport(report) => Some((at, report.clone())),
            _ => None,
        });
        reports.collect()
    }

    /// RTCP arrives at the forwarder, as if bob had sent it.
    fn rtcp(&mut self, at: Time, packet: RtcpPacket) {
        self.run(at);
        self.alice.handle_datagram(at, ANYWHERE, &rtcp([packet]));
        self.drain(at, ALICE);
    }
}

fn rtcp<const N: usize>(packets: [RtcpPacket; N]) -> Datagram {
    let rtcp = Rtcp::new(packets).expect("packets that fit");
    Datagram::new(Ecn::NotCapable, Content::Rtcp(rtcp))
}

fn datagram(packet: Rtp) -> Datagram {
    Datagram::new(Ecn::NotCapable, Content::Rtp(packet))
}

fn header(payload_type: u8, ssrc: u32, seq: u16) -> RtpHeader {
    let timestamp = u32::from(seq) * 3_000;
    let extensions = Extensions { transport_sequence: Some(9_000 + seq), ..Extensions::default() };
    RtpHeader {
        marker: true,
        payload_type,
        seq,
        timestamp,
        ssrc,
        extensions,
        ..RtpHeader::default()
    }
}

fn part(seq: u16) -> VideoPart {
    let resolution = if seq == 10 { (640, 480) } else { (0, 0) };
    VideoPart { first: true, key: seq == 10, picture_id: seq, resolution, bytes: BYTES }
}

/// One of carol's pictures, in one packet; number 10 is a key frame.
fn picture(seq: u16) -> Rtp {
    let header = header(payload_type::VIDEO, ALICE_VIDEO, seq);
    Rtp { header, payload: RtpPayload::Video(part(seq)), kind: Kind::Video }
}

/// A retransmission of that picture on carol's repair stream.
fn repaired(seq: u16) -> Rtp {
    let header = RtpHeader {
        timestamp: u32::from(seq) * 3_000,
        ..header(payload_type::RTX, ALICE_VIDEO + 1, 1)
    };
    let payload = RtpPayload::Rtx { original_seq: seq, part: part(seq) };
    Rtp { header, payload, kind: Kind::Rtx }
}

/// A packet as the forwarder sends it, with this transport-wide sequence number.
fn numbered(mut packet: Rtp, transport_seq: u16) -> Rtp {
    packet.header.extensions.transport_sequence = Some(transport_seq);
    packet
}

/// RTP that the forwarder has sent.
fn forwarded(pair: &Pair<ForwardingEnd, Peer>) -> Vec<Rtp> {
    pair.sent_by(ALICE).filter_map(|sent| sent.rtp().cloned()).collect()
}

fn nack(seq: u16) -> RtcpPacket {
    RtcpPacket::Nack(Nack { sender_ssrc: 101, media_ssrc: ALICE_VIDEO, lost: vec![seq] })
}

#[test]
fn media_is_forwarded_with_the_forwarders_own_transport_wide_sequence_numbers() {
    let mut pair = pair(ForwardingMode::AtOnce, Repair::Rtx);
    for seq in [10, 11, 12] {
        pair.forward(CONNECTED, &datagram(picture(seq)));
    }
    let expected: Vec<Rtp> = (0..3).map(|n| numbered(picture(10 + n), n)).collect();
    assert_eq!(forwarded(&pair), expected);
}

#[test]
fn a_forwarded_packet_keeps_when_it_was_first_sent_and_how_long_it_was_queued() {
    let mut pair = pair(ForwardingMode::AtOnce, Repair::Rtx);
    let past = Past { queued: Time::from_millis(3), ..Past::new(Time::from_millis(470)) };
    pair.alice.forward(CONNECTED, past, &datagram(picture(10)));
    let transmit = pair.alice.poll_transmit(CONNECTED).expect("a packet");
    assert_eq!((transmit.past, transmit.to), (past, addresses(ALICE).remote));
    assert_eq!(pair.alice.poll_transmit(CONNECTED), None);
}

#[test]
fn nothing_is_forwarded_before_the_connection_is_established_or_after_its_end() {
    for forwarding in [Some(ForwardingMode::AtOnce), Some(ForwardingMode::Controlled), None] {
        let end = Time::from_secs(1);
        let session = Session { end, ..session(ALICE) };
        let mut pair = unconnected(forwarding, Repair::Rtx, session);
        // Connected after six delays.
        pair.forward(DELAY * 6 - Time(1), &datagram(picture(10)));
        assert_eq!(forwarded(&pair).len(), 0);
        pair.forward(DELAY * 6, &datagram(picture(11)));
        pair.forward(end - Time(1), &datagram(picture(12)));
        assert_eq!(forwarded(&pair).len(), 2);
        pair.forward(end, &datagram(picture(13)));
        assert_eq!(forwarded(&pair).len(), 2);
        assert_eq!(pair.alice.poll_timeout(), None);
    }
}

#[test]
fn a_packet_lost_after_the_forwarder_is_retransmitted_by_the_forwarder() {
    let mut pair = pair(ForwardingMode::AtOnce, Repair::Rtx);
    pair.lose(ALICE, |sent| {
        sent.rtp().is_some_and(|p| p.header.seq == 11 && p.kind == Kind::Video)
    });
    let frame = Time::from_millis(33);
    for n in 0..5 {
        pair.forward(CONNECTED + frame * u64::from(n), &datagram(picture(10 + n)));
    }
    pair.run(CONNECTED + Time::from_secs(1));
    let again = pair.rtp_by(ALICE, Kind::Rtx);
    assert_eq!(again.len(), 1);
    // Number 12 shows the gap one delay after it left; the request takes another delay.
    let (at, packet) = again[0];
    assert_eq!(at, CONNECTED + frame * 2 + DELAY * 2);
    let payload = RtpPayload::Rtx { original_seq: 11, part: part(11) };
    assert_eq!((packet.header.ssrc, packet.header.seq), (ALICE_VIDEO + 1, 1));
    assert_eq!((packet.header.timestamp, packet.header.payload_type), (33_000, payload_type::RTX));
    assert_eq!(packet.payload, payload);
    assert_eq!(pair.shown(BOB, ALICE_VIDEO), 5);
}

/// As Janus does.
#[test]
fn a_server_that_forwards_at_once_repeats_a_packet_at_most_every_200_ms() {
    let mut pair = pair(ForwardingMode::AtOnce, Repair::Rtx);
    pair.forward(CONNECTED, &datagram(picture(11)));
    let after = |ms| CONNECTED + Time::from_millis(ms);
    let requests = [5, 105, 204, 205, 305, 405];
    requests.into_iter().for_each(|ms| pair.rtcp(after(ms), nack(11)));
    let again: Vec<Time> = pair.rtp_by(ALICE, Kind::Rtx).iter().map(|(at, _)| *at).collect();
    assert_eq!(again, [after(5), after(205), after(405)]);
}

/// As rtclab's SFU does: of the same size as the media, ten packets are answered for ten that came in this second.
#[test]
fn a_server_with_a_congestion_control_sends_no_more_again_than_media() {
    let mut pair = pair(ForwardingMode::Controlled, Repair::Rtx);
    (0..10).for_each(|seq| pair.forward(CONNECTED, &datagram(picture(10 + seq))));
    for ms in 1..=500 {
        pair.rtcp(CONNECTED + Time::from_millis(ms), nack(10));
    }
    pair.run(CONNECTED + Time::from_secs(2));
    // Each has the original's sequence number before the payload, so ten are more than the media.
    assert_eq!(pair.rtp_by(ALICE, Kind::Rtx).len(), 10);
}

/// Old packets are dropped when the next packet arrives.
#[test]
fn a_packet_is_kept_for_a_second() {
    for (later, kept) in [(Time::from_secs(1), 1), (Time::from_secs(1) + Time(1), 0)] {
        let mut pair = pair(ForwardingMode::AtOnce, Repair::Rtx);
        pair.forward(CONNECTED, &datagram(picture(10)));
        pair.forward(CONNECTED + later, &datagram(picture(11)));
        pair.rtcp(CONNECTED + later, nack(10));
        assert_eq!(pair.rtp_by(ALICE, Kind::Rtx).len(), kept, "after {later}");
    }
}

#[test]
fn a_packet_that_was_never_forwarded_is_not_retransmitted() {
    let mut pair = pair(ForwardingMode::AtOnce, Repair::Rtx);
    pair.rtcp(CONNECTED, nack(10));
    pair.forward(CONNECTED, &datagram(picture(11)));
    pair.forward(CONNECTED, &datagram(picture(13)));
    for seq in [10, 12, 14] {
        pair.rtcp(CONNECTED + DELAY, nack(seq));
    }
    assert_eq!(forwarded(&pair).len(), 2);
}

#[test]
fn in_2013_a_retransmission_by_the_forwarder_keeps_the_original_sequence_number() {
    let mut pair = pair(ForwardingMode::AtOnce, Repair::Nack2013);
    pair.forward(CONNECTED, &datagram(picture(10)));
    // A round trip of two delays, and five milliseconds.
    pair.rtcp(CONNECTED + Time::from_millis(45) - Time(1), nack(10));
    assert_eq!(pair.rtp_by(ALICE, Kind::Rtx).len(), 0);
    pair.rtcp(CONNECTED + Time::from_millis(45), nack(10));
    let expected = Rtp { kind: Kind::Rtx, ..numbered(picture(10), 1) };
    assert_eq!(forwarded(&pair)[1..], [expected]);
}

/// A report on video is due 0.5 to 1.5 s after the last one, whatever the rate. It tells the time that carol's clock of
/// 90 kHz has then.
#[test]
fn sender_reports_count_packets_and_payload_but_no_headers() {
    let mut pair = pair(ForwardingMode::AtOnce, Repair::Rtx);
    for seq in [10, 11, 12] {
        pair.forward(CONNECTED, &datagram(picture(seq)));
    }
    // A retransmission does not count as a packet of the stream.
    pair.rtcp(CONNECTED, nack(10));
    pair.run(CONNECTED + Time::from_secs(60));
    let reports = pair.sender_reports();
    assert!((40..=120).contains(&reports.len()), "{}", reports.len());
    for (at, report) in &reports {
        assert_eq!(report.ssrc, ALICE_VIDEO);
        assert_eq!((report.packet_count, report.octet_count), (3, 3 * PAYLOAD));
        let elapsed = (*at - CONNECTED).0 * 90_000 / 1_000_000_000;
        assert_eq!(report.rtp_timestamp, 36_000 + elapsed as u32);
    }
    let gaps = reports.windows(2).map(|pair| pair[1].0 - pair[0].0);
    let (shortest, longest) = (Time::from_millis(500), Time::from_millis(1_500));
    assert!(gaps.clone().all(|gap| (shortest..=longest).contains(&gap)));
    assert_eq!(pair.rtp_by(ALICE, Kind::Rtx).len(), 1);
}

#[test]
fn audio_that_is_forwarded_has_sender_reports_of_its_own() {
    let mut pair = pair(ForwardingMode::AtOnce, Repair::Rtx);
    for seq in [10, 11] {
        let header = header(payload_type::AUDIO, ALICE_AUDIO, seq);
        let sound = Rtp {
            header,
            payload: RtpPayload::Audio { bytes: 80, has_fec: false },
            kind: Kind::Audio,
        };
        pair.forward(CONNECTED, &datagram(sound));
    }
    pair.run(Time::from_secs(4));
    let [(at, report)] = &pair.sender_reports()[..] else { panic!("one report") };
    assert_eq!((report.ssrc, report.packet_count, report.octet_count), (ALICE_AUDIO, 2, 2 * 80));
    let elapsed = (*at - CONNECTED).0 * 48_000 / 1_000_000_000;
    assert_eq!(report.rtp_timestamp, 33_000 + elapsed as u32);
}

#[test]
fn a_packet_repaired_before_the_forwarder_is_forwarded_as_the_original() {
    let mut pair = pair(ForwardingMode::AtOnce, Repair::Rtx);
    pair.forward(CONNECTED, &datagram(picture(10)));
    pair.forward(CONNECTED, &datagram(picture(12)));
    pair.forward(CONNECTED, &datagram(repaired(11)));
    // A second copy, and a copy of a packet that was never missing, add nothing.
    pair.forward(CONNECTED, &datagram(repaired(11)));
    pair.forward(CONNECTED, &datagram(repaired(12)));
    let mut original = picture(11);
    // It has its own transport-wide sequence number and send time.
    original.header.extensions = Extensions::default();
    let expected = [numbered(picture(10), 0), numbered(picture(12), 1), numbered(original, 2)];
    assert_eq!(forwarded(&pair), expected);
}

#[test]
fn padding_is_not_forwarded_and_takes_no_sequence_number() {
    let mut pair = pair(ForwardingMode::AtOnce, Repair::Rtx);
    let header = RtpHeader { padding: true, ..header(payload_type::RTX, ALICE_VIDEO + 1, 1) };
    let padding = Rtp { header, payload: RtpPayload::Padding(224), kind: Kind::Padding };
    pair.forward(CONNECTED, &datagram(padding));
    pair.forward(CONNECTED, &datagram(picture(10)));
    assert_eq!(forwarded(&pair), [numbered(picture(10), 0)]);
}

#[test]
fn audio_is_forwarded_too_and_a_stream_that_nobody_has_described_is_not() {
    let mut pair = pair(ForwardingMode::AtOnce, Repair::Rtx);
    let sound = |ssrc| Rtp {
        header: header(payload_type::AUDIO, ssrc, 10),
        payload: RtpPayload::Audio { bytes: 80, has_fec: false },
        kind: Kind::Audio,
    };
    for ssrc in [ALICE_AUDIO + 1, ALICE_AUDIO] {
        pair.forward(CONNECTED, &datagram(sound(ssrc)));
    }
    assert_eq!(forwarded(&pair), [numbered(sound(ALICE_AUDIO), 0)]);
}

#[test]
fn a_forwarder_requests_a_key_frame_when_its_receiver_connects_or_requests_one() {
    let mut pair = pair(ForwardingMode::AtOnce, Repair::Rtx);
    let pli = PictureLossIndication { sender_ssrc: 101, media_ssrc: ALICE_VIDEO };
    let fir = FullIntraRequest { sender_ssrc: 101, commands: vec![(ALICE_VIDEO, 1)] };
    let [second, third] = [1, 2].map(|n| CONNECTED + Time::from_millis(n));
    pair.rtcp(second, RtcpPacket::PictureLossIndication(pli));
    pair.rtcp(third, RtcpPacket::FullIntraRequest(fir));
    let asked = pair
        .events
        .iter()
        .filter(|(_, index, event)| *index == ALICE && *event == EndpointEvent::KeyFrameRequested);
    assert_eq!(asked.map(|(at, ..)| *at).collect::<Vec<_>>(), [DELAY * 6, second, third]);
}

/// An estimator behind a forwarder must measure the forwarder's leg alone; see `OutboundStream::stamp`.
#[test]
fn a_forwarder_stamps_its_own_send_time_and_sends_no_codepoint_that_it_would_not_react_to() {
    let of_carol = AbsSendTime::from_time(Time::from_millis(100));
    let stamped = |mut packet: Rtp| {
        packet.header.extensions.abs_send_time = Some(of_carol);
        Datagram::new(Ecn::Ect1, Content::Rtp(packet))
    };
    let sent = |forwarding: Option<ForwardingMode>| {
        let mut pair = pair(forwarding, Repair::Rtx);
        pair.forward(CONNECTED, &stamped(picture(10)));
        pair.rtcp(CONNECTED + Time::from_millis(5), nack(10));
        pair.forward(CONNECTED + Time::from_millis(9), &datagram(picture(11)));
        let packets = pair.sent_by(ALICE).filter_map(|sent| {
            Some((sent.datagram.ecn, sent.rtp()?.header.extensions.abs_send_time))
        });
        packets.collect::<Vec<_>>()
    };
    // The original and its retransmission, and a packet that carol did not stamp.
    let at = |ms| Some(AbsSendTime::from_time(CONNECTED + Time::from_millis(ms)));
    let expected = [(Ecn::NotCapable, at(0)), (Ecn::NotCapable, at(5)), (Ecn::NotCapable, None)];
    assert_eq!(sent(Some(ForwardingMode::AtOnce)), expected);
    // A translator that changes nothing keeps both (RFC 6679, section 8.1).
    assert_eq!(sent(None), [(Ecn::Ect1, Some(of_carol)), (Ecn::NotCapable, None)]);
}

/// The server of 2013 is an address translator: it neither answers requests nor sends reports of its own.
#[test]
fn a_translator_passes_everything_on_unchanged() {
    let mut pair = pair(None, Repair::Nack2013);
    let before = pair.sent_by(ALICE).count();
    let header = RtpHeader { padding: true, ..header(payload_type::RTX, ALICE_VIDEO + 1, 1) };
    let padding = Rtp { header, payload: RtpPayload::Padding(224), kind: Kind::Padding };
    let report = SenderReport { ssrc: ALICE_VIDEO, ..SenderReport::default() };
    let all = [
        datagram(picture(10)),
        datagram(repaired(11)),
        datagram(padding),
        rtcp([RtcpPacket::SenderReport(report)]),
    ];
    for datagram in &all {
        pair.forward(CONNECTED, datagram);
    }
    pair.rtcp(CONNECTED + DELAY, nack(10));
    let sent = pair.sent_by(ALICE).skip(before).filter(|sent| sent.at <= CONNECTED + DELAY);
    let sent: Vec<Datagram> = sent.map(|sent| sent.datagram.clone()).collect();
    assert_eq!(sent, all);
    assert!(!pair.events.iter().any(|(.., event)| *event == EndpointEvent::KeyFrameRequested));
}

/// At 500 kbit/s Chromium 156 paces at 550 kbit/s, in bursts of 40 ms: 2,750 B, or at least five packets of 550 B. Ten
/// pictures that come at once leave within 70 ms of each other, not within 30.
#[test]
fn a_controlled_forwarder_paces_what_comes_and_has_statistics() {
    let mut pair = pair(ForwardingMode::Controlled, Repair::Rtx);
    for seq in 10..20 {
        pair.forward(CONNECTED, &datagram(picture(seq)));
    }
    pair.run(CONNECTED + Time::from_secs(1));
    let sent: Vec<(Time, u16)> = pair
        .rtp_by(ALICE, Kind::Video)
        .iter()
        .map(|(at, packet)| (*at, packet.header.seq))
        .collect();
    assert_eq!(sent.iter().map(|(_, seq)| *seq).collect::<Vec<_>>(), (10..20).collect::<Vec<_>>());
    let took = sent[9].0 - sent[0].0;
    assert!((Time::from_millis(30)..=Time::from_millis(70)).contains(&took), "{took}");
    let estimates = pair.events.iter().filter_map(|(_, index, event)| match event {
        EndpointEvent::Statistics(figures) if *index == ALICE => {
            Some(figures.candidate_pair.available_outgoing_bitrate)
        }
        _ => None,
    });
    assert_eq!(estimates.collect::<Vec<_>>(), [500_000.0]);
}
