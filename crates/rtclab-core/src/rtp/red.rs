//! RED: blocks of several payload types in one packet.
//!
//! Source: RFC 2198, section 3.

use super::ParseError;
use super::cursor::Cursor;

/// Bytes that RED adds to a packet with a single block, as used for video (RFC 5109, section 14.2).
pub const HEADER_BYTES: usize = 1;
/// Size of the header of a redundant block.
const REDUNDANT_BYTES: usize = 4;

/// Appends the header of a single block, which the data must follow. Only the low 7 bits of `payload_type`
/// are written.
pub fn write(payload_type: u8, out: &mut Vec<u8>) {
    out.push(payload_type & 0x7F);
}

/// Returns payload type and data of the primary block, which is the last one. Redundant blocks are skipped.
///
/// # Errors
///
/// [`ParseError::Truncated`] if headers or redundant blocks are longer than the payload.
pub fn parse(payload: &[u8]) -> Result<(u8, &[u8]), ParseError> {
    let mut cursor = Cursor::new(payload);
    let mut redundant = 0;
    loop {
        let first = cursor.u8("RED header")?;
        if first & 0x80 == 0 {
            cursor.take(redundant, "redundant blocks")?;
            return Ok((first, cursor.rest()));
        }
        // 14 bits of timestamp offset, 10 of length
        let [_, high, low] = cursor.array::<{ REDUNDANT_BYTES - 1 }>("redundant block header")?;
        redundant += usize::from(u16::from_be_bytes([high & 3, low]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_block_has_a_header_of_one_byte() {
        let mut payload = Vec::new();
        write(96, &mut payload);
        payload.extend_from_slice(b"media");
        assert_eq!(payload, b"\x60media");
        assert_eq!(parse(&payload), Ok((96, &b"media"[..])));
    }

    #[test]
    fn redundant_blocks_before_the_primary_one_are_skipped() {
        // Type 111, timestamp offset 960 (0x3C0), length 2; then the primary block of type 111.
        let payload = [0x80 | 111, 0x0F, 0x00, 2, 111, b'o', b'l', b'n', b'e', b'w'];
        assert_eq!(parse(&payload), Ok((111, &b"new"[..])));
        assert!(parse(&payload[..6]).is_err());
    }

    #[test]
    fn a_payload_without_a_last_header_is_truncated() {
        assert!(parse(&[]).is_err());
        assert!(parse(&[0x80 | 96, 0, 0, 0]).is_err());
    }
}
