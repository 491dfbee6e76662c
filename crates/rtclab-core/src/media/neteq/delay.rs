//! The target delay of audio.
//!
//! Source: libwebrtc, `modules/audio_coding/neteq/{delay_manager,underrun_optimizer,reorder_optimizer}.cc`.

use super::histogram::Histogram;

/// Target until delays are known, in ms.
const START_MS: i64 = 80;
/// Width of a bucket of delays, in ms.
const BUCKET_MS: i64 = 20;
/// The largest delay of each interval of this many ms counts.
const INTERVAL_MS: i64 = 500;
/// The target covers this share of them.
const QUANTILE: f64 = 0.95;
/// What remains of a share of delays after the next interval.
const FORGET: f64 = 0.983;
/// What remains of a share of reordered packets after the next packet.
const FORGET_REORDERED: f64 = 0.9993;
/// Delay that is accepted for one per cent less of lost packets, in ms.
const MS_PER_LOSS_PERCENT: f64 = 20.0;

/// Sets the target delay by the relative delays of packets.
pub(super) struct DelayManager {
    target_ms: i64,
    delays: Histogram,
    /// Start of the interval, and the largest delay in it, in ms.
    interval: Option<(i64, i64)>,
    optimal_ms: Option<i64>,
    reordered: Histogram,
}

impl DelayManager {
    pub(super) fn new() -> Self {
        DelayManager {
            target_ms: START_MS,
            delays: Histogram::new(FORGET),
            interval: None,
            optimal_ms: None,
            reordered: Histogram::new(FORGET_REORDERED),
        }
    }

    pub(super) fn target_ms(&self) -> i64 {
        self.target_ms
    }

    /// Takes the relative delay of a packet.
    pub(super) fn update(&mut self, now_ms: i64, delay_ms: i64, reordered: bool) {
        if !reordered {
            self.add(now_ms, delay_ms);
        }
        let target_ms = self.optimal_ms.unwrap_or(START_MS);
        let bucket = if reordered { delay_ms / BUCKET_MS } else { 0 };
        self.reordered.add(bucket as usize);
        self.target_ms = target_ms.max(self.for_reordered(target_ms));
    }

    fn add(&mut self, now_ms: i64, delay_ms: i64) {
        let (since, max) = self.interval.unwrap_or((now_ms, 0));
        if now_ms - since <= INTERVAL_MS {
            self.interval = Some((since, max.max(delay_ms)));
            return;
        }
        self.interval = Some((now_ms, delay_ms));
        self.delays.add((max / BUCKET_MS) as usize);
        self.optimal_ms = Some((1 + self.delays.quantile(QUANTILE) as i64) * BUCKET_MS);
    }

    /// The delay with the least sum of additional delay and cost of packets that come too late.
    fn for_reordered(&self, target_ms: i64) -> i64 {
        let (mut best, mut least) = (0, f64::MAX);
        for (bucket, beyond) in self.reordered.beyond().enumerate() {
            let added_ms = (bucket as i64 * BUCKET_MS - target_ms).max(0);
            let cost = added_ms as f64 + 100.0 * MS_PER_LOSS_PERCENT * beyond;
            if cost < least {
                (best, least) = (bucket as i64, cost);
            }
            if beyond <= 0.0 {
                break;
            }
        }
        (1 + best) * BUCKET_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The target after packets every 20 ms with these relative delays, over and over, for this long.
    fn target_after(ms: i64, delays_ms: &[i64]) -> i64 {
        let mut manager = DelayManager::new();
        for (now_ms, delay_ms) in (0..ms).step_by(20).zip(delays_ms.iter().cycle()) {
            manager.update(now_ms, *delay_ms, false);
        }
        manager.target_ms()
    }

    #[test]
    fn the_target_is_80_ms_until_the_first_interval_is_over() {
        assert_eq!([target_after(520, &[0]), target_after(540, &[0])], [80, 20]);
    }

    #[test]
    fn the_target_is_the_upper_end_of_the_bucket_of_the_largest_delays() {
        let targets = [0, 19, 20, 59, 60].map(|delay_ms| target_after(10_000, &[0, delay_ms]));
        assert_eq!(targets, [20, 20, 40, 60, 80]);
    }

    /// 25 packets are an interval. A delay in one of 50 intervals is 2 % of them, one in 10 is 10 %.
    #[test]
    fn delays_in_less_than_a_twentieth_of_the_intervals_are_not_covered() {
        let one_in = |intervals: usize| {
            let mut delays_ms = vec![0; 26 * intervals];
            delays_ms[0] = 100;
            target_after(120_000, &delays_ms)
        };
        assert_eq!([one_in(50), one_in(10)], [20, 120]);
    }

    /// A reordered packet with 50 ms is in bucket 2, at a cost of 20 ms over a target of 20 ms. It costs 20 ms
    /// if it is one in a hundred.
    #[test]
    fn reordered_packets_count_if_there_are_many() {
        let one_in = |packets: i64| {
            let mut manager = DelayManager::new();
            for i in 0..20_000 {
                let reordered = i % packets == packets - 1;
                manager.update(20 * i, if reordered { 50 } else { 0 }, reordered);
            }
            manager.target_ms()
        };
        assert_eq!([one_in(300), one_in(30)], [20, 60]);
    }
}
