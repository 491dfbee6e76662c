//! Sends on what another end of the node receives.

use super::SendingHalf;
use super::forwarded::Waiting;
use super::stream::MediaSource;
use crate::cc::ControlError;
use crate::endpoint::fan_out::{FanOut, Forwarded};
use crate::endpoint::outbox::Outbox;
use crate::media::pacer::MediaPacket;
use crate::packet::{Content, Datagram, Ecn, IP_UDP_BYTES, Kind, Past, Rtp, SRTP_BYTES, VideoPart};
use crate::rtp::RtpHeader;
use crate::units::{Bytes, Time};

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
            // Padding comes here on streams of sound alone, whose numbers it shares.
            Kind::Padding => Kind::Audio,
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
            source.forget(|seq| fan_out.find(ssrc, seq).is_none());
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
        source.count(now, waiting.kind, payload_bytes);
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
