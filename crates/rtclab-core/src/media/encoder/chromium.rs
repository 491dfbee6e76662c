//! The camera's encoder in Chromium 156: libvpx's VP8 under libwebrtc's adaptation.
//!
//! A camera has no degradation preference: the resolution adapts, the frame rate does not. Source: libwebrtc
//! f3ae3eb62e, `video/video_stream_encoder.cc`.

use super::camera::Camera;
use super::ladder::Ladder;
use super::overuse::OveruseDetector;
use super::picture::CameraContent;
use super::quality_scaler::{Advice, FIRST_INTERVAL, QualityScaler};
use super::rate_control::EncoderRateControl;
use super::statistics::{EncoderStatistics, Limitation};
use super::{EncoderControl, Frame, VideoConfig, browser_max};
use crate::media::overshoot::OvershootDetector;
use crate::units::{Bitrate, Bytes, Time, rounded};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::VecDeque;

/// Without output for this long, the next picture is encoded whatever the rate control says
/// (`libvpx_vp8_encoder.cc`).
const LONGEST_GAP: Time = Time::from_secs(2);
/// A camera's picture that is too large for the start rate is made smaller at most this many times, before media
/// may flow: in 12 live calls with a camera of 1280x720 the first frame had 640x360, and came as soon as with
/// other cameras.
const INITIAL_STEPS: u32 = 4;
/// Start rates, and the most pixels that a picture may have below each (`DropDueToSize`).
const INITIAL_LIMITS: [(Bitrate, u32); 2] =
    [(Bitrate::from_kbps(300), 320 * 240), (Bitrate::from_kbps(500), 640 * 480)];
/// Seconds from the start of the quality scaler until the first picture can be sent, because the encoder is
/// configured when both descriptions are known. In 40 live calls with too low a rate the first step came 3 to
/// 4 s after the first frame: its first check finds too few frames, and the next comes 2 s later.
const SCALER_LEAD: std::ops::Range<f64> = 0.05..0.75;
/// Share of pictures to drop that is ignored.
const DEAD_BAND: f64 = 0.01;
/// The frame rate is measured over this time.
const RATE_WINDOW: Time = Time::from_secs(3);

/// Milliseconds that encoding takes: regression over 4281 seconds of live calls, two cores of a virtual
/// machine that also ran the other browser. The standard deviation of a second's mean from it is 0.8 ms.
const ENCODE_MS: f64 = 0.5;
const ENCODE_MS_PER_MEGAPIXEL: f64 = 10.2;
const ENCODE_MS_PER_KILOBYTE: f64 = 0.23;

/// What makes pictures smaller.
#[derive(Clone, Copy)]
enum Reason {
    Quality,
    Cpu,
}

/// The encoder of one camera.
pub(super) struct ChromiumEncoder {
    config: VideoConfig,
    camera: Camera,
    content: CameraContent,
    ladder: Ladder,
    /// The step of the ladder that each [`Reason`] asks for; the smaller picture wins.
    steps: [usize; 2],
    scaler: QualityScaler,
    overuse: OveruseDetector,
    /// Of the current encoder instance, once it has encoded a picture.
    rate_control: Option<EncoderRateControl>,
    control: EncoderControl,
    overshoot: Option<OvershootDetector>,
    available: Bitrate,
    target: Bitrate,
    /// The most that it uses at its current resolution.
    max_rate: Bitrate,
    key_wanted: bool,
    /// Whether a frame was ever encoded.
    has_encoded: bool,
    /// Share of pictures that the congestion window asks to drop, and pictures since that began.
    drop_ratio: f64,
    since_push_back: u64,
    /// Capture times of the last pictures that reached the encoder.
    captured: VecDeque<Time>,
    last_output: Time,
    statistics: EncoderStatistics,
}

impl ChromiumEncoder {
    pub(super) fn new(
        config: VideoConfig,
        control: EncoderControl,
        start: Time,
        seed: u64,
    ) -> Self {
        let mut ladder = Ladder::new(config.width, config.height);
        for _ in 0..INITIAL_STEPS {
            let is_too_large = |&(rate, limit): &(Bitrate, u32)| {
                config.start_bps < rate && ladder.pixels() > limit
            };
            if !INITIAL_LIMITS.iter().any(is_too_large) || !ladder.shrink() {
                break;
            }
        }
        let lead = Pcg64Mcg::seed_from_u64(seed ^ 2).random_range(SCALER_LEAD);
        let first_check = (start + FIRST_INTERVAL).saturating_sub(Time::from_secs_f64(lead));
        let mut encoder = ChromiumEncoder {
            camera: Camera::new(&config, start, seed),
            content: CameraContent::new(ladder.resolution(), config.frame_rate, start, seed ^ 1),
            scaler: QualityScaler::new(first_check),
            overuse: OveruseDetector::new(),
            rate_control: None,
            control,
            overshoot: control.overshoot(),
            available: config.start_bps,
            target: config.start_bps,
            max_rate: max_rate(&config, ladder.resolution()),
            key_wanted: false,
            has_encoded: false,
            drop_ratio: 0.0,
            since_push_back: 0,
            captured: VecDeque::new(),
            last_output: start,
            statistics: EncoderStatistics::new(),
            steps: [ladder.step(), 0],
            ladder,
            config,
        };
        encoder.explain();
        encoder
    }

    pub(super) fn set_target(&mut self, available: Bitrate) {
        self.available = available;
    }

    pub(super) fn set_drop_ratio(&mut self, ratio: f64) {
        self.drop_ratio = ratio;
    }

    pub(super) fn request_key_frame(&mut self) {
        self.key_wanted = true;
    }

    pub(super) fn target(&self) -> Bitrate {
        self.target
    }

    pub(super) fn max_rate(&self) -> Bitrate {
        self.max_rate
    }

    pub(super) fn resolution(&self) -> (u16, u16) {
        self.ladder.resolution()
    }

    /// Pictures per second that reach the encoder, as a whole number.
    pub(super) fn frame_rate(&self) -> f64 {
        let span = match (self.captured.front(), self.captured.back()) {
            (Some(&first), Some(&last)) if first < last => (last - first).as_secs_f64(),
            _ => return self.config.frame_rate,
        };
        rounded((self.captured.len() - 1) as f64 / span).max(1) as f64
    }

    pub(super) fn statistics(&self) -> EncoderStatistics {
        self.statistics
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        Some(self.camera.next())
    }

    pub(super) fn poll(&mut self, now: Time) -> Option<Frame> {
        let mut captured = None;
        while let Some(next) = self.capture(now) {
            // The rate of the pictures that come counts, also if they wait in vain.
            captured.replace(next).into_iter().for_each(|older| self.count(older));
        }
        let captured = captured?;
        let interval = self.push_back_interval();
        if self.is_pushed_back(interval) {
            return None;
        }
        self.count(captured);
        self.adapt(captured);
        let frame_rate = self.frame_rate();
        self.adjust(captured, interval, frame_rate);
        self.encode(captured, frame_rate)
    }

    pub(super) fn skip(&mut self, now: Time) {
        while self.capture(now).is_some() {}
    }

    pub(super) fn on_encoded(&mut self, frame: &Frame, begin: Time, ready: Time) {
        self.statistics.encode_time += ready.saturating_sub(begin);
        let (width, height) = frame.resolution;
        self.overuse.on_frame(frame.captured, ready, u32::from(width) * u32::from(height));
    }

    /// Takes the next picture, if one is due by `now`; returns when it was captured.
    fn capture(&mut self, now: Time) -> Option<Time> {
        if self.camera.next() > now {
            return None;
        }
        self.content.advance();
        Some(self.camera.capture())
    }

    /// Every how many pictures one is dropped while the congestion window is full.
    fn push_back_interval(&self) -> Option<u64> {
        let (rate, min) = (self.available.0, self.config.min_bps.0);
        if self.drop_ratio <= DEAD_BAND || rate <= min {
            return None;
        }
        let less = ((rate as f64 * self.drop_ratio) as u64).min(rate - min);
        (less > 0).then(|| (rate / less).max(2))
    }

    fn is_pushed_back(&mut self, interval: Option<u64>) -> bool {
        let Some(interval) = interval else { return false };
        self.since_push_back += 1;
        (self.since_push_back - 1) % interval == 0
    }

    fn count(&mut self, captured: Time) {
        self.captured.push_back(captured);
        while self.captured.front().is_some_and(|&first| first + RATE_WINDOW < captured) {
            self.captured.pop_front();
        }
    }

    fn adapt(&mut self, now: Time) {
        let by_quality = self.scaler.check(now).map(|advice| (advice, Reason::Quality));
        let by_cpu = self.overuse.check(now).map(|advice| (advice, Reason::Cpu));
        for (advice, reason) in by_quality.into_iter().chain(by_cpu) {
            if self.follow(advice, reason) {
                self.change_resolution();
            }
            self.explain();
        }
    }

    /// Makes the picture one step smaller, or takes back a step of the same reason; returns whether the size changed.
    /// Only the reason that asks for the smallest picture may take back a step (libwebrtc of M138,
    /// `call/adaptation/resource_adaptation_processor.cc`).
    fn follow(&mut self, advice: Advice, reason: Reason) -> bool {
        let step = self.ladder.step();
        match advice {
            Advice::Shrink if self.ladder.shrink() => self.steps[reason as usize] = step + 1,
            Advice::Grow if step > 0 && self.steps[reason as usize] == step => {
                self.steps[reason as usize] = step - 1;
                if self.steps.contains(&step) {
                    return false;
                }
                self.ladder.grow();
            }
            Advice::Shrink | Advice::Grow => return false,
        }
        true
    }

    /// Sets why pictures are smaller: with two reasons, bandwidth (libwebrtc of M138, `send_statistics_proxy.cc`).
    fn explain(&mut self) {
        self.statistics.limitation = match self.steps {
            [0, 0] => Limitation::None,
            [0, _] => Limitation::Cpu,
            _ => Limitation::Bandwidth,
        };
    }

    /// The rate that a new encoder instance is configured with, before it is told how much to leave for overshoot. The
    /// first one is configured before media may flow, with the rate at which the connection starts, although audio and
    /// headers take a part of that later. Its buffer is then fuller than it needs to be, so that its first key frame
    /// has a finer quantiser than the largest one: the first key frame at 640x480 has 6.7 kB (6.5 to 6.8 kB in 5 calls
    /// without audio) or 8.1 kB (7.5 to 8.4 kB in 8 calls with audio), and 6.1 kB at the largest quantiser.
    ///
    /// That the first rate is the start rate of the connection follows from these sizes; how the buffer acts on the
    /// quantiser is in libvpx 0cfc6da392, `vp8/encoder/onyx_if.c`.
    fn initial_rate(&self) -> Bitrate {
        match self.has_encoded {
            true => self.available.min(self.max_rate()),
            false => self.config.start_bps,
        }
    }

    /// A new resolution needs a new encoder instance, whose overshoot is not known yet.
    fn change_resolution(&mut self) {
        self.content.set_resolution(self.ladder.resolution());
        self.max_rate = max_rate(&self.config, self.ladder.resolution());
        self.rate_control = None;
        self.overshoot = self.control.overshoot();
    }

    fn adjust(&mut self, now: Time, push_back: Option<u64>, frame_rate: f64) {
        let (min_bps, max_bps) = (self.config.min_bps, self.max_rate());
        // The dropped pictures leave their bits unused.
        let kept = push_back.map_or(self.available, |n| Bitrate(self.available.0 / n * (n - 1)));
        let wanted = kept.clamp(min_bps, max_bps);
        self.target = wanted;
        if let Some(overshoot) = &mut self.overshoot {
            self.target = overshoot.adjust(self.available, wanted, min_bps);
            overshoot.set_rate(now, self.target, frame_rate);
        }
    }

    fn encode(&mut self, captured: Time, frame_rate: f64) -> Option<Frame> {
        let (width, height) = self.ladder.resolution();
        let target = self.target;
        let initial = self.initial_rate();
        let rate_control = self
            .rate_control
            .get_or_insert_with(|| EncoderRateControl::new(width, height, initial, frame_rate));
        rate_control.set_rate(target, frame_rate);
        let overdue = captured.saturating_sub(self.last_output) >= LONGEST_GAP;
        let Some(plan) = rate_control.plan(self.key_wanted, overdue) else {
            self.scaler.on_drop();
            return None;
        };
        let (size, growth) = self.content.encode(plan.qindex, plan.key);
        if !rate_control.accept(&plan, size, growth) {
            self.scaler.on_drop();
            return None;
        }
        self.key_wanted = false;
        self.has_encoded = true;
        self.last_output = captured;
        self.scaler.on_frame(captured, plan.qindex);
        let ideal = self.target.0 as f64 / frame_rate;
        self.statistics.on_frame(plan.qindex, plan.key, size, ideal);
        let encode_time = self.encode_time(captured, size);
        if let Some(overshoot) = &mut self.overshoot {
            overshoot.on_frame(captured, size);
        }
        let (key, resolution) = (plan.key, (width, height));
        Some(Frame { captured, size, key, resolution, encode_time })
    }

    /// How long a processor takes that keeps up with the camera.
    fn encode_time(&self, captured: Time, size: Bytes) -> Time {
        let millis = ENCODE_MS
            + ENCODE_MS_PER_MEGAPIXEL * f64::from(self.ladder.pixels()) / 1e6
            + ENCODE_MS_PER_KILOBYTE * size.0 as f64 / 1e3;
        Time::from_secs_f64(millis / 1e3).min(self.camera.next().saturating_sub(captured))
    }
}

/// The maximum of the configuration. If that is the browser's own for the camera's resolution, the page is taken to have
/// set none, and the browser's maximum for the current resolution applies. Never below the stream's minimum.
fn max_rate(config: &VideoConfig, resolution: (u16, u16)) -> Bitrate {
    let VideoConfig { width, height, min_bps, max_bps, .. } = *config;
    let by_page = max_bps != browser_max((width, height));
    if by_page { max_bps } else { browser_max(resolution).max(min_bps) }
}
