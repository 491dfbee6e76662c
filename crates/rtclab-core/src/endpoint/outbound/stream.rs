//! An outbound stream, and where its media comes from.

use super::forwarded_stream::ForwardedStream;
use super::opus::InBandFec;
use super::video::VideoStream;
use crate::endpoint::config::{AudioConfig, ForwardingMode, Media, StreamConfig};
use crate::media::microphone::{Microphone, Threads};
use crate::media::pacer::MediaPacket;
use crate::packet::{Ecn, Kind, Rtp, RtpPayload};
use crate::rtp::AbsSendTime;
use crate::stack::StackProfile;
use crate::transport_history::PacketOutcome;
use crate::units::{Bitrate, Time};

/// Totals of one kind of packet sent on one stream.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::endpoint) struct SentTotals {
    pub(in crate::endpoint) packets: u64,
    pub(in crate::endpoint) payload_bytes: u64,
    pub(in crate::endpoint) header_bytes: u64,
}

/// Totals of a stream's packets in feedback of RFC 8888.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::endpoint) struct Reported {
    /// Packets reported as lost, each once.
    pub(in crate::endpoint) lost: u64,
    /// Of these, packets that were reported as received later.
    pub(in crate::endpoint) recovered: u64,
    /// Packets that left as ECT(1) and arrived as Not-ECT.
    pub(in crate::endpoint) bleached: u64,
}

impl Reported {
    pub(super) fn count<T>(&mut self, outcome: &PacketOutcome<T>) {
        self.lost += u64::from(!outcome.has_arrived && !outcome.lost_before);
        self.recovered += u64::from(outcome.has_arrived && outcome.lost_before);
        let is_bleached = outcome.sent.ecn == Ecn::Ect1 && outcome.ecn == Some(Ecn::NotCapable);
        self.bleached += u64::from(is_bleached);
    }
}

/// What a packet in flight carries.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentMedia {
    /// Index of its stream.
    pub(super) stream: u8,
    /// Where the packet is stored; `None` for audio, FEC and padding.
    pub(super) video: Option<VideoPacket>,
}

/// A packet of video that is stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct VideoPacket {
    /// Sequence number on the stream, of the original if it is a retransmission.
    pub(super) seq: u16,
    pub(super) retransmission: bool,
}

/// An outbound stream.
pub(in crate::endpoint) struct OutboundStream {
    pub(in crate::endpoint) config: StreamConfig,
    /// Next sequence number of the media.
    pub(super) next_seq: u16,
    /// Next sequence number of the retransmission stream.
    next_repair_seq: u16,
    pub(in crate::endpoint) totals: [SentTotals; Kind::ALL.len()],
    /// Packets of all kinds that left with ECT(1).
    pub(in crate::endpoint) sent_with_ect1: u64,
    pub(in crate::endpoint) reported: Reported,
    pub(in crate::endpoint) nack_count: u64,
    pub(in crate::endpoint) pli_count: u64,
    /// When a request for a key frame was last followed.
    pub(super) key_requested: Option<Time>,
    pub(in crate::endpoint) source: MediaSource,
}

/// Where a stream's media comes from.
pub(in crate::endpoint) enum MediaSource {
    Video(Box<VideoStream>),
    Audio {
        config: AudioConfig,
        microphone: Microphone,
        fec: InBandFec,
        /// RTP timestamp of the last packet.
        timestamp: u32,
    },
    Forwarded(ForwardedStream),
}

impl OutboundStream {
    pub(super) fn new(
        config: &StreamConfig,
        stack: &StackProfile,
        start: Time,
        seed: u64,
        threads: Option<Threads>,
        forwarding: Option<ForwardingMode>,
    ) -> Self {
        OutboundStream {
            config: *config,
            next_seq: 1,
            next_repair_seq: 1,
            totals: Default::default(),
            sent_with_ect1: 0,
            reported: Reported::default(),
            nack_count: 0,
            pli_count: 0,
            key_requested: None,
            source: match (forwarding, config.media) {
                (Some(forwarding), _) => MediaSource::Forwarded(ForwardedStream::new(forwarding)),
                (None, Media::Video(video)) => {
                    let repair = config.repair;
                    MediaSource::Video(Box::new(VideoStream::new(
                        video, stack, repair, start, seed,
                    )))
                }
                (None, Media::Audio(config)) => {
                    let microphone =
                        Microphone::new(start, config.frame_ns, threads.map(|of| (!seed, of)));
                    MediaSource::Audio {
                        config,
                        microphone,
                        fec: InBandFec::default(),
                        timestamp: 0,
                    }
                }
            },
        }
    }

    pub(in crate::endpoint) fn video(&self) -> Option<&VideoStream> {
        match &self.source {
            MediaSource::Video(video) => Some(video),
            MediaSource::Audio { .. } | MediaSource::Forwarded(_) => None,
        }
    }

    pub(super) fn video_mut(&mut self) -> Option<&mut VideoStream> {
        match &mut self.source {
            MediaSource::Video(video) => Some(video),
            MediaSource::Audio { .. } | MediaSource::Forwarded(_) => None,
        }
    }

    pub(super) fn forwarded_mut(&mut self) -> Option<&mut ForwardedStream> {
        match &mut self.source {
            MediaSource::Forwarded(forwarded) => Some(forwarded),
            MediaSource::Video(_) | MediaSource::Audio { .. } => None,
        }
    }

    pub(super) fn poll_timeout(&self) -> Time {
        match &self.source {
            MediaSource::Video(video) => video.poll_timeout(),
            MediaSource::Audio { microphone, .. } => microphone.poll_timeout(),
            MediaSource::Forwarded(_) => Time::MAX,
        }
    }

    /// The rate that its encoder is asked for; `None` if it is forwarded.
    pub(in crate::endpoint) fn target(&self) -> Option<Bitrate> {
        match &self.source {
            MediaSource::Video(video) => Some(video.encoder.target()),
            MediaSource::Audio { config, .. } => Some(config.bitrate_bps),
            MediaSource::Forwarded(_) => None,
        }
    }

    /// Takes the share of lost packets, in 256ths, that a report on this stream tells.
    pub(in crate::endpoint) fn on_loss(&mut self, now: Time, fraction: u8) {
        if let MediaSource::Audio { fec, .. } = &mut self.source {
            fec.on_report(now, fraction);
        }
    }

    /// Whether the audio packet with this RTP timestamp carries a copy of the frame before it.
    pub(super) fn has_fec(&self, timestamp: u32) -> bool {
        match &self.source {
            MediaSource::Audio { config, fec, .. } => fec.is_in(timestamp, config.frame_ns),
            MediaSource::Video(_) | MediaSource::Forwarded(_) => false,
        }
    }

    pub(super) fn take_seq(&mut self) -> u16 {
        let seq = self.next_seq;
        self.next_seq = seq.wrapping_add(1);
        seq
    }

    /// Sequence number and RTP timestamp of a packet of sound, or of padding after it, that leaves now (libwebrtc,
    /// `packet_sequencer.cc`).
    pub(super) fn number_audio(&mut self, packet: &MediaPacket) -> (u16, u32) {
        let seq = self.take_seq();
        let MediaSource::Audio { timestamp, .. } = &mut self.source else {
            return (seq, packet.timestamp);
        };
        if packet.kind == Kind::Audio {
            *timestamp = packet.timestamp;
        }
        (seq, *timestamp)
    }

    pub(super) fn take_repair_seq(&mut self) -> u16 {
        let seq = self.next_repair_seq;
        self.next_repair_seq = seq.wrapping_add(1);
        seq
    }

    /// Gives a forwarded packet what belongs to this transport and not to the one that it came over. So an estimator
    /// behind a forwarder measures this leg alone, as behind mediasoup (`Transport.cpp`, OnConsumerSendRtpPacket).
    pub(super) fn stamp(&mut self, packet: &mut Rtp, now: Time, transport_seq: Option<u16>) {
        if let RtpPayload::Rtx { .. } = packet.payload {
            packet.header.seq = self.take_repair_seq();
        }
        let extensions = &mut packet.header.extensions;
        extensions.transport_sequence = transport_seq;
        if extensions.abs_send_time.is_some() {
            extensions.abs_send_time = Some(AbsSendTime::from_time(now));
        }
    }
}
