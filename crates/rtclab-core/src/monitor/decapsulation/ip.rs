//! IP packets, and the UDP datagrams and TCP segments in them.
//!
//! Lengths are taken from the headers, because a capture may hold only the beginning of a packet.
//!
//! Source: RFC 791, section 3.1; RFC 8200, section 4; RFC 3168, section 5; RFC 768; RFC 9293, section 3.1.

use super::span::{Span, be16, be32, be128};
use super::unread::Unread;
use crate::ecn::Ecn;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const IPV4_HEADER_BYTES: usize = 20;
const IPV6_HEADER_BYTES: usize = 40;
const UDP_HEADER_BYTES: usize = 8;
const TCP_HEADER_BYTES: usize = 20;
/// Flag SYN. It occupies the sequence number before the payload.
const TCP_SYN: u8 = 2;

/// Protocol numbers, also of IPv6 extension headers.
pub(super) mod protocol {
    pub(in crate::monitor) const HOP_BY_HOP: u8 = 0;
    pub(in crate::monitor) const IPV4: u8 = 4;
    pub(in crate::monitor) const TCP: u8 = 6;
    pub(in crate::monitor) const UDP: u8 = 17;
    pub(in crate::monitor) const IPV6: u8 = 41;
    pub(in crate::monitor) const ROUTING: u8 = 43;
    pub(in crate::monitor) const FRAGMENT: u8 = 44;
    pub(in crate::monitor) const GRE: u8 = 47;
    pub(in crate::monitor) const AUTHENTICATION: u8 = 51;
    pub(in crate::monitor) const DESTINATION_OPTIONS: u8 = 60;
    pub(in crate::monitor) const ETHER_IP: u8 = 97;
    pub(in crate::monitor) const MOBILITY: u8 = 135;
    pub(in crate::monitor) const MPLS: u8 = 137;
    pub(in crate::monitor) const HOST_IDENTITY: u8 = 139;
    pub(in crate::monitor) const SHIM6: u8 = 140;
}

/// The longest content of an Ethernet frame that may be padding in part, before which a VLAN tag was stripped.
const MAX_PADDED_BYTES: u32 = 50;

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
pub struct TransportDatagram<'a> {
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
    /// ECN codepoint.
    pub ecn: Ecn,
    /// Hop limit, called time to live in IPv4. Every router decrements it.
    pub hop_limit: u8,
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

/// Fields of the IP header and its extension headers.
pub(super) struct IpHeader<'a> {
    source: IpAddr,
    destination: IpAddr,
    ecn: Ecn,
    hop_limit: u8,
    /// Protocol number of what follows the headers.
    pub(super) protocol: u8,
    /// Fragment offset in units of 8 bytes; `None` if the packet is not fragmented.
    pub(super) fragment_offset: Option<u16>,
    /// Identification, which is meaningful only for fragments.
    id: u32,
    /// Total length.
    pub(super) total_bytes: u32,
    /// Whether the header states the total length. Those of jumbograms and of packets in segmentation offload
    /// do not, so that the packet is as long as on the wire.
    states_total: bool,
    /// What follows the headers, without link-layer padding.
    pub(super) payload: Span<'a>,
}

/// Parses the IP header, options and extension headers.
#[inline]
pub(super) fn header(span: Span<'_>) -> Result<IpHeader<'_>, Unread> {
    match span.head::<1>()?[0] >> 4 {
        4 => ipv4(span),
        6 => ipv6(span),
        _ => Err(Unread::Malformed),
    }
}

/// Returns the packet without padding. The capture may end before the total length, and the wire may, within
/// a fragment.
#[inline]
fn packet(span: Span<'_>, total_bytes: Option<u32>) -> Span<'_> {
    match total_bytes {
        Some(total_bytes) => Span { wire_bytes: total_bytes, ..span.limit(total_bytes) },
        None => span,
    }
}

#[inline]
fn ipv4(span: Span<'_>) -> Result<IpHeader<'_>, Unread> {
    let fixed = span.head::<IPV4_HEADER_BYTES>()?;
    let header_bytes = usize::from(fixed[0] & 15) * 4;
    if header_bytes < IPV4_HEADER_BYTES {
        return Err(Unread::Malformed);
    }
    let total_bytes = Some(be16(fixed, 2)).filter(|total| usize::from(*total) >= header_bytes);
    let packet = packet(span, total_bytes.map(u32::from));
    let (more, offset) = (fixed[6] & 0x20 != 0, be16(fixed, 6) & 0x1FFF);
    Ok(IpHeader {
        source: Ipv4Addr::new(fixed[12], fixed[13], fixed[14], fixed[15]).into(),
        destination: Ipv4Addr::new(fixed[16], fixed[17], fixed[18], fixed[19]).into(),
        ecn: Ecn::from_bits(fixed[1]),
        hop_limit: fixed[8],
        protocol: fixed[9],
        fragment_offset: (more || offset > 0).then_some(offset),
        id: be16(fixed, 4).into(),
        total_bytes: packet.wire_bytes,
        states_total: total_bytes.is_some(),
        payload: packet.skip(header_bytes)?,
    })
}

fn ipv6(span: Span<'_>) -> Result<IpHeader<'_>, Unread> {
    let fixed = span.head::<IPV6_HEADER_BYTES>()?;
    let (source, destination) = (be128(fixed, 8), be128(fixed, 24));
    let length = Some(be16(fixed, 4)).filter(|length| *length > 0);
    let total_bytes = length.map(|length| IPV6_HEADER_BYTES as u32 + u32::from(length));
    let packet = packet(span, total_bytes);
    let mut header = IpHeader {
        source: Ipv6Addr::from(source).into(),
        destination: Ipv6Addr::from(destination).into(),
        // The lowest two bits of the traffic class (RFC 8200, section 7).
        ecn: Ecn::from_bits(fixed[1] >> 4),
        hop_limit: fixed[7],
        protocol: fixed[6],
        fragment_offset: None,
        id: 0,
        total_bytes: packet.wire_bytes,
        states_total: total_bytes.is_some(),
        payload: packet.skip(IPV6_HEADER_BYTES)?,
    };
    for _ in 0..MAX_EXTENSION_HEADERS {
        let Some(extension_bytes) = extension_bytes(&header)? else { break };
        let (extension, rest) = (header.payload, header.payload.skip(extension_bytes)?);
        if header.protocol == protocol::FRAGMENT {
            let extension = extension.head::<8>()?;
            let field = be16(extension, 2);
            // RFC 6946: offset 0 without the flag for more fragments is a whole packet.
            header.fragment_offset = (field & 0xFFF9 != 0).then_some(field >> 3);
            header.id = be32(extension, 4);
        }
        header.protocol = extension.head::<1>()?[0];
        header.payload = rest;
        if header.fragment_offset.is_some_and(|offset| offset > 0) {
            break;
        }
    }
    Ok(header)
}

/// Length of the next extension header, if there is one.
fn extension_bytes(header: &IpHeader<'_>) -> Result<Option<usize>, Unread> {
    let length = || header.payload.head::<2>().map(|[_, length]| usize::from(*length));
    Ok(match header.protocol {
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

impl<'a> IpHeader<'a> {
    pub(super) fn fragment_of(&self) -> FragmentOf {
        FragmentOf { source: self.source, destination: self.destination, id: self.id }
    }

    /// Whether the packet is as long as the bytes it is in, or shorter in a frame that Ethernet pads.
    pub(super) fn fills(&self, span: Span<'_>) -> bool {
        let padded = self.total_bytes < span.wire_bytes && span.wire_bytes <= MAX_PADDED_BYTES;
        self.states_total && (self.total_bytes == span.wire_bytes || padded)
    }

    #[inline]
    pub(super) fn udp(&self) -> Result<TransportDatagram<'a>, Unread> {
        let header = self.payload.head::<UDP_HEADER_BYTES>()?;
        let length = u32::from(be16(header, 4));
        // Use the UDP length if it is plausible: it may exceed the packet only in a fragment.
        let within = self.fragment_offset.is_some() || length <= self.payload.wire_bytes;
        let plausible = length >= UDP_HEADER_BYTES as u32 && within;
        let length = if plausible { length } else { self.payload.wire_bytes };
        Ok(TransportDatagram {
            transport: Transport::Udp,
            tcp: (0, false),
            payload_bytes: length - UDP_HEADER_BYTES as u32,
            payload: self.payload.limit(length).skip(UDP_HEADER_BYTES)?.bytes,
            ..self.datagram(header)
        })
    }

    /// The options may be cut off.
    pub(super) fn tcp(&self) -> Result<TransportDatagram<'a>, Unread> {
        let header = self.payload.head::<TCP_HEADER_BYTES>()?;
        let header_bytes = usize::from(header[12] >> 4) * 4;
        let payload_bytes = self.payload.wire_bytes.checked_sub(header_bytes as u32);
        if header_bytes < TCP_HEADER_BYTES {
            return Err(Unread::Malformed);
        }
        let begins = header[13] & TCP_SYN != 0;
        Ok(TransportDatagram {
            transport: Transport::Tcp,
            tcp: (be32(header, 4).wrapping_add(begins.into()), begins),
            payload_bytes: payload_bytes.ok_or(Unread::Malformed)?,
            payload: self.payload.bytes.get(header_bytes..).unwrap_or_default(),
            ..self.datagram(header)
        })
    }

    /// What UDP and TCP have in common.
    #[inline]
    fn datagram(&self, header: &[u8]) -> TransportDatagram<'a> {
        TransportDatagram {
            transport: Transport::Udp,
            source: SocketAddr::new(self.source, be16(header, 0)),
            destination: SocketAddr::new(self.destination, be16(header, 2)),
            ip_bytes: self.total_bytes,
            fragment: self.fragment_offset.map(|_| self.fragment_of()),
            tcp: (0, false),
            ecn: self.ecn,
            hop_limit: self.hop_limit,
            payload_bytes: 0,
            payload: &[],
        }
    }
}

#[cfg(test)]
mod tests;
