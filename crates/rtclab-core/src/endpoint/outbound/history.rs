//! Packets sent on the transport, kept until feedback reports their arrival.

use crate::cc::{PacketReport, SentPacket};
use crate::packet::{Ecn, Kind};
use crate::rtp::rtcp::TransportFeedback;
use crate::units::{Bytes, RemoteTime, Time};
use std::collections::VecDeque;

/// Packets are dropped after this (libwebrtc, `transport_feedback_adapter.cc`, kSendTimeHistoryWindow).
const WINDOW: Time = Time::from_secs(60);

/// Where a packet of video is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VideoPacket {
    pub(super) stream: u8,
    /// Sequence number on the stream, of the original if it is a retransmission.
    pub(super) seq: u16,
    pub(super) retransmission: bool,
}

/// A packet that was sent.
#[derive(Clone, Copy)]
struct Flying {
    sent: SentPacket,
    video: Option<VideoPacket>,
}

/// A packet that is no longer in flight, and whose arrival has not been reported.
struct Missing {
    packet: Flying,
    /// Whether a report said that it had not arrived; otherwise no report has covered it.
    reported: bool,
}

#[derive(Default)]
pub(super) struct TransportHistory {
    /// Packets above the highest reported sequence number, without gaps.
    flight: VecDeque<Flying>,
    flight_bytes: u64,
    /// Packets below the flight, in order, that may still be reported as late arrivals.
    missing: VecDeque<Missing>,
    /// Video packets in the report handled last, in order, and whether they arrived.
    outcomes: Vec<(VideoPacket, bool)>,
    next_seq: i64,
}

/// A packet that is sent now.
pub(super) struct Departure {
    pub(super) at: Time,
    pub(super) size: Bytes,
    pub(super) kind: Kind,
    pub(super) probe: Option<u32>,
    pub(super) ecn: Ecn,
    /// `None` for audio, FEC and padding.
    pub(super) video: Option<VideoPacket>,
}

impl TransportHistory {
    /// Transport-wide sequence number of the next packet.
    pub(super) fn next_seq(&self) -> i64 {
        self.next_seq
    }

    /// Leaves the next transport-wide sequence number to a packet that is not kept.
    pub(super) fn skip(&mut self) {
        self.next_seq += 1;
    }

    pub(super) fn in_flight(&self) -> Bytes {
        Bytes(self.flight_bytes)
    }

    /// Records that the packet with the next transport-wide sequence number was sent.
    pub(super) fn sent(&mut self, departure: &Departure) -> SentPacket {
        let &Departure { at, size, kind, probe, ecn, video } = departure;
        self.forget(at);
        self.flight_bytes += size.0;
        let in_flight = self.in_flight();
        let transport_seq = self.next_seq;
        let sent = SentPacket { transport_seq, at, size, kind, probe, in_flight, ecn };
        self.next_seq += 1;
        self.flight.push_back(Flying { sent, video });
        sent
    }

    /// Adds a report for each packet in the feedback that the history still has, in sending order.
    pub(super) fn acknowledge(
        &mut self,
        feedback: &TransportFeedback,
        out: &mut Vec<PacketReport>,
    ) {
        self.outcomes.clear();
        for (seq, ticks) in feedback.arrivals() {
            let seq = self.whole(seq);
            let arrival = |ticks: i64| RemoteTime(TransportFeedback::TICK * ticks.max(0) as u64);
            let received = ticks.map(arrival);
            let report = match self.flight.front() {
                Some(first) if first.sent.transport_seq <= seq => self.report_next(seq, received),
                _ => self.report_late(seq, received),
            };
            if let Some(report) = report {
                out.push(report);
            }
        }
    }

    /// The newest packet with this number on the wire. So a report on a packet that was never sent is one on a packet that
    /// was sent long ago, and finds nothing. libwebrtc continues from the highest number that was reported.
    fn whole(&self, seq: u16) -> i64 {
        let last = self.next_seq - 1;
        last - i64::from((last as u16).wrapping_sub(seq))
    }

    /// Video packets in the report handled last, in order, and whether they arrived.
    pub(super) fn outcomes(&self) -> &[(VideoPacket, bool)] {
        &self.outcomes
    }

    /// Takes everything up to `seq` out of the flight. Packets before `seq` were not in any report.
    fn report_next(&mut self, seq: i64, received: Option<RemoteTime>) -> Option<PacketReport> {
        loop {
            let packet = self.flight.pop_front()?;
            let sent = packet.sent;
            self.flight_bytes -= sent.size.0;
            if sent.transport_seq < seq {
                self.missing.push_back(Missing { packet, reported: false });
                continue;
            }
            if received.is_none() {
                self.missing.push_back(Missing { packet, reported: true });
            }
            if let Some(video) = packet.video {
                self.outcomes.push((video, received.is_some()));
            }
            return Some(PacketReport {
                sent,
                received,
                ecn: None,
                held: None,
                lost_before: false,
            });
        }
    }

    fn report_late(&mut self, seq: i64, received: Option<RemoteTime>) -> Option<PacketReport> {
        let found =
            self.missing.binary_search_by_key(&seq, |missing| missing.packet.sent.transport_seq);
        let index = found.ok()?;
        let Missing { packet, reported } = self.missing.get_mut(index)?;
        let sent = packet.sent;
        let report = PacketReport { sent, received, ecn: None, held: None, lost_before: *reported };
        self.outcomes.extend(packet.video.map(|video| (video, received.is_some())));
        *reported = true;
        if received.is_some() {
            self.missing.remove(index);
        }
        Some(report)
    }

    fn forget(&mut self, now: Time) {
        let old = |packet: &Flying| packet.sent.at.saturating_add(WINDOW) < now;
        while self.missing.front().is_some_and(|missing| old(&missing.packet)) {
            self.missing.pop_front();
        }
        while let Some(packet) = self.flight.front().filter(|packet| old(packet)) {
            self.flight_bytes -= packet.sent.size.0;
            self.flight.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn departure(at: Time) -> Departure {
        let (kind, ecn) = (Kind::Video, Ecn::NotCapable);
        Departure { at, size: Bytes(100), kind, probe: None, ecn, video: None }
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

    /// Ten packets were sent, so that 10 is the first that was not. libwebrtc would take all out of the flight.
    #[test]
    fn a_report_on_packets_that_were_not_sent_changes_nothing() {
        let mut history = ten_sent();
        for base in [10, 11, 32_777, 32_778, 60_000] {
            assert_eq!(report(&mut history, base, &[true]), [], "{base}");
            assert_eq!(history.in_flight(), Bytes(1_000), "{base}");
        }
        assert_eq!(report(&mut history, 9, &[true, true]), [(9, true, false)]);
        assert_eq!(history.in_flight(), Bytes(0));
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
