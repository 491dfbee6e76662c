//! PIE: a controller that keeps the waiting time at a target. When a packet arrives it is dropped, or marked, with a
//! probability that is updated at fixed times.
//!
//! Source: RFC 8033, sections 4 and 5. The waiting time is the one of the packet that left last, as in Linux
//! (`net/sched/sch_pie.c`), and so is the moment at which bursts are allowed again, at an update. Linux lets the
//! probability decay by 1/64 in place of 1/50. Section 5.3 (no drops below a third of the limit) is an option that is
//! left out, as in Linux.

use super::fifo::{Fifo, MTU, Moment, QueuedPacket};
use super::ticks::{Gain, ONE, Ticks};
use crate::limits::{self, Checked};
use crate::path::{DropCause, MarkCause, Packet};
use crate::units::Time;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

/// Parameters of PIE (RFC 8033). Packets are dropped, or marked, when they enter the queue.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pie {
    /// Waiting time that is aimed at. RFC 8033, section 4.2: 15 ms.
    pub target_ns: Time,
    /// Time between updates of the probability. RFC 8033, section 4.2: 15 ms.
    pub update_ns: Time,
    /// Gain of the deviation from the target, in 1/s. RFC 8033, section 4.2: 1/8.
    pub alpha: f64,
    /// Gain of the change since the last update, in 1/s. RFC 8033, section 4.2: 1.25.
    pub beta: f64,
    /// How long nothing is dropped after the queue was short. RFC 8033, section 4.4: 150 ms.
    pub max_burst_ns: Time,
    /// Whether ECN-capable packets are marked in place of being dropped while the probability is low.
    pub ecn: bool,
    /// Probability from which ECN-capable packets are dropped too. RFC 8033, section 5.1: 10 %.
    pub mark_below: f64,
}

impl Default for Pie {
    fn default() -> Self {
        Pie {
            target_ns: Time::from_millis(15),
            update_ns: Time::from_millis(15),
            alpha: 0.125,
            beta: 1.25,
            max_burst_ns: Time::from_millis(150),
            ecn: false,
            mark_below: 0.1,
        }
    }
}

impl Pie {
    pub(super) fn check(&self) -> Checked {
        limits::duration("target_ns", self.target_ns)?;
        limits::duration("update_ns", self.update_ns)?;
        Gain::check("alpha", self.alpha)?;
        Gain::check("beta", self.beta)?;
        limits::time("max_burst_ns", self.max_burst_ns)?;
        limits::number("mark_below", self.mark_below, (0.0, 1.0))
    }
}

/// Probabilities below which the gains are divided by a power of two, given as its exponent (RFC 8033, section 4.2).
const BANDS: [(i64, u32); 6] = [
    (ONE / 1_000_000, 11),
    (ONE / 100_000, 9),
    (ONE / 10_000, 7),
    (ONE / 1_000, 5),
    (ONE / 100, 3),
    (ONE / 10, 1),
];
/// From this probability on, an update adds at most [`MOST_ADDED`] (RFC 8033, section 5.5).
const LIMITED_FROM: i64 = ONE / 10;
const MOST_ADDED: i128 = ONE as i128 / 50;
/// Above this waiting time, an update adds [`MOST_ADDED`] on top (RFC 8033, section 5.5).
const EXTREME: Time = Time::from_millis(250);
/// Part of the probability by which it decays while nothing waits (RFC 8033, section 4.2).
const DECAY: i64 = 50;
/// Below this probability nothing is dropped after a short delay (RFC 8033, section 4.1).
const SAFE: i64 = ONE / 5;
/// Sum of probabilities below which nothing is dropped, so that drops are not too close (RFC 8033, section 5.4).
const LEAST_SUM: i64 = ONE / 100 * 85;
/// Sum of probabilities from which a packet is dropped for certain (RFC 8033, section 5.4).
const MOST_SUM: i64 = ONE / 2 * 17;

/// The controller.
#[derive(Clone, Copy, Debug, PartialEq)]
struct PieController {
    /// Probability of a drop.
    p: i64,
    /// Waiting time at the last update.
    old: Time,
    /// Time for which nothing is dropped yet.
    burst: Time,
}

impl PieController {
    /// The range of probabilities with the same gains as `p`, and the exponent of their divisor.
    fn band(p: i64) -> (i64, i64, u32) {
        let mut low = 0;
        for (high, shift) in BANDS {
            if p < high {
                return (low, high, shift);
            }
            low = high;
        }
        (low, ONE, 0)
    }

    /// What an update adds to the probability.
    fn step(&self, rules: &Pie, delay: Time) -> i128 {
        let error = Gain::new(rules.alpha).times(delay, rules.target_ns);
        let change = Gain::new(rules.beta).times(delay, self.old);
        let mut step = (error + change) / (1 << PieController::band(self.p).2);
        if self.p >= LIMITED_FROM {
            step = step.min(MOST_ADDED);
        }
        if delay > EXTREME {
            step += MOST_ADDED;
        }
        step
    }

    /// Makes `count` updates, at least one, with the same waiting time.
    fn update(&mut self, rules: &Pie, delay: Time, mut count: u64) {
        while count > 0 {
            let before = *self;
            let step = self.step(rules, delay);
            // As long as the step is the same, all updates are one.
            let (low, high, _) = PieController::band(self.p);
            let is_idle = delay == Time::ZERO && self.old == delay;
            let same = match step {
                _ if self.old != delay || (is_idle && self.p > 0) => 1,
                ..0 if self.p == 0 => i128::MAX,
                1.. if self.p == ONE => i128::MAX,
                0 => i128::MAX,
                1.. => i128::from(high - self.p) / step,
                _ => i128::from(self.p - low) / -step,
            };
            let updates = same.clamp(1, count.into()) as u64;
            count -= updates;
            let p = i128::from(self.p).saturating_add(step.saturating_mul(updates.into()));
            self.p = p.clamp(0, ONE.into()) as i64;
            if is_idle {
                self.p -= (self.p + DECAY - 1) / DECAY;
            }
            let short = rules.target_ns.0 / 2;
            if self.p == 0 && delay.0 < short && self.old.0 < short {
                self.burst = rules.max_burst_ns;
            } else {
                let passed = rules.update_ns.0.saturating_mul(updates);
                self.burst = self.burst.saturating_sub(Time(passed));
            }
            self.old = delay;
            if *self == before {
                return;
            }
        }
    }
}

/// A queue under PIE.
pub(super) struct PieQueue<P> {
    rules: Pie,
    control: PieController,
    ticks: Ticks,
    /// Waiting time of the packet that left last; 0 if none waits.
    delay: Time,
    /// Sum of the probabilities since the last drop or mark.
    sum: i64,
    rng: Pcg64Mcg,
    pub(super) fifo: Fifo<P>,
}

impl<P> PieQueue<P> {
    pub(super) fn new(now: Time, rules: Pie, seed: u64) -> Self {
        PieQueue {
            control: PieController { p: 0, old: Time::ZERO, burst: rules.max_burst_ns },
            ticks: Ticks::new(now, rules.update_ns),
            rules,
            delay: Time::ZERO,
            sum: 0,
            rng: Pcg64Mcg::seed_from_u64(seed ^ 0x7069_6500),
            fifo: Fifo::default(),
        }
    }

    pub(super) fn set(&mut self, now: Time, rules: Pie) {
        self.catch_up(now);
        self.ticks.set(now, rules.update_ns);
        self.rules = rules;
    }

    /// Makes the updates by `now`. The waiting time was the same at all of them.
    #[inline]
    fn catch_up(&mut self, now: Time) {
        if let Some((_, count)) = self.ticks.by(now) {
            self.control.update(&self.rules, self.delay, count);
        }
    }

    #[inline]
    pub(super) fn enqueue(&mut self, mut waiting: QueuedPacket<P>, moment: &mut Moment<P>) {
        self.catch_up(moment.now);
        if self.acts() {
            let may_mark =
                self.rules.ecn && (self.control.p as f64) < self.rules.mark_below * ONE as f64;
            if !(may_mark && moment.mark(&mut waiting.packet, MarkCause::Classic)) {
                return moment.drop(DropCause::Aqm, waiting.packet);
            }
        }
        self.fifo.push(waiting);
    }

    /// Whether a packet that arrives is to be dropped or marked.
    fn acts(&mut self) -> bool {
        let PieController { p, old, burst } = self.control;
        let was_short = old.0 < self.rules.target_ns.0 / 2;
        let is_safe = (was_short && p < SAFE) || self.fifo.bytes().0 <= 2 * MTU.0;
        if burst > Time::ZERO || is_safe {
            return false;
        }
        self.sum = if p == 0 { 0 } else { self.sum + p };
        if self.sum < LEAST_SUM {
            return false;
        }
        let acts = self.sum >= MOST_SUM || self.rng.random::<f64>() * (ONE as f64) < p as f64;
        if acts {
            self.sum = 0;
        }
        acts
    }

    #[inline]
    pub(super) fn dequeue(&mut self, moment: &Moment<P>) -> Option<(Packet<P>, Time)> {
        self.catch_up(moment.now);
        let (packet, queued) = moment.served(self.fifo.pop()?);
        self.delay = if self.fifo.len() == 0 { Time::ZERO } else { queued };
        Some((packet, queued))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn control(share: f64, old_ms: u64) -> PieController {
        PieController {
            p: (share * ONE as f64) as i64,
            old: Time::from_millis(old_ms),
            burst: Time::ZERO,
        }
    }

    /// By how much an update at this waiting time changes the probability.
    fn added(share: f64, old_ms: u64, delay_ms: u64) -> f64 {
        let mut after = control(share, old_ms);
        after.update(&Pie::default(), Time::from_millis(delay_ms), 1);
        (after.p - control(share, old_ms).p) as f64 / ONE as f64
    }

    #[test]
    fn an_update_adds_the_gains_times_the_error_and_the_change_divided_as_the_probability_is_low() {
        // From 15 to 25 ms: 0.125 * 0.010 + 1.25 * 0.010 = 0.01375.
        let full = 0.013_75;
        let cases =
            [(0.2, 1), (0.05, 2), (5e-3, 8), (5e-4, 32), (5e-5, 128), (5e-6, 512), (5e-7, 2048)];
        for (share, divisor) in cases {
            let (found, expected) = (added(share, 15, 25), full / f64::from(divisor));
            assert!((found - expected).abs() < 1e-12, "{share}: {found} instead of {expected}");
        }
    }

    #[test]
    fn an_update_adds_two_percent_at_most_and_two_more_in_an_extreme_queue() {
        // From 0 to 100 ms: 0.125 * 0.085 + 1.25 * 0.1 = 0.135 625; half of it below 10 %, 2 % above.
        assert!((added(0.05, 0, 100) - 0.135_625 / 2.0).abs() < 1e-9);
        assert!((added(0.5, 0, 100) - 0.02).abs() < 1e-9);
        assert!((added(0.5, 0, 251) - 0.04).abs() < 1e-9);
        assert!((added(0.5, 0, 250) - 0.02).abs() < 1e-9);
    }

    #[test]
    fn the_probability_decays_only_while_nothing_waits() {
        // The error alone is -0.125 * 0.015 = -0.001 875.
        assert!((added(0.5, 0, 0) - (0.498_125 * 0.98 - 0.5)).abs() < 1e-9);
        // With a change of 1 ms on top, 0.125 * -0.014 + 1.25 * 0.001, nothing decays.
        assert!((added(0.5, 0, 1) + 0.000_5).abs() < 1e-9);
    }

    #[test]
    fn bursts_are_allowed_again_when_the_probability_is_zero_and_the_queue_short_twice() {
        let rules = Pie::default();
        for (old, delay, expected_ms) in [(7, 7, 150), (8, 0, 0), (0, 8, 0)] {
            let mut control = PieController { old: Time::from_millis(old), ..control(0.0, 0) };
            control.update(&rules, Time::from_millis(delay), 1);
            assert_eq!(control.burst, Time::from_millis(expected_ms), "{old} {delay}");
        }
        let mut control = PieController { burst: Time::from_millis(150), ..control(0.3, 20) };
        control.update(&rules, Time::from_millis(20), 9);
        assert_eq!(control.burst, Time::from_millis(15));
    }

    proptest! {
        #[test]
        fn many_updates_at_once_are_as_many_single_ones(
            share in prop_oneof![0.0..1.0f64, 0.0..1e-3, Just(0.0), Just(1.0)], old_us in 0u64..400_000,
            delay_us in prop_oneof![Just(0u64), 0u64..400_000], same: bool, count in 1u64..3_000,
            alpha in prop_oneof![Just(0.0), 0.0..1.0f64], beta in 0.0..10.0f64, burst_ms in 0u64..300,
        ) {
            let rules = Pie { alpha, beta, ..Pie::default() };
            let delay = Time::from_micros(if same { old_us } else { delay_us });
            let p = (share * ONE as f64) as i64;
            let begin = PieController { p, old: Time::from_micros(old_us), burst: Time(burst_ms * MS) };
            let (mut at_once, mut single) = (begin, begin);
            at_once.update(&rules, delay, count);
            (0..count).for_each(|_| single.update(&rules, delay, 1));
            prop_assert_eq!(at_once, single);
        }

        #[test]
        fn an_eternity_of_updates_ends(
            share in 0.0..=1.0f64, delay_ns in prop_oneof![Just(0u64), 0u64..u64::MAX], alpha in 0.0..1.0f64,
        ) {
            let rules = Pie { alpha, update_ns: Time(1), ..Pie::default() };
            let mut control = PieController { burst: Time(u64::MAX), ..control(share, 0) };
            control.update(&rules, Time(delay_ns), u64::MAX);
            prop_assert!((0..=ONE).contains(&control.p));
        }
    }
}
