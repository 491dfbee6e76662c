//! NewReno (RFC 5681). As in Linux, it counts every acknowledged segment (RFC 3465), and a mark counts as a loss (RFC
//! 3168, section 6.1.2).

use super::congestion_control::{Ack, CongestionControl, CongestionWindow, Signal};

/// Minimum slow start threshold: two segments (RFC 5681, equation 4).
pub(super) const MIN_SSTHRESH: u32 = 2;

/// Slow start, additive increase by one segment per round trip, and half the window on loss or a mark.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewReno;

impl CongestionControl for NewReno {
    fn on_ack(&mut self, ack: &Ack, window: &mut CongestionWindow) {
        if !ack.window_limited {
            return;
        }
        let mut acked = ack.acked;
        if window.in_slow_start() {
            acked = window.slow_start(acked);
        }
        if acked > 0 {
            window.increase(window.segments, acked);
        }
    }

    fn on_congestion(&mut self, _signal: Signal, window: &CongestionWindow) -> u32 {
        (window.segments / 2).max(MIN_SSTHRESH)
    }
}
