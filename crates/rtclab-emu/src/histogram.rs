//! Counts of times in bounded memory.

use rtclab_core::units::Time;
use std::collections::BTreeMap;

/// A bin's upper edge has this many significant bits in µs, so a bin is at most 1/512 as wide as its edge is long.
const EDGE_BITS: u32 = 10;

/// Counts of times by their length.
///
/// A quantile is too large by at most 1 µs or 0.2 % of itself, whichever is more. There are at most 512 bins for
/// each doubling of the time, whatever the number of times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Number of times by the upper edge of their bin in µs.
    bins: BTreeMap<u64, u64>,
    count: u64,
    max: Time,
}

impl Histogram {
    /// Counts one more time.
    pub(crate) fn add(&mut self, time: Time) {
        *self.bins.entry(upper_edge_us(time)).or_default() += 1;
        self.count += 1;
        self.max = self.max.max(time);
    }

    /// Counts the times of another histogram, too.
    pub(crate) fn merge(&mut self, other: &Histogram) {
        for (edge_us, count) in &other.bins {
            *self.bins.entry(*edge_us).or_default() += count;
        }
        self.count += other.count;
        self.max = self.max.max(other.max);
    }

    /// Number of times.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest time, exactly; zero if there are none.
    pub fn max(&self) -> Time {
        self.max
    }

    /// Smallest time that at least this percentage of the times does not exceed; zero if there are none.
    pub fn quantile(&self, percent: u64) -> Time {
        let rank = (self.count * percent).div_ceil(100).max(1);
        let mut counted = 0;
        let bin = self.bins.iter().find(|(_, count)| {
            counted += **count;
            counted >= rank
        });
        bin.map_or(Time::ZERO, |(edge_us, _)| Time(edge_us.saturating_mul(1_000)).min(self.max))
    }
}

/// The smallest edge that is not below a time.
fn upper_edge_us(time: Time) -> u64 {
    let us = time.0.div_ceil(1_000);
    let bits = u64::BITS - us.leading_zeros();
    us.next_multiple_of(1 << bits.saturating_sub(EDGE_BITS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn histogram(times: &[Time]) -> Histogram {
        let mut histogram = Histogram::default();
        times.iter().for_each(|time| histogram.add(*time));
        histogram
    }

    #[test]
    fn quantiles_of_1_to_200_us_are_exact() {
        let times: Vec<Time> = (1..=200).map(Time::from_micros).collect();
        let quantiles = [0, 50, 99, 100].map(|percent| histogram(&times).quantile(percent));
        assert_eq!(quantiles, [1, 100, 198, 200].map(Time::from_micros));
        assert_eq!(Histogram::default().quantile(50), Time::ZERO);
    }

    #[test]
    fn a_million_different_times_below_a_second_take_less_than_6000_bins() {
        // 1024 bins up to 1024 µs, and 512 for each of the ten doublings to 1.05 s.
        let mut histogram = Histogram::default();
        (0..1_000_000).for_each(|us| histogram.add(Time::from_micros(us)));
        assert_eq!(histogram.count(), 1_000_000);
        assert!(histogram.bins.len() <= 1_025 + 10 * 512, "{} bins", histogram.bins.len());
    }

    /// Times of all magnitudes, from nanoseconds to the longest run.
    fn times() -> impl Strategy<Value = Vec<Time>> {
        let time = (0u32..63, any::<u64>()).prop_map(|(bits, random)| Time(random % (2 << bits)));
        prop::collection::vec(time, 1..300)
    }

    proptest! {
        #[test]
        fn a_quantile_is_never_too_small_and_at_most_1_us_or_a_512th_too_large(
            mut times in times(), percent in 0u64..=100
        ) {
            let told = histogram(&times).quantile(percent).0;
            times.sort_unstable();
            let rank = (times.len() as u64 * percent).div_ceil(100).max(1);
            let exact = times[rank as usize - 1].0;
            prop_assert!(told >= exact);
            prop_assert!(told - exact <= 1_000.max(told / 512), "{told} for {exact}");
        }

        #[test]
        fn two_halves_merged_are_the_whole(times in times(), cut in any::<prop::sample::Index>()) {
            let (first, second) = times.split_at(cut.index(times.len()));
            let mut merged = histogram(first);
            merged.merge(&histogram(second));
            prop_assert_eq!(merged, histogram(&times));
        }
    }
}
