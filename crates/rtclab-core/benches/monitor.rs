//! Packets per second of the monitor and of its parts.
#![allow(missing_docs)] // criterion_group makes a public function

#[path = "../tests/monitor_support/mod.rs"]
mod monitor_support;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use monitor_support::{BEGIN_NS, Pcap, Rtp, channel_data, ethernet, ipv4_udp};
use rtclab_core::monitor::compare::{Points, compare};
use rtclab_core::monitor::{CaptureReader, Monitor, MonitorConfig};
use std::hint::black_box;

const PACKETS: u32 = 200_000;

/// A capture of the first 64 bytes of each frame, with four streams through a TURN server: two video, two
/// audio.
fn capture() -> Vec<u8> {
    let mut pcap = Pcap::with_snaplen(1, 64);
    for index in 0..PACKETS {
        let (stream, number) = (index % 4, index / 4);
        let packet = Rtp {
            ssrc: 0x1000 + stream,
            payload_type: if stream < 2 { 96 } else { 111 },
            seq: number as u16,
            timestamp: number.wrapping_mul(if stream < 2 { 300 } else { 160 }),
            marker: number % 10 == 9,
            payload_bytes: 1000,
        };
        let [high, low] = (index as u16).to_be_bytes();
        let [_, a, b, c] = index.wrapping_mul(218).to_be_bytes();
        let bytes = packet.with_extensions(&[0x22, a, b, c, 0x31, high, low]);
        let framed = channel_data(0x4000 + stream as u16, &bytes);
        let ends = if stream % 2 == 0 { ((1, 5000), (9, 3478)) } else { ((9, 3478), (1, 5000)) };
        pcap.frame(
            BEGIN_NS + i64::from(index) * 833_333,
            &ethernet(&ipv4_udp(ends.0, ends.1, &framed)),
        );
    }
    pcap.bytes
}

fn watch(capture: &[u8], config: &MonitorConfig) -> usize {
    let mut reader = CaptureReader::new(capture).expect("a capture");
    let mut monitor = Monitor::new(config.clone());
    monitor.watch(&mut reader, |_| true).expect("memory can be read");
    monitor.tables(reader.interfaces(), &reader.faults()).tables.len()
}

fn monitor(c: &mut Criterion) {
    let capture = capture();
    let mut group = c.benchmark_group("monitor");
    group.throughput(Throughput::Elements(PACKETS.into()));
    group.bench_function("frames of the capture alone: packets/s", |b| {
        b.iter(|| {
            let mut reader = CaptureReader::new(capture.as_slice()).expect("a capture");
            let mut bytes = 0;
            while let Some(frame) = reader.next_frame().expect("memory can be read") {
                bytes += black_box(frame).bytes.len();
            }
            bytes
        });
    });
    let summary = MonitorConfig::default();
    group.bench_function("four relayed streams, headers only: packets/s", |b| {
        b.iter(|| watch(&capture, &summary));
    });
    group.sample_size(20);
    let packets = MonitorConfig { packets: true, seconds: true, ..MonitorConfig::default() };
    group.bench_function("the same with a row per packet: packets/s", |b| {
        b.iter(|| watch(&capture, &packets));
    });
    group.bench_function("two captures compared: packets/s of each", |b| {
        b.iter(|| {
            let mut open = |_| CaptureReader::new(capture.as_slice());
            compare(Points::TwoCaptures, &summary, &mut open, &mut |_| true).map(|t| t.tables.len())
        });
    });
    group.finish();
}

criterion_group!(benches, monitor);
criterion_main!(benches);
