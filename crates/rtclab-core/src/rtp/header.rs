//! The RTP header.
//!
//! Source: RFC 3550, section 5.1.

use super::ParseError;
use super::cursor::Cursor;
use super::extension::{Elements, ExtensionIds, Extensions};

/// Bytes of a header without contributing sources and extensions.
pub const FIXED_BYTES: usize = 12;

/// The fields of an RTP header. Contributing sources are skipped when parsed and never written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RtpHeader {
    /// For video: whether this is the last packet of a frame.
    pub marker: bool,
    /// Whether padding follows the payload. Its last byte is the padding count: see [`write_padding`].
    pub padding: bool,
    /// Payload type, 7 bits. Higher bits are not written.
    pub payload_type: u8,
    /// Sequence number in the stream; wraps.
    pub seq: u16,
    /// Timestamp in units of the codec's clock (video 90 kHz, Opus 48 kHz); wraps.
    pub timestamp: u32,
    /// The stream.
    pub ssrc: u32,
    /// Extensions with a negotiated id.
    pub extensions: Extensions,
}

impl RtpHeader {
    /// Appends the header, with extensions in one-byte form. Does not allocate if `out` has room.
    pub fn write(&self, ids: &ExtensionIds, out: &mut Vec<u8>) {
        let (block, block_bytes) = self.extensions.block(ids);
        let flags = 2 << 6 | u32::from(self.padding) << 5 | u32::from(block_bytes > 0) << 4;
        let second = u32::from(self.marker) << 7 | u32::from(self.payload_type & 0x7F);
        let begin = out.len();
        let mut bytes = [0; FIXED_BYTES + 16];
        let first_word = flags << 24 | second << 16 | u32::from(self.seq);
        bytes[0..4].copy_from_slice(&first_word.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.timestamp.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.ssrc.to_be_bytes());
        bytes[12..].copy_from_slice(&block);
        out.extend_from_slice(&bytes);
        out.truncate(begin + FIXED_BYTES + block_bytes);
    }

    /// Size of the header as [`RtpHeader::write`] writes it with Chromium's extension ids.
    pub fn wire_bytes(&self) -> usize {
        FIXED_BYTES + self.extensions.wire_bytes()
    }

    /// Parses a header. Returns it with its length in bytes. Also works for SRTP, where the header is in
    /// clear.
    ///
    /// # Errors
    ///
    /// [`ParseError`] if the version is not 2 or the header is longer than the datagram.
    pub fn parse(datagram: &[u8], ids: &ExtensionIds) -> Result<(RtpHeader, usize), ParseError> {
        let (mut header, elements, len) = parse_raw(datagram)?;
        header.extensions = Extensions::from_elements(elements, ids);
        Ok((header, len))
    }
}

/// Parses a header without interpreting extensions. Returns it with its raw extension elements and its
/// length.
///
/// For observers that do not know the extension ids.
///
/// # Errors
///
/// As [`RtpHeader::parse`].
pub fn parse_raw(datagram: &[u8]) -> Result<(RtpHeader, Elements<'_>, usize), ParseError> {
    let mut cursor = Cursor::new(datagram);
    let [first, second, seq @ .., t0, t1, t2, t3, s0, s1, s2, s3] =
        cursor.array::<FIXED_BYTES>("RTP header")?;
    if first >> 6 != 2 {
        let got = u64::from(first >> 6);
        return Err(ParseError::Invalid { field: "RTP version", offset: 0, expected: "2", got });
    }
    cursor.take(usize::from(first & 15) * 4, "contributing sources")?;
    let mut elements = Elements::default();
    if first & 0x10 != 0 {
        let profile = cursor.u16("extension profile")?;
        let words = cursor.u16("extension length")?;
        elements = Elements::new(profile, cursor.take(usize::from(words) * 4, "extensions")?);
    }
    let header = RtpHeader {
        marker: second & 0x80 != 0,
        padding: first & 0x20 != 0,
        payload_type: second & 0x7F,
        seq: u16::from_be_bytes(seq),
        timestamp: u32::from_be_bytes([t0, t1, t2, t3]),
        ssrc: u32::from_be_bytes([s0, s1, s2, s3]),
        extensions: Extensions::default(),
    };
    Ok((header, elements, cursor.offset()))
}

/// An unencrypted RTP packet, split into header, payload and padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtpPacket<'a> {
    /// The header.
    pub header: RtpHeader,
    /// The bytes between header and padding.
    pub payload: &'a [u8],
    /// Size of the header.
    pub header_bytes: usize,
    /// Size of the padding, including the padding count.
    pub padding_bytes: usize,
}

impl<'a> RtpPacket<'a> {
    /// Parses a packet. Not for SRTP, which encrypts the padding count.
    ///
    /// # Errors
    ///
    /// As [`RtpHeader::parse`], and if the padding count is zero or exceeds the bytes after the header.
    pub fn parse(datagram: &'a [u8], ids: &ExtensionIds) -> Result<Self, ParseError> {
        let (header, header_bytes) = RtpHeader::parse(datagram, ids)?;
        let body = &datagram[header_bytes..];
        let padding_bytes = match body.last() {
            _ if !header.padding => 0,
            Some(&count) if count > 0 && usize::from(count) <= body.len() => usize::from(count),
            last => {
                return Err(ParseError::Invalid {
                    field: "padding length",
                    offset: datagram.len() - last.map_or(0, |_| 1),
                    expected: "1 to the number of bytes after the header",
                    got: last.map_or(0, |&count| u64::from(count)),
                });
            }
        };
        let payload = &body[..body.len() - padding_bytes];
        Ok(RtpPacket { header, payload, header_bytes, padding_bytes })
    }
}

/// Appends `count` bytes of padding. The last one is the count. The header must have
/// [`RtpHeader::padding`] set. Writes nothing if `count` is zero.
pub fn write_padding(count: u8, out: &mut Vec<u8>) {
    if let Some(zeros) = count.checked_sub(1) {
        out.resize(out.len() + usize::from(zeros), 0);
        out.push(count);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{AbsSendTime, AudioLevel};
    use super::*;

    const HEADER: RtpHeader = RtpHeader {
        marker: true,
        padding: false,
        payload_type: 96,
        seq: 0x1234,
        timestamp: 0x0102_0304,
        ssrc: 0xDEAD_BEEF,
        extensions: Extensions {
            abs_send_time: Some(AbsSendTime::from_bits(0x0A_0B0C)),
            transport_sequence: Some(0x5678),
            audio_level: None,
        },
    };

    fn written(header: &RtpHeader, ids: &ExtensionIds) -> Vec<u8> {
        let mut out = Vec::new();
        header.write(ids, &mut out);
        out
    }

    #[test]
    fn a_video_packet_from_chromium_has_a_header_of_24_bytes() {
        // 12 fixed, 4 of extension header, 1 + 3 abs-send-time, 1 + 2 transport sequence, 1 padding.
        let bytes = [
            0x90, 0xE0, 0x12, 0x34, 1, 2, 3, 4, 0xDE, 0xAD, 0xBE, 0xEF, //
            0xBE, 0xDE, 0, 2, 0x22, 0x0A, 0x0B, 0x0C, 0x31, 0x56, 0x78, 0,
        ];
        assert_eq!(written(&HEADER, &ExtensionIds::CHROMIUM), bytes);
        assert_eq!(RtpHeader::parse(&bytes, &ExtensionIds::CHROMIUM), Ok((HEADER, 24)));
    }

    #[test]
    fn extensions_without_an_id_are_neither_written_nor_parsed() {
        let none = ExtensionIds::default();
        assert_eq!(written(&HEADER, &none).len(), 12);
        let bytes = written(&HEADER, &ExtensionIds::CHROMIUM);
        let bare = RtpHeader { extensions: Extensions::default(), ..HEADER };
        assert_eq!(RtpHeader::parse(&bytes, &none), Ok((bare, 24)));
    }

    #[test]
    fn the_voice_bit_is_the_highest_bit_of_an_audio_level() {
        let level = AudioLevel { voice: true, minus_dbov: 30 };
        let extensions = Extensions { audio_level: Some(level), ..Extensions::default() };
        let header = RtpHeader { extensions, ..HEADER };
        let bytes = written(&header, &ExtensionIds::CHROMIUM);
        assert_eq!(bytes[12..], [0xBE, 0xDE, 0, 1, 0x10, 0x80 | 30, 0, 0]);
        assert_eq!(RtpHeader::parse(&bytes, &ExtensionIds::CHROMIUM), Ok((header, 20)));
    }

    #[test]
    fn contributing_sources_are_skipped_and_two_byte_extensions_are_parsed() {
        let mut bytes = vec![0x91, 0x60, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3];
        bytes.extend_from_slice(&[9, 9, 9, 9, 0x10, 0, 0, 1, 3, 2, 0x56, 0x78]);
        let (header, len) = RtpHeader::parse(&bytes, &ExtensionIds::CHROMIUM).unwrap();
        assert_eq!((header.marker, header.payload_type, header.seq), (false, 96, 1));
        assert_eq!((header.timestamp, header.ssrc, len), (2, 3, 24));
        assert_eq!(header.extensions.transport_sequence, Some(0x5678));
    }

    #[test]
    fn raw_elements_can_be_read_without_knowing_the_ids() {
        let bytes = written(&HEADER, &ExtensionIds::CHROMIUM);
        let (_, elements, _) = parse_raw(&bytes).unwrap();
        let elements: Vec<_> = elements.collect();
        assert_eq!(elements, [(2, &[0x0A, 0x0B, 0x0C][..]), (3, &[0x56, 0x78])]);
    }

    #[test]
    fn every_header_that_is_cut_short_is_a_truncation_error() {
        let bytes = written(&HEADER, &ExtensionIds::CHROMIUM);
        for len in 0..bytes.len() {
            let error = RtpHeader::parse(&bytes[..len], &ExtensionIds::CHROMIUM).unwrap_err();
            assert!(matches!(error, ParseError::Truncated { .. }), "{len}: {error}");
        }
    }

    #[test]
    fn a_version_other_than_2_is_refused() {
        let error = ParseError::Invalid { field: "RTP version", offset: 0, expected: "2", got: 1 };
        assert_eq!(RtpHeader::parse(&[0x40; 12], &ExtensionIds::default()), Err(error));
    }

    #[test]
    fn padding_is_removed_from_the_payload() {
        let header = RtpHeader { padding: true, ..HEADER };
        let mut bytes = written(&header, &ExtensionIds::CHROMIUM);
        bytes.extend_from_slice(b"media");
        write_padding(3, &mut bytes);
        assert_eq!(bytes[24..], *b"media\0\0\x03");
        let packet = RtpPacket::parse(&bytes, &ExtensionIds::CHROMIUM).unwrap();
        assert_eq!((packet.payload, packet.padding_bytes), (&b"media"[..], 3));
    }

    #[test]
    fn a_packet_may_be_all_padding_but_the_count_is_neither_zero_nor_too_large() {
        let header = RtpHeader { padding: true, extensions: Extensions::default(), ..HEADER };
        let with_tail = |tail: &[u8]| {
            let bytes = [written(&header, &ExtensionIds::CHROMIUM), tail.to_vec()].concat();
            RtpPacket::parse(&bytes, &ExtensionIds::CHROMIUM).map(|packet| packet.payload.len())
        };
        assert_eq!(with_tail(&[0, 2]), Ok(0));
        assert!(with_tail(&[0, 3]).is_err());
        assert!(with_tail(&[0, 0]).is_err());
        assert!(with_tail(&[]).is_err());
    }
}
