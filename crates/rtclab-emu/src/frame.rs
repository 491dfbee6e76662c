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
const PROTOCOL_UDP: u8 = 17;
/// Protocols whose header begins with the ports of source and destination: TCP, UDP, DCCP, SCTP and UDP-Lite.
const PROTOCOLS_WITH_PORTS: [u8; 5] = [6, PROTOCOL_UDP, 33, 132, 136];
/// Flag for more fragments, and fragment offset.
const FRAGMENT: u16 = 0x3fff;
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

/// Sets the ECN codepoint of the IPv4 packet in a frame, and updates the checksum of its header. A frame that is
/// too short for an IPv4 header stays as it is.
///
/// Source of the update: RFC 1624, section 3, equation 3.
pub(crate) fn set_ecn(frame: &mut [u8], ecn: Ecn) {
    let Some(header) = frame.get_mut(ETHERNET_HEADER..).and_then(|p| p.first_chunk_mut::<20>())
    else {
        return;
    };
    let before = u16::from_be_bytes([header[0], header[1]]);
    header[1] = header[1] & !3 | ecn.bits();
    let after = u16::from_be_bytes([header[0], header[1]]);
    let checksum = u16::from_be_bytes([header[10], header[11]]);
    let mut sum = u32::from(!checksum) + u32::from(!before) + u32::from(after);
    // Three words carry at most 2, and adding that carries at most 1.
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    header[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

/// Number of the flow of the IPv4 packet in a frame: a hash of addresses, protocol and ports. Fragments
/// (only the first has ports) and protocols without ports are told apart by addresses and protocol.
pub(crate) fn flow(frame: &[u8]) -> u32 {
    let packet = frame.get(ETHERNET_HEADER..).unwrap_or_default();
    let Some(header) = packet.first_chunk::<20>() else { return 0 };
    let fragment = u16::from_be_bytes([header[6], header[7]]) & FRAGMENT != 0;
    let header_bytes = usize::from(header[0] & 0x0f) * 4;
    let ports = packet.get(header_bytes..).and_then(|rest| rest.first_chunk::<4>());
    let ports = match ports {
        Some(ports) if !fragment && PROTOCOLS_WITH_PORTS.contains(&header[9]) => {
            u32::from_be_bytes(*ports)
        }
        _ => 0,
    };
    let source = u32::from_be_bytes([header[12], header[13], header[14], header[15]]);
    let destination = u32::from_be_bytes([header[16], header[17], header[18], header[19]]);
    let addresses = u64::from(source) << 32 | u64::from(destination);
    (mixed(mixed(addresses) ^ (u64::from(ports) << 8 | u64::from(header[9]))) >> 32) as u32
}

/// The bits of a number mixed so that every bit depends on all. Source: the finaliser of SplitMix64 (Steele, Lea and
/// Flood 2014, "Fast splittable pseudorandom number generators", figure 16).
const fn mixed(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
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

    /// A frame with an IPv4 header of 20 bytes and a valid checksum, and 8 bytes of payload.
    fn ipv4(tos: u8, id: u16, protocol: u8) -> Vec<u8> {
        let mut frame = vec![0; 14];
        frame[12..14].copy_from_slice(&ETHERTYPE_IPV4);
        frame.extend([0x45, tos, 0, 28]);
        frame.extend(id.to_be_bytes());
        frame.extend([0, 0, 64, protocol, 0, 0, 10, 77, 0, 2, 10, 77, 0, 3]);
        frame.extend([0x13, 0x88, 0x27, 0x10, 0, 8, 0, 0]);
        let checksum = checksum(&frame[14..34]);
        frame[24..26].copy_from_slice(&checksum.to_be_bytes());
        frame
    }

    /// The checksum of a header (RFC 791), computed from all words but the checksum itself.
    fn checksum(header: &[u8]) -> u16 {
        let words = header.chunks_exact(2).map(|word| u16::from_be_bytes([word[0], word[1]]));
        let words = words.enumerate().filter(|(index, _)| *index != 5);
        let mut sum: u32 = words.map(|(_, word)| u32::from(word)).sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    /// The id takes all values, and with it the sum of the other words: with every codepoint before and after, and
    /// then with every type of service.
    #[test]
    fn a_changed_codepoint_gives_the_checksum_of_a_full_recomputation_and_changes_nothing_else() {
        let every_id = (0..=u16::MAX).flat_map(|id| [0, 1, 2, 3, 0xb9].map(|tos| (tos, id)));
        let every_tos = (0..=u8::MAX).flat_map(|tos| [0, 0x6b2f, u16::MAX].map(|id| (tos, id)));
        for (tos, id) in every_id.chain(every_tos) {
            let before = ipv4(tos, id, 17);
            for ecn in Ecn::ALL {
                let mut frame = before.clone();
                set_ecn(&mut frame, ecn);
                assert_eq!(frame[15], tos & 0xfc | ecn.bits());
                assert_eq!(frame[24..26], checksum(&frame[14..34]).to_be_bytes(), "{tos} {id}");
                frame[15] = tos;
                frame[24..26].copy_from_slice(&before[24..26]);
                assert_eq!(frame, before);
            }
        }
    }

    #[test]
    fn frames_of_any_length_are_marked_or_left_alone_and_have_a_flow() {
        // A header with options claims 60 bytes, which are not all there.
        for first in [0x45, 0x4f, 0x40] {
            let mut whole = ipv4(1, 7, 17);
            whole[14] = first;
            for length in 0..=whole.len() {
                let mut frame = whole[..length].to_vec();
                set_ecn(&mut frame, Ecn::CongestionExperienced);
                assert_eq!(frame == whole[..length], length < 34, "{length} bytes");
                flow(&frame);
            }
        }
    }

    /// Of 10,000 flows that differ only in a port, two share a number with a probability of 1.2 %, so at most a few
    /// pairs do; and a queue picked by a few bits of the number gets its share.
    #[test]
    fn a_flow_is_addresses_protocol_and_ports() {
        let of = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut frame = ipv4(0, 1, 17);
            change(&mut frame);
            flow(&frame)
        };
        let same = of(&|_| {});
        assert_eq!(same, of(&|f| f[15] = 3), "another codepoint");
        assert_eq!(same, of(&|f| f[19] = 9), "another id");
        assert_eq!(same, of(&|f| f.truncate(38)), "another length");
        for byte in [23, 26, 29, 30, 33, 34, 35, 36, 37] {
            assert_ne!(same, of(&|f| f[byte] ^= 0x11), "byte {byte}");
        }
        let mut numbers = std::collections::HashSet::new();
        let mut queues = [0; 16];
        for port in 0..10_000_u16 {
            let number = of(&|f| f[34..36].copy_from_slice(&port.to_be_bytes()));
            numbers.insert(number);
            queues[number as usize % 16] += 1;
        }
        assert!(numbers.len() > 9_997, "{} numbers", numbers.len());
        // Binomial with mean 625 and standard deviation 24.2; 5 of them are 121.
        assert!(queues.iter().all(|count| (504..=746).contains(count)), "{queues:?}");
    }

    /// Only the first fragment has ports, so all fragments are told apart by addresses and protocol.
    #[test]
    fn all_fragments_between_two_hosts_are_one_flow_for_each_protocol() {
        let fragment = |flags: u8, offset: u8, port: u8, protocol: u8| {
            let mut frame = ipv4(0, 1, protocol);
            (frame[20], frame[21], frame[35]) = (flags, offset, port);
            flow(&frame)
        };
        let first = fragment(0x20, 0, 1, 17);
        assert_eq!(first, fragment(0x20, 185, 2, 17));
        assert_eq!(first, fragment(0, 185, 3, 17));
        assert_ne!(first, fragment(0x20, 0, 1, 6));
        assert_ne!(fragment(0x40, 0, 1, 17), fragment(0x40, 0, 2, 17), "not a fragment");
        // ICMP has no ports: the same bytes are type, code and checksum.
        assert_eq!(fragment(0, 0, 1, 1), fragment(0, 0, 2, 1));
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
