//! How the RTP timestamps of a stream step from packet to packet: whether it is audio or video, and its
//! clock.
//!
//! Audio has one packet per timestamp, and its timestamps step by a packet time of 10 to 120 ms, or by
//! another multiple of 10 ms after a pause. Video has several packets per timestamp, or its timestamps
//! step otherwise. No usual rate of pictures steps like audio: at 90 kHz, 30 pictures a second step by
//! 3000 and 25 by 3600, which are 62.5 and 75 ms of 48 kHz. Neither loss nor pauses change the steps.
//!
//! Several clocks may fit the steps: 960 are 20 ms of 48 kHz or 40 ms of 24 kHz. Of these, the one is taken
//! that is nearest to the arrivals outside pauses, because timestamps may stop in a pause.
//!
//! Source: RFC 3551, sections 4.2 and 5; RFC 7587, section 4.1 (packet times of Opus).

use super::super::sdp::PayloadKind;

const VIDEO_RATE: u32 = 90_000;
/// Clock rates of audio, then the one of video.
pub(crate) const RATES: [u32; 7] = [8_000, 16_000, 24_000, 32_000, 44_100, 48_000, VIDEO_RATE];
/// Number of audio rates in [`RATES`].
const AUDIO_RATES: usize = RATES.len() - 1;
/// The rates that are likely for a stream whose steps fit no audio clock.
const USUAL_RATES: [u32; 4] = [48_000, VIDEO_RATE, 8_000, 16_000];
/// Packet times of audio in units of 10 ms.
const PACKET_TIMES: [u32; 8] = [1, 2, 3, 4, 6, 8, 10, 12];
/// A longer interval is a pause. The longest packet time is 120 ms.
const PAUSE_NS: i64 = 200_000_000;
/// Time over which a clock rate is measured, outside pauses. A timing error of 20 ms is a twelfth of it.
const WINDOW_NS: i64 = 250_000_000;
/// Minimum measured time for a clock rate.
const GUESSED_NS: i64 = 200_000_000;
/// Maximum ratio between a measured rate and a clock: about half the way to the next of [`USUAL_RATES`].
const TOLERANCE: f64 = 1.33;
/// Minimum number of steps for a judgement on their sizes.
const ENOUGH_STEPS: u64 = 4;
/// Maximum number of packets from one to the next that arrives, after which the step means nothing.
const MAX_GAP: i64 = 100;

/// A packet that is ahead of all before it.
#[derive(Clone, Copy, Debug)]
struct Newest {
    at_ns: i64,
    extended_seq: i64,
    timestamp: u32,
    payload_type: u8,
}

/// Steps of a stream between packets of one payload type, or the sum over several streams.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps {
    newest: Option<Newest>,
    /// Beginning of the current window: time and timestamp of the first packet of a timestamp.
    window: Option<(i64, u32)>,
    /// Time and timestamp of the latest first packet of a timestamp.
    latest: (i64, u32),
    /// Number of packets with the timestamp of the one before.
    same: u64,
    /// Number of packets with another timestamp.
    changed: u64,
    /// Number of those whose step is a multiple of 10 ms, by audio clock.
    multiples: [u64; AUDIO_RATES],
    /// Number of those whose step is a packet time, by audio clock.
    packet_times: [u64; AUDIO_RATES],
    rates: Measured,
}

/// How well clock rates fit the arrivals.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    elapsed_ns: i64,
    /// Time over which each of [`RATES`] fitted, weighted by how near it was to the measured rate, in
    /// seconds.
    fits_s: [f64; RATES.len()],
}

impl Measured {
    fn add(&mut self, from: (i64, u32), to: (i64, u32)) {
        let elapsed_ns = to.0 - from.0;
        let sampled = f64::from(to.1.wrapping_sub(from.1) as i32);
        if elapsed_ns <= 0 || sampled <= 0.0 {
            return;
        }
        self.elapsed_ns += elapsed_ns;
        let weight_s = elapsed_ns.min(WINDOW_NS) as f64 / 1e9;
        let measured = sampled * 1e9 / elapsed_ns as f64;
        for (fit_s, rate) in self.fits_s.iter_mut().zip(RATES) {
            let ratio = measured / f64::from(rate);
            let away = ratio.max(1.0 / ratio) - 1.0;
            *fit_s += weight_s * (1.0 - away / (TOLERANCE - 1.0)).max(0.0);
        }
    }

    /// Index of the rate that fits best, among those allowed.
    fn best(&self, allowed: impl Fn(usize) -> bool) -> Option<usize> {
        if self.elapsed_ns < GUESSED_NS {
            return None;
        }
        let fitting = (0..RATES.len()).filter(|index| allowed(*index) && self.fits_s[*index] > 0.0);
        fitting.max_by(|a, b| self.fits_s[*a].total_cmp(&self.fits_s[*b]))
    }
}

impl Steps {
    /// Takes a packet that is ahead of all others of its stream.
    #[inline]
    pub(crate) fn add(
        &mut self,
        at_ns: i64,
        (extended_seq, timestamp): (i64, u32),
        payload_type: u8,
    ) {
        let now = Newest { at_ns, extended_seq, timestamp, payload_type };
        let before = self.newest.replace(now);
        let Some(before) = before.filter(|before| before.payload_type == payload_type) else {
            return self.begin(at_ns, timestamp);
        };
        let gap = extended_seq - before.extended_seq;
        let step = timestamp.wrapping_sub(before.timestamp);
        if !(1..=MAX_GAP).contains(&gap) {
            return self.begin(at_ns, timestamp);
        }
        if step == 0 {
            self.same += 1;
            return;
        }
        self.count(step, gap as u32);
        self.measure(at_ns, timestamp, at_ns - before.at_ns);
    }

    /// Begins anew, for example after a new sequence has begun.
    pub(crate) fn interrupt(&mut self) {
        self.close();
        self.newest = None;
    }

    fn begin(&mut self, at_ns: i64, timestamp: u32) {
        self.close();
        self.window = Some((at_ns, timestamp));
        self.latest = (at_ns, timestamp);
    }

    /// Measures the window up to the latest packet.
    fn close(&mut self) {
        if let Some(from) = self.window.take() {
            self.rates.add(from, self.latest);
        }
    }

    fn count(&mut self, step: u32, gap: u32) {
        self.changed += 1;
        // Lost packets would have had steps of the same size, unless there was a pause.
        let step = if step % gap == 0 { step / gap } else { step };
        for (index, rate) in RATES[..AUDIO_RATES].iter().enumerate() {
            let unit = rate / 100;
            let is_multiple = step % unit == 0 && step < 1 << 31;
            self.multiples[index] += u64::from(is_multiple);
            let is_packet_time = is_multiple && PACKET_TIMES.contains(&(step / unit));
            self.packet_times[index] += u64::from(is_packet_time);
        }
    }

    fn measure(&mut self, at_ns: i64, timestamp: u32, interval_ns: i64) {
        let from = self.window.map_or(at_ns, |(from_ns, _)| from_ns);
        if interval_ns > PAUSE_NS {
            let before = self.latest;
            self.begin(at_ns, timestamp);
            self.rates.add(before, (at_ns, timestamp));
        } else if at_ns - from >= WINDOW_NS {
            self.latest = (at_ns, timestamp);
            self.begin(at_ns, timestamp);
        }
        self.latest = (at_ns, timestamp);
    }

    /// Adds the counts of another stream.
    pub(crate) fn add_counts(&mut self, other: &Steps) {
        self.same += other.same;
        self.changed += other.changed;
        for index in 0..AUDIO_RATES {
            self.multiples[index] += other.multiples[index];
            self.packet_times[index] += other.packet_times[index];
        }
        let rates = other.measured();
        self.rates.elapsed_ns += rates.elapsed_ns;
        for (sum_s, fit_s) in self.rates.fits_s.iter_mut().zip(rates.fits_s) {
            *sum_s += fit_s;
        }
    }

    /// What was measured, with the current window.
    fn measured(&self) -> Measured {
        let mut rates = self.rates;
        if let Some(from) = self.window {
            rates.add(from, self.latest);
        }
        rates
    }

    /// Whether the steps are as in audio of this clock: most are multiples of 10 ms, and some are a
    /// packet time.
    fn fits_audio(&self, index: usize) -> bool {
        self.multiples[index] * 4 >= self.changed * 3
            && self.packet_times[index] * 4 >= self.changed
    }

    /// Audio or video, if the sizes of the steps show it.
    pub(crate) fn kind_by_steps(&self) -> Option<PayloadKind> {
        if self.same + self.changed < ENOUGH_STEPS {
            return None;
        }
        if self.same * 10 >= self.same + self.changed {
            return Some(PayloadKind::Video);
        }
        (0..AUDIO_RATES).any(|index| self.fits_audio(index)).then_some(PayloadKind::Audio)
    }

    /// Index in [`RATES`] of the clock rate, if it can be told.
    pub(crate) fn rate_index(&self) -> Option<usize> {
        let rates = self.measured();
        match self.kind_by_steps() {
            Some(PayloadKind::Video) => rates
                .best(|index| RATES[index] == VIDEO_RATE)
                .or_else(|| (rates.elapsed_ns >= GUESSED_NS).then_some(AUDIO_RATES)),
            Some(_) => rates.best(|index| index < AUDIO_RATES && self.fits_audio(index)),
            None => rates.best(|index| USUAL_RATES.contains(&RATES[index])),
        }
    }

    /// Audio or video, by the sizes of the steps or else by the clock rate.
    pub(crate) fn kind(&self) -> Option<PayloadKind> {
        self.kind_by_steps().or_else(|| self.kind_by_rate())
    }

    /// Audio or video by the clock rate.
    pub(crate) fn kind_by_rate(&self) -> Option<PayloadKind> {
        let is_video = RATES[self.rate_index()?] == VIDEO_RATE;
        Some(if is_video { PayloadKind::Video } else { PayloadKind::Audio })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A stream of packets: how it is made, and where it is lost, late or silent.
    #[derive(Clone, Copy, Debug)]
    struct Made {
        rate: u32,
        packet_ms: u32,
        per_timestamp: u32,
        packets: u32,
        /// Packets of a spurt, and the pause after it.
        spurt: u32,
        pause_ms: u32,
        /// Whether timestamps go on in a pause.
        goes_on: bool,
        lost_percent: u32,
        late_ms: u32,
    }

    const MADE: Made = Made {
        rate: 48_000,
        packet_ms: 20,
        per_timestamp: 1,
        packets: 600,
        spurt: u32::MAX,
        pause_ms: 0,
        goes_on: true,
        lost_percent: 0,
        late_ms: 0,
    };

    fn steps(made: Made) -> Steps {
        let mut random = 1u64;
        let mut below = |limit: u32| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((random >> 33) % u64::from(limit.max(1))) as u32
        };
        let (mut steps, mut last_ns) = (Steps::default(), 0);
        let (mut at_ms, mut timestamp) = (0, u32::MAX - 50_000);
        for number in 0..made.packets {
            let lost = below(100) < made.lost_percent;
            let at_ns = (i64::from(at_ms) + i64::from(below(made.late_ms))) * 1_000_000;
            last_ns = at_ns.max(last_ns + 10_000);
            if !lost {
                steps.add(last_ns, (i64::from(number), timestamp), 111);
            }
            if (number + 1) % made.per_timestamp != 0 {
                continue;
            }
            at_ms += made.packet_ms;
            timestamp = timestamp.wrapping_add(made.rate / 1000 * made.packet_ms);
            if (number + 1) % made.spurt == 0 {
                at_ms += made.pause_ms;
                let sampled = made.rate / 1000 * made.pause_ms;
                timestamp = timestamp.wrapping_add(if made.goes_on { sampled } else { 0 });
            }
        }
        steps
    }

    fn judged(steps: &Steps) -> (Option<PayloadKind>, Option<u32>) {
        (steps.kind(), steps.rate_index().map(|index| RATES[index]))
    }

    #[test]
    fn audio_with_pauses_and_loss_is_audio_of_its_clock() {
        for (rate, packet_ms, goes_on, lost_percent, late_ms) in [
            (48_000, 60, false, 30, 40),
            (48_000, 20, false, 10, 15),
            (48_000, 20, true, 10, 15),
            (48_000, 10, false, 5, 10),
            (48_000, 40, true, 50, 20),
            (16_000, 20, false, 10, 15),
            (16_000, 60, true, 30, 30),
            (16_000, 40, false, 0, 0),
            (8_000, 20, false, 5, 10),
            (24_000, 20, false, 5, 5),
            (32_000, 20, true, 5, 5),
        ] {
            let made = Made {
                rate,
                packet_ms,
                goes_on,
                lost_percent,
                late_ms,
                spurt: 1_500 / packet_ms,
                pause_ms: 3_800,
                ..MADE
            };
            assert_eq!(judged(&steps(made)), (Some(PayloadKind::Audio), Some(rate)), "{made:?}");
        }
    }

    #[test]
    fn pictures_are_video_in_one_packet_or_several_and_also_if_they_stop() {
        for (picture_ms, per_timestamp, goes_on) in [
            (33, 1, true),
            (40, 1, true),
            (20, 1, true),
            (100, 1, true),
            (66, 1, false),
            (500, 3, false),
        ] {
            let made = Made {
                rate: 90_000,
                packet_ms: picture_ms,
                per_timestamp,
                goes_on,
                spurt: 60,
                pause_ms: 2_000,
                lost_percent: 5,
                late_ms: 10,
                ..MADE
            };
            assert_eq!(judged(&steps(made)), (Some(PayloadKind::Video), Some(90_000)), "{made:?}");
        }
    }

    #[test]
    fn a_few_packets_tell_neither() {
        assert_eq!(judged(&steps(Made { packets: 2, ..MADE })), (None, None));
    }

    proptest! {
        #[test]
        fn neither_pauses_nor_loss_change_the_kind(
            packet in prop::sample::select(
                vec![(48_000, 10), (48_000, 20), (48_000, 60), (16_000, 20), (8_000, 20)]
            ),
            spurt in 20u32..200,
            pause_ms in 0u32..10_000,
            goes_on: bool,
            lost_percent in 0u32..50,
        ) {
            let (rate, packet_ms) = packet;
            let pause_ms = pause_ms / packet_ms * packet_ms;
            let audio = Made { rate, packet_ms, spurt, pause_ms, goes_on, lost_percent, ..MADE };
            prop_assert_eq!(judged(&steps(audio)).0, Some(PayloadKind::Audio));
            let video = Made { rate: 90_000, packet_ms: 33, per_timestamp: 4, ..audio };
            prop_assert_eq!(judged(&steps(video)).0, Some(PayloadKind::Video));
        }
    }
}
