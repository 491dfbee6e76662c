//! Sender and receiver reports.
//!
//! Source: RFC 3550, section 6.4.

use super::MAX_COUNT;
use crate::rtp::cursor::Cursor;
use crate::rtp::{ParseError, WriteError};
use crate::units::Time;

/// Sender report (SR): what a sender has sent so far, and its reception statistics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SenderReport {
    /// SSRC of the sender's stream.
    pub ssrc: u32,
    /// When the report was sent.
    pub ntp: NtpTime,
    /// The same instant on the stream's media clock.
    pub rtp_timestamp: u32,
    /// Number of packets sent since the beginning; wraps.
    pub packet_count: u32,
    /// Bytes of payload sent since the beginning, without headers and padding; wraps.
    pub octet_count: u32,
    /// Report blocks, one per received stream, at most 31.
    pub blocks: Vec<ReportBlock>,
}

/// Receiver report (RR): reception statistics of a participant that does not send.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceiverReport {
    /// SSRC of the reporting participant.
    pub ssrc: u32,
    /// Report blocks, one per received stream, at most 31.
    pub blocks: Vec<ReportBlock>,
}

/// Report block: reception statistics of one stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReportBlock {
    /// SSRC of the stream reported on.
    pub ssrc: u32,
    /// Fraction of packets lost since the previous report, in 1/256.
    pub fraction_lost: u8,
    /// Number of packets lost since the beginning. Negative if there are duplicates. Clamped to 24 bits when
    /// written.
    pub cumulative_lost: i32,
    /// Highest sequence number received, with the number of wraps in the upper 16 bits.
    pub highest_seq: u32,
    /// Interarrival jitter, in units of the stream's media clock.
    pub jitter: u32,
    /// [`NtpTime::middle`] of the last sender report received, or 0 if there is none.
    pub last_sender_report: u32,
    /// Time since that sender report arrived, in 1/65536 s.
    pub delay_since_last_sender_report: u32,
}

/// Packets between two reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IntervalLoss {
    /// Packets that were lost.
    pub lost: u64,
    /// Packets that were sent.
    pub expected: u64,
}

impl std::ops::AddAssign for IntervalLoss {
    fn add_assign(&mut self, other: IntervalLoss) {
        self.lost += other.lost;
        self.expected += other.expected;
    }
}

impl ReportBlock {
    /// Size on the wire.
    pub const BYTES: usize = 24;

    /// Packets lost and expected since an earlier block about the same stream. Duplicates, which make the cumulative loss
    /// fall, are no negative loss.
    ///
    /// `None` if this block is the older one: it was overtaken on its way, and says nothing new.
    pub fn since(&self, earlier: &ReportBlock) -> Option<IntervalLoss> {
        let expected = self.highest_seq.wrapping_sub(earlier.highest_seq) as i32;
        let lost = self.cumulative_lost.saturating_sub(earlier.cumulative_lost).max(0) as u64;
        u64::try_from(expected).ok().map(|expected| IntervalLoss { lost, expected })
    }

    /// Round-trip time, computed by the sender of the stream when this block arrives at `now`.
    ///
    /// `None` if the reporter had not received a sender report. Zero if rounding makes the time negative.
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

    /// The same from times in whole milliseconds, at least 1 ms. It is up to 1 ms too short or 2 ms too long.
    ///
    /// Source: libwebrtc 4d06db557a (2013), `rtcp_receiver.cc`.
    pub fn round_trip_in_ms(&self, now: NtpTime) -> Option<Time> {
        if self.last_sender_report == 0 {
            return None;
        }
        let ms = |units: u32| (u64::from(units) * 1_000 / 65_536) as i64;
        let sent = ms(self.last_sender_report);
        let rtt = ms(now.middle()) - ms(self.delay_since_last_sender_report) - sent;
        Some(Time::from_millis(rtt.max(1) as u64))
    }
}

/// NTP time: seconds in the upper 32 bits, units of 2^-32 s in the lower. It begins at zero in the simulator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NtpTime(pub u64);

impl NtpTime {
    /// Converts a time since the epoch, rounded down. The caller chooses the epoch.
    pub const fn from_time(time: Time) -> Self {
        let (s, ns) = (time.as_nanos() / 1_000_000_000, time.as_nanos() % 1_000_000_000);
        NtpTime((s << 32) | ((ns << 32) / 1_000_000_000))
    }

    /// The middle 32 bits, in units of 1/65536 s. They wrap after 18 h.
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

/// Parses report blocks. Profile-specific extensions after them are ignored.
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
            // Shifts up and down again to extend the sign of 24 bits.
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
