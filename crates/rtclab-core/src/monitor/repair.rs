//! Recognises packets that repair another stream: retransmissions and forward error correction.
//!
//! The same timestamp alone proves nothing, because layers of a picture share it, too. A retransmission
//! (RFC 4588) carries the number of the packet that it repeats before its payload, so it is 2 bytes
//! longer than that packet. SRTP encrypts the number, but not the length. FEC names the stream that it
//! protects in its contributing sources (RFC 8627) or in its header
//! (draft-ietf-payload-flexible-fec-scheme-03, section 4.2.2.1, as Chromium writes it), or a number of
//! the stream whose timestamp it has (RFC 5109, section 7.3; RFC 8627, section 4.2.2.1).

use crate::rtp::header::FIXED_BYTES;
use crate::rtp::rtx::OSN_BYTES;

/// Number of RTP timestamps remembered: 8 s at 30 frames per second.
const RECENT_TIMESTAMPS: usize = 256;
/// Number of streams of a flow whose newest packets are remembered.
const RECENT_STREAMS: usize = 4;
/// Maximum distance between a number that a repair packet names and the newest one of the stream: a
/// second of 5 Mbit/s.
const NEAR: u16 = 500;
/// Offsets of the sequence number base in FEC headers of RFC 5109 and RFC 8627.
const BASES_AT: [usize; 2] = [2, 8];
/// Offsets in a header of draft 03: number of protected streams, reserved bytes, first protected stream.
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

/// Payload lengths of the packets of a timestamp.
#[derive(Clone, Copy, Debug, Default)]
struct Picture {
    timestamp: u32,
    ssrc: u32,
    least_bytes: u16,
    most_bytes: u16,
}

/// The recent packets of a flow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recent {
    pictures: Option<Box<[Picture; RECENT_TIMESTAMPS]>>,
    /// SSRC and sequence number of the last packet of each stream.
    streams: [Option<(u32, u16)>; RECENT_STREAMS],
}

/// An RTP packet: stream, sequence number, timestamp, and its payload, as far as it was captured, with
/// its length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payload<'a> {
    pub(crate) ssrc: u32,
    pub(crate) seq: u16,
    pub(crate) timestamp: u32,
    pub(crate) bytes: &'a [u8],
    pub(crate) wire_bytes: u16,
}

impl Recent {
    /// Remembers a packet, and compares it with the stream that had its timestamp first. Returns whether
    /// there is another one, whether the packet repeats one of its packets, and whether it protects some
    /// of them.
    #[inline]
    pub(crate) fn compare(&mut self, packet: Payload<'_>) -> (bool, bool, bool) {
        let first = self.first(packet);
        let likeness = first.map_or((false, false, false), |picture| {
            let names = |offset: &usize| self.names(picture.ssrc, packet.bytes, *offset);
            let repeats = picture.is_repeated_by(packet) || names(&0);
            (true, repeats, BASES_AT.iter().any(names))
        });
        match self.streams.iter_mut().flatten().find(|(ssrc, _)| *ssrc == packet.ssrc) {
            Some((_, seq)) => *seq = packet.seq,
            None => {
                self.streams.rotate_right(1);
                self.streams[0] = Some((packet.ssrc, packet.seq));
            }
        }
        likeness
    }

    /// The packets of another stream that had the timestamp first.
    #[inline]
    fn first(&mut self, packet: Payload<'_>) -> Option<Picture> {
        let Payload { ssrc, timestamp, wire_bytes, .. } = packet;
        let new = Picture { timestamp, ssrc, least_bytes: wire_bytes, most_bytes: wire_bytes };
        let pictures = self.pictures.get_or_insert_with(|| Box::new([new; RECENT_TIMESTAMPS]));
        // Video timestamps are multiples of about 3000, so spread them over the slots.
        let slot = &mut pictures[(timestamp.wrapping_mul(0x9E37_79B9) >> 24) as usize];
        if slot.timestamp != timestamp {
            *slot = new;
        } else if slot.ssrc == ssrc {
            slot.least_bytes = slot.least_bytes.min(wire_bytes);
            slot.most_bytes = slot.most_bytes.max(wire_bytes);
        } else {
            return Some(*slot);
        }
        None
    }

    /// Whether a payload has a recent sequence number of a stream at `offset`. Not if the payload is
    /// constant, as silence is.
    fn names(&self, ssrc: u32, payload: &[u8], offset: usize) -> bool {
        let Some(number) = be16(payload, offset) else { return false };
        let near = |seq: u16| number.wrapping_sub(seq).min(seq.wrapping_sub(number)) <= NEAR;
        let is_constant = payload.iter().take(PROTECTED_AT).all(|byte| *byte == payload[0]);
        !is_constant
            && self.streams.iter().flatten().any(|(other, seq)| *other == ssrc && near(*seq))
    }
}

impl Picture {
    fn is_repeated_by(&self, packet: Payload<'_>) -> bool {
        let repeated = packet.wire_bytes.checked_sub(OSN_BYTES as u16);
        repeated.is_some_and(|bytes| (self.least_bytes..=self.most_bytes).contains(&bytes))
    }
}

/// The streams that an RTP packet may protect if it is FEC: contributing sources, and the one in the
/// header of draft 03.
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
