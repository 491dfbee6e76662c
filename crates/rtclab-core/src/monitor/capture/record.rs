//! Types that both capture formats share: records and faults.

use crate::pcapng::Direction;

/// Faults of a capture that could be read in spite of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaptureFaults {
    /// The file ends within a record.
    pub cut_short: bool,
    /// Offset in bytes at which reading stopped, because the bytes there cannot be a record.
    pub corrupt_at: Option<u64>,
    /// Number of inconsistent records, which were skipped.
    pub malformed: u64,
    /// Number of records above 1 MiB, which were skipped.
    pub oversized: u64,
    /// Number of packets skipped because the file does not describe their interface, or describes too
    /// many.
    pub unknown_interface: u64,
    /// Number of packets without a time (simple packet blocks).
    pub untimed: u64,
    /// Number of frames that a live capture missed because its buffer was full.
    pub dropped: u64,
}

/// A complete record in the buffer: its frame's fields, and where the bytes are.
pub(super) struct Record {
    pub(super) at_ns: i64,
    pub(super) interface: u32,
    pub(super) direction: Option<Direction>,
    pub(super) wire_bytes: u32,
    pub(super) data: std::ops::Range<usize>,
    pub(super) record_bytes: usize,
}

/// Limits a time to the range of `Frame::at_ns`, so that differences cannot overflow.
pub(super) fn clamp_time(ns: i128) -> i64 {
    ns.clamp(0, 1 << 62) as i64
}

/// Byte order of a file or section.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ByteOrder {
    pub(super) big_endian: bool,
}

impl ByteOrder {
    /// Reads 4 bytes at `offset`. Panics if they are not there.
    #[inline]
    pub(super) fn u32(self, bytes: &[u8], offset: usize) -> u32 {
        let word = [bytes[offset], bytes[offset + 1], bytes[offset + 2], bytes[offset + 3]];
        if self.big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
    }

    /// Reads 2 bytes at `offset`. Panics if they are not there.
    #[inline]
    pub(super) fn u16(self, bytes: &[u8], offset: usize) -> u16 {
        let word = [bytes[offset], bytes[offset + 1]];
        if self.big_endian { u16::from_be_bytes(word) } else { u16::from_le_bytes(word) }
    }
}
