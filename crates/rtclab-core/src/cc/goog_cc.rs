//! Today's libwebrtc: the send-side algorithm as published in the crate `goog_cc`, a port of
//! libwebrtc revision da2a3d6c4d (December 2024), wrapped as a [`Controller`].

#[allow(dead_code, reason = "the parts that use it follow")]
mod alr;
#[allow(dead_code, reason = "the parts that use it follow")]
mod arithmetic;
#[allow(dead_code, reason = "the parts that use it follow")]
mod delay_based;
#[allow(dead_code, reason = "the parts that use it follow")]
mod inter_arrival;
#[allow(dead_code, reason = "the parts that use it follow")]
mod link_capacity;
#[allow(dead_code, reason = "the parts that use it follow")]
mod loss_based;
#[allow(dead_code, reason = "the parts that use it follow")]
mod pacing;
#[allow(dead_code, reason = "the parts that use it follow")]
mod packet;
#[allow(dead_code, reason = "the parts that use it follow")]
mod probe_controller;
#[allow(dead_code, reason = "the parts that use it follow")]
mod probe_estimator;
#[allow(dead_code, reason = "the parts that use it follow")]
mod pushback;
#[allow(dead_code, reason = "the parts that use it follow")]
mod rate_control;
#[allow(dead_code, reason = "the parts that use it follow")]
mod send_side;
#[allow(dead_code, reason = "the parts that use it follow")]
mod throughput;
#[allow(dead_code, reason = "the parts that use it follow")]
mod trendline;

use super::control::{
    ControlError, Controller, Decision, Feedback, Observation, PacketReport, Probe, RateBounds,
    SenderState, SentPacket,
};
use crate::packet::Kind;
use crate::units::{Bitrate, Bytes, Time};
use goog_cc::network_control::{NetworkControllerConfig, NetworkControllerInterface};
use goog_cc::transport::{
    NetworkAvailability, NetworkControlUpdate, PacedPacketInfo, PacketResult, ProcessInterval,
    RemoteBitrateReport, RoundTripTimeUpdate, StreamsConfig, TargetRateConstraints,
    TransportLossReport, TransportPacketsFeedback,
};
use goog_cc::units::{DataRate, DataSize, TimeDelta, Timestamp};
use goog_cc::{GoogCcConfig, GoogCcNetworkController};
use send_wrapper::SendWrapper;
use std::collections::VecDeque;

/// libwebrtc, `GoogCcNetworkControllerFactory::GetProcessInterval`.
const PROCESS_INTERVAL: Time = Time::from_millis(25);

/// Added to all times, because the algorithm sometimes takes zero to mean "not set".
const EPOCH: Time = Time::from_secs(1);

/// Send-side congestion control of today's Chromium.
pub struct GoogCc {
    /// The crate's type is not `Send`, but a run starts and ends on one thread.
    inner: SendWrapper<GoogCcNetworkController>,
    decision: Decision,
    next_process: Time,
    probes: VecDeque<Probe>,
    announced: Vec<(i32, Probe)>,
    rtt: Option<Time>,
    loss_ratio: f64,
    /// Packets from feedback that reported no arrival, held until the next arrival.
    held: Vec<PacketResult>,
}

fn timestamp(at: Time) -> Timestamp {
    Timestamp::from_micros((at + EPOCH).as_micros() as i64)
}

fn rate(bitrate: Bitrate) -> DataRate {
    DataRate::from_bits_per_sec(bitrate.0 as i64)
}

fn bitrate(rate: DataRate) -> Bitrate {
    Bitrate(rate.bps().max(0) as u64)
}

fn size(bytes: Bytes) -> DataSize {
    DataSize::from_bytes(bytes.0 as i64)
}

impl GoogCc {
    /// Starts as libwebrtc does for one video stream with these bounds.
    pub fn new(bounds: RateBounds) -> Self {
        let streams = StreamsConfig {
            at_time: timestamp(Time::ZERO),
            requests_alr_probing: Some(true),
            max_total_allocated_bitrate: Some(rate(bounds.max)),
            min_total_allocated_bitrate: Some(rate(bounds.min)),
            ..StreamsConfig::default()
        };
        let config = NetworkControllerConfig {
            constraints: TargetRateConstraints {
                at_time: timestamp(Time::ZERO),
                min_data_rate: Some(rate(bounds.min)),
                max_data_rate: None,
                starting_rate: Some(rate(bounds.start)),
            },
            stream_based_config: streams,
            ..NetworkControllerConfig::default()
        };
        GoogCc {
            inner: SendWrapper::new(GoogCcNetworkController::new(config, GoogCcConfig::default())),
            decision: Decision::at(bounds.start),
            next_process: Time::ZERO,
            probes: VecDeque::new(),
            announced: Vec::new(),
            rtt: None,
            loss_ratio: 0.0,
            held: Vec::new(),
        }
    }

    fn apply(&mut self, update: NetworkControlUpdate) {
        if !update.has_updates() {
            return;
        }
        if let Some(target) = update.target_rate {
            self.decision.target = bitrate(target.target_rate);
            self.decision.drop_ratio = target.cwnd_reduce_ratio.clamp(0.0, 1.0);
            self.loss_ratio = f64::from(target.network_estimate.loss_rate_ratio);
            let rtt = target.network_estimate.round_trip_time;
            if rtt.is_finite() {
                self.rtt = Some(Time::from_micros(rtt.us().max(0) as u64));
            }
        }
        if let Some(pacer) = update.pacer_config {
            self.decision.pacing_rate = Some(bitrate(pacer.data_rate()));
            self.decision.padding_rate = bitrate(pacer.pad_rate());
        }
        for cluster in update.probe_cluster_configs {
            let rate = bitrate(cluster.target_data_rate);
            let duration = Time::from_micros(cluster.target_duration.us().max(0) as u64);
            let probe = Probe {
                id: cluster.id as u32,
                rate,
                min_packets: cluster.target_probe_count.max(0) as u32,
                min_bytes: rate.bytes_in(duration),
                min_spacing: Time::from_micros(cluster.min_probe_delta.us().max(0) as u64),
            };
            self.announced.push((cluster.id, probe));
            if self.announced.len() > 16 {
                self.announced.remove(0);
            }
            self.probes.push_back(probe);
        }
    }

    fn pacing_info(&self, probe: Option<u32>) -> PacedPacketInfo {
        let Some(id) = probe.map(|id| id as i32) else { return PacedPacketInfo::default() };
        let Some((_, probe)) = self.announced.iter().find(|(known, _)| *known == id) else {
            return PacedPacketInfo::default();
        };
        let (packets, bytes) = (i64::from(probe.min_packets), probe.min_bytes.0 as i64);
        PacedPacketInfo {
            send_bitrate: rate(probe.rate),
            ..PacedPacketInfo::new(id, packets, bytes)
        }
    }

    fn sent_packet(&self, packet: &SentPacket) -> goog_cc::transport::SentPacket {
        goog_cc::transport::SentPacket {
            send_time: timestamp(packet.at),
            size: size(packet.size),
            prior_unacked_data: DataSize::zero(),
            pacing_info: self.pacing_info(packet.probe),
            audio: packet.kind == Kind::Audio,
            sequence_number: packet.transport_seq,
            data_in_flight: size(packet.in_flight),
        }
    }

    fn on_packets(&mut self, now: Time, reports: &[PacketReport], in_flight: Bytes) {
        let mut feedbacks = std::mem::take(&mut self.held);
        feedbacks.extend(reports.iter().map(|report| PacketResult {
            sent_packet: self.sent_packet(&report.sent),
            receive_time: report.received.map_or(Timestamp::plus_infinity(), |at| timestamp(at.0)),
            ..PacketResult::default()
        }));
        if !feedbacks.iter().any(PacketResult::is_received) {
            self.held = feedbacks;
            return;
        }
        let update = self.inner.on_transport_packets_feedback(TransportPacketsFeedback {
            feedback_time: timestamp(now),
            data_in_flight: size(in_flight),
            packet_feedbacks: feedbacks,
            sendless_arrival_times: Vec::new(),
        });
        self.apply(update);
    }
}

impl Controller for GoogCc {
    fn on_sent(&mut self, packet: &SentPacket) -> Result<(), ControlError> {
        let sent = self.sent_packet(packet);
        let update = self.inner.on_sent_packet(sent);
        self.apply(update);
        Ok(())
    }

    fn on_feedback(&mut self, now: Time, feedback: Feedback<'_>) -> Result<(), ControlError> {
        let receive_time = timestamp(now);
        match feedback {
            Feedback::Packets { reports, in_flight, .. } => {
                self.on_packets(now, reports, in_flight);
            }
            Feedback::ReceiverReport { lost, expected, rtt, .. } => {
                let update = self.inner.on_transport_loss_report(TransportLossReport {
                    receive_time,
                    packets_lost_delta: lost,
                    packets_received_delta: expected.saturating_sub(lost),
                    ..TransportLossReport::default()
                });
                self.apply(update);
                if let Some(rtt) = rtt.filter(|rtt| rtt.as_micros() > 0) {
                    let update = self.inner.on_round_trip_time_update(RoundTripTimeUpdate {
                        receive_time,
                        round_trip_time: TimeDelta::from_micros(rtt.as_micros() as i64),
                        smoothed: false,
                    });
                    self.apply(update);
                }
            }
            Feedback::Remb(bandwidth) => {
                let update = self.inner.on_remote_bitrate_report(RemoteBitrateReport {
                    receive_time,
                    bandwidth: rate(bandwidth),
                });
                self.apply(update);
            }
        }
        Ok(())
    }

    fn on_timeout(&mut self, now: Time, _sender: &SenderState) -> Result<(), ControlError> {
        if self.next_process == Time::ZERO {
            let update = self.inner.on_network_availability(NetworkAvailability {
                at_time: timestamp(now),
                network_available: true,
            });
            self.apply(update);
        }
        let update = self
            .inner
            .on_process_interval(ProcessInterval { at_time: timestamp(now), pacer_queue: None });
        self.apply(update);
        self.next_process = now + PROCESS_INTERVAL;
        Ok(())
    }

    fn poll_timeout(&self) -> Option<Time> {
        Some(self.next_process)
    }

    fn poll_probe(&mut self) -> Option<Probe> {
        self.probes.pop_front()
    }

    fn decision(&self) -> Decision {
        self.decision
    }

    fn observe(&self, out: &mut Vec<Observation>) {
        let pacing = self.decision.pacing_rate;
        out.push(Observation::new("target_bps", self.decision.target.0 as f64));
        out.extend(pacing.map(|rate| Observation::new("pacing_rate_bps", rate.0 as f64)));
        out.push(Observation::new("loss_ratio", self.loss_ratio));
        out.push(Observation::new("drop_ratio", self.decision.drop_ratio));
        out.extend(self.rtt.map(|rtt| Observation::new("rtt_ms", rtt.as_secs_f64() * 1e3)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Ecn;
    use crate::units::RemoteTime;

    fn report(sent: SentPacket, received: Option<RemoteTime>) -> PacketReport {
        PacketReport { sent, received, ecn: None, lost_before: false }
    }

    fn packets(reports: &[PacketReport], in_flight: Bytes) -> Feedback<'_> {
        Feedback::Packets { reports, in_flight, resolution: Time::from_micros(250) }
    }

    /// A closed loop over one FIFO: 1200-byte packets at the target rate, feedback every 50 ms.
    fn converge(capacity: Bitrate, seconds: u64) -> Bitrate {
        let kbps = Bitrate::from_kbps;
        let bounds =
            RateBounds { start: kbps(300), min: kbps(30), max: kbps(5_000), audio: Bitrate::ZERO };
        let mut cc = GoogCc::new(bounds);
        let (mut now, mut free, mut seq) = (Time::ZERO, Time::ZERO, 0);
        let mut waiting: VecDeque<(SentPacket, Time)> = VecDeque::new();
        let mut next_feedback = Time::from_millis(50);
        while now < Time::from_secs(seconds) {
            while cc.poll_timeout().is_some_and(|at| at <= now) {
                cc.on_timeout(now, &SenderState::default()).expect("no error");
            }
            let size = Bytes(1200);
            free = free.max(now) + capacity.time_for(size).unwrap_or_default();
            let probe = cc.poll_probe().map(|p| p.id);
            let packet = SentPacket {
                transport_seq: seq,
                at: now,
                size,
                kind: Kind::Video,
                probe,
                in_flight: Bytes(1200 * (1 + waiting.len() as u64)),
                ecn: Ecn::NotCapable,
            };
            seq += 1;
            cc.on_sent(&packet).expect("no error");
            waiting.push_back((packet, free + Time::from_millis(25)));
            if now >= next_feedback {
                next_feedback = now + Time::from_millis(50);
                let mut reports = Vec::new();
                while waiting
                    .front()
                    .is_some_and(|(_, arrival)| *arrival + Time::from_millis(25) <= now)
                {
                    if let Some((sent, arrival)) = waiting.pop_front() {
                        reports.push(report(sent, Some(RemoteTime(arrival))));
                    }
                }
                let in_flight = Bytes(1200 * waiting.len() as u64);
                cc.on_feedback(now, packets(&reports, in_flight)).expect("no error");
            }
            now += cc.decision().target.time_for(size).unwrap_or(Time::from_millis(1));
        }
        cc.decision().target
    }

    #[test]
    fn a_lone_flow_settles_between_70_and_110_percent_of_the_link() {
        for kbps in [500, 1000, 2000] {
            let target = converge(Bitrate::from_kbps(kbps), 60);
            assert!((kbps * 700..kbps * 1100).contains(&target.0), "{kbps} kbit/s: {target:?}");
        }
    }

    #[test]
    fn feedback_without_any_arrival_does_not_panic_and_is_held_for_the_next() {
        let kbps = Bitrate::from_kbps;
        let mut cc = GoogCc::new(RateBounds {
            start: kbps(300),
            min: kbps(30),
            max: kbps(2_000),
            audio: Bitrate::ZERO,
        });
        cc.on_timeout(Time::ZERO, &SenderState::default()).expect("no error");
        let sent = SentPacket {
            transport_seq: 0,
            at: Time::ZERO,
            size: Bytes(1200),
            kind: Kind::Video,
            probe: None,
            in_flight: Bytes(1200),
            ecn: Ecn::NotCapable,
        };
        cc.on_sent(&sent).expect("no error");
        let reports = [report(sent, None)];
        let feedback = packets(&reports, Bytes::ZERO);
        cc.on_feedback(Time::from_millis(50), feedback).expect("no error");
        assert_eq!(cc.held.len(), 1);
    }
}
