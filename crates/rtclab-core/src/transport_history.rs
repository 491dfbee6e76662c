//! Packets sent on the transport, kept until feedback reports their arrival, by simulated senders and in replays of
//! event logs.
//!
//! Source: libwebrtc f3ae3eb, `transport_feedback_adapter.cc`.

use crate::cc::{PacketReport, SentPacket};
use crate::packet::{Ecn, Kind};
use crate::rtp::SeqUnwrapper;
use crate::rtp::places::Places;
use crate::rtp::rtcp::{CongestionFeedback, ReportClock};
use crate::stack::FeedbackKind;
use crate::units::{Bytes, RemoteTime, Time};
use std::collections::VecDeque;

/// Packets are dropped after this (kSendTimeHistoryWindow).
const WINDOW: Time = Time::from_secs(60);

/// Number of RTP sequence numbers.
const NUMBERS: i64 = 1 << 16;

/// SSRC and sequence number of a packet, by which feedback of RFC 8888 names it.
pub(crate) type RtpNumber = (u32, u16);

/// A packet that is sent now.
pub(crate) struct Departure<T> {
    /// Transport-wide sequence number, unwrapped. Packets are counted so also where it is not on the wire.
    pub(crate) transport_seq: i64,
    pub(crate) at: Time,
    pub(crate) size: Bytes,
    pub(crate) kind: Kind,
    pub(crate) probe: Option<u32>,
    pub(crate) ecn: Ecn,
    pub(crate) rtp: RtpNumber,
    /// What the sender wants to know again when the packet is reported.
    pub(crate) tag: T,
}

/// A packet whose arrival has not been reported.
#[derive(Clone, Copy)]
struct Unacknowledged<T> {
    sent: SentPacket,
    rtp: RtpNumber,
    tag: T,
    /// Whether a report said that it had not arrived.
    reported: bool,
}

/// An arrival in feedback of RFC 8888.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldArrival {
    /// How long the far end held the packet before it sent the report; `None` if it no longer knows.
    pub(crate) held: Option<Time>,
    /// ECN codepoint on arrival.
    pub(crate) ecn: Ecn,
}

/// What feedback says about a packet.
pub(crate) struct PacketOutcome<T> {
    pub(crate) sent: SentPacket,
    pub(crate) tag: T,
    pub(crate) has_arrived: bool,
    /// Arrival time, if it is known.
    received: Option<RemoteTime>,
    /// ECN codepoint on arrival, if the feedback has a field for it.
    pub(crate) ecn: Option<Ecn>,
    held: Option<Time>,
    /// An earlier report said that it had not arrived.
    pub(crate) lost_before: bool,
}

impl<T> PacketOutcome<T> {
    /// What the control is told; nothing of a packet that arrived at an unknown time.
    fn report(&self) -> Option<PacketReport> {
        let &PacketOutcome { sent, received, ecn, held, lost_before, .. } = self;
        (self.has_arrived == received.is_some()).then_some(PacketReport {
            sent,
            received,
            ecn,
            held,
            lost_before,
        })
    }
}

/// What feedback of RFC 8888 says about each packet that it names.
pub(crate) fn named_packets(
    feedback: &CongestionFeedback,
) -> impl Iterator<Item = (RtpNumber, Option<HeldArrival>)> {
    feedback.streams.iter().flat_map(|stream| {
        stream.arrivals.iter().enumerate().map(|(index, arrival)| {
            let seq = stream.begin_seq.wrapping_add(index as u16);
            let held = arrival.map(|one| HeldArrival { held: one.offset.time(), ecn: one.ecn });
            ((stream.ssrc, seq), held)
        })
    })
}

/// The packets of a stream that are kept, by their RTP sequence numbers.
struct SentNumbers {
    ssrc: u32,
    unwrapper: SeqUnwrapper,
    /// Transport-wide sequence number of the newest packet with each number; `None` if it is not kept.
    packets: Places<i64>,
}

impl SentNumbers {
    fn new(ssrc: u32) -> Self {
        SentNumbers { ssrc, unwrapper: SeqUnwrapper::default(), packets: Places::default() }
    }

    /// Notes that a packet with this number is sent.
    fn note(&mut self, seq: u16, transport_seq: i64) {
        let seq = self.unwrapper.unwrap(seq);
        *self.packets.reach(seq) = Some(transport_seq);
        self.packets.forget_before(self.packets.end() - NUMBERS);
    }

    /// The place of the packet with this number.
    fn place(&mut self, seq: u16) -> Option<&mut Option<i64>> {
        let first = self.packets.first();
        self.packets.get_mut(first + i64::from(seq.wrapping_sub(first as u16)))
    }

    /// Forgets a packet, unless a newer one has its number.
    fn forget(&mut self, seq: u16, transport_seq: i64) {
        if let Some(place) = self.place(seq).filter(|place| **place == Some(transport_seq)) {
            *place = None;
        }
        self.packets.forget_while(|_, place| place.is_none());
    }
}

/// The numbers of a stream, if any of its packets were sent.
fn numbers_of(by_number: &mut [SentNumbers], ssrc: u32) -> Option<&mut SentNumbers> {
    by_number.iter_mut().find(|stream| stream.ssrc == ssrc)
}

/// Packets sent on the transport; `T` is what the sender keeps with each.
pub(crate) struct TransportHistory<T> {
    /// Packets above the highest reported sequence number, in order.
    flight: VecDeque<Unacknowledged<T>>,
    flight_bytes: u64,
    /// Packets below the flight, in order, that may still be reported as late arrivals.
    missing: VecDeque<Unacknowledged<T>>,
    /// Highest sequence number that was sent.
    newest: i64,
    /// Highest sequence number in any report.
    highest_reported: i64,
    /// Packets in the report handled last, in sending order.
    outcomes: Vec<PacketOutcome<T>>,
    /// Transport-wide sequence numbers of the packets that are kept, if feedback names them by their RTP number. A
    /// number that is used again stands for the newer packet.
    by_number: Option<Vec<SentNumbers>>,
    clock: ReportClock,
}

impl<T: Copy> TransportHistory<T> {
    /// Keeps packets for feedback that names them by RTP number, or else by transport-wide sequence number.
    pub(crate) fn new(feedback: FeedbackKind) -> Self {
        TransportHistory {
            flight: VecDeque::new(),
            flight_bytes: 0,
            missing: VecDeque::new(),
            newest: -1,
            highest_reported: i64::MIN,
            outcomes: Vec::new(),
            by_number: (feedback == FeedbackKind::Rfc8888).then(Vec::new),
            clock: ReportClock::default(),
        }
    }

    /// Bytes of packets above the highest sequence number of all feedback.
    pub(crate) fn in_flight(&self) -> Bytes {
        Bytes(self.flight_bytes)
    }

    /// Packets in the report handled last, in sending order.
    pub(crate) fn outcomes(&self) -> &[PacketOutcome<T>] {
        &self.outcomes
    }

    /// What the control is told of the report handled last.
    pub(crate) fn reports(&self) -> impl Iterator<Item = PacketReport> {
        self.outcomes.iter().filter_map(PacketOutcome::report)
    }

    /// Records that a packet was sent.
    pub(crate) fn sent(&mut self, departure: Departure<T>) -> SentPacket {
        let Departure { transport_seq, at, size, kind, probe, ecn, rtp, tag } = departure;
        self.forget(at);
        self.newest = self.newest.max(transport_seq);
        let is_flying = transport_seq > self.highest_reported;
        let list = if is_flying { &mut self.flight } else { &mut self.missing };
        let index = match list.back().is_none_or(|last| last.sent.transport_seq < transport_seq) {
            true => list.len(),
            false => list.partition_point(|other| other.sent.transport_seq < transport_seq),
        };
        self.flight_bytes += if is_flying { size.0 } else { 0 };
        let in_flight = Bytes(self.flight_bytes);
        let sent = SentPacket { transport_seq, at, size, kind, probe, in_flight, ecn };
        list.insert(index, Unacknowledged { sent, rtp, tag, reported: false });
        if let Some(by_number) = &mut self.by_number {
            let (ssrc, seq) = rtp;
            if numbers_of(by_number, ssrc).is_none() {
                by_number.push(SentNumbers::new(ssrc));
            }
            if let Some(stream) = numbers_of(by_number, ssrc) {
                stream.note(seq, transport_seq);
            }
        }
        sent
    }

    /// Takes transport-wide feedback: sequence numbers on the wire, and when the packets arrived. Packets that are no
    /// longer kept have no outcome.
    pub(crate) fn acknowledge(
        &mut self,
        feedback: impl Iterator<Item = (u16, Option<RemoteTime>)>,
    ) {
        self.outcomes.clear();
        if self.by_number.is_some() {
            // Packets have no number that it could be about.
            return;
        }
        for (seq, received) in feedback {
            let seq = self.whole(seq);
            self.cover(seq);
            let found = self.missing.binary_search_by_key(&seq, |packet| packet.sent.transport_seq);
            let Ok(index) = found else { continue };
            let packet = &mut self.missing[index];
            let &mut Unacknowledged { sent, tag, reported: lost_before, .. } = packet;
            packet.reported = true;
            let has_arrived = received.is_some();
            let (ecn, held) = (None, None);
            self.outcomes.push(PacketOutcome {
                sent,
                tag,
                has_arrived,
                received,
                ecn,
                held,
                lost_before,
            });
            if has_arrived {
                self.missing.remove(index);
            }
        }
    }

    /// Takes feedback of RFC 8888: its timestamp, and the packets that it names. A packet sent between the first and the
    /// last of these that it does not name was lost.
    ///
    /// Everything up to the last one leaves the flight. What a lost report was about is therefore neither received nor
    /// lost, unless the packets of a later one were sent around it.
    pub(crate) fn acknowledge_by_number(
        &mut self,
        now: Time,
        report_timestamp: u32,
        entries: impl Iterator<Item = (RtpNumber, Option<HeldArrival>)>,
    ) {
        self.outcomes.clear();
        let report_time = self.clock.advance(now, report_timestamp);
        let mut entries = self.named(entries);
        let (Some(&(first, _)), Some(&(last, _))) = (entries.first(), entries.last()) else {
            return;
        };
        self.cover(last);
        let start = self.missing.partition_point(|packet| packet.sent.transport_seq < first);
        let mut entries = entries.drain(..).peekable();
        for packet in self.missing.split_off(start) {
            let Unacknowledged { sent, tag, reported: lost_before, .. } = packet;
            let seq = sent.transport_seq;
            let named = entries.next_if(|entry| entry.0 == seq).map(|(_, arrival)| arrival);
            let arrival = named.flatten();
            // A loss that follows from the packets around it is reported once.
            let is_reported = arrival.is_some() || seq <= last && (named.is_some() || !lost_before);
            if is_reported {
                let held = arrival.and_then(|arrival| arrival.held);
                self.outcomes.push(PacketOutcome {
                    sent,
                    tag,
                    has_arrived: arrival.is_some(),
                    received: held.map(|held| RemoteTime(report_time.saturating_sub(held))),
                    ecn: arrival.map(|arrival| arrival.ecn),
                    held,
                    lost_before,
                });
            }
            match arrival {
                Some(_) => self.unlist(&packet),
                None => {
                    let reported = lost_before || is_reported;
                    self.missing.push_back(Unacknowledged { reported, ..packet });
                }
            }
        }
    }

    /// The packets that the feedback names, in sending order; of several entries about one packet the first.
    fn named(
        &mut self,
        entries: impl Iterator<Item = (RtpNumber, Option<HeldArrival>)>,
    ) -> Vec<(i64, Option<HeldArrival>)> {
        let Some(by_number) = &mut self.by_number else { return Vec::new() };
        let mut known = |((ssrc, seq), arrival): (RtpNumber, _)| {
            let transport_seq = (*numbers_of(by_number, ssrc)?.place(seq)?)?;
            Some((transport_seq, arrival))
        };
        let mut named: Vec<_> = entries.filter_map(&mut known).collect();
        named.sort_by_key(|entry| entry.0);
        named.dedup_by_key(|entry| entry.0);
        named
    }

    /// Takes everything up to `seq` out of the flight.
    fn cover(&mut self, seq: i64) {
        while let Some(packet) = pop_if(&mut self.flight, |p| p.sent.transport_seq <= seq) {
            self.flight_bytes -= packet.sent.size.0;
            self.missing.push_back(packet);
        }
        self.highest_reported = self.highest_reported.max(seq);
    }

    /// Forgets the number of a packet, unless a newer packet has it.
    fn unlist(&mut self, packet: &Unacknowledged<T>) {
        let (ssrc, seq) = packet.rtp;
        let by_number = self.by_number.as_mut();
        if let Some(stream) = by_number.and_then(|by_number| numbers_of(by_number, ssrc)) {
            stream.forget(seq, packet.sent.transport_seq);
        }
    }

    /// The newest packet with this number on the wire. So a report on a packet that was never sent is one on a packet that
    /// was sent long ago, and finds nothing. libwebrtc continues from the highest number that was reported.
    fn whole(&self, seq: u16) -> i64 {
        self.newest - i64::from((self.newest as u16).wrapping_sub(seq))
    }

    fn forget(&mut self, now: Time) {
        let old = |packet: &Unacknowledged<T>| packet.sent.at.saturating_add(WINDOW) < now;
        while let Some(packet) = pop_if(&mut self.missing, old) {
            self.unlist(&packet);
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
    use crate::rtp::rtcp::{ArrivalOffset, CcfbArrival, StreamArrivals};

    /// A packet of 100 B; its tag is its SSRC.
    fn departure(transport_seq: i64, at: Time, rtp: RtpNumber, ecn: Ecn) -> Departure<u32> {
        let (size, kind, probe) = (Bytes(100), Kind::Video, None);
        Departure { transport_seq, at, size, kind, probe, ecn, rtp, tag: rtp.0 }
    }

    fn plain(transport_seq: i64, at: Time) -> Departure<u32> {
        departure(transport_seq, at, (VIDEO, 0), Ecn::NotCapable)
    }

    /// Sends ten packets at time zero.
    fn ten_sent() -> TransportHistory<u32> {
        let mut history = TransportHistory::new(FeedbackKind::TransportWide);
        for seq in 0..10 {
            history.sent(plain(seq, Time::ZERO));
        }
        history
    }

    /// Reports on packets from `base` on, `true` for those that arrived. Returns sequence numbers, whether
    /// each arrived, and whether it had been reported as lost before.
    fn report(
        history: &mut TransportHistory<u32>,
        base: u16,
        arrived: &[bool],
    ) -> Vec<(i64, bool, bool)> {
        let arrival = |arrived: &bool| arrived.then_some(RemoteTime(Time::ZERO));
        history.acknowledge((base..).zip(arrived.iter().map(arrival)));
        let reports: Vec<_> = history.reports().collect();
        seen(&reports)
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
        history.sent(plain(10, WINDOW));
        assert_eq!(history.in_flight(), Bytes(1_100));
        history.sent(plain(11, WINDOW + Time(1)));
        assert_eq!(history.in_flight(), Bytes(200));
    }

    #[test]
    fn one_unrepaired_loss_keeps_one_packet_and_not_all_that_follow_it() {
        let mut history = TransportHistory::new(FeedbackKind::TransportWide);
        for seq in 0..5_000u16 {
            history.sent(plain(i64::from(seq), Time::from_millis(u64::from(seq))));
            report(&mut history, seq, &[seq != 10]);
        }
        assert_eq!((history.missing.len(), history.flight.len()), (1, 0));
    }

    const VIDEO: u32 = 7;
    const AUDIO: u32 = 8;

    /// Ten packets, video and audio in turns, with the RTP numbers 100 to 104 of each stream.
    fn by_number() -> TransportHistory<u32> {
        let mut history = TransportHistory::new(FeedbackKind::Rfc8888);
        for number in 0..10_u16 {
            let ssrc = if number % 2 == 0 { VIDEO } else { AUDIO };
            let rtp = (ssrc, 100 + number / 2);
            history.sent(departure(i64::from(number), Time::ZERO, rtp, Ecn::Ect1));
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
        history: &mut TransportHistory<u32>,
        now: Time,
        feedback: &CongestionFeedback,
    ) -> Vec<PacketReport> {
        history.acknowledge_by_number(now, feedback.report_timestamp, named_packets(feedback));
        history.reports().collect()
    }

    fn outcome(outcome: &PacketOutcome<u32>) -> (i64, bool) {
        (outcome.sent.transport_seq, outcome.has_arrived)
    }

    /// Sequence numbers, whether each arrived, and whether it had been reported as lost before.
    fn seen(reports: &[PacketReport]) -> Vec<(i64, bool, bool)> {
        let of = |r: &PacketReport| (r.sent.transport_seq, r.received.is_some(), r.lost_before);
        reports.iter().map(of).collect()
    }

    /// A report on video, `true` for packets that arrived.
    fn on_video(
        history: &mut TransportHistory<u32>,
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
            history.sent(departure(i64::from(seq), at(ms), (VIDEO, seq), Ecn::Ect1));
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
        let outcomes: Vec<_> = history.outcomes().iter().map(outcome).collect();
        assert_eq!(outcomes, [(2, true), (3, false), (4, false), (5, false), (6, true)]);
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
            let outcomes: Vec<_> = history.outcomes().iter().map(outcome).collect();
            assert_eq!(outcomes, [(0, true)]);
            assert_eq!(on_video(&mut history, 100, &[false, true]), [(2, true, false)]);
        }
    }

    /// The number 100 comes again after 65,536 packets; the first packet that had it was lost.
    #[test]
    fn numbers_are_used_again_and_none_is_kept_for_ever() {
        let mut history = TransportHistory::new(FeedbackKind::Rfc8888);
        for seq in 0..200_000_u32 {
            let at = Time::from_micros(u64::from(seq));
            history.sent(departure(i64::from(seq), at, (VIDEO, seq as u16), Ecn::Ect1));
            if seq != 100 {
                on_video(&mut history, seq as u16, &[true]);
            }
        }
        assert_eq!((history.missing.len(), history.flight.len()), (1, 0));
        let places = |history: &TransportHistory<u32>| {
            history
                .by_number
                .iter()
                .flatten()
                .map(|stream| stream.packets.end() - stream.packets.first())
                .sum::<i64>()
        };
        assert_eq!(places(&history), 0);
        let late = WINDOW + Time::from_secs(1);
        history.sent(departure(200_000, late, (VIDEO, 200_000_u32 as u16), Ecn::Ect1));
        assert_eq!((history.missing.len(), history.flight.len()), (0, 1));
        assert_eq!(places(&history), 1);
    }
}
