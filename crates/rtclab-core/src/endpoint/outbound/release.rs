//! Sends what the pacer releases.

use super::stream::{MediaSource, SentMedia, VideoPacket};
use super::{RESOLUTION, SendingHalf};
use crate::cc::ControlError;
use crate::endpoint::format::{VIDEO_CLOCK, audio_header_bytes, rtp_header_bytes};
use crate::endpoint::outbox::Outbox;
use crate::media::pacer::{MediaPacket, Release};
use crate::media::repair::Retransmission;
use crate::packet::{Ecn, Kind, SRTP_BYTES, VideoPart};
use crate::stack::{FeedbackKind, RateAccounting};
use crate::transport_history::Departure;
use crate::units::{Bytes, Time};

impl SendingHalf {
    /// Sends what the pacer releases.
    pub(super) fn release_all(
        &mut self,
        now: Time,
        outbox: &mut Outbox,
    ) -> Result<(), ControlError> {
        while let Some((release, probe)) = self.pacer.poll(now) {
            self.release(now, release, probe, outbox)?;
        }
        self.waited |= self.pacer.queued() > Bytes::ZERO;
        Ok(())
    }

    fn release(
        &mut self,
        now: Time,
        release: Release,
        probe: Option<u32>,
        outbox: &mut Outbox,
    ) -> Result<(), ControlError> {
        let Some(packet) = self.released(now, release) else { return Ok(()) };
        let transport_seq = self.transport_seq();
        let Some((past, rtp)) = self.rtp(now, &packet, transport_seq) else { return Ok(()) };
        let index = usize::from(packet.stream);
        // Padding that repeats a packet is payload on the repair stream, but no retransmission (libwebrtc,
        // `rtp_sender_egress.cc`: only packets of the type kRetransmission are).
        let counted = if release == Release::Repeat { Kind::Padding } else { packet.kind };
        let payload_bytes = if packet.kind == Kind::Padding { 0 } else { rtp.payload_bytes() };
        self.count(index, counted, payload_bytes);
        let ecn = self.ecn.codepoint(self.stack.feedback, self.decision.ecn);
        self.streams[index].sent_with_ect1 += u64::from(ecn == Ecn::Ect1);
        let number = (rtp.header.ssrc, rtp.header.seq);
        // Since 2024 padding that repeats a packet is not a retransmission of it.
        let is_padding =
            release == Release::Repeat && self.stack.retransmission == Retransmission::Since2024;
        let rtt = self.rtt.unwrap_or(Time::ZERO);
        let size = outbox.send_rtp(past, ecn, rtp);
        if matches!(packet.kind, Kind::Video | Kind::Rtx | Kind::Fec) {
            self.padding_stream = index;
            // Media is retransmitted, FEC is not.
            if packet.kind != Kind::Fec && !is_padding {
                if let Some(video) = self.streams[index].video_mut() {
                    video.store.on_sent(now, packet.seq, rtt);
                }
            }
        }
        let is_stored = matches!(packet.kind, Kind::Video | Kind::Rtx) && !is_padding;
        let retransmission = packet.kind == Kind::Rtx;
        let video = is_stored.then_some(VideoPacket { seq: packet.seq, retransmission });
        // Send-side control knows whole milliseconds, and does not count the tag of SRTP: with it, targets replayed
        // from event logs of Chromium 156 are 1 to 3 % too high.
        let (at, counted) = match self.stack.feedback {
            FeedbackKind::TransportWide | FeedbackKind::Rfc8888 => {
                (now.floor_to(RESOLUTION), Bytes(size.0.saturating_sub(SRTP_BYTES)))
            }
            FeedbackKind::Remb { .. } => (now, size),
        };
        let sent = self.history.sent(Departure {
            transport_seq: self.next_transport_seq,
            at,
            size: counted,
            kind: packet.kind,
            probe,
            ecn,
            rtp: number,
            tag: SentMedia { stream: packet.stream, video },
        });
        self.next_transport_seq += 1;
        self.controller.on_sent(&sent)?;
        self.apply_if_changed(now)?;
        if self.counts_for_repair(&release, packet.kind) {
            let is_repair = matches!(packet.kind, Kind::Rtx | Kind::Fec);
            self.repair.count(now, size.0, is_repair);
        }
        Ok(())
    }

    /// The packet that the pacer releases; `None` if it wants to repeat a packet and there is none.
    fn released(&self, now: Time, release: Release) -> Option<MediaPacket> {
        match release {
            Release::Media(packet) => Some(packet),
            Release::Repeat => {
                let stream = self.streams.get(self.padding_stream)?;
                if let MediaSource::Forwarded(_) = stream.source {
                    return self
                        .released(now, Release::Padding(self.stack.pacing.padding().0 as u16));
                }
                let video = stream.video()?;
                video.store.for_padding().map(|packet| MediaPacket { kind: Kind::Rtx, ..packet })
            }
            Release::Padding(bytes) => Some(MediaPacket {
                stream: self.padding_stream as u8,
                kind: Kind::Padding,
                seq: 0,
                timestamp: self.rtp_timestamp(now, VIDEO_CLOCK),
                marker: false,
                part: VideoPart { bytes, ..VideoPart::default() },
            }),
        }
    }

    /// Counts a packet in the totals of its stream.
    pub(super) fn count(&mut self, stream: usize, kind: Kind, payload_bytes: u64) {
        let totals = &mut self.streams[stream].totals[kind as usize];
        totals.packets += 1;
        totals.header_bytes += match kind {
            Kind::Audio => audio_header_bytes(self.stack),
            _ => rtp_header_bytes(self.stack.feedback),
        };
        totals.payload_bytes += payload_bytes;
    }

    /// Whether a packet counts in the share of repair. Since 2024 padding that repeats a packet is no repair, and
    /// audio does not count (libwebrtc, `fec_controller_default.cc`).
    fn counts_for_repair(&self, release: &Release, kind: Kind) -> bool {
        self.stack.rate_accounting == RateAccounting::Payloads
            || matches!(release, Release::Media(_)) && kind != Kind::Audio
    }
}
