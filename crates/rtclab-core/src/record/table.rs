//! Tables as columns.

/// One column of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Integers and booleans.
    Int(Vec<i64>),
    /// Floats.
    Float(Vec<f64>),
    /// Indices into the run's list of texts, which [`super::Recorder::finish`] gives.
    Text(Vec<u16>),
}

/// A table of the trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// Names and values of its columns, all of one length.
    pub columns: Vec<(&'static str, Column)>,
}

/// One cell.
#[derive(Clone, Copy, Debug)]
pub enum Cell {
    /// Of an integer column.
    Int(i64),
    /// Of a float column.
    Float(f64),
    /// Of a text column.
    Text(u16),
}

impl Table {
    pub(super) fn new(name: &'static str, columns: &[(&'static str, Column)]) -> Self {
        Table { name, columns: columns.to_vec() }
    }

    /// Adds a row; cells come in the order of the columns.
    pub(super) fn push(&mut self, row: &[Cell]) {
        debug_assert_eq!(row.len(), self.columns.len(), "{}", self.name);
        for ((_, column), cell) in self.columns.iter_mut().zip(row) {
            match (column, cell) {
                (Column::Int(values), Cell::Int(value)) => values.push(*value),
                (Column::Float(values), Cell::Float(value)) => values.push(*value),
                (Column::Text(values), Cell::Text(value)) => values.push(*value),
                (column, cell) => debug_assert!(false, "{}: {cell:?} in {column:?}", self.name),
            }
        }
    }
}

/// An empty column of integers.
pub(super) fn int() -> Column {
    Column::Int(Vec::new())
}
pub(super) fn float() -> Column {
    Column::Float(Vec::new())
}
pub(super) fn text() -> Column {
    Column::Text(Vec::new())
}
