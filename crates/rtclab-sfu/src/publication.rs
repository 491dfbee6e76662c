//! The streams that a publisher sends: what they carry, and when they need a key frame.

use crate::keyframe::KeyframeRequests;
use rtclab_core::simulcast::layers::RateMeter;
use rtclab_core::simulcast::numbering::ReceivedNumbers;
use rtclab_core::units::{Bitrate, Bytes};
use std::time::Instant;
use str0m::format::PayloadParams;
use str0m::media::{MediaAdded, MediaKind, Mid, Rid};
use str0m::rtp::{RtpPacket, Vp8Descriptor};

/// A packet of a publication, for its subscribers.
#[derive(Debug)]
pub(crate) struct PublishedPacket {
    pub(crate) kind: MediaKind,
    pub(crate) rid: Option<Rid>,
    /// Codec and payload type with which it came.
    pub(crate) params: PayloadParams,
    pub(crate) starts_keyframe: bool,
    pub(crate) packet: RtpPacket,
    pub(crate) numbers: ReceivedNumbers,
    /// Where the numbers of a picture are in the payload. Only with simulcast, because other numbers stay as they are.
    pub(crate) vp8: Option<Vp8Descriptor>,
}

/// One stream: a medium, or a simulcast layer of it.
#[derive(Debug)]
struct Stream {
    mid: Mid,
    kind: MediaKind,
    rid: Option<Rid>,
    rate: RateMeter,
    keyframes: KeyframeRequests,
}

/// What is received on a connection. Layers are in the order of the offer, which is from low to high.
#[derive(Debug, Default)]
pub(crate) struct Publication {
    streams: Vec<Stream>,
}

impl Publication {
    /// Adds the streams of a negotiated medium.
    pub(crate) fn add(&mut self, media: &MediaAdded) {
        let layers = media.simulcast.iter().flat_map(|simulcast| &simulcast.recv);
        let rids: Vec<_> = layers.map(|layer| Some(layer.rid)).collect();
        let rids = if rids.is_empty() { vec![None] } else { rids };
        self.streams.extend(rids.into_iter().map(|rid| Stream {
            mid: media.mid,
            kind: media.kind,
            rid,
            rate: RateMeter::default(),
            keyframes: KeyframeRequests::default(),
        }));
    }

    /// Counts a packet of a stream.
    pub(crate) fn count(&mut self, mid: Mid, rid: Option<Rid>, size: Bytes, starts_keyframe: bool) {
        let Some(stream) =
            self.streams.iter_mut().find(|stream| stream.mid == mid && stream.rid == rid)
        else {
            return;
        };
        stream.rate.add(size);
        if starts_keyframe {
            stream.keyframes.arrived();
        }
    }

    /// A tick of the rate meters has passed.
    pub(crate) fn tick(&mut self) {
        self.streams.iter_mut().for_each(|stream| stream.rate.tick());
    }

    /// The video's simulcast layers with their rates; empty without simulcast.
    pub(crate) fn layers(&self) -> Vec<(Rid, Option<Bitrate>)> {
        let video = self.streams.iter().filter(|stream| stream.kind == MediaKind::Video);
        video.filter_map(|stream| Some((stream.rid?, stream.rate.rate()))).collect()
    }

    /// Rate of everything that is not simulcast.
    pub(crate) fn single(&self) -> Bitrate {
        let streams = self.streams.iter().filter(|stream| stream.rid.is_none());
        Bitrate(streams.filter_map(|stream| stream.rate.rate()).map(Bitrate::bps).sum())
    }

    /// A subscriber needs a key frame of the video, or of a layer of it.
    pub(crate) fn want_keyframe(&mut self, rid: Option<Rid>, now: Instant) {
        for stream in &mut self.streams {
            if stream.kind == MediaKind::Video && stream.rid == rid {
                stream.keyframes.want(now);
            }
        }
    }

    /// When [`Publication::poll_keyframe`] must be called.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.streams.iter().filter_map(|stream| stream.keyframes.poll_timeout()).min()
    }

    /// A stream whose sender is to be asked for a key frame now.
    pub(crate) fn poll_keyframe(&mut self, now: Instant) -> Option<(Mid, Option<Rid>)> {
        let due = self.streams.iter_mut().find_map(|it| it.keyframes.poll(now).then_some(&*it));
        due.map(|stream| (stream.mid, stream.rid))
    }
}
