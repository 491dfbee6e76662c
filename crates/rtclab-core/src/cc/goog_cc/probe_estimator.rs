//! Rate that a probe measures.
//!
//! Source: libwebrtc, `probe_bitrate_estimator.cc`.

use super::arithmetic::{SECOND, rate_of, scale};
use super::packet::PacketResult;
use crate::cc::Probe;

/// Share of a probe's packets and bytes that must arrive.
const MIN_RECEIVED: f64 = 0.8;
/// A probe that takes longer measures nothing.
const MAX_INTERVAL: i64 = SECOND;
/// A probe that arrives this much faster than it was sent measures nothing.
const MAX_RATIO: f64 = 2.0;
/// Below this share of its send rate, a probe found the capacity.
const UNSATURATED: f64 = 0.9;
/// Share of a found capacity to use.
const UTILISATION: f64 = 0.95;
/// A probe is forgotten this long after its last arrival.
const MEMORY: i64 = SECOND;

#[derive(Clone, Copy, Debug)]
struct ReportedProbe {
    id: u32,
    packets: u32,
    size: i64,
    first_sent: i64,
    last_sent: i64,
    last_sent_size: i64,
    first_received: i64,
    last_received: i64,
    first_received_size: i64,
}

/// Collects the packets of probes.
#[derive(Debug, Default)]
pub(super) struct ProbeEstimator {
    clusters: Vec<ReportedProbe>,
}

impl ProbeEstimator {
    /// Adds a packet of a probe that arrived. Returns what the probe measures by now, in bit/s.
    pub(super) fn add(
        &mut self,
        packet: &PacketResult,
        received: i64,
        probe: &Probe,
    ) -> Option<i64> {
        self.clusters.retain(|cluster| cluster.last_received + MEMORY >= received);
        let cluster = match self.clusters.iter_mut().position(|cluster| cluster.id == probe.id) {
            Some(index) => {
                let cluster = &mut self.clusters[index];
                cluster.add(packet, received);
                cluster
            }
            None => {
                self.clusters.push(ReportedProbe::new(packet, received, probe.id));
                self.clusters.last_mut()?
            }
        };
        let min_packets = (f64::from(probe.min_packets) * MIN_RECEIVED) as u32;
        let min_size = scale(probe.min_bytes.0 as i64, MIN_RECEIVED);
        match cluster.packets < min_packets || cluster.size < min_size {
            true => None,
            false => cluster.rate(),
        }
    }
}

impl ReportedProbe {
    fn new(packet: &PacketResult, received: i64, id: u32) -> Self {
        ReportedProbe {
            id,
            packets: 1,
            size: packet.size,
            first_sent: packet.sent,
            last_sent: packet.sent,
            last_sent_size: packet.size,
            first_received: received,
            last_received: received,
            first_received_size: packet.size,
        }
    }

    fn add(&mut self, packet: &PacketResult, received: i64) {
        self.packets += 1;
        self.size += packet.size;
        self.first_sent = self.first_sent.min(packet.sent);
        if packet.sent > self.last_sent {
            self.last_sent = packet.sent;
            self.last_sent_size = packet.size;
        }
        if received < self.first_received {
            self.first_received = received;
            self.first_received_size = packet.size;
        }
        self.last_received = self.last_received.max(received);
    }

    fn rate(&self) -> Option<i64> {
        let sending = self.last_sent - self.first_sent;
        let receiving = self.last_received - self.first_received;
        if !(1..=MAX_INTERVAL).contains(&sending) || !(1..=MAX_INTERVAL).contains(&receiving) {
            return None;
        }
        // The time that the last packet takes to leave is not part of the interval, so neither is its size.
        let sent = rate_of(self.size - self.last_sent_size, sending);
        let received = rate_of(self.size - self.first_received_size, receiving);
        if received as f64 / sent as f64 > MAX_RATIO {
            return None;
        }
        match received < scale(sent, UNSATURATED) {
            true => Some(scale(received, UTILISATION)),
            false => Some(sent.min(received)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::arithmetic::MS;
    use super::*;
    use crate::units::{Bitrate, Bytes, Time};

    const PROBE: Probe = Probe {
        id: 1,
        rate: Bitrate(800_000),
        min_packets: 5,
        min_bytes: Bytes(4_000),
        min_spacing: Time::from_millis(2),
    };

    /// The result after packets of (size, sent in ms, received in ms).
    fn estimate(packets: &[(i64, i64, i64)]) -> Option<i64> {
        let mut estimator = ProbeEstimator::default();
        let add = |(seq, &(size, sent, received)): (usize, &(i64, i64, i64))| {
            let (sent, received) = (sent * MS, received * MS);
            let packet = PacketResult {
                seq: seq as i64,
                sent,
                received: Some(received),
                size,
                probe: Some(PROBE.id),
            };
            estimator.add(&packet, received, &PROBE)
        };
        packets.iter().enumerate().map(add).last().flatten()
    }

    fn of_1000_bytes(send_gap: i64, gap: i64, packets: i64) -> Vec<(i64, i64, i64)> {
        (0..packets).map(|i| (1_000, i * send_gap, i * gap)).collect()
    }

    #[test]
    fn four_of_five_packets_give_the_rate() {
        assert_eq!(estimate(&of_1000_bytes(10, 10, 4)), Some(800_000));
        assert_eq!(estimate(&of_1000_bytes(10, 10, 3)), None);
    }

    #[test]
    fn a_probe_that_arrives_slowly_found_the_capacity() {
        // 3000 B in 75 ms are 320 kbit/s.
        assert_eq!(estimate(&of_1000_bytes(10, 25, 4)), Some(304_000));
        // 3000 B in 33 ms are 727 kbit/s, more than 720.
        assert_eq!(estimate(&of_1000_bytes(10, 11, 4)), Some(727_272));
    }

    #[test]
    fn a_probe_that_arrives_more_than_twice_as_fast_gives_no_rate() {
        assert_eq!(estimate(&of_1000_bytes(10, 5, 4)), Some(800_000));
        assert_eq!(estimate(&of_1000_bytes(10, 4, 4)), None);
    }

    #[test]
    fn the_size_of_the_first_arrival_does_not_count() {
        let packets = [(1_500, 0, 20), (1_000, 10, 30), (1_000, 20, 40), (1_000, 30, 50)];
        // Sent (4500 - 1000) B in 30 ms: 933 kbit/s.
        assert_eq!(estimate(&packets), Some(760_000));
    }

    #[test]
    fn a_probe_that_takes_more_than_a_second_gives_no_rate() {
        assert_eq!(estimate(&of_1000_bytes(300, 300, 4)), Some(26_666));
        assert_eq!(estimate(&of_1000_bytes(334, 334, 4)), None);
    }
}
