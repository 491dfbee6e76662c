//! How much may wait in a queue.

use crate::limits::{self, Checked};
use crate::units::{Bitrate, Bytes, Time};
use serde::{Deserialize, Serialize};

/// Limit of the queue before the serialiser. A packet that would exceed it is dropped (drop-tail); flow queueing
/// drops packets of the longest queue in its place.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "limit", rename_all = "lowercase")]
pub enum QueueLimit {
    /// At most this many packets.
    Packets(u64),
    /// At most this many bytes.
    Bytes(Bytes),
    /// At most the number of bytes that the capacity at the time of arrival serves in this time (RFC
    /// 8868, section 4: bytes = seconds * bit/s / 8).
    Time(Time),
}

impl QueueLimit {
    pub(in crate::path) fn check(self) -> Checked {
        match self {
            QueueLimit::Packets(_) => Ok(()),
            QueueLimit::Bytes(limit) => limits::size("limit", limit),
            QueueLimit::Time(limit) => limits::time("limit", limit),
        }
    }

    /// Whether this many packets, with `bytes` in total, may wait. `rate` converts a limit in time to bytes.
    #[inline]
    pub(super) fn holds(
        self,
        packets: usize,
        bytes: Bytes,
        rate: impl FnOnce() -> Bitrate,
    ) -> bool {
        match self {
            QueueLimit::Packets(limit) => packets as u64 <= limit,
            QueueLimit::Bytes(limit) => bytes <= limit,
            QueueLimit::Time(limit) => bytes <= rate().bytes_in(limit),
        }
    }
}
