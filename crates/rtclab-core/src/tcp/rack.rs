//! Which segments are too old to be still on their way: RACK, RFC 8985, section 6.

use crate::units::Time;

/// RFC 8985, 6.2 step 4: maximum multiple to which duplicates widen the reordering window.
const MAX_MULTIPLE: u64 = 255;
/// RFC 8985, 6.2 step 4: number of recoveries without duplicates after which the window is narrow again.
const PERSIST_RECOVERIES: u8 = 16;
/// RFC 5681: number of segments received above a hole that indicate a loss.
pub(super) const DUPLICATE_ACKS: u32 = 3;

/// The most recently sent segment that arrived, and the reordering seen so far.
#[derive(Clone, Debug)]
pub(super) struct Rack {
    newest: Option<(Time, Time)>,
    pub(super) min_rtt: Option<Time>,
    reordering: bool,
    multiple: u64,
    persist: u8,
    /// The window is not widened again before this segment is acknowledged: once per round trip.
    round_end: u32,
}

impl Default for Rack {
    fn default() -> Self {
        Rack {
            newest: None,
            min_rtt: None,
            reordering: false,
            multiple: 1,
            persist: 0,
            round_end: 0,
        }
    }
}

impl Rack {
    /// Send time of the most recently sent segment that arrived, and the round trip of the one that arrived
    /// last.
    pub(super) fn newest(&self) -> Option<(Time, Time)> {
        self.newest
    }

    /// Records a delivery. The round trip comes from the last arrival, even if it was not sent last (RFC
    /// 8985, 6.2 step 2).
    pub(super) fn on_delivered(&mut self, sent: Time, rtt: Time) {
        let newest = self.newest.map_or(sent, |(at, _)| at.max(sent));
        self.newest = Some((newest, rtt));
    }

    /// Records that a segment sent only once arrived after one that was sent later.
    pub(super) fn on_reordering(&mut self) {
        self.reordering = true;
    }

    /// Records that the receiver got a segment twice: it was late, not lost.
    pub(super) fn on_duplicate(&mut self, una: u32, next: u32) {
        if una >= self.round_end {
            self.round_end = next;
            self.multiple = (self.multiple + 1).min(MAX_MULTIPLE);
            self.persist = PERSIST_RECOVERIES;
        }
    }

    pub(super) fn on_recovery_end(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.multiple = 1;
        }
    }

    /// How much later than expected a segment may arrive before it counts as lost.
    pub(super) fn window(&self, recovering: bool, sacked: u32, smoothed_rtt: Option<Time>) -> Time {
        if !self.reordering && (recovering || sacked >= DUPLICATE_ACKS) {
            return Time::ZERO;
        }
        let min_rtt = self.min_rtt.unwrap_or(Time::ZERO);
        Time(min_rtt.0 / 4 * self.multiple).min(smoothed_rtt.unwrap_or(Time::ZERO))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_round_trip_is_of_the_last_arrival_and_the_time_of_the_last_sent() {
        let ms = Time::from_millis;
        let mut rack = Rack::default();
        rack.on_delivered(ms(20), ms(100));
        // Sent before the first one and arrived after it.
        rack.on_delivered(ms(10), ms(115));
        assert_eq!(rack.newest(), Some((ms(20), ms(115))));
    }
}
