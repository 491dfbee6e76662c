use super::*;
use crate::rtp::rtcp::{RtcpPacket, parse_compound};

fn written(feedback: &TransportFeedback) -> Vec<u8> {
    let mut out = Vec::new();
    RtcpPacket::TransportFeedback(feedback.clone()).write(&mut out).unwrap();
    out
}

fn statuses(arrivals: &[Option<Time>]) -> (i32, Vec<Option<i32>>, usize) {
    let (feedback, covered) = TransportFeedback::from_arrivals((1, 2), 0, 0, arrivals);
    (feedback.reference_time_64ms, feedback.statuses, covered)
}

#[test]
fn a_report_on_four_packets_has_28_bytes() {
    // 130 ms = 2 * 64 ms + 8 ticks of 250 us; +1 ms = 4 ticks; one lost; +100 ms = 400 ticks, a large delta.
    let arrivals = [Some(130), Some(131), None, Some(231)].map(|ms| ms.map(Time::from_millis));
    let (feedback, covered) =
        TransportFeedback::from_arrivals((0x0102_0304, 0x0506_0708), 9, 0xFFFE, &arrivals);
    assert_eq!(covered, 4);
    assert_eq!(feedback.statuses, [Some(8), Some(4), None, Some(400)]);
    let bytes = [
        0x8F,
        205,
        0,
        6,
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        8,
        0xFF,
        0xFE,
        0,
        4,
        0,
        0,
        2,
        9, //
        0b1101_0100,
        0b1000_0000,
        8,
        4,
        0x01,
        0x90,
        0,
        0,
    ];
    // 26 bytes of content need two bytes of padding. The last one is the count.
    let mut padded = bytes;
    padded[0] = 0xAF;
    padded[27] = 2;
    assert_eq!(written(&feedback), padded);
    let parsed: Vec<_> = parse_compound(&padded).collect();
    assert_eq!(parsed, [Ok(RtcpPacket::TransportFeedback(feedback.clone()))]);
    // Parsing also succeeds without the padding flag: bytes after the last delta are ignored.
    assert_eq!(parse_compound(&bytes).next(), Some(Ok(RtcpPacket::TransportFeedback(feedback))));
}

#[test]
fn arrivals_are_in_ticks_and_their_sequence_numbers_wrap() {
    let feedback = TransportFeedback {
        base_seq: 0xFFFE,
        reference_time_64ms: 2,
        statuses: vec![Some(8), None, Some(-4)],
        ..TransportFeedback::default()
    };
    let arrivals: Vec<_> = feedback.arrivals().collect();
    assert_eq!(arrivals, [(0xFFFE, Some(520)), (0xFFFF, None), (0, Some(516))]);
}

#[test]
fn rounding_errors_of_ticks_do_not_accumulate() {
    // Every 0.35 ms = 1.4 ticks: 0, 1.4, 2.8, 4.2, 5.6, 7.0 round to 0, 1, 3, 4, 6, 7.
    let arrivals: Vec<_> = (0..6).map(|n| Some(Time::from_micros(350 * n))).collect();
    let expected = [0, 1, 2, 1, 2, 1].map(Some).to_vec();
    assert_eq!(statuses(&arrivals), (0, expected, 6));
}

#[test]
fn a_delta_beyond_16_bits_ends_the_report() {
    let at = |ticks: u64| Some(Time::from_micros(250 * ticks));
    assert_eq!(statuses(&[at(0), at(32_767)]), (0, vec![Some(0), Some(32_767)], 2));
    assert_eq!(statuses(&[at(0), at(32_768)]), (0, vec![Some(0)], 1));
    // Backwards: 40000 ticks = 156 * 256 + 64.
    assert_eq!(statuses(&[at(40_000), at(7_232)]), (156, vec![Some(64), Some(-32_768)], 2));
    assert_eq!(statuses(&[at(40_000), at(7_231), at(1)]), (156, vec![Some(64)], 1));
}

#[test]
fn a_report_may_begin_with_lost_packets_or_have_only_lost_packets() {
    assert_eq!(statuses(&[None, Some(Time::from_millis(65))]), (1, vec![None, Some(4)], 2));
    assert_eq!(statuses(&[None, None]), (0, vec![None, None], 2));
    assert_eq!(statuses(&[]), (0, vec![], 0));
}

#[test]
fn at_most_65535_packets_are_covered() {
    let (feedback, covered) = TransportFeedback::from_arrivals((1, 2), 0, 0, &vec![None; 65_536]);
    assert_eq!(covered, 65_535);
    // Eight runs of 8191 and one of 7.
    assert_eq!(written(&feedback).len(), 20 + 2 * 9 + 2);
}

#[test]
fn the_reference_time_is_signed_and_wraps_at_24_bits() {
    // The first negative reference is at 2^23 * 64 ms. At 2^24 * 64 ms, it is zero again.
    let reference = |units: u64| statuses(&[Some(Time::from_millis(64 * units))]).0;
    assert_eq!(reference((1 << 23) - 1), (1 << 23) - 1);
    assert_eq!(reference(1 << 23), -(1 << 23));
    assert_eq!(reference(1 << 24), 0);
}

#[test]
fn a_delta_that_does_not_fit_is_refused_and_nothing_is_written() {
    let with_delta = |delta| {
        let statuses = vec![Some(delta)];
        let mut out = vec![7];
        let feedback = TransportFeedback { statuses, ..TransportFeedback::default() };
        RtcpPacket::TransportFeedback(feedback).write(&mut out).map_err(|error| (error.got, out))
    };
    assert_eq!(with_delta(32_768), Err((32_768, vec![7])));
    assert_eq!(with_delta(-32_769), Err((32_769, vec![7])));
    assert_eq!([with_delta(32_767), with_delta(-32_768)], [Ok(()), Ok(())]);
}

#[test]
fn a_report_without_its_last_delta_is_truncated() {
    // Two packets with small deltas, but only one delta. The padding is flagged, so it is not taken for the
    // other.
    let bytes = [0xAF, 205, 0, 5, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 0, 0x20, 2, 8, 1];
    let error = ParseError::Truncated { field: "TWCC small delta", offset: 23, needed: 1, got: 0 };
    assert_eq!(parse_compound(&bytes).next(), Some(Err(error)));
}
