//! A few packets of a stream by which it is recognised elsewhere, however much of it either place has seen.
//!
//! Those with the smallest hashes are kept: two places that have seen the same packets keep the same ones, and
//! of two that overlap by a tenth, each of the kept packets of one is kept by the other with that chance.
//!
//! Source: A. Broder, "On the resemblance and containment of documents", 1997 (bottom-k sketch).

/// With an overlap of a tenth, no packet is common to two sketches with a chance of 0.9^64 = 0.1 %.
const PACKETS: usize = 64;

/// A packet of a stream: the same wherever it is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PacketName {
    pub(crate) seq: u16,
    pub(crate) timestamp: u32,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    hash: u32,
    name: PacketName,
    at_ns: i64,
}

/// At most 64 packets of a stream.
#[derive(Clone, Debug)]
pub(crate) struct Sketch {
    kept: Vec<Kept>,
    /// Hashes from here on are not kept.
    limit: u32,
}

impl Default for Sketch {
    fn default() -> Self {
        Sketch { kept: Vec::new(), limit: u32::MAX }
    }
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
    /// Considers a packet; of one that comes again, the first time counts.
    #[inline]
    pub(crate) fn consider(&mut self, name: PacketName, at_ns: i64) {
        let hash = hash(name);
        if hash < self.limit {
            self.keep(Kept { hash, name, at_ns });
        }
    }

    fn keep(&mut self, new: Kept) {
        if self.kept.iter().any(|kept| kept.name == new.name) {
            return;
        }
        self.kept.push(new);
        if self.kept.len() > PACKETS {
            let largest = (0..self.kept.len()).max_by_key(|index| self.kept[*index].hash);
            self.kept.swap_remove(largest.unwrap_or(0));
            self.limit = self.kept.iter().map(|kept| kept.hash).max().unwrap_or(u32::MAX);
        }
    }

    /// The packets, and when each was first seen.
    pub(crate) fn packets(&self) -> impl Iterator<Item = (PacketName, i64)> {
        self.kept.iter().map(|kept| (kept.name, kept.at_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sketch(numbers: std::ops::Range<u32>) -> Sketch {
        let mut sketch = Sketch::default();
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
        assert_eq!(whole.packets().count(), 64);
        assert_eq!(common(&whole, &sketch(0..100_000)), 64);
        // A tenth from the middle: 6.4 are to be expected.
        let common_with_a_tenth = common(&whole, &sketch(40_000..50_000));
        assert!((1..=16).contains(&common_with_a_tenth), "{common_with_a_tenth}");
        assert_eq!(common(&sketch(0..50_000), &sketch(50_000..100_000)), 0);
    }

    #[test]
    fn the_first_time_of_a_packet_is_kept() {
        assert!(sketch(0..10).packets().all(|(name, at_ns)| at_ns == i64::from(name.seq)));
    }
}
