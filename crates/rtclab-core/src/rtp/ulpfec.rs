//! ULPFEC: an FEC packet is the XOR of media packets. Any one of them can be recovered from it and the
//! others.
//!
//! There is one level of protection, as in libwebrtc. A packet is given as its bytes, as far as these exist,
//! and its length on the wire. Media that have a length but no content count as zeros.
//!
//! Source: RFC 5109, sections 7 to 9.

use super::cursor::Cursor;
use super::header::FIXED_BYTES;
use super::{ParseError, WriteError};

/// Maximum number of packets that one FEC packet can protect: the bits of the long mask.
pub const MAX_PACKETS: usize = 48;
/// Size of the FEC header and the level header with a long mask.
pub const MAX_HEADER_BYTES: usize = 18;
/// Number of packets that the short mask can describe.
pub(crate) const SHORT_MASK: usize = 16;
/// The most significant bit of the mask, which stands for the sequence number base.
const FIRST_BIT: u64 = 1 << (MAX_PACKETS - 1);

/// A media packet to be protected, in clear and without RED.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Media<'a> {
    /// RTP header and the existing part of the payload. Has at least the fixed header.
    pub bytes: &'a [u8],
    /// Length on the wire, header included.
    pub len: usize,
}

/// An FEC packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FecPacket {
    /// Sequence number base, which the first bit of the mask stands for.
    pub seq_base: u16,
    /// Mask of the protected packets, 48 bits. The most significant bit stands for the base, the next for
    /// base + 1.
    pub mask: u64,
    /// XOR of the first 8 bytes of the headers. Version and sequence number have no meaning.
    header: [u8; 8],
    /// XOR of the lengths after the fixed header.
    length: u16,
    /// Number of protected bytes after the fixed header: as many as in the longest packet.
    pub protection_length: u16,
    /// XOR of the bytes after the fixed header, as far as they exist.
    pub payload: Vec<u8>,
}

impl FecPacket {
    /// Protects packets of one stream. The first must have the lowest sequence number.
    ///
    /// # Errors
    ///
    /// [`WriteError`] if the sequence numbers span more than [`MAX_PACKETS`], or if a packet is shorter than
    /// an RTP header or its length does not fit 16 bits.
    pub fn protect<'a>(packets: impl IntoIterator<Item = Media<'a>>) -> Result<Self, WriteError> {
        let mut fec = FecPacket::default();
        for media in packets {
            let [_, _, s0, s1, ..] = *media.head()?;
            let seq = u16::from_be_bytes([s0, s1]);
            if fec.mask == 0 {
                fec.seq_base = seq;
            }
            let offset = usize::from(seq.wrapping_sub(fec.seq_base));
            WriteError::check("packets spanned by FEC", offset + 1, MAX_PACKETS)?;
            fec.mask |= FIRST_BIT >> offset;
            let behind = media.len - FIXED_BYTES;
            fec.protection_length = fec.protection_length.max(behind as u16);
            fec.add(media)?;
        }
        Ok(fec)
    }

    /// Appends headers and payload.
    pub fn write(&self, out: &mut Vec<u8>) {
        let long = self.has_long_mask();
        let [flags, second, _, _, timestamp @ ..] = self.header;
        out.extend_from_slice(&[u8::from(long) << 6 | flags & 0x3F, second]);
        out.extend_from_slice(&self.seq_base.to_be_bytes());
        out.extend_from_slice(&timestamp);
        out.extend_from_slice(&self.length.to_be_bytes());
        out.extend_from_slice(&self.protection_length.to_be_bytes());
        let [_, _, mask @ ..] = self.mask.to_be_bytes();
        out.extend_from_slice(if long { &mask } else { &mask[..2] });
        out.extend_from_slice(&self.payload);
    }

    /// Size on the wire, where the payload has its full length.
    pub fn wire_bytes(&self) -> usize {
        let header = if self.has_long_mask() { MAX_HEADER_BYTES } else { MAX_HEADER_BYTES - 4 };
        header + usize::from(self.protection_length)
    }

    /// Parses a packet. Only the first level is read. The payload may be cut short.
    ///
    /// # Errors
    ///
    /// [`ParseError::Truncated`] if a header is cut short. [`ParseError::Invalid`] if the reserved extension
    /// flag is set or the mask is empty.
    pub fn parse(payload: &[u8]) -> Result<Self, ParseError> {
        let mut cursor = Cursor::new(payload);
        let [first, second] = cursor.array("FEC header")?;
        if first & 0x80 != 0 {
            return Err(invalid("FEC extension flag", 0, "0", 1));
        }
        let seq_base = cursor.u16("sequence number base")?;
        let [t0, t1, t2, t3] = cursor.array("timestamp recovery")?;
        let length = cursor.u16("length recovery")?;
        let protection_length = cursor.u16("protection length")?;
        let mut mask = u64::from(cursor.u16("FEC mask")?) << 32;
        if first & 0x40 != 0 {
            mask |= u64::from(cursor.u32("long FEC mask")?);
        }
        if mask == 0 {
            return Err(invalid("FEC mask", 12, "at least one packet", 0));
        }
        let rest = cursor.rest();
        let payload = rest[..rest.len().min(usize::from(protection_length))].to_vec();
        let header = [first & 0x3F, second, 0, 0, t0, t1, t2, t3];
        Ok(FecPacket { seq_base, mask, header, length, protection_length, payload })
    }

    /// Sequence numbers of the protected packets.
    pub fn protected(&self) -> impl Iterator<Item = u16> {
        let (base, mask) = (self.seq_base, self.mask);
        let bits = (0..MAX_PACKETS as u16).filter(move |bit| mask & FIRST_BIT >> bit != 0);
        bits.map(move |bit| base.wrapping_add(bit))
    }

    /// Recovers the packet `seq` of the stream `ssrc` from all other protected packets. Returns its bytes, as
    /// far as they can exist, and its length on the wire. `None` if the packets do not belong together.
    pub fn recover<'a>(
        &self,
        (ssrc, seq): (u32, u16),
        others: impl IntoIterator<Item = Media<'a>>,
    ) -> Option<(Vec<u8>, usize)> {
        let mut sum = self.clone();
        for media in others {
            sum.add(media).ok()?;
        }
        if sum.length > self.protection_length {
            return None;
        }
        let len = usize::from(sum.length);
        let [flags, second, _, _, timestamp @ ..] = sum.header;
        let mut bytes = vec![0x80 | flags & 0x3F, second];
        bytes.extend_from_slice(&seq.to_be_bytes());
        bytes.extend_from_slice(&timestamp);
        bytes.extend_from_slice(&ssrc.to_be_bytes());
        bytes.extend_from_slice(&sum.payload[..sum.payload.len().min(len)]);
        Some((bytes, FIXED_BYTES + len))
    }

    fn has_long_mask(&self) -> bool {
        self.mask & ((FIRST_BIT >> (SHORT_MASK - 1)) - 1) != 0
    }

    /// Adds a packet to the XOR.
    fn add(&mut self, media: Media<'_>) -> Result<(), WriteError> {
        let head = media.head()?;
        xor(&mut self.header, &head[..8]);
        // Version and sequence number are not protected.
        self.header[0] &= 0x3F;
        self.header[2..4].fill(0);
        self.length ^= (media.len - FIXED_BYTES) as u16;
        let behind = &media.bytes[FIXED_BYTES..];
        if self.payload.len() < behind.len() {
            self.payload.resize(behind.len(), 0);
        }
        xor(&mut self.payload, behind);
        Ok(())
    }
}

impl<'a> Media<'a> {
    fn head(&self) -> Result<&'a [u8; FIXED_BYTES], WriteError> {
        let behind = self.len.saturating_sub(FIXED_BYTES);
        WriteError::check("length of a protected packet", behind, usize::from(u16::MAX))?;
        let head = self.bytes.first_chunk().filter(|_| self.len >= self.bytes.len());
        head.ok_or(WriteError { field: "RTP header", limit: self.len, got: self.bytes.len() })
    }
}

fn xor(sum: &mut [u8], bytes: &[u8]) {
    sum.iter_mut().zip(bytes).for_each(|(sum, byte)| *sum ^= byte);
}

fn invalid(field: &'static str, offset: usize, expected: &'static str, got: u64) -> ParseError {
    ParseError::Invalid { field, offset, expected, got }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtp::{ExtensionIds, RtpHeader};
    use proptest::prelude::*;

    fn packet(payload_type: u8, seq: u16, timestamp: u32, payload: &[u8]) -> Vec<u8> {
        let header = RtpHeader { payload_type, seq, timestamp, ssrc: 2, ..RtpHeader::default() };
        let mut bytes = Vec::new();
        header.write(&ExtensionIds::CHROMIUM, &mut bytes);
        bytes.extend_from_slice(payload);
        bytes
    }

    fn whole(bytes: &[u8]) -> Media<'_> {
        Media { bytes, len: bytes.len() }
    }

    /// Sequence numbers, payload types, timestamps and lengths are as in the example of RFC 5109, section
    /// 10. Types: 11 ^ 18 ^ 11 ^ 18 = 0. Timestamps: 3 ^ 5 ^ 7 ^ 9 = 8. Lengths: 200 ^ 140 ^ 100 ^ 340 = 372,
    /// and the longest one is 340. The mask of four packets is 0xF000.
    #[test]
    fn the_header_over_four_packets_is_the_one_computed_by_hand() {
        let media = [(11, 8, 3, 200), (18, 9, 5, 140), (11, 10, 7, 100), (18, 11, 9, 340)]
            .map(|(kind, seq, time, len)| packet(kind, seq, time, &vec![seq as u8; len]));
        let fec = FecPacket::protect(media.iter().map(|bytes| whole(bytes))).unwrap();
        let mut bytes = Vec::new();
        fec.write(&mut bytes);
        assert_eq!(bytes[..10], [0, 0, 0, 8, 0, 0, 0, 8, 1, 116]);
        assert_eq!(bytes[10..14], [1, 84, 0xF0, 0]);
        assert_eq!((bytes.len(), fec.wire_bytes()), (14 + 340, 14 + 340));
        // XOR of all four, then of those longer than 100 bytes (8 ^ 9 ^ 11), than 140 (8 ^ 11), than 200
        // (11).
        assert_eq!([bytes[14], bytes[14 + 100], bytes[14 + 140], bytes[14 + 200]], [0, 10, 3, 11]);
        assert_eq!(FecPacket::parse(&bytes), Ok(fec));
    }

    #[test]
    fn seventeen_packets_need_the_long_mask_and_forty_nine_are_too_many() {
        let media: Vec<_> =
            (0..49).map(|i| packet(96, (u16::MAX - 3).wrapping_add(i), 0, b"x")).collect();
        let of = |n: usize| FecPacket::protect(media[..n].iter().map(|bytes| whole(bytes)));
        assert_eq!(of(16).unwrap().wire_bytes(), 14 + 1);
        assert_eq!(of(17).unwrap().wire_bytes(), 18 + 1);
        assert_eq!(of(48).unwrap().protected().last(), Some(43));
        assert!(of(49).is_err());
    }

    #[test]
    fn a_packet_without_content_is_recovered_with_its_length() {
        let media = [packet(96, 1, 7, b"ab"), packet(96, 2, 7, b"c")];
        let of = |i: usize| Media { bytes: &media[i], len: 1000 + i };
        let fec = FecPacket::protect([of(0), of(1)]).unwrap();
        assert_eq!((fec.protection_length, fec.payload.len()), (989, 2));
        let (bytes, len) = fec.recover((2, 1), [of(1)]).unwrap();
        assert_eq!((&bytes, len), (&media[0], 1000));
    }

    #[test]
    fn an_empty_mask_and_the_reserved_flag_are_refused() {
        assert!(FecPacket::parse(&[0; 14]).is_err());
        let mut bytes = [0; 14];
        bytes[12] = 0x80;
        assert!(FecPacket::parse(&bytes).is_ok());
        bytes[0] = 0x80;
        assert!(FecPacket::parse(&bytes).is_err());
        assert!(FecPacket::parse(&bytes[..13]).is_err());
    }

    #[test]
    fn a_recovered_length_above_the_protected_one_is_refused() {
        let media = [packet(96, 1, 7, b"ab"), packet(96, 2, 7, b"c")];
        let fec = FecPacket::protect(media.iter().map(|bytes| whole(bytes))).unwrap();
        assert_eq!(fec.recover((2, 1), [whole(&packet(96, 2, 7, &[0; 99]))]), None);
    }

    proptest! {
        #[test]
        fn any_one_lost_packet_is_recovered_exactly(
            first: u16,
            packets in proptest::collection::vec(
                (any::<(bool, bool, u32)>(), 0u8..128, 0u16..3, proptest::collection::vec(any::<u8>(), 0..50)),
                1..=16,
            ),
            lost: proptest::sample::Index,
        ) {
            let mut seq = first;
            let media: Vec<_> = packets.into_iter().map(|(bits, payload_type, skipped, payload)| {
                let (marker, padding, timestamp) = bits;
                let header = RtpHeader {
                    marker, padding, payload_type, seq, timestamp, ssrc: 77, ..RtpHeader::default()
                };
                seq = seq.wrapping_add(1 + skipped);
                let mut bytes = Vec::new();
                header.write(&ExtensionIds::CHROMIUM, &mut bytes);
                bytes.extend_from_slice(&payload);
                (header.seq, bytes)
            }).collect();
            let fec = FecPacket::protect(media.iter().map(|(_, bytes)| whole(bytes))).unwrap();
            let mut written = Vec::new();
            fec.write(&mut written);
            let fec = FecPacket::parse(&written).unwrap();
            prop_assert!(fec.protected().eq(media.iter().map(|(seq, _)| *seq)));
            let lost = lost.index(media.len());
            let others = media.iter().enumerate().filter(|(i, _)| *i != lost);
            let others = others.map(|(_, (_, bytes))| whole(bytes));
            let (seq, bytes) = &media[lost];
            prop_assert_eq!(fec.recover((77, *seq), others), Some((bytes.clone(), bytes.len())));
        }
    }
}
