//! How long the packets of a stream take, for the synchronisation of audio and video.

use crate::units::Time;

/// Transit of the packets of a stream.
#[derive(Default)]
pub(super) struct Transit {
    latest: Option<(Time, i64)>,
    smallest_ms: Option<i64>,
}

impl Transit {
    /// Takes a packet with an unwrapped RTP timestamp.
    pub(super) fn note(&mut self, now: Time, timestamp: i64, clock: u64) {
        let ms = now.as_millis() as i64 - timestamp * 1_000 / clock as i64;
        self.latest = Some((now, ms));
        self.smallest_ms = Some(self.smallest_ms.map_or(ms, |smallest| smallest.min(ms)));
    }

    /// Time of the latest packet, and how much longer than the fastest it took, in ms.
    ///
    /// libwebrtc compares capture times by sender reports. Here both media come from one sender over one path,
    /// so that their fastest packets take the same time.
    pub(super) fn latest(&self) -> Option<(Time, i64)> {
        let (at, ms) = self.latest?;
        Some((at, ms - self.smallest_ms?))
    }
}
