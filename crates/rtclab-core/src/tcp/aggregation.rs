//! Extra room in BBR's window for aggregated acknowledgements (Linux, `bbr_update_ack_aggregation`).

use crate::units::Time;

/// Rounds in each of the two windows over which the largest excess is kept.
const ROUNDS: u32 = 5;
/// The excess counts up to what the rate delivers in this time, in seconds.
const MAX_S: f64 = 0.1;

/// Segments acknowledged in excess of the estimated rate.
#[derive(Default)]
pub(super) struct Aggregation {
    extra: [u32; 2],
    index: usize,
    rounds: u32,
    since: Time,
    acked: u32,
}

impl Aggregation {
    /// Largest excess of the last five to ten rounds, in segments, at `rate` segments per second.
    pub(super) fn extra(&self, rate: f64) -> u32 {
        self.extra[0].max(self.extra[1]).min((rate * MAX_S) as u32)
    }

    /// Records that an acknowledgement delivered segments while `rate` segments per second were expected.
    /// `round` says whether it begins a round.
    pub(super) fn on_ack(
        &mut self,
        now: Time,
        delivered: u32,
        rate: f64,
        window: u32,
        round: bool,
    ) {
        if round {
            self.rounds += 1;
            if self.rounds >= ROUNDS {
                self.rounds = 0;
                self.index ^= 1;
                self.extra[self.index] = 0;
            }
        }
        let elapsed_s = now.saturating_sub(self.since).as_secs_f64();
        let mut expected = (rate * elapsed_s) as u32;
        if self.acked <= expected {
            self.acked = 0;
            self.since = now;
            expected = 0;
        }
        self.acked += delivered;
        let extra = (self.acked - expected).min(window);
        self.extra[self.index] = self.extra[self.index].max(extra);
    }
}
