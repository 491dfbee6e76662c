//! Whether a channel keeps pace with the packets that are offered to it.

use crate::units::Time;

/// Time over which the offered rate is averaged. Long against the gaps between the pictures of a call (20 to 33
/// ms), so that the packets of a picture share the time until the next one, and not longer than the second over
/// which libwebrtc's loss rule remembers its rate (`kBweIncreaseInterval`), so that a new rate counts soon.
const AVERAGED: Time = Time::from_secs(1);

/// Packets that were offered, and packets with which the channel is finished since it became busy. Each counts less with
/// its age, and so does the time for which the channel is busy: a rate that changes changes all three alike.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Packets offered by `offered_at`. For the first seconds of traffic the average is below the offered rate, so that
    /// packets of a call's set-up are retried more often.
    offered: f64,
    offered_at: Time,
    busy_since: Time,
    /// Packets finished by `finish`.
    finished: f64,
    finish: Time,
}

impl Pace {
    /// Counts a packet that is offered at `now`.
    pub(super) fn offer(&mut self, now: Time) {
        self.offered = self.offered * left_after(now.saturating_sub(self.offered_at)) + 1.0;
        self.offered_at = now;
    }

    /// Begins with a packet at `now`. Returns the time until which the packets that are finished and this one are
    /// at least as many as are offered on average.
    pub(super) fn begin(&mut self, now: Time) -> Time {
        if now > self.finish {
            self.busy_since = now;
            self.finished = 0.0;
        }
        let averaged = AVERAGED.as_secs_f64();
        let busy = averaged * (1.0 - left_after(now.saturating_sub(self.busy_since)));
        let rate = self.offered * left_after(now.saturating_sub(self.offered_at)) / averaged;
        let ahead = (self.finished + 1.0) / rate - busy;
        let span = Time::from_secs_f64(ahead.abs());
        if ahead < 0.0 { now.saturating_sub(span) } else { now.saturating_add(span) }
    }

    /// The channel is finished with the packet at `finish`, whether it arrived or is lost.
    pub(super) fn end(&mut self, finish: Time) {
        self.finished = self.finished * left_after(finish.saturating_sub(self.finish)) + 1.0;
        self.finish = finish;
    }
}

/// The share with which something of this age still counts.
fn left_after(age: Time) -> f64 {
    libm::exp(-age.as_secs_f64() / AVERAGED.as_secs_f64())
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

    /// A busy channel is offered a packet every 2 ms for 10 s, and one every 8 ms afterwards, and each takes its time. A
    /// packet may always be retried for the mean time between packets, which grows from 2 to 8 ms with the average.
    #[test]
    fn a_busy_channel_has_the_mean_time_between_packets_for_each_also_when_the_rate_changes() {
        let mut pace = Pace::default();
        let mut now = Time::ZERO;
        let mut shares = Vec::new();
        for (gap, until) in [(2, 10), (8, 20)] {
            while now < Time::from_secs(until) {
                pace.offer(now);
                shares.push((now, retried_ms(&mut pace, now)));
                now += Time::from_millis(gap);
                pace.end(now);
            }
        }
        let of = |from: u64, to: u64| {
            let chosen =
                shares.iter().filter(|(at, _)| (from..to).contains(&(at.0 / 1_000_000_000)));
            chosen
                .map(|(_, ms)| *ms)
                .fold((f64::MAX, 0.0_f64), |(low, high), ms| (low.min(ms), high.max(ms)))
        };
        let ((low, high), (slow, slowest)) = (of(8, 10), of(18, 20));
        assert!(low > 1.99 && high < 2.01, "{low} to {high}");
        assert!(slow > 7.9 && slowest < 8.05, "{slow} to {slowest}");
        let (low, high) = of(10, 18);
        assert!(low > 1.99 && high < 8.05, "{low} to {high}");
    }

    #[test]
    fn a_first_packet_may_be_retried_for_the_time_of_the_average() {
        let mut pace = Pace::default();
        pace.offer(Time::from_secs(5));
        assert_eq!(retried_ms(&mut pace, Time::from_secs(5)), 1000.0);
    }
}
