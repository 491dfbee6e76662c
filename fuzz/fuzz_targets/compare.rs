//! Comparison of two captures of RTP packets. Every packet must be matched, lost, added or outside.
#![no_main]

#[path = "../../crates/rtclab-core/tests/support/parsers/mod.rs"]
mod parsers;

libfuzzer_sys::fuzz_target!(|input: &[u8]| parsers::compare(input));
