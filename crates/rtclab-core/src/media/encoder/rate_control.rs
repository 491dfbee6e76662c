//! libvpx's rate control for VP8: which pictures it drops, and the quantiser of the others.
//!
//! One pass, constant bitrate, one layer, real time. The constants are libwebrtc's settings. Bits per
//! macroblock are taken to be inversely proportional to the quantiser's step; a correction factor learns from
//! each frame how far off that is.
//!
//! Sources: libvpx 0cfc6da392, `vp8/encoder/ratectrl.c` and `onyx_if.c`; libwebrtc,
//! `libvpx_vp8_encoder.cc`; quantiser steps: RFC 6386, section 14.1.

use crate::units::{Bitrate, Bytes};

/// Smallest quantiser index: quantiser 2 of 63.
const BEST: u8 = 2;
/// Largest quantiser index: quantiser 56 of 63.
pub(super) const WORST: u8 = 106;
/// Seconds of rate in the buffer at the start, aimed at, and at most.
const BUFFER: (f64, f64, f64) = (0.5, 0.6, 1.0);
/// Share of the buffer aimed at below which pictures may be dropped.
const DROP_MARK: f64 = 0.3;
/// Largest lowering and raising of a frame's target by the buffer, in percent (undershoot 100, overshoot 15).
const UNDERSHOOT: f64 = 100.0;
const OVERSHOOT: f64 = 15.0;
/// A key frame is at most this many mean frames of 30 a second (`MaxIntraTarget`).
const MAX_KEY_FRAMES: f64 = 9.0;
/// Frames from one key frame to the next at the latest.
const KEY_INTERVAL: u32 = 3000;
/// Frames before the quantiser's range depends on its mean.
const FRAMES_TO_LEARN: u32 = 150;
/// Share of an observed error that enters the correction factor.
const LEARNING: f64 = 0.25;
/// Range of the correction factor.
const CORRECTION: (f64, f64) = (0.01, 50.0);
/// Bits per macroblock times quantiser step, for key and for other frames.
const KEY_BITS: f64 = 4_500_000.0 / 512.0;
const INTER_BITS: f64 = 2_850_000.0 / 512.0;
/// Weights of the last key-frame intervals, oldest first.
const INTERVAL_WEIGHTS: [u32; 5] = [1, 2, 3, 4, 5];
/// An eighth of what a key frame takes above the mean frame is charged to the golden frame. It is repaid over this many
/// frames.
const GOLDEN_INTERVAL: f64 = 40.0;

/// Quantiser steps of DC coefficients by quantiser index.
#[rustfmt::skip]
const DC_STEPS: [u8; 128] = [
    4, 5, 6, 7, 8, 9, 10, 10, 11, 12, 13, 14, 15, 16, 17, 17, 18, 19, 20, 20, 21, 21, 22, 22, 23, 23, 24, 25,
    25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 46, 47, 48,
    49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74,
    75, 76, 76, 77, 78, 79, 80, 81, 82, 83, 84, 85, 86, 87, 88, 89, 91, 93, 95, 96, 98, 100, 101, 102, 104,
    106, 108, 110, 112, 114, 116, 118, 122, 124, 126, 128, 130, 132, 134, 136, 138, 140, 143, 145, 148, 151,
    154, 157,
];

/// Quantiser steps of AC coefficients by quantiser index.
#[rustfmt::skip]
const AC_STEPS: [u16; 128] = [
    4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
    32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57,
    58, 60, 62, 64, 66, 68, 70, 72, 74, 76, 78, 80, 82, 84, 86, 88, 90, 92, 94, 96, 98, 100, 102, 104, 106,
    108, 110, 112, 114, 116, 119, 122, 125, 128, 131, 134, 137, 140, 143, 146, 149, 152, 155, 158, 161, 164,
    167, 170, 173, 177, 181, 185, 189, 193, 197, 201, 205, 209, 213, 217, 221, 225, 229, 234, 239, 245, 249,
    254, 259, 264, 269, 274, 279, 284,
];

/// Quantiser step of AC coefficients.
pub(super) fn ac_step(qindex: u8) -> f64 {
    f64::from(AC_STEPS[usize::from(qindex.min(127))])
}

/// What the encoder is to do with a picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Plan {
    /// Quantiser index, 0 to 127.
    pub(super) qindex: u8,
    /// Whether it is a key frame.
    pub(super) key: bool,
    /// Largest quantiser index that the buffer allowed.
    worst: u8,
    /// Bits that the frame should have.
    target: f64,
}

/// The rate control of one encoder instance; a change of resolution makes a new one.
pub(super) struct EncoderRateControl {
    macroblocks: f64,
    /// Bits per second, and frames per second.
    rate: f64,
    frame_rate: f64,
    /// Bits saved up, relative to the target rate.
    buffer: f64,
    /// How many pictures are dropped after each encoded one, and how many of them are still to drop.
    decimation: u32,
    to_drop: u32,
    inter_correction: f64,
    key_correction: f64,
    /// Bits of key frames that are still to be repaid, and how many each frame repays; the same for the share
    /// that is repaid as a golden frame's.
    key_debt: (f64, f64),
    golden_debt: (f64, f64),
    key_intervals: [u32; 5],
    frames_since_key: u32,
    keys: u32,
    pictures: u32,
    /// Mean quantiser index of all frames that are no key frames: their number, sum and the damped mean.
    inter_frames: u32,
    inter_qindex_sum: u32,
    mean_qindex: u8,
    /// Quantiser index averaged over the last few frames.
    recent_qindex: u8,
    /// The next frame gets the largest quantiser.
    force_worst: bool,
    since_overshoot: f64,
}

impl EncoderRateControl {
    /// Creates the rate control for pictures of this width and height.
    pub(super) fn new(width: u16, height: u16, rate: Bitrate, frame_rate: f64) -> Self {
        let blocks = |pixels: u16| f64::from(pixels.div_ceil(16));
        EncoderRateControl {
            macroblocks: blocks(width) * blocks(height),
            rate: rate.0 as f64,
            frame_rate,
            buffer: BUFFER.0 * rate.0 as f64,
            decimation: 0,
            to_drop: 0,
            inter_correction: 1.0,
            key_correction: 1.0,
            key_debt: (0.0, 0.0),
            golden_debt: (0.0, 0.0),
            key_intervals: [0; 5],
            frames_since_key: 0,
            keys: 0,
            pictures: 0,
            inter_frames: 0,
            inter_qindex_sum: 0,
            mean_qindex: WORST,
            recent_qindex: WORST,
            force_worst: false,
            since_overshoot: 0.0,
        }
    }

    /// Sets the rate and the frame rate from the next picture on.
    pub(super) fn set_rate(&mut self, rate: Bitrate, frame_rate: f64) {
        // libwebrtc hands over whole kilobits.
        self.rate = (rate.0 / 1000 * 1000).max(1000) as f64;
        self.frame_rate = frame_rate;
        self.buffer = self.buffer.min(self.max_buffer());
    }

    /// What to do with the next picture; `None` drops it. With `must_encode` it is not dropped.
    pub(super) fn plan(&mut self, key_wanted: bool, must_encode: bool) -> Option<Plan> {
        let first = self.pictures == 0;
        let key = first || key_wanted || self.frames_since_key >= KEY_INTERVAL;
        let mean = self.mean_frame();
        let per_frame = mean * self.decimate(key);
        if !key && self.to_drop > 0 && !must_encode {
            self.to_drop -= 1;
            self.drop_picture();
            return None;
        }
        self.to_drop = self.decimation;
        if !key && self.buffer < 0.0 && !must_encode {
            self.drop_picture();
            return None;
        }
        let target = if key {
            self.key_target(first, key_wanted, per_frame)
        } else {
            self.inter_target(per_frame)
        };
        if std::mem::take(&mut self.force_worst) {
            return Some(Plan { qindex: WORST, key, worst: WORST, target });
        }
        let (best, worst) = self.range(key);
        Some(Plan { qindex: self.quantiser(key, best, worst, target), key, worst, target })
    }

    /// Takes the size of an encoded picture and how many times as complex it was as the one before. Returns
    /// false if it is thrown away because it is far too large.
    pub(super) fn accept(&mut self, plan: &Plan, size: Bytes, growth: f64) -> bool {
        let bits = size.bits() as f64;
        self.pictures += 1;
        if !plan.key && self.overshoots(plan, bits, growth) {
            self.frames_since_key += 1;
            return false;
        }
        self.since_overshoot += 1.0;
        let at_limit = plan.qindex == plan.worst && plan.worst < WORST;
        if !(at_limit && bits > self.overshoot_limit(plan)) {
            self.learn(plan, bits);
        }
        if plan.key {
            self.count_key(bits);
        } else {
            self.count_inter(plan.qindex);
        }
        self.frames_since_key += 1;
        self.fill(self.mean_frame() - bits);
        true
    }

    fn mean_frame(&self) -> f64 {
        self.rate / self.frame_rate
    }

    fn wanted_buffer(&self) -> f64 {
        BUFFER.1 * self.rate
    }

    fn max_buffer(&self) -> f64 {
        BUFFER.2 * self.rate
    }

    fn fill(&mut self, bits: f64) {
        self.buffer = (self.buffer + bits).min(self.max_buffer());
    }

    fn drop_picture(&mut self) {
        self.fill(self.mean_frame());
        self.pictures += 1;
        self.frames_since_key += 1;
    }

    /// Adapts the decimation to the buffer; returns by what it raises the bits of the remaining frames.
    fn decimate(&mut self, key: bool) -> f64 {
        let mark = DROP_MARK * self.wanted_buffer();
        if self.buffer > mark {
            self.decimation = self.decimation.saturating_sub(1);
        }
        self.decimation = match self.decimation {
            1.. if self.buffer > mark * 2.0 / 3.0 => 1,
            2.. if self.buffer < mark / 8.0 => 3,
            1 | 2 if self.buffer < mark / 4.0 => 2,
            0 if self.buffer < mark * 2.0 / 3.0 => 1,
            unchanged => unchanged,
        };
        if self.decimation == 0 || key {
            self.to_drop = 0;
        }
        match self.decimation {
            0 => 1.0,
            1 => 1.5,
            _ => 1.25,
        }
    }

    fn key_target(&self, first: bool, requested: bool, per_frame: f64) -> f64 {
        let target = if first {
            (BUFFER.0 * self.rate / 2.0).min(1.5 * self.rate)
        } else {
            let qindex = if requested { self.recent_qindex } else { self.mean_qindex };
            let half_second = self.frame_rate / 2.0;
            let since = f64::from(self.frames_since_key);
            let boost = (2.0 * self.frame_rate - 16.0).max(32.0) * key_boost(qindex);
            (1.0 + (boost * (since / half_second).min(1.0)).max(16.0) / 16.0) * per_frame
        };
        target.min(MAX_KEY_FRAMES * per_frame * self.frame_rate / 30.0)
    }

    fn inter_target(&mut self, per_frame: f64) -> f64 {
        let least = per_frame / 4.0;
        let mut target = per_frame;
        for debt in [&mut self.key_debt, &mut self.golden_debt] {
            let paid = debt.1.min(debt.0).min(target - least).max(0.0);
            debt.0 -= paid;
            target -= paid;
        }
        let one_percent = 1.0 + self.wanted_buffer() / 100.0;
        let percent = (self.buffer - self.wanted_buffer()) / one_percent;
        target * (1.0 + percent.clamp(-UNDERSHOOT, OVERSHOOT) / 200.0)
    }

    /// Smallest and largest quantiser index that the buffer allows.
    fn range(&self, key: bool) -> (u8, u8) {
        let (wanted, max) = (self.wanted_buffer(), self.max_buffer());
        let learned = self.inter_frames > FRAMES_TO_LEARN;
        let mut worst = f64::from(WORST);
        if learned && !key {
            let mean = f64::from(self.mean_qindex);
            let above = (self.buffer - wanted / 4.0) / (wanted * 0.75);
            worst -= (worst - mean) * above.clamp(0.0, 1.0);
        }
        let surplus = ((self.buffer - wanted) / (max - wanted)).clamp(0.0, 1.0);
        worst -= worst / 4.0 * surplus;
        let mut best = f64::from(BEST);
        if learned {
            let allowed =
                if key { worst * worst / 562.0 } else { worst * (0.565 + 0.0018 * worst) };
            best += (allowed - best).max(0.0) * (1.0 - surplus);
        }
        (best as u8, worst.max(best) as u8)
    }

    fn quantiser(&self, key: bool, best: u8, worst: u8, target: f64) -> u8 {
        // The first quantiser that meets the target; a larger one never makes a larger frame.
        let (mut first, mut behind) = (best, worst + 1);
        while first < behind {
            let middle = first + (behind - first) / 2;
            match self.expected(key, middle) - target <= 0.0 {
                true => behind = middle,
                false => first = middle + 1,
            }
        }
        if first > worst {
            return worst;
        }
        let excess = self.expected(key, first) - target;
        let is_closer = first == best || -excess <= self.expected(key, first - 1) - target;
        if is_closer { first } else { first - 1 }
    }

    /// Bits that a frame is expected to have.
    fn expected(&self, key: bool, qindex: u8) -> f64 {
        let per_macroblock = if key {
            self.key_correction * KEY_BITS / f64::from(DC_STEPS[usize::from(qindex)])
        } else {
            self.inter_correction * INTER_BITS / ac_step(qindex)
        };
        per_macroblock * self.macroblocks
    }

    fn learn(&mut self, plan: &Plan, bits: f64) {
        let ratio = bits / self.expected(plan.key, plan.qindex).max(1.0);
        if (0.99..=1.02).contains(&ratio) {
            return;
        }
        let correction =
            if plan.key { &mut self.key_correction } else { &mut self.inter_correction };
        let corrected = *correction * (1.0 + LEARNING * (ratio - 1.0));
        *correction = corrected.clamp(CORRECTION.0, CORRECTION.1);
    }

    /// A much larger frame than its limit teaches nothing while the buffer, not the quantiser, is the limit.
    fn overshoot_limit(&self, plan: &Plan) -> f64 {
        let (wanted, max) = (self.wanted_buffer(), self.max_buffer());
        let eighths = if plan.key {
            9.0
        } else if self.buffer >= (wanted + max) / 2.0 {
            12.0
        } else if self.buffer <= wanted / 2.0 {
            10.0
        } else {
            11.0
        };
        plan.target * eighths / 8.0 + 200.0
    }

    /// A sudden change after very simple pictures: the frame is dropped and the next gets the largest
    /// quantiser.
    fn overshoots(&mut self, plan: &Plan, bits: f64, growth: f64) -> bool {
        let simple = self.inter_correction < 8.0 * CORRECTION.0;
        let rare = self.since_overshoot > self.frame_rate;
        let fine = plan.qindex < WORST / 4 * 3;
        let mean = self.mean_frame();
        if !(simple && rare && fine && growth > 2.0 && bits > 2.0 * mean) {
            return false;
        }
        self.since_overshoot = 0.0;
        self.force_worst = true;
        self.buffer = self.wanted_buffer();
        let wanted = mean / (INTER_BITS / ac_step(WORST) * self.macroblocks);
        let raised = wanted.min(2.0 * self.inter_correction).min(CORRECTION.1);
        self.inter_correction = self.inter_correction.max(raised);
        true
    }

    fn count_key(&mut self, bits: f64) {
        let excess = bits - self.mean_frame();
        self.keys += 1;
        if excess > 0.0 {
            self.key_debt.0 += excess * 7.0 / 8.0;
            self.golden_debt.0 += excess / 8.0;
            self.key_debt.1 = self.key_debt.0 / self.expected_interval();
            self.golden_debt.1 = self.golden_debt.0 / GOLDEN_INTERVAL;
        }
        self.frames_since_key = 0;
    }

    fn expected_interval(&mut self) -> f64 {
        if self.keys == 1 {
            let two_seconds = 1 + 2 * self.frame_rate as u32;
            self.key_intervals[4] = two_seconds;
            return f64::from(two_seconds);
        }
        self.key_intervals.rotate_left(1);
        self.key_intervals[4] = self.frames_since_key.max(1);
        let weighted = self.key_intervals.iter().zip(INTERVAL_WEIGHTS);
        let sum: u32 = weighted.map(|(interval, weight)| interval * weight).sum();
        f64::from((sum / INTERVAL_WEIGHTS.iter().sum::<u32>()).max(1))
    }

    fn count_inter(&mut self, qindex: u8) {
        let recent = 2 + 3 * u16::from(self.recent_qindex) + u16::from(qindex);
        self.recent_qindex = (recent / 4) as u8;
        self.inter_frames += 1;
        self.inter_qindex_sum += u32::from(qindex);
        let mean = (self.inter_qindex_sum / self.inter_frames) as u8;
        let damped =
            if self.inter_frames > FRAMES_TO_LEARN { mean } else { (mean + WORST).div_ceil(2) };
        self.mean_qindex = if qindex > damped { qindex - 1 } else { damped };
    }
}

/// By what the boost of a key frame grows with the quantiser: 1.28 to 2.2.
fn key_boost(qindex: u8) -> f64 {
    let qindex = f64::from(qindex);
    (1.28 + qindex / 100.0).min(2.0 + (qindex - 72.0).max(0.0) / 200.0).min(2.2)
}
