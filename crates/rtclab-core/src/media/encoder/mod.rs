//! Camera and encoder: which pictures are captured, and how large they are when encoded.

mod camera;
mod chromium;
mod clip;
mod ladder;
mod overuse;
mod picture;
mod quality_scaler;
mod rate_control;
mod rfc8593;
mod statistics;
#[cfg(test)]
mod tests;

pub use statistics::{EncoderStatistics, Limitation};

use super::codec::Codec;
use super::overshoot::OvershootDetector;
use crate::limits::{self, Checked};
use crate::units::{Bitrate, Bytes, Time};
use chromium::ChromiumEncoder;
use rfc8593::SyntheticEncoder;
use serde::{Deserialize, Serialize};

/// A camera and the bounds of its encoder.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VideoConfig {
    /// Full width in pixels.
    pub width: u16,
    /// Full height in pixels.
    pub height: u16,
    /// Frames per second.
    pub frame_rate: f64,
    /// Which encoder.
    #[serde(default)]
    pub codec: Codec,
    /// Minimum average rate of the encoder.
    pub min_bps: Bitrate,
    /// Maximum average rate of the encoder.
    pub max_bps: Bitrate,
    /// Start rate of the congestion control.
    pub start_bps: Bitrate,
    /// Whether pictures come at regular intervals, as from a file, not at the random ones of RFC 8593.
    #[serde(default)]
    pub steady: bool,
}

/// Largest width and height (VP8, RFC 6386, section 9.1).
const LARGEST_SIDE: u16 = 16_383;
/// Lowest and highest frame rate of a camera.
const FRAME_RATES: (f64, f64) = (0.1, 240.0);

impl VideoConfig {
    pub(crate) fn check(&self) -> Checked {
        for (name, side) in [("width", self.width), ("height", self.height)] {
            let expected = format!("1 to {LARGEST_SIDE}");
            limits::require((1..=LARGEST_SIDE).contains(&side), name, side, expected)?;
        }
        limits::number("frame_rate", self.frame_rate, FRAME_RATES)?;
        let (min, start, max) = (self.min_bps, self.start_bps, self.max_bps);
        limits::rate("max_bps", max)?;
        for (name, rate) in [("min_bps", min), ("start_bps", start)] {
            let in_order = min <= rate && rate <= max;
            let (value, expected) =
                (format!("{} bit/s", rate.0), format!("{} to {}", min.0, max.0));
            limits::require(in_order, name, value, expected)?;
        }
        Ok(())
    }
}

/// One encoded picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frame {
    /// Capture time.
    pub captured: Time,
    /// Encoded size.
    pub size: Bytes,
    /// Whether it is a key frame.
    pub key: bool,
    /// Width and height.
    pub resolution: (u16, u16),
    /// How long encoding takes on a processor that keeps up with the camera.
    pub encode_time: Time,
}

/// The highest rate at which a browser sends pictures of this size if the page does not set one (libwebrtc,
/// GetMaxDefaultVideoBitrateKbps).
fn browser_max((width, height): (u16, u16)) -> Bitrate {
    Bitrate::from_kbps(match u32::from(width) * u32::from(height) {
        0..=76_800 => 600,
        76_801..=307_200 => 1_700,
        307_201..=518_400 => 2_000,
        _ => 2_500,
    })
}

/// Which rate is requested from an encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncoderControl {
    /// All that may be sent (libwebrtc until 2019).
    AsksForAll,
    /// What may be sent, reduced to allow for varying frame sizes (libwebrtc since 2019).
    LeavesRoom,
}

impl EncoderControl {
    fn overshoot(self) -> Option<OvershootDetector> {
        (self == EncoderControl::LeavesRoom).then(OvershootDetector::default)
    }
}

/// How the encoder of a browser is modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncoderModel {
    /// Frame sizes of RFC 8593; the resolution follows from the bits per pixel.
    Rfc8593,
    /// VP8 as libvpx and libwebrtc run it: buffer, quantiser, dropped frames and quality scaler. Other codecs
    /// as in [`EncoderModel::Rfc8593`].
    Libvpx,
}

enum Inner {
    Synthetic(Box<SyntheticEncoder>),
    Chromium(Box<ChromiumEncoder>),
}

/// A camera and its encoder.
pub struct Encoder(Inner);

/// Calls a method of whichever encoder it is.
macro_rules! each {
    ($encoder:expr, $inner:ident => $call:expr) => {
        match $encoder {
            Inner::Synthetic($inner) => $call,
            Inner::Chromium($inner) => $call,
        }
    };
}

impl Encoder {
    /// Creates a camera that starts at `start`.
    pub fn new(
        model: EncoderModel,
        config: VideoConfig,
        control: EncoderControl,
        start: Time,
        seed: u64,
    ) -> Self {
        Encoder(match (model, config.codec) {
            (EncoderModel::Libvpx, Codec::Vp8) => {
                Inner::Chromium(Box::new(ChromiumEncoder::new(config, control, start, seed)))
            }
            _ => Inner::Synthetic(Box::new(SyntheticEncoder::new(config, control, start, seed))),
        })
    }

    /// Sets the rate of encoded media that may be sent, without headers, from the next frame on.
    pub fn set_target(&mut self, available: Bitrate) {
        each!(&mut self.0, inner => inner.set_target(available));
    }

    /// Sets the fraction of pictures to drop before encoding (congestion window push-back).
    pub fn set_drop_ratio(&mut self, ratio: f64) {
        each!(&mut self.0, inner => inner.set_drop_ratio(ratio));
    }

    /// Makes the next frame a key frame.
    pub fn request_key_frame(&mut self) {
        each!(&mut self.0, inner => inner.request_key_frame());
    }

    /// Rate requested from the encoder.
    pub fn target(&self) -> Bitrate {
        each!(&self.0, inner => inner.target())
    }

    /// The most that it uses at its current resolution.
    pub fn max_rate(&self) -> Bitrate {
        each!(&self.0, inner => inner.max_rate())
    }

    /// Current width and height.
    pub fn resolution(&self) -> (u16, u16) {
        each!(&self.0, inner => inner.resolution())
    }

    /// Current frames per second.
    pub fn frame_rate(&self) -> f64 {
        each!(&self.0, inner => inner.frame_rate())
    }

    /// Totals so far; `None` if the model has no quantiser.
    pub fn statistics(&self) -> Option<EncoderStatistics> {
        match &self.0 {
            Inner::Synthetic(_) => None,
            Inner::Chromium(encoder) => Some(encoder.statistics()),
        }
    }

    /// When the next picture is captured.
    pub fn poll_timeout(&self) -> Option<Time> {
        each!(&self.0, inner => inner.poll_timeout())
    }

    /// The newest picture captured by `now`, unless it is dropped; older ones are skipped.
    pub fn poll(&mut self, now: Time) -> Option<Frame> {
        each!(&mut self.0, inner => inner.poll(now))
    }

    /// Skips the pictures captured by `now`. The next picture may have their bits, too.
    pub fn skip(&mut self, now: Time) {
        each!(&mut self.0, inner => inner.skip(now));
    }

    /// Takes when encoding a frame began and when the frame is ready, on a processor that may not keep up with the camera.
    pub fn on_encoded(&mut self, frame: &Frame, begin: Time, ready: Time) {
        if let Inner::Chromium(encoder) = &mut self.0 {
            encoder.on_encoded(frame, begin, ready);
        }
    }

    /// Lets the pictures captured by `now` pass, because there is nothing to encode yet.
    pub fn idle(&mut self, now: Time) {
        match &mut self.0 {
            Inner::Synthetic(encoder) => encoder.idle(now),
            Inner::Chromium(encoder) => encoder.skip(now),
        }
    }
}
