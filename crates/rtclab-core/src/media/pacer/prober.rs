//! Which probe runs, and when its next burst leaves.
//!
//! Source: libwebrtc 3fa21c89c0, `modules/pacing/bitrate_prober.cc`.

use crate::cc::Probe;
use crate::units::{Bytes, Time};
use std::collections::VecDeque;

/// A burst that is later than this ends its probe.
pub(super) const MAX_DELAY: Time = Time::from_millis(10);
/// A probe that has waited for longer is dropped; here it is when another one comes.
pub(super) const TIMEOUT: Time = Time::from_secs(5);
/// Probes are dropped when another one comes while more than this wait.
pub(super) const MAX_PENDING: usize = 5;
/// A packet of at least this payload may start a probe.
pub(super) const START_SIZE: u64 = 200;

struct QueuedProbe {
    probe: Probe,
    announced: Time,
    started: Time,
    bytes: u64,
    bursts: u32,
}

/// Probes in order. The first one may be running.
#[derive(Default)]
pub(super) struct Prober {
    clusters: VecDeque<QueuedProbe>,
    active: bool,
    /// When the next burst is due; `None` for at once.
    next: Option<Time>,
}

impl Prober {
    /// Adds a probe.
    pub(super) fn add(&mut self, now: Time, probe: Probe) {
        let full = |clusters: &VecDeque<QueuedProbe>| clusters.len() > MAX_PENDING;
        let stale = |first: &QueuedProbe| now > first.announced.saturating_add(TIMEOUT);
        while full(&self.clusters) || self.clusters.front().is_some_and(stale) {
            self.clusters.pop_front();
        }
        let started = Time::ZERO;
        self.clusters.push_back(QueuedProbe {
            probe,
            announced: now,
            started,
            bytes: 0,
            bursts: 0,
        });
    }

    /// Starts the first probe if a packet of this payload may start it.
    pub(super) fn on_packet(&mut self, payload: u64) {
        let starts = |first: &QueuedProbe| payload >= START_SIZE.min(burst(&first.probe));
        if !self.active && self.clusters.front().is_some_and(starts) {
            (self.active, self.next) = (true, None);
        }
    }

    /// Whether a probe runs.
    pub(super) fn is_active(&self) -> bool {
        self.active && !self.clusters.is_empty()
    }

    /// When the next burst is due, if a probe runs.
    pub(super) fn next(&self, now: Time) -> Option<Time> {
        self.is_active().then(|| self.next.unwrap_or(now))
    }

    /// The running probe, the size of its bursts, and the bytes it has sent. One that is late is dropped first.
    pub(super) fn current(&mut self, now: Time) -> Option<(u32, Bytes, Bytes)> {
        if self.active && self.next.is_some_and(|next| now > next + MAX_DELAY) {
            self.clusters.pop_front();
            self.active = !self.clusters.is_empty();
        }
        let first = self.clusters.front().filter(|_| self.active)?;
        Some((first.probe.id, Bytes(burst(&first.probe)), Bytes(first.bytes)))
    }

    /// A burst of the running probe has left.
    pub(super) fn on_sent(&mut self, now: Time, size: Bytes) {
        let Some(first) = self.clusters.front_mut() else { return };
        if first.bursts == 0 {
            first.started = now;
        }
        first.bytes += size.0;
        first.bursts += 1;
        let Probe { rate, min_bytes, min_packets, .. } = first.probe;
        self.next = rate.time_for(Bytes(first.bytes)).map(|after| first.started + after);
        if first.bytes >= min_bytes.0 && first.bursts >= min_packets {
            self.clusters.pop_front();
            self.active = !self.clusters.is_empty();
        }
    }
}

/// Bytes that leave together.
pub(super) fn burst(probe: &Probe) -> u64 {
    probe.rate.bytes_in(probe.min_spacing).0
}
