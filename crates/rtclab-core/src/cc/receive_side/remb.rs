//! When an estimate becomes a REMB.

use crate::units::{Bitrate, Time};

/// An estimate below this fraction of the last REMB is sent at once.
const DROP: f64 = 0.97;

/// Holds estimates back until they may be sent.
///
/// Source: libwebrtc 4d06db557a, `vie_remb.cc`.
pub(crate) struct RembThrottle {
    interval: Time,
    last: Option<(Time, Bitrate)>,
    pending: Option<Bitrate>,
}

impl RembThrottle {
    /// Lets an estimate pass at most once per interval, unless it falls.
    pub(crate) fn new(interval: Time) -> Self {
        RembThrottle { interval, last: None, pending: None }
    }

    pub(crate) fn on_estimate(&mut self, now: Time, estimate: Bitrate) {
        let due = self
            .last
            .is_none_or(|(at, sent)| now >= at + self.interval || estimate < sent.scaled(DROP));
        if due {
            self.last = Some((now, estimate));
            self.pending = Some(estimate);
        }
    }

    pub(crate) fn take(&mut self) -> Option<Bitrate> {
        self.pending.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(interval_ms: u64, estimates: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let mut throttle = RembThrottle::new(Time::from_millis(interval_ms));
        let mut sent = Vec::new();
        for &(ms, kbps) in estimates {
            throttle.on_estimate(Time::from_millis(ms), Bitrate::from_kbps(kbps));
            sent.extend(throttle.take().map(|rate| (ms, rate.0 / 1_000)));
        }
        sent
    }

    #[test]
    fn in_2013_an_estimate_is_sent_once_a_second() {
        let estimates = [(0, 1000), (500, 1100), (999, 1200), (1000, 1300), (1900, 1400)];
        assert_eq!(sent(1_000, &estimates), [(0, 1000), (1000, 1300)]);
    }

    #[test]
    fn later_an_estimate_is_sent_five_times_a_second() {
        let estimates = [(0, 1000), (199, 1100), (200, 1200), (390, 1300), (400, 1400)];
        assert_eq!(sent(200, &estimates), [(0, 1000), (200, 1200), (400, 1400)]);
    }

    #[test]
    fn a_fall_below_97_percent_is_sent_at_once_and_one_to_97_percent_is_not() {
        let estimates = [(0, 1000), (10, 970), (20, 969), (30, 950), (40, 939)];
        assert_eq!(sent(1_000, &estimates), [(0, 1000), (20, 969), (40, 939)]);
    }
}
