//! Packets waiting in the pacer, by priority; streams of the same priority take turns.
//!
//! Source: libwebrtc f3ae3eb62e, `modules/pacing/prioritized_packet_queue.cc`.

use super::{MediaPacket, Release};
use crate::packet::Kind;
use crate::units::{Bytes, Time};
use std::collections::VecDeque;

/// Priority of audio, which leaves first.
const AUDIO: usize = 0;
/// Priority of retransmissions of video.
const REPAIR: usize = 1;
/// Priority of video and FEC.
const VIDEO: usize = 2;
/// Priority of padding.
const PADDING: usize = 3;

struct Queued {
    release: Release,
    size: Bytes,
    at: Time,
}

/// The packets of one priority.
#[derive(Default)]
struct Level {
    /// Streams with packets, the next one first.
    turns: VecDeque<usize>,
    /// Packets by stream.
    streams: Vec<VecDeque<Queued>>,
}

impl Level {
    fn push(&mut self, stream: usize, queued: Queued) {
        while self.streams.len() <= stream {
            self.streams.push(VecDeque::new());
        }
        if self.streams[stream].is_empty() {
            self.turns.push_back(stream);
        }
        self.streams[stream].push_back(queued);
    }

    fn pop(&mut self) -> Option<Queued> {
        let stream = *self.turns.front()?;
        let waiting = &mut self.streams[stream];
        let queued = waiting.pop_front();
        if waiting.is_empty() {
            self.turns.pop_front();
        } else if self.turns.len() > 1 {
            self.turns.rotate_left(1);
        }
        queued
    }
}

/// All packets that wait.
#[derive(Default)]
pub(super) struct PacketQueue {
    levels: [Level; 4],
    packets: u64,
    bytes: u64,
    /// Sum of the times at which the packets came.
    arrivals: u128,
}

impl PacketQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// Whether FEC waits and nothing else does.
    pub(super) fn has_only_fec(&self) -> bool {
        let is_fec = |queued: &Queued| matches!(queued.release, Release::Media(packet) if packet.kind == Kind::Fec);
        let mut waiting = self.levels.iter().flat_map(|level| &level.streams).flatten();
        !self.is_empty() && waiting.all(is_fec)
    }

    /// Whether audio waits.
    pub(super) fn has_audio(&self) -> bool {
        !self.levels[AUDIO].turns.is_empty()
    }

    pub(super) fn bytes(&self) -> Bytes {
        Bytes(self.bytes)
    }

    /// How long the packets have waited on average.
    pub(super) fn mean_wait(&self, now: Time) -> Time {
        if self.packets == 0 {
            return Time::ZERO;
        }
        // Sums of less than 500 years fit into 64 bits, whose division is much faster.
        let mean = match u64::try_from(self.arrivals) {
            Ok(arrivals) => arrivals / self.packets,
            Err(_) => (self.arrivals / u128::from(self.packets)) as u64,
        };
        now.saturating_sub(Time(mean))
    }

    pub(super) fn push(&mut self, now: Time, release: Release, size: Bytes) {
        let (level, stream) = match release {
            Release::Media(packet) => {
                let level = match packet.kind {
                    Kind::Audio => AUDIO,
                    Kind::Rtx => REPAIR,
                    Kind::Video | Kind::Fec => VIDEO,
                    Kind::Padding => PADDING,
                };
                (level, usize::from(packet.stream))
            }
            Release::Repeat | Release::Padding(_) => (PADDING, 0),
        };
        self.packets += 1;
        self.bytes += size.0;
        self.arrivals += u128::from(now.0);
        self.levels[level].push(stream, Queued { release, size, at: now });
    }

    pub(super) fn pop(&mut self) -> Option<(Release, Bytes)> {
        let Queued { release, size, at } = self.levels.iter_mut().find_map(Level::pop)?;
        self.forget(size, at);
        Some((release, size))
    }

    /// Whether a packet of this video frame waits.
    pub(super) fn has_frame(&self, stream: u8, timestamp: u32) -> bool {
        let of_frame = |queued: &Queued| {
            let of = |p: MediaPacket| p.kind == Kind::Video && p.timestamp == timestamp;
            matches!(queued.release, Release::Media(packet) if of(packet))
        };
        let waiting = self.levels[VIDEO].streams.get(usize::from(stream));
        waiting.is_some_and(|waiting| waiting.iter().any(of_frame))
    }

    /// Drops the video, FEC and retransmissions of a stream.
    pub(super) fn flush(&mut self, stream: u8) {
        let stream = usize::from(stream);
        for level in [REPAIR, VIDEO] {
            let level = &mut self.levels[level];
            level.turns.retain(|turn| *turn != stream);
            let dropped = level.streams.get_mut(stream).map(std::mem::take).unwrap_or_default();
            dropped.iter().for_each(|queued| self.forget(queued.size, queued.at));
        }
    }

    fn forget(&mut self, size: Bytes, at: Time) {
        self.packets -= 1;
        self.bytes -= size.0;
        self.arrivals -= u128::from(at.0);
    }
}
