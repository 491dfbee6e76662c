//! One outbound video stream: encoder, packets kept for retransmission, and FEC.

use super::store::PacketStore;
use crate::media::encoder::{Encoder, Frame, VideoConfig};
use crate::media::fec::{FecGenerator, Masks, Rates};
use crate::media::protection::{Conditions, LossFilter, Protection};
use crate::media::repair::Repair;
use crate::packet::FecBlock;
use crate::sliding::SlidingSum;
use crate::stack::StackProfile;
use crate::units::{Bitrate, Time};
use std::collections::VecDeque;

/// FEC of a stream.
pub(super) struct Fec {
    repair: Repair,
    pub(super) loss: LossFilter,
    pub(super) protection: Protection,
    pub(super) generator: FecGenerator,
    /// Blocks of the FEC packets in the pacer, in order.
    pub(super) queue: VecDeque<FecBlock>,
    /// Rate that the stream has for media and repair, without headers.
    pub(super) rate: Bitrate,
    /// Frames sent in the last second.
    frames: SlidingSum<u32>,
}

/// Time over which sent frames are counted (libwebrtc, `send_statistics_proxy.cc`).
const FRAMES_WINDOW: Time = Time::from_secs(1);

impl Fec {
    fn new(repair: Repair) -> Self {
        let (masks, rates) = match repair {
            Repair::RtxAndUlpfec => (Masks::Listed, Rates::Newest),
            _ => (Masks::Interleaved, Rates::AtStart),
        };
        Fec {
            repair,
            loss: LossFilter::default(),
            protection: Protection::default(),
            generator: FecGenerator::new(masks, rates),
            queue: VecDeque::new(),
            rate: Bitrate::ZERO,
            frames: SlidingSum::new(FRAMES_WINDOW),
        }
    }

    /// Takes note of a frame that is sent.
    pub(super) fn on_frame(&mut self, now: Time) {
        self.frames.add(now, 1);
    }

    /// Sets the protection. `conditions` have the rate of the connection and the frame rate of the camera, but
    /// Chromium 156 uses the rate of the stream and the frames sent in the last second instead.
    pub(super) fn adapt(&mut self, now: Time, conditions: &Conditions) {
        self.protection = match self.repair {
            Repair::RtxAndUlpfec => Protection::chromium_156(&Conditions {
                bitrate: self.rate,
                frame_rate: f64::from(self.frames.sum(now)),
                ..*conditions
            }),
            Repair::Hybrid2013FecAlways => Protection::at_any_rtt(conditions),
            _ => Protection::for_conditions(conditions),
        };
    }
}

/// A picture being encoded.
struct Encoding {
    frame: Frame,
    begin: Time,
    /// `Time::MAX` while unknown.
    ready: Time,
}

pub(in crate::endpoint) struct VideoStream {
    pub(in crate::endpoint) encoder: Encoder,
    /// The picture being encoded.
    encoding: Option<Encoding>,
    pub(super) store: PacketStore,
    pub(super) fec: Fec,
    pub(super) next_picture: u16,
    pub(in crate::endpoint) frames: u64,
    pub(in crate::endpoint) key_frames: u64,
}

impl VideoStream {
    pub(super) fn new(
        config: VideoConfig,
        stack: &StackProfile,
        repair: Repair,
        start: Time,
        seed: u64,
    ) -> Self {
        VideoStream {
            encoder: Encoder::new(stack.encoder_model, config, stack.encoder_control, start, seed),
            encoding: None,
            store: PacketStore::new(stack.retransmission),
            fec: Fec::new(repair),
            next_picture: 0,
            frames: 0,
            key_frames: 0,
        }
    }

    /// Pictures that are captured while one is encoded wait.
    pub(super) fn poll_timeout(&self) -> Time {
        match &self.encoding {
            Some(encoding) => encoding.ready,
            None => self.encoder.poll_timeout().unwrap_or(Time::MAX),
        }
    }

    pub(super) fn is_encoding(&self) -> bool {
        self.encoding.is_some()
    }

    /// Starts encoding a picture; [`VideoStream::encoded_at`] sets when it will be ready.
    pub(super) fn encode(&mut self, begin: Time, frame: Frame) {
        self.encoding = Some(Encoding { frame, begin, ready: Time::MAX });
    }

    pub(super) fn encoded_at(&mut self, ready: Time) {
        if let Some(encoding) = &mut self.encoding {
            encoding.ready = ready;
        }
    }

    /// The picture that is ready now, and when its encoding began.
    pub(super) fn take_encoded(&mut self, now: Time) -> Option<(Frame, Time)> {
        let Encoding { frame, begin, ready } =
            self.encoding.take_if(|encoding| encoding.ready <= now)?;
        self.encoder.on_encoded(&frame, begin, ready);
        Some((frame, begin))
    }
}
