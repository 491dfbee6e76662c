//! Random loss: independent, or in bursts (Gilbert-Elliott).

use crate::limits::{self, Checked};
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

/// A Markov chain with the states good and bad, stepped once per packet.
///
/// Stationary loss ratio: `r/(p+r) * (1-k) + p/(p+r) * (1-h)`. With `k = 1` and `h = 0` (simple
/// Gilbert) bursts last `1/r` packets on average. Independent loss of ratio q is
/// [`Loss::independent`]`(q)`.
///
/// The chain starts in the bad state with its stationary probability, `p/(p+r)`, at the beginning of a
/// run and whenever its parameters change. Its state before the change has no influence. With `p = 0` it
/// is never in the bad state and loses the fraction `1-k` of all packets.
///
/// Source: Gilbert 1960, Elliott 1963; letters as in Hasslinger and Hohlfeld 2008.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Loss {
    /// Probability of going from good to bad, per packet.
    pub p: f64,
    /// Probability of going from bad to good, per packet.
    pub r: f64,
    /// Probability that a packet survives in the bad state.
    pub h: f64,
    /// Probability that a packet survives in the good state.
    pub k: f64,
}

impl Loss {
    /// Loses every packet with probability `ratio`, independently of the others.
    pub const fn independent(ratio: f64) -> Self {
        Loss { p: 0.0, r: 1.0, h: 1.0 - ratio, k: 1.0 - ratio }
    }

    pub(super) fn check(&self) -> Checked {
        let probabilities = [("p", self.p), ("r", self.r), ("h", self.h), ("k", self.k)];
        probabilities.iter().try_for_each(|(name, value)| limits::number(name, *value, (0.0, 1.0)))
    }

    /// Stationary loss ratio.
    pub fn ratio(&self) -> f64 {
        let total = self.p + self.r;
        let bad = if total > 0.0 { self.p / total } else { 0.0 };
        (1.0 - bad) * (1.0 - self.k) + bad * (1.0 - self.h)
    }
}

pub(super) struct LossProcess {
    loss: Option<Loss>,
    bad: bool,
    rng: Pcg64Mcg,
}

impl LossProcess {
    pub(super) fn new(loss: Option<Loss>, seed: u64) -> Self {
        let mut process = LossProcess { loss, bad: false, rng: Pcg64Mcg::seed_from_u64(seed) };
        process.start_in_equilibrium();
        process
    }

    /// Replaces the chain, unless the parameters are the same.
    pub(super) fn set(&mut self, loss: Option<Loss>) {
        if self.loss != loss {
            self.loss = loss;
            self.start_in_equilibrium();
        }
    }

    /// Decides whether the next packet is lost.
    pub(super) fn loses(&mut self) -> bool {
        let Some(Loss { p, r, h, k }) = self.loss else { return false };
        let survives = if self.bad { h } else { k };
        let lost = self.rng.random::<f64>() >= survives;
        // With p = 0 the chain stays in the good state, in which it started.
        if p > 0.0 {
            let leave = if self.bad { r } else { p };
            self.bad ^= self.rng.random::<f64>() < leave;
        }
        lost
    }

    fn start_in_equilibrium(&mut self) {
        self.bad = match self.loss {
            Some(Loss { p, r, .. }) if p > 0.0 => self.rng.random::<f64>() < p / (p + r),
            _ => false,
        };
        // An unused draw: without it, every seed would lose different packets than in earlier versions.
        let _ = self.rng.next_u32();
    }
}
