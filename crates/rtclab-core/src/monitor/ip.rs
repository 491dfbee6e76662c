//! From an IP packet to the UDP datagram or TCP segment in it.
//!
//! The headers are parsed by `etherparse`, laxly: captures keep the beginning of a packet only.

use super::link::LinkPacket;
use etherparse::{LaxIpSlice, TcpSlice, UdpSlice, ip_number};
use std::net::SocketAddr;

const UDP_HEADER_BYTES: u32 = 8;

/// UDP or TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Datagrams.
    Udp,
    /// Segments, not reassembled.
    Tcp,
}

/// A UDP datagram or TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// UDP or TCP.
    pub transport: Transport,
    /// Sending address and port.
    pub source: SocketAddr,
    /// Receiving address and port.
    pub destination: SocketAddr,
    /// IP total length: of the packet, or of the fragment.
    pub ip_bytes: u32,
    /// Length of the payload on the wire; of a first fragment, of the whole datagram (UDP says it).
    pub payload_bytes: u32,
    /// What was captured of the payload.
    pub payload: &'a [u8],
}

/// What an IP packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpContent<'a> {
    /// UDP or TCP; the first fragment of one, too.
    Datagram(Datagram<'a>),
    /// A fragment without transport header.
    LaterFragment,
    /// ICMP and the like.
    Other,
    /// Its headers contradict themselves, or are cut.
    Malformed,
}

/// Reads IP header, options and extension headers, and the transport header; says whether it is a fragment.
#[inline]
pub fn parse<'a>(packet: &LinkPacket<'a>) -> (IpContent<'a>, bool) {
    let Ok((ip, stopped)) = LaxIpSlice::from_slice(packet.ip) else {
        return (IpContent::Malformed, false);
    };
    let (offset, fragment, total) = match &ip {
        LaxIpSlice::Ipv4(ip) => {
            let header = ip.header();
            let total = u32::from(header.total_len());
            (header.fragments_offset().value(), header.is_fragmenting_payload(), total)
        }
        LaxIpSlice::Ipv6(ip) => {
            let length = u32::from(ip.header().payload_length());
            let total = if length == 0 { 0 } else { length + IPV6_HEADER_BYTES };
            let offset = ipv6_fragment_offset(ip.extensions());
            (offset, ip.is_payload_fragmented(), total)
        }
    };
    // Zero when the network card cuts segments, and for jumbograms.
    let ip_bytes = if total == 0 { packet.wire_bytes } else { total };
    if fragment && offset > 0 {
        return (IpContent::LaterFragment, true);
    }
    if stopped.is_some() {
        return (IpContent::Malformed, fragment);
    }
    let payload = ip.payload();
    let header_bytes = payload.payload.as_ptr().addr() - packet.ip.as_ptr().addr();
    let transport_bytes = ip_bytes.saturating_sub(header_bytes as u32);
    let (source, destination) = (ip.source_addr(), ip.destination_addr());
    let content = match payload.ip_number {
        ip_number::UDP => UdpSlice::from_slice_lax(payload.payload).ok().map(|udp| Datagram {
            transport: Transport::Udp,
            source: SocketAddr::new(source, udp.source_port()),
            destination: SocketAddr::new(destination, udp.destination_port()),
            ip_bytes,
            payload_bytes: udp_payload_bytes(udp.length().into(), transport_bytes, fragment),
            payload: udp.payload(),
        }),
        ip_number::TCP => TcpSlice::from_slice(payload.payload).ok().map(|tcp| Datagram {
            transport: Transport::Tcp,
            source: SocketAddr::new(source, tcp.source_port()),
            destination: SocketAddr::new(destination, tcp.destination_port()),
            ip_bytes,
            payload_bytes: transport_bytes.saturating_sub(tcp.header_slice().len() as u32),
            payload: tcp.payload(),
        }),
        _ => return (IpContent::Other, fragment),
    };
    (content.map_or(IpContent::Malformed, IpContent::Datagram), fragment)
}

const IPV6_HEADER_BYTES: u32 = 40;

fn ipv6_fragment_offset(extensions: &etherparse::Ipv6ExtensionsSlice<'_>) -> u16 {
    let fragments = extensions.clone().into_iter().find_map(|extension| match extension {
        etherparse::Ipv6ExtensionSlice::Fragment(fragment) => Some(fragment),
        _ => None,
    });
    fragments.map_or(0, |fragment| fragment.fragment_offset().value())
}

/// By the UDP header where it can be true: not longer than the packet, unless that is a fragment.
fn udp_payload_bytes(udp_length: u32, transport_bytes: u32, fragment: bool) -> u32 {
    let plausible = udp_length >= UDP_HEADER_BYTES && (fragment || udp_length <= transport_bytes);
    let length = if plausible { udp_length } else { transport_bytes };
    length.saturating_sub(UDP_HEADER_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(ip: &[u8]) -> LinkPacket<'_> {
        LinkPacket { ip, wire_bytes: ip.len() as u32, direction: None, device: 0 }
    }

    fn udp(payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x13, 0x88, 0x13, 0x89, 0, 8 + payload.len() as u8, 0, 0];
        bytes.extend_from_slice(payload);
        bytes
    }

    /// With `options` and the flags and offset of fragments.
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

    fn datagram(bytes: &[u8]) -> Datagram<'_> {
        match parse(&packet(bytes)).0 {
            IpContent::Datagram(datagram) => datagram,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_udp_datagram_is_found_behind_ipv4_options_and_link_padding_is_cut() {
        let mut bytes = ipv4(&[1; 8], [0, 0], 17, &udp(b"media"));
        bytes.extend_from_slice(&[0; 4]);
        let found = datagram(&bytes);
        assert_eq!(found.source, "192.0.2.1:5000".parse().unwrap());
        assert_eq!(found.destination, "192.0.2.2:5001".parse().unwrap());
        assert_eq!((found.payload, found.payload_bytes, found.ip_bytes), (&b"media"[..], 5, 41));
    }

    #[test]
    fn extension_headers_of_ipv6_are_passed() {
        // Hop-by-hop options and destination options of 8 bytes each.
        let rest =
            [&[60, 0, 1, 4, 0, 0, 0, 0, 17, 0, 1, 4, 0, 0, 0, 0][..], &udp(b"media")].concat();
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
        assert_eq!(parse(&packet(&bytes[..27])), (IpContent::Malformed, false));
        assert_eq!(parse(&packet(&bytes[..19])), (IpContent::Malformed, false));
    }

    #[test]
    fn first_fragments_are_parsed_and_later_ones_are_not() {
        let mut first = ipv4(&[], [0x20, 0], 17, &udp(&[7; 16]));
        first[25] = 200; // the datagram's length: 192 of payload
        let (content, fragment) = parse(&packet(&first));
        assert!(fragment);
        match content {
            IpContent::Datagram(found) => {
                assert_eq!(
                    (found.payload_bytes, found.ip_bytes, found.payload.len()),
                    (192, 44, 16)
                );
            }
            other => panic!("{other:?}"),
        }
        let later = ipv4(&[], [0, 2], 17, &[7; 16]);
        assert_eq!(parse(&packet(&later)), (IpContent::LaterFragment, true));
        let later = ipv6(44, &[&[17, 0, 0, 8, 0, 0, 0, 1][..], &[7; 16]].concat());
        assert_eq!(parse(&packet(&later)), (IpContent::LaterFragment, true));
        let first = ipv6(44, &[&[17, 0, 0, 1, 0, 0, 0, 1][..], &udp(b"media")].concat());
        assert!(matches!(parse(&packet(&first)), (IpContent::Datagram(_), true)));
    }

    #[test]
    fn a_udp_length_that_lies_is_not_believed() {
        for length in [0, 7, 200] {
            let mut bytes = ipv4(&[], [0, 0], 17, &udp(b"media"));
            bytes[25] = length;
            assert_eq!(datagram(&bytes).payload_bytes, 5, "{length}");
        }
    }

    #[test]
    fn tcp_is_found_and_icmp_is_other() {
        let mut tcp =
            vec![0x13, 0x88, 0x13, 0x89, 0, 0, 0, 1, 0, 0, 0, 0, 0x60, 0, 0, 0, 0, 0, 0, 0];
        tcp.extend_from_slice(&[1, 1, 1, 1]); // four options of one byte
        tcp.extend_from_slice(b"framed");
        let bytes = ipv4(&[], [0, 0], 6, &tcp);
        let found = datagram(&bytes);
        assert_eq!(
            (found.transport, found.payload, found.payload_bytes),
            (Transport::Tcp, &b"framed"[..], 6)
        );
        assert_eq!(parse(&packet(&ipv4(&[], [0, 0], 1, &[0; 8]))), (IpContent::Other, false));
    }
}
