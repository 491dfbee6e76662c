//! When the packets of a microphone leave.

use crate::normal::StandardNormal;
use crate::units::Time;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Median of the time from the end of a packet's sound to the packet, beyond the shortest, in a browser.
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

/// A microphone, whose packets leave at or after the end of their sound, in order.
pub struct Microphone {
    frame: Time,
    /// When the sound of the next packet ends.
    captured: Time,
    /// When the next packet leaves.
    leaves: Time,
    /// Random times to encode and send; `None` for a sender that takes no time, such as a server.
    rng: Option<Pcg64Mcg>,
}

impl Microphone {
    /// Creates a microphone whose first packet ends at `start`, and each other one `frame` later. With a `seed`, a
    /// browser takes random times to send them.
    pub fn new(start: Time, frame: Time, seed: Option<u64>) -> Self {
        let rng = seed.map(Pcg64Mcg::seed_from_u64);
        let mut microphone = Microphone { frame, captured: start, leaves: start, rng };
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
        let deviation: f64 = rng.sample(StandardNormal);
        Time::from_secs_f64((MEDIAN_MS * libm::exp(SPREAD * deviation)).min(LONGEST_MS) / 1e3)
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
        let mut microphone = Microphone::new(Time::ZERO, FRAME, Some(1));
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
}
