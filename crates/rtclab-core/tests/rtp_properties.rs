//! What is written is parsed back unchanged, and no bytes make a parser panic.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use rtclab_core::ecn::Ecn;
use rtclab_core::monitor::demux::demultiplex;
use rtclab_core::packet::{Content, Datagram, Rtcp};
use rtclab_core::rtp::rtcp::*;
use rtclab_core::rtp::*;
use rtclab_core::units::{Bitrate, Time};
use std::net::SocketAddrV4;

fn extensions() -> impl Strategy<Value = Extensions> {
    let level =
        (any::<bool>(), 0u8..128).prop_map(|(voice, minus_dbov)| AudioLevel { voice, minus_dbov });
    (option::of(any::<u32>()), any::<Option<u16>>(), option::of(level)).prop_map(
        |(bits, transport_sequence, audio_level)| Extensions {
            abs_send_time: bits.map(AbsSendTime::from_bits),
            transport_sequence,
            audio_level,
        },
    )
}

prop_compose! {
    fn header()(
        (marker, padding, payload_type) in (any::<bool>(), any::<bool>(), 0u8..128),
        (seq, timestamp, ssrc) in any::<(u16, u32, u32)>(),
        extensions in extensions(),
    ) -> RtpHeader {
        RtpHeader { marker, padding, payload_type, seq, timestamp, ssrc, extensions }
    }
}

prop_compose! {
    fn ids()(
        ids in proptest::sample::subsequence((1..=14).collect::<Vec<u8>>(), 3).prop_shuffle(),
    ) -> ExtensionIds {
        ExtensionIds {
            abs_send_time: ExtensionId::new(ids[0]),
            transport_sequence: ExtensionId::new(ids[1]),
            audio_level: ExtensionId::new(ids[2]),
        }
    }
}

prop_compose! {
    fn block()(
        (ssrc, fraction_lost, highest_seq, jitter) in any::<(u32, u8, u32, u32)>(),
        cumulative_lost in -0x80_0000..=0x7F_FFFF,
        (last_sender_report, delay_since_last_sender_report) in any::<(u32, u32)>(),
    ) -> ReportBlock {
        ReportBlock {
            ssrc, fraction_lost, cumulative_lost, highest_seq, jitter, last_sender_report,
            delay_since_last_sender_report,
        }
    }
}

fn reports() -> impl Strategy<Value = RtcpPacket> {
    let sender = (any::<(u32, u64, u32, u32, u32)>(), vec(block(), 0..=31)).prop_map(
        |((ssrc, ntp, rtp_timestamp, packet_count, octet_count), blocks)| {
            let ntp = NtpTime(ntp);
            RtcpPacket::SenderReport(SenderReport {
                ssrc,
                ntp,
                rtp_timestamp,
                packet_count,
                octet_count,
                blocks,
            })
        },
    );
    let receiver = (any::<u32>(), vec(block(), 0..=31))
        .prop_map(|(ssrc, blocks)| RtcpPacket::ReceiverReport(ReceiverReport { ssrc, blocks }));
    prop_oneof![sender, receiver]
}

fn names() -> impl Strategy<Value = RtcpPacket> {
    let chunk = (any::<u32>(), "[ -~]{0,255}").prop_map(|(ssrc, cname)| SdesChunk { ssrc, cname });
    let description = vec(chunk, 0..=31)
        .prop_map(|chunks| RtcpPacket::SourceDescription(SourceDescription { chunks }));
    let goodbye = (vec(any::<u32>(), 0..=31), option::of("[ -~]{0,255}"))
        .prop_map(|(ssrcs, reason)| RtcpPacket::Goodbye(Goodbye { ssrcs, reason }));
    let delays = (any::<u32>(), any::<u32>(), any::<u32>())
        .prop_map(|(ssrc, last_reference, delay)| ReferenceDelay { ssrc, last_reference, delay });
    let extended = (any::<u32>(), option::of(any::<u64>().prop_map(NtpTime)), vec(delays, 0..40))
        .prop_map(|(ssrc, reference_time, delays)| {
            RtcpPacket::ExtendedReport(ExtendedReport { ssrc, reference_time, delays })
        });
    prop_oneof![description, goodbye, extended]
}

fn requests() -> impl Strategy<Value = RtcpPacket> {
    // Close together, in any order: some fit into a bitmask, some do not.
    let lost = (any::<u16>(), vec(0u16..60, 0..100)).prop_map(|(first, offsets)| {
        offsets.into_iter().map(|offset| first.wrapping_add(offset)).collect()
    });
    let nack = (any::<(u32, u32)>(), lost).prop_map(|((sender_ssrc, media_ssrc), lost)| {
        RtcpPacket::Nack(Nack { sender_ssrc, media_ssrc, lost })
    });
    let pli = any::<(u32, u32)>().prop_map(|(sender_ssrc, media_ssrc)| {
        RtcpPacket::PictureLossIndication(PictureLossIndication { sender_ssrc, media_ssrc })
    });
    let fir = (any::<u32>(), vec(any::<(u32, u8)>(), 0..20)).prop_map(|(sender_ssrc, commands)| {
        RtcpPacket::FullIntraRequest(FullIntraRequest { sender_ssrc, commands })
    });
    let remb = (any::<u32>(), 0u64..1 << 18, 0..=46, vec(any::<u32>(), 0..=255)).prop_map(
        |(sender_ssrc, mantissa, exponent, ssrcs)| {
            let bitrate = Bitrate(mantissa << exponent);
            RtcpPacket::Remb(Remb { sender_ssrc, bitrate, ssrcs })
        },
    );
    prop_oneof![nack, pli, fir, remb]
}

prop_compose! {
    fn transport_feedback()(
        (sender_ssrc, media_ssrc, base_seq, feedback_count) in any::<(u32, u32, u16, u8)>(),
        reference_time_64ms in -0x80_0000..=0x7F_FFFF,
        // Runs, so that every kind of chunk comes up.
        runs in vec((prop_oneof![
            Just(None), (0i32..=255).prop_map(Some), (-32_768..=32_767).prop_map(Some),
        ], prop_oneof![1usize..4, 1usize..40]), 0..30),
    ) -> RtcpPacket {
        let statuses = runs.into_iter().flat_map(|(status, len)| vec![status; len]).collect();
        RtcpPacket::TransportFeedback(TransportFeedback {
            sender_ssrc, media_ssrc, base_seq, feedback_count, reference_time_64ms, statuses,
        })
    }
}

fn congestion_feedback() -> impl Strategy<Value = RtcpPacket> {
    let ecn = prop_oneof![
        Just(Ecn::NotCapable),
        Just(Ecn::Ect1),
        Just(Ecn::Ect0),
        Just(Ecn::CongestionExperienced)
    ];
    let offset = prop_oneof![
        (0u64..9_000_000_000).prop_map(|ns| ArrivalOffset::from_time(Time(ns))),
        Just(ArrivalOffset::UNAVAILABLE),
    ];
    let arrival = (ecn, offset).prop_map(|(ecn, offset)| CcfbArrival { ecn, offset });
    let stream = (any::<u32>(), any::<u16>(), vec(option::of(arrival), 0..50))
        .prop_map(|(ssrc, begin_seq, arrivals)| StreamArrivals { ssrc, begin_seq, arrivals });
    (any::<(u32, u32)>(), vec(stream, 0..5)).prop_map(
        |((sender_ssrc, report_timestamp), streams)| {
            RtcpPacket::CongestionFeedback(CongestionFeedback {
                sender_ssrc,
                streams,
                report_timestamp,
            })
        },
    )
}

fn rtcp_packet() -> impl Strategy<Value = RtcpPacket> {
    let unknown_types = prop_oneof![192u8..200, Just(204u8), 208u8..224];
    let unknown = (unknown_types, 0u8..32, vec(any::<u8>(), 0..200))
        .prop_map(|(packet_type, count, body)| RtcpPacket::Unknown { packet_type, count, body });
    prop_oneof![
        reports(),
        names(),
        requests(),
        transport_feedback(),
        congestion_feedback(),
        unknown,
    ]
}

/// Bytes with a header that brings the parsers further than noise would.
fn bytes_like_media() -> impl Strategy<Value = Vec<u8>> {
    let head = prop_oneof![
        Just(vec![]),
        any::<u8>().prop_map(|count| vec![0x80 | count & 0x3F]),
        (0x80u8..0xC0, 192u8..=207, 0u8..30)
            .prop_map(|(first, kind, len)| vec![first, kind, 0, len]),
        (0x80u8..0xC0, 0u8..128).prop_map(|(first, kind)| vec![first, kind]),
        (0u8..4, any::<u8>(), 0u8..40).prop_map(|(first, kind, words)| {
            vec![first, kind, 0, words * 4, 0x21, 0x12, 0xA4, 0x42]
        }),
    ];
    (head, vec(any::<u8>(), 0..300)).prop_map(|(head, tail)| [head, tail].concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn an_rtp_header_is_parsed_as_it_was_written(
        header in header(), ids in ids(), payload in vec(any::<u8>(), 0..20),
    ) {
        let mut bytes = Vec::new();
        header.write(&ids, &mut bytes);
        let len = bytes.len();
        bytes.extend_from_slice(&payload);
        prop_assert_eq!(RtpHeader::parse(&bytes, &ids), Ok((header, len)));
    }

    #[test]
    fn the_length_of_an_rtcp_packet_is_known_before_it_is_written(packet in rtcp_packet()) {
        let mut bytes = Vec::new();
        let written = packet.write(&mut bytes).map(|()| bytes.len());
        prop_assert_eq!(packet.wire_bytes(), written.ok());
    }

    /// Sequence numbers in any order: close together, far apart, and repeated.
    #[test]
    fn the_length_of_any_request_is_known_before_it_is_written(
        lost in vec(prop_oneof![any::<u16>(), 100u16..140], 0..300),
    ) {
        let nack = RtcpPacket::Nack(Nack { sender_ssrc: 1, media_ssrc: 2, lost });
        let mut bytes = Vec::new();
        let written = nack.write(&mut bytes).map(|()| bytes.len());
        prop_assert_eq!(nack.wire_bytes(), written.ok());
    }

    /// Deltas of one byte, of two bytes, and that do not fit; long and short runs of one status.
    #[test]
    fn the_length_of_any_transport_wide_feedback_is_known_before_it_is_written(
        runs in vec((option::of(prop_oneof![0i32..256, -40_000..40_000]), 1usize..40), 0..40),
    ) {
        let statuses = runs.into_iter().flat_map(|(status, n)| std::iter::repeat_n(status, n));
        let feedback = TransportFeedback { statuses: statuses.collect(), ..TransportFeedback::default() };
        let feedback = RtcpPacket::TransportFeedback(feedback);
        let mut bytes = Vec::new();
        let written = feedback.write(&mut bytes).map(|()| bytes.len());
        prop_assert_eq!(feedback.wire_bytes(), written.ok());
    }

    /// IPv4 and UDP take 28 bytes and SRTCP 14.
    #[test]
    fn an_rtcp_datagram_is_read_as_it_was_written_and_has_the_size_of_its_bytes(
        packets in vec(rtcp_packet(), 1..4),
    ) {
        let content = Content::Rtcp(Rtcp::new(packets).expect("packets that fit"));
        let mut bytes = Vec::new();
        content.write(&mut bytes);
        prop_assert_eq!(Content::read(&bytes, bytes.len() as u64 + 14), Some(content.clone()));
        let datagram = Datagram::new(Ecn::NotCapable, content);
        prop_assert_eq!(datagram.size.0, 28 + bytes.len() as u64 + 14);
    }

    #[test]
    fn an_rtp_packet_returns_its_payload_without_the_padding(
        header in header(), payload in vec(any::<u8>(), 0..1300), padding in 1u8..=255,
    ) {
        let mut bytes = Vec::new();
        header.write(&ExtensionIds::CHROMIUM, &mut bytes);
        bytes.extend_from_slice(&payload);
        let padding = if header.padding { padding } else { 0 };
        header::write_padding(padding, &mut bytes);
        let packet = RtpPacket::parse(&bytes, &ExtensionIds::CHROMIUM).unwrap();
        prop_assert_eq!((packet.header, packet.payload), (header, &payload[..]));
        prop_assert_eq!(packet.padding_bytes, usize::from(padding));
        prop_assert_eq!(classify(&bytes, bytes.len()) == Protocol::Rtcp, (64..96).contains(&header.payload_type));
    }

    #[test]
    fn a_vp8_descriptor_is_parsed_as_it_was_written(
        (non_reference, partition_start) in any::<(bool, bool)>(),
        partition in 0u8..8,
        picture_id in option::of(0u16..0x8000),
    ) {
        let descriptor = vp8::Descriptor { non_reference, partition_start, partition, picture_id };
        let mut bytes = Vec::new();
        descriptor.write(&mut bytes);
        prop_assert_eq!(vp8::Descriptor::parse(&bytes), Ok((descriptor, bytes.len())));
    }

    #[test]
    fn a_vp8_key_frame_is_parsed_as_it_was_written(width in 0u16..0x4000, height in 0u16..0x4000) {
        let header = vp8::FrameHeader::Key { width, height };
        let mut bytes = Vec::new();
        header.write(&mut bytes);
        prop_assert_eq!(vp8::FrameHeader::parse(&bytes), Ok(header));
    }

    #[test]
    fn an_rtx_payload_is_parsed_as_it_was_written(seq: u16, payload in vec(any::<u8>(), 0..20)) {
        let mut bytes = Vec::new();
        rtx::write(seq, &mut bytes);
        bytes.extend_from_slice(&payload);
        prop_assert_eq!(rtx::parse(&bytes), Ok((seq, &payload[..])));
    }

    #[test]
    fn a_compound_is_parsed_as_it_was_written(packets in vec(rtcp_packet(), 0..5)) {
        let mut bytes = Vec::new();
        for packet in &packets {
            packet.write(&mut bytes).unwrap();
        }
        prop_assert_eq!(bytes.len() % 4, 0);
        let parsed: Result<Vec<_>, _> = parse_compound(&bytes).collect();
        prop_assert_eq!(parsed, Ok(packets));
    }

    #[test]
    fn remb_loses_less_than_one_part_in_2_to_the_17(bps: u64) {
        let mut bytes = Vec::new();
        let remb = Remb { sender_ssrc: 1, bitrate: Bitrate(bps), ssrcs: vec![] };
        RtcpPacket::Remb(remb).write(&mut bytes).unwrap();
        let Some(Ok(RtcpPacket::Remb(remb))) = parse_compound(&bytes).next() else {
            return Err(TestCaseError::fail("no REMB"));
        };
        let lost = bps.checked_sub(remb.bitrate.bps());
        prop_assert!(lost.is_some_and(|lost| lost <= bps >> 17), "{lost:?}");
    }

    #[test]
    fn transport_feedback_returns_arrivals_within_half_a_tick(
        start_us in 0u64..1 << 40,
        steps in vec(option::weighted(0.9, -20_000i64..100_000), 1..100),
        base_seq: u16,
    ) {
        let mut us = start_us as i64 + 2_000_000;
        let mut arrivals = Vec::new();
        for step in steps {
            us += step.unwrap_or(0);
            arrivals.push(step.map(|_| Time::from_micros(us as u64)));
        }
        let (feedback, covered) =
            TransportFeedback::from_arrivals((1, 2), 3, base_seq, &arrivals);
        prop_assert_eq!(covered, arrivals.len());
        let wrap_ticks = 1i64 << 32;
        for (index, (seq, ticks)) in feedback.arrivals().enumerate() {
            prop_assert_eq!(seq, base_seq.wrapping_add(index as u16));
            prop_assert_eq!(ticks.is_some(), arrivals[index].is_some());
            if let (Some(ticks), Some(arrival)) = (ticks, arrivals[index]) {
                let off_us = ticks.rem_euclid(wrap_ticks) * 250 - arrival.as_micros() as i64;
                // The reference time wraps after 2^32 ticks.
                let off_us = off_us.rem_euclid(wrap_ticks * 250);
                prop_assert!(off_us <= 125 || off_us >= wrap_ticks * 250 - 125, "{off_us}");
            }
        }
    }

    #[test]
    fn a_binding_request_is_parsed_as_it_was_written(
        id: stun::TransactionId, username in "[ -~]{0,508}", priority: Option<u32>,
    ) {
        let mut bytes = Vec::new();
        stun::write_binding_request(&id, &username, priority, &mut bytes).unwrap();
        prop_assert_eq!(classify(&bytes, bytes.len()), Protocol::Stun);
        let message = stun::Message::parse(&bytes).unwrap();
        prop_assert_eq!((message.class, message.transaction_id), (stun::Class::Request, id));
        prop_assert_eq!(
            message.attribute(stun::attribute::USERNAME), Ok(Some(username.as_bytes())),
        );
        let priority = priority.map(u32::to_be_bytes);
        prop_assert_eq!(
            message.attribute(stun::attribute::PRIORITY),
            Ok(priority.as_ref().map(|bytes| &bytes[..])),
        );
        prop_assert_eq!(message.fingerprint_is_valid(), Some(true));
    }

    #[test]
    fn a_binding_success_is_parsed_as_it_was_written(
        id: stun::TransactionId, address: [u8; 4], port: u16,
    ) {
        let mapped = SocketAddrV4::new(address.into(), port);
        let mut bytes = Vec::new();
        stun::write_binding_success(&id, mapped, &mut bytes);
        let message = stun::Message::parse(&bytes).unwrap();
        prop_assert_eq!(
            message.xor_address(stun::attribute::XOR_MAPPED_ADDRESS), Ok(Some(mapped.into())),
        );
        prop_assert_eq!(message.fingerprint_is_valid(), Some(true));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// As long as UDP over Ethernet can carry it, and wherever a capture cuts it off.
    #[test]
    fn text_is_no_protocol_of_a_call(text in "[\\t\\r\\n -~]{1,1472}", captured in 0usize..1472) {
        let bytes = &text.as_bytes()[..captured.min(text.len())];
        prop_assert_eq!(demultiplex(bytes, text.len() as u32).protocol, Protocol::Other);
    }

    #[test]
    fn dtls_records_are_recognised_wherever_a_capture_cuts_them_off(
        (kind, version) in (20u8..=24, prop_oneof![Just(0xFFu8), Just(0xFD)]),
        lengths in vec(16u16..400, 1..5), captured in 3usize..1472,
    ) {
        let mut bytes = Vec::new();
        for (record, len) in lengths.iter().enumerate() {
            match record {
                0 => bytes.extend_from_slice(&[kind, 0xFE, version, 0, 0, 0, 0, 0, 0, 0, 1]),
                _ => bytes.extend_from_slice(&[0x2E, 0, record as u8]),
            }
            bytes.extend_from_slice(&len.to_be_bytes());
            bytes.resize(bytes.len() + usize::from(*len), 0xA5);
        }
        let seen = &bytes[..captured.min(bytes.len())];
        prop_assert_eq!(classify(seen, bytes.len()), Protocol::Dtls);
        prop_assert_eq!(classify(&bytes, bytes.len() + 1), Protocol::Dtls, "the next record is cut off");
        prop_assert_eq!(classify(&bytes[..bytes.len() - 1], bytes.len() - 1), Protocol::Other);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn no_bytes_make_a_parser_panic(bytes in bytes_like_media()) {
        let ids = ExtensionIds::CHROMIUM;
        classify(&bytes, bytes.len());
        classify(&bytes, bytes.len() + 100);
        let _ = header::parse_raw(&bytes).map(|(_, elements, _)| elements.count());
        if let Ok(packet) = RtpPacket::parse(&bytes, &ids) {
            prop_assert_eq!(
                packet.header_bytes + packet.payload.len() + packet.padding_bytes, bytes.len(),
            );
        }
        let _ = vp8::Descriptor::parse(&bytes);
        let _ = vp8::FrameHeader::parse(&bytes);
        let _ = rtx::parse(&bytes);
        let _ = stun::ChannelData::parse(&bytes);
        if let Ok(message) = stun::Message::parse(&bytes) {
            message.attributes().count();
            message.fingerprint_is_valid();
            let _ = message.xor_address(stun::attribute::XOR_MAPPED_ADDRESS);
            let _ = stun::peer_data(&message);
        }
        // Everything that can be parsed can be written, and is then parsed as the same.
        for packet in parse_compound(&bytes).flatten() {
            let mut written = Vec::new();
            packet.write(&mut written).unwrap();
            prop_assert_eq!(parse_compound(&written).collect::<Vec<_>>(), [Ok(packet)]);
        }
    }
}

/// The count field has 5 bits, and the length field 16 bits of words.
#[test]
fn a_packet_that_cannot_be_written_has_no_length_and_makes_no_datagram() {
    let many = |n| vec![ReportBlock::default(); n];
    for (packet, fits) in [
        (RtcpPacket::ReceiverReport(ReceiverReport { ssrc: 1, blocks: many(31) }), true),
        (RtcpPacket::ReceiverReport(ReceiverReport { ssrc: 1, blocks: many(32) }), false),
        (
            RtcpPacket::SenderReport(SenderReport { blocks: many(32), ..SenderReport::default() }),
            false,
        ),
        (RtcpPacket::Unknown { packet_type: 208, count: 0, body: vec![0; 4 * 65_535] }, true),
        (RtcpPacket::Unknown { packet_type: 208, count: 0, body: vec![0; 4 * 65_536] }, false),
        // One request item of 4 bytes for every 17th number.
        (
            RtcpPacket::Nack(Nack {
                sender_ssrc: 1,
                media_ssrc: 2,
                lost: (0..u16::MAX).step_by(17).collect(),
            }),
            true,
        ),
    ] {
        let written = packet.write(&mut Vec::new()).is_ok();
        assert_eq!((packet.wire_bytes().is_some(), written), (fits, fits), "{packet:?}");
        assert_eq!(Rtcp::new([packet]).is_some(), fits);
    }
}
