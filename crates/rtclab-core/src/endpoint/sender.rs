//! Sending half of a peer: encoder, packetiser, pacer, history, congestion control.

use super::history::SendHistory;
use super::rtp_format::{
    RTP_HEADER_BYTES, Ssrcs, max_video_payload, packet_size, payload_size, unsent,
};
use super::wire::{Port, Wire};
use super::{AudioConfig, PeerConfig, or_never};
use crate::cc::{
    ConfigError, CongestionControlConfig, Controller, Decision, Feedback, PacketReport, RateBounds,
    RateOf,
};
use crate::media::encoder::{Encoder, Frame, VideoConfig};
use crate::media::fec::FecGenerator;
use crate::media::pacer::{PADDING_PAYLOAD, Pacer, Release};
use crate::media::protection::{Conditions, LossFilter, Protection};
use crate::media::repair::Repair;
use crate::media::{Kind, MediaPacket};
use crate::rtp::rtcp::TransportFeedback;
use crate::rtp::ulpfec::FecPacket;
use crate::units::{Bitrate, Bytes, Time};
use std::collections::VecDeque;

/// Ticks of the RTP clock of video.
pub(super) const VIDEO_CLOCK: u64 = 90_000;
/// Ticks of the RTP clock of Opus.
pub(super) const AUDIO_CLOCK: u64 = 48_000;
/// libwebrtc: the share of the rate that repair has taken in this time is taken from the encoder.
const REPAIR_WINDOW: Time = Time::from_secs(1);
/// libwebrtc, `fec_controller_default.cc`: repair takes at most this share.
const MAX_REPAIR_SHARE: f64 = 0.5;

/// Totals of one stream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StreamTotals {
    pub(super) packets: u64,
    pub(super) payload_bytes: u64,
    pub(super) header_bytes: u64,
    pub(super) frames: u64,
    pub(super) key_frames: u64,
}

struct Audio {
    config: AudioConfig,
    next: Time,
}

/// Bytes of media and of repair since the beginning of the present window.
#[derive(Default)]
struct RepairShare {
    since: Time,
    total: u64,
    repair: u64,
    share: f64,
}

/// FEC of what is sent.
#[derive(Default)]
struct Fec {
    loss: LossFilter,
    protection: Protection,
    generator: FecGenerator,
    /// Contents of the FEC packets in the pacer, in their order.
    queue: VecDeque<FecPacket>,
}

pub(super) struct Sender {
    port: Port,
    ssrcs: Ssrcs,
    scheme: Repair,
    fec: Fec,
    pub(super) encoder: Option<Encoder>,
    /// The picture being encoded, and when it will be ready.
    encoding: Option<(Time, Frame)>,
    audio: Option<Audio>,
    pub(super) controller: Box<dyn Controller>,
    pacer: Pacer,
    pub(super) history: SendHistory,
    repair: RepairShare,
    /// Decision and repair share that pacer and encoder follow.
    applied: Option<(Decision, f64)>,
    next_seq: [u16; Kind::ALL.len()],
    next_picture: u16,
    timestamp_offset: u32,
    pub(super) totals: [StreamTotals; Kind::ALL.len()],
    pub(super) nack_count: u64,
    pub(super) pli_count: u64,
    pub(super) rtt: Option<Time>,
    started: bool,
}

impl Sender {
    pub(super) fn new(
        config: &PeerConfig,
        port: Port,
        ssrcs: Ssrcs,
        controller: Box<dyn Controller>,
    ) -> Self {
        let scheme = config.repair;
        let padding = packet_size(scheme, Kind::Padding, PADDING_PAYLOAD.0);
        let decision = controller.decision();
        Sender {
            port,
            ssrcs,
            scheme,
            fec: Fec::default(),
            encoder: None,
            encoding: None,
            audio: None,
            pacer: Pacer::new(decision.pacing_rate, padding),
            controller,
            history: SendHistory::default(),
            repair: RepairShare::default(),
            applied: None,
            next_seq: [1; Kind::ALL.len()],
            next_picture: 0,
            timestamp_offset: config.seed as u32,
            totals: Default::default(),
            nack_count: 0,
            pli_count: 0,
            rtt: None,
            started: false,
        }
    }

    /// The connection stands: media begin.
    pub(super) fn start(&mut self, now: Time, config: &PeerConfig) {
        self.started = true;
        self.repair.since = now;
        self.encoder = config.video.map(|video| Encoder::new(video, now, config.seed));
        self.audio = config.audio.map(|audio| Audio { config: audio, next: now });
        self.controller.on_timeout(now);
        self.apply_decision(now);
    }

    pub(super) fn rtp_timestamp(&self, at: Time, clock: u64) -> u32 {
        let ticks = u128::from(at.0) * u128::from(clock) / 1_000_000_000;
        (ticks as u32).wrapping_add(self.timestamp_offset)
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        if !self.started {
            return None;
        }
        let encoder = self.encoder.as_ref().and_then(Encoder::poll_timeout);
        let audio = self.audio.as_ref().map(|audio| audio.next);
        let encoding = self.encoding.as_ref().map(|(ready, _)| *ready);
        let parts =
            or_never(self.pacer.poll_timeout()).min(or_never(self.controller.poll_timeout()));
        let next = or_never(encoder).min(or_never(encoding)).min(or_never(audio)).min(parts);
        (next < Time::MAX).then_some(next)
    }

    pub(super) fn on_timeout(&mut self, now: Time, wire: &mut Wire) {
        if !self.started {
            return;
        }
        if self.controller.poll_timeout().is_some_and(|at| at <= now) {
            self.controller.on_timeout(now);
            self.apply_decision(now);
        }
        self.encode(now, wire);
        self.sample_audio(now);
        while let Some((release, probe)) = self.pacer.poll(now) {
            self.release(now, release, probe, wire);
        }
    }

    pub(super) fn on_feedback(&mut self, now: Time, feedback: Feedback<'_>) {
        self.controller.on_feedback(now, feedback);
        self.apply_decision(now);
        if let Feedback::ReceiverReport { expected, fraction, .. } = feedback
            && expected > 0
            && self.scheme.uses_red()
        {
            self.fec.loss.add(now, f64::from(fraction) / 255.0);
            self.protect();
        }
    }

    fn protect(&mut self) {
        let Some(encoder) = &self.encoder else { return };
        self.fec.protection = Protection::for_conditions(&Conditions {
            loss: self.fec.loss.max(),
            rtt: self.rtt.unwrap_or(Time::ZERO),
            bitrate: self.target(),
            frame_rate: encoder.frame_rate(),
            resolution: encoder.resolution(),
        });
    }

    pub(super) fn on_transport_feedback(
        &mut self,
        now: Time,
        feedback: &TransportFeedback,
        reports: &mut Vec<PacketReport>,
    ) {
        reports.clear();
        self.history.acknowledge(feedback, reports);
        if !reports.is_empty() {
            let in_flight = self.history.in_flight();
            self.on_feedback(now, Feedback::Packets { reports, in_flight });
        }
    }

    pub(super) fn on_nack(&mut self, now: Time, seqs: impl Iterator<Item = u16>) {
        self.nack_count += 1;
        let pause = self.rtt.unwrap_or(Time::ZERO) + self.scheme.resend_pause();
        for seq in seqs {
            if let Some(packet) = self.history.retransmit(now, seq, pause) {
                let size = packet_size(self.scheme, Kind::Rtx, u64::from(packet.payload));
                self.pacer.push(now, packet, size);
            }
        }
    }

    pub(super) fn on_key_request(&mut self) {
        self.pli_count += 1;
        if let Some(encoder) = &mut self.encoder {
            encoder.request_key_frame();
        }
    }

    /// Rate of everything that the sender may send.
    pub(super) fn target(&self) -> Bitrate {
        self.controller.decision().target
    }

    fn apply_decision(&mut self, now: Time) {
        while let Some(probe) = self.controller.poll_probe() {
            self.pacer.add_probe(now, probe);
        }
        let decision = self.controller.decision();
        let applied = Some((decision, self.repair.share));
        if self.applied == applied {
            return;
        }
        self.applied = applied;
        self.pacer.set_rates(now, decision.pacing_rate, decision.padding_rate);
        self.pacer.set_burst(decision.pacing_burst, decision.pacing_tick);
        let audio = self.audio.as_ref().map_or(0, |audio| audio.config.wire_rate().0);
        let Some(encoder) = &mut self.encoder else { return };
        let media = match decision.target_of {
            RateOf::Packets => {
                without_headers(Bitrate(decision.target.0.saturating_sub(audio)), self.scheme)
            }
            RateOf::Payloads => {
                encoder.disable_overshoot_adjustment();
                decision.target
            }
        };
        encoder.set_target(media.scaled(1.0 - self.repair.share));
        encoder.set_drop_ratio(decision.drop_ratio);
    }

    fn encode(&mut self, now: Time, wire: &mut Wire) {
        if let Some((_, frame)) = self.encoding.take_if(|(ready, _)| *ready <= now) {
            self.packetise(now, &frame);
        }
        if self.encoding.is_some() {
            self.encoder.iter_mut().for_each(|encoder| encoder.skip(now));
            return;
        }
        while let Some(frame) = self.encoder.as_mut().and_then(|encoder| encoder.poll(now)) {
            let (width, height) = frame.resolution;
            let pixels = u32::from(width) * u32::from(height);
            match wire.encode(now, self.port.from, pixels) {
                ready if ready <= now => self.packetise(now, &frame),
                ready => self.encoding = Some((ready, frame)),
            }
        }
    }

    fn packetise(&mut self, now: Time, frame: &Frame) {
        let count = frame.size.0.div_ceil(max_video_payload(self.scheme)).max(1);
        let timestamp = self.rtp_timestamp(frame.captured, VIDEO_CLOCK);
        let totals = &mut self.totals[Kind::Video as usize];
        totals.frames += 1;
        totals.key_frames += u64::from(frame.key);
        for i in 0..count {
            // Packets of one frame differ by at most one byte, as libwebrtc cuts them.
            let payload = frame.size.0 * (i + 1) / count - frame.size.0 * i / count;
            let packet = MediaPacket {
                kind: Kind::Video,
                seq: self.take_seq(Kind::Video),
                timestamp,
                marker: i + 1 == count,
                first: i == 0,
                key: frame.key,
                picture_id: self.next_picture,
                resolution: frame.resolution,
                payload: payload as u16,
            };
            self.history.store(packet);
            self.pacer.push(now, packet, packet_size(self.scheme, Kind::Video, payload));
        }
        self.next_picture = (self.next_picture + 1) & 0x7fff;
        if self.fec.generator.wants(&self.fec.protection, frame.key) {
            self.add_fec(now, frame.key, count as usize);
        }
    }

    /// Sends FEC behind the last `count` packets, which are a frame.
    fn add_fec(&mut self, now: Time, key: bool, count: usize) {
        let Fec { generator, protection, .. } = &mut self.fec;
        let frame = self.history.newest(count).map(|packet| unsent(&self.ssrcs, packet));
        let packets = generator.add_frame(protection, key, frame);
        let Some(last) = self.history.newest(1).next().copied() else { return };
        for fec in packets {
            let payload = fec.wire_bytes() as u16;
            let seq = self.take_seq(Kind::Video);
            let packet =
                MediaPacket { kind: Kind::Fec, seq, marker: false, first: false, payload, ..last };
            // Keeps the history without holes; nobody gets it again.
            self.history.store(packet);
            let size = packet_size(self.scheme, Kind::Fec, u64::from(payload));
            self.pacer.push(now, packet, size);
            self.fec.queue.push_back(fec);
        }
    }

    fn sample_audio(&mut self, now: Time) {
        while let Some(at) = self.audio.as_ref().map(|audio| audio.next).filter(|at| *at <= now) {
            let timestamp = self.rtp_timestamp(at, AUDIO_CLOCK);
            let seq = self.take_seq(Kind::Audio);
            let Some(audio) = &mut self.audio else { return };
            audio.next = at + audio.config.frame_ns;
            let payload = audio.config.payload();
            let packet = MediaPacket {
                kind: Kind::Audio,
                seq,
                timestamp,
                marker: false,
                first: true,
                key: false,
                picture_id: 0,
                resolution: (0, 0),
                payload: payload.0 as u16,
            };
            let size = packet_size(self.scheme, Kind::Audio, payload.0);
            self.pacer.push(now, packet, size);
        }
    }

    fn release(&mut self, now: Time, release: Release, probe: Option<u32>, wire: &mut Wire) {
        let packet = match release {
            Release::Media(packet) => packet,
            Release::Repeat => match self.history.last() {
                Some(packet) => MediaPacket { kind: Kind::Rtx, ..packet },
                None => return,
            },
            Release::Padding => MediaPacket {
                kind: Kind::Padding,
                seq: 0,
                timestamp: self.rtp_timestamp(now, VIDEO_CLOCK),
                marker: false,
                first: false,
                key: false,
                picture_id: 0,
                resolution: (0, 0),
                payload: PADDING_PAYLOAD.0 as u16,
            },
        };
        let seq = match packet.kind {
            Kind::Video | Kind::Audio | Kind::Fec => packet.seq,
            Kind::Rtx if self.scheme.on_original_ssrc() => packet.seq,
            Kind::Rtx | Kind::Padding => self.take_seq(Kind::Rtx),
        };
        let transport_seq = self.history.next_transport_seq() as u16;
        let size = match packet.kind {
            Kind::Fec => {
                let Some(fec) = self.fec.queue.pop_front() else { return };
                wire.send_fec(now, (self.port, &self.ssrcs), transport_seq, &packet, &fec)
            }
            _ => {
                let stream = (self.port, &self.ssrcs, self.scheme);
                wire.send_media(now, stream, seq, transport_seq, &packet)
            }
        };
        let sent = self.history.sent(now, size, packet.kind, packet.seq, probe);
        self.controller.on_sent(&sent);
        self.count(now, &packet, size);
    }

    fn count(&mut self, now: Time, packet: &MediaPacket, size: Bytes) {
        let totals = &mut self.totals[packet.kind as usize];
        totals.packets += 1;
        totals.header_bytes += RTP_HEADER_BYTES;
        if packet.kind != Kind::Padding {
            totals.payload_bytes += payload_size(size, RTP_HEADER_BYTES as usize);
        }
        let repair = &mut self.repair;
        repair.total += size.0;
        let repairs = matches!(packet.kind, Kind::Rtx | Kind::Fec);
        repair.repair += if repairs { size.0 } else { 0 };
        if now >= repair.since + REPAIR_WINDOW {
            let share = repair.repair as f64 / repair.total.max(1) as f64;
            *repair = RepairShare {
                since: now,
                share: share.min(MAX_REPAIR_SHARE),
                ..Default::default()
            };
        }
    }

    fn take_seq(&mut self, kind: Kind) -> u16 {
        let seq = self.next_seq[kind as usize];
        self.next_seq[kind as usize] = seq.wrapping_add(1);
        seq
    }
}

/// What a rate of packets leaves to the encoder: at least one packet per frame, else full packets.
fn without_headers(rate: Bitrate, scheme: Repair) -> Bitrate {
    let payload = max_video_payload(scheme);
    let full = packet_size(scheme, Kind::Video, payload);
    let headers = (full.0 - payload) * 8;
    let packets = (rate.0 as f64 / full.bits() as f64).max(super::FRAMES_PER_SECOND_FLOOR);
    Bitrate(rate.0.saturating_sub((headers as f64 * packets) as u64))
}

/// The halves that a scenario names, with the bounds that the media controlled give.
///
/// # Errors
/// No algorithm of that name, or no such option.
pub(super) fn halves(
    (video, audio): (Option<VideoConfig>, Option<AudioConfig>),
    congestion_control: &CongestionControlConfig,
) -> Result<crate::cc::Halves, ConfigError> {
    let audio = audio.map_or(Bitrate::ZERO, |audio| audio.wire_rate());
    let bounds = match video {
        Some(video) => {
            RateBounds { start: video.start_bps, min: video.min_bps, max: video.max_bps, audio }
        }
        None => RateBounds { start: audio, min: audio, max: audio, audio: Bitrate::ZERO },
    };
    crate::cc::create(congestion_control, bounds)
}
