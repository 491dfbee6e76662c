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
pub(super) fn pack(out: &mut Vec<u8>, values: impl ExactSizeIterator<Item = u64>, width: u32) {
    out.reserve(values.len() * width as usize / 8 + 8);
    let (mut bits, mut filled) = (0_u64, 0);
    for value in values {
        bits |= value << filled;
        filled += width;
        if filled >= u64::BITS {
            out.extend_from_slice(&bits.to_le_bytes());
            filled -= u64::BITS;
            bits = if filled == 0 { 0 } else { value >> (width - filled) };
        }
    }
    out.extend_from_slice(&bits.to_le_bytes()[..filled.div_ceil(8) as usize]);
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
    pack(out, values.iter().map(|value| (*value).into()), width);
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
    let mut differences = [0; BLOCK];
    let count = values.len() - 1;
    for (difference, pair) in differences.iter_mut().zip(values.windows(2)) {
        *difference = pair[1].wrapping_sub(pair[0]);
    }
    let smallest = differences[..count].iter().copied().min().unwrap_or(0);
    zigzag(out, smallest);
    let mut above = [0; BLOCK];
    for (above, difference) in above.iter_mut().zip(&differences[..count]) {
        *above = difference.wrapping_sub(smallest) as u64;
    }
    let widths = out.len();
    for part in above.chunks(MINIBLOCK) {
        out.push(width(part.iter().fold(0, |all, value| all | value)) as u8);
    }
    for (number, part) in above[..count.next_multiple_of(MINIBLOCK)].chunks(MINIBLOCK).enumerate() {
        let width = out[widths + number].into();
        pack(out, part.iter().copied(), width);
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
