//! The encoder of Chromium 156, against libvpx and against what live calls showed.

use super::picture::CameraContent;
use super::rate_control::EncoderRateControl;
use super::*;

/// What libvpx 1.16 made of the clip in 60 s with libwebrtc's settings, at a constant bitrate
/// (`Vp8Encoder` in `rtclab.backend.live.browsers.libvpx`, the denoiser on).
struct Encoding {
    height: u16,
    kbps: u64,
    rate: f64,
    dropped: f64,
    qindex: f64,
    /// Bytes that 5, 50 and 95 % of the frames do not exceed.
    sizes: [f64; 3],
}

const fn encoding(
    height: u16,
    kbps: u64,
    rate: f64,
    dropped: f64,
    qindex: f64,
    sizes: [f64; 3],
) -> Encoding {
    Encoding { height, kbps, rate, dropped, qindex, sizes }
}

const LIBVPX: [Encoding; 18] = [
    encoding(480, 60, 60.6, 1444.0, 106.0, [608.0, 1222.0, 2214.0]),
    encoding(480, 100, 101.0, 1032.0, 106.0, [431.0, 938.0, 1806.0]),
    encoding(480, 150, 151.0, 429.0, 104.7, [405.0, 765.0, 1390.0]),
    encoding(480, 200, 200.4, 78.0, 97.9, [512.0, 861.0, 1303.0]),
    encoding(480, 300, 300.0, 0.0, 75.1, [845.0, 1226.0, 1711.0]),
    encoding(480, 500, 499.7, 0.0, 53.3, [1331.0, 2050.0, 2967.0]),
    encoding(480, 1000, 999.1, 0.0, 33.0, [2681.0, 4127.0, 5942.0]),
    encoding(480, 1700, 1698.2, 0.0, 21.1, [4421.0, 7064.0, 9827.0]),
    encoding(360, 60, 60.6, 1108.0, 106.0, [276.0, 592.0, 1235.0]),
    encoding(360, 100, 100.7, 374.0, 104.1, [264.0, 494.0, 894.0]),
    encoding(360, 200, 199.9, 0.0, 73.9, [549.0, 825.0, 1146.0]),
    encoding(360, 500, 499.6, 0.0, 39.3, [1297.0, 2059.0, 2960.0]),
    encoding(360, 1000, 998.9, 0.0, 22.4, [2514.0, 4141.0, 5911.0]),
    encoding(240, 60, 60.4, 369.0, 104.7, [153.0, 300.0, 534.0]),
    encoding(240, 100, 100.0, 0.0, 86.2, [275.0, 410.0, 577.0]),
    encoding(240, 200, 199.9, 0.0, 54.0, [547.0, 812.0, 1184.0]),
    encoding(240, 500, 499.5, 0.0, 27.1, [1236.0, 2043.0, 3025.0]),
    encoding(240, 1000, 999.1, 0.0, 13.6, [2221.0, 4138.0, 6107.0]),
];
const PICTURES: u32 = 1800;

fn model(like: &Encoding, seed: u64) -> Encoding {
    let resolution = (like.height / 3 * 4, like.height);
    let rate = Bitrate::from_kbps(like.kbps);
    let mut control = EncoderRateControl::new(resolution.0, resolution.1, rate, 30.0);
    let mut content = CameraContent::new(resolution, 30.0, Time::from_secs(seed), seed);
    let (mut sizes, mut qindex) = (Vec::new(), 0.0);
    for _ in 0..PICTURES {
        content.advance();
        control.set_rate(rate, 30.0);
        let Some(plan) = control.plan(false, false) else { continue };
        let (size, growth) = content.encode(plan.qindex, plan.key);
        if control.accept(&plan, size, growth) {
            sizes.push(size.0);
            qindex += f64::from(plan.qindex);
        }
    }
    let frames = sizes.len() as f64;
    let total: u64 = sizes.iter().sum();
    sizes.sort_unstable();
    let percentile = |percent: usize| sizes[sizes.len() * percent / 100] as f64;
    Encoding {
        rate: total as f64 * 8.0 / (f64::from(PICTURES) / 30.0) / 1000.0,
        dropped: f64::from(PICTURES) - frames,
        qindex: qindex / frames,
        sizes: [percentile(5), percentile(50), percentile(95)],
        ..*like
    }
}

#[test]
fn rate_drops_quantiser_and_frame_sizes_are_those_of_libvpx() {
    for real in &LIBVPX {
        let runs: Vec<_> = (0..8).map(|seed| model(real, seed)).collect();
        let mean = |of: &dyn Fn(&Encoding) -> f64| runs.iter().map(of).sum::<f64>() / 8.0;
        let name = format!("{} lines at {} kbit/s", real.height, real.kbps);
        let rate = mean(&|run| run.rate);
        let dropped = mean(&|run| run.dropped);
        let qindex = mean(&|run| run.qindex);
        let sizes: Vec<f64> = (0..3).map(|i| mean(&|run| run.sizes[i])).collect();
        assert!((0.99..1.01).contains(&(rate / real.rate)), "{name}: {rate} kbit/s");
        let share = (dropped - real.dropped) / f64::from(PICTURES);
        assert!(share.abs() < 0.06, "{name}: {dropped} dropped, {} by libvpx", real.dropped);
        assert!((qindex - real.qindex).abs() < 2.0, "{name}: {qindex}, {} in libvpx", real.qindex);
        for (i, spread) in [0.25, 0.12, 0.25].into_iter().enumerate() {
            let off = (sizes[i] / real.sizes[i] - 1.0).abs();
            assert!(off < spread, "{name}: {sizes:?}, {:?} in libvpx", real.sizes);
        }
    }
}

fn vga() -> VideoConfig {
    VideoConfig {
        width: 640,
        height: 480,
        frame_rate: 30.0,
        codec: Codec::Vp8,
        min_bps: Bitrate::from_kbps(30),
        max_bps: Bitrate::from_kbps(1700),
        start_bps: Bitrate::from_kbps(300),
        steady: true,
    }
}

fn chromium(config: VideoConfig, seed: u64) -> Encoder {
    Encoder::new(EncoderModel::Libvpx, config, EncoderControl::LeavesRoom, Time::ZERO, seed)
}

fn frames(encoder: &mut Encoder, until: Time) -> Vec<Frame> {
    let mut frames = Vec::new();
    while let Some(at) = encoder.poll_timeout().filter(|at| *at <= until) {
        frames.extend(encoder.poll(at));
    }
    frames
}

#[test]
fn other_codecs_and_older_browsers_keep_their_encoder() {
    let config = VideoConfig { codec: Codec::Vp9In2016, ..vga() };
    assert_eq!(chromium(config, 1).statistics(), None);
    let control = EncoderControl::AsksForAll;
    let old = Encoder::new(EncoderModel::Rfc8593, vga(), control, Time::ZERO, 1);
    assert_eq!(old.statistics(), None);
}

#[test]
fn the_first_key_frame_is_a_quarter_of_a_second_at_the_start_rate() {
    // 300 / 1.2 kbit/s * 0.25 s are 7.8 kB, but the largest quantiser allows 6.1 kB on average.
    for seed in 0..20 {
        let mut encoder = chromium(vga(), seed);
        encoder.set_target(Bitrate::from_kbps(300));
        let first = frames(&mut encoder, Time::from_millis(50))[0];
        assert!(first.key && (5000..8000).contains(&first.size.0), "{first:?}");
        assert!(first.captured <= Time::from_micros(33_334), "{first:?}");
    }
}

/// Of a start rate of 300 kbit/s, headers leave 286 kbit/s without audio and 232 kbit/s with audio. The buffer of 0.5 s at
/// the start rate is then fuller than the 0.6 s aimed at by 7 and 33 kbit of the 92 and 77 kbit above that, which lowers
/// the largest quantiser from 106 to 104 and 94. Live, these frames had 6.5 to 6.8 kB and 7.5 to 8.4 kB.
#[test]
fn the_first_key_frame_is_larger_when_audio_takes_a_part_of_the_start_rate() {
    let first = |kbps: u64| {
        let mut encoder = chromium(vga(), 1);
        encoder.set_target(Bitrate::from_kbps(kbps));
        frames(&mut encoder, Time::from_millis(50))[0].size.0
    };
    assert!((6_300..6_900).contains(&first(286)), "{}", first(286));
    assert!((7_700..8_400).contains(&first(232)), "{}", first(232));
}

#[test]
fn requested_key_frames_have_the_size_of_those_of_libvpx() {
    // A key frame every 200 pictures at 1000 kbit/s: libvpx made them 3.8, 4.1, 4.6, 5.2, 5.1, 4.8, 4.8 and 5.8
    // times as large as its share of the rate.
    const MEAN_OF_LIBVPX: f64 = 4.8;
    let rate = Bitrate::from_kbps(1000);
    let mut control = EncoderRateControl::new(640, 480, rate, 30.0);
    let mut content = CameraContent::new((640, 480), 30.0, Time::ZERO, 1);
    let mut times = Vec::new();
    for picture in 0..1800 {
        content.advance();
        control.set_rate(rate, 30.0);
        let Some(plan) = control.plan(picture % 200 == 199, false) else { continue };
        let (size, growth) = content.encode(plan.qindex, plan.key);
        assert!(control.accept(&plan, size, growth));
        if plan.key && picture > 0 {
            times.push(size.bits() as f64 * 30.0 / rate.0 as f64);
        }
    }
    assert_eq!(times.len(), 9);
    let mean = times.iter().sum::<f64>() / 9.0;
    assert!((0.85..1.15).contains(&(mean / MEAN_OF_LIBVPX)), "{times:?}");
    assert!(times.iter().all(|times| (3.0..7.0).contains(times)), "{times:?}");
}

#[test]
fn after_three_thousand_pictures_comes_a_key_frame() {
    let mut encoder = chromium(vga(), 1);
    encoder.set_target(Bitrate::from_kbps(1000));
    let keys: Vec<_> = frames(&mut encoder, Time::from_secs(110))
        .into_iter()
        .filter(|frame| frame.key)
        .map(|frame| frame.captured.as_secs_f64())
        .collect();
    assert_eq!(keys.len(), 2, "{keys:?}");
    assert!((99.9..100.1).contains(&(keys[1] - keys[0])), "{keys:?}");
}

/// Heights over a minute, each with the second when it began, and the frames of the last 30 s.
fn minute(kbps: u64, config: VideoConfig, seed: u64) -> (Vec<(f64, u16)>, usize) {
    let mut encoder = chromium(config, seed);
    encoder.set_target(Bitrate::from_kbps(kbps));
    let all = frames(&mut encoder, Time::from_secs(60));
    let late = all.iter().filter(|frame| frame.captured >= Time::from_secs(30)).count();
    let sizes = all.chunk_by(|a, b| a.resolution == b.resolution);
    (sizes.map(|part| (part[0].captured.as_secs_f64(), part[0].resolution.1)).collect(), late)
}

#[test]
fn too_low_a_rate_shrinks_the_picture_after_three_to_four_seconds_and_again_after_five() {
    for seed in 0..10 {
        let (heights, _) = minute(60, vga(), seed);
        let [(_, 480), (first, 360), (second, 240)] = heights[..] else { panic!("{heights:?}") };
        assert!((3.2..4.1).contains(&first), "{heights:?}");
        assert!((4.9..5.2).contains(&(second - first)), "{heights:?}");
    }
}

#[test]
fn at_600_kbps_480_lines_and_every_frame_stay() {
    for seed in 0..10 {
        let (heights, frames) = minute(600, vga(), seed);
        assert!(heights.iter().all(|&(_, height)| height == 480), "{heights:?}");
        assert!((899..=901).contains(&frames), "{frames}");
    }
}

#[test]
fn a_call_at_720p_that_starts_with_300_kbps_starts_with_360_lines() {
    let (width, height, max_bps) = (1280, 720, Bitrate::from_kbps(2500));
    let config = VideoConfig { width, height, max_bps, ..vga() };
    for seed in 0..10 {
        let (heights, _) = minute(800, config, seed);
        assert_eq!(heights[0].1, 360, "{heights:?}");
    }
}

/// The camera's first picture is within a 30th of a second. None is dropped on the way to 360 lines.
#[test]
fn a_large_camera_sends_its_first_picture_as_soon_as_others() {
    let (width, height, max_bps) = (1280, 720, Bitrate::from_kbps(2500));
    let config = VideoConfig { width, height, max_bps, ..vga() };
    for seed in 0..10 {
        let mut encoder = chromium(config, seed);
        encoder.set_target(Bitrate::from_kbps(300));
        let first = frames(&mut encoder, Time::from_millis(50))[0];
        assert!(first.captured <= Time::from_micros(33_334), "{first:?}");
        assert_eq!(first.resolution, (640, 360));
    }
}

/// libwebrtc's own maxima: 600 kbit/s at 320x240, 1700 at 640x480. A page's maximum holds at any size.
#[test]
fn a_small_picture_uses_less_unless_the_page_sets_a_maximum() {
    let most = |max_kbps: u64| {
        let config = VideoConfig { max_bps: Bitrate::from_kbps(max_kbps), ..vga() };
        let mut encoder = chromium(config, 1);
        encoder.set_target(Bitrate::from_kbps(60));
        assert_eq!(encoder.max_rate(), config.max_bps);
        frames(&mut encoder, Time::from_secs(20));
        assert_eq!(encoder.resolution(), (320, 240));
        encoder.set_target(Bitrate::from_kbps(5_000));
        frames(&mut encoder, Time::from_millis(20_100));
        // The overshoot of the last seconds is taken off.
        let asked = encoder.target().0 as f64 / encoder.max_rate().0 as f64;
        assert!((0.9..=1.0).contains(&asked), "{asked}");
        encoder.max_rate()
    };
    assert_eq!(most(1_700), Bitrate::from_kbps(600));
    assert_eq!(most(1_500), Bitrate::from_kbps(1_500));
}

#[test]
fn push_back_is_ignored_up_to_one_percent_and_then_drops_one_picture_in_so_many() {
    let kept = |ratio: f64| {
        let rate = Bitrate::from_kbps(1500);
        let mut encoder = chromium(VideoConfig { start_bps: rate, ..vga() }, 1);
        encoder.set_target(rate);
        encoder.set_drop_ratio(ratio);
        frames(&mut encoder, Time::from_secs(60)).len()
    };
    assert!((1799..=1800).contains(&kept(0.01)));
    // 1 / 0.05 = 20; 1 / 0.7 is below two, so every second picture.
    assert!((1708..=1712).contains(&kept(0.05)), "{}", kept(0.05));
    assert!((899..=901).contains(&kept(0.7)), "{}", kept(0.7));
}

#[test]
fn however_low_the_rate_a_frame_comes_every_two_seconds() {
    let mut config = vga();
    config.min_bps = Bitrate::ZERO;
    let mut encoder = chromium(config, 1);
    encoder.set_target(Bitrate::ZERO);
    let frames = frames(&mut encoder, Time::from_secs(100));
    let gaps = frames.windows(2).map(|pair| pair[1].captured - pair[0].captured);
    let longest = gaps.max().unwrap_or(Time::ZERO);
    assert!((Time::from_millis(1900)..Time::from_millis(2050)).contains(&longest), "{longest:?}");
}
