//! Which segments are too old to be still on their way: RACK, RFC 8985, section 6.

use crate::units::Time;

/// RFC 8985, 6.2 step 4: the window grows with duplicates up to this multiple …
const MAX_MULTIPLE: u64 = 255;
/// … and is as narrow as at first after so many recoveries without.
const PERSIST_RECOVERIES: u8 = 16;
/// RFC 5681: so many segments above a hole say that it is lost.
pub(super) const DUPLICATE_ACKS: u32 = 3;

/// The most recently sent segment that arrived, and the reordering seen.
#[derive(Clone, Debug)]
pub(super) struct Rack {
    newest: Option<(Time, Time)>,
    pub(super) min_rtt: Option<Time>,
    reordering: bool,
    multiple: u64,
    persist: u8,
    /// Widened once a round: until this segment is acknowledged.
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
    /// When it was sent, and its round trip.
    pub(super) fn newest(&self) -> Option<(Time, Time)> {
        self.newest
    }

    pub(super) fn on_delivered(&mut self, sent: Time, rtt: Time) {
        if self.newest.is_none_or(|(at, _)| sent >= at) {
            self.newest = Some((sent, rtt));
        }
    }

    /// A segment sent once arrived after one sent later.
    pub(super) fn on_reordering(&mut self) {
        self.reordering = true;
    }

    /// The receiver had a segment twice: it was not lost, only late.
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

    /// How much later than expected a segment may be.
    pub(super) fn window(&self, recovering: bool, sacked: u32, smoothed_rtt: Option<Time>) -> Time {
        if !self.reordering && (recovering || sacked >= DUPLICATE_ACKS) {
            return Time::ZERO;
        }
        let min_rtt = self.min_rtt.unwrap_or(Time::ZERO);
        Time(min_rtt.0 / 4 * self.multiple).min(smoothed_rtt.unwrap_or(Time::ZERO))
    }
}
