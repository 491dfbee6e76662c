//! Relative delays of the packets of the last two seconds.
//!
//! Source: libwebrtc, `modules/audio_coding/neteq/packet_arrival_history.cc`.

use std::collections::VecDeque;

/// Length of the history in ms of RTP time.
const WINDOW_MS: i64 = 2_000;

/// A packet: RTP time and arrival time, in ms. Their difference is its transit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Transit {
    media_ms: i64,
    transit_ms: i64,
}

/// The arrivals of two seconds, reduced to those that can be the fastest or the slowest.
#[derive(Default)]
pub(super) struct TransitHistory {
    newest_ms: Option<i64>,
    count: usize,
    /// In order of RTP time, with rising transit: the first is the fastest.
    fastest: VecDeque<Transit>,
    /// In order of RTP time, with falling transit: the first is the slowest.
    slowest: VecDeque<Transit>,
}

impl TransitHistory {
    /// Adds a packet. Returns its relative delay in ms, and whether it was reordered; `None` for the first
    /// packet and for those too old.
    pub(super) fn add(&mut self, media_ms: i64, now_ms: i64) -> Option<(i64, bool)> {
        let reordered = self.newest_ms.is_some_and(|newest| media_ms < newest);
        if self.newest_ms.is_some_and(|newest| media_ms + WINDOW_MS < newest) {
            return None;
        }
        self.count += 1;
        if !reordered {
            self.newest_ms = Some(media_ms);
            let arrival = Transit { media_ms, transit_ms: now_ms - media_ms };
            let old = |first: &Transit| first.media_ms + WINDOW_MS < media_ms;
            for queue in [&mut self.fastest, &mut self.slowest] {
                while queue.front().is_some_and(old) {
                    queue.pop_front();
                }
            }
            while self.fastest.back().is_some_and(|last| last.transit_ms >= arrival.transit_ms) {
                self.fastest.pop_back();
            }
            while self.slowest.back().is_some_and(|last| last.transit_ms <= arrival.transit_ms) {
                self.slowest.pop_back();
            }
            self.fastest.push_back(arrival);
            self.slowest.push_back(arrival);
        }
        (self.count > 1).then(|| (self.delay_ms(media_ms, now_ms), reordered))
    }

    /// How much later `media_ms` is now than it would be with the fastest packet.
    pub(super) fn delay_ms(&self, media_ms: i64, now_ms: i64) -> i64 {
        self.fastest.front().map_or(0, |first| (now_ms - media_ms - first.transit_ms).max(0))
    }

    /// Largest relative delay.
    pub(super) fn max_delay_ms(&self) -> i64 {
        match (self.fastest.front(), self.slowest.front()) {
            (Some(fastest), Some(slowest)) => slowest.transit_ms - fastest.transit_ms,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_relative_to_the_fastest_packet_of_two_seconds() {
        let mut arrivals = TransitHistory::default();
        assert_eq!(arrivals.add(0, 50), None);
        assert_eq!(arrivals.add(20, 100), Some((30, false)));
        assert_eq!(arrivals.add(40, 80), Some((0, false)));
        assert_eq!(arrivals.max_delay_ms(), 40);
        // Only the packet at 40 ms, with a transit of 40 ms, is still in the window at 2040 ms; then none.
        assert_eq!(arrivals.add(2_040, 2_100), Some((20, false)));
        assert_eq!(arrivals.add(2_060, 2_120), Some((0, false)));
        assert_eq!(arrivals.max_delay_ms(), 0);
    }

    #[test]
    fn a_packet_behind_the_newest_is_reordered_and_does_not_set_the_minimum() {
        let mut arrivals = TransitHistory::default();
        arrivals.add(0, 50);
        arrivals.add(40, 90);
        assert_eq!(arrivals.add(20, 95), Some((25, true)));
        assert_eq!(arrivals.max_delay_ms(), 0);
    }
}
