//! How late frames leave.

use crate::histogram::Histogram;
use rtclab_core::units::Time;

/// Lateness of the delivered frames: real minus logical departure time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// Lateness of each frame.
    pub times: Histogram,
    /// Number of frames later than [`Lateness::BOUND`], exactly.
    pub over_bound: u64,
}

impl Lateness {
    /// Lateness that visibly disturbs a call: a sixth of the frame interval at 30 frames per second. It is an edge of
    /// the histogram, so a quantile is above it exactly if the true one is.
    pub const BOUND: Time = Time::from_millis(5);

    /// Counts a frame that was to leave at one time and did at another.
    pub(crate) fn add(&mut self, logical: Time, written: Time) {
        let late = written.saturating_sub(logical);
        self.times.add(late);
        self.over_bound += u64::from(late > Self::BOUND);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// One in 100 frames may be later than the bound.
        #[test]
        fn the_99th_percentile_is_over_the_bound_if_more_than_one_in_100_are(
            late in prop::collection::vec(4_990_000u64..5_000_100, 1..400)
        ) {
            let mut lateness = Lateness::default();
            late.iter().for_each(|ns| lateness.add(Time::from_secs(1), Time(1_000_000_000 + ns)));
            let over = late.iter().filter(|ns| **ns > 5_000_000).count();
            prop_assert_eq!(lateness.over_bound, over as u64);
            prop_assert_eq!(lateness.times.quantile(99) > Lateness::BOUND, 100 * over > late.len());
        }
    }
}
