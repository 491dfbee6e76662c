//! Numbers from the bytes of an input.

/// The rest of an input. When it is used up, all numbers are zero.
pub(super) struct Input<'a>(pub(super) &'a [u8]);

impl<'a> Input<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        let taken = self.take(N);
        bytes[..taken.len()].copy_from_slice(taken);
        bytes
    }

    /// Up to `count` bytes.
    pub(super) fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    pub(super) fn u8(&mut self) -> u8 {
        u8::from_le_bytes(self.array())
    }

    pub(super) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    pub(super) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    pub(super) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    pub(super) fn bool(&mut self) -> bool {
        self.u8() & 1 == 1
    }

    /// A number below `count`.
    pub(super) fn below(&mut self, count: usize) -> usize {
        usize::from(self.u8()) % count.max(1)
    }

    /// A number of up to 64 bits: most are small, or near a power of two, where limits are.
    pub(super) fn number(&mut self) -> u64 {
        let first = self.u8();
        match first >> 6 {
            0 => u64::from(first & 63),
            1 => (1 << (first & 63)) + u64::from(self.u8() & 3) - 2u64.min(1 << (first & 63)),
            2 => u64::from(self.u16()),
            _ => self.u64(),
        }
    }

    /// A step forward or, as its complement, backward.
    pub(super) fn step(&mut self) -> u64 {
        let number = self.number();
        if self.bool() { number.wrapping_neg() } else { number }
    }
}
