//! What libwebrtc's adapter keeps of sent packets, and makes of feedback on them.
//!
//! Source: libwebrtc, modules/congestion_controller/rtp/transport_feedback_adapter.cc.

use super::inputs::{Acknowledged, Packet};
use crate::cc::{PacketReport, SentPacket};
use crate::packet::Ecn;
use crate::units::{Bytes, RemoteTime, Time};
use std::collections::BTreeMap;

/// Packets are forgotten after this (kSendTimeHistoryWindow).
const WINDOW: Time = Time::from_secs(60);
/// Arrival of the first packet that was reported, so that others may have arrived before it.
const FIRST_MS: i64 = 100_000;

/// Packets that no feedback has reported as received.
#[derive(Default)]
pub(super) struct History {
    /// By sequence number, with whether it was reported as lost.
    sent: BTreeMap<i64, (SentPacket, bool)>,
    /// Highest sequence number in any feedback.
    highest: Option<i64>,
    in_flight: u64,
}

impl History {
    /// Bytes of packets above the highest sequence number of all feedback.
    pub(super) fn in_flight(&self) -> Bytes {
        Bytes(self.in_flight)
    }

    pub(super) fn sent(&mut self, now: Time, packet: &Packet, probe: Option<u32>) -> SentPacket {
        let old = |sent: &SentPacket| sent.at.saturating_add(WINDOW) < now;
        while let Some(first) = self.sent.first_entry().filter(|first| old(&first.get().0)) {
            let (forgotten, _) = first.remove();
            if self.highest.is_none_or(|highest| forgotten.transport_seq > highest) {
                self.in_flight -= forgotten.size.0;
            }
        }
        if self.highest.is_none_or(|highest| packet.seq > highest) {
            self.in_flight += packet.size.0;
        }
        let sent = SentPacket {
            transport_seq: packet.seq,
            at: now,
            size: packet.size,
            kind: packet.kind,
            probe,
            in_flight: self.in_flight(),
            ecn: Ecn::NotCapable,
        };
        self.sent.insert(packet.seq, (sent, false));
        sent
    }

    /// The packets of a feedback that are known and were not reported as received before, in its order.
    pub(super) fn acknowledge(&mut self, feedback: &[Acknowledged]) -> Vec<PacketReport> {
        let Some(newest) = self.sent.last_key_value().map(|(seq, _)| *seq) else {
            return Vec::new();
        };
        let mut reports = Vec::new();
        for entry in feedback {
            let seq = near(newest, entry.seq);
            self.cover(seq);
            let arrival = |ms: i64| RemoteTime(Time::from_millis((FIRST_MS + ms).max(0) as u64));
            let received = entry.arrival_ms.map(arrival);
            let Some((sent, lost_before)) = self.sent.get_mut(&seq) else { continue };
            reports.push(PacketReport {
                sent: *sent,
                received,
                ecn: None,
                held: None,
                lost_before: *lost_before,
            });
            *lost_before = true;
            if received.is_some() {
                self.sent.remove(&seq);
            }
        }
        reports
    }

    /// Takes all packets up to `seq` out of the flight.
    fn cover(&mut self, seq: i64) {
        if self.highest.is_some_and(|highest| seq <= highest) {
            return;
        }
        let above = self.highest.map_or(i64::MIN, |highest| highest + 1);
        let covered: u64 = self.sent.range(above..=seq).map(|(_, (sent, _))| sent.size.0).sum();
        self.in_flight -= covered;
        self.highest = Some(seq);
    }
}

/// The number with these lowest 16 bits that is closest to `reference`.
fn near(reference: i64, seq: u16) -> i64 {
    reference + i64::from(seq.wrapping_sub(reference as u16) as i16)
}
