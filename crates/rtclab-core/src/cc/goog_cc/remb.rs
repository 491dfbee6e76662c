//! `remb`: Chromium 156 in a call whose descriptions do not offer transport-wide feedback.
//!
//! The receiver estimates the rate from send times (abs-send-time) and arrivals, and reports it as REMB. The
//! sender's target is the lower one of REMB and its own loss-based rate, which is the classic one: the
//! loss-based estimator of 2026 needs feedback on packets.
//!
//! Source: libwebrtc f3ae3eb62e (August 2026): `remote_bitrate_estimator_abs_send_time.cc`,
//! `overuse_estimator.cc`, `overuse_detector.cc`, `aimd_rate_control.cc` and `remb_throttler.cc` at the
//! receiver; `goog_cc_network_control.cc` and `send_side_bandwidth_estimation.cc` at the sender.
//!
//! The filter is the Kalman filter of 2016, not the trend line of the send side. The rate control is the same
//! as on the send side. Not modelled: a jump of the sender's clock, and arrivals out of order at the estimator.

use super::GoogCc;
use super::arithmetic::{MS, bitrate, bps, micros};
use super::options::GoogCcConfig;
use super::rate_control::AimdRateControl;
use crate::cc::control::{
    ControlError, Controller, Decision, Estimator, Feedback, Halves, Observation, Probe,
    RateBounds, ReceivedPacket, SenderState,
};
use crate::cc::gcc_2016::{DETECTOR_2016, KALMAN_2016};
use crate::cc::receive_side::detector::{Detector, DetectorConfig, Threshold};
use crate::cc::receive_side::groups::{Grouping, Groups};
use crate::cc::receive_side::incoming::ActiveRate;
use crate::cc::receive_side::kalman::Filter;
use crate::cc::receive_side::probe::ProbeDetector;
use crate::cc::receive_side::remb::RembThrottle;
use crate::cc::receive_side::state::Usage;
use crate::units::{Bitrate, Bytes, Time};
use std::collections::VecDeque;

/// What over-use leaves of the incoming rate (`aimd_rate_control.cc`, kDefaultBackoffFactor).
const BETA: f64 = 0.85;
/// The detector has the gains of August 2016.
const DETECTOR: DetectorConfig =
    DetectorConfig { threshold: Threshold::Adaptive { up: 0.0087, down: 0.039 }, ..DETECTOR_2016 };
/// Minimum time between two REMBs, unless the estimate falls (`remb_throttler.cc`).
const REMB_INTERVAL: Time = Time::from_millis(200);
/// The rate control runs as often as a report of this size fits into this share of the rate.
const REPORT: Bytes = Bytes(80);
const REPORT_SHARE: f64 = 0.05;
/// Bounds of the time between two updates.
const UPDATE_INTERVAL: (Time, Time) = (Time::from_millis(200), Time::from_secs(1));
/// After this long without packets, groups and filter start anew (kStreamTimeOut).
const IDLE: Time = Time::from_secs(2);
/// Round trips are averaged over this window, at this interval, with this weight of the new average
/// (`call_stats2.cc`).
const RTT_WINDOW: Time = Time::from_millis(1_500);
const RTT_INTERVAL: Time = Time::from_secs(1);
const RTT_WEIGHT: f64 = 0.3;

/// Creates both halves.
pub(crate) fn create(bounds: RateBounds) -> Halves {
    // Without transport-wide numbers audio has no part in the target (`audio_send_stream.cc`).
    let bounds = RateBounds { audio: Bitrate::ZERO, ..bounds };
    let sender = RembSender { inner: GoogCc::with(bounds, GoogCcConfig::default()), remb: None };
    (Box::new(sender), Some(Box::new(RembReceiver::new())))
}

/// Sender half: [`GoogCc`] that never hears of single packets.
///
/// libwebrtc tells its control only of packets with a transport-wide number. So there is no delay-based rate,
/// no acknowledged rate, no estimate of loss by packets, no congestion window and no application-limited region.
/// Probes are sent at the start, as always, and later when the target follows them.
struct RembSender {
    inner: GoogCc,
    remb: Option<Bitrate>,
}

impl Controller for RembSender {
    fn on_feedback(&mut self, now: Time, feedback: Feedback<'_>) -> Result<(), ControlError> {
        match feedback {
            Feedback::Packets { .. } => return Ok(()),
            Feedback::Remb(rate) => self.remb = Some(rate),
            Feedback::ReceiverReport { .. } => {}
        }
        self.inner.on_feedback(now, feedback)
    }

    fn on_timeout(&mut self, now: Time, sender: &SenderState) -> Result<(), ControlError> {
        self.inner.on_timeout(now, sender)
    }

    fn on_media_limit(&mut self, now: Time, max: Bitrate) {
        self.inner.on_media_limit(now, max);
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.inner.poll_timeout()
    }

    fn skip_until(&mut self) -> Option<Time> {
        self.inner.skip_until()
    }

    fn catch_up(&mut self, now: Time) {
        self.inner.catch_up(now);
    }

    fn poll_probe(&mut self) -> Option<Probe> {
        self.inner.poll_probe()
    }

    fn decision(&self) -> Decision {
        self.inner.decision()
    }

    fn observe(&self, out: &mut Vec<Observation>) {
        let decision = self.inner.decision();
        let send_side = &self.inner.send_side;
        out.push(Observation::new("target_bps", decision.target.0 as f64));
        out.extend(
            decision.pacing_rate.map(|rate| Observation::new("pacing_rate_bps", rate.0 as f64)),
        );
        out.push(Observation::new("loss_ratio", f64::from(send_side.fraction_lost()) / 255.0));
        if send_side.rtt() > 0 {
            out.push(Observation::new("rtt_ms", send_side.rtt() as f64 / MS as f64));
        }
        out.extend(self.remb.map(|remb| Observation::new("remb_bps", remb.0 as f64)));
    }
}

/// Receiver half: arrivals → groups → Kalman filter → detector → rate control → REMB.
struct RembReceiver {
    groups: Groups,
    filter: Filter,
    detector: Detector,
    incoming: ActiveRate,
    incoming_bps: Option<u64>,
    control: AimdRateControl,
    probes: ProbeDetector,
    remb: RembThrottle,
    last_packet: Time,
    last_update: Option<Time>,
    /// Round trips of the last reports, and when they came.
    rtts: VecDeque<(Time, Time)>,
    /// Average round trip, and when it was last updated.
    rtt: Option<(Time, Time)>,
}

impl RembReceiver {
    fn new() -> Self {
        RembReceiver {
            groups: Groups::new(Grouping::BURSTS_SINCE_2018),
            filter: Filter::new(Some(KALMAN_2016)),
            detector: Detector::new(DETECTOR),
            incoming: ActiveRate::new(),
            incoming_bps: None,
            control: AimdRateControl::new(BETA),
            probes: ProbeDetector::default(),
            remb: RembThrottle::new(REMB_INTERVAL),
            last_packet: Time::ZERO,
            last_update: None,
            rtts: VecDeque::new(),
            rtt: None,
        }
    }

    fn estimate(&self) -> Option<Bitrate> {
        self.control.is_valid().then(|| bitrate(self.control.estimate()))
    }

    /// Whether a probe has raised the estimate.
    fn look_for_probe(&mut self, packet: &ReceivedPacket, timestamp: u32) -> bool {
        let send_ms = f64::from(timestamp) / Grouping::BURSTS_SINCE_2018.ticks_per_ms;
        let found = self.probes.on_packet(packet.at, send_ms, packet.payload, self.estimate());
        if let Some(rate) = found {
            self.control.set_estimate(micros(packet.at), bps(rate));
        }
        found.is_some()
    }

    fn detect(&mut self, packet: &ReceivedPacket, timestamp: u32) {
        let arrival_ms = packet.at.as_millis() as i64;
        let Some(deltas) = self.groups.on_packet(timestamp, arrival_ms, packet.payload.0) else {
            return;
        };
        let usage = self.detector.usage();
        // The noise is measured while the path is not over- or under-used.
        self.filter.update(&deltas, usage, usage == Usage::Normal);
        let (offset_ms, count) = (self.filter.offset_ms(), self.filter.count());
        self.detector.detect(packet.at, offset_ms, count, deltas.send_ms);
    }

    fn is_update_due(&mut self, now: Time) -> bool {
        let interval = rate_interval(self.control.estimate());
        if self.last_update.is_none_or(|last| now > last + interval) {
            return true;
        }
        let incoming = self.incoming.bps(now);
        self.detector.usage() == Usage::Over
            && incoming.is_some_and(|bps| self.control.may_decrease(micros(now), bps as i64))
    }

    fn update(&mut self, now: Time) {
        let usage = self.detector.usage();
        self.incoming_bps = self.incoming.bps(now);
        if self.control.update(micros(now), usage, self.incoming_bps.map(|bps| bps as i64)) {
            self.last_update = Some(now);
            self.remb.on_estimate(now, bitrate(self.control.estimate()));
        }
    }
}

/// Time between two updates of an estimate.
fn rate_interval(estimate: i64) -> Time {
    let interval = bitrate(estimate).scaled(REPORT_SHARE).time_for(REPORT);
    interval.map_or(UPDATE_INTERVAL.1, |own| own.clamp(UPDATE_INTERVAL.0, UPDATE_INTERVAL.1))
}

impl Estimator for RembReceiver {
    fn on_packet(&mut self, packet: &ReceivedPacket) -> Result<(), ControlError> {
        // `receive_side_congestion_controller.cc`: audio without transport-wide numbers is ignored.
        let Some(send_time) = packet.abs_send_time.filter(|_| !packet.audio) else { return Ok(()) };
        let now = packet.at;
        // libwebrtc shifts the 24 bits to the top of 32, so that differences wrap correctly.
        let timestamp = send_time.bits() << 8;
        if now > self.last_packet + IDLE {
            self.groups = Groups::new(Grouping::BURSTS_SINCE_2018);
            self.filter = Filter::new(Some(KALMAN_2016));
        }
        self.last_packet = now;
        self.incoming.add(now, packet.payload);
        let probed = self.look_for_probe(packet, timestamp);
        self.detect(packet, timestamp);
        if probed || self.is_update_due(now) {
            self.update(now);
        }
        Ok(())
    }

    fn on_rtt(&mut self, now: Time, rtt: Time) {
        self.rtts.push_back((now, rtt));
        while self.rtts.front().is_some_and(|(at, _)| *at + RTT_WINDOW < now) {
            self.rtts.pop_front();
        }
        if self.rtt.is_some_and(|(at, _)| now < at + RTT_INTERVAL) {
            return;
        }
        let sum: f64 = self.rtts.iter().map(|(_, rtt)| rtt.as_secs_f64()).sum();
        let recent = sum / self.rtts.len() as f64;
        let average = self.rtt.map_or(recent, |(_, before)| {
            (1.0 - RTT_WEIGHT) * before.as_secs_f64() + RTT_WEIGHT * recent
        });
        let average = Time::from_secs_f64(average);
        self.rtt = Some((now, average));
        self.control.set_rtt(micros(average));
    }

    fn poll_remb(&mut self) -> Option<Bitrate> {
        self.remb.take()
    }

    fn observe(&self, out: &mut Vec<Observation>) {
        out.extend([
            Observation::new("offset_ms", self.filter.offset_ms()),
            Observation::new("noise_variance_ms2", self.filter.noise()),
            Observation::new("detector_value_ms", self.detector.value_ms()),
            Observation::new("threshold_ms", self.detector.threshold_ms()),
            Observation::new("detector_state", f64::from(self.detector.usage() as u8)),
        ]);
        let measured = [
            ("incoming_rate_bps", self.incoming_bps.map(|bps| bps as f64)),
            ("delay_based_rate_bps", self.estimate().map(|rate| rate.0 as f64)),
            ("link_capacity_bps", self.control.capacity().estimate().map(|bps| bps as f64)),
        ];
        for (name, value) in measured {
            out.extend(value.map(|value| Observation::new(name, value)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Ecn;
    use crate::rtp::AbsSendTime;

    const BOUNDS: RateBounds = RateBounds {
        start: Bitrate::from_kbps(300),
        min: Bitrate::from_kbps(30),
        max: Bitrate::from_kbps(1_700),
        audio: Bitrate::from_kbps(50),
        has_video: true,
    };

    fn packet(number: u64, sent: Time, at: Time) -> ReceivedPacket {
        ReceivedPacket {
            at,
            ssrc: 1,
            seq: number as u16,
            audio: false,
            size: Bytes(1_250 + 58),
            payload: Bytes(1_250),
            rtp_timestamp: 0,
            abs_send_time: Some(AbsSendTime::from_time(sent)),
            transport_seq: None,
            ecn: Ecn::NotCapable,
        }
    }

    /// REMBs of a receiver of 1250 B sent every 10 ms, 1 Mbit/s, that arrive every `gap_ms`.
    fn rembs(gap_ms: u64, packets: u64) -> Vec<(Time, u64)> {
        let mut receiver = RembReceiver::new();
        let mut sent = Vec::new();
        for i in 0..packets {
            let at = Time::from_millis(50 + gap_ms * i);
            let arrival = receiver.on_packet(&packet(i, Time::from_millis(10 * i), at));
            assert_eq!(arrival, Ok(()));
            sent.extend(receiver.poll_remb().map(|rate| (at, rate.0)));
        }
        sent
    }

    /// The first five packets count as a probe and give the first estimate. It grows from there.
    #[test]
    fn on_a_free_path_the_estimate_grows_every_200_ms_up_to_one_and_a_half_times_what_arrives() {
        let sent = rembs(10, 2_000);
        let (at, first) = sent[0];
        assert_eq!(at, Time::from_millis(90));
        // 24 bits in units of 3.8 us: 10 ms are 9.9983 to 10.002.
        assert!((999_000..=1_001_000).contains(&first), "{first}");
        let times: Vec<_> = sent.iter().skip(1).map(|(at, _)| *at).collect();
        assert!(times.windows(2).all(|pair| pair[1] == pair[0] + Time::from_millis(210)));
        assert!(sent.windows(2).all(|pair| pair[1].1 >= pair[0].1));
        // 1.08 per second from 1 Mbit/s reaches 1.51 Mbit/s after 5.4 s.
        let reached = sent.iter().find(|(_, rate)| *rate >= 1_509_000);
        let reached = reached.map_or(Time::MAX, |(at, _)| *at);
        assert!((5_000..6_500).contains(&reached.as_millis()), "{reached}");
        assert_eq!(sent.last().map(|(_, rate)| *rate), Some(1_510_000));
    }

    /// 1 Mbit/s arrives at 1250 B in 11 ms, 909 kbit/s.
    #[test]
    fn a_growing_queue_lowers_the_estimate_to_what_arrives_times_beta() {
        let sent = rembs(11, 300);
        let lowest = sent.iter().map(|(_, rate)| *rate).min();
        // 0.85 of 909 kbit/s, plus a packet at the end of the window, less 5 kbit/s.
        assert!((766_000..=790_000).contains(&lowest.unwrap_or(0)), "{sent:?}");
        let fall = sent.windows(2).find(|pair| pair[1].1 < pair[0].1).expect("a decrease");
        assert!(fall[1].0 < Time::from_secs(1), "{fall:?}");
    }

    #[test]
    fn audio_and_packets_without_a_send_time_do_not_count() {
        let mut receiver = RembReceiver::new();
        for i in 0..500 {
            let at = Time::from_millis(10 * i);
            let audio = ReceivedPacket { audio: true, ..packet(i, at, at) };
            let unstamped = ReceivedPacket { abs_send_time: None, ..packet(i, at, at) };
            assert_eq!(receiver.on_packet(&audio), Ok(()));
            assert_eq!(receiver.on_packet(&unstamped), Ok(()));
        }
        assert_eq!(receiver.poll_remb(), None);
        assert_eq!(receiver.incoming.bps(Time::from_secs(5)), None);
    }

    #[test]
    fn updates_come_more_rarely_at_low_rates() {
        // 640 bits of 5 % of the rate: 12.8 s kbit/s.
        assert_eq!(rate_interval(100_000), Time::from_millis(200));
        assert_eq!(rate_interval(25_600), Time::from_millis(500));
        assert_eq!(rate_interval(5_000), Time::from_secs(1));
    }

    fn target(sender: &dyn Controller) -> u64 {
        sender.decision().target.0
    }

    #[test]
    fn the_target_follows_remb_up_at_the_start_and_down_at_any_time_and_not_below_the_minimum() {
        let (mut sender, _) = create(BOUNDS);
        let mut run = |from_ms: u64, to_ms: u64, remb_kbps: u64| {
            let remb = Feedback::Remb(Bitrate::from_kbps(remb_kbps));
            assert_eq!(sender.on_feedback(Time::from_millis(from_ms), remb), Ok(()));
            for ms in (from_ms..to_ms).step_by(25) {
                let now = Time::from_millis(ms);
                assert_eq!(sender.on_timeout(now, &SenderState::default()), Ok(()));
            }
            target(&*sender)
        };
        assert_eq!(run(0, 100, 900), 900_000);
        assert_eq!(run(100, 200, 400), 400_000);
        // Audio has no part in the minimum.
        assert_eq!(run(200, 300, 10), 30_000);
    }

    /// 51 of 255 is 20 %: a tenth is taken off, once.
    #[test]
    fn loss_lowers_the_target_once_per_report_and_packets_are_never_heard_of() {
        let (mut sender, _) = create(BOUNDS);
        let tick = |sender: &mut Box<dyn Controller>, ms| {
            let now = Time::from_millis(ms);
            assert_eq!(sender.on_timeout(now, &SenderState::default()), Ok(()));
        };
        tick(&mut sender, 0);
        let report = Feedback::ReceiverReport { lost: 20, expected: 100, fraction: 51, rtt: None };
        assert_eq!(sender.on_feedback(Time::from_millis(1_000), report), Ok(()));
        let packets =
            Feedback::Packets { reports: &[], in_flight: Bytes(0), resolution: Time(1_000_000) };
        assert_eq!(sender.on_feedback(Time::from_millis(1_010), packets), Ok(()));
        // Four seconds without feedback on packets are no sign of a broken path.
        for ms in (1_025..5_000).step_by(25) {
            tick(&mut sender, ms);
        }
        // 300 kbit/s times (512 - 51) / 512.
        assert_eq!(target(&*sender), 300_000 * 461 / 512);
    }
}
