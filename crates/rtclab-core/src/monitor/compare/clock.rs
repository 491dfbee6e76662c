//! Estimates offset and drift between the clocks of two captures from the packets they share.
//!
//! Source: V. Paxson, "On calibrating measurements of packet transit times", 1998 (offset from both directions);
//! S. Moon, P. Skelly, D. Towsley, "Estimation and removal of clock skew from network delay measurements", 1999
//! (drift as the slope below all delays).

use std::collections::BTreeMap;

/// Length of a window. Only the smallest delay in each window is used.
const WINDOW_NS: i64 = 1_000_000_000;
/// Minimum number of windows for an estimate of the drift.
const ENOUGH_WINDOWS: usize = 10;

/// Estimated difference between the clocks of A and B.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ClockEstimate {
    pub(super) method: &'static str,
    /// Clock of B minus clock of A at `at_ns`.
    pub(super) offset_ns: Option<f64>,
    /// Bound on the error of `offset_ns`: half the smallest round-trip time, however it is split between
    /// the directions.
    pub(super) offset_error_ns: Option<f64>,
    /// Rate at which B's clock gains on A's; 1e-6 is 1 ppm.
    pub(super) drift: Option<f64>,
    pub(super) at_ns: i64,
}

impl ClockEstimate {
    /// Clock of B minus clock of A at a time on A's clock. `None` if only the drift is known.
    pub(super) fn difference_ns(&self, at_ns: i64) -> Option<f64> {
        Some(self.offset_ns? + self.drift.unwrap_or(0.0) * (at_ns - self.at_ns) as f64)
    }
}

/// Lower envelope of the delays in one direction: the smallest delay of each window.
#[derive(Default)]
pub(super) struct Envelope {
    /// Time and value of the smallest delay, by window.
    windows: BTreeMap<i64, (i64, i64)>,
}

impl Envelope {
    pub(super) fn add(&mut self, at_ns: i64, value_ns: i64) {
        let window = self.windows.entry(at_ns / WINDOW_NS).or_insert((at_ns, value_ns));
        if value_ns < window.1 {
            *window = (at_ns, value_ns);
        }
    }

    /// Slope of the highest line below all points: the edge of their lower convex hull at their mean time.
    fn slope(&self) -> Option<f64> {
        if self.windows.len() < ENOUGH_WINDOWS {
            return None;
        }
        // Relative to the first point, because a large offset between the clocks would cost precision.
        let origin = self.windows.values().next()?;
        let from_origin = |(at, value): &(i64, i64)| {
            ((at - origin.0) as f64, value.saturating_sub(origin.1) as f64)
        };
        let points = self.windows.values().map(from_origin);
        let middle = points.clone().map(|(at, _)| at).sum::<f64>() / self.windows.len() as f64;
        let mut hull: Vec<(f64, f64)> = Vec::new();
        for point in points {
            while let [.., before, last] = hull[..] {
                let turn = (last.0 - before.0) * (point.1 - before.1)
                    - (last.1 - before.1) * (point.0 - before.0);
                if turn > 0.0 {
                    break;
                }
                hull.pop();
            }
            hull.push(point);
        }
        let edge = hull.windows(2).find(|edge| edge[1].0 >= middle)?;
        Some((edge[1].1 - edge[0].1) / (edge[1].0 - edge[0].0))
    }

    /// Smallest delay after the drift is subtracted.
    fn min_without(&self, drift: f64, at_ns: i64) -> Option<f64> {
        let without = |(at, value): &(i64, i64)| *value as f64 - drift * (at - at_ns) as f64;
        self.windows.values().map(without).min_by(f64::total_cmp)
    }
}

/// Estimates the difference between the clocks from the delays of packets from A to B and from B to A.
pub(super) fn estimate(to_b: &Envelope, to_a: &Envelope) -> ClockEstimate {
    let at_ns = to_b.windows.values().chain(to_a.windows.values()).map(|w| w.0).min().unwrap_or(0);
    let slopes = [to_b.slope(), to_a.slope().map(|slope| -slope)];
    let known: Vec<f64> = slopes.into_iter().flatten().collect();
    let drift = (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64);
    let least =
        |envelope: &Envelope, sign: f64| envelope.min_without(sign * drift.unwrap_or(0.0), at_ns);
    match (least(to_b, 1.0), least(to_a, -1.0)) {
        (Some(to_b), Some(to_a)) => ClockEstimate {
            method: "both directions",
            offset_ns: Some((to_b - to_a) / 2.0),
            offset_error_ns: Some((to_b + to_a) / 2.0),
            drift,
            at_ns,
        },
        (None, None) => ClockEstimate { method: "none", ..ClockEstimate::default() },
        _ => ClockEstimate { method: "one direction", drift, at_ns, ..ClockEstimate::default() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two minutes of packets every 20 ms, delayed by 30 ms plus up to 60 ms of queueing. B's clock is
    /// ahead by `offset_ns` and gains `drift`.
    fn envelopes(offset_ns: f64, drift: f64) -> (Envelope, Envelope) {
        let (mut to_b, mut to_a) = (Envelope::default(), Envelope::default());
        for index in 0..6000i64 {
            let at_ns = 1_700_000_000_000_000_000 + index * 20_000_000;
            let clock = (offset_ns + drift * (index * 20_000_000) as f64) as i64;
            let queue = index * 7919 % 61 * 1_000_000;
            to_b.add(at_ns, 30_000_000 + queue + clock);
            to_a.add(at_ns, 30_000_000 + queue - clock);
        }
        (to_b, to_a)
    }

    #[test]
    fn offset_and_drift_are_found_from_both_directions() {
        for (offset_ns, drift) in [(-5e9, 50e-6), (1e6, -20e-6), (3.6e12, 0.0)] {
            let (to_b, to_a) = envelopes(offset_ns, drift);
            let found = estimate(&to_b, &to_a);
            assert!((found.drift.unwrap() - drift).abs() < 1e-6, "{found:?}");
            let difference = found.difference_ns(1_700_000_000_000_000_000).unwrap();
            assert!((difference - offset_ns).abs() < 100_000.0, "{found:?}");
            assert!((found.offset_error_ns.unwrap() - 30e6).abs() < 200_000.0, "{found:?}");
        }
    }

    #[test]
    fn one_direction_gives_only_the_drift() {
        let (to_b, _) = envelopes(1e9, 40e-6);
        let found = estimate(&to_b, &Envelope::default());
        assert_eq!((found.method, found.offset_ns), ("one direction", None));
        assert!((found.drift.unwrap() - 40e-6).abs() < 1e-6);
        assert_eq!(estimate(&Envelope::default(), &Envelope::default()).method, "none");
    }

    #[test]
    fn nine_seconds_give_no_drift() {
        let mut to_b = Envelope::default();
        (0..9).for_each(|second| to_b.add(second * 1_000_000_000, 0));
        assert_eq!(to_b.slope(), None);
        to_b.add(9_000_000_000, 0);
        assert_eq!(to_b.slope(), Some(0.0));
    }
}
