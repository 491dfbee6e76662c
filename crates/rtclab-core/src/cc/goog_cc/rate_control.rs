//! Delay-based rate: additive and multiplicative increase, multiplicative decrease.
//!
//! Source: libwebrtc, `aimd_rate_control.cc`; draft-ietf-rmcat-gcc-02, section 5.5.

use super::arithmetic::{KBPS, MS, SECOND, bytes_in, rate_of, scale, truncated};
use super::link_capacity::LinkCapacity;
use crate::cc::receive_side::state::Usage;

/// libwebrtc's minimum of every rate (`remote_bitrate_estimator/include/bwe_defines.h`).
pub(super) const MIN_RATE: i64 = 5 * KBPS;
/// Estimate before the start rate is known.
const UNUSED_START: i64 = 30_000 * KBPS;
/// Without a start rate, the acknowledged rate becomes the estimate after this time.
const INITIALISATION: i64 = 5 * SECOND;
/// Round trip before a report measures it.
const DEFAULT_RTT: i64 = 200 * MS;
/// Bounds of the time between two decreases.
const DECREASE_INTERVAL: (i64, i64) = (10 * MS, 200 * MS);
/// An acknowledged rate below this share of the estimate lowers it at once.
const AT_ONCE: f64 = 0.5;
/// Growth in a second while the capacity is unknown.
const GROWTH: f64 = 1.08;
/// Least growth of a step while the capacity is unknown.
const MIN_GROWTH: i64 = KBPS;
/// Least growth in a second near the capacity, in bit/s.
const MIN_NEAR_GROWTH: f64 = 4_000.0;
/// The estimate grows up to the acknowledged rate times this, and 10 kbit/s.
const LIMIT: (f64, i64) = (1.5, 10 * KBPS);
/// A decrease goes this much below the share of the acknowledged rate.
const BELOW: i64 = 5 * KBPS;
/// Time between frames, and the largest packet: growth near the capacity is one packet per response time.
const FRAME_INTERVAL: i64 = SECOND / 30;
const PACKET_BYTES: f64 = 1_200.0;
/// The detector's own share of the response time.
const DETECTION: i64 = 100 * MS;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Hold,
    Increase,
}

/// The delay-based estimate, in bit/s.
#[derive(Debug)]
pub(super) struct AimdRateControl {
    /// What over-use leaves of the acknowledged rate.
    beta: f64,
    min: i64,
    estimate: i64,
    is_valid: bool,
    state: State,
    acknowledged: i64,
    first_acknowledged: Option<i64>,
    changed: Option<i64>,
    rtt: i64,
    capacity: LinkCapacity,
}

impl AimdRateControl {
    /// Starts without a valid estimate.
    pub(super) fn new(beta: f64) -> Self {
        AimdRateControl {
            beta,
            min: MIN_RATE,
            estimate: UNUSED_START,
            is_valid: false,
            state: State::Hold,
            acknowledged: UNUSED_START,
            first_acknowledged: None,
            changed: None,
            rtt: DEFAULT_RTT,
            capacity: LinkCapacity::default(),
        }
    }

    /// Makes a rate the estimate.
    pub(super) fn set_start(&mut self, bps: i64) {
        self.estimate = bps;
        self.acknowledged = bps;
        self.is_valid = true;
    }

    /// Sets the minimum, and lifts the estimate to it.
    pub(super) fn set_min(&mut self, bps: i64) {
        self.min = bps;
        self.estimate = self.estimate.max(bps);
    }

    /// Sets the round trip, in microseconds.
    pub(super) fn set_rtt(&mut self, rtt: i64) {
        self.rtt = rtt;
    }

    /// The estimate.
    pub(super) fn estimate(&self) -> i64 {
        self.estimate
    }

    /// Whether there is an estimate.
    pub(super) fn is_valid(&self) -> bool {
        self.is_valid
    }

    /// Estimate of the link's capacity.
    pub(super) fn capacity(&self) -> &LinkCapacity {
        &self.capacity
    }

    /// Replaces the estimate, for example by a probe's result.
    pub(super) fn set_estimate(&mut self, now: i64, bps: i64) {
        self.is_valid = true;
        self.estimate = bps.max(self.min);
        self.changed = Some(now);
    }

    /// Whether over-use may lower the estimate again.
    pub(super) fn may_decrease(&self, now: i64, acknowledged: i64) -> bool {
        let interval = self.rtt.clamp(DECREASE_INTERVAL.0, DECREASE_INTERVAL.1);
        self.changed.is_none_or(|changed| now - changed >= interval)
            || self.is_valid && acknowledged < scale(self.estimate, AT_ONCE)
    }

    /// Follows the detector. Returns whether the estimate is valid.
    pub(super) fn update(&mut self, now: i64, usage: Usage, acknowledged: Option<i64>) -> bool {
        if let Some(bps) = acknowledged.filter(|_| !self.is_valid) {
            let first = *self.first_acknowledged.get_or_insert(now);
            if now - first > INITIALISATION {
                self.estimate = bps;
                self.is_valid = true;
            }
        }
        self.acknowledged = acknowledged.unwrap_or(self.acknowledged);
        if !self.is_valid && usage != Usage::Over {
            return false;
        }
        match usage {
            Usage::Over => self.decrease(now),
            Usage::Under => self.state = State::Hold,
            Usage::Normal => {
                if self.state == State::Hold {
                    self.changed = Some(now);
                    self.state = State::Increase;
                }
                self.increase(now);
            }
        }
        self.estimate = self.estimate.max(self.min);
        self.is_valid
    }

    fn increase(&mut self, now: i64) {
        if self.acknowledged > self.capacity.upper() {
            self.capacity.forget();
        }
        let limit = scale(self.acknowledged, LIMIT.0) + LIMIT.1;
        if self.estimate < limit {
            let elapsed = self.changed.map(|changed| now - changed);
            let step = match self.capacity.estimate() {
                Some(_) => {
                    let seconds = elapsed.unwrap_or(0) as f64 / SECOND as f64;
                    truncated(self.growth_near_capacity() * seconds)
                }
                None => self.growth(elapsed),
            };
            self.estimate = (self.estimate + step).min(limit);
        }
        self.changed = Some(now);
    }

    fn growth(&self, elapsed: Option<i64>) -> i64 {
        let seconds = elapsed.map_or(1.0, |us| (us as f64 / SECOND as f64).min(1.0));
        scale(self.estimate, libm::pow(GROWTH, seconds) - 1.0).max(MIN_GROWTH)
    }

    /// Growth in a second near the capacity, in bit/s: a packet per two response times.
    pub(super) fn growth_near_capacity(&self) -> f64 {
        let frame = bytes_in(self.estimate, FRAME_INTERVAL);
        let packets = (frame as f64 / PACKET_BYTES).ceil();
        let packet = (frame as f64 / packets).round() as i64;
        let response = 2 * (self.rtt + DETECTION);
        (rate_of(packet, response) as f64).max(MIN_NEAR_GROWTH)
    }

    fn decrease(&mut self, now: i64) {
        let mut rate = scale(self.acknowledged, self.beta);
        if rate > BELOW {
            rate -= BELOW;
        }
        if rate > self.estimate {
            if let Some(capacity) = self.capacity.estimate() {
                rate = scale(capacity, self.beta);
            }
        }
        self.estimate = self.estimate.min(rate);
        if self.acknowledged < self.capacity.lower() {
            self.capacity.forget();
        }
        self.is_valid = true;
        self.capacity.add(self.acknowledged);
        self.state = State::Hold;
        self.changed = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(bps: i64) -> AimdRateControl {
        let mut control = AimdRateControl::new(0.85);
        control.set_start(bps);
        control
    }

    #[test]
    fn growth_near_the_capacity_is_half_a_packet_per_response_time() {
        let cases = [
            (30_000, 200, 4_000),
            (90_000, 200, 5_000),
            (60_000, 100, 5_000),
            (216_000, 200, 12_000),
            (300_000, 200, 8_333),
            (1_000_000, 50, 27_786),
            (1_000_000, 200, 13_893),
        ];
        for (bps, rtt_ms, growth) in cases {
            let mut control = at(bps);
            control.set_rtt(rtt_ms * MS);
            assert_eq!(control.growth_near_capacity(), f64::from(growth), "{bps}, {rtt_ms} ms");
        }
    }

    #[test]
    fn over_use_leaves_85_percent_of_the_acknowledged_rate_less_5_kbps() {
        let mut control = at(264_000);
        assert!(control.update(0, Usage::Over, Some(260_000)));
        assert_eq!(control.estimate(), 216_000);
        assert_eq!(control.growth_near_capacity(), 12_000.0);
        // Hold, then growth of 12 kbit/s in a second.
        control.update(SECOND, Usage::Normal, Some(260_000));
        assert_eq!(control.estimate(), 216_000);
        control.update(2 * SECOND, Usage::Normal, Some(260_000));
        assert_eq!(control.estimate(), 228_000);
    }

    #[test]
    fn the_estimate_grows_up_to_one_and_a_half_times_the_acknowledged_rate_and_10_kbps() {
        let mut control = at(10_000);
        for i in 0..2_000 {
            control.update(i * 10 * MS, Usage::Normal, Some(10_000));
        }
        assert_eq!(control.estimate(), 25_000);
    }

    #[test]
    fn without_known_capacity_growth_is_8_percent_a_second_but_at_least_1_kbps() {
        // 300 * (1.08^0.05 - 1) = 1.15664 and 100 * (1.08^0.1 - 1) = 0.773 kbit/s.
        for (bps, elapsed, growth) in [(300_000, 50 * MS, 1_157), (100_000, 100 * MS, 1_000)] {
            let mut control = at(bps);
            control.update(0, Usage::Normal, Some(bps));
            // The first step takes no time.
            assert_eq!(control.estimate(), bps + 1_000);
            control.estimate = bps;
            control.update(elapsed, Usage::Normal, Some(bps));
            assert_eq!(control.estimate(), bps + growth);
        }
    }

    #[test]
    fn over_use_lowers_the_estimate_once_per_round_trip_unless_half_of_it_is_lost() {
        let mut control = at(1_000_000);
        control.set_rtt(50 * MS);
        assert!(control.may_decrease(0, 900_000));
        control.set_estimate(0, 1_000_000);
        assert!(!control.may_decrease(49 * MS, 500_000));
        assert!(control.may_decrease(50 * MS, 500_000) && control.may_decrease(0, 499_999));
        control.set_rtt(SECOND);
        assert!(
            !control.may_decrease(199 * MS, 900_000) && control.may_decrease(200 * MS, 900_000)
        );
    }

    #[test]
    fn without_a_start_rate_five_seconds_or_over_use_give_the_estimate() {
        let mut control = AimdRateControl::new(0.85);
        assert!(!control.update(0, Usage::Normal, Some(400_000)));
        assert!(!control.update(5 * SECOND, Usage::Normal, Some(400_000)));
        assert!(control.update(5 * SECOND + 1, Usage::Normal, Some(400_000)));
        assert_eq!(control.estimate(), 401_000);
        let mut control = AimdRateControl::new(0.85);
        assert!(control.update(0, Usage::Over, Some(400_000)));
        assert_eq!(control.estimate(), 335_000);
    }

    #[test]
    fn no_rate_is_below_the_minimum_and_a_raised_minimum_lifts_the_estimate_at_once() {
        let mut control = at(100_000);
        control.set_min(80_000);
        control.update(0, Usage::Over, Some(20_000));
        assert_eq!(control.estimate(), 80_000);
        control.set_min(92_000);
        assert_eq!(control.estimate(), 92_000);
    }
}
