//! Delay from the sender to this point, from the send time in the packets (abs-send-time).

use crate::rtp::AbsSendTime;

/// Binary logarithm of the abs-send-time units per second, 2^18.
const UNIT_BITS: u32 = 18;
const UNIT_MS: f64 = 1e3 / (1u64 << UNIT_BITS) as f64;

/// Delay of packets relative to the first one, because the offset between the clocks is unknown. Wraps of
/// abs-send-time are resolved by the arrival time, across pauses of any length.
#[derive(Clone, Debug)]
pub(crate) struct RelativeDelay {
    first_at_ns: i64,
    last_units: i64,
    last_bits: u32,
    delay_units: i64,
    min_units: i64,
    max_units: i64,
    sum_units: f64,
    count: u64,
}

impl RelativeDelay {
    pub(crate) fn starting_at(at_ns: i64, sent: AbsSendTime) -> Self {
        RelativeDelay {
            first_at_ns: at_ns,
            last_units: 0,
            last_bits: sent.bits(),
            delay_units: 0,
            min_units: 0,
            max_units: 0,
            sum_units: 0.0,
            count: 1,
        }
    }

    /// Adds a packet. Returns its delay relative to the first packet's, in ms.
    pub(crate) fn update(&mut self, at_ns: i64, sent: AbsSendTime) -> f64 {
        let units = ((i128::from(at_ns - self.first_at_ns) << UNIT_BITS) / 1_000_000_000) as i64;
        let elapsed = units - self.last_units;
        // Difference from the send time that an unchanged delay would give, within half the range.
        let sent_later = i64::from(sent.bits()) - i64::from(self.last_bits) - elapsed;
        let sent_later = (sent_later << (64 - 24)) >> (64 - 24);
        self.delay_units = self.delay_units.saturating_sub(sent_later);
        (self.last_units, self.last_bits) = (units, sent.bits());
        self.min_units = self.min_units.min(self.delay_units);
        self.max_units = self.max_units.max(self.delay_units);
        self.sum_units += self.delay_units as f64;
        self.count += 1;
        self.delay_units as f64 * UNIT_MS
    }

    /// Mean delay above the smallest seen, in ms.
    pub(crate) fn mean_above_min_ms(&self) -> f64 {
        (self.sum_units / self.count as f64 - self.min_units as f64) * UNIT_MS
    }

    /// Largest delay above the smallest seen, in ms.
    pub(crate) fn max_above_min_ms(&self) -> f64 {
        (self.max_units - self.min_units) as f64 * UNIT_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Time;

    #[test]
    fn delay_above_the_smallest_is_found_across_wraps_and_long_pauses() {
        // Sent at 60 s, 70 s (wrapped) and 300 s (after several wraps), delayed by 30, 10 and 80 ms.
        let packets = [(60_000, 30), (70_000, 10), (300_000, 80)];
        let at = |(sent, delay): (i64, i64)| (sent + delay) * 1_000_000 + 1_700_000_000_000_000_000;
        let sent = |(sent, _): (i64, i64)| AbsSendTime::from_time(Time::from_millis(sent as u64));
        let mut delay = RelativeDelay::starting_at(at(packets[0]), sent(packets[0]));
        let relative: Vec<f64> =
            packets[1..].iter().map(|p| delay.update(at(*p), sent(*p))).collect();
        // One unit of rounding is 4 us.
        assert!(
            (relative[0] + 20.0).abs() < 0.01 && (relative[1] - 50.0).abs() < 0.01,
            "{relative:?}"
        );
        assert!((delay.mean_above_min_ms() - 30.0).abs() < 0.01); // (20 + 0 + 70) / 3
        assert!((delay.max_above_min_ms() - 70.0).abs() < 0.01);
    }
}
