//! Columns of a batch: the values of one field in all events after the first, as differences.
//!
//! Source: libwebrtc, logging/rtc_event_log/encoder/delta_encoding.cc and var_int.cc (2026).

/// Why a column cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DamagedColumn;

/// Reads a column of `count` values that follow the value `base`.
///
/// Without `column`, all of them equal `base`. A value may be missing if the column says so, and all are if
/// neither `base` nor the column exists.
///
/// # Errors
///
/// [`DamagedColumn`] if the column has a reserved type, is too short, or goes on after its last value.
pub(super) fn values(
    column: Option<&[u8]>,
    base: Option<u64>,
    count: usize,
) -> Result<Vec<Option<u64>>, DamagedColumn> {
    match column {
        None | Some([]) => Ok(vec![base; count]),
        Some(bytes) => read(&mut Bits { bytes, at: 0 }, base, count).ok_or(DamagedColumn),
    }
}

struct Header {
    delta_bits: u32,
    value_bits: u32,
    signed: bool,
    optional: bool,
}

impl Header {
    fn read(bits: &mut Bits<'_>) -> Option<Header> {
        let kind = bits.take(2)?;
        let delta_bits = bits.take(6)? as u32 + 1;
        match kind {
            0 => Some(Header { delta_bits, value_bits: 64, signed: false, optional: false }),
            1 => Some(Header {
                delta_bits,
                signed: bits.take(1)? == 1,
                optional: bits.take(1)? == 1,
                value_bits: bits.take(6)? as u32 + 1,
            }),
            _ => None,
        }
    }
}

fn read(bits: &mut Bits<'_>, base: Option<u64>, count: usize) -> Option<Vec<Option<u64>>> {
    let header = Header::read(bits)?;
    // Each value takes at least a bit, be it in the bitmap.
    if count > bits.left() {
        return None;
    }
    let mut presence = Bits { bytes: bits.bytes, at: bits.at };
    if header.optional {
        bits.at += count;
    }
    let mut previous = base;
    let mut values = Vec::with_capacity(count);
    for _ in 0..count {
        if header.optional && presence.take(1)? == 0 {
            values.push(None);
            continue;
        }
        let value = match previous {
            None => bits.varint()?,
            Some(previous) => {
                let delta = bits.take(header.delta_bits)?;
                let delta = if header.signed { extended(delta, header.delta_bits) } else { delta };
                previous.wrapping_add(delta) & mask(header.value_bits)
            }
        };
        previous = Some(value);
        values.push(previous);
    }
    let padding = bits.left();
    (padding < 8 && bits.take(padding as u32)? == 0).then_some(values)
}

/// A number with all bits from `bits` on 0; `bits` is 1 to 64.
fn mask(bits: u32) -> u64 {
    u64::MAX >> (64 - bits)
}

/// Two's complement of `bits` bits extended to 64.
fn extended(value: u64, bits: u32) -> u64 {
    let unused = 64 - bits;
    (((value << unused) as i64) >> unused) as u64
}

/// Bits, the most significant of each byte first.
struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    fn left(&self) -> usize {
        (self.bytes.len() * 8).saturating_sub(self.at)
    }

    /// A number of `count` bits, at most 64.
    fn take(&mut self, count: u32) -> Option<u64> {
        if count as usize > self.left() {
            return None;
        }
        let (mut value, mut wanted) = (0u64, count as usize);
        while wanted > 0 {
            let (byte, used) = (self.bytes[self.at / 8], self.at % 8);
            let taken = wanted.min(8 - used);
            let bits = u64::from(byte) >> (8 - used - taken) & mask(taken as u32);
            value = value << taken | bits;
            self.at += taken;
            wanted -= taken;
        }
        Some(value)
    }

    /// An integer of 7 bits per byte, lowest first; here bytes may begin at any bit.
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.take(8)?;
            value |= (byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

/// Writes a column as Chromium does, for tests.
#[cfg(test)]
pub(super) mod writing {
    use super::mask;

    #[derive(Default)]
    struct BitWriter {
        bytes: Vec<u8>,
        used: usize,
    }

    impl BitWriter {
        fn put(&mut self, value: u64, count: u32) {
            for bit in (0..count).rev() {
                if self.used % 8 == 0 {
                    self.bytes.push(0);
                }
                let last = self.bytes.len() - 1;
                self.bytes[last] |= ((value >> bit & 1) as u8) << (7 - self.used % 8);
                self.used += 1;
            }
        }

        fn varint(&mut self, mut value: u64) {
            while value > 0x7F {
                self.put(value & 0x7F | 0x80, 8);
                value >>= 7;
            }
            self.put(value, 8);
        }
    }

    fn bits_of(value: u64) -> u32 {
        (64 - value.leading_zeros()).max(1)
    }

    /// The column of `values` after `base`; empty if all are equal to it.
    pub(in super::super) fn column(base: Option<u64>, values: &[Option<u64>]) -> Vec<u8> {
        if values.iter().all(|value| *value == base) {
            return Vec::new();
        }
        let present: Vec<u64> = base.into_iter().chain(values.iter().flatten().copied()).collect();
        let rising = present.is_sorted();
        let largest = present.iter().copied().max().unwrap_or(0);
        let value_bits = if rising { 64 } else { bits_of(largest) };
        let optional = values.contains(&None);
        let steps = present.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]) & mask(value_bits));
        let steps: Vec<u64> = steps.collect();
        let unsigned_bits = steps.iter().map(|step| bits_of(*step)).max().unwrap_or(1);
        let signed_bits = steps.iter().map(|step| {
            let forward = bits_of(*step) + 1;
            let backward = bits_of(step.wrapping_neg().wrapping_sub(1) & mask(value_bits)) + 1;
            forward.min(backward)
        });
        let signed_bits = signed_bits.max().unwrap_or(1);
        let signed = signed_bits < unsigned_bits;
        let delta_bits = if signed { signed_bits } else { unsigned_bits };
        let mut out = BitWriter::default();
        let full = signed || optional || value_bits < 64;
        out.put(u64::from(full), 2);
        out.put(u64::from(delta_bits - 1), 6);
        if full {
            out.put(u64::from(signed), 1);
            out.put(u64::from(optional), 1);
            out.put(u64::from(value_bits - 1), 6);
        }
        if optional {
            values.iter().for_each(|value| out.put(u64::from(value.is_some()), 1));
        }
        if base.is_none() {
            out.varint(present[0]);
        }
        steps.iter().for_each(|step| out.put(step & mask(delta_bits), delta_bits));
        out.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn present(values: &[u64]) -> Vec<Option<u64>> {
        values.iter().copied().map(Some).collect()
    }

    #[test]
    fn times_are_unsigned_steps_after_a_short_header() {
        // Chromium 156: times of delay-based estimates.
        let read = values(Some(&[0x05, 0xEF, 0xFF, 0xFE]), Some(3_620_425), 4);
        assert_eq!(read, Ok(present(&[3_620_484, 3_620_547, 3_620_610, 3_620_672])));
    }

    #[test]
    fn a_decrease_wraps_at_the_value_width() {
        // Chromium 156: the rates of the same message.
        let column = [0x55, 0x15, 0x26, 0x15, 0xC7, 0xD4, 0x16, 0xF6, 0x8B, 0x15, 0x45, 0xCD, 0xDD];
        let read = values(Some(&column), Some(1_202_872), 4);
        assert_eq!(read, Ok(present(&[1_826_857, 1_647_000, 3_362_285, 3_742_666])));
    }

    #[test]
    fn signed_steps_move_a_narrow_value_both_ways() {
        // Chromium 156: padding of packets.
        let read = values(Some(&[0x41, 0x87, 0x01, 0x0D, 0x00]), Some(255), 11);
        assert_eq!(read, Ok(present(&[255, 255, 255, 0, 0, 0, 255, 0, 0, 0, 0])));
    }

    #[test]
    fn an_optional_column_without_base_begins_with_an_unaligned_varint() {
        // Chromium 156: original sequence numbers of retransmissions.
        let read = values(Some(&[0x41, 0x7F, 0x1D, 0xF4, 0x6E, 0x81, 0x80]), None, 11);
        let numbers = [14_883, 14_883, 14_883, 0, 14_886, 14_886, 14_886, 14_886]
            .map(|v| Some(v).filter(|v| *v > 0));
        assert_eq!(read, Ok([&[None; 3][..], &numbers].concat()));
    }

    #[test]
    fn an_empty_column_repeats_the_first_value_or_its_absence() {
        assert_eq!(values(None, Some(7), 2), Ok(present(&[7, 7])));
        assert_eq!(values(Some(&[]), None, 2), Ok(vec![None, None]));
    }

    #[test]
    fn reserved_types_short_columns_and_leftovers_are_damage() {
        let good = [0x05, 0xEF, 0xFF, 0xFE];
        assert_eq!(values(Some(&good[..3]), Some(0), 4), Err(DamagedColumn));
        assert_eq!(values(Some(&[0x85, 0xEF, 0xFF, 0xFE]), Some(0), 4), Err(DamagedColumn));
        assert_eq!(values(Some(&[0x05, 0xEF, 0xFF, 0xFE, 0]), Some(0), 4), Err(DamagedColumn));
        assert_eq!(values(Some(&[0x04, 0xEF, 0xFF, 0xFF]), Some(0), 4), Err(DamagedColumn));
        assert_eq!(values(Some(&good), Some(0), usize::MAX), Err(DamagedColumn));
    }

    proptest! {
        #[test]
        fn written_columns_are_read_back(
            base in proptest::option::of(any::<u64>()),
            rest in proptest::collection::vec(proptest::option::weighted(0.8, any::<u64>()), 0..50),
            bits in 1u32..=64,
        ) {
            let narrow = |value: Option<u64>| value.map(|value| value & mask(bits));
            let (base, rest) = (narrow(base), rest.into_iter().map(narrow).collect::<Vec<_>>());
            let column = writing::column(base, &rest);
            prop_assert_eq!(values(Some(&column), base, rest.len()), Ok(rest));
        }

        #[test]
        fn any_bytes_end_in_values_or_damage(
            column in proptest::collection::vec(any::<u8>(), 0..40),
            base in proptest::option::of(any::<u64>()),
            count in 0usize..400,
        ) {
            if let Ok(values) = values(Some(&column), base, count) {
                prop_assert_eq!(values.len(), count);
            }
        }
    }
}
