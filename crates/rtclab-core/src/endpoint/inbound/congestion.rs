//! Arrivals for congestion control feedback (RFC 8888), stream by stream, and when a report leaves.
//!
//! Source: RFC 8888; libwebrtc f3ae3eb, `congestion_control_feedback_generator.cc` and
//! `congestion_control_feedback_tracker.cc`.

use crate::media::grid::Grid;
use crate::packet::{Ecn, IP_UDP_BYTES, SRTCP_BYTES};
use crate::rtp::places::Places;
use crate::rtp::rtcp::{ArrivalOffset, CcfbArrival, CongestionFeedback, NtpTime, StreamArrivals};
use crate::rtp::{RtcpPacket, RtpHeader, SeqUnwrapper};
use crate::units::{Bitrate, Bytes, Time};

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
/// Arrivals of at most this many consecutive numbers are kept.
const MAX_KEPT: i64 = 1 << 16;

/// Arrivals of all streams.
#[derive(Default)]
pub(super) struct CongestionLog {
    /// When a browser's timers run; a server's timers are exact.
    grid: Option<Grid>,
    /// With their SSRCs, in order.
    streams: Vec<(u32, StreamLog)>,
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
        let found = self.streams.binary_search_by_key(&header.ssrc, |(ssrc, _)| *ssrc);
        let place = found.unwrap_or_else(|place| {
            self.streams.insert(place, (header.ssrc, StreamLog::default()));
            place
        });
        self.streams[place].1.note(now, header.seq, ecn);
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
        for (ssrc, log) in &mut self.streams {
            let Some((begin_seq, arrivals)) = log.take(now, left) else { continue };
            left -= arrivals.len();
            streams.push(StreamArrivals { ssrc: *ssrc, begin_seq, arrivals });
        }
        self.first = self.streams.iter().any(|(_, log)| log.has_more()).then_some(now);
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
    /// Packets that have arrived.
    seen: Places<Seen>,
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
        match self.seen.reach(seq) {
            place @ None => *place = Some(Seen { at: now, ecn }),
            Some(seen) => {
                if ecn != Ecn::CongestionExperienced || seen.ecn == ecn {
                    return;
                }
                seen.ecn = ecn;
            }
        }
        self.seen.forget_before(self.seen.end() - MAX_KEPT);
        // What is late, or is marked late, is reported again together with all that follows it.
        let lowest = seq - (MAX_BLOCKS as i64 - 1);
        self.next = self.next.map(|next| next.min(seq).max(lowest));
    }

    /// What there is to report.
    fn pending(&self) -> Option<(i64, usize)> {
        let (next, end) = (self.next?.max(self.seen.first()), self.seen.end());
        (end > next).then(|| (next, (end - next) as usize))
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
        for (arrival, seen) in arrivals.iter_mut().zip(self.seen.range(next, end)) {
            let offset = |at: Time| ArrivalOffset::from_time(now.saturating_sub(at));
            *arrival = seen.map(|Seen { at, ecn }| CcfbArrival { ecn, offset: offset(at) });
        }
        self.next = Some(end);
        self.reported = self.reported.max(end);
        self.seen.forget_before(self.reported - MAX_BACK);
        (count > 0).then_some((next as u16, arrivals))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VIDEO: u32 = 7;
    const REPORTER: u32 = 1;
    use Ecn::{CongestionExperienced as Ce, Ect1, NotCapable};

    fn at(ms: u64) -> Time {
        Time::from_millis(1_000 + ms)
    }

    fn note(log: &mut CongestionLog, ms: u64, seq: u16, marker: bool, ecn: Ecn) {
        let header = RtpHeader { ssrc: VIDEO, seq, marker, ..RtpHeader::default() };
        log.note(at(ms), &header, ecn);
    }

    fn poll(log: &mut CongestionLog, ms: u64) -> Option<CongestionFeedback> {
        match log.poll(at(ms), REPORTER)? {
            RtcpPacket::CongestionFeedback(report) => Some(report),
            other => panic!("{other:?}"),
        }
    }

    /// The numbers that the report at this time is about, with the codepoints of those that arrived.
    fn numbers(log: &mut CongestionLog, ms: u64) -> Vec<(u16, Option<Ecn>)> {
        let report = poll(log, ms).expect("a report");
        let [stream] = &report.streams[..] else { panic!("one stream") };
        let ecn = stream.arrivals.iter().map(|arrival| arrival.map(|arrival| arrival.ecn));
        (0..).map(|index| stream.begin_seq.wrapping_add(index)).zip(ecn).collect()
    }

    /// When reports leave if packets arrive every millisecond for 200 ms, and some have the marker bit.
    fn reports(has_marker: impl Fn(u64) -> bool) -> Vec<u64> {
        let mut log = CongestionLog::default();
        let mut times = Vec::new();
        for ms in 0..200 {
            note(&mut log, ms, ms as u16, has_marker(ms), Ect1);
            times.extend(poll(&mut log, ms).map(|_| ms));
        }
        times
    }

    /// Golden cases: without a marker 25 ms after the first packet, which is the one after a report; with markers all the
    /// time every 25 ms.
    #[test]
    fn a_report_leaves_with_the_marker_but_not_within_25_ms_of_the_last_one() {
        assert_eq!(reports(|_| false), [25, 51, 77, 103, 129, 155, 181]);
        assert_eq!(reports(|_| true), [0, 25, 50, 75, 100, 125, 150, 175]);
        // A frame ends every 33 ms. From 1 ms on without a marker; from 27 ms on with the one of 33 ms, and so on.
        assert_eq!(reports(|ms| ms % 33 == 0), [0, 26, 51, 76, 101, 127, 152, 177]);
    }

    #[test]
    fn without_a_packet_after_the_last_report_none_is_due() {
        let mut log = CongestionLog::default();
        assert_eq!(log.poll_timeout(), None);
        note(&mut log, 0, 1, false, Ect1);
        assert_eq!(log.poll_timeout(), Some(at(25)));
        assert!(poll(&mut log, 24).is_none() && poll(&mut log, 25).is_some());
        assert_eq!((log.poll_timeout(), poll(&mut log, 900)), (None, None));
        // With the marker a packet is reported at once, however long ago the last report was.
        note(&mut log, 900, 2, true, Ect1);
        assert_eq!(log.poll_timeout(), Some(at(900)));
        // A copy of a packet that was reported is no news.
        assert!(poll(&mut log, 900).is_some());
        note(&mut log, 1_000, 2, true, Ect1);
        assert_eq!((poll(&mut log, 1_000), log.poll_timeout()), (None, None));
    }

    /// The grid has points at multiples of 15.625 ms, and 1.025 s is between the 65th and 66th.
    #[test]
    fn a_browsers_timer_runs_on_its_grid_and_a_packet_is_not_bound_to_it() {
        let mut log = CongestionLog::new(Some(Grid::through(Time::ZERO)));
        note(&mut log, 0, 1, false, Ect1);
        assert_eq!(log.poll_timeout(), Some(Time::from_micros(66 * 15_625)));
        note(&mut log, 26, 2, false, Ect1);
        assert!(poll(&mut log, 26).is_some());
    }

    /// 5 and 10 ms are 5.12 and 10.24 units of 1/1024 s; 1.01 s are 66,191.36 of 1/65,536 s.
    #[test]
    fn a_report_has_arrival_offsets_codepoints_and_gaps_of_each_stream() {
        let mut log = CongestionLog::default();
        note(&mut log, 0, 65_534, false, Ect1);
        note(&mut log, 5, 0, false, Ce);
        let audio = RtpHeader { ssrc: 3, seq: 9, marker: true, ..RtpHeader::default() };
        log.note(at(10), &audio, NotCapable);
        let arrival = |ecn, units: u64| {
            let offset = ArrivalOffset::from_time(Time(units * 976_563));
            Some(CcfbArrival { ecn, offset })
        };
        let video = vec![arrival(Ect1, 10), None, arrival(Ce, 5)];
        let audio = vec![arrival(NotCapable, 0)];
        let stream = |ssrc, begin_seq, arrivals| StreamArrivals { ssrc, begin_seq, arrivals };
        let expected = CongestionFeedback {
            sender_ssrc: REPORTER,
            streams: vec![stream(3, 9, audio), stream(VIDEO, 65_534, video)],
            report_timestamp: 66_191,
        };
        assert_eq!(poll(&mut log, 10), Some(expected));
    }

    #[test]
    fn of_copies_the_time_of_the_first_counts_and_the_mark_of_any() {
        let mut log = CongestionLog::default();
        note(&mut log, 0, 1, false, Ect1);
        note(&mut log, 10, 1, false, Ce);
        note(&mut log, 20, 1, false, Ect1);
        let report = poll(&mut log, 25).expect("a report");
        // 25 ms are 25.6 units.
        let offset = ArrivalOffset::from_time(Time::from_millis(25));
        assert_eq!(report.streams[0].arrivals, [Some(CcfbArrival { ecn: Ce, offset })]);
        // A marked copy of a packet that was reported without a mark is reported, with the time of the first copy.
        note(&mut log, 30, 2, false, Ect1);
        assert_eq!(numbers(&mut log, 55), [(2, Some(Ect1))]);
        note(&mut log, 60, 2, true, Ce);
        assert_eq!(numbers(&mut log, 80), [(2, Some(Ce))]);
    }

    #[test]
    fn a_late_packet_is_reported_with_all_after_it_up_to_64_back() {
        for (missing, is_reported) in [(101 - 64, true), (101 - 65, false)] {
            let mut log = CongestionLog::default();
            (1..=100).filter(|seq| *seq != missing).for_each(|seq| {
                note(&mut log, 0, seq, false, Ect1);
            });
            assert_eq!(numbers(&mut log, 25).len(), 100);
            note(&mut log, 30, missing, false, Ect1);
            note(&mut log, 31, 101, true, Ect1);
            let expected: Vec<_> = match is_reported {
                true => (missing..=101).map(|seq| (seq, Some(Ect1))).collect(),
                false => vec![(101, Some(Ect1))],
            };
            assert_eq!(numbers(&mut log, 60), expected);
        }
    }

    #[test]
    fn packets_before_the_first_that_arrived_are_reported_too() {
        let mut log = CongestionLog::default();
        [1, 65_535].into_iter().for_each(|seq| note(&mut log, 0, seq, false, Ect1));
        let expected = [(65_535, Some(Ect1)), (0, None), (1, Some(Ect1))];
        assert_eq!(numbers(&mut log, 25), expected);
    }

    /// A report on n packets of one stream has 20 B and 2 B a packet (n is even), 42 B around it: 2062 B for 1000, which
    /// are 500 kbit/s for 32.992 ms, and 32,830 B for 16,384, 525 ms.
    #[test]
    fn large_reports_leave_less_often_but_four_times_a_second() {
        for (count, wait_us) in [(1_000_u16, 32_992), (16_384, 250_000), (600, 25_000)] {
            let mut log = CongestionLog::default();
            (1..=count).for_each(|seq| note(&mut log, 0, seq, true, Ect1));
            assert_eq!(numbers(&mut log, 0).len(), usize::from(count));
            note(&mut log, 1, count + 1, true, Ect1);
            assert_eq!(log.poll_timeout(), Some(at(0) + Time::from_micros(wait_us)), "{count}");
        }
    }

    /// Of 32,830 B, 17,205 B are still owed after 250 ms, in which 500 kbit/s pay 15,625 B. A report of 1262 B makes 18,467
    /// B of them, and another one 250 ms later 4104 B, which take 65.664 ms.
    #[test]
    fn what_a_report_took_too_much_is_paid_with_later_ones() {
        let mut log = CongestionLog::default();
        let mut next = 0;
        let mut send = |ms, count: u16| {
            (next..next + count).for_each(|seq| note(&mut log, ms, seq, true, Ect1));
            next += count;
            assert!(poll(&mut log, ms).is_some());
            log.allowed.saturating_sub(at(ms)).as_micros()
        };
        let waits = [send(0, 16_384), send(250, 600), send(500, 600), send(566, 600)];
        assert_eq!(waits, [250_000, 250_000, 65_664, 25_000]);
    }

    #[test]
    fn numbers_that_jump_fill_neither_memory_nor_a_report() {
        let mut log = CongestionLog::default();
        for jump in 0..1_000_u16 {
            note(&mut log, u64::from(jump), jump.wrapping_mul(30_000), false, Ect1);
            if let Some(report) = poll(&mut log, u64::from(jump)) {
                assert!(report.streams[0].arrivals.len() <= MAX_BLOCKS);
            }
            let [(VIDEO, stream)] = &log.streams[..] else { panic!("one stream") };
            let kept = stream.seen.end() - stream.seen.first();
            assert!((1..=MAX_KEPT).contains(&kept), "{kept}");
        }
    }
}
