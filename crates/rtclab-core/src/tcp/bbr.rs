//! BBR version 1 (Cardwell et al. 2016), with the constants and order of steps of Linux, `tcp_bbr.c`.

use super::INITIAL_WINDOW;
use super::aggregation::Aggregation;
use super::congestion_control::{
    Ack, CongestionControl, CongestionWindow, ConnectionTotals, Phase, Signal,
};
use super::delivery_rate::RateSample;
use super::pacer;
use super::policer::Policer;
use crate::units::Time;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::VecDeque;

/// 2 / ln 2: the smallest gain that doubles the rate every round.
const HIGH_GAIN: f64 = 2885.0 / 1000.0;
const DRAIN_GAIN: f64 = 1000.0 / 2885.0;
const WINDOW_GAIN: f64 = 2.0;
/// Pacing gains while probing for bandwidth, each for one minimum round trip.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Rounds over which the maximum delivery rate is taken.
const BANDWIDTH_ROUNDS: u64 = 10;
/// How long the minimum round trip is valid.
const MIN_RTT_LIFE: Time = Time::from_secs(10);
/// How long the window stays small to measure the minimum round trip again.
const PROBE_RTT: Time = Time::from_millis(200);
const MIN_WINDOW: u32 = 4;
/// BBR paces this share below the estimated rate.
const PACING_MARGIN: f64 = 0.01;
/// The pipe is full when the rate grew by less than a quarter in each of [`FULL_ROUNDS`] rounds.
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;
/// Lower bound of the first round trip, which keeps the first pacing rate finite.
const SHORTEST_RTT: Time = Time::from_micros(1);
/// Number of pacer bursts that the window has extra room for.
const BURSTS: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBandwidth,
    ProbeRtt,
}

/// Pacing rate for an estimated rate.
fn paced(rate: f64) -> f64 {
    rate * (1.0 - PACING_MARGIN)
}

/// Paces at the maximum delivery rate and keeps at most two bandwidth-delay products in flight.
pub struct Bbr {
    mode: Mode,
    rng: Pcg64Mcg,
    /// Candidates for the maximum delivery rate, in segments/s, with their rounds.
    rates: VecDeque<(u64, f64)>,
    /// Minimum round trip, and when it was measured.
    min_rtt: Option<(Time, Time)>,
    round: u64,
    round_start: bool,
    next_round_delivered: u64,
    full_rate: f64,
    full_rounds: u32,
    cycle: usize,
    cycle_start: Time,
    probe_rtt_end: Option<Time>,
    probe_rtt_round: bool,
    saved_window: u32,
    phase: Phase,
    conserving: bool,
    pacing_rate: Option<f64>,
    aggregation: Aggregation,
    policer: Policer,
}

impl Bbr {
    /// BBR for a new connection. The seed determines the phase of the gain cycle in which probing begins.
    pub fn new(seed: u64) -> Self {
        Bbr {
            mode: Mode::Startup,
            rng: Pcg64Mcg::seed_from_u64(seed),
            rates: VecDeque::new(),
            min_rtt: None,
            round: 0,
            round_start: false,
            next_round_delivered: 0,
            full_rate: 0.0,
            full_rounds: 0,
            cycle: 0,
            cycle_start: Time::ZERO,
            probe_rtt_end: None,
            probe_rtt_round: false,
            saved_window: 0,
            phase: Phase::Open,
            conserving: false,
            pacing_rate: None,
            aggregation: Aggregation::default(),
            policer: Policer::default(),
        }
    }

    /// Estimated bottleneck rate in segments/s: the maximum of ten rounds.
    pub fn bandwidth(&self) -> f64 {
        self.rates.front().map_or(0.0, |(_, rate)| *rate)
    }

    fn rate(&self) -> f64 {
        self.policer.rate().unwrap_or_else(|| self.bandwidth())
    }

    fn is_pipe_full(&self) -> bool {
        self.full_rounds >= FULL_ROUNDS
    }

    fn gains(&self) -> (f64, f64) {
        match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBandwidth if self.policer.rate().is_some() => (1.0, WINDOW_GAIN),
            Mode::ProbeBandwidth => (CYCLE[self.cycle], WINDOW_GAIN),
            Mode::ProbeRtt => (1.0, 1.0),
        }
    }

    /// Window for a multiple of the bandwidth-delay product, with room for the pacer's bursts.
    fn target(&self, rate: f64, gain: f64, extra: u32) -> u32 {
        let product = match self.min_rtt {
            Some((min_rtt, _)) => (rate * min_rtt.as_secs_f64() * gain).ceil() as u32,
            None => INITIAL_WINDOW,
        };
        let even = (product + extra + BURSTS * self.burst()).next_multiple_of(2);
        let probing = self.mode == Mode::ProbeBandwidth && self.cycle == 0;
        even + 2 * u32::from(probing)
    }

    fn burst(&self) -> u32 {
        pacer::burst(self.pacing_rate.unwrap_or(0.0))
    }

    fn update_rate(&mut self, ack: &Ack, sample: &RateSample) {
        if sample.prior_delivered >= self.next_round_delivered {
            self.next_round_delivered = ack.total_delivered;
            self.round += 1;
            self.round_start = true;
            self.conserving = false;
        }
        let round = self.round_start;
        if self.policer.on_ack(ack, sample.app_limited, round, self.mode == Mode::ProbeBandwidth) {
            self.probe_bandwidth(ack.now);
        }
        let bandwidth = self.bandwidth();
        let rate = sample.delivered as f64 / sample.interval.as_secs_f64();
        if !sample.app_limited || rate >= bandwidth {
            while self.rates.back().is_some_and(|(_, known)| *known <= rate) {
                self.rates.pop_back();
            }
            self.rates.push_back((self.round, rate));
            let oldest = self.round.saturating_sub(BANDWIDTH_ROUNDS);
            while self.rates.front().is_some_and(|(round, _)| *round < oldest) {
                self.rates.pop_front();
            }
        }
    }

    /// Segments in the network when the pacer releases the next burst: what is in flight now and will not
    /// have arrived by then, plus the burst itself if the pacing gain is above 1.
    fn in_network_at_departure(&self, ack: &Ack, in_flight: u32) -> u32 {
        let wait_s = ack.next_departure.saturating_sub(ack.now).as_secs_f64();
        let arriving = (self.rate() * wait_s) as u32;
        let rising = self.gains().0 > 1.0;
        (in_flight + if rising { self.burst() } else { 0 }).saturating_sub(arriving)
    }

    fn update_cycle(&mut self, ack: &Ack) {
        if self.mode != Mode::ProbeBandwidth {
            return;
        }
        let (gain, _) = self.gains();
        let min_rtt = self.min_rtt.map_or(Time::ZERO, |(rtt, _)| rtt);
        let over = ack.now.saturating_sub(self.cycle_start) > min_rtt;
        let bandwidth = self.bandwidth();
        let in_network = self.in_network_at_departure(ack, ack.prior_in_flight);
        let next = if gain > 1.0 {
            over && (ack.lost > 0 || in_network >= self.target(bandwidth, gain, 0))
        } else if gain < 1.0 {
            over || in_network <= self.target(bandwidth, 1.0, 0)
        } else {
            over
        };
        if next {
            self.next_cycle(ack.now);
        }
    }

    fn next_cycle(&mut self, now: Time) {
        self.cycle = (self.cycle + 1) % CYCLE.len();
        self.cycle_start = now;
    }

    fn check_full(&mut self, sample: &RateSample) {
        if self.is_pipe_full() || !self.round_start || sample.app_limited {
            return;
        }
        let bandwidth = self.bandwidth();
        if bandwidth >= self.full_rate * FULL_GROWTH {
            self.full_rate = bandwidth;
            self.full_rounds = 0;
        } else {
            self.full_rounds += 1;
        }
    }

    fn check_drain(&mut self, ack: &Ack) {
        if self.mode == Mode::Startup && self.is_pipe_full() {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain {
            let in_network = self.in_network_at_departure(ack, ack.in_flight);
            if in_network <= self.target(self.bandwidth(), 1.0, 0) {
                self.probe_bandwidth(ack.now);
            }
        }
    }

    /// Begins to probe, in a random phase of the gain cycle other than the draining one.
    fn probe_bandwidth(&mut self, now: Time) {
        self.mode = Mode::ProbeBandwidth;
        self.cycle = CYCLE.len() - 1 - self.rng.random_range(0..CYCLE.len() - 1);
        self.next_cycle(now);
    }

    fn update_min_rtt(&mut self, ack: &Ack, window: &mut CongestionWindow) {
        let expired = self.min_rtt.is_some_and(|(_, at)| ack.now > at.saturating_add(MIN_RTT_LIFE));
        if let Some(rtt) = ack.rtt {
            if expired || self.min_rtt.is_none_or(|(min, _)| rtt < min) {
                self.min_rtt = Some((rtt, ack.now));
            }
        }
        if expired && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.save_window(window.segments);
            self.probe_rtt_end = None;
        }
        if self.mode != Mode::ProbeRtt {
            return;
        }
        match self.probe_rtt_end {
            None if ack.in_flight <= MIN_WINDOW => {
                self.probe_rtt_end = Some(ack.now + PROBE_RTT);
                self.probe_rtt_round = false;
                self.next_round_delivered = ack.total_delivered;
            }
            Some(end) => {
                self.probe_rtt_round |= self.round_start;
                if self.probe_rtt_round && ack.now > end {
                    self.end_probe_rtt(ack.now, window);
                }
            }
            None => {}
        }
    }

    fn end_probe_rtt(&mut self, now: Time, window: &mut CongestionWindow) {
        self.min_rtt = self.min_rtt.map(|(rtt, _)| (rtt, now));
        window.segments = window.segments.max(self.saved_window);
        if self.is_pipe_full() {
            self.probe_bandwidth(now);
        } else {
            self.mode = Mode::Startup;
        }
    }

    fn save_window(&mut self, segments: u32) {
        let good = self.phase < Phase::Recovery && self.mode != Mode::ProbeRtt;
        self.saved_window = if good { segments } else { self.saved_window.max(segments) };
    }

    fn set_pacing_rate(&mut self) {
        let rate = paced(self.rate() * self.gains().0);
        if self.is_pipe_full() || self.pacing_rate.is_none_or(|old| rate > old) {
            self.pacing_rate = Some(rate);
        }
    }

    fn set_window(&mut self, ack: &Ack, window: &mut CongestionWindow) {
        if ack.delivered > 0 && !self.conserves(ack, window) {
            let full = self.is_pipe_full();
            let extra = if full { self.aggregation.extra(self.rate()) } else { 0 };
            let target = self.target(self.rate(), self.gains().1, extra);
            let grown = window.segments.saturating_add(ack.delivered);
            if full {
                window.segments = grown.min(target);
            } else if window.segments < target || ack.total_delivered < u64::from(INITIAL_WINDOW) {
                window.segments = grown;
            }
            window.segments = window.segments.max(MIN_WINDOW);
        }
        if self.mode == Mode::ProbeRtt {
            window.segments = window.segments.min(MIN_WINDOW);
        }
    }

    /// Adapts the window to loss and recovery. Returns whether it conserves packets: in the first round of
    /// recovery, one segment leaves for each that arrives.
    fn conserves(&mut self, ack: &Ack, window: &mut CongestionWindow) -> bool {
        let before = std::mem::replace(&mut self.phase, ack.phase);
        window.segments = window.segments.saturating_sub(ack.lost).max(1);
        if ack.phase == Phase::Recovery && before != Phase::Recovery {
            self.conserving = true;
            self.next_round_delivered = ack.total_delivered;
            window.segments = ack.in_flight + ack.delivered;
        } else if before >= Phase::Recovery && ack.phase < Phase::Recovery {
            window.segments = window.segments.max(self.saved_window);
            self.conserving = false;
        }
        if self.conserving {
            window.segments = window.segments.max(ack.in_flight + ack.delivered);
        }
        self.conserving
    }
}

impl CongestionControl for Bbr {
    /// Paces at the high gain until a delivery rate is known.
    fn on_connected(&mut self, rtt: Time, window: &CongestionWindow) {
        let rtt = rtt.max(SHORTEST_RTT).as_secs_f64();
        self.pacing_rate = Some(paced(HIGH_GAIN * f64::from(window.segments) / rtt));
    }

    fn on_ack(&mut self, ack: &Ack, window: &mut CongestionWindow) {
        self.round_start = false;
        if let Some(sample) = ack.rate {
            self.update_rate(ack, &sample);
            let (rate, round) = (self.rate(), self.round_start);
            self.aggregation.on_ack(ack.now, ack.delivered, rate, window.segments, round);
            self.check_full(&sample);
        }
        self.update_cycle(ack);
        self.check_drain(ack);
        self.update_min_rtt(ack, window);
        self.set_pacing_rate();
        self.set_window(ack, window);
    }

    fn on_congestion(&mut self, _signal: Signal, window: &CongestionWindow) -> u32 {
        self.save_window(window.segments);
        window.ssthresh
    }

    /// Also ends a round of the policer's interval.
    fn on_timeout(&mut self, timeout: &ConnectionTotals) {
        self.phase = Phase::Loss;
        self.full_rate = 0.0;
        if self.policer.on_timeout(timeout, self.mode == Mode::ProbeBandwidth) {
            self.probe_bandwidth(timeout.now);
        }
    }

    fn on_undo(&mut self) {
        self.full_rate = 0.0;
        self.full_rounds = 0;
        self.policer = Policer::default();
    }

    fn owns_window(&self) -> bool {
        true
    }

    fn pacing_rate(&self) -> Option<f64> {
        self.pacing_rate
    }

    fn limits_itself(&self) -> bool {
        self.mode == Mode::ProbeRtt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BBR with an estimate of 1000 segments/s and 50 ms, whose product is 50 segments.
    fn full() -> (Bbr, Ack) {
        let mut bbr = Bbr::new(1);
        bbr.mode = Mode::ProbeBandwidth;
        bbr.full_rounds = FULL_ROUNDS;
        bbr.min_rtt = Some((Time::from_millis(50), Time::ZERO));
        bbr.rates.push_back((0, 1000.0));
        bbr.pacing_rate = Some(1000.0);
        (bbr, Ack::of(Time::from_millis(10), 1))
    }

    #[test]
    fn segments_that_arrive_before_the_next_departure_are_not_in_the_network_then() {
        let (mut bbr, mut ack) = full();
        ack.next_departure = ack.now + Time::from_micros(1900);
        // Probing: 60 in flight plus a burst of two, less one that arrives within 1.9 ms.
        bbr.cycle = 0;
        assert_eq!(bbr.in_network_at_departure(&ack, 60), 61);
        // Draining and cruising: without the burst. If the pacer does not wait, all 60 count.
        bbr.cycle = 1;
        assert_eq!(bbr.in_network_at_departure(&ack, 60), 59);
        ack.next_departure = Time::ZERO;
        assert_eq!(bbr.in_network_at_departure(&ack, 60), 60);
    }

    #[test]
    fn draining_ends_when_at_most_the_target_is_in_the_network_at_the_next_departure() {
        // The target is 50 segments and three bursts of two: 56.
        for (in_flight, wait_us, ends) in [(56, 0, true), (57, 0, false), (57, 1900, true)] {
            let (mut bbr, mut ack) = full();
            bbr.cycle = 1;
            ack.prior_in_flight = in_flight;
            ack.next_departure = ack.now + Time::from_micros(wait_us);
            bbr.update_cycle(&ack);
            assert_eq!(bbr.cycle == 2, ends, "{in_flight} in flight, {wait_us} us");
        }
    }

    #[test]
    fn below_1_2_mbps_the_window_has_room_for_three_more_segments() {
        let (mut bbr, _) = full();
        bbr.cycle = 2;
        // 100 segments/s (1.16 Mbit/s) over 50 ms: 5 and three bursts of one. 150/s: 8 and three bursts of
        // two.
        for (rate, target) in [(100.0, 8), (150.0, 14)] {
            bbr.pacing_rate = Some(rate);
            assert_eq!(bbr.target(rate, 1.0, 0), target);
        }
    }

    #[test]
    fn an_equal_round_trip_does_not_postpone_probing_for_the_minimum() {
        let (mut bbr, mut ack) = full();
        let mut window = CongestionWindow::new(100);
        ack.rtt = Some(Time::from_millis(50));
        for (now_ms, small) in [(5_000, false), (10_000, false), (10_001, true)] {
            ack.now = Time::from_millis(now_ms);
            bbr.on_ack(&ack, &mut window);
            assert_eq!(bbr.limits_itself(), small, "{now_ms} ms");
        }
    }

    #[test]
    fn the_first_segments_are_paced_one_percent_below_the_high_gain() {
        let mut bbr = Bbr::new(1);
        bbr.on_connected(Time::from_millis(100), &CongestionWindow::new(10));
        // 2.885 times 10 segments in 100 ms, less 1 %.
        assert!((bbr.pacing_rate().unwrap_or(0.0) - 285.615).abs() < 1e-9);
    }

    #[test]
    fn an_acknowledgement_without_a_rate_does_not_begin_a_round() {
        let (mut bbr, mut ack) = full();
        let interval = Time::from_millis(50);
        ack.rate = Some(RateSample { delivered: 50, interval, ..RateSample::default() });
        bbr.on_ack(&ack, &mut CongestionWindow::new(100));
        assert!(bbr.round_start);
        ack.rate = None;
        bbr.on_ack(&ack, &mut CongestionWindow::new(100));
        assert!(!bbr.round_start);
    }
}
