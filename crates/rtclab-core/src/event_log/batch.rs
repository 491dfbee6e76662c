//! Messages of the log, each with one event or a batch of them, turned into columns.

use super::blobs::blobs;
use super::delta;
use super::schema::{EventKind, Field, Form};
use super::wire::{Fields, Value};
use super::{Faults, NO_VALUE};
use crate::table::Text;

/// The columns of one kind of event, in the order of its fields, and the byte strings of its events.
#[derive(Debug, Default)]
pub(super) struct Columns<'a> {
    pub(super) integers: Vec<Vec<i64>>,
    pub(super) blobs: Vec<&'a [u8]>,
}

impl Columns<'_> {
    fn append(&mut self, mut other: Self) {
        if self.integers.is_empty() {
            self.integers.resize_with(other.integers.len(), Vec::new);
        }
        for (all, new) in self.integers.iter_mut().zip(&mut other.integers) {
            all.append(new);
        }
        self.blobs.append(&mut other.blobs);
    }
}

/// How many more events may be read. Columns in which nothing changes take no bytes, so that a few bytes
/// could claim billions of events.
#[derive(Debug)]
pub(super) struct Budget(pub(super) usize);

impl Budget {
    /// Takes `count` events; false if fewer are left.
    pub(super) fn take(&mut self, count: usize) -> bool {
        self.0.checked_sub(count).map(|left| self.0 = left).is_some()
    }
}

/// Reads a message and appends its events to `columns`. Damaged messages, messages that claim too many
/// events, and fields without a meaning are counted and left out.
pub(super) fn read<'a>(
    kind: &EventKind,
    message: &'a [u8],
    columns: &mut Columns<'a>,
    budget: &mut Budget,
    faults: &mut Faults,
) {
    let further = Fields::new(message)
        .filter(|field| kind.count > 0 && field.number == kind.count)
        .filter_map(|field| field.value.integer())
        .last()
        .unwrap_or(0);
    let events = usize::try_from(further).unwrap_or(usize::MAX).saturating_add(1);
    if !budget.take(events) {
        faults.refused_messages += 1;
        return;
    }
    let mut batch = Columns::default();
    let mut unknown_fields = 0;
    let known = BatchSize { further: events - 1, count_field: kind.count };
    match known.fields(kind.fields, message, &mut batch, &mut unknown_fields) {
        Some(()) => {
            columns.append(batch);
            faults.unknown_fields += unknown_fields;
        }
        None => faults.damaged_messages += 1,
    }
}

/// The size of a batch.
struct BatchSize {
    /// Number of events after the first.
    further: usize,
    /// Field that gives this number.
    count_field: u32,
}

impl BatchSize {
    fn fields<'a>(
        &self,
        fields: &[Field],
        message: &'a [u8],
        out: &mut Columns<'a>,
        unknown_fields: &mut u64,
    ) -> Option<()> {
        let mut found: Vec<[Option<Value<'a>>; 2]> = vec![[None; 2]; fields.len()];
        let mut read = Fields::new(message);
        for given in read.by_ref() {
            let place = fields.iter().position(|field| field.number == given.number);
            let column = fields.iter().position(|field| field.column == given.number);
            match (place, column) {
                (Some(place), _) => found[place][0] = Some(given.value),
                (None, Some(place)) => found[place][1] = Some(given.value),
                (None, None) => *unknown_fields += u64::from(given.number != self.count_field),
            }
        }
        if !read.rest.is_empty() {
            return None;
        }
        for (field, [first, column]) in fields.iter().zip(found) {
            let column = match column {
                Some(Value::Bytes(bytes)) => Some(bytes),
                Some(_) => return None,
                None => None,
            };
            match &field.form {
                Form::Skipped => {}
                Form::Message(fields) => self.message(fields, first, out, unknown_fields)?,
                Form::Blob => {
                    out.blobs.push(bytes(first)?);
                    match column {
                        Some(column) => out.blobs.extend(blobs(column, self.further)?),
                        None if self.further > 0 => return None,
                        None => {}
                    }
                }
                form => {
                    let first = first.map(|value| value.integer().ok_or(())).transpose().ok()?;
                    let base = first.map(|value| to_column(form, value));
                    let rest = delta::values(column, base, self.further).ok()?;
                    let values = std::iter::once(base).chain(rest);
                    out.integers.push(
                        values.map(|v| v.map_or(NO_VALUE, |v| from_column(form, v))).collect(),
                    );
                }
            }
        }
        Some(())
    }

    fn message<'a>(
        &self,
        fields: &[Field],
        value: Option<Value<'a>>,
        out: &mut Columns<'a>,
        unknown_fields: &mut u64,
    ) -> Option<()> {
        let message = value.map_or(Some(&[][..]), |value| bytes(Some(value)))?;
        self.fields(fields, message, out, unknown_fields)
    }
}

/// Byte strings; a message that leaves one out means an empty one.
fn bytes(value: Option<Value<'_>>) -> Option<&[u8]> {
    match value {
        Some(Value::Bytes(bytes)) => Some(bytes),
        Some(_) => None,
        None => Some(&[]),
    }
}

/// The number with which columns calculate.
pub(super) fn to_column(form: &Form, value: u64) -> u64 {
    match form {
        Form::Signed32 => u64::from(value as u32),
        Form::LessOne => value.wrapping_sub(1),
        _ => value,
    }
}

/// The value of a number in a column.
fn from_column(form: &Form, value: u64) -> i64 {
    match form {
        Form::Signed32 => i64::from(value as i32),
        Form::LessOne => value.wrapping_add(1) as i64,
        _ => value as i64,
    }
}

/// The codes of the texts of a choice, from its numbers; null where a number means nothing.
pub(super) fn chosen(
    numbers: &[i64],
    codes: &[Option<Text>],
    unknown_values: &mut u64,
) -> Vec<Option<Text>> {
    let of = |number: &i64| match usize::try_from(*number).ok().and_then(|at| codes.get(at)) {
        Some(code) => *code,
        None => {
            *unknown_values += u64::from(*number != NO_VALUE);
            None
        }
    };
    numbers.iter().map(of).collect()
}
