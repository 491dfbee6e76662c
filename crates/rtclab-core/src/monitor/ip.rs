//! Finds the UDP datagram or TCP segment in an IP packet.
//!
//! Lengths are taken from the headers, because a capture may hold only the beginning of a packet.
//!
//! Source: RFC 791, section 3.1; RFC 8200, section 4; RFC 768; RFC 9293, section 3.1.

use super::link::LinkPacket;
use crate::ecn::Ecn;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const IPV4_HEADER_BYTES: usize = 20;
const IPV6_HEADER_BYTES: usize = 40;
const UDP_HEADER_BYTES: usize = 8;
const TCP_HEADER_BYTES: usize = 20;
/// Flag SYN. It occupies the sequence number before the payload.
const TCP_SYN: u8 = 2;

/// Protocol numbers, also of IPv6 extension headers.
mod protocol {
    pub(super) const HOP_BY_HOP: u8 = 0;
    pub(super) const TCP: u8 = 6;
    pub(super) const UDP: u8 = 17;
    pub(super) const ROUTING: u8 = 43;
    pub(super) const FRAGMENT: u8 = 44;
    pub(super) const AUTHENTICATION: u8 = 51;
    pub(super) const DESTINATION_OPTIONS: u8 = 60;
    pub(super) const MOBILITY: u8 = 135;
    pub(super) const HOST_IDENTITY: u8 = 139;
    pub(super) const SHIM6: u8 = 140;
}

/// Maximum number of extension headers. Real packets have fewer, because every kind except one occurs at most
/// once.
const MAX_EXTENSION_HEADERS: usize = 16;

/// UDP or TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// UDP datagrams.
    Udp,
    /// TCP segments, which are not reassembled.
    Tcp,
}

/// A UDP datagram or TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// UDP or TCP.
    pub transport: Transport,
    /// Source address and port.
    pub source: SocketAddr,
    /// Destination address and port.
    pub destination: SocketAddr,
    /// IP total length of the packet or fragment.
    pub ip_bytes: u32,
    /// The packet that this is the first fragment of, if it is one.
    pub fragment: Option<FragmentOf>,
    /// For TCP: sequence number of the first payload byte, and whether that is the first byte of the
    /// connection.
    pub tcp: (u32, bool),
    /// Hop limit, called time to live in IPv4. Every router decrements it.
    pub hop_limit: u8,
    /// Whether the packet is ECN-capable, and whether it was marked (RFC 3168, section 5).
    pub ecn: Ecn,
    /// Length of the payload on the wire. In the first fragment of a UDP datagram, length of the whole
    /// payload.
    pub payload_bytes: u32,
    /// The captured part of the payload.
    pub payload: &'a [u8],
}

/// The packet that a fragment belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FragmentOf {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Identification field.
    pub id: u32,
}

/// What an IP packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpContent<'a> {
    /// A UDP datagram or TCP segment, or the first fragment of one.
    Datagram(Datagram<'a>),
    /// A fragment without a transport header, and its IP total length.
    LaterFragment(FragmentOf, u32),
    /// Any other protocol, such as ICMP.
    Other,
    /// The headers are inconsistent or cut off.
    Malformed,
}

/// Fields of the IP header and its extension headers.
struct IpHeader<'a> {
    source: IpAddr,
    destination: IpAddr,
    hop_limit: u8,
    ecn: Ecn,
    /// Protocol number of what follows the headers.
    protocol: u8,
    /// Fragment offset in units of 8 bytes; `None` if the packet is not fragmented.
    fragment_offset: Option<u16>,
    /// Identification, which is meaningful only for fragments.
    id: u32,
    /// Total length stated by the header; 0 with segmentation offload and for jumbograms.
    total_bytes: u32,
    /// Length of the headers.
    header_bytes: usize,
    /// The captured bytes after the headers, without link-layer padding.
    payload: &'a [u8],
}

/// Parses IP header, options, extension headers and transport header. Also returns whether the packet is
/// a fragment.
#[inline]
pub fn parse<'a>(packet: &LinkPacket<'a>) -> (IpContent<'a>, bool) {
    let header = match packet.ip.first().map(|first| first >> 4) {
        Some(4) => ipv4(packet.ip),
        Some(6) => ipv6(packet.ip),
        _ => None,
    };
    let Some(header) = header else { return (IpContent::Malformed, false) };
    let fragment = header.fragment_offset.is_some();
    let ip_bytes = if header.total_bytes == 0 { packet.wire_bytes } else { header.total_bytes };
    if header.fragment_offset.is_some_and(|offset| offset > 0) {
        return (IpContent::LaterFragment(header.fragment_of(), ip_bytes), true);
    }
    let transport_bytes = ip_bytes.saturating_sub(header.header_bytes as u32);
    let content = match header.protocol {
        protocol::UDP => udp(&header, ip_bytes, transport_bytes),
        protocol::TCP => tcp(&header, ip_bytes, transport_bytes),
        _ => return (IpContent::Other, fragment),
    };
    (content.map_or(IpContent::Malformed, IpContent::Datagram), fragment)
}

#[inline]
fn be16(bytes: &[u8], offset: usize) -> u16 {
    u16::from_be_bytes([bytes[offset], bytes[offset + 1]])
}

impl IpHeader<'_> {
    fn fragment_of(&self) -> FragmentOf {
        FragmentOf { source: self.source, destination: self.destination, id: self.id }
    }
}

/// Returns the bytes after a header, up to the total length that it states.
fn payload(bytes: &[u8], header_bytes: usize, total_bytes: usize) -> &[u8] {
    // A total length below the header length is invalid and ignored.
    let end = if total_bytes < header_bytes { bytes.len() } else { bytes.len().min(total_bytes) };
    bytes.get(header_bytes..end).unwrap_or_default()
}

#[inline]
fn ipv4(bytes: &[u8]) -> Option<IpHeader<'_>> {
    let fixed = bytes.first_chunk::<IPV4_HEADER_BYTES>()?;
    let header_bytes = usize::from(fixed[0] & 15) * 4;
    if header_bytes < IPV4_HEADER_BYTES || bytes.len() < header_bytes {
        return None;
    }
    let total_bytes = be16(fixed, 2);
    let (more, offset) = (fixed[6] & 0x20 != 0, be16(fixed, 6) & 0x1FFF);
    Some(IpHeader {
        source: Ipv4Addr::new(fixed[12], fixed[13], fixed[14], fixed[15]).into(),
        destination: Ipv4Addr::new(fixed[16], fixed[17], fixed[18], fixed[19]).into(),
        hop_limit: fixed[8],
        ecn: Ecn::from_bits(fixed[1]),
        protocol: fixed[9],
        fragment_offset: (more || offset > 0).then_some(offset),
        id: be16(fixed, 4).into(),
        total_bytes: total_bytes.into(),
        header_bytes,
        payload: payload(bytes, header_bytes, total_bytes.into()),
    })
}

fn ipv6(bytes: &[u8]) -> Option<IpHeader<'_>> {
    let fixed = bytes.first_chunk::<IPV6_HEADER_BYTES>()?;
    let (_, source) = fixed[..24].split_last_chunk::<16>()?;
    let (_, destination) = fixed.split_last_chunk::<16>()?;
    let total_bytes = match be16(fixed, 4) {
        0 => 0,
        length => IPV6_HEADER_BYTES + usize::from(length),
    };
    let mut header = IpHeader {
        source: Ipv6Addr::from(*source).into(),
        destination: Ipv6Addr::from(*destination).into(),
        hop_limit: fixed[7],
        ecn: Ecn::from_bits(fixed[1] >> 4),
        protocol: fixed[6],
        fragment_offset: None,
        id: 0,
        total_bytes: total_bytes as u32,
        header_bytes: IPV6_HEADER_BYTES,
        payload: payload(bytes, IPV6_HEADER_BYTES, total_bytes),
    };
    for _ in 0..MAX_EXTENSION_HEADERS {
        let Some(extension_bytes) = extension_bytes(&header)? else { break };
        let extension = header.payload.get(..extension_bytes)?;
        if header.protocol == protocol::FRAGMENT {
            let field = be16(extension, 2);
            // RFC 6946: offset 0 without the flag for more fragments is a whole packet.
            header.fragment_offset = (field & 0xFFF9 != 0).then_some(field >> 3);
            header.id = u32::from(be16(extension, 4)) << 16 | u32::from(be16(extension, 6));
        }
        header.protocol = extension[0];
        header.header_bytes += extension_bytes;
        header.payload = &header.payload[extension_bytes..];
        if header.fragment_offset.is_some_and(|offset| offset > 0) {
            break;
        }
    }
    Some(header)
}

/// Length of the next extension header: `Some(None)` if there is none, `None` if it is cut off.
fn extension_bytes(header: &IpHeader<'_>) -> Option<Option<usize>> {
    let length = || header.payload.get(1).map(|length| usize::from(*length));
    Some(match header.protocol {
        protocol::HOP_BY_HOP
        | protocol::ROUTING
        | protocol::DESTINATION_OPTIONS
        | protocol::MOBILITY
        | protocol::HOST_IDENTITY
        | protocol::SHIM6 => Some((length()? + 1) * 8),
        protocol::FRAGMENT => Some(8),
        // RFC 4302, section 2.2: the length is in units of 4 bytes, minus 2.
        protocol::AUTHENTICATION => Some((length()? + 2) * 4),
        _ => None,
    })
}

#[inline]
fn udp<'a>(ip: &IpHeader<'a>, ip_bytes: u32, transport_bytes: u32) -> Option<Datagram<'a>> {
    let header = ip.payload.first_chunk::<UDP_HEADER_BYTES>()?;
    let length = u32::from(be16(header, 4));
    // Use the UDP length if it is plausible: it may exceed the packet only in a fragment.
    let within = ip.fragment_offset.is_some() || length <= transport_bytes;
    let plausible = length >= UDP_HEADER_BYTES as u32 && within;
    let length = if plausible { length } else { transport_bytes };
    let payload_bytes = length.saturating_sub(UDP_HEADER_BYTES as u32);
    let payload = &ip.payload[UDP_HEADER_BYTES..];
    Some(Datagram {
        transport: Transport::Udp,
        source: SocketAddr::new(ip.source, be16(header, 0)),
        destination: SocketAddr::new(ip.destination, be16(header, 2)),
        ip_bytes,
        hop_limit: ip.hop_limit,
        ecn: ip.ecn,
        fragment: ip.fragment_offset.map(|_| ip.fragment_of()),
        tcp: (0, false),
        payload_bytes,
        payload: &payload[..payload.len().min(payload_bytes as usize)],
    })
}

fn tcp<'a>(ip: &IpHeader<'a>, ip_bytes: u32, transport_bytes: u32) -> Option<Datagram<'a>> {
    let header = ip.payload.first_chunk::<TCP_HEADER_BYTES>()?;
    let header_bytes = usize::from(header[12] >> 4) * 4;
    if header_bytes < TCP_HEADER_BYTES {
        return None;
    }
    let seq = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
    let begins = header[13] & TCP_SYN != 0;
    Some(Datagram {
        transport: Transport::Tcp,
        source: SocketAddr::new(ip.source, be16(header, 0)),
        destination: SocketAddr::new(ip.destination, be16(header, 2)),
        ip_bytes,
        hop_limit: ip.hop_limit,
        ecn: ip.ecn,
        fragment: ip.fragment_offset.map(|_| ip.fragment_of()),
        tcp: (seq.wrapping_add(begins.into()), begins),
        payload_bytes: transport_bytes.saturating_sub(header_bytes as u32),
        payload: ip.payload.get(header_bytes..)?,
    })
}

#[cfg(test)]
mod tests;
