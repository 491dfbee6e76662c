//! What a picture costs: bytes by content, quantiser and resolution, as measured on the clip of live calls.
//!
//! A live call's camera plays a clip in a loop, and so does the simulated one. `clip.rs` has the clip's mean
//! cost at each quantiser, and how far each of its pictures is from it. Two encodings of the same picture at
//! the same quantiser still differ, because the reference differs.

use super::clip::{ANCHORS, ClipSize, QINDEX, SIZES};
use super::rate_control::ac_step;
use crate::normal::StandardNormal;
use crate::units::{Bytes, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::sync::LazyLock;

/// Frames per second of the clip's source: faster cameras play it faster, slower ones leave pictures out.
const SOURCE_RATE: f64 = 25.0;
/// Seconds from the beginning of the run to the beginning of the clip: 21 live streams whose frames tell the
/// position to a tenth of a second lay between -0.7 and 1.0 s, most of them in this range.
const CLIP_BEGINS: std::ops::Range<f64> = -0.6..0.3;
/// A finer quantiser than the reference's also codes what the reference lacks: exponent of the ratio of
/// steps. This and the next four are means over encodings of the clip at 33 constant bitrates.
const REFINEMENT: f64 = 1.1;
/// Logarithm of the size with a varying quantiser, relative to a fixed one: mean, standard deviation, and
/// correlation from frame to frame.
const VARYING: f64 = 0.04;
const SPREAD: f64 = 0.12;
const CORRELATION: f64 = 0.32;
/// A frame that follows n - 1 dropped ones costs n to this power times their mean.
const GAP_EXPONENT: f64 = 0.3;
/// More dropped pictures than this no longer make the next frame larger.
const MAX_GAP: u32 = 60;
/// Bytes grow with pixels to this power, between the sizes measured.
const PIXEL_EXPONENT: f64 = 0.75;
/// Codec headers.
const MIN_BYTES: f64 = 30.0;

static LN_STEPS: LazyLock<[f64; 128]> =
    LazyLock::new(|| std::array::from_fn(|qindex| libm::log(ac_step(qindex as u8))));

/// Logarithms of quantiser steps, and of the bytes at each.
type Curve = [(f64, f64); QINDEX.len()];

/// The pictures of the camera, as far as their cost goes.
pub(super) struct CameraContent {
    rng: Pcg64Mcg,
    clip: &'static ClipSize,
    /// Mean bytes of a key frame, and of another frame.
    key: Curve,
    inter: Curve,
    /// Factor for a resolution that was not measured.
    scale: f64,
    /// Pictures of the clip per picture of the camera.
    step: u32,
    position: u32,
    /// Pictures of the camera since the last encoded one.
    gap: u32,
    /// Quantiser index of the last encoded picture, and by how much its size deviated.
    reference: u8,
    deviation: f64,
    /// Bytes at the reference's quantiser, for [`CameraContent::growth`].
    complexity: f64,
}

impl CameraContent {
    /// Starts where the clip is at `start`: browsers open their cameras when the run begins, not quite at the
    /// same moment.
    pub(super) fn new(resolution: (u16, u16), frame_rate: f64, start: Time, seed: u64) -> Self {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let (clip, scale) = closest(resolution);
        let step = (SOURCE_RATE / frame_rate).round().max(1.0) as u32;
        let elapsed = start.as_secs_f64() - rng.random_range(CLIP_BEGINS);
        let pictures = elapsed * frame_rate * f64::from(step);
        let position = pictures.rem_euclid(clip.frames.len() as f64) as u32;
        let (gap, reference, deviation, complexity) = (0, 0, 0.0, 0.0);
        let (key, inter) = (curve(&clip.key), curve(&clip.inter));
        CameraContent {
            rng,
            clip,
            key,
            inter,
            scale,
            step,
            position,
            gap,
            reference,
            deviation,
            complexity,
        }
    }

    /// Encodes in this resolution from now on.
    pub(super) fn set_resolution(&mut self, resolution: (u16, u16)) {
        (self.clip, self.scale) = closest(resolution);
        (self.key, self.inter) = (curve(&self.clip.key), curve(&self.clip.inter));
    }

    /// The camera takes a picture.
    pub(super) fn advance(&mut self) {
        self.position = (self.position + self.step) % self.clip.frames.len() as u32;
        self.gap += 1;
    }

    /// Encodes the picture; returns its size and how many times as complex it is as the one before.
    pub(super) fn encode(&mut self, qindex: u8, key: bool) -> (Bytes, f64) {
        let at = LN_STEPS[usize::from(qindex.min(127))];
        let innovation: f64 = self.rng.sample(StandardNormal);
        let share = (1.0 - CORRELATION * CORRELATION).sqrt();
        self.deviation = CORRELATION * self.deviation + SPREAD * share * innovation;
        let complexity = self.inter(at);
        let growth = if self.complexity > 0.0 { complexity / self.complexity } else { 1.0 };
        let bytes = if key {
            libm::exp(ln_mean(&self.key, at))
        } else {
            let refined = REFINEMENT * (LN_STEPS[usize::from(self.reference.min(127))] - at);
            complexity * libm::exp(VARYING + refined + self.deviation)
        };
        self.complexity = complexity;
        self.reference = qindex;
        self.gap = 0;
        (Bytes((bytes * self.scale).max(MIN_BYTES) as u64), growth)
    }

    /// Bytes of a frame whose reference has the same quantiser.
    fn inter(&self, ln_step: f64) -> f64 {
        let gap = (self.gap.max(1) * self.step).min(MAX_GAP);
        let frames = self.clip.frames;
        let skipped = |back: u32| {
            let position = self.position + frames.len() as u32 - back % frames.len() as u32;
            libm::exp(deviation(&frames[position as usize % frames.len()], ln_step))
        };
        let fixed = libm::exp(ln_mean(&self.inter, ln_step));
        if gap == 1 {
            return fixed * skipped(0);
        }
        let mean = (0..gap).map(skipped).sum::<f64>() / f64::from(gap);
        fixed * mean * libm::pow(f64::from(gap), GAP_EXPONENT)
    }
}

/// The measured size closest in pixels, preferring the same shape, and the factor from its bytes.
fn closest(resolution: (u16, u16)) -> (&'static ClipSize, f64) {
    let pixels = |width: u16, height: u16| f64::from(width) * f64::from(height);
    let wanted = pixels(resolution.0, resolution.1);
    let shape = |width: u16, height: u16| f64::from(width) / f64::from(height);
    let distance = |size: &ClipSize| {
        let larger = pixels(size.width, size.height) / wanted;
        let wider = shape(size.width, size.height) / shape(resolution.0, resolution.1);
        libm::log(larger).abs() + libm::log(wider).abs()
    };
    let best = SIZES.iter().reduce(|a, b| if distance(b) < distance(a) { b } else { a });
    let clip = best.unwrap_or(&SIZES[0]);
    (clip, libm::pow(wanted / pixels(clip.width, clip.height), PIXEL_EXPONENT))
}

fn curve(bytes: &[u32; QINDEX.len()]) -> Curve {
    std::array::from_fn(|i| (LN_STEPS[usize::from(QINDEX[i])], libm::log(f64::from(bytes[i]))))
}

/// Logarithm of the bytes at a logarithm of the step.
fn ln_mean(curve: &Curve, ln_step: f64) -> f64 {
    interpolate(curve.len(), |i| curve[i], ln_step)
}

fn deviation(frame: &[i16; ANCHORS.len()], ln_step: f64) -> f64 {
    let column =
        |i: usize| (LN_STEPS[usize::from(QINDEX[ANCHORS[i]])], f64::from(frame[i]) / 100.0);
    interpolate(ANCHORS.len(), column, ln_step)
}

/// Linear between columns with rising x; constant outside.
fn interpolate(count: usize, column: impl Fn(usize) -> (f64, f64), x: f64) -> f64 {
    let (mut left, first) = column(0);
    let mut value = first;
    for (right, next) in (1..count).map(column) {
        if x <= left {
            return value;
        }
        if x < right {
            return value + (next - value) * (x - left) / (right - left);
        }
        (left, value) = (right, next);
    }
    value
}
