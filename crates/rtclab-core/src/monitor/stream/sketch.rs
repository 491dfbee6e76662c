//! A few packets of a stream by which it is recognised elsewhere, however much of it either place has seen.
//!
//! Those with the smallest hashes are kept: two places that have seen the same packets keep the same ones, and
//! of two that overlap by a tenth, each of the kept packets of one is kept by the other with that chance.
//!
//! Source: A. Broder, "On the resemblance and containment of documents", 1997 (bottom-k sketch).

use std::collections::BTreeMap;

/// For legs within a capture. With an overlap of a tenth, no packet is common to two sketches with a chance of
/// 0.9^64 = 0.1 %.
pub(crate) const SMALL: usize = 64;
/// For streams in two captures. With an overlap of a hundredth, none is common with a chance of
/// 0.99^1024 = 0.003 %: a minute's capture is found in that of a call of more than an hour. 30 kB.
pub(crate) const LARGE: usize = 1024;

/// A packet of a stream: the same wherever it is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PacketName {
    pub(crate) seq: u16,
    pub(crate) timestamp: u32,
}

/// At most so many packets of a stream.
#[derive(Clone, Debug)]
pub(crate) struct Sketch {
    packets: usize,
    /// When each was first seen, by hash.
    kept: BTreeMap<(u32, PacketName), i64>,
    /// Hashes from here on are not kept.
    limit: u32,
}

/// A mixing of 48 bits into 32 in which every bit counts (multiplications of `splitmix64`).
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

    /// Considers a packet; of one that comes again, the first time counts.
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

    /// The packets, and when each was first seen. Those that come first are first of every stream that has them.
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
    fn overlapping_parts_of_a_stream_have_packets_in_common_and_others_have_not() {
        let whole = sketch(0..100_000);
        assert_eq!(whole.packets().count(), 1024);
        assert_eq!(common(&whole, &sketch(0..100_000)), 1024);
        // A hundredth from the middle: 10.24 are to be expected, with a deviation of 3.2.
        let common_with_a_hundredth = common(&whole, &sketch(49_000..50_000));
        assert!((1..=20).contains(&common_with_a_hundredth), "{common_with_a_hundredth}");
        assert_eq!(common(&sketch(0..50_000), &sketch(50_000..100_000)), 0);
    }

    #[test]
    fn the_first_time_of_a_packet_is_kept() {
        assert!(sketch(0..10).packets().all(|(name, at_ns)| at_ns == i64::from(name.seq)));
    }
}
