//! `DualPI2`: one queue for L4S traffic, which is marked early, and one for classic traffic, whose drops and marks are
//! coupled to it so that flows of both get about the same rate.
//!
//! Source: RFC 9332, sections 2.4 and 2.5 and appendix A. The scheduler is the one of Linux (`net/sched/sch_dualpi2.c`): weighted
//! round robin by credits.

use super::fifo::{Fifo, MTU, Moment, QueuedPacket};
use super::ticks::{Gain, ONE, Ticks};
use crate::ecn::Ecn;
use crate::limits::{self, Checked};
use crate::path::{DropCause, MarkCause, Packet};
use crate::units::{Bytes, Time};
use serde::{Deserialize, Serialize};

/// Parameters of `DualPI2` (RFC 9332, appendix A). Packets are dropped, or marked, when they leave the queue.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DualPi2 {
    /// Waiting time of classic traffic that is aimed at. RFC 9332, appendix A.1: 15 ms.
    pub target_ns: Time,
    /// Time between updates of the probability. RFC 9332, appendix A.1, and Linux: 16 ms.
    pub update_ns: Time,
    /// Gain of the deviation from the target, in 1/s. RFC 9332, appendix A.1: 0.16.
    pub alpha: f64,
    /// Gain of the change since the last update, in 1/s. Linux has 3.2, RFC 9332, appendix A.1, has 3.0.
    pub beta: f64,
    /// Marking probability of L4S traffic per square root of the one of classic traffic. RFC 9332, appendix A.1: 2.
    pub coupling: f64,
    /// Waiting time up to which L4S traffic is not marked for its own queue. RFC 9332, appendix A.1: 0.8 ms.
    pub step_min_ns: Time,
    /// Waiting time from which all L4S traffic is marked. RFC 9332, appendix A.1: 1.2 ms. Equal to `step_min_ns`, it is
    /// a step.
    pub step_max_ns: Time,
    /// Least share of the bytes that classic traffic gets while both wait. Linux: 10 %.
    pub c_share: f64,
    /// Whether all traffic is dropped on overload, from a coupled probability of 1 on. Without it, ECN-capable packets
    /// are only marked, and the queue grows to its limit (Linux: `drop_on_overload`, `overflow`).
    pub drop_overload: bool,
}

impl Default for DualPi2 {
    fn default() -> Self {
        DualPi2 {
            target_ns: Time::from_millis(15),
            update_ns: Time::from_millis(16),
            alpha: 0.16,
            beta: 3.2,
            coupling: 2.0,
            step_min_ns: Time::from_micros(800),
            step_max_ns: Time::from_micros(1_200),
            c_share: 0.1,
            drop_overload: true,
        }
    }
}

/// Largest coupling: Linux keeps it in a byte.
const MOST_COUPLING: f64 = 255.0;
/// Parts of the bytes by which the scheduler counts.
const PARTS: i64 = 1_000;
/// A packet uses up at most the credits of the longest that IP knows.
const LONGEST: Bytes = Bytes(65_535);

impl DualPi2 {
    pub(super) fn check(&self) -> Checked {
        limits::duration("target_ns", self.target_ns)?;
        limits::duration("update_ns", self.update_ns)?;
        Gain::check("alpha", self.alpha)?;
        Gain::check("beta", self.beta)?;
        limits::number("coupling", self.coupling, (0.0, MOST_COUPLING))?;
        limits::time("step_min_ns", self.step_min_ns)?;
        limits::time("step_max_ns", self.step_max_ns)?;
        let (min, max) = (self.step_min_ns, self.step_max_ns);
        let expected = format!("at least the minimum of {} ns", min.0);
        limits::require(min <= max, "step_max_ns", format_args!("{} ns", max.0), expected)?;
        limits::number("c_share", self.c_share, (0.0, 1.0))
    }

    /// Parts of the bytes for classic traffic.
    fn c_parts(&self) -> i64 {
        (self.c_share * PARTS as f64).round_ties_even() as i64
    }

    /// Largest base probability.
    fn most(&self) -> i64 {
        match self.drop_overload || self.coupling <= 1.0 {
            true => ONE,
            false => (ONE as f64 / self.coupling) as i64,
        }
    }

    /// Probability with which a packet is marked that has waited for `queued` in the queue of L4S traffic.
    #[inline]
    fn native(&self, queued: Time) -> u64 {
        let DualPi2 { step_min_ns, step_max_ns, .. } = *self;
        if queued <= step_min_ns {
            0
        } else if queued >= step_max_ns {
            CERTAIN
        } else {
            let (above, range) = (queued - step_min_ns, step_max_ns - step_min_ns);
            (u128::from(above.0) * u128::from(CERTAIN) / u128::from(range.0)) as u64
        }
    }
}

/// The probability 1 of a decision about a packet.
const CERTAIN: u64 = 1 << 32;

/// Decides with a probability for each packet, evenly in place of at random (`recur` in RFC 9332, appendix A.1).
#[derive(Clone, Copy, Default)]
struct Evenly(u64);

impl Evenly {
    /// At least so that a probability of 1 is always.
    #[inline]
    fn acts(&mut self, probability: u64) -> bool {
        self.0 += probability;
        let acts = self.0 >= CERTAIN;
        if acts {
            self.0 -= CERTAIN;
        }
        acts
    }
}

/// The controller, and the probabilities that follow from it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct CoupledController {
    /// Base probability p'.
    base: i64,
    /// Waiting time at the last update.
    old: Time,
    /// Of classic traffic: p' squared.
    classic: u64,
    /// Of L4S traffic: p' times the coupling, at most 1.
    coupled: u64,
    is_overload: bool,
}

impl CoupledController {
    /// Makes `count` updates, at least one, the first when a packet has waited for `delay`. Until the next one it waits
    /// for `growth` more.
    fn update(&mut self, rules: &DualPi2, delay: Time, growth: Time, count: u64) {
        let (alpha, beta) = (Gain::new(rules.alpha), Gain::new(rules.beta));
        let step =
            |delay: Time, old: Time| alpha.times(delay, rules.target_ns) + beta.times(delay, old);
        self.add(rules, step(delay, self.old), 0, 1);
        if count > 1 {
            let second = delay.saturating_add(growth);
            self.add(rules, step(second, delay), alpha.times(growth, Time::ZERO), count - 1);
        }
        self.old = delay.saturating_add(Time(growth.0.saturating_mul(count - 1)));
        self.derive(rules);
    }

    /// Adds `count` steps to the base probability: the first one, and each time `slope` more, which is not negative.
    /// After each of them the probability is between 0 and the largest.
    fn add(&mut self, rules: &DualPi2, first: i128, slope: i128, count: u64) {
        let count = i128::from(count);
        let sum = |from: i128, to: i128| {
            let ends = first.saturating_mul(2).saturating_add(slope.saturating_mul(from + to - 1));
            if from < to { ends.saturating_mul(to - from) / 2 } else { 0 }
        };
        // Negative steps come first, so that it stays at 0, if it gets there, until the first positive one.
        let falling = match (first, slope) {
            (0.., _) => 0,
            (_, 0) => count,
            _ => ((-first + slope - 1) / slope).min(count),
        };
        let lowest = i128::from(self.base).saturating_add(sum(0, falling)).max(0);
        let base = lowest.saturating_add(sum(falling, count));
        self.base = base.min(rules.most().into()) as i64;
    }

    fn derive(&mut self, rules: &DualPi2) {
        let base = self.base as f64 / ONE as f64;
        self.classic = (base * base * CERTAIN as f64) as u64;
        self.coupled = ((base * rules.coupling).min(1.0) * CERTAIN as f64) as u64;
        // The largest probability of classic traffic is min(1 / coupling^2, 1).
        let is_saturated = self.base >= ONE || base * rules.coupling >= 1.0;
        self.is_overload = rules.drop_overload && is_saturated;
    }
}

/// The two queues under `DualPI2`.
pub(super) struct DualPi2Queue<P> {
    rules: DualPi2,
    control: CoupledController,
    ticks: Ticks,
    low_latency: Fifo<P>,
    classic: Fifo<P>,
    /// Parts of bytes that classic traffic is ahead: above 0 it has the next turn.
    credit: i64,
    l_marks: Evenly,
    l_drops: Evenly,
    c_acts: Evenly,
}

impl<P> DualPi2Queue<P> {
    pub(super) fn new(now: Time, rules: DualPi2) -> Self {
        DualPi2Queue {
            control: CoupledController::default(),
            ticks: Ticks::new(now, rules.update_ns),
            low_latency: Fifo::default(),
            classic: Fifo::default(),
            credit: first_credit(&rules),
            rules,
            l_marks: Evenly::default(),
            l_drops: Evenly::default(),
            c_acts: Evenly::default(),
        }
    }

    pub(super) fn set(&mut self, now: Time, rules: DualPi2) {
        self.catch_up(now);
        self.ticks.set(now, rules.update_ns);
        self.rules = rules;
        self.control.base = self.control.base.min(rules.most());
        self.control.derive(&rules);
    }

    pub(super) fn len(&self) -> usize {
        self.low_latency.len() + self.classic.len()
    }

    pub(super) fn bytes(&self) -> Bytes {
        self.low_latency.bytes() + self.classic.bytes()
    }

    pub(super) fn drain(&mut self) -> Vec<QueuedPacket<P>> {
        [self.low_latency.drain(), self.classic.drain()].into_iter().flatten().collect()
    }

    /// Makes the updates by `now`, with the waiting time of the packet that waits longest.
    #[inline]
    fn catch_up(&mut self, now: Time) {
        if let Some((first, count)) = self.ticks.by(now) {
            self.update(first, count);
        }
    }

    fn update(&mut self, first: Time, count: u64) {
        let heads = [self.low_latency.oldest(), self.classic.oldest()];
        let (delay, growth) = match heads.into_iter().flatten().min() {
            Some(oldest) => (first.saturating_sub(oldest), self.rules.update_ns),
            None => (Time::ZERO, Time::ZERO),
        };
        self.control.update(&self.rules, delay, growth, count);
    }

    #[inline]
    pub(super) fn enqueue(&mut self, waiting: QueuedPacket<P>) {
        self.catch_up(waiting.entered);
        self.insert(waiting);
    }

    /// Puts a packet at the end of its queue.
    #[inline]
    pub(super) fn insert(&mut self, waiting: QueuedPacket<P>) {
        match waiting.packet.ecn {
            Ecn::Ect1 | Ecn::CongestionExperienced => self.low_latency.push(waiting),
            Ecn::Ect0 | Ecn::NotCapable => self.classic.push(waiting),
        }
    }

    #[inline]
    pub(super) fn dequeue(&mut self, moment: &mut Moment<P>) -> Option<(Packet<P>, Time)> {
        self.catch_up(moment.now);
        loop {
            let (l_waits, c_waits) = (self.low_latency.len() > 0, self.classic.len() > 0);
            if !(l_waits || c_waits) {
                self.credit = first_credit(&self.rules);
                return None;
            }
            let is_l = l_waits && (!c_waits || self.credit <= 0);
            let fifo = if is_l { &mut self.low_latency } else { &mut self.classic };
            let (mut packet, queued) = moment.served(fifo.pop()?);
            let is_dropped = match is_l {
                true => self.is_l_dropped(moment, &mut packet, queued),
                false => self.is_c_dropped(moment, &mut packet),
            };
            if is_dropped {
                moment.drop(DropCause::Aqm, packet);
                continue;
            }
            let size = packet.size.min(LONGEST).0 as i64;
            match is_l {
                true if c_waits => self.credit += self.rules.c_parts() * size,
                false if l_waits => self.credit -= (PARTS - self.rules.c_parts()) * size,
                _ => {}
            }
            return Some((packet, queued));
        }
    }

    /// Marks a packet of L4S traffic if it must; returns whether to drop it.
    #[inline]
    fn is_l_dropped(&mut self, moment: &Moment<P>, packet: &mut Packet<P>, queued: Time) -> bool {
        let CoupledController { classic, coupled, is_overload, .. } = self.control;
        if is_overload && self.l_drops.acts(classic) {
            return true;
        }
        // A single packet is none: at low rates each waits longer than the threshold for the one in service.
        let native = if self.low_latency.len() > 0 { self.rules.native(queued) } else { 0 };
        if self.l_marks.acts(native.max(coupled)) {
            let is_native = native >= coupled;
            let cause = if is_native { MarkCause::Threshold } else { MarkCause::Coupled };
            moment.mark(packet, cause);
        }
        false
    }

    /// Marks a packet of classic traffic if it must and can; returns whether to drop it.
    #[inline]
    fn is_c_dropped(&mut self, moment: &Moment<P>, packet: &mut Packet<P>) -> bool {
        let CoupledController { classic, is_overload, .. } = self.control;
        self.c_acts.acts(classic) && (is_overload || !moment.mark(packet, MarkCause::Classic))
    }
}

/// Credit of classic traffic when a busy period begins: L4S traffic goes first.
fn first_credit(rules: &DualPi2) -> i64 {
    MTU.0 as i64 * (2 * rules.c_parts() - PARTS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NEVER: Time = Time::ZERO;

    fn share(p: i64) -> f64 {
        p as f64 / ONE as f64
    }

    fn percent(probability: u64) -> f64 {
        probability as f64 / CERTAIN as f64 * 100.0
    }

    fn control(rules: &DualPi2, base: f64, old: Time) -> CoupledController {
        let mut control = CoupledController {
            base: (base * ONE as f64) as i64,
            old,
            ..CoupledController::default()
        };
        control.derive(rules);
        control
    }

    #[test]
    fn a_sample_of_20_ms_makes_13_percent_of_coupled_marks() {
        // 0.16 * (0.020 - 0.015) + 3.2 * 0.020 = 0.0648; squared 0.42 %, times two 12.96 %
        let rules = DualPi2::default();
        let mut control = CoupledController::default();
        control.update(&rules, Time::from_millis(20), NEVER, 1);
        assert!((share(control.base) - 0.0648).abs() < 1e-7, "{}", share(control.base));
        assert!((percent(control.classic) - 0.4199).abs() < 1e-4);
        assert!((percent(control.coupled) - 12.96).abs() < 1e-4);
        // Then 0.16 * 0.005 = 0.0008 each time.
        control.update(&rules, Time::from_millis(20), NEVER, 10);
        assert!((share(control.base) - 0.0728).abs() < 1e-7, "{}", share(control.base));
    }

    #[test]
    fn at_a_base_of_a_half_all_l4s_traffic_is_marked_and_a_quarter_of_the_classic() {
        let rules = DualPi2::default();
        for (base, overloads) in [(0.499_999, false), (0.5, true)] {
            let control = control(&rules, base, Time::ZERO);
            assert!((percent(control.classic) - 25.0).abs() < 1e-3);
            assert!((percent(control.coupled) - 100.0).abs() < 1e-3);
            assert_eq!(control.is_overload, overloads);
        }
        // Without drops on overload the base goes no higher.
        let rules = DualPi2 { drop_overload: false, ..rules };
        let mut control = CoupledController::default();
        control.update(&rules, Time::from_secs(10), NEVER, 1);
        assert_eq!(share(control.base), 0.5);
        assert!(!control.is_overload);
    }

    #[test]
    fn the_ramp_of_l4s_traffic_goes_from_0_8_to_1_2_ms() {
        let rules = DualPi2::default();
        let cases =
            [(0, 0.0), (800, 0.0), (900, 25.0), (1_000, 50.0), (1_200, 100.0), (9_000, 100.0)];
        for (us, expected) in cases {
            assert!((percent(rules.native(Time::from_micros(us))) - expected).abs() < 1e-6, "{us}");
        }
        let step = DualPi2 { step_min_ns: Time(1_000), step_max_ns: Time(1_000), ..rules };
        let at = [1_000, 1_001].map(|ns| percent(step.native(Time(ns))));
        assert_eq!(at, [0.0, 100.0]);
    }

    #[test]
    fn decisions_are_spread_evenly() {
        let mut third = Evenly::default();
        let acts: Vec<_> = (0..9).map(|_| third.acts(CERTAIN.div_ceil(3))).collect();
        assert_eq!(acts, [false, false, true].repeat(3));
        let mut certain = Evenly::default();
        assert!((0..10).all(|_| certain.acts(CERTAIN)));
    }

    proptest! {
        #[test]
        fn many_updates_at_once_are_as_many_single_ones(
            base in 0.0..=1.0f64, old_us in 0u64..400_000, delay_us in 0u64..400_000, grows: bool,
            count in 1u64..3_000, alpha in prop_oneof![Just(0.0), 0.0..1.0f64, 0.0..1e-3], beta in 0.0..10.0f64,
            coupling in 0.0..5.0f64, drop_overload: bool,
        ) {
            let rules = DualPi2 { alpha, beta, coupling, drop_overload, ..DualPi2::default() };
            let growth = if grows { rules.update_ns } else { Time::ZERO };
            let mut at_once = control(&rules, base.min(share(rules.most())), Time::from_micros(old_us));
            let mut single = at_once;
            let delay = Time::from_micros(delay_us);
            at_once.update(&rules, delay, growth, count);
            for number in 0..count {
                single.update(&rules, delay + growth * number, Time::ZERO, 1);
            }
            prop_assert_eq!(at_once, single);
        }

        #[test]
        fn no_number_is_too_large(delay: u64, old: u64, growth: u64, count in 1u64.., gain in 0.0..1e3f64) {
            let rules = DualPi2 { alpha: gain, beta: gain, ..DualPi2::default() };
            let mut control = CoupledController { old: Time(old), ..CoupledController::default() };
            control.update(&rules, Time(delay), Time(growth), count);
            prop_assert!((0..=ONE).contains(&control.base));
        }
    }
}
