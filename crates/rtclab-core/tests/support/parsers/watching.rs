//! Parsers of the monitor, which watches the packets of others, and the whole monitor.

use rtclab_core::monitor::compare::{Points, Side, compare as compare_captures};
use rtclab_core::monitor::decapsulation::{Found, open};
use rtclab_core::monitor::demux::demultiplex;
use rtclab_core::monitor::framing::{Framing, Segment};
use rtclab_core::monitor::{CaptureFaults, CaptureReader, Frame, Monitor, MonitorConfig, Sdp};
use rtclab_core::pcapng::link_type;
use rtclab_core::record::Column;
use rtclab_core::rtp::Protocol;

/// All that are read, and one that is not.
pub(crate) const LINK_TYPES: [u16; 23] = [
    link_type::ETHERNET,
    link_type::RAW,
    link_type::NULL,
    link_type::LOOP,
    link_type::LINUX_SLL,
    link_type::LINUX_SLL2,
    link_type::IPV4,
    link_type::IPV6,
    link_type::PPP,
    link_type::PPP_HDLC,
    link_type::PPP_ETHER,
    link_type::PPP_WITH_DIRECTION,
    link_type::C_HDLC,
    link_type::MPLS,
    link_type::IEEE802_11,
    link_type::IEEE802_11_RADIOTAP,
    link_type::IEEE802_11_PRISM,
    link_type::IEEE802_11_AVS,
    link_type::PPI,
    link_type::PKTAP,
    link_type::USER2,
    link_type::NFLOG,
    252,
];

/// The longest UDP payload in a frame of Ethernet. In longer ones, text could state the length of a record.
const ETHERNET_UDP_BYTES: u32 = 1_472;

/// Header of a pcap file: nanosecond time stamps, little endian, raw IP.
const PCAP_HEADER: [u8; 24] =
    [0x4D, 0x3C, 0xB2, 0xA1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 101, 0, 0, 0];

fn frame(link_type: u16, at_ns: i64, bytes: &[u8]) -> Frame<'_> {
    let wire_bytes = bytes.len() as u32;
    Frame { at_ns, interface: 0, link_type, direction: None, wire_bytes, bytes }
}

/// Link headers, tunnels and IP headers. The lower five bits of the first byte select the link type, and the
/// others say how much longer the frame was on the wire.
pub(crate) fn link_ip(input: &[u8]) {
    let Some((first, bytes)) = input.split_first() else { return };
    let link_type = LINK_TYPES[usize::from(first % 32) % LINK_TYPES.len()];
    let mut frame = frame(link_type, 0, bytes);
    frame.wire_bytes += u32::from(first >> 5) * 100;
    let opened = open(&frame);
    if let Found::Datagram(datagram) = opened.found {
        assert!(datagram.payload.len() <= bytes.len());
        assert!(datagram.payload.len() <= datagram.payload_bytes as usize);
        assert!(datagram.payload_bytes < datagram.ip_bytes || opened.fragment);
    }
}

/// TURN framing and RFC 4571 framing of whole and cut payloads, and SDP.
pub(crate) fn demux(input: &[u8]) {
    let Some(([high, low], payload)) = input.split_first_chunk::<2>() else { return };
    // The first two bytes say how much longer the payload was on the wire.
    let wire_bytes = payload.len() as u32 + u32::from(u16::from_be_bytes([*high, *low]));
    let content = demultiplex(payload, wire_bytes);
    assert!(content.bytes.len() <= payload.len());
    assert!(content.bytes.len() <= content.wire_bytes as usize);
    let is_text = |byte: &u8| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~');
    if wire_bytes <= ETHERNET_UDP_BYTES && payload.iter().all(is_text) {
        assert_eq!(content.protocol, Protocol::Other);
    }
    let mut framing = Framing::default();
    // Segments of a size from the input. A short last segment is cut by the capture.
    let (size, mut seq, mut frames) = (usize::from(*low % 61) + 1, u32::MAX - 30, 0);
    for bytes in payload.chunks(size) {
        let wire_bytes = bytes.len() as u32 + u32::from(bytes.len() < size) * 100;
        let segment = Segment { seq, begins: *high % 2 == 0, bytes, wire_bytes };
        framing.receive(segment, &mut |content| {
            frames += 1;
            assert!(content.bytes.len() <= payload.len());
        });
        seq = seq.wrapping_add(wire_bytes);
    }
    assert!(frames <= payload.len());
    Sdp::parse(&String::from_utf8_lossy(payload));
}

/// The whole monitor: datagrams between two hosts, then the tables.
///
/// The input is split into records: milliseconds since the previous record, a byte with direction and port, a
/// length, and that many bytes of UDP payload.
pub(crate) fn monitor(input: &[u8]) {
    let config =
        MonitorConfig { sdp: Sdp::default(), packets: true, seconds: true, max_streams: 16 };
    let mut monitor = Monitor::new(config);
    let (mut rest, mut at_ns) = (input, 0);
    while let [gap, way, length, after @ ..] = rest {
        let (payload, after) = after.split_at(after.len().min(usize::from(*length)));
        rest = after;
        at_ns += i64::from(*gap) * 1_000_000;
        let bytes = packet(way & 1 == 0, way >> 6, payload);
        monitor.handle_frame(&frame(link_type::RAW, at_ns, &bytes));
    }
    let tables = monitor.tables(&[], &CaptureFaults::default());
    assert!(tables.tables.len() >= 3);
}

fn packet(from_a: bool, port: u8, payload: &[u8]) -> Vec<u8> {
    let total = (28 + payload.len()) as u16;
    let (source, destination) = if from_a { (1, 2) } else { (2, 1) };
    let mut bytes = vec![0x45, 0];
    bytes.extend_from_slice(&total.to_be_bytes());
    bytes.extend_from_slice(&[0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, source, 10, 0, 0, destination]);
    bytes.extend_from_slice(&[0x80, port, 0x80, port]);
    bytes.extend_from_slice(&(total - 20).to_be_bytes());
    bytes.extend_from_slice(&[0, 0]);
    bytes.extend_from_slice(payload);
    bytes
}

/// Comparison of two captures of RTP packets. Every packet must be matched, lost, added or outside.
///
/// The input is split into records of 8 bytes: point, stream, sequence number, timestamp, and the capture
/// time in one of several units, so that clocks may have any value.
pub(crate) fn compare(input: &[u8]) {
    let mut captures = [PCAP_HEADER.to_vec(), PCAP_HEADER.to_vec()];
    let mut rest = input;
    while let Some((of_record, after)) = rest.split_first_chunk::<8>() {
        let [side, stream, seq, timestamp, time @ ..] = of_record;
        captures[usize::from(side & 1)].extend(record(stream & 7, *seq, *timestamp, *time));
        rest = after;
    }
    let mut open = |side| CaptureReader::new(captures[usize::from(side == Side::B)].as_slice());
    let config = MonitorConfig { packets: true, ..MonitorConfig::default() };
    let tables = compare_captures(Points::TwoCaptures, &config, &mut open, &mut |_| true);
    let tables = tables.expect("captures");
    let column = |table: &str, name: &str| {
        let table = tables.tables.iter().find(|t| t.name == table).expect("the table");
        let column = table.columns.iter().find(|(found, _)| *found == name).expect("the column");
        let Column::Int(values) = &column.1 else { panic!("{name} is not an integer column") };
        values.clone()
    };
    let sum = |name: &str| column("streams", name).iter().sum::<i64>();
    let rows = column("packets", "seq").len() as i64;
    assert_eq!(sum("matched") + sum("lost") + sum("added") + sum("outside"), rows);
}

fn record(stream: u8, seq: u8, timestamp: u8, [unit, time @ ..]: [u8; 4]) -> Vec<u8> {
    let time = u32::from_le_bytes([time[0], time[1], time[2], 0]);
    let (seconds, nanos) = if unit & 1 == 0 { (0, time << 6) } else { (time << (unit >> 4), 0) };
    let mut bytes = Vec::new();
    [seconds, nanos, 40, 40].iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
    let hosts = if stream & 1 == 0 { [1, 2] } else { [2, 1] };
    bytes.extend_from_slice(&[
        0x45, 0, 0, 40, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, hosts[0], 10, 0, 0, hosts[1],
    ]);
    bytes.extend_from_slice(&[
        0, 1, 0, 2, 0, 20, 0, 0, 0x80, 96, 0, seq, 0, 0, 0, timestamp, 0, 0, 0, stream,
    ]);
    bytes
}
