//! RTCP of a peer: how it handles incoming packets, and when it sends which reports.

use super::format::VIDEO_CLOCK;
use super::{Peer, or_never};
use crate::cc::{ControlError, Feedback};
use crate::packet::{Kind, Rtcp};
use crate::rtp::RtcpPacket;
use crate::rtp::rtcp::{
    NtpTime, ReceiverReport, ReportBlock, SdesChunk, SenderReport, SourceDescription,
};
use crate::stack::RtcpSchedule;
use crate::units::{Bytes, Time};
use rand::RngExt;

/// Nominal interval of reports for video; drawn from 0.5 to 1.5 times this (libwebrtc, `rtcp_sender.cc`).
const REPORT_INTERVAL: Time = Time::from_millis(1_000);
/// Above 360 kbit/s the interval in seconds is 360 / rate in kbit/s, as in libwebrtc.
const REPORT_BITS: u64 = 360_000;
/// Nominal interval of reports for audio (libwebrtc, `rtp_rtcp_interface.h`).
const AUDIO_REPORT_INTERVAL: Time = Time::from_secs(5);

impl Peer {
    pub(super) fn on_rtcp(&mut self, now: Time, rtcp: &Rtcp) -> Result<(), ControlError> {
        for packet in rtcp.packets.iter() {
            match packet {
                RtcpPacket::SenderReport(report) => {
                    self.receiver.on_sender_report(now, report.ntp.middle());
                    self.on_report_blocks(now, report.ssrc, &report.blocks)?;
                }
                RtcpPacket::ReceiverReport(report) => {
                    self.on_report_blocks(now, report.ssrc, &report.blocks)?;
                }
                RtcpPacket::TransportFeedback(feedback) => {
                    self.sender.on_transport_feedback(now, feedback)?;
                    self.observe_feedback();
                }
                RtcpPacket::Nack(nack) => self.sender.on_nack(now, nack.media_ssrc, &nack.lost),
                RtcpPacket::PictureLossIndication(pli) => {
                    self.sender.on_key_request(now, pli.media_ssrc)
                }
                RtcpPacket::FullIntraRequest(request) => {
                    for (ssrc, _) in &request.commands {
                        self.sender.on_key_request(now, *ssrc);
                    }
                }
                RtcpPacket::Remb(remb) => {
                    self.sender.on_feedback(now, Feedback::Remb(remb.bitrate))?;
                    self.observe_feedback();
                }
                RtcpPacket::SourceDescription(_)
                | RtcpPacket::Goodbye(_)
                | RtcpPacket::CongestionFeedback(_)
                | RtcpPacket::Unknown { .. } => {}
            }
        }
        Ok(())
    }

    fn on_report_blocks(
        &mut self,
        now: Time,
        reporter: u32,
        blocks: &[ReportBlock],
    ) -> Result<(), ControlError> {
        if self.config.sends.stack.rtcp == RtcpSchedule::PerMedia {
            return self.on_joint_blocks(now, reporter, blocks);
        }
        for block in blocks {
            let now_ntp = NtpTime::from_time(now);
            let rtt = match self.config.sends.stack.round_trips_in_ms {
                true => block.round_trip_in_ms(now_ntp),
                false => block.round_trip(now_ntp),
            };
            self.sender.rtt = rtt.or(self.sender.rtt);
            if let Some(rtt) = rtt {
                self.receiver.on_report_block(now, rtt);
            }
            // A switching forwarder also passes on reports about other senders.
            let Some(stream) = self.sender.stream(block.ssrc) else { continue };
            let video = stream.config.is_video();
            let news = self.counters.on_report_block(reporter, block, rtt);
            let Some((lost, expected)) = news else { continue };
            let sends = &self.config.sends;
            let counts_audio = sends.stack.rtcp != RtcpSchedule::PerStream || !sends.has_video();
            if video || counts_audio {
                let fraction = block.fraction_lost;
                let report = Feedback::ReceiverReport { lost, expected, fraction, rtt };
                self.sender.on_feedback(now, report)?;
            }
            if let Some(rtt) = rtt {
                self.receiver.on_rtt(now, rtt);
            }
            self.observe_feedback();
        }
        Ok(())
    }

    /// Handles the blocks of one report, which count together.
    fn on_joint_blocks(
        &mut self,
        now: Time,
        reporter: u32,
        blocks: &[ReportBlock],
    ) -> Result<(), ControlError> {
        let (mut lost, mut expected, mut last_rtt) = (0, 0, None);
        for block in blocks.iter().filter(|block| self.sender.sends(block.ssrc)) {
            let rtt = block.round_trip(NtpTime::from_time(now));
            last_rtt = rtt.or(last_rtt);
            if let Some((of_lost, of_expected)) =
                self.counters.on_report_block(reporter, block, rtt)
            {
                (lost, expected) = (lost + of_lost, expected + of_expected);
            }
        }
        if let Some(rtt) = last_rtt {
            self.sender.rtt = Some(rtt);
            self.receiver.on_report_block(now, rtt);
        }
        if expected == 0 {
            return Ok(());
        }
        let fraction = (255 * lost / expected).min(255) as u8;
        let report = Feedback::ReceiverReport { lost, expected, fraction, rtt: last_rtt };
        self.sender.on_feedback(now, report)?;
        if let Some(rtt) = last_rtt {
            self.receiver.on_rtt(now, rtt);
        }
        self.observe_feedback();
        Ok(())
    }

    /// Whether receiver reports are sent separately from sender reports; see [`RtcpSchedule`].
    pub(super) fn reports_separately(&self) -> bool {
        let sends_video = self.config.sends.has_video();
        match self.config.receives.stack.rtcp {
            RtcpSchedule::Joint => false,
            RtcpSchedule::PerStream => sends_video,
            RtcpSchedule::PerMedia => sends_video || !self.receiver.videos.is_empty(),
        }
    }

    /// Starts the reports when media may flow.
    pub(super) fn start_reports(&mut self, now: Time) {
        let separately = self.reports_separately();
        if self.config.sends.has_video() || !separately {
            self.schedule_report(now);
        }
        if !separately {
            return;
        }
        let per_media = self.config.receives.stack.rtcp == RtcpSchedule::PerMedia;
        if !per_media || !self.receiver.videos.is_empty() {
            self.schedule_receiver_report(now);
        }
        if per_media {
            self.receiver.prepends_reports = self.setup.offered();
            if !self.receiver.audios.is_empty() {
                self.timers.audio_report = now + self.varied(AUDIO_REPORT_INTERVAL);
            }
        }
    }

    pub(super) fn send_report(&mut self, now: Time) {
        let mut blocks = match self.reports_separately() {
            true => Vec::new(),
            false => self.receiver.report_blocks(now),
        };
        let mut packets = Vec::new();
        for stream in self.sender.streams.iter().filter(|stream| stream.config.is_video()) {
            let sent = stream.totals[Kind::Video as usize];
            packets.push(RtcpPacket::SenderReport(SenderReport {
                ssrc: stream.config.ssrc,
                ntp: NtpTime::from_time(now),
                rtp_timestamp: self.sender.rtp_timestamp(now, VIDEO_CLOCK),
                packet_count: sent.packets as u32,
                octet_count: sent.payload_bytes as u32,
                blocks: std::mem::take(&mut blocks),
            }));
        }
        if packets.is_empty() {
            packets.push(RtcpPacket::ReceiverReport(ReceiverReport {
                ssrc: self.config.ssrc,
                blocks,
            }));
        }
        packets.push(self.description());
        packets.extend(self.receiver.take_remb());
        self.outbox.send_rtcp(now, packets);
        self.schedule_report(now);
    }

    pub(super) fn send_receiver_report(&mut self, now: Time) {
        let blocks = match self.config.receives.stack.rtcp {
            RtcpSchedule::PerMedia => self.receiver.video_blocks(now),
            RtcpSchedule::Joint | RtcpSchedule::PerStream => self.receiver.report_blocks(now),
        };
        self.send_blocks(now, blocks);
        self.schedule_receiver_report(now);
    }

    pub(super) fn send_audio_report(&mut self, now: Time) {
        let blocks = self.receiver.audio_blocks(now);
        self.send_blocks(now, blocks);
        self.timers.audio_report = now + self.varied(AUDIO_REPORT_INTERVAL);
    }

    fn send_blocks(&mut self, now: Time, blocks: Vec<ReportBlock>) {
        let report = ReceiverReport { ssrc: self.config.ssrc, blocks };
        self.outbox.send_rtcp(now, [RtcpPacket::ReceiverReport(report), self.description()]);
    }

    /// Puts off the next receiver report if one went with a request.
    pub(super) fn after_requests(&mut self, now: Time) {
        if std::mem::take(&mut self.receiver.has_reported) {
            self.schedule_receiver_report(now);
        }
    }

    fn description(&self) -> RtcpPacket {
        let cname = format!("rtclab-{}", self.config.addresses.local.node.0);
        let chunks = vec![SdesChunk { ssrc: self.config.ssrc, cname }];
        RtcpPacket::SourceDescription(SourceDescription { chunks })
    }

    pub(super) fn schedule_report(&mut self, now: Time) {
        let interval = or_never(self.sender.target().time_for(Bytes(REPORT_BITS / 8)));
        self.timers.report = now + self.varied(interval.min(REPORT_INTERVAL));
    }

    pub(super) fn schedule_receiver_report(&mut self, now: Time) {
        self.timers.receiver_report = now + self.varied(REPORT_INTERVAL);
    }

    /// A random time from 0.5 to 1.5 times the interval.
    fn varied(&mut self, interval: Time) -> Time {
        let factor = 0.5 + self.rng.random::<f64>();
        Time::from_secs_f64(interval.as_secs_f64() * factor)
    }
}
