//! What the frames of a link type begin with.
//!
//! Source: <https://www.tcpdump.org/linktypes.html>; `net/pktap.h` of Darwin; `linux/netfilter/nfnetlink_log.h`.

use super::span::{be16, be32, le16, le32};
use super::{Header, Inside, Span, Tunnel, Unread, ethertype, wlan};
use crate::monitor::decapsulation::Point;
use crate::pcapng::{Direction, link_type};

/// Values that `DLT_RAW` has on some systems, which wrote them into files.
const OTHER_RAW: [u16; 2] = [12, 14];
/// Address families of IP: `AF_INET`, then `AF_INET6` of Linux, of NetBSD and OpenBSD, of FreeBSD and of
/// Darwin.
const ADDRESS_FAMILIES: [u32; 5] = [2, 10, 24, 28, 30];
/// Packet type of a frame sent by the capturing host: `PACKET_OUTGOING` of Linux.
const SLL_OUTGOING: u16 = 4;
/// Protocol of a cooked frame that has a header of 802.2: `ETH_P_802_2`.
const SLL_LLC: u16 = 4;

const PKTAP_HEADER_BYTES: usize = 40;
const MAX_PKTAP_BYTES: usize = 1024;

/// Attribute of NFLOG with the packet: `NFULA_PAYLOAD`. No attribute has a number above 255.
const NFLOG_PAYLOAD: u16 = 9;
const NFLOG_MAX_ATTRIBUTE: u16 = 255;

/// Strips what frames of a link type begin with. Notes direction and device, if it states them.
#[inline]
pub(super) fn strip<'a>(
    link_type: u16,
    span: Span<'a>,
    point: &mut Point,
) -> Result<Inside<'a>, Unread> {
    match link_type {
        link_type::ETHERNET => ethertype::ethernet(span),
        link_type::RAW | link_type::IPV4 | link_type::IPV6 => Ok((Header::Ip, span)),
        link_type::NULL | link_type::LOOP => loopback(span),
        link_type::LINUX_SLL => cooked(span, point),
        link_type::LINUX_SLL2 => cooked_2(span, point),
        link_type::PPP | link_type::PPP_HDLC | link_type::C_HDLC => Ok((Header::Ppp, span)),
        link_type::PPP_WITH_DIRECTION => {
            let outbound = span.head::<1>()?[0] != 0;
            note_direction(point, if outbound { Direction::Outbound } else { Direction::Inbound });
            Ok((Header::Ppp, span.skip(1)?))
        }
        link_type::PPP_ETHER => Ok((Header::Tunnel(Tunnel::Pppoe), span)),
        link_type::MPLS => Ok((Header::Tunnel(Tunnel::Mpls), span)),
        link_type::IEEE802_11 => Ok((Header::Wlan { padded: false }, span)),
        link_type::IEEE802_11_RADIOTAP => wlan::radiotap(span),
        link_type::IEEE802_11_PRISM | link_type::IEEE802_11_AVS => wlan::prism_or_avs(span),
        link_type::PPI => wlan::ppi(span),
        link_type::PKTAP | link_type::USER2 => pktap(link_type, span, point),
        link_type::NFLOG => nflog(span),
        other if OTHER_RAW.contains(&other) => Ok((Header::Ip, span)),
        other => Err(Unread::LinkType(other)),
    }
}

fn note_direction(point: &mut Point, direction: Direction) {
    point.direction.get_or_insert(direction);
}

fn loopback(span: Span<'_>) -> Result<Inside<'_>, Unread> {
    let head = span.head::<4>()?;
    let orders = [be32(head, 0), le32(head, 0)];
    if orders.iter().any(|family| ADDRESS_FAMILIES.contains(family)) {
        return Ok((Header::Ip, span.skip(4)?));
    }
    Err(Unread::AddressFamily(orders[0].min(orders[1])))
}

fn cooked<'a>(span: Span<'a>, point: &mut Point) -> Result<Inside<'a>, Unread> {
    let head = span.head::<16>()?;
    note_direction(point, sll_direction(be16(head, 0)));
    cooked_content(be16(head, 2), be16(head, 14), span.skip(16)?)
}

fn cooked_2<'a>(span: Span<'a>, point: &mut Point) -> Result<Inside<'a>, Unread> {
    let head = span.head::<20>()?;
    note_direction(point, sll_direction(head[10].into()));
    point.device = be32(head, 4);
    cooked_content(be16(head, 8), be16(head, 0), span.skip(20)?)
}

fn sll_direction(packet_type: u16) -> Direction {
    if packet_type == SLL_OUTGOING { Direction::Outbound } else { Direction::Inbound }
}

/// What follows a cooked header, by the kind of device (`ARPHRD_` of Linux) and the protocol.
fn cooked_content(device: u16, protocol: u16, after: Span<'_>) -> Result<Inside<'_>, Unread> {
    match (device, protocol) {
        (801, _) => Ok((Header::Link(link_type::IEEE802_11), after)),
        (802, _) => Ok((Header::Link(link_type::IEEE802_11_PRISM), after)),
        (803, _) => Ok((Header::Link(link_type::IEEE802_11_RADIOTAP), after)),
        (824, _) => Err(Unread::LinkType(link_type::NETLINK)),
        (_, SLL_LLC) => ethertype::llc(after),
        (_, ethertype) => Ok((ethertype::content(ethertype)?, after)),
    }
}

/// The header of PKTAP, which states its length, a link type and the direction. Files say either its own
/// link type or one for private use.
fn pktap<'a>(link_type: u16, span: Span<'a>, point: &mut Point) -> Result<Inside<'a>, Unread> {
    let head = span.head::<PKTAP_HEADER_BYTES>()?;
    let (header_bytes, inner) = (le32(head, 0) as usize, u16::try_from(le32(head, 8)));
    let plausible = (PKTAP_HEADER_BYTES..=MAX_PKTAP_BYTES).contains(&header_bytes);
    let inner = inner.ok().filter(|_| plausible).ok_or(Unread::LinkType(link_type))?;
    match le32(head, 36) & 3 {
        1 => note_direction(point, Direction::Inbound),
        2 => note_direction(point, Direction::Outbound),
        _ => {}
    }
    Ok((Header::Link(inner), span.skip(header_bytes)?))
}

/// Attributes, in the byte order of the capturing machine. One of them is the packet.
fn nflog(span: Span<'_>) -> Result<Inside<'_>, Unread> {
    let [family, version, ..] = *span.head::<4>()?;
    if version != 0 || !ADDRESS_FAMILIES.contains(&family.into()) {
        return Err(Unread::LinkType(link_type::NFLOG));
    }
    let mut rest = span.skip(4)?;
    loop {
        let head = rest.head::<4>()?;
        let little = le16(head, 2) <= NFLOG_MAX_ATTRIBUTE;
        let of = |offset| if little { le16(head, offset) } else { be16(head, offset) };
        let (length, kind) = (of(0), of(2));
        if length < 4 {
            return Err(Unread::Malformed);
        }
        if kind == NFLOG_PAYLOAD {
            return Ok((Header::Ip, rest.limit(length.into()).skip(4)?));
        }
        rest = rest.skip(usize::from(length).next_multiple_of(4))?;
    }
}
