//! When a frame is to be decoded and shown.

use super::extrapolator::Extrapolator;
use super::jitter::JitterEstimator;
use crate::units::{Time, float};

/// libwebrtc, `timing.cc`: time for rendering, in ms.
const RENDER_MS: f64 = 10.0;
/// The same as a time.
const RENDER: Time = Time::from_millis(10);
/// Time to decode a frame, in ms: VP8 of 640x480 on two cores of a server (median of 24 directions of live calls,
/// `totalDecodeTime` over `framesDecoded`; 0.9 ms at 640x360, 1.8 ms at 1280x720).
pub(super) const DECODE_MS: f64 = 1.4;
/// The same as a time.
pub(super) const DECODE: Time = Time::from_micros(1_400);
/// Decoded frames after which the decode time counts (libwebrtc, `decode_time_percentile_filter.cc`).
const DECODE_STARTUP: u32 = 5;
/// Largest delay from capture to display, in ms (libwebrtc, `video_playout_delay.h`).
const MAX_PLAYOUT_MS: f64 = 10_000.0;
/// A display time further from now than this starts the estimates anew, in ms.
const MAX_OFF_MS: f64 = 10_000.0;

/// Display times of frames.
///
/// Source: libwebrtc, `modules/video_coding/timing/timing.cc`, `video_stream_buffer_controller.cc`.
pub(super) struct Timing {
    jitter: JitterEstimator,
    extrapolator: Extrapolator,
    /// Arrival in ms and timestamp of the last frame without requested packets.
    last: Option<(f64, i64)>,
    jitter_ms: f64,
    current_ms: f64,
    pub(super) min_playout_ms: f64,
    decoded: u32,
}

/// A frame that leaves the de-jitter buffer.
pub(super) struct Leaving {
    pub(super) timestamp: i64,
    /// When its last packet arrived.
    pub(super) received: Time,
    pub(super) size: u64,
    /// Whether a packet of it had been requested.
    pub(super) requested: bool,
    /// When it is to be shown.
    pub(super) render: Time,
}

impl Timing {
    pub(super) fn new(start: Time) -> Self {
        Timing {
            jitter: JitterEstimator::default(),
            extrapolator: Extrapolator::new(start),
            last: None,
            jitter_ms: 0.0,
            current_ms: 0.0,
            min_playout_ms: 0.0,
            decoded: 0,
        }
    }

    pub(super) fn on_rtt(&mut self, rtt: Time) {
        self.jitter.rtt.update(ms(rtt));
    }

    /// A frame without requested packets can be decoded as soon as those before it are.
    pub(super) fn on_continuous(&mut self, received: Time, timestamp: i64) {
        self.extrapolator.on_frame(received, timestamp);
    }

    /// A frame leaves for the decoder now.
    pub(super) fn on_leaving(&mut self, now: Time, frame: &Leaving) {
        let mut render_ms = ms(frame.render);
        if (render_ms - ms(now)).abs() > MAX_OFF_MS || self.target_ms() > MAX_OFF_MS {
            self.jitter = JitterEstimator::default();
            self.extrapolator = Extrapolator::new(now);
            (self.jitter_ms, self.current_ms, self.min_playout_ms) = (0.0, 0.0, 0.0);
            render_ms = ms(now);
        }
        if frame.requested {
            self.jitter.on_requested_frame(now);
            return;
        }
        if let Some(variation_ms) = self.variation_ms(frame) {
            self.jitter.on_frame(now, variation_ms, frame.size as f64);
        }
        self.jitter_ms = self.jitter.delay_ms(now);
        if self.current_ms == 0.0 {
            self.current_ms = self.jitter_ms;
        }
        let late_ms = ms(now) - render_ms + self.decode_ms() + RENDER_MS;
        // In whole milliseconds.
        if late_ms > -0.5 {
            self.current_ms = (self.current_ms + late_ms).min(self.target_ms());
        }
    }

    pub(super) fn on_decoded(&mut self) {
        self.decoded = self.decoded.saturating_add(1);
    }

    /// When a frame is to be shown.
    pub(super) fn render_time(&self, now: Time, timestamp: i64) -> Time {
        let Some(arrival) = self.extrapolator.arrival(timestamp) else { return now };
        let delay_ms = self.current_ms.max(self.min_playout_ms).min(MAX_PLAYOUT_MS);
        arrival.saturating_add(Time::from_secs_f64(delay_ms / 1e3))
    }

    /// Time before its display at which a frame must go to the decoder.
    pub(super) fn lead(&self) -> Time {
        if self.knows_decode_time() { RENDER + DECODE } else { RENDER }
    }

    /// Delay that the network alone demands, in ms.
    pub(super) fn jitter_ms(&self) -> f64 {
        self.jitter_ms
    }

    /// Delay from arrival to display that is aimed at, in ms.
    pub(super) fn target_ms(&self) -> f64 {
        self.min_playout_ms.max(self.jitter_ms + self.decode_ms() + RENDER_MS)
    }

    /// The same up to the decoder, in ms.
    pub(super) fn buffer_target_ms(&self) -> f64 {
        (self.target_ms() - self.decode_ms() - RENDER_MS).max(0.0)
    }

    fn decode_ms(&self) -> f64 {
        if self.knows_decode_time() { DECODE_MS } else { 0.0 }
    }

    fn knows_decode_time(&self) -> bool {
        self.decoded > DECODE_STARTUP
    }

    /// How much later the frame came after the last one than it was captured, in ms; `None` if it is older.
    fn variation_ms(&mut self, frame: &Leaving) -> Option<f64> {
        let received_ms = ms(frame.received);
        let Some((last_ms, last_timestamp)) = self.last else {
            self.last = Some((received_ms, frame.timestamp));
            return Some(0.0);
        };
        if frame.timestamp <= last_timestamp {
            return None;
        }
        self.last = Some((received_ms, frame.timestamp));
        Some(received_ms - last_ms - (frame.timestamp - last_timestamp) as f64 / 90.0)
    }
}

pub(super) fn ms(time: Time) -> f64 {
    float(time.0) / 1e6
}
