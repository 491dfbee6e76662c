//! When the packets of a microphone leave.

use crate::normal::StandardNormal;
use crate::units::Time;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Median of the time from the end of a packet's sound to the packet, beyond the shortest, in a browser with video.
///
/// Measured from the RTP timestamp to the emulator, beyond the shortest time within half a second: 48,189 packets of
/// 22 microphones in Chromium 156, on two cores. The 5th, 25th, 50th, 75th, 90th, 95th, 99th and 99.9th percentile are
/// 0.06, 0.25, 0.65, 1.7, 3.8, 6.6, 14 and 30 ms; this distribution has 0.07, 0.26, 0.65, 1.6, 3.7, 6.0, 15 and 42.
/// They do not depend on the rate of the video (0.1 to 2 Mbit/s). Why they are long-tailed: sound is recorded, encoded
/// and sent on threads that wait for a core.
const MEDIAN_MS: f64 = 0.65;
/// Standard deviation of the logarithm of that time.
const SPREAD: f64 = 1.35;
/// The longest time that was measured.
const LONGEST_MS: f64 = 65.0;

/// The same in calls of sound alone, in which nobody encodes or decodes video: most packets, and one in twenty that
/// waits all the same.
///
/// Measured in the same way: 7,916 packets of 4 microphones. The percentiles are 0.02, 0.13, 0.23, 0.36, 0.61, 1.2, 5.9 and
/// 11 ms; this distribution has 0.08, 0.15, 0.24, 0.39, 0.64, 1.0, 4.7 and
/// 14.
const QUIET: [(f64, f64); 2] = [(0.23, 0.65), (2.2, 0.9)];
/// The share of packets that wait all the same.
const WAITING_SHARE: f64 = 0.05;

/// How busy the threads are that record, encode and send sound in a browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// The browser sends or receives video as well.
    Busy,
    /// There is sound alone.
    Quiet,
}

/// A microphone, whose packets leave at or after the end of their sound, in order.
pub struct Microphone {
    frame: Time,
    /// When the sound of the next packet ends.
    captured: Time,
    /// When the next packet leaves.
    leaves: Time,
    /// Random times to encode and send; `None` for a sender that takes no time, such as a server.
    rng: Option<Pcg64Mcg>,
    threads: Threads,
}

impl Microphone {
    /// Creates a microphone whose first packet ends at `start`, and each other one `frame` later. In a `browser`, given
    /// by a seed and its threads, sending them takes random times.
    pub fn new(start: Time, frame: Time, browser: Option<(u64, Threads)>) -> Self {
        let rng = browser.map(|(seed, _)| Pcg64Mcg::seed_from_u64(seed));
        let threads = browser.map_or(Threads::Quiet, |(_, threads)| threads);
        let mut microphone = Microphone { frame, captured: start, leaves: start, rng, threads };
        microphone.leaves = start + microphone.delay();
        microphone
    }

    /// When the next packet leaves.
    pub fn poll_timeout(&self) -> Time {
        self.leaves
    }

    /// When the sound of the next packet ended, if the packet leaves by `now`; then comes the packet after it.
    pub fn poll(&mut self, now: Time) -> Option<Time> {
        if self.leaves > now {
            return None;
        }
        let captured = self.captured;
        self.captured = captured + self.frame;
        self.leaves = self.leaves.max(self.captured + self.delay());
        Some(captured)
    }

    fn delay(&mut self) -> Time {
        let Some(rng) = &mut self.rng else { return Time::ZERO };
        let (median_ms, spread) = match self.threads {
            Threads::Busy => (MEDIAN_MS, SPREAD),
            Threads::Quiet => QUIET[usize::from(rng.random_bool(WAITING_SHARE))],
        };
        let deviation: f64 = rng.sample(StandardNormal);
        Time::from_secs_f64((median_ms * libm::exp(spread * deviation)).min(LONGEST_MS) / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Time = Time::from_millis(20);

    #[test]
    fn without_a_seed_packets_leave_when_their_sound_ends() {
        let mut microphone = Microphone::new(Time::from_millis(7), FRAME, None);
        for n in 0..100 {
            let at = Time::from_millis(7 + 20 * n);
            assert_eq!(microphone.poll_timeout(), at);
            assert_eq!(microphone.poll(at), Some(at));
            assert_eq!(microphone.poll(at), None);
        }
    }

    /// The tolerance is four standard errors of the share of 50,000 packets. Waiting behind a packet that left late adds
    /// to the tail: after 20 ms it concerns one packet in 200.
    #[test]
    fn a_browser_takes_the_measured_time_and_keeps_the_order() {
        let mut microphone = Microphone::new(Time::ZERO, FRAME, Some((1, Threads::Busy)));
        let mut late = Vec::new();
        let mut last = Time::ZERO;
        for n in 0..50_000 {
            let at = microphone.poll_timeout();
            assert!(at >= last);
            last = at;
            let captured = microphone.poll(at).expect("the packet leaves now");
            assert_eq!(captured, Time::from_millis(20 * n));
            late.push((at - captured).as_secs_f64() * 1e3);
        }
        for (limit_ms, share) in [(0.26, 0.25), (0.65, 0.5), (1.62, 0.75), (3.67, 0.9)] {
            let below = late.iter().filter(|one| **one < limit_ms).count() as f64 / 50_000.0;
            assert!((below - share).abs() < 0.013, "{limit_ms} ms: {below}");
        }
        assert!(late.iter().all(|one| (0.0..=65.0).contains(one)));
    }

    /// The tolerance is four standard errors of the share of 50,000 packets.
    #[test]
    fn without_video_packets_leave_sooner() {
        let mut microphone = Microphone::new(Time::ZERO, FRAME, Some((1, Threads::Quiet)));
        let mut late = Vec::new();
        for n in 0..50_000 {
            let at = microphone.poll_timeout();
            microphone.poll(at).expect("the packet leaves now");
            late.push((at - Time::from_millis(20 * n)).as_secs_f64() * 1e3);
        }
        for (limit_ms, share, error) in [
            (0.152, 0.25, 0.008),
            (0.24, 0.5, 0.009),
            (0.387, 0.75, 0.008),
            (1.034, 0.95, 0.004),
            (4.723, 0.99, 0.002),
        ] {
            let below = late.iter().filter(|one| **one < limit_ms).count() as f64 / 50_000.0;
            assert!((below - share).abs() < error, "{limit_ms} ms: {below}");
        }
    }
}
