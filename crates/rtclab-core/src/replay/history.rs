//! What libwebrtc's adapter keeps of sent packets, and makes of feedback on them.
//!
//! Source: libwebrtc, modules/congestion_controller/rtp/transport_feedback_adapter.cc.

use super::inputs::{Acknowledged, CongestionReport, Packet};
use crate::cc::{PacketReport, SentPacket};
use crate::packet::Ecn;
use crate::rtp::rtcp::ReportClock;
use crate::units::{Bytes, RemoteTime, Time};
use std::collections::{BTreeMap, HashMap};

/// Packets are forgotten after this (kSendTimeHistoryWindow).
const WINDOW: Time = Time::from_secs(60);
/// Arrival of the first packet that was reported, so that others may have arrived before it.
const FIRST_MS: i64 = 100_000;

/// A packet that no feedback has reported as received.
struct Kept {
    sent: SentPacket,
    /// Its SSRC and RTP sequence number.
    number: (u32, u16),
    lost_before: bool,
}

/// Packets that no feedback has reported as received.
#[derive(Default)]
pub(super) struct History {
    /// By sequence number.
    sent: BTreeMap<i64, Kept>,
    /// Highest sequence number in any feedback.
    highest: Option<i64>,
    in_flight: u64,
    /// Sequence numbers of these packets by their SSRC and RTP sequence number. One that is used again stands for the
    /// newer packet.
    by_number: HashMap<(u32, u16), i64>,
    clock: ReportClock,
}

impl History {
    /// Bytes of packets above the highest sequence number of all feedback.
    pub(super) fn in_flight(&self) -> Bytes {
        Bytes(self.in_flight)
    }

    pub(super) fn sent(&mut self, now: Time, packet: &Packet, probe: Option<u32>) -> SentPacket {
        let old = |sent: &SentPacket| sent.at.saturating_add(WINDOW) < now;
        while let Some(first) = self.sent.first_entry().filter(|first| old(&first.get().sent)) {
            let Kept { sent: forgotten, number, .. } = first.remove();
            self.unlist(forgotten.transport_seq, number);
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
        let number = (packet.rtp.ssrc, packet.rtp.seq);
        self.by_number.insert(number, packet.seq);
        self.sent.insert(packet.seq, Kept { sent, number, lost_before: false });
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
            let Some(Kept { sent, number, lost_before }) = self.sent.get_mut(&seq) else {
                continue;
            };
            let number = *number;
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
                self.unlist(seq, number);
            }
        }
        reports
    }

    /// The packets of RFC 8888 feedback that are known and were not reported as received before, in order of sending,
    /// and packets sent between them that it does not name, which were lost.
    pub(super) fn acknowledge_by_number(
        &mut self,
        now: Time,
        report: &CongestionReport,
    ) -> Vec<PacketReport> {
        let report_time = self.clock.advance(now, report.timestamp);
        let mut named = BTreeMap::new();
        for entry in &report.entries {
            if let Some(seq) = self.by_number.get(&entry.number) {
                named.entry(*seq).or_insert(entry.arrival);
            }
        }
        let known = named.first_key_value().zip(named.last_key_value());
        let Some(((&first, _), (&last, _))) = known else { return Vec::new() };
        self.cover(last);
        let covered: Vec<i64> = self.sent.range(first..=last).map(|(seq, _)| *seq).collect();
        let mut reports = Vec::new();
        for seq in covered {
            let arrival = named.get(&seq).copied();
            let Some(kept) = self.sent.get_mut(&seq) else { continue };
            let (lost_before, number) = (kept.lost_before, kept.number);
            kept.lost_before = true;
            let sent = kept.sent;
            let lost = PacketReport { sent, received: None, ecn: None, held: None, lost_before };
            match arrival {
                Some(Some((held, ecn))) => {
                    self.sent.remove(&seq);
                    self.unlist(seq, number);
                    // Without a time the control can do nothing with it.
                    let Some(held) = held else { continue };
                    let received = Some(RemoteTime(report_time.saturating_sub(held)));
                    reports.push(PacketReport {
                        received,
                        ecn: Some(ecn),
                        held: Some(held),
                        ..lost
                    });
                }
                Some(None) => reports.push(lost),
                // A loss that follows from the packets around it is reported once.
                None if !lost_before => reports.push(lost),
                None => {}
            }
        }
        reports
    }

    /// Forgets the RTP number of a packet, unless a newer packet has it.
    fn unlist(&mut self, seq: i64, number: (u32, u16)) {
        if self.by_number.get(&number) == Some(&seq) {
            self.by_number.remove(&number);
        }
    }

    /// Takes all packets up to `seq` out of the flight.
    fn cover(&mut self, seq: i64) {
        if self.highest.is_some_and(|highest| seq <= highest) {
            return;
        }
        let above = self.highest.map_or(i64::MIN, |highest| highest + 1);
        let covered: u64 = self.sent.range(above..=seq).map(|(_, kept)| kept.sent.size.0).sum();
        self.in_flight -= covered;
        self.highest = Some(seq);
    }
}

/// The number with these lowest 16 bits that is closest to `reference`.
fn near(reference: i64, seq: u16) -> i64 {
    reference + i64::from(seq.wrapping_sub(reference as u16) as i16)
}
