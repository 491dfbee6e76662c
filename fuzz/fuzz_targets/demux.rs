//! TURN framing and RFC 4571 framing, captured whole or cut; SDP.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rtclab_core::monitor::Sdp;
use rtclab_core::monitor::demux::{demultiplex, demultiplex_segment};

fuzz_target!(|input: &[u8]| {
    let Some(([high, low], payload)) = input.split_first_chunk::<2>() else { return };
    // How much longer the payload was on the wire.
    let wire_bytes = payload.len() as u32 + u32::from(u16::from_be_bytes([*high, *low]));
    let content = demultiplex(payload, wire_bytes);
    assert!(content.bytes.len() <= payload.len());
    assert!(content.bytes.len() <= content.wire_bytes as usize);
    let mut frames = 0;
    demultiplex_segment(payload, wire_bytes, &mut |content| {
        frames += 1;
        assert!(content.bytes.len() <= payload.len());
    });
    assert!(frames <= payload.len());
    Sdp::parse(&String::from_utf8_lossy(payload));
});
