//! Receiving half of a peer: statistics, loss repair, playout, and feedback to the far end.

mod arrivals;
mod audio;
mod congestion;
mod reception;
mod sync;
mod transit;
mod video;

use super::PeerConfig;
use super::config::{Negotiation, StreamConfig};
use super::event::EndpointEvent;
use super::or_never;
use super::outbox::Outbox;
use crate::cc::{CallsAtOnce, ControlError, Estimator, ReceivedPacket};
use crate::media::grid::{Grid, PERIOD, Timers};
use crate::media::playout::RecentRtt;
use crate::media::repair::Retransmission;
use crate::packet::{Datagram, Ecn, Rtp};
use crate::rtp::RtcpPacket;
use crate::rtp::rtcp::{Nack, PictureLossIndication, ReceiverReport, Remb, ReportBlock};
use crate::stack::{FeedbackKind, RtcpSchedule};
use crate::units::{Bitrate, Bytes, Time};
use arrivals::ArrivalLog;
use congestion::CongestionLog;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::VecDeque;
use sync::Synchronizer;

pub(super) use audio::InboundAudio;
pub(super) use reception::{Marks, Reception};
pub(super) use sync::OUTPUT_MS;
pub(super) use video::{InboundVideo, Retransmitted};

/// Round-trip time that libwebrtc assumes until one is known.
const DEFAULT_RTT: Time = Time::from_millis(100);

/// Interval of the timers whose phases are drawn.
const SECOND: Time = Time::from_secs(1);

pub(super) struct ReceivingHalf {
    local_ssrc: u32,
    feedback: FeedbackKind,
    arrivals: ArrivalLog,
    congestion: CongestionLog,
    /// Receiver half of the congestion control.
    pub(super) estimator: Option<Box<dyn Estimator>>,
    calls: CallsAtOnce,
    /// The latest REMB that has not been sent.
    remb: Option<Bitrate>,
    pub(super) videos: Vec<InboundVideo>,
    pub(super) audios: Vec<InboundAudio>,
    /// When one of the video streams is due, as of the last packet, timeout or frame.
    next_video: Time,
    /// When a picture goes to the decoder, as of then; see [`next_silent`](crate::media::playout::Playout::next_silent).
    next_silent: Time,
    sync: Synchronizer,
    /// The longest recent round trip, which Chromium 156 uses in place of the last one.
    recent_rtt: Option<RecentRtt>,
    /// Whether report blocks on video include its retransmissions.
    reports_repair: bool,
    /// Whether a receiver report goes before every request.
    pub(super) prepends_reports: bool,
    /// Whether such a report was sent and the peer has not taken note of it.
    pub(super) has_reported: bool,
}

impl ReceivingHalf {
    pub(super) fn new(config: &PeerConfig, estimator: Option<Box<dyn Estimator>>) -> Self {
        let (direction, plays) = (&config.receives, config.plays);
        let mut rng = Pcg64Mcg::seed_from_u64(config.seed ^ 0x6772_6964);
        let mut within = |period: Time| Time(rng.random_range(0..period.0));
        let timers = Timers { grid: Grid::through(within(PERIOD)), start: within(SECOND) };
        let phases = [within(SECOND), within(SECOND)];
        let interval = match config.session.negotiation {
            Negotiation::Page { browser: false, server: Some(server), .. } => {
                Some(server.kind.feedback_interval())
            }
            _ => None,
        };
        let since_2024 = direction.stack.retransmission == Retransmission::Since2024;
        let (videos, audios): (Vec<StreamConfig>, Vec<StreamConfig>) =
            direction.streams.iter().partition(|stream| stream.is_video());
        let plays_audio = plays && direction.stack.plays_audio;
        let audio = |config| InboundAudio::new(config, plays_audio);
        ReceivingHalf {
            local_ssrc: config.ssrc,
            feedback: direction.stack.feedback,
            arrivals: ArrivalLog::new(plays.then_some(timers.grid), interval),
            congestion: CongestionLog::new(plays.then_some(timers.grid)),
            estimator,
            calls: CallsAtOnce::default(),
            remb: None,
            videos: videos
                .into_iter()
                .map(|config| {
                    InboundVideo::new(config, direction.stack, plays, timers, !audios.is_empty())
                })
                .collect(),
            audios: audios.into_iter().map(audio).collect(),
            next_video: Time::MAX,
            next_silent: Time::MAX,
            sync: Synchronizer::default(),
            recent_rtt: since_2024.then(|| RecentRtt::new(phases)),
            reports_repair: direction.stack.rtcp == RtcpSchedule::PerMedia,
            prepends_reports: false,
            has_reported: false,
        }
    }

    /// SSRC that transport-wide feedback names: the first video stream, or the first audio stream.
    fn media_ssrc(&self) -> u32 {
        let video = self.videos.first().map(|video| video.config.ssrc);
        video.or(self.audios.first().map(|audio| audio.config.ssrc)).unwrap_or(0)
    }

    /// Makes up for pictures that went to the decoder before `now`, with the round trips that were known then.
    pub(super) fn catch_up(&mut self, now: Time) {
        while self.next_silent < now {
            let at = self.next_silent;
            self.follow_rtt(at);
            self.videos.iter_mut().for_each(|video| video.playout.catch_up(at + Time(1)));
            self.follow_videos();
        }
    }

    /// Handles an RTP packet. `rtt` is the round-trip time that the sending half has measured.
    pub(super) fn on_rtp(
        &mut self,
        now: Time,
        datagram: &Datagram,
        packet: &Rtp,
        rtt: Option<Time>,
        outbox: &mut Outbox,
    ) -> Result<(), ControlError> {
        self.catch_up(now);
        let ssrc = packet.header.ssrc;
        let audio = self.audios.iter().position(|audio| audio.config.ssrc == ssrc);
        if self.estimator.is_some() {
            self.estimate(&received(now, packet, datagram.size, datagram.ecn, audio.is_some()))?;
        }
        if self.feedback == FeedbackKind::TransportWide {
            if let Some(seq) = packet.header.extensions.transport_sequence {
                self.arrivals.note(now, seq);
            }
        }
        if self.feedback == FeedbackKind::Rfc8888 {
            if let Some(marks) = self.marks(ssrc) {
                marks.count(datagram.ecn);
                outbox.answer_ecn(datagram.ecn);
                self.congestion.note(now, &packet.header, datagram.ecn);
                self.report_congestion(now, outbox);
            }
        }
        if let Some(audio) = audio {
            self.audios[audio].on_packet(now, packet);
            if self.audios[audio].is_played() && !self.videos.is_empty() {
                self.sync.on_audio(now);
            }
        } else {
            self.on_video(now, packet)?;
            self.follow_videos();
        }
        if self.request_repair(now, rtt, outbox) {
            self.follow_videos();
        }
        Ok(())
    }

    /// The codepoints of the stream with this SSRC, or with this SSRC of its retransmissions.
    fn marks(&mut self, ssrc: u32) -> Option<&mut Marks> {
        let is_of = |config: &StreamConfig| {
            config.ssrc == ssrc || config.is_video() && config.repair_ssrc == ssrc
        };
        let videos = self.videos.iter_mut().map(|video| (&video.config, &mut video.marks));
        let audios = self.audios.iter_mut().map(|audio| (&audio.config, &mut audio.marks));
        videos.chain(audios).find(|(config, _)| is_of(config)).map(|(_, marks)| marks)
    }

    /// Sends congestion control feedback if it is due.
    fn report_congestion(&mut self, now: Time, outbox: &mut Outbox) {
        if let Some(report) = self.congestion.poll(now, self.local_ssrc) {
            outbox.send_rtcp(now, [report]);
        }
    }

    fn on_video(&mut self, now: Time, packet: &Rtp) -> Result<(), ControlError> {
        let ssrc = packet.header.ssrc;
        let of = |video: &&mut InboundVideo| {
            ssrc == video.config.ssrc || ssrc == video.config.repair_ssrc
        };
        let Some(video) = self.videos.iter_mut().find(of) else { return Ok(()) };
        if ssrc == video.config.repair_ssrc {
            video.on_retransmission(now, packet);
            return Ok(());
        }
        let mut recovered = Vec::new();
        let takes_recovered =
            matches!(self.feedback, FeedbackKind::Remb { with_recovered: true, .. });
        video.on_packet(now, packet, &mut |packet| {
            if takes_recovered {
                // A packet recovered by FEC has no size on the wire and no send time.
                let mut packet = received(now, packet, Bytes::ZERO, Ecn::NotCapable, false);
                (packet.abs_send_time, packet.transport_seq) = (None, None);
                recovered.push(packet);
            }
        });
        recovered.iter().try_for_each(|packet| self.estimate(packet))
    }

    fn estimate(&mut self, packet: &ReceivedPacket) -> Result<(), ControlError> {
        self.estimator.as_mut().map_or(Ok(()), |estimator| estimator.on_packet(packet))
    }

    /// Takes the NTP time of a sender report, as its middle 32 bits, for the report blocks on its stream.
    pub(super) fn on_sender_report(&mut self, now: Time, ssrc: u32, middle: u32) {
        if self.audios.first().is_some_and(|audio| audio.config.ssrc == ssrc) {
            self.sync.on_audio_report();
        }
        let videos = self.videos.iter_mut().map(|video| (video.config.ssrc, &mut video.reception));
        let audios = self.audios.iter_mut().map(|audio| (audio.config.ssrc, &mut audio.reception));
        if let Some((_, reception)) = videos.chain(audios).find(|(of, _)| *of == ssrc) {
            reception.sender_report = Some((middle, now));
        }
    }

    pub(super) fn poll_timeout(&self) -> Time {
        let estimator = self.estimator.as_ref().and_then(|estimator| estimator.poll_timeout());
        let feedback = or_never(self.arrivals.next_report).min(or_never(estimator));
        let feedback = feedback.min(or_never(self.congestion.poll_timeout()));
        feedback.min(or_never(self.sync.poll_timeout())).min(self.next_video)
    }

    /// Looks when one of the video streams is due.
    fn follow_videos(&mut self) {
        (self.next_video, self.next_silent) = (Time::MAX, Time::MAX);
        for video in &self.videos {
            self.next_video = self.next_video.min(video.poll_timeout());
            self.next_silent = self.next_silent.min(video.playout.next_silent());
        }
    }

    /// Sends what is due; feedback takes its share of the `target` rate. Frames may be due as well; see
    /// [`ReceivingHalf::show_frames`].
    pub(super) fn handle_timeout(
        &mut self,
        now: Time,
        target: Bitrate,
        rtt: Option<Time>,
        outbox: &mut Outbox,
    ) -> Result<(), ControlError> {
        self.catch_up(now);
        if self.arrivals.next_report.is_some_and(|at| at <= now) {
            self.arrivals.schedule(now, target);
            let ssrcs = (self.local_ssrc, self.media_ssrc());
            while let Some(report) = self.arrivals.take(ssrcs) {
                outbox.send_rtcp(now, [RtcpPacket::TransportFeedback(report)]);
            }
        }
        self.report_congestion(now, outbox);
        if let Some(estimator) = &mut self.estimator {
            if estimator.poll_timeout().is_some_and(|at| at <= now) {
                estimator.on_timeout(now)?;
                self.calls.count(now, estimator.poll_timeout())?;
            }
        }
        if let (Some(audio), Some(video)) = (self.audios.first_mut(), self.videos.first_mut()) {
            self.sync.handle_timeout(now, audio, video);
        }
        self.request_repair(now, rtt, outbox);
        for index in 0..self.videos.len() {
            if self.videos[index].poll_key_request(now) {
                self.send_key_request(now, index, outbox);
            }
        }
        Ok(())
    }

    pub(super) fn on_rtt(&mut self, now: Time, rtt: Time) {
        self.videos.iter_mut().for_each(|video| video.reception.on_rtt(rtt));
        if let Some(estimator) = &mut self.estimator {
            estimator.on_rtt(now, rtt);
        }
    }

    /// Takes the round trip of a report block on what this side sends.
    pub(super) fn on_report_block(&mut self, now: Time, rtt: Time) {
        self.catch_up(now);
        let videos = &mut self.videos;
        let report = &mut |rtt| videos.iter_mut().for_each(|video| video.playout.on_rtt(rtt));
        if let Some(recent) = &mut self.recent_rtt {
            recent.on_report_block(now, rtt, report);
        }
    }

    /// The round trip by which requests are repeated; `last` comes from the last report block.
    fn repeat_rtt(&mut self, now: Time, last: Option<Time>) -> Time {
        self.follow_rtt(now);
        let longest = self.recent_rtt.as_ref().map(RecentRtt::max);
        longest.unwrap_or(last).unwrap_or(DEFAULT_RTT)
    }

    /// Reports the round trips until `now` to the video streams.
    fn follow_rtt(&mut self, now: Time) {
        let videos = &mut self.videos;
        if let Some(recent) = &mut self.recent_rtt {
            recent.advance(now, &mut |rtt| {
                videos.iter_mut().for_each(|video| video.playout.on_rtt(rtt));
            });
        }
    }

    /// Whether there is a REMB to send without waiting for the next report.
    pub(super) fn has_urgent_remb(&mut self) -> bool {
        let Some(estimator) = &mut self.estimator else { return false };
        self.remb = estimator.poll_remb().or(self.remb);
        let at_once = matches!(self.feedback, FeedbackKind::Remb { at_once: true, .. });
        at_once && self.remb.is_some()
    }

    /// The REMB to send with the current report.
    pub(super) fn take_remb(&mut self) -> Option<RtcpPacket> {
        let bitrate = Remb::rounded(self.remb.take()?);
        let ssrcs = self.videos.iter().map(|video| video.config.ssrc).collect();
        Some(RtcpPacket::Remb(Remb { sender_ssrc: self.local_ssrc, bitrate, ssrcs }))
    }

    /// Reports the frames that are due.
    pub(super) fn show_frames(&mut self, now: Time, events: &mut VecDeque<EndpointEvent>) {
        for video in &mut self.videos {
            let ssrc = video.config.ssrc;
            while let Some(frame) = video.poll_frame(now) {
                events.push_back(EndpointEvent::FrameRendered { ssrc, frame });
            }
        }
        self.follow_videos();
    }

    /// Report blocks for the video streams received, and for their retransmissions if the far end's schedule has
    /// blocks for them. Those echo the sender report of the video, because there is none of retransmissions.
    pub(super) fn video_blocks(&mut self, now: Time) -> Vec<ReportBlock> {
        let with_repair = self.reports_repair;
        let streams = self.videos.iter_mut().flat_map(|video| {
            let InboundVideo { config, reception, of_repair, .. } = video;
            let echo = reception.echo(now);
            let repair = with_repair.then_some((of_repair, config.repair_ssrc, echo));
            [Some((reception, config.ssrc, echo)), repair].into_iter().flatten()
        });
        blocks_of(now, streams)
    }

    /// Report blocks for the audio streams received.
    pub(super) fn audio_blocks(&mut self, now: Time) -> Vec<ReportBlock> {
        let streams = self.audios.iter_mut().map(|audio| {
            let echo = audio.reception.echo(now);
            (&mut audio.reception, audio.config.ssrc, echo)
        });
        blocks_of(now, streams)
    }

    /// Requests what is missing, if anything is due; returns whether it is.
    #[inline]
    fn request_repair(&mut self, now: Time, rtt: Option<Time>, outbox: &mut Outbox) -> bool {
        let sampled = self.recent_rtt.as_ref().is_some_and(|recent| recent.is_due(now));
        let is_due =
            sampled || self.next_video <= now || self.videos.iter().any(InboundVideo::has_overflow);
        if is_due {
            self.request_due_repair(now, rtt, outbox);
        }
        is_due
    }

    fn request_due_repair(&mut self, now: Time, rtt: Option<Time>, outbox: &mut Outbox) {
        let rtt = self.repeat_rtt(now, rtt);
        let since_2024 = self.recent_rtt.is_some();
        for index in 0..self.videos.len() {
            let needs_key = self.videos[index].take_overflow()
                || (since_2024 && self.videos[index].poll_key_request(now));
            if needs_key {
                self.send_key_request(now, index, outbox);
            }
            let video = &mut self.videos[index];
            if !video.is_missing(now) {
                continue;
            }
            let lost = video.poll_missing(now, rtt);
            // Since 2024 a request for a key frame replaces one for packets.
            let replaced = since_2024 && needs_key;
            if !(lost.is_empty() || replaced) {
                let (sender_ssrc, media_ssrc) = (self.local_ssrc, video.config.ssrc);
                let nack = RtcpPacket::Nack(Nack { sender_ssrc, media_ssrc, lost });
                self.send_request(now, nack, outbox);
            }
        }
    }

    /// Requests a key frame for every video stream.
    pub(super) fn request_key_frames(&mut self, now: Time, outbox: &mut Outbox) {
        for index in 0..self.videos.len() {
            self.send_key_request(now, index, outbox);
        }
    }

    fn send_key_request(&mut self, now: Time, index: usize, outbox: &mut Outbox) {
        let video = &mut self.videos[index];
        video.pli_count += 1;
        let (sender_ssrc, media_ssrc) = (self.local_ssrc, video.config.ssrc);
        let pli = PictureLossIndication { sender_ssrc, media_ssrc };
        self.send_request(now, RtcpPacket::PictureLossIndication(pli), outbox);
    }

    fn send_request(&mut self, now: Time, request: RtcpPacket, outbox: &mut Outbox) {
        if !self.prepends_reports {
            return outbox.send_rtcp(now, [request]);
        }
        let report = ReceiverReport { ssrc: self.local_ssrc, blocks: self.video_blocks(now) };
        outbox.send_rtcp(now, [RtcpPacket::ReceiverReport(report), request]);
        self.has_reported = true;
    }
}

/// Report blocks of the streams that have received something of late, each with its answer to the last sender report.
/// Each starts a new interval.
fn blocks_of<'a>(
    now: Time,
    streams: impl Iterator<Item = (&'a mut Reception, u32, (u32, u32))>,
) -> Vec<ReportBlock> {
    let block = |(stream, ssrc, echo): (&mut Reception, u32, (u32, u32))| ReportBlock {
        last_sender_report: echo.0,
        delay_since_last_sender_report: echo.1,
        ..stream.report(ssrc)
    };
    streams.filter(|(stream, ..)| stream.is_active(now)).map(block).collect()
}

/// A packet as the receiver half of a congestion control sees it.
fn received(now: Time, packet: &Rtp, size: Bytes, ecn: Ecn, audio: bool) -> ReceivedPacket {
    ReceivedPacket {
        at: now,
        ssrc: packet.header.ssrc,
        seq: packet.header.seq,
        audio,
        size,
        payload: Bytes(packet.payload_bytes()),
        rtp_timestamp: packet.header.timestamp,
        abs_send_time: packet.header.extensions.abs_send_time,
        transport_seq: packet.header.extensions.transport_sequence,
        ecn,
    }
}
