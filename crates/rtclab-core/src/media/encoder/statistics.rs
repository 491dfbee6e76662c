//! What getStats says about an encoder.

use crate::packet::Kind;
use crate::table::{Cell, Column, NO_TEXT};
use crate::units::{Bytes, Time};

/// A frame counts as huge if it has this many times its share of the rate: libwebrtc, `video_codec.h`,
/// `timing_frame_thresholds` (500 %).
const HUGE: f64 = 5.0;

/// Why pictures are smaller than the camera's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limitation {
    /// They are not.
    None,
    /// Quantiser or dropped frames: too few bits.
    Bandwidth,
    /// Encoding takes too long.
    Cpu,
}

impl Limitation {
    /// All of them, by discriminant.
    pub const ALL: [Limitation; 3] = [Limitation::None, Limitation::Bandwidth, Limitation::Cpu];

    /// Code of the name in the texts of a record, where these names follow the names of packet kinds.
    pub(crate) fn code(self) -> u32 {
        Kind::ALL.len() as u32 + self as u32
    }

    /// Name in getStats (`qualityLimitationReason`).
    pub fn name(self) -> &'static str {
        match self {
            Limitation::None => "none",
            Limitation::Bandwidth => "bandwidth",
            Limitation::Cpu => "cpu",
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

    /// Counts a frame.
    pub(super) fn on_frame(&mut self, qindex: u8, key: bool, size: Bytes, ideal_bits: f64) {
        self.frames += 1;
        self.key_frames += u64::from(key);
        self.qp_sum += u64::from(qindex);
        self.huge_frames += u64::from(size.bits() as f64 >= HUGE * ideal_bits);
    }
}
