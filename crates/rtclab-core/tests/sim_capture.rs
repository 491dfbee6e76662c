//! A simulated call as a capture agrees with the tables, in bytes that other programs can read.

use crate::monitor_support::watch;
use crate::support::{LINK, call};
use pcap_parser::pcapng::{Block, parse_block_le};
use rtclab_core::media::repair::Repair;
use rtclab_core::monitor::{CaptureReader, Direction, MonitorConfig, Sdp};
use rtclab_core::packet::{Content, payload_type};
use rtclab_core::record::Column;
use rtclab_core::rtp::RtcpPacket;
use rtclab_core::rtp::rtcp::parse_compound;
use rtclab_core::sim::{SimConfig, simulate, simulate_captured};
use std::collections::HashMap;

const UDP: u8 = 17;
const TCP: u8 = 6;

/// 2 % of packets are lost on each uplink, so that there are retransmissions.
fn lossy() -> String {
    format!(r#"{LINK}, "loss": {{"p": 0.0, "r": 1.0, "h": 0.98, "k": 0.98}}"#)
}

/// A packet passing a port.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    at_ns: i64,
    node: String,
    direction: Direction,
    wire_bytes: u32,
    bytes: Vec<u8>,
}

impl Seen {
    fn is(&self, node: &str, direction: Direction, protocol: u8) -> bool {
        self.node == node && self.direction == direction && self.bytes[9] == protocol
    }
}

/// Packets of a capture, read by our own reader.
fn read(capture: &[u8]) -> Vec<Seen> {
    let mut reader = CaptureReader::new(capture).expect("a capture");
    let mut seen = Vec::new();
    while let Some(frame) = reader.next_frame().expect("memory can be read") {
        seen.push((
            frame.interface,
            Seen {
                at_ns: frame.at_ns,
                node: String::new(),
                direction: frame.direction.expect("a direction"),
                wire_bytes: frame.wire_bytes,
                bytes: frame.bytes.to_vec(),
            },
        ));
    }
    assert_eq!(reader.faults(), Default::default());
    let name = |interface: u32| reader.interfaces()[interface as usize].name.clone();
    let named = |(interface, seen)| Seen { node: name(interface).expect("a name"), ..seen };
    seen.into_iter().map(named).collect()
}

/// Packets of a capture, read by `pcap-parser`.
fn read_by_another(mut capture: &[u8]) -> Vec<Seen> {
    let (mut names, mut seen) = (Vec::new(), Vec::new());
    while !capture.is_empty() {
        let (rest, block) = parse_block_le(capture).expect("a valid block");
        capture = rest;
        match block {
            Block::InterfaceDescription(interface) => {
                let name = interface.options.iter().find(|option| option.code.0 == 2);
                let name = name.expect("if_name");
                let name = &name.value[..usize::from(name.len)];
                names.push(String::from_utf8(name.to_vec()).expect("UTF-8"));
            }
            Block::EnhancedPacket(packet) => {
                let flags = packet.options.iter().find(|option| option.code.0 == 2);
                seen.push(Seen {
                    at_ns: (i64::from(packet.ts_high) << 32) | i64::from(packet.ts_low),
                    node: names[packet.if_id as usize].clone(),
                    direction: match flags.expect("epb_flags").value[0] {
                        1 => Direction::Inbound,
                        2 => Direction::Outbound,
                        other => panic!("direction {other}"),
                    },
                    wire_bytes: packet.origlen,
                    bytes: packet.data[..packet.caplen as usize].to_vec(),
                });
            }
            _ => {}
        }
    }
    seen
}

/// `sent_ns`, `delivered_ns` (-1 for null) and `size_bytes` of a flow's packets.
fn packets(config: &SimConfig, flow: &str) -> Vec<(i64, i64, i64)> {
    let result = simulate(config).expect("a run");
    let table = result.tables.iter().find(|table| table.name == "packets").expect("the table");
    let column =
        |name: &str| &table.columns.iter().find(|(found, _)| *found == name).expect("the column").1;
    let ints = |name: &str| match column(name) {
        Column::Int(values) => values,
        other => panic!("{name} is {other:?}"),
    };
    let Column::Text(flows) = column("flow") else { panic!("flow is text") };
    let (sent, delivered, size) = (ints("sent_ns"), ints("delivered_ns"), ints("size_bytes"));
    (0..flows.len())
        .filter(|&i| result.texts[flows[i] as usize] == flow)
        .map(|i| (sent[i], delivered[i], size[i]))
        .collect()
}

fn captured(config: &SimConfig) -> Vec<Seen> {
    read(&simulate_captured(config).expect("a run").1.pcapng)
}

/// Times and lengths of packets, in order of time.
fn times(seen: &[Seen], node: &str, direction: Direction, protocol: u8) -> Vec<(i64, i64)> {
    let chosen = seen.iter().filter(|seen| seen.is(node, direction, protocol));
    let mut times: Vec<_> = chosen.map(|seen| (seen.at_ns, i64::from(seen.wire_bytes))).collect();
    times.sort_unstable();
    times
}

fn delivered(packets: &[(i64, i64, i64)]) -> Vec<(i64, i64)> {
    let mut delivered: Vec<_> = packets.iter().filter(|p| p.1 >= 0).map(|p| (p.1, p.2)).collect();
    delivered.sort_unstable();
    delivered
}

fn sent(packets: &[(i64, i64, i64)]) -> Vec<(i64, i64)> {
    let mut sent: Vec<_> = packets.iter().map(|p| (p.0, p.2)).collect();
    sent.sort_unstable();
    sent
}

/// A call whose media goes through the relay `turn`, which has no access link of its own.
fn relayed(up: &str) -> SimConfig {
    let mut config = call(up, 10, 1);
    let mut json = serde_json::to_value(&config.network).expect("JSON");
    json["nodes"].as_array_mut().expect("nodes").push("turn".into());
    let routes = json["routes"].as_array_mut().expect("routes");
    for name in ["alice", "bob"] {
        for (from, to, way) in [(name, "turn", "up"), ("turn", name, "down")] {
            let paths = [format!("{name}.{way}")];
            routes.push(serde_json::json!({"from": from, "to": to, "paths": paths}));
        }
    }
    config.network = serde_json::from_value(json).expect("a network");
    config.connections[0].relay = Some("turn".into());
    config
}

#[test]
fn every_packet_is_inbound_when_it_was_sent_and_outbound_when_it_was_delivered() {
    let config = call(&lossy(), 10, 1);
    let (seen, packets) = (captured(&config), packets(&config, "alice->bob"));
    assert_eq!(times(&seen, "alice", Direction::Inbound, UDP), sent(&packets));
    assert_eq!(times(&seen, "bob", Direction::Outbound, UDP), delivered(&packets));
    let lost = packets.len() - delivered(&packets).len();
    assert!((1..packets.len() / 10).contains(&lost), "{lost} of {} lost", packets.len());
}

#[test]
fn a_relay_shows_every_packet_that_it_passes_on_twice_at_the_same_time() {
    let config = relayed(&lossy());
    let (seen, packets) = (captured(&config), packets(&config, "alice->bob"));
    let at_turn = |direction| times(&seen, "turn", direction, UDP);
    assert_eq!(at_turn(Direction::Inbound), at_turn(Direction::Outbound));
    // Alice's exchange with the relay belongs to no flow: three requests, more if one was lost.
    let allocations = |node: &str, direction| {
        let all = seen.iter().filter(|seen| seen.is(node, direction, UDP));
        all.filter(|seen| seen.wire_bytes == 148).count()
    };
    let requests = allocations("alice", Direction::Inbound);
    assert!((3..=5).contains(&requests), "{requests} requests");
    let mut media = times(&seen, "alice", Direction::Inbound, UDP);
    media.retain(|(_, size)| *size != 148);
    let mut of_flow = sent(&packets);
    of_flow.retain(|(_, size)| *size != 148);
    assert_eq!(media, of_flow);
}

#[test]
fn two_readers_see_the_same_packets_in_order_of_time() {
    let file = simulate_captured(&relayed(&lossy())).expect("a run").1.pcapng;
    let seen = read(&file);
    assert!(seen == read_by_another(&file));
    assert!(seen.is_sorted_by_key(|seen| seen.at_ns));
}

#[test]
fn ip_lengths_are_those_on_the_wire_and_no_srtp_tag_of_media_is_captured() {
    let seen = captured(&call(&lossy(), 10, 1));
    for seen in &seen {
        let total = u32::from(u16::from_be_bytes([seen.bytes[2], seen.bytes[3]]));
        assert_eq!(total, seen.wire_bytes);
        if seen.bytes[9] == TCP {
            continue;
        }
        // The last octet of padding gives its length, so such packets are captured whole.
        let is_padding = seen.bytes[28] & 0x20 != 0;
        let is_media = (128..192).contains(&seen.bytes[28]) && !is_padding;
        let tag = if is_media { 10 } else { 0 };
        assert!(seen.bytes.len() as u32 + tag <= total, "{seen:?}");
    }
}

#[test]
fn media_checks_and_handshakes_read_back_as_what_was_sent() {
    let mut config = call(&lossy(), 10, 1);
    for participant in &mut config.participants {
        // Captures have no more of FEC than its headers.
        participant.repair = Some(Repair::Rtx);
    }
    let seen = captured(&config);
    let mut counts = [0; 4];
    for seen in seen.iter().filter(|seen| seen.is("alice", Direction::Inbound, UDP)) {
        let payload = &seen.bytes[28..];
        let content = Content::read(payload, u64::from(seen.wire_bytes) - 28);
        match content.unwrap_or_else(|| panic!("unreadable: {seen:?}")) {
            Content::Rtp(rtp) => {
                assert!(
                    [payload_type::VIDEO, payload_type::RTX].contains(&rtp.header.payload_type)
                );
                assert_eq!(rtp.ip_bytes().0, u64::from(seen.wire_bytes));
                counts[0] += 1;
            }
            Content::Rtcp(_) => counts[1] += 1,
            Content::Stun(_) => counts[2] += 1,
            Content::Dtls13(_) => counts[3] += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
}

/// A page opens a connection to the core and asks for a WebSocket: SYN, acknowledgement, and a request of 522 B.
/// The core accepts, acknowledges, and answers with 248 B and with a list.
#[test]
fn the_signalling_of_a_page_is_tcp_with_the_core() {
    let seen = captured(&call(LINK, 10, 1));
    let sizes = |node, direction| -> Vec<i64> {
        times(&seen, node, direction, TCP).into_iter().map(|(_, size)| size).collect()
    };
    assert_eq!(sizes("alice", Direction::Inbound)[..3], [60, 52, 574]);
    assert_eq!(sizes("alice", Direction::Outbound)[..3], [60, 52, 300]);
    // Every byte of the data has its own sequence number, and all are acknowledged.
    let of_alice = |direction| {
        let from = if direction == Direction::Inbound { 12 } else { 16 };
        let core: Vec<&Seen> =
            seen.iter().filter(|seen| seen.is("alice", direction, TCP)).collect();
        assert!(core.iter().all(|seen| seen.bytes[from..from + 4] == [10, 0, 0, 1]));
        core.into_iter().map(segment).collect::<Vec<_>>()
    };
    let (sent, heard) = (of_alice(Direction::Inbound), of_alice(Direction::Outbound));
    let last = |of: &[(u16, u32, u32)]| of.iter().map(|(_, end, _)| *end).max();
    let acknowledged = |by: &[(u16, u32, u32)]| by.iter().map(|(.., ack)| *ack).max();
    assert_eq!(last(&sent), acknowledged(&heard));
    assert_eq!(last(&heard), acknowledged(&sent));
}

#[test]
fn signalling_of_old_browsers_is_tcp_via_the_core() {
    let mut config = call(&lossy(), 10, 1);
    for participant in &mut config.participants {
        participant.stack = Some("chrome-27".to_string());
    }
    let seen = captured(&config);
    // A description of 4000 B in three segments of at most 1400 B, and 52 B of headers each.
    let sizes = |node, direction| -> Vec<i64> {
        times(&seen, node, direction, TCP).into_iter().map(|(_, size)| size).collect()
    };
    assert_eq!(sizes("bob", Direction::Outbound)[..3], [1452, 1452, 1252]);
    assert_eq!(sizes("core", Direction::Inbound), sizes("core", Direction::Outbound));
}

#[test]
fn a_run_that_is_captured_has_the_same_tables() {
    let config = relayed(&lossy());
    // NaN differs from itself, so printed tables are compared.
    let plain = format!("{:?}", simulate(&config).expect("a run").tables);
    assert_eq!(plain, format!("{:?}", simulate_captured(&config).expect("a run").0.tables));
}

#[test]
fn the_monitor_reads_the_loss_reports() {
    let config = call(&lossy(), 10, 1);
    let file = simulate_captured(&config).expect("a run").1;
    let monitor = MonitorConfig { sdp: Sdp::parse(&file.sdp), ..MonitorConfig::default() };
    let results = watch(&file.pcapng, monitor);
    assert_eq!(results.int("rtcp", "encrypted").iter().sum::<i64>(), 0);
    // Bob's last report on alice's video stream, seen where he sends it, claims no more than what was lost.
    let packets = packets(&config, "alice->bob");
    let undelivered = packets.len() - delivered(&packets).len();
    let reports =
        results.int("reports", "ssrc").into_iter().zip(results.float("reports", "packets_lost"));
    let lost = reports.filter(|(ssrc, _)| *ssrc == 1001).map(|(_, lost)| lost).fold(0.0, f64::max);
    assert!((1.0..=undelivered as f64).contains(&lost), "{lost} of {undelivered}");
}

/// SCReAM sends ECT(1). The bits of IP headers and the bytes of reports say the same as the statistics.
#[test]
fn codepoints_and_rfc_8888_feedback_are_in_the_bytes() {
    let mut config = call(LINK, 5, 1);
    for participant in &mut config.participants {
        participant.stack = Some("chrome-156-ccfb".to_string());
        participant.congestion_control.name = "scream".to_string();
    }
    let (result, capture) = simulate_captured(&config).expect("a run");
    let outbound = result.tables.iter().find(|table| table.name == "outbound_rtp");
    let ints = |column: &str| {
        let mut columns = outbound.expect("the table").columns.iter();
        let (_, column) = columns.find(|(name, _)| *name == column).expect("it");
        let Column::Int(values) = column else { panic!("{column:?}") };
        values
    };
    // The counters only grow.
    let counted: HashMap<i64, i64> =
        ints("ssrc").iter().copied().zip(ints("packetsSentWithEct1").iter().copied()).collect();
    let seen = read(&capture.pcapng);
    let sent = seen
        .iter()
        .filter(|seen| ["alice", "bob"].iter().any(|node| seen.is(node, Direction::Inbound, UDP)));
    let (mut marked, mut reports, mut named) = (0, 0, HashMap::new());
    for packet in sent {
        let (ecn, udp) = (packet.bytes[1] & 3, &packet.bytes[28..]);
        let is_rtp = udp[0] >> 6 == 2;
        let is_rtcp = is_rtp && (200..=206).contains(&udp[1]);
        assert!(ecn == 0 || ecn == 1 && is_rtp, "{ecn}");
        marked += i64::from(ecn == 1 && !is_rtcp);
        if !is_rtcp || (udp[0] & 31, udp[1]) != (11, 205) {
            continue;
        }
        let bytes = 4 + 4 * usize::from(u16::from_be_bytes([udp[2], udp[3]]));
        let parsed = parse_compound(&udp[..bytes]).next().expect("a packet").expect("valid");
        let RtcpPacket::CongestionFeedback(report) = parsed else { panic!("{parsed:?}") };
        reports += i32::from(packet.node == "alice");
        for stream in report.streams {
            *named.entry(stream.ssrc).or_insert(0) += stream.arrivals.len();
        }
    }
    assert!(marked > 600, "{marked}");
    assert_eq!(marked, counted.values().sum::<i64>());
    // At least every second frame of 30 has a report of its own.
    assert!((75..=200).contains(&reports), "{reports}");
    assert!(named.values().sum::<usize>() > 300, "{named:?}");
    assert!(capture.sdp.contains("a=rtcp-fb:* ack ccfb"));
    let monitor = MonitorConfig { sdp: Sdp::parse(&capture.sdp), ..MonitorConfig::default() };
    let results = watch(&capture.pcapng, monitor);
    assert!(results.text("rtcp", "type").contains(&"CCFB"));
}

/// Port of the client, end of the data, and acknowledgement of a TCP segment.
fn segment(seen: &Seen) -> (u16, u32, u32) {
    let tcp = &seen.bytes[20..];
    let word = |at: usize| u32::from_be_bytes([tcp[at], tcp[at + 1], tcp[at + 2], tcp[at + 3]]);
    let header = 20 + 4 * u32::from(tcp[12] >> 4);
    let from_client = seen.node == "alice";
    let port = if from_client { [tcp[0], tcp[1]] } else { [tcp[2], tcp[3]] };
    (u16::from_be_bytes(port), word(4) + seen.wire_bytes - header, word(8))
}

#[test]
fn each_object_over_tcp_has_a_port_and_is_acknowledged_to_its_last_byte() {
    let mut config = call(&lossy(), 30, 1);
    config.connections.clear();
    config.traffic = serde_json::from_value(serde_json::json!([{
        "flows": ["web"], "sender": "alice", "receiver": "bob", "start_ns": 0,
        "stop_ns": 25_000_000_000_u64, "congestion_control": "cubic", "connections": 2,
        "objects": {"min_bytes": 30_000, "max_bytes": 50_000, "mean_idle_ns": 1_000_000_000, "idle_first": false},
    }]))
    .expect("valid traffic");
    let seen = captured(&config);
    let mut ends: HashMap<u16, (u32, u32)> = HashMap::new();
    for seen in seen.iter().filter(|seen| seen.direction == Direction::Inbound) {
        let (port, end, ack) = segment(seen);
        let (sent, acknowledged) = ends.entry(port).or_default();
        match seen.node.as_str() {
            "alice" => *sent = end.max(*sent),
            _ => *acknowledged = ack.max(*acknowledged),
        }
    }
    // Two clients; an object takes a second or two, and a pause of a second follows.
    assert!((15..=50).contains(&ends.len()), "{} objects", ends.len());
    for (port, (sent, acknowledged)) in ends {
        assert_eq!(sent, acknowledged, "port {port}");
        // A SYN, then the object.
        assert!((30_001..=50_001).contains(&sent), "{sent}");
    }
}

#[test]
fn a_packet_of_cross_traffic_over_udp_has_its_size_at_both_ends() {
    let mut config = call(&lossy(), 2, 1);
    config.connections.clear();
    config.traffic = serde_json::from_value(serde_json::json!([{
        "flows": ["noise"], "sender": "bob", "receiver": "alice", "start_ns": 0,
        "stop_ns": 1_000_000_000_u64, "connections": 1, "objects": null,
        "udp": {"rate_bps": 100_000, "packet_bytes": 1_250},
    }]))
    .expect("valid traffic");
    let seen = captured(&config);
    let sent = seen.iter().filter(|seen| seen.direction == Direction::Inbound).count();
    assert_eq!(sent, 10);
    assert!(seen.len() > sent, "some packets arrive");
    for packet in &seen {
        assert_eq!(packet.wire_bytes, 1_250);
        // IPv4 with UDP (17). Its length is the packet's without 20 B.
        assert_eq!(
            (packet.bytes[0], packet.bytes[9], &packet.bytes[24..26]),
            (0x45, 17, &[4, 206][..])
        );
    }
}
