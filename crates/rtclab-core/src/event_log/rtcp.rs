//! Tables of the RTCP in a log, which is there in clear.

use super::batch::Budget;
use super::{Faults, NO_VALUE};
use crate::rtp::rtcp::{
    CongestionFeedback, ReportBlock, RtcpPacket, SenderReport, TransportFeedback, parse_compound,
};
use crate::table::{Column, Table, Text, Texts};

/// An RTCP datagram, without the blocks that the log leaves out, so that it may be empty.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoggedRtcp<'a> {
    pub(super) at_ms: i64,
    /// Whether this end sent it.
    pub(super) sent: bool,
    pub(super) bytes: &'a [u8],
}

/// A table of integers that is filled row by row.
struct Rows<const N: usize> {
    name: &'static str,
    columns: [&'static str; N],
    values: [Vec<i64>; N],
}

impl<const N: usize> Rows<N> {
    fn new(name: &'static str, columns: [&'static str; N]) -> Self {
        Rows { name, columns, values: std::array::from_fn(|_| Vec::new()) }
    }

    fn push(&mut self, row: [i64; N]) {
        for (column, value) in self.values.iter_mut().zip(row) {
            column.push(value);
        }
    }

    fn finish(self) -> Table {
        let columns = self.columns.into_iter().zip(self.values.map(Column::Int)).collect();
        Table { name: self.name, columns }
    }
}

/// The tables `rtcp`, `transport_feedback`, `congestion_feedback`, `report_blocks` and `sender_reports`.
///
/// A few bytes of feedback can describe thousands of packets that did not arrive, so every row takes from
/// `budget`. Feedback beyond it counts as invalid.
pub(super) fn tables(
    datagrams: &[LoggedRtcp<'_>],
    budget: &mut Budget,
    texts: &mut Texts,
    faults: &mut Faults,
) -> Vec<Table> {
    let mut all = Tables::new();
    for datagram in datagrams {
        for packet in parse_compound(datagram.bytes) {
            match packet {
                Ok(packet) if budget.take(rows(&packet)) => all.add(datagram, &packet, texts),
                _ => faults.invalid_rtcp += 1,
            }
        }
    }
    all.finish()
}

/// Number of rows that a packet makes.
fn rows(packet: &RtcpPacket) -> usize {
    1 + match packet {
        RtcpPacket::TransportFeedback(feedback) => feedback.statuses.len(),
        RtcpPacket::CongestionFeedback(feedback) => {
            feedback.streams.iter().map(|stream| stream.arrivals.len()).sum()
        }
        _ => 0,
    }
}

struct Tables {
    packets: Rows<5>,
    kinds: Vec<u32>,
    transport: Rows<6>,
    congestion: Rows<8>,
    blocks: Rows<10>,
    senders: Rows<7>,
}

impl Tables {
    fn new() -> Self {
        let key = ["at_ms", "sent", "ssrc"];
        let [at, sent, ssrc] = key;
        Tables {
            packets: Rows::new("rtcp", [at, sent, ssrc, "media_ssrc", "rate_bps"]),
            kinds: Vec::new(),
            transport: Rows::new(
                "transport_feedback",
                [at, sent, ssrc, "feedback_count", "transport_seq", "arrival_ticks"],
            ),
            congestion: Rows::new(
                "congestion_feedback",
                [
                    at,
                    sent,
                    ssrc,
                    "report_timestamp",
                    "media_ssrc",
                    "seq",
                    "arrival_offset_ns",
                    "ecn",
                ],
            ),
            blocks: Rows::new(
                "report_blocks",
                [
                    at,
                    sent,
                    ssrc,
                    "media_ssrc",
                    "fraction_lost",
                    "packets_lost",
                    "highest_seq",
                    "jitter",
                    "last_sender_report",
                    "delay_since_last_sender_report",
                ],
            ),
            senders: Rows::new(
                "sender_reports",
                [at, sent, ssrc, "ntp", "rtp_timestamp", "packets", "payload_bytes"],
            ),
        }
    }

    fn finish(self) -> Vec<Table> {
        let mut packets = self.packets.finish();
        packets.columns.insert(2, ("type", Column::Text(self.kinds)));
        vec![
            packets,
            self.transport.finish(),
            self.congestion.finish(),
            self.blocks.finish(),
            self.senders.finish(),
        ]
    }

    fn add(&mut self, datagram: &LoggedRtcp<'_>, packet: &RtcpPacket, texts: &mut Texts) {
        let (at, sent) = (datagram.at_ms, i64::from(datagram.sent));
        let (kind, sender, media) = described(packet);
        let Text(kind) = texts.code(kind);
        let rate = match packet {
            RtcpPacket::Remb(remb) => remb.bitrate.0 as i64,
            _ => NO_VALUE,
        };
        self.kinds.push(kind);
        self.packets.push([at, sent, ssrc(sender), ssrc(media), rate]);
        match packet {
            RtcpPacket::SenderReport(report) => self.sender_report(at, sent, report),
            RtcpPacket::ReceiverReport(report) => {
                self.report_blocks(at, sent, report.ssrc, &report.blocks);
            }
            RtcpPacket::TransportFeedback(feedback) => self.transport(at, sent, feedback),
            RtcpPacket::CongestionFeedback(feedback) => self.congestion(at, sent, feedback),
            _ => {}
        }
    }

    fn sender_report(&mut self, at: i64, sent: i64, report: &SenderReport) {
        self.senders.push([
            at,
            sent,
            i64::from(report.ssrc),
            report.ntp.0 as i64,
            i64::from(report.rtp_timestamp),
            i64::from(report.packet_count),
            i64::from(report.octet_count),
        ]);
        self.report_blocks(at, sent, report.ssrc, &report.blocks);
    }

    fn report_blocks(&mut self, at: i64, sent: i64, reporter: u32, blocks: &[ReportBlock]) {
        for block in blocks {
            self.blocks.push([
                at,
                sent,
                i64::from(reporter),
                i64::from(block.ssrc),
                i64::from(block.fraction_lost),
                i64::from(block.cumulative_lost),
                i64::from(block.highest_seq),
                i64::from(block.jitter),
                i64::from(block.last_sender_report),
                i64::from(block.delay_since_last_sender_report),
            ]);
        }
    }

    fn transport(&mut self, at: i64, sent: i64, feedback: &TransportFeedback) {
        for (seq, ticks) in feedback.arrivals() {
            self.transport.push([
                at,
                sent,
                i64::from(feedback.sender_ssrc),
                i64::from(feedback.feedback_count),
                i64::from(seq),
                ticks.unwrap_or(NO_VALUE),
            ]);
        }
    }

    fn congestion(&mut self, at: i64, sent: i64, feedback: &CongestionFeedback) {
        for stream in &feedback.streams {
            let mut seq = stream.begin_seq;
            for arrival in &stream.arrivals {
                let offset = arrival.and_then(|arrival| arrival.offset.time());
                self.congestion.push([
                    at,
                    sent,
                    i64::from(feedback.sender_ssrc),
                    i64::from(feedback.report_timestamp),
                    i64::from(stream.ssrc),
                    i64::from(seq),
                    offset.map_or(NO_VALUE, |time| time.0 as i64),
                    arrival.map_or(NO_VALUE, |arrival| arrival.ecn as i64),
                ]);
                seq = seq.wrapping_add(1);
            }
        }
    }
}

fn ssrc(value: Option<u32>) -> i64 {
    value.map_or(NO_VALUE, i64::from)
}

/// Type of a packet, who sent it, and the stream that it is about, if it is about one.
fn described(packet: &RtcpPacket) -> (&'static str, Option<u32>, Option<u32>) {
    match packet {
        RtcpPacket::SenderReport(report) => ("SR", Some(report.ssrc), None),
        RtcpPacket::ReceiverReport(report) => ("RR", Some(report.ssrc), None),
        RtcpPacket::SourceDescription(_) => ("SDES", None, None),
        RtcpPacket::Goodbye(_) => ("BYE", None, None),
        RtcpPacket::Nack(nack) => ("NACK", Some(nack.sender_ssrc), Some(nack.media_ssrc)),
        RtcpPacket::PictureLossIndication(pli) => {
            ("PLI", Some(pli.sender_ssrc), Some(pli.media_ssrc))
        }
        RtcpPacket::FullIntraRequest(fir) => ("FIR", Some(fir.sender_ssrc), None),
        RtcpPacket::Remb(remb) => ("REMB", Some(remb.sender_ssrc), None),
        RtcpPacket::TransportFeedback(feedback) => ("TWCC", Some(feedback.sender_ssrc), None),
        RtcpPacket::CongestionFeedback(feedback) => ("CCFB", Some(feedback.sender_ssrc), None),
        RtcpPacket::ExtendedReport(_) => ("XR", None, None),
        RtcpPacket::Unknown { .. } => ("other", None, None),
    }
}
