//! No congestion control: always the same rate.

use super::{Controller, Decision, Feedback, PACING_BURST, RateOf};
use crate::units::{Bitrate, Time};

/// Sends at one rate whatever comes back; the yardstick for everything else.
pub struct Fixed {
    rate: Bitrate,
}

impl Fixed {
    /// At `rate`, from beginning to end.
    pub fn new(rate: Bitrate) -> Self {
        Fixed { rate }
    }
}

impl Controller for Fixed {
    fn on_feedback(&mut self, _now: Time, _feedback: Feedback<'_>) {}

    fn decision(&self) -> Decision {
        Decision {
            target: self.rate,
            target_of: RateOf::Packets,
            pacing_burst: PACING_BURST,
            pacing_tick: Time::ZERO,
            pacing_rate: self.rate.scaled(super::goog_cc::PACING_FACTOR),
            padding_rate: Bitrate::ZERO,
            drop_ratio: 0.0,
        }
    }
}
