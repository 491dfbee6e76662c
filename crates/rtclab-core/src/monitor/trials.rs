//! Packets of flows that may carry on a stream of another flow, until that is known.

use super::stream::RtpSeen;
use std::collections::HashMap;

/// Time for which packets of a flow are kept before it is judged. A server sends what it forwards to its
/// receivers within less.
const TRIAL_NS: i64 = 100_000_000;
/// Maximum number of packets kept of a flow, 100 bytes each.
const MOST_KEPT: usize = 512;
/// Maximum number of flows on trial. Further ones are judged at once.
const MOST_TRIALS: usize = 256;

/// Packets of flows that may carry on a stream, by flow and SSRC.
#[derive(Default)]
pub(crate) struct Trials(HashMap<(u32, u32), Vec<RtpSeen>>);

impl Trials {
    /// Takes a packet of a flow on trial. Returns whether the flow is on trial, and all its packets if it
    /// is over.
    #[inline]
    pub(crate) fn receive(&mut self, packet: &RtpSeen) -> (bool, Option<Vec<RtpSeen>>) {
        if self.0.is_empty() {
            return (false, None);
        }
        let key = (packet.flow, packet.ssrc);
        let Some(kept) = self.0.get_mut(&key) else { return (false, None) };
        kept.push(*packet);
        let is_over = is_long(kept) || kept.len() >= MOST_KEPT;
        (true, if is_over { self.0.remove(&key) } else { None })
    }

    /// Puts a flow on trial. Returns its packets if it must be judged at once.
    pub(crate) fn begin(&mut self, packets: Vec<RtpSeen>) -> Option<Vec<RtpSeen>> {
        if is_long(&packets) || self.0.len() >= MOST_TRIALS {
            return Some(packets);
        }
        self.0.insert((packets[0].flow, packets[0].ssrc), packets);
        None
    }

    /// Takes the packets of all flows on trial, the earliest first.
    pub(crate) fn take(&mut self) -> Vec<Vec<RtpSeen>> {
        let mut all: Vec<Vec<RtpSeen>> = std::mem::take(&mut self.0).into_values().collect();
        all.sort_by_key(|packets| (packets[0].at_ns, packets[0].flow, packets[0].ssrc));
        all
    }
}

fn is_long(packets: &[RtpSeen]) -> bool {
    packets[packets.len() - 1].at_ns - packets[0].at_ns >= TRIAL_NS
}
