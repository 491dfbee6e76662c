//! Recorded loss: which of the packets that a path carried were lost, applied packet by packet and repeated.

use crate::limits::{self, Checked};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

/// Largest number of packets in one period: a day of a call at 115 packets per second.
const MAX_PACKETS: u64 = 10_000_000;

/// A recorded sequence of received and lost packets. After its last packet it begins again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossTrace {
    /// Numbers of packets that are received, lost, received, and so on in turn. Only the first may be 0.
    pub runs: Vec<u32>,
    /// The packet with which a path begins.
    #[serde(default)]
    pub start: TraceStart,
}

/// The packet of a trace with which a path begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TraceStart {
    /// A packet drawn from the seed of the path, each with the same probability.
    #[default]
    Random,
    /// The first packet.
    Beginning,
}

impl LossTrace {
    /// Number of packets in one period.
    pub fn packets(&self) -> u64 {
        self.runs.iter().copied().map(u64::from).sum()
    }

    pub(super) fn check(&self) -> Checked {
        let empty = self.runs.iter().skip(1).any(|run| *run == 0);
        limits::require(!empty, "runs", "a run of 0 packets after the first", "at least 1 packet")?;
        let packets = self.packets();
        let value = format!("a period of {packets} packets");
        let expected = format!("1 to {MAX_PACKETS} packets");
        limits::require((1..=MAX_PACKETS).contains(&packets), "runs", value, expected)
    }
}

/// Position in a [`LossTrace`].
pub(super) struct TracePosition {
    /// Index of the run of the next packet, unless nothing is left of it.
    run: usize,
    /// Packets left of that run.
    left: u32,
    rng: Pcg64Mcg,
}

impl TracePosition {
    pub(super) fn new(trace: Option<&LossTrace>, seed: u64) -> Self {
        // A separate random stream, as for jitter.
        let rng = Pcg64Mcg::seed_from_u64(seed ^ 0x6c6f_7373_7472);
        let mut position = TracePosition { run: 0, left: 0, rng };
        position.begin(trace);
        position
    }

    /// Goes to the packet with which `trace` begins.
    pub(super) fn begin(&mut self, trace: Option<&LossTrace>) {
        let Some(trace) = trace else { return };
        let mut ahead = match trace.start {
            TraceStart::Beginning => 0,
            TraceStart::Random => self.rng.random_range(0..trace.packets().max(1)),
        };
        for (run, count) in trace.runs.iter().enumerate() {
            (self.run, self.left) = (run, *count);
            if ahead < u64::from(*count) {
                self.left -= ahead as u32;
                return;
            }
            ahead -= u64::from(*count);
        }
    }

    /// Whether the next packet is lost.
    pub(super) fn loses(&mut self, trace: &LossTrace) -> bool {
        // Only the first run may be empty, and a trace has at least one packet.
        for _ in 0..2 {
            if self.left > 0 {
                break;
            }
            self.run = (self.run + 1) % trace.runs.len().max(1);
            self.left = trace.runs.get(self.run).copied().unwrap_or(0);
        }
        self.left = self.left.saturating_sub(1);
        self.run % 2 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(runs: &[u32], start: TraceStart, seed: u64, count: usize) -> String {
        let trace = LossTrace { runs: runs.to_vec(), start };
        assert_eq!(trace.check(), Ok(()));
        let mut position = TracePosition::new(Some(&trace), seed);
        (0..count).map(|_| if position.loses(&trace) { '1' } else { '0' }).collect()
    }

    #[test]
    fn exactly_the_packets_of_the_trace_are_lost_and_it_repeats() {
        for (runs, expected) in [
            (&[2, 1, 1, 2][..], "001011001011001"),
            (&[0, 1, 3], "100010001000100"),
            (&[0, 2, 1, 1], "110111011101110"),
            (&[2, 1], "001001001001001"),
            (&[0, 1], "111111111111111"),
            (&[4], "000000000000000"),
        ] {
            assert_eq!(lost(runs, TraceStart::Beginning, 7, expected.len()), expected, "{runs:?}");
        }
    }

    #[test]
    fn a_random_start_is_any_packet_of_the_trace_with_the_same_probability() {
        // 4000 seeds on 8 packets: 500 each, within five standard deviations of sqrt(4000 / 8 * 7 / 8) = 21.
        let whole = "0010110000101100";
        let mut begun = [0; 8];
        for seed in 0..4000 {
            let seen = lost(&[2, 1, 1, 2, 2], TraceStart::Random, seed, 8);
            begun[whole.find(&seen).expect("a rotation of the trace")] += 1;
        }
        assert!(begun.iter().all(|count| (395..=605).contains(count)), "{begun:?}");
    }

    #[test]
    fn a_trace_without_packets_with_an_empty_run_or_too_long_is_refused() {
        let check = |runs: &[u32]| {
            let trace = LossTrace { runs: runs.to_vec(), start: TraceStart::Random };
            trace.check().map_err(|error| error.problem)
        };
        let refused = |problem: &str| {
            Err(format!("{problem} is not possible; expected {}", {
                if problem.contains("run of") {
                    "at least 1 packet"
                } else {
                    "1 to 10000000 packets"
                }
            }))
        };
        assert_eq!(check(&[]), refused("a period of 0 packets"));
        assert_eq!(check(&[0]), refused("a period of 0 packets"));
        assert_eq!(check(&[1, 0, 1]), refused("a run of 0 packets after the first"));
        assert_eq!(check(&[10_000_000]), Ok(()));
        assert_eq!(check(&[10_000_000, 1]), refused("a period of 10000001 packets"));
    }
}
