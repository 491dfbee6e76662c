//! Additive increase, multiplicative decrease, from receiver reports and transport-wide feedback.

use rtclab_core::cc::{
    ControlError, Controller, Decision, Feedback, Observation, OptionSpec, Options, RateBounds,
};
use rtclab_core::units::{Bitrate, Time};

/// The options of the control.
pub const OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        name: "step_kbps",
        meaning: "kbit/s that every report without losses adds; 50 without the option",
        bounds: (1.0, 10_000.0),
    },
    OptionSpec {
        name: "tolerated_loss",
        meaning: "share of lost packets above which the rate is halved; 0.02 without the option",
        bounds: (0.0, 1.0),
    },
];

/// Additive increase, multiplicative decrease.
pub struct Aimd {
    bounds: RateBounds,
    step: Bitrate,
    tolerated_loss: f64,
    rate: Bitrate,
    loss: f64,
}

impl Aimd {
    /// Starts at the encoder's start rate.
    pub fn new(bounds: RateBounds, options: Options<'_>) -> Self {
        let step = options.get("step_kbps").unwrap_or(50.0);
        Aimd {
            bounds,
            step: Bitrate((1e3 * step) as u64),
            tolerated_loss: options.get("tolerated_loss").unwrap_or(0.02),
            rate: bounds.start,
            loss: 0.0,
        }
    }

    fn on_loss(&mut self, lost: u64, expected: u64) {
        self.loss = lost as f64 / expected.max(1) as f64;
        let rate = match self.loss > self.tolerated_loss {
            true => self.rate.scaled(0.5),
            false => Bitrate(self.rate.bps() + self.step.bps()),
        };
        self.rate = rate.clamp(self.bounds.min, self.bounds.max);
    }
}

impl Controller for Aimd {
    fn on_feedback(&mut self, _now: Time, feedback: Feedback<'_>) -> Result<(), ControlError> {
        match feedback {
            Feedback::ReceiverReport { lost, expected, .. } => self.on_loss(lost, expected),
            Feedback::Packets { reports, .. } => {
                let lost = reports.iter().filter(|report| report.received.is_none()).count();
                self.on_loss(lost as u64, reports.len() as u64);
            }
            Feedback::Remb(_) => {}
        }
        Ok(())
    }

    fn decision(&self) -> Decision {
        Decision::at(self.rate)
    }

    fn observe(&self, out: &mut Vec<Observation>) {
        out.push(Observation::new("target_bps", self.rate.bps() as f64));
        out.push(Observation::new("loss_ratio", self.loss));
    }
}
