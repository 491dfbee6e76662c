//! Packets of one video stream, kept for retransmission.

use crate::media::pacer::MediaPacket;
use crate::media::repair::Repair;
use crate::packet::Kind;
use crate::units::Time;
use std::collections::VecDeque;

/// Number of packets kept for retransmission (libwebrtc, `rtp_packet_history.h`).
const MAX_STORED: usize = 600;

struct Stored {
    packet: MediaPacket,
    last_sent: Option<Time>,
    /// Whether it was sent more than once.
    resent: bool,
}

/// Packets by sequence number, without gaps.
#[derive(Default)]
pub(super) struct PacketStore {
    stored: VecDeque<Stored>,
}

impl PacketStore {
    pub(super) fn push(&mut self, packet: MediaPacket) {
        if self.stored.len() == MAX_STORED {
            self.stored.pop_front();
        }
        self.stored.push_back(Stored { packet, last_sent: None, resent: false });
    }

    /// The last `count` packets, in order.
    pub(super) fn newest(&self, count: usize) -> impl Iterator<Item = &MediaPacket> {
        let before = self.stored.len().saturating_sub(count);
        self.stored.range(before..).map(|stored| &stored.packet)
    }

    /// The newest packet that has been sent.
    pub(super) fn last_sent(&self) -> Option<MediaPacket> {
        self.stored.iter().rev().find(|s| s.last_sent.is_some()).map(|s| s.packet)
    }

    pub(super) fn on_sent(&mut self, now: Time, seq: u16) {
        if let Some(stored) = self.find(seq) {
            stored.resent = stored.last_sent.replace(now).is_some();
        }
    }

    /// The packet to retransmit, unless it was sent a moment ago; see [`Repair::resend_pause`].
    pub(super) fn retransmit(
        &mut self,
        now: Time,
        seq: u16,
        rtt: Time,
        repair: Repair,
    ) -> Option<MediaPacket> {
        let stored = self.find(seq)?;
        let last = stored.last_sent?;
        if now < last + repair.resend_pause(rtt, stored.resent) {
            return None;
        }
        // It counts as sent from now on, so that a second request does not queue it twice.
        (stored.last_sent, stored.resent) = (Some(now), true);
        Some(MediaPacket { kind: Kind::Rtx, ..stored.packet })
    }

    fn find(&mut self, seq: u16) -> Option<&mut Stored> {
        let first = self.stored.front()?.packet.seq;
        self.stored.get_mut(usize::from(seq.wrapping_sub(first)))
    }
}
