//! The rate at which media arrives.

use crate::units::{Bytes, Time};
use std::collections::VecDeque;

/// Payload rate over a sliding window. It always divides by the whole window, as libwebrtc did, so it reads
/// low during the first one.
pub(crate) struct IncomingRate {
    window: Time,
    packets: VecDeque<(Time, Bytes)>,
    total: Bytes,
}

impl IncomingRate {
    pub(crate) fn new(window: Time) -> Self {
        IncomingRate { window, packets: VecDeque::new(), total: Bytes::ZERO }
    }

    pub(crate) fn add(&mut self, now: Time, size: Bytes) {
        self.packets.push_back((now, size));
        self.total += size;
    }

    /// The rate in bit/s over the window that ends at `now`.
    pub(crate) fn bps(&mut self, now: Time) -> f64 {
        while let Some((at, size)) = self.packets.front().copied()
            && at + self.window <= now
        {
            self.packets.pop_front();
            self.total -= size;
        }
        self.total.bits() as f64 / self.window.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fifty_packets_of_1250_bytes_in_half_a_second_are_1_mbps_and_age_out_in_another_half() {
        let mut incoming = IncomingRate::new(Time::from_millis(500));
        for i in 0..50 {
            incoming.add(Time::from_millis(10 * i), Bytes(1_250));
        }
        assert_eq!(incoming.bps(Time::from_millis(490)), 1e6);
        assert_eq!(incoming.bps(Time::from_millis(740)), 0.5e6);
        assert_eq!(incoming.bps(Time::from_secs(1)), 0.0);
    }
}
