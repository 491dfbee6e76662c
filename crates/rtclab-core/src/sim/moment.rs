//! Notices when virtual time stands still.

use crate::cc::MAX_CALLS_AT_ONCE;
use crate::units::Time;

/// Packets may come out of the network at one moment by their millions, when a path that kept them is opened: a queue
/// of a second at 100 Gbit/s holds 8 million packets of 1,500 B. More than this go in circles without delay.
const MAX_ARRIVALS: u64 = 10_000_000;

/// What has happened since virtual time last advanced.
#[derive(Default)]
pub(super) struct Moment {
    at: Time,
    timeouts: u64,
    arrivals: u64,
}

impl Moment {
    /// The next moment, or the same again.
    pub(super) fn begin(&mut self, now: Time) {
        if now > self.at {
            *self = Moment { at: now, timeouts: 0, arrivals: 0 };
        }
    }

    /// Counts a timeout of one of `ends` ends; returns whether that can still be progress.
    pub(super) fn count_timeout(&mut self, ends: usize) -> bool {
        self.timeouts += 1;
        self.timeouts <= MAX_CALLS_AT_ONCE * ends as u64
    }

    /// Counts a packet that came out of the network; returns whether that can still be progress.
    pub(super) fn count_arrival(&mut self) -> bool {
        self.arrivals += 1;
        self.arrivals <= MAX_ARRIVALS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_timeouts_for_each_end_at_one_moment_are_progress_and_more_are_not() {
        let mut moment = Moment::default();
        for at in [Time::ZERO, Time(1)] {
            moment.begin(at);
            assert!((0..2_000).all(|_| moment.count_timeout(2)));
        }
        moment.begin(Time(1));
        assert!(!moment.count_timeout(2));
    }

    #[test]
    fn ten_million_arrivals_at_one_moment_are_progress_and_more_are_not() {
        let mut moment = Moment::default();
        for at in [Time::ZERO, Time(1)] {
            moment.begin(at);
            assert!((0..10_000_000).all(|_| moment.count_arrival()));
        }
        assert!(!moment.count_arrival());
    }
}
