//! What a sending half does with reports and requests.

use super::stream::MediaSource;
use super::{RESOLUTION, SendingHalf};
use crate::cc::{ControlError, Feedback};
use crate::endpoint::event::EndpointEvent;
use crate::endpoint::format::packet_size;
use crate::media::protection::Conditions;
use crate::media::repair::Retransmission;
use crate::packet::Kind;
use crate::rtp::rtcp::{ArrivalOffset, CongestionFeedback, IntervalLoss, TransportFeedback};
use crate::stack::RtcpSchedule;
use crate::transport_history::named_packets;
use crate::units::{RemoteTime, Time};
use std::collections::VecDeque;

/// Since 2024 requests for key frames are followed at most this often (libwebrtc, `encoder_rtcp_feedback.cc`).
const KEY_REQUEST_INTERVAL: Time = Time::from_millis(300);
/// Least packets in a reported loss in 2026 (libwebrtc, `send_side_bandwidth_estimation.cc`,
/// kLimitNumPackets).
const MIN_REPORTED: u64 = 20;

impl SendingHalf {
    pub(in crate::endpoint) fn on_feedback(
        &mut self,
        now: Time,
        feedback: Feedback<'_>,
    ) -> Result<(), ControlError> {
        // Before the start nothing has been sent that it could be about.
        if !self.started || !self.is_controlled() {
            return Ok(());
        }
        self.controller.on_feedback(now, feedback)?;
        self.may_ask = true;
        if self.stack.retransmission == Retransmission::Since2024
            && matches!(feedback, Feedback::ReceiverReport { .. })
        {
            // A new round trip is an update of the control, even if its decision stays the same (libwebrtc,
            // `goog_cc_network_control.cc`, MaybeTriggerOnNetworkChanged).
            self.applied = None;
        }
        self.apply_decision(now)?;
        let Feedback::ReceiverReport { lost, expected, fraction, .. } = feedback else {
            return Ok(());
        };
        if expected == 0 || !self.controller.passes_loss_on() {
            return Ok(());
        }
        match self.stack.rtcp {
            RtcpSchedule::PerMedia => {
                self.unreported += IntervalLoss { lost, expected };
                if self.unreported.expected >= MIN_REPORTED {
                    self.reported_loss = in_256ths(std::mem::take(&mut self.unreported));
                    self.protect(now);
                }
            }
            RtcpSchedule::Joint | RtcpSchedule::PerStream => {
                self.reported_loss = f64::from(fraction) / 255.0;
                self.protect(now);
            }
        }
        Ok(())
    }

    /// Adapts the FEC of every stream that uses it to the loss that was reported last.
    pub(super) fn protect(&mut self, now: Time) {
        let (rtt, bitrate) = (self.rtt.unwrap_or(Time::ZERO), self.target());
        let loss = self.reported_loss;
        for stream in self.streams.iter_mut().filter(|stream| stream.config.repair.uses_red()) {
            let Some(video) = stream.video_mut() else { continue };
            video.fec.loss.add(now, loss);
            let conditions = Conditions {
                loss: video.fec.loss.max(now),
                rtt,
                bitrate,
                frame_rate: video.encoder.frame_rate(),
                resolution: video.encoder.resolution(),
            };
            video.fec.adapt(now, &conditions);
        }
    }

    pub(in crate::endpoint) fn on_transport_feedback(
        &mut self,
        now: Time,
        feedback: &TransportFeedback,
    ) -> Result<(), ControlError> {
        if !self.is_controlled() {
            return Ok(());
        }
        let arrival = |ticks: i64| {
            RemoteTime((TransportFeedback::TICK * ticks.max(0) as u64).floor_to(RESOLUTION))
        };
        let arrivals = feedback.arrivals().map(|(seq, ticks)| (seq, ticks.map(arrival)));
        self.history.acknowledge(arrivals);
        self.on_packets(now, RESOLUTION)
    }

    pub(in crate::endpoint) fn on_congestion_feedback(
        &mut self,
        now: Time,
        feedback: &CongestionFeedback,
    ) -> Result<(), ControlError> {
        if !self.is_controlled() {
            return Ok(());
        }
        let timestamp = feedback.report_timestamp;
        self.history.acknowledge_by_number(now, timestamp, named_packets(feedback));
        for outcome in self.history.outcomes() {
            self.streams[usize::from(outcome.tag.stream)].reported.count(outcome);
        }
        self.on_packets(now, ArrivalOffset::RESOLUTION)
    }

    /// Handles what the feedback that was read last says about packets.
    fn on_packets(&mut self, now: Time, resolution: Time) -> Result<(), ControlError> {
        let mut reports = std::mem::take(&mut self.reports);
        reports.clear();
        reports.extend(self.history.reports());
        self.ecn.on_reports(&reports);
        if self.stack.retransmission == Retransmission::Since2024 {
            self.on_outcomes(now);
        }
        if !reports.is_empty() {
            let in_flight = self.history.in_flight();
            let feedback = Feedback::Packets { reports: &reports, in_flight, resolution };
            self.on_feedback(now, feedback)?;
        }
        self.reports = reports;
        Ok(())
    }

    pub(in crate::endpoint) fn on_nack(
        &mut self,
        now: Time,
        ssrc: u32,
        seqs: &[u16],
        events: &mut VecDeque<EndpointEvent>,
    ) {
        let rtt = self.rtt.unwrap_or(Time::ZERO);
        let Some(index) = self.streams.iter().position(|stream| stream.config.ssrc == ssrc) else {
            return;
        };
        let stream = &mut self.streams[index];
        stream.nack_count += 1;
        let repair = stream.config.repair;
        if let MediaSource::Forwarded(_) = stream.source {
            return events.push_back(EndpointEvent::PacketsRequested { ssrc, lost: seqs.to_vec() });
        }
        let Some(video) = stream.video_mut() else { return };
        for &seq in seqs {
            if let Some(packet) = video.store.retransmit(now, seq, rtt, repair) {
                let size = packet_size(
                    self.stack.feedback,
                    repair,
                    Kind::Rtx,
                    u64::from(packet.part.bytes),
                );
                self.pacer.push(now, packet, size);
            }
        }
    }

    pub(in crate::endpoint) fn on_key_request(
        &mut self,
        now: Time,
        ssrc: u32,
        events: &mut VecDeque<EndpointEvent>,
    ) {
        let since_2024 = self.stack.retransmission == Retransmission::Since2024;
        if let Some(stream) = self.stream(ssrc) {
            stream.pli_count += 1;
            if let MediaSource::Forwarded(_) = stream.source {
                return events.push_back(EndpointEvent::KeyFrameRequested);
            }
            if since_2024 && stream.key_requested.is_some_and(|at| now < at + KEY_REQUEST_INTERVAL)
            {
                return;
            }
            stream.key_requested = Some(now);
            if let Some(video) = stream.video_mut() {
                video.encoder.request_key_frame();
            }
        }
    }
}

/// The fraction lost as libwebrtc passes it on: whole 256ths, at most 255 of them, which then count as 255ths.
/// Source: f3ae3eb62e, `goog_cc/send_side_bandwidth_estimation.cc`, UpdatePacketsLost.
fn in_256ths(IntervalLoss { lost, expected }: IntervalLoss) -> f64 {
    (256 * lost / expected.max(1)).min(255) as f64 / 255.0
}
