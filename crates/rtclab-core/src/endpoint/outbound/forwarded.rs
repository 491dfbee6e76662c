//! Streams that another end of the node receives, and that this one sends on.

use crate::endpoint::config::StreamConfig;
use crate::endpoint::fan_out::Stored;
use crate::media::pacer::MediaPacket;
use crate::packet::{Kind, Past, Rtp, RtpPayload};
use crate::rtp::RtpHeader;
use crate::units::Time;
use std::collections::{BTreeMap, VecDeque};

/// When more packets than this were sent again, packets that are not kept any more are forgotten.
const MOST_RESENT: usize = 64;

/// A stream of another sender, as one receiver gets it.
#[derive(Default)]
pub(in crate::endpoint) struct ForwardedStream {
    /// Packets that wait in the pacer.
    pub(super) waiting: VecDeque<Waiting>,
    /// When the first packet was forwarded. The receiver knows nothing of what arrived before.
    pub(super) since: Option<Time>,
    /// The RTP timestamp of the last packet, and when it was forwarded.
    pub(super) last: Option<(Time, u32)>,
    /// When packets were sent again last, by the sequence number of the original.
    resent: BTreeMap<u16, Time>,
}

/// A packet that waits in the pacer.
pub(super) struct Waiting {
    /// What the pacer knows of it.
    pub(super) kind: Kind,
    pub(super) seq: u16,
    /// What happened to it since its sender sent it.
    pub(super) past: Past,
    pub(super) packet: Rtp,
}

impl ForwardedStream {
    /// The RTP timestamp that the sender's clock has now, as far as it is known here: it has run on since the last
    /// packet came. `None` before the first packet. As in mediasoup (`RtpStreamSend.cpp`, GetRtcpSenderReport).
    pub(super) fn rtp_timestamp(&self, now: Time, clock: u64) -> Option<u32> {
        let (at, timestamp) = self.last?;
        let elapsed = now.saturating_sub(at).0;
        let ticks = u128::from(elapsed) * u128::from(clock) / 1_000_000_000;
        Some(timestamp.wrapping_add(ticks as u32))
    }

    /// Takes the packet that the pacer releases.
    pub(super) fn take(&mut self, released: &MediaPacket) -> Option<(Past, Rtp)> {
        let is_it = |one: &Waiting| one.kind == released.kind && one.seq == released.seq;
        let index = self.waiting.iter().position(is_it)?;
        self.waiting.remove(index).map(|one| (one.past, one.packet))
    }

    /// Forgets when packets were sent again that are not kept any more, now and then.
    pub(super) fn forget(&mut self, is_gone: impl Fn(u16) -> bool) {
        if self.resent.len() > MOST_RESENT {
            self.resent.retain(|seq, _| !is_gone(*seq));
        }
    }

    /// The packet that answers a request, unless it was sent a moment ago; see
    /// [`Repair::resend_pause`](crate::media::repair::Repair::resend_pause).
    pub(super) fn retransmission(
        &mut self,
        now: Time,
        seq: u16,
        rtt: Time,
        stored: &Stored,
        config: &StreamConfig,
    ) -> Option<Rtp> {
        // What came before the receiver was not sent to it.
        if self.since.is_none_or(|since| stored.at < since) {
            return None;
        }
        let repair = config.repair;
        let resent = self.resent.get(&seq).copied().filter(|at| *at >= stored.at);
        let last_sent = resent.unwrap_or(stored.at);
        if now < last_sent + repair.resend_pause(rtt, resent.is_some()) {
            return None;
        }
        self.resent.insert(seq, now);
        let &Stored { header, part, .. } = stored;
        if repair.on_original_ssrc() {
            return Some(Rtp { header, payload: RtpPayload::Video(part), kind: Kind::Rtx });
        }
        // RFC 4588: on a stream of its own, which numbers it when it leaves.
        let payload_type = repair.rtx_payload_type();
        let header = RtpHeader { payload_type, ssrc: config.repair_ssrc, ..header };
        Some(Rtp { header, payload: RtpPayload::Rtx { original_seq: seq, part }, kind: Kind::Rtx })
    }
}
