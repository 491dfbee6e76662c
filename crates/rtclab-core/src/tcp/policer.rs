//! BBR's model of a token-bucket policer: two intervals of heavy loss at the same rate.

use super::congestion_control::{Ack, Totals};

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
    start: Totals,
}

impl Policer {
    /// Segments/s that it lets through, if there seems to be one.
    pub(super) fn rate(&self) -> Option<f64> {
        self.using.then_some(self.rate)
    }

    /// Returns whether its rate has been used for long enough.
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

    /// The retransmission timer expired, which ends a round and says that something is lost.
    pub(super) fn on_timeout(&mut self, totals: &Totals, probing_bandwidth: bool) -> bool {
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

    fn sample(&mut self, totals: &Totals, lost: bool, round: bool) {
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

    fn end_interval(&mut self, totals: &Totals, rate: f64) {
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

    fn begin(&mut self, totals: &Totals) {
        self.start = *totals;
        self.rounds = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Time;

    /// One acknowledgement a round of 100 ms: 80 segments arrived and 20 were lost.
    fn after(rounds: u64, policer: &mut Policer, from: u64) -> bool {
        (from..from + rounds).any(|round| {
            let mut ack = Ack::of(Time::from_millis(100 * round), 80);
            ack.lost = 20;
            (ack.total_delivered, ack.total_lost) = (80 * round, 20 * round);
            policer.on_ack(&ack, false, true, true)
        })
    }

    #[test]
    fn two_intervals_of_four_rounds_with_a_fifth_lost_are_a_policer_for_48_rounds() {
        let mut policer = Policer::default();
        // The first loss begins an interval and counts its round: it ends in the fourth, three round
        // trips later, the second one four rounds after that.
        assert!(!after(7, &mut policer, 1));
        assert_eq!(policer.rate(), None);
        assert!(!after(1, &mut policer, 8));
        // 80 segments in 100 ms, of 20 in 80, above 50/256.
        assert_eq!(policer.rate().map(f64::round), Some(800.0));
        assert!(!after(47, &mut policer, 9));
        assert!(policer.rate().is_some());
        assert!(after(1, &mut policer, 56));
        assert_eq!(policer.rate(), None);
    }

    #[test]
    fn a_timeout_begins_an_interval_and_ends_a_round() {
        let mut policer = Policer::default();
        policer.on_timeout(&Totals::default(), true);
        // Its round is the first of four; then four more.
        assert!(!after(6, &mut policer, 1));
        assert_eq!(policer.rate(), None);
        after(1, &mut policer, 7);
        assert!(policer.rate().is_some());
    }
}
