//! Synchronisation of the first audio with the first video stream that a peer receives.

use super::audio::InboundAudio;
use super::video::InboundVideo;
use crate::media::lip_sync::LipSync;
use crate::units::Time;

/// Interval of comparisons.
const INTERVAL: Time = Time::from_secs(1);
/// Time of audio until the second sender report about it, which the comparison needs: the first after 2.5 s,
/// the next after 5 s on average (libwebrtc, `rtcp_sender.cc`).
const FIRST: Time = Time::from_millis(7_500);

/// Runs the comparison.
#[derive(Default)]
pub(super) struct Synchronizer {
    sync: LipSync,
    next: Option<Time>,
    /// Arrival of the latest packets at the last comparison.
    compared: Option<(Time, Time)>,
}

impl Synchronizer {
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.next
    }

    /// Starts when audio arrives.
    pub(super) fn on_audio(&mut self, now: Time) {
        self.next.get_or_insert(now + FIRST);
    }

    /// Compares the streams if it is time and both have sent since the last time.
    pub(super) fn handle_timeout(
        &mut self,
        now: Time,
        audio: &mut InboundAudio,
        video: &mut InboundVideo,
    ) {
        let Some(due) = self.next.filter(|due| *due <= now) else { return };
        self.next = Some(due + INTERVAL);
        let (Some(heard), Some(seen)) = (audio.transit.latest(), video.transit.latest()) else {
            return;
        };
        let compared = self.compared.replace((heard.0, seen.0));
        if compared.is_some_and(|last| last.0 == heard.0 || last.1 == seen.0) {
            return;
        }
        let video_ms = video.playout.target_delay().as_millis() as i64;
        let Some(audio_ms) = audio.delay_ms(now) else { return };
        if let Some((audio_ms, video_ms)) = self.sync.update(seen.1 - heard.1, audio_ms, video_ms) {
            let delay = |ms: i64| Time::from_millis(ms.max(0) as u64);
            audio.set_min_delay(now, delay(audio_ms));
            video.playout.set_min_delay(delay(video_ms));
        }
    }
}
