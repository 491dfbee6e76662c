//! The rates that the streams of a call want.

use super::arithmetic::{INFINITE, KBPS, bps};
use super::rate_control::MIN_RATE;
use crate::cc::RateBounds;

/// Start rate and maximum of a call without video (`call/call_factory.cc`).
const AUDIO_START: i64 = 300 * KBPS;
const AUDIO_MAX: i64 = 2_000 * KBPS;

/// What the streams want, in bit/s.
#[derive(Clone, Copy, Debug)]
pub(super) struct Streams {
    pub(super) start: i64,
    pub(super) min: i64,
    pub(super) max: i64,
    /// The most that all streams together can use.
    pub(super) max_total: i64,
    pub(super) audio: i64,
    pub(super) has_video: bool,
}

impl Streams {
    pub(super) fn new(bounds: RateBounds) -> Self {
        let audio = bps(bounds.audio);
        let min = (bps(bounds.min) + audio).max(MIN_RATE);
        let (start, max) = match bounds.has_video {
            true => (bps(bounds.start), INFINITE),
            false => (AUDIO_START, AUDIO_MAX),
        };
        let max_total = bps(bounds.max) + audio;
        Streams { start: start.max(min), min, max, max_total, audio, has_video: bounds.has_video }
    }
}
