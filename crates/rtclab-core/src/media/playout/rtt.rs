//! Round-trip times as the receiver of a video stream knows them.

use crate::units::Time;
use std::collections::VecDeque;

/// Interval at which round trips are sampled and reported (libwebrtc, `rtp_rtcp_impl2.cc`, `call_stats2.cc`).
const INTERVAL: Time = Time::from_secs(1);
/// A sample counts for this long (libwebrtc, `call_stats2.cc`).
const WINDOW: Time = Time::from_millis(1_500);

/// The longest round trip of the last 1.5 s.
///
/// Once a second the last report block's round trip is sampled, if it is less than a second old. The maximum
/// is reported then, and by a second timer of the same interval. Without report blocks, for example when
/// nothing is sent, there are no samples.
///
/// Source: libwebrtc, `call_stats2.cc`, `rtp_rtcp_impl2.cc`.
pub struct RecentRtt {
    phases: [Time; 2],
    /// Next sample, and next report.
    next: Option<[Time; 2]>,
    latest: (Time, Time),
    samples: VecDeque<(Time, Time)>,
    max: Option<Time>,
}

impl RecentRtt {
    /// Starts without samples, with the phases of the two timers.
    pub fn new(phases: [Time; 2]) -> Self {
        RecentRtt {
            phases,
            next: None,
            latest: (Time::ZERO, Time::ZERO),
            samples: VecDeque::new(),
            max: None,
        }
    }

    /// The value reported last.
    pub fn max(&self) -> Option<Time> {
        self.max
    }

    /// Takes the round trip of a report block. The values reported until now go to `report`.
    pub fn on_report_block(&mut self, now: Time, rtt: Time, report: &mut dyn FnMut(Time)) {
        self.advance(now, report);
        let phases = self.phases;
        self.next.get_or_insert_with(|| {
            phases.map(|phase| now.saturating_sub(phase).ceil_to(INTERVAL) + phase)
        });
        self.latest = (now, rtt);
    }

    /// Whether a timer is due.
    pub fn is_due(&self, now: Time) -> bool {
        self.next.is_some_and(|next| next[0].min(next[1]) <= now)
    }

    /// Runs both timers until `now`. The values reported go to `report`.
    pub fn advance(&mut self, now: Time, report: &mut dyn FnMut(Time)) {
        let Some(mut next) = self.next else { return };
        while next[0].min(next[1]) <= now {
            let due = usize::from(next[1] < next[0]);
            let at = next[due];
            next[due] = at + INTERVAL;
            if due == 0 {
                let (received, rtt) = self.latest;
                if at >= received + INTERVAL {
                    continue;
                }
                self.samples.push_back((at, Time::from_millis((rtt.0 + 500_000) / 1_000_000)));
            }
            self.samples.retain(|(sampled, _)| at <= *sampled + WINDOW);
            if let Some(max) = self.samples.iter().map(|(_, rtt)| *rtt).max() {
                self.max = Some(max);
                report(max);
            }
        }
        self.next = Some(next);
    }
}

/// Larger round trips count as this, in ms.
const MAX_MS: f64 = 3_000.0;
/// Largest weight denominator of the averages.
const MAX_COUNT: u32 = 35;
/// A sample further than this many standard deviations from the average may be a jump.
const JUMP_DEVIATIONS: f64 = 2.5;
/// A maximum further than this many standard deviations above the average may be outdated.
const DRIFT_DEVIATIONS: f64 = 3.5;
/// Consecutive samples that make a jump or a drift.
const CONSECUTIVE: usize = 5;

/// The largest round trip, which falls only when five samples in a row agree.
///
/// Source: libwebrtc, `video/timing/rtt_filter.cc`.
#[derive(Clone, Debug)]
pub struct RttFilter {
    started: bool,
    count: u32,
    average_ms: f64,
    variance: f64,
    max_ms: f64,
    jump: Vec<f64>,
    jumped_down: bool,
    drift: Vec<f64>,
}

impl Default for RttFilter {
    fn default() -> Self {
        RttFilter {
            started: false,
            count: 1,
            average_ms: 0.0,
            variance: 0.0,
            max_ms: 0.0,
            jump: Vec::new(),
            jumped_down: false,
            drift: Vec::new(),
        }
    }
}

impl RttFilter {
    /// The filtered maximum in ms; 0 before the first sample.
    pub fn max_ms(&self) -> f64 {
        self.max_ms
    }

    /// Takes a sample in ms.
    pub fn update(&mut self, rtt_ms: f64) {
        if !self.started && rtt_ms <= 0.0 {
            return;
        }
        self.started = true;
        let rtt_ms = rtt_ms.min(MAX_MS);
        let keep = f64::from(self.count - 1) / f64::from(self.count);
        self.count = (self.count + 1).min(MAX_COUNT);
        let before = (self.average_ms, self.variance);
        self.average_ms = keep * self.average_ms + (1.0 - keep) * rtt_ms;
        let deviation = (rtt_ms - self.average_ms).round();
        self.variance = (keep * self.variance + (1.0 - keep) * deviation * deviation).floor();
        self.max_ms = self.max_ms.max(rtt_ms);
        if !self.accepts(rtt_ms) {
            (self.average_ms, self.variance) = before;
            return;
        }
        self.detect_drift(rtt_ms);
    }

    /// Whether the sample is near the average, or the last of a jump.
    fn accepts(&mut self, rtt_ms: f64) -> bool {
        let below = self.average_ms - rtt_ms;
        if below.abs() <= JUMP_DEVIATIONS * self.variance.sqrt() {
            self.jump.clear();
            return true;
        }
        let down = below >= 0.0;
        if !self.jump.is_empty() && down != self.jumped_down {
            self.jump.clear();
        }
        if self.jump.len() < CONSECUTIVE {
            self.jump.push(rtt_ms);
            self.jumped_down = down;
        }
        if self.jump.len() < CONSECUTIVE {
            return false;
        }
        let jump = std::mem::take(&mut self.jump);
        self.restart(&jump);
        true
    }

    fn detect_drift(&mut self, rtt_ms: f64) {
        if self.max_ms - self.average_ms <= DRIFT_DEVIATIONS * self.variance.sqrt() {
            self.drift.clear();
            return;
        }
        if self.drift.len() < CONSECUTIVE {
            self.drift.push(rtt_ms);
        }
        if self.drift.len() == CONSECUTIVE {
            let drift = std::mem::take(&mut self.drift);
            self.restart(&drift);
        }
    }

    fn restart(&mut self, samples: &[f64]) {
        self.max_ms = samples.iter().copied().fold(0.0, f64::max);
        self.average_ms = samples.iter().sum::<f64>() / samples.len() as f64;
        self.count = CONSECUTIVE as u32 + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(samples: &[f64]) -> RttFilter {
        let mut filter = RttFilter::default();
        samples.iter().for_each(|rtt| filter.update(*rtt));
        filter
    }

    #[test]
    fn a_single_long_round_trip_raises_the_maximum_at_once() {
        let mut filter = filter(&[80.0; 20]);
        assert_eq!(filter.max_ms(), 80.0);
        filter.update(200.0);
        assert_eq!(filter.max_ms(), 200.0);
    }

    #[test]
    fn the_maximum_falls_with_the_fifth_shorter_sample_in_a_row() {
        let mut filter = filter(&[200.0; 20]);
        for n in 1..=5 {
            filter.update(100.0);
            assert_eq!(filter.max_ms(), if n < 5 { 200.0 } else { 100.0 }, "{n}");
        }
    }

    #[test]
    fn round_trips_are_capped_at_three_seconds_and_zeros_before_the_first_are_ignored() {
        assert_eq!(filter(&[0.0, 5_000.0]).max_ms(), 3_000.0);
    }

    /// Reports at 0.2 and 1.7 s. Samples are taken at 0.25, 1.25, … s, but only of reports less than a second
    /// old: at 1.25 s and 2.75 s the reports are too old.
    #[test]
    fn samples_need_a_fresh_report_and_count_for_a_second_and_a_half() {
        let mut recent = RecentRtt::new([Time::from_millis(250), Time::from_millis(500)]);
        let mut reports = Vec::new();
        let ms = Time::from_millis;
        recent.on_report_block(ms(200), ms(90), &mut |rtt| reports.push(rtt.as_millis()));
        recent.advance(ms(260), &mut |rtt| reports.push(rtt.as_millis()));
        assert_eq!(reports, [90]);
        recent.on_report_block(ms(1_700), ms(80), &mut |rtt| reports.push(rtt.as_millis()));
        // At 0.5 and 1.5 s the timer reports the sample of 0.25 s.
        assert_eq!(reports, [90, 90, 90]);
        recent.advance(ms(2_300), &mut |rtt| reports.push(rtt.as_millis()));
        assert_eq!((recent.max(), reports.last()), (Some(ms(80)), Some(&80)));
    }

    #[test]
    fn without_report_blocks_there_is_no_round_trip() {
        let mut recent = RecentRtt::new([Time::ZERO; 2]);
        recent.advance(Time::from_secs(100), &mut |_| panic!("a report"));
        assert_eq!(recent.max(), None);
    }
}
