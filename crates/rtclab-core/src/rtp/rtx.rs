//! Payload of a retransmission on a separate stream: the original sequence number, then the original payload.
//!
//! Source: RFC 4588, section 4.

use super::ParseError;
use super::cursor::Cursor;

/// Bytes that a retransmission adds to the payload.
pub const OSN_BYTES: usize = 2;

/// Appends the original sequence number, which the original payload must follow.
pub fn write(original_seq: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(&original_seq.to_be_bytes());
}

/// Splits the payload of a retransmission into the original sequence number and payload.
///
/// # Errors
///
/// [`ParseError::Truncated`] below 2 bytes, as in a packet that is all padding.
pub fn parse(payload: &[u8]) -> Result<(u16, &[u8]), ParseError> {
    let mut cursor = Cursor::new(payload);
    Ok((cursor.u16("original sequence number")?, cursor.rest()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_original_sequence_number_comes_first_and_is_big_endian() {
        let mut payload = Vec::new();
        write(0x1234, &mut payload);
        payload.extend_from_slice(b"media");
        assert_eq!(payload, b"\x12\x34media");
        assert_eq!(parse(&payload), Ok((0x1234, &b"media"[..])));
    }

    #[test]
    fn a_payload_of_one_byte_is_truncated() {
        let error = ParseError::Truncated {
            field: "original sequence number",
            offset: 0,
            needed: 2,
            got: 1,
        };
        assert_eq!(parse(&[7]), Err(error));
    }
}
