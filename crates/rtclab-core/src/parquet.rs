//! Columns as the content of a Parquet file.
//!
//! Source: `parquet.thrift` and `Encodings.md` of apache/parquet-format 2.11. There is one page per column and
//! group of rows. Nothing is compressed, because the encodings leave little to compress.
//!
//! Written here because a simulated trace has 150 columns, most of a hundred rows. To make data frames of them and
//! write these with Polars takes ten times as long; the crate `parquet` takes twice as long, and brings 24 crates.

mod encoding;
mod thrift;

use crate::table::{NO_INT, NO_TEXT};
use encoding::{differences, distinct, pack, run, runs, width};
use std::borrow::Cow;
use std::ops::Range;
use thrift::{Fields, Type, structure, text, zigzag};

/// Rows in a group. Readers may read groups in parallel.
const ROWS_IN_GROUP: usize = 1 << 18;
const MAGIC: &[u8] = b"PAR1";

/// A column with its name.
#[derive(Clone, Copy, Debug)]
pub struct Column<'a> {
    /// Name of the column.
    pub name: &'a str,
    /// Whether it may have nulls. If not, -1 and NaN are numbers like others, and text is never missing.
    pub nullable: bool,
    /// Its values.
    pub values: Values<'a>,
}

/// The values of a column, or none for a column of nulls.
#[derive(Clone, Copy, Debug)]
pub enum Values<'a> {
    /// Integers. [`NO_INT`] is null.
    Int(Option<&'a [i64]>),
    /// Flags: 0 and 1. [`NO_INT`] is null.
    Flag(Option<&'a [i64]>),
    /// Floats. NaN is null.
    Float(Option<&'a [f64]>),
    /// Indices into a list of texts. [`NO_TEXT`] is null.
    Text(Option<(&'a [u32], &'a [&'a str])>),
}

impl Values<'_> {
    fn len(&self) -> Option<usize> {
        match self {
            Values::Int(values) | Values::Flag(values) => values.map(<[_]>::len),
            Values::Float(values) => values.map(<[_]>::len),
            Values::Text(values) => values.map(|(codes, _)| codes.len()),
        }
    }

    /// The number of the type in the format.
    fn physical_type(&self) -> i32 {
        match self {
            Values::Flag(_) => 0,
            Values::Int(_) => 2,
            Values::Float(_) => 5,
            Values::Text(_) => 6,
        }
    }
}

/// The content of a Parquet file with these columns.
///
/// # Errors
///
/// Columns have different lengths, or a code has no text. The error says which.
pub fn file(columns: &[Column<'_>]) -> Result<Vec<u8>, String> {
    let rows = columns.iter().find_map(|column| column.values.len()).unwrap_or(0);
    for column in columns {
        check(column, rows).map_err(|what| format!("`{}`: {what}", column.name))?;
    }
    let mut out = MAGIC.to_vec();
    let (mut pages, mut groups) = (Pages::default(), Vec::new());
    for begin in (0..rows).step_by(ROWS_IN_GROUP) {
        let range = begin..rows.min(begin + ROWS_IN_GROUP);
        let chunk = |column| {
            let encoding = pages.fill(column, range.clone());
            Chunk::write(&mut out, &pages, encoding, range.len())
        };
        let chunks: Vec<_> = columns.iter().map(chunk).collect();
        groups.push((range.len(), chunks));
    }
    let begin = out.len();
    structure(&mut out, |footer| describe(footer, columns, &groups));
    let length = (out.len() - begin) as u32;
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(MAGIC);
    Ok(out)
}

fn check(column: &Column<'_>, rows: usize) -> Result<(), String> {
    match column.values.len() {
        Some(length) if length != rows => return Err(format!("{length} values in {rows} rows")),
        None if !column.nullable && rows > 0 => return Err("no values".to_owned()),
        _ => {}
    }
    if let Values::Text(Some((codes, texts))) = column.values {
        let allowed =
            |code: u32| (code as usize) < texts.len() || column.nullable && code == NO_TEXT;
        if let Some(code) = codes.iter().find(|code| !allowed(**code)) {
            return Err(format!("code {code} of text; there are {} texts", texts.len()));
        }
    }
    Ok(())
}

/// An encoding of values, with its number in the format.
#[derive(Clone, Copy)]
enum Encoding {
    Plain = 0,
    Runs = 3,
    Differences = 5,
    Dictionary = 8,
}

/// The pages of a column in a group of rows. The next column uses their memory again.
#[derive(Default)]
struct Pages {
    /// Number of distinct values, if `values` has indices of them.
    distinct: Option<usize>,
    /// The distinct values.
    dictionary: Vec<u8>,
    /// Which rows have a value, and the values.
    values: Vec<u8>,
}

impl Pages {
    /// Encodes a column.
    fn fill(&mut self, column: &Column<'_>, rows: Range<usize>) -> Encoding {
        self.distinct = None;
        self.dictionary.clear();
        self.values.clear();
        let nullable = column.nullable;
        match column.values {
            Values::Int(Some(values)) => {
                let present = self.present(&values[rows], nullable, |value| value == NO_INT);
                self.integers(&present)
            }
            Values::Flag(Some(values)) => {
                let present = self.present(&values[rows], nullable, |value| value == NO_INT);
                let flags: Vec<_> = present.iter().map(|value| *value != 0).collect();
                pack(&mut self.values, &flags, 1);
                Encoding::Plain
            }
            Values::Float(Some(values)) => {
                let present = self.present(&values[rows], nullable, f64::is_nan);
                self.floats(&present)
            }
            Values::Text(Some((codes, texts))) => {
                let present = self.present(&codes[rows], nullable, |code| code == NO_TEXT);
                self.texts(&present, texts)
            }
            Values::Int(None) | Values::Flag(None) | Values::Float(None) | Values::Text(None) => {
                self.levels(|out| run(out, false, rows.len(), 1));
                Encoding::Plain
            }
        }
    }

    /// Writes which rows have a value. Returns the values.
    fn present<'a, T: Copy + Default>(
        &mut self,
        values: &'a [T],
        nullable: bool,
        is_null: impl Fn(T) -> bool,
    ) -> Cow<'a, [T]> {
        let rows = values.len();
        // Compared without an early end, several at once.
        if !nullable || !values.iter().fold(false, |any, value| any | is_null(*value)) {
            self.levels(|out| run(out, true, rows, 1));
            return Cow::Borrowed(values);
        }
        let has_value: Vec<_> = values.iter().map(|value| !is_null(*value)).collect();
        self.levels(|out| runs(out, &has_value, 1));
        // Each value is put in place, and stays if the next one goes elsewhere: no branch depends on it.
        let (mut present, mut count) = (vec![T::default(); rows], 0);
        for (value, has_value) in values.iter().zip(&has_value) {
            present[count] = *value;
            count += usize::from(*has_value);
        }
        present.truncate(count);
        Cow::Owned(present)
    }

    /// Begins the page of values.
    fn levels(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.values.extend_from_slice(&[0; 4]);
        write(&mut self.values);
        let length = (self.values.len() - 4) as u32;
        self.values[..4].copy_from_slice(&length.to_le_bytes());
    }

    fn integers(&mut self, values: &[i64]) -> Encoding {
        let changes = values.windows(2).filter(|pair| pair[0] != pair[1]).count();
        let long_runs = 4 * changes < values.len();
        let bits = values.iter().map(|value| *value as u64);
        if long_runs {
            if let Some((list, indices)) = distinct(bits, changes + 1) {
                return self.numbers(&list, &indices);
            }
        }
        differences(&mut self.values, values);
        Encoding::Differences
    }

    fn floats(&mut self, values: &[f64]) -> Encoding {
        let bits = values.iter().map(|value| value.to_bits());
        if let Some((list, indices)) = distinct(bits.clone(), values.len() / 2) {
            return self.numbers(&list, &indices);
        }
        self.values.extend(bits.flat_map(u64::to_le_bytes));
        Encoding::Plain
    }

    fn texts(&mut self, codes: &[u32], texts: &[&str]) -> Encoding {
        let mut index_of = vec![None; texts.len()];
        let mut used = 0;
        let index = |code: &u32| {
            *index_of[*code as usize].get_or_insert_with(|| {
                let text = texts[*code as usize];
                self.dictionary.extend_from_slice(&(text.len() as u32).to_le_bytes());
                self.dictionary.extend_from_slice(text.as_bytes());
                used += 1;
                used - 1
            })
        };
        let indices: Vec<u32> = codes.iter().map(index).collect();
        self.indices(used as usize, &indices)
    }

    fn numbers(&mut self, list: &[u64], indices: &[u32]) -> Encoding {
        self.dictionary.extend(list.iter().flat_map(|value| value.to_le_bytes()));
        self.indices(list.len(), indices)
    }

    /// Writes values as indices of distinct ones.
    fn indices(&mut self, distinct: usize, indices: &[u32]) -> Encoding {
        let width = width(distinct.saturating_sub(1) as u64);
        self.values.push(width as u8);
        runs(&mut self.values, indices, width);
        self.distinct = Some(distinct);
        Encoding::Dictionary
    }
}

/// Where the pages of a column are in the file.
struct Chunk {
    begin: usize,
    /// Where the page of values begins. A dictionary comes before it.
    values: usize,
    end: usize,
    encoding: Encoding,
}

impl Chunk {
    fn write(out: &mut Vec<u8>, pages: &Pages, encoding: Encoding, rows: usize) -> Self {
        let begin = out.len();
        if let Some(count) = pages.distinct {
            page(out, 2, &pages.dictionary, |page| {
                page.structure(7, |header| {
                    header.i32(1, count as i32);
                    header.i32(2, Encoding::Plain as i32);
                });
            });
        }
        let values = out.len();
        page(out, 0, &pages.values, |page| {
            page.structure(5, |header| {
                header.i32(1, rows as i32);
                header.i32(2, encoding as i32);
                header.i32(3, Encoding::Runs as i32);
                header.i32(4, Encoding::Runs as i32);
            });
        });
        Chunk { begin, values, end: out.len(), encoding }
    }
}

/// Appends a page of a type with its header. `header` writes the part of the header for this type.
fn page(out: &mut Vec<u8>, kind: i32, content: &[u8], header: impl FnOnce(&mut Fields<'_>)) {
    structure(out, |page| {
        page.i32(1, kind);
        page.i32(2, content.len() as i32);
        page.i32(3, content.len() as i32);
        header(page);
    });
    out.extend_from_slice(content);
}

/// Describes the file: its columns, and where the chunks of each group of rows are.
fn describe(file: &mut Fields<'_>, columns: &[Column<'_>], groups: &[(usize, Vec<Chunk>)]) {
    file.i32(1, 1);
    let elements = std::iter::once(None).chain(columns.iter().map(Some));
    let elements: Vec<_> = elements.collect();
    file.list(2, Type::Struct, elements.into_iter(), |out, element| {
        structure(out, |about| match element {
            None => {
                about.text(4, "schema");
                about.i32(5, columns.len() as i32);
            }
            Some(column) => describe_column(about, column),
        });
    });
    file.i64(3, groups.iter().map(|(rows, _)| *rows as i64).sum());
    file.list(4, Type::Struct, groups.iter(), |out, (rows, chunks)| {
        structure(out, |group| describe_group(group, columns, *rows, chunks));
    });
    file.text(6, "rtclab");
}

fn describe_column(about: &mut Fields<'_>, column: &Column<'_>) {
    const OPTIONAL: i32 = 1;
    const UTF8: i32 = 0;
    about.i32(1, column.values.physical_type());
    about.i32(3, OPTIONAL);
    about.text(4, column.name);
    if let Values::Text(_) = column.values {
        about.i32(6, UTF8);
        about.structure(10, |logical| logical.structure(1, |_string| {}));
    }
}

fn describe_group(group: &mut Fields<'_>, columns: &[Column<'_>], rows: usize, chunks: &[Chunk]) {
    let size = |chunk: &Chunk| (chunk.end - chunk.begin) as i64;
    group.list(1, Type::Struct, columns.iter().zip(chunks), |out, (column, chunk)| {
        structure(out, |about| {
            about.i64(2, chunk.begin as i64);
            about.structure(3, |about| {
                about.i32(1, column.values.physical_type());
                let encodings = [Encoding::Plain, Encoding::Runs, chunk.encoding];
                about.list(2, Type::I32, encodings.into_iter(), |out, encoding| {
                    zigzag(out, encoding as i64);
                });
                about.list(3, Type::Binary, [column.name].into_iter(), text);
                about.i32(4, 0);
                about.i64(5, rows as i64);
                about.i64(6, size(chunk));
                about.i64(7, size(chunk));
                about.i64(9, chunk.values as i64);
                if chunk.begin < chunk.values {
                    about.i64(11, chunk.begin as i64);
                }
            });
        });
    });
    group.i64(2, chunks.iter().map(size).sum());
    group.i64(3, rows as i64);
}

#[cfg(test)]
mod tests;
