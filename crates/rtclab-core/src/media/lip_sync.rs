//! Synchronisation of audio and video: delays the one that is early.
//!
//! Source: libwebrtc, `video/stream_synchronization.cc`, `video/rtp_streams_synchronizer2.cc`.

/// Differences below this are left alone, in ms.
const MIN_DIFFERENCE_MS: i64 = 30;
/// Largest change in a step, in ms.
const MAX_CHANGE_MS: i64 = 80;
/// Largest delay that is added, in ms; with a larger difference nothing is done.
const MAX_DELAY_MS: i64 = 10_000;
/// Weight of the previous mean in the filter of differences: three of four.
const FILTER: i64 = 4;

/// Delay that a medium gets.
#[derive(Clone, Copy, Debug, Default)]
struct Added {
    extra_ms: i64,
    last_ms: i64,
}

impl Added {
    fn next(&mut self) -> i64 {
        let delay_ms = if self.extra_ms > 0 { self.extra_ms } else { self.last_ms };
        self.last_ms = delay_ms.max(self.extra_ms).min(MAX_DELAY_MS);
        self.last_ms
    }
}

/// Keeps one audio and one video stream together.
#[derive(Debug, Default)]
pub struct LipSync {
    mean_ms: i64,
    audio: Added,
    video: Added,
}

impl LipSync {
    /// Compares the streams, once a second. `behind_ms` is how much longer the latest packet of video took than
    /// the latest packet of audio; the others are the delays of both from arrival to output.
    ///
    /// Returns the least delays of audio and video from now on, in ms; `None` if they stay.
    pub fn update(&mut self, behind_ms: i64, audio_ms: i64, video_ms: i64) -> Option<(i64, i64)> {
        if behind_ms.abs() > MAX_DELAY_MS {
            return None;
        }
        self.mean_ms = ((FILTER - 1) * self.mean_ms + video_ms - audio_ms + behind_ms) / FILTER;
        if self.mean_ms.abs() < MIN_DIFFERENCE_MS {
            return None;
        }
        let change_ms = (self.mean_ms / 2).clamp(-MAX_CHANGE_MS, MAX_CHANGE_MS);
        self.mean_ms = 0;
        // If the late medium has been delayed before, that delay is shortened first.
        let (early, late) = match change_ms > 0 {
            true => (&mut self.audio, &mut self.video),
            false => (&mut self.video, &mut self.audio),
        };
        if late.extra_ms > 0 {
            late.extra_ms -= change_ms.abs();
            early.extra_ms = 0;
        } else {
            early.extra_ms += change_ms.abs();
            late.extra_ms = 0;
        }
        self.video.extra_ms = self.video.extra_ms.max(0);
        Some((self.audio.next(), self.video.next()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The filter starts at 0: a difference of 120 ms gives 30 ms in the first second, and half of it is 15 ms.
    #[test]
    fn audio_that_is_early_is_delayed_by_half_the_difference() {
        let mut sync = LipSync::default();
        assert_eq!(sync.update(0, 40, 159), None);
        assert_eq!(LipSync::default().update(0, 40, 160), Some((15, 0)));
        assert_eq!(LipSync::default().update(0, 160, 40), Some((0, 15)));
        assert_eq!(LipSync::default().update(0, 0, 2_000), Some((80, 0)));
        assert_eq!(LipSync::default().update(10_001, 0, 0), None);
    }

    /// Half of what remains after each step, until less than 30 ms are left. Audio is played `least` ms late.
    #[test]
    fn the_difference_shrinks_below_its_limit_and_stays() {
        let mut sync = LipSync::default();
        let mut least_ms = 40;
        for _ in 0..60 {
            if let Some((audio_ms, _)) = sync.update(0, least_ms, 240) {
                least_ms = audio_ms.max(40);
            }
        }
        assert!((200..=240).contains(&least_ms), "{least_ms}");
    }

    #[test]
    fn a_delay_that_is_no_longer_needed_is_taken_back() {
        let mut sync = LipSync::default();
        sync.update(0, 40, 1_000);
        let (before, _) = sync.update(0, 40, 1_000).expect("a step");
        let mut after = before;
        for _ in 0..10 {
            after = sync.update(0, 300, 40).map_or(after, |(audio_ms, _)| audio_ms);
        }
        assert!(after < before, "{before} {after}");
    }
}
