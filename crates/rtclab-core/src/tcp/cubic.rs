//! CUBIC (RFC 9438) with the slow start exit of Linux (HyStart, Ha and Rhee 2011). A mark counts as a loss (RFC 9438,
//! section 4.6).

use super::congestion_control::{
    Ack, CongestionControl, CongestionWindow, ConnectionTotals, Signal,
};
use super::newreno::MIN_SSTHRESH;
use crate::units::Time;

/// RFC 9438, 4.1.2: C in segments/s^3.
const C: f64 = 0.4;
/// RFC 9438, 4.6: factor by which a loss reduces the window (717/1024 in Linux).
const BETA: f64 = 0.7;
/// RFC 9438, 4.3: 3 (1 - beta) / (1 + beta) segments per round trip are as much as Reno gets.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// Linux: segments to acknowledge per increase. The first is the minimum. The second, in windows, applies
/// where the curve is flat. The third is the maximum before the first loss.
const SEGMENTS_PER_INCREASE: (f64, f64, f64) = (2.0, 100.0, 20.0);
/// Linux: interval at which the curve is recomputed while the window does not change.
const UPDATE_INTERVAL: Time = Time(1_000_000_000 / 32);

/// Grows the window along a cubic function of the time since the last loss.
#[derive(Clone, Debug, Default)]
pub struct Cubic {
    /// W_max; 0 before the first loss and after a timeout.
    last_max: f64,
    epoch: Option<Epoch>,
    /// Segments to acknowledge before the window grows by one.
    per_increase: f64,
    updated: Option<(Time, u32)>,
    delay_min: Option<Time>,
    hystart: HyStart,
}

/// Congestion avoidance since the last loss.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Time,
    k_s: f64,
    origin: f64,
    /// W_est, the window that Reno would have.
    friendly: f64,
    /// Acknowledged segments that W_est has not grown by yet.
    acked: f64,
}

impl CongestionControl for Cubic {
    fn on_ack(&mut self, ack: &Ack, window: &mut CongestionWindow) {
        if !ack.window_limited {
            return;
        }
        let mut acked = ack.acked;
        if window.in_slow_start() {
            acked = window.slow_start(acked);
        }
        if acked > 0 {
            self.update(ack.now, acked, window.segments);
            window.increase(self.per_increase as u32, acked);
        }
    }

    fn on_rtt(&mut self, ack: &Ack, rtt: Time, window: &mut CongestionWindow) {
        // Linux: samples right after recovery still see the earlier queue.
        let second = Time::from_secs(1);
        if self.epoch.is_some_and(|epoch| ack.now.saturating_sub(epoch.start) < second) {
            return;
        }
        let delay_min = self.delay_min.map_or(rtt, |min| min.min(rtt));
        self.delay_min = Some(delay_min);
        if window.in_slow_start() && self.hystart.ends_slow_start(ack, rtt, delay_min, window) {
            window.ssthresh = window.segments;
        }
    }

    fn on_congestion(&mut self, _signal: Signal, window: &CongestionWindow) -> u32 {
        let segments = f64::from(window.segments);
        self.epoch = None;
        // RFC 9438, 4.7: fast convergence.
        let yields = segments < self.last_max;
        self.last_max = if yields { segments * (1.0 + BETA) / 2.0 } else { segments };
        ((segments * BETA) as u32).max(MIN_SSTHRESH)
    }

    fn on_timeout(&mut self, _timeout: &ConnectionTotals) {
        *self = Cubic::default();
    }
}

impl Cubic {
    fn update(&mut self, now: Time, acked: u32, segments: u32) {
        let cwnd = f64::from(segments);
        let delay_min = self.delay_min.unwrap_or(Time::ZERO);
        let mut epoch = self.epoch.unwrap_or_else(|| self.begin(now, cwnd));
        epoch.acked += f64::from(acked);
        let fresh = self.updated.is_some_and(|(at, size)| {
            self.epoch.is_some() && size == segments && now.saturating_sub(at) <= UPDATE_INTERVAL
        });
        if !fresh {
            self.updated = Some((now, segments));
            let (fastest, flat, first) = SEGMENTS_PER_INCREASE;
            let t = (now + delay_min).saturating_sub(epoch.start).as_secs_f64();
            let after = t - epoch.k_s;
            let target = epoch.origin + C * after * after * after;
            let mut per = if target > cwnd { cwnd / (target - cwnd) } else { flat * cwnd };
            if self.last_max == 0.0 {
                per = per.min(first);
            }
            epoch.friendly += (epoch.acked * ALPHA / cwnd).floor();
            epoch.acked %= cwnd / ALPHA;
            if epoch.friendly > cwnd {
                per = per.min(cwnd / (epoch.friendly - cwnd));
            }
            self.per_increase = per.max(fastest);
        }
        self.epoch = Some(epoch);
    }

    fn begin(&self, now: Time, cwnd: f64) -> Epoch {
        let below = (self.last_max - cwnd).max(0.0);
        Epoch {
            start: now,
            k_s: libm::cbrt(below / C),
            origin: cwnd.max(self.last_max),
            friendly: cwnd,
            acked: 0.0,
        }
    }
}

/// Linux: HyStart ignores windows below this many segments.
const LOW_WINDOW: u32 = 16;
/// Linux: number of round-trip samples per round before they are compared.
const MIN_SAMPLES: u32 = 8;
/// Linux: acknowledgements this close together are one train.
const TRAIN_GAP: Time = Time::from_millis(2);
/// Linux: bounds of the delay increase that signals queueing, which is an eighth of the minimum round trip.
const DELAY_BOUNDS: (Time, Time) = (Time::from_millis(4), Time::from_millis(16));

/// Finds the end of slow start before a loss occurs.
#[derive(Clone, Debug, Default)]
struct HyStart {
    found: bool,
    round_end: u32,
    round_start: Time,
    last_ack: Time,
    smallest: Option<Time>,
    samples: u32,
}

impl HyStart {
    fn ends_slow_start(
        &mut self,
        ack: &Ack,
        rtt: Time,
        delay_min: Time,
        window: &CongestionWindow,
    ) -> bool {
        if self.found || window.segments < LOW_WINDOW {
            return false;
        }
        if ack.una > self.round_end {
            *self = HyStart {
                round_end: ack.next,
                round_start: ack.now,
                last_ack: ack.now,
                ..HyStart::default()
            };
        }
        if ack.now.saturating_sub(self.last_ack) <= TRAIN_GAP {
            self.last_ack = ack.now;
            // Linux: half a round trip, because without pacing a round is sent in one burst.
            self.found = ack.now.saturating_sub(self.round_start) > Time(delay_min.0 / 2);
        }
        self.smallest = Some(self.smallest.map_or(rtt, |smallest| smallest.min(rtt)));
        if self.samples < MIN_SAMPLES {
            self.samples += 1;
        } else {
            let threshold = Time(delay_min.0 / 8).clamp(DELAY_BOUNDS.0, DELAY_BOUNDS.1);
            self.found |= self.smallest.is_some_and(|rtt| rtt > delay_min + threshold);
        }
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_reduces_the_window_to_seven_tenths_and_it_is_back_at_its_maximum_after_k() {
        // K = cbrt(100 * 0.3 / 0.4) = 4.217 s; Reno would be at 70 + 0.529 * 42 = 92 by then.
        let mut cubic = Cubic::default();
        let mut window = CongestionWindow { segments: 100, ssthresh: 100, credit: 0 };
        window.ssthresh = cubic.on_congestion(Signal::Loss, &window);
        window.segments = window.ssthresh;
        assert_eq!(window.segments, 70);
        let mut now = Time::from_secs(10);
        while window.segments < 100 {
            let each = Time(100_000_000 / u64::from(window.segments));
            cubic.on_ack(&Ack::of(now, 1), &mut window);
            now += each;
        }
        // The curve is flat there. It is within one segment of its maximum for cbrt(1 / 0.4) = 1.36 s on
        // either side.
        let after_s = now.as_secs_f64() - 10.0;
        assert!((2.85..=5.58).contains(&after_s), "{after_s} s");
    }
}
