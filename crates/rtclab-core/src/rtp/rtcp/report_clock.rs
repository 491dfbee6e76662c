//! The clock of congestion control feedback on the sender's time base.

use crate::units::Time;

/// The clock of report timestamps ticks this often in a second (RFC 8888, section 3.1).
const TICKS_PER_SECOND: i128 = 65_536;
/// A timestamp that is further behind the last one is not one of an overtaken report: the clock was set.
const MOST_BEHIND: i64 = 5 * TICKS_PER_SECOND as i64;

/// Times of RFC 8888 reports, from their timestamps: the first report was made when it arrived here, and others as much later
/// as their timestamps say. So arrival times have the resolution of the far end, and differ from its clock, and from
/// this end's, by a constant.
///
/// Source: libwebrtc f3ae3eb, `transport_feedback_adapter.cc`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReportClock {
    /// When the report arrived that the clock was set by.
    origin: Time,
    /// Ticks since then.
    ticks: i64,
    /// Timestamp of the last report.
    last: Option<u32>,
}

impl ReportClock {
    /// The time of a report that arrives now.
    pub fn advance(&mut self, now: Time, timestamp: u32) -> Time {
        // The shorter way around.
        let later = self.last.map(|last| i64::from(timestamp.wrapping_sub(last) as i32));
        self.last = Some(timestamp);
        match later {
            Some(later) if later >= -MOST_BEHIND => self.ticks = self.ticks.saturating_add(later),
            _ => (self.origin, self.ticks) = (now, 0),
        }
        let since = i128::from(self.ticks) * 1_000_000_000 / TICKS_PER_SECOND;
        Time((i128::from(self.origin.0) + since).clamp(0, u64::MAX.into()) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 6554 and 1638 ticks are 100.006 and 24.994 ms.
    #[test]
    fn reports_are_as_far_apart_as_their_timestamps_whenever_they_arrive() {
        let mut clock = ReportClock::default();
        let start = u32::MAX - 1_000;
        let mut at = |ms, ticks| clock.advance(Time::from_millis(ms), start.wrapping_add(ticks));
        assert_eq!(at(1_050, 0), Time::from_millis(1_050));
        assert_eq!(at(1_400, 6_554).as_micros(), 1_150_006);
        // It was overtaken by the one before it.
        assert_eq!(at(1_410, 1_638).as_micros(), 1_074_993);
    }

    /// 5 s are 327,680 ticks.
    #[test]
    fn a_clock_that_goes_back_more_than_five_seconds_is_set_anew() {
        let at = Time::from_secs;
        for (back, second) in [(327_680, 20 - 5), (327_681, 30)] {
            let mut clock = ReportClock::default();
            clock.advance(at(20), 1_000_000);
            assert_eq!(clock.advance(at(30), 1_000_000 - back), at(second), "{back}");
        }
    }

    #[test]
    fn no_timestamps_move_the_clock_out_of_its_range() {
        let mut clock = ReportClock::default();
        let mut timestamp = 0_u32;
        for _ in 0..100 {
            timestamp = timestamp.wrapping_sub(5 * 65_536);
            assert!(clock.advance(Time::ZERO, timestamp) == Time::ZERO);
        }
        for _ in 0..1_000_000 {
            timestamp = timestamp.wrapping_add(i32::MAX as u32);
            clock.advance(Time::ZERO, timestamp);
        }
        assert_eq!(clock.advance(Time::ZERO, timestamp), Time(u64::MAX));
    }
}
