//! When loss counts as congestion. Source: `loss_estimator.cc`.

use super::options::ScreamConfig;
use super::report::Report;

/// Loss lasts when it comes back in one round-trip time after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loss {
    level: f64,
    /// Packets lost lately that may still arrive.
    outstanding: u64,
    /// A packet was lost in the running round trip.
    is_lossy: bool,
    last_event: f64,
    last_step: f64,
}

impl Loss {
    pub(super) fn new() -> Self {
        let never = f64::NEG_INFINITY;
        Loss { level: 0.0, outstanding: 0, is_lossy: false, last_event: never, last_step: never }
    }

    /// Takes a report into account, and returns whether it has a new loss.
    pub(super) fn update(&mut self, config: &ScreamConfig, report: &Report, rtt: f64) -> bool {
        let round = rtt.max(config.virtual_rtt);
        if report.now - self.last_event > round {
            self.outstanding = 0;
        }
        if report.lost > 0 || report.recovered > 0 {
            self.last_event = report.now;
        }
        if report.recovered > 0 {
            self.outstanding = self.outstanding.saturating_sub(report.recovered);
            if self.outstanding == 0 {
                self.level = 0.0;
                self.is_lossy = false;
            }
        }
        if report.lost > 0 {
            self.outstanding += report.lost;
            self.is_lossy = true;
        }
        if report.now - self.last_step >= round {
            self.last_step = report.now;
            self.level = match std::mem::take(&mut self.is_lossy) {
                true => (self.level + 1.0 / config.lossy_rounds).min(1.0),
                false => (self.level - 1.0 / config.lossless_rounds).max(0.0),
            };
        }
        report.lost > 0
    }

    /// From 0, no loss lately, to 1, loss that lasts.
    pub(super) fn level(&self) -> f64 {
        self.level
    }
}
