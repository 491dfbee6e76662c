//! Packets in tunnels and behind the headers of every link type: the call inside is what the monitor shows,
//! and what it cannot read has a name.

use crate::monitor_support::wrappings::{WRAPPINGS, Wrapping, ethernet, outer_ip, outer_udp};
use crate::monitor_support::{BEGIN_NS, Pcap, Results, Rtp, ipv4_udp, udp, watch};
use proptest::prelude::*;
use rtclab_core::monitor::MonitorConfig;
use rtclab_core::record::Column;
use std::slice;

const ALICE: (u8, u16) = (1, 5000);
const BOB: (u8, u16) = (2, 6000);
const MS: i64 = 1_000_000;
const UDP_AND_RTP_BYTES: usize = 8 + 12;
const CUT_INSIDE: &str = "packets to ports of tunnels, cut off";

/// Source, destination, SSRC, payload type and bytes of payload of a stream.
type OfStream = ((u8, u16), (u8, u16), u32, u8, usize);

/// Three streams, of which one has packets so short that Ethernet pads them.
const STREAMS: [OfStream; 3] =
    [(ALICE, BOB, 7, 111, 80), (ALICE, BOB, 8, 96, 900), (BOB, ALICE, 9, 111, 2)];

fn packet(stream: usize, index: u16) -> Vec<u8> {
    let (.., ssrc, payload_type, payload_bytes) = STREAMS[stream];
    let timestamp = u32::from(index) * 960;
    Rtp { ssrc, payload_type, seq: index, timestamp, marker: false, payload_bytes }.bytes()
}

fn ip_packet(v6: bool, stream: usize, index: u16) -> Vec<u8> {
    let (from, to, ..) = STREAMS[stream];
    let payload = packet(stream, index);
    if !v6 {
        return ipv4_udp(from, to, &payload);
    }
    let datagram = udp(from.1, to.1, &payload);
    let mut bytes = vec![0x60, 0, 0, 0, 0, 0, 17, 64];
    bytes[4..6].copy_from_slice(&(datagram.len() as u16).to_be_bytes());
    [from.0, to.0].iter().for_each(|host| {
        bytes.extend_from_slice(&[0x20; 15]);
        bytes.push(*host);
    });
    [bytes, datagram].concat()
}

/// Watches frames of a link type, 5 ms apart, of which the capture holds at most `snaplen` bytes.
fn watch_frames(link_type: u32, snaplen: usize, frames: &[Vec<u8>]) -> Results {
    let mut pcap = Pcap::with_snaplen(link_type, snaplen);
    for (index, frame) in frames.iter().enumerate() {
        pcap.frame(BEGIN_NS + index as i64 * 5 * MS, frame);
    }
    watch(&pcap.bytes, MonitorConfig::default())
}

const WHOLE: usize = 65_535;

fn watch_call(wrapping: &Wrapping, v6: bool) -> Results {
    let packets = (0..60).flat_map(|index| (0..3).map(move |stream| (stream, index)));
    let frames: Vec<_> =
        packets.map(|(stream, index)| (wrapping.wrap)(&ip_packet(v6, stream, index))).collect();
    watch_frames(wrapping.link_type, WHOLE, &frames)
}

/// A table without the column that cooked captures alone have.
fn columns(results: &Results, table: &str) -> Vec<(String, String)> {
    let found = results.0.tables.iter().find(|found| found.name == table).expect("the table");
    let shown = |(name, column): &(&'static str, Column)| {
        let values = match column {
            Column::Text(_) => format!("{:?}", results.text(table, name)),
            other => format!("{other:?}"),
        };
        (name.to_string(), values)
    };
    found.columns.iter().filter(|(name, _)| *name != "direction").map(shown).collect()
}

/// How many frames are in flows or in a note about what was not read.
fn accounted(results: &Results) -> i64 {
    let notes = results.text("notes", "note");
    let unread =
        |note: &str| ["not read", "skipped", "without data"].iter().any(|w| note.contains(w));
    let counts = results.int("notes", "count");
    let unread: i64 =
        notes.iter().zip(counts).filter(|(note, _)| unread(note)).map(|(_, count)| count).sum();
    let later = results.note("later fragments of IP packets");
    results.int("flows", "packets").iter().sum::<i64>() + unread + later
}

#[test]
fn a_call_in_any_wrapping_has_the_flows_and_streams_of_the_plain_call() {
    for v6 in [false, true] {
        let plain = watch_call(&WRAPPINGS[0], v6);
        assert_eq!(plain.int("streams", "lost"), [0; 3]);
        assert_eq!(plain.int("streams", "packets"), [60; 3]);
        for wrapping in WRAPPINGS {
            let found = watch_call(wrapping, v6);
            for table in ["flows", "streams"] {
                assert_eq!(columns(&found, table), columns(&plain, table), "{}", wrapping.name);
            }
            let inside = wrapping.tunnels.iter().map(|name| format!("packets inside {name}"));
            let notes: Vec<String> = ["frames".to_owned()].into_iter().chain(inside).collect();
            assert_eq!(found.text("notes", "note"), notes, "{}", wrapping.name);
            assert!(found.int("notes", "count").iter().all(|count| *count == 180));
        }
    }
}

#[test]
fn a_frame_cut_anywhere_is_in_its_flow_with_its_length_or_in_a_note() {
    for wrapping in WRAPPINGS {
        let ip = ip_packet(false, 0, 7);
        let frame = (wrapping.wrap)(&ip);
        let begin = frame.windows(ip.len()).position(|window| window == ip).expect("the packet");
        for captured in 0..frame.len() {
            let found = watch_frames(wrapping.link_type, captured, slice::from_ref(&frame));
            let context = format!("{} cut at {captured}", wrapping.name);
            assert_eq!(accounted(&found), 1, "{context}");
            let cut = found.note("packets skipped because the capture cut off their headers");
            let malformed = found.note("packets skipped because their headers are malformed");
            assert_eq!(malformed, 0, "{context}");
            let sources = found.text("flows", "source");
            if captured >= begin + ip.len() - UDP_AND_RTP_BYTES - 80 + 8 {
                assert_eq!(sources, ["10.0.0.1:5000"], "{context}");
                assert_eq!(found.int("flows", "bytes"), [ip.len() as i64], "{context}");
                let cut_payloads = found.note("packets whose payload the capture cut");
                assert_eq!(cut_payloads == 1, captured < begin + ip.len(), "{context}");
            } else {
                let outer = i64::from(sources == ["203.0.113.1:50000"]);
                assert_eq!(outer, found.note(CUT_INSIDE), "{context}");
                assert_eq!(outer + cut, 1, "{context}");
            }
        }
    }
}

#[test]
fn a_call_seen_inside_and_outside_of_its_tunnel_has_two_legs_and_no_duplicates() {
    let vxlan = WRAPPINGS.iter().find(|wrapping| wrapping.name == "VXLAN").expect("it is there");
    let ways = [WRAPPINGS.iter().find(|it| it.name == "Ethernet").expect("it is there"), vxlan];
    let frames = (0..60).flat_map(|index| ways.map(|way| (way.wrap)(&ip_packet(false, 0, index))));
    let found = watch_frames(1, WHOLE, &frames.collect::<Vec<_>>());
    assert_eq!(found.int("flows", "packets"), [60, 60]);
    assert_eq!(found.int("streams", "duplicates"), [0, 0]);
    assert_eq!(found.int("streams", "leg_of"), [-1, 0]);
}

#[test]
fn a_call_on_the_port_of_a_tunnel_is_a_call() {
    for port in [4789, 8472, 4790, 6081, 2152, 4754, 6635] {
        let frames: Vec<_> = (0..60).map(|index| outer_udp(port, &packet(0, index))).collect();
        let found = watch_frames(1, WHOLE, &frames);
        assert_eq!(found.text("flows", "destination"), [format!("203.0.113.2:{port}")]);
        assert_eq!(found.int("flows", "rtp"), [60], "{port}");
        assert_eq!(found.int("streams", "lost"), [0], "{port}");
        assert_eq!(found.text("notes", "note"), ["frames"], "{port}");
    }
}

#[test]
fn a_datagram_is_a_tunnel_only_if_the_lengths_inside_agree() {
    let ip = ip_packet(false, 0, 7);
    for wrapping in WRAPPINGS.iter().filter(|it| ["VXLAN", "Geneve", "GTP-U"].contains(&it.name)) {
        let whole = (wrapping.wrap)(&ip);
        let length = whole.windows(ip.len()).position(|window| window == ip).unwrap() + 3;
        for difference in [-1, 1] {
            let mut frame = whole.clone();
            frame[length] = frame[length].wrapping_add_signed(difference);
            let found = watch_frames(1, WHOLE, &[frame]);
            assert_eq!(found.text("flows", "source"), ["203.0.113.1:50000"], "{}", wrapping.name);
            assert_eq!(found.int("flows", "other"), [1]);
            assert_eq!(found.text("notes", "note"), ["frames"]);
        }
    }
}

#[test]
fn a_packet_in_a_fragmented_tunnel_counts_once_with_its_own_length() {
    let ip = ip_packet(false, 1, 7);
    let [high, low] = (ip.len() as u16).to_be_bytes();
    let gre = [&[0, 0, 8, 0][..], &ip].concat();
    let gtp_u = [&[0x30, 0xFF, high, low, 0, 0, 0, 1][..], &ip].concat();
    for (protocol, content) in [(47, gre), (17, udp(50_000, 2152, &gtp_u))] {
        let (first, second) = content.split_at(600);
        let [mut first, mut second] = [outer_ip(protocol, first), outer_ip(protocol, second)];
        first[6] = 0x20; // more fragments
        second[7] = 75; // 600 B
        let found = watch_frames(101, WHOLE, &[first, second]);
        assert_eq!(found.int("flows", "packets"), [1]);
        assert_eq!(found.int("flows", "bytes"), [ip.len() as i64]);
        assert_eq!(found.note("later fragments of IP packets"), 1);
        assert_eq!(found.note("packets whose payload the capture cut"), 0);
    }
}

#[test]
fn tcp_cut_by_the_snap_length_is_in_its_flow_and_not_malformed() {
    // 20 B of TCP, 12 B of options and 1000 B: with Ethernet and IP, the options end at 66.
    let mut tcp =
        [0x13, 0x88, 0x17, 0x70, 0, 0, 0, 1, 0, 0, 0, 0, 0x80, 0x10, 0, 0, 0, 0, 0, 0].to_vec();
    tcp.resize(20 + 12 + 1000, 1);
    let mut ip = outer_ip(6, &tcp);
    ip[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    for snaplen in [54, 64, 66, 96] {
        let found = watch_frames(1, snaplen, &[ethernet(0x0800, &ip), ethernet(0x0800, &ip)]);
        assert_eq!(found.text("flows", "transport"), ["tcp"], "{snaplen}");
        assert_eq!(found.int("flows", "packets"), [2], "{snaplen}");
        assert_eq!(found.int("flows", "bytes"), [2 * 1052], "{snaplen}");
        assert_eq!(found.note("packets whose payload the capture cut"), 2, "{snaplen}");
        assert_eq!(accounted(&found), 2, "{snaplen}");
    }
}

#[test]
fn a_capture_without_packets_says_so() {
    let found = watch(&Pcap::new(1).bytes, MonitorConfig::default());
    assert_eq!(found.text("notes", "note"), ["the capture has no packets"]);
}

#[test]
fn what_is_not_read_is_named() {
    let wlan = |control: [u8; 2], sequence: u8, rest: &[u8]| {
        [&control, &[0; 20][..], &[sequence, 0], rest].concat()
    };
    let icmp = outer_ip(1, &[8, 0, 0, 0, 0, 0, 0, 0]);
    let cases: [(u32, Vec<u8>, &str); 25] = [
        (252, vec![0; 40], "frames of Wireshark exported PDUs (link type 252) are not read"),
        (147, vec![0; 40], "frames of private use (link type 147) are not read"),
        (149, vec![0; 60], "frames of private use (link type 149) are not read"),
        (9999, vec![0; 40], "frames of link type 9999 are not read"),
        (0, vec![7, 0, 0, 0], "loopback frames of address family 7 are not read"),
        (1, ethernet(0x0806, &[0; 28]), "frames of ARP (Ethertype 0x0806) are not read"),
        (1, ethernet(0x1234, &[0; 28]), "frames of Ethertype 0x1234 are not read"),
        (
            1,
            ethernet(38, &[0x42, 0x42, 3]),
            "frames of spanning tree (802.2 LLC 0x42) are not read",
        ),
        (9, vec![0xC0, 0x21, 1], "PPP frames of LCP (protocol 0xc021) are not read"),
        (101, icmp, "IP packets of ICMP (protocol 1) are not read"),
        (101, outer_ip(50, &[0; 8]), "IP packets of IPsec ESP (protocol 50) are not read"),
        (101, outer_ip(200, &[]), "IP packets of protocol 200 are not read"),
        (
            101, // an acknowledgment of PPTP
            outer_ip(47, &[0x20, 0x81, 0x88, 0x0B, 0, 0, 0, 7, 0, 0, 0, 1]),
            "IP packets of other GRE (protocol 47) are not read",
        ),
        (
            113,
            [&[0, 4, 3, 56][..], &[0; 40]].concat(),
            "frames of Netlink (link type 253) are not read",
        ),
        (
            1,
            ethernet(46, &[0xAA, 0xAA, 3, 0, 0, 12, 1, 0x0B]),
            "frames of SNAP of other organisations (802.2 LLC 0xaa) are not read",
        ),
        (258, vec![0; 60], "frames of other PKTAP (link type 258) are not read"),
        (101, outer_ip(47, &[0, 0, 8, 6, 0]), "frames of ARP (Ethertype 0x0806) are not read"),
        (
            219,
            vec![0, 0, 1, 0, 0x10, 0, 0, 0],
            "MPLS frames with neither IP nor Ethernet inside are not read",
        ),
        (105, wlan([0x80, 0], 0, &[]), "802.11 frames without data, such as beacons"),
        (105, wlan([0x48, 0], 0, &[]), "802.11 frames without data, such as beacons"),
        (105, wlan([0x08, 0x41], 0, &[7; 40]), "encrypted 802.11 frames are not read"),
        (105, wlan([0x88, 1], 0, &[0x80, 0]), "aggregated 802.11 frames (A-MSDU) are not read"),
        (105, wlan([0x08, 1], 1, &[7; 40]), "later fragments of 802.11 frames are not read"),
        (
            127,
            [&[0, 0, 9, 0, 2, 0, 0, 0, 0x40][..], &wlan([0x08, 1], 0, &[7; 40])].concat(),
            "802.11 frames received with a bad checksum are not read",
        ),
        (
            101,
            outer_ip(17, &[0; 40])[..24].to_vec(),
            "packets skipped because the capture cut off their headers",
        ),
    ];
    for (link_type, frame, note) in cases {
        let found = watch_frames(link_type, WHOLE, &[frame.clone(), frame]);
        assert_eq!(found.note(note), 2, "{note}: {:?}", found.text("notes", "note"));
        assert_eq!(accounted(&found), 2);
    }
}

#[test]
fn eight_tunnels_in_each_other_are_read_and_hundreds_are_named() {
    let vxlan = |frame: &Vec<u8>| outer_udp(4789, &[&[8, 0, 0, 0, 0, 0, 7, 0][..], frame].concat());
    let ip = ip_packet(false, 0, 7);
    let nested = |times| (0..times).fold(ethernet(0x0800, &ip), |frame, _| vxlan(&frame));
    let found = watch_frames(1, WHOLE, &[nested(8)]);
    assert_eq!(found.text("flows", "source"), ["10.0.0.1:5000"]);
    let found = watch_frames(1, WHOLE, &[nested(300)]);
    assert_eq!(found.note("packets skipped because they have too many headers"), 1);
}

#[test]
fn kinds_beyond_the_most_frequent_share_a_note() {
    let frames: Vec<_> = (0..200).map(|kind| outer_ip(150 + kind % 100, &[])).collect();
    let found = watch_frames(101, WHOLE, &frames);
    assert_eq!(accounted(&found), 200);
    assert_eq!(found.note("frames of other kinds are not read"), 160);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_change_of_a_wrapped_packet_loses_it_or_panics(
        wrapping in 0..WRAPPINGS.len(), v6: bool, stream in 0usize..3, snaplen in 0usize..1100,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let wrapping = &WRAPPINGS[wrapping];
        let mut frame = (wrapping.wrap)(&ip_packet(v6, stream, 7));
        for (place, value) in changes {
            let headers = frame.len().min(120);
            frame[place.index(headers)] = value;
        }
        let found = watch_frames(wrapping.link_type, snaplen, &[frame]);
        prop_assert_eq!(accounted(&found), 1, "{}: {:?}", wrapping.name, found.text("notes", "note"));
    }

    #[test]
    fn no_bytes_of_any_link_type_are_lost_or_panic(
        link_type in prop::sample::select(
            WRAPPINGS.iter().map(|wrapping| wrapping.link_type).chain([252]).collect::<Vec<_>>()),
        frame in prop::collection::vec(any::<u8>(), 0..150), snaplen in 0usize..200,
    ) {
        let found = watch_frames(link_type, snaplen, &[frame]);
        prop_assert_eq!(accounted(&found), 1, "{:?}", found.text("notes", "note"));
    }

    #[test]
    fn no_payload_of_a_call_on_the_port_of_a_tunnel_is_taken_for_one(
        port in prop::sample::select(vec![4789, 8472, 4790, 6081, 2152, 4754, 6635]),
        payload in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let found = watch_frames(1, WHOLE, &[outer_udp(port, &payload)]);
        prop_assert_eq!(found.text("flows", "source"), ["203.0.113.1:50000"]);
    }
}
