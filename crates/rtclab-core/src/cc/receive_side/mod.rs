//! Receive-side congestion control: arrivals → groups → filter → detector → rate control → REMB.
//!
//! All algorithms of 2013 to 2016 have the same parts; a [`ReceiveSideConfig`] selects the variant of each.
//! There is one detector per connection, because a connection carries one video stream.

pub(crate) mod detector;
pub(crate) mod dynamic_alpha;
pub(crate) mod groups;
pub(crate) mod incoming;
pub(crate) mod increase;
pub(crate) mod kalman;
pub(crate) mod overuse;
pub(crate) mod probe;
pub(crate) mod rate_control;
pub(crate) mod remb;
pub(crate) mod state;

use super::control::{ControlError, Estimator, Observation, ReceivedPacket};
use crate::units::{Bitrate, Bytes, Time};
use detector::{Detector, DetectorConfig};
use groups::{Grouping, Groups};
use incoming::IncomingRate;
use kalman::{Filter, KalmanConfig};
use probe::ProbeDetector;
use rate_control::{Input, RateControlConfig, ReceiveSideRateControl};
use remb::RembThrottle;
use state::Usage;
use std::collections::VecDeque;

/// After this long without packets, measurements are discarded; in 2013 the rate as well.
const IDLE: Time = Time::from_secs(2);
/// The round-trip time is the maximum over this window (libwebrtc, `call_stats.cc`).
const RTT_WINDOW: Time = Time::from_millis(1_500);
/// The round-trip time is updated at this interval (libwebrtc, `call_stats.cc`).
const RTT_INTERVAL: Time = Time::from_secs(1);

/// How often the rate control runs, apart from updates on over-use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Updates {
    /// Once a second (2013).
    EverySecond,
    /// As often as an 80-byte REMB per update fits into 5 % of the rate, every 200 ms to 1 s (since 2014).
    FivePercent,
}

/// What packets are grouped by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum GroupingClock {
    /// RTP timestamps, which gives frames.
    Frames,
    /// Send times (abs-send-time), which gives bursts of 5 ms, and probes at the start.
    SendTimes,
}

impl GroupingClock {
    fn grouping(self) -> Grouping {
        match self {
            GroupingClock::Frames => Grouping::FRAMES,
            GroupingClock::SendTimes => Grouping::BURSTS_OF_5_MS,
        }
    }
}

/// Variant of each part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ReceiveSideConfig {
    pub(crate) clock: GroupingClock,
    /// The two-state filter; `None` selects the draft's one-state filter.
    pub(crate) kalman: Option<KalmanConfig>,
    pub(crate) detector: DetectorConfig,
    pub(crate) rate_control: RateControlConfig,
    /// The incoming rate is measured over this time.
    pub(crate) window: Time,
    pub(crate) updates: Updates,
    /// Minimum time between two REMBs, unless the estimate falls.
    pub(crate) remb_interval: Time,
}

/// The receiver half of the algorithms of 2013 to 2016.
pub(crate) struct ReceiveSide {
    config: ReceiveSideConfig,
    groups: Groups,
    filter: Filter,
    detector: Detector,
    incoming: IncomingRate,
    control: ReceiveSideRateControl,
    probes: ProbeDetector,
    remb: RembThrottle,
    last_packet: Time,
    next_update: Option<Time>,
    rtts: VecDeque<(Time, Time)>,
    rtt_taken: Time,
    incoming_bps: f64,
}

impl ReceiveSide {
    pub(crate) fn new(config: ReceiveSideConfig) -> Self {
        ReceiveSide {
            groups: Groups::new(config.clock.grouping()),
            filter: Filter::new(config.kalman),
            detector: Detector::new(config.detector),
            incoming: IncomingRate::new(config.window),
            control: ReceiveSideRateControl::new(config.rate_control),
            probes: ProbeDetector::default(),
            remb: RembThrottle::new(config.remb_interval),
            last_packet: Time::ZERO,
            next_update: None,
            rtts: VecDeque::new(),
            rtt_taken: Time::ZERO,
            incoming_bps: 0.0,
            config,
        }
    }

    /// The sender's timestamp that packets are grouped by.
    fn timestamp(&self, packet: &ReceivedPacket) -> Option<u32> {
        match self.config.clock {
            GroupingClock::Frames => Some(packet.rtp_timestamp),
            // libwebrtc shifts the 24 bits to the top of 32, so that differences wrap correctly.
            GroupingClock::SendTimes => packet.abs_send_time.map(|time| time.bits() << 8),
        }
    }

    fn look_for_probe(&mut self, packet: &ReceivedPacket, timestamp: u32) -> bool {
        let send_ms = f64::from(timestamp) / Grouping::BURSTS_OF_5_MS.ticks_per_ms;
        let estimate = self.control.estimate();
        let found = self.probes.on_packet(packet.at, send_ms, packet.payload, estimate);
        if let Some(rate) = found {
            self.control.set_estimate(packet.at, rate);
        }
        found.is_some()
    }

    fn detect(&mut self, packet: &ReceivedPacket, timestamp: u32) {
        let arrival_ms = packet.at.as_millis() as i64;
        let Some(deltas) = self.groups.on_packet(timestamp, arrival_ms, packet.payload.0) else {
            return;
        };
        let (filter, detector) = (&mut self.filter, &mut self.detector);
        let stable = detector.is_stable(filter.offset_ms(), filter.count() + 1);
        filter.update(&deltas, detector.usage(), stable);
        detector.detect(packet.at, filter.offset_ms(), filter.count(), deltas.send_ms);
    }

    fn update(&mut self, now: Time) {
        self.incoming_bps = self.incoming.bps(now);
        let input = Input {
            usage: self.detector.usage(),
            incoming_bps: self.incoming_bps,
            noise: self.filter.noise(),
            raised_ms: self.detector.raised_ms(),
            detector_ms: (self.detector.value_ms(), self.detector.threshold_ms()),
        };
        let region = self.control.update(now, &input);
        self.detector.set_region(region);
        if let Some(estimate) = self.control.estimate() {
            self.remb.on_estimate(now, estimate);
        }
    }

    /// Discards state after the last stream has timed out, as libwebrtc's
    /// `remote_bitrate_estimator_{single_stream,abs_send_time}.cc` do: the former drops detector and rate,
    /// the latter only groups and filter.
    fn discard(&mut self) {
        match self.config.clock {
            GroupingClock::Frames => *self = ReceiveSide::new(self.config),
            GroupingClock::SendTimes => {
                self.groups = Groups::new(self.config.clock.grouping());
                self.filter = Filter::new(self.config.kalman);
                self.next_update = None;
            }
        }
    }

    fn interval(&self) -> Time {
        const REMB_SIZE: Bytes = Bytes(80);
        const REMB_SHARE: f64 = 0.05;
        let second = Time::from_secs(1);
        match (self.config.updates, self.control.estimate()) {
            (Updates::EverySecond, _) | (_, None) => second,
            (Updates::FivePercent, Some(rate)) => rate
                .scaled(REMB_SHARE)
                .time_for(REMB_SIZE)
                .map_or(second, |time| time.clamp(Time::from_millis(200), second)),
        }
    }
}

impl Estimator for ReceiveSide {
    fn on_packet(&mut self, packet: &ReceivedPacket) -> Result<(), ControlError> {
        // Receive-side algorithms ignored audio.
        if packet.audio {
            return Ok(());
        }
        let now = packet.at;
        self.last_packet = now;
        self.next_update.get_or_insert(now + self.interval());
        self.incoming.add(now, packet.payload);
        let before = self.detector.usage();
        let mut probed = false;
        if let Some(timestamp) = self.timestamp(packet) {
            probed = self.config.clock == GroupingClock::SendTimes
                && self.look_for_probe(packet, timestamp);
            self.detect(packet, timestamp);
        }
        if probed {
            self.update(now);
        } else if self.detector.usage() == Usage::Over {
            let incoming = self.incoming.bps(now);
            if before != Usage::Over || self.control.may_reduce_again(now, incoming) {
                self.update(now);
            }
        }
        Ok(())
    }

    fn on_rtt(&mut self, now: Time, rtt: Time) {
        self.rtts.push_back((now, rtt));
        while self.rtts.front().is_some_and(|(at, _)| *at + RTT_WINDOW < now) {
            self.rtts.pop_front();
        }
        if now >= self.rtt_taken + RTT_INTERVAL {
            self.rtt_taken = now;
            let largest = self.rtts.iter().map(|(_, rtt)| *rtt).max();
            self.control.set_rtt(largest.unwrap_or(rtt));
        }
    }

    fn on_timeout(&mut self, now: Time) -> Result<(), ControlError> {
        if now > self.last_packet + IDLE {
            self.discard();
            return Ok(());
        }
        self.update(now);
        self.next_update = Some(now + self.interval());
        Ok(())
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.next_update
    }

    fn poll_remb(&mut self) -> Option<Bitrate> {
        self.remb.take()
    }

    fn observe(&self, out: &mut Vec<Observation>) {
        out.extend([
            Observation::new("offset_ms", self.filter.offset_ms()),
            Observation::new("noise_variance_ms2", self.filter.noise()),
            Observation::new("detector_value_ms", self.detector.value_ms()),
            Observation::new("threshold_ms", self.detector.threshold_ms()),
            Observation::new("detector_state", f64::from(self.detector.usage() as u8)),
            Observation::new("rate_control_state", f64::from(self.control.state() as u8)),
            Observation::new("rate_control_region", f64::from(self.control.region() as u8)),
            Observation::new("incoming_rate_bps", self.incoming_bps),
        ]);
        let estimate = self.control.estimate();
        out.extend(estimate.map(|rate| Observation::new("delay_based_rate_bps", rate.0 as f64)));
        if self.control.alpha().is_finite() {
            out.push(Observation::new("alpha", self.control.alpha()));
        }
    }
}

#[cfg(test)]
mod tests;
