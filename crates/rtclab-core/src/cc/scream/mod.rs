//! `scream`: SCReAM v2 as Chromium of 2026 has it behind the field trial `WebRTC-Bwe-ScreamV2`.
//!
//! Source: libwebrtc f3ae3eb62e (August 2026), `modules/congestion_controller/scream`, which follows
//! draft-ietf-ccwg-rfc8298bis-screamv2 with constants of its own. One file per part; this one has the outputs
//! (`scream_network_controller.cc`).

mod delay;
mod loss;
mod options;
mod padding;
mod report;
mod window;

pub(crate) use options::OPTIONS;

use super::control::{
    ControlError, Controller, Decision, Feedback, Halves, Observation, PacketReport, RateBounds,
    SenderState, SentPacket,
};
use super::options::Options;
use super::reals::{BITS_IN_MICROS, KBPS, MS, between, bitrate, bps, bytes, micros, size};
use crate::ecn::Ecn;
use crate::units::{Bitrate, Bytes, Time};
use options::ScreamConfig;
use padding::Padding;
use report::Report;
use window::{Limits, Scream};

/// How often libwebrtc processes a control.
const PROCESS_INTERVAL: Time = Time::from_millis(25);
/// How far packets leave ahead of the pacing rate, soon after congestion and later.
const BURSTS: [Time; 2] = [Time::from_millis(10), Time::from_millis(40)];
/// Start rate and maximum of a call without video, in bit/s (`call/call_factory.cc`).
const AUDIO_START: f64 = 300.0 * KBPS;
const AUDIO_MAX: f64 = 2_000.0 * KBPS;

/// Self-clocked rate adaptation: a window of bytes in flight follows marks, loss and queuing delay, and the rate
/// follows the window.
pub(crate) struct ScreamV2 {
    scream: Scream,
    padding: Padding,
    /// Maximum of the target before a REMB.
    max: f64,
    remb: f64,
    audio: f64,
    /// Sum of the least rates of all streams.
    min_allocation: f64,
    /// Sum of the most that all streams can use, now and at its highest so far.
    allocation: f64,
    highest_allocation: f64,
    /// Bytes in the pacer at the last timeout.
    queued: f64,
    in_flight: f64,
    next_process: Time,
    decision: Decision,
    changed_by_sending: bool,
}

/// Creates the sender half; there is no receiver half.
pub(crate) fn create(bounds: RateBounds, options: Options<'_>) -> Halves {
    (Box::new(ScreamV2::new(bounds, ScreamConfig::new(options))), None)
}

impl ScreamV2 {
    fn new(bounds: RateBounds, config: ScreamConfig) -> Self {
        let total = bounds.with_audio();
        let min = bps(total.min);
        let (start, max) = match bounds.has_video {
            true => (bps(bounds.start), f64::INFINITY),
            false => (AUDIO_START, AUDIO_MAX),
        };
        let limits = Limits { min, max: max.max(min) };
        let scream = Scream::new(config, limits, start.max(min));
        let allocation = bps(total.max);
        let mut control = ScreamV2 {
            decision: Decision::at(bitrate(scream.target())),
            scream,
            padding: Padding::new(),
            max: limits.max,
            remb: f64::INFINITY,
            audio: bps(bounds.audio),
            min_allocation: min,
            allocation,
            highest_allocation: allocation,
            queued: 0.0,
            in_flight: 0.0,
            next_process: Time::ZERO,
            changed_by_sending: false,
        };
        control.decision.ecn = Ecn::Ect1;
        control
    }

    fn on_packets(&mut self, now: Time, reports: &[PacketReport], in_flight: Bytes) {
        self.in_flight = bytes(in_flight);
        if let Some(report) = Report::read(now, reports, self.in_flight) {
            self.scream.on_report(&report);
        }
    }

    /// Decides anew, and returns whether anything is different.
    fn decide(&mut self, now: Time) -> bool {
        let now = micros(now);
        let config = &self.scream.config;
        let target = self.scream.target();
        let window = self.scream.send_window();
        let pacing = self.scream.pacing_rate().max(config.pacing_factor * self.min_allocation);
        let is_long_ago = now - self.scream.last_reaction() > config.large_bursts_after;
        let pads = self.padding.is_allowed(config, now, self.scream.last_decrease());
        let decision = Decision {
            target: bitrate(target),
            window: Some(size(window)),
            pacing_rate: Some(bitrate(pacing)),
            pacing_burst: Some(BURSTS[usize::from(is_long_ago)]),
            padding_rate: bitrate(if pads { self.padding_rate(target) } else { 0.0 }),
            drop_ratio: self.push_back(pacing, window),
            ecn: self.decision.ecn,
        };
        std::mem::replace(&mut self.decision, decision) != decision
    }

    /// Padding raises the rate to the target, until the target is as high as the streams can make use of.
    fn padding_rate(&self, target: f64) -> f64 {
        let useful =
            self.highest_allocation.min(2.0 * self.allocation).min(self.max).min(self.remb);
        if target < useful { target } else { 0.0 }
    }

    /// The share of its rate that the encoder should save.
    fn push_back(&self, pacing: f64, window: f64) -> f64 {
        if self.in_flight > window {
            return 1.0;
        }
        let config = &self.scream.config;
        let span = config.pushback_full - config.pushback_after;
        if pacing == 0.0 || span <= 0.0 {
            return 0.0;
        }
        let wait = self.queued / pacing * BITS_IN_MICROS;
        between((wait - config.pushback_after) / span, 0.0, 1.0)
    }
}

impl Controller for ScreamV2 {
    fn on_sent(&mut self, packet: &SentPacket) -> Result<(), ControlError> {
        self.in_flight = bytes(packet.in_flight);
        self.scream.on_sent(self.in_flight);
        let is_congested = self.in_flight > self.scream.send_window();
        self.changed_by_sending =
            (is_congested || self.scream.is_queue_detected()) && self.decide(packet.at);
        Ok(())
    }

    fn is_changed_by_sending(&self) -> bool {
        self.changed_by_sending
    }

    /// libwebrtc f3ae3eb62e, `scream_network_controller.cc`, CreateUpdate: the loss of its estimate stays zero.
    fn passes_loss_on(&self) -> bool {
        false
    }

    fn on_feedback(&mut self, now: Time, feedback: Feedback<'_>) -> Result<(), ControlError> {
        match feedback {
            Feedback::Packets { reports, in_flight, .. } => {
                self.on_packets(now, reports, in_flight);
            }
            Feedback::Remb(rate) => {
                self.remb = bps(rate);
                self.scream.limits.max = self.max.min(self.remb);
            }
            Feedback::ReceiverReport { .. } => return Ok(()),
        }
        self.decide(now);
        Ok(())
    }

    fn on_timeout(&mut self, now: Time, sender: &SenderState) -> Result<(), ControlError> {
        self.next_process = now.saturating_add(PROCESS_INTERVAL);
        self.queued = bytes(sender.queued);
        self.decide(now);
        Ok(())
    }

    fn on_media_limit(&mut self, now: Time, max: Bitrate) {
        self.allocation = bps(max) + self.audio;
        self.highest_allocation = self.highest_allocation.max(self.allocation);
        self.decide(now);
    }

    fn poll_timeout(&self) -> Option<Time> {
        Some(self.next_process)
    }

    fn decision(&self) -> Decision {
        self.decision
    }

    fn observe(&self, out: &mut Vec<Observation>) {
        let mut add = |name, value| out.push(Observation::new(name, value));
        add("target_bps", bps(self.decision.target));
        if let Some(rate) = self.decision.pacing_rate {
            add("pacing_rate_bps", bps(rate));
        }
        add("padding_rate_bps", bps(self.decision.padding_rate));
        add("drop_ratio", self.decision.drop_ratio);
        add("in_flight_bytes", self.in_flight);
        if !self.scream.has_feedback() {
            return;
        }
        add("ref_window_bytes", self.scream.reference_window());
        add("window_bytes", self.scream.send_window());
        add("rtt_ms", self.scream.delay().rtt() / MS);
        add("feedback_hold_ms", self.scream.hold() / MS);
        if self.scream.delay().queue().is_finite() {
            add("queue_delay_ms", self.scream.delay().queue() / MS);
        }
        add("l4s_marked_ratio", self.scream.alpha());
        add("loss_level", self.scream.loss_level());
        add("in_alr", f64::from(u8::from(self.scream.in_alr())));
    }
}

#[cfg(test)]
mod tests;
