//! Packets of the last half second, as they were reported.

use std::collections::VecDeque;

/// Packets that are kept at most, whatever their times: more than arrive in half a second at 1 Gbit/s.
const MOST: usize = 65_536;

/// One packet that was reported. Times are in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// When it arrived on the far end's clock; for a lost one, when the packet before it did.
    pub(super) at: f64,
    pub(super) bytes: f64,
    /// One-way delay with the offset of the clocks; `None` if it was lost.
    pub(super) delay: Option<f64>,
    pub(super) is_marked: bool,
}

/// The observation window.
#[derive(Clone, Debug, Default)]
pub(super) struct ObservationWindow {
    entries: VecDeque<Entry>,
    lost: usize,
    marked: usize,
    bytes: f64,
}

impl ObservationWindow {
    /// Adds a packet, and forgets those that are older than `window`.
    pub(super) fn add(&mut self, entry: Entry, window: f64) {
        self.lost += usize::from(entry.delay.is_none());
        self.marked += usize::from(entry.is_marked);
        self.bytes += entry.delay.map_or(0.0, |_| entry.bytes);
        self.entries.push_back(entry);
        let old = |first: &Entry, len: usize| entry.at - first.at > window || len > MOST;
        while self.entries.front().is_some_and(|first| old(first, self.entries.len())) {
            self.pop();
        }
    }

    fn pop(&mut self) {
        let Some(entry) = self.entries.pop_front() else { return };
        self.lost -= usize::from(entry.delay.is_none());
        self.marked -= usize::from(entry.is_marked);
        self.bytes -= entry.delay.map_or(0.0, |_| entry.bytes);
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = ObservationWindow {
            entries: std::mem::take(&mut self.entries),
            ..ObservationWindow::default()
        };
        self.entries.clear();
    }

    pub(super) fn has_loss(&self) -> bool {
        self.lost > 0
    }

    /// Share of lost packets.
    pub(super) fn loss_ratio(&self) -> f64 {
        self.lost as f64 / self.entries.len().max(1) as f64
    }

    /// Share of marked packets among those that arrived.
    pub(super) fn mark_ratio(&self) -> f64 {
        self.marked as f64 / (self.entries.len() - self.lost).max(1) as f64
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Largest one-way delay.
    pub(super) fn longest_delay(&self) -> f64 {
        self.entries.iter().filter_map(|entry| entry.delay).fold(f64::NEG_INFINITY, f64::max)
    }

    /// Bytes for each microsecond from the first arrival to the last one, without the first packet; over `window` if
    /// there are no two arrivals.
    pub(super) fn received_rate(&self, window: f64) -> f64 {
        let mut arrived = self.entries.iter().filter(|entry| entry.delay.is_some());
        let first = arrived.next();
        let last = arrived.next_back();
        match (first, last) {
            (Some(first), Some(last)) if last.at > first.at => {
                (self.bytes - first.bytes).max(0.0) / (last.at - first.at)
            }
            _ => self.bytes.max(0.0) / window,
        }
    }
}
