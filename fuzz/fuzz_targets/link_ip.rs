//! Link headers, tunnels and IP headers. The first byte selects the link type, and how much was cut.
#![no_main]

#[path = "../../crates/rtclab-core/tests/support/parsers/mod.rs"]
mod parsers;

libfuzzer_sys::fuzz_target!(|input: &[u8]| parsers::link_ip(input));
