//! Intervals between losses (RFC 5348, sections 5.2 to 5.4), in packets.

use std::collections::VecDeque;

/// Weights of the last intervals, the newest first (RFC 5348, section 5.4).
const WEIGHTS: [f64; 8] = [1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2];

/// Loss events and the packets between them.
#[derive(Clone, Debug, Default)]
pub(super) struct LossIntervals {
    /// Closed intervals, the newest first.
    closed: VecDeque<f64>,
    /// Packets since the last loss event began, or since the first packet.
    open: f64,
    /// Packets since the last lost packet.
    since_loss: f64,
    /// When the first packet of the last loss event was sent, in microseconds.
    event: Option<f64>,
}

impl LossIntervals {
    /// A packet arrived.
    pub(super) fn on_received(&mut self) {
        self.open += 1.0;
        self.since_loss += 1.0;
    }

    /// A packet that was sent at `sent` was lost. Losses within a round-trip time are one event.
    pub(super) fn on_lost(&mut self, sent: f64, rtt: f64) {
        self.since_loss = 0.0;
        if self.event.is_some_and(|event| sent - event <= rtt) {
            self.open += 1.0;
            return;
        }
        self.event = Some(sent);
        self.closed.push_front(self.open.max(1.0));
        self.closed.truncate(WEIGHTS.len());
        self.open = 1.0;
    }

    /// Average loss interval, with the open one in place of the oldest or without it, whichever is longer; `None` before a
    /// loss.
    pub(super) fn average(&self) -> Option<f64> {
        self.event?;
        let closed = self.closed.iter().copied();
        let with_open = std::iter::once(self.open).chain(closed.clone()).take(closed.len());
        Some(weighted(closed).max(weighted(with_open)))
    }

    /// How much of a loss still matters: all of it for `multiple` average intervals, less and less during another one.
    ///
    /// The open interval is part of the average, with a sixth of the weight at least. So a loss is never forgotten with a
    /// multiple of 6 or more, RFC 8698's 7 included. The published simulations (cisco/ns3-rmcat adb3f8e) are no different.
    pub(super) fn memory(&self, multiple: f64) -> f64 {
        match self.average() {
            Some(average) => (multiple + 1.0 - self.since_loss / average).clamp(0.0, 1.0),
            None => 0.0,
        }
    }
}

fn weighted(intervals: impl Iterator<Item = f64>) -> f64 {
    let (sum, weights) =
        intervals.zip(WEIGHTS).fold((0.0, 0.0), |(sum, weights), (interval, weight)| {
            (sum + weight * interval, weights + weight)
        });
    sum / weights
}
