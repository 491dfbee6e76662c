//! Decides whether packets that look like RTP are a stream. A stream is accepted after two consecutive
//! packets, or after eight that are consistent with heavy loss or reordering. Random UDP never becomes a
//! stream.
//!
//! Source: RFC 3550, appendix A.1 (`MIN_SEQUENTIAL`).

use super::stream::RtpSeen;
use std::collections::HashMap;

/// Number of packets of a source that are kept until it is accepted, so that its counts miss none. A source
/// is also accepted if all of them are near one another. For random numbers, the probability of that is (201
/// / 65536)^7 = 2.6e-18.
const KEPT_PACKETS: usize = 8;
/// Maximum distance between the sequence numbers of successive packets.
const NEAR: u16 = 100;
/// Maximum number of sources on probation. When it is exceeded, all are forgotten.
const MAX_CANDIDATES: usize = 4096;

/// Sources that may become streams, by flow and SSRC.
#[derive(Default)]
pub(crate) struct Probation {
    candidates: HashMap<(u32, u32), Vec<RtpSeen>>,
    /// Number of sources forgotten because [`MAX_CANDIDATES`] was reached.
    pub(crate) forgotten: u64,
}

impl Probation {
    /// Takes a packet of a source on probation. Returns all its packets so far if it is now accepted.
    pub(crate) fn receive(&mut self, flow: u32, packet: &RtpSeen) -> Option<Vec<RtpSeen>> {
        let key = (flow, packet.ssrc);
        if self.candidates.len() >= MAX_CANDIDATES && !self.candidates.contains_key(&key) {
            self.forgotten += self.candidates.len() as u64;
            self.candidates.clear();
        }
        let kept = self.candidates.entry(key).or_default();
        let follows = kept.last().is_some_and(|last| packet.seq == last.seq.wrapping_add(1));
        if kept.len() == KEPT_PACKETS {
            kept.remove(0);
        }
        kept.push(*packet);
        let accepted = follows || kept.len() == KEPT_PACKETS && is_consistent(kept);
        if !accepted {
            return None;
        }
        let kept = self.candidates.remove(&key)?;
        let mut last = packet.seq;
        let mut accepted: Vec<RtpSeen> = kept
            .into_iter()
            .rev()
            .filter(|early| {
                let belongs = near(early.seq, last);
                last = if belongs { early.seq } else { last };
                belongs
            })
            .collect();
        accepted.reverse();
        Some(accepted)
    }
}

fn near(a: u16, b: u16) -> bool {
    a.wrapping_sub(b).min(b.wrapping_sub(a)) <= NEAR
}

/// Whether packets are consistent with a stream: each is near the one before, none occurs twice, and
/// timestamps grow with sequence numbers. If another protocol has lengths or constants in these fields, they
/// do not behave like that.
fn is_consistent(packets: &[RtpSeen]) -> bool {
    let first = packets[0];
    // Signed distances, within half the range.
    let place = |p: &RtpSeen| {
        let number = p.seq.wrapping_sub(first.seq) as i16;
        (number, p.timestamp.wrapping_sub(first.timestamp) as i32)
    };
    let mut places: Vec<(i16, i32)> = packets.iter().map(place).collect();
    places.sort_unstable();
    let grow = places.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
    let all_near = packets.windows(2).all(|pair| near(pair[0].seq, pair[1].seq));
    all_near && grow && places[0].1 < places[places.len() - 1].1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ecn::Ecn;
    use crate::monitor::repair::Likeness;
    use crate::monitor::stream::extensions::Values;

    fn packet(seq: u16, timestamp: u32) -> RtpSeen {
        RtpSeen {
            at_ns: 0,
            flow: 0,
            ssrc: 7,
            seq,
            timestamp,
            payload_type: 96,
            clock_rate: None,
            marker: false,
            ip_bytes: 100,
            ecn: Ecn::NotCapable,
            payload_bytes: 60,
            relay: None,
            extensions: Values::default(),
            likeness: Likeness::default(),
            row: 0,
        }
    }

    /// Number of packets until a source is accepted, and the sequence numbers accepted.
    fn accepted(packets: &[(u16, u32)]) -> Option<(usize, Vec<u16>)> {
        let mut probation = Probation::default();
        packets.iter().enumerate().find_map(|(index, (seq, timestamp))| {
            let kept = probation.receive(0, &packet(*seq, *timestamp))?;
            Some((index + 1, kept.iter().map(|packet| packet.seq).collect()))
        })
    }

    #[test]
    fn two_consecutive_packets_are_accepted_with_earlier_packets_near_them() {
        assert_eq!(
            accepted(&[(10, 0), (40_000, 5), (90, 1), (91, 2)]),
            Some((4, vec![10, 90, 91]))
        );
        assert_eq!(accepted(&[(65_535, 0), (0, 0)]), Some((2, vec![65_535, 0])));
    }

    #[test]
    fn eight_packets_near_one_another_are_accepted_even_if_none_are_consecutive() {
        let every_other: Vec<_> =
            (0..8).map(|i| (65_530u16.wrapping_add(2 * i), 160 * u32::from(i))).collect();
        assert_eq!(accepted(&every_other).unwrap().0, 8);
        assert_eq!(accepted(&every_other).unwrap().1.len(), 8);
        assert_eq!(accepted(&every_other[..7]), None);
        let swapped = [2, 1, 4, 3, 6, 5, 8, 7].map(|i: u16| (i, 160 * u32::from(i)));
        assert_eq!(accepted(&swapped), Some((8, swapped.map(|(seq, _)| seq).to_vec())));
    }

    #[test]
    fn lengths_and_constants_of_another_protocol_are_not_accepted() {
        let lengths = [100, 130, 96, 120, 98, 140, 105, 133];
        assert_eq!(accepted(&lengths.map(|len| (len, 7))), None); // a constant in place of the timestamp
        assert_eq!(accepted(&[(100, 7); 20]), None);
        let time = |index: usize| (lengths[index % 8], 1000 * index as u32);
        // A clock that is unrelated to the sequence numbers.
        assert_eq!(accepted(&(0..16).map(time).collect::<Vec<_>>()), None);
        let far = |index: u16| (index.wrapping_mul(101), u32::from(index));
        assert_eq!(accepted(&(0..20).map(far).collect::<Vec<_>>()), None);
    }
}
