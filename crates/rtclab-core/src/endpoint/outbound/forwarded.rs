//! Streams that another end of the node receives, and that this one sends on.

use super::SendingHalf;
use super::stream::{MediaSource, OutboundStream};
use crate::cc::ControlError;
use crate::endpoint::config::StreamConfig;
use crate::endpoint::fan_out::{FanOut, Forwarded, Stored};
use crate::endpoint::outbox::Outbox;
use crate::media::pacer::MediaPacket;
use crate::packet::{
    Content, Datagram, Ecn, IP_UDP_BYTES, Kind, Past, Rtp, RtpPayload, SRTP_BYTES, VideoPart,
};
use crate::rtp::{AbsSendTime, RtpHeader};
use crate::units::{Bytes, Time};
use std::collections::{BTreeMap, VecDeque};

/// When more packets than this were sent again, packets that are not kept any more are forgotten.
const MOST_RESENT: usize = 64;

/// A stream of another sender, as one receiver gets it.
#[derive(Default)]
pub(in crate::endpoint) struct ForwardedStream {
    /// Packets that wait in the pacer.
    waiting: VecDeque<Waiting>,
    /// When the first packet was forwarded. The receiver knows nothing of what arrived before.
    since: Option<Time>,
    /// The RTP timestamp of the last packet, and when it was forwarded.
    last: Option<(Time, u32)>,
    /// When packets were sent again last, by the sequence number of the original.
    resent: BTreeMap<u16, Time>,
}

/// A packet that waits in the pacer.
struct Waiting {
    /// What the pacer knows of it.
    kind: Kind,
    seq: u16,
    /// What happened to it since its sender sent it.
    past: Past,
    packet: Rtp,
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

    /// The packet that answers a request, unless it was sent a moment ago; see
    /// [`Repair::resend_pause`](crate::media::repair::Repair::resend_pause).
    fn retransmission(
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

impl SendingHalf {
    /// Sends on a packet of another end of this node, with what happened to it since its sender sent it.
    pub(in crate::endpoint) fn forward(
        &mut self,
        now: Time,
        past: Past,
        forwarded: &Forwarded,
        outbox: &mut Outbox,
    ) -> Result<(), ControlError> {
        let &Forwarded { ref packet, payload_bytes, stream: index, known, repairs } = forwarded;
        let stream = self.streams.get_mut(index).map(|stream| &mut stream.source);
        let Some(MediaSource::Forwarded(stream)) = stream else { return Ok(()) };
        let since = *stream.since.get_or_insert(now);
        let is_known = known.is_some_and(|at| at >= since);
        if is_known && repairs {
            return Ok(());
        }
        let kind = match packet.kind {
            // Repaired before it came here, and new to the receiver.
            Kind::Rtx if !is_known => Kind::Video,
            kind => kind,
        };
        if kind != Kind::Rtx {
            stream.last = Some((now, packet.header.timestamp));
        }
        let (seq, packet) = (packet.header.seq, packet.clone());
        self.hand_over(now, index, Waiting { kind, seq, past, packet }, payload_bytes, outbox)
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
            let MediaSource::Forwarded(source) = &mut stream.source else { continue };
            let packet = source.retransmission(now, seq, rtt, &stored, &stream.config);
            let Some(packet) = packet else { continue };
            if source.resent.len() > MOST_RESENT {
                source.resent.retain(|seq, _| fan_out.find(ssrc, *seq).is_some());
            }
            let bytes = packet.payload_bytes();
            let waiting = Waiting { kind: Kind::Rtx, seq, past: Past::new(now), packet };
            self.hand_over(now, index, waiting, bytes, outbox)?;
        }
        Ok(())
    }

    /// Sends a packet at once, or hands it to the pacer and sends what that releases.
    fn hand_over(
        &mut self,
        now: Time,
        index: usize,
        waiting: Waiting,
        payload_bytes: u64,
        outbox: &mut Outbox,
    ) -> Result<(), ControlError> {
        if !self.is_controlled() {
            self.send_at_once(now, index, waiting, payload_bytes, outbox);
            return Ok(());
        }
        let MediaSource::Forwarded(source) = &mut self.streams[index].source else { return Ok(()) };
        let Waiting { kind, seq, packet: Rtp { header, .. }, .. } = waiting;
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
        waiting: Waiting,
        payload_bytes: u64,
        outbox: &mut Outbox,
    ) {
        let Waiting { kind, past, mut packet, .. } = waiting;
        self.streams[index].stamp(&mut packet, now, self.history.next_seq() as u16);
        self.history.skip();
        self.count(index, kind, payload_bytes);
        let size = ip_bytes(&packet, payload_bytes);
        // A codepoint would promise a reaction to marks (RFC 3168, section 5; RFC 9331, section 4.3).
        let (ecn, content) = (Ecn::NotCapable, Content::Rtp(packet));
        outbox.forward(past, Datagram { size, ecn, content });
    }
}

impl OutboundStream {
    /// Gives a forwarded packet what belongs to this transport and not to the one that it came over. So an estimator
    /// behind a forwarder measures this leg alone, as behind mediasoup (`Transport.cpp`, OnConsumerSendRtpPacket).
    pub(super) fn stamp(&mut self, packet: &mut Rtp, now: Time, transport_seq: u16) {
        if let RtpPayload::Rtx { .. } = packet.payload {
            packet.header.seq = self.take_repair_seq();
        }
        let extensions = &mut packet.header.extensions;
        extensions.transport_sequence = Some(transport_seq);
        if extensions.abs_send_time.is_some() {
            extensions.abs_send_time = Some(AbsSendTime::from_time(now));
        }
    }
}

fn ip_bytes(packet: &Rtp, payload_bytes: u64) -> Bytes {
    Bytes(IP_UDP_BYTES + packet.header_bytes() + payload_bytes + SRTP_BYTES)
}
