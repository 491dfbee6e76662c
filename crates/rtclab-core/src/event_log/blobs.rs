//! Columns of byte strings: first the lengths, then the contents.
//!
//! Source: libwebrtc, logging/rtc_event_log/encoder/blob_encoding.cc (2026).

use super::wire::{take, varint};

/// Reads a column of `count` byte strings. `None` if it is cut off, or goes on after the last one.
pub(super) fn blobs(column: &[u8], count: usize) -> Option<Vec<&[u8]>> {
    // Each length takes at least a byte.
    if count > column.len() {
        return None;
    }
    let mut rest = column;
    let lengths: Option<Vec<_>> = (0..count).map(|_| varint(&mut rest)).collect();
    let blobs: Option<Vec<_>> =
        lengths?.into_iter().map(|len| take(&mut rest, usize::try_from(len).ok()?)).collect();
    blobs.filter(|_| rest.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_come_first_and_nothing_may_remain() {
        assert_eq!(blobs(b"\x02\x01ABC", 2), Some(vec![&b"AB"[..], b"C"]));
        assert_eq!(blobs(b"\x00\x01C", 2), Some(vec![&b""[..], b"C"]));
        assert_eq!(blobs(b"\x02\x01ABCD", 2), None);
        assert_eq!(blobs(b"\x02\x01AB", 2), None);
        assert_eq!(blobs(b"\x02\x01ABC", usize::MAX), None);
    }
}
