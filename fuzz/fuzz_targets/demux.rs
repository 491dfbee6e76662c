//! TURN framing and RFC 4571 framing of whole and cut payloads, and SDP.
#![no_main]

#[path = "../../crates/rtclab-core/tests/support/parsers/mod.rs"]
mod parsers;

libfuzzer_sys::fuzz_target!(|input: &[u8]| parsers::demux(input));
