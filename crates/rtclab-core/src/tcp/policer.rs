//! BBR's model of a token-bucket policer: two intervals of heavy loss at the same rate.

use super::congestion_control::Ack;
use super::delivery_rate::RateSample;
use crate::units::Time;

/// Rounds of an interval: at least, and at most.
const ROUNDS: (u32, u32) = (4, 16);
/// Share of lost segments that makes an interval.
const LOSS: f64 = 50.0 / 256.0;
/// Two rates are the same within an eighth, or within 4 kbit/s.
const SAME: (f64, f64) = (0.125, 4e3 / 8.0 / 1448.0);
/// Rounds for which the policer's rate is used.
const USE_ROUNDS: u32 = 48;

#[derive(Default)]
pub(super) struct Policer {
    sampling: bool,
    rounds: u32,
    rate: f64,
    using: bool,
    started: Time,
    delivered: u64,
    lost_before: u64,
    lost: u64,
}

impl Policer {
    /// Segments/s that it lets through, if there seems to be one.
    pub(super) fn rate(&self) -> Option<f64> {
        self.using.then_some(self.rate)
    }

    pub(super) fn on_ack(&mut self, ack: &Ack, sample: &RateSample, round: bool) {
        self.lost += u64::from(ack.lost);
        if self.using {
            self.rounds += u32::from(round);
            if self.rounds >= USE_ROUNDS {
                *self = Policer { lost: self.lost, ..Policer::default() };
                self.start(ack);
            }
            return;
        }
        if !self.sampling {
            if ack.lost == 0 {
                return;
            }
            self.start(ack);
            self.sampling = true;
        }
        if sample.app_limited {
            self.start(ack);
            self.sampling = false;
            self.rate = 0.0;
            return;
        }
        self.rounds += u32::from(round);
        if self.rounds < ROUNDS.0 {
            return;
        }
        if self.rounds > ROUNDS.1 {
            self.start(ack);
            self.sampling = false;
            self.rate = 0.0;
            return;
        }
        let delivered = ack.total_delivered - self.delivered;
        if ack.lost == 0
            || delivered == 0
            || ((self.lost - self.lost_before) as f64) < LOSS * delivered as f64
        {
            return;
        }
        let elapsed_s = ack.now.saturating_sub(self.started).as_secs_f64();
        // Linux waits for a whole millisecond.
        if elapsed_s >= 1e-3 {
            self.end_interval(ack, delivered as f64 / elapsed_s);
        }
    }

    fn end_interval(&mut self, ack: &Ack, rate: f64) {
        let difference = (rate - self.rate).abs();
        if self.rate > 0.0 && (difference <= SAME.0 * self.rate || difference <= SAME.1) {
            self.rate = f64::midpoint(rate, self.rate);
            self.using = true;
            self.rounds = 0;
            return;
        }
        self.rate = rate;
        self.start(ack);
    }

    fn start(&mut self, ack: &Ack) {
        self.started = ack.now;
        self.delivered = ack.total_delivered;
        self.lost_before = self.lost;
        self.rounds = 0;
    }
}
