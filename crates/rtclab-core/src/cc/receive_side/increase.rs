//! How fast the receiver lets the rate grow.

use super::state::Region;
use crate::units::Time;

/// How fast the rate grows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum IncreaseLaw {
    /// Not at all.
    None,
    /// By this factor, in every region.
    Factor {
        /// Growth factor per second.
        per_second: f64,
    },
    /// Slower the longer a change takes to show its effect (libwebrtc of 2013).
    ResponseTime,
    /// 8 % a second, or `additive` packets per response time near a known maximum.
    Aimd {
        /// Packets per response time near the maximum.
        additive: f64,
    },
}

/// Inputs of an increase.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IncreaseInput {
    pub(crate) rate_bps: f64,
    pub(crate) region: Region,
    /// Time since the last change.
    pub(crate) elapsed: Option<Time>,
    pub(crate) rtt: Time,
    /// Mean time between updates, in ms.
    pub(crate) period_ms: f64,
    /// Variance of the filter's noise, in ms^2.
    pub(crate) noise: f64,
}

impl IncreaseLaw {
    /// The rate after growth, in bit/s.
    pub(crate) fn grow(self, input: &IncreaseInput) -> f64 {
        match self {
            IncreaseLaw::None => input.rate_bps,
            IncreaseLaw::Factor { per_second } => input.rate_bps * growth(input, per_second),
            IncreaseLaw::ResponseTime => response_time(input),
            IncreaseLaw::Aimd { additive } if input.region == Region::NearMax => {
                input.rate_bps + additive_step(input, additive)
            }
            IncreaseLaw::Aimd { .. } => input.rate_bps + multiplicative_step(input),
        }
    }
}

/// libwebrtc 4d06db557a, `remote_rate_control.cc`, RateIncreaseFactor.
fn response_time(input: &IncreaseInput) -> f64 {
    const B: f64 = 0.0407;
    const STEEPNESS: f64 = 0.0025;
    const C1: f64 = -6_700.0 / (33.0 * 33.0);
    const C2: f64 = 800.0;
    const D: f64 = 0.85;
    const BOUNDS: (f64, f64) = (1.005, 1.3);
    const REACTION_MS: f64 = 300.0;

    let response_ms = input.period_ms.round() + input.rtt.as_secs_f64() * 1e3 + REACTION_MS;
    let exponent = STEEPNESS * (D * response_ms - (C1 * input.noise + C2));
    let factor = (BOUNDS.0 + B / (1.0 + libm::exp(exponent))).clamp(BOUNDS.0, BOUNDS.1);
    let factor = input.elapsed.map_or(factor, |elapsed| libm::pow(factor, elapsed.as_secs_f64()));
    let share = match input.region {
        Region::NearMax => 0.5,
        Region::AboveMax => 1.0,
        Region::MaxUnknown => 3.0,
    };
    input.rate_bps * (1.0 + share * (factor - 1.0)) + 1e3
}

/// libwebrtc 524ecc29dd, `aimd_rate_control.cc`, AdditiveRateIncrease.
fn additive_step(input: &IncreaseInput, packets: f64) -> f64 {
    const REACTION_MS: f64 = 100.0;
    const FRAMES_PER_SECOND: f64 = 30.0;
    const PACKET_BITS: f64 = 1_200.0 * 8.0;

    let response_ms = input.rtt.as_secs_f64() * 1e3 + REACTION_MS;
    let elapsed_ms = input.elapsed.map_or(0.0, |elapsed| elapsed.as_secs_f64() * 1e3);
    let frame_bits = input.rate_bps / FRAMES_PER_SECOND;
    let packet_bits = frame_bits / (frame_bits / PACKET_BITS).ceil();
    (packets * (elapsed_ms / response_ms).min(1.0) * packet_bits).max(1e3)
}

/// libwebrtc 524ecc29dd, `aimd_rate_control.cc`, MultiplicativeRateIncrease.
fn multiplicative_step(input: &IncreaseInput) -> f64 {
    const PER_SECOND: f64 = 1.08;
    (input.rate_bps * (growth(input, PER_SECOND) - 1.0)).max(1e3)
}

/// The growth factor since the last change, which counts as at most a second.
fn growth(input: &IncreaseInput, per_second: f64) -> f64 {
    let seconds = input.elapsed.map_or(1.0, |elapsed| elapsed.as_secs_f64().min(1.0));
    libm::pow(per_second, seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(region: Region, rtt_ms: u64, noise: f64) -> IncreaseInput {
        IncreaseInput {
            rate_bps: 1e6,
            region,
            elapsed: Some(Time::from_secs(1)),
            rtt: Time::from_millis(rtt_ms),
            period_ms: 1e3,
            noise,
        }
    }

    #[test]
    fn growth_per_second_in_2013_falls_with_round_trip_and_noise() {
        // Percent per second with an unknown and with a near maximum, computed from the formula.
        let table = [
            (0, 1.0, 5.34, 0.89),
            (0, 20.0, 4.62, 0.77),
            (0, 100.0, 2.61, 0.44),
            (100, 1.0, 4.80, 0.80),
            (200, 1.0, 4.32, 0.72),
            (400, 20.0, 3.06, 0.51),
            (1_000, 1.0, 2.13, 0.36),
            (1_000, 100.0, 1.64, 0.27),
        ];
        for (rtt, noise, unknown, near) in table {
            for (region, percent) in [(Region::MaxUnknown, unknown), (Region::NearMax, near)] {
                // The additional 1 kbit/s is 0.1 % here.
                let grown = IncreaseLaw::ResponseTime.grow(&input(region, rtt, noise));
                let growth = (grown - 1e3) / 1e4 - 100.0;
                assert!((growth - percent).abs() < 0.01, "{rtt} ms, {noise}: {growth} %");
            }
        }
    }

    #[test]
    fn above_the_maximum_growth_is_twice_that_near_it() {
        let grow = |region| IncreaseLaw::ResponseTime.grow(&input(region, 100, 1.0)) - 1.001e6;
        assert!((grow(Region::AboveMax) / grow(Region::NearMax) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn additive_growth_is_half_a_packet_per_response_time() {
        // 1 Mbit/s: 33 333 bit per frame in 4 packets of 8333 bit; a full step, as 1 s > 50 + 100 ms
        let law = IncreaseLaw::Aimd { additive: 0.5 };
        let mut at = input(Region::NearMax, 50, 1.0);
        assert!((law.grow(&at) - 1e6 - 8_333.3 / 2.0).abs() < 1.0);
        at.elapsed = Some(Time::from_millis(75));
        assert!((law.grow(&at) - 1e6 - 8_333.3 / 4.0).abs() < 1.0);
    }

    #[test]
    fn a_factor_per_second_applies_in_every_region_and_for_at_most_a_second() {
        for region in [Region::MaxUnknown, Region::AboveMax, Region::NearMax] {
            let mut at = input(region, 50, 1.0);
            for (ms, grown) in [(1_000, 1.05e6), (3_000, 1.05e6), (500, 1e6 * 1.05_f64.sqrt())] {
                at.elapsed = Some(Time::from_millis(ms));
                let rate = IncreaseLaw::Factor { per_second: 1.05 }.grow(&at);
                assert!((rate - grown).abs() < 1e-3, "{ms} ms: {rate}");
            }
            assert_eq!(IncreaseLaw::None.grow(&at), 1e6);
        }
    }

    #[test]
    fn multiplicative_growth_is_8_percent_a_second_and_at_least_1_kbps_at_once() {
        let law = IncreaseLaw::Aimd { additive: 0.5 };
        let mut at = input(Region::MaxUnknown, 50, 1.0);
        assert!((law.grow(&at) - 1.08e6).abs() < 1e-3);
        at.rate_bps = 50e3;
        at.elapsed = Some(Time::from_millis(200));
        assert!((law.grow(&at) - 51e3).abs() < 1e-9);
    }
}
