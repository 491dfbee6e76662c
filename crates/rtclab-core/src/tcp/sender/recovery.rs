//! Loss recovery of a sender: what is lost, what a loss or a mark does to the window, and what undoes that.

use super::TcpSender;
use super::timers::Timer;
use crate::tcp::Segment;
use crate::tcp::congestion_control::{CongestionWindow, ConnectionTotals, Phase, Signal};
use crate::tcp::scoreboard::{Acked, Found};
use crate::units::Time;

/// Proportional rate reduction, RFC 6937.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reduction {
    pub(super) from: u32,
    pub(super) delivered: u32,
    pub(super) out: u32,
}

/// State to restore if the loss turns out to be spurious.
#[derive(Clone, Copy, Debug)]
pub(super) struct Undo {
    pub(super) window: CongestionWindow,
    /// When the first retransmission was sent.
    pub(super) retransmitted: Option<Time>,
}

impl TcpSender {
    pub(super) fn detect_loss(&mut self, now: Time) -> Found {
        let recovering = self.phase >= Phase::Recovery;
        let rack = &self.board.rack;
        let window = rack.window(recovering, self.board.sacked(), self.rtt.smoothed());
        let found = self.board.detect_loss(now, window);
        match found.look_again {
            Some(at) => self.timer = Some((at.max(now), Timer::Reordering)),
            None if self.timer.is_some_and(|(_, timer)| timer == Timer::Reordering) => {
                self.timer = None;
            }
            None => {}
        }
        found
    }

    pub(super) fn step_phase(
        &mut self,
        segment: &Segment,
        acked: Acked,
        found: Found,
        marked: u32,
    ) {
        if acked.cumulative > 0 && self.phase >= Phase::Recovery && self.is_spurious(segment) {
            self.undo_reduction();
        }
        let is_over = match self.phase {
            Phase::Open => false,
            // Linux: until a segment is acknowledged that left after the reduction, which the receiver has heard of then.
            Phase::Reducing => self.board.una() > self.recover,
            Phase::Recovery | Phase::Loss => self.board.una() >= self.recover,
        };
        if is_over {
            self.end_recovery();
        }
        let begins = match self.phase {
            Phase::Open | Phase::Reducing => self.board.lost() > 0,
            Phase::Recovery => false,
            // RFC 5681, 4.3: the loss of a retransmission is a second sign of congestion.
            Phase::Loss => found.retransmission_lost,
        };
        if begins {
            self.begin_recovery();
        } else if marked > 0 && self.phase == Phase::Open && !self.congestion_control.owns_window()
        {
            self.begin_reduction(Signal::Mark);
            self.phase = Phase::Reducing;
        }
    }

    /// Begins to repair a loss. As in Linux (`tcp_enter_recovery`), a window that is already being reduced because of a
    /// mark is not reduced again.
    pub(super) fn begin_recovery(&mut self) {
        if self.phase != Phase::Reducing {
            self.undo = Some(self.undo());
            self.begin_reduction(Signal::Loss);
        }
        self.phase = Phase::Recovery;
    }

    fn begin_reduction(&mut self, signal: Signal) {
        self.recover = self.board.next();
        self.reduction = Reduction { from: self.window.segments, delivered: 0, out: 0 };
        self.reduce_threshold(signal);
    }

    fn reduce_threshold(&mut self, signal: Signal) {
        self.window.credit = 0;
        self.window.ssthresh = self.congestion_control.on_congestion(signal, &self.window);
        self.ecn.on_reduction();
    }

    /// State to restore after the loss that is being handled. Retransmissions of an earlier loss may still be
    /// in flight. An acknowledgement that they cause does not prove that this loss is spurious.
    fn undo(&mut self) -> Undo {
        let retransmitted = self.board.oldest_retransmission().map(|(at, _)| at);
        Undo { window: self.window, retransmitted }
    }

    fn end_recovery(&mut self) {
        if self.is_reducing() && !self.congestion_control.owns_window() {
            self.window.segments = self.window.ssthresh;
        }
        if self.phase != Phase::Reducing {
            self.board.rack.on_recovery_end();
        }
        self.phase = Phase::Open;
        self.undo = None;
    }

    /// Whether a segment sent before the retransmission caused the acknowledgement (RFC 4015).
    fn is_spurious(&self, segment: &Segment) -> bool {
        let retransmitted = self.undo.and_then(|undo| undo.retransmitted);
        retransmitted.is_some_and(|at| segment.echo < at)
    }

    fn undo_reduction(&mut self) {
        let Some(undo) = self.undo.take() else { return };
        self.window.segments = self.window.segments.max(undo.window.segments);
        self.window.ssthresh = self.window.ssthresh.max(undo.window.ssthresh);
        self.board.forget_losses();
        self.congestion_control.on_undo();
        self.phase = Phase::Open;
    }

    /// Reduces the window proportionally (RFC 6937). As in Linux, slow start adds a segment only if nothing
    /// more is lost.
    pub(super) fn reduce(&mut self, delivered: u32, lost: u32, advanced: bool) {
        if self.congestion_control.owns_window() || delivered == 0 || self.reduction.from == 0 {
            return;
        }
        let (in_flight, ssthresh) = (self.board.in_flight(), self.window.ssthresh);
        let reduction = &mut self.reduction;
        reduction.delivered += delivered;
        let send = if in_flight > ssthresh {
            let share = u64::from(ssthresh) * u64::from(reduction.delivered);
            share.div_ceil(u64::from(reduction.from)) as i64 - i64::from(reduction.out)
        } else {
            let behind = i64::from(reduction.delivered) - i64::from(reduction.out);
            let grow = i64::from(advanced && lost == 0);
            i64::from(ssthresh - in_flight).min(behind.max(delivered.into()) + grow)
        };
        let least = i64::from(reduction.out == 0);
        self.window.segments = in_flight + send.max(least) as u32;
    }

    pub(super) fn on_retransmission_timeout(&mut self, now: Time) {
        if self.board.outstanding() == 0 {
            return;
        }
        self.timeouts += 1;
        // RFC 5681, 4: the threshold is reduced once per loss, not once per timeout.
        if self.phase == Phase::Open || self.board.una() > self.recover {
            self.undo = Some(self.undo());
            self.reduce_threshold(Signal::Loss);
        }
        self.phase = Phase::Loss;
        self.recover = self.board.next();
        self.board.mark_after_timeout(now);
        let (delivered, lost) = (self.board.rate.delivered, self.board.total_lost());
        self.congestion_control.on_timeout(&ConnectionTotals { now, delivered, lost });
        self.window.segments = self.board.in_flight() + 1;
        self.rtt.back_off();
        self.probed = None;
        // The first segment leaves at once: a timeout does not wait for the pacer.
        self.pacer.release(now);
        self.timer = Some((now.saturating_add(self.rtt.timeout()), Timer::Retransmission));
    }
}
