//! When padding may fill what media leave. Source: `scream_network_controller.cc`.

use super::options::ScreamConfig;

/// Padding comes and goes in turns, and stops when the window falls.
#[derive(Clone, Copy, Debug)]
pub(super) struct Padding {
    /// End of the last turn, in microseconds.
    end: f64,
}

impl Padding {
    pub(super) fn new() -> Self {
        Padding { end: f64::NEG_INFINITY }
    }

    /// Whether padding may be sent now, if the window fell last at `last_decrease`.
    pub(super) fn is_allowed(
        &mut self,
        config: &ScreamConfig,
        now: f64,
        last_decrease: f64,
    ) -> bool {
        if now - last_decrease <= config.padding_after_decrease {
            self.end = self.end.min(now);
            return false;
        }
        if now - self.end >= config.padding_pause {
            self.end = now + config.padding;
        }
        now < self.end
    }
}
