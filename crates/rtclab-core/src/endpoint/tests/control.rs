//! What an endpoint tells its congestion control, and what it does with the decision.

use super::*;
use crate::cc::{Controller, Feedback, Probe, SentPacket};
use crate::packet::{Ecn, SRTP_BYTES};
use crate::units::Bytes;

/// What a congestion control was told.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Seen {
    Sent(SentPacket),
    /// Transport-wide sequence numbers that arrived and that did not, and bytes in flight afterwards.
    Packets {
        arrived: Vec<i64>,
        missing: Vec<i64>,
        in_flight: Bytes,
        resolution: Time,
    },
    Report {
        lost: u64,
        expected: u64,
    },
    Remb(Bitrate),
}

/// A sender half that always makes the same decision and records what it is told.
pub(super) struct Control {
    pub(super) decision: Decision,
    pub(super) seen: Arc<Mutex<Vec<Seen>>>,
    /// It fails when it is told of a packet sent at this time or later.
    pub(super) fails_at: Time,
}

impl Control {
    pub(super) fn at(kbps: u64) -> Self {
        let decision = Decision::at(Bitrate::from_kbps(kbps));
        Control { decision, seen: Arc::default(), fails_at: Time::MAX }
    }

    fn note(&self, seen: Seen) {
        self.seen.lock().expect("no poison").push(seen);
    }
}

impl Controller for Control {
    fn on_sent(&mut self, packet: &SentPacket) -> Result<(), ControlError> {
        self.note(Seen::Sent(*packet));
        match packet.at >= self.fails_at {
            true => Err(ControlError("no more".to_owned())),
            false => Ok(()),
        }
    }

    fn on_feedback(&mut self, _now: Time, feedback: Feedback<'_>) -> Result<(), ControlError> {
        self.note(match feedback {
            Feedback::Packets { reports, in_flight, resolution } => {
                let (arrived, missing): (Vec<_>, Vec<_>) =
                    reports.iter().partition(|report| report.received.is_some());
                let seqs = |reports: Vec<crate::cc::PacketReport>| {
                    reports.iter().map(|report| report.sent.transport_seq).collect()
                };
                let (arrived, missing) = (seqs(arrived), seqs(missing));
                Seen::Packets { arrived, missing, in_flight, resolution }
            }
            Feedback::ReceiverReport { lost, expected, .. } => Seen::Report { lost, expected },
            Feedback::Remb(rate) => Seen::Remb(rate),
        });
        Ok(())
    }

    fn decision(&self) -> Decision {
        self.decision
    }
}

/// Alice sends video and audio under this control; bob sends nothing.
fn call(name: &str, control: Control) -> Pair {
    let streams = [vec![video(ALICE_VIDEO, Repair::Rtx), audio(1_003)], vec![]];
    Pair::with(name, streams, [(Box::new(control), None), fixed(500)])
}

fn seen_in(pair: &mut Pair, seen: &Arc<Mutex<Vec<Seen>>>, until: Time) -> Vec<Seen> {
    pair.run(until);
    seen.lock().expect("no poison").clone()
}

/// A sender half that decides anew when its tenth packet leaves, and wants one probe then. It has no timers.
struct Switching {
    sent: Vec<SentPacket>,
    probes: Vec<Probe>,
    first: Decision,
    then: Decision,
    /// Packets that belonged to a probe.
    probing: Arc<Mutex<Vec<SentPacket>>>,
}

const SWITCHES_AFTER: usize = 10;

impl Controller for Switching {
    fn on_sent(&mut self, packet: &SentPacket) -> Result<(), ControlError> {
        self.sent.push(*packet);
        if packet.probe.is_some() {
            self.probing.lock().expect("no poison").push(*packet);
        }
        Ok(())
    }
    fn on_feedback(&mut self, _now: Time, _feedback: Feedback<'_>) -> Result<(), ControlError> {
        Ok(())
    }
    fn poll_probe(&mut self) -> Option<Probe> {
        if self.sent.len() < SWITCHES_AFTER { None } else { self.probes.pop() }
    }
    fn decision(&self) -> Decision {
        if self.sent.len() < SWITCHES_AFTER { self.first } else { self.then }
    }
}

/// No feedback comes back and the control has no timers, so what it decides when a packet leaves is applied then or
/// never.
#[test]
fn everything_that_a_control_decides_when_a_packet_leaves_is_applied_at_once() {
    let probe = Probe {
        id: 5,
        rate: Bitrate::from_kbps(2_000),
        min_packets: 5,
        min_bytes: Bytes(3_750),
        min_spacing: Time::from_millis(2),
    };
    let rate = Bitrate::from_kbps;
    let first = Decision::at(rate(100));
    let then = Decision { pacing_rate: Some(rate(1_500)), ..Decision::at(rate(600)) };
    let sent_from_two_to_twelve = |then: Decision| {
        let (sent, probes) = (Vec::new(), vec![probe]);
        let probing = Arc::default();
        let told = Arc::clone(&probing);
        let control = Switching { sent, probes, first, then, probing };
        let streams = [vec![video(ALICE_VIDEO, Repair::Rtx)], vec![]];
        let halves = (Box::new(control) as Box<dyn Controller>, None);
        let mut pair = Pair::with("chrome-52", streams, [halves, fixed(500)]);
        pair.lose(BOB, |sent| !sent.rtcp().is_empty());
        pair.run(Time::from_secs(12));
        let packets = || pair.sent_by(ALICE).filter(|sent| sent.rtp().is_some());
        let switched = packets().nth(SWITCHES_AFTER - 1).expect("ten packets").at;
        let probing: Vec<SentPacket> = told.lock().expect("no poison").clone();
        assert!(probing.iter().all(|packet| packet.probe == Some(5)));
        let probed = probing.last().map(|packet| packet.at.saturating_sub(switched));
        let late = packets().filter(|sent| sent.at >= Time::from_secs(2));
        (late.map(|sent| sent.datagram.size.bits()).sum::<u64>() as f64 / 10e3, probed)
    };
    // Payloads take what the target allows and headers 7 % more; padding takes the rest.
    let (media, probed) = sent_from_two_to_twelve(then);
    assert!((600.0..=650.0).contains(&media), "{media} kbit/s");
    // 3,750 B at 2 Mbit/s take 15 ms, once one of the next three frames has come.
    assert!(probed.is_some_and(|after| after < Time::from_millis(120)), "{probed:?}");
    let (padded, _) = sent_from_two_to_twelve(Decision { padding_rate: rate(1_000), ..then });
    assert!((970.0..=1_010.0).contains(&padded), "{padded} kbit/s");
    let (dropped, _) = sent_from_two_to_twelve(Decision { drop_ratio: 1.0, ..then });
    assert_eq!(dropped, 0.0);
}

/// Without feedback, 3000 bytes are in flight after three packets and stay there.
#[test]
fn a_full_window_holds_back_video_but_not_audio() {
    for name in ["chrome-27", "chrome-52", "chrome-156"] {
        let mut control = Control::at(500);
        control.decision.window = Some(Bytes(3_000));
        let mut pair = call(name, control);
        pair.lose(BOB, |sent| !sent.rtcp().is_empty());
        pair.run(Time::from_secs(5));
        let mut before = 0;
        for sent in pair.sent_by(ALICE).filter(|sent| sent.rtp().is_some()) {
            assert!(before < 3_000 || sent.is_kind(Kind::Audio), "{name}: video after {before} B");
            before += sent.datagram.size.0;
        }
        let audio = pair.rtp_by(ALICE, Kind::Audio).len();
        // Every 20 ms from 120 ms to 5 s, both included.
        assert_eq!(audio, 245, "{name}");
        assert!(!pair.rtp_by(ALICE, Kind::Video).is_empty());
    }
}

/// Transport-wide feedback takes packets that arrived out of the flight.
#[test]
fn a_window_opens_when_feedback_arrives() {
    let mut control = Control::at(500);
    control.decision.window = Some(Bytes(3_000));
    let mut pair = call("chrome-156", control);
    pair.run(Time::from_secs(5));
    // 3000 bytes per round trip and feedback interval of 40 + 50 ms, minus what audio takes.
    let packets = pair.rtp_by(ALICE, Kind::Video);
    let bytes: u64 = packets.iter().map(|(_, packet)| packet.ip_bytes().0).sum();
    assert!((60_000..=300_000).contains(&bytes), "{bytes}");
    assert!(packets.last().is_some_and(|(at, _)| *at > Time::from_millis(4_800)));
}

/// Media of 100 kbit/s leaves room for padding, whatever paces it. Pacers with ticks do not count audio.
#[test]
fn padding_fills_the_rate_up_to_that_of_the_decision_with_every_pacer() {
    for (name, counts_audio) in
        [("chrome-27", true), ("chrome-45", false), ("chrome-52", false), ("chrome-156", true)]
    {
        let mut control = Control::at(100);
        control.decision.padding_rate = Bitrate::from_kbps(400);
        control.decision.pacing_rate = Some(Bitrate::from_kbps(1_000));
        let mut pair = call(name, control);
        pair.run(Time::from_secs(12));
        let counts =
            |sent: &Sent| sent.rtp().is_some_and(|p| counts_audio || p.kind != Kind::Audio);
        let late = pair.sent_by(ALICE).filter(|sent| sent.at >= Time::from_secs(2) && counts(sent));
        let kbps = late.map(|sent| sent.datagram.size.bits()).sum::<u64>() as f64 / 10e3;
        assert!((395.0..=405.0).contains(&kbps), "{name}: {kbps} kbit/s");
    }
}

#[test]
fn without_feedback_on_codepoints_no_packet_is_ecn_capable_whatever_the_control_wants() {
    for stack in ["chrome-27", "chrome-52", "chrome-156"] {
        let mut control = Control::at(500);
        control.decision.ecn = Ecn::Ect1;
        let seen = Arc::clone(&control.seen);
        let mut pair = call(stack, control);
        let seen = seen_in(&mut pair, &seen, Time::from_secs(3));
        assert!(pair.sent.iter().all(|sent| sent.datagram.ecn == Ecn::NotCapable), "{stack}");
        let is_told =
            |seen: &Seen| matches!(seen, Seen::Sent(packet) if packet.ecn == Ecn::NotCapable);
        assert!(seen.iter().filter(|seen| is_told(seen)).count() > 50, "{stack}");
    }
}

#[test]
fn a_control_is_told_of_each_packet_when_it_leaves_and_of_the_bytes_in_flight() {
    let control = Control::at(500);
    let seen = Arc::clone(&control.seen);
    let mut pair = call("chrome-156", control);
    // Without feedback the flight only grows.
    pair.lose(BOB, |sent| !sent.rtcp().is_empty());
    let seen = seen_in(&mut pair, &seen, Time::from_secs(2));
    let sent: Vec<&Sent> = pair.sent_by(ALICE).filter(|sent| sent.rtp().is_some()).collect();
    assert_eq!(seen.len(), sent.len());
    let mut in_flight = Bytes::ZERO;
    for ((seq, seen), sent) in (0..).zip(&seen).zip(sent) {
        let Datagram { size, ecn, .. } = sent.datagram;
        let size = Bytes(size.0 - SRTP_BYTES);
        in_flight += size;
        let kind = sent.rtp().expect("RTP").kind;
        let at = sent.at.floor_to(Time::from_millis(1));
        let expected =
            SentPacket { transport_seq: seq, at, size, kind, probe: None, in_flight, ecn };
        assert_eq!(*seen, Seen::Sent(expected));
    }
}

#[test]
fn packet_feedback_has_a_resolution_of_a_millisecond() {
    let control = Control::at(500);
    let seen = Arc::clone(&control.seen);
    let mut pair = call("chrome-156", control);
    // The tenth packet is lost.
    let mut count = 0;
    pair.lose(ALICE, move |sent| {
        count += usize::from(sent.rtp().is_some());
        sent.rtp().is_some() && count == 10
    });
    let seen = seen_in(&mut pair, &seen, Time::from_secs(2));
    let mut lost: Vec<i64> = Vec::new();
    for seen in &seen {
        if let Seen::Packets { missing, resolution, .. } = seen {
            assert_eq!(*resolution, Time::from_millis(1));
            lost.extend(missing);
        }
    }
    assert_eq!(lost, [9]);
}

#[test]
fn a_remb_from_the_receiver_half_reaches_the_sender_half() {
    let control = Control::at(500);
    let seen = Arc::clone(&control.seen);
    let [a, b] = configs("chrome-52", [vec![video(ALICE_VIDEO, Repair::Rtx)], vec![]]);
    // A REMB has 18 bits of mantissa: 512 kbit/s is exact.
    let rate = Bitrate::from_kbps(512);
    let estimator = RecordingEstimator {
        rembs: [(Time::from_secs(2), rate)].into(),
        ..RecordingEstimator::default()
    };
    let halves = (fixed(500).0, Some(Box::new(estimator) as Box<dyn Estimator>));
    let mut pair = Pair::of(Peer::new(a, (Box::new(control), None)), Peer::new(b, halves));
    let before = seen_in(&mut pair, &seen, Time::from_secs(2) + DELAY - Time(1));
    assert!(!before.iter().any(|seen| matches!(seen, Seen::Remb(_))));
    let after = seen_in(&mut pair, &seen, Time::from_secs(2) + DELAY);
    assert_eq!(after.iter().filter(|seen| **seen == Seen::Remb(rate)).count(), 1);
}

#[test]
fn an_estimator_is_told_of_every_packet_that_arrives() {
    let estimator = RecordingEstimator::default();
    let heard = Arc::clone(&estimator.heard);
    let streams = [vec![video(ALICE_VIDEO, Repair::Rtx), audio(1_003)], vec![]];
    let halves = (fixed(500).0, Some(Box::new(estimator) as Box<dyn Estimator>));
    let mut pair = Pair::with("chrome-27", streams, [fixed(500), halves]);
    pair.ecn = |_| Ecn::CongestionExperienced;
    // Every twentieth packet is lost; retransmissions have an SSRC of their own.
    pair.lose(ALICE, |sent| sent.rtp().is_some_and(|packet| packet.header.seq % 20 == 0));
    pair.run(Time::from_secs(5));
    let until = Time::from_secs(5) - DELAY;
    let arrived = pair.sent_by(ALICE).filter(|sent| sent.at <= until).filter_map(|sent| {
        let packet = sent.rtp().filter(|packet| packet.header.seq % 20 != 0)?;
        let header = packet.header;
        let (at, size) = (sent.at + DELAY, sent.datagram.size);
        Some((at, header.ssrc, header.seq, size, packet.kind == Kind::Audio))
    });
    let heard = heard.lock().expect("no poison");
    assert!(heard.iter().all(|packet| packet.ecn == Ecn::CongestionExperienced));
    let heard: Vec<_> = heard.iter().map(|p| (p.at, p.ssrc, p.seq, p.size, p.audio)).collect();
    assert_eq!(heard, arrived.collect::<Vec<_>>());
    let ssrcs = [ALICE_VIDEO, ALICE_VIDEO + 1, 1_003];
    assert!(ssrcs.iter().all(|ssrc| heard.iter().any(|packet| packet.1 == *ssrc)));
}

/// The packet that the control failed on has been sent; nothing follows it.
#[test]
fn after_an_error_of_its_control_a_peer_falls_silent() {
    let mut control = Control::at(500);
    control.fails_at = Time::from_secs(2);
    let mut pair = call("chrome-156", control);
    pair.run(Time::from_secs(4));
    let of_alice = pair.events.iter().rev().find(|(_, index, _)| *index == ALICE);
    let (at, _, event) = of_alice.expect("events");
    assert_eq!(*event, EndpointEvent::Failed(ControlError("no more".to_owned())));
    // Audio leaves every 20 ms from 120 ms on.
    assert_eq!(*at, Time::from_secs(2));
    assert!(pair.sent_by(ALICE).all(|sent| sent.at <= *at));
    assert_eq!(pair.alice.poll_timeout(), None);
    pair.alice.handle_timeout(Time::from_secs(4));
    assert_eq!(pair.alice.poll_transmit(Time::from_secs(4)), None);
    assert_eq!(pair.alice.poll_event(), None);
}

#[test]
fn an_error_of_an_estimator_ends_the_receiver_as_well() {
    struct Failing;
    impl Estimator for Failing {
        fn on_packet(&mut self, _packet: &ReceivedPacket) -> Result<(), ControlError> {
            Err(ControlError("no more".to_owned()))
        }
        fn poll_remb(&mut self) -> Option<Bitrate> {
            None
        }
    }
    let streams = [vec![audio(1_003)], vec![]];
    let halves = (fixed(500).0, Some(Box::new(Failing) as Box<dyn Estimator>));
    let mut pair = Pair::with("chrome-27", streams, [fixed(500), halves]);
    pair.run(Time::from_secs(1));
    let failed = EndpointEvent::Failed(ControlError("no more".to_owned()));
    // The first packet leaves after six delays.
    assert_eq!(pair.first(BOB, &failed), Some(DELAY * 7));
    assert_eq!(pair.bob.poll_timeout(), None);
}
