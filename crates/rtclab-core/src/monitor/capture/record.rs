//! What both formats make of a file: records, and what was wrong with it.

use crate::pcapng::Direction;

/// What was wrong in a capture that was read nevertheless.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaptureFaults {
    /// The file ends within a record.
    pub cut_short: bool,
    /// Where, in bytes from the beginning, reading was given up because no record can stand there.
    pub corrupt_at: Option<u64>,
    /// Records that contradict themselves, skipped.
    pub malformed: u64,
    /// Records above 1 MiB, skipped.
    pub oversized: u64,
    /// Packets of interfaces that the file does not describe, or above the limit of interfaces; skipped.
    pub unknown_interface: u64,
    /// Packets that the file gives no time: simple packet blocks.
    pub untimed: u64,
    /// Frames that a live capture missed for want of room.
    pub dropped: u64,
}

/// A record found complete in the buffer: what is known of its frame, and where its bytes are.
pub(super) struct Record {
    pub(super) at_ns: i64,
    pub(super) interface: u32,
    pub(super) direction: Option<Direction>,
    pub(super) wire_bytes: u32,
    pub(super) data: std::ops::Range<usize>,
    pub(super) record_bytes: usize,
}

/// Brings a time into the range that [`Frame::at_ns`] promises, so that differences cannot overflow.
pub(super) fn clamp_time(ns: i128) -> i64 {
    ns.clamp(0, 1 << 62) as i64
}

/// Reads integers in the byte order of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ByteOrder {
    pub(super) big_endian: bool,
}

impl ByteOrder {
    /// The four bytes at `offset`, which must be there.
    #[inline]
    pub(super) fn u32(self, bytes: &[u8], offset: usize) -> u32 {
        let word = [bytes[offset], bytes[offset + 1], bytes[offset + 2], bytes[offset + 3]];
        if self.big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
    }

    /// The two bytes at `offset`, which must be there.
    #[inline]
    pub(super) fn u16(self, bytes: &[u8], offset: usize) -> u16 {
        let word = [bytes[offset], bytes[offset + 1]];
        if self.big_endian { u16::from_be_bytes(word) } else { u16::from_le_bytes(word) }
    }
}
