//! What getStats says about an encoder.

use crate::units::{Bytes, Time};

/// A frame of so many times its share of the rate is a huge one: libwebrtc, `video_codec.h`,
/// `timing_frame_thresholds` (500 %).
const HUGE: f64 = 5.0;

/// Why pictures are smaller than the camera's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limitation {
    /// They are not.
    None,
    /// Quantiser or dropped frames: too few bits.
    Bandwidth,
}

impl Limitation {
    /// Name in getStats (`qualityLimitationReason`).
    pub fn name(self) -> &'static str {
        match self {
            Limitation::None => "none",
            Limitation::Bandwidth => "bandwidth",
        }
    }
}

/// Totals of an encoder since its start; names as in W3C webrtc-stats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EncoderStatistics {
    /// Frames encoded (`framesEncoded`).
    pub frames: u64,
    /// Key frames encoded (`keyFramesEncoded`).
    pub key_frames: u64,
    /// Sum of their quantiser indices, 0 to 127 each (`qpSum`).
    pub qp_sum: u64,
    /// Frames much larger than their share of the rate (`hugeFramesSent`).
    pub huge_frames: u64,
    /// Time spent encoding (`totalEncodeTime`).
    pub encode_time: Time,
    /// Why pictures are smaller now (`qualityLimitationReason`).
    pub limitation: Limitation,
    /// How long pictures were limited by bandwidth, and how long not (`qualityLimitationDurations`).
    pub limited: Time,
    /// How long pictures were not limited.
    pub unlimited: Time,
    /// Changes of resolution by adaptation (`qualityLimitationResolutionChanges`).
    pub resolution_changes: u64,
    /// Up to when the durations count.
    counted: Time,
}

impl EncoderStatistics {
    pub(super) fn new(start: Time) -> Self {
        EncoderStatistics {
            frames: 0,
            key_frames: 0,
            qp_sum: 0,
            huge_frames: 0,
            encode_time: Time::ZERO,
            limitation: Limitation::None,
            limited: Time::ZERO,
            unlimited: Time::ZERO,
            resolution_changes: 0,
            counted: start,
        }
    }

    pub(super) fn on_frame(
        &mut self,
        qindex: u8,
        key: bool,
        size: Bytes,
        ideal_bits: f64,
        encode_time: Time,
    ) {
        self.frames += 1;
        self.key_frames += u64::from(key);
        self.qp_sum += u64::from(qindex);
        self.huge_frames += u64::from(size.bits() as f64 >= HUGE * ideal_bits);
        self.encode_time = self.encode_time + encode_time;
    }

    pub(super) fn on_resolution(&mut self, now: Time, reduced: bool) {
        *self = self.at(now);
        self.resolution_changes += 1;
        self.limitation = if reduced { Limitation::Bandwidth } else { Limitation::None };
    }

    /// The same totals with durations up to `now`.
    pub(super) fn at(mut self, now: Time) -> Self {
        let elapsed = now.saturating_sub(self.counted);
        match self.limitation {
            Limitation::None => self.unlimited = self.unlimited + elapsed,
            Limitation::Bandwidth => self.limited = self.limited + elapsed,
        }
        self.counted = self.counted.max(now);
        self
    }
}
