//! Cases of libwebrtc's unit tests, and trajectories in a closed loop.

mod cases;
mod links;

use super::*;
use crate::cc::closed_loop::{Link, Loop, Marker};

/// A control whose target is between 0 and `max` kbit/s. The streams can use 1 Mbit/s.
fn control(start: u64, max: Option<u64>) -> ScreamV2 {
    let kbps = Bitrate::from_kbps;
    let bounds = RateBounds {
        start: kbps(start),
        min: Bitrate::ZERO,
        max: kbps(1_000),
        audio: Bitrate::ZERO,
        has_video: true,
    };
    let mut control = ScreamV2::new(bounds, ScreamConfig::default());
    control.max = max.map_or(f64::INFINITY, |max| bps(kbps(max)));
    control.scream.limits.max = control.max;
    control
}
