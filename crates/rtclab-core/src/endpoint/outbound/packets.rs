//! Splits frames into packets, and turns packets into RTP.

use super::SendingHalf;
use super::stream::MediaSource;
use crate::endpoint::format::{VIDEO_CLOCK, packet_size, rtp_header_bytes};
use crate::media::encoder::Frame;
use crate::media::pacer::MediaPacket;
use crate::media::repair::Repair;
use crate::packet::{
    IP_UDP_BYTES, Kind, MAX_RTP_BYTES, Past, Rtp, RtpPayload, VideoPart, payload_type,
};
use crate::rtp::header::FIXED_BYTES;
use crate::rtp::vp8::DESCRIPTOR_BYTES;
use crate::rtp::{AbsSendTime, AudioLevel, Extensions, RtpHeader, red, rtx, ulpfec};
use crate::stack::FeedbackKind;
use crate::units::{Bitrate, Bytes, Time};
use std::sync::Arc;

/// Bytes that libwebrtc reserves for header extensions of FEC packets, with the extensions of Chromium's offer
/// (`rtp_sender.cc`, kFecOrPaddingExtensionSizes). Measured: in calls of Chromium 156 no media packet has more
/// than 1170 B of IP, 38 of them for IP, UDP and SRTP and one for RED. These 1131 B are 1200 less 19 for FEC
/// and RED, 2 for RTX and these 48.
const FEC_EXTENSION_BYTES: usize = 48;

/// Maximum payload of a video packet, such that the packet that repairs it fits too.
fn max_payload(feedback: FeedbackKind, repair: Repair) -> u64 {
    let header = rtp_header_bytes(feedback);
    // FEC protects everything after the fixed header, including extensions.
    let fec = red::HEADER_BYTES + ulpfec::MAX_HEADER_BYTES;
    let repair = match repair {
        Repair::RtxAndUlpfec => fec + FEC_EXTENSION_BYTES + rtx::OSN_BYTES,
        Repair::Hybrid2013 | Repair::Hybrid2013FecAlways => fec + header as usize - FIXED_BYTES,
        Repair::Rtx | Repair::Nack2013 | Repair::None => rtx::OSN_BYTES,
    };
    MAX_RTP_BYTES - header - (DESCRIPTOR_BYTES + repair) as u64
}

/// What a rate leaves for payloads: all but the headers of as many full packets per second as it carries.
///
/// Source: libwebrtc 56185999e0, `rtp_video_sender.cc` (CalculateOverheadRate).
pub(super) fn without_headers(rate: Bitrate, feedback: FeedbackKind, repair: Repair) -> Bitrate {
    // Room for the number of the original packet, in case that it is retransmitted.
    let has_rtx = repair != Repair::None && !repair.on_original_ssrc();
    let repair = if has_rtx { rtx::OSN_BYTES as u64 } else { 0 };
    let headers = Bytes(rtp_header_bytes(feedback) + repair + IP_UDP_BYTES);
    let packets = rate.0.div_ceil(Bytes(MAX_RTP_BYTES + IP_UDP_BYTES).bits());
    Bitrate(rate.0.saturating_sub(packets * headers.bits()))
}

impl SendingHalf {
    pub(super) fn packetise(&mut self, now: Time, index: usize, frame: &Frame) {
        let timestamp = self.rtp_timestamp(frame.captured, VIDEO_CLOCK);
        let feedback = self.stack.feedback;
        let stream = &mut self.streams[index];
        let repair = stream.config.repair;
        let count = frame.size.0.div_ceil(max_payload(feedback, repair)).max(1);
        for i in 0..count {
            // As in libwebrtc, packets of one frame differ in size by at most one byte.
            let payload = frame.size.0 * (i + 1) / count - frame.size.0 * i / count;
            let seq = stream.take_seq();
            let Some(video) = stream.video_mut() else { return };
            let key = frame.key && i == 0;
            let packet = MediaPacket {
                stream: index as u8,
                kind: Kind::Video,
                seq,
                timestamp,
                marker: i + 1 == count,
                part: VideoPart {
                    first: i == 0,
                    key,
                    picture_id: video.next_picture,
                    resolution: if key { frame.resolution } else { (0, 0) },
                    bytes: payload as u16,
                },
            };
            video.store.push(packet);
            if self.pacer.push(now, packet, packet_size(feedback, repair, Kind::Video, payload)) {
                video.fec.queue.truncate(self.pacer.leaving_fec(index as u8));
            }
        }
        let Some(video) = stream.video_mut() else { return };
        video.frames += 1;
        video.fec.on_frame(now);
        video.key_frames += u64::from(frame.key);
        video.next_picture = (video.next_picture + 1) & 0x7fff;
        if video.fec.generator.wants(&video.fec.protection, frame.key) {
            self.add_fec(now, index, frame.key, count as usize);
        }
    }

    /// Sends FEC after the last `count` packets, which form a frame.
    fn add_fec(&mut self, now: Time, index: usize, key: bool, count: usize) {
        let feedback = self.stack.feedback;
        let stream = &mut self.streams[index];
        let (ssrc, repair) = (stream.config.ssrc, stream.config.repair);
        let Some(video) = stream.video_mut() else { return };
        // Room for the number that a packet gets when it leaves.
        let number = feedback.has_transport_sequence().then_some(0);
        let frame = video.store.newest(count).map(|packet| unsent(ssrc, packet, number));
        let blocks = video.fec.generator.add_frame(&video.fec.protection, key, frame);
        let Some(last) = video.store.newest(1).next().copied() else { return };
        for block in blocks {
            let payload = block.wire_bytes() as u16;
            let seq = stream.take_seq();
            let part = VideoPart { bytes: payload, ..VideoPart::default() };
            let packet = MediaPacket { kind: Kind::Fec, seq, marker: false, part, ..last };
            let Some(video) = stream.video_mut() else { return };
            // Keeps the store without gaps; FEC is never retransmitted.
            video.store.push(packet);
            video.fec.queue.push_back(block);
            let size = packet_size(feedback, repair, Kind::Fec, u64::from(payload));
            self.pacer.push(now, packet, size);
        }
    }

    /// The packet as it is sent now, and what happened to it before; `None` for FEC whose block is gone.
    pub(super) fn rtp(
        &mut self,
        now: Time,
        packet: &MediaPacket,
        transport_seq: Option<u16>,
    ) -> Option<(Past, Rtp)> {
        let stream = &mut self.streams[usize::from(packet.stream)];
        let (ssrc, repair_ssrc) = (stream.config.ssrc, stream.config.repair_ssrc);
        let repair = stream.config.repair;
        if packet.kind != Kind::Padding {
            if let MediaSource::Forwarded(source) = &mut stream.source {
                let (past, mut rtp) = source.take(packet)?;
                stream.stamp(&mut rtp, now, transport_seq);
                return Some((past, rtp));
            }
        }
        let on_repair_stream = match packet.kind {
            Kind::Rtx => !repair.on_original_ssrc(),
            Kind::Padding => stream.config.is_video(),
            Kind::Video | Kind::Audio | Kind::Fec => false,
        };
        let (seq, timestamp) = match packet.kind {
            _ if on_repair_stream => (stream.take_repair_seq(), packet.timestamp),
            // Padding on the stream of sound has the timestamp of the packet before it.
            Kind::Audio | Kind::Padding => stream.number_audio(packet),
            Kind::Video | Kind::Rtx | Kind::Fec => (packet.seq, packet.timestamp),
        };
        let payload = match packet.kind {
            Kind::Audio => RtpPayload::Audio {
                bytes: packet.part.bytes,
                has_fec: stream.has_fec(packet.timestamp),
            },
            Kind::Padding => RtpPayload::Padding(packet.part.bytes),
            Kind::Rtx if on_repair_stream => {
                RtpPayload::Rtx { original_seq: packet.seq, part: packet.part }
            }
            Kind::Video | Kind::Rtx => RtpPayload::Video(packet.part),
            Kind::Fec => RtpPayload::Fec(Arc::new(stream.video_mut()?.fec.queue.pop_front()?)),
        };
        let (ssrc, payload_type) = match packet.kind {
            Kind::Padding if on_repair_stream => (repair_ssrc, payload_type::RTX),
            Kind::Audio | Kind::Padding => (ssrc, payload_type::AUDIO),
            _ if on_repair_stream => (repair_ssrc, repair.rtx_payload_type()),
            _ => (ssrc, repair.video_payload_type()),
        };
        let has_level = packet.kind == Kind::Audio && self.stack.audio_level;
        let audio_level = has_level.then(AudioLevel::default);
        let header = RtpHeader {
            marker: packet.marker,
            padding: packet.kind == Kind::Padding,
            payload_type,
            seq,
            timestamp,
            ssrc,
            extensions: Extensions { audio_level, ..stamp(now, transport_seq) },
        };
        Some((Past::new(now), Rtp { header, payload, kind: packet.kind }))
    }
}

/// A video packet as FEC protects it: without RED, and before its send time is known.
fn unsent(ssrc: u32, packet: &MediaPacket, transport_seq: Option<u16>) -> Rtp {
    let header = RtpHeader {
        marker: packet.marker,
        padding: false,
        payload_type: payload_type::VIDEO,
        seq: packet.seq,
        timestamp: packet.timestamp,
        ssrc,
        extensions: stamp(Time::ZERO, transport_seq),
    };
    Rtp { header, payload: RtpPayload::Video(packet.part), kind: Kind::Video }
}

fn stamp(now: Time, transport_sequence: Option<u16>) -> Extensions {
    Extensions {
        abs_send_time: Some(AbsSendTime::from_time(now)),
        transport_sequence,
        audio_level: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITH_NUMBER: FeedbackKind = FeedbackKind::TransportWide;

    /// 24 B of RTP, 2 B of a possible retransmission and 38 B of transport are 512 bit a packet. 300 kbit/s are
    /// 30.3 packets of 1238 B, 100 kbit/s are 10.1; both are rounded up.
    #[test]
    fn headers_of_full_packets_are_taken_off_a_rate() {
        let left = |kbps| without_headers(Bitrate::from_kbps(kbps), WITH_NUMBER, Repair::Rtx).0;
        assert_eq!(left(300), 300_000 - 31 * 432);
        assert_eq!(left(100), 100_000 - 11 * 432);
        assert_eq!(without_headers(Bitrate(100), WITH_NUMBER, Repair::Rtx), Bitrate::ZERO);
        assert_eq!(
            without_headers(Bitrate(300_000), WITH_NUMBER, Repair::None).0,
            300_000 - 31 * 416
        );
    }
}
