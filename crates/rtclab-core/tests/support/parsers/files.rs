//! Parsers of files: captures and event logs.

use rtclab_core::event_log::EventLog;
use rtclab_core::monitor::CaptureReader;
use rtclab_core::table::Column;

const PCAP_MAGICS: [u32; 4] = [0xA1B2_C3D4, 0xD4C3_B2A1, 0xA1B2_3C4D, 0x4D3C_B2A1];

/// A section header block of 28 bytes, little-endian, with unknown section length.
const PCAPNG_SECTION: [u8; 28] = [
    0x0A, 0x0D, 0x0D, 0x0A, 28, 0, 0, 0, 0x4D, 0x3C, 0x2B, 0x1A, 1, 0, 0, 0, 0xFF, 0xFF, 0xFF,
    0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 28, 0, 0, 0,
];

/// The beginning of an event log.
const LOG_BEGIN: [u8; 17] = [
    0x82, 0x01, 0x0E, 0x08, 0x8C, 0xDF, 0xF1, 0x01, 0x10, 0x02, 0x18, 0xBD, 0xD9, 0xCD, 0x82, 0xA0,
    0x34,
];

/// Capture files in the pcap format, with both byte orders and both resolutions.
pub(crate) fn pcap(input: &[u8]) {
    let Some((first, rest)) = input.split_first() else { return };
    let magic = PCAP_MAGICS[usize::from(first % 4)].to_le_bytes();
    let file = [&magic[..], rest].concat();
    let Ok(mut reader) = CaptureReader::new(&file[..]) else { return };
    while let Ok(Some(frame)) = reader.next_frame() {
        assert!(frame.bytes.len() <= file.len());
        assert!(frame.at_ns >= 0);
    }
    assert!(reader.bytes_read() <= file.len() as u64);
}

/// Capture files in the pcapng format. The input follows a valid section header.
pub(crate) fn pcapng(input: &[u8]) {
    let file = [&PCAPNG_SECTION[..], input].concat();
    let Ok(mut reader) = CaptureReader::new(&file[..]) else { return };
    while let Ok(Some(frame)) = reader.next_frame() {
        assert!(frame.bytes.len() <= file.len());
    }
    for interface in 0..reader.interfaces().len() {
        assert!(
            reader.interfaces()[interface]
                .name
                .as_ref()
                .is_none_or(|name| name.len() <= file.len() * 3)
        );
    }
}

/// RTC event logs of Chromium. The input follows the event with which a log begins.
pub(crate) fn event_log(input: &[u8]) {
    let _ = EventLog::read(input);
    let file = [&LOG_BEGIN[..], input].concat();
    let Ok(log) = EventLog::read(&file) else { unreachable!("it begins as a log does") };
    for table in &log.tables {
        let rows = table.columns.iter().map(|(_, column)| match column {
            Column::Int(values) => values.len(),
            Column::Float(values) => values.len(),
            Column::Text(codes) => codes.len(),
        });
        let rows: Vec<_> = rows.collect();
        assert!(rows.windows(2).all(|pair| pair[0] == pair[1]), "{}: {rows:?}", table.name);
        assert!(rows[0] <= 20_000 + 4 * file.len(), "{}: {} rows", table.name, rows[0]);
    }
}
