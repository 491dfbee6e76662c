//! Rates, delays and losses that the feedback on packets tells a sender.

use super::PacketReport;
use crate::packet::Ecn;
use crate::units::{RemoteTime, Time};
use std::collections::VecDeque;

/// The received rate is over this time.
const RATE_WINDOW: Time = Time::from_millis(500);

/// What feedback on packets tells about their path. What is not known is `None`; times are in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FeedbackFigures {
    /// Rate of what arrived in the last 500 ms of arrivals, in bit/s.
    pub received_bps: Option<f64>,
    /// Mean one-way delay of the packets in this feedback. Clocks may differ by a constant.
    pub delay_s: Option<f64>,
    /// Least one-way delay of these packets.
    pub min_delay_s: Option<f64>,
    /// Least one-way delay of all packets so far.
    pub base_delay_s: Option<f64>,
    /// Mean delay above the base delay.
    pub queuing_delay_s: Option<f64>,
    /// Share of these packets that have not arrived, 0 to 1. Packets reported lost before do not count.
    pub loss: Option<f64>,
    /// Share of the packets that arrived with CE, 0 to 1; `None` if the feedback does not tell it.
    pub marked: Option<f64>,
    /// Least time since one of these packets left, without the time that the far end held it.
    pub rtt_s: Option<f64>,
}

/// Computes the [`FeedbackFigures`] of a sender.
#[derive(Debug, Default)]
pub struct FeedbackMeter {
    /// Arrival and size of packets within [`RATE_WINDOW`], in the order of their reports.
    recent: VecDeque<(Time, u64)>,
    recent_bytes: u64,
    /// Arrival and size of the first packet.
    first: Option<(Time, u64)>,
    last: Time,
    base_delay_s: Option<f64>,
}

impl FeedbackMeter {
    /// Takes feedback that comes in at `now`.
    pub fn on_reports(&mut self, now: Time, reports: &[PacketReport]) -> FeedbackFigures {
        let (mut arrived, mut delay_sum_s, mut min_delay_s) = (0u32, 0.0, f64::INFINITY);
        let (mut new, mut lost, mut told, mut marked) = (0u32, 0u32, 0u32, 0u32);
        let mut rtt: Option<Time> = None;
        for report in reports {
            let is_new = !report.lost_before;
            new += u32::from(is_new);
            let Some(RemoteTime(at)) = report.received else {
                lost += u32::from(is_new);
                continue;
            };
            arrived += 1;
            let delay_s = at.as_secs_f64() - report.sent.at.as_secs_f64();
            delay_sum_s += delay_s;
            min_delay_s = min_delay_s.min(delay_s);
            told += u32::from(report.ecn.is_some());
            marked += u32::from(report.ecn == Some(Ecn::CongestionExperienced));
            let held = report.held.unwrap_or(Time::ZERO);
            let round = now.saturating_sub(report.sent.at).saturating_sub(held);
            rtt = Some(rtt.map_or(round, |least| least.min(round)));
            self.add(at, report.sent.size.0);
        }
        let share = |part: u32, whole: u32| (whole > 0).then(|| f64::from(part) / f64::from(whole));
        let any = arrived > 0;
        if any {
            self.base_delay_s =
                Some(self.base_delay_s.map_or(min_delay_s, |base| base.min(min_delay_s)));
        }
        let delay_s = any.then(|| delay_sum_s / f64::from(arrived));
        FeedbackFigures {
            received_bps: self.received_bps(),
            delay_s,
            min_delay_s: any.then_some(min_delay_s),
            base_delay_s: self.base_delay_s,
            queuing_delay_s: delay_s.zip(self.base_delay_s).map(|(delay, base)| delay - base),
            loss: share(lost, new),
            marked: share(marked, told),
            rtt_s: rtt.map(Time::as_secs_f64),
        }
    }

    fn add(&mut self, at: Time, bytes: u64) {
        self.first.get_or_insert((at, bytes));
        self.last = self.last.max(at);
        self.recent_bytes += bytes;
        self.recent.push_back((at, bytes));
    }

    fn received_bps(&mut self) -> Option<f64> {
        let is_old = |at: Time| at + RATE_WINDOW <= self.last;
        while let Some(&(_, bytes)) = self.recent.front().filter(|(at, _)| is_old(*at)) {
            self.recent_bytes -= bytes;
            self.recent.pop_front();
        }
        // A packet takes the time before its arrival, so the first one does not count in a shorter time.
        let (first, first_bytes) = self.first?;
        let since = self.last.saturating_sub(first);
        let (bytes, span) = match since < RATE_WINDOW {
            true => (self.recent_bytes - first_bytes, since),
            false => (self.recent_bytes, RATE_WINDOW),
        };
        (span > Time::ZERO).then(|| bytes as f64 * 8.0 / span.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::SentPacket;
    use crate::packet::Kind;
    use crate::units::Bytes;

    /// A packet of 1250 B that left at `sent_ms` and took `delay_ms`, or was lost.
    fn report(sent_ms: u64, delay_ms: Option<u64>) -> PacketReport {
        let sent = SentPacket {
            transport_seq: 0,
            at: Time::from_millis(sent_ms),
            size: Bytes(1250),
            kind: Kind::Video,
            probe: None,
            in_flight: Bytes::ZERO,
            ecn: Ecn::NotCapable,
        };
        let received = delay_ms.map(|delay_ms| RemoteTime(Time::from_millis(sent_ms + delay_ms)));
        PacketReport { sent, received, ecn: None, held: None, lost_before: false }
    }

    /// 1250 B every 10 ms are 1 Mbit/s; delays of 40 and 60 ms above a base of 30 ms.
    #[test]
    fn rate_is_over_the_last_arrivals_and_queuing_delay_above_the_least_delay_so_far() {
        let mut meter = FeedbackMeter::default();
        let first = meter.on_reports(Time::from_millis(50), &[report(0, Some(30))]);
        assert_eq!((first.received_bps, first.queuing_delay_s), (None, Some(0.0)));
        let reports: Vec<_> = (1..101).map(|n| report(10 * n, Some(30))).collect();
        let steady = meter.on_reports(Time::from_millis(1_050), &reports);
        assert_eq!(steady.received_bps, Some(1e6));
        let reports = [report(1_010, Some(40)), report(1_020, Some(60)), report(1_030, None)];
        let later = meter.on_reports(Time::from_millis(1_100), &reports);
        assert!((later.queuing_delay_s.expect("a delay") - 0.020).abs() < 1e-12);
        assert!((later.min_delay_s.expect("a delay") - 0.040).abs() < 1e-12);
        assert_eq!((later.loss, later.marked, later.rtt_s), (Some(1.0 / 3.0), None, Some(0.080)));
    }
}
