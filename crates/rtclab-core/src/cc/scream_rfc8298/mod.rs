//! `scream-rfc8298`: self-clocked rate adaptation for multimedia, the first version. Source: RFC 8298, section 4.1.
//!
//! The queuing delay sets a window of bytes in flight, and a rate of its own for the media every 200 ms. Comments say
//! where the RFC leaves a choice.

mod delay;

use super::control::{
    ControlError, Controller, Decision, Feedback, Halves, Observation, PacketReport, RateBounds,
    SenderState, SentPacket,
};
use super::options::{OptionSpec, Options, switch};
use super::reals::{
    BITS_IN_MICROS, KBPS, MS, SECOND, between, bitrate, bps, bytes, micros, remote_micros, size,
};
use crate::ecn::Ecn;
use crate::units::{Bytes, Time};
use delay::{QueuingDelay, Targets};
use std::collections::VecDeque;

/// Parameters of RFC 8298, section 4.1.1.1. Times are in microseconds, sizes in bytes, rates in bit/s.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Config {
    targets: Targets,
    beta_loss: f64,
    beta_ecn: f64,
    /// BETA_R.
    beta_rate: f64,
    gain: f64,
    head_room: f64,
    /// RAMP_UP_SPEED in bit/s for each second.
    ramp_up: f64,
    /// PRE_CONGESTION_GUARD.
    guard: f64,
    /// TX_QUEUE_SIZE_FACTOR.
    queue_factor: f64,
    /// Whether the target of the delay rises beside other flows (section 4.1.2.3).
    compensates: bool,
    ect0: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            targets: Targets { low: 100.0 * MS, high: 400.0 * MS },
            beta_loss: 0.8,
            beta_ecn: 0.9,
            beta_rate: 0.9,
            gain: 1.0,
            head_room: 1.1,
            ramp_up: 200.0 * KBPS,
            guard: 0.1,
            queue_factor: 1.0,
            compensates: true,
            ect0: true,
        }
    }
}

/// RATE_ADJUST_INTERVAL.
const ADJUST_INTERVAL: Time = Time::from_millis(200);
/// MIN_CWND and MSS, in bytes.
const MIN_WINDOW: f64 = 3_000.0;
const MSS: f64 = 1_000.0;
/// QDELAY_TREND_TH and QDELAY_TREND_LO: fast increase ends and begins again.
const TREND_THRESHOLD: f64 = 0.2;
/// T_RESUME_FAST_INCREASE, in microseconds.
const RESUME_AFTER: f64 = 5.0 * SECOND;
/// RATE_PACE_MIN, in bit/s.
const MIN_PACING: f64 = 50.0 * KBPS;
/// RTP_QDELAY_TH, in seconds, and TARGET_RATE_SCALE_RTP_QDELAY.
const QUEUED_THRESHOLD: f64 = 0.02;
const QUEUED_SCALE: f64 = 0.95;
/// Weight of a new round-trip time; the RFC leaves it open (RFC 6298: 1/8).
const RTT_GAIN: f64 = 1.0 / 8.0;
/// Weight of a round trip in the share of round trips with loss; the RFC leaves it open.
const LOSS_GAIN: f64 = 0.01;
/// Rates of the media that the median is taken from: 10 s.
const MEDIA_RATES: usize = 50;
/// Seconds for which the most in flight is remembered.
const FLIGHT_SECONDS: u64 = 5;

/// Options of `scream-rfc8298`.
pub(crate) const OPTIONS: &[OptionSpec] = &[
    number("queue_target_ms", "queuing delay aimed at, in ms, QDELAY_TARGET_LO (100)", (1.0, 1e3)),
    number(
        "queue_target_max_ms",
        "the same beside other flows, QDELAY_TARGET_HI (400)",
        (1.0, 1e4),
    ),
    number("beta_loss", "share of the window left by loss, BETA_LOSS (0.8)", (0.1, 1.0)),
    number("beta_ecn", "share of window and rate left by a mark, BETA_ECN (0.9)", (0.1, 1.0)),
    number("beta_rate", "share of the rate left by loss, BETA_R (0.9)", (0.1, 1.0)),
    number("gain", "gain of the window, GAIN (1)", (0.01, 10.0)),
    number(
        "head_room",
        "window over what was in flight, MAX_BYTES_IN_FLIGHT_HEAD_ROOM (1.1)",
        (1.0, 10.0),
    ),
    number(
        "ramp_up_kbps",
        "largest growth of the rate a second, in kbit/s, RAMP_UP_SPEED (200)",
        (1.0, 1e5),
    ),
    number(
        "guard",
        "how much a growing queue slows growth, PRE_CONGESTION_GUARD (0.1)",
        (0.0, 1.0),
    ),
    number("queue_factor", "weight of the pacer's queue, TX_QUEUE_SIZE_FACTOR (1)", (0.0, 2.0)),
    switch(
        "competing_flows",
        "the target of the delay rises while the queue stays full, as other flows may keep it (1)",
    ),
    switch("ect0", "packets leave as ECT(0), and marks count (1)"),
];

const fn number(name: &'static str, meaning: &'static str, bounds: (f64, f64)) -> OptionSpec {
    OptionSpec { name, meaning, bounds }
}

impl Config {
    /// The RFC's defaults with these options.
    fn new(options: Options<'_>) -> Self {
        let rfc = Config::default();
        let get = |name, default: f64| options.get(name).unwrap_or(default);
        let ms = |name, default: f64| options.get(name).map_or(default, |ms| ms * MS);
        Config {
            targets: Targets {
                low: ms("queue_target_ms", rfc.targets.low),
                high: ms("queue_target_max_ms", rfc.targets.high),
            },
            beta_loss: get("beta_loss", rfc.beta_loss),
            beta_ecn: get("beta_ecn", rfc.beta_ecn),
            beta_rate: get("beta_rate", rfc.beta_rate),
            gain: get("gain", rfc.gain),
            head_room: get("head_room", rfc.head_room),
            ramp_up: options.get("ramp_up_kbps").map_or(rfc.ramp_up, |kbps| kbps * KBPS),
            guard: get("guard", rfc.guard),
            queue_factor: get("queue_factor", rfc.queue_factor),
            compensates: options.get("competing_flows").map_or(rfc.compensates, |on| on != 0.0),
            ect0: options.get("ect0").map_or(rfc.ect0, |on| on != 0.0),
        }
    }
}

/// The most that was in flight in each of the last seconds.
#[derive(Clone, Debug, Default)]
struct MostInFlight(VecDeque<(u64, f64)>);

impl MostInFlight {
    fn add(&mut self, now: Time, in_flight: f64) {
        let second = now.as_micros() / 1_000_000;
        match self.0.back_mut().filter(|last| last.0 >= second) {
            Some(last) => last.1 = last.1.max(in_flight),
            None => self.0.push_back((second, in_flight)),
        }
        while self.0.front().is_some_and(|first| first.0 + FLIGHT_SECONDS < second) {
            self.0.pop_front();
        }
    }

    fn get(&self) -> f64 {
        self.0.iter().map(|(_, most)| *most).fold(0.0, f64::max)
    }
}

/// Loss and marks change the rates at most once in a round trip.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    Loss,
    Mark,
}

/// What was sent, acknowledged and produced since the rate was adjusted last, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Amounts {
    sent: f64,
    acked: f64,
    /// In the pacer at the last adjustment.
    queued: f64,
}

/// Rates over the last interval, in bit/s.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Rates {
    /// The greater of what was sent and what was acknowledged.
    current: f64,
    media: f64,
    /// Median of the media's rates of the last 10 s.
    median: f64,
    /// Bits in the pacer.
    queued: f64,
}

/// Sender of RFC 8298.
pub(crate) struct ScreamV1 {
    config: Config,
    min: f64,
    max: f64,
    /// Rate for the media, in bit/s.
    target: f64,
    /// The rate at the last congestion, in bit/s.
    last_max: f64,
    /// The congestion window, in bytes.
    window: f64,
    in_fast_increase: bool,
    /// Since when the queue has not been growing, outside of fast increase.
    calm_since: Option<f64>,
    /// In microseconds; zero before the first report.
    rtt: f64,
    last_event: f64,
    highest_acked: i64,
    in_flight: f64,
    most_in_flight: MostInFlight,
    delay: QueuingDelay,
    /// Share of round trips with loss.
    loss_event_rate: f64,
    round_began: f64,
    is_lossy: bool,
    amounts: Amounts,
    media_rates: VecDeque<f64>,
    adjusted: Option<f64>,
    has_feedback: bool,
    ecn: Ecn,
    next_timeout: Time,
}

/// Creates the sender half; there is no receiver half.
pub(crate) fn create(bounds: RateBounds, options: Options<'_>) -> Halves {
    (Box::new(ScreamV1::new(bounds, Config::new(options))), None)
}

impl ScreamV1 {
    fn new(bounds: RateBounds, config: Config) -> Self {
        let total = bounds.with_audio();
        let (min, max) = (bps(total.min).max(1.0), bps(total.max).max(1.0));
        let never = f64::NEG_INFINITY;
        ScreamV1 {
            config,
            min,
            max: max.max(min),
            target: between(bps(total.start), min, max),
            last_max: 1.0,
            window: MIN_WINDOW,
            in_fast_increase: true,
            calm_since: None,
            rtt: 0.0,
            last_event: never,
            highest_acked: i64::MIN,
            in_flight: 0.0,
            most_in_flight: MostInFlight::default(),
            delay: QueuingDelay::new(config.targets),
            loss_event_rate: 0.0,
            round_began: never,
            is_lossy: false,
            amounts: Amounts::default(),
            media_rates: VecDeque::new(),
            adjusted: None,
            has_feedback: false,
            ecn: if config.ect0 { Ecn::Ect0 } else { Ecn::NotCapable },
            next_timeout: Time::ZERO,
        }
    }

    fn on_packets(&mut self, at: Time, reports: &[PacketReport], in_flight: Bytes) {
        let now = micros(at);
        self.in_flight = bytes(in_flight);
        self.most_in_flight.add(at, self.in_flight);
        let lost = reports.iter().any(|report| report.received.is_none() && !report.lost_before);
        let marked = reports.iter().any(|report| report.ecn == Some(Ecn::CongestionExperienced));
        self.count_loss(now, lost);
        let Some(newest) = reports.iter().rfind(|report| report.received.is_some()) else {
            self.react(now, lost, marked);
            return;
        };
        self.has_feedback = true;
        let sent = micros(newest.sent.at);
        let held = newest.held.map_or(0.0, micros);
        let rtt = (now - sent - held).max(0.0);
        self.rtt = if self.rtt == 0.0 { rtt } else { self.rtt + RTT_GAIN * (rtt - self.rtt) };
        let one_way = newest.received.map_or(0.0, remote_micros) - sent;
        self.delay.update(now, one_way);
        let acked = self.acknowledge(newest.sent.transport_seq, reports);
        if !self.react(now, lost, marked) {
            self.adapt_window(now, acked);
            if self.config.compensates {
                self.delay.follow_target(self.loss_event_rate);
            }
        }
    }

    /// Bytes up to the highest packet that has arrived, those that were lost included.
    fn acknowledge(&mut self, newest: i64, reports: &[PacketReport]) -> f64 {
        let news = self.highest_acked.saturating_add(1)..=newest;
        let acked = reports.iter().filter(|report| news.contains(&report.sent.transport_seq));
        let acked: f64 = acked.map(|report| bytes(report.sent.size)).sum();
        self.highest_acked = self.highest_acked.max(newest);
        self.amounts.acked += acked;
        acked
    }

    fn count_loss(&mut self, now: f64, lost: bool) {
        self.is_lossy |= lost;
        if now - self.round_began >= self.rtt {
            self.round_began = now;
            let is_lossy = f64::from(u8::from(std::mem::take(&mut self.is_lossy)));
            self.loss_event_rate += LOSS_GAIN * (is_lossy - self.loss_event_rate);
        }
    }

    /// Lowers window and rate on loss or a mark, and returns whether it did (sections 4.1.2.1 and 4.1.3).
    fn react(&mut self, now: f64, lost: bool, marked: bool) -> bool {
        let event = match (lost, marked) {
            (true, _) => Event::Loss,
            (false, true) => Event::Mark,
            (false, false) => return false,
        };
        if now - self.last_event < self.rtt {
            return false;
        }
        self.last_event = now;
        let (window, rate) = match event {
            Event::Loss => (self.config.beta_loss, self.config.beta_rate),
            Event::Mark => (self.config.beta_ecn, self.config.beta_ecn),
        };
        self.in_fast_increase = false;
        self.window = (window * self.window).max(MIN_WINDOW);
        self.last_max = self.target;
        self.target = (rate * self.target).max(self.min);
        true
    }

    /// Grows or shrinks the window by how far the delay is from its target (section 4.1.2.2).
    fn adapt_window(&mut self, now: f64, acked: f64) {
        self.follow_fast_increase(now);
        if self.in_fast_increase {
            if self.in_flight * 1.5 + acked > self.window {
                self.window += acked;
            }
            return;
        }
        let off_target = (self.delay.target() - self.delay.queue()) / self.delay.target();
        let is_used = self.in_flight * 1.25 + acked > self.window;
        let change = match off_target > 0.0 && !is_used {
            true => 0.0,
            false => self.config.gain * off_target * acked * MSS / self.window,
        };
        let largest = self.config.head_room * self.most_in_flight.get();
        self.window = (self.window + change).min(largest).max(MIN_WINDOW);
    }

    /// Fast increase ends when the queue grows, and begins again when it has not grown for 5 s.
    fn follow_fast_increase(&mut self, now: f64) {
        let is_calm = self.delay.trend() < TREND_THRESHOLD;
        if self.in_fast_increase {
            self.in_fast_increase = is_calm;
            self.calm_since = None;
            return;
        }
        self.calm_since = is_calm.then(|| self.calm_since.unwrap_or(now));
        if self.calm_since.is_some_and(|since| now - since.max(self.last_event) >= RESUME_AFTER) {
            self.in_fast_increase = true;
            self.calm_since = None;
        }
    }

    /// Measures the last interval. What came from the encoders is what was sent and what the pacer's queue grew by.
    fn measure(&mut self, now: f64, queued: f64) -> Option<Rates> {
        let before = self.adjusted.replace(now);
        let Amounts { sent, acked, queued: queued_before } =
            std::mem::replace(&mut self.amounts, Amounts { queued, ..Amounts::default() });
        let elapsed = now - before?;
        if elapsed <= 0.0 {
            return None;
        }
        let rate = |bytes: f64| bytes / elapsed * BITS_IN_MICROS;
        let media = rate((sent + queued - queued_before).max(0.0));
        if self.media_rates.len() == MEDIA_RATES {
            self.media_rates.pop_front();
        }
        self.media_rates.push_back(media);
        let mut sorted = [0.0; MEDIA_RATES];
        let sorted = &mut sorted[..self.media_rates.len()];
        sorted.iter_mut().zip(&self.media_rates).for_each(|(to, from)| *to = *from);
        sorted.sort_unstable_by(f64::total_cmp);
        let median = sorted[sorted.len() / 2];
        Some(Rates { current: rate(sent.max(acked)), media, median, queued: queued * 8.0 })
    }

    /// Adjusts the rate of the media (section 4.1.3).
    fn adjust_rate(&mut self, rates: &Rates) {
        let interval = ADJUST_INTERVAL.as_secs_f64();
        let ramp = self.config.ramp_up.min(self.target / 2.0) * interval;
        let distance = 4.0 * (self.target - self.last_max) / self.last_max;
        let scale = between(distance * distance, 0.2, 1.0);
        if self.in_fast_increase {
            self.target += ramp * scale;
        } else {
            let change = rates.current * (1.0 - self.config.guard * self.delay.trend())
                - self.config.queue_factor * rates.queued;
            self.target += if change > 0.0 { (scale * change).min(ramp) } else { change };
            if rates.queued > QUEUED_THRESHOLD * rates.current {
                self.target *= QUEUED_SCALE;
            }
        }
        let limit =
            rates.current.max(rates.media).max(rates.median) * (2.0 - self.delay.trend_memory());
        self.target = between(self.target.min(limit), self.min, self.max);
    }

    /// The window for the pacer: one packet more while the delay is below its target (section 4.1.2.5).
    fn send_window(&self) -> f64 {
        let spare = if self.delay.queue() <= self.delay.target() { MSS } else { 0.0 };
        self.window + spare
    }
}

impl Controller for ScreamV1 {
    fn on_sent(&mut self, packet: &SentPacket) -> Result<(), ControlError> {
        self.in_flight = bytes(packet.in_flight);
        self.most_in_flight.add(packet.at, self.in_flight);
        self.amounts.sent += bytes(packet.size);
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
        self.next_timeout = now.saturating_add(ADJUST_INTERVAL);
        let rates = self.measure(micros(now), bytes(sender.queued));
        // Before any report there is nothing to adjust to, and nothing was acknowledged.
        if let Some(rates) = rates.filter(|_| self.has_feedback) {
            self.adjust_rate(&rates);
        }
        Ok(())
    }

    fn poll_timeout(&self) -> Option<Time> {
        Some(self.next_timeout)
    }

    fn decision(&self) -> Decision {
        let pacing = (self.window / self.rtt.max(MS) * BITS_IN_MICROS).max(MIN_PACING);
        Decision {
            window: Some(size(self.send_window())),
            pacing_rate: self.has_feedback.then(|| bitrate(pacing)),
            ecn: self.ecn,
            ..Decision::at(bitrate(self.target))
        }
    }

    fn observe(&self, out: &mut Vec<Observation>) {
        let mut add = |name, value| out.push(Observation::new(name, value));
        let decision = self.decision();
        add("target_bps", self.target);
        if let Some(rate) = decision.pacing_rate {
            add("pacing_rate_bps", bps(rate));
        }
        add("window_bytes", self.window);
        add("in_flight_bytes", self.in_flight);
        if !self.has_feedback {
            return;
        }
        add("rtt_ms", self.rtt / MS);
        add("queue_delay_ms", self.delay.queue() / MS);
        add("queue_target_ms", self.delay.target() / MS);
        add("trend", self.delay.trend());
        add("in_fast_increase", f64::from(u8::from(self.in_fast_increase)));
        add("loss_event_ratio", self.loss_event_rate);
    }
}

#[cfg(test)]
mod tests;
