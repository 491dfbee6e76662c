//! What getStats says about an encoder.

use crate::packet::Kind;
use crate::table::{Cell, Column, NO_TEXT};
use crate::units::{Bytes, Time};

/// A frame counts as huge if it has this many times its share of the rate: libwebrtc, `video_codec.h`,
/// `timing_frame_thresholds` (500 %).
const HUGE: f64 = 5.0;

/// Milliseconds that encoding takes: regression over 4281 seconds of live calls, two cores of a virtual
/// machine that also ran the other browser. The standard deviation of a second's mean from it is 0.8 ms.
const ENCODE_MS: f64 = 0.5;
const ENCODE_MS_PER_MEGAPIXEL: f64 = 10.2;
const ENCODE_MS_PER_KILOBYTE: f64 = 0.23;

/// Why pictures are smaller than the camera's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limitation {
    /// They are not.
    None,
    /// Quantiser or dropped frames: too few bits.
    Bandwidth,
}

impl Limitation {
    /// All of them, by discriminant.
    pub const ALL: [Limitation; 2] = [Limitation::None, Limitation::Bandwidth];

    /// Code of the name in the texts of a record, where these names follow the names of packet kinds.
    pub(crate) fn code(self) -> u32 {
        Kind::ALL.len() as u32 + self as u32
    }

    /// Name in getStats (`qualityLimitationReason`).
    pub fn name(self) -> &'static str {
        match self {
            Limitation::None => "none",
            Limitation::Bandwidth => "bandwidth",
        }
    }
}

impl Cell for Option<Limitation> {
    type Stored = u32;
    fn store(self) -> u32 {
        self.map_or(NO_TEXT, Limitation::code)
    }
    fn column(values: Vec<u32>) -> Column {
        Column::Text(values)
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
}

impl EncoderStatistics {
    pub(super) fn new() -> Self {
        EncoderStatistics {
            frames: 0,
            key_frames: 0,
            qp_sum: 0,
            huge_frames: 0,
            encode_time: Time::ZERO,
            limitation: Limitation::None,
        }
    }

    /// Counts a frame; returns how long encoding it took.
    pub(super) fn on_frame(
        &mut self,
        qindex: u8,
        key: bool,
        size: Bytes,
        ideal_bits: f64,
        pixels: u32,
    ) -> Time {
        self.frames += 1;
        self.key_frames += u64::from(key);
        self.qp_sum += u64::from(qindex);
        self.huge_frames += u64::from(size.bits() as f64 >= HUGE * ideal_bits);
        let millis = ENCODE_MS
            + ENCODE_MS_PER_MEGAPIXEL * f64::from(pixels) / 1e6
            + ENCODE_MS_PER_KILOBYTE * size.0 as f64 / 1e3;
        let time = Time::from_secs_f64(millis / 1e3);
        self.encode_time += time;
        time
    }

    pub(super) fn on_resolution(&mut self, reduced: bool) {
        self.limitation = if reduced { Limitation::Bandwidth } else { Limitation::None };
    }
}
