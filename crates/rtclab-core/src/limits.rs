//! What configurations may contain: fields that break a rule are refused by name before a run.
//!
//! Configurations come as JSON, from Python after its own checks or from anywhere else.

use crate::units::{Bitrate, Bytes, Time};
use std::fmt;

/// Latest time and longest duration, 31 years: eighteen of them add up in 64 bits of nanoseconds.
const LATEST: Time = Time(1_000_000_000_000_000_000);
/// Highest rate, 1 Pbit/s, beyond all networks; many of them add up in 64 bits.
const FASTEST: Bitrate = Bitrate(1_000_000_000_000_000);
/// Largest size, 1 PB.
const LARGEST: Bytes = Bytes(1_000_000_000_000_000);

/// A field of a configuration that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Its path, with dots.
    pub field: String,
    /// Its value, and what was expected.
    pub problem: String,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.problem)
    }
}
impl std::error::Error for FieldError {}

/// Result of a check.
pub(crate) type Checked = Result<(), FieldError>;

/// Fails with a value and what was expected of it, unless the rule holds.
pub(crate) fn require(
    holds: bool,
    field: &str,
    value: impl fmt::Display,
    expected: impl fmt::Display,
) -> Checked {
    match holds {
        true => Ok(()),
        false => Err(FieldError {
            field: field.to_owned(),
            problem: format!("{value} is not possible; expected {expected}"),
        }),
    }
}

/// Puts a table's name before the fields of a check.
pub(crate) fn within(table: &str, checked: Checked) -> Checked {
    checked.map_err(|error| FieldError { field: format!("{table}.{}", error.field), ..error })
}

/// A time or duration that sums can hold.
pub(crate) fn time(field: &str, time: Time) -> Checked {
    require(
        time <= LATEST,
        field,
        format_args!("{} ns", time.0),
        format_args!("at most {} ns", LATEST.0),
    )
}

/// A duration that sums can hold, above zero.
pub(crate) fn duration(field: &str, duration: Time) -> Checked {
    require(duration > Time::ZERO, field, "0 ns", "a positive duration")?;
    time(field, duration)
}

/// A rate that sums can hold.
pub(crate) fn rate(field: &str, rate: Bitrate) -> Checked {
    let (value, most) = (rate.0, FASTEST.0);
    require(
        rate <= FASTEST,
        field,
        format_args!("{value} bit/s"),
        format_args!("at most {most} bit/s"),
    )
}

/// A size that sums can hold.
pub(crate) fn size(field: &str, size: Bytes) -> Checked {
    let (value, most) = (size.0, LARGEST.0);
    require(size <= LARGEST, field, format_args!("{value} B"), format_args!("at most {most} B"))
}

/// A finite number in a range.
pub(crate) fn number(field: &str, value: f64, (min, max): (f64, f64)) -> Checked {
    require((min..=max).contains(&value), field, value, format_args!("{min} to {max}"))
}

/// At least one time, all of them later than the one before.
pub(crate) fn increasing(field: &str, times: impl IntoIterator<Item = Time>) -> Checked {
    let mut last = None;
    for at in times {
        time(field, at)?;
        let is_later = last.is_none_or(|last: Time| last < at);
        let before = last.unwrap_or_default().0;
        let (value, expected) = (format!("{} ns after {before} ns", at.0), "increasing times");
        require(is_later, field, value, expected)?;
        last = Some(at);
    }
    require(last.is_some(), field, "an empty list", "at least one step")
}
