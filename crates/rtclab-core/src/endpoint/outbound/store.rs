//! Packets of one video stream, kept for retransmission.

use crate::media::pacer::MediaPacket;
use crate::media::repair::{Repair, Retransmission};
use crate::packet::Kind;
use crate::units::Time;
use std::collections::VecDeque;

/// Number of packets kept for retransmission; in Chromium 156 the least number (libwebrtc, `rtp_packet_history.h`).
const STORED: usize = 600;
/// Most packets kept in Chromium 156.
const MAX_STORED: usize = 9_600;
/// A packet is kept for at least this long, and for this many round trips.
const MIN_AGE: Time = Time::from_secs(1);
const MIN_AGE_RTTS: u64 = 3;
/// A packet is removed in any case when it is older than its least age times this factor.
const MAX_AGE_FACTOR: u64 = 3;
/// Added to the round trip for which a resent packet is not sent again (libwebrtc, `rtp_sender.cc`).
const RESEND_EXTRA: Time = Time::from_millis(5);
/// Copies of a packet that may wait in the pacer at the same time until 2024: what a receiver that repeats a request ten
/// times can have asked for. libwebrtc keeps one (`paced_sender.cc`, AddToDupeSet).
const MAX_PENDING: u8 = 10;

struct Stored {
    packet: MediaPacket,
    last_sent: Option<Time>,
    /// Whether it was sent more than once.
    resent: bool,
    /// How many copies wait in the pacer to be sent again.
    pending: u8,
    /// Whether feedback has reported its arrival.
    acknowledged: bool,
}

/// Packets by sequence number, without gaps.
pub(super) struct PacketStore {
    rules: Retransmission,
    stored: VecDeque<Stored>,
    /// The packet that is repeated as padding since 2024.
    large: Option<MediaPacket>,
}

impl PacketStore {
    pub(super) fn new(rules: Retransmission) -> Self {
        PacketStore { rules, stored: VecDeque::new(), large: None }
    }

    pub(super) fn push(&mut self, packet: MediaPacket) {
        if self.rules == Retransmission::Until2024 && self.stored.len() == STORED {
            self.stored.pop_front();
        }
        self.stored.push_back(Stored {
            packet,
            last_sent: None,
            resent: false,
            pending: 0,
            acknowledged: false,
        });
    }

    /// The last `count` packets, in order.
    pub(super) fn newest(&self, count: usize) -> impl Iterator<Item = &MediaPacket> {
        let before = self.stored.len().saturating_sub(count);
        self.stored.range(before..).map(|stored| &stored.packet)
    }

    /// The packet to repeat as padding: until 2024 the newest that has been sent, since then the last large one.
    pub(super) fn for_padding(&self) -> Option<MediaPacket> {
        match self.rules {
            Retransmission::Since2024 => self.large,
            Retransmission::Until2024 => {
                self.stored.iter().rev().find(|s| s.last_sent.is_some()).map(|s| s.packet)
            }
        }
    }

    /// Takes the departure of a packet.
    pub(super) fn on_sent(&mut self, now: Time, seq: u16, rtt: Time) {
        let Some(stored) = self.find(seq) else { return };
        stored.resent = stored.last_sent.replace(now).is_some();
        stored.pending = stored.pending.saturating_sub(1);
        let (packet, first) = (stored.packet, !stored.resent);
        if self.rules == Retransmission::Since2024 && first {
            if self.large.is_none_or(|large| large.yields_to(&packet)) {
                self.large = Some(packet);
            }
            self.cull(now, rtt);
        }
    }

    /// Takes a report that a packet, or its retransmission, has arrived.
    pub(super) fn acknowledge(&mut self, seq: u16) {
        if let Some(stored) = self.find(seq) {
            stored.acknowledged = true;
        }
        while self.stored.front().is_some_and(|stored| stored.acknowledged) {
            self.stored.pop_front();
        }
    }

    /// The packet to retransmit, unless it was sent a moment ago; see [`Repair::resend_pause`].
    pub(super) fn retransmit(
        &mut self,
        now: Time,
        seq: u16,
        rtt: Time,
        repair: Repair,
    ) -> Option<MediaPacket> {
        let since_2024 = self.rules == Retransmission::Since2024 && !repair.on_original_ssrc();
        let stored = self.find(seq)?;
        let last = stored.last_sent?;
        if since_2024 {
            let is_early = stored.resent && now < last + rtt + RESEND_EXTRA;
            if stored.pending > 0 || stored.acknowledged || is_early {
                return None;
            }
        } else {
            let is_early = now < last + repair.resend_pause(rtt, stored.resent);
            if is_early || stored.pending == MAX_PENDING {
                return None;
            }
            // It counts as sent from now on, so that a second request does not queue it twice.
            (stored.last_sent, stored.resent) = (Some(now), true);
        }
        stored.pending += 1;
        Some(MediaPacket { kind: Kind::Rtx, ..stored.packet })
    }

    /// Removes packets that are too old or too many.
    fn cull(&mut self, now: Time, rtt: Time) {
        let age = MIN_AGE.max(rtt * MIN_AGE_RTTS);
        while let Some(first) = self.stored.front() {
            let goes = match first.last_sent {
                _ if self.stored.len() >= MAX_STORED || first.acknowledged => true,
                // FEC is not kept.
                None => first.packet.kind == Kind::Fec,
                Some(_) if first.pending > 0 => false,
                Some(sent) => {
                    let full = self.stored.len() >= STORED;
                    now >= sent + if full { age } else { age * MAX_AGE_FACTOR }
                }
            };
            if !goes {
                return;
            }
            self.stored.pop_front();
        }
    }

    fn find(&mut self, seq: u16) -> Option<&mut Stored> {
        let first = self.stored.front()?.packet.seq;
        self.stored.get_mut(usize::from(seq.wrapping_sub(first)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::VideoPart;

    const RTT: Time = Time::from_millis(80);

    fn packet(seq: u16, bytes: u16) -> MediaPacket {
        let part = VideoPart { bytes, ..VideoPart::default() };
        MediaPacket { stream: 0, kind: Kind::Video, seq, timestamp: 0, marker: false, part }
    }

    /// A store in which packets `0..count` were sent, one each millisecond.
    fn sent(count: u16) -> PacketStore {
        let mut store = PacketStore::new(Retransmission::Since2024);
        for seq in 0..count {
            store.push(packet(seq, 1_000));
            store.on_sent(Time::from_millis(u64::from(seq)), seq, RTT);
        }
        store
    }

    fn resend(store: &mut PacketStore, ms: u64, seq: u16) -> bool {
        store.retransmit(Time::from_millis(ms), seq, RTT, Repair::Rtx).is_some()
    }

    #[test]
    fn the_first_resend_is_never_refused_and_the_next_waits_for_a_round_trip_and_5_ms() {
        let mut store = sent(3);
        assert!(resend(&mut store, 3, 1));
        // It waits in the pacer.
        assert!(!resend(&mut store, 500, 1));
        store.on_sent(Time::from_millis(10), 1, RTT);
        assert!(!resend(&mut store, 94, 1));
        assert!(resend(&mut store, 95, 1));
    }

    /// With a round trip of zero, every request is answered until 2024.
    #[test]
    fn ten_copies_of_a_packet_wait_at_most() {
        let mut store = PacketStore::new(Retransmission::Until2024);
        store.push(packet(1, 1_000));
        store.on_sent(Time::ZERO, 1, Time::ZERO);
        let ask = |store: &mut PacketStore| {
            (0..100)
                .filter(|_| store.retransmit(Time(3), 1, Time::ZERO, Repair::Rtx).is_some())
                .count()
        };
        assert_eq!(ask(&mut store), 10);
        store.on_sent(Time(2), 1, Time::ZERO);
        assert_eq!(ask(&mut store), 1);
    }

    #[test]
    fn an_acknowledged_packet_is_not_sent_again() {
        let mut store = sent(3);
        store.acknowledge(1);
        assert!(!resend(&mut store, 10, 1));
        assert!(resend(&mut store, 10, 0) && resend(&mut store, 10, 2));
    }

    /// Packets go after a second if there are 600, and after three seconds otherwise.
    #[test]
    fn packets_are_kept_by_their_age() {
        let mut store = sent(1_500);
        // At 1499 ms those up to 499 ms are a second old.
        assert!(!resend(&mut store, 1_499, 499) && resend(&mut store, 1_499, 500));
        let mut store = sent(500);
        store.push(packet(500, 1_000));
        store.on_sent(Time::from_millis(3_100), 500, RTT);
        assert!(!resend(&mut store, 3_100, 100) && resend(&mut store, 3_100, 101));
    }

    #[test]
    fn padding_repeats_the_last_packet_that_is_not_much_smaller_than_the_largest() {
        let mut store = PacketStore::new(Retransmission::Since2024);
        for (seq, bytes) in [(0, 500), (1, 1_000), (2, 901), (3, 700)] {
            store.push(packet(seq, bytes));
            store.on_sent(Time::ZERO, seq, RTT);
        }
        assert_eq!(store.for_padding().map(|packet| packet.seq), Some(2));
    }
}
