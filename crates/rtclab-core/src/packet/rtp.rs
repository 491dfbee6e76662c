//! RTP packets as values.

use super::{IP_UDP_BYTES, SRTP_BYTES};
use crate::rtp::header::FIXED_BYTES;
use crate::rtp::ulpfec;
use crate::rtp::vp8::DESCRIPTOR_BYTES;
use crate::rtp::{RtpHeader, red, rtx};
use crate::units::Bytes;
use std::sync::Arc;

/// libwebrtc's limit on the size of an RTP packet, SRTP not counted.
pub const MAX_RTP_BYTES: u64 = 1_200;

/// Payload types with Chromium's numbers.
pub mod payload_type {
    /// VP8.
    pub const VIDEO: u8 = 96;
    /// Retransmissions of video (RFC 4588).
    pub const RTX: u8 = 97;
    /// Opus.
    pub const AUDIO: u8 = 111;
    /// RED, which wraps video and FEC.
    pub const RED: u8 = 116;
    /// Retransmissions of video in RED, which contain the header of RED.
    pub const RED_RTX: u8 = 118;
    /// ULPFEC, in RED.
    pub const ULPFEC: u8 = 117;
}

/// What a packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Encoded video, first transmission.
    Video,
    /// Encoded audio.
    Audio,
    /// A retransmission, on a stream of its own (RFC 4588) or on the original stream.
    Rtx,
    /// Padding, sent on the retransmission stream of video, or on the stream of sound in calls without video.
    Padding,
    /// Forward error correction of video (RFC 5109), on the stream that it protects.
    Fec,
}

impl Kind {
    /// All kinds, in the order of their codes in a trace.
    pub const ALL: [Kind; 5] = [Kind::Video, Kind::Audio, Kind::Rtx, Kind::Padding, Kind::Fec];

    /// The name used in traces.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Video => "video",
            Kind::Audio => "audio",
            Kind::Rtx => "rtx",
            Kind::Padding => "padding",
            Kind::Fec => "fec",
        }
    }
}

/// An RTP packet.
#[derive(Clone, Debug, PartialEq)]
pub struct Rtp {
    /// The header. Its payload type is [`payload_type::RED`] or [`payload_type::RED_RTX`] if RED wraps the payload.
    pub header: RtpHeader,
    /// What follows the header.
    pub payload: RtpPayload,
    /// Kind of packet, as its sender knows it. It is not on the wire; only the recorder reads it.
    pub kind: Kind,
}

/// What follows an RTP header.
#[derive(Clone, Debug, PartialEq)]
pub enum RtpPayload {
    /// A piece of a frame, plain or in RED.
    Video(VideoPart),
    /// Opus.
    Audio {
        /// Number of bytes.
        bytes: u16,
        /// Whether it carries a copy of the frame before (in-band FEC). Encrypted bytes do not tell.
        has_fec: bool,
    },
    /// A piece of a frame, sent again on the retransmission stream.
    Rtx {
        /// Sequence number of the original.
        original_seq: u16,
        /// What the original carried.
        part: VideoPart,
    },
    /// Padding, as a number of bytes.
    Padding(u16),
    /// ULPFEC in RED.
    Fec(Arc<FecBlock>),
}

/// A piece of a VP8 frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VideoPart {
    /// Whether this is the first packet of its frame.
    pub first: bool,
    /// Whether the frame is a key frame. Set only in the first packet of a frame.
    pub key: bool,
    /// Number of the frame: 15 bits, wraps.
    pub picture_id: u16,
    /// Width and height in pixels. Set only in the first packet of a key frame.
    pub resolution: (u16, u16),
    /// Bytes of encoded media, without RTP headers.
    pub bytes: u16,
}

/// The packets that one FEC packet protects. Any one of them can be recovered from all the others.
#[derive(Clone, Debug, PartialEq)]
pub struct FecBlock {
    /// The packets in order of their sequence numbers, without RED and without the extensions set on
    /// departure.
    packets: Box<[Rtp]>,
}

impl FecBlock {
    /// Protects packets of one stream. The first must have the lowest sequence number.
    ///
    /// Returns `None` if there is no packet or the sequence numbers span more than
    /// [`ulpfec::MAX_PACKETS`].
    pub fn new(packets: impl Into<Box<[Rtp]>>) -> Option<Self> {
        let packets = packets.into();
        let (first, last) = (packets.first()?.header.seq, packets.last()?.header.seq);
        let span = usize::from(last.wrapping_sub(first)) + 1;
        (span <= ulpfec::MAX_PACKETS).then_some(FecBlock { packets })
    }

    /// The protected packets.
    pub fn packets(&self) -> &[Rtp] {
        &self.packets
    }

    /// The lowest sequence number protected.
    pub fn seq_base(&self) -> u16 {
        self.packets.first().map_or(0, |packet| packet.header.seq)
    }

    /// Bytes of FEC headers and payload. The headers have a mask of 16 or 48 bits. The payload is as long as
    /// the longest protected packet without its fixed header.
    pub fn wire_bytes(&self) -> u64 {
        let last = self.packets.last().map_or(0, |packet| packet.header.seq);
        let long = last.wrapping_sub(self.seq_base()) >= ulpfec::SHORT_MASK as u16;
        let header = ulpfec::MAX_HEADER_BYTES as u64 - if long { 0 } else { 4 };
        let behind = |packet: &Rtp| packet.rtp_bytes() - FIXED_BYTES as u64;
        header + self.packets.iter().map(behind).max().unwrap_or(0)
    }
}

impl Rtp {
    /// Bytes of the header.
    pub fn header_bytes(&self) -> u64 {
        self.header.wire_bytes() as u64
    }

    /// Bytes of payload and padding, before SRTP.
    pub fn payload_bytes(&self) -> u64 {
        let red = if self.is_in_red() { red::HEADER_BYTES } else { 0 };
        let descriptor = DESCRIPTOR_BYTES as u64;
        red as u64
            + match &self.payload {
                RtpPayload::Video(part) => descriptor + u64::from(part.bytes),
                RtpPayload::Rtx { part, .. } => {
                    rtx::OSN_BYTES as u64 + descriptor + u64::from(part.bytes)
                }
                RtpPayload::Audio { bytes, .. } | RtpPayload::Padding(bytes) => u64::from(*bytes),
                RtpPayload::Fec(block) => block.wire_bytes(),
            }
    }

    /// Whether RED wraps the payload, or the original of a retransmission.
    pub fn is_in_red(&self) -> bool {
        matches!(self.header.payload_type, payload_type::RED | payload_type::RED_RTX)
    }

    /// Bytes of the whole packet, before SRTP.
    pub fn rtp_bytes(&self) -> u64 {
        self.header_bytes() + self.payload_bytes()
    }

    /// IP total length.
    pub fn ip_bytes(&self) -> Bytes {
        Bytes(IP_UDP_BYTES + self.rtp_bytes() + SRTP_BYTES)
    }
}
