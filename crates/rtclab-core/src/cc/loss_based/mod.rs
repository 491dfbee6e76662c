//! Sender half of the receive-side algorithms: loss-based rules, capped by the last REMB.

use super::control::{
    ControlError, Controller, Decision, Feedback, Observation, Probe, RateBounds, SenderState,
};
use super::tfrc;
use crate::units::{Bitrate, Bytes, Time};
use std::collections::VecDeque;

/// Loss is evaluated once this many packets have been reported on.
const MIN_PACKETS: u64 = 20;
/// Up to this loss, in units of 1/255 (2 %), the rate grows.
const LOW_LOSS: u64 = 5;
/// Above this loss, in units of 1/255 (10 %), the rate falls.
const HIGH_LOSS: u64 = 26;
/// What the rate grows by beside its factor: libwebrtc adds it to the product, most papers to the rate before.
pub(crate) const STEP: Bitrate = Bitrate(1_000);
/// The rate grows by the factor once per this interval.
const INCREASE_INTERVAL: Time = Time::from_secs(1);
/// The rate falls at most once per this time plus a round trip.
const DECREASE_INTERVAL: Time = Time::from_millis(300);
/// The rate follows REMB upwards until this long after the first report.
const START_PHASE: Time = Time::from_secs(2);
/// Feedback is missing after twice its 1 s interval (draft-alvestrand-rmcat-congestion-02, section 4).
const FEEDBACK_TIMEOUT: Time = Time::from_secs(2);
/// Rates of the probe clusters at the start, as multiples of the start rate.
const PROBES: [u64; 2] = [3, 6];
/// Packets per cluster, one more than the number of gaps measured.
const PROBE_PACKETS: u32 = 6;
/// Minimum spacing between packets of a probe.
const PROBE_SPACING: Time = Time::from_millis(1);
/// Average size of a probe packet.
const PROBE_PACKET: Bytes = Bytes(500);

/// When the rate is re-evaluated, and what it grows from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Growth {
    /// Evaluated at each report; grows from its current value, once a second (2013).
    EverySecond,
    /// Evaluated at any time (every 25 ms in libwebrtc) from the last reported loss; grows from its minimum
    /// over the last second (since 2014).
    FromMinimum,
}

/// What the TFRC equation does to the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TfrcRole {
    /// It is not used.
    None,
    /// A decrease does not go below it (libwebrtc until October 2015).
    FloorOfDecreases,
    /// The rate is never below it (draft-alvestrand-rmcat-congestion-02).
    Floor,
    /// The rate is never above it (text of the papers).
    Cap,
}

/// Variant of the sender half.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LossBasedConfig {
    pub(crate) growth: Growth,
    /// Growth factor at low loss.
    pub(crate) factor: f64,
    /// Added after that factor.
    pub(crate) step: Bitrate,
    pub(crate) tfrc: TfrcRole,
    /// Each reported loss reduces the rate only once, however late the next report is.
    pub(crate) once_per_report: bool,
    /// Sends two probe clusters at the start, and follows REMB upwards during the start phase.
    pub(crate) probes: bool,
    /// Halves the rate when feedback is missing.
    pub(crate) halves_without_feedback: bool,
}

impl LossBasedConfig {
    /// Growth as papers print it, if an option gives the factor: the sum of the rate and `step`, times the factor.
    pub(crate) fn with_printed_growth(self, factor: Option<f64>, step: Bitrate) -> Self {
        match factor {
            Some(factor) => LossBasedConfig { factor, step: step.scaled(factor), ..self },
            None => self,
        }
    }
}

/// The sender half of the algorithms of 2013 to 2016.
///
/// Source: libwebrtc 4d06db557a and 524ecc29dd, `send_side_bandwidth_estimation.cc`; since 2014
/// `bitrate_controller_impl.cc`, Process, which re-evaluates the rate every 25 ms.
pub(crate) struct LossBased {
    config: LossBasedConfig,
    bounds: RateBounds,
    rate: Bitrate,
    /// Rate from the loss rules alone, before it is capped by REMB.
    uncapped: Bitrate,
    remb: Option<Bitrate>,
    tfrc: Option<Bitrate>,
    rtt: Time,
    loss: u64,
    /// Reported packets not yet evaluated: how many were lost, in units of 1/255, and how many in all.
    pending: (u64, u64),
    /// Minima of the rate over the last second; the first is the oldest and smallest.
    minima: VecDeque<(Time, Bitrate)>,
    last_increase: Option<Time>,
    last_decrease: Option<Time>,
    /// Whether the last reported loss has already reduced the rate.
    reduced: bool,
    first_report: Option<Time>,
    feedback_due: Option<Time>,
    probes: Vec<Probe>,
}

impl LossBased {
    pub(crate) fn new(bounds: RateBounds, config: LossBasedConfig) -> Self {
        let probe = |(id, factor): (usize, &u64)| Probe {
            id: id as u32,
            rate: Bitrate(bounds.start.0 * factor),
            min_packets: PROBE_PACKETS,
            min_bytes: Bytes(u64::from(PROBE_PACKETS) * PROBE_PACKET.0),
            min_spacing: PROBE_SPACING,
        };
        // An end that sends nothing starts at zero, and has nothing to probe with.
        let has_probes = config.probes && bounds.start > Bitrate::ZERO;
        let probes = if has_probes { &PROBES[..] } else { &[] };
        LossBased {
            config,
            bounds,
            rate: bounds.start,
            uncapped: bounds.start,
            remb: None,
            tfrc: None,
            rtt: Time::ZERO,
            loss: 0,
            pending: (0, 0),
            minima: VecDeque::new(),
            last_increase: None,
            last_decrease: None,
            reduced: false,
            first_report: None,
            feedback_due: None,
            // `poll_probe` takes them from the back.
            probes: probes.iter().enumerate().map(probe).rev().collect(),
        }
    }

    fn on_report(&mut self, now: Time, fraction: u64, packets: u64) {
        self.first_report.get_or_insert(now);
        if packets > 0 {
            self.pending = (self.pending.0 + fraction * packets, self.pending.1 + packets);
            if self.pending.1 < MIN_PACKETS {
                return;
            }
            let (lost, packets) = std::mem::take(&mut self.pending);
            self.loss = lost / packets;
            self.reduced = false;
        } else if self.config.growth == Growth::EverySecond {
            // In 2013 a report that covers no packets still counted, and reads as no loss.
            self.loss = fraction;
        }
        self.tfrc = tfrc::rate(self.rtt, self.loss as f64 / 255.0);
        self.evaluate(now);
    }

    fn evaluate(&mut self, now: Time) {
        if self.follows_remb_upwards(now) {
            return;
        }
        self.update_minima(now);
        let mut rate = if self.loss <= LOW_LOSS {
            self.grown(now)
        } else if self.loss <= HIGH_LOSS {
            self.rate
        } else {
            self.reduced(now)
        };
        match (self.config.tfrc, self.tfrc) {
            (TfrcRole::Floor, Some(tfrc)) => rate = rate.max(tfrc),
            (TfrcRole::Cap, Some(tfrc)) => rate = rate.min(tfrc),
            _ => {}
        }
        self.set(rate);
    }

    fn grown(&mut self, now: Time) -> Bitrate {
        let from = match self.config.growth {
            Growth::FromMinimum => self.minima.front().map_or(self.rate, |(_, rate)| *rate),
            Growth::EverySecond => {
                if self.last_increase.is_some_and(|last| now < last + INCREASE_INTERVAL) {
                    return self.rate;
                }
                self.last_increase = Some(now);
                self.rate
            }
        };
        Bitrate((from.0 as f64 * self.config.factor + 0.5) as u64 + self.config.step.0)
    }

    fn reduced(&mut self, now: Time) -> Bitrate {
        if self.next_decrease().is_none_or(|at| now < at) {
            return self.rate;
        }
        self.last_decrease = Some(now);
        self.reduced = true;
        let reduced = Bitrate(self.rate.0 * (512 - self.loss) / 512);
        match self.tfrc.filter(|_| self.config.tfrc == TfrcRole::FloorOfDecreases) {
            Some(tfrc) => reduced.max(tfrc),
            None => reduced,
        }
    }

    /// When the last reported loss may reduce the rate (again); `None` if it may not.
    fn next_decrease(&self) -> Option<Time> {
        let pause = DECREASE_INTERVAL + self.rtt;
        let done = self.config.once_per_report && self.reduced;
        (!done).then(|| self.last_decrease.map_or(Time::ZERO, |last| last + pause))
    }

    /// When the rate changes without another report.
    fn next_change(&self) -> Option<Time> {
        if self.config.growth == Growth::EverySecond || self.first_report.is_none() {
            return None;
        }
        if self.loss <= LOW_LOSS {
            self.minima.front().map(|(at, _)| *at + INCREASE_INTERVAL)
        } else if self.loss <= HIGH_LOSS {
            None
        } else {
            self.next_decrease()
        }
    }

    fn follows_remb_upwards(&mut self, now: Time) -> bool {
        let starting = self.first_report.is_none_or(|first| now < first + START_PHASE);
        let higher = self.remb.filter(|remb| *remb > self.rate);
        let (true, true, 0, Some(remb)) = (self.config.probes, starting, self.loss, higher) else {
            return false;
        };
        self.set(remb);
        self.minima.clear();
        self.minima.push_back((now, self.rate));
        true
    }

    /// Updates the minima of the last second, including the current rate.
    fn update_minima(&mut self, now: Time) {
        while self.minima.front().is_some_and(|(at, _)| *at + INCREASE_INTERVAL <= now) {
            self.minima.pop_front();
        }
        while self.minima.back().is_some_and(|(_, rate)| *rate >= self.rate) {
            self.minima.pop_back();
        }
        self.minima.push_back((now, self.rate));
    }

    fn set(&mut self, rate: Bitrate) {
        self.uncapped = rate;
        let capped = self.remb.map_or(rate, |remb| rate.min(remb));
        self.rate = capped.min(self.bounds.max).max(self.bounds.min);
    }
}

impl Controller for LossBased {
    fn on_feedback(&mut self, now: Time, feedback: Feedback<'_>) -> Result<(), ControlError> {
        self.feedback_due = Some(now + FEEDBACK_TIMEOUT);
        match feedback {
            Feedback::ReceiverReport { expected, fraction, rtt, .. } => {
                self.rtt = rtt.unwrap_or(self.rtt);
                self.on_report(now, fraction.into(), expected);
            }
            Feedback::Remb(remb) => {
                self.remb = Some(remb);
                if !self.follows_remb_upwards(now) && self.rate > remb {
                    self.rate = remb.max(self.bounds.min);
                }
                if self.config.growth == Growth::FromMinimum && self.first_report.is_some() {
                    self.evaluate(now);
                }
            }
            Feedback::Packets { .. } => {}
        }
        Ok(())
    }

    fn on_timeout(&mut self, now: Time, _sender: &SenderState) -> Result<(), ControlError> {
        if self.next_change().is_some_and(|at| now >= at) {
            self.evaluate(now);
        }
        // The time counts from the first feedback on, because a first report is only the baseline of the next one.
        if self.config.halves_without_feedback && self.feedback_due.is_some_and(|due| now >= due) {
            self.feedback_due = Some(now + FEEDBACK_TIMEOUT);
            self.set(self.rate.scaled(0.5));
        }
        Ok(())
    }

    fn poll_timeout(&self) -> Option<Time> {
        let halving = self.feedback_due.filter(|_| self.config.halves_without_feedback);
        [halving, self.next_change()].into_iter().flatten().min()
    }

    fn poll_probe(&mut self) -> Option<Probe> {
        self.probes.pop()
    }

    fn decision(&self) -> Decision {
        Decision::at(self.rate)
    }

    fn observe(&self, out: &mut Vec<Observation>) {
        out.extend([
            Observation::new("target_bps", self.rate.0 as f64),
            Observation::new("loss_based_rate_bps", self.uncapped.0 as f64),
            Observation::new("loss_ratio", self.loss as f64 / 255.0),
            Observation::new("rtt_ms", self.rtt.as_secs_f64() * 1e3),
        ]);
        out.extend(self.remb.map(|remb| Observation::new("remb_bps", remb.0 as f64)));
        out.extend(self.tfrc.map(|tfrc| Observation::new("tfrc_rate_bps", tfrc.0 as f64)));
    }
}

#[cfg(test)]
mod tests;
