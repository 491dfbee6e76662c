//! Capture files of every format, intact and damaged; pcapng compared with an independent reader.

use crate::monitor_support::{BEGIN_NS, Pcap, Rtp, ethernet, ipv4_udp, watch};
use pcap_parser::pcapng::{Block, parse_block_be, parse_block_le};
use proptest::prelude::*;
use rtclab_core::monitor::{CaptureError, CaptureReader, Direction, Interface, MonitorConfig};

const SECTION: u32 = 0x0A0D_0D0A;

/// A pcapng file in either byte order.
struct Pcapng {
    bytes: Vec<u8>,
    big_endian: bool,
}

impl Pcapng {
    fn new() -> Self {
        Pcapng { bytes: Vec::new(), big_endian: false }
    }

    fn u16(&self, value: u16) -> [u8; 2] {
        if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn u32(&self, value: u32) -> [u8; 4] {
        if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn block(&mut self, kind: u32, body: &[u8]) {
        let mut body = body.to_vec();
        body.resize(body.len().next_multiple_of(4), 0);
        let len = self.u32(body.len() as u32 + 12);
        let block = [&self.u32(kind)[..], &len, &body, &len].concat();
        self.bytes.extend_from_slice(&block);
    }

    fn section(&mut self, big_endian: bool) {
        self.big_endian = big_endian;
        let body = [&self.u32(0x1A2B_3C4D)[..], &self.u16(1), &self.u16(0), &[0xFF; 8]].concat();
        self.block(SECTION, &body);
    }

    fn option(&self, code: u16, value: &[u8]) -> Vec<u8> {
        let mut option = [&self.u16(code)[..], &self.u16(value.len() as u16), value].concat();
        option.resize(option.len().next_multiple_of(4), 0);
        option
    }

    fn interface(&mut self, link_type: u16, snaplen: u32, options: &[u8]) {
        let body = [&self.u16(link_type)[..], &[0, 0], &self.u32(snaplen), options].concat();
        self.block(1, &body);
    }

    fn packet(&mut self, interface: u32, units: u64, data: &[u8], wire_bytes: u32, options: &[u8]) {
        let words = [interface, (units >> 32) as u32, units as u32, data.len() as u32, wire_bytes];
        let mut body: Vec<u8> = words.iter().flat_map(|word| self.u32(*word)).collect();
        body.extend_from_slice(data);
        body.resize(body.len().next_multiple_of(4), 0);
        body.extend_from_slice(options);
        self.block(6, &body);
    }
}

/// Time, interface, direction, length and bytes of every frame.
type Frames = Vec<(i64, u32, Option<Direction>, u32, Vec<u8>)>;

fn frames(capture: &[u8]) -> (Frames, CaptureReader<&[u8]>) {
    let mut reader = CaptureReader::new(capture).expect("a capture");
    let mut found = Vec::new();
    while let Some(f) = reader.next_frame().expect("memory can be read") {
        found.push((f.at_ns, f.interface, f.direction, f.wire_bytes, f.bytes.to_vec()));
    }
    (found, reader)
}

#[test]
fn pcap_is_read_in_both_byte_orders_and_both_resolutions() {
    let header = |magic: [u8; 4], big_endian: bool| {
        let word = |value: u32| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
        let mut bytes = [&magic[..], &[0; 12], &word(65_535), &word(1)].concat();
        [5, 7, 3, 60].iter().for_each(|value| bytes.extend_from_slice(&word(*value)));
        bytes.extend_from_slice(b"abc");
        bytes
    };
    let expected = |at_ns| vec![(at_ns, 0, None, 60, b"abc".to_vec())];
    assert_eq!(frames(&header([0xD4, 0xC3, 0xB2, 0xA1], false)).0, expected(5_000_007_000));
    assert_eq!(frames(&header([0xA1, 0xB2, 0xC3, 0xD4], true)).0, expected(5_000_007_000));
    assert_eq!(frames(&header([0x4D, 0x3C, 0xB2, 0xA1], false)).0, expected(5_000_000_007));
    assert_eq!(frames(&header([0xA1, 0xB2, 0x3C, 0x4D], true)).0, expected(5_000_000_007));
}

#[test]
fn pcapng_has_sections_interfaces_resolutions_offsets_and_directions() {
    let mut file = Pcapng::new();
    file.section(false);
    file.interface(1, 0, &[file.option(2, b"veth0"), file.option(9, &[9])].concat());
    file.interface(101, 0, &[]);
    let outbound = file.option(2, &file.u32(2));
    file.packet(0, 1_700_000_000_123_456_789, b"one", 100, &outbound);
    file.packet(1, 1_700_000_000_123_456, b"four", 4, &[]);
    file.block(0x0BAD, b"unknown blocks are skipped");
    file.section(true);
    // Time stamps in units of 2^-10 s with an offset of 100 s.
    let options = [file.option(9, &[0x8A]), file.option(14, &100i64.to_be_bytes())].concat();
    file.interface(1, 0, &options);
    let inbound = file.option(2, &file.u32(1));
    file.packet(0, 512, b"three", 5, &inbound);
    // The obsolete packet block: interface in 16 bits, then the count of drops.
    let words = [0u32, 0, 1024, 2, 2];
    let body: Vec<u8> = words.iter().flat_map(|w| w.to_be_bytes()).chain(*b"ob").collect();
    file.block(2, &body);

    let (found, reader) = frames(&file.bytes);
    let expected = vec![
        (1_700_000_000_123_456_789, 0, Some(Direction::Outbound), 100, b"one".to_vec()),
        (1_700_000_000_123_456_000, 1, None, 4, b"four".to_vec()),
        (100_500_000_000, 2, Some(Direction::Inbound), 5, b"three".to_vec()),
        (101_000_000_000, 2, None, 2, b"ob".to_vec()),
    ];
    assert_eq!(found, expected);
    assert_eq!(reader.faults(), Default::default());
    let named = Interface { link_type: 1, name: Some("veth0".into()) };
    assert_eq!((&reader.interfaces()[0], reader.interfaces().len()), (&named, 3));
}

#[test]
fn an_interface_described_again_in_a_later_section_is_the_same() {
    let mut file = Pcapng::new();
    for _ in 0..3 {
        file.section(false);
        file.interface(1, 0, &file.option(2, b"eth0"));
        file.interface(1, 0, &file.option(2, b"eth0"));
        file.packet(1, 7, b"x", 1, &[]);
    }
    let (found, reader) = frames(&file.bytes);
    assert_eq!(found.iter().map(|frame| frame.1).collect::<Vec<_>>(), [1, 1, 1]);
    assert_eq!(reader.interfaces().len(), 2);
}

#[test]
fn simple_packets_are_cut_at_the_snap_length() {
    let mut file = Pcapng::new();
    file.section(false);
    file.interface(1, 6, &[]);
    let body = [&file.u32(100)[..], b"abcdef\0\0"].concat();
    file.block(3, &body);
    assert_eq!(frames(&file.bytes).0, [(0, 0, None, 100, b"abcdef".to_vec())]);
}

#[test]
fn faults_are_counted_and_reading_continues_where_possible() {
    let mut file = Pcapng::new();
    file.section(false);
    file.packet(0, 0, b"before any interface", 20, &[]);
    file.interface(1, 0, &[]);
    let lying: Vec<u8> = [0u32, 0, 0, 5000, 5000].iter().flat_map(|w| w.to_le_bytes()).collect();
    file.block(6, &lying); // 5000 bytes in a block of none
    file.block(0x0BAD, &vec![0; 3 << 20]); // 3 MiB
    file.packet(0, 0, b"x", 1, &[]);
    let (found, reader) = frames(&file.bytes);
    assert_eq!(found.len(), 1);
    let faults = reader.faults();
    assert_eq!((faults.unknown_interface, faults.malformed, faults.oversized), (1, 1, 1));
    assert_eq!((faults.cut_short, faults.corrupt_at), (false, None));

    let (found, reader) = frames(&file.bytes[..file.bytes.len() - 1]);
    assert_eq!((found.len(), reader.faults().cut_short), (0, true));

    let whole = file.bytes.len() as u64;
    file.bytes.extend_from_slice(&[6, 0, 0, 0, 13, 0, 0, 0, 0, 0, 0, 0]); // a length of 13
    let (found, reader) = frames(&file.bytes);
    assert_eq!((found.len(), reader.faults().corrupt_at), (1, Some(whole)));
}

#[test]
fn a_pcap_record_longer_than_any_packet_is_corrupt() {
    let mut pcap = Pcap::new(1);
    pcap.frame(0, b"whole");
    let offset = pcap.bytes.len() as u64;
    pcap.bytes.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0x7F, 0, 0, 0, 0]);
    let (found, reader) = frames(&pcap.bytes);
    assert_eq!((found.len(), reader.faults().corrupt_at), (1, Some(offset)));
}

#[test]
fn a_file_that_is_not_a_capture_is_an_error_that_shows_its_first_bytes() {
    let error = |bytes: &[u8]| match CaptureReader::new(bytes) {
        Err(error @ CaptureError::NotACapture(_)) => error.to_string(),
        _ => panic!("expected NotACapture"),
    };
    assert_eq!(error(b""), "empty; expected a pcap or pcapng capture");
    assert_eq!(error(b"GIF"), "not a capture; expected pcap or pcapng");
}

#[test]
fn a_capture_cut_anywhere_gives_the_packets_before_the_cut() {
    let mut pcap = Pcap::new(1);
    for index in 0..20u16 {
        let packet = Rtp {
            ssrc: 1,
            payload_type: 111,
            seq: index,
            timestamp: u32::from(index) * 960,
            marker: false,
            payload_bytes: 30,
        };
        pcap.frame(BEGIN_NS, &ethernet(&ipv4_udp((1, 1), (2, 2), &packet.bytes())));
    }
    let record = (pcap.bytes.len() - 24) / 20;
    for len in 24..pcap.bytes.len() {
        let (found, reader) = frames(&pcap.bytes[..len]);
        assert_eq!(found.len(), (len - 24) / record);
        assert_eq!(reader.faults().cut_short, (len - 24) % record != 0, "{len}");
    }
    let results = watch(&pcap.bytes[..24 + 7 * record + 5], MonitorConfig::default());
    assert_eq!(results.int("streams", "packets"), [7]);
    assert_eq!(results.note("the capture ends within a record"), -1); // present, without a number
}

proptest! {
    /// Compares with `pcap-parser`, an independent implementation.
    #[test]
    fn an_independent_reader_finds_the_same_packets(
        big_endian: bool,
        packets in prop::collection::vec(
            (0u32..3, 0u64..1 << 60, prop::collection::vec(any::<u8>(), 0..50), 0u32..100), 0..20),
    ) {
        let mut file = Pcapng::new();
        file.section(big_endian);
        let nanoseconds = file.option(9, &[9]);
        (0..3).for_each(|link_type| file.interface(link_type, 0, &nanoseconds));
        for (interface, units, data, uncaptured) in &packets {
            file.packet(*interface, *units, data, data.len() as u32 + uncaptured, &[]);
        }
        let mut rest = file.bytes.as_slice();
        let mut expected = Vec::new();
        while !rest.is_empty() {
            let parse = if big_endian { parse_block_be } else { parse_block_le };
            let (after, block) = parse(rest).expect("valid blocks");
            rest = after;
            if let Block::EnhancedPacket(packet) = block {
                let at_ns = (u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low)) as i64;
                let bytes = packet.data[..packet.caplen as usize].to_vec();
                expected.push((at_ns, packet.if_id, None, packet.origlen, bytes));
            }
        }
        prop_assert_eq!(frames(&file.bytes).0, expected);
    }

    #[test]
    fn no_bytes_after_a_header_make_the_reader_panic(
        tail in prop::collection::vec(any::<u8>(), 0..400), ng: bool, link_type in prop::sample::select(vec![0, 1, 101, 113, 276]),
    ) {
        let mut bytes = Pcap::new(link_type).bytes;
        if ng {
            let mut file = Pcapng::new();
            file.section(false);
            file.interface(link_type as u16, 0, &[]);
            bytes = file.bytes;
        }
        bytes.extend_from_slice(&tail);
        watch(&bytes, MonitorConfig { packets: true, seconds: true, ..MonitorConfig::default() });
    }
}
