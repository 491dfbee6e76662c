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
const LIMIT_FACTOR: f64 = 1.5;
/// A change beyond that is not refused while the incoming and the new rate are both at or below these, in bit/s.
const VETO_FLOORS_BPS: (f64, f64) = (100e3, 150e3);
/// Continued over-use reduces the rate again after a round trip, clamped to these bounds.
const REDUCE_AGAIN: (Time, Time) = (Time::from_millis(10), Time::from_millis(200));
/// Continued over-use reduces the rate at once if it exceeds the incoming rate by this many times that rate.
const REDUCE_EXCESS: f64 = 1.05;
/// Fraction of the incoming rate that over-use left in libwebrtc until July 2015.
pub(crate) const BETA: f64 = 0.9;
/// The same near a known maximum.
pub(crate) const NEAR_BETA: f64 = 0.95;
/// Weight of the old value in the mean time between updates.
const PERIOD_KEEP: f64 = 0.9;

/// What the rate does, as 0, 1 and 2 in the trace. A decrease turns into hold within the same update, so it
/// never shows in a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AimdState {
    #[default]
    Hold,
    Increase,
    Decrease,
}

impl AimdState {
    /// The next state. Source: draft-alvestrand-rmcat-congestion-02, section 3.4, and libwebrtc.
    pub(crate) fn after(self, usage: Usage) -> AimdState {
        match (usage, self) {
            (Usage::Over, _) => AimdState::Decrease,
            (Usage::Normal, AimdState::Hold | AimdState::Increase) => AimdState::Increase,
            (Usage::Normal, AimdState::Decrease) | (Usage::Under, _) => AimdState::Hold,
        }
    }
}

/// The fraction of the incoming rate that over-use leaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum DecreaseLaw {
    /// Depends on what is known about the maximum.
    Factors {
        /// Near a known maximum.
        near: f64,
        /// In the other regions.
        elsewhere: f64,
    },
    /// Depends on how far the detector is above its threshold.
    Dynamic(DynamicAlpha),
}

impl DecreaseLaw {
    /// The factors of libwebrtc until July 2015.
    pub(crate) const BY_REGION: DecreaseLaw =
        DecreaseLaw::Factors { near: NEAR_BETA, elsewhere: BETA };

    /// The same fraction in every region.
    pub(crate) const fn fixed(fraction: f64) -> DecreaseLaw {
        DecreaseLaw::Factors { near: fraction, elsewhere: fraction }
    }
}

/// What happens to a rate above [`LIMIT_FACTOR`] times the incoming rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    /// A change to it is refused (libwebrtc until December 2016).
    Veto,
    /// It becomes that multiple (Jansen et al. 2017, equation 2).
    Cap,
}

/// Variant of the rate control.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RateControlConfig {
    /// After this time, if any, the incoming rate becomes the first estimate.
    pub(crate) initialisation: Option<Time>,
    /// Over-use before that time sets the first estimate, and so does under-use with [`Self::under_use_factor`].
    pub(crate) signal_initialises: bool,
    /// How the rate grows.
    pub(crate) increase: IncreaseLaw,
    /// How the rate falls.
    pub(crate) decrease: DecreaseLaw,
    /// As in 2013, there is a region above the maximum, and after hold the rate returns to beta times the
    /// highest incoming rate during it.
    pub(crate) recovers: bool,
    /// Under-use sets the rate to this multiple of the incoming rate.
    pub(crate) under_use_factor: Option<f64>,
    /// What bounds the rate by the incoming rate.
    pub(crate) limit: Limit,
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
    /// Value and threshold of the detector now, in ms.
    pub(crate) detector_ms: (f64, f64),
}

/// The rate control.
///
/// Source: libwebrtc 4d06db557a, `remote_rate_control.cc`; 2f1509395b and 524ecc29dd,
/// `aimd_rate_control.cc`.
pub(crate) struct ReceiveSideRateControl {
    config: RateControlConfig,
    rate_bps: f64,
    initialised: bool,
    first_incoming: Option<Time>,
    state: AimdState,
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
    /// The fraction that the next decrease leaves, if alpha is lagged.
    next_alpha: f64,
}

impl ReceiveSideRateControl {
    pub(crate) fn new(config: RateControlConfig) -> Self {
        ReceiveSideRateControl {
            config,
            rate_bps: MAX_BPS,
            initialised: false,
            first_incoming: None,
            state: AimdState::Hold,
            region: Region::MaxUnknown,
            maximum_kbps: None,
            variance_kbps: VARIANCE_BOUNDS_KBPS.0,
            hold_maximum_bps: 0.0,
            rtt: DEFAULT_RTT,
            period_ms: 1_000.0,
            last_update: None,
            last_change: None,
            alpha: f64::NAN,
            next_alpha: INITIAL_ALPHA,
        }
    }

    /// The rate that the receiver allows, once there is one.
    pub(crate) fn estimate(&self) -> Option<Bitrate> {
        self.initialised.then_some(Bitrate(self.rate_bps as u64))
    }

    pub(crate) fn state(&self) -> AimdState {
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
        if before == AimdState::Hold && self.state == AimdState::Increase {
            self.last_change = Some(now);
        }
        let (rate, is_exempt) = match self.state {
            AimdState::Hold => self.hold(input),
            AimdState::Increase => self.increase(now, input),
            AimdState::Decrease => (self.decrease(now, input), false),
        };
        let rate = rate.clamp(MIN_BPS, MAX_BPS);
        let limit = LIMIT_FACTOR * input.incoming_bps;
        let busy = input.incoming_bps > VETO_FLOORS_BPS.0 || rate > VETO_FLOORS_BPS.1;
        if self.config.limit == Limit::Cap {
            self.rate_bps = rate.min(limit.max(MIN_BPS));
        } else if !is_exempt && busy && rate > limit {
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
        if self.config.initialisation.is_some_and(|wait| now > first + wait) {
            self.rate_bps = incoming_bps;
            self.initialised = true;
        }
    }

    fn deviation_kbps(&self) -> f64 {
        (self.variance_kbps * self.maximum_kbps.unwrap_or(0.0)).sqrt()
    }

    /// Fraction of the incoming rate that a decrease leaves, except with dynamic alpha that is not lagged. Fast
    /// recovery and the known maximum use it in any case, unless alpha replaces it there, too.
    fn beta(&self) -> f64 {
        match self.config.decrease {
            DecreaseLaw::Factors { near, elsewhere } => self.by_region(near, elsewhere),
            DecreaseLaw::Dynamic(law) if law.lagged => self.next_alpha,
            DecreaseLaw::Dynamic(law) if law.replaces_beta && self.alpha.is_nan() => INITIAL_ALPHA,
            DecreaseLaw::Dynamic(law) if law.replaces_beta => self.alpha,
            DecreaseLaw::Dynamic(_) => self.by_region(NEAR_BETA, BETA),
        }
    }

    fn by_region(&self, near: f64, elsewhere: f64) -> f64 {
        match self.region {
            Region::NearMax => near,
            Region::AboveMax | Region::MaxUnknown => elsewhere,
        }
    }

    fn change_region(&mut self, region: Region, input: &Input) {
        self.region = region;
        if let DecreaseLaw::Dynamic(law) = self.config.decrease {
            self.next_alpha = law.lagged_alpha(input.detector_ms, region);
        }
    }

    /// The new rate, and whether under-use sets it, which the veto does not refuse.
    fn hold(&mut self, input: &Input) -> (f64, bool) {
        self.hold_maximum_bps = self.hold_maximum_bps.max(input.incoming_bps);
        match (self.config.under_use_factor, input.usage) {
            (Some(factor), Usage::Under) => {
                self.initialised |= self.config.signal_initialises;
                (factor * input.incoming_bps, true)
            }
            _ => (self.rate_bps, false),
        }
    }

    /// The new rate, and whether it recovers to what arrived during hold.
    fn increase(&mut self, now: Time, input: &Input) -> (f64, bool) {
        if let Some(maximum) = self.maximum_kbps {
            let excess = input.incoming_bps / 1e3 - maximum;
            if excess > FORGET_DEVIATIONS * self.deviation_kbps() {
                self.change_region(Region::MaxUnknown, input);
                self.maximum_kbps = None;
            } else if self.config.recovers && excess > ABOVE_DEVIATIONS * self.deviation_kbps() {
                self.change_region(Region::AboveMax, input);
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
            self.change_region(Region::NearMax, input);
            return (floor, true);
        }
        (grown, false)
    }

    fn decrease(&mut self, now: Time, input: &Input) -> f64 {
        self.state = AimdState::Hold;
        self.last_change = Some(now);
        self.initialised |= self.config.signal_initialises;
        let incoming = input.incoming_bps;
        if incoming < MIN_BPS {
            return MIN_BPS;
        }
        self.alpha = match self.config.decrease {
            DecreaseLaw::Dynamic(law) if !law.lagged => law.alpha(input.raised_ms, self.region),
            DecreaseLaw::Dynamic(_) | DecreaseLaw::Factors { .. } => self.beta(),
        };
        let mut rate = self.alpha * incoming;
        if rate > self.rate_bps {
            if let Some(maximum) = self.maximum_kbps.filter(|_| self.region != Region::MaxUnknown) {
                rate = self.beta() * maximum * 1e3;
            }
            rate = rate.min(self.rate_bps);
        }
        self.change_region(Region::NearMax, input);
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
