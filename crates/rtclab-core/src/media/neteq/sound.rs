//! The sound that concealment repeats and time scaling shortens.
//!
//! Browsers under test hear Chromium's fake microphone: a beep twice a second, whose tail decays for 0.3 s, and
//! then nothing. Measured: the audio level of the 25 packets from one beep to the next is -13, -8, -22, -32, -38
//! and then 4 dB lower in each, down to -101 dB in the 18th; the other seven are silent (-127 dB). One step of a
//! sample is -90 dB. Source: libwebrtc f3ae3eb62e (2026), `modules/audio_coding/neteq/{expand,merge}.cc`.

use super::{OVERLAP, PER_MS};

/// Time from one beep to the next (chromium, `media/audio/simple_sources.cc`).
const CYCLE: i64 = 500 * PER_MS;
/// An audio level was measured over this time.
const PACKET: i64 = 20 * PER_MS;

/// Samples that a step of time scaling removes or inserts after decoding up to an RTP timestamp: a pitch period
/// of the last 30 ms. `None` if the sound does not allow a step.
///
/// A step needs a period that repeats with a correlation of 0.9, or sound that is as quiet as the silence around
/// it (`time_stretch.cc`). A beep and its tail have neither. The last two packets of the tail are quiet enough,
/// and their period is 703 samples; in silence the shortest period is found, 120 samples. Steps follow each
/// other after 60 ms at least, so they remove up to 703 + 3 * 120 samples a beep. Measured: at most 2,126 samples
/// a second removed, and in most seconds 703 a + 120 b, removed or inserted.
pub(super) fn scaled_by(end: i64) -> Option<i64> {
    match packets_after_beep(end) {
        1..17 => None,
        17 | 18 => Some(703),
        _ => Some(Sound::Other.lag()),
    }
}

/// Packets from the beginning of the last beep to an RTP timestamp.
fn packets_after_beep(timestamp: i64) -> i64 {
    timestamp.rem_euclid(CYCLE) / PACKET
}

/// What was played before a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sound {
    /// The tail of a beep.
    Tail,
    /// Samples of zero, or a beep, which repeats as fast as silence is taken to.
    Other,
}

impl Sound {
    /// What was played up to an RTP timestamp.
    pub(super) fn before(timestamp: i64) -> Self {
        if (4..18).contains(&packets_after_beep(timestamp)) { Sound::Tail } else { Sound::Other }
    }

    /// Samples in a pitch period: the longest, or the shortest, which silence has.
    ///
    /// Periods are 2.5 ms to one sample less than 15 ms. Measured: concealment that repeats a tail counts 719 or
    /// 1,438 samples, less what the merger before it took back.
    pub(super) fn lag(self) -> i64 {
        match self {
            Sound::Tail => 719,
            Sound::Other => 120,
        }
    }

    /// Concealed samples after which the sound is at half of its level or less.
    ///
    /// In silence a period lowers it to 0.49: the slope is 4,369 / 2^20 per sample. A tail falls by some 4 dB in
    /// 20 ms, which is 0.7 in a period, so two periods suffice.
    pub(super) fn half_faded(self) -> i64 {
        match self {
            Sound::Tail => 2 * self.lag(),
            Sound::Other => self.lag(),
        }
    }

    /// Concealed samples after which nothing is left, in steps of 2^-14: 13 times 0.49, 27 times 0.7.
    pub(super) fn faded(self) -> i64 {
        match self {
            Sound::Tail => 27 * self.lag(),
            Sound::Other => 13 * self.lag(),
        }
    }

    /// Where the next packet begins in the rest of concealment, which has `old` samples with the overlap and is extended
    /// by another period: where packet and concealment correlate most, which is where concealment is loudest.
    ///
    /// In silence nothing correlates, and the packet begins at once. Each period of a tail is loudest at its
    /// start. So the packet begins with the added period, or, where most of a period is left, at once. From
    /// which share of a period on is measured: in ten calls with 5 % of loss, 16 % of single concealments count
    /// two periods and 7 % nothing, because the merger before them took back more than they made.
    pub(super) fn merge_index(self, old: i64) -> i64 {
        let added = old - OVERLAP;
        if self == Sound::Tail && 8 * added < 7 * self.lag() { added } else { 0 }
    }
}
