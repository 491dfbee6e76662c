//! Whether a channel keeps pace with the packets that are offered to it.

use crate::units::Time;

/// Time over which the offered rate is averaged. Long against the gaps between the pictures of a call (20 to 33
/// ms), so that the packets of a picture share the time until the next one, and not longer than the second over
/// which libwebrtc's loss rule remembers its rate (`kBweIncreaseInterval`), so that a new rate counts soon.
const AVERAGED: Time = Time::from_secs(1);

/// Offered rate, and the packets with which the channel is finished since it became busy.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Packets offered by `offered_at`; each counts less with its age. For the first seconds of traffic the average
    /// is below the offered rate, so that packets of a call's set-up are retried more often.
    offered: f64,
    offered_at: Time,
    busy_since: Time,
    finished: u32,
    finish: Time,
}

impl Pace {
    /// Counts a packet that is offered at `now`.
    pub(super) fn offer(&mut self, now: Time) {
        self.offered = self.offered_by(now) + 1.0;
        self.offered_at = now;
    }

    /// Begins with a packet at `now`. Returns the time until which the packets that are finished and this one are
    /// at least as many as are offered on average.
    pub(super) fn begin(&mut self, now: Time) -> Time {
        if now > self.finish {
            self.busy_since = now;
            self.finished = 0;
        }
        let share_ns = AVERAGED.0 as f64 / self.offered_by(now);
        self.busy_since.saturating_add(Time((share_ns * f64::from(self.finished + 1)) as u64))
    }

    /// The channel is finished with the packet at `finish`, whether it arrived or is lost.
    pub(super) fn end(&mut self, finish: Time) {
        self.finish = finish;
        self.finished = self.finished.saturating_add(1);
    }

    fn offered_by(&self, now: Time) -> f64 {
        let age = now.saturating_sub(self.offered_at).as_secs_f64();
        self.offered * libm::exp(-age / AVERAGED.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offers `burst` packets at once every `gap` for ten seconds, and returns the end.
    fn offered(pace: &mut Pace, burst: u32, gap: Time) -> Time {
        let mut at = Time::ZERO;
        loop {
            (0..burst).for_each(|_| pace.offer(at));
            if at >= Time::from_secs(10) {
                return at;
            }
            at += gap;
        }
    }

    /// How long after `now` the next packet may be retried, in ms.
    fn retried_ms(pace: &mut Pace, now: Time) -> f64 {
        (pace.begin(now) - now).as_secs_f64() * 1e3
    }

    #[test]
    fn a_packet_on_an_idle_channel_is_retried_until_the_next_one_is_expected() {
        // One every 4 ms: just after an arrival the count is 1 / (1 - exp(-0.004)) = 250.5, so a share is 3.992 ms.
        let mut pace = Pace::default();
        let now = offered(&mut pace, 1, Time::from_millis(4));
        let ms = retried_ms(&mut pace, now);
        assert!((3.991..3.993).contains(&ms), "{ms}");
    }

    #[test]
    fn the_packets_of_a_picture_share_the_time_until_the_next_picture() {
        // Ten every 40 ms: the count is 10 / (1 - exp(-0.04)) = 255, a share 3.921 ms. Each packet takes 1 ms, so
        // that the second may be retried for 2 * 3.921 - 1 ms, and the tenth for 10 * 3.921 - 9 ms.
        let mut pace = Pace::default();
        let mut now = offered(&mut pace, 10, Time::from_millis(40));
        for number in 1..=10 {
            let ms = retried_ms(&mut pace, now);
            let expected = f64::from(number) * 3.921 - f64::from(number - 1);
            // The count falls by 0.1 % in every ms.
            assert!((ms - expected).abs() < 0.4, "{number}: {ms} instead of {expected}");
            now += Time::from_millis(1);
            pace.end(now);
        }
    }

    #[test]
    fn time_that_one_packet_used_up_is_missing_for_the_next_until_the_channel_is_idle() {
        let mut pace = Pace::default();
        let mut now = offered(&mut pace, 1, Time::from_millis(4));
        pace.begin(now);
        now += Time::from_millis(10);
        pace.end(now);
        // Two shares of 4 ms are over.
        assert!(pace.begin(now) < now);
        pace.end(now + Time::from_millis(1));
        assert!(pace.begin(now + Time::from_millis(2)) > now + Time::from_millis(5));
    }

    #[test]
    fn nobody_waits_for_a_first_packet() {
        let mut pace = Pace::default();
        pace.offer(Time::from_secs(5));
        assert_eq!(retried_ms(&mut pace, Time::from_secs(5)), 1000.0);
    }
}
