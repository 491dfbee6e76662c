//! Two captures of the same packets, compared.

use crate::monitor_support::wrappings::outer_udp;
use crate::monitor_support::{BEGIN_NS, Pcap, Results, Rtp, channel_data, ethernet, ipv4_udp};
use rtclab_core::monitor::compare::{Points, compare};
use rtclab_core::monitor::{CaptureReader, MonitorConfig};

const ALICE: (u8, u16) = (1, 5000);
const BOB: (u8, u16) = (2, 6000);
const TURN: (u8, u16) = (9, 3478);
const MS: i64 = 1_000_000;

fn packet(index: i64) -> Rtp {
    Rtp {
        ssrc: 7,
        payload_type: 111,
        seq: (65_000 + index) as u16,
        timestamp: (index * 960) as u32,
        marker: false,
        payload_bytes: 100,
    }
}

fn at(index: i64) -> i64 {
    BEGIN_NS + index * 20 * MS
}

/// Packets seen at a point, in any order.
#[derive(Default)]
struct Point(Vec<(i64, Vec<u8>)>);

impl Point {
    fn see(&mut self, at_ns: i64, from: (u8, u16), to: (u8, u16), payload: &[u8]) {
        self.0.push((at_ns, ethernet(&ipv4_udp(from, to, payload))));
    }

    fn capture(&self) -> Vec<u8> {
        self.written(1, <[u8]>::to_vec)
    }

    /// The capture with Linux cooked headers (LINKTYPE_LINUX_SLL), which state the direction of frames.
    fn cooked(&self, packet_type: u8) -> Vec<u8> {
        let header = [0, packet_type, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 0x08, 0x00];
        self.written(113, |frame| [&header, &frame[14..]].concat())
    }

    fn written(&self, link_type: u32, as_captured: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
        let mut frames = self.0.clone();
        frames.sort_by_key(|(at_ns, _)| *at_ns);
        let mut pcap = Pcap::new(link_type);
        frames.iter().for_each(|(at_ns, frame)| pcap.frame(*at_ns, &as_captured(frame)));
        pcap.bytes
    }
}

fn compared(a: &Point, b: &Point) -> Results {
    compared_captures(&a.capture(), &b.capture())
}

fn compared_captures(a: &[u8], b: &[u8]) -> Results {
    let mut open = |side| match side {
        rtclab_core::monitor::compare::Side::A => CaptureReader::new(a),
        rtclab_core::monitor::compare::Side::B => CaptureReader::new(b),
    };
    let config = MonitorConfig { packets: true, ..MonitorConfig::default() };
    Results(compare(Points::TwoCaptures, &config, &mut open, &mut |_| true).expect("captures"))
}

fn counts(results: &Results) -> [i64; 4] {
    ["matched", "lost", "added", "outside"].map(|name| results.int("streams", name)[0])
}

/// Packets from Alice seen at A, and at B if `arrives` returns a delay for them.
fn one_way(packets: i64, arrives: impl Fn(i64) -> Option<i64>) -> (Point, Point) {
    let (mut a, mut b) = (Point::default(), Point::default());
    for index in 0..packets {
        a.see(at(index), ALICE, BOB, &packet(index).bytes());
        if let Some(delay_ns) = arrives(index) {
            b.see(at(index) + delay_ns, ALICE, BOB, &packet(index).bytes());
        }
    }
    (a, b)
}

#[test]
fn loss_and_delay_are_found_over_a_wrap_of_sequence_numbers() {
    // Every tenth packet is lost; the others take 30 or 31 ms.
    let (a, b) = one_way(1000, |i| (i % 10 != 5).then_some((30 + i % 2) * MS));
    let results = compared(&a, &b);
    assert_eq!(counts(&results), [900, 100, 0, 0]);
    let delay = |name: &str| results.float("streams", &format!("one_way_delay_{name}_ms"))[0];
    assert_eq!((delay("min"), delay("max")), (30.0, 31.0));
    // 100 of the odd ones are lost: 400 of 900 take 31 ms.
    assert!((delay("mean") - (30.0 + 4.0 / 9.0)).abs() < 1e-9);
    assert_eq!((delay("p50"), delay("p95")), (30.0, 31.0));
    assert_eq!(results.int("streams", "packets_a"), [1000]);
    assert_eq!(results.int("streams", "packets_b"), [900]);
    assert_eq!(results.float("delay_histogram", "one_way_delay_ms"), [30.0, 31.0]);
    assert_eq!(results.int("delay_histogram", "packets"), [500, 400]);
}

#[test]
fn a_negative_delay_stays_negative() {
    let (a, b) = one_way(100, |_| Some(-7 * MS));
    let results = compared(&a, &b);
    assert_eq!(results.float("streams", "one_way_delay_mean_ms"), [-7.0]);
    assert_eq!(results.text("clock", "method"), ["one direction"]);
    assert_eq!(results.note("some delays are negative"), -1); // present, without a number
    assert!(results.float("streams", "corrected_one_way_delay_mean_ms")[0].is_nan());
}

#[test]
fn captures_that_begin_and_end_at_different_moments_lose_nothing() {
    // B runs from 10 s to 70 s of A's 100 s; both are the same stream of 80,000 numbers and more.
    let (a, mut b) = one_way(5000, |_| Some(20 * MS));
    b.0.retain(|(at_ns, _)| (at(500)..at(3500)).contains(at_ns));
    assert_eq!(counts(&compared(&a, &b)), [3000, 0, 0, 2000]);
    let (mut a, b) = one_way(5000, |_| Some(20 * MS));
    a.0.retain(|(at_ns, _)| (at(500)..at(3500)).contains(at_ns));
    assert_eq!(counts(&compared(&a, &b)), [3000, 0, 0, 2000]);
}

#[test]
fn a_pause_of_a_minute_loses_nothing() {
    // Packets in flight when the pause starts are read at B after the first packet after the pause is read
    // at A.
    let pause = |index: i64| if index < 50 { 0 } else { 60_000 * MS };
    let (mut a, mut b) = one_way(100, |i| Some(if i < 45 { 10 * MS } else { 70 * MS }));
    for (index, (seen, frame)) in (0..).zip(a.0.iter_mut().zip(b.0.iter_mut())) {
        seen.0 += pause(index);
        frame.0 += pause(index);
    }
    assert_eq!(counts(&compared(&a, &b)), [100, 0, 0, 0]);
}

#[test]
fn captures_that_share_a_second_of_ten_minutes_match_that_second() {
    // Of 998 packets, one per second, A has the first 500 and B those from index 498 on: two in common.
    let slowly = |index: i64| BEGIN_NS + index * 1000 * MS;
    let (mut a, mut b) = (Point::default(), Point::default());
    for index in 0..500 {
        a.see(slowly(index), ALICE, BOB, &packet(index).bytes());
        b.see(slowly(index + 498) + 20 * MS, ALICE, BOB, &packet(index + 498).bytes());
    }
    assert_eq!(counts(&compared(&a, &b)), [2, 0, 0, 996]);
}

#[test]
fn a_hundredth_of_a_call_is_found_in_it() {
    // B covers 4 s of A's 400 s. Of the 1024 packets in A's sketch, 10 are expected there.
    let (a, mut b) = one_way(20_000, |_| Some(20 * MS));
    b.0.retain(|(at_ns, _)| (at(9000)..at(9200)).contains(at_ns));
    assert_eq!(counts(&compared(&a, &b)), [200, 0, 0, 19_800]);
}

#[test]
fn reordered_packets_keep_their_own_delays() {
    let (a, b) = one_way(300, |i| Some(if i % 3 == 0 { 70 * MS } else { 10 * MS }));
    let results = compared(&a, &b);
    assert_eq!(counts(&results), [300, 0, 0, 0]);
    assert_eq!(results.int("delay_histogram", "packets"), [200, 100]);
}

#[test]
fn a_duplicate_made_between_the_points_is_added_and_a_retransmission_has_its_own_delay() {
    let (mut a, mut b) = one_way(300, |i| (i != 100).then_some(30 * MS));
    // Packet 100 is lost and retransmitted with its number after 200 ms; packet 150 arrives twice.
    a.see(at(100) + 200 * MS, ALICE, BOB, &packet(100).bytes());
    b.see(at(100) + 230 * MS, ALICE, BOB, &packet(100).bytes());
    b.see(at(150) + 35 * MS, ALICE, BOB, &packet(150).bytes());
    let results = compared(&a, &b);
    assert_eq!(counts(&results), [300, 1, 1, 0]);
    assert_eq!(results.float("streams", "one_way_delay_max_ms"), [30.0]);
    // A retransmission of a packet that had arrived counts as a separate packet.
    a.see(at(200) + 300 * MS, ALICE, BOB, &packet(200).bytes());
    b.see(at(200) + 330 * MS, ALICE, BOB, &packet(200).bytes());
    assert_eq!(counts(&compared(&a, &b)), [301, 1, 1, 0]);
}

/// A call of one minute with delays of at least 40 ms to Bob and 20 ms back. Bob's clock is an hour ahead and
/// gains 50 ppm.
fn call_with_other_clock() -> (Point, Point) {
    let clock = |at_ns: i64| at_ns + 3600 * 1000 * MS + (at_ns - BEGIN_NS) / 20_000;
    let (mut a, mut b) = (Point::default(), Point::default());
    for index in 0..3000 {
        let queue_ns = index * 37 % 50 * MS;
        a.see(at(index), ALICE, BOB, &packet(index).bytes());
        b.see(clock(at(index) + 40 * MS + queue_ns), ALICE, BOB, &packet(index).bytes());
        let back = Rtp { ssrc: 8, ..packet(index) }.bytes();
        b.see(clock(at(index)), BOB, ALICE, &back);
        a.see(at(index) + 20 * MS + queue_ns, BOB, ALICE, &back);
    }
    (a, b)
}

#[test]
fn the_clocks_difference_is_estimated_from_both_directions() {
    let (a, b) = call_with_other_clock();
    let results = compared(&a, &b);
    assert_eq!(results.text("clock", "method"), ["both directions"]);
    // Half the asymmetry of the delays, 10 ms, cannot be distinguished from the offset. The error is at most
    // half the RTT.
    let offset_ms = results.float("clock", "offset_ms")[0];
    assert!((offset_ms - 3_600_010.0).abs() < 0.5, "{offset_ms}");
    let error_ms = results.float("clock", "offset_error_ms")[0];
    assert!((error_ms - 30.0).abs() < 0.5, "{error_ms}");
    let drift_ppm = results.float("clock", "drift_ppm")[0];
    assert!((drift_ppm - 50.0).abs() < 1.0, "{drift_ppm}");
    let directions = results.text("streams", "direction");
    assert_eq!((directions, results.int("streams", "ssrc")), (vec!["a->b", "b->a"], vec![7, 8]));
    for min_ms in results.float("streams", "corrected_one_way_delay_min_ms") {
        assert!((min_ms - 30.0).abs() < 0.5, "{min_ms}");
    }
    assert_eq!(results.int("streams", "matched"), [3000, 3000]);
    assert_eq!(results.int("streams", "lost"), [0, 0]);
}

#[test]
fn captures_of_one_box_split_by_direction_go_from_the_inbound_to_the_outbound_one() {
    const INBOUND: u8 = 0;
    const OUTBOUND: u8 = 4;
    // 20 ms through the box one way, 30 ms the other.
    let (mut enters, mut leaves) = one_way(100, |_| Some(20 * MS));
    for index in 0..100 {
        let back = Rtp { ssrc: 8, ..packet(index) }.bytes();
        enters.see(at(index), BOB, ALICE, &back);
        leaves.see(at(index) + 30 * MS, BOB, ALICE, &back);
    }
    let (enters, leaves) = (enters.cooked(INBOUND), leaves.cooked(OUTBOUND));
    for (a, b, way) in [(&enters, &leaves, "a->b"), (&leaves, &enters, "b->a")] {
        let results = compared_captures(a, b);
        assert_eq!(results.text("clock", "method"), ["same clock"]);
        assert_eq!(results.text("streams", "direction"), [way, way]);
        assert_eq!(results.float("streams", "one_way_delay_mean_ms"), [20.0, 30.0]);
        assert_eq!(results.int("streams", "matched"), [100, 100]);
    }
}

#[test]
fn captures_of_two_hosts_are_not_taken_for_one_box_though_each_sees_only_one_direction() {
    // Only packets from Alice are captured: outbound at her host, inbound at Bob's, which has another clock.
    let (a, b) = one_way(100, |_| Some(-7 * MS));
    let results = compared_captures(&a.cooked(4), &b.cooked(0));
    assert_eq!(results.text("clock", "method"), ["one direction"]);
    assert_eq!(results.text("streams", "direction"), ["a->b"]);
    assert_eq!(results.float("streams", "one_way_delay_mean_ms"), [-7.0]);
}

/// The packets as seen after this many routers.
fn behind_routers(point: &Point, routers: u8) -> Point {
    const TIME_TO_LIVE: usize = 14 + 8;
    let mut behind = Point(point.0.clone());
    behind.0.iter_mut().for_each(|(_, frame)| frame[TIME_TO_LIVE] -= routers);
    behind
}

#[test]
fn hop_limits_show_which_way_a_stream_goes_when_clocks_do_not() {
    let (sender, receiver) = one_way(100, |_| Some(-7 * MS));
    let receiver = behind_routers(&receiver, 3);
    for (a, b, way) in [(&sender, &receiver, "a->b"), (&receiver, &sender, "b->a")] {
        let results = compared(a, b);
        assert_eq!(results.text("streams", "direction"), [way]);
        assert_eq!(results.float("streams", "one_way_delay_mean_ms"), [-7.0]);
    }
}

#[test]
fn captures_of_a_router_split_by_direction_go_from_the_one_to_the_other() {
    // 20 ms through the router one way, 30 ms the other.
    let (mut enters, mut leaves) = one_way(100, |_| Some(20 * MS));
    for index in 0..100 {
        let back = Rtp { ssrc: 8, ..packet(index) }.bytes();
        enters.see(at(index), BOB, ALICE, &back);
        leaves.see(at(index) + 30 * MS, BOB, ALICE, &back);
    }
    let leaves = behind_routers(&leaves, 1);
    for (a, b, way) in [(&enters, &leaves, "a->b"), (&leaves, &enters, "b->a")] {
        let results = compared(a, b);
        assert_eq!(results.text("streams", "direction"), [way, way]);
        assert_eq!(results.float("streams", "one_way_delay_mean_ms"), [20.0, 30.0]);
        assert_eq!(results.text("clock", "method"), ["one direction"]);
    }
}

#[test]
fn a_stream_goes_to_a_relay_before_it_comes_from_there() {
    let (mut a, mut b) = (Point::default(), Point::default());
    for index in 0..100 {
        a.see(at(index), TURN, BOB, &packet(index).bytes());
        b.see(at(index) + 5 * MS, ALICE, TURN, &channel_data(0x4000, &packet(index).bytes()));
    }
    let results = compared(&a, &b);
    assert_eq!(results.text("streams", "direction"), ["b->a"]);
    assert_eq!(results.float("streams", "one_way_delay_mean_ms"), [-5.0]);
}

/// Packets are sent with ECT(1). A queue marks every third one, and the fourth packet is lost.
#[test]
fn each_packet_has_its_codepoint_at_both_points() {
    let (mut a, mut b) = one_way(9, |i| (i != 4).then_some(30 * MS));
    const CLASS: usize = 14 + 1;
    a.0.iter_mut().for_each(|(_, frame)| frame[CLASS] = 1);
    for (index, (_, frame)) in b.0.iter_mut().enumerate() {
        frame[CLASS] = if index % 3 == 0 { 3 } else { 1 };
    }
    let results = compared(&a, &b);
    assert_eq!(results.text("packets", "ecn"), ["ect1"; 9]);
    let mut arrived = results.text("packets", "delivered_ecn");
    arrived.sort_unstable();
    assert_eq!(arrived, ["", "ce", "ce", "ce", "ect1", "ect1", "ect1", "ect1", "ect1"]);
}

#[test]
fn each_packet_has_a_row_with_both_times() {
    let (a, b) = one_way(10, |i| (i != 4).then_some(30 * MS));
    let results = compared(&a, &b);
    let (sent, delivered) =
        (results.int("packets", "sent_ns"), results.int("packets", "delivered_ns"));
    let seqs = results.int("packets", "seq");
    assert_eq!(seqs.len(), 10);
    for ((seq, sent_ns), delivered_ns) in seqs.iter().zip(sent).zip(delivered) {
        let index = seq - 65_000;
        assert_eq!(sent_ns, at(index));
        assert_eq!(delivered_ns, if index == 4 { -1 } else { at(index) + 30 * MS });
    }
}

#[test]
fn a_stream_is_found_again_behind_a_relay() {
    let (mut a, mut b) = (Point::default(), Point::default());
    for index in 0..100 {
        a.see(at(index), ALICE, TURN, &channel_data(0x4000, &packet(index).bytes()));
        b.see(at(index) + 50 * MS, TURN, BOB, &packet(index).bytes());
    }
    let results = compared(&a, &b);
    assert_eq!(counts(&results), [100, 0, 0, 0]);
    assert_eq!(results.text("streams", "destination_a"), ["10.0.0.9:3478"]);
    assert_eq!(results.text("streams", "destination_b"), ["10.0.0.2:6000"]);
}

#[test]
fn captures_without_a_common_stream_have_no_rows_and_say_so() {
    let (a, _) = one_way(100, |_| None);
    let mut b = Point::default();
    (0..100).for_each(|i| {
        b.see(at(i), ALICE, BOB, &Rtp { timestamp: 1 + i as u32, ..packet(i) }.bytes())
    });
    let results = compared(&a, &b);
    assert!(results.int("streams", "matched").is_empty());
    assert_eq!((results.note("streams at A only"), results.note("streams at B only")), (1, 1));
    assert_eq!(results.text("clock", "method"), ["none"]);
}

#[test]
fn packets_in_a_tunnel_at_one_point_are_found_without_it_at_the_other() {
    let (a, b) = one_way(100, |i| (i != 50).then_some(30 * MS));
    let vxlan = [8, 0, 0, 0, 0, 0, 7, 0];
    let inside = b.written(1, |frame| outer_udp(4789, &[&vxlan, frame].concat()));
    assert_eq!(counts(&compared_captures(&a.capture(), &inside)), counts(&compared(&a, &b)));
}

#[test]
fn a_comparison_of_nothing_says_what_was_not_read() {
    let (a, b) = one_way(100, |_| Some(30 * MS));
    let results = compared_captures(&a.capture(), &b.written(252, <[u8]>::to_vec));
    let note = "B: frames of Wireshark exported PDUs (link type 252) are not read";
    assert_eq!((results.note(note), results.note("A: ")), (100, 0));
}
