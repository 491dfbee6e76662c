//! Receiving half of a peer: statistics, loss repair, playout, and the feedback for the other side.

use super::reception::Reception;
use super::rtp_format::{self, Ssrcs, payload_size, read_vp8};
use super::sender::{AUDIO_CLOCK, VIDEO_CLOCK};
use super::wire::{Port, Wire};
use crate::cc::{Estimator, ReceivedPacket, RembTiming};
use crate::media::MediaPacket;
use crate::media::fec::FecDecoder;
use crate::media::nack::{Arrival, Nack};
use crate::media::playout::{Playout, Rendered};
use crate::media::repair::Repair;
use crate::rtp::rtcp::{PictureLossIndication, Remb, ReportBlock, TransportFeedback};
use crate::rtp::ulpfec::FecPacket;
use crate::rtp::{
    ExtensionIds, RtcpPacket, RtpHeader, SeqUnwrapper, TimestampUnwrapper, Unwrapper, red, rtx,
};
use crate::units::{Bitrate, Bytes, Time};

/// libwebrtc, `transport_sequence_number_feedback_generator.cc`: first interval between reports …
const FEEDBACK_START: Time = Time::from_millis(100);
/// … later intervals lie between these …
const FEEDBACK_MIN: Time = Time::from_millis(50);
const FEEDBACK_MAX: Time = Time::from_millis(250);
/// … such that reports of this size (20 IPv4, 8 UDP, 10 SRTP, 30 report) …
const FEEDBACK_SIZE: Bytes = Bytes(68);
/// … take this share of the rate.
const FEEDBACK_SHARE: f64 = 0.05;
/// A report covers at most this many packets, so that it fits into a datagram.
const FEEDBACK_PACKETS: i64 = 500;
/// libwebrtc: round trip assumed before one is known.
const DEFAULT_RTT: Time = Time::from_millis(100);

/// Totals of retransmissions, padding not counted.
#[derive(Clone, Copy, Default)]
pub(super) struct Retransmitted {
    pub(super) packets: u64,
    pub(super) payload_bytes: u64,
    pub(super) header_bytes: u64,
}

impl Retransmitted {
    fn count(&mut self, payload: u64, header_bytes: usize) {
        self.packets += 1;
        self.payload_bytes += payload;
        self.header_bytes += header_bytes as u64;
    }
}

/// Arrivals not yet reported by transport-wide feedback.
#[derive(Default)]
struct Arrivals {
    unwrapper: SeqUnwrapper,
    /// First sequence number of the next report.
    base: Option<i64>,
    seen: Vec<(i64, Time)>,
    next_report: Option<Time>,
    count: u8,
}

pub(super) struct Receiver {
    port: Port,
    local_ssrc: u32,
    remote: Ssrcs,
    /// Whether pictures are decoded and shown.
    plays: bool,
    arrivals: Arrivals,
    /// Receiver half of the congestion control; without one transport-wide feedback is sent.
    pub(super) estimator: Option<Box<dyn Estimator>>,
    /// A REMB that has not been sent.
    remb: Option<Bitrate>,
    pub(super) video: Reception,
    pub(super) audio: Reception,
    timestamps: TimestampUnwrapper,
    pictures: Unwrapper<15>,
    scheme: Repair,
    nack: Nack,
    /// FEC of the stream of video; what is received is kept only for it.
    pub(super) fec: Option<FecDecoder>,
    pub(super) playout: Playout,
    pub(super) retransmitted: Retransmitted,
    /// Packets of video that were missing and then made good in time.
    pub(super) repaired: u64,
    pub(super) nack_count: u64,
    pub(super) pli_count: u64,
    /// Middle bits of the NTP time of the last sender report, and when it came.
    last_sender_report: Option<(u32, Time)>,
}

impl Receiver {
    pub(super) fn new(
        port: Port,
        local_ssrc: u32,
        remote: Ssrcs,
        (scheme, plays): (Repair, bool),
        estimator: Option<Box<dyn Estimator>>,
    ) -> Self {
        let video = match scheme.on_original_ssrc() {
            true => Reception::with_retransmissions(),
            false => Reception::default(),
        };
        Receiver {
            port,
            local_ssrc,
            remote,
            plays,
            arrivals: Arrivals::default(),
            estimator,
            remb: None,
            video,
            audio: Reception::default(),
            timestamps: TimestampUnwrapper::default(),
            pictures: Unwrapper::default(),
            scheme,
            nack: Nack::new(scheme.nack_rules()),
            fec: scheme.uses_red().then(|| FecDecoder::new(remote.video)),
            playout: Playout::new(VIDEO_CLOCK as f64),
            retransmitted: Retransmitted::default(),
            repaired: 0,
            nack_count: 0,
            pli_count: 0,
            last_sender_report: None,
        }
    }

    /// Whether it shows what it receives.
    pub(super) fn plays(&self) -> bool {
        self.plays
    }

    pub(super) fn remote_video(&self) -> u32 {
        self.remote.video
    }

    /// Packets repaired in time, FEC packets received and discarded; `None` where RTX tells it.
    pub(super) fn repair_counters(&self) -> [Option<u64>; 3] {
        let fec = |count: fn(&FecDecoder) -> u64| self.fec.as_ref().map(count);
        let repaired = (self.scheme != Repair::Rtx).then_some(self.repaired);
        [repaired, fec(|fec| fec.received), fec(|fec| fec.discarded)]
    }

    pub(super) fn remote_audio(&self) -> u32 {
        self.remote.audio
    }

    /// A packet of media arrived; returns whether it ends a frame.
    pub(super) fn on_rtp(
        &mut self,
        now: Time,
        bytes: &[u8],
        size: Bytes,
        rtt: Option<Time>,
        wire: &mut Wire,
    ) -> bool {
        let Ok((header, len)) = RtpHeader::parse(bytes, &ExtensionIds::CHROMIUM) else {
            return false;
        };
        let payload = payload_size(size, len);
        match &mut self.estimator {
            // Audio had no part in receive-side algorithms.
            Some(estimator) if header.ssrc != self.remote.audio => {
                estimator.on_packet(&ReceivedPacket {
                    at: now,
                    payload: Bytes(payload),
                    rtp_timestamp: header.timestamp,
                    abs_send_time: header.extensions.abs_send_time,
                });
            }
            Some(_) => {}
            None => {
                if let Some(seq) = header.extensions.transport_sequence {
                    self.arrivals.note(now, seq);
                }
            }
        }
        if header.ssrc == self.remote.audio {
            let (seq, _) = self.audio.identify(now, &header, AUDIO_CLOCK);
            self.audio.count(now, &header, seq, (payload, len), AUDIO_CLOCK);
        } else if header.ssrc == self.remote.video {
            self.on_video_stream(now, &header, &bytes[len..], (payload, len));
        } else if header.ssrc == self.remote.rtx && !header.padding {
            let Ok((original, rest)) = rtx::parse(&bytes[len..]) else { return false };
            let size = payload.saturating_sub(rtx::OSN_BYTES as u64);
            if let Some(media) = read_vp8(&header, original, rest, size) {
                self.retransmitted.count(payload, len);
                let seq = self.video.unwrapper.peek(original);
                self.on_video(now, &media, seq, true);
            }
        }
        self.send_nack(now, rtt, wire);
        header.marker
    }

    pub(super) fn on_sender_report(&mut self, now: Time, middle: u32) {
        self.last_sender_report = Some((middle, now));
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        let timers = [
            self.arrivals.next_report,
            self.estimator.as_ref().and_then(|estimator| estimator.poll_timeout()),
            self.nack.poll_timeout(),
            self.playout.poll_timeout(),
        ];
        timers.into_iter().flatten().min()
    }

    /// Sends what is due; `target` is the rate of which feedback may take its share.
    pub(super) fn on_timeout(
        &mut self,
        now: Time,
        target: Bitrate,
        rtt: Option<Time>,
        wire: &mut Wire,
    ) {
        if self.arrivals.next_report.is_some_and(|at| at <= now) {
            self.send_transport_feedback(now, target, wire);
        }
        if let Some(estimator) = &mut self.estimator
            && estimator.poll_timeout().is_some_and(|at| at <= now)
        {
            estimator.on_timeout(now);
        }
        self.send_nack(now, rtt, wire);
        if self.playout.poll_key_request(now) {
            self.send_key_request(now, wire);
        }
    }

    pub(super) fn on_rtt(&mut self, now: Time, rtt: Time) {
        self.video.on_rtt(rtt);
        if let Some(estimator) = &mut self.estimator {
            estimator.on_rtt(now, rtt);
        }
    }

    /// Whether there is a REMB that does not wait for the next report.
    pub(super) fn has_urgent_remb(&mut self) -> bool {
        let Some(estimator) = &mut self.estimator else { return false };
        self.remb = estimator.poll_remb().or(self.remb);
        self.remb.is_some() && estimator.remb_timing() == RembTiming::AtOnce
    }

    /// When REMBs leave; `None` if there are none.
    pub(super) fn remb_timing(&self) -> Option<RembTiming> {
        self.estimator.as_ref().map(|estimator| estimator.remb_timing())
    }

    /// The REMB to send with the report that leaves now.
    pub(super) fn take_remb(&mut self) -> Option<RtcpPacket> {
        let bitrate = self.remb.take()?;
        let ssrcs = vec![self.remote.video];
        Some(RtcpPacket::Remb(Remb { sender_ssrc: self.local_ssrc, bitrate, ssrcs }))
    }

    /// The next picture due.
    pub(super) fn poll_frame(&mut self, now: Time) -> Option<Rendered> {
        let frame = self.playout.poll(now)?;
        if let Some(last) = self.playout.last_seq().filter(|_| self.scheme.on_original_ssrc()) {
            // The jitter buffer of 2013 asked for nothing before the last picture decoded.
            self.nack.forget_before(last);
        }
        Some(frame)
    }

    /// Report blocks for the streams received, for the next sender or receiver report.
    pub(super) fn report_blocks(&mut self, now: Time) -> Vec<ReportBlock> {
        let (last_sender_report, delay) = match self.last_sender_report {
            Some((middle, at)) => (middle, now.saturating_sub(at).0 * 65_536 / 1_000_000_000),
            None => (0, 0),
        };
        let streams = [(&mut self.video, self.remote.video), (&mut self.audio, self.remote.audio)];
        let received = streams.into_iter().filter(|(stream, _)| stream.packets > 0);
        received
            .map(|(stream, ssrc)| ReportBlock {
                last_sender_report,
                delay_since_last_sender_report: delay as u32,
                ..stream.report(ssrc)
            })
            .collect()
    }

    /// A packet of the stream of video: media, a retransmission of them, or FEC.
    fn on_video_stream(
        &mut self,
        now: Time,
        header: &RtpHeader,
        body: &[u8],
        (payload, header_bytes): (u64, usize),
    ) {
        let (seq, again) = self.video.identify(now, header, VIDEO_CLOCK);
        match again {
            true => self.retransmitted.count(payload, header_bytes),
            false => self.video.count(now, header, seq, (payload, header_bytes), VIDEO_CLOCK),
        }
        let (mut payload_type, mut body, mut payload) = (header.payload_type, body, payload);
        if payload_type == rtp_format::RED {
            let Ok((block_type, data)) = red::parse(body) else { return };
            payload = payload.saturating_sub((body.len() - data.len()) as u64);
            (payload_type, body) = (block_type, data);
        }
        if let Some(fec) = &mut self.fec {
            if payload_type == rtp_format::ULPFEC {
                self.nack.on_packet(now, seq);
                if let Ok(packet) = FecPacket::parse(body) {
                    fec.on_fec(packet);
                }
                return self.recover(now);
            }
            fec.on_media(header.seq, rtp_format::received(header, payload_type, body, payload));
        }
        if let Some(media) = read_vp8(header, header.seq, body, payload) {
            self.on_video(now, &media, seq, again);
        }
        self.recover(now);
    }

    /// Hands on what FEC can recover by now.
    fn recover(&mut self, now: Time) {
        while let Some((seq, packet)) = self.fec.as_mut().and_then(FecDecoder::poll) {
            let parsed = RtpHeader::parse(&packet.bytes, &ExtensionIds::CHROMIUM);
            let Ok((header, header_bytes)) = parsed else { continue };
            let payload = packet.len.saturating_sub(header_bytes) as u64;
            if let Some(estimator) = self.estimator.as_mut().filter(|e| e.hears_recovered()) {
                estimator.on_packet(&ReceivedPacket {
                    at: now,
                    payload: Bytes(payload),
                    rtp_timestamp: header.timestamp,
                    abs_send_time: None,
                });
            }
            if let Some(media) = read_vp8(&header, seq, &packet.bytes[header_bytes..], payload) {
                let seq = self.video.unwrapper.peek(seq);
                self.on_video(now, &media, seq, true);
            }
        }
    }

    /// A packet of media, as it was sent first or `repaired`.
    fn on_video(&mut self, now: Time, media: &MediaPacket, seq: i64, repaired: bool) {
        let arrival = self.nack.on_packet(now, seq);
        if arrival == Arrival::Duplicate {
            return;
        }
        if !self.plays {
            return;
        }
        let frame = self.pictures.unwrap(media.picture_id);
        let timestamp = self.timestamps.unwrap(media.timestamp);
        let in_time = self.playout.on_packet(now, media, seq, frame, timestamp);
        self.repaired += u64::from(in_time && repaired && arrival == Arrival::Filled);
    }

    fn send_nack(&mut self, now: Time, rtt: Option<Time>, wire: &mut Wire) {
        if self.nack.take_overflow() {
            self.send_key_request(now, wire);
        }
        if self.nack.poll_timeout().is_none_or(|at| at > now) {
            return;
        }
        let mut missing = Vec::new();
        self.nack.poll(now, rtt.unwrap_or(DEFAULT_RTT), &mut missing);
        if missing.is_empty() {
            return;
        }
        self.nack_count += 1;
        let lost = missing.iter().map(|seq| *seq as u16).collect();
        let media_ssrc = self.remote.video;
        let nack = crate::rtp::rtcp::Nack { sender_ssrc: self.local_ssrc, media_ssrc, lost };
        self.send(now, &RtcpPacket::Nack(nack), wire);
    }

    pub(super) fn send_key_request(&mut self, now: Time, wire: &mut Wire) {
        self.pli_count += 1;
        let pli =
            PictureLossIndication { sender_ssrc: self.local_ssrc, media_ssrc: self.remote.video };
        self.send(now, &RtcpPacket::PictureLossIndication(pli), wire);
    }

    fn send_transport_feedback(&mut self, now: Time, target: Bitrate, wire: &mut Wire) {
        let interval = target.scaled(FEEDBACK_SHARE).time_for(FEEDBACK_SIZE);
        let interval = interval.map_or(FEEDBACK_MAX, |at| at.clamp(FEEDBACK_MIN, FEEDBACK_MAX));
        self.arrivals.next_report = Some(now + interval);
        let ssrcs = (self.local_ssrc, self.remote.video);
        while let Some(report) = self.arrivals.take(ssrcs) {
            self.send(now, &RtcpPacket::TransportFeedback(report), wire);
        }
    }

    fn send(&self, now: Time, packet: &RtcpPacket, wire: &mut Wire) {
        let mut bytes = wire.buffer();
        if packet.write(&mut bytes).is_ok() {
            wire.send_rtcp(now, self.port, bytes);
        }
    }
}

impl Arrivals {
    fn note(&mut self, now: Time, seq: u16) {
        let seq = self.unwrapper.unwrap(seq);
        let base = *self.base.get_or_insert(seq);
        self.next_report.get_or_insert(now + FEEDBACK_START);
        // libwebrtc reports again from a late packet on.
        self.base = Some(base.min(seq));
        self.seen.push((seq, now));
    }

    /// The next report, from the base to the highest sequence number seen.
    fn take(&mut self, ssrcs: (u32, u32)) -> Option<TransportFeedback> {
        let base = self.base?;
        let highest = self.seen.iter().map(|(seq, _)| *seq).max()?;
        let last = highest.min(base + FEEDBACK_PACKETS - 1);
        let mut arrivals = vec![None; (last - base + 1) as usize];
        for (seq, at) in &self.seen {
            if let Some(slot) = usize::try_from(seq - base).ok().and_then(|i| arrivals.get_mut(i)) {
                slot.get_or_insert(*at);
            }
        }
        let (report, covered) =
            TransportFeedback::from_arrivals(ssrcs, self.count, base as u16, &arrivals);
        self.count = self.count.wrapping_add(1);
        let next = base + covered.max(1) as i64;
        self.base = Some(next);
        self.seen.retain(|(seq, _)| *seq >= next);
        Some(report)
    }
}
