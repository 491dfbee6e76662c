//! Packets sent on the transport, kept until feedback reports their arrival.

use super::report_clock::ReportClock;
use crate::cc::{PacketReport, SentPacket};
use crate::packet::{Ecn, Kind};
use crate::rtp::rtcp::{CcfbArrival, CongestionFeedback, TransportFeedback};
use crate::stack::FeedbackKind;
use crate::units::{Bytes, RemoteTime, Time};
use std::collections::{HashMap, VecDeque};

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
    stream: u8,
    rtp: RtpNumber,
    video: Option<VideoPacket>,
}

/// A packet that is no longer in flight, and whose arrival has not been reported.
struct Missing {
    packet: Flying,
    /// Whether a report said that it had not arrived; otherwise no report has covered it.
    reported: bool,
}

impl Missing {
    fn seq(&self) -> i64 {
        self.packet.sent.transport_seq
    }
}

/// SSRC and sequence number of a packet, by which feedback of RFC 8888 names it.
pub(super) type RtpNumber = (u32, u16);

/// Totals of a stream's packets in feedback of RFC 8888.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::endpoint) struct Reported {
    /// Packets reported as lost, each once.
    pub(in crate::endpoint) lost: u64,
    /// Of these, packets that were reported as received later.
    pub(in crate::endpoint) recovered: u64,
    /// Packets that left as ECT(1) and arrived as Not-ECT.
    pub(in crate::endpoint) bleached: u64,
}

pub(super) struct TransportHistory {
    /// Packets above the highest reported sequence number, without gaps.
    flight: VecDeque<Flying>,
    flight_bytes: u64,
    /// Packets below the flight, in order, that may still be reported as late arrivals.
    missing: VecDeque<Missing>,
    /// Video packets in the report handled last, in order, and whether they arrived.
    outcomes: Vec<(VideoPacket, bool)>,
    next_seq: i64,
    /// Transport-wide sequence numbers of the packets that are kept, if feedback names them by their RTP number. A
    /// number that is used again stands for the newer packet.
    by_number: Option<HashMap<RtpNumber, i64>>,
    clock: ReportClock,
    /// By stream.
    reported: Vec<Reported>,
}

/// A packet that is sent now.
pub(super) struct Departure {
    pub(super) at: Time,
    pub(super) size: Bytes,
    pub(super) kind: Kind,
    pub(super) probe: Option<u32>,
    pub(super) ecn: Ecn,
    /// Index of its stream.
    pub(super) stream: u8,
    pub(super) rtp: RtpNumber,
    /// `None` for audio, FEC and padding.
    pub(super) video: Option<VideoPacket>,
}

impl TransportHistory {
    /// Keeps packets for feedback that names them by RTP number, or else by transport-wide sequence number.
    pub(super) fn new(feedback: FeedbackKind) -> Self {
        TransportHistory {
            flight: VecDeque::new(),
            flight_bytes: 0,
            missing: VecDeque::new(),
            outcomes: Vec::new(),
            next_seq: 0,
            by_number: (feedback == FeedbackKind::Rfc8888).then(HashMap::new),
            clock: ReportClock::default(),
            reported: Vec::new(),
        }
    }

    /// Totals of a stream in feedback; `None` without RFC 8888.
    pub(super) fn reported(&self, stream: usize) -> Option<Reported> {
        self.by_number.as_ref()?;
        Some(self.reported.get(stream).copied().unwrap_or_default())
    }

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
        let &Departure { at, size, kind, probe, ecn, stream, rtp, video } = departure;
        self.forget(at);
        self.flight_bytes += size.0;
        let in_flight = self.in_flight();
        let transport_seq = self.next_seq;
        let sent = SentPacket { transport_seq, at, size, kind, probe, in_flight, ecn };
        self.next_seq += 1;
        self.flight.push_back(Flying { sent, stream, rtp, video });
        if let Some(by_number) = &mut self.by_number {
            by_number.insert(rtp, transport_seq);
        }
        sent
    }

    /// Adds a report for each packet in the feedback that the history still has, in sending order.
    pub(super) fn acknowledge(
        &mut self,
        feedback: &TransportFeedback,
        out: &mut Vec<PacketReport>,
    ) {
        self.outcomes.clear();
        if self.by_number.is_some() {
            // Packets have no number that it could be about.
            return;
        }
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

    /// Adds a report for each packet in the feedback that the history still has, in sending order, and for each packet
    /// sent between the first and the last of these that the feedback does not name: it was lost.
    ///
    /// Everything up to the last one leaves the flight. What a lost report was about is therefore neither received nor
    /// lost, unless the packets of a later one were sent around it. Source: libwebrtc f3ae3eb,
    /// `transport_feedback_adapter.cc`.
    pub(super) fn acknowledge_by_number(
        &mut self,
        now: Time,
        feedback: &CongestionFeedback,
        out: &mut Vec<PacketReport>,
    ) {
        self.outcomes.clear();
        let report_time = self.clock.advance(now, feedback.report_timestamp);
        let mut entries = self.named(feedback);
        let (Some(&(first, _)), Some(&(last, _))) = (entries.first(), entries.last()) else {
            return;
        };
        while let Some(packet) = self.flight.pop_front_if(|p| p.sent.transport_seq <= last) {
            self.flight_bytes -= packet.sent.size.0;
            self.missing.push_back(Missing { packet, reported: false });
        }
        let start = self.missing.partition_point(|missing| missing.seq() < first);
        let mut entries = entries.drain(..).peekable();
        for missing in self.missing.split_off(start) {
            let seq = missing.seq();
            let named = entries.next_if(|entry| entry.0 == seq).map(|(_, arrival)| arrival);
            let kept = match named.flatten() {
                Some(arrival) => {
                    out.extend(self.arrived(&missing, arrival, report_time));
                    None
                }
                // A loss that follows from the packets around it is reported once.
                None if seq > last || named.is_none() && missing.reported => Some(missing),
                None => {
                    out.push(self.lost(&missing));
                    Some(Missing { reported: true, ..missing })
                }
            };
            self.missing.extend(kept);
        }
    }

    /// The packets that the feedback names, in sending order; of several entries about one packet the first.
    fn named(&self, feedback: &CongestionFeedback) -> Vec<(i64, Option<CcfbArrival>)> {
        let Some(by_number) = &self.by_number else { return Vec::new() };
        let mut named = Vec::new();
        for stream in &feedback.streams {
            for (index, arrival) in stream.arrivals.iter().enumerate() {
                let seq = stream.begin_seq.wrapping_add(index as u16);
                let known = by_number.get(&(stream.ssrc, seq));
                named.extend(known.map(|transport_seq| (*transport_seq, *arrival)));
            }
        }
        named.sort_by_key(|entry| entry.0);
        named.dedup_by_key(|entry| entry.0);
        named
    }

    /// Forgets a packet that has arrived; returns its report, unless the far end no longer knows the time.
    fn arrived(
        &mut self,
        missing: &Missing,
        arrival: CcfbArrival,
        report_time: Time,
    ) -> Option<PacketReport> {
        let &Missing { packet: Flying { sent, stream, video, .. }, reported: lost_before } =
            missing;
        self.unlist(&missing.packet);
        self.outcomes.extend(video.map(|video| (video, true)));
        let totals = self.totals(stream);
        totals.recovered += u64::from(lost_before);
        let is_bleached = sent.ecn == Ecn::Ect1 && arrival.ecn == Ecn::NotCapable;
        totals.bleached += u64::from(is_bleached);
        let held = arrival.offset.time();
        let received = RemoteTime(report_time.saturating_sub(held?));
        let (received, ecn) = (Some(received), Some(arrival.ecn));
        Some(PacketReport { sent, received, ecn, held, lost_before })
    }

    fn lost(&mut self, missing: &Missing) -> PacketReport {
        let &Missing { packet: Flying { sent, stream, video, .. }, reported: lost_before } =
            missing;
        self.outcomes.extend(video.map(|video| (video, false)));
        self.totals(stream).lost += u64::from(!lost_before);
        PacketReport { sent, received: None, ecn: None, held: None, lost_before }
    }

    fn totals(&mut self, stream: u8) -> &mut Reported {
        let index = usize::from(stream);
        if self.reported.len() <= index {
            self.reported.resize(index + 1, Reported::default());
        }
        &mut self.reported[index]
    }

    /// Forgets the number of a packet, unless a newer packet has it.
    fn unlist(&mut self, packet: &Flying) {
        let Some(by_number) = &mut self.by_number else { return };
        if by_number.get(&packet.rtp) == Some(&packet.sent.transport_seq) {
            by_number.remove(&packet.rtp);
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
        while let Some(missing) = self.missing.pop_front_if(|missing| old(&missing.packet)) {
            self.unlist(&missing.packet);
        }
        while let Some(packet) = self.flight.pop_front_if(|packet| old(packet)) {
            self.flight_bytes -= packet.sent.size.0;
            self.unlist(&packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn departure(at: Time) -> Departure {
        let (kind, ecn) = (Kind::Video, Ecn::NotCapable);
        let (size, probe, stream, rtp) = (Bytes(100), None, 0, (7, 0));
        Departure { at, size, kind, probe, ecn, stream, rtp, video: None }
    }

    /// Sends ten packets at time zero.
    fn ten_sent() -> TransportHistory {
        let mut history = TransportHistory::new(FeedbackKind::TransportWide);
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
        let mut history = TransportHistory::new(FeedbackKind::TransportWide);
        for seq in 0..5_000u16 {
            history.sent(&departure(Time::from_millis(u64::from(seq))));
            report(&mut history, seq, &[seq != 10]);
        }
        assert_eq!((history.missing.len(), history.flight.len()), (1, 0));
    }
}
