//! DCTCP (RFC 8257), as in Linux, `tcp_dctcp.c`.
//!
//! The receiver counts marks by accurate ECN (RFC 9768). In Linux it repeats each mark in the ECE flag, with an
//! acknowledgement at each change (RFC 8257, section 3.2), which tells the sender the same.

use super::alpha::Alpha;
use super::congestion_control::{Ack, CongestionControl, CongestionWindow, Marks, Signal};
use super::newreno::{MIN_SSTHRESH, NewReno};
use crate::units::Time;

/// Grows like NewReno and, once per round trip with marks, shrinks by half of the share of marked segments.
#[derive(Clone, Debug)]
pub struct Dctcp {
    alpha: Alpha,
}

impl Default for Dctcp {
    fn default() -> Self {
        Dctcp { alpha: Alpha::new(Time::ZERO, false) }
    }
}

impl CongestionControl for Dctcp {
    fn on_marks(&mut self, marks: &Marks) {
        self.alpha.on_marks(marks);
    }

    fn on_ack(&mut self, ack: &Ack, window: &mut CongestionWindow) {
        NewReno.on_ack(ack, window);
    }

    /// A loss halves the window (RFC 8257, section 3.4).
    fn on_congestion(&mut self, signal: Signal, window: &CongestionWindow) -> u32 {
        let share = match signal {
            Signal::Mark => self.alpha.value(),
            Signal::Loss => 1.0,
        };
        let reduction = (f64::from(window.segments) * share / 2.0) as u32;
        (window.segments - reduction).max(MIN_SSTHRESH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_takes_half_of_the_share_of_marks_and_a_loss_half_of_the_window() {
        let mut dctcp = Dctcp::default();
        let window = CongestionWindow::new(40);
        // Without any round, the share is one.
        assert_eq!(dctcp.on_congestion(Signal::Mark, &window), 20);
        // 24 rounds without marks: (15/16)^24 = 0.2125. 40 * 0.2125 / 2 = 4.25.
        for number in 0..25 {
            let una = 10 * number + 1;
            let now = Time::from_millis(u64::from(number));
            dctcp.on_marks(&Marks { now, delivered: 10, marked: 0, una, next: una + 9 });
        }
        assert_eq!(dctcp.on_congestion(Signal::Mark, &window), 36);
        assert_eq!(dctcp.on_congestion(Signal::Loss, &window), 20);
        assert_eq!(dctcp.on_congestion(Signal::Loss, &CongestionWindow::new(2)), 2);
    }
}
