//! BBR's model of a token-bucket policer: two intervals of heavy loss at the same rate.

use super::congestion_control::{Ack, ConnectionTotals};

/// Minimum and maximum number of rounds of an interval.
const ROUNDS: (u32, u32) = (4, 16);
/// Ratio of lost to delivered segments from which an interval counts as lossy.
const LOSS: f64 = 50.0 / 256.0;
/// Two rates are equal if they differ by at most an eighth, or by at most 4 kbit/s (here in segments/s).
const SAME: (f64, f64) = (0.125, 4e3 / 8.0 / 1448.0);
/// Number of rounds for which the policer's rate is used.
const USE_ROUNDS: u32 = 48;

/// Detects a policer and estimates its rate.
#[derive(Default)]
pub(super) struct Policer {
    sampling: bool,
    rounds: u32,
    rate: f64,
    using: bool,
    start: ConnectionTotals,
}

impl Policer {
    /// Rate that the policer lets through in segments/s, if one has been detected.
    pub(super) fn rate(&self) -> Option<f64> {
        self.using.then_some(self.rate)
    }

    /// Handles an acknowledgement. Returns whether the policer's rate has been used for long enough.
    pub(super) fn on_ack(
        &mut self,
        ack: &Ack,
        app_limited: bool,
        round: bool,
        probing_bandwidth: bool,
    ) -> bool {
        if self.using {
            return self.use_for(u32::from(round && probing_bandwidth));
        }
        if !self.sampling && ack.lost == 0 {
            return false;
        }
        if app_limited {
            *self = Policer::default();
        } else {
            self.sample(&ack.totals(), ack.lost > 0, round);
        }
        false
    }

    /// Handles a retransmission timeout, which ends a round and implies a loss. Returns whether the policer's
    /// rate has been used for long enough.
    pub(super) fn on_timeout(
        &mut self,
        totals: &ConnectionTotals,
        probing_bandwidth: bool,
    ) -> bool {
        if self.using {
            return self.use_for(u32::from(probing_bandwidth));
        }
        self.sample(totals, true, true);
        false
    }

    fn use_for(&mut self, rounds: u32) -> bool {
        self.rounds += rounds;
        let over = self.rounds >= USE_ROUNDS;
        if over {
            *self = Policer::default();
        }
        over
    }

    fn sample(&mut self, totals: &ConnectionTotals, lost: bool, round: bool) {
        if !self.sampling {
            self.begin(totals);
            self.sampling = true;
        }
        self.rounds += u32::from(round);
        if self.rounds > ROUNDS.1 {
            *self = Policer::default();
        }
        if self.rounds < ROUNDS.0 || !lost {
            return;
        }
        let delivered = (totals.delivered - self.start.delivered) as f64;
        if delivered == 0.0 || ((totals.lost - self.start.lost) as f64) < LOSS * delivered {
            return;
        }
        let elapsed_s = totals.now.saturating_sub(self.start.now).as_secs_f64();
        // Linux waits for a whole millisecond.
        if elapsed_s >= 1e-3 {
            self.end_interval(totals, delivered / elapsed_s);
        }
    }

    fn end_interval(&mut self, totals: &ConnectionTotals, rate: f64) {
        let difference = (rate - self.rate).abs();
        if self.rate > 0.0 && (difference <= SAME.0 * self.rate || difference <= SAME.1) {
            self.rate = f64::midpoint(rate, self.rate);
            self.using = true;
            self.rounds = 0;
            return;
        }
        self.rate = rate;
        self.begin(totals);
    }

    fn begin(&mut self, totals: &ConnectionTotals) {
        self.start = *totals;
        self.rounds = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Time;

    /// Feeds one acknowledgement per round of 100 ms: 80 segments arrived and 20 were lost.
    fn after(rounds: u64, policer: &mut Policer, from: u64) -> bool {
        (from..from + rounds).any(|round| {
            let mut ack = Ack::of(Time::from_millis(100 * round), 80);
            ack.lost = 20;
            (ack.total_delivered, ack.total_lost) = (80 * round, 20 * round);
            policer.on_ack(&ack, false, true, true)
        })
    }

    #[test]
    fn two_intervals_of_four_rounds_with_a_fifth_lost_indicate_a_policer_for_48_rounds() {
        let mut policer = Policer::default();
        // The first loss begins an interval, and its round counts. The interval ends in the fourth round,
        // three round trips later, and the second interval four rounds after that.
        assert!(!after(7, &mut policer, 1));
        assert_eq!(policer.rate(), None);
        assert!(!after(1, &mut policer, 8));
        // 80 segments in 100 ms. The ratio of 20/80 is above 50/256.
        assert_eq!(policer.rate().map(f64::round), Some(800.0));
        assert!(!after(47, &mut policer, 9));
        assert!(policer.rate().is_some());
        assert!(after(1, &mut policer, 56));
        assert_eq!(policer.rate(), None);
    }

    #[test]
    fn a_timeout_begins_an_interval_and_ends_a_round() {
        let mut policer = Policer::default();
        policer.on_timeout(&ConnectionTotals::default(), true);
        // The timeout's round is the first of four. The second interval has four more.
        assert!(!after(6, &mut policer, 1));
        assert_eq!(policer.rate(), None);
        after(1, &mut policer, 7);
        assert!(policer.rate().is_some());
    }
}
