//! The bytes of a frame from some header on.

use super::unread::Unread;

/// Captured bytes from a header on, and how many there were on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span<'a> {
    /// The captured bytes.
    pub(crate) bytes: &'a [u8],
    /// Length on the wire, at least that of `bytes`.
    pub(crate) wire_bytes: u32,
}

impl<'a> Span<'a> {
    pub(crate) fn new(bytes: &'a [u8], wire_bytes: u32) -> Self {
        Span { bytes, wire_bytes: wire_bytes.max(bytes.len() as u32) }
    }

    /// Returns the first `N` bytes.
    #[inline]
    pub(crate) fn head<const N: usize>(self) -> Result<&'a [u8; N], Unread> {
        self.bytes.first_chunk().ok_or_else(|| self.why_missing(N))
    }

    /// Returns the bytes after a header of this length.
    #[inline]
    pub(crate) fn skip(self, header_bytes: usize) -> Result<Self, Unread> {
        let bytes = self.bytes.get(header_bytes..);
        let bytes = bytes.ok_or_else(|| self.why_missing(header_bytes))?;
        Ok(Span { bytes, wire_bytes: self.wire_bytes - header_bytes as u32 })
    }

    /// Without what follows the first `wire_bytes` bytes, such as padding.
    #[inline]
    pub(crate) fn limit(self, wire_bytes: u32) -> Self {
        let bytes = &self.bytes[..self.bytes.len().min(wire_bytes as usize)];
        Span { bytes, wire_bytes: self.wire_bytes.min(wire_bytes) }
    }

    /// Why there are fewer captured bytes than a header has.
    fn why_missing(self, header_bytes: usize) -> Unread {
        let on_wire = header_bytes <= self.wire_bytes as usize;
        if on_wire { Unread::Cut } else { Unread::Malformed }
    }
}

#[inline]
pub(crate) fn be16(bytes: &[u8], offset: usize) -> u16 {
    u16::from_be_bytes([bytes[offset], bytes[offset + 1]])
}

pub(crate) fn le16(bytes: &[u8], offset: usize) -> u16 {
    be16(bytes, offset).swap_bytes()
}

pub(crate) fn be32(bytes: &[u8], offset: usize) -> u32 {
    u32::from(be16(bytes, offset)) << 16 | u32::from(be16(bytes, offset + 2))
}

pub(crate) fn le32(bytes: &[u8], offset: usize) -> u32 {
    be32(bytes, offset).swap_bytes()
}

pub(crate) fn be128(bytes: &[u8], offset: usize) -> u128 {
    (0..4).fold(0, |number, word| number << 32 | u128::from(be32(bytes, offset + word * 4)))
}
