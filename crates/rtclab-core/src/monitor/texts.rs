//! Builds result tables: columns, and the texts that they refer to.

use crate::table::{Column, NO_INT, NO_TEXT, Table};

pub(crate) use crate::table::Texts;

/// Tables, and the texts that their text columns refer to.
#[derive(Clone, Debug, PartialEq)]
pub struct Tables {
    /// Texts by code.
    pub texts: Vec<String>,
    /// The tables.
    pub tables: Vec<Table>,
}

/// Converts nanoseconds to milliseconds.
pub(crate) fn ms(ns: f64) -> f64 {
    ns / 1e6
}

/// Value of a column `…_origin`: `inferred` or `sdp`.
pub(crate) fn origin(inferred: bool) -> String {
    if inferred { "inferred" } else { "sdp" }.to_owned()
}

/// Builds a table from rows, one column at a time.
pub(crate) struct Columns<'a, T> {
    rows: &'a [T],
    table: Table,
}

impl<'a, T> Columns<'a, T> {
    pub(crate) fn new(name: &'static str, rows: &'a [T]) -> Self {
        Columns { rows, table: Table { name, columns: Vec::new() } }
    }

    pub(crate) fn int<I: Into<Option<i64>>>(
        mut self,
        name: &'static str,
        value: impl Fn(&T) -> I,
    ) -> Self {
        let values = self.rows.iter().map(|row| value(row).into().unwrap_or(NO_INT)).collect();
        self.table.columns.push((name, Column::Int(values)));
        self
    }

    pub(crate) fn float<F: Into<Option<f64>>>(
        mut self,
        name: &'static str,
        value: impl Fn(&T) -> F,
    ) -> Self {
        let values = self.rows.iter().map(|row| value(row).into().unwrap_or(f64::NAN)).collect();
        self.table.columns.push((name, Column::Float(values)));
        self
    }

    pub(crate) fn text(
        mut self,
        name: &'static str,
        texts: &mut Texts,
        value: impl Fn(&T) -> Option<String>,
    ) -> Self {
        let code = |row| value(row).map_or(NO_TEXT, |text| texts.code(&text).0);
        let values = self.rows.iter().map(code).collect();
        self.table.columns.push((name, Column::Text(values)));
        self
    }

    pub(crate) fn table(self) -> Table {
        self.table
    }
}
