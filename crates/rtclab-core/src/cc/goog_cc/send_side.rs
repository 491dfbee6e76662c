//! The target: the smallest of the delay-based limit, the loss-based estimate and the receiver's limit.
//!
//! Source: libwebrtc d4f25dba6a (December 2025), `send_side_bandwidth_estimation.cc`.

use super::arithmetic::{INFINITE, KBPS, MS, SECOND, scale};
use super::loss_estimator::{LossEstimator, LossEstimatorConfig, LossState};
use super::packet::PacketResult;
use std::collections::VecDeque;

/// The least that a minimum may be (kCongestionControllerMinBitrate).
const LOWEST_RATE: i64 = 5 * KBPS;
/// Maximum if none is set.
const DEFAULT_MAX: i64 = 1_000_000 * KBPS;
/// Span over which the smallest target is remembered (kBweIncreaseInterval).
const HISTORY: i64 = SECOND;
/// The precision of that span.
const HISTORY_PRECISION: i64 = MS;
/// Reports of loss are used together until they cover this many packets (kLimitNumPackets).
const MIN_PACKETS: u64 = 20;
/// A report of loss counts for this long.
const LOSS_REPORT_LIFE: i64 = 6 * SECOND;
/// Fraction of lost packets up to which the target grows, and up to which it does not fall.
const LOW_LOSS: f32 = 0.02;
const HIGH_LOSS: f32 = 0.1;
/// Time between two decreases, besides a round-trip time (kBweDecreaseInterval).
const DECREASE_INTERVAL: i64 = 300 * MS;

/// Parameters of the combination. Times are in microseconds, rates in bit/s.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::cc) struct SendSideConfig {
    /// What happens when feedback stays away.
    pub(in crate::cc) backoff: BackoffConfig,
    /// The loss-based estimator.
    pub(in crate::cc) loss_estimator: LossEstimatorConfig,
}

/// Parameters of the back-off at long round-trip times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::cc) struct BackoffConfig {
    /// Round-trip time above which the target is lowered.
    pub(in crate::cc) limit: i64,
    /// Factor of each decrease.
    pub(in crate::cc) factor: f64,
    /// Time between two decreases.
    pub(in crate::cc) interval: i64,
    /// The target does not fall below this.
    pub(in crate::cc) floor: i64,
}

impl Default for BackoffConfig {
    fn default() -> Self {
        BackoffConfig { limit: 3 * SECOND, factor: 0.8, interval: SECOND, floor: 5 * KBPS }
    }
}

/// Round-trip time without queuing at the far end, which grows while packets leave and no feedback comes.
#[derive(Clone, Copy, Debug, Default)]
struct Backoff {
    rtt: i64,
    updated: Option<i64>,
    last_sent: Option<i64>,
}

impl Backoff {
    fn corrected_rtt(&self) -> i64 {
        let silence = match (self.last_sent, self.updated) {
            (Some(sent), Some(updated)) => (sent - updated).max(0),
            _ => 0,
        };
        self.rtt + silence
    }
}

/// Loss as RTCP receiver reports tell it.
#[derive(Clone, Copy, Debug, Default)]
struct ReportedLoss {
    /// When the first report came.
    first: Option<i64>,
    /// When the fraction was last updated.
    updated: Option<i64>,
    /// Lost and expected packets that are not in the fraction yet.
    pending: (u64, u64),
    /// Fraction lost in 1/256.
    fraction: u8,
    /// Whether the target has been lowered because of it.
    used: bool,
}

impl ReportedLoss {
    fn loss(self) -> f32 {
        f32::from(self.fraction) / 256.0
    }
}

/// The combination of all limits.
#[derive(Clone, Debug)]
pub(super) struct SendSide {
    backoff_config: BackoffConfig,
    backoff: Backoff,
    loss_estimator: LossEstimator,
    loss_state: LossState,
    reported: ReportedLoss,
    /// Smallest targets of the last second, in ascending order, and when they were set.
    history: VecDeque<(i64, i64)>,
    last_decrease: Option<i64>,
    rtt: i64,
    current: i64,
    min: i64,
    max: i64,
    delay_limit: i64,
    receiver_limit: i64,
}

impl SendSide {
    /// No rate yet, and no limits.
    pub(super) fn new(config: &SendSideConfig) -> Self {
        let mut loss_estimator = LossEstimator::new(&config.loss_estimator);
        loss_estimator.set_min_max(LOWEST_RATE, DEFAULT_MAX);
        SendSide {
            backoff_config: config.backoff,
            backoff: Backoff::default(),
            loss_estimator,
            loss_state: LossState::DelayBased,
            reported: ReportedLoss::default(),
            history: VecDeque::new(),
            last_decrease: None,
            rtt: 0,
            current: 0,
            min: LOWEST_RATE,
            max: DEFAULT_MAX,
            delay_limit: INFINITE,
            receiver_limit: INFINITE,
        }
    }

    /// A packet left.
    pub(super) fn on_sent(&mut self, at: i64) {
        self.backoff.last_sent = Some(at);
    }

    /// The smallest propagation round-trip time of a report; zero when the first packet leaves.
    pub(super) fn on_propagation_rtt(&mut self, now: i64, rtt: i64) {
        (self.backoff.rtt, self.backoff.updated) = (rtt, Some(now));
    }

    /// A round-trip time from RTCP.
    pub(super) fn on_rtt(&mut self, rtt: i64) {
        if rtt > 0 {
            self.rtt = rtt;
        }
    }

    /// Packets lost and received since the last receiver report.
    pub(super) fn on_losses(&mut self, now: i64, lost: u64, received: u64) {
        let reported = &mut self.reported;
        reported.first.get_or_insert(now);
        if lost + received == 0 {
            return;
        }
        reported.pending.0 += lost;
        reported.pending.1 += lost + received;
        let (lost, expected) = reported.pending;
        if expected < MIN_PACKETS {
            return;
        }
        *reported = ReportedLoss {
            first: reported.first,
            updated: Some(now),
            pending: (0, 0),
            fraction: (256 * lost / expected).min(255) as u8,
            used: false,
        };
        self.update(now);
    }

    /// Sets the bounds, and starts at a rate if one is given. An infinite maximum means none.
    pub(super) fn set_bitrates(&mut self, start: Option<i64>, min: i64, max: i64) {
        self.min = min.max(LOWEST_RATE);
        self.max = if max > 0 && max != INFINITE { max.max(self.min) } else { DEFAULT_MAX };
        self.loss_estimator.set_min_max(self.min, self.max);
        if let Some(start) = start {
            self.set_rate(start);
        }
    }

    /// Sets the target to a probe's result or a start rate, without a delay-based limit.
    pub(super) fn set_rate(&mut self, bps: i64) {
        self.delay_limit = INFINITE;
        self.set_current(bps);
        self.history.clear();
    }

    /// Sets the delay-based limit.
    pub(super) fn set_delay_limit(&mut self, bps: i64) {
        self.delay_limit = if bps == 0 { INFINITE } else { bps };
        self.set_current(self.current);
    }

    /// Sets the receiver's limit (REMB); zero or infinite for none.
    pub(super) fn set_receiver_limit(&mut self, bps: i64) {
        self.receiver_limit = if bps == 0 { INFINITE } else { bps };
        self.set_current(self.current);
    }

    /// Sets the acknowledged rate, if there is one.
    pub(super) fn set_acknowledged(&mut self, acked: Option<i64>) {
        if let Some(acked) = acked {
            self.loss_estimator.set_acknowledged(acked);
        }
    }

    /// Takes all packets of a report for the loss-based estimate, and updates the target.
    pub(super) fn on_packets(&mut self, now: i64, packets: &[PacketResult], in_alr: bool) {
        self.loss_estimator.update(packets, self.delay_limit, in_alr);
        self.update(now);
    }

    /// Updates the target: at every report of any kind, and every 25 ms.
    pub(super) fn update(&mut self, now: i64) {
        if self.rtt_above_limit() {
            return self.back_off(now);
        }
        if self.starts(now) {
            let rate = self.raised();
            if rate != self.current {
                self.history.clear();
                self.history.push_back((now, self.current));
                return self.set_current(rate);
            }
        }
        if self.loss_estimator.is_ready() {
            self.loss_state = self.loss_estimator.state();
            return self.set_current(self.loss_estimator.result());
        }
        self.update_history(now);
        match self.reported.updated {
            Some(updated) if now - updated < LOSS_REPORT_LIFE => self.follow_reported_loss(now),
            _ => self.set_current(self.current),
        }
    }

    /// The target in bit/s.
    pub(super) fn target(&self) -> i64 {
        self.min.max(self.current.min(self.receiver_limit))
    }

    /// What the loss-based estimator is doing.
    pub(super) fn loss_state(&self) -> LossState {
        self.loss_state
    }

    /// The loss-based estimator, for the trace.
    pub(super) fn loss_estimator(&self) -> &LossEstimator {
        &self.loss_estimator
    }

    /// Fraction lost by receiver reports, in 1/256.
    pub(super) fn fraction_lost(&self) -> u8 {
        self.reported.fraction
    }

    /// The last round-trip time from RTCP, zero before the first.
    pub(super) fn rtt(&self) -> i64 {
        self.rtt
    }

    /// Whether feedback stays away for so long that the target falls.
    pub(super) fn rtt_above_limit(&self) -> bool {
        self.backoff.corrected_rtt() > self.backoff_config.limit
    }

    fn back_off(&mut self, now: i64) {
        let BackoffConfig { factor, interval, floor, .. } = self.backoff_config;
        let due = self.last_decrease.is_none_or(|last| now - last >= interval);
        if due && self.current > floor {
            self.last_decrease = Some(now);
            return self.set_current(scale(self.current, factor).max(floor));
        }
        self.set_current(self.current);
    }

    /// Whether further updates leave target and loss state as they are, whenever they come, as long as feedback does not
    /// stay away.
    pub(super) fn is_silent(&self) -> bool {
        if self.may_start() && self.raised() != self.current {
            return false;
        }
        if self.loss_estimator.is_ready() {
            return self.loss_state == self.loss_estimator.state()
                && self.bounded(self.loss_estimator.result()) == self.current;
        }
        if self.bounded(self.current) != self.current {
            return false;
        }
        match self.reported {
            ReportedLoss { updated: None, .. } => true,
            // The rate grows from its smallest value of the last second. Only the receiver's limit may hide it.
            reported if reported.loss() <= LOW_LOSS => {
                self.receiver_limit <= self.current.min(self.bounded(self.grown()))
            }
            reported => reported.loss() <= HIGH_LOSS || reported.used,
        }
    }

    /// Whether other limits may raise the target, because neither loss nor a loss-based estimate exists yet.
    fn starts(&self, now: i64) -> bool {
        let start_phase = 2 * SECOND;
        let early = self.reported.first.is_none_or(|first| now - first < start_phase);
        early && self.may_start()
    }

    fn may_start(&self) -> bool {
        self.reported.fraction == 0 && !self.loss_estimator.is_ready_at_start()
    }

    /// The rate, raised to the other limits.
    fn raised(&self) -> i64 {
        let finite = |limit: i64| if limit == INFINITE { 0 } else { limit };
        self.current.max(finite(self.receiver_limit)).max(finite(self.delay_limit))
    }

    fn update_history(&mut self, now: i64) {
        let old = |set: i64| now - set + HISTORY_PRECISION > HISTORY;
        while self.history.front().is_some_and(|(set, _)| old(*set)) {
            self.history.pop_front();
        }
        while self.history.back().is_some_and(|(_, rate)| self.current <= *rate) {
            self.history.pop_back();
        }
        self.history.push_back((now, self.current));
    }

    /// The rule of 2011: grow below 2 % of loss, fall above 10 %.
    fn follow_reported_loss(&mut self, now: i64) {
        let loss = self.reported.loss();
        let since_decrease = self.last_decrease.map_or(INFINITE, |last| now - last);
        let rate = if loss <= LOW_LOSS {
            self.grown()
        } else if loss <= HIGH_LOSS
            || self.reported.used
            || since_decrease < DECREASE_INTERVAL + self.rtt
        {
            self.current
        } else {
            self.last_decrease = Some(now);
            self.reported.used = true;
            scale(self.current, f64::from(512 - i32::from(self.reported.fraction)) / 512.0)
        };
        self.set_current(rate);
    }

    /// The smallest rate of the last second and 8 %.
    fn grown(&self) -> i64 {
        let smallest = self.history.front().map_or(self.current, |(_, rate)| *rate);
        (smallest as f64 * 1.08 + 0.5) as i64 + KBPS
    }

    fn set_current(&mut self, rate: i64) {
        self.current = self.bounded(rate);
    }

    fn bounded(&self, rate: i64) -> i64 {
        rate.min(self.delay_limit).min(self.max).max(self.min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: i64 = 60 * MS;

    fn at(kbps: i64) -> SendSide {
        let mut send_side = SendSide::new(&SendSideConfig::default());
        send_side.set_bitrates(Some(kbps * KBPS), 100 * KBPS, 1_500 * KBPS);
        send_side
    }

    /// Reports ten packets of 1250 bytes per 100 ms from `start` to `end`, in ms; the first `lost` of ten lost.
    fn report(send_side: &mut SendSide, (start, end): (i64, i64), lost: i64) {
        for from in (start..end).step_by(100) {
            let packet = |i: i64| {
                let (seq, sent) = (from / 10 + i, (from + 10 * i) * MS);
                let received = (i >= lost).then_some(sent + DELAY);
                PacketResult { seq, sent, received, size: 1_250, probe: None }
            };
            let packets: Vec<_> = (0..10).map(packet).collect();
            send_side.on_packets((from + 100) * MS + DELAY, &packets, false);
        }
    }

    #[test]
    fn without_feedback_a_round_trip_above_three_seconds_lowers_the_target_once_a_second() {
        let mut send_side = at(1_000);
        send_side.on_propagation_rtt(0, 0);
        send_side.on_sent(5 * SECOND);
        assert!(send_side.rtt_above_limit());
        send_side.update(5 * SECOND);
        assert_eq!(send_side.target(), 800 * KBPS);
        send_side.update(5 * SECOND + 999 * MS);
        assert_eq!(send_side.target(), 800 * KBPS);
        send_side.update(6 * SECOND);
        assert_eq!(send_side.target(), 640 * KBPS);
        // The next report ends it.
        send_side.on_propagation_rtt(6 * SECOND, 50 * MS);
        assert!(!send_side.rtt_above_limit());
    }

    #[test]
    fn five_seconds_of_propagation_are_above_the_limit_and_one_second_is_not() {
        let mut send_side = at(1_000);
        for (rtt, above) in [(5 * SECOND, true), (3 * SECOND, false), (SECOND, false)] {
            send_side.on_propagation_rtt(0, rtt);
            assert_eq!(send_side.rtt_above_limit(), above, "{rtt}");
        }
    }

    /// (512 - 128) / 512 = 0.75.
    #[test]
    fn half_of_all_packets_lost_lower_the_target_by_a_quarter_once_per_report() {
        let mut send_side = at(1_000);
        send_side.on_rtt(50 * MS);
        send_side.on_losses(SECOND, 50, 50);
        assert_eq!((send_side.target(), send_side.fraction_lost()), (750 * KBPS, 128));
        send_side.update(SECOND + 300 * MS);
        assert_eq!(send_side.target(), 750 * KBPS);
        // A further report within 300 ms and a round trip changes nothing; afterwards it does.
        send_side.on_losses(SECOND + 349 * MS, 50, 50);
        assert_eq!(send_side.target(), 750 * KBPS);
        send_side.update(SECOND + 350 * MS);
        assert_eq!(send_side.target(), 562_500);
    }

    #[test]
    fn reports_of_less_than_twenty_packets_are_added_up() {
        let mut send_side = at(1_000);
        send_side.on_losses(SECOND, 5, 5);
        assert_eq!(send_side.fraction_lost(), 0);
        send_side.on_losses(SECOND + 100 * MS, 0, 10);
        assert_eq!(send_side.fraction_lost(), 64);
    }

    /// 1.08 x 500 + 1, from the smallest target of the last second.
    #[test]
    fn without_loss_and_without_feedback_the_target_grows_by_eight_percent_a_second() {
        let mut send_side = at(500);
        send_side.on_losses(0, 0, 100);
        assert_eq!(send_side.target(), 541 * KBPS);
        for ms in (25..1_000).step_by(25) {
            send_side.update(ms * MS);
            assert_eq!(send_side.target(), 541 * KBPS, "{ms}");
        }
        send_side.update(SECOND);
        // The first target in the history is now 541: 1.08 x 541 + 1.
        assert_eq!(send_side.target(), 585_280);
        send_side.update(7 * SECOND);
        assert_eq!(send_side.target(), 585_280);
    }

    #[test]
    fn in_the_first_two_seconds_the_delay_based_limit_is_the_target() {
        let mut send_side = at(300);
        send_side.set_delay_limit(900 * KBPS);
        assert_eq!(send_side.target(), 300 * KBPS);
        send_side.update(100 * MS);
        assert_eq!(send_side.target(), 900 * KBPS);
        send_side.set_delay_limit(400 * KBPS);
        assert_eq!(send_side.target(), 400 * KBPS);
    }

    #[test]
    fn once_there_are_three_observations_the_target_rises_only_with_the_next_one() {
        let mut send_side = at(300);
        send_side.set_delay_limit(500 * KBPS);
        report(&mut send_side, (0, 1_200), 0);
        assert!(send_side.loss_estimator.is_ready());
        assert_eq!(send_side.target(), 500 * KBPS);
        // A probe raises the limit, but the loss-based estimate still is the one of the last observation.
        send_side.set_rate(1_000 * KBPS);
        send_side.set_delay_limit(1_000 * KBPS);
        send_side.update(1_300 * MS);
        assert_eq!(send_side.target(), 500 * KBPS);
        report(&mut send_side, (1_200, 1_500), 0);
        assert_eq!(send_side.target(), 1_000 * KBPS);
        // It falls at once.
        send_side.set_delay_limit(600 * KBPS);
        assert_eq!(send_side.target(), 600 * KBPS);
    }

    #[test]
    fn heavy_loss_makes_the_loss_based_estimate_the_target() {
        let mut send_side = at(1_000);
        send_side.set_delay_limit(1_000 * KBPS);
        send_side.set_acknowledged(Some(500 * KBPS));
        report(&mut send_side, (0, 5_000), 5);
        assert_eq!(send_side.loss_state(), LossState::Decreasing);
        assert_eq!(send_side.target(), 500 * KBPS);
        // Receiver reports are not needed, and do not matter.
        send_side.on_losses(6 * SECOND, 100, 0);
        assert_eq!(send_side.target(), 500 * KBPS);
    }

    #[test]
    fn bounds_and_the_receivers_limit_hold_at_all_times() {
        let mut send_side = at(1_000);
        send_side.set_receiver_limit(300 * KBPS);
        assert_eq!(send_side.target(), 300 * KBPS);
        send_side.set_receiver_limit(50 * KBPS);
        assert_eq!(send_side.target(), 100 * KBPS);
        send_side.set_receiver_limit(0);
        send_side.set_rate(9_000 * KBPS);
        assert_eq!(send_side.target(), 1_500 * KBPS);
        send_side.set_bitrates(None, 0, INFINITE);
        send_side.set_rate(2_000_000 * KBPS);
        assert_eq!(send_side.target(), 1_000_000 * KBPS);
        send_side.set_rate(1);
        assert_eq!(send_side.target(), 5 * KBPS);
    }
}
