//! TCP segments as values.

use crate::units::{Bytes, Time};
use std::sync::Arc;

/// Payload of a full segment: an IP packet of 1500 B less IPv4 and TCP headers with timestamps.
pub const MAX_SEGMENT_BYTES: u16 = 1448;
/// IPv4 and TCP headers with the timestamps option.
const HEADER_BYTES: u64 = 52;
/// IPv4 and TCP headers with timestamps and the further options of a SYN: MSS, SACK permitted, window scale.
const SYN_BYTES: u64 = 60;
/// Number of SACK blocks that fit beside timestamps (RFC 2018).
pub const MAX_SACK_BLOCKS: usize = 3;

/// Purpose of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentKind {
    /// Opens a connection.
    Syn,
    /// Accepts the connection.
    SynAck,
    /// Carries data, from sender to receiver.
    Data,
    /// Acknowledges data, from receiver to sender.
    Ack,
}

/// A segment of the TCP connection between a client and its TURN relay, which carries datagrams both ways.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnSegment {
    /// The segment.
    pub segment: Segment,
    /// The driver's numbers of the datagrams whose last bytes it carries.
    pub datagrams: Arc<[u32]>,
}

/// A segment on the wire.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment {
    /// Connection that the segment belongs to.
    pub connection: u32,
    /// Purpose of the segment.
    pub kind: SegmentKind,
    /// Number of the segment if it carries data.
    pub seq: u32,
    /// Bytes of data.
    pub payload: u16,
    /// Number of the segment that is expected next.
    pub ack: u32,
    /// Segments received above `ack`, `[from, to)`, most recent first.
    pub sack: [(u32, u32); MAX_SACK_BLOCKS],
    /// Number of blocks of `sack` in use.
    pub sack_blocks: u8,
    /// Whether the acknowledged segment was a duplicate (D-SACK, RFC 2883). It takes the place of a block.
    pub duplicate: bool,
    /// Timestamp of the sender.
    pub sent: Time,
    /// Echoed timestamp (RFC 7323).
    pub echo: Time,
}

impl Segment {
    /// A segment without data, acknowledgement or echo.
    pub fn new(connection: u32, kind: SegmentKind, sent: Time) -> Self {
        Segment {
            connection,
            kind,
            seq: 0,
            payload: 0,
            ack: 0,
            sack: [(0, 0); MAX_SACK_BLOCKS],
            sack_blocks: 0,
            duplicate: false,
            sent,
            echo: Time::ZERO,
        }
    }

    /// IP total length. A SACK option has 4 bytes, padding included, and 8 for each block.
    pub fn size(&self) -> Bytes {
        let header = match self.kind {
            SegmentKind::Syn | SegmentKind::SynAck => SYN_BYTES,
            SegmentKind::Data | SegmentKind::Ack => HEADER_BYTES,
        };
        let blocks = (usize::from(self.sack_blocks) + usize::from(self.duplicate))
            .min(MAX_SACK_BLOCKS) as u64;
        let option = if blocks > 0 { 4 + 8 * blocks } else { 0 };
        Bytes(header + option + u64::from(self.payload))
    }

    /// The blocks of `sack` in use.
    pub fn sacked(&self) -> &[(u32, u32)] {
        &self.sack[..usize::from(self.sack_blocks).min(MAX_SACK_BLOCKS)]
    }
}
