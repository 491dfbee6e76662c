//! Remote rate control: turns over-use and the incoming rate into the rate that the receiver allows.

use super::dynamic_alpha::{DynamicAlpha, INITIAL_ALPHA};
use super::increase::{IncreaseInput, IncreaseLaw};
use super::state::{Region, Usage};
use crate::units::{Bitrate, Time};

/// Round-trip time assumed until one is measured.
const DEFAULT_RTT: Time = Time::from_millis(200);
/// Minimum rate, in bit/s.
const MIN_BPS: f64 = 30e3;
/// Maximum rate, in bit/s.
const MAX_BPS: f64 = 30e6;
/// Smoothing gain of the known maximum and its variance.
const MAXIMUM_GAIN: f64 = 0.05;
/// Bounds of the variance of the maximum, relative to it, in kbit/s. The variance starts at the lower one.
const VARIANCE_BOUNDS_KBPS: (f64, f64) = (0.4, 2.5);
/// The known maximum is discarded if the incoming rate is this many standard deviations off.
const FORGET_DEVIATIONS: f64 = 3.0;
/// The incoming rate counts as above the known maximum from this many standard deviations on.
const ABOVE_DEVIATIONS: f64 = 2.5;
/// The rate does not change to more than this multiple of the incoming rate.
const VETO_FACTOR: f64 = 1.5;
/// The veto does not apply while the incoming and the new rate are both at or below these, in bit/s.
const VETO_FLOORS_BPS: (f64, f64) = (100e3, 150e3);
/// Continued over-use reduces the rate again after a round trip, clamped to these bounds.
const REDUCE_AGAIN: (Time, Time) = (Time::from_millis(10), Time::from_millis(200));
/// Continued over-use reduces the rate at once if it exceeds the incoming rate by this many times that rate.
const REDUCE_EXCESS: f64 = 1.05;
/// Weight of the old value in the mean time between updates.
const PERIOD_KEEP: f64 = 0.9;

/// What the rate does, as 0, 1 and 2 in the trace. A decrease turns into hold within the same update, so it
/// never shows in a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    #[default]
    Hold,
    Increase,
    Decrease,
}

impl State {
    /// The next state. Source: draft-alvestrand-rmcat-congestion-02, section 3.4, and libwebrtc.
    pub(crate) fn after(self, usage: Usage) -> State {
        match (usage, self) {
            (Usage::Over, _) => State::Decrease,
            (Usage::Normal, State::Hold | State::Increase) => State::Increase,
            (Usage::Normal, State::Decrease) | (Usage::Under, _) => State::Hold,
        }
    }
}

/// The fraction of the incoming rate that over-use leaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum DecreaseLaw {
    /// 0.95 near a known maximum, otherwise 0.9 (libwebrtc until July 2015).
    ByRegion,
    /// A fixed fraction.
    Fixed(f64),
    /// Depends on how far the detector is above its threshold.
    Dynamic(DynamicAlpha),
}

/// Variant of the rate control.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RateControlConfig {
    /// After this time the incoming rate becomes the first estimate.
    pub(crate) initialisation: Time,
    /// Over-use before that time sets the first estimate.
    pub(crate) over_use_initialises: bool,
    /// How the rate grows.
    pub(crate) increase: IncreaseLaw,
    /// How the rate falls.
    pub(crate) decrease: DecreaseLaw,
    /// As in 2013, there is a region above the maximum, and after hold the rate returns to beta times the
    /// highest incoming rate during it.
    pub(crate) recovers: bool,
    /// Under-use sets the rate to this multiple of the incoming rate.
    pub(crate) under_use_factor: Option<f64>,
}

/// Inputs of an update.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input {
    pub(crate) usage: Usage,
    /// Incoming rate, in bit/s.
    pub(crate) incoming_bps: f64,
    /// Variance of the filter's noise, in ms^2.
    pub(crate) noise: f64,
    /// Value and threshold of the detector when it last signalled over-use, in ms.
    pub(crate) raised_ms: (f64, f64),
}

/// The rate control.
///
/// Source: libwebrtc 4d06db557a, `remote_rate_control.cc`; 2f1509395b and 524ecc29dd,
/// `aimd_rate_control.cc`.
pub(crate) struct RateControl {
    config: RateControlConfig,
    rate_bps: f64,
    initialised: bool,
    first_incoming: Option<Time>,
    state: State,
    region: Region,
    /// Mean of the incoming rate at decreases, in kbit/s.
    maximum_kbps: Option<f64>,
    variance_kbps: f64,
    hold_maximum_bps: f64,
    rtt: Time,
    period_ms: f64,
    last_update: Option<Time>,
    last_change: Option<Time>,
    alpha: f64,
}

impl RateControl {
    pub(crate) fn new(config: RateControlConfig) -> Self {
        RateControl {
            config,
            rate_bps: MAX_BPS,
            initialised: false,
            first_incoming: None,
            state: State::Hold,
            region: Region::MaxUnknown,
            maximum_kbps: None,
            variance_kbps: VARIANCE_BOUNDS_KBPS.0,
            hold_maximum_bps: 0.0,
            rtt: DEFAULT_RTT,
            period_ms: 1_000.0,
            last_update: None,
            last_change: None,
            alpha: f64::NAN,
        }
    }

    /// The rate that the receiver allows, once there is one.
    pub(crate) fn estimate(&self) -> Option<Bitrate> {
        self.initialised.then_some(Bitrate(self.rate_bps as u64))
    }

    pub(crate) fn state(&self) -> State {
        self.state
    }

    pub(crate) fn region(&self) -> Region {
        self.region
    }

    /// Fraction of the incoming rate that the last decrease left; NaN before the first.
    pub(crate) fn alpha(&self) -> f64 {
        self.alpha
    }

    pub(crate) fn set_rtt(&mut self, rtt: Time) {
        self.rtt = rtt;
    }

    /// Takes the rate that a probe measured.
    pub(crate) fn set_estimate(&mut self, now: Time, rate: Bitrate) {
        self.rate_bps = (rate.0 as f64).clamp(MIN_BPS, MAX_BPS);
        self.initialised = true;
        self.last_change = Some(now);
    }

    /// Whether continued over-use calls for another decrease.
    pub(crate) fn may_reduce_again(&self, now: Time, incoming_bps: f64) -> bool {
        let interval = self.rtt.clamp(REDUCE_AGAIN.0, REDUCE_AGAIN.1);
        let waited = self.last_change.is_none_or(|last| now >= last + interval);
        waited || (self.initialised && self.rate_bps - incoming_bps > REDUCE_EXCESS * incoming_bps)
    }

    /// Runs one update and returns the region before it.
    pub(crate) fn update(&mut self, now: Time, input: &Input) -> Region {
        let region = self.region;
        self.initialise(now, input.incoming_bps);
        let period = now.saturating_sub(self.last_update.replace(now).unwrap_or(now));
        let period_ms = period.as_secs_f64() * 1e3;
        self.period_ms = PERIOD_KEEP * self.period_ms + (1.0 - PERIOD_KEEP) * period_ms;
        let before = self.state;
        self.state = before.after(input.usage);
        if before == State::Hold && self.state == State::Increase {
            self.last_change = Some(now);
        }
        let (rate, recovered) = match self.state {
            State::Hold => (self.hold(input), false),
            State::Increase => self.increase(now, input),
            State::Decrease => (self.decrease(now, input), false),
        };
        let rate = rate.clamp(MIN_BPS, MAX_BPS);
        let incoming = input.incoming_bps;
        let busy = incoming > VETO_FLOORS_BPS.0 || rate > VETO_FLOORS_BPS.1;
        if !recovered && busy && rate > VETO_FACTOR * incoming {
            self.last_change = Some(now);
        } else {
            self.rate_bps = rate;
        }
        region
    }

    fn initialise(&mut self, now: Time, incoming_bps: f64) {
        if self.initialised || incoming_bps <= 0.0 {
            return;
        }
        let first = *self.first_incoming.get_or_insert(now);
        if now > first + self.config.initialisation {
            self.rate_bps = incoming_bps;
            self.initialised = true;
        }
    }

    fn deviation_kbps(&self) -> f64 {
        (self.variance_kbps * self.maximum_kbps.unwrap_or(0.0)).sqrt()
    }

    /// Fraction of the incoming rate that a decrease leaves, except with dynamic alpha. Fast recovery and the
    /// known maximum use it in any case, unless alpha replaces it there, too.
    fn beta(&self) -> f64 {
        match self.config.decrease {
            DecreaseLaw::Fixed(beta) => beta,
            DecreaseLaw::Dynamic(law) if law.replaces_beta && self.alpha.is_nan() => INITIAL_ALPHA,
            DecreaseLaw::Dynamic(law) if law.replaces_beta => self.alpha,
            DecreaseLaw::ByRegion | DecreaseLaw::Dynamic(_) => match self.region {
                Region::NearMax => 0.95,
                Region::AboveMax | Region::MaxUnknown => 0.9,
            },
        }
    }

    fn hold(&mut self, input: &Input) -> f64 {
        self.hold_maximum_bps = self.hold_maximum_bps.max(input.incoming_bps);
        match (self.config.under_use_factor, input.usage) {
            (Some(factor), Usage::Under) => factor * input.incoming_bps,
            _ => self.rate_bps,
        }
    }

    /// The new rate, and whether it recovers to what arrived during hold.
    fn increase(&mut self, now: Time, input: &Input) -> (f64, bool) {
        if let Some(maximum) = self.maximum_kbps {
            let excess = input.incoming_bps / 1e3 - maximum;
            if excess > FORGET_DEVIATIONS * self.deviation_kbps() {
                self.region = Region::MaxUnknown;
                self.maximum_kbps = None;
            } else if self.config.recovers && excess > ABOVE_DEVIATIONS * self.deviation_kbps() {
                self.region = Region::AboveMax;
            }
        }
        let elapsed = self.last_change.map(|last| now.saturating_sub(last));
        let grown = self.config.increase.grow(&IncreaseInput {
            rate_bps: self.rate_bps,
            region: self.region,
            elapsed,
            rtt: self.rtt,
            period_ms: self.period_ms,
            noise: input.noise,
        });
        self.last_change = Some(now);
        let floor = self.beta() * std::mem::take(&mut self.hold_maximum_bps);
        if self.config.recovers && floor > grown {
            self.maximum_kbps = Some(floor / 1e3);
            self.region = Region::NearMax;
            return (floor, true);
        }
        (grown, false)
    }

    fn decrease(&mut self, now: Time, input: &Input) -> f64 {
        self.state = State::Hold;
        self.last_change = Some(now);
        self.initialised |= self.config.over_use_initialises;
        let incoming = input.incoming_bps;
        if incoming < MIN_BPS {
            return MIN_BPS;
        }
        self.alpha = match self.config.decrease {
            DecreaseLaw::Dynamic(law) => law.alpha(input.raised_ms, self.region),
            DecreaseLaw::ByRegion | DecreaseLaw::Fixed(_) => self.beta(),
        };
        let mut rate = self.alpha * incoming;
        if rate > self.rate_bps {
            if let Some(maximum) = self.maximum_kbps.filter(|_| self.region != Region::MaxUnknown) {
                rate = self.beta() * maximum * 1e3;
            }
            rate = rate.min(self.rate_bps);
        }
        self.region = Region::NearMax;
        self.learn_maximum(incoming / 1e3);
        rate
    }

    fn learn_maximum(&mut self, incoming_kbps: f64) {
        let deviation = self.deviation_kbps();
        let known = self
            .maximum_kbps
            .filter(|maximum| incoming_kbps >= maximum - FORGET_DEVIATIONS * deviation);
        let maximum = known.map_or(incoming_kbps, |maximum| {
            (1.0 - MAXIMUM_GAIN) * maximum + MAXIMUM_GAIN * incoming_kbps
        });
        self.maximum_kbps = Some(maximum);
        let square = (maximum - incoming_kbps) * (maximum - incoming_kbps) / maximum.max(1.0);
        let variance = (1.0 - MAXIMUM_GAIN) * self.variance_kbps + MAXIMUM_GAIN * square;
        self.variance_kbps = variance.clamp(VARIANCE_BOUNDS_KBPS.0, VARIANCE_BOUNDS_KBPS.1);
    }
}

#[cfg(test)]
mod tests;
