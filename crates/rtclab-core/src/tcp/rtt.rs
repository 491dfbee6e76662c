//! Round-trip time and retransmission timeout (RFC 6298, with the bounds of Linux).

use crate::units::Time;

/// RFC 6298, 2.1: timeout before the first sample.
const INITIAL_TIMEOUT: Time = Time::from_secs(1);
/// Linux, `TCP_RTO_MIN`: minimum of the variance term.
const MIN_TIMEOUT: Time = Time::from_millis(200);
/// Maximum timeout (Linux, `TCP_RTO_MAX`).
const MAX_TIMEOUT: Time = Time::from_secs(120);

/// Smoothed round-trip time, its variation, and the backoff of the timeout.
#[derive(Clone, Debug, Default)]
pub(super) struct RttEstimator {
    smoothed: Option<Time>,
    variation: Time,
    /// Smallest sample.
    pub(super) min: Option<Time>,
    backoff: u32,
}

impl RttEstimator {
    pub(super) fn sample(&mut self, rtt: Time) {
        self.backoff = 0;
        let Some(smoothed) = self.smoothed else {
            self.smoothed = Some(rtt);
            self.variation = Time(rtt.0 / 2);
            return;
        };
        self.variation = Time((3 * self.variation.0 + smoothed.0.abs_diff(rtt.0)) / 4);
        self.smoothed = Some(Time((7 * smoothed.0 + rtt.0) / 8));
    }

    pub(super) fn smoothed(&self) -> Option<Time> {
        self.smoothed
    }

    /// Doubles the timeout after it has expired.
    pub(super) fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(16);
    }

    pub(super) fn timeout(&self) -> Time {
        let base = self.smoothed.map_or(INITIAL_TIMEOUT, |smoothed| {
            smoothed.saturating_add(Time(4 * self.variation.0).max(MIN_TIMEOUT))
        });
        Time(base.0.saturating_mul(1 << self.backoff)).min(MAX_TIMEOUT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_timeout_is_three_times_the_sample_or_the_sample_plus_the_floor() {
        // SRTT + 4 RTTVAR = R + 4 R/2 = 3 R. Below 100 ms, the floor of 200 ms is larger than 2 R.
        let mut rtt = RttEstimator::default();
        rtt.sample(Time::from_millis(400));
        assert_eq!(rtt.timeout(), Time::from_millis(1200));
        let mut rtt = RttEstimator::default();
        rtt.sample(Time::from_millis(50));
        assert_eq!(rtt.timeout(), Time::from_millis(250));
    }

    #[test]
    fn the_timeout_doubles_from_one_second_to_two_minutes() {
        let mut rtt = RttEstimator::default();
        let mut timeouts = Vec::new();
        for _ in 0..9 {
            timeouts.push(rtt.timeout().as_millis() / 1000);
            rtt.back_off();
        }
        assert_eq!(timeouts, [1, 2, 4, 8, 16, 32, 64, 120, 120]);
    }

    #[test]
    fn a_second_sample_moves_the_mean_by_an_eighth_and_the_variation_by_a_quarter() {
        let mut rtt = RttEstimator::default();
        rtt.sample(Time::from_millis(400));
        rtt.sample(Time::from_millis(480));
        // SRTT 410 ms, RTTVAR 3/4 * 200 + 1/4 * 80 = 170 ms.
        assert_eq!(rtt.timeout(), Time::from_millis(410 + 4 * 170));
    }
}
