use super::*;
use crate::ecn::Ecn;
use crate::units::{Bitrate, Time};

fn written(packet: &RtcpPacket) -> Vec<u8> {
    let mut out = Vec::new();
    packet.write(&mut out).unwrap();
    out
}

/// Asserts that the packet is written as these bytes and parsed from them.
#[track_caller]
fn assert_bytes(packet: RtcpPacket, bytes: &[u8]) {
    assert_eq!(written(&packet), bytes);
    assert_eq!(parse_compound(bytes).collect::<Vec<_>>(), [Ok(packet)]);
}

const BLOCK: ReportBlock = ReportBlock {
    ssrc: 0x0A0B_0C0D,
    fraction_lost: 64,
    cumulative_lost: -2,
    highest_seq: 0x0001_FFFE,
    jitter: 90,
    last_sender_report: 0x1122_3344,
    delay_since_last_sender_report: 0x8000,
};

const BLOCK_BYTES: [u8; 24] = [
    0x0A, 0x0B, 0x0C, 0x0D, 64, 0xFF, 0xFF, 0xFE, 0, 1, 0xFF, 0xFE, 0, 0, 0, 90, 0x11, 0x22, 0x33,
    0x44, 0, 0, 0x80, 0,
];

#[test]
fn a_receiver_report_with_one_block_has_32_bytes() {
    let packet = ReceiverReport { ssrc: 7, blocks: vec![BLOCK] };
    let bytes = [&[0x81, 201, 0, 7, 0, 0, 0, 7][..], &BLOCK_BYTES].concat();
    assert_bytes(RtcpPacket::ReceiverReport(packet), &bytes);
}

#[test]
fn a_sender_report_with_one_block_has_52_bytes() {
    let packet = SenderReport {
        ssrc: 7,
        ntp: NtpTime::from_time(Time::from_millis(1_500)),
        rtp_timestamp: 0x0203_0405,
        packet_count: 10,
        octet_count: 12_000,
        blocks: vec![BLOCK],
    };
    let head = [
        0x81, 200, 0, 12, 0, 0, 0, 7, 0, 0, 0, 1, 0x80, 0, 0, 0, 2, 3, 4, 5, 0, 0, 0, 10, 0, 0,
        0x2E, 0xE0,
    ];
    assert_bytes(RtcpPacket::SenderReport(packet), &[&head[..], &BLOCK_BYTES].concat());
}

#[test]
fn cumulative_loss_is_clamped_to_24_bits() {
    let through = |cumulative_lost| {
        let blocks = vec![ReportBlock { cumulative_lost, ..BLOCK }];
        let bytes = written(&RtcpPacket::ReceiverReport(ReceiverReport { ssrc: 7, blocks }));
        match parse_compound(&bytes).next() {
            Some(Ok(RtcpPacket::ReceiverReport(report))) => report.blocks[0],
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(through(0x7F_FFFF).cumulative_lost, 0x7F_FFFF);
    assert_eq!(through(i32::MAX), ReportBlock { cumulative_lost: 0x7F_FFFF, ..BLOCK });
    assert_eq!(through(i32::MIN), ReportBlock { cumulative_lost: -0x80_0000, ..BLOCK });
}

#[test]
fn the_round_trip_is_now_minus_lsr_minus_dlsr() {
    // RFC 3550, figure 2: 0xb7108000 - 0xb7052000 - 0x00054000 = 0x00062000 = 6.125 s.
    let block = ReportBlock {
        last_sender_report: 0xB705_2000,
        delay_since_last_sender_report: 0x0005_4000,
        ..BLOCK
    };
    let now = NtpTime(0xB710_8000 << 16);
    assert_eq!(block.round_trip(now), Some(Time::from_millis(6_125)));
    assert_eq!(block.round_trip(NtpTime(0xB70A_5FFF << 16)), Some(Time::ZERO));
    assert_eq!(ReportBlock { last_sender_report: 0, ..block }.round_trip(now), None);
}

/// A report received at 10.0008 s on a sender report of 9.9002 s that was held for 95.7 ms. In truth the round trip
/// is 4.9 ms. In whole milliseconds it is 10,000 - 95 - 9,900 = 5. The units of 1/65536 s are below 0.02 ms.
#[test]
fn in_2013_round_trips_were_differences_of_whole_milliseconds() {
    let at = |us: u64| NtpTime::from_time(Time::from_micros(us));
    let block = |sent: u64, held: u64| ReportBlock {
        last_sender_report: at(sent).middle(),
        delay_since_last_sender_report: (held * 65_536 / 1_000_000) as u32,
        ..ReportBlock::default()
    };
    let now = at(10_000_800);
    assert_eq!(block(9_900_200, 95_700).round_trip_in_ms(now), Some(Time::from_millis(5)));
    // 0.3 ms are at least 1.
    assert_eq!(block(10_000_500, 0).round_trip_in_ms(now), Some(Time::from_millis(1)));
    assert_eq!(ReportBlock::default().round_trip_in_ms(now), None);
}

#[test]
fn a_source_description_ends_with_one_to_four_zeros() {
    let with_cname = |cname: &str| {
        let chunks = vec![SdesChunk { ssrc: 7, cname: cname.to_string() }];
        RtcpPacket::SourceDescription(SourceDescription { chunks })
    };
    let one = [0x81, 202, 0, 3, 0, 0, 0, 7, 1, 5, b'a', b'l', b'i', b'c', b'e', 0];
    assert_bytes(with_cname("alice"), &one);
    let four = [0x81, 202, 0, 3, 0, 0, 0, 7, 1, 2, b'm', b'e', 0, 0, 0, 0];
    assert_bytes(with_cname("me"), &four);
}

#[test]
fn other_items_of_a_source_description_are_skipped() {
    // NAME (2) "x", CNAME "a", end; a second chunk without any item.
    let bytes = [0x82, 202, 0, 5, 0, 0, 0, 7, 2, 1, b'x', 1, 1, b'a', 0, 0, 0, 0, 0, 8, 0, 0, 0, 0];
    let chunks = vec![
        SdesChunk { ssrc: 7, cname: "a".to_string() },
        SdesChunk { ssrc: 8, cname: String::new() },
    ];
    let expected = RtcpPacket::SourceDescription(SourceDescription { chunks });
    assert_eq!(parse_compound(&bytes).collect::<Vec<_>>(), [Ok(expected)]);
}

#[test]
fn a_name_that_is_not_utf_8_keeps_its_length() {
    let bytes = [0x81, 202, 0, 3, 0, 0, 0, 7, 1, 5, b'a', 0xFF, 0xC3, b'b', 0xFE, 0];
    let chunks = vec![SdesChunk { ssrc: 7, cname: "a??b?".to_string() }];
    let expected = RtcpPacket::SourceDescription(SourceDescription { chunks });
    assert_eq!(parse_compound(&bytes).collect::<Vec<_>>(), [Ok(expected)]);
}

#[test]
fn a_goodbye_may_give_a_reason() {
    let without = Goodbye { ssrcs: vec![7, 8], reason: None };
    assert_bytes(RtcpPacket::Goodbye(without), &[0x82, 203, 0, 2, 0, 0, 0, 7, 0, 0, 0, 8]);
    let with = Goodbye { ssrcs: vec![7], reason: Some("left".to_string()) };
    let bytes = [0x81, 203, 0, 3, 0, 0, 0, 7, 4, b'l', b'e', b'f', b't', 0, 0, 0];
    assert_bytes(RtcpPacket::Goodbye(with), &bytes);
}

#[test]
fn a_nack_has_a_bit_for_each_of_the_sixteen_following_packets() {
    let with_lost = |lost: &[u16]| {
        RtcpPacket::Nack(Nack { sender_ssrc: 1, media_ssrc: 2, lost: lost.to_vec() })
    };
    let head = |words| [0x81, 205, 0, words, 0, 0, 0, 1, 0, 0, 0, 2];
    // 101 is bit 0 and 116 is bit 15. 117 is one too far.
    let bytes = [&head(4)[..], &[0, 100, 0x80, 0x01, 0, 117, 0, 0]].concat();
    assert_bytes(with_lost(&[100, 101, 116, 117]), &bytes);
    // Across the wrap: after 65535, 0 is bit 0 and 3 is bit 3.
    let bytes = [&head(3)[..], &[0xFF, 0xFF, 0, 0b1001]].concat();
    assert_bytes(with_lost(&[65_535, 0, 3]), &bytes);
}

#[test]
fn a_nack_keeps_the_order_of_its_packets() {
    let nack = Nack { sender_ssrc: 1, media_ssrc: 2, lost: vec![5, 15, 10, 10] };
    let bytes = [0x81, 205, 0, 5, 0, 0, 0, 1, 0, 0, 0, 2, 0, 5, 0b10, 0, 0, 10, 0, 0, 0, 10, 0, 0];
    assert_bytes(RtcpPacket::Nack(nack), &bytes);
}

#[test]
fn key_frame_requests_have_only_ssrcs_and_a_number() {
    let pli = PictureLossIndication { sender_ssrc: 1, media_ssrc: 2 };
    let bytes = [0x81, 206, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2];
    assert_bytes(RtcpPacket::PictureLossIndication(pli), &bytes);
    let fir = FullIntraRequest { sender_ssrc: 1, commands: vec![(2, 9)] };
    let bytes = [0x84, 206, 0, 4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 9, 0, 0, 0];
    assert_bytes(RtcpPacket::FullIntraRequest(fir), &bytes);
}

fn remb(bps: u64) -> RtcpPacket {
    RtcpPacket::Remb(Remb { sender_ssrc: 1, bitrate: Bitrate(bps), ssrcs: vec![2] })
}

fn remb_bytes(exponent_and_mantissa: [u8; 3]) -> Vec<u8> {
    let head = [0x8F, 206, 0, 5, 0, 0, 0, 1, 0, 0, 0, 0, b'R', b'E', b'M', b'B', 1];
    [&head[..], &exponent_and_mantissa, &[0, 0, 0, 2]].concat()
}

#[test]
fn remb_uses_the_smallest_exponent_with_which_18_bits_suffice() {
    // 2^18 - 1 = 262143 fits with exponent 0; 2^18 = 131072 * 2^1.
    assert_bytes(remb(262_143), &remb_bytes([0x03, 0xFF, 0xFF]));
    assert_bytes(remb(262_144), &remb_bytes([0b0000_0110, 0, 0]));
    // 1 Mbit/s = 250000 * 2^2; 250000 = 0x3D090.
    assert_bytes(remb(1_000_000), &remb_bytes([0b0000_1011, 0xD0, 0x90]));
    assert_bytes(remb(0), &remb_bytes([0, 0, 0]));
}

#[test]
fn remb_rounds_down_rates_that_do_not_fit() {
    // 262145 = 131072.5 * 2.
    assert_eq!(written(&remb(262_145)), written(&remb(262_144)));
}

#[test]
fn remb_of_2_to_the_64_is_refused_and_one_step_below_is_not() {
    // 0x3FFFF * 2^46 has 64 bits; exponent 47 has 65.
    let exponent = |exponent: u8| remb_bytes([exponent << 2 | 3, 0xFF, 0xFF]);
    assert_bytes(remb(0x3_FFFF << 46), &exponent(46));
    let bytes = exponent(47);
    assert!(matches!(
        parse_compound(&bytes).next(),
        Some(Err(ParseError::Invalid { field: "REMB exponent", offset: 16, got: 47, .. }))
    ));
}

#[test]
fn congestion_feedback_pads_an_odd_number_of_blocks() {
    // The packets: 500 ms = 512/1024 s with CE; lost; over range with ECT(1).
    let arrivals = vec![
        Some(CcfbArrival {
            ecn: Ecn::CongestionExperienced,
            offset: ArrivalOffset::from_time(Time::from_millis(500)),
        }),
        None,
        Some(CcfbArrival { ecn: Ecn::Ect1, offset: ArrivalOffset::OVER_RANGE }),
    ];
    let packet = CongestionFeedback {
        sender_ssrc: 1,
        streams: vec![StreamArrivals { ssrc: 2, begin_seq: 0xFFFF, arrivals }],
        report_timestamp: 0x0102_0304,
    };
    let bytes = [
        0x8B, 205, 0, 6, 0, 0, 0, 1, 0, 0, 0, 2, 0xFF, 0xFF, 0, 3, 0xE2, 0x00, 0, 0, 0xBF, 0xFE, 0,
        0, 1, 2, 3, 4,
    ];
    assert_bytes(RtcpPacket::CongestionFeedback(packet), &bytes);
}

#[test]
fn congestion_feedback_has_at_most_16384_blocks_per_stream() {
    let with_blocks = |count: u16| {
        let arrivals = vec![None; usize::from(count)];
        let streams = vec![StreamArrivals { ssrc: 2, begin_seq: 0, arrivals }];
        let packet = CongestionFeedback { sender_ssrc: 1, streams, report_timestamp: 0 };
        let mut out = Vec::new();
        RtcpPacket::CongestionFeedback(packet).write(&mut out).map(|()| out)
    };
    let mut bytes = with_blocks(16_384).unwrap();
    assert!(matches!(parse_compound(&bytes).next(), Some(Ok(_))));
    assert!(with_blocks(16_385).is_err());
    bytes[14..16].copy_from_slice(&16_385u16.to_be_bytes());
    assert!(matches!(
        parse_compound(&bytes).next(),
        Some(Err(ParseError::Invalid { offset: 14, got: 16_385, .. }))
    ));
}

#[test]
fn arrival_offsets_are_at_most_8189_units_of_1_1024_s() {
    // 8190/1024 s = 7.998046875 s.
    let offset = |ns| ArrivalOffset::from_time(Time(ns));
    assert_eq!(offset(7_998_046_875), ArrivalOffset::OVER_RANGE);
    assert_eq!(offset(7_998_046_874).time(), Some(Time(7_997_070_312)));
    assert_eq!(ArrivalOffset::OVER_RANGE.time(), None);
    assert_eq!(ArrivalOffset::UNAVAILABLE.time(), None);
}

#[test]
fn unknown_packets_are_kept_and_the_packets_after_them_are_parsed() {
    let application =
        RtcpPacket::Unknown { packet_type: 204, count: 3, body: vec![0, 0, 0, 1, 1, 2, 3, 4] };
    let goodbye = RtcpPacket::Goodbye(Goodbye { ssrcs: vec![7], reason: None });
    let bytes = [written(&application), written(&goodbye)].concat();
    assert_eq!(bytes[..4], [0x83, 204, 0, 2]);
    assert_eq!(parse_compound(&bytes).collect::<Vec<_>>(), [Ok(application), Ok(goodbye)]);
}

#[test]
fn application_feedback_other_than_remb_is_unknown() {
    let mut bytes = remb_bytes([0, 0, 0]);
    bytes[12] = b'X';
    assert!(matches!(
        parse_compound(&bytes).next(),
        Some(Ok(RtcpPacket::Unknown { packet_type: 206, count: 15, .. }))
    ));
}

#[test]
fn a_malformed_packet_is_an_error_and_the_next_one_is_parsed() {
    // A receiver report that announces a block it has no room for.
    let pli = RtcpPacket::PictureLossIndication(PictureLossIndication::default());
    let bytes = [vec![0x81, 201, 0, 1, 0, 0, 0, 7], written(&pli)].concat();
    let error = ParseError::Truncated { field: "report block SSRC", offset: 8, needed: 4, got: 0 };
    assert_eq!(parse_compound(&bytes).collect::<Vec<_>>(), [Err(error), Ok(pli)]);
}

#[test]
fn nothing_is_parsed_after_a_broken_header() {
    let pli = written(&RtcpPacket::PictureLossIndication(PictureLossIndication::default()));
    let wrong_version = [&[0x41, 201, 0, 0][..], &pli].concat();
    assert_eq!(parse_compound(&wrong_version).filter(Result::is_err).count(), 1);
    assert_eq!(parse_compound(&wrong_version).count(), 1);
    let too_long = [&[0x80, 201, 0, 4][..], &pli].concat();
    let error = ParseError::Truncated { field: "RTCP packet body", offset: 4, needed: 16, got: 12 };
    assert_eq!(parse_compound(&too_long).collect::<Vec<_>>(), [Err(error)]);
}

#[test]
fn padding_is_neither_zero_nor_longer_than_the_body() {
    let with_padding = |count| {
        let bytes = [0xA0, 201, 0, 2, 0, 0, 0, 7, 0, 0, 0, count];
        parse_compound(&bytes).next().unwrap()
    };
    let report = RtcpPacket::ReceiverReport(ReceiverReport { ssrc: 7, blocks: vec![] });
    assert_eq!(with_padding(4), Ok(report));
    assert!(matches!(with_padding(0), Err(ParseError::Invalid { offset: 11, got: 0, .. })));
    assert!(matches!(with_padding(9), Err(ParseError::Invalid { offset: 11, got: 9, .. })));
    // If the whole body is padding, nothing is left for the SSRC.
    assert!(matches!(with_padding(8), Err(ParseError::Truncated { offset: 4, got: 0, .. })));
}

#[test]
fn a_packet_that_exceeds_its_format_is_refused_and_nothing_is_written() {
    let refused = |packet: RtcpPacket| {
        let mut out = vec![7];
        let error = packet.write(&mut out).unwrap_err();
        assert_eq!(out, [7]);
        (error.got, error.limit)
    };
    let report = ReceiverReport { ssrc: 7, blocks: vec![BLOCK; 32] };
    assert_eq!(refused(RtcpPacket::ReceiverReport(report)), (32, 31));
    let goodbye = Goodbye { ssrcs: vec![7; 32], reason: None };
    assert_eq!(refused(RtcpPacket::Goodbye(goodbye)), (32, 31));
    let long = vec![SdesChunk { ssrc: 7, cname: "x".repeat(256) }];
    let description = SourceDescription { chunks: long };
    assert_eq!(refused(RtcpPacket::SourceDescription(description)), (256, 255));
    let remb = Remb { sender_ssrc: 1, bitrate: Bitrate::ZERO, ssrcs: vec![2; 256] };
    assert_eq!(refused(RtcpPacket::Remb(remb)), (256, 255));
    // 2 words of SSRCs and one for each packet.
    let nack = Nack { sender_ssrc: 1, media_ssrc: 2, lost: vec![5; 65_534] };
    assert_eq!(refused(RtcpPacket::Nack(nack)), (65_536, 65_535));
}

#[test]
fn the_common_header_can_be_read_alone() {
    let header = RtcpHeader::parse(&[0xA1, 206, 0, 2]).unwrap();
    let expected = RtcpHeader { padding: true, count: 1, packet_type: 206, packet_bytes: 12 };
    assert_eq!(header, expected);
    assert!(RtcpHeader::parse(&[0x80, 200, 0]).is_err());
}
