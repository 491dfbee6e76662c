//! What a congestion control of TCP sees and decides.

use super::delivery_rate::RateSample;
use crate::units::Time;

/// The congestion window in segments, and where slow start ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Segments that may be in flight.
    pub segments: u32,
    /// Slow start below it.
    pub ssthresh: u32,
    /// Part of a segment that additive increase has earned, in acknowledged segments.
    pub credit: u32,
}

impl Window {
    /// A new connection's.
    pub fn new(segments: u32) -> Self {
        Window { segments, ssthresh: u32::MAX, credit: 0 }
    }

    /// Whether the window doubles every round trip.
    pub fn in_slow_start(&self) -> bool {
        self.segments < self.ssthresh
    }

    /// Grows by what was acknowledged, up to the threshold; returns what is left.
    pub fn slow_start(&mut self, acked: u32) -> u32 {
        let grown = self.segments.saturating_add(acked).min(self.ssthresh);
        let used = grown - self.segments;
        self.segments = grown;
        acked - used
    }

    /// Grows by one segment for every `per` acknowledged.
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
    /// Nothing is missing, or it is not yet known to be.
    Open,
    /// Fast recovery.
    Recovery,
    /// After a timeout.
    Loss,
}

/// What a connection has done so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Until when.
    pub now: Time,
    /// Segments delivered.
    pub delivered: u64,
    /// Segments found to be lost.
    pub lost: u64,
}

/// What an acknowledgement means for congestion control.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// When it came.
    pub now: Time,
    /// Segments acknowledged cumulatively.
    pub acked: u32,
    /// Segments known for the first time to have arrived.
    pub delivered: u32,
    /// All segments delivered so far.
    pub total_delivered: u64,
    /// Segments found to be lost.
    pub lost: u32,
    /// All segments found to be lost so far, also without an acknowledgement.
    pub total_lost: u64,
    /// Round trip of the newest segment, if it was sent once.
    pub rtt: Option<Time>,
    /// Smoothed round trip.
    pub smoothed_rtt: Option<Time>,
    /// Delivery rate.
    pub rate: Option<RateSample>,
    /// Segments in flight before …
    pub prior_in_flight: u32,
    /// … and after it.
    pub in_flight: u32,
    /// First segment not acknowledged.
    pub una: u32,
    /// Next new segment.
    pub next: u32,
    /// When the pacer lets the next segment go; not later than `now` if it does already.
    pub next_departure: Time,
    /// The window, not the application, limits what is sent.
    pub window_limited: bool,
    /// Phase of loss recovery.
    pub phase: Phase,
}

impl Ack {
    /// What the connection has done so far.
    pub fn totals(&self) -> Totals {
        Totals { now: self.now, delivered: self.total_delivered, lost: self.total_lost }
    }
}

#[cfg(test)]
impl Ack {
    /// So many segments arrived in order on a path that is otherwise idle.
    pub(super) fn of(now: Time, acked: u32) -> Self {
        Ack {
            now,
            acked,
            delivered: acked,
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

/// Decides the window, and the pacing rate if it paces.
pub trait CongestionControl: Send {
    /// An acknowledgement came. One that does not own the window is not asked in
    /// [`Phase::Recovery`], where the sender reduces the window proportionally.
    fn on_ack(&mut self, ack: &Ack, window: &mut Window);

    /// A loss: the slow start threshold from now on.
    fn on_loss(&mut self, window: &Window) -> u32;

    /// The connection is open; the first round trip.
    fn on_connected(&mut self, _rtt: Time, _window: &Window) {}

    /// The retransmission timer expired; comes after `on_loss`.
    fn on_timeout(&mut self, _timeout: &Totals) {}

    /// The last reduction was a mistake and has been undone.
    fn on_undo(&mut self) {}

    /// Round trip of every acknowledgement, in all phases.
    fn on_rtt(&mut self, _ack: &Ack, _rtt: Time, _window: &mut Window) {}

    /// Whether the window is its own in all phases.
    fn owns_window(&self) -> bool {
        false
    }

    /// Segments per second at which it paces; `None` sends when the window allows.
    fn pacing_rate(&self) -> Option<f64> {
        None
    }

    /// It sends little on purpose, so that rate samples say nothing of the path.
    fn limits_itself(&self) -> bool {
        false
    }
}
