//! The wire format of Protocol Buffers: fields, one after another.
//!
//! Source: the encoding section of protobuf.dev. Written here because the usual decoders drop unknown fields
//! without a trace and refuse a truncated message, and a log that lacks something must say so.

/// One field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field<'a> {
    pub(super) number: u32,
    pub(super) value: Value<'a>,
}

/// The value of a field. Its type is not known without the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    /// Text, bytes or a message.
    Bytes(&'a [u8]),
}

impl Value<'_> {
    /// The value as an integer; `None` for bytes.
    pub(super) fn integer(self) -> Option<u64> {
        match self {
            Value::Varint(value) | Value::Fixed64(value) => Some(value),
            Value::Fixed32(value) => Some(u64::from(value)),
            Value::Bytes(_) => None,
        }
    }
}

/// Iterates over the fields of a message. It ends before the first field that is cut off or has no valid
/// type; what follows is in `rest`.
#[derive(Clone, Debug)]
pub(super) struct Fields<'a> {
    pub(super) rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        Fields { rest: message }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    fn next(&mut self) -> Option<Field<'a>> {
        let mut rest = self.rest;
        let tag = varint(&mut rest)?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| *number > 0)?;
        let value = match tag & 7 {
            0 => Value::Varint(varint(&mut rest)?),
            1 => Value::Fixed64(u64::from_le_bytes(array(&mut rest)?)),
            2 => {
                let len = usize::try_from(varint(&mut rest)?).ok()?;
                Value::Bytes(take(&mut rest, len)?)
            }
            5 => Value::Fixed32(u32::from_le_bytes(array(&mut rest)?)),
            _ => return None,
        };
        self.rest = rest;
        Some(Field { number, value })
    }
}

/// Reads an integer of 7 bits per byte, lowest first. `None` if it is cut off or exceeds 64 bits.
pub(super) fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let [byte] = array::<1>(rest)?;
        let bits = u64::from(byte & 0x7F);
        value |= bits.checked_shl(shift).filter(|shifted| shifted >> shift == bits)?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Splits off the first `len` bytes.
pub(super) fn take<'a>(rest: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(len)?;
    *rest = after;
    Some(taken)
}

fn array<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_begin_log_event_of_chromium_has_these_fields() {
        let message =
            [0x08, 0x8C, 0xDF, 0xF1, 0x01, 0x10, 0x02, 0x18, 0xBD, 0xD9, 0xCD, 0x82, 0xA0, 0x34];
        let fields: Vec<_> = Fields::new(&message).map(|f| (f.number, f.value)).collect();
        let expected = [(1, 3_960_716), (2, 2), (3, 1_795_301_797_053)];
        assert_eq!(fields, expected.map(|(number, value)| (number, Value::Varint(value))));
    }

    #[test]
    fn all_four_types_are_read_and_groups_end_the_reading() {
        let message =
            [0x0D, 1, 0, 0, 0x80, 0x11, 2, 0, 0, 0, 0, 0, 0, 0, 0x1A, 2, 7, 8, 0x23, 0x08, 0x01];
        let mut fields = Fields::new(&message);
        let values: Vec<_> = fields.by_ref().map(|field| field.value).collect();
        let expected = [Value::Fixed32(0x8000_0001), Value::Fixed64(2), Value::Bytes(&[7, 8])];
        assert_eq!(values, expected);
        assert_eq!(fields.rest, [0x23, 0x08, 0x01]);
    }

    #[test]
    fn a_varint_has_at_most_64_bits() {
        let read = |bytes: &[u8]| varint(&mut &bytes[..]);
        let mut largest = [0xFF; 10];
        largest[9] = 1;
        assert_eq!(read(&largest), Some(u64::MAX));
        largest[9] = 2;
        assert_eq!(read(&largest), None);
        assert_eq!(read(&[0x80, 0x80]), None);
    }
}
