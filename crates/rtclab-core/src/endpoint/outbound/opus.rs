//! When Opus adds a copy of the frame before to a packet (in-band FEC, RFC 6716, section 2.1.7).
//!
//! Sources: libwebrtc f3ae3eb62e (2026), `modules/audio_coding/codecs/opus/audio_encoder_opus.cc`; libopus
//! 3da9f7a6db (2026), `src/opus_encoder.c` and `silk/fixed/encode_frame_FIX.c`.

use crate::endpoint::format::AUDIO_CLOCK;
use crate::units::Time;

/// What remains of the smoothed loss after a millisecond.
const KEPT_PER_MS: f64 = 0.9999;
/// The encoder is not told of more loss than this.
const MOST: f64 = 0.2;
/// Only in SILK and hybrid mode a packet can have a copy. At 32 kbit/s Opus codes music in CELT mode, unless the
/// loss in per cent is above (128 - v) / 16, where v is its estimate of voice, 0 to 127. Chromium's fake
/// microphone is not voice. Measured: no copies up to 7.49 % after the first reports, copies from 7.87 % on.
const CELT_UP_TO_PERCENT: f64 = 7.0;
/// Time from one beep of the fake microphone to the next, in ms (chromium, `media/audio/simple_sources.cc`).
const CYCLE_MS: u32 = 500;
/// SILK copies only active frames. Measured: 12 copies a second, which are 6 of 25 frames from each beep on.
const ACTIVE_MS: u32 = 120;

/// Smoothed loss of a stream, which the receiver reports.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::endpoint) struct InBandFec {
    /// Time of the last report, and the smoothed share of lost packets.
    loss: Option<(Time, f64)>,
}

impl InBandFec {
    /// Takes a report on the stream, with the share of lost packets in 256ths.
    pub(super) fn on_report(&mut self, now: Time, fraction_lost: u8) {
        let new = f64::from(fraction_lost) / 256.0;
        let smoothed = self.loss.map_or(new, |(at, old)| {
            let kept = libm::pow(KEPT_PER_MS, now.saturating_sub(at).as_millis() as f64);
            kept * old + (1.0 - kept) * new
        });
        self.loss = Some((now, smoothed));
    }

    /// Whether the packet with this RTP timestamp and duration carries a copy of the frame before it.
    pub(super) fn is_in(self, timestamp: u32, frame: Time) -> bool {
        let percent = self.loss.map_or(0.0, |(_, loss)| libm::floor(100.0 * loss.min(MOST) + 0.5));
        let per_ms = AUDIO_CLOCK as u32 / 1_000;
        let before_ms = timestamp.wrapping_sub(frame.as_millis() as u32 * per_ms) / per_ms;
        percent > CELT_UP_TO_PERCENT && before_ms % CYCLE_MS < ACTIVE_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Time = Time::from_millis(20);

    /// Copies in 50 packets of 20 ms after reports, which are (time in s, lost packets of 256).
    fn copies_after(reports: &[(u64, u8)]) -> usize {
        let mut fec = InBandFec::default();
        reports.iter().for_each(|(at, lost)| fec.on_report(Time::from_secs(*at), *lost));
        (0..50).filter(|n| fec.is_in(96_000 + 960 * n, FRAME)).count()
    }

    /// 19 of 256 are 7.4 % and 20 are 7.8 %.
    #[test]
    fn a_quarter_of_packets_has_a_copy_from_eight_per_cent_of_loss_on() {
        let copies =
            [vec![], vec![(2, 19)], vec![(2, 20)], vec![(2, 255)]].map(|r| copies_after(&r));
        assert_eq!(copies, [0, 0, 12, 12]);
    }

    /// 10 % becomes 10 % times 0.9999^2000 = 8.2 % in 2 s without loss, and 0.9999^4000 = 6.7 % in 4 s.
    #[test]
    fn loss_is_forgotten_within_seconds() {
        let after = [2, 4].map(|seconds| copies_after(&[(2, 26), (2 + seconds, 0)]));
        assert_eq!(after, [12, 0]);
    }
}
