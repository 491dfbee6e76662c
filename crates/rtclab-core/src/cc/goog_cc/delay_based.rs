//! Delay-based part: groups, trend, detector and rate control together.
//!
//! Source: libwebrtc, `delay_based_bwe.cc`.

use super::arithmetic::SECOND;
use super::inter_arrival::InterArrival;
use super::packet::PacketResult;
use super::rate_control::AimdRateControl;
use super::trendline::{Trendline, TrendlineConfig};
use crate::cc::receive_side::state::Usage;

/// Groups and trend start anew after this long without reports.
const SILENCE: i64 = 2 * SECOND;

/// What a report did to the delay-based estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DelayResult {
    /// The estimate in bit/s, if it was updated.
    pub(super) updated: Option<i64>,
    /// The estimate is a probe's result.
    pub(super) is_probe: bool,
    /// Under-use ended within this report.
    pub(super) recovered: bool,
}

/// The delay-based estimate.
#[derive(Debug)]
pub(super) struct DelayBased {
    config: TrendlineConfig,
    groups: InterArrival,
    trendline: Trendline,
    rate: AimdRateControl,
    last_report: Option<i64>,
    last_updated: i64,
}

impl DelayBased {
    /// Starts without reports.
    pub(super) fn new(config: TrendlineConfig, beta: f64) -> Self {
        DelayBased {
            config,
            groups: InterArrival::default(),
            trendline: Trendline::new(config),
            rate: AimdRateControl::new(beta),
            last_report: None,
            last_updated: 0,
        }
    }

    /// Rate control, for its limits, its round trip and the trace.
    pub(super) fn rate(&self) -> &AimdRateControl {
        &self.rate
    }

    /// See [`DelayBased::rate`].
    pub(super) fn rate_mut(&mut self) -> &mut AimdRateControl {
        &mut self.rate
    }

    /// Trend and detector.
    pub(super) fn trendline(&self) -> &Trendline {
        &self.trendline
    }

    /// The estimate that a report gave last, in bit/s; 0 before the first.
    pub(super) fn last_updated(&self) -> i64 {
        self.last_updated
    }

    /// Adds the packets of a report that arrived, sorted by arrival.
    pub(super) fn add(
        &mut self,
        now: i64,
        packets: &[PacketResult],
        acknowledged: Option<i64>,
        probe: Option<i64>,
    ) -> DelayResult {
        if packets.is_empty() {
            return DelayResult::default();
        }
        if self.last_report.replace(now).is_none_or(|last| now - last > SILENCE) {
            self.groups = InterArrival::default();
            self.trendline = Trendline::new(self.config);
        }
        let mut recovered = false;
        for packet in packets {
            let before = self.trendline.usage();
            let Some(received) = packet.received else { continue };
            if let Some(deltas) = self.groups.add(packet.sent, received, now) {
                self.trendline.add(deltas, received);
            }
            recovered |= before == Usage::Under && self.trendline.usage() == Usage::Normal;
        }
        let result = self.decide(now, acknowledged, probe, recovered);
        self.last_updated = result.updated.unwrap_or(self.last_updated);
        result
    }

    fn decide(
        &mut self,
        now: i64,
        acknowledged: Option<i64>,
        probe: Option<i64>,
        recovered: bool,
    ) -> DelayResult {
        let usage = self.trendline.usage();
        match (usage, acknowledged, probe) {
            (Usage::Over, Some(rate), _) => {
                if !self.rate.may_decrease(now, rate) {
                    return DelayResult::default();
                }
                self.updated_by(now, usage, acknowledged, false)
            }
            (Usage::Over, None, _) => {
                if !self.rate.is_valid() {
                    return DelayResult::default();
                }
                self.rate.set_estimate(now, self.rate.estimate() / 2);
                DelayResult { updated: Some(self.rate.estimate()), ..DelayResult::default() }
            }
            (_, _, Some(probe)) => {
                self.rate.set_estimate(now, probe);
                let updated = Some(self.rate.estimate());
                DelayResult { updated, is_probe: true, recovered: false }
            }
            _ => self.updated_by(now, usage, acknowledged, recovered),
        }
    }

    fn updated_by(
        &mut self,
        now: i64,
        usage: Usage,
        acknowledged: Option<i64>,
        recovered: bool,
    ) -> DelayResult {
        let is_valid = self.rate.update(now, usage, acknowledged);
        let updated = is_valid.then(|| self.rate.estimate());
        DelayResult { updated, is_probe: false, recovered }
    }
}

#[cfg(test)]
mod tests {
    use super::super::arithmetic::MS;
    use super::*;

    fn with_start(bps: i64) -> DelayBased {
        let mut delay = DelayBased::new(TrendlineConfig::default(), 0.85);
        delay.rate_mut().set_start(bps);
        delay
    }

    /// Reports one packet every 20 ms that arrives `ms` after the one before.
    fn report(delay: &mut DelayBased, i: i64, ms: i64, acknowledged: Option<i64>) -> DelayResult {
        let packet = PacketResult {
            seq: i,
            sent: i * 20 * MS,
            received: Some(i * ms * MS),
            size: 1_000,
            probe: None,
        };
        delay.add(i * ms * MS + 50 * MS, &[packet], acknowledged, None)
    }

    #[test]
    fn over_use_without_acknowledged_rate_halves_the_estimate_at_every_report() {
        let mut delay = with_start(400_000);
        let mut i = 0;
        while delay.trendline().usage() != Usage::Over {
            report(&mut delay, i, 22, None);
            i += 1;
        }
        // Up to here 25 reports grew the estimate, and the last one halved it.
        let halved = delay.rate().estimate();
        assert!((200_000..240_000).contains(&halved), "{halved}");
        assert_eq!(report(&mut delay, i, 22, None).updated, Some(halved / 2));
    }

    #[test]
    fn a_probe_replaces_the_estimate_unless_the_link_is_over_used() {
        let mut delay = with_start(400_000);
        assert_eq!(delay.last_updated(), 0);
        let packet = PacketResult { seq: 0, sent: 0, received: Some(0), size: 1_000, probe: None };
        let result = delay.add(0, &[packet], None, Some(900_000));
        assert_eq!(
            result,
            DelayResult { updated: Some(900_000), is_probe: true, recovered: false }
        );
        assert_eq!(delay.last_updated(), 900_000);
    }

    #[test]
    fn two_seconds_of_silence_forget_the_trend_but_not_the_estimate() {
        for (pause, is_over) in [(2_000, true), (2_001, false)] {
            let mut delay = with_start(400_000);
            for i in 0..40 {
                report(&mut delay, i, 22, Some(400_000));
            }
            assert_eq!(delay.trendline().usage(), Usage::Over);
            let estimate = delay.rate().estimate();
            let packet = PacketResult {
                seq: 40,
                sent: 39 * 20 * MS,
                received: Some(900 * MS),
                size: 1,
                probe: None,
            };
            delay.add((39 * 22 + 50 + pause) * MS, &[packet], Some(400_000), None);
            assert_eq!(delay.trendline().usage() == Usage::Over, is_over, "{pause}");
            assert!(delay.rate().estimate() <= estimate + 70_000);
        }
    }
}
