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

/// The three ECN flags of a TCP header, with the values that they have as one number: AE 4, CWR 2, ECE 1.
///
/// With classic ECN (RFC 3168) each flag has a meaning of its own. With accurate ECN (RFC 9768) they are a counter, the
/// ACE field, except in the handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EcnFlags(u8);

impl EcnFlags {
    /// No flag.
    pub const NONE: EcnFlags = EcnFlags(0);
    /// The receiver has seen a mark (RFC 3168, 6.1.3). In the answer to an opening: ECN is accepted.
    pub const ECHO: EcnFlags = EcnFlags(0b001);
    /// The sender has reduced its window (RFC 3168, 6.1.2). In the answer to an opening: accurate ECN is accepted, and
    /// the opening arrived without a codepoint (RFC 9768, 3.1.1).
    pub const REDUCED: EcnFlags = EcnFlags(0b010);
    /// In an opening: asks for classic ECN (RFC 3168, 6.1.1).
    pub const ASK_CLASSIC: EcnFlags = EcnFlags(0b011);
    /// In an opening: asks for accurate ECN, or classic ECN of a far end that knows no other (RFC 9768, 3.1.1).
    pub const ASK_ACCURATE: EcnFlags = EcnFlags(0b111);
    /// RFC 9768, 3.2.1: the ACE field begins at five.
    const ACE_START: u8 = 5;

    /// The ACE field of a receiver that has counted `marks` marked segments (RFC 9768, 3.2.2).
    pub const fn ace(marks: u32) -> EcnFlags {
        EcnFlags((marks as u8).wrapping_add(Self::ACE_START) & 7)
    }

    /// How many marks this ACE field counts beyond an earlier one: 0 to 7.
    pub const fn marks_since(self, earlier: EcnFlags) -> u32 {
        (self.0.wrapping_sub(earlier.0) & 7) as u32
    }

    /// The flags in the lowest three bits of a number. Other bits are ignored.
    pub const fn from_bits(bits: u8) -> EcnFlags {
        EcnFlags(bits & 7)
    }

    /// The flags as a number of three bits.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether it has all flags of another.
    pub const fn has(self, other: EcnFlags) -> bool {
        self.0 & other.0 == other.0
    }
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
    /// ECN flags.
    pub ecn: EcnFlags,
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
            ecn: EcnFlags::NONE,
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
