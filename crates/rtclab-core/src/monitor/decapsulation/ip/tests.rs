use super::*;
use crate::monitor::capture::Frame;
use crate::monitor::decapsulation::{Found, open};
use crate::pcapng::link_type;
use etherparse::{
    IpHeaders, IpNumber, Ipv4Extensions, Ipv4Header, Ipv6Extensions, Ipv6Header, Ipv6RawExtHeader,
    PacketBuilder,
};
use proptest::prelude::*;

/// What is found in a packet captured without a link header, and whether it is a fragment.
fn parse(bytes: &[u8]) -> (Found<'_>, bool) {
    let (link_type, wire_bytes) = (link_type::RAW, bytes.len() as u32);
    let opened =
        open(&Frame { at_ns: 0, interface: 0, link_type, direction: None, wire_bytes, bytes });
    (opened.found, opened.fragment)
}

fn udp(payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x13, 0x88, 0x13, 0x89, 0, 8 + payload.len() as u8, 0, 0];
    bytes.extend_from_slice(payload);
    bytes
}

/// An IPv4 packet with `options` and with `fragment` as the field of fragment flags and offset.
fn ipv4(options: &[u8], fragment: [u8; 2], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let header_bytes = 20 + options.len();
    let mut bytes =
        vec![0x40 | (header_bytes / 4) as u8, 0, 0, (header_bytes + payload.len()) as u8];
    bytes.extend_from_slice(&[0, 0, fragment[0], fragment[1], 64, protocol, 0, 0]);
    bytes.extend_from_slice(&[192, 0, 2, 1, 192, 0, 2, 2]);
    bytes.extend_from_slice(options);
    bytes.extend_from_slice(payload);
    bytes
}

fn ipv6(next_header: u8, rest: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x60, 0, 0, 0, 0, rest.len() as u8, next_header, 64];
    bytes.extend_from_slice(&[0; 15]);
    bytes.push(1);
    bytes.extend_from_slice(&[0; 15]);
    bytes.push(2);
    bytes.extend_from_slice(rest);
    bytes
}

fn datagram(bytes: &[u8]) -> TransportDatagram<'_> {
    match parse(bytes).0 {
        Found::Datagram(datagram) => datagram,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_udp_datagram_is_found_after_ipv4_options_and_link_padding_is_removed() {
    let mut bytes = ipv4(&[1; 8], [0, 0], 17, &udp(b"media"));
    bytes.extend_from_slice(&[0; 4]);
    let found = datagram(&bytes);
    assert_eq!(found.source, "192.0.2.1:5000".parse().unwrap());
    assert_eq!(found.destination, "192.0.2.2:5001".parse().unwrap());
    assert_eq!((found.payload, found.payload_bytes, found.ip_bytes), (&b"media"[..], 5, 41));
}

#[test]
fn ipv6_extension_headers_are_skipped() {
    // Hop-by-hop options and destination options of 8 bytes each.
    let rest = [&[60, 0, 1, 4, 0, 0, 0, 0, 17, 0, 1, 4, 0, 0, 0, 0][..], &udp(b"media")].concat();
    let bytes = ipv6(0, &rest);
    let found = datagram(&bytes);
    assert_eq!(found.source, "[::1]:5000".parse().unwrap());
    assert_eq!(
        (found.payload, found.payload_bytes, found.ip_bytes),
        (&b"media"[..], 5, 40 + 16 + 13)
    );
}

#[test]
fn a_packet_cut_by_the_snap_length_keeps_its_lengths() {
    let bytes = ipv4(&[], [0, 0], 17, &udp(&[7; 100]));
    let found = datagram(&bytes[..40]);
    assert_eq!((found.payload.len(), found.payload_bytes, found.ip_bytes), (12, 100, 128));
    assert_eq!(parse(&bytes[..27]), (Found::Unread(Unread::Cut), false));
    assert_eq!(parse(&bytes[..19]), (Found::Unread(Unread::Malformed), false));
}

#[test]
fn first_fragments_are_parsed_and_later_ones_are_not() {
    let mut first = ipv4(&[], [0x20, 0], 17, &udp(&[7; 16]));
    first[25] = 200; // UDP length: 192 B of payload
    let (content, fragment) = parse(&first);
    assert!(fragment);
    match content {
        Found::Datagram(found) => {
            assert_eq!((found.payload_bytes, found.ip_bytes, found.payload.len()), (192, 44, 16));
        }
        other => panic!("{other:?}"),
    }
    let later = ipv4(&[], [0, 2], 17, &[7; 16]);
    assert!(matches!(parse(&later), (Found::LaterFragment(..), true)));
    let later = ipv6(44, &[&[17, 0, 0, 8, 0, 0, 0, 1][..], &[7; 16]].concat());
    assert!(matches!(parse(&later), (Found::LaterFragment(..), true)));
    let first = ipv6(44, &[&[17, 0, 0, 1, 0, 0, 0, 1][..], &udp(b"media")].concat());
    assert!(matches!(parse(&first), (Found::Datagram(_), true)));
    // An atomic fragment (RFC 6946) is a whole packet.
    let whole = ipv6(44, &[&[17, 0, 0, 0, 0, 0, 0, 1][..], &udp(b"media")].concat());
    assert!(matches!(parse(&whole), (Found::Datagram(_), false)));
}

#[test]
fn an_impossible_udp_length_is_ignored() {
    for length in [0, 7, 200] {
        let mut bytes = ipv4(&[], [0, 0], 17, &udp(b"media"));
        bytes[25] = length;
        assert_eq!(datagram(&bytes).payload_bytes, 5, "{length}");
    }
}

#[test]
fn tcp_is_found_and_icmp_is_other() {
    let mut tcp = vec![0x13, 0x88, 0x13, 0x89, 0, 0, 0, 1, 0, 0, 0, 0, 0x60, 0, 0, 0, 0, 0, 0, 0];
    tcp.extend_from_slice(&[1, 1, 1, 1]); // four 1-byte options
    tcp.extend_from_slice(b"framed");
    let bytes = ipv4(&[], [0, 0], 6, &tcp);
    let found = datagram(&bytes);
    assert_eq!(
        (found.transport, found.payload, found.payload_bytes),
        (Transport::Tcp, &b"framed"[..], 6)
    );
    assert_eq!(
        parse(&ipv4(&[], [0, 0], 1, &[0; 8])),
        (Found::Unread(Unread::IpProtocol(1)), false)
    );
}

#[test]
fn endless_extension_headers_are_not_parsed() {
    // An extension header longer than the packet, and 17 in a row.
    assert_eq!(parse(&ipv6(60, &[17, 9, 0, 0, 0, 0, 0, 0])).0, Found::Unread(Unread::Malformed));
    assert_eq!(parse(&ipv6(0, &[])).0, Found::Unread(Unread::Malformed));
    let chain = [60, 0, 1, 4, 0, 0, 0, 0].repeat(17);
    assert_eq!(parse(&ipv6(60, &chain)).0, Found::Unread(Unread::IpProtocol(60)));
}

proptest! {
    /// The packets are built by `etherparse`, an independent implementation.
    #[test]
    fn packets_built_by_another_implementation_are_parsed(
        v6: bool, is_udp: bool, ports: (u16, u16), media in prop::collection::vec(any::<u8>(), 0..60),
        options in prop::collection::vec(any::<u8>(), 0..10), padding in 0usize..20,
    ) {
        let options: Vec<u8> = options.repeat(4); // multiples of 4 bytes
        let builder = if v6 {
            let options = Ipv6RawExtHeader::new_raw(IpNumber(0), &[&options[..], &[0; 6]].concat()[..options.len() / 8 * 8 + 6]).unwrap();
            let extensions = Ipv6Extensions { destination_options: Some(options), ..Default::default() };
            PacketBuilder::ip(IpHeaders::Ipv6(Ipv6Header { source: [7; 16], destination: [8; 16], ..Default::default() }, extensions))
        } else {
            let mut header = Ipv4Header::new(0, 64, IpNumber(0), [7; 4], [8; 4]).unwrap();
            header.options = options[..options.len().min(40)].try_into().unwrap();
            PacketBuilder::ip(IpHeaders::Ipv4(header, Ipv4Extensions::default()))
        };
        let mut bytes = Vec::new();
        if is_udp {
            builder.udp(ports.0, ports.1).write(&mut bytes, &media).unwrap();
        } else {
            builder.tcp(ports.0, ports.1, 1, 1000).write(&mut bytes, &media).unwrap();
        }
        let total = bytes.len() as u32;
        bytes.resize(bytes.len() + padding, 0xEE);
        let found = datagram(&bytes);
        prop_assert_eq!(found.transport, if is_udp { Transport::Udp } else { Transport::Tcp });
        prop_assert_eq!((found.source.port(), found.destination.port()), ports);
        prop_assert_eq!((found.ip_bytes, found.payload_bytes, found.payload), (total, media.len() as u32, &media[..]));
        prop_assert_eq!(found.source.is_ipv6(), v6);
    }

    #[test]
    fn no_bytes_cause_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        for first in [0x45, 0x4F, 0x60] {
            let bytes = [&[first][..], &bytes].concat();
            parse(&bytes);
        }
    }
}
