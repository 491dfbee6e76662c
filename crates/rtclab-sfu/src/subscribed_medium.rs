//! A medium that a subscriber receives.

use crate::publication::PublishedPacket;
use rtclab_core::simulcast::LayerSwitch;
use rtclab_core::simulcast::numbering::Numbers;
use str0m::media::{MediaKind, Mid, Pt, Rid};
use str0m::rtp::{ExtensionValues, RtpWrite, Vp8Descriptor, Vp8Patch};

/// Makes the packets of a medium.
#[derive(Debug)]
pub(crate) struct SubscribedMedium {
    /// The medium of the subscriber's connection.
    pub(crate) mid: Mid,
    pub(crate) kind: MediaKind,
    pub(crate) stream: LayerSwitch<Rid>,
}

impl SubscribedMedium {
    pub(crate) fn new(mid: Mid, kind: MediaKind) -> Self {
        Self { mid, kind, stream: LayerSwitch::default() }
    }

    /// Makes the packet to send of a received one; `None` if the subscriber does not get this packet.
    pub(crate) fn write(&mut self, received: &PublishedPacket, pt: Pt) -> Option<RtpWrite> {
        let numbers =
            self.stream.forward(received.rid, received.starts_keyframe, &received.numbers)?;
        let packet = &received.packet;
        // These three are about the publisher's connection; the subscriber's has its own.
        let extensions = ExtensionValues {
            mid: None,
            rid: None,
            rid_repair: None,
            ..packet.header.ext_vals.clone()
        };
        let write = RtpWrite::new(
            pt,
            numbers.seq.into(),
            numbers.timestamp,
            packet.timestamp,
            std::sync::Arc::clone(&packet.payload),
        )
        .marker(packet.header.marker)
        .ext_vals(extensions)
        .csrc(&packet.header.csrc[..packet.header.csrc_count])
        .nackable(received.kind == MediaKind::Video);
        Some(match received.vp8.and_then(|vp8| patch(&vp8, &numbers)) {
            Some(patch) => write.vp8_patch(patch),
            None => write,
        })
    }
}

/// What changes in a payload of VP8.
fn patch(vp8: &Vp8Descriptor, numbers: &Numbers) -> Option<Vp8Patch> {
    let mut patch = vp8.patch();
    if let Some(picture) = numbers.picture {
        patch = patch.picture_id(picture);
    }
    if let Some(tl0) = numbers.tl0 {
        patch = patch.tl0_pic_idx(tl0);
    }
    patch.build().ok()
}
