//! Arrivals for transport-wide feedback: those to report next, and for half a second those already reported.
//!
//! Source: libwebrtc, `transport_sequence_number_feedback_generator.cc` and `packet_arrival_map.cc`.

use crate::media::grid::Grid;
use crate::rtp::SeqUnwrapper;
use crate::rtp::places::Places;
use crate::rtp::rtcp::TransportFeedback;
use crate::units::{Bitrate, Bytes, Time};

/// First interval between reports (libwebrtc, `transport_sequence_number_feedback_generator.cc`).
const FIRST_INTERVAL: Time = Time::from_millis(100);
/// Shortest interval between later reports.
const MIN_INTERVAL: Time = Time::from_millis(50);
/// Longest interval between later reports.
const MAX_INTERVAL: Time = Time::from_millis(250);
/// Size of a report (20 IPv4, 8 UDP, 10 SRTP, 30 report).
const REPORT_SIZE: Bytes = Bytes(68);
/// Fraction of the rate that reports take, unless the interval reaches its bounds.
const REPORT_SHARE: f64 = 0.05;
/// Maximum number of packets in a report, so that it fits into a datagram.
const MAX_PACKETS: i64 = 500;
/// Arrivals that were reported are forgotten after this (kBackWindow).
const BACK_WINDOW: Time = Time::from_millis(500);
/// Arrivals of at most this many consecutive sequence numbers are kept (kMaxNumberOfPackets).
const MAX_KEPT: i64 = 1 << 15;

#[derive(Default)]
pub(super) struct ArrivalLog {
    /// When a browser's timers run; a server's timers are exact.
    grid: Option<Grid>,
    /// How often an SFU that browsers know reports; otherwise the rate decides.
    interval: Option<Time>,
    unwrapper: SeqUnwrapper,
    /// First sequence number of the next report.
    base: i64,
    /// Arrival times of the packets that have arrived.
    seen: Places<Time>,
    pub(super) next_report: Option<Time>,
    count: u8,
}

impl ArrivalLog {
    /// No arrivals yet. Reports leave on the grid, if there is one.
    pub(super) fn new(grid: Option<Grid>, interval: Option<Time>) -> Self {
        ArrivalLog { grid, interval, ..ArrivalLog::default() }
    }

    pub(super) fn note(&mut self, now: Time, seq: u16) {
        let seq = self.unwrapper.unwrap(seq);
        if self.next_report.is_none() {
            self.next_report = Some(self.timer(now + self.interval.unwrap_or(FIRST_INTERVAL)));
        }
        self.forget(seq, now);
        // A late packet, or another copy of one, is reported again together with all that follow it.
        self.base = self.base.min(seq);
        self.insert(seq, now);
        self.base = self.base.max(self.seen.first());
    }

    /// Drops what is below `seq` and arrived before the window, if all is reported.
    fn forget(&mut self, seq: i64, now: Time) {
        let Some(oldest) = now.0.checked_sub(BACK_WINDOW.0).map(Time) else { return };
        if self.base == self.seen.end() {
            let is_old = |arrival: &Option<Time>| arrival.is_none_or(|at| at <= oldest);
            self.seen.forget_while(|at, arrival| at < seq && is_old(arrival));
        }
    }

    /// Keeps the first arrival of a packet, unless the packet is too far below the others.
    fn insert(&mut self, seq: i64, now: Time) {
        if seq < self.seen.end() - MAX_KEPT {
            return;
        }
        self.seen.reach(seq).get_or_insert(now);
        self.seen.forget_before(self.seen.end() - MAX_KEPT);
    }

    /// Schedules the next report: after the fixed interval, or so that reports take their share of `rate`.
    ///
    /// On the grid the shortest interval of 50 ms becomes 62.5 ms. Measured: of 565 intervals in a live call of
    /// Chromium 156, 407 are 62.5 ms.
    pub(super) fn schedule(&mut self, now: Time, rate: Bitrate) {
        let interval = rate.scaled(REPORT_SHARE).time_for(REPORT_SIZE);
        let interval = interval.map_or(MAX_INTERVAL, |at| at.clamp(MIN_INTERVAL, MAX_INTERVAL));
        self.next_report = Some(self.timer(now + self.interval.unwrap_or(interval)));
    }

    /// When a timer that is set to `at` fires.
    fn timer(&self, at: Time) -> Time {
        self.grid.map_or(at, |grid| grid.after(at))
    }

    /// The next report, from the base to the highest sequence number seen.
    pub(super) fn take(&mut self, ssrcs: (u32, u32)) -> Option<TransportFeedback> {
        let pending = self.seen.side_by_side(self.base);
        let highest = pending.iter().rposition(Option::is_some)?;
        let last = highest.min(MAX_PACKETS as usize - 1);
        let (report, covered) = TransportFeedback::from_arrivals(
            ssrcs,
            self.count,
            self.base as u16,
            &pending[..=last],
        );
        self.count = self.count.wrapping_add(1);
        self.base += covered.max(1) as i64;
        Some(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sequence numbers of the next report, and whether each has arrived.
    fn next(arrivals: &mut ArrivalLog) -> Vec<(u16, bool)> {
        let report = arrivals.take((1, 2)).unwrap_or_default();
        report.arrivals().map(|(seq, ticks)| (seq, ticks.is_some())).collect()
    }

    #[test]
    fn a_report_starts_after_the_last_one_and_ends_with_the_newest_packet() {
        let mut arrivals = ArrivalLog::default();
        [7, 9].into_iter().for_each(|seq| arrivals.note(Time::ZERO, seq));
        assert_eq!(next(&mut arrivals), [(7, true), (8, false), (9, true)]);
        assert_eq!(arrivals.take((1, 2)), None);
        arrivals.note(Time::ZERO, 11);
        assert_eq!(next(&mut arrivals), [(10, false), (11, true)]);
    }

    #[test]
    fn a_late_packet_is_reported_together_with_the_new_ones_after_it() {
        let mut arrivals = ArrivalLog::default();
        [7, 9].into_iter().for_each(|seq| arrivals.note(Time::ZERO, seq));
        next(&mut arrivals);
        [10, 8].into_iter().for_each(|seq| arrivals.note(Time::ZERO, seq));
        assert_eq!(next(&mut arrivals), [(8, true), (9, true), (10, true)]);
    }

    /// Reports again from another copy of a packet on, with the time at which the first one arrived.
    #[test]
    fn a_second_copy_of_a_reported_packet_repeats_its_arrival_and_those_after_it() {
        let mut arrivals = ArrivalLog::default();
        let at = Time::from_millis;
        [(64, 7), (65, 8)].into_iter().for_each(|(ms, seq)| arrivals.note(at(ms), seq));
        let first = arrivals.take((1, 2)).expect("a report");
        [(90, 9), (91, 7)].into_iter().for_each(|(ms, seq)| arrivals.note(at(ms), seq));
        let again = arrivals.take((1, 2)).expect("a report");
        let arrivals = |report: &TransportFeedback| report.arrivals().collect::<Vec<_>>();
        // In ticks of 250 us.
        assert_eq!(arrivals(&first), [(7, Some(256)), (8, Some(260))]);
        assert_eq!(arrivals(&again), [(7, Some(256)), (8, Some(260)), (9, Some(360))]);
    }

    /// Arrivals are looked through when the first packet after a report arrives.
    #[test]
    fn a_reported_arrival_is_forgotten_after_half_a_second() {
        for (later, second_is_known) in [(499, true), (500, false)] {
            let mut arrivals = ArrivalLog::default();
            let at = |ms: u64| Time::from_millis(1_000 + ms);
            [7, 9].into_iter().for_each(|seq| arrivals.note(at(0), seq));
            next(&mut arrivals);
            arrivals.note(at(later), 10);
            assert_eq!(next(&mut arrivals), [(10, true)]);
            arrivals.note(at(later + 1), 8);
            let expected = [(8, true), (9, second_is_known), (10, true)];
            assert_eq!(next(&mut arrivals), expected, "after {later} ms");
        }
    }

    #[test]
    fn what_is_kept_is_bounded_however_far_sequence_numbers_jump() {
        let mut arrivals = ArrivalLog::default();
        let jumps = (0..20_u16).map(|jump| jump.wrapping_mul(30_000));
        for seq in jumps.chain([19_u16.wrapping_mul(30_000).wrapping_sub(32_767)]) {
            arrivals.note(Time::ZERO, seq);
            let kept = arrivals.seen.end() - arrivals.seen.first();
            assert!((1..=MAX_KEPT).contains(&kept), "{kept}");
        }
        while arrivals.take((1, 2)).is_some() {}
        assert_eq!(arrivals.base, arrivals.seen.end());
    }

    #[test]
    fn a_report_of_more_than_500_packets_is_split() {
        let mut arrivals = ArrivalLog::default();
        (0..600).for_each(|seq| arrivals.note(Time::ZERO, seq));
        assert_eq!([next(&mut arrivals).len(), next(&mut arrivals).len()], [500, 100]);
    }
}
