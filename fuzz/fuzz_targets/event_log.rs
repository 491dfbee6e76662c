//! RTC event logs of Chromium. The input follows the event with which a log begins.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rtclab_core::event_log::EventLog;
use rtclab_core::table::Column;

/// The beginning of a log.
const BEGIN: [u8; 17] = [
    0x82, 0x01, 0x0E, 0x08, 0x8C, 0xDF, 0xF1, 0x01, 0x10, 0x02, 0x18, 0xBD, 0xD9, 0xCD, 0x82, 0xA0,
    0x34,
];

fuzz_target!(|input: &[u8]| {
    let _ = EventLog::read(input);
    let file = [&BEGIN[..], input].concat();
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
});
