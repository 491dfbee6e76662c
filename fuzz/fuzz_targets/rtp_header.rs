//! RTP header, extensions and padding. A parsed header must survive writing and parsing.
#![no_main]

#[path = "../../crates/rtclab-core/tests/support/parsers/mod.rs"]
mod parsers;

libfuzzer_sys::fuzz_target!(|input: &[u8]| parsers::rtp_header(input));
