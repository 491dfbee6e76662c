use super::*;
use crate::media::fec::FecDecoder;
use crate::packet::{Datagram, Ecn, FecBlock, IP_UDP_BYTES};
use crate::rtp::{AbsSendTime, AudioLevel, Extensions};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use std::sync::Arc;

prop_compose! {
    fn extensions()(
        abs_send_time in option::of(any::<u32>()),
        transport_sequence in any::<Option<u16>>(),
        audio_level in option::of((any::<bool>(), 0u8..128)),
    ) -> Extensions {
        let level = |(voice, minus_dbov)| AudioLevel { voice, minus_dbov };
        Extensions {
            abs_send_time: abs_send_time.map(AbsSendTime::from_bits),
            transport_sequence,
            audio_level: audio_level.map(level),
        }
    }
}

prop_compose! {
    /// Headers without padding; the caller sets the payload type.
    fn header()(
        (marker, seq, timestamp, ssrc) in any::<(bool, u16, u32, u32)>(),
        extensions in extensions(),
    ) -> RtpHeader {
        RtpHeader { marker, seq, timestamp, ssrc, extensions, ..RtpHeader::default() }
    }
}

/// First packets of key frames and of delta frames, and further packets. A part has at least ten bytes
/// because media begin with a frame header of up to ten bytes, which has content.
fn part() -> impl Strategy<Value = VideoPart> {
    let size = (1u16..1 << 14, 1u16..1 << 14);
    (any::<bool>(), option::of(size), 0u16..1 << 15, 10u16..1_400).prop_map(
        |(first, size, picture_id, bytes)| {
            let size = size.filter(|_| first);
            let resolution = size.unwrap_or((0, 0));
            VideoPart { first, key: size.is_some(), picture_id, resolution, bytes }
        },
    )
}

/// Number of media bytes without content: all but the frame header.
fn absent(part: &VideoPart) -> u16 {
    let header = match (part.first, part.key) {
        (true, true) => 10,
        (true, false) => 3,
        (false, _) => 0,
    };
    part.bytes - header
}

/// A packet of any kind that its bytes identify, and the number of payload bytes without content.
fn rtp() -> impl Strategy<Value = (Rtp, u64)> {
    let payload = prop_oneof![
        (part(), any::<bool>()).prop_map(|(part, wrapped)| {
            let payload_type = if wrapped { payload_type::RED } else { payload_type::VIDEO };
            (payload_type, Kind::Video, RtpPayload::Video(part), absent(&part))
        }),
        (0u16..1_400).prop_map(|bytes| {
            (payload_type::AUDIO, Kind::Audio, RtpPayload::Audio { bytes, has_fec: false }, bytes)
        }),
        (any::<u16>(), part()).prop_map(|(original_seq, part)| {
            let payload = RtpPayload::Rtx { original_seq, part };
            (payload_type::RTX, Kind::Rtx, payload, absent(&part))
        }),
        (1u16..256).prop_map(|bytes| {
            (payload_type::RTX, Kind::Padding, RtpPayload::Padding(bytes), bytes)
        }),
    ];
    (header(), payload).prop_map(|(header, (payload_type, kind, payload, absent))| {
        let padding = kind == Kind::Padding;
        let header = RtpHeader { payload_type, padding, ..header };
        (Rtp { header, payload, kind }, u64::from(absent))
    })
}

/// Video packets of one stream as FEC protects them: without RED, and with sequence numbers that span at most
/// 48.
fn protected() -> impl Strategy<Value = Vec<Rtp>> {
    let packets = vec((header(), part(), 1u16..4), 1..=16);
    (any::<u16>(), packets).prop_map(|(mut seq, packets)| {
        let packets = packets.into_iter().map(|(header, part, step)| {
            let payload_type = payload_type::VIDEO;
            let header = RtpHeader { payload_type, seq, ssrc: 77, ..header };
            seq = seq.wrapping_add(step);
            Rtp { header, payload: RtpPayload::Video(part), kind: Kind::Video }
        });
        packets.collect()
    })
}

/// The bytes of a packet.
fn written(content: &Content) -> Vec<u8> {
    let mut bytes = Vec::new();
    content.write(&mut bytes);
    bytes
}

/// The content as read back from its bytes and its length on the wire.
fn read_back(content: &Content) -> Option<Content> {
    let datagram = Datagram::new(Ecn::NotCapable, content.clone());
    Content::read(&written(content), datagram.size.0 - IP_UDP_BYTES)
}

fn size(content: Content) -> u64 {
    Datagram::new(Ecn::NotCapable, content).size.0
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn rtp_is_read_as_it_was_written((packet, _) in rtp()) {
        let content = Content::Rtp(packet);
        prop_assert_eq!(read_back(&content), Some(content));
    }

    /// IPv4 and UDP take 28 bytes and SRTP 10.
    #[test]
    fn the_size_of_rtp_includes_the_bytes_without_content((packet, absent) in rtp()) {
        let content = Content::Rtp(packet);
        let bytes = written(&content).len() as u64;
        prop_assert_eq!(size(content), 28 + bytes + absent + 10);
    }

    #[test]
    fn the_length_of_a_header_is_known_before_it_is_written((packet, _) in rtp()) {
        let mut bytes = Vec::new();
        packet.header.write(&ExtensionIds::CHROMIUM, &mut bytes);
        prop_assert_eq!(packet.header.wire_bytes(), bytes.len());
    }

    #[test]
    fn stun_is_read_as_it_was_written_and_has_the_size_of_its_bytes(
        (success, check) in any::<(bool, u32)>(),
        form in prop::sample::select(vec![StunForm::Bare, StunForm::Full, StunForm::Nominating]),
    ) {
        // An answer nominates nothing.
        prop_assume!(!success || form != StunForm::Nominating);
        let content = Content::Stun(Stun { success, check, form });
        prop_assert_eq!(read_back(&content), Some(content.clone()));
        let bytes = written(&content).len() as u64;
        prop_assert_eq!(size(content), 28 + bytes);
    }

    /// RED takes one byte. The rest is the FEC packet that the wire format makes from the same bytes.
    #[test]
    fn a_fec_block_has_the_size_of_the_fec_packet_over_the_same_bytes(
        header in header(), packets in protected(),
    ) {
        let block = Arc::new(FecBlock::new(packets).expect("a span of at most 48"));
        let header = RtpHeader { payload_type: payload_type::RED, ..header };
        let payload = RtpPayload::Fec(Arc::clone(&block));
        let content = Content::Rtp(Rtp { header, payload, kind: Kind::Fec });
        let bytes = written(&content);
        let fec = FecPacket::parse(&bytes[header.wire_bytes() + 1..]).expect("FEC");
        prop_assert_eq!(fec.wire_bytes() as u64, block.wire_bytes());
        let headers = header.wire_bytes() as u64 + 1;
        prop_assert_eq!(size(content), 28 + headers + fec.wire_bytes() as u64 + 10);
    }

    /// Bytes without content count as zeros.
    #[test]
    fn fec_recovers_the_same_packet_from_bytes_as_from_values(
        header in header(), packets in protected(), lost: prop::sample::Index,
    ) {
        let lost = lost.index(packets.len());
        let block = Arc::new(FecBlock::new(packets.clone()).expect("a span of at most 48"));
        let mut decoder = FecDecoder::default();
        let others = packets.iter().enumerate().filter(|(index, _)| *index != lost);
        let others: Vec<&Rtp> = others.map(|(_, packet)| packet).collect();
        others.iter().for_each(|packet| decoder.on_media(packet.header.seq));
        decoder.on_fec(Arc::clone(&block));
        let value = decoder.poll();
        prop_assert_eq!(value.as_ref(), Some(&packets[lost]));

        let header = RtpHeader { payload_type: payload_type::RED, ..header };
        let fec = Rtp { header, payload: RtpPayload::Fec(block), kind: Kind::Fec };
        let fec = written(&Content::Rtp(fec));
        let fec = FecPacket::parse(&fec[header.wire_bytes() + 1..]).expect("FEC");
        let others: Vec<(Vec<u8>, usize)> = others
            .iter()
            .map(|packet| (written(&Content::Rtp((*packet).clone())), packet.rtp_bytes() as usize))
            .collect();
        let others = others.iter().map(|(bytes, len)| Media { bytes, len: *len });
        let seq = packets[lost].header.seq;
        let (bytes, len) = fec.recover((77, seq), others).expect("a packet");
        let expected = written(&Content::Rtp(packets[lost].clone()));
        prop_assert_eq!(len as u64, packets[lost].rtp_bytes());
        let (begin, rest) = bytes.split_at(expected.len());
        prop_assert_eq!(begin, expected);
        prop_assert!(rest.iter().all(|byte| *byte == 0));
        // Reading the recovered bytes gives the same packet.
        let read = Content::read(&bytes, len as u64 + SRTP_BYTES);
        prop_assert_eq!(read, value.map(Content::Rtp));
    }
}

/// UDP payloads have 160, 680, 760 and 120 B. Only the headers of record (13 B) and message (12 B) in them have
/// content.
#[test]
fn each_dtls_flight_is_read_as_it_was_written() {
    for (flight, udp_bytes) in [(0, 160), (1, 680), (2, 760), (3, 120)] {
        let content = Content::Dtls(DtlsFlight(flight));
        let bytes = written(&content);
        assert_eq!(bytes.len(), 25);
        assert_eq!(u16::from_be_bytes([bytes[11], bytes[12]]), udp_bytes - 13);
        assert_eq!(size(content.clone()), 28 + u64::from(udp_bytes));
        assert_eq!(read_back(&content), Some(content));
    }
}

/// IP total lengths measured on calls of Chromium 156.
#[test]
fn each_datagram_of_dtls_1_3_is_read_as_it_was_written() {
    for (datagram, bytes) in Dtls13::ALL.into_iter().zip([1_228, 291, 1_227, 546, 483, 68]) {
        let content = Content::Dtls13(datagram);
        assert_eq!(size(content.clone()), bytes);
        assert_eq!(read_back(&content), Some(content));
    }
}

#[test]
fn checks_of_chromium_have_its_sizes() {
    for (success, form, bytes) in [
        (false, StunForm::Full, 124),
        (false, StunForm::Nominating, 128),
        (true, StunForm::Full, 92),
    ] {
        assert_eq!(size(Content::Stun(Stun { success, check: 1, form })), bytes);
    }
}

#[test]
fn packets_that_no_endpoint_sends_are_not_read() {
    let fec = FecBlock::new([Rtp {
        header: RtpHeader { payload_type: payload_type::VIDEO, ..RtpHeader::default() },
        payload: RtpPayload::Video(VideoPart::default()),
        kind: Kind::Video,
    }]);
    let header = RtpHeader { payload_type: payload_type::RED, ..RtpHeader::default() };
    let payload = RtpPayload::Fec(Arc::new(fec.expect("one packet")));
    let fec = Content::Rtp(Rtp { header, payload, kind: Kind::Fec });
    assert_eq!(read_back(&fec), None);
    // The length on the wire is shorter than the packet.
    let audio = Rtp {
        header: RtpHeader { payload_type: payload_type::AUDIO, ..RtpHeader::default() },
        payload: RtpPayload::Audio { bytes: 0, has_fec: false },
        kind: Kind::Audio,
    };
    let bytes = written(&Content::Rtp(audio));
    assert!(Content::read(&bytes, bytes.len() as u64 + SRTP_BYTES).is_some());
    assert_eq!(Content::read(&bytes, bytes.len() as u64 + SRTP_BYTES - 1), None);
    assert_eq!(Content::read(&[], 0), None);
}
