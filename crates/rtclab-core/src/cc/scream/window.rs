//! The reference window and the target rate. Source: `scream_v2.cc`.

use super::delay::DelayAverages;
use super::loss::Loss;
use super::options::ScreamConfig;
use super::report::Report;
use crate::cc::reals::{BITS_IN_MICROS, MS, between};

/// Bounds on the target rate, in bit/s.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) min: f64,
    pub(super) max: f64,
}

/// Rate at which packets arrive, on the far end's clock.
#[derive(Clone, Copy, Debug)]
struct Received {
    /// In bit/s; infinite until a whole window was measured.
    rate: f64,
    bytes: f64,
    since: Option<f64>,
}

impl Received {
    fn update(&mut self, window: f64, report: &Report) {
        self.bytes += report.received_bytes;
        let elapsed = report.last_received - self.since.unwrap_or(f64::NEG_INFINITY);
        if elapsed >= window {
            if self.since.is_some() {
                self.rate = self.bytes / elapsed * BITS_IN_MICROS;
            }
            self.bytes = 0.0;
            self.since = Some(report.last_received);
        }
    }
}

/// The state of SCReAM. Times are in microseconds, sizes in bytes, rates in bit/s.
#[derive(Clone, Debug)]
pub(super) struct Scream {
    pub(super) config: ScreamConfig,
    pub(super) limits: Limits,
    target: f64,
    /// The reference window: about what should be in flight.
    window: f64,
    /// The window before it fell last.
    inflection: f64,
    /// The window has grown since the inflection point was set.
    has_grown: bool,
    /// Average share of marked packets.
    alpha: f64,
    /// Average time that the far end holds packets.
    hold: f64,
    /// Most that was in flight in this round-trip time and in the one before.
    most_in_flight: [f64; 2],
    round_began: f64,
    last_reaction: f64,
    last_decrease: f64,
    draining_since: Option<f64>,
    received: Received,
    delay: DelayAverages,
    loss: Loss,
    has_feedback: bool,
    in_alr: bool,
}

impl Scream {
    pub(super) fn new(config: ScreamConfig, limits: Limits, start: f64) -> Self {
        let never = f64::NEG_INFINITY;
        Scream {
            config,
            limits,
            target: start,
            window: config.min_window,
            inflection: 1.0,
            has_grown: true,
            alpha: 0.0,
            hold: 0.0,
            most_in_flight: [0.0; 2],
            round_began: never,
            last_reaction: never,
            last_decrease: never,
            draining_since: None,
            received: Received { rate: f64::INFINITY, bytes: 0.0, since: None },
            delay: DelayAverages::new(),
            loss: Loss::new(),
            has_feedback: false,
            in_alr: false,
        }
    }

    /// A packet left, after which this much is in flight.
    pub(super) fn on_sent(&mut self, in_flight: f64) {
        self.most_in_flight[0] = self.most_in_flight[0].max(in_flight);
    }

    /// Takes a report into account.
    pub(super) fn on_report(&mut self, report: &Report) {
        self.on_sent(report.in_flight);
        self.received.update(self.config.rate_window, report);
        if self.config.alr {
            self.in_alr = self.largest_window() < self.window
                && self.received.rate < self.config.alr_threshold * self.target;
        }
        self.delay.update(&self.config, report, self.in_alr);
        if !self.in_alr {
            self.follow_hold(report.hold);
        }
        if !self.has_feedback {
            self.has_feedback = true;
            let bytes = self.target * (self.delay.rtt() + self.hold) / BITS_IN_MICROS;
            self.window = bytes.round().max(self.config.min_window);
        }
        self.follow_marks(report);
        self.update_window(report);
        self.update_target(report.now);
        if report.now - self.round_began >= self.round() {
            self.round_began = report.now;
            self.most_in_flight = [0.0, self.most_in_flight[0]];
        }
    }

    fn follow_hold(&mut self, hold: f64) {
        let gain = self.config.hold_gain;
        if self.hold == 0.0 && gain > 0.0 {
            self.hold = hold;
        }
        self.hold = gain * hold + (1.0 - gain) * self.hold;
    }

    /// Rises towards the share of marks, and falls towards zero.
    fn follow_marks(&mut self, report: &Report) {
        let marked = report.marked as f64 / report.received as f64;
        let (up, down) = (self.config.alpha_gain_up, self.config.alpha_gain_down);
        self.alpha = match marked > self.alpha {
            true => (up * marked + (1.0 - up) * self.alpha).min(1.0),
            false => (1.0 - down) * self.alpha,
        };
    }

    fn update_window(&mut self, report: &Report) {
        let before = self.window;
        let has_queue = self.delay.is_queue_detected(&self.config);
        let has_loss = self.loss.update(&self.config, report, self.delay.rtt())
            && (self.loss.level() >= 0.99 || has_queue);
        let has_marks = report.marked > 0;
        let may_react =
            report.now - self.last_reaction >= self.delay.rtt().min(self.config.virtual_rtt);
        if (has_loss || has_marks || has_queue) && may_react {
            self.last_reaction = report.now;
            let backoff = match (has_loss, has_marks) {
                (true, _) => 1.0 - self.config.beta_loss,
                (false, true) => self.backoff_for_marks(has_queue),
                (false, false) => self.per_round(self.delay.virtual_alpha(&self.config) / 2.0),
            };
            self.window = ((1.0 - backoff) * self.window).round();
        }
        let is_clear = !has_marks && !has_queue && self.loss.level() < 0.01;
        // A mark alone does not mean that the rate is too high: near the capacity, each report may have one.
        if is_clear || self.last_reaction == report.now {
            self.grow(report);
        }
        if self.window > before {
            self.has_grown = true;
        }
        if self.window < before {
            self.last_decrease = report.now;
            if std::mem::take(&mut self.has_grown) {
                self.inflection = before;
            }
        }
    }

    /// libwebrtc means to lower the window to what was in flight, and alpha to 0.25, when the last reaction was more than
    /// 100 round-trip times ago. It overwrites the time of the reaction before it compares, so it never does.
    fn backoff_for_marks(&self, has_queue: bool) -> f64 {
        let backoff = self.per_round(self.alpha / 2.0);
        match has_queue {
            true => backoff,
            false => {
                backoff
                    * self.inflection_scale().max(0.25)
                    * self.delay.queue_scale(&self.config, 0.1)
            }
        }
    }

    /// A back-off of a whole round-trip time, as a part for each of the reactions in it.
    fn per_round(&self, backoff: f64) -> f64 {
        backoff / (self.delay.rtt() / self.config.virtual_rtt).max(1.0)
    }

    fn grow(&mut self, report: &Report) {
        let largest = self.largest_window();
        if self.window < largest {
            let grown = self.window + (report.unmarked_bytes * self.growth(report.now)).round();
            self.window = grown.max(self.config.min_window).min(largest);
        }
    }

    /// Bytes that the window grows for each byte that was acknowledged.
    fn growth(&self, now: f64) -> f64 {
        let config = &self.config;
        let near_inflection = self.inflection_scale();
        let loop_time = (self.delay.rtt() + self.hold) / config.virtual_rtt;
        let short = if loop_time < 1.0 { loop_time * loop_time } else { 1.0 };
        let since_reaction =
            (now - self.last_reaction) / (config.post_congestion_rounds * self.round());
        let multiplicative = config.multiplicative_increase * self.window / config.mss
            * between(since_reaction, 0.0, 1.0)
            * near_inflection;
        self.mss_ratio()
            * short
            * near_inflection.max(0.25)
            * self.delay.queue_scale(config, 0.1)
            * self.delay.spread_scale(config)
            * (1.0 + multiplicative)
    }

    /// Near zero around the last inflection point, one far from it.
    fn inflection_scale(&self) -> f64 {
        let distance =
            self.config.inflection_factor * (self.window - self.inflection) / self.inflection;
        between(distance * distance, 0.1, 1.0)
    }

    fn mss_ratio(&self) -> f64 {
        (self.config.mss / self.window).min(1.0)
    }

    /// The window does not grow beyond what the sender makes use of.
    fn largest_window(&self) -> f64 {
        let most = self.most_in_flight[0].max(self.most_in_flight[1]);
        (self.config.mss + (most * self.config.head_room).round()).max(self.config.min_window)
    }

    /// A round-trip time, at least the virtual one.
    fn round(&self) -> f64 {
        self.delay.rtt().max(self.config.virtual_rtt)
    }

    fn update_target(&mut self, now: f64) {
        let rtt = self.delay.rtt().max(MS);
        let small = 1.0 - between(self.mss_ratio() - 0.1, 0.0, 0.2);
        let mut target = small * self.window / (rtt + self.hold) * BITS_IN_MICROS;
        if self.delay.is_drained_in_time(&self.config, now) {
            self.draining_since = None;
        } else {
            // Half the rate for a while shows whether the delay is the own queue. If it stays, it is the new base.
            let since = *self.draining_since.get_or_insert(now);
            match now - since < (self.config.drain_rounds * rtt).max(100.0 * MS) {
                true => target *= 0.5,
                false => self.delay.reset_queue(),
            }
        }
        self.target = between(target.floor(), self.limits.min, self.limits.max);
    }

    pub(super) fn target(&self) -> f64 {
        self.target.min(self.limits.max).max(self.limits.min)
    }

    /// What may be in flight before media waits.
    pub(super) fn send_window(&self) -> f64 {
        let (min, max) = self.config.send_window;
        let factor = min + (max - min) * self.delay.queue_scale(&self.config, 0.0);
        (self.window * factor).round()
    }

    pub(super) fn pacing_rate(&self) -> f64 {
        let paced = self.config.pacing_factor * self.target();
        match self.received.rate.is_finite() {
            true => paced.max(self.config.pacing_received * self.received.rate),
            false => paced,
        }
    }

    pub(super) fn is_queue_detected(&self) -> bool {
        self.delay.is_queue_detected(&self.config)
    }

    pub(super) fn reference_window(&self) -> f64 {
        self.window
    }

    pub(super) fn alpha(&self) -> f64 {
        self.alpha
    }

    pub(super) fn delay(&self) -> &DelayAverages {
        &self.delay
    }

    pub(super) fn hold(&self) -> f64 {
        self.hold
    }

    pub(super) fn loss_level(&self) -> f64 {
        self.loss.level()
    }

    pub(super) fn in_alr(&self) -> bool {
        self.in_alr
    }

    pub(super) fn has_feedback(&self) -> bool {
        self.has_feedback
    }

    /// When congestion lowered the window last, whether or not it grew as much at once.
    pub(super) fn last_reaction(&self) -> f64 {
        self.last_reaction
    }

    /// When the window fell last.
    pub(super) fn last_decrease(&self) -> f64 {
        self.last_decrease
    }
}

#[cfg(test)]
mod tests;
