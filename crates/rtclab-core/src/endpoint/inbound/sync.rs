//! Synchronisation of the first audio with the first video stream that a peer receives.

use super::audio::InboundAudio;
use super::transit::Transit;
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
pub(in crate::endpoint) const OUTPUT_MS: i64 = 30;

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
        let seen = video.transit.as_ref().and_then(Transit::latest);
        let (Some(heard), Some(seen)) = (audio.transit.latest(), seen) else {
            return;
        };
        let compared = self.compared.replace((heard.0, seen.0));
        if compared.is_some_and(|last| last.0 == heard.0 || last.1 == seen.0) {
            return;
        }
        let video_ms = video.playout.target_delay().as_millis() as i64;
        let Some(audio_ms) = audio.delay_ms(now) else { return };
        if let Some((audio_ms, video_ms)) = self.compare(seen.1 - heard.1, audio_ms, video_ms) {
            let delay = |ms: i64| Time::from_millis(ms.max(0) as u64);
            audio.set_min_delay(now, delay(audio_ms));
            video.playout.set_min_delay(delay(video_ms));
        }
    }

    /// Least delays of audio and video from now on, as [`LipSync::update`] gives them; `audio_ms` ends where audio leaves
    /// its buffer.
    fn compare(&mut self, behind_ms: i64, audio_ms: i64, video_ms: i64) -> Option<(i64, i64)> {
        if self.reports < REPORTS {
            return None;
        }
        self.sync.update(behind_ms, audio_ms + OUTPUT_MS, video_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after_reports(count: u32) -> Synchronizer {
        let mut sync = Synchronizer::default();
        (0..count).for_each(|_| sync.on_audio_report());
        sync
    }

    /// The filter starts at 0, so that a difference of 120 ms counts as 30 ms at first, and half of it is made up.
    #[test]
    fn sound_is_heard_thirty_milliseconds_after_it_left_its_buffer() {
        assert_eq!(after_reports(2).compare(0, 40, 40 + 30 + 120), Some((15, 0)));
        assert_eq!(after_reports(2).compare(0, 40, 40 + 30 + 119), None);
        assert_eq!(after_reports(2).compare(0, 40 + 90, 40), Some((0, 15)));
        assert_eq!(after_reports(2).compare(0, 40 + 89, 40), None);
    }

    #[test]
    fn nothing_is_compared_before_the_second_report_about_audio() {
        for count in [0, 1] {
            let mut sync = after_reports(count);
            assert!((0..100).all(|_| sync.compare(0, 40, 1_000).is_none()), "{count}");
        }
        assert!(after_reports(2).compare(0, 40, 1_000).is_some());
    }
}
