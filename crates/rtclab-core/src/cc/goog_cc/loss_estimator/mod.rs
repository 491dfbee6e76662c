//! Loss-based estimate: the rate that explains best what was lost at which rates.
//!
//! A candidate is a rate and an inherent loss. Loss at sending rates above the candidate's rate is due to
//! congestion; the rest is inherent in the path. The candidate of maximum likelihood wins, with a preference for
//! high rates. Source: libwebrtc 39fcc21366 (March 2026), `loss_based_bwe_v2.cc`.

mod config;
mod samples;
#[cfg(test)]
mod tests;

use super::arithmetic::{INFINITE, KBPS, scale, thousands};
use super::packet::PacketResult;
use samples::LossSamples;

pub(super) use config::LossEstimatorConfig;

/// libwebrtc, kCongestionControllerMinBitrate.
const LOWEST_RATE: i64 = 5 * KBPS;
/// Bounds of a probability of loss, so that its logarithm is finite.
const PROBABILITY: (f64, f64) = (1e-6, 1.0 - 1e-6);

/// What limits the rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum LossState {
    /// The delay-based estimate, or nothing.
    #[default]
    DelayBased,
    /// Loss, and the estimate grows.
    Increasing,
    /// Loss, and the estimate grows while padding fills the rate.
    IncreasingUsingPadding,
    /// Loss, and the estimate falls or is held.
    Decreasing,
}

/// A rate in bit/s and the loss inherent in the path.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    rate: i64,
    inherent: f64,
}

/// An observation as it enters the likelihood, with amounts in kilobytes or packets.
#[derive(Clone, Copy, Debug)]
struct Sample {
    rate: i64,
    sent: f64,
    lost: f64,
    received: f64,
    weight: f64,
}

/// The time after a decrease in which the estimate stays at or below a rate.
#[derive(Clone, Copy, Debug)]
struct Hold {
    end: i64,
    /// Length of the next hold.
    length: i64,
    rate: i64,
}

/// The loss-based estimator.
#[derive(Clone, Debug)]
pub(super) struct LossEstimator {
    config: LossEstimatorConfig,
    observations: LossSamples,
    /// The observations as of the last update, for all candidates.
    samples: Vec<Sample>,
    /// Whether none of them has lost anything.
    lossless: bool,
    /// Mean loss over the observations.
    loss: f64,
    /// Upper bound from the loss, once something was observed.
    upper: Option<i64>,
    lower: i64,
    min: i64,
    max: i64,
    acked: Option<i64>,
    /// Delay-based estimate; infinite if there is none.
    delay: i64,
    /// The best candidate; `None` before the first delay-based estimate.
    best: Option<Candidate>,
    result: i64,
    state: LossState,
    hold: Hold,
    /// Rate and start of the padding after an increase.
    padding: Option<(i64, i64)>,
    /// Start of the increase window, and the most that the estimate may grow to in it.
    increase: Option<(i64, i64)>,
}

impl LossEstimator {
    /// An estimator without bounds.
    pub(super) fn new(config: &LossEstimatorConfig) -> Self {
        LossEstimator {
            observations: LossSamples::new(config),
            samples: Vec::with_capacity(config.window),
            lossless: true,
            loss: 0.0,
            upper: None,
            lower: 0,
            min: 0,
            max: INFINITE,
            acked: None,
            delay: INFINITE,
            best: None,
            result: INFINITE,
            state: LossState::DelayBased,
            hold: Hold { end: i64::MIN, length: config.hold_first, rate: INFINITE },
            padding: None,
            increase: None,
            config: *config,
        }
    }

    /// Sets the bounds of the rate; the maximum may be infinite.
    pub(super) fn set_min_max(&mut self, min: i64, max: i64) {
        (self.min, self.max) = (min, max);
        self.update_lower_bound();
    }

    /// Sets the acknowledged rate.
    pub(super) fn set_acknowledged(&mut self, acked: i64) {
        self.acked = Some(acked);
        self.update_lower_bound();
    }

    /// Sets the estimate, as if it came from the delay.
    #[cfg(test)]
    fn set_estimate(&mut self, rate: i64) {
        self.best = Some(Candidate { rate, inherent: self.config.inherent_loss_start });
        (self.result, self.state) = (rate, LossState::DelayBased);
    }

    /// Whether there are enough observations to use the result.
    pub(super) fn is_ready(&self) -> bool {
        self.best.is_some() && self.observations.count() >= self.config.min_observations
    }

    /// Whether the result is used even in the first seconds of a call.
    pub(super) fn is_ready_at_start(&self) -> bool {
        self.config.at_start && self.is_ready()
    }

    /// The estimate in bit/s: the delay-based one until the estimator is ready.
    pub(super) fn result(&self) -> i64 {
        if self.is_ready() { self.result } else { self.delay }
    }

    /// What limits the rate.
    pub(super) fn state(&self) -> LossState {
        if self.is_ready() { self.state } else { LossState::DelayBased }
    }

    /// Mean fraction lost, without outliers.
    pub(super) fn average_loss(&self) -> f64 {
        self.loss
    }

    /// Upper bound from the loss, in bit/s.
    pub(super) fn upper_bound(&self) -> i64 {
        self.upper.unwrap_or(self.max)
    }

    /// Fraction lost that is not due to congestion.
    pub(super) fn inherent_loss(&self) -> f64 {
        self.best.map_or(self.config.inherent_loss_start, |best| best.inherent)
    }

    /// Takes all packets of a report. `delay` is the delay-based estimate, infinite if there is none; `in_alr`
    /// says whether the application limits the rate.
    pub(super) fn update(&mut self, packets: &[PacketResult], delay: i64, in_alr: bool) {
        self.delay = delay;
        if !self.observations.add(&self.config, packets) {
            return;
        }
        self.update_loss();
        let best = match self.best {
            Some(best) => best,
            None if delay == INFINITE => return,
            None => {
                (self.result, self.state) = (delay, LossState::DelayBased);
                Candidate { rate: delay, inherent: self.config.inherent_loss_start }
            }
        };
        self.collect_samples();
        let mut winner = self.most_likely(best, in_alr);
        if self.config.holds_above_inherent_loss && self.loss > winner.inherent {
            winner.rate = winner.rate.min(best.rate);
        }
        if self.state != LossState::DelayBased {
            winner.rate = self.limit_increase(best.rate, winner.rate);
        }
        let bounded = self.lower.max(winner.rate.min(self.upper_bound()).min(delay));
        if self.config.bounds_best && bounded < winner.rate {
            winner = Candidate { rate: bounded, inherent: 0.0 };
        } else if self.config.lower_bound_by_acked > 0.0 {
            winner.rate = winner.rate.max(self.lower);
        }
        self.best = Some(winner);
        self.decide(winner.rate, bounded);
    }

    fn update_lower_bound(&mut self) {
        let factor = self.config.lower_bound_by_acked;
        let acked = self.acked.filter(|_| factor > 0.0).map_or(0, |acked| scale(acked, factor));
        self.lower = acked.max(self.min);
    }

    fn update_loss(&mut self) {
        let LossEstimatorConfig { upper_bound_loss, upper_bound_balance, .. } = self.config;
        self.loss = self.observations.loss(&self.config);
        self.upper = match self.loss > upper_bound_loss {
            true => {
                Some((upper_bound_balance as f64 / (self.loss - upper_bound_loss)).round() as i64)
            }
            false => Some(self.max),
        };
    }

    fn collect_samples(&mut self) {
        let counts_bytes = self.config.counts_bytes;
        let amount = |amount: i64| match counts_bytes {
            true => amount as f64 / 1_000.0,
            false => amount as f64,
        };
        self.samples.clear();
        self.samples.extend(self.observations.weighted().map(|(observation, weight)| Sample {
            rate: observation.rate,
            sent: amount(observation.sent),
            lost: amount(observation.lost),
            received: amount(observation.sent - observation.lost),
            weight,
        }));
        self.lossless = self.samples.iter().all(|sample| sample.lost == 0.0);
    }

    /// The candidate of maximum likelihood; of equal ones the one with the highest rate.
    fn most_likely(&self, best: Candidate, in_alr: bool) -> Candidate {
        let config = &self.config;
        let acked_counts = config.acked_candidate > 0.0
            && (!in_alr || config.acked_candidate_in_alr || self.padding_runs());
        let acked = self.acked.filter(|_| acked_counts);
        let upper = self.upper_bound();
        let others = [
            acked.map(|acked| scale(acked, config.acked_candidate)),
            Some(self.delay)
                .filter(|delay| config.delay_candidate && *delay != INFINITE && *delay > best.rate),
            Some(upper).filter(|upper| {
                config.upper_bound_candidate_in_alr && in_alr && best.rate > *upper
            }),
        ];
        let limit = match (self.state, self.increase) {
            (LossState::DelayBased, _) | (_, None) => self.max,
            (_, Some((_, limit))) => limit,
        };
        let factors = config.candidate_factors.iter().map(|factor| scale(best.rate, *factor));
        let rates = factors.chain(others.into_iter().flatten());
        let rates = rates.map(|rate| rate.min(best.rate.max(limit)));
        match self.favours_high_rates(best) {
            true => self.highest_of(best, rates),
            false => self.likeliest_of(best, rates),
        }
    }

    /// Whether no candidate can be likelier than one with a higher rate. So it is if nothing was lost and all candidates
    /// have the smallest inherent loss: then congestion explains less at a lower rate, and high rates are preferred.
    fn favours_high_rates(&self, best: Candidate) -> bool {
        let LossEstimatorConfig {
            inherent_loss_min, inherent_loss_max, inherent_loss_balance, ..
        } = self.config;
        let LossEstimatorConfig { bias, log_bias, bias_threshold, bias_smoothing, .. } =
            self.config;
        let same_inherent = best.inherent <= inherent_loss_min
            && inherent_loss_min <= inherent_loss_max
            && inherent_loss_balance >= 0;
        let prefers_high = bias >= 0.0 && log_bias >= 0.0 && bias_smoothing >= 0.0;
        self.lossless && same_inherent && prefers_high && self.loss < bias_threshold
    }

    fn highest_of(&self, best: Candidate, rates: impl Iterator<Item = i64>) -> Candidate {
        rates.max().map_or(best, |rate| self.fit(Candidate { rate, ..best }))
    }

    fn likeliest_of(&self, best: Candidate, rates: impl Iterator<Item = i64>) -> Candidate {
        let (mut winner, mut highest) = (best, f64::NEG_INFINITY);
        for rate in rates {
            let candidate = self.fit(Candidate { rate, ..best });
            let objective = self.objective(candidate);
            if objective > highest || objective == highest && candidate.rate > winner.rate {
                (winner, highest) = (candidate, objective);
            }
        }
        winner
    }

    /// Whether padding follows an increase.
    fn padding_runs(&self) -> bool {
        let last = self.observations.last();
        self.config.padding > 0
            && self.padding.is_some_and(|(_, start)| start + self.config.padding >= last)
    }

    /// Moves the inherent loss of a candidate towards the most likely one.
    fn fit(&self, candidate: Candidate) -> Candidate {
        let feasible = Candidate { inherent: self.feasible(candidate), ..candidate };
        // Without loss, less inherent loss is always likelier.
        match self.lossless && candidate.inherent <= self.config.inherent_loss_min {
            true => feasible,
            false => self.refined(feasible),
        }
    }

    fn refined(&self, candidate: Candidate) -> Candidate {
        let mut fitted = candidate;
        for _ in 0..self.config.newton_steps {
            let (first, second) = self.derivatives(fitted);
            fitted.inherent -= self.config.newton_step_size * first / second;
            fitted.inherent = self.feasible(fitted);
        }
        fitted
    }

    fn feasible(&self, candidate: Candidate) -> f64 {
        let LossEstimatorConfig {
            inherent_loss_min, inherent_loss_max, inherent_loss_balance, ..
        } = self.config;
        let at_rate = inherent_loss_balance as f64 / candidate.rate as f64;
        let most = match candidate.rate {
            0 => 1.0,
            _ => (inherent_loss_max + at_rate).min(1.0),
        };
        candidate.inherent.max(inherent_loss_min).min(most)
    }

    /// First and second derivative of the likelihood by the inherent loss.
    fn derivatives(&self, candidate: Candidate) -> (f64, f64) {
        let (mut first, mut second) = (0.0, 0.0);
        let inherent = probability(candidate, candidate.rate);
        for &Sample { rate, lost, received, weight, .. } in &self.samples {
            // Most observations were sent below the candidate's rate and have its inherent loss.
            let loss = match rate <= candidate.rate {
                true => inherent,
                false => probability(candidate, rate),
            };
            // Most have lost nothing.
            let (by_loss, by_loss_squared) = match lost == 0.0 {
                true => (0.0, 0.0),
                false => (lost / loss, lost / (loss * loss)),
            };
            first += weight * (by_loss - received / (1.0 - loss));
            let kept = 1.0 - loss;
            second -= weight * (by_loss_squared + received / (kept * kept));
        }
        (first, if second >= 0.0 { -1e-6 } else { second })
    }

    /// Logarithm of the likelihood, plus the preference for high rates.
    fn objective(&self, candidate: Candidate) -> f64 {
        let preference = self.preference(candidate.rate);
        let mut objective = 0.0;
        // Most observations have lost nothing.
        let ln_lost = |loss: f64, none: bool| if none { 0.0 } else { libm::log(loss) };
        let logarithms = |loss: f64, none: bool| (ln_lost(loss, none), libm::log(1.0 - loss));
        let inherent = logarithms(probability(candidate, candidate.rate), self.lossless);
        for &Sample { rate, sent, lost, received, weight } in &self.samples {
            let (ln_lost, ln_received) = match rate <= candidate.rate {
                true => inherent,
                false => logarithms(probability(candidate, rate), lost == 0.0),
            };
            objective += weight * (lost * ln_lost + received * ln_received);
            objective += weight * preference * sent;
        }
        objective
    }

    fn preference(&self, rate: i64) -> f64 {
        let LossEstimatorConfig { bias, log_bias, bias_threshold, bias_smoothing, .. } =
            self.config;
        let below = bias_threshold - self.loss;
        let adjusted = |factor: f64| factor * below / (bias_smoothing + below.abs());
        let kbps = thousands(rate) as f64;
        adjusted(bias) * kbps + adjusted(log_bias) * libm::log(1.0 + kbps)
    }

    /// Limits how much the winner is above the last estimate while loss limits the rate.
    fn limit_increase(&self, before: i64, winner: i64) -> i64 {
        let config = &self.config;
        let mut rate = winner;
        if let Some((start, limit)) = self.increase {
            if start + config.increase_window > self.observations.last() {
                rate = rate.min(limit);
            }
        }
        let Some(acked) = self.acked else { return rate };
        if !self.increases(before, rate) {
            return rate;
        }
        let near_hold = self.hold.rate != INFINITE
            && acked < scale(self.hold.rate, config.ramp_up_hold_threshold);
        let factor = if near_hold { config.ramp_up_in_hold } else { config.ramp_up };
        rate = before.max(rate.min(scale(acked, factor)));
        // One bit more makes the state "increasing", so that padding starts.
        let starts = self.state == LossState::Decreasing && rate == before;
        if starts { rate + 1 } else { rate }
    }

    /// Whether a change of the rate is an increase while loss limits the rate.
    fn increases(&self, from: i64, to: i64) -> bool {
        match self.state {
            LossState::DelayBased => false,
            LossState::Decreasing => from < to,
            LossState::Increasing | LossState::IncreasingUsingPadding => from <= to,
        }
    }

    /// Sets result and state for the bounded estimate.
    fn decide(&mut self, best: i64, bounded: i64) {
        let config = self.config;
        let last = self.observations.last();
        let below_delay = bounded < self.delay;
        let by_loss = below_delay && bounded < self.max;
        if self.state == LossState::Decreasing && self.hold.end > last && below_delay {
            if config.lower_bound_by_acked > 0.0 {
                self.hold.rate = self.hold.rate.max(self.lower);
            }
            self.result = self.hold.rate.min(bounded);
            return;
        }
        if by_loss && self.increases(self.result, bounded) && self.may_increase(bounded) {
            if config.padding > 0 && self.padding.is_none_or(|(rate, _)| bounded > rate) {
                self.padding = Some((bounded, last));
            }
            self.state = if config.padding > 0 {
                LossState::IncreasingUsingPadding
            } else {
                LossState::Increasing
            };
        } else if by_loss {
            if self.state != LossState::Decreasing && config.hold_factor > 0.0 {
                let length = self.hold.length;
                let next = scale(length, config.hold_factor).min(config.hold_max);
                self.hold = Hold { end: last + length, length: next, rate: bounded };
            }
            self.padding = None;
            self.state = LossState::Decreasing;
        } else {
            self.hold = Hold { end: i64::MIN, length: config.hold_first, rate: INFINITE };
            self.padding = None;
            self.state = LossState::DelayBased;
        }
        self.result = bounded;
        let window_ends = |(start, _)| start + config.increase_window < last;
        if self.state != LossState::DelayBased && self.increase.is_none_or(window_ends) {
            self.increase = Some((last, LOWEST_RATE.max(scale(best, config.increase_factor))));
        }
    }

    /// Whether the estimate may grow further: not longer than padding lasts at one rate.
    fn may_increase(&self, rate: i64) -> bool {
        self.config.padding == 0
            || self.state != LossState::IncreasingUsingPadding
            || self.padding_runs()
            || self.padding.is_none_or(|(padding, _)| rate > padding)
    }
}

/// Probability that a byte sent at this rate is lost.
fn probability(candidate: Candidate, sending_rate: i64) -> f64 {
    let excess = scale((sending_rate - candidate.rate).max(0), 1.0 - candidate.inherent);
    let congestion = if excess > 0 { excess as f64 / sending_rate as f64 } else { 0.0 };
    (candidate.inherent + congestion).clamp(PROBABILITY.0, PROBABILITY.1)
}
