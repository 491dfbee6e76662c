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

/// Payload rate over the last second, or since the first packet if that came later.
///
/// Source: libwebrtc f3ae3eb62e (August 2026), `rate_statistics.cc`, and its use in
/// `remote_bitrate_estimator_abs_send_time.cc`, which starts anew after a second without packets.
#[derive(Default)]
pub(crate) struct ActiveRate {
    /// Arrival of the first packet, in ms.
    first_ms: Option<u64>,
    packets: VecDeque<(u64, Bytes)>,
    total: Bytes,
}

impl ActiveRate {
    const WINDOW_MS: u64 = 1_000;

    pub(crate) fn add(&mut self, now: Time, size: Bytes) {
        let now_ms = now.as_millis();
        self.discard_old(now_ms);
        if self.packets.is_empty() {
            self.first_ms = None;
        }
        self.first_ms.get_or_insert(now_ms);
        self.packets.push_back((now_ms, size));
        self.total += size;
    }

    /// The rate in bit/s; `None` if there are too few packets.
    pub(crate) fn bps(&mut self, now: Time) -> Option<u64> {
        let now_ms = now.as_millis();
        self.discard_old(now_ms);
        let window_ms = (now_ms.saturating_sub(self.first_ms?) + 1).min(Self::WINDOW_MS);
        let known = match self.packets.len() {
            0 => false,
            1 => window_ms == Self::WINDOW_MS,
            _ => window_ms > 1,
        };
        known.then(|| self.total.bits() * 1_000 / window_ms)
    }

    fn discard_old(&mut self, now_ms: u64) {
        while let Some((at, size)) = self.packets.front().copied()
            && at + Self::WINDOW_MS <= now_ms
        {
            self.packets.pop_front();
            self.total -= size;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1250 B every 10 ms are 1 Mbit/s, plus the one packet at both ends of a window.
    #[test]
    fn an_active_rate_does_not_count_the_time_before_the_first_packet() {
        let mut rate = ActiveRate::default();
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
