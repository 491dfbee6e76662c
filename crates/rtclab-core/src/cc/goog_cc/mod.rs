//! `goog-cc`: the send-side control of Chromium 156.
//!
//! Source: libwebrtc of August 2026 (`modules/congestion_controller/goog_cc`). One file per part; this one
//! has their order of events (`goog_cc_network_control.cc`).

mod alr;
mod arithmetic;
mod delay_based;
mod inter_arrival;
mod link_capacity;
mod loss_estimator;
mod observed;
mod options;
mod pacing;
mod packet;
#[cfg(test)]
mod port;
mod probe_controller;
mod probe_estimator;
mod pushback;
mod rate_control;
mod remb;
mod send_side;
mod streams;
mod throughput;
mod trendline;

pub(crate) use options::OPTIONS;
pub(crate) use remb::create as create_remb;

use super::control::{
    ControlError, Controller, Decision, Feedback, Halves, Observation, PacketReport, Probe,
    RateBounds, SenderState, SentPacket,
};
use super::options::Options;
use super::receive_side::state::Usage;
use crate::units::{Bitrate, Bytes, Time};
use alr::Alr;
use arithmetic::{MS, bitrate, bps, bytes, micros, scale, thousands, time};
use delay_based::DelayBased;
use loss_estimator::LossState;
use options::GoogCcConfig;
use pacing::PacingInput;
use packet::PacketResult;
use probe_controller::{Cause, ProbeController};
use probe_estimator::ProbeEstimator;
use pushback::{Pushback, PushbackWindow};
use send_side::SendSide;
use std::collections::VecDeque;
use streams::Streams;
use throughput::Throughput;

/// libwebrtc, `GoogCcNetworkControllerFactory::GetProcessInterval`.
const PROCESS_INTERVAL: Time = Time::from_millis(25);
/// A probe's result may lie below the delay-based estimate, but not below this share of the acknowledged
/// rate (`kProbeDropThroughputFraction`).
const PROBE_DROP: f64 = 0.85;
/// Probes whose packets may still be reported.
const REMEMBERED_PROBES: usize = 16;

/// What was told to the encoders and the prober last; they are told again when something changes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Notified {
    target: i64,
    pushed: i64,
    loss_state: LossState,
    fraction_lost: u8,
    rtt: i64,
    in_alr: bool,
}

/// Send-side congestion control of Chromium 156.
pub struct GoogCc {
    config: GoogCcConfig,
    streams: Streams,
    alr: Alr,
    throughput: Throughput,
    probe_estimator: ProbeEstimator,
    delay: DelayBased,
    send_side: SendSide,
    prober: ProbeController,
    window: PushbackWindow,
    pushback: Pushback,
    /// Probes to send.
    probes: VecDeque<Probe>,
    /// Probes given out lately, whose packets are recognised by their identifiers.
    given_out: VecDeque<Probe>,
    next_process: Time,
    /// `Some(true)` if timeouts are [silent](crate#silent-timeouts) until the next packet, feedback or probe; `None` until
    /// somebody asks.
    silent: Option<bool>,
    /// The least that the window becomes while timeouts are silent; see [`PushbackWindow::least`].
    least_window: Option<i64>,
    /// Whether the last packet that was sent changed the decision.
    changed_by_sending: bool,
    is_started: bool,
    has_sent: bool,
    has_feedback: bool,
    was_in_alr: bool,
    acknowledged: Option<i64>,
    probe_result: Option<i64>,
    notified: Option<Notified>,
    decision: Decision,
    window_bytes: Option<i64>,
    /// Packets of a report; kept for its memory.
    packets: Vec<PacketResult>,
    /// Those that arrived, in the order of their arrival.
    arrived: Vec<PacketResult>,
}

/// Creates the sender half; there is no receiver half.
pub(crate) fn create(bounds: RateBounds, options: Options<'_>) -> Halves {
    (Box::new(GoogCc::with(bounds, GoogCcConfig::new(options))), None)
}

impl GoogCc {
    /// Starts with these bounds, and libwebrtc's defaults for everything else.
    pub fn new(bounds: RateBounds) -> Self {
        Self::with(bounds, GoogCcConfig::default())
    }

    fn with(bounds: RateBounds, config: GoogCcConfig) -> Self {
        let streams = Streams::new(bounds);
        GoogCc {
            streams,
            alr: Alr::new(config.alr),
            throughput: Throughput::new(),
            probe_estimator: ProbeEstimator::default(),
            delay: DelayBased::new(config.trendline, config.beta),
            send_side: SendSide::new(&config.send_side),
            prober: ProbeController::new(config.probes),
            window: PushbackWindow::new(config.pushback),
            pushback: Pushback::new(config.pushback),
            probes: VecDeque::new(),
            given_out: VecDeque::new(),
            next_process: Time::ZERO,
            silent: None,
            least_window: None,
            changed_by_sending: false,
            is_started: false,
            has_sent: false,
            has_feedback: false,
            was_in_alr: false,
            acknowledged: None,
            probe_result: None,
            notified: None,
            decision: Decision::at(bitrate(streams.start)),
            window_bytes: None,
            packets: Vec::new(),
            arrived: Vec::new(),
            config,
        }
    }

    /// Applies the streams' bounds, before anything is sent.
    fn start(&mut self, now: i64) {
        let Streams { start, min, max, max_total, has_video, .. } = self.streams;
        self.send_side.set_bitrates(Some(start), min, max);
        self.delay.rate_mut().set_start(start);
        self.delay.rate_mut().set_min(min);
        self.prober.set_bitrates(now, Some(start), min, max, &mut self.probes);
        // The stream that is added last decides: the camera, which follows the microphone, does not ask.
        self.prober.set_alr_probing(!has_video || self.config.alr_probing);
        self.prober.set_max_total(now, max_total, &mut self.probes);
    }

    fn process(&mut self, now: i64) {
        self.send_side.update(now);
        self.prober.set_alr_start(self.alr.started());
        self.prober.process(now, &mut self.probes);
        self.update_window();
        self.notify(now);
    }

    fn on_packets(&mut self, now: i64, reports: &[PacketReport], in_flight: Bytes) {
        if reports.is_empty() {
            return;
        }
        self.has_feedback = true;
        self.prober.on_first_feedback();
        self.pushback.set_outstanding(bytes(in_flight));
        self.collect(reports);
        self.measure_rtt(now);
        self.follow_alr(now);
        self.throughput.add(&self.arrived);
        self.acknowledged = self.throughput.rate();
        self.send_side.set_acknowledged(self.acknowledged);
        let probe = self.probe_rate();
        let result = self.delay.add(now, &self.arrived, self.acknowledged, probe);
        if let Some(estimate) = result.updated {
            if result.is_probe {
                self.send_side.set_rate(estimate);
            }
            self.send_side.set_delay_limit(estimate);
        }
        let in_alr = self.alr.started().is_some();
        self.send_side.on_packets(now, &self.packets, in_alr);
        if result.updated.is_some() {
            self.notify(now);
        }
        if result.recovered {
            self.prober.set_alr_start(self.alr.started());
            self.prober.request(now, &mut self.probes);
        }
        if !self.arrived.is_empty() {
            self.update_window();
        }
    }

    /// Longest round trip of a report for the window, and shortest without waiting at the far end for the
    /// back-off. A report without arrivals measures nothing.
    fn measure_rtt(&mut self, now: i64) {
        let Some(newest) = self.arrived.last().and_then(|packet| packet.received) else { return };
        let (mut feedback, mut propagation) = (i64::MIN, i64::MAX);
        for packet in &self.arrived {
            let Some(received) = packet.received else { continue };
            let rtt = now - packet.sent;
            feedback = feedback.max(rtt);
            propagation = propagation.min(rtt - (newest - received));
        }
        self.window.on_feedback_rtt(feedback);
        self.send_side.on_propagation_rtt(now, propagation);
    }

    /// Tells the prober when an application-limited region ended.
    fn follow_alr(&mut self, now: i64) {
        let in_alr = self.alr.started().is_some();
        if self.was_in_alr && !in_alr {
            self.prober.set_alr_ended(now);
        }
        self.was_in_alr = in_alr;
    }

    /// Collects the packets of a report, and those that arrived in the order of their arrival.
    fn collect(&mut self, reports: &[PacketReport]) {
        self.packets.clear();
        self.packets.extend(reports.iter().map(|report| PacketResult {
            seq: report.sent.transport_seq,
            sent: micros(report.sent.at),
            received: report.received.map(|at| micros(at.0)),
            size: bytes(report.sent.size),
            probe: report.sent.probe,
        }));
        self.arrived.clear();
        self.arrived.extend(self.packets.iter().filter(|packet| packet.received.is_some()));
        self.arrived.sort_unstable_by_key(|packet| (packet.received, packet.sent, packet.seq));
    }

    /// What the probes measured by this report, but not far below what arrives anyway.
    fn probe_rate(&mut self) -> Option<i64> {
        let mut result = None;
        for packet in &self.arrived {
            let (Some(id), Some(received)) = (packet.probe, packet.received) else { continue };
            let Some(probe) = self.given_out.iter().find(|probe| probe.id == id) else { continue };
            result = self.probe_estimator.add(packet, received, probe).or(result);
        }
        let result = bounded_probe(result?, self.delay.last_updated(), self.acknowledged);
        self.probe_result = Some(result);
        Some(result)
    }

    fn update_window(&mut self) {
        self.window_bytes = self.window.update(self.send_side.target());
        self.pushback.set_window(self.window_bytes);
    }

    /// Tells encoders, pacer and prober what changed, and returns whether anything did.
    fn notify(&mut self, now: i64) -> bool {
        let target = self.send_side.target();
        let pushed = self.pushback.update(target).max(self.streams.min);
        let notified = self.notification(target, pushed);
        if self.notified.replace(notified) == Some(notified) {
            return false;
        }
        self.alr.set_target(target);
        self.decision.target = bitrate(target);
        self.decision.drop_ratio = (target - pushed) as f64 / target as f64;
        self.prober.set_estimate(now, target, self.cause(), &mut self.probes);
        self.set_pacing(target, pushed);
        true
    }

    fn notification(&self, target: i64, pushed: i64) -> Notified {
        Notified {
            target,
            pushed,
            loss_state: self.send_side.loss_state(),
            fraction_lost: self.send_side.fraction_lost(),
            rtt: self.send_side.rtt(),
            in_alr: self.alr.started().is_some(),
        }
    }

    /// Whether no timeout changes the decision before the next packet, feedback or probe.
    fn is_silent(&mut self) -> bool {
        let target = self.send_side.target();
        self.least_window = self.window.least(target);
        self.notified == Some(self.notification(target, target.max(self.streams.min)))
            && self.send_side.is_silent()
            && self.stays_silent()
    }

    /// Whether timeouts that were silent before a packet left, which changed no decision, still are.
    fn stays_silent(&self) -> bool {
        self.pushback.is_silent(self.least_window) && !self.send_side.rtt_above_limit()
    }

    /// What limits the target, for the prober.
    fn cause(&self) -> Cause {
        if self.delay.trendline().usage() != Usage::Normal {
            return Cause::DelayIncreased;
        }
        if self.send_side.rtt_above_limit() {
            return Cause::RttAboveLimit;
        }
        match self.send_side.loss_state() {
            LossState::Decreasing | LossState::IncreasingUsingPadding => Cause::LossLimited,
            LossState::Increasing => Cause::LossIncreasing,
            LossState::DelayBased => Cause::DelayLimited,
        }
    }

    fn set_pacing(&mut self, target: i64, pushed: i64) {
        let pacing = self.config.pacing;
        let factor = match self.streams.has_video || self.has_feedback {
            true => pacing.factor,
            false => pacing.early_factor,
        };
        let pads = self.send_side.loss_state() == LossState::IncreasingUsingPadding;
        let input = PacingInput { target, pushed, min_total: self.streams.min, pads };
        let (pacing, padding) = pacing::rates(factor, input);
        self.decision.pacing_rate = Some(bitrate(pacing));
        self.decision.padding_rate = bitrate(padding);
    }
}

/// A probe's result, raised to the delay-based estimate or to the share of the acknowledged rate that a probe
/// may drop to, whichever is lower.
fn bounded_probe(probe: i64, delay_based: i64, acknowledged: Option<i64>) -> i64 {
    match acknowledged {
        Some(rate) => probe.max(delay_based.min(scale(rate, PROBE_DROP))),
        None => probe,
    }
}

impl Controller for GoogCc {
    fn on_sent(&mut self, packet: &SentPacket) -> Result<(), ControlError> {
        let at = micros(packet.at);
        self.alr.on_sent(at, bytes(packet.size));
        if !self.has_sent {
            self.has_sent = true;
            self.send_side.on_propagation_rtt(at, 0);
        }
        self.send_side.on_sent(at);
        self.pushback.set_outstanding(bytes(packet.in_flight));
        let was_silent = self.silent == Some(true);
        let stays_silent = was_silent && self.stays_silent();
        // While timeouts are silent, only the beginning or the end of an application-limited region can be news.
        let in_alr = self.alr.started().is_some();
        let has_news =
            !stays_silent || self.notified.is_none_or(|notified| notified.in_alr != in_alr);
        self.changed_by_sending = has_news && self.notify(at);
        self.silent = (was_silent && !self.changed_by_sending).then_some(stays_silent);
        Ok(())
    }

    fn is_changed_by_sending(&self) -> bool {
        self.changed_by_sending
    }

    fn on_feedback(&mut self, now: Time, feedback: Feedback<'_>) -> Result<(), ControlError> {
        self.silent = None;
        let now = micros(now);
        match feedback {
            Feedback::Packets { reports, in_flight, .. } => {
                self.on_packets(now, reports, in_flight)
            }
            Feedback::ReceiverReport { lost, expected, rtt, .. } => {
                // Reports carry whole milliseconds.
                let rtt = rtt.map_or(0, |rtt| thousands(micros(rtt)) * MS);
                if rtt > 0 {
                    self.delay.rate_mut().set_rtt(rtt);
                    self.send_side.on_rtt(rtt);
                }
                self.send_side.on_losses(now, lost, expected.saturating_sub(lost));
            }
            Feedback::Remb(rate) => {
                self.send_side.set_receiver_limit(bps(rate));
            }
        }
        Ok(())
    }

    fn on_timeout(&mut self, now: Time, _sender: &SenderState) -> Result<(), ControlError> {
        self.silent = None;
        self.next_process = now + PROCESS_INTERVAL;
        let now = micros(now);
        let is_first = !std::mem::replace(&mut self.is_started, true);
        if is_first {
            self.start(now);
        }
        self.process(now);
        if is_first {
            self.prober.on_network_available(now, &mut self.probes);
        }
        Ok(())
    }

    fn on_media_limit(&mut self, now: Time, max: Bitrate) {
        self.streams.max_total = bps(max) + self.streams.audio;
        if self.is_started {
            self.prober.set_max_total(micros(now), self.streams.max_total, &mut self.probes);
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        Some(self.next_process)
    }

    fn skip_until(&mut self) -> Option<Time> {
        let silent = match self.silent {
            Some(silent) => silent,
            None => self.is_silent(),
        };
        self.silent = Some(silent);
        if !silent {
            return Some(self.next_process);
        }
        let probe = time(self.prober.next_probe(self.alr.started())?);
        let skipped = probe.saturating_sub(self.next_process).0.div_ceil(PROCESS_INTERVAL.0);
        Some(self.next_process + Time(skipped * PROCESS_INTERVAL.0))
    }

    fn catch_up(&mut self, now: Time) {
        let end = match self.next_process < now {
            true => self.skip_until().map_or(now, |change| change.min(now)),
            false => return,
        };
        while self.next_process < end {
            self.process(micros(self.next_process));
            self.next_process += PROCESS_INTERVAL;
        }
    }

    fn poll_probe(&mut self) -> Option<Probe> {
        let probe = self.probes.pop_front()?;
        if self.given_out.len() == REMEMBERED_PROBES {
            self.given_out.pop_front();
        }
        self.given_out.push_back(probe);
        Some(probe)
    }

    fn decision(&self) -> Decision {
        self.decision
    }

    fn observe(&self, out: &mut Vec<Observation>) {
        self.show(out);
    }
}

#[cfg(test)]
mod tests;
