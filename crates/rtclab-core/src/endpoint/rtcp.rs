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
        for block in blocks {
            let rtt = block.round_trip(NtpTime::from_time(now));
            self.sender.rtt = rtt.or(self.sender.rtt);
            if let Some(rtt) = rtt {
                self.receiver.on_report_block(now, rtt);
            }
            // A switching forwarder also passes on reports about other senders.
            let Some(stream) = self.sender.stream(block.ssrc) else { continue };
            let video = stream.config.is_video();
            let news = self.counters.on_report_block(reporter, block, rtt);
            let Some((lost, expected)) = news else { continue };
            if video || !self.reports_separately() {
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

    /// Whether receiver reports are sent separately from sender reports; see [`RtcpSchedule::PerStream`].
    pub(super) fn reports_separately(&self) -> bool {
        let schedule = self.config.receives.stack.rtcp;
        self.config.sends.has_video() && schedule == RtcpSchedule::PerStream
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
        let blocks = self.receiver.report_blocks(now);
        let report = ReceiverReport { ssrc: self.config.ssrc, blocks };
        self.outbox.send_rtcp(now, [RtcpPacket::ReceiverReport(report), self.description()]);
        self.schedule_receiver_report(now);
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
