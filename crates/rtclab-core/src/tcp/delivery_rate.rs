//! Delivery rate samples (draft-cheng-iccrg-delivery-rate-estimation).

use crate::units::Time;

/// State of the connection when a segment was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stamp {
    delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    app_limited: bool,
}

/// A sample of the delivery rate: segments delivered over an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RateSample {
    /// Segments delivered since the acknowledged segment was sent.
    pub delivered: u64,
    /// The time to send these segments or to acknowledge them, whichever is longer.
    pub interval: Time,
    /// Segments that had been delivered when the acknowledged segment was sent.
    pub prior_delivered: u64,
    /// Whether the application had less to send than the window allowed.
    pub app_limited: bool,
}

/// Counts delivered segments and takes rate samples.
#[derive(Clone, Debug)]
pub(super) struct DeliveryRate {
    /// Segments delivered so far.
    pub(super) delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    /// Samples are limited by the application until more than this many segments are delivered.
    app_limited_until: Option<u64>,
    /// Send time and state of the most recently sent segment that arrived since the last sample.
    newest: Option<(Time, Stamp)>,
}

impl Default for DeliveryRate {
    fn default() -> Self {
        DeliveryRate {
            delivered: 0,
            delivered_at: Time::ZERO,
            first_sent_at: Time::ZERO,
            // Linux: what is sent before the first acknowledgement says nothing about the path.
            app_limited_until: Some(0),
            newest: None,
        }
    }
}

impl DeliveryRate {
    pub(super) fn on_sent(&mut self, now: Time, nothing_in_flight: bool) -> Stamp {
        if nothing_in_flight {
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        Stamp {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            app_limited: self.app_limited_until.is_some(),
        }
    }

    /// Records that the application ran out of data with `in_flight` segments in flight.
    pub(super) fn limit_by_application(&mut self, in_flight: u32) {
        self.app_limited_until = Some(self.delivered + u64::from(in_flight));
    }

    /// Records that a segment sent at `sent` has arrived.
    pub(super) fn on_delivered(&mut self, now: Time, sent: Time, stamp: Stamp) {
        self.delivered += 1;
        self.delivered_at = now;
        if self.newest.is_none_or(|(at, _)| sent >= at) {
            self.newest = Some((sent, stamp));
        }
    }

    /// Takes the sample of an acknowledgement. `None` if it delivered nothing, or if the interval is below
    /// the minimum round trip: then the segments were sent earlier than assumed (Linux, `tcp_rate_gen`).
    pub(super) fn take(&mut self, now: Time, min_rtt: Option<Time>) -> Option<RateSample> {
        let (sent, stamp) = self.newest.take()?;
        self.app_limited_until = self.app_limited_until.filter(|until| self.delivered <= *until);
        let sending = sent.saturating_sub(stamp.first_sent_at);
        self.first_sent_at = sent;
        let interval = sending.max(now.saturating_sub(stamp.delivered_at));
        (interval > Time::ZERO && min_rtt.is_none_or(|min_rtt| interval >= min_rtt)).then_some(
            RateSample {
                delivered: self.delivered - stamp.delivered,
                interval,
                prior_delivered: stamp.delivered,
                app_limited: stamp.app_limited,
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Time = Time::from_millis;

    /// One segment is sent at 0 and acknowledged at 50 ms, when a second one is sent.
    fn one_round() -> (DeliveryRate, Stamp) {
        let mut rate = DeliveryRate::default();
        let first = rate.on_sent(MS(0), true);
        rate.on_delivered(MS(50), MS(0), first);
        assert_eq!(rate.take(MS(50), Some(MS(50))).map(|sample| sample.app_limited), Some(true));
        let second = rate.on_sent(MS(50), true);
        (rate, second)
    }

    #[test]
    fn segments_sent_after_the_first_acknowledgement_are_not_application_limited() {
        let (mut rate, second) = one_round();
        rate.on_delivered(MS(100), MS(50), second);
        let sample = rate.take(MS(100), Some(MS(50)));
        let interval = MS(50);
        let expected =
            RateSample { delivered: 1, interval, prior_delivered: 1, app_limited: false };
        assert_eq!(sample, Some(expected));
    }

    #[test]
    fn a_sample_below_the_minimum_round_trip_gives_no_rate() {
        // If a copy sent at 50 ms is acknowledged at 60 ms, the original arrived.
        for (acknowledged_ms, gives) in [(60, false), (99, false), (100, true)] {
            let (mut rate, copy) = one_round();
            let now = MS(acknowledged_ms);
            rate.on_delivered(now, MS(50), copy);
            assert_eq!(rate.take(now, Some(MS(50))).is_some(), gives, "{acknowledged_ms} ms");
        }
    }
}
