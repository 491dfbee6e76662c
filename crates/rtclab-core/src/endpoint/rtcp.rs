//! RTCP of a peer: how it handles incoming packets, and when it sends which reports.

use super::format::{AUDIO_CLOCK, VIDEO_CLOCK};
use super::outbound::OutboundStream;
use super::{Negotiation, Peer, Rare, StreamConfig, or_never};
use crate::cc::{ControlError, Feedback};
use crate::media::repair::Retransmission;
use crate::packet::{Kind, Rtcp};
use crate::rtp::RtcpPacket;
use crate::rtp::rtcp::{
    ExtendedReport, IntervalLoss, NtpTime, ReceiverReport, ReferenceDelay, ReportBlock, SdesChunk,
    SenderReport, SourceDescription,
};
use crate::stack::RtcpSchedule;
use crate::units::{Bytes, Time};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

/// Nominal interval of reports for video; drawn from 0.5 to 1.5 times this (libwebrtc, `rtcp_sender.cc`).
const REPORT_INTERVAL: Time = Time::from_millis(1_000);
/// Above 360 kbit/s the interval in seconds is 360 / rate in kbit/s, as in libwebrtc.
const REPORT_BITS: u64 = 360_000;
/// Shortest nominal interval: libwebrtc computes it in whole milliseconds.
const MIN_REPORT_INTERVAL: Time = Time::from_millis(1);
/// Nominal interval of reports for audio; drawn from 0.5 to 1.5 times this (libwebrtc, `rtp_rtcp_interface.h`).
const AUDIO_REPORT_INTERVAL: Time = Time::from_secs(5);
/// The first report for audio leaves after half an interval (libwebrtc, `rtcp_sender.cc`, SetRTCPStatus).
const FIRST_AUDIO_REPORT: Time = Time::from_millis(2_500);

impl Peer {
    pub(super) fn on_rtcp(&mut self, now: Time, rtcp: &Rtcp) -> Result<(), ControlError> {
        self.sender.catch_up(now);
        for packet in rtcp.packets.iter() {
            match packet {
                RtcpPacket::SenderReport(report) => {
                    self.receiver.on_sender_report(now, report.ssrc, report.ntp.middle());
                    self.on_report_blocks(now, report.ssrc, &report.blocks)?;
                }
                RtcpPacket::ReceiverReport(report) => {
                    self.on_report_blocks(now, report.ssrc, &report.blocks)?;
                }
                RtcpPacket::TransportFeedback(feedback) => {
                    self.sender.on_transport_feedback(now, feedback)?;
                    self.observe_feedback();
                }
                RtcpPacket::CongestionFeedback(feedback) => {
                    self.counters.ccfb_messages += 1;
                    self.sender.on_congestion_feedback(now, feedback)?;
                    self.observe_feedback();
                }
                RtcpPacket::Nack(nack) => {
                    self.sender.on_nack(now, nack.media_ssrc, &nack.lost, &mut self.events);
                }
                RtcpPacket::PictureLossIndication(pli) => {
                    self.sender.on_key_request(now, pli.media_ssrc, &mut self.events);
                }
                RtcpPacket::FullIntraRequest(request) => {
                    for (ssrc, _) in &request.commands {
                        self.sender.on_key_request(now, *ssrc, &mut self.events);
                    }
                }
                RtcpPacket::Remb(remb) => {
                    self.sender.on_feedback(now, Feedback::Remb(remb.bitrate))?;
                    self.observe_feedback();
                }
                RtcpPacket::ExtendedReport(report) => self.on_extended_report(now, report),
                RtcpPacket::SourceDescription(_)
                | RtcpPacket::Goodbye(_)
                | RtcpPacket::Unknown { .. } => {}
            }
        }
        Ok(())
    }

    /// A browser answers the reference time of a receiver with its next sender report. What the answer says about the
    /// round trip is news only to an end that sends no media.
    fn on_extended_report(&mut self, now: Time, report: &ExtendedReport) {
        if !self.extends_reports() {
            return;
        }
        if let Some(time) = report.reference_time {
            self.reference = Some((report.ssrc, time, now));
        }
        if !self.config.sends.streams.is_empty() {
            return;
        }
        for delay in report.delays.iter().filter(|delay| delay.ssrc == self.config.ssrc) {
            self.receiver.on_report_block(now, delay.round_trip(NtpTime::from_time(now)));
        }
    }

    /// Whether both ends are browsers that send extended reports, as browsers of 2026 do. SFUs take none.
    fn extends_reports(&self) -> bool {
        let is_page = matches!(
            self.config.session.negotiation,
            Negotiation::Page { browser: true, server: None, .. }
        );
        is_page && self.config.sends.stack.retransmission == Retransmission::Since2024
    }

    /// The time at which a report on received video leaves.
    fn reference_time(&self, now: Time) -> Option<RtcpPacket> {
        let reference_time = Some(NtpTime::from_time(now)).filter(|_| self.extends_reports())?;
        let report = ExtendedReport {
            ssrc: self.config.ssrc,
            reference_time: Some(reference_time),
            ..Default::default()
        };
        Some(RtcpPacket::ExtendedReport(report))
    }

    /// The answer to the last reference time, once.
    fn reference_delay(&mut self, now: Time) -> Option<RtcpPacket> {
        let (ssrc, time, at) = self.reference.take()?;
        let delay = NtpTime::from_time(now.saturating_sub(at)).middle();
        let delays = vec![ReferenceDelay { ssrc, last_reference: time.middle(), delay }];
        let report = ExtendedReport { ssrc: self.config.ssrc, delays, ..Default::default() };
        Some(RtcpPacket::ExtendedReport(report))
    }

    fn on_report_blocks(
        &mut self,
        now: Time,
        reporter: u32,
        blocks: &[ReportBlock],
    ) -> Result<(), ControlError> {
        for block in blocks {
            if let Some(stream) = self.sender.stream(block.ssrc) {
                stream.on_loss(now, block.fraction_lost);
            }
        }
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
            let Some(IntervalLoss { lost, expected }) = news else { continue };
            if video || !self.config.sends.has_video() {
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
        let (mut together, mut last_rtt) = (IntervalLoss::default(), None);
        for block in blocks.iter().filter(|block| self.sender.sends(block.ssrc)) {
            let rtt = block.round_trip(NtpTime::from_time(now));
            last_rtt = rtt.or(last_rtt);
            together += self.counters.on_report_block(reporter, block, rtt).unwrap_or_default();
        }
        if let Some(rtt) = last_rtt {
            self.sender.rtt = Some(rtt);
            self.receiver.on_report_block(now, rtt);
        }
        let IntervalLoss { lost, expected } = together;
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

    fn rtcp_schedule(&self) -> RtcpSchedule {
        self.config.receives.stack.rtcp
    }

    /// Whether receiver reports on video are sent separately from its sender reports; see [`RtcpSchedule`].
    fn reports_separately(&self) -> bool {
        match self.rtcp_schedule() {
            RtcpSchedule::Joint => false,
            RtcpSchedule::PerStream => self.config.sends.has_video(),
            RtcpSchedule::PerMedia => true,
        }
    }

    /// Whether there are sender reports on video, or joint reports that take their place.
    fn has_sender_reports(&self) -> bool {
        let receives_video = !self.receiver.videos.is_empty();
        self.config.sends.has_video() || receives_video && !self.reports_separately()
    }

    /// Starts the reports when media may flow.
    pub(super) fn start_reports(&mut self, now: Time) {
        let receives_video = !self.receiver.videos.is_empty();
        if self.has_sender_reports() {
            self.schedule_report(now);
        }
        let per_media = self.rtcp_schedule() == RtcpSchedule::PerMedia;
        if self.reports_separately() && (receives_video || !per_media) {
            self.schedule_receiver_report(now);
        }
        let sends_audio = self.config.sends.has_audio();
        let receives_audio = !self.receiver.audios.is_empty();
        if per_media {
            self.receiver.prepends_reports = self.setup.offered();
        }
        if sends_audio || receives_audio && !per_media {
            self.timers.set(Rare::AudioSenderReport, now + FIRST_AUDIO_REPORT);
        }
        if receives_audio && per_media {
            self.timers.set(Rare::AudioReport, now + FIRST_AUDIO_REPORT);
        }
    }

    /// Sends the sender reports on video, or a receiver report if no video is sent.
    pub(super) fn send_report(&mut self, now: Time) {
        let blocks = match self.reports_separately() {
            true => Vec::new(),
            false => self.receiver.video_blocks(now),
        };
        let mut packets = self.sender_reports(now, StreamConfig::is_video, blocks);
        packets.push(self.description());
        packets.extend(match self.config.sends.has_video() {
            true => self.reference_delay(now),
            false => self.reference_time(now),
        });
        packets.extend(self.receiver.take_remb());
        self.outbox.send_rtcp(now, packets);
        if self.has_sender_reports() {
            self.schedule_report(now);
        }
    }

    /// Sends the sender reports on audio. Until 2018 they contain what is reported on received audio, and without
    /// audio to send a receiver report takes their place.
    pub(super) fn send_audio_sender_report(&mut self, now: Time) {
        let blocks = match self.rtcp_schedule() {
            RtcpSchedule::PerMedia => Vec::new(),
            RtcpSchedule::Joint | RtcpSchedule::PerStream => self.receiver.audio_blocks(now),
        };
        let mut packets = self.sender_reports(now, |config| !config.is_video(), blocks);
        packets.push(self.description());
        self.outbox.send_rtcp(now, packets);
        let next = now + varied(&mut self.audio_rng, AUDIO_REPORT_INTERVAL);
        self.timers.set(Rare::AudioSenderReport, next);
    }

    /// A sender report for each stream of one medium; the first one has the blocks; a receiver report with
    /// the blocks if there is no such stream.
    fn sender_reports(
        &self,
        now: Time,
        is_of_medium: fn(&StreamConfig) -> bool,
        mut blocks: Vec<ReportBlock>,
    ) -> Vec<RtcpPacket> {
        let streams = self.sender.streams.iter().filter(|stream| is_of_medium(&stream.config));
        let reports = streams.filter_map(|stream| self.sender_report(now, stream));
        let mut packets: Vec<_> = reports
            .map(|report| SenderReport { blocks: std::mem::take(&mut blocks), ..report })
            .map(RtcpPacket::SenderReport)
            .collect();
        if packets.is_empty() {
            let report = ReceiverReport { ssrc: self.config.ssrc, blocks };
            packets.push(RtcpPacket::ReceiverReport(report));
        }
        packets
    }

    /// The report on a stream, without blocks; `None` if the stream is forwarded and none of its packets has
    /// come.
    fn sender_report(&self, now: Time, stream: &OutboundStream) -> Option<SenderReport> {
        let (kind, clock) = match stream.config.is_video() {
            true => (Kind::Video, VIDEO_CLOCK),
            false => (Kind::Audio, AUDIO_CLOCK),
        };
        let sent = stream.totals[kind as usize];
        Some(SenderReport {
            ssrc: stream.config.ssrc,
            ntp: NtpTime::from_time(now),
            rtp_timestamp: self.sender.reported_timestamp(stream, now, clock)?,
            packet_count: sent.packets as u32,
            octet_count: sent.payload_bytes as u32,
            blocks: Vec::new(),
        })
    }

    pub(super) fn send_receiver_report(&mut self, now: Time) {
        let blocks = self.receiver.video_blocks(now);
        let extended = self.reference_time(now);
        self.send_blocks(now, blocks, extended);
        self.schedule_receiver_report(now);
    }

    pub(super) fn send_audio_report(&mut self, now: Time) {
        let blocks = self.receiver.audio_blocks(now);
        self.send_blocks(now, blocks, None);
        let next = now + varied(&mut self.audio_rng, AUDIO_REPORT_INTERVAL);
        self.timers.set(Rare::AudioReport, next);
    }

    fn send_blocks(&mut self, now: Time, blocks: Vec<ReportBlock>, extended: Option<RtcpPacket>) {
        let report = ReceiverReport { ssrc: self.config.ssrc, blocks };
        let mut packets = vec![RtcpPacket::ReceiverReport(report), self.description()];
        packets.extend(extended);
        self.outbox.send_rtcp(now, packets);
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
        let interval = match self.config.forwards {
            // Whatever the rate, as mediasoup (`RTCP/Packet.hpp`, MaxVideoIntervalMs).
            Some(_) => REPORT_INTERVAL,
            None => interval.clamp(MIN_REPORT_INTERVAL, REPORT_INTERVAL),
        };
        let next = now + varied(&mut self.rng, interval);
        self.timers.set(Rare::Report, next);
    }

    pub(super) fn schedule_receiver_report(&mut self, now: Time) {
        let next = now + varied(&mut self.rng, REPORT_INTERVAL);
        self.timers.set(Rare::ReceiverReport, next);
    }
}

/// A random time from 0.5 to 1.5 times the interval.
fn varied(rng: &mut Pcg64Mcg, interval: Time) -> Time {
    let factor = 0.5 + rng.random::<f64>();
    Time::from_secs_f64(interval.as_secs_f64() * factor)
}
