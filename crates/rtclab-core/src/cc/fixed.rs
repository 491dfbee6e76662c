//! No congestion control: always the same rate.

use super::control::{ControlError, Controller, Decision, Feedback};
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
    fn on_feedback(&mut self, _now: Time, _feedback: Feedback<'_>) -> Result<(), ControlError> {
        Ok(())
    }

    fn decision(&self) -> Decision {
        Decision::at(self.rate)
    }
}
