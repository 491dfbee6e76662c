//! When to probe, and at which rates.
//!
//! Source: libwebrtc bff4a9e71e (August 2026), `probe_controller.cc`.

use super::arithmetic::{INFINITE, KBPS, MS, SECOND, bitrate, bytes_in, scale, time};
use crate::cc::Probe;
use crate::units::Bytes;
use std::collections::VecDeque;

/// A probe goes up to this if there is no maximum (kDefaultMaxProbingBitrate).
const DEFAULT_MAX: i64 = 5_000 * KBPS;
/// A probe goes up to this many times what the streams can use.
const MAX_OF_ALLOCATION: i64 = 2;

/// Parameters of probing. Times are in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::cc) struct ProbeConfig {
    /// First probe, as a multiple of the start rate.
    pub(in crate::cc) first_scale: f64,
    /// Second probe, as a multiple of the start rate; 0 for none.
    pub(in crate::cc) second_scale: f64,
    /// Further probes, as a multiple of the estimate.
    pub(in crate::cc) further_scale: f64,
    /// An estimate above this fraction of the last probe's rate is followed by a further probe.
    pub(in crate::cc) further_threshold: f64,
    /// How long a probe's result is waited for.
    pub(in crate::cc) wait: i64,
    /// Probe while the application limits the rate, as a multiple of the estimate.
    pub(in crate::cc) alr_scale: f64,
    /// Time between such probes.
    pub(in crate::cc) alr_interval: i64,
    /// First probe when the streams can use more, as a multiple of what they can use; 0 for none.
    pub(in crate::cc) first_allocation_scale: f64,
    /// Second such probe; 0 for none.
    pub(in crate::cc) second_allocation_scale: f64,
    /// Such probes are limited to this multiple of the estimate.
    pub(in crate::cc) allocation_limit: f64,
    /// While loss limits a growing estimate, probes are limited to this multiple of it.
    pub(in crate::cc) loss_limited_scale: f64,
    /// A fall of the estimate to less than this fraction is a large drop.
    pub(in crate::cc) drop_threshold: f64,
    /// How long after a large drop a probe may look whether the capacity is back.
    pub(in crate::cc) drop_timeout: i64,
    /// Rate of that probe, as a fraction of the estimate before the drop.
    pub(in crate::cc) drop_scale: f64,
    /// Such a probe is sent only if the estimate is lower than its rate by more than this fraction.
    pub(in crate::cc) drop_uncertainty: f64,
    /// How long after a time of limited rate such a probe is sent.
    pub(in crate::cc) alr_ended: i64,
    /// Probes are skipped while the estimate is above this fraction of the maximum; 0 for never.
    pub(in crate::cc) skip_above: f64,
    /// Smallest number of bursts of a probe.
    pub(in crate::cc) min_bursts: u32,
    /// Duration of a probe.
    pub(in crate::cc) duration: i64,
    /// Smallest time between two bursts of a probe.
    pub(in crate::cc) spacing: i64,
}

impl Default for ProbeConfig {
    fn default() -> Self {
        ProbeConfig {
            first_scale: 3.0,
            second_scale: 6.0,
            further_scale: 2.0,
            further_threshold: 0.7,
            wait: SECOND,
            alr_scale: 2.0,
            alr_interval: 5 * SECOND,
            first_allocation_scale: 1.0,
            second_allocation_scale: 2.0,
            allocation_limit: 2.0,
            loss_limited_scale: 1.5,
            drop_threshold: 0.66,
            drop_timeout: 5 * SECOND,
            drop_scale: 0.85,
            drop_uncertainty: 0.05,
            alr_ended: 3 * SECOND,
            skip_above: 0.0,
            min_bursts: 5,
            duration: 15 * MS,
            spacing: 2 * MS,
        }
    }
}

/// What limits the estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Cause {
    /// The delay grows or shrinks.
    DelayIncreased,
    /// Feedback stays away.
    RttAboveLimit,
    /// Loss.
    LossLimited,
    /// Loss, but the estimate grows.
    LossIncreasing,
    /// The delay-based estimate.
    #[default]
    DelayLimited,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProbingState {
    /// Nothing was probed yet.
    Init,
    /// An estimate above this rate is followed by a further probe.
    Waiting(i64),
    Complete,
}

/// Decides on probes. Every method that may start probes appends them to `out`.
#[derive(Clone, Debug)]
pub(super) struct ProbeController {
    config: ProbeConfig,
    state: ProbingState,
    network_available: bool,
    start: i64,
    estimate: i64,
    max: i64,
    /// What the streams can use, zero if unknown.
    max_total: i64,
    cause: Cause,
    last_probe: Option<i64>,
    /// Whether probes are sent while the application limits the rate.
    alr_probing: bool,
    alr_start: Option<i64>,
    alr_end: Option<i64>,
    has_feedback: bool,
    /// Estimate before the last large drop, and when that was.
    drop: Option<(i64, i64)>,
    last_drop_probe: Option<i64>,
    next_id: u32,
}

impl ProbeController {
    /// Without a network, and without a rate.
    pub(super) fn new(config: ProbeConfig) -> Self {
        ProbeController {
            config,
            state: ProbingState::Init,
            network_available: false,
            start: 0,
            estimate: 0,
            max: DEFAULT_MAX,
            max_total: 0,
            cause: Cause::DelayLimited,
            last_probe: None,
            alr_probing: false,
            alr_start: None,
            alr_end: None,
            has_feedback: false,
            drop: None,
            last_drop_probe: None,
            next_id: 1,
        }
    }

    /// The network is there: probes start if the start rate is known.
    pub(super) fn on_network_available(&mut self, now: i64, out: &mut VecDeque<Probe>) {
        self.network_available = true;
        self.probe_start(now, out);
    }

    /// Sets the start rate, if one is given, and the maximum, which may be infinite.
    pub(super) fn set_bitrates(
        &mut self,
        now: i64,
        start: Option<i64>,
        min: i64,
        max: i64,
        out: &mut VecDeque<Probe>,
    ) {
        match start {
            Some(start) => (self.start, self.estimate) = (start, start),
            None if self.start == 0 => self.start = min,
            None => {}
        }
        let before =
            std::mem::replace(&mut self.max, if max == INFINITE { DEFAULT_MAX } else { max });
        match self.state {
            ProbingState::Init => self.probe_start(now, out),
            ProbingState::Waiting(_) => {}
            ProbingState::Complete => {
                if self.estimate > 0 && before < self.max && self.estimate < self.max {
                    self.probe(now, &[self.max], false, out);
                }
            }
        }
    }

    /// Sets the estimate and what limits it. A further probe follows a result near a probe's rate.
    pub(super) fn set_estimate(
        &mut self,
        now: i64,
        bps: i64,
        cause: Cause,
        out: &mut VecDeque<Probe>,
    ) {
        self.cause = cause;
        if bps < scale(self.estimate, self.config.drop_threshold) {
            self.drop = Some((self.estimate, now));
        }
        self.estimate = bps;
        if matches!(self.state, ProbingState::Waiting(limit) if bps > limit) {
            self.probe(now, &[scale(bps, self.config.further_scale)], true, out);
        }
    }

    /// Sets what the streams can use. Probes follow if that has grown beyond the estimate.
    pub(super) fn set_max_total(&mut self, now: i64, bps: i64, out: &mut VecDeque<Probe>) {
        let ProbeConfig {
            first_allocation_scale, second_allocation_scale, allocation_limit, ..
        } = self.config;
        let grown = bps > std::mem::replace(&mut self.max_total, bps);
        let wanted = self.state == ProbingState::Complete && self.estimate < self.max.min(bps);
        if !grown || !wanted || first_allocation_scale <= 0.0 {
            return;
        }
        let limit = scale(self.estimate, allocation_limit);
        let wanted = scale(bps, first_allocation_scale);
        let first = wanted.min(limit);
        let wanted_next = scale(bps, second_allocation_scale);
        let second = wanted_next.min(limit);
        if wanted > limit || second <= first {
            let limited = wanted.max(wanted_next) > limit;
            return self.probe(now, &[first], limited, out);
        }
        self.probe(now, &[first, second], wanted_next > limit, out);
    }

    /// Sets whether probes are sent while the application limits the rate.
    pub(super) fn set_alr_probing(&mut self, on: bool) {
        self.alr_probing = on;
    }

    /// Feedback arrives: from now on it counts whether the application limits the rate.
    pub(super) fn on_first_feedback(&mut self) {
        self.has_feedback = true;
    }

    /// Sets since when the application limits the rate, if it does.
    pub(super) fn set_alr_start(&mut self, start: Option<i64>) {
        self.alr_start = start.filter(|_| self.has_feedback);
    }

    /// Sets when the application last stopped limiting the rate.
    pub(super) fn set_alr_ended(&mut self, end: i64) {
        self.alr_end = Some(end);
    }

    /// The delay has recovered from under-use: looks whether the capacity before a large drop is back.
    pub(super) fn request(&mut self, now: i64, out: &mut VecDeque<Probe>) {
        let config = &self.config;
        let ended = self.alr_end.is_some_and(|end| now - end < config.alr_ended);
        let Some((before, at)) = self.drop else { return };
        let rate = scale(before, config.drop_scale);
        let expected = scale(rate, 1.0 - config.drop_uncertainty);
        let recent = now - at < config.drop_timeout;
        let again = self.last_drop_probe.is_none_or(|last| now - last > config.alr_interval);
        let limited = self.alr_start.is_some() || ended;
        if limited
            && self.state == ProbingState::Complete
            && expected > self.estimate
            && recent
            && again
        {
            self.last_drop_probe = Some(now);
            self.probe(now, &[rate], false, out);
        }
    }

    /// The earliest time of the next regular probe if nothing else happens before.
    pub(super) fn next_probe(&self, alr_start: Option<i64>) -> Option<i64> {
        let start = alr_start.filter(|_| self.alr_probing && self.has_feedback)?;
        Some(self.last_probe?.max(start) + self.config.alr_interval)
    }

    /// Every 25 ms: results are no longer waited for, and regular probes are sent.
    pub(super) fn process(&mut self, now: i64, out: &mut VecDeque<Probe>) {
        let waited = self.last_probe.is_none_or(|last| now - last > self.config.wait);
        if waited && matches!(self.state, ProbingState::Waiting(_)) {
            self.state = ProbingState::Complete;
        }
        if self.estimate == 0 || self.state != ProbingState::Complete || !self.alr_probing {
            return;
        }
        let Some(start) = self.alr_start else { return };
        let since = self.last_probe.map_or(start, |last| last.max(start));
        if now >= since + self.config.alr_interval {
            self.probe(now, &[scale(self.estimate, self.config.alr_scale)], true, out);
        }
    }

    fn probe_start(&mut self, now: i64, out: &mut VecDeque<Probe>) {
        if !self.network_available || self.state != ProbingState::Init || self.start == 0 {
            return;
        }
        let ProbeConfig { first_scale, second_scale, .. } = self.config;
        let rates = [scale(self.start, first_scale), scale(self.start, second_scale)];
        let count = if second_scale > 0.0 { 2 } else { 1 };
        self.probe(now, &rates[..count], true, out);
    }

    /// Sends probes at these rates, unless something limits the estimate that a probe would make worse.
    fn probe(&mut self, now: i64, rates: &[i64], further: bool, out: &mut VecDeque<Probe>) {
        let config = self.config;
        let mut cap = self.max;
        if self.max_total > 0 {
            cap = cap.min(MAX_OF_ALLOCATION * self.max_total);
        }
        if config.skip_above > 0.0 && self.estimate > scale(cap, config.skip_above) {
            self.state = ProbingState::Complete;
            return;
        }
        let limit = match self.cause {
            Cause::DelayIncreased | Cause::RttAboveLimit | Cause::LossLimited => return,
            Cause::LossIncreasing => scale(self.estimate, config.loss_limited_scale),
            Cause::DelayLimited => INFINITE,
        };
        let (mut further, mut last) = (further, 0);
        for &rate in rates {
            last = rate.min(limit);
            if last >= cap {
                (last, further) = (cap, false);
            }
            out.push_back(Probe {
                id: self.next_id,
                rate: bitrate(last),
                min_packets: config.min_bursts,
                min_bytes: Bytes(bytes_in(last, config.duration) as u64),
                min_spacing: time(config.spacing),
            });
            self.next_id += 1;
        }
        self.last_probe = Some(now);
        self.state = match further {
            true => ProbingState::Waiting(scale(last, config.further_threshold)),
            false => ProbingState::Complete,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A controller that is told its start and maximum rate at time zero, and the probes so far.
    fn started(start: i64, max: i64) -> (ProbeController, VecDeque<Probe>) {
        let (mut controller, mut out) =
            (ProbeController::new(ProbeConfig::default()), VecDeque::new());
        controller.set_bitrates(0, Some(start), 100, max, &mut out);
        assert!(out.is_empty());
        controller.on_network_available(0, &mut out);
        (controller, out)
    }

    /// A controller that has probed and waits for no result.
    fn complete(start: i64, max: i64) -> ProbeController {
        let (mut controller, _) = started(start, max);
        controller.process(SECOND + 1, &mut VecDeque::new());
        assert_eq!(controller.state, ProbingState::Complete);
        controller
    }

    fn rates(out: &mut VecDeque<Probe>) -> Vec<u64> {
        out.drain(..).map(|probe| probe.rate.0).collect()
    }

    #[test]
    fn probes_at_three_and_six_times_the_start_rate_and_then_at_twice_the_estimate() {
        let (mut controller, mut out) = started(300, 10_000);
        assert!(out.iter().all(|probe| probe.min_packets == 5));
        assert_eq!(rates(&mut out), [900, 1_800]);
        controller.set_estimate(0, 1_000, Cause::DelayLimited, &mut out);
        assert_eq!(rates(&mut out), [] as [u64; 0]);
        controller.set_estimate(0, 1_260, Cause::DelayLimited, &mut out);
        assert_eq!(rates(&mut out), [] as [u64; 0]);
        controller.set_estimate(0, 1_800, Cause::DelayLimited, &mut out);
        assert_eq!(rates(&mut out), [3_600]);
    }

    /// 900 kbit/s for 15 ms are 1687.5 B. Further probes from 0.7 x 1800 kbit/s on; the maximum is twice what
    /// the streams can use.
    #[test]
    fn a_call_starts_as_chromium_does() {
        let (mut controller, mut out) =
            (ProbeController::new(ProbeConfig::default()), VecDeque::new());
        controller.set_max_total(0, 1_749_600, &mut out);
        controller.on_network_available(0, &mut out);
        controller.set_bitrates(0, Some(300 * KBPS), 30 * KBPS, INFINITE, &mut out);
        let sizes: Vec<_> = out.iter().map(|probe| (probe.id, probe.min_bytes.0)).collect();
        assert_eq!(sizes, [(1, 1_688), (2, 3_375)]);
        assert_eq!(rates(&mut out), [900_000, 1_800_000]);
        assert_eq!(controller.state, ProbingState::Waiting(1_260 * KBPS));
        controller.set_estimate(MS, 1_761 * KBPS, Cause::DelayLimited, &mut out);
        assert_eq!(rates(&mut out), [3_499_200]);
        // At the maximum, the chain ends.
        assert_eq!(controller.state, ProbingState::Complete);
    }

    #[test]
    fn a_result_that_comes_after_a_second_is_not_followed_by_a_further_probe() {
        let (mut controller, mut out) = started(300, 10_000);
        out.clear();
        controller.process(SECOND, &mut out);
        assert_eq!(controller.state, ProbingState::Waiting(1_260));
        controller.process(SECOND + 1, &mut out);
        controller.set_estimate(SECOND + 2, 1_800, Cause::DelayLimited, &mut out);
        assert!(out.is_empty());
    }

    #[test]
    fn without_a_network_there_is_no_probe() {
        let mut out = VecDeque::new();
        let mut controller = ProbeController::new(ProbeConfig::default());
        controller.set_bitrates(0, Some(300), 100, 10_000, &mut out);
        assert!(out.is_empty());
    }

    #[test]
    fn more_use_of_the_streams_is_probed_up_to_twice_the_estimate_whether_or_not_in_alr() {
        let mut out = VecDeque::new();
        let mut controller = complete(300 * KBPS, INFINITE);
        controller.set_max_total(2 * SECOND, 3_500 * KBPS, &mut out);
        assert_eq!(rates(&mut out), [600_000]);
        assert_eq!(controller.state, ProbingState::Waiting(420 * KBPS));
        // Not limited: once and twice as much, and no further.
        let mut controller = complete(300 * KBPS, INFINITE);
        controller.set_estimate(2 * SECOND, 1_000 * KBPS, Cause::DelayLimited, &mut out);
        controller.set_max_total(2 * SECOND, 1_001 * KBPS, &mut out);
        assert_eq!(rates(&mut out), [1_001_000, 2_000_000]);
        assert_eq!(controller.state, ProbingState::Waiting(1_400 * KBPS));
    }

    #[test]
    fn less_use_of_the_streams_or_a_high_estimate_is_not_probed() {
        let mut out = VecDeque::new();
        let mut controller = complete(300 * KBPS, INFINITE);
        controller.set_max_total(2 * SECOND, 300 * KBPS, &mut out);
        controller.set_max_total(2 * SECOND, 200 * KBPS, &mut out);
        assert!(out.is_empty());
        // The decrease was recorded, so this is an increase.
        controller.set_max_total(2 * SECOND, 301 * KBPS, &mut out);
        assert_eq!(rates(&mut out), [301_000, 600_000]);
    }

    #[test]
    fn while_delay_or_loss_limits_the_estimate_nothing_is_probed_and_the_state_stays() {
        for cause in [Cause::DelayIncreased, Cause::RttAboveLimit, Cause::LossLimited] {
            let (mut controller, mut out) = started(300, 10_000);
            out.clear();
            controller.set_estimate(0, 1_800, cause, &mut out);
            assert!(out.is_empty(), "{cause:?}");
            assert_eq!(controller.state, ProbingState::Waiting(1_260));
        }
        let (mut controller, mut out) = started(300, 10_000);
        out.clear();
        controller.set_estimate(0, 1_800, Cause::LossIncreasing, &mut out);
        assert_eq!(rates(&mut out), [2_700]);
    }

    #[test]
    fn while_the_application_limits_the_rate_a_probe_is_sent_every_five_seconds() {
        let mut out = VecDeque::new();
        let mut controller = complete(500, 10_000);
        controller.set_alr_probing(true);
        controller.set_alr_start(Some(2 * SECOND));
        controller.process(8 * SECOND, &mut out);
        assert!(out.is_empty(), "before the first feedback");
        controller.on_first_feedback();
        controller.set_alr_start(Some(2 * SECOND));
        controller.process(7 * SECOND - 1, &mut out);
        assert!(out.is_empty());
        controller.process(7 * SECOND, &mut out);
        assert_eq!(rates(&mut out), [1_000]);
        controller.process(8 * SECOND + 1, &mut out);
        controller.process(12 * SECOND - 1, &mut out);
        assert!(out.is_empty());
        controller.process(12 * SECOND, &mut out);
        assert_eq!(rates(&mut out), [1_000]);
        controller.set_alr_probing(false);
        controller.process(60 * SECOND, &mut out);
        assert!(out.is_empty());
    }

    /// 0.85 x 500 = 425; it is sent because 0.95 x 425 = 404 are above 250.
    #[test]
    fn after_a_large_drop_one_probe_looks_whether_the_capacity_is_back() {
        let mut out = VecDeque::new();
        let mut controller = complete(500, 10_000);
        controller.on_first_feedback();
        controller.set_alr_start(Some(SECOND));
        controller.set_estimate(2 * SECOND, 250, Cause::DelayLimited, &mut out);
        controller.request(7 * SECOND, &mut out);
        assert!(out.is_empty(), "five seconds after the drop");
        controller.request(7 * SECOND - 1, &mut out);
        assert_eq!(rates(&mut out), [425]);
        controller.request(7 * SECOND - 1, &mut out);
        assert!(out.is_empty(), "once in five seconds");
        // Without a limit by the application, only shortly after one.
        let mut controller = complete(500, 10_000);
        controller.set_estimate(2 * SECOND, 250, Cause::DelayLimited, &mut out);
        controller.request(3 * SECOND, &mut out);
        assert!(out.is_empty());
        controller.set_alr_ended(SECOND);
        controller.request(4 * SECOND, &mut out);
        assert!(out.is_empty(), "three seconds after it ended");
        controller.request(4 * SECOND - 1, &mut out);
        assert_eq!(rates(&mut out), [425]);
    }

    #[test]
    fn a_raised_maximum_is_probed_once() {
        let mut out = VecDeque::new();
        let mut controller = complete(300, 1_000);
        controller.set_bitrates(2 * SECOND, None, 100, 2_000, &mut out);
        assert_eq!(rates(&mut out), [2_000]);
        assert_eq!(controller.state, ProbingState::Complete);
        controller.set_bitrates(2 * SECOND, None, 100, 1_500, &mut out);
        assert!(out.is_empty());
    }

    #[test]
    fn a_high_estimate_skips_probes_if_so_configured() {
        let config = ProbeConfig { skip_above: 0.9, ..ProbeConfig::default() };
        let (mut controller, mut out) = (ProbeController::new(config), VecDeque::new());
        controller.on_network_available(0, &mut out);
        controller.set_bitrates(0, Some(300), 100, 1_000, &mut out);
        assert_eq!(rates(&mut out), [900, 1_000]);
        controller.set_estimate(0, 950, Cause::DelayLimited, &mut out);
        controller.set_bitrates(0, None, 100, 1_001, &mut out);
        assert_eq!(rates(&mut out), [] as [u64; 0]);
    }
}
