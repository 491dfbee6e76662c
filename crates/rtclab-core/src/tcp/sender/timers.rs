//! Timers of a sender: the retransmission timer and the tail loss probe. One of them is set at a time.

use super::TcpSender;
use crate::tcp::congestion_control::Phase;
use crate::units::Time;

/// RFC 8985, 7.2: additional wait before a probe if a single segment is outstanding, whose acknowledgement
/// may be delayed (200 ms in Linux).
const PROBE_DELAY: Time = Time::from_millis(200);
/// Additional wait before a probe otherwise: two ticks of Linux.
const PROBE_SLACK: Time = Time::from_millis(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    Retransmission,
    Probe,
    Reordering,
}

impl TcpSender {
    /// Sets the timer after a segment was sent or acknowledged. `anew` restarts the retransmission timer.
    pub(super) fn arm(&mut self, now: Time, anew: bool) {
        if self.board.outstanding() == 0 {
            return;
        }
        let probing =
            self.phase < Phase::Recovery && self.board.sacked() == 0 && self.probed.is_none();
        match self.rtt.smoothed().filter(|_| probing) {
            Some(smoothed) => {
                let alone = self.board.outstanding() == 1;
                let slack = if alone { PROBE_DELAY } else { PROBE_SLACK };
                let wait = Time(2 * smoothed.0) + slack;
                let at = (now + wait).min(self.retransmission_due(now, false));
                self.timer = Some((at, Timer::Probe));
            }
            None => self.arm_retransmission(now, anew),
        }
    }

    pub(super) fn arm_retransmission(&mut self, now: Time, anew: bool) {
        if anew || self.timer.is_none_or(|(_, timer)| timer != Timer::Retransmission) {
            let at = self.retransmission_due(now, anew);
            self.timer = Some((at, Timer::Retransmission));
        }
    }

    /// When the retransmission timer is due: a timeout from now if `anew`, else a timeout after the oldest
    /// segment was sent.
    fn retransmission_due(&self, now: Time, anew: bool) -> Time {
        let from = self.board.oldest_sent().filter(|_| !anew).unwrap_or(now);
        from.saturating_add(self.rtt.timeout()).max(now + PROBE_SLACK)
    }
}
