//! Reads big-endian fields one after another. Errors state the offset.

use super::ParseError;

/// A position in a datagram. Every read names its field, for the error if the bytes end too early.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
    offset: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Cursor { rest: bytes, offset: 0 }
    }

    /// Number of bytes from the start of the datagram to this position.
    pub(super) fn offset(&self) -> usize {
        self.offset
    }

    /// The bytes not read yet.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn take(&mut self, len: usize, field: &'static str) -> Result<&'a [u8], ParseError> {
        let Some((taken, rest)) = self.rest.split_at_checked(len) else {
            return Err(self.truncated(field, len));
        };
        self.rest = rest;
        self.offset += len;
        Ok(taken)
    }

    /// Splits off the next `len` bytes as a separate cursor.
    pub(super) fn sub(
        &mut self,
        len: usize,
        field: &'static str,
    ) -> Result<Cursor<'a>, ParseError> {
        let offset = self.offset;
        Ok(Cursor { rest: self.take(len, field)?, offset })
    }

    pub(super) fn array<const N: usize>(
        &mut self,
        field: &'static str,
    ) -> Result<[u8; N], ParseError> {
        let Some((taken, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(self.truncated(field, N));
        };
        self.rest = rest;
        self.offset += N;
        Ok(*taken)
    }

    pub(super) fn u8(&mut self, field: &'static str) -> Result<u8, ParseError> {
        self.array(field).map(u8::from_be_bytes)
    }

    pub(super) fn u16(&mut self, field: &'static str) -> Result<u16, ParseError> {
        self.array(field).map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self, field: &'static str) -> Result<u32, ParseError> {
        self.array(field).map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self, field: &'static str) -> Result<u64, ParseError> {
        self.array(field).map(u64::from_be_bytes)
    }

    fn truncated(&self, field: &'static str, needed: usize) -> ParseError {
        ParseError::Truncated { field, offset: self.offset, needed, got: self.rest.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_big_endian_and_a_failed_read_does_not_advance() {
        let mut cursor = Cursor::new(&[1, 2, 3, 4, 5]);
        assert_eq!(cursor.u8("a"), Ok(1));
        assert_eq!(cursor.u16("b"), Ok(0x0203));
        let error = ParseError::Truncated { field: "c", offset: 3, needed: 4, got: 2 };
        assert_eq!(cursor.u32("c"), Err(error));
        assert_eq!((cursor.offset(), cursor.rest()), (3, &[4, 5][..]));
    }
}
