//! Errors of parsing and writing.

use std::error::Error;
use std::fmt;

/// Why bytes cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// The bytes end too early.
    Truncated {
        /// Name of the field.
        field: &'static str,
        /// Offset of the field, in bytes from the start of the parser's input.
        offset: usize,
        /// Number of bytes that the field needs.
        needed: usize,
        /// Number of bytes left at the offset.
        got: usize,
    },
    /// A field has a value that the format forbids.
    Invalid {
        /// Name of the field.
        field: &'static str,
        /// Offset of the field, in bytes from the start of the parser's input.
        offset: usize,
        /// Description of valid values.
        expected: &'static str,
        /// Value found.
        got: u64,
    },
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParseError::Truncated { field, offset, needed, got } => {
                write!(f, "{field} at byte {offset}: {got} bytes left; expected {needed}")
            }
            ParseError::Invalid { field, offset, expected, got } => {
                write!(f, "{field} at byte {offset}: got {got}; expected {expected}")
            }
        }
    }
}

impl Error for ParseError {}

/// Why a value does not fit its wire format. Nothing has been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteError {
    /// Name of the field that does not fit.
    pub field: &'static str,
    /// Maximum that fits.
    pub limit: usize,
    /// Value given.
    pub got: usize,
}

impl WriteError {
    /// Returns an error if `got` exceeds `limit`.
    pub(super) fn check(field: &'static str, got: usize, limit: usize) -> Result<(), WriteError> {
        if got <= limit { Ok(()) } else { Err(WriteError { field, limit, got }) }
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: got {}; expected at most {}", self.field, self.got, self.limit)
    }
}

impl Error for WriteError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_where_and_what_was_expected() {
        let truncated = ParseError::Truncated { field: "ssrc", offset: 8, needed: 4, got: 1 };
        assert_eq!(truncated.to_string(), "ssrc at byte 8: 1 bytes left; expected 4");
        let invalid =
            ParseError::Invalid { field: "RTP version", offset: 0, expected: "2", got: 1 };
        assert_eq!(invalid.to_string(), "RTP version at byte 0: got 1; expected 2");
        let too_many = WriteError::check("report blocks", 32, 31).unwrap_err();
        assert_eq!(too_many.to_string(), "report blocks: got 32; expected at most 31");
        assert_eq!(WriteError::check("report blocks", 31, 31), Ok(()));
    }
}
