use super::*;
use crate::cc::{Controller, Feedback, PacketReport, RateBounds, SentPacket};
use crate::ecn::Ecn;
use crate::packet::Kind;
use crate::units::{Bytes, RemoteTime};

const MS: Time = Time::from_millis(1);

/// A sender and its view, without a network. A packet has 750 bytes, so that one in 60 ms is 100 kbit/s.
struct Sender {
    control: External,
    view: View,
    at: u64,
}

impl Sender {
    fn new() -> Self {
        let kbps = Bitrate::from_kbps;
        let bounds = RateBounds {
            start: kbps(300),
            min: kbps(30),
            max: kbps(1_700),
            audio: Bitrate::ZERO,
            has_video: true,
        };
        let mut new = Sender { control: External::new(bounds, STEP), view: View::default(), at: 0 };
        new.ask();
        new
    }

    fn packet(seq: i64, sent_ms: u64) -> SentPacket {
        SentPacket {
            transport_seq: seq,
            at: Time(sent_ms * MS.0),
            size: Bytes(750),
            kind: Kind::Video,
            probe: None,
            in_flight: Bytes(0),
            ecn: Ecn::NotCapable,
        }
    }

    /// Reports packets, each with its number, and when it was sent and received in ms.
    fn report(&mut self, at_ms: u64, packets: &[(i64, u64, Option<u64>)]) {
        let of = |&(seq, sent, received): &(i64, u64, Option<u64>)| PacketReport {
            sent: Sender::packet(seq, sent),
            received: received.map(|at| RemoteTime(Time(at * MS.0))),
            ecn: None,
            held: None,
            lost_before: false,
        };
        let reports: Vec<PacketReport> = packets.iter().map(of).collect();
        let feedback = Feedback::Packets { reports: &reports, in_flight: Bytes(0), resolution: MS };
        self.control.on_feedback(Time(at_ms * MS.0), feedback).expect("feedback");
    }

    /// The next request, which the view takes.
    fn ask(&mut self) -> Outcome {
        let now = Time(self.at * STEP.0);
        self.at += 1;
        self.control.on_timeout(now, &Default::default()).expect("a timeout");
        let request = self.control.poll_request(now).expect("a request");
        self.view.take(&request);
        *self.view.outcome()
    }
}

/// The report at 50 ms has arrivals up to 40 ms, the one at 110 ms up to 100 ms.
#[test]
fn an_outcome_is_of_what_arrived_since_the_arrivals_that_were_known_before() {
    let mut sender = Sender::new();
    sender.report(50, &[(0, 0, Some(20)), (1, 10, Some(40))]);
    let first = sender.ask();
    assert_eq!((first.delay_ms, first.delay_min_ms, first.queuing_delay_ms), (25.0, 20.0, 5.0));
    assert_eq!((first.delay_p95_ms, first.loss), (30.0, 0.0));
    sender.report(110, &[(2, 50, Some(75)), (3, 60, None), (4, 70, Some(100))]);
    let second = sender.ask();
    // Two packets of 6 kbit in the 60 ms from 40 to 100 ms.
    assert_eq!((second.receiving_rate_bps, second.received_packets_per_s), (200e3, 2.0 / 0.06));
    assert_eq!(second.rate_change_bps, 200e3 - first.receiving_rate_bps);
    assert_eq!((second.delay_ms, second.loss), (27.5, 1.0 / 3.0));
}

#[test]
fn what_was_reported_last_stands_until_something_else_is() {
    let mut sender = Sender::new();
    assert!(!sender.ask().is_known());
    sender.report(80, &[(0, 0, Some(60))]);
    let known = sender.ask();
    assert!(known.is_known());
    assert_eq!(sender.ask(), known);
}

/// Reports come every 250 ms at least. The one at 50 ms is the last; from 300 ms on, what does not arrive counts.
#[test]
fn a_path_that_is_silent_for_longer_than_reports_take_carries_nothing() {
    let mut sender = Sender::new();
    sender.report(50, &[(0, 0, Some(40)), (1, 10, Some(45))]);
    let known = sender.ask(); // at 60 ms
    let rates: Vec<f64> = (0..6).map(|_| sender.ask().receiving_rate_bps).collect(); // 120 … 420 ms
    assert_eq!(rates[..4], [known.receiving_rate_bps; 4]);
    assert_eq!(rates[4..], [0.0; 2]);
    assert_eq!(sender.view.outcome().delay_ms, known.delay_ms);
}

#[test]
fn a_loss_that_is_reported_again_counts_once() {
    let mut sender = Sender::new();
    sender.report(50, &[(0, 0, Some(20)), (1, 10, None)]);
    sender.report(55, &[(1, 10, None), (2, 20, None), (3, 30, Some(50))]);
    assert_eq!(sender.ask().loss, 0.5);
}

#[test]
fn every_observation_is_written_in_full_before_and_after_the_first_report() {
    let mut sender = Sender::new();
    for reported in [false, true] {
        for what in [Observed::Bwe2024, Observed::Alphartc4, Observed::Full] {
            let mut out = vec![f32::NAN; what.length()];
            what.write(&sender.view, &mut out);
            assert!(out.iter().all(|value| value.is_finite()), "{what:?} {reported}");
        }
        sender.report(50, &[(0, 0, Some(20))]);
        sender.ask();
    }
}

#[test]
fn no_reward_has_a_value_before_the_first_report() {
    for name in ["gym", "challenge21", "r3net", "onrl", "aurora"] {
        let reward = Reward::named(name).expect("a reward");
        assert_eq!(reward.of(View::default().outcome()), 0.0);
    }
}
