//! The share of the sent bytes that repair takes, by which the encoder's rate is reduced.

use crate::media::repair::Retransmission;
use crate::sliding::SlidingSum;
use crate::units::Time;
use std::ops::{AddAssign, SubAssign};

/// Bytes count for this time.
const WINDOW: Time = Time::from_secs(1);
/// Largest share that repair takes from the encoder (libwebrtc, `fec_controller_default.cc`).
const MAX_SHARE: f64 = 0.5;

/// Bytes of all kinds, and bytes of repair among them.
#[derive(Clone, Copy, Default)]
pub(super) struct SentBytes {
    total: u64,
    repair: u64,
}

impl SentBytes {
    fn share(self) -> f64 {
        (self.repair as f64 / self.total.max(1) as f64).min(MAX_SHARE)
    }
}

impl AddAssign for SentBytes {
    fn add_assign(&mut self, other: SentBytes) {
        self.total += other.total;
        self.repair += other.repair;
    }
}

impl SubAssign for SentBytes {
    fn sub_assign(&mut self, other: SentBytes) {
        self.total -= other.total;
        self.repair -= other.repair;
    }
}

/// Measures the share of repair in the bytes sent.
pub(super) enum RepairShare {
    /// The share in the last whole second: until 2024.
    BySeconds { since: Time, sent: SentBytes, share: f64 },
    /// The share in the second before each update of the rate (libwebrtc f3ae3eb62e, `rtp_video_sender.cc`,
    /// ProtectionRequest, and `rtc_base/bitrate_tracker.cc`).
    Sliding(SlidingSum<SentBytes>),
}

impl RepairShare {
    pub(super) fn new(era: Retransmission) -> Self {
        match era {
            Retransmission::Until2024 => {
                RepairShare::BySeconds { since: Time::ZERO, sent: SentBytes::default(), share: 0.0 }
            }
            Retransmission::Since2024 => RepairShare::Sliding(SlidingSum::new(WINDOW)),
        }
    }

    /// Media begins.
    pub(super) fn start(&mut self, now: Time) {
        if let RepairShare::BySeconds { since, .. } = self {
            *since = now;
        }
    }

    /// Counts a packet that is sent.
    pub(super) fn count(&mut self, now: Time, bytes: u64, is_repair: bool) {
        let packet = SentBytes { total: bytes, repair: if is_repair { bytes } else { 0 } };
        match self {
            RepairShare::BySeconds { since, sent, share } => {
                *sent += packet;
                if now >= *since + WINDOW {
                    (*since, *share) = (now, std::mem::take(sent).share());
                }
            }
            RepairShare::Sliding(window) => window.add(now, packet),
        }
    }

    /// The share that counts from now on, 0 to 0.5.
    pub(super) fn at(&mut self, now: Time) -> f64 {
        match self {
            RepairShare::BySeconds { share, .. } => *share,
            RepairShare::Sliding(window) => window.sum(now).share(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One packet every 100 ms for two seconds, of 100 B each; those from 1 s on are repair. Returns the share
    /// every 500 ms from 1 s on.
    fn shares(era: Retransmission) -> Vec<f64> {
        let mut share = RepairShare::new(era);
        share.start(Time::ZERO);
        let mut seen = Vec::new();
        for tenth in 1..=20 {
            let now = Time::from_millis(100 * tenth);
            share.count(now, 100, tenth > 10 && tenth % 3 == 0);
            if tenth >= 10 && tenth % 5 == 0 {
                seen.push(share.at(now));
            }
        }
        seen
    }

    /// Repair are the packets at 1.2, 1.5 and 1.8 s. A second holds ten packets.
    #[test]
    fn since_2024_the_share_follows_at_once_and_earlier_after_the_next_second() {
        assert_eq!(shares(Retransmission::Since2024), [0.0, 0.2, 0.3]);
        assert_eq!(shares(Retransmission::Until2024), [0.0, 0.0, 0.3]);
    }

    #[test]
    fn repair_takes_at_most_half() {
        let mut share = RepairShare::new(Retransmission::Since2024);
        share.count(Time::ZERO, 100, true);
        assert_eq!(share.at(Time::ZERO), 0.5);
        assert_eq!(share.at(WINDOW), 0.0);
    }
}
