//! What a trace shows of the control.

use super::GoogCc;
use super::arithmetic::MS;
use crate::cc::control::Observation;
use crate::cc::receive_side::state::Usage;

impl GoogCc {
    /// Appends all values.
    pub(super) fn show(&self, out: &mut Vec<Observation>) {
        let mut add = |name, value| out.push(Observation::new(name, value));
        add("target_bps", self.decision.target.0 as f64);
        if let Some(rate) = self.decision.pacing_rate {
            add("pacing_rate_bps", rate.0 as f64);
        }
        add("padding_rate_bps", self.decision.padding_rate.0 as f64);
        add("loss_ratio", f64::from(self.send_side.fraction_lost()) / 255.0);
        add("drop_ratio", self.decision.drop_ratio);
        if self.send_side.rtt() > 0 {
            add("rtt_ms", self.send_side.rtt() as f64 / MS as f64);
        }
        let trendline = self.delay.trendline();
        add("delay_based_bps", self.delay.rate().estimate() as f64);
        // -1 under-use, 0 normal, 1 over-use.
        add(
            "detector_state",
            match trendline.usage() {
                Usage::Under => -1.0,
                Usage::Normal => 0.0,
                Usage::Over => 1.0,
            },
        );
        add("trend_ms", trendline.trend_ms());
        add("threshold_ms", trendline.threshold_ms());
        let measured = [
            ("acked_bps", self.acknowledged),
            ("probe_bps", self.probe_result),
            ("link_capacity_bps", self.delay.rate().capacity().estimate()),
            (
                "loss_based_bps",
                (self.send_side.loss_estimator().is_ready())
                    .then(|| self.send_side.loss_estimator().result()),
            ),
            ("window_bytes", self.window_bytes),
        ];
        for (name, value) in measured {
            if let Some(value) = value {
                add(name, value as f64);
            }
        }
        add("loss_based_state", f64::from(self.send_side.loss_state() as u8));
        add("average_loss", self.send_side.loss_estimator().average_loss());
        add("inherent_loss", self.send_side.loss_estimator().inherent_loss());
        add("pushback_ratio", self.pushback.ratio());
        add("in_alr", f64::from(u8::from(self.alr.started().is_some())));
    }
}
