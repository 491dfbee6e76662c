//! The probes of a pacer that works in ticks.

use super::prober::{MAX_DELAY, MAX_PENDING, START_SIZE, TIMEOUT, burst};
use crate::cc::Probe;
use crate::units::{Bytes, Time};
use std::collections::VecDeque;

struct TickedProbe {
    probe: Probe,
    announced: Time,
    started: Option<Time>,
    bytes: u64,
    bursts: u32,
    /// Bytes of the current burst, and when it started.
    burst: (u64, Time),
}

/// Probes in order. The first one may be running.
///
/// It has the bounds of [`Prober`](super::prober::Prober), but an older rule: it counts packets instead of whole
/// bursts, a probe ends with a full burst, and the next one starts at once.
///
/// Based on libwebrtc 524ecc29dd (2016), `modules/pacing/bitrate_prober.cc`.
#[derive(Default)]
pub(super) struct TickProber {
    clusters: VecDeque<TickedProbe>,
}

impl TickProber {
    /// Adds a probe to run as soon as there is something to send.
    pub(super) fn add(&mut self, now: Time, probe: Probe) {
        self.clusters.push_back(TickedProbe {
            probe,
            announced: now,
            started: None,
            bytes: 0,
            bursts: 0,
            burst: (0, Time::MAX),
        });
        while self.clusters.len() > MAX_PENDING {
            self.clusters.pop_front();
        }
    }

    /// Starts the first probe if a packet of this size may start it.
    pub(super) fn on_packet(&mut self, now: Time, size: Bytes) {
        if let Some(first) = self.clusters.front_mut() {
            if first.started.is_none() && size.0 >= START_SIZE.min(burst(&first.probe)) {
                first.started = Some(now);
            }
        }
    }

    /// When the next packet of a running probe is due.
    pub(super) fn next(&self) -> Option<Time> {
        self.clusters.front().and_then(TickedProbe::next)
    }

    /// The first probe, and the size of its bursts.
    pub(super) fn current(&self) -> Option<(u32, Bytes)> {
        self.clusters.front().map(|first| (first.probe.id, Bytes(burst(&first.probe))))
    }

    /// A packet of the running probe has left.
    pub(super) fn on_sent(&mut self, now: Time, size: Bytes) {
        let Some(first) = self.clusters.front_mut() else { return };
        first.count(now, size);
        if first.is_done() {
            self.clusters.pop_front();
            if let Some(next) = self.clusters.front_mut() {
                next.started.get_or_insert(now);
            }
        }
    }

    /// Drops probes that are late, or have waited for too long.
    pub(super) fn drop_stale(&mut self, now: Time) {
        while self.clusters.front().is_some_and(|first| first.is_stale(now)) {
            self.clusters.pop_front();
        }
    }
}

impl TickedProbe {
    fn is_stale(&self, now: Time) -> bool {
        match self.next() {
            Some(next) => now > next + MAX_DELAY && self.bytes > 0,
            None => now > self.announced + TIMEOUT,
        }
    }

    fn next(&self) -> Option<Time> {
        let started = self.started?;
        if self.burst.0 > 0 && self.burst.0 < burst(&self.probe) {
            return Some(self.burst.1);
        }
        Some(started + self.probe.rate.time_for(Bytes(self.bytes)).unwrap_or(Time::ZERO))
    }

    fn count(&mut self, now: Time, size: Bytes) {
        if self.burst.1 != now || self.burst.0 >= burst(&self.probe) {
            self.burst = (0, now);
            self.bursts += 1;
        }
        self.burst.0 += size.0;
        self.bytes += size.0;
    }

    fn is_done(&self) -> bool {
        self.bytes >= self.probe.min_bytes.0
            && self.bursts >= self.probe.min_packets
            && self.burst.0 >= burst(&self.probe)
    }
}
