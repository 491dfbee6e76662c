//! What was sent: for retransmission by RTP sequence number, for feedback by transport sequence number.

use crate::cc::{PacketReport, SentPacket};
use crate::media::{Kind, MediaPacket};
use crate::rtp::SeqUnwrapper;
use crate::rtp::rtcp::TransportFeedback;
use crate::units::{Bytes, RemoteTime, Time};
use std::collections::VecDeque;

/// libwebrtc, `rtp_packet_history.h`: packets kept for retransmission.
const MAX_STORED: usize = 600;
/// Packets waiting for feedback; older ones are forgotten.
const MAX_WAITING: usize = 10_000;

struct Stored {
    packet: MediaPacket,
    last_sent: Option<Time>,
}

struct Waiting {
    sent: SentPacket,
    reported: bool,
}

#[derive(Default)]
pub(super) struct SendHistory {
    stored: VecDeque<Stored>,
    waiting: VecDeque<Waiting>,
    next_transport_seq: i64,
    in_flight: u64,
    /// Everything below has left the flight: it was reported on, or something later was.
    flight_edge: i64,
    unwrapper: SeqUnwrapper,
}

impl SendHistory {
    pub(super) fn store(&mut self, packet: MediaPacket) {
        if self.stored.len() == MAX_STORED {
            self.stored.pop_front();
        }
        self.stored.push_back(Stored { packet, last_sent: None });
    }

    /// The last `count` packets stored, in their order.
    pub(super) fn newest(&self, count: usize) -> impl Iterator<Item = &MediaPacket> {
        let before = self.stored.len().saturating_sub(count);
        self.stored.range(before..).map(|stored| &stored.packet)
    }

    pub(super) fn last(&self) -> Option<MediaPacket> {
        self.stored.iter().rev().find(|s| s.last_sent.is_some()).map(|s| s.packet)
    }

    pub(super) fn next_transport_seq(&self) -> i64 {
        self.next_transport_seq
    }

    pub(super) fn in_flight(&self) -> Bytes {
        Bytes(self.in_flight)
    }

    /// Notes that the packet with the next transport sequence number left.
    pub(super) fn sent(
        &mut self,
        now: Time,
        size: Bytes,
        kind: Kind,
        seq: u16,
        probe: Option<u32>,
    ) -> SentPacket {
        if matches!(kind, Kind::Video | Kind::Rtx)
            && let Some(stored) = self.find(seq)
        {
            stored.last_sent = Some(now);
        }
        self.in_flight += size.0;
        let sent = SentPacket {
            transport_seq: self.next_transport_seq,
            at: now,
            size,
            audio: kind == Kind::Audio,
            probe,
            in_flight: Bytes(self.in_flight),
        };
        self.next_transport_seq += 1;
        if self.waiting.len() == MAX_WAITING
            && let Some(oldest) = self.waiting.front().map(|waiting| waiting.sent.transport_seq)
        {
            self.leave_flight(oldest);
            self.waiting.pop_front();
        }
        self.waiting.push_back(Waiting { sent, reported: false });
        sent
    }

    /// The packet to send again, unless it was sent less than `pause` ago. FEC is not sent again.
    pub(super) fn retransmit(&mut self, now: Time, seq: u16, pause: Time) -> Option<MediaPacket> {
        let stored = self.find(seq)?;
        let last = stored.last_sent?;
        if now < last + pause {
            return None;
        }
        // Counts as sent from now on, so that a second request does not queue it twice.
        stored.last_sent = Some(now);
        Some(MediaPacket { kind: Kind::Rtx, ..stored.packet })
    }

    /// Turns a feedback packet into reports on what was sent, in sending order.
    pub(super) fn acknowledge(
        &mut self,
        feedback: &TransportFeedback,
        out: &mut Vec<PacketReport>,
    ) {
        let mut last = self.flight_edge;
        for (seq, ticks) in feedback.arrivals() {
            let seq = self.unwrapper.unwrap(seq);
            last = last.max(seq);
            let tick = TransportFeedback::TICK;
            let received = ticks.map(|ticks| RemoteTime(tick * ticks.max(0) as u64));
            let Some(waiting) = self.waiting_at(seq) else { continue };
            if waiting.reported {
                continue;
            }
            waiting.reported = received.is_some();
            out.push(PacketReport { sent: waiting.sent, received });
        }
        self.leave_flight(last);
        while self.waiting.front().is_some_and(|w| w.reported) {
            self.waiting.pop_front();
        }
    }

    fn leave_flight(&mut self, last: i64) {
        while self.flight_edge <= last {
            let size = self.waiting_at(self.flight_edge).map_or(0, |w| w.sent.size.0);
            self.in_flight -= size;
            self.flight_edge += 1;
        }
    }

    fn waiting_at(&mut self, transport_seq: i64) -> Option<&mut Waiting> {
        let first = self.waiting.front()?.sent.transport_seq;
        self.waiting.get_mut(usize::try_from(transport_seq - first).ok()?)
    }

    fn find(&mut self, seq: u16) -> Option<&mut Stored> {
        let first = self.stored.front()?.packet.seq;
        self.stored.get_mut(usize::from(seq.wrapping_sub(first)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forgotten_without_feedback_is_no_longer_in_flight() {
        let mut history = SendHistory::default();
        for _ in 0..3 * MAX_WAITING {
            history.sent(Time::ZERO, Bytes(100), Kind::Audio, 0, None);
        }
        assert_eq!(history.in_flight(), Bytes(100 * MAX_WAITING as u64));
    }
}
