//! Extended reports, with which an end that sends nothing measures the round trip.
//!
//! Source: RFC 3611, sections 2, 4.4 and 4.5.

use super::NtpTime;
use crate::rtp::cursor::Cursor;
use crate::rtp::{ParseError, WriteError};
use crate::units::Time;

/// Types of report blocks.
const REFERENCE_TIME: u8 = 4;
const DELAYS: u8 = 5;
/// Length of a block of a reference time, and of the delay of one receiver, in words.
const REFERENCE_WORDS: usize = 2;
const DELAY_WORDS: usize = 3;
/// Most receivers in a block of delays: its length has 16 bits.
const MAX_DELAYS: usize = u16::MAX as usize / DELAY_WORDS;
/// Size of the header of a report block.
const BLOCK_HEADER_BYTES: usize = 4;

/// Extended report (XR). Blocks of other types than these two are skipped when it is parsed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtendedReport {
    /// SSRC of the reporting participant.
    pub ssrc: u32,
    /// When a receiver sent the report (RRTR).
    pub reference_time: Option<NtpTime>,
    /// Answers of a sender to reports of receivers (DLRR).
    pub delays: Vec<ReferenceDelay>,
}

/// How long ago a sender received a receiver's reference time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReferenceDelay {
    /// SSRC of the receiver.
    pub ssrc: u32,
    /// [`NtpTime::middle`] of its last reference time.
    pub last_reference: u32,
    /// Time since that arrived, in 1/65536 s.
    pub delay: u32,
}

impl ReferenceDelay {
    /// Round-trip time, computed by the receiver when this arrives at `now`. Zero if rounding makes it negative.
    pub fn round_trip(&self, now: NtpTime) -> Time {
        let units = now.middle().wrapping_sub(self.last_reference.wrapping_add(self.delay));
        let units = if units > u32::MAX / 2 { 0 } else { units };
        Time(u64::from(units) * 1_000_000_000 / 65_536)
    }
}

impl ExtendedReport {
    pub(super) fn parse(mut body: Cursor<'_>) -> Result<Self, ParseError> {
        let mut report =
            ExtendedReport { ssrc: body.u32("extended report SSRC")?, ..Default::default() };
        while !body.is_empty() {
            let [block_type, _] = body.array("report block type")?;
            let words = usize::from(body.u16("report block length")?);
            let mut block = body.sub(4 * words, "report block")?;
            match (block_type, words) {
                (REFERENCE_TIME, REFERENCE_WORDS) => {
                    report.reference_time = Some(NtpTime(block.u64("reference time")?));
                }
                (DELAYS, _) => {
                    for _ in 0..words / DELAY_WORDS {
                        report.delays.push(ReferenceDelay {
                            ssrc: block.u32("receiver SSRC")?,
                            last_reference: block.u32("last reference time")?,
                            delay: block.u32("delay since last reference time")?,
                        });
                    }
                }
                _ => {}
            }
        }
        Ok(report)
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) -> Result<(), WriteError> {
        WriteError::check("receivers with a delay", self.delays.len(), MAX_DELAYS)?;
        out.extend_from_slice(&self.ssrc.to_be_bytes());
        let block = |out: &mut Vec<u8>, block_type: u8, words: usize| {
            out.extend_from_slice(&[block_type, 0]);
            out.extend_from_slice(&(words as u16).to_be_bytes());
        };
        if let Some(NtpTime(time)) = self.reference_time {
            block(out, REFERENCE_TIME, REFERENCE_WORDS);
            out.extend_from_slice(&time.to_be_bytes());
        }
        if !self.delays.is_empty() {
            block(out, DELAYS, DELAY_WORDS * self.delays.len());
            for ReferenceDelay { ssrc, last_reference, delay } in &self.delays {
                let words = [ssrc, last_reference, delay];
                words.iter().for_each(|word| out.extend_from_slice(&word.to_be_bytes()));
            }
        }
        Ok(())
    }

    /// Size of the body on the wire. `None` if it cannot be written.
    pub(super) fn wire_bytes(&self) -> Option<usize> {
        let words = |count: usize, each: usize| match count {
            0 => 0,
            count => BLOCK_HEADER_BYTES + 4 * each * count,
        };
        let reference = words(usize::from(self.reference_time.is_some()), REFERENCE_WORDS);
        (self.delays.len() <= MAX_DELAYS)
            .then(|| 4 + reference + words(self.delays.len(), DELAY_WORDS))
    }
}
