//! Interarrival jitter of a stream.
//!
//! Source: RFC 3550, section 6.4.1 and appendix A.8; RFC 7160, section 4.1 (several clocks in a stream).

use super::steps::RATES;

/// Interarrival jitter in seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Jitter {
    now: f64,
    max: f64,
    sum: f64,
}

impl Jitter {
    #[inline]
    fn update(&mut self, difference_s: f64) {
        self.now += (difference_s.abs() - self.now) / 16.0;
        self.max = self.max.max(self.now);
        self.sum += self.now;
    }
}

/// Tracks arrival times and RTP timestamps. The clock rate is known from the payload type, or inferred later.
#[derive(Clone, Debug)]
pub(crate) struct RtpClock {
    /// Clock rate of the last packet's payload type, if an SDP or RFC 3551 gives one.
    described: Option<u32>,
    last_at_ns: i64,
    last_timestamp: u32,
    /// The jitter if packets without a described clock rate have the one at this index of [`RATES`].
    jitters: [Jitter; RATES.len()],
    differences: u64,
}

/// Jitter of a stream in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct JitterFigures {
    pub(crate) last_ms: f64,
    pub(crate) mean_ms: f64,
    pub(crate) max_ms: f64,
}

impl RtpClock {
    pub(crate) fn starting_at(at_ns: i64, timestamp: u32, described: Option<u32>) -> Self {
        let jitters = [Jitter::default(); RATES.len()];
        RtpClock {
            described,
            last_at_ns: at_ns,
            last_timestamp: timestamp,
            jitters,
            differences: 0,
        }
    }

    /// Takes the next packet in arrival order, including late ones and duplicates. Timestamps of different
    /// clocks cannot be subtracted, so a change of clock does not change the jitter.
    #[inline]
    pub(crate) fn update(&mut self, at_ns: i64, timestamp: u32, described: Option<u32>) {
        if described == self.described {
            let arrived_s = (at_ns - self.last_at_ns) as f64 / 1e9;
            let sampled = f64::from(timestamp.wrapping_sub(self.last_timestamp) as i32);
            for (jitter, rate) in self.jitters.iter_mut().zip(RATES) {
                jitter.update(arrived_s - sampled / f64::from(described.unwrap_or(rate)));
            }
            self.differences += 1;
        }
        (self.described, self.last_at_ns, self.last_timestamp) = (described, at_ns, timestamp);
    }

    /// Returns the jitter, or `None` without a clock rate.
    ///
    /// `inferred` is the index in [`RATES`] of the rate of packets without a described one.
    pub(crate) fn jitter(&self, inferred: Option<usize>) -> Option<JitterFigures> {
        let jitter = self.jitters[inferred.or(self.described.map(|_| 0))?];
        let mean = jitter.sum / self.differences.max(1) as f64;
        Some(JitterFigures {
            last_ms: jitter.now * 1e3,
            mean_ms: mean * 1e3,
            max_ms: jitter.max * 1e3,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock after packets every 20 ms, each delayed by `late_ns(index)`.
    fn clock(
        rate: u32,
        packets: u32,
        known: Option<u32>,
        late_ns: impl Fn(u32) -> i64,
    ) -> RtpClock {
        let begin = 1_700_000_000_000_000_000;
        let mut clock = RtpClock::starting_at(begin + late_ns(0), u32::MAX - 1000, known);
        for index in 1..packets {
            let at = begin + i64::from(index) * 20_000_000 + late_ns(index);
            clock.update(at, (u32::MAX - 1000).wrapping_add(index * rate / 50), known);
        }
        clock
    }

    #[test]
    fn jitter_of_every_other_packet_late_by_1_6_ms_approaches_1_6_ms() {
        // |D| is 1.6 ms for every packet: J_n = 1.6 ms * (1 - (15/16)^n).
        let late = |index: u32| i64::from(index % 2) * 1_600_000;
        let first = clock(48_000, 2, Some(48_000), late).jitter(None).unwrap();
        assert!((first.last_ms - 0.1).abs() < 1e-9, "{first:?}");
        let of_48_khz = RATES.iter().position(|rate| *rate == 48_000);
        for (known, inferred) in [(Some(48_000), None), (None, of_48_khz)] {
            let last = clock(48_000, 500, known, late).jitter(inferred).unwrap();
            assert!((last.last_ms - 1.6).abs() < 1e-6, "{last:?}");
            assert!(last.mean_ms < last.max_ms && last.mean_ms > 1.5, "{last:?}");
        }
    }

    #[test]
    fn a_change_of_clock_does_not_change_the_jitter() {
        // Opus without a known rate, with comfort noise at 8 kHz in between.
        let at = |index: u32| i64::from(index) * 20_000_000;
        let of_48_khz = RATES.iter().position(|rate| *rate == 48_000);
        let mut clock = RtpClock::starting_at(0, 0, None);
        for index in 1..400 {
            let noise = index % 10 == 0;
            clock.update(at(index), index * 960, if noise { Some(8_000) } else { None });
        }
        assert!(clock.jitter(of_48_khz).unwrap().max_ms < 1e-6);
    }

    #[test]
    fn without_a_clock_rate_there_is_no_jitter() {
        assert_eq!(clock(90_000, 5, None, |_| 0).jitter(None), None);
        assert!(clock(90_000, 5, Some(90_000), |_| 0).jitter(None).is_some());
    }
}
