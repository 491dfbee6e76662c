//! Link and IP headers. The first byte selects the link type.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rtclab_core::monitor::Frame;
use rtclab_core::monitor::ip::{self, IpContent};
use rtclab_core::monitor::link;
use rtclab_core::pcapng::link_type;

const LINK_TYPES: [u16; 8] = [
    link_type::ETHERNET,
    link_type::RAW,
    link_type::NULL,
    link_type::LOOP,
    link_type::LINUX_SLL,
    link_type::LINUX_SLL2,
    link_type::IPV4,
    link_type::IPV6,
];

fuzz_target!(|input: &[u8]| {
    let Some((first, bytes)) = input.split_first() else { return };
    let frame = Frame {
        at_ns: 0,
        interface: 0,
        link_type: LINK_TYPES[usize::from(first % 8)],
        direction: None,
        wire_bytes: bytes.len() as u32,
        bytes,
    };
    let Some(packet) = link::ip_packet(&frame) else { return };
    assert!(packet.ip.len() <= bytes.len());
    if let (IpContent::Datagram(datagram), _) = ip::parse(&packet) {
        assert!(datagram.payload.len() <= bytes.len());
    }
});
