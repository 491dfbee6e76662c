//! Captures built by hand, and tables read by name.
#![allow(dead_code)] // every test file uses a part

pub(crate) mod wrappings;

use rtclab_core::monitor::{CaptureReader, Monitor, MonitorConfig, Tables};
use rtclab_core::record::{Column, NO_TEXT};

/// 2023-11-14, so that times are as large as real ones.
pub(crate) const BEGIN_NS: i64 = 1_700_000_000_000_000_000;

/// A classic capture file.
pub(crate) struct Pcap {
    pub(crate) bytes: Vec<u8>,
    snaplen: usize,
}

impl Pcap {
    /// Nanosecond time stamps, little endian.
    pub(crate) fn new(link_type: u32) -> Self {
        Self::with_snaplen(link_type, 262_144)
    }

    pub(crate) fn with_snaplen(link_type: u32, snaplen: usize) -> Self {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&0xA1B2_3C4Du32.to_le_bytes());
        bytes.extend_from_slice(&[2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend_from_slice(&(snaplen as u32).to_le_bytes());
        bytes.extend_from_slice(&link_type.to_le_bytes());
        Pcap { bytes, snaplen }
    }

    pub(crate) fn frame(&mut self, at_ns: i64, frame: &[u8]) {
        let captured = frame.len().min(self.snaplen);
        let seconds = (at_ns / 1_000_000_000) as u32;
        for word in [seconds, (at_ns % 1_000_000_000) as u32, captured as u32, frame.len() as u32] {
            self.bytes.extend_from_slice(&word.to_le_bytes());
        }
        self.bytes.extend_from_slice(&frame[..captured]);
    }
}

/// A datagram in IPv4, from 10.0.0.`from.0`:`from.1` to 10.0.0.`to.0`:`to.1`.
pub(crate) fn ipv4_udp(from: (u8, u16), to: (u8, u16), payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x45, 0];
    bytes.extend_from_slice(&(28 + payload.len() as u16).to_be_bytes());
    bytes.extend_from_slice(&[0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, from.0, 10, 0, 0, to.0]);
    bytes.extend_from_slice(&udp(from.1, to.1, payload));
    bytes
}

pub(crate) fn udp(from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [from, to, 8 + payload.len() as u16, 0] {
        bytes.extend_from_slice(&word.to_be_bytes());
    }
    bytes.extend_from_slice(payload);
    bytes
}

pub(crate) fn ethernet(ip: &[u8]) -> Vec<u8> {
    let ethertype = if ip[0] >> 4 == 4 { [0x08, 0x00] } else { [0x86, 0xDD] };
    [&[2; 12][..], &ethertype, ip].concat()
}

/// An RTP packet without extensions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rtp {
    pub(crate) ssrc: u32,
    pub(crate) payload_type: u8,
    pub(crate) seq: u16,
    pub(crate) timestamp: u32,
    pub(crate) marker: bool,
    pub(crate) payload_bytes: usize,
}

impl Rtp {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0x80, u8::from(self.marker) << 7 | self.payload_type];
        bytes.extend_from_slice(&self.seq.to_be_bytes());
        bytes.extend_from_slice(&self.timestamp.to_be_bytes());
        bytes.extend_from_slice(&self.ssrc.to_be_bytes());
        bytes.resize(12 + self.payload_bytes, 0xAB);
        bytes
    }

    /// The packet with extension elements in the one-byte form, padded to words.
    pub(crate) fn with_extensions(&self, elements: &[u8]) -> Vec<u8> {
        let mut bytes = self.bytes();
        let payload = bytes.split_off(12);
        bytes[0] |= 0x10;
        let words = elements.len().div_ceil(4);
        bytes.extend_from_slice(&[0xBE, 0xDE, 0, words as u8]);
        bytes.extend_from_slice(elements);
        bytes.resize(16 + words * 4, 0);
        bytes.extend_from_slice(&payload);
        bytes
    }
}

pub(crate) fn channel_data(number: u16, data: &[u8]) -> Vec<u8> {
    [&number.to_be_bytes()[..], &(data.len() as u16).to_be_bytes(), data].concat()
}

/// Tables of a monitor that has watched a capture.
pub(crate) fn watch(capture: &[u8], config: MonitorConfig) -> Results {
    let mut reader = CaptureReader::new(capture).expect("a capture");
    let mut monitor = Monitor::new(config);
    monitor.watch(&mut reader, |_| true).expect("memory can be read");
    Results(monitor.tables(reader.interfaces(), &reader.faults()))
}

/// Tables with columns read by name.
pub(crate) struct Results(pub(crate) Tables);

impl Results {
    fn column(&self, table: &str, name: &str) -> &Column {
        let table = self.0.tables.iter().find(|t| t.name == table).expect("the table");
        let column = table.columns.iter().find(|(found, _)| *found == name);
        &column.unwrap_or_else(|| panic!("no column {name}")).1
    }

    pub(crate) fn int(&self, table: &str, name: &str) -> Vec<i64> {
        match self.column(table, name) {
            Column::Int(values) => values.clone(),
            other => panic!("{name} is not an integer column: {other:?}"),
        }
    }

    pub(crate) fn float(&self, table: &str, name: &str) -> Vec<f64> {
        match self.column(table, name) {
            Column::Float(values) => values.clone(),
            other => panic!("{name} is not a float column: {other:?}"),
        }
    }

    /// Texts of a column, with an empty text for null.
    pub(crate) fn text(&self, table: &str, name: &str) -> Vec<&str> {
        let Column::Text(codes) = self.column(table, name) else {
            panic!("{name} is not a text column")
        };
        let text = |code: &u32| match *code {
            NO_TEXT => "",
            code => self.0.texts[code as usize].as_str(),
        };
        codes.iter().map(text).collect()
    }

    /// Count of a note, or 0 if there is none.
    pub(crate) fn note(&self, begin: &str) -> i64 {
        let notes = self.text("notes", "note");
        let row = notes.iter().position(|note| note.starts_with(begin));
        row.map_or(0, |row| self.int("notes", "count")[row])
    }
}
