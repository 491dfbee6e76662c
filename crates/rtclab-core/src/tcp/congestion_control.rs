//! Input and output of a TCP congestion control.

use super::delivery_rate::RateSample;
use super::pacer;
use crate::units::Time;

/// The congestion window and the slow start threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CongestionWindow {
    /// Segments that may be in flight.
    pub segments: u32,
    /// Slow start threshold, in segments.
    pub ssthresh: u32,
    /// Acknowledged segments that count towards the next additive increase.
    pub credit: u32,
}

impl CongestionWindow {
    /// The window of a new connection.
    pub fn new(segments: u32) -> Self {
        CongestionWindow { segments, ssthresh: u32::MAX, credit: 0 }
    }

    /// Whether the window is below the threshold, so that it doubles every round trip.
    pub fn in_slow_start(&self) -> bool {
        self.segments < self.ssthresh
    }

    /// Grows by the acknowledged segments, up to the threshold. Returns the number of segments left over.
    pub fn slow_start(&mut self, acked: u32) -> u32 {
        let grown = self.segments.saturating_add(acked).min(self.ssthresh);
        let used = grown - self.segments;
        self.segments = grown;
        acked - used
    }

    /// Grows by one segment for every `per` segments acknowledged.
    pub fn increase(&mut self, per: u32, acked: u32) {
        let per = per.max(1);
        if self.credit >= per {
            self.credit = 0;
            self.segments += 1;
        }
        self.credit += acked;
        self.segments += self.credit / per;
        self.credit %= per;
    }
}

/// Phases of loss recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// No loss has been detected.
    Open,
    /// The window is being reduced because of a mark, without loss (CWR in Linux).
    Reducing,
    /// Fast recovery.
    Recovery,
    /// After a timeout.
    Loss,
}

/// A sign that the network is congested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A segment was lost.
    Loss,
    /// A queue has marked a segment.
    Mark,
}

/// What an acknowledgement with accurate ECN says about marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// When the acknowledgement arrived.
    pub now: Time,
    /// Segments newly known to have arrived.
    pub delivered: u32,
    /// How many of them are counted as marked.
    pub marked: u32,
    /// First unacknowledged segment.
    pub una: u32,
    /// Next new segment.
    pub next: u32,
}

/// Totals of a connection so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnectionTotals {
    /// Time of the totals.
    pub now: Time,
    /// Segments delivered.
    pub delivered: u64,
    /// Segments found to be lost.
    pub lost: u64,
}

/// An acknowledgement, as congestion control sees it.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// When it arrived.
    pub now: Time,
    /// Segments acknowledged cumulatively.
    pub acked: u32,
    /// Segments newly known to have arrived.
    pub delivered: u32,
    /// How many of them were marked, if accurate ECN is in use. Otherwise 0.
    pub marked: u32,
    /// Segments delivered so far, in total.
    pub total_delivered: u64,
    /// Segments found to be lost by this acknowledgement.
    pub lost: u32,
    /// Segments found to be lost so far, in total. Includes those found by a timer.
    pub total_lost: u64,
    /// Round trip of the newest segment acknowledged, if it is known.
    pub rtt: Option<Time>,
    /// Smoothed round trip.
    pub smoothed_rtt: Option<Time>,
    /// Delivery rate sample.
    pub rate: Option<RateSample>,
    /// Segments in flight before the acknowledgement.
    pub prior_in_flight: u32,
    /// Segments in flight after it.
    pub in_flight: u32,
    /// First unacknowledged segment.
    pub una: u32,
    /// Next new segment.
    pub next: u32,
    /// When the pacer releases the next segment. Not later than `now` if it is not holding one back.
    pub next_departure: Time,
    /// Whether the window limits sending, not the application.
    pub window_limited: bool,
    /// Phase of loss recovery.
    pub phase: Phase,
}

impl Ack {
    /// Totals of the connection so far.
    pub fn totals(&self) -> ConnectionTotals {
        ConnectionTotals { now: self.now, delivered: self.total_delivered, lost: self.total_lost }
    }
}

#[cfg(test)]
impl Ack {
    /// Acknowledges `acked` segments in order on an otherwise idle path.
    pub(super) fn of(now: Time, acked: u32) -> Self {
        Ack {
            now,
            acked,
            delivered: acked,
            marked: 0,
            total_delivered: 0,
            lost: 0,
            total_lost: 0,
            rtt: None,
            smoothed_rtt: None,
            rate: None,
            prior_in_flight: 0,
            in_flight: 0,
            una: 0,
            next: 0,
            next_departure: Time::ZERO,
            window_limited: true,
            phase: Phase::Open,
        }
    }
}

/// Decides the window, and the pacing rate if the algorithm paces.
pub trait CongestionControl: Send {
    /// Handles an acknowledgement. If the control does not [own the window](Self::owns_window), this is not
    /// called in [`Phase::Reducing`] and [`Phase::Recovery`], where the sender reduces the window proportionally.
    fn on_ack(&mut self, ack: &Ack, window: &mut CongestionWindow);

    /// Handles a sign of congestion, at most one per round trip. Returns the new slow start threshold.
    ///
    /// A control that [owns the window](Self::owns_window) hears of losses only. It finds marks in [`Ack::marked`].
    fn on_congestion(&mut self, signal: Signal, window: &CongestionWindow) -> u32;

    /// Counts marks. Called for every acknowledgement in every phase, before anything else, if accurate ECN is in use.
    fn on_marks(&mut self, _marks: &Marks) {}

    /// Handles the opening of the connection. `rtt` is the first round trip.
    fn on_connected(&mut self, _rtt: Time, _window: &CongestionWindow) {}

    /// Handles the expiry of the retransmission timer. Called after `on_congestion`.
    fn on_timeout(&mut self, _timeout: &ConnectionTotals) {}

    /// Handles the undo of the last reduction, which was a mistake.
    fn on_undo(&mut self) {}

    /// Handles the round trip of an acknowledgement, in every phase.
    fn on_rtt(&mut self, _ack: &Ack, _rtt: Time, _window: &mut CongestionWindow) {}

    /// Whether the control sets the window itself in every phase.
    fn owns_window(&self) -> bool {
        false
    }

    /// Pacing rate in segments per second. `None` sends whenever the window allows.
    fn pacing_rate(&self) -> Option<f64> {
        None
    }

    /// Number of segments that may leave without a gap at a pacing rate of `rate` segments per second.
    fn burst(&self, rate: f64) -> u32 {
        pacer::burst(rate)
    }

    /// Whether it currently sends little on purpose, so that rate samples say nothing about the path.
    fn limits_itself(&self) -> bool {
        false
    }
}
