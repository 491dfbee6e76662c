//! Lowers an encoder's target so that frames of varying size fit through a pacer.
//!
//! Based on libwebrtc, `video/encoder_bitrate_adjuster.cc` and `encoder_overshoot_detector.cc`
//! (revision 015b892968, 2024).

use crate::units::{Bitrate, Bytes, Time};
use std::collections::VecDeque;

/// The utilisation is averaged over this time.
const WINDOW: Time = Time::from_secs(3);
/// Number of frames before the utilisation counts as measured.
const MIN_FRAMES: u32 = 30;
/// Utilisation assumed until it is measured: an overshoot of a fifth.
const DEFAULT_UTILISATION: f64 = 1.2;
/// Maximum utilisation: the target is at most halved, because beyond that frames are dropped.
const MAX_UTILISATION: f64 = 2.0;
/// Bits that an encoder has saved may be used later, up to this many frames.
const MAX_UNDERRUN_FRAMES: f64 = 5.0;

/// Bits in a virtual pacer that drains at the target rate, and the sum of the factors by which frames in the
/// window exceed what it drains per frame.
#[derive(Default)]
struct Bucket {
    level: f64,
    sum: f64,
}

impl Bucket {
    /// Adds a frame of `bits`; returns its factor, which is one if the frame fits. A first frame has no others to
    /// be seen with, so its own size counts.
    fn add(&mut self, bits: f64, ideal: f64, first: bool) -> f64 {
        // A single large frame does not count if smaller ones follow.
        let excess = (self.level + bits - ideal).max(0.0);
        let overshoot = if excess > 0.0 { excess.min(self.level) } else { 0.0 };
        self.level += bits - overshoot;
        if first { (bits / ideal).max(1.0) } else { 1.0 + overshoot / ideal }
    }
}

/// Measures how much the frames of an encoder overshoot its target.
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
    /// The rate to request from the encoder when `available` may be sent and at most `wanted` encoded.
    pub(super) fn adjust(&mut self, available: Bitrate, wanted: Bitrate, min: Bitrate) -> Bitrate {
        let (link, media) = self.utilisation();
        let link = link.clamp(1.0, MAX_UTILISATION);
        let target = wanted.0 as f64;
        // If the network has room, frames may vary as long as their mean is right.
        let overshoot = (link - media.max(1.0)).max(0.0) * target;
        let granted = overshoot.min(available.0.saturating_sub(wanted.0) as f64);
        let adjusted = Bitrate(((target + granted) / link) as u64);
        adjusted.max(min).min(wanted)
    }

    /// Sets the rates that the encoder works at from `now` on.
    pub(super) fn set_rate(&mut self, now: Time, target: Bitrate, frame_rate: f64) {
        self.leak(now);
        self.target = target;
        self.frame_rate = frame_rate;
    }

    /// Takes the size of an encoded frame.
    pub(super) fn on_frame(&mut self, now: Time, size: Bytes) {
        self.leak(now);
        let ideal = self.target.0 as f64 / self.frame_rate;
        if ideal <= 0.0 {
            return;
        }
        self.frames += 1;
        let first = self.window.is_empty();
        let link = self.link.add(size.bits() as f64, ideal, first);
        let media = self.media.add(size.bits() as f64, ideal, first);
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

    /// Rate requested after ten seconds of 25 frames a second, each of 4000 bytes times `size` of its index.
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
    fn frames_of_the_ideal_size_leave_the_target_unchanged() {
        assert_eq!(after_frames(TARGET, |_| 1.0), 800_000);
    }

    #[test]
    fn frames_a_tenth_too_large_divide_the_target_by_one_and_a_tenth() {
        let rate = after_frames(TARGET, |_| 1.1);
        assert!((727_000..727_400).contains(&rate), "{rate}"); // 800 / 1.1 = 727.3
    }

    #[test]
    fn large_frames_in_pairs_lower_the_target_although_their_mean_is_right() {
        // Single large frames: 1.2 leaves 0.2 in the pacer, and 0.8 on top of that just fits, so each large
        // frame finds an empty pacer and nothing overshoots. Pairs, 1.2, 1.2, 0.8, 0.8, do not fit: the first
        // leaves 0.2, the second overshoots by 0.2, the first small one by at most 0.2: 1 + 0.2/4.
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
    fn a_first_frame_counts_with_its_size() {
        let rate = |first: u64| {
            let mut detector = OvershootDetector::default();
            for i in 0..30 {
                let now = Time::from_millis(40 * i);
                detector.set_rate(now, TARGET, 25.0);
                detector.on_frame(now, Bytes(if i == 0 { first } else { 0 }));
            }
            detector.adjust(TARGET, TARGET, Bitrate::ZERO).0
        };
        // Of five times the ideal size, four are left when the next frame comes, and three overshoot: factors of 5,
        // 4 and then 1.
        assert_eq!((rate(4_000), rate(20_000)), (800_000, 648_648)); // 800 x 30 / 37
    }

    #[test]
    fn an_unknown_encoder_is_assumed_to_overshoot_by_a_fifth() {
        let mut detector = OvershootDetector::default();
        assert_eq!(detector.adjust(TARGET, TARGET, Bitrate::ZERO).0, 666_666);
    }
}
