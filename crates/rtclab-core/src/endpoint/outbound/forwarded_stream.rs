//! Streams that another end of the node receives, and that this one sends on.

use super::SendingHalf;
use crate::cc::ControlError;
use crate::endpoint::config::{ForwardingMode, StreamConfig};
use crate::endpoint::fan_out::{FanOut, FanOutPacket, Stored};
use crate::endpoint::outbox::Outbox;
use crate::media::pacer::MediaPacket;
use crate::packet::{
    Content, Datagram, Ecn, IP_UDP_BYTES, Kind, Past, Rtp, RtpPayload, SRTP_BYTES, VideoPart,
};
use crate::rtp::RtpHeader;
use crate::sliding::SlidingSum;
use crate::units::{Bytes, Time};
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
    waiting: VecDeque<PacedPacket>,
    /// When the first packet was forwarded. The receiver knows nothing of what arrived before.
    since: Option<Time>,
    /// The RTP timestamp of the last packet, and when it was forwarded.
    last: Option<(Time, u32)>,
    /// When packets were sent again last, by the sequence number of the original.
    resent: BTreeMap<u16, Time>,
}

/// A packet that waits in the pacer.
struct PacedPacket {
    /// What the pacer knows of it.
    kind: Kind,
    seq: u16,
    /// What happened to it since its sender sent it.
    past: Past,
    packet: Rtp,
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
    pub(super) fn new(forwarding: ForwardingMode) -> Self {
        ForwardedStream {
            payload: (forwarding == ForwardingMode::Controlled).then(SentPayload::new),
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
        let is_it = |one: &PacedPacket| one.kind == released.kind && one.seq == released.seq;
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

impl SendingHalf {
    /// Sends on a packet of another end of this node, with what happened to it since its sender sent it.
    pub(in crate::endpoint) fn forward(
        &mut self,
        now: Time,
        past: Past,
        forwarded: &FanOutPacket,
        outbox: &mut Outbox,
    ) -> Result<(), ControlError> {
        let &FanOutPacket { ref packet, payload_bytes, stream: index, known, repairs } = forwarded;
        let stream = self.streams.get_mut(index).and_then(|stream| stream.forwarded_mut());
        let Some(stream) = stream else { return Ok(()) };
        let since = *stream.since.get_or_insert(now);
        let is_known = known.is_some_and(|at| at >= since);
        if is_known && repairs {
            return Ok(());
        }
        let kind = match packet.kind {
            // Repaired before it came here, and new to the receiver.
            Kind::Rtx if !is_known => Kind::Video,
            // Padding comes here on streams of sound alone, whose numbers it shares.
            Kind::Padding => Kind::Audio,
            kind => kind,
        };
        if kind != Kind::Rtx {
            stream.last = Some((now, packet.header.timestamp));
        }
        let (seq, packet) = (packet.header.seq, packet.clone());
        self.hand_over(now, index, PacedPacket { kind, seq, past, packet }, payload_bytes, outbox)
    }

    /// Answers a request for packets of a stream that is forwarded, over a way with this round trip.
    pub(in crate::endpoint) fn retransmit_forwarded(
        &mut self,
        now: Time,
        fan_out: &FanOut,
        (ssrc, lost, rtt): (u32, &[u16], Time),
        outbox: &mut Outbox,
    ) -> Result<(), ControlError> {
        for &seq in lost {
            let Some((index, stored)) = fan_out.find(ssrc, seq) else { continue };
            let Some(stream) = self.streams.get_mut(index) else { continue };
            let config = stream.config;
            let Some(source) = stream.forwarded_mut() else { continue };
            let packet = source.retransmission(now, seq, rtt, &stored, &config);
            let Some(packet) = packet else { continue };
            source.forget(|seq| fan_out.find(ssrc, seq).is_none());
            let bytes = packet.payload_bytes();
            let waiting = PacedPacket { kind: Kind::Rtx, seq, past: Past::new(now), packet };
            self.hand_over(now, index, waiting, bytes, outbox)?;
        }
        Ok(())
    }

    /// Sends a packet at once, or hands it to the pacer and sends what that releases.
    fn hand_over(
        &mut self,
        now: Time,
        index: usize,
        waiting: PacedPacket,
        payload_bytes: u64,
        outbox: &mut Outbox,
    ) -> Result<(), ControlError> {
        if !self.is_controlled() {
            self.send_at_once(now, index, waiting, payload_bytes, outbox);
            return Ok(());
        }
        let Some(source) = self.streams[index].forwarded_mut() else { return Ok(()) };
        source.count(now, waiting.kind, payload_bytes);
        let PacedPacket { kind, seq, packet: Rtp { header, .. }, .. } = waiting;
        let RtpHeader { timestamp, marker, .. } = header;
        let part = VideoPart { bytes: payload_bytes as u16, ..VideoPart::default() };
        let released = MediaPacket { stream: index as u8, kind, seq, timestamp, marker, part };
        let size = ip_bytes(&waiting.packet, payload_bytes);
        source.waiting.push_back(waiting);
        self.pacer.push(now, released, size);
        self.release_all(now, outbox)
    }

    fn send_at_once(
        &mut self,
        now: Time,
        index: usize,
        waiting: PacedPacket,
        payload_bytes: u64,
        outbox: &mut Outbox,
    ) {
        let PacedPacket { kind, past, mut packet, .. } = waiting;
        let transport_seq = self.transport_seq();
        self.streams[index].stamp(&mut packet, now, transport_seq);
        self.next_transport_seq += 1;
        self.count(index, kind, payload_bytes);
        let size = ip_bytes(&packet, payload_bytes);
        // A codepoint would promise a reaction to marks (RFC 3168, section 5; RFC 9331, section 4.3).
        let (ecn, content) = (Ecn::NotCapable, Content::Rtp(packet));
        outbox.forward(past, Datagram { size, ecn, content });
    }
}

fn ip_bytes(packet: &Rtp, payload_bytes: u64) -> Bytes {
    Bytes(IP_UDP_BYTES + packet.header_bytes() + payload_bytes + SRTP_BYTES)
}
