//! The streams that a publisher sends: what they carry, and when they need a key frame.

use crate::keyframe::KeyframeRequests;
use crate::layers::RateMeter;
use std::time::Instant;
use str0m::format::PayloadParams;
use str0m::media::{MediaAdded, MediaKind, Mid, Rid};
use str0m::rtp::RtpPacket;

/// A packet of a publication, for its subscribers.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) kind: MediaKind,
    pub(crate) rid: Option<Rid>,
    /// Codec and payload type with which it came.
    pub(crate) params: PayloadParams,
    pub(crate) starts_keyframe: bool,
    pub(crate) packet: RtpPacket,
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
    pub(crate) fn count(
        &mut self,
        mid: Mid,
        rid: Option<Rid>,
        bytes: usize,
        starts_keyframe: bool,
    ) {
        let Some(stream) =
            self.streams.iter_mut().find(|stream| stream.mid == mid && stream.rid == rid)
        else {
            return;
        };
        stream.rate.add(bytes);
        if starts_keyframe {
            stream.keyframes.arrived();
        }
    }

    /// A tick of the rate meters has passed.
    pub(crate) fn tick(&mut self) {
        self.streams.iter_mut().for_each(|stream| stream.rate.tick());
    }

    /// The video's simulcast layers with their rates in bit/s; empty without simulcast.
    pub(crate) fn layers(&self) -> Vec<(Rid, Option<f64>)> {
        let video = self.streams.iter().filter(|stream| stream.kind == MediaKind::Video);
        video.filter_map(|stream| Some((stream.rid?, stream.rate.bps()))).collect()
    }

    /// Rate in bit/s of everything that is not simulcast.
    pub(crate) fn single_bps(&self) -> f64 {
        self.streams
            .iter()
            .filter(|stream| stream.rid.is_none())
            .filter_map(|stream| stream.rate.bps())
            .sum()
    }

    /// Whether a stream waits for a key frame that its sender has not been asked for.
    pub(crate) fn wants_keyframes(&self) -> bool {
        self.streams.iter().any(|stream| stream.keyframes.wanted())
    }

    /// A subscriber needs a key frame of the video, or of a layer of it.
    pub(crate) fn want_keyframe(&mut self, rid: Option<Rid>) {
        for stream in &mut self.streams {
            if stream.kind == MediaKind::Video && stream.rid == rid {
                stream.keyframes.want();
            }
        }
    }

    /// The streams whose sender is to be asked for a key frame now.
    pub(crate) fn keyframes_due(&mut self, now: Instant) -> Vec<(Mid, Option<Rid>)> {
        let due = self
            .streams
            .iter_mut()
            .filter_map(|stream| stream.keyframes.poll(now).then_some((stream.mid, stream.rid)));
        due.collect()
    }
}
