//! The sound that concealment repeats.
//!
//! Browsers under test hear Chromium's fake microphone: a beep twice a second, whose tail decays for 0.3 s, and
//! then nothing. Source: libwebrtc f3ae3eb62e (2026), `modules/audio_coding/neteq/{expand,merge}.cc`.

use super::PER_MS;

/// Time from one beep to the next (chromium, `media/audio/simple_sources.cc`).
const CYCLE: i64 = 500 * PER_MS;
/// The beep with its tail. Measured: the audio level of packets falls from -8 to -90 dB, which is less than one
/// step of a sample, in 16 packets; in the rest of 25 it is -127 dB.
const SOUNDING: i64 = 320 * PER_MS;

/// What was played before a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sound {
    /// A beep or its tail.
    Beep,
    /// Samples of zero.
    Silence,
}

impl Sound {
    /// What was played up to an RTP timestamp.
    pub(super) fn before(timestamp: i64) -> Self {
        if (timestamp - 1).rem_euclid(CYCLE) < SOUNDING { Sound::Beep } else { Sound::Silence }
    }

    /// Samples in a pitch period: the longest, or the shortest, which silence has.
    ///
    /// Periods are 2.5 ms to one sample less than 15 ms. In a beep, most live counts of one concealment are
    /// 719 to 720 and twice that.
    pub(super) fn lag(self) -> i64 {
        match self {
            Sound::Beep => 719,
            Sound::Silence => 120,
        }
    }

    /// Concealed samples after which the sound is at half of its level or less.
    ///
    /// In silence a period lowers it to 0.49: the slope is 4,369 / 2^20 per sample. A tail falls by some 4 dB in
    /// 20 ms, which is 0.7 in a period, so two periods suffice.
    pub(super) fn half_faded(self) -> i64 {
        match self {
            Sound::Beep => 2 * self.lag(),
            Sound::Silence => self.lag(),
        }
    }

    /// Concealed samples after which nothing is left, in steps of 2^-14: 13 times 0.49, 27 times 0.7.
    pub(super) fn faded(self) -> i64 {
        match self {
            Sound::Beep => 27 * self.lag(),
            Sound::Silence => 13 * self.lag(),
        }
    }

    /// Where the next packet begins in what is left of concealment: at its start in silence, where nothing
    /// correlates; in a beep, in the middle of a period on average.
    pub(super) fn merge_index(self) -> i64 {
        match self {
            Sound::Beep => self.lag() / 2,
            Sound::Silence => 0,
        }
    }
}
