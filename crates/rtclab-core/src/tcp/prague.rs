//! TCP Prague, the reference of L4S (RFC 9331), as in `tcp_prague.c` 0.6 of L4STeam/linux.
//!
//! Left out: the detection of queues with classic ECN, in which Prague starves classic flows; the change to Not-ECT on
//! a path that bleaches; smaller segments at low rates; and the delay of the reduced RTT dependence by 500 round trips,
//! which udp_prague does not have either. On a path that bleaches, only losses are left, so it behaves like NewReno.
//! The window is reduced at once; there, it follows by a segment per acknowledgement.

use super::alpha::{Alpha, Round};
use super::congestion_control::{
    Ack, CongestionControl, CongestionWindow, ConnectionTotals, Marks, Phase, Signal,
};
use super::newreno::MIN_SSTHRESH;
use crate::units::Time;

/// Shorter round trips grow the window as slowly as one of this length (RFC 9331, section 4.3).
const VIRTUAL_RTT: Time = Time::from_millis(25);
/// Burst of the pacer (RFC 9331, section 4.3), at least one segment.
const BURST_S: f64 = 250e-6;
/// Pacing rate in slow start, relative to the window per round trip.
const SLOW_START_PACING: f64 = 2.0;
/// Lower bound of the round trip, which keeps the pacing rate finite.
const SHORTEST_RTT: Time = Time::from_micros(1);

/// Paces a window per round trip. Unmarked segments grow it, and marks shrink it by half of their share.
#[derive(Clone, Debug)]
pub struct Prague {
    alpha: Alpha,
    /// How much smaller the window is than its whole number of segments: less than one.
    missing: f64,
    /// The round in which marks do not reduce the window again.
    reduced: Option<Round>,
    pacing_rate: Option<f64>,
}

impl Default for Prague {
    fn default() -> Self {
        let alpha = Alpha::new(VIRTUAL_RTT, true);
        Prague { alpha, missing: 0.0, reduced: None, pacing_rate: None }
    }
}

impl Prague {
    fn set(&mut self, window: &mut CongestionWindow, segments: f64) {
        let segments = segments.clamp(f64::from(MIN_SSTHRESH), f64::from(u32::MAX));
        window.segments = segments.ceil() as u32;
        self.missing = f64::from(window.segments) - segments;
    }

    fn segments(&self, window: &CongestionWindow) -> f64 {
        f64::from(window.segments) - self.missing
    }

    /// Reduces the window once per virtual round trip.
    fn reduce(&mut self, ack: &Ack, window: &mut CongestionWindow) {
        let again = |round: Round| round.is_over(ack.now, ack.una, VIRTUAL_RTT);
        if !self.reduced.is_none_or(again) {
            return;
        }
        self.reduced = Some(Round::begin(ack.now, ack.next));
        let segments = self.segments(window) * (1.0 - self.alpha.value() / 2.0);
        self.set(window, segments);
        window.ssthresh = window.segments;
    }

    /// Grows by one segment per virtual round trip, or slow start. It does not pause after a reduction.
    fn increase(&mut self, ack: &Ack, window: &mut CongestionWindow) {
        let mut unmarked = ack.acked.saturating_sub(ack.marked);
        if window.in_slow_start() {
            unmarked = window.slow_start(unmarked);
        }
        let segments = self.segments(window);
        let rtt = ack.smoothed_rtt.unwrap_or(VIRTUAL_RTT).min(VIRTUAL_RTT);
        let slower = rtt.as_secs_f64() / VIRTUAL_RTT.as_secs_f64();
        self.set(window, segments + f64::from(unmarked) * slower * slower / segments.max(1.0));
    }

    fn pace(&mut self, rtt: Time, window: &CongestionWindow) {
        let gain = if window.in_slow_start() { SLOW_START_PACING } else { 1.0 };
        let rtt_s = rtt.max(SHORTEST_RTT).as_secs_f64();
        self.pacing_rate = Some(gain * self.segments(window) / rtt_s);
    }
}

impl CongestionControl for Prague {
    fn on_connected(&mut self, rtt: Time, window: &CongestionWindow) {
        self.pace(rtt, window);
    }

    fn on_marks(&mut self, marks: &Marks) {
        self.alpha.on_marks(marks);
    }

    fn on_ack(&mut self, ack: &Ack, window: &mut CongestionWindow) {
        if ack.phase == Phase::Recovery {
            if window.segments > window.ssthresh {
                self.set(window, f64::from(window.ssthresh));
            }
        } else {
            if ack.marked > 0 {
                self.reduce(ack, window);
            }
            if ack.window_limited {
                self.increase(ack, window);
            }
        }
        if let Some(rtt) = ack.smoothed_rtt {
            self.pace(rtt, window);
        }
    }

    /// A loss halves the window (RFC 9331, section 4.3: as Reno would).
    fn on_congestion(&mut self, _signal: Signal, window: &CongestionWindow) -> u32 {
        (window.segments / 2).max(MIN_SSTHRESH)
    }

    fn on_timeout(&mut self, _timeout: &ConnectionTotals) {
        self.missing = 0.0;
    }

    fn owns_window(&self) -> bool {
        true
    }

    fn pacing_rate(&self) -> Option<f64> {
        self.pacing_rate
    }

    fn burst(&self, rate: f64) -> u32 {
        ((rate * BURST_S) as u32).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An acknowledgement at `ms` of one segment; `una` is the next.
    fn ack(ms: u64, una: u32, marked: u32, rtt_ms: u64) -> Ack {
        let smoothed_rtt = Some(Time::from_millis(rtt_ms));
        Ack { marked, smoothed_rtt, una, next: una + 10, ..Ack::of(Time::from_millis(ms), 1) }
    }

    fn steady(segments: u32) -> CongestionWindow {
        CongestionWindow { segments, ssthresh: 2, credit: 0 }
    }

    /// Each unmarked segment adds s/W, so W^2 grows by 2s: from 100, by 200 for 100 segments, or by 8 if the round trip
    /// is 5 ms and s = (5/25)^2.
    #[test]
    fn growth_is_a_segment_per_round_trip_and_slower_below_25_ms() {
        for (rtt_ms, expected) in [(50, 17.32), (25, 17.32), (5, 10.392)] {
            let (mut prague, mut window) = (Prague::default(), steady(10));
            (0..100).for_each(|una| prague.on_ack(&ack(0, una, 0, rtt_ms), &mut window));
            let grown = prague.segments(&window);
            assert!((grown - expected).abs() < 0.05, "{rtt_ms} ms: {grown}");
        }
        let (mut prague, mut window) = (Prague::default(), steady(10));
        (0..100).for_each(|una| prague.on_ack(&ack(0, una, 1, 50), &mut window));
        // The first mark halves the window, because alpha is one. Marked segments add nothing.
        assert_eq!(prague.segments(&window), 5.0);
    }

    #[test]
    fn marks_reduce_the_window_once_per_virtual_round_trip() {
        // With a round trip of 10 ms, marks at 0, 12 and 24 ms are of one virtual round trip. With 50 ms, a segment sent
        // after the reduction is acknowledged only after that.
        for (rtt_ms, times) in [(10, [0, 12, 24, 25]), (50, [0, 26, 49, 50])] {
            let (mut prague, mut window) = (Prague::default(), steady(64));
            let seen = times.map(|ms| {
                // Ten segments per round trip.
                let una = (10 * ms / rtt_ms) as u32 + u32::from(ms >= rtt_ms);
                prague.on_ack(&ack(ms, una, 1, rtt_ms), &mut window);
                window.segments
            });
            assert_eq!(seen, [32, 32, 32, 16], "{rtt_ms} ms");
        }
    }

    #[test]
    fn a_loss_halves_the_window_and_after_a_timeout_it_is_a_whole_number() {
        let (mut prague, mut window) = (Prague::default(), steady(10));
        prague.on_ack(&ack(0, 1, 0, 50), &mut window);
        assert!((prague.segments(&window) - 10.1).abs() < 1e-9);
        window.ssthresh = prague.on_congestion(Signal::Loss, &window);
        let lost = Ack { phase: Phase::Recovery, ..ack(1, 1, 1, 50) };
        prague.on_ack(&lost, &mut window);
        assert_eq!(prague.segments(&window), 5.0);
        prague.on_ack(&ack(2, 2, 0, 50), &mut window);
        window.segments = 1;
        prague.on_timeout(&ConnectionTotals::default());
        assert_eq!(prague.segments(&window), 1.0);
    }

    #[test]
    fn it_paces_a_window_per_round_trip_and_two_in_slow_start() {
        let mut prague = Prague::default();
        prague.on_connected(Time::from_millis(50), &CongestionWindow::new(10));
        assert_eq!(prague.pacing_rate(), Some(400.0));
        prague.on_ack(&ack(0, 1, 1, 50), &mut steady(20));
        // Halved by the first mark.
        assert_eq!(prague.pacing_rate(), Some(200.0));
        // 250 us: one segment below 8 000 a second.
        assert_eq!(
            [200.0, 7_999.0, 8_000.0, 12_000.0].map(|rate| prague.burst(rate)),
            [1, 1, 2, 3]
        );
    }
}
