//! Recognises key frames, and limits how often a publisher is asked for one.

use std::time::{Duration, Instant};
use str0m::format::{
    Codec, detect_av1_keyframe, detect_h264_keyframe, detect_vp8_keyframe, detect_vp9_keyframe,
};

/// Least time between two requests for a key frame of a stream. A key frame is several times as large as
/// other frames, so a publisher must not send them as often as subscribers ask for them.
const MIN_INTERVAL: Duration = Duration::from_millis(500);

const VP9_START_OF_FRAME: u8 = 0x08;
const H264_TYPE_MASK: u8 = 0x1f;
const H264_SEQUENCE_PARAMETERS: u8 = 7;
const H264_AGGREGATION: u8 = 24;

/// Whether an RTP payload is the first of a key frame (RFC 7741, RFC 9628, RFC 6184, AV1 RTP 1.0).
///
/// The key frame of H.264 begins with its parameter sets, which a decoder needs.
pub(crate) fn starts_keyframe(codec: Codec, payload: &[u8]) -> bool {
    match codec {
        Codec::Vp8 => detect_vp8_keyframe(payload),
        Codec::Vp9 => {
            detect_vp9_keyframe(payload)
                && payload.first().is_some_and(|byte| byte & VP9_START_OF_FRAME != 0)
        }
        Codec::H264 => h264_parameters(payload) || detect_h264_keyframe(payload),
        Codec::Av1 => detect_av1_keyframe(payload),
        _ => false,
    }
}

fn h264_parameters(payload: &[u8]) -> bool {
    let unit = |at: usize| payload.get(at).map(|byte| byte & H264_TYPE_MASK);
    match unit(0) {
        Some(H264_SEQUENCE_PARAMETERS) => true,
        // The first unit of an aggregation packet follows a type and a length of two bytes.
        Some(H264_AGGREGATION) => unit(3) == Some(H264_SEQUENCE_PARAMETERS),
        _ => false,
    }
}

/// Requests for key frames of one stream.
#[derive(Debug, Default)]
pub(crate) struct KeyframeRequests {
    /// When the publisher is to be asked, if somebody needs a key frame.
    due: Option<Instant>,
    asked_at: Option<Instant>,
}

impl KeyframeRequests {
    /// Somebody needs a key frame.
    pub(crate) fn want(&mut self, now: Instant) {
        let earliest = self.asked_at.map_or(now, |asked| now.max(asked + MIN_INTERVAL));
        self.due.get_or_insert(earliest);
    }

    /// A key frame came.
    pub(crate) fn arrived(&mut self) {
        self.due = None;
    }

    /// When [`KeyframeRequests::poll`] must be called.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }

    /// Whether the publisher is to be asked now. If so, it counts as asked.
    pub(crate) fn poll(&mut self, now: Instant) -> bool {
        let asks = self.due.is_some_and(|due| due <= now);
        if asks {
            self.due = None;
            self.asked_at = Some(now);
        }
        asks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_wishes_become_two_requests_a_second() {
        let start = Instant::now();
        let mut requests = KeyframeRequests::default();
        let asked = (0..1000).filter(|&ms| {
            let now = start + Duration::from_millis(ms);
            requests.want(now);
            requests.poll(now)
        });
        assert_eq!(asked.collect::<Vec<_>>(), [0, 500]);
    }

    #[test]
    fn a_key_frame_fulfils_the_wishes_before_it() {
        let (mut requests, now) = (KeyframeRequests::default(), Instant::now());
        requests.want(now);
        assert_eq!(requests.poll_timeout(), Some(now));
        requests.arrived();
        assert_eq!(requests.poll_timeout(), None);
        assert!(!requests.poll(now));
    }

    #[test]
    fn the_first_packet_of_a_key_frame_is_recognised_in_each_codec() {
        let vp8 = |payload: &[u8]| starts_keyframe(Codec::Vp8, payload);
        assert!(vp8(&[0x10, 0x00]));
        assert!(!vp8(&[0x10, 0x01]), "an inter frame");
        assert!(!vp8(&[0x00, 0x00]), "a later packet of the frame");
        let vp9 = |payload: &[u8]| starts_keyframe(Codec::Vp9, payload);
        assert!(vp9(&[0x08]));
        assert!(!vp9(&[0x48]), "an inter frame");
        assert!(!vp9(&[0x00]), "a later packet of the frame");
        let h264 = |payload: &[u8]| starts_keyframe(Codec::H264, payload);
        assert!(h264(&[0x78, 0, 2, 0x67, 0, 0, 2, 0x68, 0]));
        assert!(h264(&[0x67]));
        assert!(h264(&[0x65]));
        assert!(!h264(&[0x61]), "an inter frame");
        assert!(starts_keyframe(Codec::Av1, &[0x08]));
        assert!(!starts_keyframe(Codec::Av1, &[0x00]));
        assert!(!starts_keyframe(Codec::Opus, &[0x08]));
    }
}
