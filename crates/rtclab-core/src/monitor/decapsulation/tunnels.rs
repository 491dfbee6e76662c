//! Tunnels: packets in packets.
//!
//! Source: RFC 2516 (PPPoE); RFC 3032, section 2 and RFC 4385, section 3 (MPLS); RFC 2784, RFC 2890 and RFC 2637,
//! section 4.1 (GRE); RFC 7510 and RFC 8086 (both in UDP); draft-foschiano-erspan (ERSPAN); RFC 2003 and RFC 4213
//! (IP in IP); RFC 3378 (EtherIP); RFC 7348 and draft-ietf-nvo3-vxlan-gpe (VXLAN); RFC 8926, section 3 (Geneve);
//! 3GPP TS 29.281, section 5 (GTP-U).

use super::span::be16;
use super::{Header, Inside, Span, Unread, ethertype, ppp};
use crate::monitor::decapsulation::ip::{self, protocol};
use crate::pcapng::link_type;

const ETHERNET: Header = Header::Link(link_type::ETHERNET);

/// A kind of tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tunnel {
    /// PPP over Ethernet.
    Pppoe,
    /// MPLS, with IP or Ethernet inside.
    Mpls,
    /// GRE, also with PPP inside.
    Gre,
    /// ERSPAN of type I, which has no header.
    Erspan1,
    /// ERSPAN of types II and III.
    Erspan,
    /// IPv4 in IP.
    Ipv4InIp,
    /// IPv6 in IP.
    Ipv6InIp,
    /// Ethernet in IP.
    EtherIp,
    /// VXLAN.
    Vxlan,
    /// VXLAN with a field for the protocol inside.
    VxlanGpe,
    /// Geneve.
    Geneve,
    /// User data in mobile networks.
    GtpU,
}

impl Tunnel {
    /// All of them, in the order of the variants.
    pub const ALL: [Tunnel; 12] = [
        Tunnel::Pppoe,
        Tunnel::Mpls,
        Tunnel::Gre,
        Tunnel::Erspan1,
        Tunnel::Erspan,
        Tunnel::Ipv4InIp,
        Tunnel::Ipv6InIp,
        Tunnel::EtherIp,
        Tunnel::Vxlan,
        Tunnel::VxlanGpe,
        Tunnel::Geneve,
        Tunnel::GtpU,
    ];

    /// Its usual name.
    pub fn name(self) -> &'static str {
        match self {
            Tunnel::Pppoe => "PPPoE",
            Tunnel::Mpls => "MPLS",
            Tunnel::Gre => "GRE",
            Tunnel::Erspan1 => "ERSPAN type I",
            Tunnel::Erspan => "ERSPAN",
            Tunnel::Ipv4InIp => "IP in IP",
            Tunnel::Ipv6InIp => "IPv6 in IP (6in4)",
            Tunnel::EtherIp => "EtherIP",
            Tunnel::Vxlan => "VXLAN",
            Tunnel::VxlanGpe => "VXLAN-GPE",
            Tunnel::Geneve => "Geneve",
            Tunnel::GtpU => "GTP-U",
        }
    }

    /// The tunnel that an IP protocol is.
    pub(super) fn of_protocol(number: u8) -> Option<Self> {
        Some(match number {
            protocol::IPV4 => Tunnel::Ipv4InIp,
            protocol::IPV6 => Tunnel::Ipv6InIp,
            protocol::GRE => Tunnel::Gre,
            protocol::ETHER_IP => Tunnel::EtherIp,
            protocol::MPLS => Tunnel::Mpls,
            _ => return None,
        })
    }

    /// The tunnel whose packets are sent to a UDP port. 8472 is VXLAN's in Linux.
    #[inline]
    pub(super) fn of_port(port: u16) -> Option<Self> {
        Some(match port {
            4789 | 8472 => Tunnel::Vxlan,
            4790 => Tunnel::VxlanGpe,
            6081 => Tunnel::Geneve,
            2152 => Tunnel::GtpU,
            4754 => Tunnel::Gre,
            6635 => Tunnel::Mpls,
            _ => return None,
        })
    }

    pub(super) fn strip(self, span: Span<'_>) -> Result<Inside<'_>, Unread> {
        match self {
            Tunnel::Pppoe => ppp::pppoe(span),
            Tunnel::Mpls => mpls(span),
            Tunnel::Gre => gre(span),
            Tunnel::Erspan1 => Ok((ETHERNET, span)),
            Tunnel::Erspan => erspan(span),
            Tunnel::Ipv4InIp | Tunnel::Ipv6InIp => Ok((Header::Ip, span)),
            Tunnel::EtherIp => ether_ip(span),
            Tunnel::Vxlan => vxlan(span),
            Tunnel::VxlanGpe => vxlan_gpe(span),
            Tunnel::Geneve => geneve(span),
            Tunnel::GtpU => gtp_u(span),
        }
    }
}

/// A set of tunnels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tunnels(u16);

impl Tunnels {
    pub(super) fn add(&mut self, tunnel: Tunnel) {
        self.0 |= 1 << tunnel as u16;
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the set has this tunnel.
    pub fn has(self, tunnel: Tunnel) -> bool {
        self.0 >> tunnel as u16 & 1 == 1
    }
}

/// Labels, then IP or Ethernet. Nothing tells which, so the first bits and lengths must.
fn mpls(mut span: Span<'_>) -> Result<Inside<'_>, Unread> {
    loop {
        let is_last = span.head::<4>()?[2] & 1 == 1;
        span = span.skip(4)?;
        if is_last {
            break;
        }
    }
    let version = span.head::<1>()?[0] >> 4;
    let is_ip = matches!(version, 4 | 6);
    if is_ip && ip::header(span).is_ok_and(|header| header.fills(span)) {
        return Ok((Header::Ip, span));
    }
    // A pseudo-wire may have a control word of four bytes, which begins with four zero bits.
    let after_word = span.skip(4).ok().filter(|_| version == 0);
    let ethernet = after_word.into_iter().chain([span]).find(|span| ethertype::is_ethernet(*span));
    match ethernet {
        Some(ethernet) => Ok((ETHERNET, ethernet)),
        None if is_ip => Ok((Header::Ip, span)),
        None if version == 0 => Ok((ETHERNET, span.skip(4)?)),
        None => Err(Unread::MplsContent),
    }
}

mod gre_flag {
    pub(super) const CHECKSUM: u8 = 0x80;
    pub(super) const ROUTING: u8 = 0x40;
    pub(super) const KEY: u8 = 0x20;
    pub(super) const SEQUENCE: u8 = 0x10;
    /// In the second byte, of version 1.
    pub(super) const ACKNOWLEDGMENT: u8 = 0x80;
}

fn gre(span: Span<'_>) -> Result<Inside<'_>, Unread> {
    let head = span.head::<4>()?;
    let [flags, second, ..] = *head;
    let field = |flag: u8| if flags & flag == 0 { 0 } else { 4 };
    let fields = field(gre_flag::KEY) + field(gre_flag::SEQUENCE);
    match second & 7 {
        0 if flags & gre_flag::ROUTING == 0 => {
            let header = gre_content(be16(head, 2), flags & gre_flag::SEQUENCE != 0)?;
            Ok((header, span.skip(4 + field(gre_flag::CHECKSUM) + fields)?))
        }
        1 if flags & gre_flag::KEY != 0 => {
            // PPP, whose length is in the key. Without any, it is an acknowledgment.
            let length = be16(span.head::<8>()?, 4);
            let acknowledgment = if second & gre_flag::ACKNOWLEDGMENT == 0 { 0 } else { 4 };
            if length == 0 {
                return Err(Unread::IpProtocol(protocol::GRE));
            }
            Ok((Header::Ppp, span.skip(4 + fields + acknowledgment)?.limit(length.into())))
        }
        _ => Err(Unread::IpProtocol(protocol::GRE)),
    }
}

fn gre_content(ethertype: u16, has_sequence: bool) -> Result<Header, Unread> {
    match ethertype {
        0x88BE if !has_sequence => Ok(Header::Tunnel(Tunnel::Erspan1)),
        0x88BE | 0x22EB => Ok(Header::Tunnel(Tunnel::Erspan)),
        other => ethertype::content(other),
    }
}

/// Version 1 of the header is type II, version 2 is type III, with a subheader if its last bit is set.
fn erspan(span: Span<'_>) -> Result<Inside<'_>, Unread> {
    match span.head::<1>()?[0] >> 4 {
        1 => Ok((ETHERNET, span.skip(8)?)),
        2 => {
            let head = span.head::<12>()?;
            let after = span.skip(if head[11] & 1 == 0 { 12 } else { 20 })?;
            match head[10] >> 2 & 0x1F {
                0 => Ok((ETHERNET, after)),
                2 => Ok((Header::Ip, after)),
                _ => Err(Unread::Malformed),
            }
        }
        _ => Err(Unread::Malformed),
    }
}

fn ether_ip(span: Span<'_>) -> Result<Inside<'_>, Unread> {
    match span.head::<2>()? {
        [0x30, 0] => Ok((ETHERNET, span.skip(2)?)),
        _ => Err(Unread::Malformed),
    }
}

/// The first byte says that there is a network identifier, and maybe a group policy. The last one is 0.
fn vxlan(span: Span<'_>) -> Result<Inside<'_>, Unread> {
    match span.head::<8>()? {
        [0x08 | 0x88, .., 0] => Ok((ETHERNET, span.skip(8)?)),
        _ => Err(Unread::Malformed),
    }
}

fn vxlan_gpe(span: Span<'_>) -> Result<Inside<'_>, Unread> {
    let inside = match span.head::<8>()? {
        [0x0C, 0, 0, 1 | 2, .., 0] => Header::Ip,
        [0x0C, 0, 0, 3, .., 0] | [0x08, 0, 0, 0, .., 0] => ETHERNET,
        [0x0C, 0, 0, 5, .., 0] => Header::Tunnel(Tunnel::Mpls),
        _ => return Err(Unread::Malformed),
    };
    Ok((inside, span.skip(8)?))
}

fn geneve(span: Span<'_>) -> Result<Inside<'_>, Unread> {
    let head = span.head::<8>()?;
    let is_version_0 = head[0] >> 6 == 0;
    if !is_version_0 || head[1] & 0x3F != 0 || head[7] != 0 {
        return Err(Unread::Malformed);
    }
    let options_bytes = usize::from(head[0] & 0x3F) * 4;
    Ok((ethertype::content(be16(head, 2))?, span.skip(8 + options_bytes)?))
}

mod gtp {
    /// Version 1, protocol type GTP; the lowest three bits say what follows.
    pub(super) const VERSION_1: u8 = 0x30;
    pub(super) const OPTIONAL: u8 = 0x07;
    pub(super) const EXTENSION: u8 = 0x04;
    /// Message type of a packet of a user.
    pub(super) const USER_DATA: u8 = 0xFF;
}

fn gtp_u(span: Span<'_>) -> Result<Inside<'_>, Unread> {
    let head = span.head::<8>()?;
    let [flags, kind, ..] = *head;
    let mut rest = span.skip(8)?;
    let is_packet = flags & !gtp::OPTIONAL == gtp::VERSION_1 && kind == gtp::USER_DATA;
    if !is_packet || u32::from(be16(head, 2)) != rest.wire_bytes {
        return Err(Unread::Malformed);
    }
    let mut extension = 0;
    if flags & gtp::OPTIONAL != 0 {
        let [.., next] = *rest.head::<4>()?;
        extension = if flags & gtp::EXTENSION == 0 { 0 } else { next };
        rest = rest.skip(4)?;
    }
    while extension != 0 {
        // The length is in units of four bytes; the last byte is the type of the next extension.
        let bytes = usize::from(rest.head::<1>()?[0]) * 4;
        extension = rest.skip(bytes.checked_sub(1).ok_or(Unread::Malformed)?)?.head::<1>()?[0];
        rest = rest.skip(bytes)?;
    }
    Ok((Header::Ip, rest))
}
