//! Streams that another end of the node receives, and that this one sends on.

use crate::endpoint::config::{Forwarding, StreamConfig};
use crate::endpoint::fan_out::Stored;
use crate::media::pacer::MediaPacket;
use crate::packet::{Kind, Past, Rtp, RtpPayload};
use crate::rtp::RtpHeader;
use crate::sliding::SlidingSum;
use crate::units::Time;
use std::collections::{BTreeMap, VecDeque};

/// When more packets than this were sent again, packets that are not kept any more are forgotten.
const MOST_RESENT: usize = 64;

/// For how long a server without a congestion control ignores requests for a packet that it has sent again (Janus,
/// `ice.c`, MAX_NACK_IGNORE).
const RESEND_PAUSE: Time = Time::from_millis(200);

/// A stream of another sender, as one receiver gets it.
pub(in crate::endpoint) struct ForwardedStream {
    /// With a congestion control, the payload that was sent; it bounds the share of retransmissions.
    payload: Option<SentPayload>,
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

/// What a stream has sent in the last second. A server with a congestion control answers every request as long as
/// retransmissions take no more than half, as rtclab's SFU does: str0m 0.24, `streams/send.rs`, `rtx_ratio_cap`.
struct SentPayload {
    first: SlidingSum<u64>,
    again: SlidingSum<u64>,
}

impl SentPayload {
    fn new() -> Self {
        let window = || SlidingSum::new(Time::from_secs(1));
        SentPayload { first: window(), again: window() }
    }

    fn allows_more(&mut self, now: Time) -> bool {
        self.again.sum(now) <= self.first.sum(now)
    }
}

impl ForwardedStream {
    pub(super) fn new(forwarding: Forwarding) -> Self {
        ForwardedStream {
            payload: (forwarding == Forwarding::Controlled).then(SentPayload::new),
            waiting: VecDeque::new(),
            since: None,
            last: None,
            resent: BTreeMap::new(),
        }
    }

    /// Counts the payload of a packet that is handed over.
    pub(super) fn count(&mut self, now: Time, kind: Kind, bytes: u64) {
        if let Some(SentPayload { first, again }) = &mut self.payload {
            let counted = if kind == Kind::Rtx { again } else { first };
            counted.add(now, bytes);
        }
    }

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

    /// The packet that answers a request, unless it was sent again a moment ago, or too much was. On its original stream, as
    /// in 2013, a packet is sent again once per round trip; see
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
        let answers = match (&mut self.payload, resent) {
            _ if repair.on_original_ssrc() => {
                now >= resent.unwrap_or(stored.at) + repair.resend_pause(rtt, resent.is_some())
            }
            (Some(payload), _) => payload.allows_more(now),
            (None, resent) => resent.is_none_or(|at| now >= at + RESEND_PAUSE),
        };
        if !answers {
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
