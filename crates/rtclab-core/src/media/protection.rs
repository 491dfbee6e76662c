//! How much FEC a stream needs, as decided by the hybrid of NACK and FEC in Chrome 27 and in Chromium 156.
//!
//! Source: libwebrtc 4d06db557a (2013), `video_coding/main/source/media_opt_util.cc`, and f3ae3eb62e (2026),
//! `modules/video_coding/media_opt_util.cc`. As there, rates of protection are FEC / (FEC + media) in 1/255.

mod table;

use crate::units::{Bitrate, Time};
use std::collections::VecDeque;

/// Below this round-trip time retransmission is enough, and only key frames are protected.
const LOW_RTT: Time = Time::from_millis(20);
/// Small frames are not protected below this round-trip time.
const SMALL_FRAMES_RTT: Time = Time::from_millis(200);
/// Minimum protection if a frame has several packets: the protection of the first partition.
const FLOOR: f64 = 51.0;
/// Maximum protection: half of all packets.
const CEILING: f64 = 127.0;
/// Key frames get this many times the protection.
const KEY_BOOST: f64 = 2.0;
/// Number of windows whose highest loss counts.
const WINDOWS: usize = 10;
/// Length of such a window.
const WINDOW: Time = Time::from_secs(1);
/// Maximum number of frames in a block of FEC.
const MAX_FRAMES: f64 = 6.0;
/// Bytes of a packet. A frame counts as several packets from half of this on.
const PACKET_BYTES: f64 = 1_460.0;

/// Loss in percent, and protection at 1000 and at 2000 kbit/s of 640x480 at 30/s.
///
/// These are samples of libwebrtc's table, which has rows of 5 kbit per frame and columns of 1/255. Values
/// between them are interpolated; those below 1000 kbit/s fall linearly to zero at 0 kbit/s.
const SAMPLES: [(f64, f64, f64); 7] = [
    (0.0, 0.0, 0.0),
    (1.0, 1.5, 14.0),
    (2.0, 3.0, 42.0),
    (5.0, 38.0, 56.0),
    (10.0, 72.0, 99.0),
    (15.0, 93.0, 127.0),
    (20.0, 114.0, 127.0),
];
/// Bits per frame of the samples at 1000 kbit/s.
const SAMPLED_BITS: f64 = 1e6 / 30.0;
/// Pixels of the samples.
const SAMPLED_PIXELS: f64 = 640.0 * 480.0;
/// Exponent by which other picture sizes are scaled.
const PIXELS_EXPONENT: f64 = 0.3;

/// Kilobits per frame in a row of the table of Chromium 156.
const ROW_KBIT: f64 = 5.0;
/// Picture size of the table of Chromium 156.
const TABLE_PIXELS: f64 = 704.0 * 576.0;
/// Kilobits per packet from which Chromium 156 computes the number of packets of a frame.
const PACKET_KBIT: f64 = 8.0 * PACKET_BYTES / 1_000.0;
/// Maximum protection in Chromium 156.
const CEILING_156: f64 = 128.0;

/// What the decision depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions {
    /// Fraction of packets lost, 0 to 1.
    pub loss: f64,
    /// Round-trip time.
    pub rtt: Time,
    /// Rate that may be sent. In Chromium 156 it is the rate of the stream without headers, with repair.
    pub bitrate: Bitrate,
    /// Frames per second.
    pub frame_rate: f64,
    /// Width and height.
    pub resolution: (u16, u16),
}

/// FEC packets per media packet, in 1/256, and how many frames share them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protection {
    /// For key frames.
    pub key: u8,
    /// For other frames.
    pub delta: u8,
    /// Maximum number of frames in a block.
    pub max_frames: u32,
}

impl Protection {
    /// Protection under these conditions in the libwebrtc of Chromium 156.
    ///
    /// Key frames are looked up at twice the rate. libwebrtc takes the ratio of key frames to others where it
    /// is larger.
    pub fn chromium_156(conditions: &Conditions) -> Protection {
        let Conditions { loss, rtt, bitrate, frame_rate, resolution } = *conditions;
        let frame_rate = frame_rate.max(1.0);
        let max_frames = max_frames(frame_rate, rtt);
        let kbit = (bitrate.0 as f64 / 1e3 / frame_rate).floor();
        let pixels = f64::from(resolution.0) * f64::from(resolution.1);
        let loss = (255.0 * loss).floor().min(CEILING_156);
        let is_small = 1_000.0 * kbit / 8.0 < small_frame_bytes(pixels);
        if loss < 1.0 || is_small && rtt < SMALL_FRAMES_RTT {
            return Protection { key: 0, delta: 0, max_frames };
        }
        let scaled = (kbit * libm::pow(TABLE_PIXELS / pixels.max(1.0), PIXELS_EXPONENT)).floor();
        let row = |kbit: f64| (kbit / ROW_KBIT - 1.0).trunc().max(0.0);
        let floor = if 1.5 + kbit / PACKET_KBIT >= 2.0 { FLOOR } else { 0.0 };
        let delta = table::protection(row(scaled), loss).max(floor).min(CEILING_156);
        let of_key = table::protection(1.0 + row(KEY_BOOST * scaled), loss);
        let key = (KEY_BOOST * delta).max(of_key).max(loss).min(CEILING_156);
        let delta = if rtt < LOW_RTT { 0.0 } else { delta };
        Protection { key: per_media(key), delta: per_media(delta), max_frames }
    }

    /// Protection as in Chrome 27, but without its two rules on short round trips: frames that are no key frames,
    /// and small frames, are protected at any round-trip time. No release is known to have done so.
    pub fn at_any_rtt(conditions: &Conditions) -> Protection {
        let Conditions { rtt, frame_rate, .. } = *conditions;
        let long = Conditions { rtt: SMALL_FRAMES_RTT, ..*conditions };
        let max_frames = max_frames(frame_rate, rtt);
        Protection { max_frames, ..Protection::for_conditions(&long) }
    }

    /// Protection under these conditions in Chrome 27.
    pub fn for_conditions(conditions: &Conditions) -> Protection {
        let Conditions { loss, rtt, bitrate, frame_rate, resolution } = *conditions;
        let max_frames = max_frames(frame_rate, rtt);
        let bytes = bitrate.0 as f64 / frame_rate / 8.0;
        let pixels = f64::from(resolution.0) * f64::from(resolution.1);
        if loss <= 0.0 || bytes < small_frame_bytes(pixels) && rtt < SMALL_FRAMES_RTT {
            return Protection { key: 0, delta: 0, max_frames };
        }
        let bits = 8.0 * bytes * libm::pow(SAMPLED_PIXELS / pixels.max(1.0), PIXELS_EXPONENT);
        let floor = if bytes >= PACKET_BYTES / 2.0 { FLOOR } else { 0.0 };
        let delta = table(bits / SAMPLED_BITS, 100.0 * loss).max(floor).min(CEILING);
        let key = (KEY_BOOST * delta).max(255.0 * loss).min(CEILING);
        let delta = if rtt < LOW_RTT { 0.0 } else { delta };
        Protection { key: per_media(key), delta: per_media(delta), max_frames }
    }
}

/// Frames that two round trips take.
fn max_frames(frame_rate: f64, rtt: Time) -> u32 {
    (2.0 * frame_rate * rtt.as_secs_f64() + 0.5).floor().clamp(1.0, MAX_FRAMES) as u32
}

/// Frames below this size count as small.
fn small_frame_bytes(pixels: f64) -> f64 {
    match pixels {
        pixels if pixels <= 352.0 * 288.0 => 400.0,
        pixels if pixels <= 640.0 * 480.0 => 700.0,
        _ => 1_000.0,
    }
}

/// The table at `scale` times the bits per frame of its first column; constant above the second column.
fn table(scale: f64, loss_percent: f64) -> f64 {
    let (low, high) = at_loss(loss_percent);
    let value = if scale < 1.0 { low * scale } else { low + (high - low) * (scale.min(2.0) - 1.0) };
    value.min(CEILING)
}

/// Both columns of the samples, interpolated at a loss; beyond the last sample the last slope continues.
fn at_loss(percent: f64) -> (f64, f64) {
    let above = SAMPLES.iter().position(|sample| sample.0 >= percent);
    let i = above.unwrap_or(SAMPLES.len() - 1).max(1);
    let ((from, low_from, high_from), (to, low_to, high_to)) = (SAMPLES[i - 1], SAMPLES[i]);
    let share = (percent - from) / (to - from);
    let between = |a: f64, b: f64| (a + (b - a) * share).min(CEILING);
    (between(low_from, low_to), between(high_from, high_to))
}

/// Converts a fraction of all packets in 1/255 to a ratio to media packets in 1/256.
fn per_media(share: f64) -> u8 {
    let share = share.floor();
    (255.0 * share / (255.0 - share)).round() as u8
}

/// The highest loss of recent windows of one second.
///
/// A window ends with the first loss that is added a second after the one before has ended. Its maximum counts
/// for ten seconds from its end, unless ten windows have ended since. So a loss that is added again and again
/// until the next report comes, a second later, counts for 11 to 12 s.
///
/// Source: libwebrtc f3ae3eb62e, `media_opt_util.cc`, VCMLossProtectionLogic; the same in 4d06db557a.
#[derive(Debug, Default)]
pub struct LossFilter {
    /// End and maximum of each window, the newest first.
    windows: VecDeque<(Time, f64)>,
    /// Maximum of the window that has not ended.
    current: f64,
}

impl LossFilter {
    /// Adds the fraction lost of the latest report, also when it has not changed.
    pub fn add(&mut self, now: Time, loss: f64) {
        if self.windows.front().is_some_and(|(end, _)| now < *end + WINDOW) {
            self.current = self.current.max(loss);
            return;
        }
        // The loss at the end of a window belongs to the next one, unless this window had none.
        let of_window = std::mem::take(&mut self.current);
        self.windows.push_front((now, if of_window > 0.0 { of_window } else { loss }));
        self.windows.truncate(WINDOWS);
    }

    /// The highest fraction lost.
    pub fn max(&self, now: Time) -> f64 {
        let recent = |end: Time| now <= end + WINDOW * WINDOWS as u64;
        let ended = self.windows.iter().take_while(|(end, _)| recent(*end));
        ended.map(|(_, max)| *max).fold(self.current, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const VGA: Conditions = Conditions {
        loss: 0.1,
        rtt: Time::from_millis(100),
        bitrate: Bitrate::from_kbps(1_000),
        frame_rate: 30.0,
        resolution: (640, 480),
    };

    /// Protection / (1 - protection) in 1/256: 72 of 255 are 100.3, 99 are 161.8, 114 are 206.2.
    #[test]
    fn the_table_reproduces_its_samples() {
        let delta = |loss, kbps| {
            let bitrate = Bitrate::from_kbps(kbps);
            Protection::for_conditions(&Conditions { loss, bitrate, ..VGA }).delta
        };
        assert_eq!([delta(0.1, 1_000), delta(0.1, 2_000), delta(0.2, 1_000)], [100, 162, 206]);
        assert_eq!([delta(0.2, 2_000), delta(0.5, 3_000)], [253, 253]);
    }

    /// 51 / (255 - 51) = 1/4.
    #[test]
    fn a_little_loss_gives_a_quarter_of_fec_and_twice_the_protection_for_key_frames() {
        let protection = Protection::for_conditions(&Conditions { loss: 0.01, ..VGA });
        // 102 / (255 - 102) = 2/3
        assert_eq!(protection, Protection { key: 170, delta: 64, max_frames: 6 });
    }

    #[test]
    fn without_loss_there_is_no_protection() {
        let protection = Protection::for_conditions(&Conditions { loss: 0.0, ..VGA });
        assert_eq!((protection.key, protection.delta), (0, 0));
    }

    #[test]
    fn below_a_round_trip_of_20_ms_only_key_frames_are_protected() {
        let at = |ms| Protection::for_conditions(&Conditions { rtt: Time::from_millis(ms), ..VGA });
        assert_eq!((at(19).delta, at(19).key), (0, 253));
        assert_eq!(at(20).delta, 100);
    }

    #[test]
    fn at_any_round_trip_the_protection_is_the_one_of_long_round_trips() {
        let at = |ms| Conditions { rtt: Time::from_millis(ms), ..VGA };
        let long = Protection::for_conditions(&at(200));
        assert_eq!(long, Protection { key: 253, delta: 100, max_frames: 6 });
        // Blocks still cover two round trips.
        let short = Protection::at_any_rtt(&at(6));
        assert_eq!(short, Protection { max_frames: 1, ..long });
        assert_eq!(Protection::at_any_rtt(&at(200)), long);
        let small = Conditions { bitrate: Bitrate::from_kbps(100), ..at(6) };
        assert_eq!(Protection::for_conditions(&small).key, 0);
        assert!(Protection::at_any_rtt(&small).delta > 0);
    }

    /// 2 x 30/s x 50 ms = 3.
    #[test]
    fn a_block_covers_two_round_trips_but_one_to_six_frames() {
        let frames = |ms| {
            let rtt = Time::from_millis(ms);
            Protection::for_conditions(&Conditions { rtt, ..VGA }).max_frames
        };
        assert_eq!([frames(0), frames(50), frames(100), frames(300)], [1, 3, 6, 6]);
    }

    /// 700 B x 30/s = 168 kbit/s.
    #[test]
    fn small_frames_are_protected_from_a_round_trip_of_200_ms_on() {
        let delta = |kbps, ms| {
            let (bitrate, rtt) = (Bitrate::from_kbps(kbps), Time::from_millis(ms));
            Protection::for_conditions(&Conditions { bitrate, rtt, ..VGA }).delta
        };
        assert_eq!([delta(167, 199) > 0, delta(169, 199) > 0], [false, true]);
        assert!(delta(167, 200) > 0);
    }

    fn chromium_156(loss_255: f64, kbps: u64) -> Protection {
        let (loss, bitrate) = (loss_255 / 255.0, Bitrate::from_kbps(kbps));
        Protection::chromium_156(&Conditions { loss, bitrate, ..VGA })
    }

    /// 1 Mbit/s are 33 whole kbit per frame, times (704 x 576 / 640 x 480)^0.3 = 1.086 are 35: row 6 of the
    /// table, where a loss of 25 of 255 has 72. 72 / (255 - 72) are 100.3 of 255. A key frame has twice that,
    /// but at most 128, which is more than one FEC packet per media packet and becomes 255.
    #[test]
    fn in_chromium_156_the_table_of_libwebrtc_counts() {
        assert_eq!(chromium_156(25.0, 1_000), Protection { key: 255, delta: 100, max_frames: 6 });
        // Row 0 to 4 have less than 51 at this loss: 51 / (255 - 51) = 1/4, and 102 / 153 = 2/3.
        assert_eq!(chromium_156(5.0, 500), Protection { key: 170, delta: 64, max_frames: 6 });
    }

    /// 1/255 is the least that a report can say. Below 6 kbit per frame, which is 180 kbit/s, frames are small.
    #[test]
    fn in_chromium_156_protection_starts_at_one_of_255_and_at_180_kbit_s() {
        assert_eq!([chromium_156(0.9, 500).delta, chromium_156(1.0, 500).delta], [0, 64]);
        assert_eq!([chromium_156(25.0, 179).delta, chromium_156(25.0, 180).delta], [0, 64]);
    }

    #[test]
    fn in_chromium_156_as_in_2013_only_key_frames_are_protected_below_20_ms() {
        let at = |ms| Protection::chromium_156(&Conditions { rtt: Time::from_millis(ms), ..VGA });
        assert_eq!((at(19).delta, at(19).key), (0, 255));
        assert_eq!(at(20).delta, 100);
    }

    /// Blocks of FEC that Chromium 156 sent in four calls without encryption, whose ULPFEC headers say which
    /// packets they protect: the random conditions 9, 13, 35 and 41, every 60th block without a key frame from
    /// the 41st on. Loss and target are from the event log, the round-trip time from getStats, and the rate is
    /// the target less audio and headers. Of all 3583 blocks, more than 98 % have at most one packet more or
    /// less than the table has.
    const LIVE: &str = include_str!("protection/live.csv");

    #[test]
    fn in_chromium_156_protection_is_that_of_live_calls() {
        let (mut blocks, mut equal, mut live, mut model) = (0, 0, 0, 0);
        for line in LIVE.lines().skip(1) {
            let fields: Vec<u64> = line.split(',').map(|field| field.parse().unwrap()).collect();
            let [loss, rtt, bitrate, frame_rate, width, height, media, fec] = fields[..] else {
                panic!("{line}")
            };
            let protection = Protection::chromium_156(&Conditions {
                loss: loss as f64 / 255.0,
                rtt: Time::from_millis(rtt),
                bitrate: Bitrate(bitrate),
                frame_rate: frame_rate as f64,
                resolution: (width as u16, height as u16),
            });
            let rate = u64::from(protection.delta);
            let expected = ((media * rate + 128) >> 8).max(u64::from(rate > 0));
            assert!(expected.abs_diff(fec) <= 1, "{line}: {expected}");
            blocks += 1;
            equal += u32::from(expected == fec);
            (live, model) = (live + fec, model + expected);
        }
        assert_eq!(blocks, 59);
        assert!((45..=55).contains(&equal), "{equal}");
        assert!((95..=105).contains(&(100 * model / live)), "{model} of {live}");
    }

    /// The loss is repeated ten times a second, as it is when the target changes. It is reported at 5 s and
    /// gone at 6 s; the window in which it was seen last ends at 6.0 s, and ten seconds later it is outdated.
    #[test]
    fn a_loss_counts_for_ten_seconds_after_the_window_in_which_it_was_last_seen() {
        let mut filter = LossFilter::default();
        let at = |tenths: u64| Time::from_millis(100 * tenths);
        let loss = |tenths| if (50..60).contains(&tenths) { 0.3 } else { 0.0 };
        for tenths in 0..160 {
            filter.add(at(tenths), loss(tenths));
            let expected = if tenths < 50 { 0.0 } else { 0.3 };
            assert_eq!(filter.max(at(tenths)), expected, "at {tenths}");
        }
        filter.add(at(160), 0.0);
        assert_eq!(filter.max(at(160)), 0.0);
    }

    #[test]
    fn without_newer_windows_a_loss_counts_for_ten_seconds() {
        let mut filter = LossFilter::default();
        filter.add(Time::from_secs(5), 0.3);
        assert_eq!(filter.max(Time::from_secs(15)), 0.3);
        assert_eq!(filter.max(Time::from_millis(15_001)), 0.0);
    }

    proptest! {
        #[test]
        fn more_loss_never_means_less_protection(
            (a, b) in (0.0..1.0, 0.0..1.0), kbps in 30u64..5_000, ms in 0u64..2_000,
        ) {
            let at = |loss| Protection::for_conditions(&Conditions {
                loss, bitrate: Bitrate::from_kbps(kbps), rtt: Time::from_millis(ms), ..VGA
            });
            let (less, more) = (at(f64::min(a, b)), at(f64::max(a, b)));
            prop_assert!(less.delta <= more.delta && less.key <= more.key);
            prop_assert!(more.delta <= more.key);
        }

        #[test]
        fn in_chromium_156_key_frames_have_at_least_the_protection_of_others_and_both_are_in_range(
            loss in 0.0..1.0, kbps in 0u64..20_000, ms in 0u64..2_000, frame_rate in 1.0..60.0,
        ) {
            let (bitrate, rtt) = (Bitrate::from_kbps(kbps), Time::from_millis(ms));
            let conditions = Conditions { loss, bitrate, rtt, frame_rate, ..VGA };
            let protection = Protection::chromium_156(&conditions);
            prop_assert!(protection.delta <= protection.key);
            prop_assert!((1..=6).contains(&protection.max_frames));
            // 700 B per frame at 60 frames/s are 336 kbit/s.
            prop_assert!(protection.key > 0 || loss < 1.0 / 255.0 || kbps < 360 && ms < 200);
        }
    }
}
