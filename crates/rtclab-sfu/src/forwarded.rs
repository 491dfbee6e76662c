//! A medium that a subscriber receives.

use crate::layers;
use crate::numbering::Numbering;
use crate::publication::Received;
use str0m::format::{Codec, PayloadParams};
use str0m::media::{MediaKind, Mid, Pt, Rid};
use str0m::rtp::{ExtensionValues, RtpWrite};

/// Numbers the packets of a medium and, with simulcast, chooses the layer.
#[derive(Debug)]
pub(crate) struct Forwarded {
    /// The medium of the subscriber's connection.
    pub(crate) mid: Mid,
    pub(crate) kind: MediaKind,
    /// The layer that is forwarded.
    layer: Option<Rid>,
    /// The layer that will be forwarded from its next key frame.
    target: Option<Rid>,
    numbering: Option<Numbering>,
}

impl Forwarded {
    pub(crate) fn new(mid: Mid, kind: MediaKind) -> Self {
        Self { mid, kind, layer: None, target: None, numbering: None }
    }

    /// The layer that is forwarded; `None` without simulcast.
    pub(crate) fn layer(&self) -> Option<Rid> {
        self.layer
    }

    /// The layer that is wanted; `None` without simulcast.
    pub(crate) fn target(&self) -> Option<Rid> {
        self.target
    }

    /// Whether it waits for a key frame in order to switch.
    pub(crate) fn is_switching(&self) -> bool {
        self.layer != self.target
    }

    /// Chooses among the publisher's layers, which may be none.
    pub(crate) fn choose(&mut self, layers: &[(Rid, Option<f64>)], budget_bps: f64) {
        let rates_bps: Vec<_> = layers.iter().map(|&(_, rate)| rate).collect();
        let current = layers.iter().position(|&(rid, _)| Some(rid) == self.layer);
        if let Some(index) = layers::choose(&rates_bps, current, budget_bps) {
            self.target = Some(layers[index].0);
        }
    }

    /// Makes the packet to send of a received one; `None` if the subscriber does not get this packet.
    pub(crate) fn write(&mut self, received: &Received, pt: Pt) -> Option<RtpWrite> {
        let packet = &received.packet;
        let is_vp8 = received.rid.is_some() && is_vp8(&received.params);
        if received.rid != self.layer {
            if received.rid != self.target || !received.starts_keyframe {
                return None;
            }
            self.layer = received.rid;
            if let Some(numbering) = &mut self.numbering {
                numbering.switch(packet, is_vp8);
            }
        }
        let numbering = self.numbering.get_or_insert_with(|| Numbering::new(packet));
        let numbers = numbering.apply(packet, is_vp8)?;
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
            numbers.time,
            packet.timestamp,
            std::sync::Arc::clone(&packet.payload),
        )
        .marker(packet.header.marker)
        .ext_vals(extensions)
        .csrc(&packet.header.csrc[..packet.header.csrc_count])
        .nackable(received.kind == MediaKind::Video);
        Some(match numbers.vp8 {
            Some(patch) => write.vp8_patch(patch),
            None => write,
        })
    }
}

fn is_vp8(params: &PayloadParams) -> bool {
    params.spec().codec == Codec::Vp8
}
