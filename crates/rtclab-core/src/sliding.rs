//! What came within a sliding window, and the sum of it.
//!
//! Three meters of rates remain beside it, because their results differ: the acknowledged rate of libwebrtc leaves out
//! the longest gap (`cc/goog_cc/throughput.rs`), an SFU counts in ticks from the first packet of a layer on
//! (`simulcast/layers.rs`), and the monitor keeps mean and deviation of whole seconds in constant memory
//! (`monitor/stream/rate.rs`).

use crate::units::Time;
use std::collections::VecDeque;
use std::ops::{AddAssign, SubAssign};

/// Values of the last `length`, and their sum.
pub(crate) struct SlidingSum<T> {
    length: Time,
    values: VecDeque<(Time, T)>,
    sum: T,
}

impl<T: Copy + Default + AddAssign + SubAssign> SlidingSum<T> {
    /// A window of this length without values.
    pub(crate) fn new(length: Time) -> Self {
        SlidingSum { length, values: VecDeque::new(), sum: T::default() }
    }

    /// Adds a value. Times never decrease.
    pub(crate) fn add(&mut self, now: Time, value: T) {
        // Old values are forgotten when the sum is looked at, or before the queue grows.
        if self.values.len() == self.values.capacity() {
            self.forget(now);
        }
        self.values.push_back((now, value));
        self.sum += value;
    }

    /// Sum of the values in the window that ends at `now`.
    pub(crate) fn sum(&mut self, now: Time) -> T {
        self.forget(now);
        self.sum
    }

    /// Number of the values in the window that ends at `now`.
    pub(crate) fn count(&mut self, now: Time) -> usize {
        self.forget(now);
        self.values.len()
    }

    fn forget(&mut self, now: Time) {
        while let Some(&(_, old)) = self.values.front().filter(|(at, _)| *at + self.length <= now) {
            self.values.pop_front();
            self.sum -= old;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value of 10 comes every 100 ms for ten seconds, into a window of one second.
    #[test]
    fn a_value_counts_until_it_is_as_old_as_the_window_is_long() {
        let ms = Time::from_millis;
        let mut window = SlidingSum::new(Time::from_secs(1));
        for n in 0..100 {
            window.add(ms(100 * n), 10u64);
            assert!(window.values.len() <= 16, "{n}");
        }
        let at = |window: &mut SlidingSum<u64>, now| (window.sum(now), window.count(now));
        assert_eq!(at(&mut window, ms(9_900)), (100, 10));
        assert_eq!(at(&mut window, ms(9_999)), (100, 10));
        assert_eq!(at(&mut window, ms(10_000)), (90, 9));
        assert_eq!(at(&mut window, ms(10_900)), (0, 0));
    }
}
