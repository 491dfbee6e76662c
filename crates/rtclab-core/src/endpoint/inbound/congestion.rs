//! Arrivals for congestion control feedback (RFC 8888), stream by stream, and when a report leaves.
//!
//! Source: RFC 8888; libwebrtc f3ae3eb, `congestion_control_feedback_generator.cc` and
//! `congestion_control_feedback_tracker.cc`.

use crate::media::grid::Grid;
use crate::packet::{Ecn, IP_UDP_BYTES, SRTCP_BYTES};
use crate::rtp::rtcp::{ArrivalOffset, CcfbArrival, CongestionFeedback, NtpTime, StreamArrivals};
use crate::rtp::{RtcpPacket, RtpHeader, SeqUnwrapper};
use crate::units::{Bitrate, Bytes, Time};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Shortest interval between reports (`min_send_delta`).
const MIN_INTERVAL: Time = Time::from_millis(25);
/// Longest interval that the rate of reports can ask for (`max_send_delta`).
const MAX_INTERVAL: Time = Time::from_millis(250);
/// How long a packet waits for one with the marker bit (`max_wait_for_marker`).
const MARKER_WAIT: Time = Time::from_millis(25);
/// The most that reports may take, with all headers.
const MAX_RATE: Bitrate = Bitrate::from_kbps(500);
/// A late packet is reported if it is at most this far below the last number reported.
const MAX_BACK: i64 = 64;
/// The most numbers in a report: RFC 8888, section 3.1, allows as many for a stream. Further ones wait for the next
/// report, so that a report fits into a datagram.
const MAX_BLOCKS: usize = 16_384;

/// Arrivals of all streams.
#[derive(Default)]
pub(super) struct CongestionLog {
    /// When a browser's timers run; a server's timers are exact.
    grid: Option<Grid>,
    /// By SSRC.
    streams: BTreeMap<u32, StreamLog>,
    /// When the first packet since the last report arrived.
    first: Option<Time>,
    /// Whether a packet with the marker bit has arrived since then.
    has_marker: bool,
    /// When the next report may leave.
    allowed: Time,
    /// When the last report left, and the bytes of reports that were ahead of their rate then.
    debt: (Time, Bytes),
}

impl CongestionLog {
    /// No arrivals yet. Timers run on the grid, if there is one.
    pub(super) fn new(grid: Option<Grid>) -> Self {
        CongestionLog { grid, ..CongestionLog::default() }
    }

    pub(super) fn note(&mut self, now: Time, header: &RtpHeader, ecn: Ecn) {
        self.first.get_or_insert(now);
        self.has_marker |= header.marker;
        self.streams.entry(header.ssrc).or_default().note(now, header.seq, ecn);
    }

    /// From when on a report may leave with the next packet.
    fn due(&self) -> Option<Time> {
        let first = self.first?;
        let wait = if self.has_marker { Time::ZERO } else { MARKER_WAIT };
        Some(self.allowed.max(first + wait))
    }

    /// When a report leaves if no packet arrives before.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        let due = self.due()?;
        Some(self.grid.map_or(due, |grid| grid.after(due)))
    }

    /// The report that is due, if any: all numbers since the last report.
    pub(super) fn poll(&mut self, now: Time, sender_ssrc: u32) -> Option<RtcpPacket> {
        self.due().filter(|due| *due <= now)?;
        let (mut left, mut streams) = (MAX_BLOCKS, Vec::new());
        for (&ssrc, log) in &mut self.streams {
            let Some((begin_seq, arrivals)) = log.take(now, left) else { continue };
            left -= arrivals.len();
            streams.push(StreamArrivals { ssrc, begin_seq, arrivals });
        }
        self.first = self.streams.values().any(StreamLog::has_more).then_some(now);
        self.has_marker = false;
        if streams.is_empty() {
            return None;
        }
        let report_timestamp = NtpTime::from_time(now).middle();
        let report = CongestionFeedback { sender_ssrc, streams, report_timestamp };
        let report = RtcpPacket::CongestionFeedback(report);
        self.pay(now, report.wire_bytes().unwrap_or(0) as u64 + IP_UDP_BYTES + SRTCP_BYTES);
        Some(report)
    }

    /// Puts off the next report so that reports keep to their rate.
    fn pay(&mut self, now: Time, bytes: u64) {
        let (since, debt) = self.debt;
        let paid = MAX_RATE.bytes_in(now.saturating_sub(since));
        let debt = Bytes(debt.0.saturating_sub(paid.0) + bytes);
        self.debt = (now, debt);
        let interval = MAX_RATE.time_for(debt).unwrap_or(MAX_INTERVAL);
        self.allowed = now + interval.clamp(MIN_INTERVAL, MAX_INTERVAL);
    }
}

/// A packet that has arrived.
#[derive(Clone, Copy)]
struct Seen {
    /// When its first copy arrived.
    at: Time,
    /// The mark of the first copy, or CE if any copy had it.
    ecn: Ecn,
}

/// Arrivals of one stream: those to report next, and the last ones reported.
#[derive(Default)]
struct StreamLog {
    unwrapper: SeqUnwrapper,
    seen: BTreeMap<i64, Seen>,
    /// First number of the next report; `None` before the first packet.
    next: Option<i64>,
    /// One more than the highest number reported, or the first number that arrived.
    reported: i64,
}

impl StreamLog {
    fn note(&mut self, now: Time, seq: u16, ecn: Ecn) {
        let seq = self.unwrapper.unwrap(seq);
        if self.next.is_none() {
            (self.next, self.reported) = (Some(seq), seq);
        }
        if seq < self.reported - MAX_BACK {
            return;
        }
        match self.seen.entry(seq) {
            Entry::Vacant(place) => {
                place.insert(Seen { at: now, ecn });
            }
            Entry::Occupied(mut seen) => {
                if ecn != Ecn::CongestionExperienced || seen.get().ecn == ecn {
                    return;
                }
                seen.get_mut().ecn = ecn;
            }
        }
        // What is late, or is marked late, is reported again together with all that follows it.
        let lowest = seq - (MAX_BLOCKS as i64 - 1);
        self.next = self.next.map(|next| next.min(seq).max(lowest));
    }

    /// What there is to report.
    fn pending(&self) -> Option<(i64, usize)> {
        let (next, (&last, _)) = (self.next?, self.seen.last_key_value()?);
        (last >= next).then(|| (next, (last - next + 1) as usize))
    }

    fn has_more(&self) -> bool {
        self.pending().is_some()
    }

    /// The next number, and what to report from it on, at most `limit` numbers.
    fn take(&mut self, now: Time, limit: usize) -> Option<(u16, Vec<Option<CcfbArrival>>)> {
        let (next, count) = self.pending()?;
        let count = count.min(limit);
        let end = next + count as i64;
        let mut arrivals = vec![None; count];
        for (seq, Seen { at, ecn }) in self.seen.range(next..end) {
            let offset = ArrivalOffset::from_time(now.saturating_sub(*at));
            arrivals[(seq - next) as usize] = Some(CcfbArrival { ecn: *ecn, offset });
        }
        self.next = Some(end);
        self.reported = self.reported.max(end);
        self.seen = self.seen.split_off(&(self.reported - MAX_BACK));
        (count > 0).then_some((next as u16, arrivals))
    }
}
