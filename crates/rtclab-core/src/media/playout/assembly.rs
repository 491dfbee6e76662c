//! Frames whose packets arrive one by one.

use crate::packet::VideoPart;
use crate::units::Time;

/// A frame with at least one packet that has arrived.
pub(super) struct Assembly {
    pub(super) frame: i64,
    /// RTP timestamp, unwrapped.
    pub(super) timestamp: i64,
    first_seq: Option<i64>,
    pub(super) last_seq: Option<i64>,
    packets: i64,
    /// Encoded size so far, in bytes.
    pub(super) size: u64,
    pub(super) key: bool,
    pub(super) resolution: (u16, u16),
    pub(super) first_arrival: Time,
    /// When its last missing packet arrived.
    pub(super) complete: Option<Time>,
    /// Whether one of its packets had been requested again.
    pub(super) requested: bool,
    /// Whether it and all frames that it depends on are complete.
    pub(super) continuous: bool,
}

impl Assembly {
    pub(super) fn new(now: Time, frame: i64, timestamp: i64) -> Self {
        Assembly {
            frame,
            timestamp,
            first_seq: None,
            last_seq: None,
            packets: 0,
            size: 0,
            key: false,
            resolution: (0, 0),
            first_arrival: now,
            complete: None,
            requested: false,
            continuous: false,
        }
    }

    pub(super) fn add(&mut self, part: &VideoPart, marker: bool, seq: i64) {
        self.packets += 1;
        self.size += u64::from(part.bytes);
        if part.first {
            self.first_seq = Some(seq);
            self.key = part.key;
            self.resolution = part.resolution;
        }
        if marker {
            self.last_seq = Some(seq);
        }
    }

    pub(super) fn is_complete(&self) -> bool {
        matches!((self.first_seq, self.last_seq), (Some(f), Some(l)) if l - f + 1 == self.packets)
    }
}
