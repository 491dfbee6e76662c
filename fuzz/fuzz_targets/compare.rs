//! Comparison of two captures of RTP packets. Every packet must be matched, lost, added or outside.
//!
//! The input is split into records of 8 bytes: point, stream, sequence number, timestamp, and the capture
//! time in one of several units, so that clocks may have any value.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rtclab_core::monitor::compare::{Points, Side, compare};
use rtclab_core::monitor::{CaptureReader, MonitorConfig};
use rtclab_core::record::Column;

/// Header of a pcap file: nanosecond time stamps, little endian, raw IP.
const HEADER: [u8; 24] =
    [0x4D, 0x3C, 0xB2, 0xA1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 101, 0, 0, 0];

fn record(stream: u8, seq: u8, timestamp: u8, [unit, time @ ..]: [u8; 4]) -> Vec<u8> {
    let time = u32::from_le_bytes([time[0], time[1], time[2], 0]);
    let (seconds, nanos) = if unit & 1 == 0 { (0, time << 6) } else { (time << (unit >> 4), 0) };
    let mut bytes = Vec::new();
    [seconds, nanos, 40, 40].iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
    let hosts = if stream & 1 == 0 { [1, 2] } else { [2, 1] };
    bytes.extend_from_slice(&[
        0x45, 0, 0, 40, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, hosts[0], 10, 0, 0, hosts[1],
    ]);
    bytes.extend_from_slice(&[
        0, 1, 0, 2, 0, 20, 0, 0, 0x80, 96, 0, seq, 0, 0, 0, timestamp, 0, 0, 0, stream,
    ]);
    bytes
}

fuzz_target!(|input: &[u8]| {
    let mut captures = [HEADER.to_vec(), HEADER.to_vec()];
    let mut left = input;
    while let Some((described, rest)) = left.split_first_chunk::<8>() {
        let [side, stream, seq, timestamp, time @ ..] = *described;
        captures[usize::from(side & 1)].extend(record(stream & 7, seq, timestamp, time));
        left = rest;
    }
    let mut open = |side| CaptureReader::new(captures[usize::from(side == Side::B)].as_slice());
    let config = MonitorConfig { packets: true, ..MonitorConfig::default() };
    let tables = compare(Points::TwoCaptures, &config, &mut open, &mut |_| true).expect("captures");
    let column = |table: &str, name: &str| {
        let table = tables.tables.iter().find(|t| t.name == table).expect("the table");
        let column = table.columns.iter().find(|(found, _)| *found == name).expect("the column");
        let Column::Int(values) = &column.1 else { panic!("{name} is not an integer column") };
        values.clone()
    };
    let sum = |name: &str| column("streams", name).iter().sum::<i64>();
    let rows = column("packets", "seq").len() as i64;
    assert_eq!(sum("matched") + sum("lost") + sum("added") + sum("outside"), rows);
});
