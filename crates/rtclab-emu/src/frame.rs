//! Reads and changes Ethernet frames.

use crate::config::MacAddress;
use rtclab_core::ecn::Ecn;
use rtclab_core::units::Bytes;
use std::net::Ipv4Addr;

/// Hardware address of the emulator on every port, locally administered.
pub(crate) const OWN_MAC: MacAddress = MacAddress([0x02, 0x77, 0xff, 0x00, 0x00, 0x01]);

pub(crate) const ETHERNET_HEADER: usize = 14;
const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
const ETHERTYPE_ARP: [u8; 2] = [0x08, 0x06];
const ARP_LENGTH: usize = 28;
const ARP_REQUEST: [u8; 2] = [0, 1];
const ARP_REPLY: [u8; 2] = [0, 2];

/// Content of a frame.
#[derive(Debug, PartialEq)]
pub(crate) enum FrameContent {
    /// An IPv4 packet to be carried; `size` is its IP total length.
    Ipv4 { destination: Ipv4Addr, size: Bytes },
    /// An ARP request, and the frame that answers it.
    ArpRequest { reply: Vec<u8> },
    /// Anything else, which is dropped.
    Other,
}

/// Reads the headers of a frame.
pub(crate) fn parse(frame: &[u8]) -> FrameContent {
    match frame.get(12..ETHERNET_HEADER) {
        Some(ethertype) if ethertype == ETHERTYPE_IPV4 => parse_ipv4(&frame[ETHERNET_HEADER..]),
        Some(ethertype) if ethertype == ETHERTYPE_ARP => parse_arp(&frame[ETHERNET_HEADER..]),
        _ => FrameContent::Other,
    }
}

fn parse_ipv4(packet: &[u8]) -> FrameContent {
    if packet.len() < 20 || packet[0] >> 4 != 4 {
        return FrameContent::Other;
    }
    let destination = Ipv4Addr::new(packet[16], packet[17], packet[18], packet[19]);
    let size = Bytes(u64::from(u16::from_be_bytes([packet[2], packet[3]])));
    FrameContent::Ipv4 { destination, size }
}

/// ECN codepoint of the IPv4 packet in a frame.
pub(crate) fn ecn(frame: &[u8]) -> Ecn {
    Ecn::from_bits(frame.get(ETHERNET_HEADER + 1).copied().unwrap_or(0))
}

/// Parses an ARP packet (RFC 826). Every address is behind the emulator, so it answers every request with
/// its own hardware address (proxy ARP, RFC 1027), except when a node probes for its own address.
fn parse_arp(arp: &[u8]) -> FrameContent {
    if arp.len() < ARP_LENGTH || arp[6..8] != ARP_REQUEST || arp[14..18] == arp[24..28] {
        return FrameContent::Other;
    }
    let mut reply = Vec::with_capacity(ETHERNET_HEADER + ARP_LENGTH);
    reply.extend_from_slice(&arp[8..14]);
    reply.extend_from_slice(&OWN_MAC.0);
    reply.extend_from_slice(&ETHERTYPE_ARP);
    reply.extend_from_slice(&arp[..6]); // hardware and protocol type and length of the request
    reply.extend_from_slice(&ARP_REPLY);
    reply.extend_from_slice(&OWN_MAC.0);
    reply.extend_from_slice(&arp[24..28]);
    reply.extend_from_slice(&arp[8..18]);
    FrameContent::ArpRequest { reply }
}

/// Sets the hardware addresses of a frame: from the emulator to `destination`.
pub(crate) fn readdress(frame: &mut [u8], destination: MacAddress) {
    frame[..6].copy_from_slice(&destination.0);
    frame[6..12].copy_from_slice(&OWN_MAC.0);
}

/// Returns the UDP payload in an Ethernet frame; `None` for other packets and for fragments.
pub(crate) fn udp_payload(frame: &[u8]) -> Option<&[u8]> {
    const PROTOCOL_UDP: u8 = 17;
    const FRAGMENT: u16 = 0x3fff; // more-fragments flag and offset
    let packet = frame.get(ETHERNET_HEADER..)?;
    let header = usize::from(packet.first()? & 0x0f) * 4;
    let fragment = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & FRAGMENT;
    if fragment != 0 || *packet.get(9)? != PROTOCOL_UDP {
        return None;
    }
    // Short frames are padded, so the length is taken from the header.
    let end = usize::from(u16::from_be_bytes([packet[2], packet[3]])).min(packet.len());
    packet.get(header + 8..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: [u8; 6] = [0x02, 0x77, 0, 0, 0, 2];

    /// An ARP request from `sender` for `target`.
    fn arp_request(sender: [u8; 4], target: [u8; 4]) -> Vec<u8> {
        let mut frame = vec![0xff; 6];
        frame.extend(NODE);
        frame.extend([0x08, 0x06, 0, 1, 0x08, 0x00, 6, 4, 0, 1]);
        frame.extend(NODE);
        frame.extend(sender);
        frame.extend([0; 6]);
        frame.extend(target);
        frame
    }

    #[test]
    fn an_arp_request_for_any_address_is_answered_with_the_emulators_hardware_address() {
        let own = OWN_MAC.0;
        let mut expected = NODE.to_vec();
        expected.extend(own);
        expected.extend([0x08, 0x06, 0, 1, 0x08, 0x00, 6, 4, 0, 2]);
        expected.extend(own);
        expected.extend([10, 77, 0, 9]);
        expected.extend(NODE);
        expected.extend([10, 77, 0, 2]);
        let received = parse(&arp_request([10, 77, 0, 2], [10, 77, 0, 9]));
        assert_eq!(received, FrameContent::ArpRequest { reply: expected });
    }

    #[test]
    fn a_gratuitous_arp_request_is_not_answered() {
        assert_eq!(parse(&arp_request([10, 77, 0, 2], [10, 77, 0, 2])), FrameContent::Other);
    }

    #[test]
    fn the_codepoint_is_the_lowest_two_bits_after_the_first_byte_of_the_ip_header() {
        // DSCP 46 (expedited forwarding) and ECT(1)
        let mut frame = vec![0; 34];
        frame[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 46 << 2 | 1]);
        assert_eq!(ecn(&frame), Ecn::Ect1);
        assert_eq!(ecn(&frame[..15]), Ecn::NotCapable);
    }

    #[test]
    fn readdressing_changes_the_hardware_addresses_and_nothing_else() {
        let mut frame: Vec<u8> = (0..60).collect();
        readdress(&mut frame, MacAddress(NODE));
        assert_eq!(frame[..6], NODE);
        assert_eq!(frame[6..12], OWN_MAC.0);
        assert_eq!(frame[12..], (12..60).collect::<Vec<u8>>());
    }

    #[test]
    fn ipv6_and_truncated_frames_are_not_carried() {
        let mut ipv6 = vec![0; 60];
        ipv6[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
        assert_eq!(parse(&ipv6), FrameContent::Other);
        let mut short = vec![0; 20];
        short[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
        assert_eq!(parse(&short), FrameContent::Other);
        assert_eq!(parse(&[]), FrameContent::Other);
    }
}
