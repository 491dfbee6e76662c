//! Congestion control feedback: arrival time and ECN mark of each packet, per stream.
//!
//! Source: RFC 8888, section 3.1.

use crate::ecn::Ecn;
use crate::rtp::cursor::Cursor;
use crate::rtp::{ParseError, WriteError};
use crate::units::Time;

/// A feedback packet with the arrivals of one or more streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CongestionFeedback {
    /// SSRC of the reporting receiver.
    pub sender_ssrc: u32,
    /// The streams reported on.
    pub streams: Vec<StreamArrivals>,
    /// Time of the report: the middle 32 bits of an NTP time, in 1/65536 s.
    pub report_timestamp: u32,
}

/// Arrivals of consecutive packets of one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamArrivals {
    /// The stream.
    pub ssrc: u32,
    /// Sequence number of the first packet reported on.
    pub begin_seq: u16,
    /// One entry per packet, at most 16384. `None` if the packet has not arrived.
    pub arrivals: Vec<Option<CcfbArrival>>,
}

/// A packet that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CcfbArrival {
    /// ECN mark on arrival.
    pub ecn: Ecn,
    /// Time between the arrival and the report.
    pub offset: ArrivalOffset,
}

/// Time between a packet's arrival and the report, 13 bits in 1/1024 s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrivalOffset(u16);

impl ArrivalOffset {
    /// The arrival time is unknown.
    pub const UNAVAILABLE: ArrivalOffset = ArrivalOffset(0x1FFF);
    /// More than 8189/1024 s.
    pub const OVER_RANGE: ArrivalOffset = ArrivalOffset(0x1FFE);

    /// The unit, 1/1024 s, rounded to a nanosecond.
    pub const RESOLUTION: Time = Time(976_563);

    /// Converts a time, rounded down to 1/1024 s.
    pub fn from_time(time: Time) -> Self {
        let units = u128::from(time.as_nanos()) * 1024 / 1_000_000_000;
        if units > 0x1FFD { Self::OVER_RANGE } else { ArrivalOffset(units as u16) }
    }

    /// The time, or `None` if it is over range or unavailable.
    pub fn time(self) -> Option<Time> {
        (self.0 <= 0x1FFD).then(|| Time(u64::from(self.0) * 1_000_000_000 / 1024))
    }
}

/// Maximum number of metric blocks per stream.
const MAX_ARRIVALS: usize = 16_384;

impl CongestionFeedback {
    pub(super) fn parse(mut body: Cursor<'_>) -> Result<Self, ParseError> {
        let sender_ssrc = body.u32("CCFB sender SSRC")?;
        let mut streams = Vec::new();
        while body.rest().len() > 4 {
            streams.push(StreamArrivals::parse(&mut body)?);
        }
        let report_timestamp = body.u32("CCFB report timestamp")?;
        Ok(CongestionFeedback { sender_ssrc, streams, report_timestamp })
    }

    /// Bytes after the common header; `None` if a stream has more blocks than the format allows.
    pub(super) fn wire_bytes(&self) -> Option<usize> {
        let of = |stream: &StreamArrivals| {
            let count = stream.arrivals.len();
            (count <= MAX_ARRIVALS).then(|| 8 + count.next_multiple_of(2) * 2)
        };
        let streams: usize = self.streams.iter().map(of).sum::<Option<_>>()?;
        Some(4 + streams + 4)
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) -> Result<(), WriteError> {
        out.extend_from_slice(&self.sender_ssrc.to_be_bytes());
        for stream in &self.streams {
            stream.write(out)?;
        }
        out.extend_from_slice(&self.report_timestamp.to_be_bytes());
        Ok(())
    }
}

impl StreamArrivals {
    fn parse(body: &mut Cursor<'_>) -> Result<Self, ParseError> {
        let ssrc = body.u32("CCFB stream SSRC")?;
        let begin_seq = body.u16("CCFB begin sequence number")?;
        let offset = body.offset();
        let count = usize::from(body.u16("CCFB number of reports")?);
        if count > MAX_ARRIVALS {
            return Err(ParseError::Invalid {
                field: "CCFB number of reports",
                offset,
                expected: "at most 16384",
                got: count as u64,
            });
        }
        let blocks = body.take(count.next_multiple_of(2) * 2, "CCFB metric blocks")?;
        let blocks = blocks.chunks_exact(2).take(count);
        let arrivals =
            blocks.map(|block| parse_block(u16::from_be_bytes([block[0], block[1]]))).collect();
        Ok(StreamArrivals { ssrc, begin_seq, arrivals })
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<(), WriteError> {
        WriteError::check("CCFB metric blocks", self.arrivals.len(), MAX_ARRIVALS)?;
        out.extend_from_slice(&self.ssrc.to_be_bytes());
        out.extend_from_slice(&self.begin_seq.to_be_bytes());
        out.extend_from_slice(&(self.arrivals.len() as u16).to_be_bytes());
        for arrival in &self.arrivals {
            out.extend_from_slice(&write_block(*arrival).to_be_bytes());
        }
        if self.arrivals.len() % 2 == 1 {
            out.extend_from_slice(&[0, 0]);
        }
        Ok(())
    }
}

fn parse_block(block: u16) -> Option<CcfbArrival> {
    let ecn = Ecn::from_bits((block >> 13) as u8);
    (block >> 15 == 1).then_some(CcfbArrival { ecn, offset: ArrivalOffset(block & 0x1FFF) })
}

fn write_block(arrival: Option<CcfbArrival>) -> u16 {
    arrival
        .map_or(0, |CcfbArrival { ecn, offset }| 1 << 15 | u16::from(ecn.bits()) << 13 | offset.0)
}
