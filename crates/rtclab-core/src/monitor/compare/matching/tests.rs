use super::super::comparison::earliest;
use super::*;
use crate::rtp::RtpHeader;
use proptest::prelude::*;

const SECOND: i64 = 1_000_000_000;
const PACKET: i64 = 50_000_000; // 20 packets per second

fn packet(index: i64, at_ns: i64) -> Identified {
    let header = RtpHeader {
        payload_type: 96,
        seq: index as u16,
        timestamp: index as u32,
        ssrc: 1,
        ..RtpHeader::default()
    };
    Identified { at_ns, header, ip_bytes: 100, ecn: Ecn::Ect1 }
}

fn way(first_span: (i64, i64), second_span: (i64, i64)) -> Way {
    Way { reverse: false, clock_ns: 0, first_span, second_span }
}

/// The counts matched, lost, added and outside of the only pair.
fn counts(matcher: &Matcher) -> [u64; 4] {
    let pair = &matcher.pairs[0];
    [pair.matched, pair.lost, pair.added, pair.outside]
}

#[test]
fn captures_that_overlap_by_a_second_keep_half_a_minute_waiting_and_a_minute_unsettled() {
    // A runs from 0 to 3600 s and B from 3599 to 7200 s, without delay.
    let (a_end, b_begin, b_end) = (3600 * SECOND, 3599 * SECOND, 7200 * SECOND);
    let mut matcher = Matcher::new([way((0, a_end), (b_begin, b_end))].into_iter());
    let mut times = [0..=a_end, b_begin..=b_end].map(|span| span.step_by(PACKET as usize));
    let mut read = [Some(i64::MIN); 2];
    while let Some(index) = earliest(&read) {
        read[index] = times[index].next();
        let Some(at_ns) = read[index] else { continue };
        let side = [Side::A, Side::B][index];
        matcher.receive((0, side), at_ns, &packet(at_ns / PACKET, at_ns));
        let read_ns = read.into_iter().flatten().min().expect("one has not ended");
        matcher.expire(read_ns, &mut |_| {});
        // 30 s with 20 packets each. Reading begins with a packet of each capture, so one of B always waits.
        assert!(matcher.waiting_packets <= 601, "{} wait", matcher.waiting_packets);
        let places: usize = matcher.order.iter().map(VecDeque::len).sum();
        assert!(places <= 1024 + 2 * 601, "{places} places");
    }
    // Unsettled are packets of A in the 30 s before B began, and of B in the 30 s after A ended. The last 30
    // s of B still wait.
    let unsettled = matcher.pairs[0].unsettled.len();
    assert!((1_199..=1_201).contains(&unsettled), "{unsettled}");
    matcher.finish(&mut |_| {});
    // The common second has 21 packets, including both of its bounds. No other packet can have been captured
    // at the other point.
    assert_eq!(counts(&matcher), [21, 0, 0, 3599 * 20 + 3600 * 20]);
}

#[test]
fn a_packet_waits_for_half_a_minute_of_both_captures() {
    let span = (0, 100 * SECOND);
    let matched_after = |delay_ns: i64, read_ns: i64| {
        let mut matcher = Matcher::new([way(span, span)].into_iter());
        matcher.receive((0, Side::A), 0, &packet(1, 0));
        matcher.expire(read_ns, &mut |_| {});
        matcher.receive((0, Side::B), delay_ns, &packet(1, delay_ns)).is_some()
    };
    assert!(matched_after(30 * SECOND - 1, 30 * SECOND - 1));
    assert!(!matched_after(30 * SECOND - 1, 30 * SECOND));
    assert!(!matched_after(30 * SECOND, 30 * SECOND - 1));
}

#[test]
fn a_packet_sent_again_has_a_timeout_of_its_own() {
    let span = (0, 100 * SECOND);
    let mut matcher = Matcher::new([way(span, span)].into_iter());
    matcher.receive((0, Side::A), 0, &packet(1, 0));
    assert!(matcher.receive((0, Side::B), SECOND, &packet(1, SECOND)).is_some());
    // The same number and timestamp come again after 20 s. The entry of the first packet expires at 30 s.
    matcher.receive((0, Side::A), 20 * SECOND, &packet(1, 20 * SECOND));
    matcher.expire(31 * SECOND, &mut |_| panic!("given up"));
    assert!(matcher.receive((0, Side::B), 31 * SECOND, &packet(1, 31 * SECOND)).is_some());
}

#[test]
fn without_room_for_unsettled_packets_the_delays_so_far_decide() {
    // B begins at 10 s. Delays are 1 s, so a packet of A at 9.5 s should have arrived at 10.5 s.
    let span = (10 * SECOND, 100 * SECOND);
    let mut matcher = Matcher::new([way((0, 100 * SECOND), span)].into_iter());
    matcher.unsettled_packets = MAX_UNSETTLED - 1;
    matcher.receive((0, Side::A), 50 * SECOND, &packet(0, 50 * SECOND));
    matcher.receive((0, Side::B), 51 * SECOND, &packet(0, 51 * SECOND)).expect("matched");
    for (index, at_ns) in [SECOND, 2 * SECOND, 9 * SECOND + SECOND / 2].into_iter().enumerate() {
        let index = index as i64 + 1;
        matcher.receive((0, Side::A), 60 * SECOND, &packet(index, at_ns));
    }
    matcher.expire(90 * SECOND, &mut |_| {});
    assert_eq!((matcher.pairs[0].unsettled.len(), matcher.settled_early), (1, 2));
    assert_eq!(counts(&matcher), [1, 1, 0, 1]);
    matcher.finish(&mut |_| {});
    assert_eq!(counts(&matcher), [1, 1, 0, 2]);
}

proptest! {
    /// How packets are counted does not depend on which of them are kept unsettled until the end.
    #[test]
    fn deciding_early_gives_the_same_counts_as_deciding_at_the_end(
        (first_from, first_length) in (0i64..300, 1i64..300),
        (second_from, second_length) in (0i64..300, 1i64..300),
        clock in -3000i64..3000,
        packets in prop::collection::vec((0i64..600, prop::option::of(-29i64..30), any::<bool>()), 0..60),
    ) {
        let first_span = (first_from * SECOND, (first_from + first_length) * SECOND);
        let second_span =
            ((clock + second_from) * SECOND, (clock + second_from + second_length) * SECOND);
        let way = Way { reverse: false, clock_ns: clock * SECOND, first_span, second_span };
        let within = |at_ns: i64, (from, to): (i64, i64)| (from..=to).contains(&at_ns);
        let (mut early, mut late) = (PairCounts::new(way), PairCounts::new(way));
        // In order of time at the first point, as captures are read.
        let mut packets = packets;
        packets.sort_by_key(|(at, ..)| *at);
        for (at, delay, second) in packets {
            let first_ns = at * SECOND;
            let second_ns = first_ns + (clock + delay.unwrap_or(0)) * SECOND;
            let (first_seen, second_seen) =
                (within(first_ns, first_span), within(second_ns, second_span));
            if delay.is_some() && first_seen && second_seen {
                early.matched(first_ns, second_ns);
                late.matched(first_ns, second_ns);
                continue;
            }
            let (seen, at_ns) = if second { (second_seen, second_ns) } else { (first_seen, first_ns) };
            if !seen { continue; }
            if late.is_among_matched(second, at_ns) {
                late.unmatched(second, at_ns);
            } else {
                late.unsettled.push((second, at_ns));
            }
            if early.may_change(second, at_ns) {
                early.unsettled.push((second, at_ns));
            } else {
                early.unmatched(second, at_ns);
            }
        }
        early.settle();
        late.settle();
        prop_assert_eq!(
            (early.matched, early.lost, early.added, early.outside),
            (late.matched, late.lost, late.added, late.outside)
        );
    }
}
