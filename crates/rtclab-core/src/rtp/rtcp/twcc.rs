//! Transport-wide feedback (TWCC): the arrival of each packet of a transport, over all streams.
//!
//! Source: draft-holmer-rmcat-transport-wide-cc-extensions-01, section 3.1.

use super::twcc_chunk::{Chunk, ChunkWriter, Symbol};
use crate::rtp::cursor::Cursor;
use crate::rtp::{ParseError, WriteError};
use crate::units::Time;

/// Arrivals of consecutive transport-wide sequence numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransportFeedback {
    /// SSRC of the reporting receiver.
    pub sender_ssrc: u32,
    /// SSRC of any stream of the transport.
    pub media_ssrc: u32,
    /// Transport-wide sequence number of the first packet reported on.
    pub base_seq: u16,
    /// Reference time for the first delta, in 64 ms. It has 24 bits and wraps after 12.4 days.
    pub reference_time_64ms: i32,
    /// Number of the report; wraps. It shows the sender when a report was lost.
    pub feedback_count: u8,
    /// One entry per packet, at most 65535. For a packet that arrived, it is the time since the previous
    /// arrival (for the first one, since the reference time), in [ticks](Self::TICK) of 16 bits. `None` if
    /// the packet did not arrive.
    pub statuses: Vec<Option<i32>>,
}

impl TransportFeedback {
    /// Unit of the deltas: 250 us.
    pub const TICK: Time = Time::from_micros(250);
    const REFERENCE: Time = Time::from_millis(64);
    const TICKS_PER_REFERENCE: i64 = 256;
    const MAX_PACKETS: usize = 65_535;

    /// Makes a report on consecutive packets from `base_seq` on. `None` stands for a packet that did not
    /// arrive.
    ///
    /// Returns the report and the number of packets that it covers. The report ends early after 65535
    /// packets, or if the next arrival is more than 8.19 s after or before the previous one. The caller then
    /// begins another report there. If there is a packet, at least one is covered. Rounding errors of ticks
    /// do not accumulate.
    pub fn from_arrivals(
        (sender_ssrc, media_ssrc): (u32, u32),
        feedback_count: u8,
        base_seq: u16,
        arrivals: &[Option<Time>],
    ) -> (TransportFeedback, usize) {
        let first = arrivals.iter().find_map(|arrival| *arrival).unwrap_or(Time::ZERO);
        let reference = first.as_nanos() / Self::REFERENCE.as_nanos();
        let mut previous = reference as i64 * Self::TICKS_PER_REFERENCE;
        let mut delta_of = |arrival: Time| {
            let tick = Self::TICK.as_nanos();
            let now = (arrival.saturating_add(Time(tick / 2)).as_nanos() / tick) as i64;
            let delta = i16::try_from(now - previous).ok()?;
            previous = now;
            Some(i32::from(delta))
        };
        let mut statuses = Vec::with_capacity(arrivals.len().min(Self::MAX_PACKETS));
        statuses.extend(arrivals.iter().take(Self::MAX_PACKETS).map_while(|arrival| {
            arrival.map_or(Some(None), |arrival| delta_of(arrival).map(Some))
        }));
        let covered = statuses.len();
        let reference_time_64ms = sign_extend_24(reference as u32);
        let feedback = TransportFeedback {
            sender_ssrc,
            media_ssrc,
            base_seq,
            reference_time_64ms,
            feedback_count,
            statuses,
        };
        (feedback, covered)
    }

    /// Iterates over the sequence number of each packet and its arrival, in ticks on the receiver's clock.
    ///
    /// This is the clock of the reference time, so it jumps when that wraps.
    pub fn arrivals(&self) -> impl Iterator<Item = (u16, Option<i64>)> + '_ {
        let mut ticks = i64::from(self.reference_time_64ms) * Self::TICKS_PER_REFERENCE;
        let mut seq = self.base_seq;
        self.statuses.iter().map(move |status| {
            let arrival = status.map(|delta| {
                ticks += i64::from(delta);
                ticks
            });
            let packet = (seq, arrival);
            seq = seq.wrapping_add(1);
            packet
        })
    }

    pub(super) fn parse(mut body: Cursor<'_>) -> Result<Self, ParseError> {
        let sender_ssrc = body.u32("TWCC sender SSRC")?;
        let media_ssrc = body.u32("TWCC media SSRC")?;
        let base_seq = body.u16("TWCC base sequence number")?;
        let count = usize::from(body.u16("TWCC packet status count")?);
        let word = body.u32("TWCC reference time")?;
        Ok(TransportFeedback {
            sender_ssrc,
            media_ssrc,
            base_seq,
            reference_time_64ms: sign_extend_24(word >> 8),
            feedback_count: word as u8,
            statuses: parse_statuses(count, body)?,
        })
    }

    /// Size of the body. `None` if it cannot be written.
    pub(super) fn wire_bytes(&self) -> Option<usize> {
        if self.statuses.len() > Self::MAX_PACKETS {
            return None;
        }
        let mut deltas = 0;
        for &status in &self.statuses {
            deltas += match status {
                None => 0,
                Some(0..=255) => 1,
                Some(delta) => i16::try_from(delta).ok().map(|_| 2)?,
            };
        }
        let symbols = self.statuses.iter().map(|&status| symbol_of(status));
        Some(16 + ChunkWriter::wire_bytes(symbols) + deltas)
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) -> Result<(), WriteError> {
        let count = self.statuses.len();
        WriteError::check("TWCC packets", count, Self::MAX_PACKETS)?;
        let reference = (self.reference_time_64ms as u32) << 8;
        out.extend_from_slice(&self.sender_ssrc.to_be_bytes());
        out.extend_from_slice(&self.media_ssrc.to_be_bytes());
        out.extend_from_slice(&self.base_seq.to_be_bytes());
        out.extend_from_slice(&(count as u16).to_be_bytes());
        out.extend_from_slice(&(reference | u32::from(self.feedback_count)).to_be_bytes());
        let mut chunks = ChunkWriter::default();
        self.statuses.iter().for_each(|&status| chunks.push(symbol_of(status), out));
        chunks.finish(out);
        self.statuses.iter().flatten().try_for_each(|&delta| write_delta(delta, out))
    }
}

fn sign_extend_24(bits: u32) -> i32 {
    (bits << 8) as i32 >> 8
}

fn symbol_of(status: Option<i32>) -> Symbol {
    match status {
        None => Symbol::NotReceived,
        Some(0..=255) => Symbol::SmallDelta,
        Some(_) => Symbol::LargeDelta,
    }
}

fn write_delta(delta: i32, out: &mut Vec<u8>) -> Result<(), WriteError> {
    if let Ok(small) = u8::try_from(delta) {
        out.push(small);
        return Ok(());
    }
    let large = i16::try_from(delta).map_err(|_| WriteError {
        field: "ticks of a TWCC delta",
        limit: i16::MAX as usize,
        got: delta.unsigned_abs() as usize,
    })?;
    out.extend_from_slice(&large.to_be_bytes());
    Ok(())
}

/// Parses chunks and deltas. The chunks come first, up to the one that covers the last packet.
fn parse_statuses(count: usize, body: Cursor<'_>) -> Result<Vec<Option<i32>>, ParseError> {
    let mut chunks = body;
    let mut deltas = body;
    let mut covered = 0;
    while covered < count {
        covered += Chunk(deltas.u16("TWCC packet status chunk")?).capacity();
    }
    // The chunks cover `count` packets, so a short packet cannot make this allocate much.
    let mut statuses = Vec::with_capacity(count);
    while statuses.len() < count {
        let offset = chunks.offset();
        let chunk = Chunk(chunks.u16("TWCC packet status chunk")?);
        for index in 0..chunk.capacity().min(count - statuses.len()) {
            statuses.push(match chunk.symbol(index, offset)? {
                Symbol::NotReceived => None,
                Symbol::SmallDelta => Some(i32::from(deltas.u8("TWCC small delta")?)),
                Symbol::LargeDelta => Some(i32::from(deltas.u16("TWCC large delta")? as i16)),
            });
        }
    }
    Ok(statuses)
}

#[cfg(test)]
mod tests;
