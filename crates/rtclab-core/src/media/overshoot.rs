//! Takes from an encoder's target what its frames vary, so that they fit through a pacer.
//!
//! After libwebrtc, `video/encoder_bitrate_adjuster.cc` and `encoder_overshoot_detector.cc`
//! (revision 015b892968, 2024).

use crate::units::{Bitrate, Bytes, Time};
use std::collections::VecDeque;

/// Frames are judged over this time …
const WINDOW: Time = Time::from_secs(3);
/// … and from this many on; until then the encoder is believed to overshoot by a fifth.
const MIN_FRAMES: u32 = 30;
const DEFAULT_UTILISATION: f64 = 1.2;
/// The target is never more than halved: beyond that frames are dropped.
const MAX_UTILISATION: f64 = 2.0;
/// What an encoder has saved may be used later, up to this many frames.
const MAX_UNDERRUN_FRAMES: f64 = 5.0;

/// Bits in a virtual pacer that empties at the target rate, and the mean factor by which frames exceed
/// what it takes in one frame's time.
#[derive(Default)]
struct Bucket {
    level: f64,
    sum: f64,
}

impl Bucket {
    /// Adds a frame of `bits`; returns its factor, which is one if the frame fits.
    fn add(&mut self, bits: f64, ideal: f64) -> f64 {
        // A single large frame is not held against the encoder if smaller ones follow.
        let excess = (self.level + bits - ideal).max(0.0);
        let overshoot = if excess > 0.0 { excess.min(self.level) } else { 0.0 };
        self.level += bits - overshoot;
        1.0 + overshoot / ideal
    }
}

/// Judges an encoder by the sizes of its frames.
#[derive(Default)]
pub(super) struct OvershootDetector {
    target: Bitrate,
    frame_rate: f64,
    last: Time,
    frames: u32,
    link: Bucket,
    media: Bucket,
    window: VecDeque<(Time, f64, f64)>,
}

impl OvershootDetector {
    /// The rate to ask of the encoder when `available` may be sent and `wanted` (not more) be encoded.
    pub(super) fn adjust(&mut self, available: Bitrate, wanted: Bitrate, min: Bitrate) -> Bitrate {
        let (link, media) = self.utilisation();
        let link = link.clamp(1.0, MAX_UTILISATION);
        let target = wanted.0 as f64;
        // Where the network has room, frames may vary as long as the mean is kept.
        let overshoot = (link - media.max(1.0)).max(0.0) * target;
        let granted = overshoot.min(available.0.saturating_sub(wanted.0) as f64);
        let adjusted = Bitrate(((target + granted) / link) as u64);
        adjusted.max(min).min(wanted)
    }

    /// The encoder works at `target` and `frame_rate` from now on.
    pub(super) fn set_rate(&mut self, now: Time, target: Bitrate, frame_rate: f64) {
        self.leak(now);
        self.target = target;
        self.frame_rate = frame_rate;
    }

    /// A frame was encoded.
    pub(super) fn on_frame(&mut self, now: Time, size: Bytes) {
        self.leak(now);
        let ideal = self.target.0 as f64 / self.frame_rate;
        if ideal <= 0.0 {
            return;
        }
        self.frames += 1;
        let link = self.link.add(size.bits() as f64, ideal);
        let media = self.media.add(size.bits() as f64, ideal);
        self.link.sum += link;
        self.media.sum += media;
        self.window.push_back((now, link, media));
        while self.window.front().is_some_and(|frame| frame.0 + WINDOW < now) {
            if let Some((_, link, media)) = self.window.pop_front() {
                self.link.sum -= link;
                self.media.sum -= media;
            }
        }
    }

    fn utilisation(&self) -> (f64, f64) {
        if self.frames < MIN_FRAMES || self.window.is_empty() {
            return (DEFAULT_UTILISATION, DEFAULT_UTILISATION);
        }
        let frames = self.window.len() as f64;
        (self.link.sum / frames, self.media.sum / frames)
    }

    fn leak(&mut self, now: Time) {
        let bits = self.target.0 as f64 * now.saturating_sub(self.last).as_secs_f64();
        self.last = now;
        self.link.level = (self.link.level - bits).max(0.0);
        let underrun = MAX_UNDERRUN_FRAMES.min(self.frame_rate) / self.frame_rate.max(1.0);
        self.media.level = (self.media.level - bits).max(-underrun * self.target.0 as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Bitrate = Bitrate(800_000);

    /// The rate asked for after ten seconds of 25 frames a second, of 4000 bytes times what `size` says.
    fn after_frames(available: Bitrate, size: impl Fn(u64) -> f64) -> u64 {
        let mut detector = OvershootDetector::default();
        for i in 0..250 {
            let now = Time::from_millis(40 * i);
            detector.set_rate(now, TARGET, 25.0);
            detector.on_frame(now, Bytes((4_000.0 * size(i)) as u64));
        }
        detector.adjust(available, TARGET, Bitrate::from_kbps(30)).0
    }

    #[test]
    fn frames_of_the_ideal_size_leave_the_target_as_it_is() {
        assert_eq!(after_frames(TARGET, |_| 1.0), 800_000);
    }

    #[test]
    fn frames_a_tenth_too_large_take_a_tenth_from_the_target() {
        let rate = after_frames(TARGET, |_| 1.1);
        assert!((727_000..727_400).contains(&rate), "{rate}"); // 800 / 1.1 = 727.3
    }

    #[test]
    fn frames_that_vary_by_a_fifth_around_the_ideal_take_something_though_their_mean_is_right() {
        // 1.2 leaves 0.2 in the pacer; 0.8 on top of it just fits; so one frame in two is clean and the
        // large one finds an empty pacer: nothing. Pairs of large ones do not fit: 1.2, 1.2, 0.8, 0.8
        // leaves 0.2, then 0.2 of overshoot, 0.2 again at the first small one at most: 1 + 0.2/4.
        assert_eq!(after_frames(TARGET, |i| if i % 2 == 0 { 1.2 } else { 0.8 }), 800_000);
        let rate = after_frames(TARGET, |i| if i % 4 < 2 { 1.2 } else { 0.8 });
        assert!((757_000..767_000).contains(&rate), "{rate}"); // 800 / 1.05 = 761.9
    }

    #[test]
    fn with_room_on_the_network_varying_frames_keep_their_target() {
        let rate = after_frames(Bitrate(1_000_000), |i| if i % 4 < 2 { 1.2 } else { 0.8 });
        assert!((790_000..=800_000).contains(&rate), "{rate}");
    }

    #[test]
    fn an_unknown_encoder_is_believed_to_overshoot_by_a_fifth() {
        let mut detector = OvershootDetector::default();
        assert_eq!(detector.adjust(TARGET, TARGET, Bitrate::ZERO).0, 666_666);
    }
}
