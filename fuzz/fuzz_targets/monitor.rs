//! The whole monitor: datagrams between two hosts, then the tables.
//!
//! The input is split into records: milliseconds since the previous record, a byte with direction and port, a
//! length, and that many bytes of UDP payload.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rtclab_core::monitor::{CaptureFaults, Frame, Monitor, MonitorConfig, Sdp};
use rtclab_core::pcapng::link_type;

fn packet(from_a: bool, port: u8, payload: &[u8]) -> Vec<u8> {
    let total = (28 + payload.len()) as u16;
    let (source, destination) = if from_a { (1, 2) } else { (2, 1) };
    let mut bytes = vec![0x45, 0];
    bytes.extend_from_slice(&total.to_be_bytes());
    bytes.extend_from_slice(&[0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, source, 10, 0, 0, destination]);
    bytes.extend_from_slice(&[0x80, port, 0x80, port]);
    bytes.extend_from_slice(&(total - 20).to_be_bytes());
    bytes.extend_from_slice(&[0, 0]);
    bytes.extend_from_slice(payload);
    bytes
}

fuzz_target!(|input: &[u8]| {
    let config =
        MonitorConfig { sdp: Sdp::default(), packets: true, seconds: true, max_streams: 16 };
    let mut monitor = Monitor::new(config);
    let (mut rest, mut at_ns) = (input, 0);
    while let [gap, way, length, after @ ..] = rest {
        let (payload, after) = after.split_at(after.len().min(usize::from(*length)));
        rest = after;
        at_ns += i64::from(*gap) * 1_000_000;
        let bytes = packet(way & 1 == 0, way >> 6, payload);
        monitor.handle_frame(&Frame {
            at_ns,
            interface: 0,
            link_type: link_type::RAW,
            direction: None,
            wire_bytes: bytes.len() as u32,
            bytes: &bytes,
        });
    }
    let tables = monitor.tables(&[], &CaptureFaults::default());
    assert!(tables.tables.len() >= 3);
});
