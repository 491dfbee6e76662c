//! What link headers say beside the packet. The test `monitor_encapsulation` goes through all headers.

use super::*;
use crate::monitor::capture::Direction;
use crate::pcapng::link_type;

/// An empty UDP datagram in IPv4.
const IP: [u8; 28] = [
    0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0x13, 0x88, 0x13, 0x89, 0,
    8, 0, 0,
];

/// Direction and device number of a frame with this header before the packet.
fn stated(link_type: u16, direction: Option<Direction>, header: &[u8]) -> (Option<Direction>, u32) {
    let bytes = [header, &IP].concat();
    let wire_bytes = bytes.len() as u32;
    let opened =
        open(&Frame { at_ns: 0, interface: 0, link_type, direction, wire_bytes, bytes: &bytes });
    assert!(matches!(opened.found, Found::Datagram(datagram) if datagram.ip_bytes == 28));
    (opened.point.direction, opened.point.device)
}

const INBOUND: Option<Direction> = Some(Direction::Inbound);
const OUTBOUND: Option<Direction> = Some(Direction::Outbound);

#[test]
fn link_headers_state_the_direction_and_cooked_ones_of_version_2_the_device() {
    let sll = |kind| [[0, kind].as_slice(), &[0; 12], &[8, 0]].concat();
    assert_eq!(stated(link_type::LINUX_SLL, None, &sll(0)), (INBOUND, 0));
    assert_eq!(stated(link_type::LINUX_SLL, None, &sll(4)), (OUTBOUND, 0));
    let sll2 = [&[8, 0, 0, 0, 0, 1, 0, 2, 0, 1, 4, 6][..], &[0; 8]].concat();
    assert_eq!(stated(link_type::LINUX_SLL2, None, &sll2), (OUTBOUND, 65_538));
    let ppp = |direction| [direction, 0xFF, 3, 0, 0x21];
    assert_eq!(stated(link_type::PPP_WITH_DIRECTION, None, &ppp(0)), (INBOUND, 0));
    assert_eq!(stated(link_type::PPP_WITH_DIRECTION, None, &ppp(1)), (OUTBOUND, 0));
    let pktap = |flags| [&[40, 0, 0, 0, 1, 0, 0, 0, 12][..], &[0; 27], &[flags, 0, 0, 0]].concat();
    assert_eq!(stated(link_type::PKTAP, None, &pktap(1)), (INBOUND, 0));
    assert_eq!(stated(link_type::PKTAP, None, &pktap(2)), (OUTBOUND, 0));
    assert_eq!(stated(link_type::PKTAP, None, &pktap(0)), (None, 0));
}

#[test]
fn the_direction_in_the_capture_comes_before_that_in_a_link_header() {
    let sll = [[0, 0].as_slice(), &[0; 12], &[8, 0]].concat();
    assert_eq!(stated(link_type::LINUX_SLL, OUTBOUND, &sll), (OUTBOUND, 0));
    assert_eq!(stated(link_type::RAW, None, &[]), (None, 0));
}

#[test]
fn all_tunnels_are_listed_in_order_and_a_set_has_what_was_added() {
    for (place, tunnel) in Tunnel::ALL.into_iter().enumerate() {
        assert_eq!(tunnel as usize, place);
        let mut tunnels = Tunnels::default();
        assert!(tunnels.is_empty());
        tunnels.add(tunnel);
        let has: Vec<_> = Tunnel::ALL.into_iter().filter(|one| tunnels.has(*one)).collect();
        assert_eq!(has, [tunnel]);
    }
}
