//! Clock rate and interarrival jitter of a stream.
//!
//! Source: RFC 3550, section 6.4.1 and appendix A.8; RFC 7160, section 4.1 (several clocks in a stream).

use crate::rtp::TimestampUnwrapper;

/// Candidates for an unknown clock rate: Opus, video, narrowband and wideband speech.
const CANDIDATES: [u32; 4] = [48_000, 90_000, 8_000, 16_000];
/// Time after which an inferred clock rate is final.
const SETTLED_NS: i64 = 2_000_000_000;
/// Minimum time for inferring the clock rate of a stream that has ended. A timing error of 20 ms is a tenth
/// of it.
const GUESSED_NS: i64 = 200_000_000;
/// Maximum ratio between the measured rate and a candidate: about half the way to the next candidate.
const TOLERANCE: f64 = 1.33;

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

/// Tracks arrival times and RTP timestamps. The clock rate is known from the payload type, or inferred.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    /// Clock rate of the last packet's payload type, if an SDP or RFC 3551 gives one.
    described: Option<u32>,
    /// Inferred clock rate of payload types without a known one.
    inferred: Option<u32>,
    first_at_ns: i64,
    last_at_ns: i64,
    first_timestamp: i64,
    last_timestamp: u32,
    newest_timestamp: i64,
    timestamps: TimestampUnwrapper,
    /// One jitter per candidate until the rate is known. After that, only the first one is used.
    jitters: [Jitter; CANDIDATES.len()],
    differences: u64,
}

/// Jitter of a stream in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct JitterFigures {
    pub(crate) last_ms: f64,
    pub(crate) mean_ms: f64,
    pub(crate) max_ms: f64,
}

impl Clock {
    pub(crate) fn starting_at(at_ns: i64, timestamp: u32, described: Option<u32>) -> Self {
        let mut timestamps = TimestampUnwrapper::default();
        let first_timestamp = timestamps.unwrap(timestamp);
        Clock {
            described,
            inferred: None,
            first_at_ns: at_ns,
            last_at_ns: at_ns,
            first_timestamp,
            last_timestamp: timestamp,
            newest_timestamp: first_timestamp,
            timestamps,
            jitters: [Jitter::default(); CANDIDATES.len()],
            differences: 0,
        }
    }

    /// Takes the next packet in arrival order, including late ones and duplicates.
    #[inline]
    pub(crate) fn update(&mut self, at_ns: i64, timestamp: u32, described: Option<u32>) {
        if described != self.described {
            return self.change(at_ns, timestamp, described);
        }
        let arrived_s = (at_ns - self.last_at_ns) as f64 / 1e9;
        let sampled = f64::from(timestamp.wrapping_sub(self.last_timestamp) as i32);
        match self.known() {
            Some(rate) => self.jitters[0].update(arrived_s - sampled / f64::from(rate)),
            None => {
                for (jitter, rate) in self.jitters.iter_mut().zip(CANDIDATES) {
                    jitter.update(arrived_s - sampled / f64::from(rate));
                }
            }
        }
        self.differences += 1;
        (self.last_at_ns, self.last_timestamp) = (at_ns, timestamp);
        self.newest_timestamp = self.newest_timestamp.max(self.timestamps.unwrap(timestamp));
        if self.known().is_none() && at_ns - self.first_at_ns >= SETTLED_NS {
            self.settle();
        }
    }

    /// Switches to another clock. Timestamps of different clocks cannot be subtracted, so the jitter does not
    /// change.
    fn change(&mut self, at_ns: i64, timestamp: u32, described: Option<u32>) {
        let jitter = self.jitters[self.jitter_index().unwrap_or(0)];
        let inferred = self.inferred_rate();
        let differences = self.differences;
        *self = Clock::starting_at(at_ns, timestamp, described);
        self.jitters = [jitter; CANDIDATES.len()];
        (self.inferred, self.differences) = (inferred, differences);
    }

    fn known(&self) -> Option<u32> {
        self.described.or(self.inferred)
    }

    fn settle(&mut self) {
        if let Some(index) = self.guess() {
            self.jitters[0] = self.jitters[index];
            self.inferred = Some(CANDIDATES[index]);
        }
    }

    /// Index of the candidate nearest to the measured rate.
    fn guess(&self) -> Option<usize> {
        let elapsed_ns = self.last_at_ns - self.first_at_ns;
        if elapsed_ns < GUESSED_NS {
            return None;
        }
        let measured =
            (self.newest_timestamp - self.first_timestamp) as f64 * 1e9 / elapsed_ns as f64;
        let distance = |index: &usize| {
            let ratio = measured / f64::from(CANDIDATES[*index]);
            ratio.max(1.0 / ratio)
        };
        let near = (0..CANDIDATES.len()).filter(|index| distance(index) < TOLERANCE);
        near.min_by(|a, b| distance(a).total_cmp(&distance(b)))
    }

    /// Clock rate inferred from the packets without a known one.
    pub(crate) fn inferred_rate(&self) -> Option<u32> {
        let guessed = || self.guess().map(|index| CANDIDATES[index]);
        self.inferred.or_else(|| if self.described.is_none() { guessed() } else { None })
    }

    fn jitter_index(&self) -> Option<usize> {
        if self.known().is_some() { Some(0) } else { self.guess() }
    }

    /// Returns the jitter, or `None` without a clock rate.
    pub(crate) fn jitter(&self) -> Option<JitterFigures> {
        let index = self.jitter_index()?;
        let jitter = self.jitters[index];
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
    fn clock(rate: u32, packets: u32, known: Option<u32>, late_ns: impl Fn(u32) -> i64) -> Clock {
        let begin = 1_700_000_000_000_000_000;
        let mut clock = Clock::starting_at(begin + late_ns(0), u32::MAX - 1000, known);
        for index in 1..packets {
            let at = begin + i64::from(index) * 20_000_000 + late_ns(index);
            clock.update(at, (u32::MAX - 1000).wrapping_add(index * rate / 50), known);
        }
        clock
    }

    #[test]
    fn clock_rates_are_inferred_from_timestamps_across_a_wrap() {
        for rate in CANDIDATES {
            assert_eq!(clock(rate, 200, None, |_| 0).inferred_rate(), Some(rate));
            assert_eq!(clock(rate, 20, None, |_| 0).inferred_rate(), Some(rate));
        }
        assert_eq!(clock(90_000, 10, None, |_| 0).inferred_rate(), None); // 180 ms
        assert_eq!(clock(30_000, 200, None, |_| 0).inferred_rate(), None); // as far from 16 as from 48 kHz
    }

    #[test]
    fn jitter_of_every_other_packet_late_by_1_6_ms_approaches_1_6_ms() {
        // |D| is 1.6 ms for every packet: J_n = 1.6 ms * (1 - (15/16)^n).
        let late = |index: u32| i64::from(index % 2) * 1_600_000;
        let first = clock(48_000, 2, Some(48_000), late).jitter().unwrap();
        assert!((first.last_ms - 0.1).abs() < 1e-9, "{first:?}");
        for known in [Some(48_000), None] {
            let last = clock(48_000, 500, known, late).jitter().unwrap();
            assert!((last.last_ms - 1.6).abs() < 1e-6, "{last:?}");
            assert!(last.mean_ms < last.max_ms && last.mean_ms > 1.5, "{last:?}");
        }
    }

    #[test]
    fn a_change_of_clock_does_not_change_the_jitter_and_the_new_rate_is_inferred() {
        // PCMU at 8 kHz, then Opus without a known rate, with comfort noise at 8 kHz in between.
        let begin = 1_700_000_000_000_000_000;
        let at = |index: u32| begin + i64::from(index) * 20_000_000;
        let mut clock = Clock::starting_at(begin, 0, Some(8_000));
        (1..100).for_each(|index| clock.update(at(index), index * 160, Some(8_000)));
        assert_eq!(clock.inferred_rate(), None);
        for index in 100..400 {
            let noise = index > 250 && index % 10 == 0;
            clock.update(at(index), index * 960, if noise { Some(8_000) } else { None });
        }
        assert_eq!(clock.inferred_rate(), Some(48_000));
        assert!(clock.jitter().unwrap().max_ms < 1e-6);
    }

    #[test]
    fn without_a_clock_rate_there_is_no_jitter() {
        assert_eq!(clock(90_000, 5, None, |_| 0).jitter(), None);
        assert!(clock(90_000, 5, Some(90_000), |_| 0).jitter().is_some());
    }
}
