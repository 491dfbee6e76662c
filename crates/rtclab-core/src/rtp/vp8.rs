//! VP8 in RTP: the payload descriptor, and the part of the frame header with key frame flag and picture size.
//!
//! Source: RFC 7741, sections 4.2 and 4.3; RFC 6386, section 9.1.

use super::ParseError;
use super::cursor::Cursor;

/// The payload descriptor, which precedes the VP8 data in every packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Descriptor {
    /// Whether no later frame refers to this one, so that it can be dropped without harm.
    pub non_reference: bool,
    /// Whether the packet begins a partition (S).
    pub partition_start: bool,
    /// Number of the partition, 3 bits (PID). Higher bits are not written.
    pub partition: u8,
    /// Number of the frame. Wraps at 15 bits, or at 7 with some senders. Higher bits are not written.
    pub picture_id: Option<u16>,
}

/// Size of a written descriptor with a picture id.
pub const DESCRIPTOR_BYTES: usize = 4;

impl Descriptor {
    /// Whether this packet is the first of its frame.
    pub fn begins_frame(&self) -> bool {
        self.partition_start && self.partition == 0
    }

    /// Appends the descriptor: 4 bytes with a picture id, 1 byte without.
    pub fn write(&self, out: &mut Vec<u8>) {
        let extended = u8::from(self.picture_id.is_some()) << 7;
        let flags = u8::from(self.non_reference) << 5 | u8::from(self.partition_start) << 4;
        out.push(extended | flags | self.partition & 7);
        if let Some(id) = self.picture_id {
            let [high, low] = id.to_be_bytes();
            // I: a picture id follows. M: it has 15 bits.
            out.extend_from_slice(&[0x80, 0x80 | high, low]);
        }
    }

    /// Parses a descriptor. Returns it with its length; the VP8 data follow it. Layer indices are skipped.
    ///
    /// # Errors
    ///
    /// [`ParseError::Truncated`] if the descriptor is cut short.
    pub fn parse(payload: &[u8]) -> Result<(Descriptor, usize), ParseError> {
        let mut cursor = Cursor::new(payload);
        let first = cursor.u8("VP8 descriptor")?;
        let extension = if first & 0x80 != 0 { cursor.u8("VP8 descriptor extension")? } else { 0 };
        let mut picture_id = None;
        if extension & 0x80 != 0 {
            let high = cursor.u8("picture id")?;
            picture_id = Some(if high & 0x80 != 0 {
                u16::from_be_bytes([high & 0x7F, cursor.u8("picture id")?])
            } else {
                u16::from(high)
            });
        }
        if extension & 0x40 != 0 {
            cursor.u8("TL0PICIDX")?;
        }
        if extension & 0x30 != 0 {
            cursor.u8("TID and KEYIDX")?;
        }
        let descriptor = Descriptor {
            non_reference: first & 0x20 != 0,
            partition_start: first & 0x10 != 0,
            partition: first & 7,
            picture_id,
        };
        Ok((descriptor, cursor.offset()))
    }
}

/// Header of a frame, in the packet that [begins it](Descriptor::begins_frame).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameHeader {
    /// A key frame, with its size in pixels: 14 bits each; higher bits are not written.
    Key {
        /// Width in pixels.
        width: u16,
        /// Height in pixels.
        height: u16,
    },
    /// A frame that depends on earlier ones.
    Delta,
}

impl FrameHeader {
    /// Size of a key frame's header: frame tag, start code and dimensions.
    pub const KEY_BYTES: usize = 10;
    /// Size of a delta frame's header: the frame tag.
    pub const DELTA_BYTES: usize = 3;

    const START_CODE: [u8; 3] = [0x9D, 0x01, 0x2A];

    /// Appends the header. The size of the first partition in the tag is zero.
    pub fn write(self, out: &mut Vec<u8>) {
        // Frame tag, little-endian: bit 0 is zero in a key frame, bit 4 is set in frames to be shown.
        match self {
            FrameHeader::Delta => out.extend_from_slice(&[0x11, 0, 0]),
            FrameHeader::Key { width, height } => {
                out.extend_from_slice(&[0x10, 0, 0]);
                out.extend_from_slice(&Self::START_CODE);
                out.extend_from_slice(&(width & 0x3FFF).to_le_bytes());
                out.extend_from_slice(&(height & 0x3FFF).to_le_bytes());
            }
        }
    }

    /// Parses the bytes after the descriptor.
    ///
    /// # Errors
    ///
    /// [`ParseError::Truncated`] if the header is cut short. [`ParseError::Invalid`] for a key frame without
    /// start code.
    pub fn parse(data: &[u8]) -> Result<FrameHeader, ParseError> {
        let mut cursor = Cursor::new(data);
        let [first, ..] = cursor.array::<3>("VP8 frame tag")?;
        if first & 1 == 1 {
            return Ok(FrameHeader::Delta);
        }
        let [a, b, c] = cursor.array::<3>("VP8 start code")?;
        if [a, b, c] != Self::START_CODE {
            return Err(ParseError::Invalid {
                field: "VP8 start code",
                offset: 3,
                expected: "0x9D012A",
                got: u64::from(u32::from_be_bytes([0, a, b, c])),
            });
        }
        let width = u16::from_le_bytes(cursor.array("VP8 width")?) & 0x3FFF;
        let height = u16::from_le_bytes(cursor.array("VP8 height")?) & 0x3FFF;
        Ok(FrameHeader::Key { width, height })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_with_a_picture_id_has_4_bytes() {
        let descriptor = Descriptor {
            non_reference: false,
            partition_start: true,
            partition: 0,
            picture_id: Some(0x1234),
        };
        let mut bytes = Vec::new();
        descriptor.write(&mut bytes);
        assert_eq!(bytes, [0x90, 0x80, 0x92, 0x34]);
        assert_eq!(Descriptor::parse(&bytes), Ok((descriptor, DESCRIPTOR_BYTES)));
    }

    #[test]
    fn a_descriptor_without_extension_has_1_byte() {
        let descriptor = Descriptor { non_reference: true, partition: 5, ..Descriptor::default() };
        let mut bytes = Vec::new();
        descriptor.write(&mut bytes);
        assert_eq!(bytes, [0x25]);
        assert_eq!(Descriptor::parse(&bytes), Ok((descriptor, 1)));
    }

    #[test]
    fn short_picture_ids_are_parsed_and_layer_indices_are_skipped() {
        // X S; I L T K; 7-bit id 5; TL0PICIDX; TID/Y/KEYIDX; data.
        let (descriptor, len) = Descriptor::parse(&[0x90, 0xF0, 0x05, 9, 9, 0x10]).unwrap();
        assert_eq!((descriptor.picture_id, len), (Some(5), 5));
        // K alone also has the last byte.
        assert_eq!(Descriptor::parse(&[0x90, 0x10, 9]).unwrap().1, 3);
        assert!(Descriptor::parse(&[0x90, 0xF0, 0x05, 9]).is_err());
    }

    #[test]
    fn only_the_start_of_partition_0_begins_a_frame() {
        let begins = |byte| Descriptor::parse(&[byte]).unwrap().0.begins_frame();
        assert_eq!([begins(0x10), begins(0x11), begins(0x00)], [true, false, false]);
    }

    #[test]
    fn a_key_frame_carries_its_size_little_endian() {
        let header = FrameHeader::Key { width: 640, height: 480 };
        let mut bytes = Vec::new();
        header.write(&mut bytes);
        assert_eq!(bytes, [0x10, 0, 0, 0x9D, 0x01, 0x2A, 0x80, 0x02, 0xE0, 0x01]);
        assert_eq!(bytes.len(), FrameHeader::KEY_BYTES);
        assert_eq!(FrameHeader::parse(&bytes), Ok(header));
        bytes[5] = 0;
        assert!(matches!(
            FrameHeader::parse(&bytes),
            Err(ParseError::Invalid { got: 0x9D_0100, .. })
        ));
    }

    #[test]
    fn a_delta_frame_has_the_lowest_bit_set() {
        let mut bytes = Vec::new();
        FrameHeader::Delta.write(&mut bytes);
        assert_eq!((bytes[0] & 1, bytes.len()), (1, FrameHeader::DELTA_BYTES));
        assert_eq!(FrameHeader::parse(&bytes), Ok(FrameHeader::Delta));
        assert!(FrameHeader::parse(&[1, 0]).is_err());
    }
}
