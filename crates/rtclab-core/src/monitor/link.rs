//! Finds the IP packet in a captured frame.
//!
//! Source: <https://www.tcpdump.org/linktypes.html>; IEEE 802.1Q.

use super::capture::{Direction, Frame};
use crate::pcapng::link_type;

/// Values that `DLT_RAW` has on some systems, which wrote them into files.
const OTHER_RAW: [u16; 2] = [12, 14];
const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86DD;
/// Ethertypes of VLAN tags: customer and service tag of 802.1Q, and the earlier service tag.
const ETHERTYPES_VLAN: [u16; 3] = [0x8100, 0x88A8, 0x9100];
/// Address families of IP: `AF_INET`, then `AF_INET6` of Linux, of NetBSD and OpenBSD, of FreeBSD and of
/// Darwin.
const ADDRESS_FAMILIES: [u32; 5] = [2, 10, 24, 28, 30];
/// Packet type of a frame sent by the capturing host: `PACKET_OUTGOING` of Linux.
const SLL_OUTGOING: u16 = 4;

/// An IP packet in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkPacket<'a> {
    /// Captured bytes from the IP header on. Padding may follow the packet, because Ethernet pads short
    /// frames.
    pub ip: &'a [u8],
    /// Length on the wire from the IP header on.
    pub wire_bytes: u32,
    /// Direction of the frame, or the one in a cooked link header.
    pub direction: Option<Direction>,
    /// Device number in a cooked capture of all devices, else 0.
    pub device: u32,
}

/// Finds the IP packet in a frame. `None` if there is none, or if the frame is cut off before it.
#[inline]
pub fn ip_packet<'a>(frame: &Frame<'a>) -> Option<LinkPacket<'a>> {
    let bytes = frame.bytes;
    let mut packet = LinkPacket { ip: &[], wire_bytes: 0, direction: frame.direction, device: 0 };
    packet.ip = match frame.link_type {
        link_type::ETHERNET => after_ethertype(bytes, 12)?,
        link_type::RAW | link_type::IPV4 | link_type::IPV6 => bytes,
        link_type::NULL | link_type::LOOP => {
            let (family, ip) = bytes.split_first_chunk::<4>()?;
            let orders = [u32::from_be_bytes(*family), u32::from_le_bytes(*family)];
            orders.iter().any(|family| ADDRESS_FAMILIES.contains(family)).then_some(ip)?
        }
        link_type::LINUX_SLL => {
            packet.direction = packet.direction.or(sll_direction(be16(bytes, 0)?));
            after_ethertype(bytes, 14)?
        }
        link_type::LINUX_SLL2 => {
            packet.direction = packet.direction.or(sll_direction((*bytes.get(10)?).into()));
            packet.device = u32::from(be16(bytes, 4)?) << 16 | u32::from(be16(bytes, 6)?);
            let ip = bytes.get(20..)?;
            match be16(bytes, 0)? {
                ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => ip,
                tag if ETHERTYPES_VLAN.contains(&tag) => after_ethertype(ip, 2)?,
                _ => return None,
            }
        }
        other if OTHER_RAW.contains(&other) => bytes,
        _ => return None,
    };
    let header_bytes = bytes.len() - packet.ip.len();
    packet.wire_bytes = frame.wire_bytes.saturating_sub(header_bytes as u32);
    Some(packet)
}

/// Returns the IP packet after the Ethertype at `offset` and any VLAN tags.
#[inline]
fn after_ethertype(bytes: &[u8], mut offset: usize) -> Option<&[u8]> {
    loop {
        match be16(bytes, offset)? {
            ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => return bytes.get(offset + 2..),
            tag if ETHERTYPES_VLAN.contains(&tag) => offset += 4,
            _ => return None,
        }
    }
}

fn sll_direction(packet_type: u16) -> Option<Direction> {
    Some(if packet_type == SLL_OUTGOING { Direction::Outbound } else { Direction::Inbound })
}

#[inline]
fn be16(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(offset)?, *bytes.get(offset + 1)?]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(link_type: u16, header: &[u8]) -> Option<(Option<Direction>, u32)> {
        let bytes = [header, b"ip packet"].concat();
        let wire_bytes = bytes.len() as u32 + 100;
        let frame =
            Frame { at_ns: 0, interface: 0, link_type, direction: None, wire_bytes, bytes: &bytes };
        let packet = ip_packet(&frame)?;
        assert_eq!((packet.ip, packet.wire_bytes), (&b"ip packet"[..], 109));
        Some((packet.direction, packet.device))
    }

    /// An IP packet was found. Its direction is unknown and it has no device number.
    const PLAIN: Option<(Option<Direction>, u32)> = Some((None, 0));

    #[test]
    fn ethernet_may_have_several_vlan_tags() {
        let addresses = [0; 12];
        let with = |rest: &[u8]| found(link_type::ETHERNET, &[&addresses, rest].concat());
        assert_eq!(with(&[0x08, 0]), PLAIN);
        assert_eq!(with(&[0x86, 0xDD]), PLAIN);
        assert_eq!(with(&[0x81, 0, 0, 7, 0x08, 0]), PLAIN);
        assert_eq!(with(&[0x88, 0xA8, 0, 7, 0x81, 0, 0, 8, 0x91, 0, 0, 9, 0x86, 0xDD]), PLAIN);
        assert_eq!(with(&[0x08, 0x06]), None);
    }

    #[test]
    fn cooked_captures_state_the_direction_and_version_2_the_device() {
        let sll =
            |kind| found(link_type::LINUX_SLL, &[[0, kind].as_slice(), &[0; 12], &[8, 0]].concat());
        assert_eq!(sll(0), Some((Some(Direction::Inbound), 0)));
        assert_eq!(sll(4), Some((Some(Direction::Outbound), 0)));
        let head = [0x86, 0xDD, 0, 0, 0, 1, 0, 2, 0, 1, 4, 6];
        let sll2 = found(link_type::LINUX_SLL2, &[&head[..], &[0; 8]].concat());
        assert_eq!(sll2, Some((Some(Direction::Outbound), 65_538)));
    }

    #[test]
    fn loopback_families_are_read_in_both_byte_orders() {
        assert_eq!(found(link_type::NULL, &[2, 0, 0, 0]), PLAIN);
        assert_eq!(found(link_type::NULL, &[0, 0, 0, 30]), PLAIN);
        assert_eq!(found(link_type::LOOP, &[0, 0, 0, 24]), PLAIN);
        assert_eq!(found(link_type::LOOP, &[0, 0, 0, 7]), None);
    }

    #[test]
    fn raw_ip_has_no_link_header_and_unknown_link_types_carry_nothing() {
        assert_eq!(found(link_type::RAW, &[]), PLAIN);
        assert_eq!(found(147, &[]), None);
    }

    #[test]
    fn a_frame_cut_off_before_the_ip_packet_carries_nothing() {
        let frame = |bytes| Frame {
            at_ns: 0,
            interface: 0,
            link_type: link_type::ETHERNET,
            direction: None,
            wire_bytes: 60,
            bytes,
        };
        let bytes = [&[0; 12][..], &[0x81, 0, 0, 1, 0x08, 0]].concat();
        for len in 0..bytes.len() {
            assert_eq!(ip_packet(&frame(&bytes[..len])), None, "{len}");
        }
        assert_eq!(ip_packet(&frame(&bytes)).map(|p| (p.ip.len(), p.wire_bytes)), Some((0, 42)));
    }
}
