//! Bit rate per second of a stream.

/// Packets and bytes of one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Second {
    /// Number of the second since the beginning of the capture.
    pub(crate) index: u32,
    pub(crate) packets: u32,
    pub(crate) bytes: u64,
}

/// Mean and standard deviation of the rate over whole seconds, in constant memory.
///
/// The first and last second of a stream are partial, so they are left out unless there are no others.
#[derive(Clone, Debug)]
pub(crate) struct SecondRates {
    current: Second,
    first_index: u32,
    count: f64,
    sum: f64,
    sum_of_squares: f64,
}

impl SecondRates {
    pub(crate) fn starting_at(index: u32) -> Self {
        let current = Second { index, ..Second::default() };
        SecondRates { current, first_index: index, count: 0.0, sum: 0.0, sum_of_squares: 0.0 }
    }

    /// Counts a packet. Returns the second that ended before it, if any. A reordered packet counts in the
    /// current second.
    #[inline]
    pub(crate) fn add(&mut self, index: u32, bytes: u32) -> Option<Second> {
        let ended = (index > self.current.index).then(|| self.end(index));
        self.current.packets += 1;
        self.current.bytes += u64::from(bytes);
        ended
    }

    /// Adds the bytes of a later fragment of a counted packet.
    pub(crate) fn add_bytes(&mut self, bytes: u32) {
        self.current.bytes += u64::from(bytes);
    }

    fn end(&mut self, index: u32) -> Second {
        let ended = std::mem::replace(&mut self.current, Second { index, ..Second::default() });
        if ended.index > self.first_index {
            let bits = ended.bytes as f64 * 8.0;
            self.sum += bits;
            self.sum_of_squares += bits * bits;
            self.count += 1.0;
        }
        // Empty seconds in between.
        self.count += f64::from(index - ended.index - 1);
        ended
    }

    /// The current second.
    pub(crate) fn current(&self) -> Second {
        self.current
    }

    /// Mean rate in bit/s. `None` without a whole second.
    pub(crate) fn mean_bps(&self) -> Option<f64> {
        (self.count > 0.0).then(|| self.sum / self.count)
    }

    /// Standard deviation (n - 1) of the rates of whole seconds, in bit/s. `None` for fewer than two.
    pub(crate) fn deviation_bps(&self) -> Option<f64> {
        let squares = self.sum_of_squares - self.sum * self.sum / self.count;
        (self.count > 1.0).then(|| (squares.max(0.0) / (self.count - 1.0)).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(packets: &[(u32, u32)]) -> SecondRates {
        let mut rates = SecondRates::starting_at(packets[0].0);
        for (index, bytes) in packets {
            rates.add(*index, *bytes);
        }
        rates
    }

    #[test]
    fn partial_seconds_are_left_out_and_empty_ones_count() {
        // Whole seconds: 1000, 0 and 3000 bit.
        let rates = rates(&[(3, 999), (4, 100), (4, 25), (6, 375), (7, 999)]);
        assert_eq!(rates.mean_bps(), Some(4000.0 / 3.0));
        // Deviations from the mean, 4000/3, are -1000/3, -4000/3 and 5000/3. Their squares add up to 42e6/9.
        let deviation = rates.deviation_bps().unwrap();
        assert!((deviation - (42e6f64 / 9.0 / 2.0).sqrt()).abs() < 1e-6, "{deviation}");
    }

    #[test]
    fn without_a_whole_second_there_is_no_rate() {
        assert_eq!(rates(&[(0, 10), (1, 10)]).mean_bps(), None);
        assert_eq!(rates(&[(0, 10), (1, 10), (2, 10)]).mean_bps(), Some(80.0));
        assert_eq!(rates(&[(0, 10), (1, 10), (2, 10)]).deviation_bps(), None);
    }

    #[test]
    fn a_second_is_returned_when_the_next_one_begins() {
        let mut rates = SecondRates::starting_at(5);
        assert_eq!(rates.add(5, 10), None);
        assert_eq!(rates.add(4, 10), None);
        assert_eq!(rates.add(9, 1), Some(Second { index: 5, packets: 2, bytes: 20 }));
        assert_eq!(rates.current(), Second { index: 9, packets: 1, bytes: 1 });
    }
}
