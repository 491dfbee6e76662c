//! State of all segments in flight: sent, selectively acknowledged, lost or retransmitted (RFC 6675, as in
//! Linux).

use super::delivery_rate::{DeliveryRate, Stamp};
use super::rack::Rack;
use crate::packet::{MAX_SACK_BLOCKS, Segment};
use crate::units::Time;
use std::collections::VecDeque;

/// A segment that is not yet cumulatively acknowledged.
#[derive(Clone, Copy, Debug)]
struct SentSegment {
    at: Time,
    stamp: Stamp,
    sacked: bool,
    lost: bool,
    /// Whether its retransmission is in flight.
    retransmitted: bool,
    /// Whether it was ever retransmitted, which makes its round trip ambiguous.
    ever_retransmitted: bool,
}

/// Result of an acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Acked {
    /// Segments acknowledged cumulatively.
    pub(super) cumulative: u32,
    /// Segments newly acknowledged, cumulatively or selectively.
    pub(super) delivered: u32,
    /// Round trip of the oldest segment acknowledged that was sent only once.
    pub(super) oldest_rtt: Option<Time>,
    /// Round trip of the newest such segment.
    pub(super) newest_rtt: Option<Time>,
}

/// Result of loss detection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    /// Number of segments found to be lost.
    pub(super) lost: u32,
    /// Whether a retransmission is among them.
    pub(super) retransmission_lost: bool,
    /// When to look again, because further segments may be too old by then.
    pub(super) look_again: Option<Time>,
}

/// All outstanding segments, by number.
#[derive(Default)]
pub(super) struct Scoreboard {
    sent: VecDeque<SentSegment>,
    /// First unacknowledged segment.
    una: u32,
    sacked: u32,
    lost: u32,
    /// Segments found to be lost so far.
    total_lost: u64,
    retransmitted: u32,
    /// One above the highest segment known to have arrived.
    highest_delivered: u32,
    /// No lost segment below this one waits for its retransmission.
    retransmit_from: u32,
    /// No segment below this one can still be found lost by its age, unless it was retransmitted.
    undecided_from: u32,
    /// Retransmissions in order of time. Some may have been acknowledged since.
    retransmissions: VecDeque<(Time, u32)>,
    /// SACK blocks of the last acknowledgement. Their segments are already marked.
    known: [(u32, u32); MAX_SACK_BLOCKS],
    pub(super) rate: DeliveryRate,
    pub(super) rack: Rack,
}

impl Scoreboard {
    pub(super) fn una(&self) -> u32 {
        self.una
    }

    /// Number of the next new segment.
    pub(super) fn next(&self) -> u32 {
        self.una + self.sent.len() as u32
    }

    pub(super) fn outstanding(&self) -> u32 {
        self.sent.len() as u32
    }

    pub(super) fn sacked(&self) -> u32 {
        self.sacked
    }

    pub(super) fn lost(&self) -> u32 {
        self.lost
    }

    pub(super) fn total_lost(&self) -> u64 {
        self.total_lost
    }

    /// Segments believed to be in the network.
    pub(super) fn in_flight(&self) -> u32 {
        (self.outstanding() + self.retransmitted).saturating_sub(self.sacked + self.lost)
    }

    /// When the first unacknowledged segment was last sent.
    pub(super) fn oldest_sent(&self) -> Option<Time> {
        self.sent.front().map(|sent| sent.at)
    }

    /// Records that a new segment is sent.
    pub(super) fn send_new(&mut self, now: Time) {
        let stamp = self.rate.on_sent(now, self.sent.is_empty());
        self.sent.push_back(SentSegment {
            at: now,
            stamp,
            sacked: false,
            lost: false,
            retransmitted: false,
            ever_retransmitted: false,
        });
    }

    /// The lowest lost segment that waits for its retransmission.
    pub(super) fn next_lost(&mut self) -> Option<u32> {
        if self.lost == 0 {
            return None;
        }
        let from = self.retransmit_from.max(self.una);
        let waiting = |sent: &SentSegment| sent.lost && !sent.retransmitted;
        let found = self.sent.iter().skip((from - self.una) as usize).position(waiting);
        self.retransmit_from = found.map_or(self.next(), |offset| from + offset as u32);
        found.map(|_| self.retransmit_from)
    }

    /// Records that a segment is sent again.
    pub(super) fn retransmit(&mut self, now: Time, seq: u32) {
        let stamp = self.rate.on_sent(now, self.sent.is_empty());
        let Some(sent) = self.sent.get_mut((seq - self.una) as usize) else { return };
        if !sent.retransmitted {
            self.retransmitted += 1;
        }
        sent.at = now;
        sent.stamp = stamp;
        sent.retransmitted = true;
        sent.ever_retransmitted = true;
        self.retransmissions.push_back((now, seq));
    }

    /// Applies an acknowledgement.
    pub(super) fn acknowledge(&mut self, now: Time, ack: &Segment) -> Acked {
        let mut acked = Acked::default();
        let min_rtt = self.rack.min_rtt;
        let mut retransmitted = false;
        while self.una < ack.ack {
            let Some(sent) = self.sent.pop_front() else { break };
            retransmitted |= sent.ever_retransmitted;
            if sent.sacked {
                self.sacked -= 1;
            } else {
                self.deliver(now, self.una, &sent, min_rtt, &mut acked);
            }
            self.una += 1;
            acked.cumulative += 1;
        }
        if retransmitted {
            // Segments acknowledged together with a retransmission may have waited for it at the receiver.
            (acked.oldest_rtt, acked.newest_rtt) = (None, None);
        }
        let mut blocks = [(0, 0); MAX_SACK_BLOCKS];
        blocks[..ack.sacked().len()].copy_from_slice(ack.sacked());
        // Ascending, because the order in the segment (most recent first) is no sign of reordering.
        blocks.sort_unstable();
        for (from, to) in blocks {
            self.sack(now, from.max(self.una), to.min(self.next()), &mut acked);
        }
        self.known = blocks;
        acked
    }

    fn sack(&mut self, now: Time, from: u32, to: u32, acked: &mut Acked) {
        let min_rtt = self.rack.min_rtt;
        let mut seq = from;
        while seq < to {
            if let Some(&(_, end)) = self.known.iter().find(|(a, b)| (*a..*b).contains(&seq)) {
                seq = end;
                continue;
            }
            let index = (seq - self.una) as usize;
            if let Some(sent) = self.sent.get(index).copied().filter(|sent| !sent.sacked) {
                self.deliver(now, seq, &sent, min_rtt, acked);
                if let Some(sent) = self.sent.get_mut(index) {
                    sent.sacked = true;
                    sent.lost = false;
                    sent.retransmitted = false;
                }
                self.sacked += 1;
            }
            seq += 1;
        }
    }

    /// Counts a segment that is newly known to have arrived.
    fn deliver(
        &mut self,
        now: Time,
        seq: u32,
        sent: &SentSegment,
        min_rtt: Option<Time>,
        acked: &mut Acked,
    ) {
        acked.delivered += 1;
        self.lost -= u32::from(sent.lost);
        self.retransmitted -= u32::from(sent.retransmitted);
        self.rate.on_delivered(now, sent.at, sent.stamp);
        let rtt = now.saturating_sub(sent.at);
        if !sent.ever_retransmitted {
            acked.oldest_rtt = acked.oldest_rtt.or(Some(rtt));
            acked.newest_rtt = Some(rtt);
            if seq < self.highest_delivered {
                self.rack.on_reordering();
            }
        }
        self.highest_delivered = self.highest_delivered.max(seq + 1);
        // RFC 8985, 6.2 step 2: below the minimum round trip the original arrived, not the retransmission.
        if !(sent.ever_retransmitted && min_rtt.is_some_and(|min| rtt < min)) {
            self.rack.on_delivered(sent.at, rtt);
        }
    }

    /// Marks segments as lost that are too old to be still on their way.
    pub(super) fn detect_loss(&mut self, now: Time, window: Time) -> Found {
        let mut found = Found::default();
        let Some((newest, age)) = self.rack.newest() else { return found };
        let age = age.saturating_add(window);
        let mut waiting = false;
        // First transmissions and retransmissions are each in order of time.
        let mut seq = self.undecided_from.max(self.una);
        while let Some(sent) = self.sent.get((seq - self.una) as usize).copied() {
            if !(sent.sacked || sent.lost || sent.retransmitted) {
                if sent.at > newest || (sent.at == newest && seq >= self.highest_delivered) {
                    break;
                }
                if sent.at.saturating_add(age) > now {
                    waiting = true;
                    break;
                }
                self.mark_lost(seq);
                found.lost += 1;
            }
            seq += 1;
        }
        self.undecided_from = seq;
        while let Some((at, seq)) = self.oldest_retransmission().filter(|(at, _)| *at < newest) {
            if at.saturating_add(age) > now {
                waiting = true;
                break;
            }
            self.retransmissions.pop_front();
            self.mark_lost(seq);
            found.lost += 1;
            found.retransmission_lost = true;
        }
        found.look_again = waiting.then(|| newest.saturating_add(age));
        found
    }

    /// The oldest retransmission that is still in flight: when it was sent, and its segment.
    pub(super) fn oldest_retransmission(&mut self) -> Option<(Time, u32)> {
        while let Some(&(at, seq)) = self.retransmissions.front() {
            let sent = seq.checked_sub(self.una).and_then(|index| self.sent.get(index as usize));
            if sent.is_some_and(|sent| sent.retransmitted && sent.at == at) {
                return Some((at, seq));
            }
            self.retransmissions.pop_front();
        }
        None
    }

    /// After a retransmission timeout, marks the first segment as lost, and all that were sent at least a
    /// round trip ago.
    pub(super) fn mark_after_timeout(&mut self, now: Time) {
        let age = self.rack.newest().map_or(Time::ZERO, |(_, rtt)| rtt);
        for index in 0..self.sent.len() {
            let sent = self.sent[index];
            if !sent.sacked && (index == 0 || sent.at.saturating_add(age) <= now) {
                self.mark_lost(self.una + index as u32);
            }
        }
    }

    /// Clears all losses, because they turned out to be spurious.
    pub(super) fn forget_losses(&mut self) {
        for sent in &mut self.sent {
            sent.lost = false;
        }
        self.lost = 0;
        self.undecided_from = self.una;
    }

    fn mark_lost(&mut self, seq: u32) {
        let Some(sent) = self.sent.get_mut((seq - self.una) as usize) else { return };
        if sent.retransmitted {
            sent.retransmitted = false;
            self.retransmitted -= 1;
        }
        if !sent.lost {
            sent.lost = true;
            self.lost += 1;
        }
        self.total_lost += 1;
        self.retransmit_from = self.retransmit_from.min(seq);
    }
}
