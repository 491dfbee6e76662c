use super::encoding::{differences, distinct, pack, runs, width};
use super::{Column, Values, file};
use proptest::prelude::*;

/// Reads what `varint` writes.
fn read_varint(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        value |= u64::from(byte & 0x7F) << shift;
        shift += 7;
        if byte < 0x80 {
            return value;
        }
    }
}

fn read_zigzag(bytes: &mut &[u8]) -> i64 {
    let value = read_varint(bytes);
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// The number in `width` bits from bit `begin` on.
fn bits(bytes: &[u8], begin: usize, width: u32) -> u64 {
    let bit = |index: usize| u64::from(bytes[index / 8] >> (index % 8) & 1);
    (0..width as usize).map(|index| bit(begin + index) << index).sum()
}

fn read_packed(bytes: &[u8], count: usize, width: u32) -> Vec<u64> {
    (0..count).map(|index| bits(bytes, index * width as usize, width)).collect()
}

fn read_runs(mut bytes: &[u8], width: u32) -> Vec<u64> {
    let mut values = Vec::new();
    while !bytes.is_empty() {
        let header = read_varint(&mut bytes);
        let count = (header >> 1) as usize;
        if header & 1 == 1 {
            values.extend(read_packed(bytes, 8 * count, width));
            bytes = &bytes[count * width as usize..];
        } else {
            values.extend(vec![bits(bytes, 0, width); count]);
            bytes = &bytes[width.div_ceil(8) as usize..];
        }
    }
    values
}

fn read_differences(mut bytes: &[u8]) -> Vec<i64> {
    let bytes = &mut bytes;
    assert_eq!((read_varint(bytes), read_varint(bytes)), (128, 4));
    let count = read_varint(bytes) as usize;
    let mut values = vec![read_zigzag(bytes)];
    while values.len() < count {
        let smallest = read_zigzag(bytes);
        let (widths, rest) = bytes.split_at(4);
        *bytes = rest;
        for width in widths.iter().copied() {
            if values.len() >= count {
                assert_eq!(width, 0);
                continue;
            }
            for above in read_packed(bytes, 32, width.into()) {
                let last = values[values.len() - 1];
                values.push(last.wrapping_add(smallest).wrapping_add(above as i64));
            }
            *bytes = &bytes[4 * usize::from(width)..];
        }
    }
    assert!(bytes.is_empty());
    values.truncate(count);
    values
}

#[test]
fn bits_are_packed_as_in_the_example_of_the_format() {
    let mut out = Vec::new();
    pack(&mut out, &[0_u64, 1, 2, 3, 4, 5, 6, 7], 3);
    assert_eq!(out, [0b1000_1000, 0b1100_0110, 0b1111_1010]);
}

#[test]
fn equal_values_are_one_run_and_others_are_packed() {
    let mut out = Vec::new();
    let values = [[1_u32; 8].as_slice(), &[1; 92], &[0, 2], &[3; 7]].concat();
    runs(&mut out, &values, 2);
    // 100 times 1, and then two groups of packed values without the last seven.
    assert_eq!(out[..3], [200, 1, 1]);
    assert_eq!(out[3], 2 << 1 | 1);
    assert_eq!(out.len(), 4 + 2 * 2);
}

#[test]
fn a_constant_takes_no_bits_beside_its_description() {
    let mut out = Vec::new();
    differences(&mut out, &[5; 129]);
    // Block of 128 in 4 parts, 129 values, the first 5; a smallest difference of 0, and 4 widths of 0.
    assert_eq!(out, [0x80, 1, 4, 0x81, 1, 10, 0, 0, 0, 0, 0]);
}

#[test]
fn values_are_distinct_up_to_a_limit() {
    let values = [7, 7, u64::MAX, 0, 7];
    assert_eq!(distinct(values.into_iter(), 3), Some((vec![7, u64::MAX, 0], vec![0, 0, 1, 2, 0])));
    assert_eq!(distinct(values.into_iter(), 2), None);
}

proptest! {
    #[test]
    fn packed_values_read_back(width in 0..=64_u32, values: Vec<u64>) {
        let mask = ((1_u128 << width) - 1) as u64;
        let values: Vec<_> = values.iter().map(|value| value & mask).collect();
        let mut out = vec![9];
        pack(&mut out, &values, width);
        prop_assert_eq!(out.len(), 1 + (values.len() * width as usize).div_ceil(8));
        prop_assert_eq!(read_packed(&out[1..], values.len(), width), values);
    }

    #[test]
    fn runs_read_back(parts in prop::collection::vec((0..5_u32, 1..40_usize), 0..20)) {
        let values: Vec<_> = parts.iter().flat_map(|(value, count)| vec![*value; *count]).collect();
        let mut out = Vec::new();
        runs(&mut out, &values, 3);
        let mut read = read_runs(&out, 3);
        prop_assert!(read.len() < values.len() + 8);
        read.truncate(values.len());
        prop_assert_eq!(read, values.into_iter().map(u64::from).collect::<Vec<_>>());
    }

    #[test]
    fn differences_read_back(
        first: i64,
        steps in prop::collection::vec((0..64_u32, any::<i64>()), 0..400),
    ) {
        let mut values = vec![first];
        for (shift, step) in steps {
            values.push(values[values.len() - 1].wrapping_add(step >> shift));
        }
        let mut out = Vec::new();
        differences(&mut out, &values);
        prop_assert_eq!(read_differences(&out), values);
    }
}

#[test]
fn a_number_takes_as_many_bits_as_it_has() {
    assert_eq!([0, 1, 2, 255, 256, u64::MAX].map(width), [0, 1, 2, 8, 9, 64]);
}

#[test]
fn columns_that_do_not_fit_together_are_named() {
    let column = |name, nullable, values| Column { name, nullable, values };
    let three = column("three", false, Values::Int(Some(&[1, 2, 3])));
    let refused = |other| file(&[three, other]).unwrap_err();
    assert_eq!(
        refused(column("two", false, Values::Float(Some(&[1.0, 2.0])))),
        "`two`: 2 values in 3 rows"
    );
    assert_eq!(refused(column("none", false, Values::Int(None))), "`none`: no values");
    let texts: &[&str] = &["a"];
    let codes = |codes| Values::Text(Some((codes, texts)));
    let unknown = "`text`: code 7 of text; there are 1 texts";
    assert_eq!(refused(column("text", true, codes(&[0, 7, u32::MAX]))), unknown);
    let missing = "`text`: code 4294967295 of text; there are 1 texts";
    assert_eq!(refused(column("text", false, codes(&[0, 0, u32::MAX]))), missing);
    assert!(file(&[three, column("text", true, codes(&[0, 0, u32::MAX]))]).is_ok());
}
