//! How busy a processor is, second by second.

use crate::units::Time;

const SECOND: Time = Time::from_secs(1);

/// The spans of time in which a processor works, in order. A span that follows another without a gap extends it.
#[derive(Debug, Default)]
pub struct BusyTime {
    spans: Vec<(Time, Time)>,
}

impl BusyTime {
    /// Adds a span that begins at the end of the last one or later.
    pub fn add(&mut self, begin: Time, end: Time) {
        match self.spans.last_mut() {
            Some((_, last)) if *last == begin => *last = end,
            _ => self.spans.push((begin, end)),
        }
    }

    /// The share of each whole second before `end` in which the processor works, in per cent.
    ///
    /// Work counts in the second in which it is done, so work that is still queued at `end` does not count.
    pub fn percent_of_seconds(&self, end: Time) -> Vec<f64> {
        let mut busy = vec![0; (end.0 / SECOND.0) as usize];
        for &(begin, until) in &self.spans {
            for index in begin.0 / SECOND.0..until.0.div_ceil(SECOND.0).min(busy.len() as u64) {
                let second = Time(index * SECOND.0);
                let inside = until.min(second + SECOND).saturating_sub(begin.max(second));
                busy[index as usize] += inside.0;
            }
        }
        busy.into_iter().map(|ns| 100.0 * ns as f64 / SECOND.0 as f64).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    /// 100 ms of the first second, then 900 to 1200 ms in two pieces, and the third second and a half.
    #[test]
    fn work_counts_in_the_second_in_which_it_is_done() {
        let mut busy = BusyTime::default();
        for (begin, end) in [(0, 100), (900, 1_000), (1_000, 1_200), (2_000, 3_500)] {
            busy.add(ms(begin), ms(end));
        }
        assert_eq!(busy.spans.len(), 3);
        assert_eq!(busy.percent_of_seconds(ms(4_000)), [20.0, 20.0, 100.0, 50.0]);
        assert_eq!(busy.percent_of_seconds(ms(2_999)), [20.0, 20.0]);
        assert!(busy.percent_of_seconds(ms(999)).is_empty());
    }

    #[test]
    fn work_that_never_ends_fills_every_second_after_its_beginning() {
        let mut busy = BusyTime::default();
        busy.add(ms(500), Time::MAX);
        assert_eq!(busy.percent_of_seconds(ms(3_000)), [50.0, 100.0, 100.0]);
    }
}
