//! Structures in the compact protocol of Thrift, in which Parquet describes its pages and columns.

/// The type of a field or of the items of a list.
#[derive(Clone, Copy)]
pub(super) enum Type {
    I32 = 5,
    I64 = 6,
    Binary = 8,
    List = 9,
    Struct = 12,
}

/// Writes the fields of a structure, in the order of their numbers.
pub(super) struct Fields<'a> {
    out: &'a mut Vec<u8>,
    last: u8,
}

/// Appends a structure.
pub(super) fn structure(out: &mut Vec<u8>, fill: impl FnOnce(&mut Fields<'_>)) {
    fill(&mut Fields { out, last: 0 });
    out.push(0);
}

impl Fields<'_> {
    pub(super) fn i32(&mut self, number: u8, value: i32) {
        self.begin(number, Type::I32);
        zigzag(self.out, value.into());
    }

    pub(super) fn i64(&mut self, number: u8, value: i64) {
        self.begin(number, Type::I64);
        zigzag(self.out, value);
    }

    pub(super) fn text(&mut self, number: u8, value: &str) {
        self.begin(number, Type::Binary);
        text(self.out, value);
    }

    pub(super) fn structure(&mut self, number: u8, fill: impl FnOnce(&mut Fields<'_>)) {
        self.begin(number, Type::Struct);
        structure(self.out, fill);
    }

    /// A list. `item` appends each item of it.
    pub(super) fn list<T>(
        &mut self,
        number: u8,
        kind: Type,
        items: impl ExactSizeIterator<Item = T>,
        mut item: impl FnMut(&mut Vec<u8>, T),
    ) {
        self.begin(number, Type::List);
        match items.len() {
            few @ ..15 => self.out.push((few as u8) << 4 | kind as u8),
            many => {
                self.out.push(0xF0 | kind as u8);
                varint(self.out, many as u64);
            }
        }
        items.for_each(|value| item(self.out, value));
    }

    fn begin(&mut self, number: u8, kind: Type) {
        // Numbers are at most 15 apart in all structures here.
        self.out.push((number - self.last) << 4 | kind as u8);
        self.last = number;
    }
}

/// Appends a text with its length.
pub(super) fn text(out: &mut Vec<u8>, value: &str) {
    varint(out, value.len() as u64);
    out.extend_from_slice(value.as_bytes());
}

/// Appends a signed number so that small ones of either sign are short.
pub(super) fn zigzag(out: &mut Vec<u8>, value: i64) {
    varint(out, (value << 1 ^ value >> 63) as u64);
}

/// Appends an unsigned number, seven bits to a byte.
pub(super) fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
