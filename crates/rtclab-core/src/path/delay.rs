//! The wire: propagation delay and jitter.

use crate::limits::{self, Checked};
use crate::normal::StandardNormal;
use crate::units::Time;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

/// One-way propagation delay as a function of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Delay {
    /// A constant delay.
    Constant {
        /// Delay.
        ns: Time,
    },
    /// A piecewise constant delay. The first one also holds before its own step.
    Steps {
        /// `(from, delay)`, times strictly increasing.
        steps: Vec<(Time, Time)>,
    },
    /// A transition between two delays, constant before and after.
    Ramp {
        /// Shape of the transition.
        shape: RampShape,
        /// Beginning of the ramp.
        start_ns: Time,
        /// End of the ramp.
        end_ns: Time,
        /// Delay before the ramp.
        from_ns: Time,
        /// Delay after the ramp.
        to_ns: Time,
    },
}

impl Default for Delay {
    fn default() -> Self {
        Delay::Constant { ns: Time::ZERO }
    }
}

/// Shape of a [`Delay::Ramp`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RampShape {
    /// Linear in time.
    Linear,
    /// Exponential in time. Both delays must be above 0.
    Exponential,
}

impl Delay {
    /// Lower bound of [`Delay::at`].
    pub(super) fn smallest(&self) -> Time {
        match self {
            Delay::Constant { ns } => *ns,
            Delay::Steps { .. } => Time::ZERO,
            Delay::Ramp { from_ns, to_ns, .. } => *from_ns.min(to_ns),
        }
    }

    /// Upper bound of [`Delay::at`].
    pub(super) fn largest(&self) -> Time {
        match self {
            Delay::Constant { ns } => *ns,
            Delay::Steps { steps } => steps.iter().map(|step| step.1).max().unwrap_or_default(),
            Delay::Ramp { from_ns, to_ns, .. } => *from_ns.max(to_ns),
        }
    }

    pub(super) fn check(&self) -> Checked {
        limits::time("ns", self.largest())?;
        match self {
            Delay::Constant { .. } => Ok(()),
            Delay::Steps { steps } => limits::increasing("steps", steps.iter().map(|step| step.0)),
            Delay::Ramp { shape, start_ns, end_ns, .. } => {
                limits::time("end_ns", *end_ns)?;
                let expected = format!("at least start_ns = {} ns", start_ns.0);
                let value = format!("{} ns", end_ns.0);
                limits::require(start_ns <= end_ns, "end_ns", value, expected)?;
                let has_ratio = *shape == RampShape::Linear || self.smallest() > Time::ZERO;
                let expected = "two positive delays for an exponential ramp";
                limits::require(has_ratio, "from_ns", "a delay of 0 ns", expected)
            }
        }
    }

    /// Whether the delay is 0 at any time.
    pub(super) fn vanishes(&self) -> bool {
        match self {
            Delay::Steps { steps } => steps.iter().any(|(_, delay)| *delay == Time::ZERO),
            _ => self.smallest() == Time::ZERO,
        }
    }

    /// Delay of a packet that enters the wire at `now`.
    pub fn at(&self, now: Time) -> Time {
        match self {
            Delay::Constant { ns } => *ns,
            Delay::Steps { steps } => {
                let index = steps.partition_point(|(from, _)| *from <= now).saturating_sub(1);
                steps.get(index).map_or(Time::ZERO, |s| s.1)
            }
            Delay::Ramp { shape, start_ns, end_ns, from_ns, to_ns } => {
                if now <= *start_ns {
                    return *from_ns;
                }
                if now >= *end_ns {
                    return *to_ns;
                }
                let progress = (now - *start_ns).0 as f64 / (*end_ns - *start_ns).0 as f64;
                let (from, to) = (from_ns.0 as f64, to_ns.0 as f64);
                let delay = match shape {
                    RampShape::Linear => from + (to - from) * progress,
                    RampShape::Exponential => from * libm::pow(to / from, progress),
                };
                Time(delay.round() as u64)
            }
        }
    }
}

/// Random delay added to the propagation delay: the absolute value of a normal variable with standard
/// deviation `sd_ns`, truncated at three standard deviations (RFC 8868, section 4.4). Its mean is 0.798
/// `sd_ns` before truncation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Jitter {
    /// Standard deviation of the normal variable.
    pub sd_ns: Time,
    /// Whether packets may overtake each other.
    #[serde(default)]
    pub reorder: bool,
}

pub(super) struct JitterSource {
    jitter: Option<Jitter>,
    rng: Pcg64Mcg,
}

impl JitterSource {
    pub(super) fn new(jitter: Option<Jitter>, seed: u64) -> Self {
        // A separate random stream, so that adding jitter does not change which packets are lost.
        JitterSource { jitter, rng: Pcg64Mcg::seed_from_u64(seed ^ 0x6a69_7474_6572) }
    }

    pub(super) fn set(&mut self, jitter: Option<Jitter>) {
        self.jitter = jitter;
    }

    pub(super) fn sample(&mut self) -> Time {
        let Some(jitter) = self.jitter else { return Time::ZERO };
        let normal: f64 = self.rng.sample(StandardNormal);
        Time((normal.abs().min(3.0) * jitter.sd_ns.0 as f64) as u64)
    }
}
