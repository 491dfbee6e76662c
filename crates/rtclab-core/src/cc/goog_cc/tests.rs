//! The whole control: alone, over a link, and beside the published port.

mod differential;
mod lazy;

use super::*;
use crate::packet::{Ecn, Kind};
use crate::units::{Bitrate, RemoteTime};

const PACKET: Bytes = Bytes(1_200);
const FEEDBACK: Time = Time::from_millis(50);

fn bounds(start: u64, max: u64) -> RateBounds {
    let kbps = Bitrate::from_kbps;
    RateBounds {
        start: kbps(start),
        min: kbps(30),
        max: kbps(max),
        audio: Bitrate::ZERO,
        has_video: true,
    }
}

fn sent(seq: i64, at: Time, in_flight: u64) -> SentPacket {
    SentPacket {
        transport_seq: seq,
        at,
        size: PACKET,
        kind: Kind::Video,
        probe: None,
        in_flight: Bytes(in_flight),
        ecn: Ecn::NotCapable,
    }
}

fn report(sent: SentPacket, received: Option<Time>) -> PacketReport {
    PacketReport {
        sent,
        received: received.map(RemoteTime),
        ecn: None,
        held: None,
        lost_before: false,
    }
}

fn packets(reports: &[PacketReport], in_flight: Bytes) -> Feedback<'_> {
    Feedback::Packets { reports, in_flight, resolution: Time::from_millis(1) }
}

/// A FIFO before a constant delay, for packets of 1200 bytes.
#[derive(Clone, Copy, Debug)]
struct Link {
    capacity: Bitrate,
    /// One way.
    delay: Time,
    /// Share of packets lost at random.
    loss: f64,
    /// Longest wait.
    queue: Time,
    /// The media sends at most this, apart from probes.
    media: Bitrate,
    /// When loss and the limit of the media end.
    until: Time,
}

/// What a control is told, in order.
#[derive(Clone, Debug)]
enum Input {
    Sent(SentPacket),
    Reports(Time, Vec<PacketReport>, Bytes),
    Receiver(Time, u64, u64),
    Timeout(Time),
}

impl Input {
    fn at(&self) -> Time {
        match self {
            Input::Sent(packet) => packet.at,
            Input::Reports(at, ..) | Input::Receiver(at, ..) | Input::Timeout(at) => *at,
        }
    }

    fn give(&self, control: &mut dyn Controller) {
        let result = match self {
            Input::Sent(packet) => control.on_sent(packet),
            Input::Reports(at, reports, in_flight) => {
                control.on_feedback(*at, packets(reports, *in_flight))
            }
            Input::Receiver(at, lost, expected) => {
                let rtt = Some(Time::from_millis(100));
                let (lost, expected) = (*lost, *expected);
                control
                    .on_feedback(*at, Feedback::ReceiverReport { lost, expected, fraction: 0, rtt })
            }
            Input::Timeout(at) => control.on_timeout(*at, &SenderState::default()),
        };
        result.expect("a controller that continues");
    }
}

/// Golden case 11: once the first probes are over, a limit that grows is probed at twice the estimate at most.
#[test]
fn a_limit_of_the_media_that_grows_is_probed() {
    let mut control = GoogCc::new(bounds(300, 600));
    control.on_timeout(Time::ZERO, &SenderState::default()).expect("a start");
    while control.poll_probe().is_some() {}
    // The first probes time out after a second.
    for tick in 1..=60 {
        let at = Time::from_millis(25) * tick;
        control.on_timeout(at, &SenderState::default()).expect("a controller that continues");
    }
    assert_eq!(control.poll_probe(), None);
    let at = Time::from_millis(1_510);
    control.on_media_limit(at, Bitrate::from_kbps(1_700));
    assert_eq!(control.poll_probe().map(|probe| probe.rate), Some(Bitrate::from_kbps(600)));
    control.on_media_limit(at, Bitrate::from_kbps(600));
    assert_eq!(control.poll_probe(), None, "a smaller limit needs no probe");
}

/// A sender that sends what its control allows over a link, with feedback every 50 ms, or with the first
/// packet after that, and a receiver report each second. Packets of a probe leave at its rate.
struct Loop {
    link: Link,
    now: Time,
    free: Time,
    seq: i64,
    /// Packets that the far end has not reported, with their arrival.
    waiting: VecDeque<(SentPacket, Option<Time>)>,
    next_feedback: Time,
    next_receiver: Time,
    lost: u64,
    expected: u64,
    /// State of a linear congruential generator.
    random: u64,
    probe: Option<(Probe, u64, u32)>,
}

impl Loop {
    fn new(link: Link, seed: u64) -> Self {
        Loop {
            link,
            now: Time::ZERO,
            free: Time::ZERO,
            seq: 0,
            waiting: VecDeque::new(),
            next_feedback: FEEDBACK,
            next_receiver: Time::from_secs(1),
            lost: 0,
            expected: 0,
            random: seed,
            probe: None,
        }
    }

    fn draw(&mut self) -> f64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 11) as f64 / (1u64 << 53) as f64
    }

    fn send(&mut self, size: Bytes) -> SentPacket {
        let start = self.free.max(self.now);
        let lost = start.saturating_sub(self.now) > self.link.queue
            || self.draw() < self.link.loss && self.now < self.link.until;
        let mut arrival = None;
        if !lost {
            self.free = start + self.link.capacity.time_for(size).unwrap_or_default();
            arrival = Some((self.free + self.link.delay).ceil_to(Time::from_millis(1)));
        }
        let flying: u64 = self.waiting.iter().map(|(packet, _)| packet.size.0).sum();
        let probe = self.probe.map(|(probe, ..)| probe.id);
        let at = self.now.floor_to(Time::from_millis(1));
        let packet = SentPacket { probe, ..sent(self.seq, at, flying + size.0) };
        self.seq += 1;
        self.expected += 1;
        self.lost += u64::from(lost);
        self.waiting.push_back((packet, arrival));
        if let Some((probe, bytes, count)) = &mut self.probe {
            (*bytes, *count) = (*bytes + size.0, *count + 1);
            if *bytes >= probe.min_bytes.0 && *count >= probe.min_packets {
                self.probe = None;
            }
        }
        packet
    }

    /// Feedback on everything that had arrived one way ago.
    fn feedback(&mut self) -> Option<Input> {
        let seen = |arrival: &Time| *arrival + self.link.delay <= self.now;
        let last =
            self.waiting.iter().rposition(|(_, arrival)| arrival.as_ref().is_some_and(seen))?;
        let reports = self.waiting.drain(..=last).map(|(sent, at)| report(sent, at)).collect();
        let in_flight = Bytes(self.waiting.iter().map(|(packet, _)| packet.size.0).sum());
        Some(Input::Reports(self.now, reports, in_flight))
    }

    /// Runs until a time. Calls `each` after every input, with the control's decision.
    fn run(
        &mut self,
        control: &mut dyn Controller,
        until: Time,
        mut each: impl FnMut(&Input, Decision),
    ) {
        while self.now < until {
            let mut inputs = Vec::new();
            if control.poll_timeout().is_some_and(|at| at <= self.now) {
                inputs.push(Input::Timeout(self.now));
            }
            inputs.push(Input::Sent(self.send(PACKET)));
            if self.now >= self.next_feedback {
                if let Some(input) = self.feedback() {
                    self.next_feedback = self.now + FEEDBACK;
                    inputs.push(input);
                }
            }
            if self.now >= self.next_receiver {
                self.next_receiver += Time::from_secs(1);
                let (lost, expected) = (self.lost, self.expected);
                (self.lost, self.expected) = (0, 0);
                inputs.push(Input::Receiver(self.now, lost, expected));
            }
            for input in inputs {
                input.give(control);
                each(&input, control.decision());
            }
            if self.probe.is_none() {
                self.probe = control.poll_probe().map(|probe| (probe, 0, 0));
            }
            let target = control.decision().target;
            let limited = self.now < self.link.until;
            let media = if limited { target.min(self.link.media) } else { target };
            let rate = self.probe.map_or(media, |(probe, ..)| probe.rate);
            self.now += rate.time_for(PACKET).unwrap_or(Time::from_millis(1));
        }
    }
}

fn link(kbps: u64, delay_ms: u64, loss: f64) -> Link {
    let delay = Time::from_millis(delay_ms);
    let queue = Time::from_millis(500);
    Link {
        capacity: Bitrate::from_kbps(kbps),
        delay,
        loss,
        queue,
        media: Bitrate::from_mbps(100),
        until: Time::MAX,
    }
}

/// Mean target over the second half, as a share of the capacity.
fn share(link: Link, seconds: u64) -> f64 {
    let mut control = GoogCc::new(bounds(300, 5_000));
    let (mut sum, mut count) = (0.0, 0u32);
    Loop::new(link, 1).run(&mut control, Time::from_secs(seconds), |input, decision| {
        if input.at() >= Time::from_secs(seconds / 2) {
            (sum, count) = (sum + decision.target.0 as f64, count + 1);
        }
    });
    sum / f64::from(count) / link.capacity.0 as f64
}

#[test]
fn a_lone_flow_settles_between_80_and_105_percent_of_the_link() {
    for kbps in [500, 1_000, 2_000] {
        for delay_ms in [10, 50, 150] {
            let share = share(link(kbps, delay_ms, 0.0), 60);
            assert!((0.8..1.05).contains(&share), "{kbps} kbit/s, {delay_ms} ms: {share}");
        }
    }
}

#[test]
fn the_start_rate_gives_target_pacing_and_two_probes_at_three_and_six_times() {
    let mut control = GoogCc::new(bounds(300, 1_700));
    control.on_timeout(Time::ZERO, &SenderState::default()).expect("no error");
    let decision = control.decision();
    assert_eq!(decision.target, Bitrate::from_kbps(300));
    assert_eq!(decision.pacing_rate, Some(Bitrate::from_kbps(330)));
    let probes: Vec<Probe> = std::iter::from_fn(|| control.poll_probe()).collect();
    let shape = |probe: &Probe| (probe.rate.0, probe.min_bytes.0, probe.min_packets);
    let shapes: Vec<_> = probes.iter().map(shape).collect();
    assert_eq!(shapes, [(900_000, 1_688, 5), (1_800_000, 3_375, 5)]);
}

#[test]
fn without_video_pacing_is_250_percent_until_the_first_feedback() {
    let kbps = Bitrate::from_kbps;
    let audio = RateBounds {
        start: kbps(62),
        min: kbps(62),
        max: kbps(62),
        audio: Bitrate::ZERO,
        has_video: false,
    };
    let mut control = GoogCc::new(audio);
    control.on_timeout(Time::ZERO, &SenderState::default()).expect("no error");
    assert_eq!(control.decision().target, kbps(300));
    assert_eq!(control.decision().pacing_rate, Some(kbps(750)));
    let packet = sent(0, Time::from_millis(10), 1_200);
    control.on_sent(&packet).expect("no error");
    let reports = [report(packet, Some(Time::from_millis(40)))];
    control.on_feedback(Time::from_millis(70), packets(&reports, Bytes::ZERO)).expect("no error");
    let target = control.decision().target.0 as f64;
    let factor = control.decision().pacing_rate.expect("a rate").0 as f64 / target;
    assert!((target - 300e3).abs() < 2e3 && (factor - 1.1).abs() < 0.001, "{target} {factor}");
}

#[test]
fn a_probe_does_not_fall_below_the_delay_based_estimate_or_85_percent_of_what_arrives() {
    assert_eq!(bounded_probe(300_000, 1_000_000, Some(800_000)), 680_000);
    assert_eq!(bounded_probe(300_000, 500_000, Some(800_000)), 500_000);
    assert_eq!(bounded_probe(900_000, 1_000_000, Some(800_000)), 900_000);
    assert_eq!(bounded_probe(300_000, 1_000_000, None), 300_000);
    assert_eq!(bounded_probe(300_000, 0, Some(800_000)), 300_000);
}

#[test]
fn feedback_without_any_arrival_measures_no_round_trip() {
    let mut control = GoogCc::new(bounds(300, 1_700));
    control.on_timeout(Time::ZERO, &SenderState::default()).expect("no error");
    let packet = sent(0, Time::ZERO, 1_200);
    control.on_sent(&packet).expect("no error");
    let reports = [report(packet, None)];
    control.on_feedback(Time::from_millis(50), packets(&reports, Bytes::ZERO)).expect("no error");
    let names = |control: &GoogCc| {
        let mut out = Vec::new();
        control.observe(&mut out);
        out.into_iter().map(|observation| observation.name).collect::<Vec<_>>()
    };
    assert!(!names(&control).iter().any(|name| name == "window_bytes"));
    let packet = sent(1, Time::from_millis(60), 1_200);
    control.on_sent(&packet).expect("no error");
    let reports = [report(packet, Some(Time::from_millis(90)))];
    control.on_feedback(Time::from_millis(110), packets(&reports, Bytes::ZERO)).expect("no error");
    assert!(names(&control).iter().any(|name| name == "window_bytes"));
}

#[test]
fn the_minimum_is_that_of_video_and_audio_together() {
    let kbps = Bitrate::from_kbps;
    let with_audio = RateBounds { audio: kbps(62), ..bounds(300, 1_700) };
    let mut control = GoogCc::new(with_audio);
    Loop::new(link(40, 50, 0.0), 1).run(&mut control, Time::from_secs(30), |_, decision| {
        assert!(decision.target >= kbps(92), "{decision:?}");
    });
    assert_eq!(control.decision().target, kbps(92));
}

/// Everything that a control decides and shows over links that lose packets, and with media below the target.
fn behaviour(options: &[(&str, f64)]) -> Vec<Vec<String>> {
    let options: Vec<_> = [("alr_probing", 1.0)].iter().chain(options).copied().collect();
    let options = options.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    let config = GoogCcConfig::new(Options(&options));
    let until = Time::from_secs(8);
    let idle = Link { media: Bitrate::from_kbps(150), until, ..link(3_000, 20, 0.0) };
    let lossy = Link { until, ..link(2_000, 50, 0.15) };
    let links = [lossy, link(700, 50, 0.12), link(250, 50, 0.0), idle];
    let run = |link: Link| {
        let mut control = GoogCc::with(bounds(300, 1_700), config);
        let mut seen = Vec::new();
        Loop::new(link, 3).run(&mut control, Time::from_secs(15), |_, decision| {
            seen.push(format!("{decision:?}"));
        });
        let mut values = Vec::new();
        control.observe(&mut values);
        seen.push(format!("{values:?} {:?}", control.given_out));
        seen
    };
    links.into_iter().map(run).collect()
}

#[test]
fn every_option_changes_what_the_control_does() {
    // Of lower candidates the acknowledged rate is always the likeliest on these links, and what is observed
    // soon replaces the inherent loss of the beginning.
    let hidden = ["loss_decrease", "loss_inherent"];
    for option in OPTIONS.iter().filter(|option| !hidden.contains(&option.name)) {
        let beside: &[_] = match option.name {
            // Within two groups the threshold falls to its bound, unless its gain is zero.
            "threshold_ms" => &[("k_down", 0.0)],
            // The other factor, near the rate of a hold, applies on these links.
            "loss_ramp_up" => &[("loss_hold_near", 0.0)],
            _ => &[],
        };
        let with = |value| behaviour(&[&[(option.name, value)], beside].concat());
        let [least, most] = [option.bounds.0, option.bounds.1].map(with);
        assert!(least != most, "{} changes nothing", option.name);
    }
}
