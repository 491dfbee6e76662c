//! What the fuzz targets of parsers do with an input, each in a function of the target's name. Any input
//! must pass.
//!
//! The fuzz targets and the test `fuzz_inputs.rs` share this module.
#![allow(dead_code, unused_imports)] // a fuzz target uses one function

mod datagrams;
mod files;
mod watching;

pub(crate) use datagrams::{fec, rtcp_compound, rtp_header, stun, vp8};
pub(crate) use files::{event_log, pcap, pcapng};
pub(crate) use watching::{compare, demux, link_ip, monitor};

/// A fuzz target's name, and what it does with an input.
pub(crate) type Parser = (&'static str, fn(&[u8]));

/// All of them.
pub(crate) const PARSERS: [Parser; 12] = [
    ("compare", compare),
    ("demux", demux),
    ("event_log", event_log),
    ("fec", fec),
    ("link_ip", link_ip),
    ("monitor", monitor),
    ("pcap", pcap),
    ("pcapng", pcapng),
    ("rtcp_compound", rtcp_compound),
    ("rtp_header", rtp_header),
    ("stun", stun),
    ("vp8", vp8),
];
