//! Chromium's RTC event log (`--webrtc-event-logging`): what one connection of a browser did and decided.
//!
//! A log is a sequence of messages, each with one event or a batch of events of one kind. [`EventLog::read`]
//! turns them into one table per kind, in order of time. The schema comes with no promise from its authors,
//! so whatever is not understood is skipped and counted in [`Faults`]. A log that ends in the middle gives
//! what it holds.
//!
//! Only the format that Chromium has written by default since 2019 ("version 2", whose first event is the
//! beginning of the log) is read.
//!
//! Source: libwebrtc, logging/rtc_event_log/ (August 2026), compared with logs of Chromium 156.

mod batch;
mod blobs;
mod delta;
mod rtcp;
mod schema;
#[cfg(test)]
mod tests;
mod wire;

use crate::table::{Cell, Column, Table, Text, Texts};
use batch::{Budget, Columns};
use schema::{Field, Form, KINDS};
use std::error::Error;
use std::fmt;
use wire::{Fields, Value, varint};

/// No value, in the integer columns of a log. Its fields may be negative, so this is not
/// [`NO_INT`](crate::table::NO_INT).
pub const NO_VALUE: i64 = i64::MIN;

/// Events that any log may have, in addition to [`EVENTS_PER_BYTE`]. Chromium keeps up to 10,000 events from
/// before the log began, and writes after 10,000 events.
const EVENTS: usize = 20_000;
/// Events per byte of the log that are read at most. A packet takes some 13 bytes, 10 ms of played audio
/// less than one.
const EVENTS_PER_BYTE: usize = 4;

/// The content of a log.
#[derive(Clone, Debug, PartialEq)]
pub struct EventLog {
    /// One table per kind of event, and the tables of RTCP. Times are `at_ms`: CLOCK_MONOTONIC of the
    /// browser's machine in milliseconds, rounded down.
    pub tables: Vec<Table>,
    /// The texts of text columns.
    pub texts: Vec<String>,
    /// What could not be read.
    pub faults: Faults,
}

/// What could not be read of a log. All are 0 if everything was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Bytes at the end that are no complete message, because the log was cut off.
    pub truncated_bytes: u64,
    /// Messages with a damaged column or field, which are left out.
    pub damaged_messages: u64,
    /// Messages that claim more events than a log of this size can have, which are left out.
    pub refused_messages: u64,
    /// Messages of an unknown kind.
    pub unknown_messages: u64,
    /// Fields that this reader does not know.
    pub unknown_fields: u64,
    /// Values of enumerations that this reader does not know.
    pub unknown_values: u64,
    /// RTCP packets whose content is invalid.
    pub invalid_rtcp: u64,
}

impl Faults {
    /// Name and number of each fault.
    #[must_use]
    pub fn counts(&self) -> [(&'static str, u64); 7] {
        [
            ("bytes of an incomplete message at the end", self.truncated_bytes),
            ("damaged messages", self.damaged_messages),
            ("messages with more events than the log has room for", self.refused_messages),
            ("messages of an unknown kind", self.unknown_messages),
            ("unknown fields", self.unknown_fields),
            ("unknown values", self.unknown_values),
            ("invalid RTCP packets", self.invalid_rtcp),
        ]
    }
}

/// Why a file is not a log that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventLogError {
    /// The file is empty.
    Empty,
    /// The format that libwebrtc wrote until 2019, "version 1".
    Legacy,
    /// The format "version 3".
    Version3,
    /// Something else.
    NotALog,
}

impl fmt::Display for EventLogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EventLogError::Empty => "an empty file; expected an RTC event log",
            EventLogError::Legacy => {
                "an RTC event log of the legacy format (version 1); expected version 2"
            }
            EventLogError::Version3 => "an RTC event log of version 3; expected version 2",
            EventLogError::NotALog => "not an RTC event log",
        })
    }
}

impl Error for EventLogError {}

/// Tag of the beginning of the log: field 16, a message.
const BEGINNING: [u8; 2] = [0x82, 0x01];
/// Tag of a legacy event: field 1, a message.
const LEGACY: u8 = 0x0A;
/// First number of a log of version 3, without its lowest bit.
const VERSION_3: u64 = 0x250_1580;

impl EventLog {
    /// Reads a log.
    ///
    /// # Errors
    ///
    /// [`EventLogError`] if `file` does not begin as a log of this format does.
    pub fn read(file: &[u8]) -> Result<EventLog, EventLogError> {
        check_beginning(file)?;
        let mut faults = Faults::default();
        let mut budget = Budget(EVENTS + EVENTS_PER_BYTE * file.len());
        let mut columns: Vec<Columns<'_>> = KINDS.iter().map(|_| Columns::default()).collect();
        let mut fields = Fields::new(file);
        for field in fields.by_ref() {
            let place = KINDS.iter().position(|kind| kind.number == field.number);
            let (Some(place), Value::Bytes(message)) = (place, field.value) else {
                faults.unknown_messages += 1;
                continue;
            };
            batch::read(&KINDS[place], message, &mut columns[place], &mut budget, &mut faults);
        }
        faults.truncated_bytes = fields.rest.len() as u64;
        Ok(finish(columns, &mut budget, faults))
    }
}

fn check_beginning(file: &[u8]) -> Result<(), EventLogError> {
    match file {
        [] => Err(EventLogError::Empty),
        [LEGACY, ..] => Err(EventLogError::Legacy),
        [first, second, ..] if [*first, *second] == BEGINNING => Ok(()),
        _ if varint(&mut &file[..]).is_some_and(|number| number >> 1 == VERSION_3) => {
            Err(EventLogError::Version3)
        }
        _ => Err(EventLogError::NotALog),
    }
}

/// The tables in order of time, with the tables of RTCP.
fn finish(columns: Vec<Columns<'_>>, budget: &mut Budget, mut faults: Faults) -> EventLog {
    let mut texts = Texts::default();
    let mut tables = Vec::new();
    let mut datagrams = Vec::new();
    for (kind, mut of_kind) in KINDS.iter().zip(columns) {
        sort(&mut of_kind);
        if kind.name == schema::INCOMING_RTCP || kind.name == schema::OUTGOING_RTCP {
            let sent = kind.name == schema::OUTGOING_RTCP;
            let times = of_kind.integers.first().into_iter().flatten();
            datagrams.extend(times.zip(&of_kind.blobs).map(|(at, bytes)| rtcp::LoggedRtcp {
                at_ms: *at,
                sent,
                bytes,
            }));
            continue;
        }
        let mut integers = of_kind.integers.into_iter();
        let columns = leaves(kind.fields)
            .into_iter()
            .map(|field| {
                let values = integers.next().unwrap_or_default();
                (field.name, column(field, values, &mut texts, &mut faults.unknown_values))
            })
            .collect();
        tables.push(Table { name: kind.name, columns });
    }
    datagrams.sort_by_key(|datagram| datagram.at_ms);
    tables.extend(rtcp::tables(&datagrams, budget, &mut texts, &mut faults));
    EventLog { tables, texts: texts.list, faults }
}

/// The fields that have a column, in order.
fn leaves(fields: &'static [Field]) -> Vec<&'static Field> {
    let of = |field: &'static Field| match field.form {
        Form::Message(inner) => leaves(inner),
        Form::Blob | Form::Skipped => Vec::new(),
        _ => vec![field],
    };
    fields.iter().flat_map(of).collect()
}

fn column(field: &Field, values: Vec<i64>, texts: &mut Texts, unknown_values: &mut u64) -> Column {
    let Form::Choice(names) = field.form else { return Column::Int(values) };
    let code = |name: &&str| (!name.is_empty()).then(|| texts.code(name));
    let codes: Vec<Option<Text>> = names.iter().map(code).collect();
    let chosen = batch::chosen(&values, &codes, unknown_values);
    Column::Text(chosen.into_iter().map(Cell::store).collect())
}

/// Sorts events by time. Events of the same time keep their order in the log.
fn sort(columns: &mut Columns<'_>) {
    let Some(times) = columns.integers.first() else { return };
    if times.is_sorted() {
        return;
    }
    let mut order: Vec<usize> = (0..times.len()).collect();
    order.sort_by_key(|row| times[*row]);
    for values in &mut columns.integers {
        *values = order.iter().map(|row| values[*row]).collect();
    }
    if !columns.blobs.is_empty() {
        columns.blobs = order.iter().map(|row| columns.blobs[*row]).collect();
    }
}
