//! Media that arrives at a node once and is forwarded to many.
//!
//! What does not depend on the receiver is done once: which stream a packet belongs to, whether it repairs a lost one,
//! and the store of packets for retransmission. The [`Peer`](super::Peer) that sends it on has the rest.

use super::config::StreamConfig;
use crate::media::nack::NackRules;
use crate::packet::{Kind, Rtp, RtpPayload, VideoPart};
use crate::rtp::{RtpHeader, SeqUnwrapper};
use crate::units::Time;
use std::collections::VecDeque;

/// How long packets are kept for retransmission (Janus, `ice.c`, DEFAULT_MAX_NACK_QUEUE).
const STORED_FOR: Time = Time::from_secs(1);
/// Most sequence numbers between the first and the last packet kept: nobody requests older ones.
const MAX_STORED: usize = NackRules::SINCE_2024.max_age as usize;

/// The streams of one sender, for all who receive them from a node.
pub struct FanOut {
    streams: Vec<SharedStream>,
}

/// A stream that is forwarded to many.
struct SharedStream {
    config: StreamConfig,
    /// Packets of video; audio is not retransmitted.
    store: Store,
}

/// A packet to be forwarded.
pub struct FanOutPacket {
    pub(super) packet: Rtp,
    /// Its bytes of payload, before SRTP.
    pub(super) payload_bytes: u64,
    /// Index of its stream.
    pub(super) stream: usize,
    /// When a packet with its number was stored before.
    pub(super) known: Option<Time>,
    /// Whether it was sent again, on a stream of its own.
    pub(super) repairs: bool,
}

/// What is needed to retransmit a video packet.
#[derive(Clone, Copy)]
pub(super) struct Stored {
    pub(super) at: Time,
    pub(super) header: RtpHeader,
    pub(super) part: VideoPart,
}

/// Packets of one stream kept for retransmission, by sequence number; `None` for those not yet arrived.
#[derive(Default)]
struct Store {
    unwrapper: SeqUnwrapper,
    first: i64,
    packets: VecDeque<Option<Stored>>,
}

impl Store {
    fn find(&self, seq: u16) -> Option<&Stored> {
        let index = usize::try_from(self.unwrapper.peek(seq) - self.first).ok()?;
        self.packets.get(index)?.as_ref()
    }

    fn insert(&mut self, now: Time, header: RtpHeader, part: VideoPart) {
        let old = |stored: &Stored| stored.at + STORED_FOR < now;
        while self.packets.front().is_some_and(|stored| stored.as_ref().is_none_or(old)) {
            self.packets.pop_front();
            self.first += 1;
        }
        let seq = self.unwrapper.unwrap(header.seq);
        if self.packets.is_empty() {
            self.first = seq;
        }
        // A packet older than all stored ones is too late to be requested.
        let Ok(mut index) = usize::try_from(seq - self.first) else { return };
        if let Some(excess) = (index + 1).checked_sub(MAX_STORED) {
            self.packets.drain(..excess.min(self.packets.len()));
            self.first += excess as i64;
            index -= excess;
        }
        while self.packets.len() <= index {
            self.packets.push_back(None);
        }
        self.packets[index] = Some(Stored { at: now, header, part });
    }
}

impl FanOut {
    /// Nothing has arrived of these streams.
    pub fn new(streams: &[StreamConfig]) -> Self {
        let shared =
            |config: &StreamConfig| SharedStream { config: *config, store: Store::default() };
        FanOut { streams: streams.iter().map(shared).collect() }
    }

    /// Takes a packet that has arrived; returns what is to be forwarded: neither padding on a retransmission stream nor
    /// streams that nobody has described. Padding on a stream of sound has a number between the packets of sound.
    pub fn take(&mut self, now: Time, packet: &Rtp) -> Option<FanOutPacket> {
        let ssrc = packet.header.ssrc;
        let of = |stream: &SharedStream| {
            let StreamConfig { ssrc: media, repair_ssrc, .. } = stream.config;
            ssrc == media || stream.config.is_video() && ssrc == repair_ssrc
        };
        let index = self.streams.iter().position(of)?;
        let SharedStream { config, store } = &mut self.streams[index];
        if packet.kind == Kind::Padding && config.is_video() {
            return None;
        }
        let repairs = matches!(packet.payload, RtpPayload::Rtx { .. });
        let packet = original(config, packet);
        let known = store.find(packet.header.seq).map(|stored| stored.at);
        let is_copy = known.is_some() && (repairs || packet.kind == Kind::Rtx);
        if !is_copy {
            if let RtpPayload::Video(part) = packet.payload {
                store.insert(now, packet.header, part);
            }
        }
        let payload_bytes = packet.payload_bytes();
        Some(FanOutPacket { packet, payload_bytes, stream: index, known, repairs })
    }

    /// The packet with this number on the media stream with this SSRC, if it is kept, and the index of the stream.
    pub(super) fn find(&self, ssrc: u32, seq: u16) -> Option<(usize, Stored)> {
        let index = self.streams.iter().position(|stream| stream.config.ssrc == ssrc)?;
        Some((index, *self.streams[index].store.find(seq)?))
    }
}

/// The packet itself, or the original of a packet on the repair stream.
fn original(config: &StreamConfig, packet: &Rtp) -> Rtp {
    let RtpPayload::Rtx { original_seq, part } = packet.payload else { return packet.clone() };
    let header = RtpHeader {
        payload_type: config.repair.video_payload_type(),
        ssrc: config.ssrc,
        seq: original_seq,
        ..packet.header
    };
    Rtp { header, payload: RtpPayload::Video(part), kind: Kind::Video }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(seq: u16) -> RtpHeader {
        RtpHeader { seq, ..RtpHeader::default() }
    }

    /// Packets up to 10,000 numbers behind the newest are kept.
    #[test]
    fn however_far_numbers_jump_no_more_is_kept_than_anybody_requests() {
        for jump in [1, 9_999, 10_000, 10_001, 30_000] {
            let mut store = Store::default();
            for number in 0..50_u16 {
                store.insert(Time::ZERO, header(number.wrapping_mul(jump)), VideoPart::default());
                assert!(store.packets.len() <= 10_000, "{jump}: {}", store.packets.len());
            }
            let newest = 49_u16.wrapping_mul(jump);
            assert!(store.find(newest).is_some(), "{jump}");
            assert_eq!(store.find(newest.wrapping_sub(jump)).is_some(), jump < 10_000, "{jump}");
        }
    }
}
