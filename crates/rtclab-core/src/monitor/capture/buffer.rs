//! A window of bounded size over a stream of bytes.

use std::io::{self, ErrorKind, Read};

/// Size of the window: 1 MiB. Longer records are skipped, because no link carries packets that long.
pub(super) const CAPACITY: usize = 1 << 20;

/// Reads ahead by at most [`CAPACITY`] bytes, whatever lengths the file states.
pub(super) struct Buffer<R> {
    input: R,
    bytes: Box<[u8]>,
    begin: usize,
    end: usize,
    consumed: u64,
}

impl<R: Read> Buffer<R> {
    pub(super) fn new(input: R) -> Self {
        let bytes = vec![0; CAPACITY].into_boxed_slice();
        Buffer { input, bytes, begin: 0, end: 0, consumed: 0 }
    }

    pub(super) fn data(&self) -> &[u8] {
        &self.bytes[self.begin..self.end]
    }

    /// Number of bytes consumed so far.
    pub(super) fn consumed(&self) -> u64 {
        self.consumed
    }

    /// Reads until `len` bytes are available. Returns false when the input ends first, or when `len`
    /// exceeds the capacity.
    #[inline]
    pub(super) fn ensure(&mut self, len: usize) -> io::Result<bool> {
        if self.end - self.begin >= len { Ok(true) } else { self.fill(len) }
    }

    fn fill(&mut self, len: usize) -> io::Result<bool> {
        if len > CAPACITY {
            return Ok(false);
        }
        self.bytes.copy_within(self.begin..self.end, 0);
        (self.begin, self.end) = (0, self.end - self.begin);
        while self.end < len {
            match self.input.read(&mut self.bytes[self.end..]) {
                Ok(0) => return Ok(false),
                Ok(count) => self.end += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Drops `len` bytes from the front of the window, or all of them if there are fewer.
    #[inline]
    pub(super) fn consume(&mut self, len: usize) {
        let len = len.min(self.end - self.begin);
        self.begin += len;
        self.consumed += len as u64;
    }

    /// Skips `len` bytes, reading as needed. Returns false when the input ends first.
    pub(super) fn skip(&mut self, mut len: u64) -> io::Result<bool> {
        loop {
            let now = len.min((self.end - self.begin) as u64);
            self.consume(now as usize);
            len -= now;
            if len == 0 {
                return Ok(true);
            }
            if !self.ensure(1)? {
                return Ok(false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that returns one byte at a time, and an interruption before each.
    struct Trickle(u8, bool);

    impl Read for Trickle {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(ErrorKind::Interrupted.into());
            }
            if self.0 == 10 {
                return Ok(0);
            }
            out[0] = self.0;
            self.0 += 1;
            Ok(1)
        }
    }

    #[test]
    fn bytes_stay_in_order_even_if_the_input_trickles() {
        let mut buffer = Buffer::new(Trickle(0, false));
        assert!(buffer.ensure(3).unwrap());
        buffer.consume(2);
        assert!(buffer.ensure(2).unwrap());
        assert_eq!(buffer.data(), [2, 3]);
        assert!(buffer.skip(6).unwrap());
        assert!(buffer.ensure(2).unwrap());
        assert!(!buffer.ensure(3).unwrap());
        assert_eq!((buffer.data(), buffer.consumed()), (&[8, 9][..], 8));
        assert!(!buffer.skip(3).unwrap());
    }

    #[test]
    fn a_length_above_the_capacity_is_never_available() {
        let mut buffer = Buffer::new(io::repeat(7));
        assert!(buffer.ensure(CAPACITY).unwrap());
        assert!(!buffer.ensure(CAPACITY + 1).unwrap());
        assert!(buffer.skip(3 * CAPACITY as u64).unwrap());
        assert_eq!(buffer.consumed(), 3 * CAPACITY as u64);
    }
}
