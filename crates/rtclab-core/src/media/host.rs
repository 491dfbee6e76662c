//! The machine of a participant: one processor, shared by all its encoders and decoders.

use super::load::BusyTime;
use crate::limits::{self, Checked, within};
use crate::normal::StandardNormal;
use crate::units::{Bitrate, Bytes, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

/// A picture takes at least this share of its mean time.
const SHORTEST: f64 = 0.1;

/// How fast a participant's machine encodes and decodes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostConfig {
    /// Pixels encoded per second. Pictures are encoded one at a time, in the order of capture.
    pub encoder_capacity_pixels_per_second: f64,
    /// Rate at which the encoder writes bits, after it has worked on the pixels; with `None`, writing takes no time.
    #[serde(default)]
    pub encoder_output_bps: Option<Bitrate>,
    /// Pixels decoded and drawn per second by the same processor; with `None`, decoding takes no time.
    #[serde(default)]
    pub decoder_capacity_pixels_per_second: Option<f64>,
    /// How the time per picture varies; with `None` it is constant.
    #[serde(default)]
    pub variation: Option<Variation>,
}

/// Slow variation of the time that a picture takes, as on a virtual machine that shares its processor.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variation {
    /// Standard deviation relative to the mean. The time is Gaussian with an exponential autocorrelation.
    pub deviation: f64,
    /// Time after which the autocorrelation has fallen to 1/e.
    pub correlation_ns: Time,
}

/// Largest number of pixels per second, and largest deviation relative to the mean.
const LIMITS: (f64, f64) = (1e15, 10.0);

impl HostConfig {
    pub(crate) fn check(&self) -> Checked {
        let encoder = Some(self.encoder_capacity_pixels_per_second);
        for (name, capacity) in [
            ("encoder_capacity_pixels_per_second", encoder),
            ("decoder_capacity_pixels_per_second", self.decoder_capacity_pixels_per_second),
        ] {
            limits::number(name, capacity.unwrap_or_default(), (0.0, LIMITS.0))?;
        }
        limits::rate("encoder_output_bps", self.encoder_output_bps.unwrap_or_default())?;
        self.variation.map_or(Ok(()), |variation| within("variation", variation.check()))
    }
}

impl Variation {
    fn check(&self) -> Checked {
        limits::number("deviation", self.deviation, (0.0, LIMITS.1))?;
        limits::duration("correlation_ns", self.correlation_ns)
    }
}

/// A processor that works on one picture after another.
pub struct Host {
    config: HostConfig,
    busy_until: Time,
    busy: BusyTime,
    rng: Pcg64Mcg,
    /// Deviation of the last picture in standard deviations, and when that was.
    last: (f64, Time),
}

impl Host {
    /// Creates an idle processor. The same `seed` gives the same variation.
    pub fn new(config: HostConfig, seed: u64) -> Self {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let first = rng.sample(StandardNormal);
        let (busy_until, busy) = (Time::ZERO, BusyTime::default());
        Host { config, busy_until, busy, rng, last: (first, Time::ZERO) }
    }

    /// When a picture of this many pixels and this encoded size, given to the encoder at `now`, will have been encoded.
    pub fn encode(&mut self, now: Time, pixels: u32, size: Bytes) -> Time {
        let output =
            self.config.encoder_output_bps.map_or(0.0, |rate| size.bits() as f64 / rate.0 as f64);
        let seconds = f64::from(pixels) / self.config.encoder_capacity_pixels_per_second + output;
        self.work(now, seconds)
    }

    /// When a picture of this many pixels, complete at `now`, will have been decoded and drawn.
    pub fn decode(&mut self, now: Time, pixels: u32) -> Time {
        match self.config.decoder_capacity_pixels_per_second {
            Some(capacity) => self.work(now, f64::from(pixels) / capacity),
            None => now,
        }
    }

    /// When it works.
    pub fn busy(&self) -> &BusyTime {
        &self.busy
    }

    fn work(&mut self, now: Time, mean_seconds: f64) -> Time {
        let time = Time::from_secs_f64(mean_seconds * self.slowness(now));
        let begin = self.busy_until.max(now);
        self.busy_until = begin.saturating_add(time);
        self.busy.add(begin, self.busy_until);
        self.busy_until
    }

    /// How many times as long as on average a picture takes now.
    fn slowness(&mut self, now: Time) -> f64 {
        let Some(Variation { deviation, correlation_ns }) = self.config.variation else {
            return 1.0;
        };
        let (last, at) = self.last;
        let elapsed = now.saturating_sub(at).as_secs_f64();
        let kept = libm::exp(-elapsed / correlation_ns.as_secs_f64());
        let noise: f64 = self.rng.sample(StandardNormal);
        let next = kept * last + (1.0 - kept * kept).sqrt() * noise;
        self.last = (next, now);
        (1.0 + deviation * next).max(SHORTEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 307,200 pixels at 30.72 million a second take 10 ms.
    const CONFIG: HostConfig = HostConfig {
        encoder_capacity_pixels_per_second: 30.72e6,
        encoder_output_bps: None,
        decoder_capacity_pixels_per_second: None,
        variation: None,
    };
    const VGA: u32 = 640 * 480;

    /// 10 ms for the pixels and 8 ms for 4 kB at 4 Mbit/s.
    #[test]
    fn writing_bits_takes_time() {
        let config = HostConfig { encoder_output_bps: Some(Bitrate::from_mbps(4)), ..CONFIG };
        let ready = Host::new(config, 1).encode(Time::ZERO, VGA, Bytes(4_000));
        assert_eq!(ready, Time::from_millis(18));
    }

    #[test]
    fn a_machine_without_capacity_never_finishes() {
        let config = HostConfig { encoder_capacity_pixels_per_second: 0.0, ..CONFIG };
        assert_eq!(Host::new(config, 1).encode(Time::from_secs(1), VGA, Bytes(0)), Time::MAX);
    }

    #[test]
    fn a_second_picture_waits_for_the_first() {
        let mut host = Host::new(CONFIG, 1);
        assert_eq!(host.encode(Time::ZERO, VGA, Bytes(0)), Time::from_millis(10));
        assert_eq!(host.encode(Time::from_millis(4), VGA, Bytes(0)), Time::from_millis(20));
        assert_eq!(
            host.encode(Time::from_millis(50), 320 * 240, Bytes(0)),
            Time::from_micros(52_500)
        );
    }

    #[test]
    fn encoding_waits_for_decoding_only_if_decoding_takes_time() {
        let mut host = Host::new(CONFIG, 1);
        host.decode(Time::ZERO, VGA);
        assert_eq!(host.encode(Time::ZERO, VGA, Bytes(0)), Time::from_millis(10));
        let config = HostConfig { decoder_capacity_pixels_per_second: Some(61.44e6), ..CONFIG };
        let mut host = Host::new(config, 1);
        host.decode(Time::ZERO, VGA);
        assert_eq!(host.encode(Time::ZERO, VGA, Bytes(0)), Time::from_millis(15));
    }

    /// Times of pictures that come every 100 ms, in ms.
    fn varied(deviation: f64, correlation: Time) -> Vec<f64> {
        let variation = Some(Variation { deviation, correlation_ns: correlation });
        let mut host = Host::new(HostConfig { variation, ..CONFIG }, 1);
        (0..40_000)
            .map(|i| Time::from_millis(100 * i))
            .map(|now| 1e3 * (host.encode(now, VGA, Bytes(0)) - now).as_secs_f64())
            .collect()
    }

    #[test]
    fn times_vary_by_the_deviation_and_stay_similar_for_the_correlation() {
        let times = varied(0.2, Time::from_millis(200));
        let count = times.len() as f64;
        let mean = times.iter().sum::<f64>() / count;
        let variance = times.iter().map(|time| (time - mean) * (time - mean)).sum::<f64>() / count;
        let pairs = times.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean));
        let correlation = pairs.sum::<f64>() / count / variance;
        assert!((9.95..10.05).contains(&mean), "{mean}");
        assert!((1.95..2.05).contains(&variance.sqrt()), "{variance}");
        // exp(-100 / 200) = 0.607
        assert!((0.59..0.62).contains(&correlation), "{correlation}");
    }

    #[test]
    fn a_picture_takes_at_least_a_tenth_of_its_time() {
        let least = varied(2.0, Time::from_millis(1)).into_iter().fold(f64::MAX, f64::min);
        assert!((0.999..1.001).contains(&least), "{least}");
    }
}
