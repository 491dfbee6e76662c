//! What encoders do when they get too few bits: smaller pictures, fewer pictures, or both.

use serde::{Deserialize, Serialize};

/// Below this many bits per pixel the next smaller resolution looks better. libwebrtc decides by the
/// quantiser, which depends on content. With this value 640x480 at 30/s shrinks below 276 kbit/s.
const MIN_BITS_PER_PIXEL: f64 = 0.03;
/// Bits per pixel of VP9 relative to VP8. The start rates that libwebrtc recommends for VP9
/// (`encoder_info_settings.cc`) are 0.60, 0.63, 0.70 and 0.53 of those for VP8 and H.264 (480x270 to
/// 1280x720).
const VP9_SHARE: f64 = 0.62;
/// Bits of a picture of 1280x720 at the coarsest quantiser of H.264 (51), with none skipped. Measured with OpenH264
/// b37cda24 (October 2015) on the clip of the live calls, played at 50 pictures a second. With its rate control, set up
/// as in libwebrtc 524ecc29dd (`h264_encoder_impl.cc`), it meets 700 to 2000 kbit/s with 50 pictures a second, and
/// 300, 200, 100, 60 and 30 kbit/s with 35.8, 25.8, 9.9, 2.5 and 0.8.
const H264_LEAST_BITS: f64 = 6_200.0;
/// A picture that follows n - 1 skipped ones costs n to this power times as much: in the same measurement 6.2, 9.1,
/// 13.2, 17.4, 21.9, 29.5 and 36.8 kbit for n = 1, 2, 4, 8, 16, 32 and 64.
const H264_GAP_EXPONENT: f64 = 0.45;

/// An encoder. The year names the browsers that it models, if the encoder of Chromium 156 differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Codec {
    /// libvpx's VP8 under libwebrtc's quality scaler.
    #[default]
    Vp8,
    /// libvpx's VP8 in Chrome 27, always in full resolution.
    #[serde(rename = "vp8-2013")]
    Vp8In2013,
    /// libvpx's VP9, which does its own resizing.
    #[serde(rename = "vp9-2016")]
    Vp9In2016,
    /// OpenH264 in Chrome 50 to 52. From June 2016 on, libwebrtc made its pictures smaller, too.
    #[serde(rename = "h264-2016")]
    H264In2016,
}

/// What distinguishes one encoder from another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EncoderProfile {
    /// Bits per pixel that a picture needs.
    pub min_bits_per_pixel: f64,
    /// Widths that it uses, in eighths of the full width, in descending order.
    pub scales: &'static [u16],
    /// Minimum number of pixels in a picture.
    pub min_pixels: u32,
    /// A picture that follows n - 1 skipped ones costs n to this power times as much.
    pub gap_exponent: f64,
    /// Minimum frame rate per second, kept even if the bitrate then exceeds the target.
    pub min_frame_rate: f64,
    /// Whether the resolution can grow again.
    pub grows: bool,
    /// Whether the encoder keeps its minimum rate even if repair leaves it less.
    pub keeps_min_rate: bool,
}

impl Codec {
    /// Behaviour of this encoder.
    pub const fn profile(self) -> EncoderProfile {
        match self {
            // libwebrtc scales by 3/4 and 2/3 in turn, but not below 320x180. Below 5 frames/s it would no
            // longer be video.
            Codec::Vp8 => EncoderProfile {
                min_bits_per_pixel: MIN_BITS_PER_PIXEL,
                scales: &[8, 6, 4, 3, 2],
                min_pixels: 320 * 180,
                gap_exponent: 0.0,
                min_frame_rate: 5.0,
                grows: true,
                keeps_min_rate: true,
            },
            // Chrome 27 neither scaled VP8 (libwebrtc 4d06db557a, `codec_database.cc`: automaticResizeOn is false,
            // frameDroppingOn true) nor kept a minimum after repair (`media_optimization.cc`, SetTargetRates).
            // At its coarsest quantiser, libvpx needs 733 bytes for a picture of 640x480 (`encoder/clip.rs`).
            Codec::Vp8In2013 => EncoderProfile {
                min_bits_per_pixel: 733.0 * 8.0 / (640.0 * 480.0),
                scales: &[8],
                min_pixels: 0,
                gap_exponent: 0.0,
                min_frame_rate: 1.0,
                grows: true,
                keeps_min_rate: false,
            },
            // libvpx, `vp9_ratectrl.c`, dynamic resize in one pass: 3/4 and 1/2, not below 180 lines.
            // The resolution did not grow again: Jansen et al. 2017, section 5.1.
            Codec::Vp9In2016 => EncoderProfile {
                min_bits_per_pixel: MIN_BITS_PER_PIXEL * VP9_SHARE,
                scales: &[8, 6, 4],
                min_pixels: 180 * 180,
                gap_exponent: 0.0,
                min_frame_rate: 5.0,
                grows: false,
                keeps_min_rate: true,
            },
            // The resolution is fixed (no quality scaler in `h264_encoder_impl.cc`), and the encoder skips pictures
            // that it has no bits for. Its lowest rate, 30 kbit/s, is enough for 0.7 pictures of 1280x720 a second.
            Codec::H264In2016 => EncoderProfile {
                min_bits_per_pixel: H264_LEAST_BITS / (1280.0 * 720.0),
                scales: &[8],
                min_pixels: 0,
                gap_exponent: H264_GAP_EXPONENT,
                min_frame_rate: 0.5,
                grows: true,
                keeps_min_rate: true,
            },
        }
    }
}
