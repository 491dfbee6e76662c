//! The published port of libwebrtc revision da2a3d6c4d (December 2024), for comparison.

use crate::cc::{
    ControlError, Controller, Decision, Feedback, PacketReport, Probe, RateBounds, SenderState,
    SentPacket,
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

/// Send-side congestion control of Chromium 156.
pub(super) struct Port {
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

impl Port {
    /// Starts as libwebrtc does for one video stream with these bounds.
    pub(super) fn new(bounds: RateBounds) -> Self {
        let streams = StreamsConfig {
            at_time: timestamp(Time::ZERO),
            requests_alr_probing: Some(!bounds.has_video),
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
        Port {
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

impl Controller for Port {
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
}
