//! Synchronisation of the first audio with the first video stream that a peer receives.

use super::audio::InboundAudio;
use super::video::InboundVideo;
use crate::media::lip_sync::LipSync;
use crate::units::Time;

/// Interval of comparisons.
const INTERVAL: Time = Time::from_secs(1);
/// Sender reports about audio that the comparison needs, to know when samples were captured (libwebrtc
/// f3ae3eb62e, `rtp_to_ntp_estimator.cc`). Those about video come more often.
const REPORTS: u32 = 2;
/// Time from audio's leaving the buffer to the loudspeaker, in ms, as the browser's sound output reports it.
///
/// Browsers under test have no sound card. Chromium's stand-in claims two buffers, and the controller of the output
/// adds the one that it hands over (Chromium, `media/base/fake_audio_worker.cc` 0e4923935c,
/// `services/audio/output_controller.cc` 021d3a1dba). A buffer is 10 ms: the median interval of playout
/// in the event logs of live calls.
const OUTPUT_MS: i64 = 30;

/// Runs the comparison.
#[derive(Default)]
pub(super) struct Synchronizer {
    sync: LipSync,
    next: Option<Time>,
    /// Sender reports about audio so far.
    reports: u32,
    /// Arrival of the latest packets at the last comparison.
    compared: Option<(Time, Time)>,
}

impl Synchronizer {
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.next
    }

    /// Starts when audio arrives.
    pub(super) fn on_audio(&mut self, now: Time) {
        self.next.get_or_insert(now + INTERVAL);
    }

    /// Counts a sender report about audio.
    pub(super) fn on_audio_report(&mut self) {
        self.reports = self.reports.saturating_add(1);
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
        if self.reports < REPORTS {
            return;
        }
        let (Some(heard), Some(seen)) = (audio.transit.latest(), video.transit.latest()) else {
            return;
        };
        let compared = self.compared.replace((heard.0, seen.0));
        if compared.is_some_and(|last| last.0 == heard.0 || last.1 == seen.0) {
            return;
        }
        let video_ms = video.playout.target_delay().as_millis() as i64;
        let Some(audio_ms) = audio.delay_ms(now) else { return };
        let audio_ms = audio_ms + OUTPUT_MS;
        if let Some((audio_ms, video_ms)) = self.sync.update(seen.1 - heard.1, audio_ms, video_ms) {
            let delay = |ms: i64| Time::from_millis(ms.max(0) as u64);
            audio.set_min_delay(now, delay(audio_ms));
            video.playout.set_min_delay(delay(video_ms));
        }
    }
}
