//! Capture files in the pcapng format. The input follows a valid section header.
#![no_main]

#[path = "../../crates/rtclab-core/tests/support/parsers/mod.rs"]
mod parsers;

libfuzzer_sys::fuzz_target!(|input: &[u8]| parsers::pcapng(input));
