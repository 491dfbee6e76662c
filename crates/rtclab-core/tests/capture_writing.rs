//! Captures written by core, compared with independent implementations (`pcap-parser`, `etherparse`) and read
//! by the monitor.

use etherparse::{
    Ipv4Header, Ipv4HeaderSlice, PacketBuilder, SlicedPacket, TcpOptionElement as Option,
    TransportSlice,
};
use pcap_parser::pcapng::{Block, EnhancedPacketBlock, parse_block_le};
use proptest::prelude::*;
use rtclab_core::ipv4::{Ends, Payload, TcpFields, TcpOptions, write_tcp, write_udp};
use rtclab_core::monitor::CaptureReader;
use rtclab_core::pcapng::{Direction, Interface, Packet, link_type, write_section};
use std::net::{Ipv4Addr, SocketAddrV4};

const ALICE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 77, 0, 2), 50_000);
const BOB: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 77, 1, 2), 40_001);
const ALICE_TO_BOB: Ends = Ends { source: ALICE, destination: BOB, ecn: 0 };

fn interfaces() -> [Interface; 2] {
    [(link_type::ETHERNET, "veth0"), (link_type::RAW, "bob")]
        .map(|(link_type, name)| Interface { link_type, name: Some(name.into()) })
}

/// Appends zeros to `bytes` up to `wire_bytes`.
fn filled(bytes: &[u8], wire_bytes: u32) -> Vec<u8> {
    let mut filled = bytes.to_vec();
    filled.resize(wire_bytes as usize, 0);
    filled
}

fn blocks(mut bytes: &[u8]) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    while !bytes.is_empty() {
        let (rest, block) = parse_block_le(bytes).expect("a valid block");
        blocks.push(block);
        bytes = rest;
    }
    blocks
}

fn option<'a>(packet: &'a EnhancedPacketBlock<'_>, code: u16) -> &'a [u8] {
    &packet.options.iter().find(|o| o.code.0 == code).expect("the option").value
}

#[test]
fn pcap_parser_finds_interfaces_times_lengths_and_directions() {
    let mut file = Vec::new();
    write_section(&mut file, &interfaces(), 128);
    let sent = Packet {
        interface: 1,
        at_ns: 1_700_000_000_123_456_789,
        direction: Direction::Inbound,
        wire_bytes: 1214,
        bytes: &[7; 5],
        zeros: 0,
    };
    sent.write(&mut file);
    Packet { interface: 0, direction: Direction::Outbound, zeros: 1209, ..sent }.write(&mut file);

    let blocks = blocks(&file);
    let [
        Block::SectionHeader(section),
        Block::InterfaceDescription(first),
        Block::InterfaceDescription(second),
        Block::EnhancedPacket(inbound),
        Block::EnhancedPacket(outbound),
    ] = blocks.as_slice()
    else {
        panic!("unexpected blocks: {blocks:?}")
    };
    assert_eq!((section.major_version, section.section_len), (1, -1));
    assert_eq!((first.if_tsresol, first.snaplen), (9, 128));
    assert_eq!((first.linktype.0, second.linktype.0), (1, 101));
    let name = second.options.iter().find(|o| o.code.0 == 2).expect("if_name");
    assert_eq!(&name.value[..3], b"bob");
    assert_eq!((inbound.if_id, inbound.caplen, inbound.origlen), (1, 5, 1214));
    let at_ns = u64::from(inbound.ts_high) << 32 | u64::from(inbound.ts_low);
    assert_eq!(at_ns, 1_700_000_000_123_456_789);
    assert_eq!(&inbound.data[..5], [7; 5]);
    assert_eq!((option(inbound, 2), option(outbound, 2)), (&[1, 0, 0, 0][..], &[2, 0, 0, 0][..]));
    assert_eq!((outbound.if_id, outbound.caplen, outbound.origlen), (0, 1214, 1214));
    assert_eq!(outbound.data[..1214], filled(&[7; 5], 1214));
}

#[test]
fn a_name_above_65535_bytes_is_cut_and_the_file_stays_readable() {
    let mut file = Vec::new();
    let name = Some("x".repeat(70_000));
    write_section(&mut file, &[Interface { link_type: link_type::RAW, name }], 0);
    let blocks = blocks(&file);
    let Block::InterfaceDescription(interface) = &blocks[1] else { panic!("no interface") };
    assert_eq!((interface.options[0].len, interface.if_tsresol), (65_535, 9));
}

#[test]
fn a_udp_datagram_has_the_bytes_that_the_standards_give() {
    let ends = Ends {
        source: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 1),
        destination: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 2),
        ecn: 3,
    };
    let mut packet = Vec::new();
    let wire_bytes = write_udp(&mut packet, ends, Payload { bytes: &[0xAB], zeros: 2 });
    // IP: 4503+001f+0000+4000+4011+0a00+0001+0a00+0002 = d936; UDP: the addresses, 0011 + 000b,
    // 0001+0002+000b+ab00 = bf2d.
    let expected = [
        [0x45, 0x03, 0x00, 0x1F, 0, 0, 0x40, 0, 64, 17, 0x26, 0xC9, 10, 0, 0, 1, 10, 0, 0, 2]
            .as_slice(),
        &[0, 1, 0, 2, 0, 11, 0x40, 0xD2, 0xAB],
    ];
    assert_eq!((packet, wire_bytes), (expected.concat(), 31));
}

#[test]
fn a_udp_checksum_of_zero_is_written_as_ffff() {
    // A payload equal to the checksum of the same packet with payload 0 makes the sum 0xFFFF and its
    // complement 0.
    let zeros = Payload { bytes: &[0, 0], zeros: 0 };
    let mut packet = Vec::new();
    write_udp(&mut packet, ALICE_TO_BOB, zeros);
    let word = [packet[26], packet[27]];
    packet.clear();
    write_udp(&mut packet, ALICE_TO_BOB, Payload { bytes: &word, zeros: 0 });
    assert_eq!(packet[26..28], [0xFF, 0xFF]);
}

#[test]
fn tcp_headers_are_as_long_as_those_of_linux() {
    let header = |options: TcpOptions<'_>| {
        let mut packet = Vec::new();
        let tcp = TcpFields { options, ..TcpFields::default() };
        write_tcp(&mut packet, ALICE_TO_BOB, &tcp, Payload::default())
    };
    let timestamps = TcpOptions { timestamps: Some((1, 2)), ..TcpOptions::default() };
    let syn = TcpOptions {
        max_segment_bytes: Some(1460),
        sack_permitted: true,
        window_scale: Some(7),
        ..timestamps
    };
    assert_eq!((header(TcpOptions::default()), header(timestamps), header(syn)), (40, 52, 60));
    let blocks = [(1, 2); 5];
    let sack = |count: usize| header(TcpOptions { sack: &blocks[..count], ..timestamps });
    assert_eq!([0, 1, 3, 4].map(sack), [52, 64, 80, 80]);
    let alone = |count: usize| TcpOptions { sack: &blocks[..count], ..TcpOptions::default() };
    assert_eq!([1, 4, 5].map(|count| header(alone(count))), [52, 76, 76]);
    let permitted = TcpOptions { sack_permitted: true, ..TcpOptions::default() };
    assert_eq!(header(permitted), 44);
}

#[test]
#[should_panic(expected = "an IPv4 packet of 65536 B; expected at most 65535 B")]
fn a_packet_above_65535_bytes_is_refused() {
    let mut packet = Vec::new();
    assert_eq!(write_udp(&mut packet, ALICE_TO_BOB, Payload { bytes: &[], zeros: 65_507 }), 65_535);
    write_udp(&mut packet, ALICE_TO_BOB, Payload { bytes: &[], zeros: 65_508 });
}

/// A packet from etherparse with ECN bits, which its builder cannot set.
fn marked(mut packet: Vec<u8>, ecn: u8) -> Vec<u8> {
    packet[1] |= ecn;
    let header = Ipv4HeaderSlice::from_slice(&packet).expect("an IPv4 header").to_header();
    packet[10..12].copy_from_slice(&header.calc_header_checksum().to_be_bytes());
    packet
}

fn any_ends() -> impl Strategy<Value = Ends> {
    let socket = || {
        any::<([u8; 4], u16)>().prop_map(|(address, port)| SocketAddrV4::new(address.into(), port))
    };
    (socket(), socket(), 0u8..4).prop_map(|(source, destination, ecn)| Ends {
        source,
        destination,
        ecn,
    })
}

proptest! {
    #[test]
    fn etherparse_writes_the_same_udp_datagrams(
        ends in any_ends(), bytes in prop::collection::vec(any::<u8>(), 0..40), zeros in 0usize..1400,
    ) {
        let mut ours = Vec::new();
        let wire_bytes = write_udp(&mut ours, ends, Payload { bytes: &bytes, zeros });
        let payload = filled(&bytes, (bytes.len() + zeros) as u32);
        let mut theirs = Vec::new();
        PacketBuilder::ipv4(ends.source.ip().octets(), ends.destination.ip().octets(), 64)
            .udp(ends.source.port(), ends.destination.port())
            .write(&mut theirs, &payload)
            .expect("memory takes everything");
        prop_assert_eq!(ours.len(), 28 + bytes.len());
        prop_assert_eq!(filled(&ours, wire_bytes), marked(theirs, ends.ecn));
    }

    #[test]
    fn etherparse_writes_the_same_tcp_segments(
        ends in any_ends(), seq: u32, ack: u32, window: u16, flags: (bool, bool, bool), ecn in 0u8..8,
        stamps: (u32, u32), blocks in prop::collection::vec(any::<(u32, u32)>(), 0..4),
        bytes in prop::collection::vec(any::<u8>(), 0..40), zeros in 0usize..1400,
    ) {
        let (syn, fin, psh) = flags;
        let options = if syn {
            TcpOptions { max_segment_bytes: Some(1460), sack_permitted: true, timestamps: Some(stamps),
                window_scale: Some(7), sack: &[] }
        } else {
            TcpOptions { timestamps: Some(stamps), sack: &blocks, ..TcpOptions::default() }
        };
        let tcp = TcpFields { seq, ack: Some(ack), syn, fin, psh, ecn, window, options };
        let mut ours = Vec::new();
        let wire_bytes = write_tcp(&mut ours, ends, &tcp, Payload { bytes: &bytes, zeros });

        let stamp = Option::Timestamp(stamps.0, stamps.1);
        let mut elements = if syn {
            let permitted = Option::SelectiveAcknowledgementPermitted;
            vec![Option::MaximumSegmentSize(1460), permitted, stamp, Option::Noop, Option::WindowScale(7)]
        } else {
            vec![Option::Noop, Option::Noop, stamp]
        };
        if let (false, [first, rest @ ..]) = (syn, blocks.as_slice()) {
            let rest = [0, 1, 2].map(|index| rest.get(index).copied());
            elements.extend([Option::Noop, Option::Noop, Option::SelectiveAcknowledgement(*first, rest)]);
        }
        let mut builder =
            PacketBuilder::ipv4(ends.source.ip().octets(), ends.destination.ip().octets(), 64)
                .tcp(ends.source.port(), ends.destination.port(), seq, window)
                .ack(ack)
                .options(&elements)
                .expect("they fit");
        if syn { builder = builder.syn(); }
        if fin { builder = builder.fin(); }
        if psh { builder = builder.psh(); }
        // The flag AE was the nonce sum.
        if ecn & 4 != 0 { builder = builder.ns(); }
        if ecn & 2 != 0 { builder = builder.cwr(); }
        if ecn & 1 != 0 { builder = builder.ece(); }
        let mut theirs = Vec::new();
        let payload = filled(&bytes, (bytes.len() + zeros) as u32);
        builder.write(&mut theirs, &payload).expect("memory takes everything");
        prop_assert_eq!(filled(&ours, wire_bytes), marked(theirs, ends.ecn));
    }

    #[test]
    fn etherparse_and_our_reader_find_in_a_file_what_was_written(
        at_ns in 0u64..1 << 62, ends in any_ends(), outbound: bool, fill: bool,
        bytes in prop::collection::vec(any::<u8>(), 0..40), zeros in 0usize..1400,
    ) {
        let mut ip = Vec::new();
        let wire_bytes = write_udp(&mut ip, ends, Payload { bytes: &bytes, zeros });
        let direction = if outbound { Direction::Outbound } else { Direction::Inbound };
        let zeros = if fill { zeros } else { 0 };
        let mut file = Vec::new();
        write_section(&mut file, &interfaces(), 0);
        Packet { interface: 1, at_ns, direction, wire_bytes, bytes: &ip, zeros: zeros as u32 }
            .write(&mut file);

        let mut reader = CaptureReader::new(file.as_slice()).expect("a capture");
        let frame = reader.next_frame().expect("memory can be read").expect("a frame");
        prop_assert_eq!((frame.at_ns, frame.interface, frame.link_type), (at_ns as i64, 1, 101));
        prop_assert_eq!((frame.direction, frame.wire_bytes), (Some(direction), wire_bytes));
        let captured = filled(&ip, (ip.len() + zeros) as u32);
        prop_assert_eq!(frame.bytes, captured.as_slice());
        prop_assert!(reader.next_frame().expect("memory can be read").is_none());
        prop_assert_eq!(reader.faults(), Default::default());
        prop_assert_eq!(reader.interfaces(), &interfaces());

        let (header, _) = Ipv4Header::from_slice(&captured).expect("an IPv4 header");
        prop_assert_eq!(header.header_checksum, header.calc_header_checksum());
        if fill {
            let packet = SlicedPacket::from_ip(&captured).expect("a whole packet");
            let Some(TransportSlice::Udp(udp)) = packet.transport else { panic!("no UDP") };
            prop_assert_eq!((udp.source_port(), udp.destination_port()),
                (ends.source.port(), ends.destination.port()));
            prop_assert_eq!(udp.payload(), filled(&bytes, (bytes.len() + zeros) as u32));
        }
    }
}
