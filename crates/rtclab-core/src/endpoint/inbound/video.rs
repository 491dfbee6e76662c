//! Reception of one video stream: loss repair and playout.

use super::reception::{Marks, Reception};
use super::transit::Transit;
use crate::endpoint::config::StreamConfig;
use crate::endpoint::format::VIDEO_CLOCK;
use crate::endpoint::or_never;
use crate::media::fec::FecDecoder;
use crate::media::grid::Timers;
use crate::media::nack::{Nack, NackArrival};
use crate::media::playout::{PacketIds, Playout, Rendered};
use crate::media::repair::Retransmission;
use crate::packet::{FecBlock, Rtp, RtpPayload, VideoPart};
use crate::rtp::{RtpHeader, TimestampUnwrapper, Unwrapper};
use crate::stack::StackProfile;
use crate::units::Time;
use std::sync::Arc;

/// Totals of retransmissions. Padding on their stream counts, but not as payload (libwebrtc f3ae3eb62e,
/// `video_receive_stream2.cc`: what the receiver counts is the whole stream).
#[derive(Clone, Copy, Default)]
pub(in crate::endpoint) struct Retransmitted {
    pub(in crate::endpoint) packets: u64,
    pub(in crate::endpoint) payload_bytes: u64,
    pub(in crate::endpoint) header_bytes: u64,
}

impl Retransmitted {
    fn count(&mut self, packet: &Rtp) {
        self.packets += 1;
        self.header_bytes += packet.header_bytes();
        if !matches!(packet.payload, RtpPayload::Padding(_)) {
            self.payload_bytes += packet.payload_bytes();
        }
    }
}

pub(in crate::endpoint) struct InboundVideo {
    pub(in crate::endpoint) config: StreamConfig,
    /// Whether pictures are decoded and shown.
    pub(in crate::endpoint) plays: bool,
    pub(in crate::endpoint) reception: Reception,
    pub(in crate::endpoint) marks: Marks,
    /// Reception of the retransmission stream, padding included.
    pub(super) of_repair: Reception,
    timestamps: TimestampUnwrapper,
    /// For the synchronisation with audio, if there is any.
    pub(super) transit: Option<Transit>,
    pictures: Unwrapper<15>,
    nack: Nack,
    fec: Option<FecDecoder>,
    /// Payload bytes of the FEC packets received.
    fec_bytes: u64,
    /// Whether packets before the newest continuous frame are forgotten.
    forgets: bool,
    pub(in crate::endpoint) playout: Box<dyn Playout>,
    pub(in crate::endpoint) retransmitted: Retransmitted,
    /// Packets that were missing and then repaired in time.
    pub(in crate::endpoint) repaired: u64,
    pub(in crate::endpoint) nack_count: u64,
    pub(in crate::endpoint) pli_count: u64,
}

impl InboundVideo {
    pub(super) fn new(
        config: StreamConfig,
        stack: &StackProfile,
        plays: bool,
        timers: Timers,
        with_audio: bool,
    ) -> Self {
        InboundVideo {
            config,
            plays,
            reception: match config.repair.on_original_ssrc() {
                true => Reception::with_retransmissions(),
                false => Reception::default(),
            },
            marks: Marks::default(),
            of_repair: Reception::default(),
            timestamps: TimestampUnwrapper::default(),
            transit: with_audio.then(Transit::default),
            pictures: Unwrapper::default(),
            nack: Nack::new(config.repair.nack_rules(stack.retransmission), timers),
            fec: config.repair.uses_red().then(FecDecoder::default),
            fec_bytes: 0,
            forgets: stack.retransmission == Retransmission::Since2024,
            playout: stack.playout.start(VIDEO_CLOCK as f64, timers),
            retransmitted: Retransmitted::default(),
            repaired: 0,
            nack_count: 0,
            pli_count: 0,
        }
    }

    /// FEC packets received, their payload bytes, and FEC packets that repaired nothing; `None` without FEC.
    pub(in crate::endpoint) fn fec_counters(&self) -> Option<(u64, u64, u64)> {
        self.fec.as_ref().map(|fec| (fec.received, self.fec_bytes, fec.discarded))
    }

    /// Handles a packet of the stream itself: media, a retransmission of it, or FEC. Packets that FEC
    /// recovers are also handed to `recovered`.
    pub(super) fn on_packet(&mut self, now: Time, packet: &Rtp, recovered: &mut dyn FnMut(&Rtp)) {
        let (seq, again) = self.reception.identify(now, &packet.header, VIDEO_CLOCK);
        match again {
            true => self.retransmitted.count(packet),
            false => self.reception.count(now, packet, seq, VIDEO_CLOCK),
        }
        match &packet.payload {
            RtpPayload::Video(part) => {
                if let Some(fec) = &mut self.fec {
                    fec.on_media(packet.header.seq);
                }
                self.on_media(now, &packet.header, part, seq, again);
            }
            RtpPayload::Fec(block) => {
                self.fec_bytes += packet.payload_bytes();
                self.on_fec(now, seq, block);
            }
            RtpPayload::Audio { .. } | RtpPayload::Rtx { .. } | RtpPayload::Padding(_) => return,
        }
        while let Some(packet) = self.fec.as_mut().and_then(FecDecoder::poll) {
            recovered(&packet);
            let RtpPayload::Video(part) = &packet.payload else { continue };
            let seq = self.reception.unwrapper.peek(packet.header.seq);
            self.on_media(now, &packet.header, part, seq, true);
        }
    }

    /// Handles a packet of the retransmission stream; padding only counts.
    pub(super) fn on_retransmission(&mut self, now: Time, packet: &Rtp) {
        let (seq, _) = self.of_repair.identify(now, &packet.header, VIDEO_CLOCK);
        self.of_repair.count(now, packet, seq, VIDEO_CLOCK);
        self.retransmitted.count(packet);
        let RtpPayload::Rtx { original_seq, part } = &packet.payload else { return };
        let seq = self.reception.unwrapper.peek(*original_seq);
        self.on_media(now, &packet.header, part, seq, true);
    }

    fn on_fec(&mut self, now: Time, seq: i64, block: &Arc<FecBlock>) {
        self.nack.on_packet(now, seq);
        if let Some(fec) = &mut self.fec {
            fec.on_fec(Arc::clone(block));
        }
    }

    /// Handles a part of a frame, either as first sent or `repaired`.
    fn on_media(
        &mut self,
        now: Time,
        header: &RtpHeader,
        part: &VideoPart,
        seq: i64,
        repaired: bool,
    ) {
        let arrival = self.nack.on_packet(now, seq);
        if arrival == NackArrival::Duplicate || !self.plays {
            return;
        }
        let frame = self.pictures.unwrap(part.picture_id);
        let timestamp = self.timestamps.unwrap(header.timestamp);
        if let Some(transit) = self.transit.as_mut().filter(|_| !repaired) {
            transit.note(now, timestamp, VIDEO_CLOCK);
        }
        let ids = PacketIds { seq, frame, timestamp };
        let requested = arrival == (NackArrival::Filled { requested: true });
        let in_time = self.playout.on_packet(now, part, header.marker, ids, requested);
        let filled = matches!(arrival, NackArrival::Filled { .. });
        self.repaired += u64::from(in_time && repaired && filled);
        if self.forgets {
            if let Some(settled) = self.playout.settled_seq() {
                self.nack.forget_before(settled);
            }
        }
    }

    pub(super) fn poll_timeout(&self) -> Time {
        or_never(self.nack.poll_timeout()).min(or_never(self.playout.poll_timeout()))
    }

    /// Whether a key frame is needed because nothing decodable has come for too long.
    pub(super) fn poll_key_request(&mut self, now: Time) -> bool {
        self.playout.poll_key_request(now)
    }

    /// Whether too many packets are missing to be requested.
    pub(super) fn take_overflow(&mut self) -> bool {
        self.nack.take_overflow()
    }

    /// Whether too many packets are missing, so that a key frame has to be requested now.
    pub(super) fn has_overflow(&self) -> bool {
        self.nack.has_overflow()
    }

    /// Whether missing packets may have to be requested now.
    pub(super) fn is_missing(&self, now: Time) -> bool {
        self.nack.poll_timeout().is_some_and(|at| at <= now)
    }

    /// Sequence numbers to request now.
    pub(super) fn poll_missing(&mut self, now: Time, rtt: Time) -> Vec<u16> {
        let mut missing = Vec::new();
        self.nack.poll(now, rtt, &mut missing);
        self.nack_count += u64::from(!missing.is_empty());
        missing.into_iter().map(|seq| seq as u16).collect()
    }

    /// The next frame to show.
    pub(super) fn poll_frame(&mut self, now: Time) -> Option<Rendered> {
        let frame = self.playout.poll(now)?;
        let repair = self.config.repair;
        let forgets = repair.on_original_ssrc() || repair.uses_red();
        if let Some(last) = self.playout.settled_seq().filter(|_| forgets) {
            // Nothing is requested before the last decoded frame, least of all FEC, which is never sent again:
            // the jitter buffer of 2013; in 2026 `rtp_video_stream_receiver2.cc`.
            self.nack.forget_before(last);
        }
        Some(frame)
    }
}
