//! Packets sent on the transport, kept until feedback reports their arrival.

use crate::cc::{PacketReport, SentPacket};
use crate::packet::{Ecn, Kind};
use crate::rtp::rtcp::{CcfbArrival, CongestionFeedback, ReportClock, TransportFeedback};
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
        while let Some(packet) = pop_if(&mut self.flight, |p| p.sent.transport_seq <= last) {
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
        while let Some(missing) = pop_if(&mut self.missing, |missing| old(&missing.packet)) {
            self.unlist(&missing.packet);
        }
        while let Some(packet) = pop_if(&mut self.flight, old) {
            self.flight_bytes -= packet.sent.size.0;
            self.unlist(&packet);
        }
    }
}

/// Takes the first item if it is like this.
fn pop_if<T>(items: &mut VecDeque<T>, is_like: impl Fn(&T) -> bool) -> Option<T> {
    items.front().is_some_and(is_like).then(|| items.pop_front()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtp::rtcp::{ArrivalOffset, StreamArrivals};

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

    /// A packet of video, of 100 B.
    fn numbered(at: Time, rtp: RtpNumber, ecn: Ecn) -> Departure {
        let stream = u8::from(rtp.0 != VIDEO);
        let video = VideoPacket { stream, seq: rtp.1, retransmission: false };
        Departure { ecn, stream, rtp, video: Some(video), ..departure(at) }
    }

    const VIDEO: u32 = 7;
    const AUDIO: u32 = 8;

    /// Ten packets, video and audio in turns, with the RTP numbers 100 to 104 of each stream.
    fn by_number() -> TransportHistory {
        let mut history = TransportHistory::new(FeedbackKind::Rfc8888);
        for number in 0..10_u16 {
            let ssrc = if number % 2 == 0 { VIDEO } else { AUDIO };
            history.sent(&numbered(Time::ZERO, (ssrc, 100 + number / 2), Ecn::Ect1));
        }
        history
    }

    fn arrival(ecn: Ecn, held: Time) -> Option<CcfbArrival> {
        Some(CcfbArrival { ecn, offset: ArrivalOffset::from_time(held) })
    }

    /// A report at this timestamp on the packets of one stream from `begin_seq` on.
    fn report_of(
        report_timestamp: u32,
        ssrc: u32,
        begin_seq: u16,
        arrivals: Vec<Option<CcfbArrival>>,
    ) -> CongestionFeedback {
        let streams = vec![StreamArrivals { ssrc, begin_seq, arrivals }];
        CongestionFeedback { sender_ssrc: 1, streams, report_timestamp }
    }

    fn acknowledged(
        history: &mut TransportHistory,
        now: Time,
        feedback: &CongestionFeedback,
    ) -> Vec<PacketReport> {
        let mut reports = Vec::new();
        history.acknowledge_by_number(now, feedback, &mut reports);
        reports
    }

    /// Sequence numbers, whether each arrived, and whether it had been reported as lost before.
    fn seen(reports: &[PacketReport]) -> Vec<(i64, bool, bool)> {
        let of = |r: &PacketReport| (r.sent.transport_seq, r.received.is_some(), r.lost_before);
        reports.iter().map(of).collect()
    }

    /// A report on video, `true` for packets that arrived.
    fn on_video(
        history: &mut TransportHistory,
        begin: u16,
        arrived: &[bool],
    ) -> Vec<(i64, bool, bool)> {
        let one = |arrived: &bool| arrived.then(|| arrival(Ecn::Ect1, Time::ZERO)).flatten();
        let arrivals = arrived.iter().map(one).collect();
        let feedback = report_of(0, VIDEO, begin, arrivals);
        seen(&acknowledged(history, Time::from_secs(1), &feedback))
    }

    /// Packets sent at 900 and 910 ms, held for 100 and 80 ms, which are 102.4 and 81.92 units: the report that arrives at
    /// 1050 ms says 102 and 81, so 99.609 and 79.102 ms. On the sender's base they arrived at 950.391 and 970.898 ms, after
    /// 50.391 and 60.898 ms. The second report was made 6553 ticks of 1/65536 s, 99.991 ms, after the first one.
    #[test]
    fn arrivals_are_on_the_senders_base_and_as_far_apart_as_at_the_far_end() {
        let at = Time::from_millis;
        let mut history = TransportHistory::new(FeedbackKind::Rfc8888);
        for (ms, seq) in [(900, 1), (910, 2), (1_000, 3)] {
            history.sent(&numbered(at(ms), (VIDEO, seq), Ecn::Ect1));
        }
        let first = vec![arrival(Ecn::Ect1, at(100)), arrival(Ecn::CongestionExperienced, at(80))];
        let first = report_of(5_000, VIDEO, 1, first);
        let reports = acknowledged(&mut history, at(1_050), &first);
        let micros = |time: Option<Time>| time.expect("a time").as_micros();
        let of = |r: &PacketReport| (micros(r.received.map(|at| at.0)), micros(r.held), r.ecn);
        let expected = [
            (950_390, 99_609, Some(Ecn::Ect1)),
            (970_898, 79_101, Some(Ecn::CongestionExperienced)),
        ];
        assert_eq!(reports.iter().map(of).collect::<Vec<_>>(), expected);
        // It took 200 ms longer than the first one, which is no delay of the packet.
        let second = report_of(5_000 + 6_553, VIDEO, 3, vec![arrival(Ecn::Ect1, Time::ZERO)]);
        let reports = acknowledged(&mut history, at(1_350), &second);
        assert_eq!(reports.iter().map(of).collect::<Vec<_>>(), [(1_149_990, 0, Some(Ecn::Ect1))]);
    }

    #[test]
    fn the_packets_of_a_lost_report_leave_the_flight_and_nothing_is_said_about_them() {
        let mut history = by_number();
        // The report on 100 to 102 of both streams is lost. The next one is on 103, number 6 in order.
        assert_eq!(on_video(&mut history, 103, &[true]), [(6, true, false)]);
        assert_eq!(history.in_flight(), Bytes(300));
        assert_eq!(history.reported(0), Some(Reported::default()));
        // A report that repeats them, because one of them is late, makes up for it.
        assert_eq!(
            on_video(&mut history, 101, &[true, true, true]),
            [(2, true, false), (3, false, false), (4, true, false)]
        );
    }

    /// Video 101 and 103 are the packets 2 and 6; the report does not name 3 and 5 of audio, and says that 4 was lost.
    #[test]
    fn packets_between_those_of_a_report_were_lost_once() {
        let mut history = by_number();
        let lost = |seq| (seq, false, false);
        let first = on_video(&mut history, 101, &[true, false, true]);
        assert_eq!(first, [(2, true, false), lost(3), lost(4), lost(5), (6, true, false)]);
        let outcomes: Vec<_> = history.outcomes().iter().map(|(p, ok)| (p.seq, *ok)).collect();
        assert_eq!(outcomes, [(101, true), (101, false), (102, false), (102, false), (103, true)]);
        assert_eq!(history.reported(0).expect("totals").lost, 1);
        assert_eq!(history.reported(1).expect("totals").lost, 2);
        // Of the packets around it only those count that are not known to have arrived.
        assert_eq!(
            on_video(&mut history, 100, &[true, true, false]),
            [(0, true, false), lost(1), (4, false, true)]
        );
        let audio = vec![arrival(Ecn::Ect1, Time::ZERO), None];
        let late = report_of(0, AUDIO, 101, audio);
        assert_eq!(
            seen(&acknowledged(&mut history, Time::from_secs(1), &late)),
            [(3, true, true), (5, false, true)]
        );
        let expected = Reported { lost: 3, recovered: 1, bleached: 0 };
        assert_eq!(history.reported(1), Some(expected));
        assert_eq!(history.in_flight(), Bytes(300));
    }

    #[test]
    fn a_packet_is_reported_as_received_once_whatever_reports_repeat_or_contradict() {
        let mut history = by_number();
        assert_eq!(on_video(&mut history, 100, &[true]), [(0, true, false)]);
        assert_eq!(on_video(&mut history, 100, &[true]), []);
        assert_eq!(on_video(&mut history, 100, &[false]), []);
        // Of two entries about a packet the first one counts.
        let mut twice = report_of(0, VIDEO, 101, vec![None]);
        let again = report_of(0, VIDEO, 101, vec![arrival(Ecn::Ect1, Time::ZERO)]);
        twice.streams.extend(again.streams);
        let reports = acknowledged(&mut history, Time::from_secs(1), &twice);
        assert_eq!(seen(&reports), [(2, false, false)]);
    }

    #[test]
    fn nothing_follows_from_packets_that_were_not_sent_or_streams_that_do_not_exist() {
        let mut history = by_number();
        let all = vec![arrival(Ecn::Ect1, Time::ZERO); 1 << 14];
        for (ssrc, begin) in [(VIDEO, 105), (VIDEO, 105 + (1 << 14)), (9, 100), (AUDIO, 32_868)] {
            let reports =
                acknowledged(&mut history, Time::ZERO, &report_of(0, ssrc, begin, all.clone()));
            assert_eq!(seen(&reports), [], "{ssrc} {begin}");
        }
        assert_eq!(history.in_flight(), Bytes(1_000));
        assert_eq!(on_video(&mut history, 104, &[true, true]), [(8, true, false)]);
    }

    /// Its time is unknown or more than eight seconds ago (RFC 8888, section 3.1), so it tells the control nothing, but it is
    /// neither lost nor sent again.
    #[test]
    fn a_packet_that_arrived_at_an_unknown_time_is_only_forgotten() {
        for offset in [ArrivalOffset::UNAVAILABLE, ArrivalOffset::OVER_RANGE] {
            let mut history = by_number();
            let arrivals = vec![Some(CcfbArrival { ecn: Ecn::Ect1, offset })];
            let reports =
                acknowledged(&mut history, Time::ZERO, &report_of(0, VIDEO, 100, arrivals));
            assert_eq!((seen(&reports), history.in_flight()), (vec![], Bytes(900)));
            let outcomes: Vec<_> = history.outcomes().iter().map(|(p, ok)| (p.seq, *ok)).collect();
            assert_eq!(outcomes, [(100, true)]);
            assert_eq!(on_video(&mut history, 100, &[false, true]), [(2, true, false)]);
        }
    }

    #[test]
    fn packets_that_left_as_ect1_and_arrived_without_a_codepoint_are_counted() {
        let mut history = TransportHistory::new(FeedbackKind::Rfc8888);
        for (seq, ecn) in [(0, Ecn::Ect1), (1, Ecn::Ect1), (2, Ecn::NotCapable)] {
            history.sent(&numbered(Time::ZERO, (VIDEO, seq), ecn));
        }
        let bleached = arrival(Ecn::NotCapable, Time::ZERO);
        let arrivals = vec![bleached, arrival(Ecn::Ect1, Time::ZERO), bleached];
        acknowledged(&mut history, Time::ZERO, &report_of(0, VIDEO, 0, arrivals));
        assert_eq!(history.reported(0).expect("totals").bleached, 1);
    }

    /// The number 100 comes again after 65,536 packets; the first packet that had it was lost.
    #[test]
    fn numbers_are_used_again_and_none_is_kept_for_ever() {
        let mut history = TransportHistory::new(FeedbackKind::Rfc8888);
        for seq in 0..200_000_u32 {
            let at = Time::from_micros(u64::from(seq));
            history.sent(&numbered(at, (VIDEO, seq as u16), Ecn::Ect1));
            if seq != 100 {
                on_video(&mut history, seq as u16, &[true]);
            }
        }
        assert_eq!((history.missing.len(), history.flight.len()), (1, 0));
        assert_eq!(history.by_number.as_ref().map(HashMap::len), Some(0));
        history.sent(&numbered(WINDOW + Time::from_secs(1), (VIDEO, 1), Ecn::Ect1));
        assert_eq!((history.missing.len(), history.flight.len()), (0, 1));
        assert_eq!(history.by_number.as_ref().map(HashMap::len), Some(1));
    }
}
