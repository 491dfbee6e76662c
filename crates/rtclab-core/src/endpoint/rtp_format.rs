//! Media as RTP packets: payload types, SSRCs, headers and sizes, as a sender writes and a receiver reads them.

use super::wire::{IP_UDP_BYTES, Port, Wire};
use crate::media::fec;
use crate::media::repair::Repair;
use crate::media::{Kind, MediaPacket};
use crate::record::RtpLabel;
use crate::rtp::header::FIXED_BYTES;
use crate::rtp::ulpfec::{self, FecPacket};
use crate::rtp::vp8::{DESCRIPTOR_BYTES, Descriptor, FrameHeader};
use crate::rtp::{AbsSendTime, ExtensionIds, Extensions, Protocol, RtpHeader, red, rtx};
use crate::units::{Bytes, Time};

/// AES128_CM_HMAC_SHA1_80 adds a tag of ten bytes to RTP.
const SRTP_BYTES: u64 = 10;
/// RTP header as Chromium sends it: fixed part, abs-send-time and transport-wide sequence number.
pub(super) const RTP_HEADER_BYTES: u64 = 24;
/// libwebrtc keeps an RTP packet, SRTP not counted, within this.
pub(super) const MAX_RTP_BYTES: u64 = 1_200;
/// Payload types in the order of [`Kind::ALL`]; padding goes on the retransmission stream.
const PAYLOAD_TYPES: [u8; 5] = [VIDEO, 111, RTX, RTX, ULPFEC];
/// Payload types as Chromium numbers them: video …
pub(super) const VIDEO: u8 = 96;
/// … retransmissions of it …
pub(super) const RTX: u8 = 97;
/// … of libwebrtc: RED, which wraps video and FEC …
pub(super) const RED: u8 = 116;
/// … and FEC in it.
pub(super) const ULPFEC: u8 = 117;

/// SSRCs of one sender, as its session description would give them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ssrcs {
    /// Video.
    pub video: u32,
    /// Retransmissions of video.
    pub rtx: u32,
    /// Audio.
    pub audio: u32,
}

impl Ssrcs {
    /// Those of the `index`-th sender.
    pub fn of(index: usize) -> Self {
        let base = (index as u32 + 1) * 1_000;
        Ssrcs { video: base + 1, rtx: base + 2, audio: base + 3 }
    }

    pub(super) fn get(&self, kind: Kind) -> u32 {
        match kind {
            Kind::Video | Kind::Fec => self.video,
            Kind::Audio => self.audio,
            Kind::Rtx | Kind::Padding => self.rtx,
        }
    }
}

/// IP total length of a packet of media; `payload` of a FEC packet is all behind its RED header.
pub(super) fn packet_size(repair: Repair, kind: Kind, payload: u64) -> Bytes {
    let red = if repair.uses_red() { red::HEADER_BYTES } else { 0 };
    let before = match kind {
        Kind::Video => red + DESCRIPTOR_BYTES,
        Kind::Rtx if repair.on_original_ssrc() => red + DESCRIPTOR_BYTES,
        Kind::Rtx => DESCRIPTOR_BYTES + rtx::OSN_BYTES,
        Kind::Fec => red,
        Kind::Audio | Kind::Padding => 0,
    };
    Bytes(IP_UDP_BYTES + RTP_HEADER_BYTES + before as u64 + payload + SRTP_BYTES)
}

/// Bytes that a packet of video carries at most, so that what repairs it fits too.
pub(super) fn max_video_payload(repair: Repair) -> u64 {
    let repair = if repair.uses_red() {
        // FEC protects what lies behind the fixed header, extensions included.
        red::HEADER_BYTES + ulpfec::MAX_HEADER_BYTES + RTP_HEADER_BYTES as usize - FIXED_BYTES
    } else {
        rtx::OSN_BYTES
    };
    MAX_RTP_BYTES - RTP_HEADER_BYTES - (DESCRIPTOR_BYTES + repair) as u64
}

impl Wire {
    /// Sends RTP; returns its IP total length. `seq` is that of the stream it goes on.
    pub(super) fn send_media(
        &mut self,
        now: Time,
        (port, ssrcs, repair): (Port, &Ssrcs, Repair),
        seq: u16,
        transport_seq: u16,
        packet: &MediaPacket,
    ) -> Bytes {
        let on_original_ssrc = packet.kind == Kind::Rtx && repair.on_original_ssrc();
        let kind = if on_original_ssrc { Kind::Video } else { packet.kind };
        let mut header = media_header(ssrcs, kind, seq, packet);
        header.stamp(now, transport_seq);
        let block_type = header.payload_type;
        let red = kind == Kind::Video && repair.uses_red();
        if red {
            header.payload_type = RED;
        }
        let mut bytes = self.buffer();
        header.write(&ExtensionIds::CHROMIUM, &mut bytes);
        if red {
            red::write(block_type, &mut bytes);
        }
        if kind == Kind::Rtx {
            rtx::write(packet.seq, &mut bytes);
        }
        if matches!(kind, Kind::Video | Kind::Rtx) {
            write_vp8(packet, &mut bytes);
        }
        let size = packet_size(repair, packet.kind, u64::from(packet.payload));
        self.send_rtp(now, port, packet.kind, &header, bytes, size)
    }

    /// Sends FEC in RED; `packet` has its sequence number and timestamp.
    pub(super) fn send_fec(
        &mut self,
        now: Time,
        (port, ssrcs): (Port, &Ssrcs),
        transport_seq: u16,
        packet: &MediaPacket,
        fec: &FecPacket,
    ) -> Bytes {
        let mut header = media_header(ssrcs, Kind::Fec, packet.seq, packet);
        header.stamp(now, transport_seq);
        header.payload_type = RED;
        let mut bytes = self.buffer();
        header.write(&ExtensionIds::CHROMIUM, &mut bytes);
        red::write(ULPFEC, &mut bytes);
        fec.write(&mut bytes);
        let size = packet_size(Repair::Hybrid2013, Kind::Fec, fec.wire_bytes() as u64);
        self.send_rtp(now, port, Kind::Fec, &header, bytes, size)
    }

    fn send_rtp(
        &mut self,
        now: Time,
        port: Port,
        kind: Kind,
        header: &RtpHeader,
        bytes: Vec<u8>,
        size: Bytes,
    ) -> Bytes {
        let rtp = RtpLabel {
            kind,
            ssrc: header.ssrc,
            payload_type: header.payload_type,
            seq: header.seq,
            timestamp: header.timestamp,
            marker: header.marker,
        };
        self.send(now, port, bytes, size, Protocol::Rtp, Some(rtp));
        size
    }
}

fn media_header(ssrcs: &Ssrcs, kind: Kind, seq: u16, packet: &MediaPacket) -> RtpHeader {
    RtpHeader {
        marker: packet.marker,
        padding: kind == Kind::Padding,
        payload_type: PAYLOAD_TYPES[kind as usize],
        seq,
        timestamp: packet.timestamp,
        ssrc: ssrcs.get(kind),
        extensions: Extensions::default(),
    }
}

/// A packet of video as FEC protects it: without RED, and before it is known when it leaves.
pub(super) fn unsent(ssrcs: &Ssrcs, packet: &MediaPacket) -> fec::Packet {
    let mut header = media_header(ssrcs, Kind::Video, packet.seq, packet);
    header.stamp(Time::ZERO, 0);
    let mut bytes = Vec::with_capacity(64);
    header.write(&ExtensionIds::CHROMIUM, &mut bytes);
    write_vp8(packet, &mut bytes);
    let len = RTP_HEADER_BYTES as usize + DESCRIPTOR_BYTES + usize::from(packet.payload);
    fec::Packet { bytes, len }
}

/// The same packet when it has been received: `media` is what exists of its payload, `len` its length.
pub(super) fn received(
    header: &RtpHeader,
    payload_type: u8,
    media: &[u8],
    len: u64,
) -> fec::Packet {
    let mut header = RtpHeader { payload_type, ..*header };
    header.stamp(Time::ZERO, 0);
    let mut bytes = Vec::with_capacity(64);
    header.write(&ExtensionIds::CHROMIUM, &mut bytes);
    let len = bytes.len() + len as usize;
    bytes.extend_from_slice(media);
    fec::Packet { bytes, len }
}

impl RtpHeader {
    fn stamp(&mut self, now: Time, transport_seq: u16) {
        self.extensions.abs_send_time = Some(AbsSendTime::from_time(now));
        self.extensions.transport_sequence = Some(transport_seq);
    }
}

fn write_vp8(packet: &MediaPacket, out: &mut Vec<u8>) {
    let descriptor = Descriptor {
        partition_start: packet.first,
        picture_id: Some(packet.picture_id),
        ..Descriptor::default()
    };
    descriptor.write(out);
    if packet.first {
        let (width, height) = packet.resolution;
        let header =
            if packet.key { FrameHeader::Key { width, height } } else { FrameHeader::Delta };
        header.write(out);
    }
}

/// A packet of media as the receiver reads it; `None` for padding and for what is no VP8.
pub(super) fn read_vp8(
    header: &RtpHeader,
    seq: u16,
    payload: &[u8],
    size: u64,
) -> Option<MediaPacket> {
    let (descriptor, len) = Descriptor::parse(payload).ok()?;
    let first = descriptor.begins_frame();
    let frame = if first { FrameHeader::parse(&payload[len..]).ok()? } else { FrameHeader::Delta };
    let (key, resolution) = match frame {
        FrameHeader::Key { width, height } => (true, (width, height)),
        FrameHeader::Delta => (false, (0, 0)),
    };
    Some(MediaPacket {
        kind: Kind::Video,
        seq,
        timestamp: header.timestamp,
        marker: header.marker,
        first,
        key,
        picture_id: descriptor.picture_id?,
        resolution,
        payload: size.saturating_sub(len as u64) as u16,
    })
}

/// Bytes of RTP payload in a datagram of IP total length `size` with a header of `header` bytes.
pub(super) fn payload_size(size: Bytes, header: usize) -> u64 {
    size.0.saturating_sub(IP_UDP_BYTES + SRTP_BYTES + header as u64)
}
