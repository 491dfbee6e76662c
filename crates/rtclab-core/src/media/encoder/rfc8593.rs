//! Synthetic video source, based on RFC 8593, section 5 (statistical model). It follows a target rate and
//! adapts resolution and frame rate as libwebrtc does for a camera.

use super::camera::laplace;
use super::{EncoderControl, Frame, VideoConfig};
use crate::media::codec::EncoderProfile;
use crate::media::overshoot::OvershootDetector;
use crate::units::{Bitrate, Bytes, Time};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

/// RFC 8593, table 1: frames in a transient, including the first.
const TRANSIENT_FRAMES: u32 = 8;
/// RFC 8593, table 1: bytes of the first frame of a transient at 1280x720; scaled here by pixel count.
const FIRST_FRAME_720P: f64 = 13_500.0;
/// The resolution grows again when the larger picture has this many times the minimum bits per pixel.
const GROW_MARGIN: f64 = 1.5;
/// Interval of adaptation; libwebrtc, `quality_scaler.cc`, evaluates the quantiser over two seconds.
const ADAPT_INTERVAL: Time = Time::from_secs(2);
/// Minimum frame size in bytes: codec headers.
const MIN_FRAME: f64 = 50.0;

/// The video source.
pub(super) struct SyntheticEncoder {
    config: VideoConfig,
    profile: EncoderProfile,
    rng: Pcg64Mcg,
    /// Rate that may be sent.
    available: Bitrate,
    /// Rate requested from the encoder.
    target: Bitrate,
    /// Lowers the target to allow for varying frame sizes; `None` with [`EncoderControl::AsksForAll`].
    overshoot: Option<OvershootDetector>,
    scale: usize,
    frame_rate: f64,
    next_frame: Time,
    next_adaptation: Time,
    key_wanted: bool,
    transient_left: u32,
    transient_size: f64,
    drop_ratio: f64,
    drop_credit: f64,
    /// Pictures skipped since the last encoded one; the next one gets their bits.
    skipped: u32,
}

impl SyntheticEncoder {
    /// Creates a source that captures its first picture at `start`.
    pub(super) fn new(
        config: VideoConfig,
        control: EncoderControl,
        start: Time,
        seed: u64,
    ) -> Self {
        SyntheticEncoder {
            rng: Pcg64Mcg::seed_from_u64(seed),
            available: config.start_bps,
            target: config.start_bps,
            overshoot: control.overshoot(),
            scale: 0,
            frame_rate: config.frame_rate,
            next_frame: start,
            next_adaptation: start + ADAPT_INTERVAL,
            key_wanted: true,
            transient_left: 0,
            transient_size: 0.0,
            drop_ratio: 0.0,
            drop_credit: 0.0,
            skipped: 0,
            profile: config.codec.profile(),
            config,
        }
    }

    /// Sets the rate of encoded media that may be sent, without headers, from the next frame on.
    pub(super) fn set_target(&mut self, available: Bitrate) {
        self.available = available;
    }

    /// Sets the fraction of pictures to drop before encoding (congestion window push-back).
    pub(super) fn set_drop_ratio(&mut self, ratio: f64) {
        self.drop_ratio = ratio;
    }

    /// Makes the next frame a key frame.
    pub(super) fn request_key_frame(&mut self) {
        self.key_wanted = true;
    }

    /// The most that it uses, at any resolution.
    pub(super) fn max_rate(&self) -> Bitrate {
        self.config.max_bps
    }

    /// Rate requested from the encoder.
    pub(super) fn target(&self) -> Bitrate {
        self.target
    }

    /// Current width and height.
    pub(super) fn resolution(&self) -> (u16, u16) {
        let eighths = u32::from(self.profile.scales[self.scale]);
        let scaled = |full: u16| (u32::from(full) * eighths / 8) as u16;
        (scaled(self.config.width), scaled(self.config.height))
    }

    /// Current frames per second.
    pub(super) fn frame_rate(&self) -> f64 {
        self.frame_rate
    }

    /// When the next picture is captured.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        Some(self.next_frame)
    }

    /// The newest picture captured by `now`, unless it is dropped; older ones are skipped.
    pub(super) fn poll(&mut self, now: Time) -> Option<Frame> {
        let captured = self.newest(now)?;
        self.skipped -= 1;
        self.drop_credit += self.drop_ratio;
        if self.drop_credit >= 1.0 {
            self.drop_credit -= 1.0;
            return None;
        }
        self.adjust(captured);
        let key = std::mem::take(&mut self.key_wanted);
        let size = Bytes(self.frame_size(key).max(MIN_FRAME) as u64);
        if let Some(overshoot) = &mut self.overshoot {
            overshoot.on_frame(captured, size);
        }
        let (resolution, encode_time) = (self.resolution(), Time::ZERO);
        Some(Frame { captured, size, key, resolution, encode_time })
    }

    /// Skips the pictures captured by `now`.
    pub(super) fn skip(&mut self, now: Time) {
        self.newest(now);
    }

    /// Takes the pictures that are due by `now`; returns when the last one was captured. All count as skipped.
    fn newest(&mut self, now: Time) -> Option<Time> {
        let mut newest = None;
        while self.next_frame <= now {
            newest = Some(self.capture_picture());
            self.skipped += 1;
        }
        newest
    }

    /// Lets the pictures captured by `now` pass, because there is nothing to encode yet.
    pub(super) fn idle(&mut self, now: Time) {
        while self.next_frame <= now {
            self.capture_picture();
        }
    }

    fn capture_picture(&mut self) -> Time {
        let captured = self.next_frame;
        let deviation = if self.config.steady { 0.0 } else { laplace(&mut self.rng) };
        let interval = 1.0 / self.frame_rate * (1.0 + deviation).max(0.1);
        self.next_frame = captured + Time::from_secs_f64(interval);
        if captured >= self.next_adaptation {
            self.next_adaptation = captured + ADAPT_INTERVAL;
            self.adapt();
        }
        captured
    }

    fn adjust(&mut self, now: Time) {
        let VideoConfig { min_bps, max_bps, .. } = self.config;
        let min_bps = if self.profile.keeps_min_rate { min_bps } else { Bitrate::ZERO };
        let wanted = self.available.clamp(min_bps, max_bps);
        self.target = wanted;
        if let Some(overshoot) = &mut self.overshoot {
            self.target = overshoot.adjust(self.available, wanted, min_bps);
            overshoot.set_rate(now, self.target, self.frame_rate);
        }
    }

    fn frame_size(&mut self, key: bool) -> f64 {
        let pictures = f64::from(1 + std::mem::take(&mut self.skipped));
        let mean = self.target.0 as f64 / 8.0 / self.frame_rate * pictures;
        if key {
            let (width, height) = self.resolution();
            let pixels = f64::from(width) * f64::from(height);
            let first = (FIRST_FRAME_720P * pixels / (1280.0 * 720.0)).max(mean);
            let rest = f64::from(TRANSIENT_FRAMES - 1);
            self.transient_left = TRANSIENT_FRAMES - 1;
            self.transient_size = (f64::from(TRANSIENT_FRAMES) * mean - first) / rest;
            return first;
        }
        if self.transient_left > 0 {
            self.transient_left -= 1;
            return self.transient_size;
        }
        mean * (1.0 + laplace(&mut self.rng))
    }

    fn adapt(&mut self) {
        let EncoderProfile { min_bits_per_pixel, gap_exponent, min_frame_rate, grows, .. } =
            self.profile;
        let before = self.scale;
        while self.bits_per_pixel(self.scale) < min_bits_per_pixel && self.may_shrink() {
            self.scale += 1;
        }
        let enough = min_bits_per_pixel * GROW_MARGIN;
        while grows && self.scale > 0 && self.bits_per_pixel(self.scale - 1) > enough {
            self.scale -= 1;
        }
        // Of n pictures one is encoded, which costs n^e times as much: the rate falls as n^(e - 1).
        let affordable = self.bits_per_pixel(self.scale) / min_bits_per_pixel;
        let encoded = libm::pow(affordable.min(1.0), 1.0 / (1.0 - gap_exponent));
        self.frame_rate =
            (self.config.frame_rate * encoded).max(min_frame_rate.min(self.config.frame_rate));
        if self.scale != before {
            // VP8 can change its resolution only in a key frame, and its overshoot is measured anew.
            self.key_wanted = true;
            self.overshoot = self.overshoot.take().map(|_| OvershootDetector::default());
        }
    }

    fn pixels(&self, scale: usize) -> u32 {
        let eighths = u32::from(self.profile.scales[scale]);
        u32::from(self.config.width) * u32::from(self.config.height) * eighths * eighths / 64
    }

    fn may_shrink(&self) -> bool {
        let EncoderProfile { scales, min_pixels, .. } = self.profile;
        self.scale + 1 < scales.len() && self.pixels(self.scale + 1) >= min_pixels
    }

    fn bits_per_pixel(&self, scale: usize) -> f64 {
        self.target.0 as f64 / (f64::from(self.pixels(scale)) * self.config.frame_rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::codec::Codec;

    fn vga() -> VideoConfig {
        VideoConfig {
            width: 640,
            height: 480,
            frame_rate: 30.0,
            codec: Codec::Vp8,
            min_bps: Bitrate::from_kbps(30),
            max_bps: Bitrate::from_kbps(1700),
            start_bps: Bitrate::from_kbps(300),
            steady: false,
        }
    }

    fn frames(encoder: &mut SyntheticEncoder, until: Time) -> Vec<Frame> {
        std::iter::from_fn(|| next(encoder, until)).collect()
    }

    fn next(encoder: &mut SyntheticEncoder, until: Time) -> Option<Frame> {
        while let Some(at) = encoder.poll_timeout().filter(|at| *at <= until) {
            if let Some(frame) = encoder.poll(at) {
                return Some(frame);
            }
        }
        None
    }

    #[test]
    fn the_mean_rate_is_within_2_percent_of_the_target_and_5_to_15_below_the_available_rate() {
        let mut encoder = SyntheticEncoder::new(vga(), EncoderControl::LeavesRoom, Time::ZERO, 1);
        encoder.set_target(Bitrate::from_kbps(1000));
        let (mut bits, mut asked, mut frames) = (0, 0, 0);
        while let Some(frame) = next(&mut encoder, Time::from_secs(60)) {
            bits += frame.size.bits();
            asked += encoder.target().0;
            frames += 1;
        }
        let rate = bits as f64 / 60.0;
        let asked = asked as f64 / f64::from(frames);
        assert!((0.98..1.02).contains(&(rate / asked)), "{rate} of {asked}");
        // Sizes and intervals vary by 21 % (Laplace of scale 0.15); what does not fit lowers the target.
        assert!((850_000.0..950_000.0).contains(&rate), "{rate}");
    }

    #[test]
    fn the_frame_rate_is_thirty_a_second_within_2_percent() {
        let mut encoder = SyntheticEncoder::new(vga(), EncoderControl::LeavesRoom, Time::ZERO, 1);
        encoder.set_target(Bitrate::from_kbps(1000));
        let count = frames(&mut encoder, Time::from_secs(60)).len();
        assert!((1764..=1836).contains(&count), "{count}");
    }

    #[test]
    fn a_steady_camera_captures_a_picture_every_thirtieth_of_a_second() {
        let mut encoder = SyntheticEncoder::new(
            VideoConfig { steady: true, ..vga() },
            EncoderControl::LeavesRoom,
            Time::ZERO,
            1,
        );
        let frames = frames(&mut encoder, Time::from_secs(10));
        for (i, frame) in frames.iter().enumerate() {
            let expected = i as f64 / 30.0;
            assert!((frame.captured.as_secs_f64() - expected).abs() < 1e-6, "{i}: {frame:?}");
        }
        assert!((300..=301).contains(&frames.len()), "{}", frames.len());
    }

    #[test]
    fn a_rate_far_above_the_maximum_gives_the_maximum() {
        let mut encoder = SyntheticEncoder::new(vga(), EncoderControl::LeavesRoom, Time::ZERO, 1);
        encoder.set_target(Bitrate::from_mbps(50));
        frames(&mut encoder, Time::from_secs(10));
        let kbps = encoder.target().0 / 1000;
        assert!((1600..=1700).contains(&kbps), "{kbps}");
    }

    #[test]
    fn a_key_frame_and_its_transient_keep_the_mean() {
        // A new encoder is asked for 1000 / 1.2 kbit/s: 8 frames at 30/s are 27.8 kB, the first of
        // them 4.5 kB for 640x480.
        let mut encoder = SyntheticEncoder::new(vga(), EncoderControl::LeavesRoom, Time::ZERO, 1);
        encoder.set_target(Bitrate::from_kbps(1000));
        let first: Vec<_> = frames(&mut encoder, Time::from_secs(1)).into_iter().take(8).collect();
        assert!(first[0].key && !first[1].key);
        assert_eq!(first[0].size, Bytes(4500));
        let total: u64 = first.iter().map(|f| f.size.0).sum();
        assert!((27_740..=27_780).contains(&total), "{total}");
    }

    #[test]
    fn below_276_kbps_the_resolution_shrinks_and_it_returns_with_a_key_frame() {
        let mut encoder = SyntheticEncoder::new(vga(), EncoderControl::LeavesRoom, Time::ZERO, 1);
        encoder.set_target(Bitrate::from_kbps(200));
        frames(&mut encoder, Time::from_secs(5));
        assert_eq!(encoder.resolution(), (480, 360));
        encoder.set_target(Bitrate::from_kbps(800));
        let keys = frames(&mut encoder, Time::from_secs(10)).iter().filter(|f| f.key).count();
        assert_eq!((encoder.resolution(), keys), ((640, 480), 1));
    }

    #[test]
    fn at_the_smallest_resolution_the_frame_rate_falls_but_not_below_five() {
        let mut encoder = SyntheticEncoder::new(vga(), EncoderControl::LeavesRoom, Time::ZERO, 1);
        encoder.set_target(Bitrate::from_kbps(30));
        frames(&mut encoder, Time::from_secs(10));
        let count = frames(&mut encoder, Time::from_secs(20)).len();
        // 30 kbit/s over 320x240x30 pixels/s is 0.013 bit: 13 frames/s
        assert!((120..=140).contains(&count), "{count}");
        assert_eq!(encoder.resolution(), (320, 240));
    }

    #[test]
    fn a_drop_ratio_of_one_quarter_drops_every_fourth_picture() {
        let mut encoder = SyntheticEncoder::new(vga(), EncoderControl::LeavesRoom, Time::ZERO, 1);
        encoder.set_target(Bitrate::from_kbps(1000));
        let all = frames(
            &mut SyntheticEncoder::new(vga(), EncoderControl::LeavesRoom, Time::ZERO, 1),
            Time::from_secs(20),
        )
        .len();
        encoder.set_drop_ratio(0.25);
        let kept = frames(&mut encoder, Time::from_secs(20)).len();
        assert!((kept as f64 / all as f64 - 0.75).abs() < 0.02, "{kept} of {all}");
    }

    fn hd(codec: Codec) -> SyntheticEncoder {
        let (width, height, max_bps) = (1280, 720, Bitrate::from_kbps(2500));
        let config = VideoConfig { width, height, frame_rate: 50.0, codec, max_bps, ..vga() };
        SyntheticEncoder::new(config, EncoderControl::AsksForAll, Time::ZERO, 1)
    }

    /// Picture height, and pictures per second from 10 to 20 s, at a rate.
    fn at(codec: Codec, rate: Bitrate) -> (u16, usize) {
        let mut encoder = hd(codec);
        encoder.set_target(rate);
        frames(&mut encoder, Time::from_secs(10));
        let count = frames(&mut encoder, Time::from_secs(20)).len();
        (encoder.resolution().1, count / 10)
    }

    #[test]
    fn h264_of_2016_keeps_its_resolution_and_skips_pictures_below_310_kbps() {
        // 6200 bit a picture for 50 a second are 310 kbit/s. At 155, one of n is encoded, which costs n^0.45 times as
        // much: n^0.55 = 2, 14.2 a second. At 100 kbit/s: 6.4 a second.
        for (kbps, slowest, fastest) in [(1000, 48, 52), (155, 13, 15), (100, 5, 7)] {
            let (height, rate) = at(Codec::H264In2016, Bitrate::from_kbps(kbps));
            assert_eq!(height, 720);
            assert!((slowest..=fastest).contains(&rate), "{kbps} kbit/s: {rate}");
        }
        // At 10 kbit/s it uses its minimum of 30: 0.72 a second, 57 in 80 s.
        let mut encoder = hd(Codec::H264In2016);
        encoder.set_target(Bitrate::from_kbps(10));
        frames(&mut encoder, Time::from_secs(20));
        let count = frames(&mut encoder, Time::from_secs(100)).len();
        assert!((52..=63).contains(&count), "{count}");
    }

    #[test]
    fn vp8_of_2013_keeps_its_resolution_and_follows_even_less_than_the_minimum_rate() {
        // 1280x720 at 0.0191 bit: 17,592 bit a picture, 880 kbit/s for 50 a second
        assert_eq!(at(Codec::Vp8In2013, Bitrate::from_kbps(1000)), (720, 50));
        let (height, rate) = at(Codec::Vp8In2013, Bitrate::from_kbps(440));
        assert!(height == 720 && (24..=26).contains(&rate), "{height} {rate}");
        // The minimum is 30 kbit/s.
        let mut encoder = hd(Codec::Vp8In2013);
        encoder.set_target(Bitrate::from_kbps(20));
        frames(&mut encoder, Time::from_secs(10));
        let bits: u64 =
            frames(&mut encoder, Time::from_secs(110)).iter().map(|frame| frame.size.bits()).sum();
        assert!((18_000..22_000).contains(&(bits / 100)), "{bits}");
    }

    #[test]
    fn at_the_same_rate_vp9_has_the_larger_resolution_and_both_keep_their_frame_rate() {
        // 1000 kbit/s for 1280x720x50 pixels/s are 0.0217 bit: too few for VP8 (0.03), enough for
        // VP9 (0.0186). 700 kbit/s are 0.0152: VP9 scales to 3/4; VP8, with 0.0270 there, to 1/2.
        for (codec, kbps, expected) in [
            (Codec::Vp8, 1000, 540),
            (Codec::Vp9In2016, 1000, 720),
            (Codec::Vp8, 700, 360),
            (Codec::Vp9In2016, 700, 540),
        ] {
            let (height, rate) = at(codec, Bitrate::from_kbps(kbps));
            assert_eq!(height, expected, "{codec:?} at {kbps} kbit/s");
            assert!((48..=52).contains(&rate), "{rate}");
        }
    }

    #[test]
    fn after_congestion_vp8_returns_to_the_full_resolution_and_vp9_of_2016_stays_small() {
        for (codec, small, after) in [(Codec::Vp8, 270, 720), (Codec::Vp9In2016, 360, 360)] {
            let mut encoder = hd(codec);
            encoder.set_target(Bitrate::from_kbps(300));
            frames(&mut encoder, Time::from_secs(10));
            assert_eq!(encoder.resolution().1, small, "{codec:?}");
            encoder.set_target(Bitrate::from_kbps(2500));
            frames(&mut encoder, Time::from_secs(20));
            assert_eq!(encoder.resolution().1, after, "{codec:?}");
        }
    }

    #[test]
    fn at_a_rate_of_zero_no_encoder_stops_or_spins() {
        for codec in [Codec::Vp8, Codec::Vp9In2016, Codec::H264In2016] {
            let mut config = hd(codec).config;
            config.min_bps = Bitrate::ZERO;
            let mut encoder =
                SyntheticEncoder::new(config, EncoderControl::LeavesRoom, Time::ZERO, 1);
            encoder.set_target(Bitrate::ZERO);
            let count = frames(&mut encoder, Time::from_secs(100)).len();
            // Two seconds at 50/s until it adapts, then its minimum frame rate.
            let slowest = encoder.profile.min_frame_rate * 98.0 + 100.0;
            assert!((0.9..1.1).contains(&(count as f64 / slowest)), "{codec:?}: {count}");
        }
    }
}
