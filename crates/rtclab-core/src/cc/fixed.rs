//! No congestion control: sends at a fixed rate.

use super::control::{ControlError, Controller, Decision, Feedback};
use crate::units::{Bitrate, Time};

/// Sends at one rate whatever the feedback says; the baseline for all other algorithms.
pub struct Fixed {
    rate: Bitrate,
}

impl Fixed {
    /// Sends at `rate` from start to end.
    pub fn new(rate: Bitrate) -> Self {
        Fixed { rate }
    }
}

impl Controller for Fixed {
    fn on_feedback(&mut self, _now: Time, _feedback: Feedback<'_>) -> Result<(), ControlError> {
        Ok(())
    }

    fn decision(&self) -> Decision {
        Decision::at(self.rate)
    }
}
