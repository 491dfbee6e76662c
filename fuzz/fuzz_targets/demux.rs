//! TURN framing and RFC 4571 framing of whole and cut payloads, and SDP.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rtclab_core::monitor::Sdp;
use rtclab_core::monitor::demux::demultiplex;
use rtclab_core::monitor::framing::{Framing, Segment};
use rtclab_core::rtp::Protocol;

/// The longest UDP payload in a frame of Ethernet. In longer ones, text could state the length of a record.
const ETHERNET_UDP_BYTES: u32 = 1_472;

fuzz_target!(|input: &[u8]| {
    let Some(([high, low], payload)) = input.split_first_chunk::<2>() else { return };
    // The first two bytes say how much longer the payload was on the wire.
    let wire_bytes = payload.len() as u32 + u32::from(u16::from_be_bytes([*high, *low]));
    let content = demultiplex(payload, wire_bytes);
    assert!(content.bytes.len() <= payload.len());
    assert!(content.bytes.len() <= content.wire_bytes as usize);
    let is_text = |byte: &u8| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~');
    if wire_bytes <= ETHERNET_UDP_BYTES && payload.iter().all(is_text) {
        assert_eq!(content.protocol, Protocol::Other);
    }
    let mut framing = Framing::default();
    // Segments of a size from the input. A short last segment is cut by the capture.
    let (size, mut seq, mut frames) = (usize::from(*low % 61) + 1, u32::MAX - 30, 0);
    for bytes in payload.chunks(size) {
        let wire_bytes = bytes.len() as u32 + u32::from(bytes.len() < size) * 100;
        let segment = Segment { seq, begins: *high % 2 == 0, bytes, wire_bytes };
        framing.receive(segment, &mut |content| {
            frames += 1;
            assert!(content.bytes.len() <= payload.len());
        });
        seq = seq.wrapping_add(wire_bytes);
    }
    assert!(frames <= payload.len());
    Sdp::parse(&String::from_utf8_lossy(payload));
});
