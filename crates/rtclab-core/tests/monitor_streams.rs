//! The monitor on captures built by hand.

use crate::monitor_support::{
    BEGIN_NS, Pcap, Results, Rtp, channel_data, ethernet, ipv4_udp, udp, watch,
};
use rtclab_core::monitor::{MonitorConfig, Sdp};

const ALICE: (u8, u16) = (1, 5000);
const BOB: (u8, u16) = (2, 6000);
const TURN: (u8, u16) = (9, 3478);

/// 50 packets a second of 160 bytes of payload at 48 kHz: 188 B of IP, 75.2 kbit/s.
fn audio(index: u32) -> Rtp {
    Rtp {
        ssrc: 7,
        payload_type: 111,
        seq: (65_500 + index) as u16,
        timestamp: index.wrapping_mul(960),
        marker: false,
        payload_bytes: 148,
    }
}

fn at(index: u32) -> i64 {
    BEGIN_NS + i64::from(index) * 20_000_000
}

fn capture(indices: impl Iterator<Item = u32>) -> Results {
    let mut pcap = Pcap::new(1);
    for index in indices {
        pcap.frame(at(index), &ethernet(&ipv4_udp(ALICE, BOB, &audio(index).bytes())));
    }
    watch(&pcap.bytes, MonitorConfig::default())
}

#[test]
fn a_stream_has_its_counts_rate_and_kind() {
    let results = capture(0..500);
    let int = |name| results.int("streams", name)[0];
    assert_eq!((int("packets"), int("bytes"), int("payload_bytes")), (500, 500 * 188, 500 * 148));
    assert_eq!((int("lost"), int("duplicates"), int("reordered"), int("restarts")), (0, 0, 0, 0));
    assert_eq!((int("expected"), int("ssrc"), int("payload_type")), (500, 7, 111));
    assert_eq!((int("first_ns"), int("last_ns")), (at(0), at(499)));
    assert_eq!((int("clock_rate"), int("leg_of")), (48_000, -1));
    assert_eq!(results.float("streams", "rate_mean_bps"), [75_200.0]);
    assert_eq!(results.float("streams", "rate_sd_bps"), [0.0]);
    assert!(results.float("streams", "jitter_ms")[0] < 1e-6);
    assert_eq!(results.text("streams", "kind"), ["audio"]);
    assert_eq!(results.text("streams", "kind_origin"), ["inferred"]);
    assert_eq!(results.text("streams", "source"), ["10.0.0.1:5000"]);
    assert_eq!(results.int("flows", "rtp"), [500]);
    assert_eq!(results.int("flows", "other"), [0]);
}

#[test]
fn loss_duplicates_and_reordering_are_counted_over_the_wrap() {
    // 36 is the first number after the wrap: 30..34 lost, 40 twice, 45 and 46 swapped.
    let order = (0..30).chain(34..41).chain([40, 41, 42, 43, 44, 46, 45]).chain(47..100);
    let results = capture(order);
    let int = |name| results.int("streams", name)[0];
    assert_eq!((int("packets"), int("expected")), (97, 100));
    assert_eq!((int("lost"), int("duplicates"), int("reordered")), (4, 1, 1));
}

#[test]
fn a_stream_without_two_consecutive_packets_is_found() {
    for order in
        [(0..100).filter(|i| i % 2 == 0).collect::<Vec<_>>(), (0..100).map(|i| i ^ 1).collect()]
    {
        let results = capture(order.iter().copied());
        assert_eq!(results.int("streams", "packets"), [order.len() as i64]);
        assert_eq!(results.int("flows", "other"), [0]);
    }
}

#[test]
fn a_stream_that_restarts_at_another_sequence_number_has_no_loss() {
    let results = capture((0..100).chain(40_000..40_100));
    let int = |name| results.int("streams", name)[0];
    assert_eq!((int("packets"), int("expected"), int("lost"), int("restarts")), (200, 200, 0, 1));
    assert_eq!((results.int("flows", "rtp"), results.int("flows", "other")), (vec![200], vec![0]));
}

#[test]
fn a_payload_type_of_another_clock_changes_neither_the_jitter_nor_the_main_clock() {
    let mut pcap = Pcap::new(1);
    for index in 0..300 {
        // Comfort noise, 8 kHz by RFC 3551, comes first.
        let payload_type = if index % 150 == 0 { 13 } else { 111 };
        let packet = Rtp { payload_type, ..audio(index) };
        pcap.frame(at(index), &ethernet(&ipv4_udp(ALICE, BOB, &packet.bytes())));
    }
    let results = watch(&pcap.bytes, MonitorConfig::default());
    assert_eq!(results.int("streams", "clock_rate"), [48_000]);
    assert_eq!(results.text("streams", "clock_rate_origin"), ["inferred"]);
    assert!(results.float("streams", "jitter_max_ms")[0] < 1e-6);
}

#[test]
fn every_link_type_shows_the_same_stream() {
    let ip = |index: u32| ipv4_udp(ALICE, BOB, &audio(index).bytes());
    let headers: [(u32, &[u8]); 8] = [
        (1, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x81, 0, 0, 5, 0x88, 0xA8, 0, 6, 8, 0]),
        (113, &[0, 4, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0]),
        (276, &[8, 0, 0, 0, 0, 0, 0, 3, 0, 1, 4, 6, 0, 0, 0, 0, 0, 0, 0, 0]),
        (101, &[]),
        (228, &[]),
        (0, &[2, 0, 0, 0]),
        (108, &[0, 0, 0, 2]),
        (12, &[]),
    ];
    for (link_type, header) in headers {
        let mut pcap = Pcap::new(link_type);
        (0..10).for_each(|index| pcap.frame(at(index), &[header, &ip(index)].concat()));
        let results = watch(&pcap.bytes, MonitorConfig::default());
        assert_eq!(results.int("streams", "packets"), [10], "link type {link_type}");
        assert_eq!(results.int("streams", "bytes"), [1880], "link type {link_type}");
    }
}

#[test]
fn a_stream_is_found_in_ipv6() {
    let mut pcap = Pcap::new(1);
    for index in 0..10 {
        let datagram = udp(5000, 6000, &audio(index).bytes());
        let mut ip = vec![0x60, 0, 0, 0, 0, datagram.len() as u8, 17, 64];
        ip.extend_from_slice(&[0x20; 32]);
        ip.extend_from_slice(&datagram);
        pcap.frame(at(index), &ethernet(&ip));
    }
    let results = watch(&pcap.bytes, MonitorConfig::default());
    assert_eq!(results.int("streams", "bytes"), [10 * 208]);
}

/// Of 20 packets, 2 have Not-ECT, 4 ECT(0), 6 ECT(1) and 8 CE, all with DSCP 46.
#[test]
fn codepoints_are_counted_in_ipv4_and_ipv6() {
    const NAMES: [&str; 4] = ["not-ect", "ect1", "ect0", "ce"];
    let codepoint = |index| match index {
        0..2 => 0,
        2..6 => 2,
        6..12 => 1,
        _ => 3,
    };
    for v6 in [false, true] {
        let mut pcap = Pcap::new(1);
        for index in 0..20 {
            let class = 46 << 2 | codepoint(index);
            let mut ip = ipv4_udp(ALICE, BOB, &audio(index).bytes());
            ip[1] = class;
            if v6 {
                let datagram = ip.split_off(20);
                ip = vec![0x60 | class >> 4, class << 4, 0, 0, 0, datagram.len() as u8, 17, 64];
                ip.extend_from_slice(&[0x20; 32]);
                ip.extend_from_slice(&datagram);
            }
            pcap.frame(at(index), &ethernet(&ip));
        }
        let config = MonitorConfig { packets: true, ..MonitorConfig::default() };
        let results = watch(&pcap.bytes, config);
        for table in ["streams", "flows"] {
            let counts = ["not_ect", "ect0", "ect1", "ce"].map(|name| results.int(table, name));
            assert_eq!(counts, [[2], [4], [6], [8]], "{table}");
        }
        let expected: Vec<&str> =
            (0..20).map(|index| NAMES[usize::from(codepoint(index))]).collect();
        assert_eq!(results.text("packets", "ecn"), expected);
    }
}

#[test]
fn bytes_of_fragments_count_for_their_packet_in_any_order() {
    let fragment = |whole: &[u8], id: u8, from: usize, to: usize| {
        let (header, payload) = whole.split_at(20);
        let mut ip = [header, &payload[from..to]].concat();
        let total = (20 + to - from) as u16;
        ip[2..4].copy_from_slice(&total.to_be_bytes());
        ip[4..6].copy_from_slice(&[0, id]);
        let more_fragments = if to < payload.len() { 0x2000 } else { 0 };
        ip[6..8].copy_from_slice(&(more_fragments | (from / 8) as u16).to_be_bytes());
        ethernet(&ip)
    };
    let mut pcap = Pcap::new(1);
    for index in 0..200u32 {
        let packet = Rtp { payload_bytes: 1000, ..audio(index) }; // 1020 B after the IP header
        let whole = ipv4_udp(ALICE, BOB, &packet.bytes());
        let mut parts = [(0, 400), (400, 800), (800, 1020)];
        parts.rotate_left(index as usize % 3);
        for (from, to) in parts {
            pcap.frame(at(index), &fragment(&whole, index as u8, from, to));
        }
    }
    let config = MonitorConfig { packets: true, ..MonitorConfig::default() };
    let results = watch(&pcap.bytes, config);
    assert_eq!(results.int("streams", "packets"), [200]);
    // Later fragments of the first packet, 420 and 240 B, arrived before the stream was accepted.
    assert_eq!(results.int("streams", "bytes"), [200 * 1080 - 660]);
    assert_eq!(results.float("streams", "rate_mean_bps"), [50.0 * 1080.0 * 8.0]);
    assert_eq!(results.int("flows", "bytes"), [200 * 1080]);
    assert_eq!(results.int("packets", "size_bytes"), [1080; 200]);
}

#[test]
fn a_header_only_capture_gives_the_same_tables_as_a_full_one_but_for_a_note() {
    let cut = "packets whose payload the capture cut, counted with their length";
    let tables = |snaplen, notes: &[&str]| {
        let mut pcap = Pcap::with_snaplen(1, snaplen);
        for index in 0..200 {
            let data = channel_data(0x4000, &audio(index).bytes());
            pcap.frame(at(index), &ethernet(&ipv4_udp(ALICE, TURN, &data)));
        }
        let mut results = watch(&pcap.bytes, MonitorConfig::default());
        assert_eq!(results.text("notes", "note"), notes);
        results.0.tables.retain(|table| table.name != "notes");
        // As text, in which NaN equals NaN.
        format!("{:?}", results.0.tables)
    };
    assert_eq!(tables(64, &["frames", cut]), tables(262_144, &["frames"]));
}

#[test]
fn extensions_are_read_as_far_as_they_are_captured() {
    // Ethernet 14, IPv4 20, UDP 8, RTP 12 and 4 of 12 bytes of extensions: abs-send-time, and no more.
    for (snaplen, ids) in [(61, [-1, -1]), (62, [2, -1]), (65, [2, 3])] {
        let mut pcap = Pcap::with_snaplen(1, snaplen);
        for index in 0..100u32 {
            let [_, a, b, c] = (index * 5243).to_be_bytes(); // 20 ms in 2^-18 s
            let [high, low] = (index as u16).to_be_bytes();
            let bytes = audio(index).with_extensions(&[0x22, a, b, c, 0x31, high, low]);
            pcap.frame(at(index), &ethernet(&ipv4_udp(ALICE, BOB, &bytes)));
        }
        let results = watch(&pcap.bytes, MonitorConfig::default());
        let found =
            ["abs_send_time_id", "transport_seq_id"].map(|id| results.int("streams", id)[0]);
        assert_eq!(found, ids, "{snaplen}");
        assert_eq!(results.int("streams", "payload_bytes"), [100 * 148], "{snaplen}");
    }
}

#[test]
fn random_udp_makes_no_streams() {
    let mut random = 1u64;
    let mut pcap = Pcap::new(1);
    for index in 0..20_000 {
        let mut payload = Vec::new();
        for _ in 0..8 {
            // A linear congruential generator; its upper bits are random enough.
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            payload.extend_from_slice(&(random >> 32).to_be_bytes()[4..]);
        }
        payload[0] = 0x80;
        pcap.frame(at(index), &ethernet(&ipv4_udp(ALICE, BOB, &payload)));
    }
    let results = watch(&pcap.bytes, MonitorConfig::default());
    assert!(results.int("streams", "packets").is_empty());
    assert_eq!(results.int("flows", "packets"), [20_000]);
    assert_eq!(results.int("flows", "rtp"), [0]);
}

#[test]
fn both_legs_of_a_relayed_call_are_one_stream() {
    let mut pcap = Pcap::new(1);
    // ChannelBind: channel 0x4001 to 10.0.0.2:6000.
    let mut bind = vec![0, 9, 0, 20, 0x21, 0x12, 0xA4, 0x42];
    bind.extend_from_slice(&[3; 12]);
    bind.extend_from_slice(&[0, 0x0C, 0, 4, 0x40, 1, 0, 0, 0, 0x12, 0, 8, 0, 1]);
    bind.extend_from_slice(&(6000u16 ^ 0x2112).to_be_bytes());
    bind.extend_from_slice(&[10 ^ 0x21, 0x12, 0xA4, 2 ^ 0x42]);
    pcap.frame(at(0), &ethernet(&ipv4_udp(ALICE, TURN, &bind)));
    for index in 0..100 {
        let packet = audio(index).bytes();
        let to_server = ipv4_udp(ALICE, TURN, &channel_data(0x4001, &packet));
        pcap.frame(at(index), &ethernet(&to_server));
        pcap.frame(at(index) + 100_000, &ethernet(&ipv4_udp(TURN, BOB, &packet)));
    }
    let results = watch(&pcap.bytes, MonitorConfig::default());
    assert_eq!(results.int("streams", "packets"), [100, 100]);
    assert_eq!(results.int("streams", "bytes"), [100 * 192, 100 * 188]);
    assert_eq!(results.int("streams", "leg_of"), [-1, 0]);
    assert_eq!(results.text("streams", "relay"), ["channel 0x4001", ""]);
    assert_eq!(results.text("streams", "peer"), ["10.0.0.2:6000", ""]);
    assert_eq!(results.int("flows", "relayed"), [100, 0]);
    assert_eq!(results.int("flows", "stun"), [1, 0]);
}

#[test]
fn the_same_ssrc_with_other_packets_is_not_a_leg() {
    let mut pcap = Pcap::new(1);
    for index in 0..100 {
        pcap.frame(at(index), &ethernet(&ipv4_udp(ALICE, BOB, &audio(index).bytes())));
        let other = Rtp { timestamp: 5 + index * 960, ..audio(index) };
        pcap.frame(at(index), &ethernet(&ipv4_udp(BOB, ALICE, &other.bytes())));
    }
    let results = watch(&pcap.bytes, MonitorConfig::default());
    assert_eq!(results.int("streams", "leg_of"), [-1, -1]);
}

/// 30 frames of 4 packets per second. Every tenth packet is retransmitted in a separate stream.
fn video_with_rtx(sdp: &str) -> Results {
    let mut pcap = Pcap::new(1);
    let (mut seq, mut rtx_seq) = (0u16, 900u16);
    for frame in 0..90u32 {
        for part in 0..4 {
            let media = Rtp {
                ssrc: 1,
                payload_type: 96,
                seq,
                timestamp: frame * 3000,
                marker: part == 3,
                payload_bytes: 1000,
            };
            let at_ns = BEGIN_NS + i64::from(frame) * 33_333_333 + part * 1_000_000;
            pcap.frame(at_ns, &ethernet(&ipv4_udp(ALICE, BOB, &media.bytes())));
            if seq % 10 == 0 {
                let rtx =
                    Rtp { ssrc: 2, payload_type: 97, seq: rtx_seq, payload_bytes: 1002, ..media };
                let rtx = rtx.bytes();
                pcap.frame(at_ns + 100_000_000, &ethernet(&ipv4_udp(ALICE, BOB, &rtx)));
                rtx_seq += 1;
            }
            seq += 1;
        }
    }
    watch(&pcap.bytes, MonitorConfig { sdp: Sdp::parse(sdp), ..MonitorConfig::default() })
}

#[test]
fn retransmissions_are_recognised_by_their_timestamps() {
    let results = video_with_rtx("");
    assert_eq!(results.text("streams", "kind"), ["video", "rtx"]);
    assert_eq!(results.text("streams", "kind_origin"), ["inferred", "inferred"]);
    assert_eq!(results.int("streams", "packets"), [360, 36]);
    assert_eq!(results.int("streams", "frames"), [90, 36]);
    assert_eq!(results.int("streams", "markers")[0], 90);
    assert_eq!(results.int("streams", "clock_rate")[0], 90_000);
    let frames_per_second = results.float("streams", "frames_per_second")[0];
    assert!((frames_per_second - 30.0).abs() < 0.1, "{frames_per_second}");
}

#[test]
fn an_sdp_sets_kinds_and_clock_rates() {
    let sdp = "m=video 9 x 96 97\na=rtpmap:96 flexfec-03/45000\na=rtpmap:97 VP8/90000\n";
    let results = video_with_rtx(sdp);
    assert_eq!(results.text("streams", "kind"), ["fec", "video"]);
    assert_eq!(results.text("streams", "kind_origin"), ["sdp", "sdp"]);
    assert_eq!(results.int("streams", "clock_rate"), [45_000, 90_000]);
    assert_eq!(results.text("streams", "codec"), ["flexfec-03", "VP8"]);
}

#[test]
fn a_change_of_payload_type_stays_in_the_stream() {
    let mut pcap = Pcap::new(1);
    for index in 0..100 {
        let payload_type = if index % 10 == 0 { 13 } else { 111 };
        let packet = Rtp { payload_type, ..audio(index) };
        pcap.frame(at(index), &ethernet(&ipv4_udp(ALICE, BOB, &packet.bytes())));
    }
    let results = watch(&pcap.bytes, MonitorConfig::default());
    assert_eq!(results.int("streams", "payload_type"), [111]);
    assert_eq!(results.text("streams", "payload_types"), ["111: 90, 13: 10"]);
}

#[test]
fn jitter_of_packets_alternately_late_by_1_6_ms_matches_rfc_3550() {
    let mut pcap = Pcap::new(1);
    for index in 0..500 {
        let late_ns = i64::from(index % 2) * 1_600_000;
        pcap.frame(at(index) + late_ns, &ethernet(&ipv4_udp(ALICE, BOB, &audio(index).bytes())));
    }
    let results = watch(&pcap.bytes, MonitorConfig::default());
    let jitter_ms = results.float("streams", "jitter_ms")[0];
    assert!((jitter_ms - 1.6).abs() < 1e-6, "{jitter_ms}");
}

#[test]
fn streams_above_the_limit_are_counted_and_noted() {
    let mut pcap = Pcap::new(1);
    for index in 0..10 {
        for ssrc in 0..5 {
            let packet = Rtp { ssrc, ..audio(index) };
            pcap.frame(at(index), &ethernet(&ipv4_udp(ALICE, BOB, &packet.bytes())));
        }
    }
    let results = watch(&pcap.bytes, MonitorConfig { max_streams: 3, ..MonitorConfig::default() });
    assert_eq!(results.int("streams", "packets"), [10; 3]);
    assert_eq!(results.note("packets of RTP streams above the limit"), 20);
    assert_eq!(results.note("only the first 3 streams"), -1); // present, without a number
}

#[test]
fn a_call_is_found_after_more_flows_than_are_kept() {
    let mut pcap = Pcap::new(1);
    for flow in 0..10_100u32 {
        let [_, _, net, host] = flow.to_be_bytes();
        pcap.frame(at(0), &ethernet(&ipv4_udp((host, 1000 + u16::from(net)), (9, 53), b"name?")));
    }
    (0..100).for_each(|i| pcap.frame(at(i), &ethernet(&ipv4_udp(ALICE, BOB, &audio(i).bytes()))));
    let config = MonitorConfig { packets: true, ..MonitorConfig::default() };
    let results = watch(&pcap.bytes, config);
    assert_eq!(results.int("streams", "packets"), [100]);
    assert_eq!(results.note("packets of flows above the limit"), 100);
    let last = |name| *results.int("flows", name).last().unwrap();
    assert_eq!((last("packets"), last("bytes"), last("rtp")), (100, 100 * 188, 100));
    assert_eq!((last("not_ect"), last("ce")), (100, 0));
    assert_eq!(results.text("packets", "protocol").iter().filter(|p| **p == "rtp").count(), 100);
}

#[test]
fn packets_and_seconds_have_tables_of_their_own() {
    let mut pcap = Pcap::new(1);
    for index in 0..100 {
        pcap.frame(at(index), &ethernet(&ipv4_udp(ALICE, BOB, &audio(index).bytes())));
    }
    let config = MonitorConfig { packets: true, seconds: true, ..MonitorConfig::default() };
    let results = watch(&pcap.bytes, config);
    let begin = |name| results.int("packets", name)[..2].to_vec();
    assert_eq!(begin("at_ns"), [at(0), at(1)]);
    assert_eq!(begin("stream"), [0, 0]); // the first one as well, although it was on probation
    assert_eq!(begin("seq"), [65_500, 65_501]);
    assert_eq!(results.int("packets", "seq_extended")[99], 65_536 + 65_599);
    assert_eq!(results.text("packets", "protocol"), ["rtp"; 100]);
    assert_eq!(results.text("packets", "kind"), ["audio"; 100]);
    assert_eq!(results.int("seconds", "at_ns"), [at(0), at(50)]);
    assert_eq!(results.int("seconds", "packets"), [50, 50]);
}

#[test]
fn send_times_and_transport_numbers_are_inferred_and_give_the_delay() {
    let mut pcap = Pcap::new(1);
    for index in 0..200u32 {
        // Every fourth packet is 10 ms late.
        let late_ns = if index % 4 == 3 { 10_000_000 } else { 0 };
        let sent = (u64::from(index) * 20 * (1 << 18) / 1000 % (1 << 24)) as u32;
        let [_, a, b, c] = sent.to_be_bytes();
        let [high, low] = (index as u16).to_be_bytes();
        let bytes = audio(index).with_extensions(&[0x22, a, b, c, 0x31, high, low]);
        pcap.frame(at(index) + late_ns, &ethernet(&ipv4_udp(ALICE, BOB, &bytes)));
    }
    let config = MonitorConfig { packets: true, ..MonitorConfig::default() };
    let results = watch(&pcap.bytes, config);
    assert_eq!(results.int("streams", "abs_send_time_id"), [2]);
    assert_eq!(results.text("streams", "abs_send_time_origin"), ["inferred"]);
    assert_eq!(results.int("streams", "transport_seq_id"), [3]);
    assert_eq!(results.int("packets", "transport_seq")[199], 199);
    let max_ms = results.float("streams", "delay_above_min_max_ms")[0];
    assert!((max_ms - 10.0).abs() < 0.01, "{max_ms}");
}
