//! Delivery rate samples, draft-cheng-iccrg-delivery-rate-estimation.

use crate::units::Time;

/// State of the connection when a segment was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stamp {
    delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    app_limited: bool,
}

/// How much was delivered over an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RateSample {
    /// Segments delivered since the acknowledged segment was sent.
    pub delivered: u64,
    /// The longer of the time to send them and the time to acknowledge them.
    pub interval: Time,
    /// Segments that had been delivered when it was sent.
    pub prior_delivered: u64,
    /// The application had less to send than the window allowed.
    pub app_limited: bool,
}

/// Counts what is delivered.
#[derive(Clone, Debug, Default)]
pub(super) struct DeliveryRate {
    /// Segments delivered so far.
    pub(super) delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    /// Until so many are delivered, samples are limited by the application; 0 for none.
    app_limited_until: u64,
    newest: Option<(Time, Stamp)>,
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
            app_limited: self.app_limited_until > 0,
        }
    }

    /// The application ran out of data with so many segments in flight.
    pub(super) fn limit_by_application(&mut self, in_flight: u32) {
        self.app_limited_until = (self.delivered + u64::from(in_flight)).max(1);
    }

    /// A segment sent at `sent` is known to have arrived.
    pub(super) fn on_delivered(&mut self, now: Time, sent: Time, stamp: Stamp) {
        self.delivered += 1;
        self.delivered_at = now;
        if self.newest.is_none_or(|(at, _)| sent >= at) {
            self.newest = Some((sent, stamp));
        }
    }

    /// The sample of all that one acknowledgement delivered, if it delivered anything.
    pub(super) fn take(&mut self, now: Time) -> Option<RateSample> {
        let (sent, stamp) = self.newest.take()?;
        if self.app_limited_until > 0 && self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        let sending = sent.saturating_sub(stamp.first_sent_at);
        self.first_sent_at = sent;
        Some(RateSample {
            delivered: self.delivered - stamp.delivered,
            interval: sending.max(now.saturating_sub(stamp.delivered_at)),
            prior_delivered: stamp.delivered,
            app_limited: stamp.app_limited,
        })
    }
}
