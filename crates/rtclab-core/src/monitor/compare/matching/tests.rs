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
    Identified { at_ns, header, ip_bytes: 100 }
}

fn way(first_ran: (i64, i64), second_ran: (i64, i64)) -> Way {
    Way { reverse: false, clock_ns: 0, first_ran, second_ran }
}

/// Matched, lost, added and outside of the only pair.
fn counts(matcher: &Matcher) -> [u64; 4] {
    let pair = &matcher.pairs[0];
    [pair.matched, pair.lost, pair.added, pair.outside]
}

#[test]
fn captures_that_share_a_second_of_two_hours_keep_half_a_minute_waiting_and_a_minute_unsettled() {
    // A runs from 0 to 3600 s and B from 3599 to 7200 s, without delay.
    let (a_end, b_begin, b_end) = (3600 * SECOND, 3599 * SECOND, 7200 * SECOND);
    let mut matcher = Matcher::new([way((0, a_end), (b_begin, b_end))].into_iter());
    let mut times = [0..=a_end, b_begin..=b_end].map(|ran| ran.step_by(PACKET as usize));
    let mut read = [Some(i64::MIN); 2];
    while let Some(index) = earliest(&read) {
        read[index] = times[index].next();
        let Some(at_ns) = read[index] else { continue };
        let side = [Side::A, Side::B][index];
        matcher.receive((0, side), at_ns, &packet(at_ns / PACKET, at_ns));
        let read_ns = read.into_iter().flatten().min().expect("one goes on");
        matcher.expire(read_ns, &mut |_| {});
        // 30 s of 20 packets; reading begins with one of each, so that one of B waits all the time.
        assert!(matcher.waiting_packets <= 601, "{} wait", matcher.waiting_packets);
        let places: usize = matcher.order.iter().map(VecDeque::len).sum();
        assert!(places <= 1024 + 2 * 601, "{places} places");
    }
    // Those of A in the 30 s before B began, and those of B in the 30 s after A's end; the last 30 s of B still wait.
    let unsettled = matcher.pairs[0].unsettled.len();
    assert!((1_199..=1_201).contains(&unsettled), "{unsettled}");
    matcher.finish(&mut |_| {});
    // A second has 21 packets, both its bounds included; of the rest none can have been at the other point.
    assert_eq!(counts(&matcher), [21, 0, 0, 3599 * 20 + 3600 * 20]);
}

#[test]
fn a_packet_waits_for_half_a_minute_of_both_captures() {
    let ran = (0, 100 * SECOND);
    let matched_after = |delay_ns: i64, read_ns: i64| {
        let mut matcher = Matcher::new([way(ran, ran)].into_iter());
        matcher.receive((0, Side::A), 0, &packet(1, 0));
        matcher.expire(read_ns, &mut |_| {});
        matcher.receive((0, Side::B), delay_ns, &packet(1, delay_ns)).is_some()
    };
    assert!(matched_after(30 * SECOND - 1, 30 * SECOND - 1));
    assert!(!matched_after(30 * SECOND - 1, 30 * SECOND));
    assert!(!matched_after(30 * SECOND, 30 * SECOND - 1));
}

#[test]
fn a_packet_sent_again_waits_its_own_time_and_not_that_of_the_first() {
    let ran = (0, 100 * SECOND);
    let mut matcher = Matcher::new([way(ran, ran)].into_iter());
    matcher.receive((0, Side::A), 0, &packet(1, 0));
    assert!(matcher.receive((0, Side::B), SECOND, &packet(1, SECOND)).is_some());
    // The same number and timestamp after 20 s; the place of the first in the order expires at 30 s.
    matcher.receive((0, Side::A), 20 * SECOND, &packet(1, 20 * SECOND));
    matcher.expire(31 * SECOND, &mut |_| panic!("given up"));
    assert!(matcher.receive((0, Side::B), 31 * SECOND, &packet(1, 31 * SECOND)).is_some());
}

#[test]
fn without_room_for_unsettled_packets_the_delays_so_far_decide() {
    // B begins at 10 s. Delays are 1 s; a packet of A at 9.5 s should have been there at 10.5 s.
    let ran = (10 * SECOND, 100 * SECOND);
    let mut matcher = Matcher::new([way((0, 100 * SECOND), ran)].into_iter());
    matcher.unsettled_packets = MAX_UNSETTLED - 1;
    matcher.receive((0, Side::A), 50 * SECOND, &packet(0, 50 * SECOND));
    matcher.receive((0, Side::B), 51 * SECOND, &packet(0, 51 * SECOND)).expect("matched");
    for (index, at_ns) in [SECOND, 2 * SECOND, 9 * SECOND + SECOND / 2].into_iter().enumerate() {
        let index = index as i64 + 1;
        matcher.receive((0, Side::A), 60 * SECOND, &packet(index, at_ns));
    }
    matcher.expire(90 * SECOND, &mut |_| {});
    assert_eq!((matcher.pairs[0].unsettled.len(), matcher.hastily_settled), (1, 2));
    assert_eq!(counts(&matcher), [1, 1, 0, 1]);
    matcher.finish(&mut |_| {});
    assert_eq!(counts(&matcher), [1, 1, 0, 2]);
}

proptest! {
    /// What packets count as does not depend on which of those not between matched ones are remembered until the end.
    #[test]
    fn deciding_early_gives_what_deciding_at_the_end_gives(
        (first_from, first_length) in (0i64..300, 1i64..300),
        (second_from, second_length) in (0i64..300, 1i64..300),
        clock in -3000i64..3000,
        packets in prop::collection::vec((0i64..600, prop::option::of(-29i64..30), any::<bool>()), 0..60),
    ) {
        let first_ran = (first_from * SECOND, (first_from + first_length) * SECOND);
        let second_ran =
            ((clock + second_from) * SECOND, (clock + second_from + second_length) * SECOND);
        let way = Way { reverse: false, clock_ns: clock * SECOND, first_ran, second_ran };
        let within = |at_ns: i64, (from, to): (i64, i64)| (from..=to).contains(&at_ns);
        let (mut early, mut late) = (PairCounts::new(way), PairCounts::new(way));
        // In the order of their times at the first point, as captures are read.
        let mut packets = packets;
        packets.sort_by_key(|(at, ..)| *at);
        for (at, delay, second) in packets {
            let first_ns = at * SECOND;
            let second_ns = first_ns + (clock + delay.unwrap_or(0)) * SECOND;
            let (first_seen, second_seen) =
                (within(first_ns, first_ran), within(second_ns, second_ran));
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
