//! RED and ULPFEC. A parsed packet must survive writing and parsing, and recovery must accept any packets.
#![no_main]

#[path = "../../crates/rtclab-core/tests/support/parsers/mod.rs"]
mod parsers;

libfuzzer_sys::fuzz_target!(|input: &[u8]| parsers::fec(input));
