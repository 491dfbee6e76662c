//! The rate at which media arrives.

use crate::sliding::SlidingSum;
use crate::units::{Bytes, Time};

/// Payload rate over a sliding window. It always divides by the whole window, as libwebrtc did, so it reads
/// low during the first one.
pub(crate) struct IncomingRate {
    length: Time,
    window: SlidingSum<Bytes>,
}

impl IncomingRate {
    pub(crate) fn new(length: Time) -> Self {
        IncomingRate { length, window: SlidingSum::new(length) }
    }

    pub(crate) fn add(&mut self, now: Time, size: Bytes) {
        self.window.add(now, size);
    }

    /// The rate in bit/s over the window that ends at `now`.
    pub(crate) fn bps(&mut self, now: Time) -> f64 {
        self.window.sum(now).bits() as f64 / self.length.as_secs_f64()
    }
}

/// Payload rate over the last second, or since the first packet if that came later, in whole milliseconds.
///
/// Source: libwebrtc f3ae3eb62e (August 2026), `rate_statistics.cc`, and its use in
/// `remote_bitrate_estimator_abs_send_time.cc`, which starts anew after a second without packets.
pub(crate) struct ActiveRate {
    /// Arrival of the first packet.
    first: Option<Time>,
    window: SlidingSum<Bytes>,
}

impl ActiveRate {
    const WINDOW: Time = Time::from_secs(1);

    pub(crate) fn new() -> Self {
        ActiveRate { first: None, window: SlidingSum::new(Self::WINDOW) }
    }

    pub(crate) fn add(&mut self, now: Time, size: Bytes) {
        let now = now.floor_to(MILLISECOND);
        if self.window.count(now) == 0 {
            self.first = Some(now);
        }
        self.window.add(now, size);
    }

    /// The rate in bit/s; `None` if there are too few packets.
    pub(crate) fn bps(&mut self, now: Time) -> Option<u64> {
        let now = now.floor_to(MILLISECOND);
        let active = (now.saturating_sub(self.first?) + MILLISECOND).min(Self::WINDOW);
        let known = match self.window.count(now) {
            0 => false,
            1 => active == Self::WINDOW,
            _ => active > MILLISECOND,
        };
        known.then(|| self.window.sum(now).bits() * 1_000 / active.as_millis())
    }
}

const MILLISECOND: Time = Time::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    /// 1250 B every 10 ms are 1 Mbit/s, plus the one packet at both ends of a window.
    #[test]
    fn an_active_rate_does_not_count_the_time_before_the_first_packet() {
        let mut rate = ActiveRate::new();
        let ms = Time::from_millis;
        rate.add(ms(5_000), Bytes(1_250));
        assert_eq!(rate.bps(ms(5_000)), None);
        assert_eq!(rate.bps(ms(5_500)), None);
        rate.add(ms(5_010), Bytes(1_250));
        assert_eq!(rate.bps(ms(5_010)), Some(20_000_000 / 11));
        for i in 2..200 {
            rate.add(ms(5_000 + 10 * i), Bytes(1_250));
        }
        assert_eq!(rate.bps(ms(6_999)), Some(1_000_000));
        assert_eq!(rate.bps(ms(7_490)), Some(500_000));
        assert_eq!(rate.bps(ms(9_000)), None);
        rate.add(ms(9_000), Bytes(1_250));
        assert_eq!(rate.bps(ms(9_001)), None, "one packet of a new beginning");
    }

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
