//! Application-limited regions: times when the media sends much less than it may.
//!
//! Source: libwebrtc, `alr_detector.cc`, `interval_budget.cc`, `alr_experiment.cc` (its default settings).

use super::arithmetic::{MS, scale, thousands};

/// The budget is at most what this many milliseconds of the rate carry, positive or negative.
const WINDOW_MS: i64 = 500;

/// When a region starts and ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct AlrConfig {
    /// Share of the target that the media is expected to use.
    pub(super) usage: f64,
    /// A region starts when the budget exceeds this share of its limit.
    pub(super) start: f64,
    /// A region ends when the budget falls below this share.
    pub(super) stop: f64,
}

impl Default for AlrConfig {
    fn default() -> Self {
        AlrConfig { usage: 0.8, start: 0.4, stop: -0.6 }
    }
}

/// A budget of bytes that fills at a share of the target, and that packets use up.
#[derive(Debug)]
pub(super) struct Alr {
    config: AlrConfig,
    rate_kbps: i64,
    /// Limit of the budget, in bytes.
    limit: i64,
    budget: i64,
    last_sent_ms: Option<i64>,
    started: Option<i64>,
}

impl Alr {
    /// Starts outside a region.
    pub(super) fn new(config: AlrConfig) -> Self {
        Alr { config, rate_kbps: 0, limit: 0, budget: 0, last_sent_ms: None, started: None }
    }

    /// When the region began, in microseconds; `None` outside a region.
    pub(super) fn started(&self) -> Option<i64> {
        self.started
    }

    /// Follows the target.
    pub(super) fn set_target(&mut self, bps: i64) {
        self.rate_kbps = thousands(scale(bps, self.config.usage));
        self.limit = WINDOW_MS * self.rate_kbps / 8;
        self.budget = self.budget.clamp(-self.limit, self.limit);
    }

    /// A packet left.
    pub(super) fn on_sent(&mut self, now: i64, size: i64) {
        let now_ms = thousands(now);
        let Some(last_ms) = self.last_sent_ms.replace(now_ms) else { return };
        self.budget = (self.budget - size).max(-self.limit);
        self.budget = (self.budget + self.rate_kbps * (now_ms - last_ms) / 8).min(self.limit);
        let level = self.level();
        if level > self.config.start && self.started.is_none() {
            self.started = Some(now_ms * MS);
        } else if level < self.config.stop {
            self.started = None;
        }
    }

    fn level(&self) -> f64 {
        if self.limit == 0 { 0.0 } else { self.budget as f64 / self.limit as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends a packet every 10 ms at shares of 300 kbit/s, each until a time in ms. Returns when the region
    /// starts and ends, in ms, and the budget then.
    fn edges(shares: &[(f64, i64)]) -> Vec<(i64, i64)> {
        let mut alr = Alr::new(AlrConfig::default());
        alr.set_target(300_000);
        assert_eq!((alr.rate_kbps, alr.limit), (240, 15_000));
        let (mut edges, mut now_ms) = (Vec::new(), 0);
        for &(share, until_ms) in shares {
            while now_ms < until_ms {
                now_ms += 10;
                let before = alr.started().is_some();
                // 300 kbit/s are 375 bytes in 10 ms.
                alr.on_sent(now_ms * MS, (375.0 * share) as i64);
                if alr.started().is_some() != before {
                    edges.push((now_ms, alr.budget));
                }
            }
        }
        edges
    }

    #[test]
    fn a_region_starts_below_80_percent_of_the_target_and_ends_above() {
        let after_use = [(0.9, 1_000), (0.2, 2_500), (1.0, 10_000)];
        assert_eq!(edges(&after_use), [(1_430, 6_012), (5_710, -9_075)]);
        let at_once = [(0.2, 1_000), (1.0, 10_000)];
        assert_eq!(edges(&at_once), [(280, 6_075), (4_210, -9_075)]);
    }

    #[test]
    fn the_first_packet_only_sets_the_time() {
        let mut alr = Alr::new(AlrConfig::default());
        alr.set_target(300_000);
        alr.on_sent(10 * MS, 9_000);
        assert_eq!(alr.budget, 0);
    }

    #[test]
    fn the_budget_follows_a_lower_target() {
        let mut alr = Alr::new(AlrConfig::default());
        alr.set_target(300_000);
        alr.budget = 10_000;
        alr.set_target(100_000);
        assert_eq!((alr.limit, alr.budget), (5_000, 5_000));
    }
}
