//! Delays of many packets, at 12 bytes each.

use std::collections::BTreeMap;

/// Samples per piece. Pieces are never moved, so the memory can grow without a second copy.
const PIECE: usize = 1 << 16;
/// Unit of stored times, 100 us: 32 bits hold 5 days.
const TIME_UNIT_NS: i64 = 100_000;
/// Number of bins in the search for a percentile.
const SEARCH_BINS: usize = 1 << 16;
/// Width of a histogram bin: 0.1 ms.
const HISTOGRAM_BIN_NS: i64 = 100_000;

/// Time and signed delay of each packet.
#[derive(Default)]
pub(super) struct Samples {
    begin_ns: i64,
    pieces: Vec<Vec<[u32; 3]>>,
}

/// Statistics of a set of delays, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct DelayFigures {
    pub(super) mean_ms: f64,
    /// Standard deviation (n - 1). NaN for a single packet.
    pub(super) deviation_ms: f64,
    pub(super) min_ms: f64,
    pub(super) p50_ms: f64,
    pub(super) p95_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) max_ms: f64,
}

impl Samples {
    pub(super) fn push(&mut self, at_ns: i64, delay_ns: i64) {
        if self.pieces.is_empty() {
            self.begin_ns = at_ns;
        }
        if self.pieces.last().is_none_or(|piece| piece.len() == PIECE) {
            // The first piece grows as needed, because there may be many short streams.
            let capacity = if self.pieces.is_empty() { 0 } else { PIECE };
            self.pieces.push(Vec::with_capacity(capacity));
        }
        let units = ((at_ns - self.begin_ns) / TIME_UNIT_NS).clamp(0, i64::from(u32::MAX)) as u32;
        let sample = [units, (delay_ns >> 32) as u32, delay_ns as u32];
        if let Some(piece) = self.pieces.last_mut() {
            piece.push(sample);
        }
    }

    /// Iterates over times and delays in nanoseconds. Times are rounded down to 0.1 ms.
    pub(super) fn iter(&self) -> impl Iterator<Item = (i64, i64)> + Clone {
        self.pieces.iter().flatten().map(|&[units, high, low]| {
            let delay_ns = (u64::from(high) << 32 | u64::from(low)) as i64;
            (self.begin_ns + i64::from(units) * TIME_UNIT_NS, delay_ns)
        })
    }

    /// Number of packets per 0.1 ms bin, by the bin's lower edge in units of 0.1 ms.
    pub(super) fn histogram(&self) -> BTreeMap<i64, u64> {
        let mut bins = BTreeMap::new();
        for (_, delay_ns) in self.iter() {
            *bins.entry(delay_ns.div_euclid(HISTOGRAM_BIN_NS)).or_default() += 1;
        }
        bins
    }
}

/// Computes the statistics of delays in nanoseconds. `None` if there are none.
pub(super) fn figures(delays: impl Iterator<Item = i64> + Clone) -> Option<DelayFigures> {
    let mut sorted = Quantiles::new(delays.clone())?;
    // Relative to the smallest, so that a large offset between the clocks costs no precision.
    let above = delays.map(|delay| (delay - sorted.min) as f64);
    let count = sorted.count as f64;
    let mean = above.clone().sum::<f64>() / count;
    let squares: f64 = above.map(|delay| (delay - mean) * (delay - mean)).sum();
    let ms = |ns: i64| ns as f64 / 1e6;
    Some(DelayFigures {
        mean_ms: ms(sorted.min) + mean / 1e6,
        deviation_ms: (squares / (count - 1.0)).sqrt() / 1e6,
        min_ms: ms(sorted.min),
        p50_ms: ms(sorted.percentile(50)),
        p95_ms: ms(sorted.percentile(95)),
        p99_ms: ms(sorted.percentile(99)),
        max_ms: ms(sorted.max),
    })
}

/// Finds percentiles without a sorted copy: first the bin, then the value within the bin.
struct Quantiles<I> {
    values: I,
    count: usize,
    min: i64,
    max: i64,
    bins: Vec<usize>,
}

impl<I: Iterator<Item = i64> + Clone> Quantiles<I> {
    fn new(values: I) -> Option<Self> {
        let (mut count, mut min, mut max) = (0, i64::MAX, i64::MIN);
        for value in values.clone() {
            (count, min, max) = (count + 1, min.min(value), max.max(value));
        }
        let mut found = Quantiles { values, count, min, max, bins: vec![0; SEARCH_BINS] };
        for value in found.values.clone() {
            let bin = found.bin(value);
            found.bins[bin] += 1;
        }
        (count > 0).then_some(found)
    }

    fn bin(&self, value: i64) -> usize {
        let width = (self.max - self.min) / SEARCH_BINS as i64 + 1;
        ((value - self.min) / width) as usize
    }

    /// Smallest value that is not exceeded by at least `percent` % of the values.
    fn percentile(&mut self, percent: usize) -> i64 {
        let mut rank = (self.count * percent).div_ceil(100).max(1) - 1;
        let mut bin = 0;
        while rank >= self.bins[bin] {
            rank -= self.bins[bin];
            bin += 1;
        }
        let mut within: Vec<i64> = self.values.clone().filter(|v| self.bin(*v) == bin).collect();
        *within.select_nth_unstable(rank).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_minus_100_to_plus_99_ms_are_those_of_a_sorted_list() {
        // 200 delays, 1 ms apart, shuffled: 37 and 200 have no common divisor.
        let mut samples = Samples::default();
        (0..200).for_each(|i| samples.push(i * 20_000_000, (i * 37 % 200 - 100) * 1_000_000));
        let found = figures(samples.iter().map(|(_, delay)| delay)).unwrap();
        assert_eq!((found.min_ms, found.p50_ms, found.p95_ms), (-100.0, -1.0, 89.0));
        assert_eq!((found.p99_ms, found.max_ms), (97.0, 99.0));
        assert!((found.mean_ms + 0.5).abs() < 1e-9);
        // The variance (n - 1) of n consecutive numbers is n (n + 1) / 12.
        assert!((found.deviation_ms - (200.0f64 * 201.0 / 12.0).sqrt()).abs() < 1e-9);
        assert_eq!(figures(Samples::default().iter().map(|(_, delay)| delay)), None);
    }

    #[test]
    fn a_sample_keeps_its_delay_exactly_and_its_time_to_a_tenth_of_a_millisecond() {
        let mut samples = Samples::default();
        samples.push(1_700_000_000_000_000_000, -3_600_000_000_001);
        samples.push(1_700_000_001_000_050_000, 1);
        let kept: Vec<_> = samples.iter().collect();
        assert_eq!(kept[0], (1_700_000_000_000_000_000, -3_600_000_000_001));
        assert_eq!(kept[1], (1_700_000_001_000_000_000, 1));
    }

    #[test]
    fn histogram_bins_are_a_tenth_of_a_millisecond_wide_also_below_zero() {
        let mut samples = Samples::default();
        for delay in [-1, 0, 99_999, 100_000] {
            samples.push(0, delay);
        }
        assert_eq!(samples.histogram().into_iter().collect::<Vec<_>>(), [(-1, 1), (0, 2), (1, 1)]);
    }
}
