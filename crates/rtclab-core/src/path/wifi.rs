//! A Wi-Fi hop in place of a capacity. Each packet is sent until it is acknowledged or the retry limit is
//! reached, while the packets behind it wait.
//!
//! The model is one station without contention: the distributed coordination function of IEEE 802.11-2012
//! (9.3) with the OFDM parameters for 20 MHz at 5 GHz (18.4), without aggregation.

use crate::limits::{self, Checked, within};
use crate::units::{Bitrate, Bytes, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

mod pace;

use pace::Pace;

/// Slot time: IEEE 802.11-2012, table 18-17.
const SLOT: Time = Time::from_micros(9);
/// Short interframe space: IEEE 802.11-2012, table 18-17.
const SIFS: Time = Time::from_micros(16);
/// Distributed interframe space: SIFS and two slots.
const DIFS: Time = Time::from_micros(34);
/// Contention window of the first attempt in slots. It doubles with each further attempt.
const CW_MIN: u32 = 15;
/// Largest contention window, in slots.
const CW_MAX: u32 = 1023;
/// Duration of preamble and signal field of an OFDM frame.
const PREAMBLE: Time = Time::from_micros(20);
/// Duration of an acknowledgement of 14 bytes at 24 Mbit/s: preamble and two symbols of 4 us.
const ACK: Time = Time::from_micros(28);
/// Bytes of a frame around the IP packet: MAC header with QoS, LLC/SNAP and frame check sequence.
const FRAME_OVERHEAD: Bytes = Bytes(36);

/// A radio channel and the MAC that sends over it. The channel alternates between good and faded, each
/// for an exponentially distributed time.
///
/// If attempts fail independently with probability e, a packet with at most L attempts is lost with
/// probability e^L and takes (1 - e^L) / (1 - e) attempts on average.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wifi {
    /// Maximum number of attempts per packet; 1 means no retransmission.
    pub attempts: u8,
    /// Whether a packet is retried only as long as the channel keeps pace with the offered rate: as long as the
    /// packets that the channel has finished with, and this one, are those that arrive on average in the time
    /// for which it has been busy. So at most the air time that the offered rate leaves free goes into retries.
    #[serde(default)]
    pub adaptive: bool,
    /// Channel outside fades.
    pub good: Radio,
    /// Channel during a fade.
    pub fade: Radio,
    /// Mean time between fades.
    pub mean_good_ns: Time,
    /// Mean duration of a fade; 0 for no fades.
    pub mean_fade_ns: Time,
}

/// One state of the channel.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Radio {
    /// PHY rate used by the sender.
    pub bps: Bitrate,
    /// Probability that an attempt is not acknowledged.
    pub error: f64,
}

impl Wifi {
    pub(super) fn check(&self) -> Checked {
        limits::require(self.attempts > 0, "attempts", 0, "at least 1")?;
        for (name, radio) in [("good", self.good), ("fade", self.fade)] {
            within(name, limits::rate("bps", radio.bps))?;
            within(name, limits::number("error", radio.error, (0.0, 1.0)))?;
        }
        limits::time("mean_good_ns", self.mean_good_ns)?;
        limits::time("mean_fade_ns", self.mean_fade_ns)
    }
}

/// Outcome of sending a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Service {
    pub(super) finish: Time,
    pub(super) lost: bool,
}

/// State of the channel, with its random numbers.
pub(super) struct Channel {
    wifi: Wifi,
    faded: bool,
    seen: Option<Time>,
    pace: Pace,
    rng: Pcg64Mcg,
}

impl Channel {
    pub(super) fn new(wifi: Wifi, seed: u64) -> Self {
        // A separate random stream, as for jitter.
        let rng = Pcg64Mcg::seed_from_u64(seed ^ 0x7769_6669);
        Channel { wifi, faded: false, seen: None, pace: Pace::default(), rng }
    }

    pub(super) fn set(&mut self, wifi: Wifi) {
        self.wifi = wifi;
    }

    /// Rate that converts a queue limit in time to bytes.
    pub(super) fn rate_for_queue(&self) -> Bitrate {
        self.wifi.good.bps
    }

    /// Counts a packet that is offered at `now`. Calls must be ordered by time.
    pub(super) fn offer(&mut self, now: Time) {
        self.pace.offer(now);
    }

    /// Sends a packet from `now` on.
    pub(super) fn serve(&mut self, now: Time, size: Bytes) -> Service {
        let retry_until = self.pace.begin(now);
        let service =
            self.send(now, size, if self.wifi.adaptive { retry_until } else { Time::MAX });
        self.pace.end(service.finish);
        service
    }

    /// Makes the attempts to send a packet; none but the first begins at `retry_until` or later.
    fn send(&mut self, now: Time, size: Bytes, retry_until: Time) -> Service {
        let mut at = now;
        let mut window = CW_MIN;
        for attempt in 0..self.wifi.attempts {
            if attempt > 0 && at >= retry_until {
                break;
            }
            let slots = u64::from(self.rng.random_range(0..=window));
            at = at.saturating_add(DIFS + SLOT * slots);
            let radio = self.radio(at);
            let Some(frame) = radio.bps.time_for(size + FRAME_OVERHEAD) else {
                return Service { finish: Time::MAX, lost: false };
            };
            at = at.saturating_add(frame).saturating_add(PREAMBLE + SIFS + ACK);
            if self.rng.random::<f64>() >= radio.error {
                return Service { finish: at, lost: false };
            }
            window = (2 * window + 1).min(CW_MAX);
        }
        Service { finish: at, lost: true }
    }

    /// State of the channel at `now`; calls must be ordered by time. The chain forgets its state at the
    /// rate 1/good + 1/fade, so one draw is exact however long ago the last one was. The first state is
    /// stationary.
    fn radio(&mut self, now: Time) -> Radio {
        let Wifi { good, fade, mean_good_ns, mean_fade_ns, .. } = self.wifi;
        if mean_fade_ns == Time::ZERO {
            return good;
        }
        let (mean_good, mean_fade) = (mean_good_ns.0.max(1) as f64, mean_fade_ns.0 as f64);
        let stationary = mean_fade / (mean_good + mean_fade);
        let forget = |seen: Time| {
            libm::exp(-(now.saturating_sub(seen).0 as f64) * (1.0 / mean_good + 1.0 / mean_fade))
        };
        let memory = self.seen.map_or(0.0, forget);
        let present = f64::from(u8::from(self.faded));
        self.faded = self.rng.random::<f64>() < stationary + (present - stationary) * memory;
        self.seen = Some(now);
        if self.faded { fade } else { good }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wifi(attempts: u8, mbps: u64, error: f64) -> Wifi {
        let good = Radio { bps: Bitrate::from_mbps(mbps), error };
        let none = Time::ZERO;
        let fade = good;
        Wifi { attempts, adaptive: false, good, fade, mean_good_ns: none, mean_fade_ns: none }
    }

    /// Loss ratio and mean service time in ms of 1240-byte packets.
    fn observe(wifi: Wifi, count: u32) -> (f64, f64) {
        let mut channel = Channel::new(wifi, 3);
        let (mut at, mut lost) = (Time::ZERO, 0);
        for _ in 0..count {
            let service = channel.serve(at, Bytes(1240));
            lost += u32::from(service.lost);
            at = service.finish;
        }
        (f64::from(lost) / f64::from(count), at.as_secs_f64() * 1e3 / f64::from(count))
    }

    /// Mean over backoff and outcome: attempt j happens with e^(j-1) and takes T_j.
    fn expected_ms(attempts: u8, mbps: f64, error: f64) -> f64 {
        let attempt = |j: f64| {
            let window = (16.0 * libm::exp2(j) - 1.0).min(1023.0);
            0.034 + window / 2.0 * 0.009 + 0.020 + 8.0 * 1.276 / mbps + 0.016 + 0.028
        };
        (0..attempts).map(f64::from).map(|j| libm::pow(error, j) * attempt(j)).sum()
    }

    #[test]
    fn residual_loss_is_the_error_to_the_power_of_the_attempts() {
        // 0.3^1, 0.5^7 = 0.0078, 0.7^7 = 0.082, 0.7^15 = 0.0047; three standard errors of 100 000
        for (attempts, error) in [(1, 0.3), (7, 0.5), (7, 0.7), (15, 0.7)] {
            let expected = libm::pow(error, f64::from(attempts));
            let (loss, _) = observe(wifi(attempts, 24, error), 100_000);
            let error = (expected * (1.0 - expected) / 1e5).sqrt();
            assert!((loss - expected).abs() < 3.0 * error, "{loss} instead of {expected}");
        }
    }

    #[test]
    fn mean_service_of_1240_bytes_is_the_sum_over_attempts() {
        // The sums: at 6 Mbit/s 1.87 (e 0.3, L 1), 2.74 (0.3, 7), 4.07 (0.5, 7), 4.17 ms (0.5, 15);
        // at 24 Mbit/s 0.59, 0.92, 1.53, 1.61 ms.
        let table = [(6, [1.87, 2.74, 4.07, 4.17]), (24, [0.59, 0.92, 1.53, 1.61])];
        let cases = [(1, 0.3), (7, 0.3), (7, 0.5), (15, 0.5)];
        for (mbps, row) in table {
            for ((attempts, error), rounded) in cases.into_iter().zip(row) {
                let expected = expected_ms(attempts, mbps as f64, error);
                assert!((expected - rounded).abs() < 0.006, "{expected} instead of {rounded}");
                let (_, mean) = observe(wifi(attempts, mbps, error), 100_000);
                assert!((mean / expected - 1.0).abs() < 0.02, "{mean} instead of {expected}");
            }
        }
    }

    #[test]
    fn no_packet_takes_longer_than_the_full_contention_windows_of_all_attempts() {
        // L = 7 at 6 Mbit/s: 7 * 1.80 ms and (15 + 31 + .. + 1023 = 2025 slots) * 9 us = 30.8 ms
        let mut channel = Channel::new(wifi(7, 6, 1.0), 3);
        let mut at = Time::ZERO;
        let mut longest = Time::ZERO;
        for _ in 0..10_000 {
            let service = channel.serve(at, Bytes(1240));
            assert!(service.lost);
            longest = longest.max(service.finish - at);
            at = service.finish;
        }
        let ms = longest.as_secs_f64() * 1e3;
        assert!((27.0..30.85).contains(&ms), "{ms}");
    }

    #[test]
    fn the_channel_fades_for_its_share_of_the_time_and_for_its_mean_length() {
        // 0.9 s good and 0.1 s faded: a tenth of the samples, in runs of 100 samples of 1 ms; with some
        // 1000 fades in 1000 s the mean length is known to 3 %.
        let good = Radio { bps: Bitrate::from_mbps(24), error: 0.0 };
        let fade = Radio { bps: Bitrate::from_mbps(6), error: 1.0 };
        let (mean_good_ns, mean_fade_ns) = (Time::from_millis(900), Time::from_millis(100));
        let wifi = Wifi { attempts: 1, adaptive: false, good, fade, mean_good_ns, mean_fade_ns };
        let mut channel = Channel::new(wifi, 3);
        let (mut faded, mut fades, mut before) = (0, 0, false);
        for ms in 0..1_000_000 {
            let now = channel.radio(Time::from_millis(ms)) == fade;
            faded += u32::from(now);
            fades += u32::from(now && !before);
            before = now;
        }
        let share = f64::from(faded) / 1e6;
        assert!((0.09..0.11).contains(&share), "{share}");
        let mean = f64::from(faded) / f64::from(fades);
        assert!((91.0..110.0).contains(&mean), "{mean} ms");
    }

    /// Loss ratio, and longest wait for the channel, of 1240-byte packets offered every `gap` for 30 s. The
    /// first 10 s, in which the average becomes the offered rate, do not count.
    fn offer_every(gap: Time, wifi: Wifi) -> (f64, Time) {
        let mut channel = Channel::new(wifi, 3);
        let (mut free, mut lost, mut seen, mut longest) = (Time::ZERO, 0u64, 0u64, Time::ZERO);
        // A packet that begins to be served after others have arrived is served after they are counted.
        let mut waiting = std::collections::VecDeque::new();
        for number in 0..Time::from_secs(30).0 / gap.0 {
            let arrival = gap * number;
            while let Some(entered) = waiting.front().copied().filter(|_| free <= arrival) {
                waiting.pop_front();
                let begin = free.max(entered);
                let service = channel.serve(begin, Bytes(1240));
                free = service.finish;
                if entered >= Time::from_secs(10) {
                    (seen, lost) = (seen + 1, lost + u64::from(service.lost));
                    longest = longest.max(begin - entered);
                }
            }
            channel.offer(arrival);
            waiting.push_back(arrival);
        }
        (lost as f64 / seen as f64, longest)
    }

    #[test]
    fn adaptive_retries_give_up_instead_of_letting_a_dead_channel_queue() {
        // An attempt at 24 Mbit/s takes up to 0.56 ms and the backoff, which grows to 9.2 ms. A packet every 4 ms
        // is given up in its last attempt that begins within 4 ms, so the next ones wait for that at most.
        let dead = Wifi { adaptive: true, ..wifi(15, 24, 1.0) };
        let (loss, longest) = offer_every(Time::from_millis(4), dead);
        assert_eq!(loss, 1.0);
        assert!(longest > Time::from_millis(1) && longest < Time::from_millis(10), "{longest}");
    }

    #[test]
    fn adaptive_retries_use_the_time_that_the_offered_rate_leaves() {
        // Half of the attempts fail. At 24 Mbit/s an attempt takes 0.59 ms at first, then 0.66, 0.80 and more. A
        // packet every 20 ms may use some seven attempts (0.5^7 = 0.8 %), and one every ms two (25 %) at most.
        let channel = Wifi { adaptive: true, ..wifi(15, 24, 0.5) };
        let losses: Vec<_> = [20, 4, 2, 1]
            .map(|ms| offer_every(Time::from_millis(ms), channel).0)
            .into_iter()
            .collect();
        assert!(losses.is_sorted(), "{losses:?}");
        assert!(losses[0] < 0.01, "{losses:?}");
        assert!((0.2..0.5).contains(&losses[3]), "{losses:?}");
    }

    #[test]
    fn adaptive_retries_are_the_full_number_while_the_channel_is_free() {
        // 15 attempts take 119 ms at 6 Mbit/s at most; a packet comes every 200 ms.
        let all = offer_every(Time::from_millis(200), wifi(15, 6, 0.9));
        let adaptive = Wifi { adaptive: true, ..wifi(15, 6, 0.9) };
        assert_eq!(offer_every(Time::from_millis(200), adaptive), all);
    }

    #[test]
    fn adaptive_retries_end_where_a_single_attempt_is_more_than_the_channel_has() {
        // 1.87 ms per attempt at 6 Mbit/s, a packet every ms: after the first ones nobody is sent twice.
        let full = Wifi { adaptive: true, ..wifi(15, 6, 0.3) };
        let (loss, _) = offer_every(Time::from_millis(1), full);
        assert!((0.27..0.33).contains(&loss), "{loss}");
    }

    #[test]
    fn a_radio_without_a_rate_never_finishes() {
        let service = Channel::new(wifi(7, 0, 0.0), 3).serve(Time::ZERO, Bytes(1240));
        assert_eq!(service, Service { finish: Time::MAX, lost: false });
    }
}
