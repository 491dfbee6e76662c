//! Streams that change their addresses or come over several at once, and those that only look so.

use crate::monitor_support::{BEGIN_NS, Pcap, Results, Rtp, ethernet, ipv4_udp, watch};
use rtclab_core::monitor::MonitorConfig;

type End = (u8, u16);

const ALICE: End = (1, 5000);
const ALICE_LATER: End = (7, 5001);
const BOB: End = (2, 6000);
const BOB_BESIDE: End = (2, 6001);
const MS: i64 = 1_000_000;

/// A packet of SSRC 7: time in ms, source, destination, number of the packet. Timestamps are 20 ms apart.
type Sent = (i64, End, End, u32);

fn rtp(number: u32) -> Rtp {
    Rtp {
        ssrc: 7,
        payload_type: 111,
        seq: (65_400 + number) as u16,
        timestamp: number.wrapping_mul(960),
        marker: false,
        payload_bytes: 100,
    }
}

fn watched(sent: impl IntoIterator<Item = Sent>) -> Results {
    let mut pcap = Pcap::new(1);
    for (at_ms, from, to, number) in sent {
        let frame = ethernet(&ipv4_udp(from, to, &rtp(number).bytes()));
        pcap.frame(BEGIN_NS + at_ms * MS, &frame);
    }
    watch(&pcap.bytes, MonitorConfig { packets: true, ..MonitorConfig::default() })
}

/// 300 packets, of which `to` says where each goes.
fn over(to: impl Fn(u32) -> (End, End)) -> Vec<Sent> {
    (0..300).map(|number| (i64::from(number) * 20, to(number).0, to(number).1, number)).collect()
}

#[test]
fn a_stream_over_several_addresses_is_one_stream() {
    let beside = |is: bool| (ALICE, if is { BOB_BESIDE } else { BOB });
    let cases = [
        ("every other packet over another port", over(|n| beside(n % 2 == 1))),
        ("two of three over another port", over(|n| beside(n % 3 != 0))),
        ("by chance", over(|n| beside(n.wrapping_mul(0x9E37_79B9) >> 31 == 1))),
        ("another port from 3 s on", over(|n| beside(n >= 150))),
        ("another source from 3 s on", over(|n| (if n < 150 { ALICE } else { ALICE_LATER }, BOB))),
        ("there and back", over(|n| (if n / 100 == 1 { ALICE_LATER } else { ALICE }, BOB))),
        ("both addresses change", over(|n| if n < 150 { (ALICE, BOB) } else { ((7, 1), (8, 2)) })),
    ];
    for (what, sent) in cases {
        let results = watched(sent);
        let int = |name| results.int("streams", name);
        assert_eq!(int("packets"), [300], "{what}");
        assert_eq!((int("lost"), int("expected"), int("paths")), (vec![0], vec![300], vec![2]));
        assert_eq!(
            (int("duplicates"), int("reordered"), int("restarts")),
            (vec![0], vec![0], vec![0])
        );
        assert_eq!(results.text("streams", "source"), ["10.0.0.1:5000"], "{what}");
        let of_flows = results.int("flows", "rtp");
        assert_eq!((of_flows.len(), of_flows.iter().sum()), (2, 300), "{what}");
        assert_eq!(results.int("packets", "stream"), [0; 300], "{what}");
    }
}

#[test]
fn what_was_lost_in_a_switch_is_lost_once() {
    let gone = 100..250;
    let to = |n| if n < 100 { (ALICE, BOB) } else { (ALICE_LATER, BOB) };
    let results = watched(over(to).into_iter().filter(|(.., n)| !gone.contains(n)));
    assert_eq!(results.int("streams", "lost"), [150]);
    assert_eq!(results.int("streams", "packets"), [150]);
}

#[test]
fn both_directions_have_the_first_addresses_of_both_ends() {
    let mut pcap = Pcap::new(1);
    for number in 0..300u32 {
        let (alice, bob) = if number < 150 { (ALICE, BOB) } else { (ALICE_LATER, BOB_BESIDE) };
        let back = Rtp { ssrc: 8, ..rtp(number) };
        let at_ns = BEGIN_NS + i64::from(number) * 20 * MS;
        pcap.frame(at_ns, &ethernet(&ipv4_udp(alice, bob, &rtp(number).bytes())));
        pcap.frame(at_ns, &ethernet(&ipv4_udp(bob, alice, &back.bytes())));
    }
    let results = watch(&pcap.bytes, MonitorConfig::default());
    assert_eq!(results.text("streams", "source"), ["10.0.0.1:5000", "10.0.0.2:6000"]);
    assert_eq!(results.text("streams", "destination"), ["10.0.0.2:6000", "10.0.0.1:5000"]);
    assert_eq!(results.int("flows", "streams"), [1; 4]);
}

/// A server renumbers what it forwards, because it leaves out different packets for each receiver.
#[test]
fn receivers_with_other_numbers_for_the_same_timestamps_stay_apart() {
    for ahead in [1, 20, 90] {
        let mut pcap = Pcap::new(1);
        for number in 0..300u32 {
            let at_ns = BEGIN_NS + i64::from(number) * 20 * MS;
            let other = Rtp { seq: (65_400 + number + ahead) as u16, ..rtp(number) };
            pcap.frame(at_ns, &ethernet(&ipv4_udp(ALICE, BOB, &rtp(number).bytes())));
            pcap.frame(at_ns + MS, &ethernet(&ipv4_udp(ALICE, (3, 7000), &other.bytes())));
        }
        let results = watch(&pcap.bytes, MonitorConfig::default());
        assert_eq!(results.int("streams", "packets"), [300, 300], "{ahead}");
        assert_eq!(results.int("streams", "paths"), [1, 1], "{ahead}");
    }
}

#[test]
fn two_calls_or_receivers_with_one_ssrc_stay_apart() {
    let carol: End = (3, 7000);
    let first = || over(|_| (ALICE, BOB));
    let and = |others: Vec<Sent>| [first(), others].concat();
    let from = |first: u32, at_ms: i64| -> Vec<Sent> {
        let at = |n: u32| at_ms + i64::from(n) * 20;
        (0..100).map(|n| (at(n), (4, 1), BOB, first + n)).collect()
    };
    // A server sends what it forwards in bursts: to one receiver, then to the other one.
    let bursts: Vec<Sent> = (0..60)
        .flat_map(|burst| {
            let order = if burst % 2 == 0 { [carol, BOB] } else { [BOB, carol] };
            let of = move |to: End, delay: i64| {
                (0..5).map(move |n| (i64::from(burst) * 100 + delay, ALICE, to, burst * 5 + n))
            };
            of(order[0], 0).chain(of(order[1], 10))
        })
        .collect();
    let cases = [
        ("at once, from another number", and(from(9_000, 7))),
        ("at once, ahead by less than a minute", and(from(1_500, 7))),
        ("later, from another number", and(from(20_000, 8_000))),
        ("later, with the same numbers", and(from(0, 8_000))),
        ("two receivers", bursts),
    ];
    for (what, mut sent) in cases {
        sent.sort_by_key(|(at_ms, ..)| *at_ms);
        let results = watched(sent.clone());
        assert_eq!(results.int("streams", "paths"), [1, 1], "{what}");
        assert_eq!(results.int("streams", "lost"), [0, 0], "{what}");
        let packets: i64 = results.int("streams", "packets").iter().sum();
        assert_eq!(packets, sent.len() as i64, "{what}");
    }
}
