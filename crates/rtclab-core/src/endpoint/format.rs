//! RTP clock rates and packet sizes.

use crate::media::repair::Repair;
use crate::packet::{IP_UDP_BYTES, Kind, SRTP_BYTES};
use crate::rtp::vp8::DESCRIPTOR_BYTES;
use crate::rtp::{red, rtx};
use crate::stack::{FeedbackKind, StackProfile};
use crate::units::Bytes;

/// RTP clock rate of video, in Hz.
pub(super) const VIDEO_CLOCK: u64 = 90_000;
/// RTP clock rate of Opus, in Hz.
pub(crate) const AUDIO_CLOCK: u64 = 48_000;

/// Header size of every RTP packet, except packets of sound with its level: 12 bytes, 4 before extensions, 4 of abs-send-time,
/// and 3 of the transport-wide sequence number with 1 of padding, if there is one.
pub(super) const fn rtp_header_bytes(feedback: FeedbackKind) -> u64 {
    if feedback.has_transport_sequence() { 24 } else { 20 }
}

/// IP total length of an RTP packet. For FEC, `payload` is everything after the RED header.
pub(super) fn packet_size(
    feedback: FeedbackKind,
    repair: Repair,
    kind: Kind,
    payload: u64,
) -> Bytes {
    let red = if repair.uses_red() { red::HEADER_BYTES } else { 0 };
    let before = match kind {
        Kind::Video => red + DESCRIPTOR_BYTES,
        Kind::Rtx if repair.on_original_ssrc() => red + DESCRIPTOR_BYTES,
        Kind::Rtx => red + DESCRIPTOR_BYTES + rtx::OSN_BYTES,
        Kind::Fec => red,
        Kind::Audio | Kind::Padding => 0,
    };
    Bytes(IP_UDP_BYTES + rtp_header_bytes(feedback) + before as u64 + payload + SRTP_BYTES)
}

/// Header size of a packet of sound: two bytes more for its level, padded to a multiple of four.
pub(super) const fn audio_header_bytes(stack: &StackProfile) -> u64 {
    rtp_header_bytes(stack.feedback) + if stack.audio_level { 4 } else { 0 }
}

/// IP total length of a packet of sound.
pub(super) fn audio_size(stack: &StackProfile, payload: Bytes) -> Bytes {
    Bytes(IP_UDP_BYTES + audio_header_bytes(stack) + payload.0 + SRTP_BYTES)
}
