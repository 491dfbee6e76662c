//! What follows an Ethertype or a header of 802.2.
//!
//! Source: IEEE 802.1Q, 802.1ah, 802.2; RFC 1042.

use super::span::be16;
use super::{Header, Inside, Span, Tunnel, Unread};
use crate::pcapng::link_type;

pub(super) const PPPOE_SESSION: u16 = 0x8864;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86DD;
/// VLAN tags: customer and service tag of 802.1Q, and the earlier service tag.
const VLANS: [u16; 3] = [0x8100, 0x88A8, 0x9100];
const MPLS: [u16; 2] = [0x8847, 0x8848];
/// Ethernet in GRE and other tunnels.
const TRANSPARENT_ETHERNET: u16 = 0x6558;
const BACKBONE_TAG: u16 = 0x88E7;
/// Smaller values in the place of an Ethertype are lengths of frames of 802.2.
const LEAST: u16 = 0x0600;

/// Service access point of IP without SNAP, and of SNAP.
const SAP_IP: u8 = 0x06;
const SAP_SNAP: u8 = 0xAA;
/// Organisations whose SNAP headers have Ethertypes: Ethernet, and bridges to it.
const SNAP_ETHERTYPES: [[u8; 3]; 2] = [[0, 0, 0], [0, 0, 0xF8]];

/// What follows an Ethertype.
#[inline]
pub(super) fn content(ethertype: u16) -> Result<Header, Unread> {
    Ok(match ethertype {
        IPV4 | IPV6 => Header::Ip,
        tag if VLANS.contains(&tag) => Header::Vlan,
        label if MPLS.contains(&label) => Header::Tunnel(Tunnel::Mpls),
        PPPOE_SESSION => Header::Tunnel(Tunnel::Pppoe),
        TRANSPARENT_ETHERNET => Header::Link(link_type::ETHERNET),
        BACKBONE_TAG => Header::BackboneTag,
        other => return Err(Unread::Ethertype(other)),
    })
}

/// An Ethertype at `offset` and what follows it.
#[inline]
pub(super) fn at(span: Span<'_>, offset: usize) -> Result<Inside<'_>, Unread> {
    let after = span.skip(offset)?;
    let ethertype = be16(after.head::<2>()?, 0);
    Ok((content(ethertype)?, after.skip(2)?))
}

#[inline]
pub(super) fn ethernet(span: Span<'_>) -> Result<Inside<'_>, Unread> {
    let length = be16(span.head::<14>()?, 12);
    if length < LEAST { llc(span.skip(14)?.limit(length.into())) } else { at(span, 12) }
}

/// Whether the bytes are an Ethernet header before something that is read.
pub(super) fn is_ethernet(span: Span<'_>) -> bool {
    span.head::<14>().is_ok_and(|header| content(be16(header, 12)).is_ok())
}

pub(super) fn vlan(span: Span<'_>) -> Result<Inside<'_>, Unread> {
    at(span, 2)
}

pub(super) fn backbone_tag(span: Span<'_>) -> Result<Inside<'_>, Unread> {
    Ok((Header::Link(link_type::ETHERNET), span.skip(4)?))
}

/// Logical link control of 802.2, usually with a SNAP header.
pub(super) fn llc(span: Span<'_>) -> Result<Inside<'_>, Unread> {
    match span.head::<3>()? {
        [SAP_SNAP, SAP_SNAP, 3] => {
            let [.., a, b, c] = *span.head::<6>()?;
            if SNAP_ETHERTYPES.contains(&[a, b, c]) {
                at(span, 6)
            } else {
                Err(Unread::Llc(SAP_SNAP))
            }
        }
        [SAP_IP, SAP_IP, _] => Ok((Header::Ip, span.skip(3)?)),
        [other, ..] => Err(Unread::Llc(*other)),
    }
}
