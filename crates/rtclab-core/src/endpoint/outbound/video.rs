//! One outbound video stream: encoder, packets kept for retransmission, and FEC.

use super::store::PacketStore;
use crate::media::encoder::{Encoder, Frame, VideoConfig};
use crate::media::fec::{FecGenerator, Masks};
use crate::media::protection::{Conditions, LossFilter, Protection};
use crate::media::repair::Repair;
use crate::packet::FecBlock;
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
}

impl Fec {
    fn new(repair: Repair) -> Self {
        let masks = match repair {
            Repair::RtxAndUlpfec => Masks::Listed,
            _ => Masks::Interleaved,
        };
        Fec {
            repair,
            loss: LossFilter::default(),
            protection: Protection::default(),
            generator: FecGenerator::new(masks),
            queue: VecDeque::new(),
            rate: Bitrate::ZERO,
        }
    }

    /// Sets the protection. `conditions` have the rate of the connection, in place of which today's rules
    /// take that of the stream.
    pub(super) fn adapt(&mut self, conditions: &Conditions) {
        self.protection = match self.repair {
            Repair::RtxAndUlpfec => {
                Protection::today(&Conditions { bitrate: self.rate, ..*conditions })
            }
            _ => Protection::for_conditions(conditions),
        };
    }
}

pub(in crate::endpoint) struct VideoStream {
    pub(in crate::endpoint) encoder: Encoder,
    /// The picture being encoded, and when it will be ready; `Time::MAX` while unknown.
    encoding: Option<(Time, Frame)>,
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

    pub(super) fn poll_timeout(&self) -> Time {
        let encoding = self.encoding.as_ref().map_or(Time::MAX, |(ready, _)| *ready);
        self.encoder.poll_timeout().unwrap_or(Time::MAX).min(encoding)
    }

    pub(super) fn is_encoding(&self) -> bool {
        self.encoding.is_some()
    }

    /// Starts encoding a picture; [`VideoStream::encoded_at`] sets when it will be ready.
    pub(super) fn encode(&mut self, frame: Frame) {
        self.encoding = Some((Time::MAX, frame));
    }

    pub(super) fn encoded_at(&mut self, ready: Time) {
        if let Some(encoding) = &mut self.encoding {
            encoding.0 = ready;
        }
    }

    pub(super) fn take_encoded(&mut self, now: Time) -> Option<Frame> {
        self.encoding.take_if(|(ready, _)| *ready <= now).map(|(_, frame)| frame)
    }
}
