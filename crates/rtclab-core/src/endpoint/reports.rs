//! RTCP of a peer: what it does with what comes, and when it sends which reports.

use super::wire::Wire;
use super::{Peer, sender};
use crate::cc::{Feedback, RembTiming};
use crate::media::Kind;
use crate::rtp::rtcp::{NtpTime, ReceiverReport, SdesChunk, SenderReport, SourceDescription};
use crate::rtp::{RtcpPacket, rtcp};
use crate::units::{Bytes, Time};
use rand::RngExt;

/// libwebrtc, `rtcp_sender.cc`: interval of reports for video, drawn from half to one and a half of it.
const REPORT_INTERVAL: Time = Time::from_millis(1_000);
/// libwebrtc: above 360 kbit/s the interval is 360 / rate in kbit/s, in seconds.
const REPORT_BITS: u64 = 360_000;

impl Peer {
    pub(super) fn on_rtcp(&mut self, now: Time, bytes: &[u8], wire: &mut Wire) {
        for packet in rtcp::parse_compound(bytes).flatten() {
            match packet {
                RtcpPacket::SenderReport(report) => {
                    self.receiver.on_sender_report(now, report.ntp.middle());
                    self.on_report_blocks(now, report.ssrc, &report.blocks, wire);
                }
                RtcpPacket::ReceiverReport(report) => {
                    self.on_report_blocks(now, report.ssrc, &report.blocks, wire);
                }
                RtcpPacket::TransportFeedback(feedback) => {
                    self.sender.on_transport_feedback(now, &feedback, &mut self.reports);
                    self.observe_feedback(now, wire);
                }
                RtcpPacket::Nack(nack) => self.sender.on_nack(now, nack.lost.iter().copied()),
                RtcpPacket::PictureLossIndication(_) | RtcpPacket::FullIntraRequest(_) => {
                    self.sender.on_key_request();
                }
                RtcpPacket::Remb(remb) => {
                    self.sender.on_feedback(now, Feedback::Remb(remb.bitrate));
                    self.observe_feedback(now, wire);
                }
                RtcpPacket::SourceDescription(_)
                | RtcpPacket::Goodbye(_)
                | RtcpPacket::CongestionFeedback(_)
                | RtcpPacket::Unknown { .. } => {}
            }
        }
    }

    fn on_report_blocks(
        &mut self,
        now: Time,
        reporter: u32,
        blocks: &[rtcp::ReportBlock],
        wire: &mut Wire,
    ) {
        for block in blocks {
            let rtt = block.round_trip(NtpTime::from_time(now));
            self.sender.rtt = rtt.or(self.sender.rtt);
            let Some((lost, expected)) =
                self.stats.on_report_block(self.ssrcs, reporter, block, rtt)
            else {
                continue;
            };
            if block.ssrc == self.ssrcs.video || !self.streams_apart() {
                let fraction = block.fraction_lost;
                let report = Feedback::ReceiverReport { lost, expected, fraction, rtt };
                self.sender.on_feedback(now, report);
            }
            if let Some(rtt) = rtt {
                self.receiver.on_rtt(now, rtt);
            }
            self.observe_feedback(now, wire);
        }
    }

    /// Whether every stream of video has RTCP of its own, as in libwebrtc since 2014: sender reports, and
    /// REMB with them, have no report blocks, receiver reports leave once a second whatever is sent, and
    /// the loss of audio does not count. Source: libwebrtc 83d0910694 (2016), `video_send_stream.cc` (its
    /// module has no receive statistics, sends REMB and alone observes bandwidth), `vie_remb.cc`,
    /// `rtcp_sender.cc`.
    pub(super) fn streams_apart(&self) -> bool {
        self.config.video.is_some() && self.receiver.remb_timing() == Some(RembTiming::AtOnce)
    }

    pub(super) fn send_report(&mut self, now: Time, wire: &mut Wire) {
        let blocks = match self.streams_apart() {
            true => Vec::new(),
            false => self.receiver.report_blocks(now),
        };
        let ssrc = self.ssrcs.video;
        let video = self.sender.totals[Kind::Video as usize];
        let report = if self.config.video.is_some() {
            RtcpPacket::SenderReport(SenderReport {
                ssrc,
                ntp: NtpTime::from_time(now),
                rtp_timestamp: self.sender.rtp_timestamp(now, sender::VIDEO_CLOCK),
                packet_count: video.packets as u32,
                octet_count: video.payload_bytes as u32,
                blocks,
            })
        } else {
            RtcpPacket::ReceiverReport(ReceiverReport { ssrc, blocks })
        };
        let remb = self.receiver.take_remb();
        self.send_described(now, report, remb, wire);
        self.schedule_report(now);
    }

    pub(super) fn send_receiver_report(&mut self, now: Time, wire: &mut Wire) {
        let blocks = self.receiver.report_blocks(now);
        let report = ReceiverReport { ssrc: self.ssrcs.video, blocks };
        self.send_described(now, RtcpPacket::ReceiverReport(report), None, wire);
        self.schedule_receiver_report(now);
    }

    fn send_described(
        &mut self,
        now: Time,
        report: RtcpPacket,
        remb: Option<RtcpPacket>,
        wire: &mut Wire,
    ) {
        let cname = format!("rtclab-{}", self.port.from.0);
        let chunks = vec![SdesChunk { ssrc: self.ssrcs.video, cname }];
        let description = RtcpPacket::SourceDescription(SourceDescription { chunks });
        let mut bytes = wire.buffer();
        // A report on two streams, a name of a few bytes and a REMB for one stream always fit.
        let mut packets = [report, description].into_iter().chain(remb);
        if packets.all(|packet| packet.write(&mut bytes).is_ok()) {
            wire.send_rtcp(now, self.port, bytes);
        }
    }

    pub(super) fn schedule_report(&mut self, now: Time) {
        let bits = Bytes(REPORT_BITS / 8);
        let interval = self.sender.target().time_for(bits).unwrap_or(REPORT_INTERVAL);
        self.timers.report = now + self.varied(interval.min(REPORT_INTERVAL));
    }

    pub(super) fn schedule_receiver_report(&mut self, now: Time) {
        self.timers.receiver_report = now + self.varied(REPORT_INTERVAL);
    }

    /// Half to one and a half of an interval.
    fn varied(&mut self, interval: Time) -> Time {
        let factor = 0.5 + self.rng.random::<f64>();
        Time::from_secs_f64(interval.as_secs_f64() * factor)
    }
}
