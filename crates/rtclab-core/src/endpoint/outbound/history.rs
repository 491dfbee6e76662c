//! Packets sent on the transport, kept until feedback reports their arrival.

use crate::cc::{PacketReport, SentPacket};
use crate::packet::{Ecn, Kind};
use crate::rtp::SeqUnwrapper;
use crate::rtp::rtcp::TransportFeedback;
use crate::units::{Bytes, RemoteTime, Time};
use std::collections::VecDeque;

/// Packets are dropped after this (libwebrtc, `transport_feedback_adapter.cc`, kSendTimeHistoryWindow).
const WINDOW: Time = Time::from_secs(60);

/// A packet that is no longer in flight, and whose arrival has not been reported.
struct Missing {
    sent: SentPacket,
    /// Whether a report said that it had not arrived; otherwise no report has covered it.
    reported: bool,
}

#[derive(Default)]
pub(super) struct TransportHistory {
    /// Packets above the highest reported sequence number, without gaps.
    flight: VecDeque<SentPacket>,
    flight_bytes: u64,
    /// Packets below the flight, in order, that may still be reported as late arrivals.
    missing: VecDeque<Missing>,
    next_seq: i64,
    unwrapper: SeqUnwrapper,
}

/// A packet that is sent now.
pub(super) struct Departure {
    pub(super) at: Time,
    pub(super) size: Bytes,
    pub(super) kind: Kind,
    pub(super) probe: Option<u32>,
    pub(super) ecn: Ecn,
}

impl TransportHistory {
    /// Transport-wide sequence number of the next packet.
    pub(super) fn next_seq(&self) -> i64 {
        self.next_seq
    }

    pub(super) fn in_flight(&self) -> Bytes {
        Bytes(self.flight_bytes)
    }

    /// Records that the packet with the next transport-wide sequence number was sent.
    pub(super) fn sent(&mut self, departure: &Departure) -> SentPacket {
        let &Departure { at, size, kind, probe, ecn } = departure;
        self.forget(at);
        self.flight_bytes += size.0;
        let in_flight = self.in_flight();
        let transport_seq = self.next_seq;
        let sent = SentPacket { transport_seq, at, size, kind, probe, in_flight, ecn };
        self.next_seq += 1;
        self.flight.push_back(sent);
        sent
    }

    /// Adds a report for each packet in the feedback that the history still has, in sending order.
    pub(super) fn acknowledge(
        &mut self,
        feedback: &TransportFeedback,
        out: &mut Vec<PacketReport>,
    ) {
        for (seq, ticks) in feedback.arrivals() {
            let seq = self.unwrapper.unwrap(seq);
            let arrival = |ticks: i64| RemoteTime(TransportFeedback::TICK * ticks.max(0) as u64);
            let received = ticks.map(arrival);
            let Some(first) = self.flight.front().map(|sent| sent.transport_seq) else {
                out.extend(self.report_late(seq, received));
                continue;
            };
            if seq < first {
                out.extend(self.report_late(seq, received));
            } else {
                out.extend(self.report_next(seq, received));
            }
        }
    }

    /// Takes everything up to `seq` out of the flight. Packets before `seq` were not in any report.
    fn report_next(&mut self, seq: i64, received: Option<RemoteTime>) -> Option<PacketReport> {
        loop {
            let sent = self.flight.pop_front()?;
            self.flight_bytes -= sent.size.0;
            if sent.transport_seq < seq {
                self.missing.push_back(Missing { sent, reported: false });
                continue;
            }
            if received.is_none() {
                self.missing.push_back(Missing { sent, reported: true });
            }
            return Some(PacketReport { sent, received, ecn: None, lost_before: false });
        }
    }

    fn report_late(&mut self, seq: i64, received: Option<RemoteTime>) -> Option<PacketReport> {
        let found = self.missing.binary_search_by_key(&seq, |missing| missing.sent.transport_seq);
        let index = found.ok()?;
        let Missing { sent, reported } = self.missing.get_mut(index)?;
        let report = PacketReport { sent: *sent, received, ecn: None, lost_before: *reported };
        *reported = true;
        if received.is_some() {
            self.missing.remove(index);
        }
        Some(report)
    }

    fn forget(&mut self, now: Time) {
        let old = |sent: &SentPacket| sent.at.saturating_add(WINDOW) < now;
        while self.missing.front().is_some_and(|missing| old(&missing.sent)) {
            self.missing.pop_front();
        }
        while let Some(sent) = self.flight.front().filter(|sent| old(sent)) {
            self.flight_bytes -= sent.size.0;
            self.flight.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn departure(at: Time) -> Departure {
        Departure { at, size: Bytes(100), kind: Kind::Video, probe: None, ecn: Ecn::NotCapable }
    }

    /// Sends ten packets at time zero.
    fn ten_sent() -> TransportHistory {
        let mut history = TransportHistory::default();
        for _ in 0..10 {
            history.sent(&departure(Time::ZERO));
        }
        history
    }

    /// Reports on packets from `base` on, `true` for those that arrived. Returns sequence numbers, whether
    /// each arrived, and whether it had been reported as lost before.
    fn report(
        history: &mut TransportHistory,
        base: u16,
        arrived: &[bool],
    ) -> Vec<(i64, bool, bool)> {
        let arrivals: Vec<_> =
            arrived.iter().map(|arrived| arrived.then_some(Time::ZERO)).collect();
        let (feedback, _) = TransportFeedback::from_arrivals((1, 2), 0, base, &arrivals);
        let mut reports = Vec::new();
        history.acknowledge(&feedback, &mut reports);
        let of = |r: &PacketReport| (r.sent.transport_seq, r.received.is_some(), r.lost_before);
        reports.iter().map(of).collect()
    }

    #[test]
    fn a_reported_packet_leaves_the_flight_with_all_before_it() {
        let mut history = ten_sent();
        assert_eq!(history.in_flight(), Bytes(1_000));
        assert_eq!(report(&mut history, 2, &[true, false]), [(2, true, false), (3, false, false)]);
        assert_eq!(history.in_flight(), Bytes(600));
    }

    #[test]
    fn a_repeated_report_skips_packets_that_arrived_and_repeats_those_that_did_not() {
        let mut history = ten_sent();
        report(&mut history, 0, &[true, false, true]);
        assert_eq!(report(&mut history, 0, &[true, false, true]), [(1, false, true)]);
        assert_eq!(history.in_flight(), Bytes(700));
    }

    #[test]
    fn a_late_arrival_is_recovered_once_and_was_not_lost_if_no_report_said_so() {
        let mut history = ten_sent();
        report(&mut history, 1, &[true, false, true]);
        assert_eq!(
            report(&mut history, 0, &[true, true, true]),
            [(0, true, false), (2, true, true)]
        );
        assert_eq!(report(&mut history, 0, &[true, true, true]), []);
        assert!(history.missing.is_empty());
    }

    #[test]
    fn packets_are_dropped_after_a_minute_without_feedback() {
        let mut history = ten_sent();
        history.sent(&departure(WINDOW));
        assert_eq!(history.in_flight(), Bytes(1_100));
        history.sent(&departure(WINDOW + Time(1)));
        assert_eq!(history.in_flight(), Bytes(200));
    }

    #[test]
    fn one_unrepaired_loss_keeps_one_packet_and_not_all_that_follow_it() {
        let mut history = TransportHistory::default();
        for seq in 0..5_000u16 {
            history.sent(&departure(Time::from_millis(u64::from(seq))));
            report(&mut history, seq, &[seq != 10]);
        }
        assert_eq!((history.missing.len(), history.flight.len()), (1, 0));
    }
}
