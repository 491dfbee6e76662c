//! Recognises packets that repair another stream: retransmissions and forward error correction.
//!
//! The same timestamp alone proves nothing, because layers of a picture share it, too. A retransmission (RFC 4588)
//! carries the number of the packet that it repeats before its payload, so it is 2 bytes longer than that
//! packet. SRTP encrypts the number, but not the length. FEC names the stream that it protects, in its contributing
//! sources (RFC 8627) or in its header (draft-ietf-payload-flexible-fec-scheme-03, section 4.2.2.1, as Chromium
//! writes it), or begins with a number of the stream whose timestamp it shares (RFC 5109, section 7.3).

use crate::rtp::header::FIXED_BYTES;
use crate::rtp::rtx::OSN_BYTES;

/// Number of RTP timestamps remembered: 8 s at 30 frames per second.
const RECENT_TIMESTAMPS: usize = 256;
/// Maximum distance of a number that a repair packet names from those of the packets that it repairs.
const NEAR: u16 = 100;
/// Offsets in an FEC header: sequence number base (RFC 5109), number of protected streams, reserved bytes, first
/// protected stream (draft 03).
const BASE_AT: usize = 2;
const STREAMS_AT: usize = 8;
const RESERVED_AT: usize = 9;
const PROTECTED_AT: usize = 12;
/// The bits R and F of a FlexFEC header, which are 0 with a mask.
const FLAGS: u8 = 0xC0;

/// What a packet looks like beside the other streams of its flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Likeness {
    /// Whether another stream had this timestamp before.
    pub(crate) shares_timestamp: bool,
    /// Whether it repeats a packet of that stream, by number or length.
    pub(crate) repeats: bool,
    /// Whether it protects packets of another stream.
    pub(crate) protects: bool,
    /// Whether it has padding. A packet of padding alone repeats nothing.
    pub(crate) padded: bool,
}

/// Sequence numbers and payload lengths of the packets of a timestamp.
#[derive(Clone, Copy, Debug, Default)]
struct Picture {
    timestamp: u32,
    ssrc: u32,
    first_seq: u16,
    last_seq: u16,
    least_bytes: u32,
    most_bytes: u32,
}

/// The recent timestamps of a flow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pictures(Option<Box<[Picture; RECENT_TIMESTAMPS]>>);

/// An RTP packet: stream, sequence number, timestamp, and its payload, as far as it was captured, with its length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payload<'a> {
    pub(crate) ssrc: u32,
    pub(crate) seq: u16,
    pub(crate) timestamp: u32,
    pub(crate) bytes: &'a [u8],
    pub(crate) wire_bytes: u32,
}

impl Pictures {
    /// Remembers a packet, and compares it with the stream that had its timestamp first. Returns whether there is
    /// such a stream, whether the packet repeats one of its packets, and whether it protects some of them.
    #[inline]
    pub(crate) fn compare(&mut self, packet: Payload<'_>) -> (bool, bool, bool) {
        let recent = self.0.get_or_insert_with(|| {
            let none = Picture { ssrc: packet.ssrc, ..Picture::default() };
            Box::new([none; RECENT_TIMESTAMPS])
        });
        // Video timestamps are multiples of about 3000, so spread them over the slots.
        let slot = &mut recent[(packet.timestamp.wrapping_mul(0x9E37_79B9) >> 24) as usize];
        if slot.timestamp != packet.timestamp {
            *slot = Picture::of(packet);
        } else if slot.ssrc == packet.ssrc {
            slot.add(packet);
        } else {
            return (true, slot.is_repeated_by(packet), slot.is_protected_by(packet));
        }
        (false, false, false)
    }
}

impl Picture {
    fn of(packet: Payload<'_>) -> Self {
        Picture {
            timestamp: packet.timestamp,
            ssrc: packet.ssrc,
            first_seq: packet.seq,
            last_seq: packet.seq,
            least_bytes: packet.wire_bytes,
            most_bytes: packet.wire_bytes,
        }
    }

    fn add(&mut self, packet: Payload<'_>) {
        if self.most_bytes == 0 {
            *self = Picture::of(packet);
        }
        self.last_seq = packet.seq;
        self.least_bytes = self.least_bytes.min(packet.wire_bytes);
        self.most_bytes = self.most_bytes.max(packet.wire_bytes);
    }

    fn has_near(&self, number: Option<u16>) -> bool {
        let near = |a: u16, b: u16| a.wrapping_sub(b).min(b.wrapping_sub(a)) <= NEAR;
        number.is_some_and(|number| near(number, self.first_seq) || near(number, self.last_seq))
    }

    fn is_repeated_by(&self, packet: Payload<'_>) -> bool {
        let repeated = packet.wire_bytes.checked_sub(OSN_BYTES as u32);
        let lengths = self.least_bytes..=self.most_bytes;
        self.has_near(be16(packet.bytes, 0)) || repeated.is_some_and(|b| lengths.contains(&b))
    }

    fn is_protected_by(&self, packet: Payload<'_>) -> bool {
        self.has_near(be16(packet.bytes, BASE_AT))
    }
}

/// The streams that an RTP packet may protect if it is FEC: contributing sources, and the one in the header of
/// draft 03.
pub(crate) fn protected_streams<'a>(
    packet: &'a [u8],
    payload: &'a [u8],
) -> impl Iterator<Item = u32> + 'a {
    let sources = packet.first().map_or(0, |first| usize::from(first & 15));
    let of_header = packet.get(FIXED_BYTES..FIXED_BYTES + sources * 4).unwrap_or_default();
    let is_draft_03 = payload.first().is_some_and(|first| first & FLAGS == 0)
        && payload.get(STREAMS_AT).is_some_and(|streams| (1..=16).contains(streams))
        && payload.get(RESERVED_AT..PROTECTED_AT) == Some(&[0; 3]);
    let named = payload.get(PROTECTED_AT..PROTECTED_AT + 4).filter(|_| is_draft_03);
    of_header.chunks_exact(4).chain(named).map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
}

fn be16(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(offset)?, *bytes.get(offset + 1)?]))
}
