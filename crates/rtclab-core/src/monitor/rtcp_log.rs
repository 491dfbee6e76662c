//! Counts RTCP by type and sender, and summarises reception reports.
//!
//! In SRTCP only header and sender of the first packet are readable, so only the first packet is counted.
//! Feedback is read without storing an entry for each packet that it describes.
//!
//! Source: RFC 3550, section 6; RFC 3711, section 3.4; RFC 4585; RFC 8888; transport-wide feedback as in
//! draft-holmer-rmcat-transport-wide-cc-extensions-01.

use super::feedback::{self, Figures};
use super::flow::Rtt;
use crate::packet::SRTCP_BYTES;
use crate::rtp::rtcp::{HEADER_BYTES, ReportBlock, RtcpHeader, RtcpPacket, parse_compound};
use std::collections::HashMap;

/// Maximum number of rows in each of the two tables.
const MAX_ROWS: usize = 20_000;
/// Maximum number of streams whose sender reports are remembered.
const MAX_SENDERS: usize = 10_000;
/// Number of sender reports remembered per stream, which cover at least 8 s.
const SENDER_REPORTS: usize = 8;

/// Key of the table `rtcp`: one kind of packet from one sender in one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct KindKey {
    pub(crate) flow: u32,
    pub(crate) sender: u32,
    pub(crate) kind: &'static str,
}

/// Counts of one kind of RTCP packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KindCount {
    pub(crate) packets: u64,
    pub(crate) encrypted: u64,
    /// Length of the packets. For encrypted packets, length of their datagrams.
    pub(crate) bytes: u64,
    pub(crate) figures: Figures,
}

/// Key of the table `reports`: one receiver reporting on one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ReportKey {
    pub(crate) flow: u32,
    pub(crate) reporter: u32,
    pub(crate) ssrc: u32,
}

/// Summary of the report blocks of one receiver about one stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reports {
    pub(crate) count: u64,
    pub(crate) last: ReportBlock,
    pub(crate) fraction_lost_sum: u64,
    pub(crate) fraction_lost_max: u8,
    /// Round-trip time between this point and the receiver, from LSR, DLSR and the capture's clock.
    pub(crate) rtt: Rtt,
}

/// The middle 32 bits of a sender report's NTP time, and when the report passed.
type Passed = (u32, i64);

/// Everything learned from RTCP.
#[derive(Default)]
pub(crate) struct RtcpLog {
    pub(crate) kinds: HashMap<KindKey, KindCount>,
    pub(crate) reports: HashMap<ReportKey, Reports>,
    /// Recent sender reports by interface and stream, with the position of the next one.
    senders: HashMap<(u32, u32), ([Passed; SENDER_REPORTS], usize)>,
    /// Number of packets and report blocks not counted because a table was full.
    pub(crate) over_limit: u64,
}

/// Flow, interface and time of a datagram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) flow: u32,
    pub(crate) interface: u32,
    pub(crate) at_ns: i64,
}

impl RtcpLog {
    /// Takes a datagram. Returns false if it is not RTCP.
    pub(crate) fn receive(&mut self, seen: Seen, bytes: &[u8], wire_bytes: u32) -> bool {
        let Ok(header) = RtcpHeader::parse(bytes) else { return false };
        // The first packet must have a header and a sender, and end within the datagram.
        if header.packet_bytes > wire_bytes as usize || header.packet_bytes < 8 || bytes.len() < 8 {
            return false;
        }
        let complete = bytes.len() >= wire_bytes as usize;
        let plain = is_plain(bytes, wire_bytes);
        if (complete && plain == Some(true)) || lacks_only_the_trailer(bytes, wire_bytes) {
            self.plain(seen, bytes);
        } else {
            let kind = feedback::kind(header.packet_type, header.count, None);
            self.count(seen, bytes, kind, |count| {
                count.encrypted += u64::from(plain == Some(false));
                count.bytes += u64::from(wire_bytes);
            });
        }
        true
    }

    fn plain(&mut self, seen: Seen, bytes: &[u8]) {
        let mut rest = bytes;
        while let Ok(header) = RtcpHeader::parse(rest) {
            let Some((packet, after)) = rest.split_at_checked(header.packet_bytes) else { break };
            rest = after;
            let kind = feedback::kind(header.packet_type, header.count, Some(packet));
            let figures = Figures::of(kind, packet);
            self.count(seen, packet, kind, |count| {
                count.figures.add(&figures);
                count.bytes += packet.len() as u64;
            });
            if kind == "SR" || kind == "RR" {
                self.report(seen, packet);
            }
        }
    }

    fn count(
        &mut self,
        seen: Seen,
        packet: &[u8],
        kind: &'static str,
        add: impl FnOnce(&mut KindCount),
    ) {
        let sender = packet.get(4..8).map_or(0, |b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]));
        let key = KindKey { flow: seen.flow, sender, kind };
        if self.kinds.len() >= MAX_ROWS && !self.kinds.contains_key(&key) {
            self.over_limit += 1;
            return;
        }
        let count = self.kinds.entry(key).or_default();
        count.packets += 1;
        add(count);
    }

    fn report(&mut self, seen: Seen, packet: &[u8]) {
        let (reporter, blocks) = match parse_compound(packet).next() {
            Some(Ok(RtcpPacket::SenderReport(report))) => {
                self.remember(seen, report.ssrc, report.ntp.middle());
                (report.ssrc, report.blocks)
            }
            Some(Ok(RtcpPacket::ReceiverReport(report))) => (report.ssrc, report.blocks),
            _ => return,
        };
        for block in blocks {
            let rtt_ns = self.round_trip(seen, &block);
            let key = ReportKey { flow: seen.flow, reporter, ssrc: block.ssrc };
            if self.reports.len() >= MAX_ROWS && !self.reports.contains_key(&key) {
                self.over_limit += 1;
                continue;
            }
            let reports = self.reports.entry(key).or_default();
            reports.count += 1;
            reports.last = block;
            reports.fraction_lost_sum += u64::from(block.fraction_lost);
            reports.fraction_lost_max = reports.fraction_lost_max.max(block.fraction_lost);
            rtt_ns.into_iter().for_each(|ns| reports.rtt.add(ns));
        }
    }

    fn remember(&mut self, seen: Seen, ssrc: u32, ntp_middle: u32) {
        let key = (seen.interface, ssrc);
        if self.senders.len() >= MAX_SENDERS && !self.senders.contains_key(&key) {
            self.over_limit += 1;
            return;
        }
        let (passed, next) = self.senders.entry(key).or_default();
        passed[*next % SENDER_REPORTS] = (ntp_middle, seen.at_ns);
        *next += 1;
    }

    /// Round-trip time from this point to the receiver and back: the time since the sender report passed,
    /// minus the time for which the receiver held it. Only the capture's clock is used.
    fn round_trip(&self, seen: Seen, block: &ReportBlock) -> Option<i64> {
        if block.last_sender_report == 0 {
            return None;
        }
        let (passed, _) = self.senders.get(&(seen.interface, block.ssrc))?;
        let (_, at_ns) = passed.iter().find(|(ntp, _)| *ntp == block.last_sender_report)?;
        let held = i64::from(block.delay_since_last_sender_report) * 1_000_000_000 / 65_536;
        let rtt_ns = seen.at_ns - at_ns - held;
        (rtt_ns >= 0).then_some(rtt_ns)
    }
}

/// Whether this is RTCP in clear that only lacks SRTCP index and tag, as in captures of simulated
/// calls.
///
/// An encrypted datagram that the capture cut at this length looks the same if it holds a single packet.
fn lacks_only_the_trailer(bytes: &[u8], wire_bytes: u32) -> bool {
    u64::from(wire_bytes) == bytes.len() as u64 + SRTCP_BYTES
        && is_plain(bytes, bytes.len() as u32) == Some(true)
}

/// Whether a datagram is unencrypted: a chain of packets of known types up to its last byte. Encrypted
/// packets and the SRTCP trailer break the chain. `None` if the capture has cut off the bytes needed to
/// decide.
fn is_plain(bytes: &[u8], wire_bytes: u32) -> Option<bool> {
    let mut offset = 0;
    while offset < wire_bytes as usize {
        let Ok(header) = RtcpHeader::parse(bytes.get(offset..)?) else {
            return (bytes.len() >= offset + HEADER_BYTES || bytes.len() >= wire_bytes as usize)
                .then_some(false);
        };
        offset += header.packet_bytes;
        if !(192..=223).contains(&header.packet_type) || offset > wire_bytes as usize {
            return Some(false);
        }
    }
    Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtp::rtcp::{NtpTime, ReceiverReport, SenderReport};
    use crate::units::Time;

    fn seen(at_ms: i64) -> Seen {
        Seen { flow: 1, interface: 0, at_ns: at_ms * 1_000_000 }
    }

    fn bytes(packets: &[RtcpPacket]) -> Vec<u8> {
        let mut out = Vec::new();
        packets.iter().for_each(|packet| packet.write(&mut out).unwrap());
        out
    }

    fn sender_report() -> RtcpPacket {
        let ntp = NtpTime::from_time(Time::from_secs(100));
        RtcpPacket::SenderReport(SenderReport { ssrc: 7, ntp, ..SenderReport::default() })
    }

    fn receiver_report(held_s: f64) -> RtcpPacket {
        let block = ReportBlock {
            ssrc: 7,
            fraction_lost: 64,
            cumulative_lost: 12,
            last_sender_report: 100 << 16,
            delay_since_last_sender_report: (held_s * 65_536.0) as u32,
            ..ReportBlock::default()
        };
        RtcpPacket::ReceiverReport(ReceiverReport { ssrc: 9, blocks: vec![block] })
    }

    fn receive(log: &mut RtcpLog, at_ms: i64, bytes: &[u8]) -> bool {
        log.receive(seen(at_ms), bytes, bytes.len() as u32)
    }

    #[test]
    fn a_report_gives_loss_and_the_round_trip_on_the_captures_own_clock() {
        let mut log = RtcpLog::default();
        assert!(receive(&mut log, 5_000, &bytes(&[sender_report()])));
        assert!(receive(&mut log, 5_600, &bytes(&[receiver_report(0.5)])));
        let reports = log.reports[&ReportKey { flow: 1, reporter: 9, ssrc: 7 }];
        assert_eq!(
            (reports.count, reports.last.cumulative_lost, reports.fraction_lost_max),
            (1, 12, 64)
        );
        assert_eq!(reports.rtt.mean_ms(), Some(100.0)); // 600 ms minus 500 ms
    }

    #[test]
    fn encrypted_rtcp_is_counted_by_its_first_packet_but_its_content_is_not_read() {
        let mut log = RtcpLog::default();
        let mut srtcp = bytes(&[receiver_report(0.5)]);
        srtcp[8..].fill(0xAB); // all but header and sender is encrypted
        srtcp.extend_from_slice(&[0x80, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        assert!(receive(&mut log, 0, &srtcp));
        let count = log.kinds[&KindKey { flow: 1, sender: 9, kind: "RR" }];
        assert_eq!((count.packets, count.encrypted, count.bytes), (1, 1, srtcp.len() as u64));
        assert!(log.reports.is_empty());
    }

    #[test]
    fn every_packet_of_a_compound_in_clear_is_counted() {
        let mut log = RtcpLog::default();
        let nack = RtcpPacket::Nack(crate::rtp::rtcp::Nack {
            sender_ssrc: 7,
            media_ssrc: 9,
            lost: vec![1, 2, 40],
        });
        assert!(receive(&mut log, 0, &bytes(&[sender_report(), nack])));
        let count = |kind| log.kinds[&KindKey { flow: 1, sender: 7, kind }];
        assert_eq!((count("SR").packets, count("SR").encrypted), (1, 0));
        assert_eq!((count("NACK").packets, count("NACK").figures.lost), (1, 3));
        // 1 and 2 fit in one item of 4 B. 40 needs another.
        assert_eq!((count("SR").bytes, count("NACK").bytes), (28, 20));
    }

    #[test]
    fn reports_in_clear_are_read_if_exactly_the_srtcp_trailer_is_missing() {
        let compound = bytes(&[sender_report(), receiver_report(0.5)]);
        let read = |left_out: u32| {
            let mut log = RtcpLog::default();
            assert!(log.receive(seen(0), &compound, compound.len() as u32 + left_out));
            log.reports.len()
        };
        assert_eq!([0, 13, 14, 15].map(read), [1, 0, 1, 0]);
    }

    #[test]
    fn a_packet_longer_than_its_datagram_is_not_rtcp() {
        let mut log = RtcpLog::default();
        assert!(!receive(&mut log, 0, &[0x80, 200, 0, 9, 0, 0, 0, 1]));
        assert!(!receive(&mut log, 0, &[0x80, 200, 0, 0]));
        assert!(log.kinds.is_empty());
    }
}
