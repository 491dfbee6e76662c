//! What a learning agent sees of a sender.

use super::view::View;
use crate::cc::features::{self, ALPHARTC4, BWE2024};
use crate::units::{Bitrate, Time};

/// What an agent sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observed {
    /// [`features::Features::bwe2024`], up to when arrivals are known.
    Bwe2024,
    /// [`features::alphartc4`] of the last step.
    Alphartc4,
    /// All numbers that a sender knows: [`FULL`].
    Full,
}

/// The numbers of [`Observed::Full`], with their units. A number that is not known yet is -1.
pub const FULL: [&str; 18] = [
    "target_bps",
    "receiving_rate_bps",
    "sending_rate_bps",
    "received_packets_per_s",
    "delay_ms",
    "delay_p95_ms",
    "delay_min_ms",
    "queuing_delay_ms",
    "loss",
    "marked",
    "rtt_ms",
    "since_report_ms",
    "in_flight_bytes",
    "queued_bytes",
    "application_limited",
    "media_min_bps",
    "media_max_bps",
    "elapsed_s",
];

impl Observed {
    /// What a name stands for.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "bwe2024" => Some(Observed::Bwe2024),
            "alphartc4" => Some(Observed::Alphartc4),
            "full" => Some(Observed::Full),
            _ => None,
        }
    }

    /// How many numbers it has.
    pub fn length(self) -> usize {
        match self {
            Observed::Bwe2024 => BWE2024,
            Observed::Alphartc4 => ALPHARTC4,
            Observed::Full => FULL.len(),
        }
    }

    pub(super) fn write(self, view: &View, out: &mut [f32]) {
        let outcome = view.outcome();
        match self {
            Observed::Bwe2024 => match view.known_until() {
                Some(now) => view.features.bwe2024(now, out),
                None => out.fill(0.0),
            },
            Observed::Alphartc4 => {
                let known = |value: f64| if value.is_nan() { 0.0 } else { value };
                let (delay, loss) = (known(outcome.delay_ms), known(outcome.loss));
                let target = Bitrate(outcome.target_bps as u64);
                let rate = outcome.receiving_rate_bps;
                copy(features::alphartc4(rate, delay, loss, target), out);
            }
            Observed::Full => {
                let bounds = view.bounds.map(|bounds| (bounds.min.0 as f64, bounds.max.0 as f64));
                let (min, max) = bounds.unwrap_or((f64::NAN, f64::NAN));
                let ms = |time: Time| time.as_secs_f64() * 1e3;
                let marked = f64::from(view.marked) / f64::from(view.reported.max(1));
                let values = [
                    outcome.target_bps,
                    outcome.receiving_rate_bps,
                    outcome.sending_rate_bps,
                    outcome.received_packets_per_s,
                    outcome.delay_ms,
                    outcome.delay_p95_ms,
                    outcome.delay_min_ms,
                    outcome.queuing_delay_ms,
                    outcome.loss,
                    marked,
                    view.rtt_ns.map_or(f64::NAN, |ns| ns as f64 / 1e6),
                    view.silent().map_or(f64::NAN, ms),
                    view.sender.in_flight.0 as f64,
                    view.sender.queued.0 as f64,
                    f64::from(u8::from(view.sender.application_limited)),
                    min,
                    max,
                    view.elapsed().as_secs_f64(),
                ];
                copy(values.map(|value| if value.is_nan() { -1.0 } else { value as f32 }), out);
            }
        }
    }
}

fn copy<const LENGTH: usize>(values: [f32; LENGTH], out: &mut [f32]) {
    out.iter_mut().zip(values).for_each(|(out, value)| *out = value);
}
