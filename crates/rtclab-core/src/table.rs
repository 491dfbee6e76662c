//! Tables stored as columns and filled with typed rows: a missing field, or one of another type, does not compile.
//!
//! Null is -1 in integer columns, NaN in float columns and [`NO_TEXT`] in text columns.

use crate::packet::Kind;
use crate::units::Time;
use std::collections::HashMap;

/// Null in a text column.
pub const NO_TEXT: u32 = u32::MAX;
/// Null in an integer column.
pub const NO_INT: i64 = -1;

/// One column of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Integers and booleans.
    Int(Vec<i64>),
    /// Floats.
    Float(Vec<f64>),
    /// Indices into a list of texts that comes with the table.
    Text(Vec<u32>),
}

/// A table of the trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Name of the table.
    pub name: &'static str,
    /// Names and values of the columns, all of the same length.
    pub columns: Vec<(&'static str, Column)>,
}

/// Index of a text in the list that comes with a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Text(pub u32);

/// List of distinct texts, each with a code.
#[derive(Clone, Debug, Default)]
pub(crate) struct Texts {
    pub(crate) list: Vec<String>,
    codes: HashMap<String, Text>,
}

impl Texts {
    /// The code of a text. A new text is added to the list.
    pub(crate) fn code(&mut self, text: &str) -> Text {
        if let Some(code) = self.codes.get(text) {
            return *code;
        }
        let code = Text(self.list.len() as u32);
        self.list.push(text.to_owned());
        self.codes.insert(text.to_owned(), code);
        code
    }
}

/// A type that a column can hold.
pub trait Cell {
    /// The type of the stored value.
    type Stored: Clone;
    /// Converts the value to its stored form.
    fn store(self) -> Self::Stored;
    /// Makes a column of stored values.
    fn column(values: Vec<Self::Stored>) -> Column;
}

macro_rules! cells {
    ($($cell:ty: $stored:ty => $column:ident, $store:expr;)*) => {
        $(impl Cell for $cell {
            type Stored = $stored;
            fn store(self) -> $stored {
                let store: fn($cell) -> $stored = $store;
                store(self)
            }
            fn column(values: Vec<$stored>) -> Column {
                Column::$column(values)
            }
        })*
    };
}

cells! {
    i64: i64 => Int, |value| value;
    u64: i64 => Int, |value| value as i64;
    u32: i64 => Int, i64::from;
    u16: i64 => Int, i64::from;
    Time: i64 => Int, |time| time.0 as i64;
    Option<u64>: i64 => Int, |value| value.map_or(NO_INT, |value| value as i64);
    Option<u32>: i64 => Int, |value| value.map_or(NO_INT, i64::from);
    Option<Time>: i64 => Int, |time| time.map_or(NO_INT, |time| time.0 as i64);
    f64: f64 => Float, |value| value;
    Option<f64>: f64 => Float, |value| value.unwrap_or(f64::NAN);
    Text: u32 => Text, |text| text.0;
    Option<Text>: u32 => Text, |text| text.map_or(NO_TEXT, |text| text.0);
    Kind: u32 => Text, |kind| kind as u32;
}

/// A row of a table, or a part of one.
pub trait Row {
    /// The columns that hold such rows.
    type Columns: RowColumns<Row = Self>;
}

/// Columns that are filled row by row.
pub trait RowColumns: Clone + Default {
    /// The type of the rows.
    type Row;
    /// Appends a row.
    fn push(&mut self, row: Self::Row);
    /// Appends the same row several times.
    fn push_repeated(&mut self, row: Self::Row, count: usize);
    /// Names and values of the columns.
    fn finish(self) -> Vec<(&'static str, Column)>;
}

/// Declares a row type and its columns. Each field is `field: type = "column name"`.
macro_rules! row {
    (
        $(#[$about:meta])*
        $visibility:vis struct $row:ident / $columns:ident {
            $($(#[$field_about:meta])* $field:ident: $cell:ty = $name:literal,)*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq)]
        $visibility struct $row {
            $($(#[$field_about])* pub $field: $cell,)*
        }

        /// The columns that hold rows of this type.
        #[derive(Clone, Default)]
        $visibility struct $columns {
            $($field: Vec<<$cell as $crate::table::Cell>::Stored>,)*
        }

        impl $crate::table::Row for $row {
            type Columns = $columns;
        }

        impl $crate::table::RowColumns for $columns {
            type Row = $row;

            fn push(&mut self, row: $row) {
                let _ = &row;
                $(self.$field.push($crate::table::Cell::store(row.$field));)*
            }

            fn push_repeated(&mut self, row: $row, count: usize) {
                let _ = (&row, count);
                $(
                    let value = $crate::table::Cell::store(row.$field);
                    self.$field.resize(self.$field.len() + count, value);
                )*
            }

            fn finish(self) -> Vec<(&'static str, $crate::table::Column)> {
                vec![$(($name, <$cell as $crate::table::Cell>::column(self.$field)),)*]
            }
        }
    };
}
pub(crate) use row;

/// A table whose rows have two parts, such as a key and values.
pub(crate) struct Rows<A: Row, B: Row> {
    name: &'static str,
    first: A::Columns,
    second: B::Columns,
}

impl<A: Row, B: Row> Clone for Rows<A, B> {
    fn clone(&self) -> Self {
        let Rows { name, ref first, ref second } = *self;
        Rows { name, first: first.clone(), second: second.clone() }
    }
}

impl<A: Row, B: Row> Rows<A, B> {
    pub(crate) fn new(name: &'static str) -> Self {
        Rows { name, first: A::Columns::default(), second: B::Columns::default() }
    }

    pub(crate) fn push(&mut self, first: A, second: B) {
        self.first.push(first);
        self.second.push(second);
    }

    /// Appends rows that have the first part in common.
    pub(crate) fn extend(&mut self, first: A, second: impl ExactSizeIterator<Item = B>) {
        self.first.push_repeated(first, second.len());
        second.for_each(|row| self.second.push(row));
    }

    pub(crate) fn finish(self) -> Table {
        let mut columns = self.first.finish();
        columns.extend(self.second.finish());
        Table { name: self.name, columns }
    }
}
