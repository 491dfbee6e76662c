//! Sender and receiver reports.
//!
//! Source: RFC 3550, section 6.4.

use super::MAX_COUNT;
use crate::rtp::cursor::Cursor;
use crate::rtp::{ParseError, WriteError};
use crate::units::Time;

/// What a sender has sent up to now, and how it receives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SenderReport {
    /// The reporting stream.
    pub ssrc: u32,
    /// When the report left.
    pub ntp: NtpTime,
    /// The same instant on the stream's media clock.
    pub rtp_timestamp: u32,
    /// Packets sent since the beginning, wrapping.
    pub packet_count: u32,
    /// Bytes of payload sent since the beginning, without headers and padding, wrapping.
    pub octet_count: u32,
    /// One per received stream, at most 31.
    pub blocks: Vec<ReportBlock>,
}

/// How a participant receives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceiverReport {
    /// Who reports.
    pub ssrc: u32,
    /// One per received stream, at most 31.
    pub blocks: Vec<ReportBlock>,
}

/// How one stream is received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReportBlock {
    /// The stream reported on.
    pub ssrc: u32,
    /// Share lost since the previous report, in 1/256.
    pub fraction_lost: u8,
    /// Packets lost since the beginning; negative with duplicates. Written within 24 bits: clamped.
    pub cumulative_lost: i32,
    /// Highest sequence number received, with the count of its wraps in the upper 16 bits.
    pub highest_seq: u32,
    /// Interarrival jitter, in units of the stream's media clock.
    pub jitter: u32,
    /// [`NtpTime::middle`] of the last sender report received; 0 for none.
    pub last_sender_report: u32,
    /// Time since then, in 1/65536 s.
    pub delay_since_last_sender_report: u32,
}

impl ReportBlock {
    /// Bytes on the wire.
    pub const BYTES: usize = 24;

    /// Round-trip time seen by the sender to whom this report comes back at `now`.
    ///
    /// `None` when no sender report had arrived. Zero when the clocks' rounding makes it negative.
    /// Source: RFC 3550, section 6.4.1, DLSR.
    pub fn round_trip(&self, now: NtpTime) -> Option<Time> {
        if self.last_sender_report == 0 {
            return None;
        }
        let held = self.last_sender_report.wrapping_add(self.delay_since_last_sender_report);
        let units = now.middle().wrapping_sub(held);
        let units = if units > u32::MAX / 2 { 0 } else { units };
        Some(Time(u64::from(units) * 1_000_000_000 / 65_536))
    }
}

/// Seconds in the upper 32 bits, fractions of 2^-32 s in the lower. The simulator's begin at zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NtpTime(pub u64);

impl NtpTime {
    /// `time` after the epoch, which is up to the caller; rounded down.
    pub const fn from_time(time: Time) -> Self {
        let (s, ns) = (time.as_nanos() / 1_000_000_000, time.as_nanos() % 1_000_000_000);
        NtpTime((s << 32) | ((ns << 32) / 1_000_000_000))
    }

    /// The middle 32 bits: units of 1/65536 s, wrapping after 18 h.
    pub const fn middle(self) -> u32 {
        (self.0 >> 16) as u32
    }
}

impl SenderReport {
    pub(super) fn parse(count: u8, mut body: Cursor<'_>) -> Result<Self, ParseError> {
        Ok(SenderReport {
            ssrc: body.u32("sender report SSRC")?,
            ntp: NtpTime(body.u64("NTP time")?),
            rtp_timestamp: body.u32("RTP timestamp")?,
            packet_count: body.u32("sender's packet count")?,
            octet_count: body.u32("sender's octet count")?,
            blocks: parse_blocks(count, body)?,
        })
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) -> Result<(), WriteError> {
        out.extend_from_slice(&self.ssrc.to_be_bytes());
        out.extend_from_slice(&self.ntp.0.to_be_bytes());
        out.extend_from_slice(&self.rtp_timestamp.to_be_bytes());
        out.extend_from_slice(&self.packet_count.to_be_bytes());
        out.extend_from_slice(&self.octet_count.to_be_bytes());
        write_blocks(&self.blocks, out)
    }
}

impl ReceiverReport {
    pub(super) fn parse(count: u8, mut body: Cursor<'_>) -> Result<Self, ParseError> {
        let ssrc = body.u32("receiver report SSRC")?;
        Ok(ReceiverReport { ssrc, blocks: parse_blocks(count, body)? })
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) -> Result<(), WriteError> {
        out.extend_from_slice(&self.ssrc.to_be_bytes());
        write_blocks(&self.blocks, out)
    }
}

/// What follows the blocks (profile-specific extensions) is ignored.
fn parse_blocks(count: u8, mut body: Cursor<'_>) -> Result<Vec<ReportBlock>, ParseError> {
    (0..count).map(|_| ReportBlock::parse(&mut body)).collect()
}

fn write_blocks(blocks: &[ReportBlock], out: &mut Vec<u8>) -> Result<(), WriteError> {
    WriteError::check("report blocks", blocks.len(), MAX_COUNT)?;
    blocks.iter().for_each(|block| block.write(out));
    Ok(())
}

impl ReportBlock {
    fn parse(body: &mut Cursor<'_>) -> Result<Self, ParseError> {
        let ssrc = body.u32("report block SSRC")?;
        let lost = body.u32("report block loss")?;
        Ok(ReportBlock {
            ssrc,
            fraction_lost: (lost >> 24) as u8,
            // Shifted up and down again to extend the sign of 24 bits.
            cumulative_lost: (lost << 8) as i32 >> 8,
            highest_seq: body.u32("highest sequence number")?,
            jitter: body.u32("interarrival jitter")?,
            last_sender_report: body.u32("last sender report")?,
            delay_since_last_sender_report: body.u32("delay since last sender report")?,
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        let lost = self.cumulative_lost.clamp(-0x80_0000, 0x7F_FFFF) as u32 & 0xFF_FFFF;
        let words = [
            self.ssrc,
            u32::from(self.fraction_lost) << 24 | lost,
            self.highest_seq,
            self.jitter,
            self.last_sender_report,
            self.delay_since_last_sender_report,
        ];
        words.iter().for_each(|word| out.extend_from_slice(&word.to_be_bytes()));
    }
}
