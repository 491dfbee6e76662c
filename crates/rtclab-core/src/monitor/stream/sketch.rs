//! A sample of packets by which a stream is recognised at another place, even if both places have seen
//! different parts of the stream.
//!
//! The packets with the smallest hashes are kept, so places that see the same packets keep the same ones. If
//! what they see overlaps by a tenth, each packet kept at one place is kept at the other with a probability
//! of a tenth.
//!
//! Source: A. Broder, "On the resemblance and containment of documents", 1997 (bottom-k sketch).

use std::collections::BTreeMap;

/// Size of a sketch for finding legs within a capture. With an overlap of a tenth, two sketches have no
/// packet in common with a probability of 0.9^64 = 0.1 %.
pub(crate) const SMALL: usize = 64;
/// Size of a sketch for finding streams in two captures, 30 kB. With an overlap of a hundredth, two sketches
/// have no packet in common with a probability of 0.99^1024 = 0.003 %. That suffices to find a one-minute
/// capture in a call of more than an hour.
pub(crate) const LARGE: usize = 1024;

/// Identifies a packet of a stream at any place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PacketName {
    pub(crate) seq: u16,
    pub(crate) timestamp: u32,
}

/// The sampled packets of a stream.
#[derive(Clone, Debug)]
pub(crate) struct Sketch {
    packets: usize,
    /// Time at which each packet was first seen, by hash.
    kept: BTreeMap<(u32, PacketName), i64>,
    /// Packets with this hash or a larger one are not kept.
    limit: u32,
}

/// Hashes 48 bits to 32 so that every bit matters (with the multiplications of `splitmix64`).
#[inline]
fn hash(name: PacketName) -> u32 {
    let mut bits = u64::from(name.timestamp) << 16 | u64::from(name.seq);
    bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    (bits >> 32) as u32
}

impl Sketch {
    pub(crate) fn of(packets: usize) -> Self {
        Sketch { packets, kept: BTreeMap::new(), limit: u32::MAX }
    }

    /// Adds a packet if its hash is small enough. For a repeated packet, the first time is kept.
    #[inline]
    pub(crate) fn consider(&mut self, name: PacketName, at_ns: i64) {
        let hash = hash(name);
        if hash < self.limit {
            self.keep(hash, name, at_ns);
        }
    }

    fn keep(&mut self, hash: u32, name: PacketName, at_ns: i64) {
        self.kept.entry((hash, name)).or_insert(at_ns);
        if self.kept.len() > self.packets {
            self.kept.pop_last();
            self.limit = self.kept.last_key_value().map_or(u32::MAX, |((hash, _), _)| *hash);
        }
    }

    /// Iterates over the packets and the time at which each was first seen, in order of their hashes: the
    /// same order in every sketch.
    pub(crate) fn packets(&self) -> impl Iterator<Item = (PacketName, i64)> {
        self.kept.iter().map(|((_, name), at_ns)| (*name, *at_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sketch(numbers: std::ops::Range<u32>) -> Sketch {
        let mut sketch = Sketch::of(LARGE);
        for n in numbers {
            let name = PacketName { seq: n as u16, timestamp: n * 3000 };
            sketch.consider(name, i64::from(n));
            sketch.consider(name, i64::from(n) + 1);
        }
        sketch
    }

    fn common(a: &Sketch, b: &Sketch) -> usize {
        a.packets().filter(|(name, _)| b.packets().any(|(other, _)| other == *name)).count()
    }

    #[test]
    fn overlapping_parts_of_a_stream_have_packets_in_common_and_disjoint_parts_do_not() {
        let whole = sketch(0..100_000);
        assert_eq!(whole.packets().count(), 1024);
        assert_eq!(common(&whole, &sketch(0..100_000)), 1024);
        // A hundredth from the middle: 10.24 packets in common on average, with a standard deviation of
        // 3.2.
        let common_with_a_hundredth = common(&whole, &sketch(49_000..50_000));
        assert!((1..=20).contains(&common_with_a_hundredth), "{common_with_a_hundredth}");
        assert_eq!(common(&sketch(0..50_000), &sketch(50_000..100_000)), 0);
    }

    #[test]
    fn the_first_time_of_a_packet_is_kept() {
        assert!(sketch(0..10).packets().all(|(name, at_ns)| at_ns == i64::from(name.seq)));
    }
}
