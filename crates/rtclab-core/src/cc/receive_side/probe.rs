//! The receiver's view of probes at the start: clusters of evenly spaced packets, and the rate they show.

use crate::units::{Bitrate, Bytes, Time};
use std::collections::VecDeque;

/// The search for clusters goes on for this long after the first packet, and until there is an estimate.
const SEARCH_TIME: Time = Time::from_secs(2);
/// Packets of up to this size are not probes.
const MIN_SIZE: Bytes = Bytes(200);
/// Maximum number of packets kept while no cluster has been found.
const MAX_PACKETS: usize = 15;
/// Minimum number of gaps in a cluster.
const MIN_GAPS: usize = 4;
/// After this many clusters the search starts over.
const MAX_CLUSTERS: usize = 3;
/// Each gap of a cluster differs by less than this from their mean at the sender.
const SPREAD_MS: f64 = 2.5;
/// Gaps below this are too short to measure.
const MEASURABLE_MS: f64 = 1.0;
/// A valid cluster is stretched by at most this per packet.
const MAX_STRETCH_MS: f64 = 2.0;
/// A valid cluster is compressed by at most this per packet.
const MAX_COMPRESSION_MS: f64 = 5.0;

#[derive(Clone, Copy, Default)]
struct ArrivedProbe {
    send_ms: f64,
    arrival_ms: f64,
    bytes: f64,
    gaps: usize,
    measurable: usize,
}

impl ArrivedProbe {
    fn fits(&self, send_ms: f64) -> bool {
        self.gaps == 0 || (send_ms - self.send_ms / self.gaps as f64).abs() < SPREAD_MS
    }

    /// The lower of the sending and receiving rates, if the cluster is valid.
    fn rate(&self) -> Option<Bitrate> {
        let gaps = self.gaps as f64;
        let (send, arrival) = (self.send_ms / gaps, self.arrival_ms / gaps);
        let valid = self.measurable > self.gaps / 2
            && arrival - send <= MAX_STRETCH_MS
            && send - arrival <= MAX_COMPRESSION_MS
            && send > 0.0
            && arrival > 0.0;
        let bits = self.bytes / gaps * 8.0;
        valid.then(|| Bitrate((bits * 1e3 / send.max(arrival)) as u64))
    }
}

/// Searches arriving packets for probes.
///
/// Source: libwebrtc 524ecc29dd, `remote_bitrate_estimator_abs_send_time.cc`.
#[derive(Default)]
pub(crate) struct ProbeDetector {
    first: Option<Time>,
    /// Send time in ms, arrival time in ms and size in bytes.
    packets: VecDeque<(f64, f64, f64)>,
}

impl ProbeDetector {
    /// Adds an arriving packet that was sent at `send_ms` on the sender's clock. Returns the rate that a
    /// probe shows, if it is above the current estimate.
    pub(crate) fn on_packet(
        &mut self,
        now: Time,
        send_ms: f64,
        size: Bytes,
        estimate: Option<Bitrate>,
    ) -> Option<Bitrate> {
        let first = *self.first.get_or_insert(now);
        if size <= MIN_SIZE || (estimate.is_some() && now >= first + SEARCH_TIME) {
            return None;
        }
        self.packets.push_back((send_ms, now.as_secs_f64() * 1e3, size.0 as f64));
        let clusters = self.clusters();
        if clusters.is_empty() {
            if self.packets.len() >= MAX_PACKETS {
                self.packets.pop_front();
            }
            return None;
        }
        // As in libwebrtc, nothing after the first invalid cluster counts.
        let best = clusters.iter().map_while(ArrivedProbe::rate).max();
        if let Some(best) = best.filter(|best| estimate.is_none_or(|estimate| *best > estimate)) {
            return Some(best);
        }
        if clusters.len() >= MAX_CLUSTERS {
            self.packets.clear();
        }
        None
    }

    fn clusters(&self) -> Vec<ArrivedProbe> {
        let mut found = Vec::new();
        let mut current = ArrivedProbe::default();
        for (before, after) in self.packets.iter().zip(self.packets.iter().skip(1)) {
            let (send_ms, arrival_ms) = (after.0 - before.0, after.1 - before.1);
            if !current.fits(send_ms) {
                found.extend((current.gaps >= MIN_GAPS).then_some(current));
                current = ArrivedProbe::default();
            }
            current.send_ms += send_ms;
            current.arrival_ms += arrival_ms;
            current.bytes += after.2;
            current.gaps += 1;
            let measurable = send_ms >= MEASURABLE_MS && arrival_ms >= MEASURABLE_MS;
            current.measurable += usize::from(measurable);
        }
        found.extend((current.gaps >= MIN_GAPS).then_some(current));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rate found from six 1000-byte packets sent 8.89 ms apart (900 kbit/s) that arrive with this gap.
    fn found(arrival_gap_us: u64) -> Option<Bitrate> {
        let mut probes = ProbeDetector::default();
        let mut best = None;
        for i in 0..6 {
            let now = Time::from_micros(50_000 + arrival_gap_us * i);
            let send_ms = 8_000.0 / 900.0 * i as f64;
            best = probes.on_packet(now, send_ms, Bytes(1_000), best).or(best);
        }
        best
    }

    #[test]
    fn a_probe_that_arrives_as_it_was_sent_shows_its_rate() {
        let kbps = found(8_889).map_or(0, |rate| rate.0 / 1_000);
        assert!((899..=900).contains(&kbps), "{kbps}");
    }

    #[test]
    fn a_probe_stretched_by_1_ms_per_packet_shows_the_arrival_rate() {
        // 8000 bit in 9.889 ms = 809 kbit/s
        let kbps = found(9_889).map_or(0, |rate| rate.0 / 1_000);
        assert!((808..=809).contains(&kbps), "{kbps}");
    }

    #[test]
    fn a_probe_stretched_by_3_ms_per_packet_shows_nothing() {
        assert_eq!(found(11_889), None);
    }
}
