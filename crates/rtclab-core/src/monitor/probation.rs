//! RTP is believed when two packets of a source follow each other: random UDP makes no streams.
//!
//! Source: RFC 3550, appendix A.1 (`MIN_SEQUENTIAL`).

use super::stream::RtpSeen;
use std::collections::HashMap;

/// Packets of a source that are kept until it is believed, so that none is missing from its counts.
const KEPT_PACKETS: usize = 8;
/// Kept packets count when they lie this close before the two that convinced.
const NEAR: u16 = 100;
/// The most sources on probation; all are forgotten when there are more.
const MAX_CANDIDATES: usize = 4096;

/// Sources that may be streams, by flow and SSRC.
#[derive(Default)]
pub(crate) struct Probation {
    candidates: HashMap<(u32, u32), Vec<RtpSeen>>,
    /// Sources forgotten for want of room.
    pub(crate) forgotten: u64,
}

impl Probation {
    /// Takes a packet of a source that is no stream yet; its packets so far when it has become one.
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
        if !follows {
            return None;
        }
        let mut kept = self.candidates.remove(&key)?;
        kept.retain(|early| near(early.seq, packet.seq));
        Some(kept)
    }
}

fn near(a: u16, b: u16) -> bool {
    let distance = a.wrapping_sub(b);
    distance.min(distance.wrapping_neg()) <= NEAR
}
