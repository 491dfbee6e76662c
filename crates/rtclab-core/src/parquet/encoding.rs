//! The encodings of values in Parquet: packed bits, runs, differences, and lists of distinct values.

use super::thrift::{varint, zigzag};

/// Differences in a block that has one smallest difference.
const BLOCK: usize = 128;
/// Differences that have one width.
const MINIBLOCK: usize = 32;
/// Values in a group of packed ones.
const GROUP: usize = 8;

/// Number of bits that a value takes.
pub(super) fn width(largest: u64) -> u32 {
    u64::BITS - largest.leading_zeros()
}

/// Appends values of `width` bits each, least significant bit first, up to a whole byte.
pub(super) fn pack<T: Copy + Into<u64>>(out: &mut Vec<u8>, values: &[T], width: u32) {
    let mut bits = Bits::begin(out, values.len() * width as usize);
    match width {
        0 => {}
        1..=7 => bits.put_together::<8, T>(values, width),
        8..=14 => bits.put_together::<4, T>(values, width),
        15..=28 => bits.put_together::<2, T>(values, width),
        29..=MOST_BITS => bits.put_together::<1, T>(values, width),
        _ => values.iter().for_each(|value| {
            let value: u64 = (*value).into();
            bits.put(value & u64::from(u32::MAX), 32);
            bits.put(value >> 32, width - 32);
        }),
    }
    bits.finish();
}

/// Bits that can be put at once, beside up to seven that wait for their byte to be filled.
const MOST_BITS: u32 = 56;

/// Appends bits to bytes.
struct Bits<'a> {
    out: &'a mut Vec<u8>,
    /// Where the next byte goes. Behind it there is room for eight.
    at: usize,
    end: usize,
    bits: u64,
    filled: u32,
}

impl<'a> Bits<'a> {
    /// Makes room for a number of bits.
    fn begin(out: &'a mut Vec<u8>, count: usize) -> Self {
        let at = out.len();
        let end = at + count.div_ceil(8);
        out.resize(end + 8, 0);
        Bits { out, at, end, bits: 0, filled: 0 }
    }

    /// Appends up to [`MOST_BITS`] bits. No branch depends on whether they fill a byte.
    fn put(&mut self, value: u64, width: u32) {
        self.bits |= value << self.filled;
        self.out[self.at..self.at + 8].copy_from_slice(&self.bits.to_le_bytes());
        let filled = self.filled + width;
        self.at += filled as usize / 8;
        self.bits >>= filled / 8 * 8;
        self.filled = filled % 8;
    }

    /// Appends values, `N` at once.
    fn put_together<const N: usize, T: Copy + Into<u64>>(&mut self, values: &[T], width: u32) {
        let mut groups = values.chunks_exact(N);
        for group in &mut groups {
            let shifted = (0..).zip(group).map(|(index, value)| (*value).into() << (index * width));
            self.put(shifted.fold(0, |all, value: u64| all | value), N as u32 * width);
        }
        groups.remainder().iter().for_each(|value| self.put((*value).into(), width));
    }

    fn finish(self) {
        self.out.truncate(self.end);
    }
}

/// Appends values of `width` bits, with at least a group of equal values in a row as one (`RLE`).
pub(super) fn runs<T: Copy + PartialEq + Into<u64>>(out: &mut Vec<u8>, values: &[T], width: u32) {
    let (mut packed, mut at) = (0, 0);
    while let Some(group) = values.get(at..at + GROUP) {
        let first = group[0];
        // Without a branch for each value, because they change as often as not.
        if !group.iter().fold(true, |equal, value| equal & (*value == first)) {
            at += GROUP;
            continue;
        }
        let more = values[at + GROUP..].iter().take_while(|value| **value == first).count();
        groups(out, &values[packed..at], width);
        run(out, first, GROUP + more, width);
        at += GROUP + more;
        packed = at;
    }
    groups(out, &values[packed..], width);
}

/// Appends `count` times the same value.
pub(super) fn run(out: &mut Vec<u8>, value: impl Into<u64>, count: usize, width: u32) {
    varint(out, (count as u64) << 1);
    out.extend_from_slice(&value.into().to_le_bytes()[..width.div_ceil(8) as usize]);
}

/// Appends packed values. The last group is filled up with zeros.
fn groups<T: Copy + Into<u64>>(out: &mut Vec<u8>, values: &[T], width: u32) {
    if values.is_empty() {
        return;
    }
    let groups = values.len().div_ceil(GROUP);
    varint(out, (groups as u64) << 1 | 1);
    let end = out.len() + groups * width as usize;
    pack(out, values, width);
    out.resize(end, 0);
}

/// Appends the first integer and the differences between them (`DELTA_BINARY_PACKED`).
pub(super) fn differences(out: &mut Vec<u8>, values: &[i64]) {
    varint(out, BLOCK as u64);
    varint(out, (BLOCK / MINIBLOCK) as u64);
    varint(out, values.len() as u64);
    zigzag(out, values.first().copied().unwrap_or(0));
    // Each block begins with the last value of the one before.
    for block in values.windows(BLOCK + 1).step_by(BLOCK) {
        differences_of_block(out, block);
    }
    let done = values.len().saturating_sub(1) / BLOCK * BLOCK;
    if done + 1 < values.len() {
        differences_of_block(out, &values[done..]);
    }
}

fn differences_of_block(out: &mut Vec<u8>, values: &[i64]) {
    let mut above = [0; BLOCK];
    let above = &mut above[..values.len() - 1];
    let mut smallest = i64::MAX;
    for (difference, (next, value)) in above.iter_mut().zip(values[1..].iter().zip(values)) {
        *difference = next.wrapping_sub(*value);
        smallest = smallest.min(*difference);
    }
    zigzag(out, smallest);
    let widths = out.len();
    out.extend_from_slice(&[0; BLOCK / MINIBLOCK]);
    for (number, part) in above.chunks(MINIBLOCK).enumerate() {
        let mut miniblock = [0; MINIBLOCK];
        let mut all = 0;
        for (above, difference) in miniblock.iter_mut().zip(part) {
            *above = difference.wrapping_sub(smallest) as u64;
            all |= *above;
        }
        out[widths + number] = width(all) as u8;
        pack(out, &miniblock, width(all));
    }
}

/// The distinct values in the order of their first appearance, and for each value its index. None if there are
/// more than `most` distinct ones.
pub(super) fn distinct(
    values: impl ExactSizeIterator<Item = u64>,
    most: usize,
) -> Option<(Vec<u64>, Vec<u32>)> {
    const FREE: u32 = u32::MAX;
    // A hash table of indices that is never more than half full.
    let size = (2 * most + 2).next_power_of_two();
    let mut slots = vec![FREE; size];
    let (mut list, mut indices) = (Vec::new(), Vec::with_capacity(values.len()));
    for value in values {
        let hash = value.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut slot = (hash >> 32) as usize & (size - 1);
        while slots[slot] != FREE && list[slots[slot] as usize] != value {
            slot = (slot + 1) & (size - 1);
        }
        if slots[slot] == FREE {
            if list.len() == most {
                return None;
            }
            slots[slot] = list.len() as u32;
            list.push(value);
        }
        indices.push(slots[slot]);
    }
    Some((list, indices))
}
