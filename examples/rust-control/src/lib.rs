//! A congestion control that keeps packets from waiting longer than a budget.

use rtclab_core::catalogue::Algorithm;
use rtclab_core::cc::{
    ControlError, Controller, Decision, Feedback, Halves, Observation, OptionSpec, Options,
    RateBounds,
};
use rtclab_core::stack::StackProfile;
use rtclab_core::units::{Bitrate, Time};

rtclab_extension::extension!(budget());

/// Time between two steps of the rate.
const STEP: Time = Time::from_millis(200);
/// A larger share of lost packets lowers the rate, however short the queue is.
const TOLERATED_LOSS: f64 = 0.1;

const OPTIONS: &[OptionSpec] = &[OptionSpec {
    name: "budget_ms",
    meaning: "queuing delay in ms above which the rate falls; 50 without the option",
    bounds: (1.0, 1_000.0),
}];

/// What scenarios choose by name: the control, its options, and the browser around it.
pub fn budget() -> Algorithm {
    let stack = StackProfile::named("chrome-156").expect("a profile of rtclab");
    let create = |bounds, options: Options<'_>| -> Halves {
        (Box::new(Budget::new(bounds, options.get("budget_ms").unwrap_or(50.0))), None)
    };
    Algorithm::new("budget", stack, create)
        .with_summary(
            "rises by 4 % and falls by 15 %, as packets queue for less or more than a budget",
        )
        .with_options(OPTIONS)
}

/// The sender half.
pub struct Budget {
    bounds: RateBounds,
    budget_ms: f64,
    rate: Bitrate,
    /// The shortest one-way delay so far. The clocks of both ends differ by a constant.
    base_ms: f64,
    queuing_ms: f64,
    next: Time,
}

impl Budget {
    /// Starts at the encoder's start rate.
    pub fn new(bounds: RateBounds, budget_ms: f64) -> Self {
        let (rate, base_ms) = (bounds.start, f64::INFINITY);
        Budget { bounds, budget_ms, rate, base_ms, queuing_ms: 0.0, next: Time::ZERO }
    }

    fn step(&mut self, now: Time, queuing_ms: f64, loss: f64) {
        self.queuing_ms = queuing_ms;
        if now < self.next {
            return;
        }
        self.next = now + STEP;
        let falls = queuing_ms > self.budget_ms || loss > TOLERATED_LOSS;
        let rate = self.rate.scaled(if falls { 0.85 } else { 1.04 });
        self.rate = rate.clamp(self.bounds.min, self.bounds.max);
    }
}

impl Controller for Budget {
    fn on_feedback(&mut self, now: Time, feedback: Feedback<'_>) -> Result<(), ControlError> {
        let Feedback::Packets { reports, .. } = feedback else { return Ok(()) };
        let delays = reports.iter().filter_map(|report| {
            let received = report.received?.0;
            Some(1e3 * (received.as_secs_f64() - report.sent.at.as_secs_f64()))
        });
        let shortest = delays.clone().fold(f64::INFINITY, f64::min);
        if shortest.is_finite() {
            let loss = 1.0 - delays.count() as f64 / reports.len() as f64;
            self.base_ms = self.base_ms.min(shortest);
            self.step(now, shortest - self.base_ms, loss);
        }
        Ok(())
    }

    fn decision(&self) -> Decision {
        Decision::at(self.rate)
    }

    fn observe(&self, out: &mut Vec<Observation>) {
        out.push(Observation::new("target_bps", self.rate.bps() as f64));
        out.push(Observation::new("queuing_ms", self.queuing_ms));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_rises_within_the_budget_and_falls_above_it() {
        let kbps = Bitrate::from_kbps;
        let (start, min, max) = (kbps(300), kbps(30), kbps(320));
        let bounds = RateBounds { start, min, max, audio: Bitrate::ZERO, has_video: true };
        let mut control = Budget::new(bounds, 50.0);
        control.step(Time::from_millis(0), 50.0, 0.0);
        assert_eq!(control.decision().target, kbps(312));
        control.step(Time::from_millis(100), 50.0, 0.0); // too early
        assert_eq!(control.decision().target, kbps(312));
        control.step(Time::from_millis(200), 0.0, 0.0);
        assert_eq!(control.decision().target, max);
        control.step(Time::from_millis(400), 51.0, 0.0);
        assert_eq!(control.decision().target, kbps(272));
        control.step(Time::from_millis(600), 0.0, 0.2);
        assert_eq!(control.decision().target, Bitrate(231_200));
    }
}
