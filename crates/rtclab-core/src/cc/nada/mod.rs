//! `nada`: network-assisted dynamic adaptation. Source: RFC 8698.
//!
//! The receiver's part runs at the sender, on per-packet feedback (section 6.4). Where the RFC is silent, it follows the
//! simulations that were published with it (cisco/ns3-rmcat adb3f8e), unless a comment says otherwise.

mod history;
mod loss;

use super::control::{
    ControlError, Controller, Decision, Feedback, Halves, Observation, PacketReport, RateBounds,
    SenderState, SentPacket,
};
use super::options::{OptionSpec, Options, switch};
use super::reals::{
    BITS_IN_MICROS, MS, SECOND, between, bitrate, bps, bytes, micros, remote_micros,
};
use crate::ecn::Ecn;
use crate::units::{Bytes, Time};
use history::{Entry, ObservationWindow};
use loss::LossIntervals;
use std::collections::VecDeque;

/// What a share of packets adds to the level of congestion.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Penalty {
    /// The share at which it adds `level`.
    reference: f64,
    level: f64,
}

impl Penalty {
    fn at(self, share: f64) -> f64 {
        let times = share / self.reference;
        self.level * times * times
    }
}

/// Parameters of RFC 8698, figure 3. Times are in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct NadaConfig {
    /// PRIO.
    priority: f64,
    /// XREF.
    reference: f64,
    /// KAPPA.
    kappa: f64,
    /// ETA.
    eta: f64,
    /// TAU: upper bound of the round-trip time.
    tau: f64,
    /// QEPS.
    no_queue: f64,
    /// DFILT.
    filter_delay: f64,
    /// GAMMA_MAX.
    gamma_max: f64,
    /// QBOUND.
    queue_bound: f64,
    /// MULTILOSS.
    loss_memory: f64,
    /// QTH.
    warp_threshold: f64,
    /// LAMBDA.
    warp_strength: f64,
    /// PLRREF, DLOSS.
    loss: Penalty,
    /// PMRREF, DMARK.
    mark: Penalty,
    /// BETA_S.
    beta_sent: f64,
    /// BETA_V.
    beta_video: f64,
    /// Whether packets leave as ECT(0).
    ect0: bool,
}

impl Default for NadaConfig {
    fn default() -> Self {
        NadaConfig {
            priority: 1.0,
            reference: 10.0 * MS,
            kappa: 0.5,
            eta: 2.0,
            tau: 500.0 * MS,
            no_queue: 10.0 * MS,
            filter_delay: 120.0 * MS,
            gamma_max: 0.5,
            queue_bound: 50.0 * MS,
            loss_memory: 7.0,
            warp_threshold: 50.0 * MS,
            warp_strength: 0.5,
            loss: Penalty { reference: 0.01, level: 10.0 * MS },
            mark: Penalty { reference: 0.01, level: 2.0 * MS },
            beta_sent: 0.1,
            beta_video: 0.1,
            ect0: false,
        }
    }
}

/// DELTA: interval of the updates that the constants are made for.
const DELTA: Time = Time::from_millis(100);
/// Least time between updates, in microseconds: half of DELTA, as in ns3-rmcat.
const LEAST_INTERVAL: f64 = 50.0 * MS;
/// LOGWIN, in microseconds.
const WINDOW: f64 = 500.0 * MS;
/// ALPHA: weight of a new ratio of losses or marks.
const ALPHA: f64 = 0.1;
/// FPS: frames a second that the shaping buffer is measured by.
const FPS: f64 = 30.0;
/// Share of the rate that the shaping buffer may change (section 5.2).
const SHAPING: f64 = 0.05;
/// Samples of the filter that takes the smallest (section 5.1).
const TAPS: usize = 15;
/// Packets in the window from which on a ratio of losses counts (ns3-rmcat).
const FEWEST: usize = 5;
/// Largest congestion level, in microseconds (ns3-rmcat; the field of the RFC's report ends at 3.3 s).
const LARGEST_LEVEL: f64 = 500.0 * MS;
/// The base delay is the smallest of one or two of these intervals, in microseconds: "tens of minutes" (section 5.1).
const BASE_INTERVAL: f64 = 600.0 * SECOND;
/// The RFC has no rule for missing feedback. Here the rate is halved after every such time without any, in microseconds.
const SILENCE: f64 = SECOND;

/// Options of `nada`.
pub(crate) const OPTIONS: &[OptionSpec] = &[
    switch("ect0", "packets leave as ECT(0), and marks count (0)"),
    number("priority", "weight among flows, PRIO (1)", (0.1, 10.0)),
    number("reference_ms", "congestion level at the highest rate, in ms, XREF (10)", (1.0, 1e3)),
    number("kappa", "gain of gradual updates, KAPPA (0.5)", (0.01, 10.0)),
    number("eta", "gain of changes of the level, ETA (2)", (0.0, 100.0)),
    number("tau_ms", "largest round-trip time aimed at, in ms, TAU (500)", (50.0, 5e3)),
    number("no_queue_ms", "delay below which there is no queue, in ms, QEPS (10)", (0.1, 1e3)),
    number("filter_delay_ms", "delay of filters, in ms, DFILT (120)", (0.0, 1e3)),
    number("gamma_max", "largest growth of an update, GAMMA_MAX (0.5)", (0.01, 5.0)),
    number("queue_bound_ms", "queue that growth may cause, in ms, QBOUND (50)", (1.0, 1e3)),
    number("loss_memory", "loss intervals that a loss matters for, MULTILOSS (7)", (0.0, 100.0)),
    number("warp_ms", "delay that is warped if losses matter, in ms, QTH (50)", (1.0, 1e3)),
    number("warp", "strength of that, LAMBDA (0.5)", (0.0, 10.0)),
    number("loss_reference", "reference loss, PLRREF (0.01)", (1e-4, 1.0)),
    number("loss_penalty_ms", "level that it stands for, in ms, DLOSS (10)", (0.0, 1e3)),
    number("mark_reference", "reference share of marks, PMRREF (0.01)", (1e-4, 1.0)),
    number("mark_penalty_ms", "level that it stands for, in ms, DMARK (2)", (0.0, 1e3)),
    number("beta_sent", "how fast the pacer's queue is sent, BETA_S (0.1)", (0.0, 1.0)),
    number("beta_video", "how much the encoder makes up for it, BETA_V (0.1)", (0.0, 1.0)),
];

const fn number(name: &'static str, meaning: &'static str, bounds: (f64, f64)) -> OptionSpec {
    OptionSpec { name, meaning, bounds }
}

impl NadaConfig {
    /// The RFC's defaults with these options.
    fn new(options: Options<'_>) -> Self {
        let rfc = NadaConfig::default();
        let get = |name, default: f64| options.get(name).unwrap_or(default);
        let ms = |name, default: f64| options.get(name).map_or(default, |ms| ms * MS);
        NadaConfig {
            priority: get("priority", rfc.priority),
            reference: ms("reference_ms", rfc.reference),
            kappa: get("kappa", rfc.kappa),
            eta: get("eta", rfc.eta),
            tau: ms("tau_ms", rfc.tau),
            no_queue: ms("no_queue_ms", rfc.no_queue),
            filter_delay: ms("filter_delay_ms", rfc.filter_delay),
            gamma_max: get("gamma_max", rfc.gamma_max),
            queue_bound: ms("queue_bound_ms", rfc.queue_bound),
            loss_memory: get("loss_memory", rfc.loss_memory),
            warp_threshold: ms("warp_ms", rfc.warp_threshold),
            warp_strength: get("warp", rfc.warp_strength),
            loss: Penalty {
                reference: get("loss_reference", rfc.loss.reference),
                level: ms("loss_penalty_ms", rfc.loss.level),
            },
            mark: Penalty {
                reference: get("mark_reference", rfc.mark.reference),
                level: ms("mark_penalty_ms", rfc.mark.level),
            },
            beta_sent: get("beta_sent", rfc.beta_sent),
            beta_video: get("beta_video", rfc.beta_video),
            ect0: options.is_on("ect0"),
        }
    }

    /// GAMMA: growth of an update without congestion, from a round-trip time in microseconds (section 4.3).
    fn gamma(&self, rtt: f64) -> f64 {
        (self.queue_bound / (rtt + micros(DELTA) + self.filter_delay)).min(self.gamma_max)
    }

    /// Queuing delay as it counts while losses matter, fully or in part (section 4.2).
    fn warped(&self, queue: f64, memory: f64) -> f64 {
        let (threshold, strength) = (self.warp_threshold, self.warp_strength);
        if queue < threshold {
            return queue;
        }
        let warped = threshold * libm::exp(-strength * (queue - threshold) / threshold);
        memory * warped + (1.0 - memory) * queue
    }

    /// The level that shares of lost and marked packets add (section 4.2).
    fn penalty(&self, lost: f64, marked: f64) -> f64 {
        self.loss.at(lost) + self.mark.at(marked)
    }
}

/// The smallest of the last samples.
#[derive(Clone, Debug, Default)]
struct Smallest(VecDeque<f64>);

impl Smallest {
    fn add(&mut self, sample: f64) {
        if self.0.len() == TAPS {
            self.0.pop_front();
        }
        self.0.push_back(sample);
    }

    fn get(&self) -> f64 {
        self.0.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

/// Sender of RFC 8698.
pub(crate) struct Nada {
    config: NadaConfig,
    /// RMIN and RMAX, in bit/s.
    min: f64,
    max: f64,
    /// Rate before any feedback; r_ref from then on, in bit/s.
    rate: f64,
    /// x_curr of the last update, in microseconds.
    level: f64,
    /// Whether the last update was gradual.
    is_gradual: bool,
    /// When the rate was updated last, in microseconds; when the first packet left, before the first update.
    updated: Option<f64>,
    /// Since when reports are missing, in microseconds.
    silent_since: Option<f64>,
    history: ObservationWindow,
    intervals: LossIntervals,
    /// When the last packet arrived, on the far end's clock in microseconds.
    last_arrival: Option<f64>,
    /// Smallest one-way delays of the interval before and of the running one.
    base: [f64; 2],
    base_since: Option<f64>,
    delays: Smallest,
    rtts: Smallest,
    lost: f64,
    marked: f64,
    /// r_recv, in bit/s.
    received: f64,
    /// Bytes in the pacer at the last timeout.
    queued: f64,
    ecn: Ecn,
    next_timeout: Time,
}

/// Creates the sender half; there is no receiver half.
pub(crate) fn create(bounds: RateBounds, options: Options<'_>) -> Halves {
    (Box::new(Nada::new(bounds, NadaConfig::new(options))), None)
}

impl Nada {
    fn new(bounds: RateBounds, config: NadaConfig) -> Self {
        let total = bounds.with_audio();
        let (min, max) = (bps(total.min).max(1.0), bps(total.max).max(1.0));
        let ecn = if config.ect0 { Ecn::Ect0 } else { Ecn::NotCapable };
        Nada {
            config,
            min,
            max: max.max(min),
            rate: between(bps(total.start), min, max),
            level: 0.0,
            is_gradual: false,
            updated: None,
            silent_since: None,
            history: ObservationWindow::default(),
            intervals: LossIntervals::default(),
            last_arrival: None,
            base: [f64::INFINITY; 2],
            base_since: None,
            delays: Smallest::default(),
            rtts: Smallest::default(),
            lost: 0.0,
            marked: 0.0,
            received: 0.0,
            queued: 0.0,
            ecn,
            next_timeout: Time::ZERO,
        }
    }

    fn on_packets(&mut self, now: Time, reports: &[PacketReport], in_flight: Bytes) {
        let now_us = micros(now);
        self.silent_since = (in_flight > Bytes::ZERO).then_some(now_us);
        // A packet that arrives after it was reported as lost stays lost: out of order is lost (section 5.1).
        let news = || reports.iter().filter(|report| !report.lost_before);
        news().for_each(|report| self.add(report));
        let newest = news().rfind(|report| report.received.is_some());
        if let Some(newest) = newest {
            let held = newest.held.map_or(0.0, micros);
            self.rtts.add((now_us - micros(newest.sent.at) - held).max(0.0));
        }
        let since = *self.updated.get_or_insert(now_us);
        if newest.is_some() && now_us - since >= LEAST_INTERVAL {
            self.updated = Some(now_us);
            self.update(now_us - since);
        }
    }

    fn add(&mut self, report: &PacketReport) {
        let sent = micros(report.sent.at);
        let Some(received) = report.received.map(remote_micros) else {
            self.intervals.on_lost(sent, self.rtt());
            // Before any arrival there is no time of the far end to put it at.
            if let Some(at) = self.last_arrival {
                let bytes = bytes(report.sent.size);
                self.history.add(Entry { at, bytes, delay: None, is_marked: false }, WINDOW);
            }
            return;
        };
        self.intervals.on_received();
        if self.last_arrival.is_some_and(|last| received - last > WINDOW) {
            self.history.clear();
        }
        let at = self.last_arrival.map_or(received, |last| received.max(last));
        self.last_arrival = Some(at);
        let delay = received - sent;
        self.follow_base(received, delay);
        self.delays.add(delay);
        let is_marked = report.ecn == Some(Ecn::CongestionExperienced);
        let bytes = bytes(report.sent.size);
        self.history.add(Entry { at, bytes, delay: Some(delay), is_marked }, WINDOW);
    }

    fn follow_base(&mut self, at: f64, delay: f64) {
        let since = *self.base_since.get_or_insert(at);
        if at - since >= BASE_INTERVAL {
            self.base = [self.base[1], f64::INFINITY];
            self.base_since = Some(at);
        }
        self.base[1] = self.base[1].min(delay);
    }

    fn base(&self) -> f64 {
        self.base[0].min(self.base[1])
    }

    /// Smallest of the last round-trip times; zero before the first (section 4.3).
    fn rtt(&self) -> f64 {
        match self.rtts.get() {
            rtt if rtt.is_finite() => rtt,
            _ => 0.0,
        }
    }

    /// One round of sections 4.2 and 4.3, `elapsed` after the last one.
    fn update(&mut self, elapsed: f64) {
        let config = self.config;
        let follow = |average: &mut f64, ratio: f64| *average += ALPHA * (ratio - *average);
        if self.history.len() >= FEWEST {
            follow(&mut self.lost, self.history.loss_ratio());
            follow(&mut self.marked, self.history.mark_ratio());
        }
        self.received = self.history.received_rate(WINDOW) * BITS_IN_MICROS;
        let queue = (self.delays.get() - self.base()).max(0.0);
        let memory = self.intervals.memory(config.loss_memory);
        let level = config.warped(queue, memory) + config.penalty(self.lost, self.marked);
        let level = level.min(LARGEST_LEVEL);
        let longest = self.history.longest_delay() - self.base();
        self.is_gradual = self.history.has_loss() || longest >= config.no_queue;
        self.rate = match self.is_gradual {
            false => self.rate.max((1.0 + config.gamma(self.rtt())) * self.received),
            true => self.rate * (1.0 + self.gradual_change(elapsed, level)),
        };
        self.rate = between(self.rate, self.min, self.max);
        self.level = level;
    }

    /// Relative change of the rate in gradual mode (section 4.3, equations 5 to 7). The RFC has no bound of the time since
    /// the last update; here it is TAU, beyond which the equations are not stable.
    fn gradual_change(&self, elapsed: f64, level: f64) -> f64 {
        let NadaConfig { priority, reference, kappa, eta, tau, .. } = self.config;
        let offset = level - priority * reference * self.max / self.rate;
        let change = level - self.level;
        -kappa * (elapsed.min(tau) / tau * offset / tau + eta * change / tau)
    }

    /// Bits a second that the queue in the pacer is worth, at most a twentieth of the rate (section 5.2).
    fn shaped(&self, beta: f64) -> f64 {
        (beta * 8.0 * self.queued * FPS).min(SHAPING * self.rate)
    }

    fn halve_in_silence(&mut self, now: f64) {
        if self.silent_since.is_some_and(|since| now - since >= SILENCE) {
            self.silent_since = Some(now);
            self.rate = between(self.rate / 2.0, self.min, self.max);
        }
    }
}

impl Controller for Nada {
    fn on_sent(&mut self, packet: &SentPacket) -> Result<(), ControlError> {
        let at = micros(packet.at);
        self.updated.get_or_insert(at);
        self.silent_since.get_or_insert(at);
        Ok(())
    }

    fn is_changed_by_sending(&self) -> bool {
        false
    }

    fn on_feedback(&mut self, now: Time, feedback: Feedback<'_>) -> Result<(), ControlError> {
        if let Feedback::Packets { reports, in_flight, .. } = feedback {
            self.on_packets(now, reports, in_flight);
        }
        Ok(())
    }

    fn on_timeout(&mut self, now: Time, sender: &SenderState) -> Result<(), ControlError> {
        self.next_timeout = now.saturating_add(DELTA);
        self.queued = bytes(sender.queued);
        self.halve_in_silence(micros(now));
        Ok(())
    }

    fn poll_timeout(&self) -> Option<Time> {
        Some(self.next_timeout)
    }

    fn decision(&self) -> Decision {
        let video = (self.rate - self.shaped(self.config.beta_video)).max(self.min);
        let sent = (self.rate + self.shaped(self.config.beta_sent)).min(self.max);
        Decision { pacing_rate: Some(bitrate(sent)), ecn: self.ecn, ..Decision::at(bitrate(video)) }
    }

    fn observe(&self, out: &mut Vec<Observation>) {
        let mut add = |name, value| out.push(Observation::new(name, value));
        let decision = self.decision();
        add("target_bps", bps(decision.target));
        add("pacing_rate_bps", decision.pacing_rate.map_or(0.0, bps));
        add("reference_rate_bps", self.rate);
        if self.last_arrival.is_none() {
            return;
        }
        add("incoming_rate_bps", self.received);
        add("congestion_level_ms", self.level / MS);
        add("queue_delay_ms", (self.delays.get() - self.base()).max(0.0) / MS);
        add("rtt_ms", self.rtt() / MS);
        add("loss_ratio", self.lost);
        add("marked_ratio", self.marked);
        add("is_gradual", f64::from(u8::from(self.is_gradual)));
    }
}

#[cfg(test)]
mod tests;
