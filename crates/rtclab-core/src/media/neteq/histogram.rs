//! A histogram that forgets: shares of delays in buckets.
//!
//! Source: libwebrtc, `modules/audio_coding/neteq/histogram.cc`.

/// Number of buckets.
const BUCKETS: usize = 100;
/// The first values count more: value n is forgotten by 1 - this / (n + 1) at most.
const START_WEIGHT: f64 = 2.0;

/// Shares of values in buckets, which add up to one.
pub(super) struct Histogram {
    shares: [f64; BUCKETS],
    /// Buckets up to the last one that was ever used.
    used: usize,
    /// What remains of a share when a value is added, in the long run.
    forget: f64,
    added: u32,
}

impl Histogram {
    pub(super) fn new(forget: f64) -> Self {
        Histogram { shares: [0.0; BUCKETS], used: 0, forget, added: 0 }
    }

    /// Adds a value; values beyond the last bucket are ignored.
    pub(super) fn add(&mut self, bucket: usize) {
        if bucket >= BUCKETS {
            return;
        }
        let kept = (1.0 - START_WEIGHT / f64::from(self.added + 1)).clamp(0.0, self.forget);
        self.used = self.used.max(bucket + 1);
        self.shares[..self.used].iter_mut().for_each(|share| *share *= kept);
        self.shares[bucket] += 1.0 - kept;
        self.added = self.added.saturating_add(1);
    }

    /// The first bucket up to which at least this share of the values lies.
    pub(super) fn quantile(&self, share: f64) -> usize {
        self.beyond().position(|beyond| beyond <= 1.0 - share).unwrap_or(BUCKETS - 1)
    }

    /// For each bucket up to the last one used, the share of the values beyond it.
    pub(super) fn beyond(&self) -> impl Iterator<Item = f64> {
        let mut left = 1.0;
        self.shares[..self.used].iter().map(move |share| {
            left -= share;
            left
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The n-th value leaves 1 - 2/n of the shares before it: nothing after the first and second value, 1/3 after the third.
    #[test]
    fn the_first_values_count_more() {
        let mut histogram = Histogram::new(0.983);
        [9, 5, 7].into_iter().for_each(|bucket| histogram.add(bucket));
        assert_eq!([5, 7, 9].map(|i| (histogram.shares[i] * 3.0).round() as u32), [1, 2, 0]);
        assert_eq!((histogram.quantile(0.3), histogram.quantile(0.95)), (5, 7));
    }

    /// A share of 1 - 0.983 is more than 5 % after three values: 1 - 0.983^3 = 5.02 %.
    #[test]
    fn a_new_delay_counts_from_the_third_time_on() {
        let mut histogram = Histogram::new(0.983);
        (0..1_000).for_each(|_| histogram.add(0));
        let after: Vec<_> = (0..4)
            .map(|_| {
                histogram.add(4);
                histogram.quantile(0.95)
            })
            .collect();
        assert_eq!(after, [0, 0, 4, 4]);
    }

    proptest! {
        #[test]
        fn shares_add_up_to_one_and_quantiles_grow(
            values in proptest::collection::vec(0usize..120, 1..200),
        ) {
            let mut histogram = Histogram::new(0.983);
            values.iter().for_each(|value| histogram.add(*value));
            let sum: f64 = histogram.shares.iter().sum();
            prop_assert!((sum - 1.0).abs() < 1e-9 || values.iter().all(|value| *value >= BUCKETS));
            prop_assert!(histogram.quantile(0.5) <= histogram.quantile(0.95));
        }
    }
}
