//! Goodbye: sources leave.
//!
//! Source: RFC 3550, section 6.6.

use super::MAX_COUNT;
use crate::rtp::cursor::Cursor;
use crate::rtp::{ParseError, WriteError};

/// Goodbye (BYE): sources leave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Goodbye {
    /// SSRCs of the leaving sources, at most 31.
    pub ssrcs: Vec<u32>,
    /// Reason for leaving, at most 255 bytes. If it is not UTF-8, every byte that is not ASCII becomes `?`.
    pub reason: Option<String>,
}

impl Goodbye {
    pub(super) fn parse(count: u8, mut body: Cursor<'_>) -> Result<Self, ParseError> {
        let ssrcs = (0..count).map(|_| body.u32("BYE SSRC")).collect::<Result<_, _>>()?;
        let mut reason = None;
        if !body.is_empty() {
            let len = body.u8("BYE reason length")?;
            let text = body.take(usize::from(len), "BYE reason")?;
            reason = Some(super::text(text));
        }
        Ok(Goodbye { ssrcs, reason })
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) -> Result<(), WriteError> {
        WriteError::check("BYE sources", self.ssrcs.len(), MAX_COUNT)?;
        self.ssrcs.iter().for_each(|ssrc| out.extend_from_slice(&ssrc.to_be_bytes()));
        if let Some(reason) = &self.reason {
            WriteError::check("bytes of BYE reason", reason.len(), usize::from(u8::MAX))?;
            out.push(reason.len() as u8);
            out.extend_from_slice(reason.as_bytes());
            let len = reason.len() + 1;
            out.resize(out.len() + len.next_multiple_of(4) - len, 0);
        }
        Ok(())
    }
}
