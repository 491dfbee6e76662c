//! What a run leaves behind: columns, in the shape of the trace tables.
//!
//! The layout of each table is that of docs/trace.md. Null is -1 in integer columns, NaN in
//! float columns and [`NO_TEXT`] in text columns.

mod packets;
mod rows;
mod table;

use crate::media::Kind;
use crate::media::playout::Rendered;
use crate::network::PathId;
use crate::path::DropCause;
use crate::rtp::Protocol;
use crate::units::{Bytes, Time};
use packets::Packets;
use rows::Tables;
use table::{float, int, text};

pub use rows::Stats;
pub use table::{Cell, Column, Table};

/// Null in a text column.
pub const NO_TEXT: u16 = u16::MAX;
/// Null in an integer column.
pub const NO_INT: i64 = -1;
/// Names of [`Protocol`] in a trace, in the order of its variants.
const PROTOCOLS: [&str; 6] = ["stun", "dtls", "turn", "rtp", "rtcp", "other"];
/// Name of TCP in a trace.
const TCP: &str = "tcp";
/// Width of a bin of the delay histogram.
const DELAY_BIN: Time = Time::from_micros(100);
/// Delays above this share the last bin.
const MAX_DELAY_BINS: usize = 600_000;

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Detail {
    /// Statistics of each second, frames and events.
    Seconds,
    /// Every packet and every decision too.
    Packets,
}

/// What is known of a packet when it is sent.
#[derive(Clone, Copy, Debug)]
pub struct Label {
    /// Which flow it belongs to.
    pub flow: FlowId,
    /// IP total length.
    pub size: Bytes,
    /// What the first bytes say.
    pub protocol: Protocol,
    /// What it carries, if it is RTP.
    pub rtp: Option<RtpLabel>,
}

/// The RTP header of a packet, for the trace.
#[derive(Clone, Copy, Debug)]
pub struct RtpLabel {
    /// Carried media.
    pub kind: Kind,
    /// SSRC.
    pub ssrc: u32,
    /// Payload type.
    pub payload_type: u8,
    /// Sequence number.
    pub seq: u16,
    /// Timestamp.
    pub timestamp: u32,
    /// Marker bit.
    pub marker: bool,
}

/// Index of a flow in the trace: one direction between two participants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowId(pub u16);

/// Handle of a packet between being sent and being delivered or dropped.
#[derive(Clone, Copy, Debug, Default)]
pub struct PacketRecord {
    row: u32,
    flow: u16,
    first: First,
    sent: Time,
}

impl PacketRecord {
    /// When the packet was first sent.
    pub fn sent(&self) -> Time {
        self.sent
    }
}

/// What a packet is the first transmission of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum First {
    #[default]
    None,
    Media,
    Fec,
}

impl First {
    fn of(label: &Label) -> Self {
        match label.rtp.map(|rtp| rtp.kind) {
            Some(Kind::Video | Kind::Audio) => First::Media,
            Some(Kind::Fec) => First::Fec,
            Some(Kind::Rtx | Kind::Padding) | None => First::None,
        }
    }
}

#[derive(Clone, Default)]
struct Second {
    sent: (u64, u64),
    delivered: (u64, u64),
    dropped: u64,
    /// Packets sent and dropped of media and of FEC, first transmissions only.
    media: (u64, u64),
    fec: (u64, u64),
    delay: Option<(Time, Time, u64)>,
}

struct Flow {
    text: u16,
    /// When its first packet was sent.
    begin: Option<Time>,
    /// When the connection ends; what arrives later is received by nobody.
    end: Time,
    seconds: Vec<Second>,
    delays: Vec<u32>,
}

/// Collects everything that is observed.
pub struct Recorder {
    detail: Detail,
    texts: Vec<String>,
    flows: Vec<Flow>,
    path_texts: Vec<u16>,
    cause_texts: Vec<u16>,
    protocol_texts: Vec<u16>,
    tcp_text: u16,
    kind_texts: Vec<u16>,
    packets: Packets,
    tables: Tables,
}

impl Recorder {
    /// An empty record of a run over the given flows, each with the time at which it ends, and paths.
    pub fn new(detail: Detail, flows: &[(String, Time)], paths: &[String]) -> Self {
        let mut recorder = Recorder {
            detail,
            texts: Vec::new(),
            flows: Vec::new(),
            path_texts: Vec::new(),
            cause_texts: Vec::new(),
            protocol_texts: Vec::new(),
            tcp_text: NO_TEXT,
            kind_texts: Vec::new(),
            packets: Packets::default(),
            tables: Tables::new(),
        };
        for (name, end) in flows {
            let text = recorder.text(name);
            let (seconds, delays) = (Vec::new(), Vec::new());
            recorder.flows.push(Flow { text, begin: None, end: *end, seconds, delays });
        }
        recorder.path_texts = paths.iter().map(|name| recorder.text(name)).collect();
        recorder.cause_texts = DropCause::ALL.iter().map(|c| recorder.text(c.name())).collect();
        recorder.protocol_texts = PROTOCOLS.iter().map(|name| recorder.text(name)).collect();
        recorder.tcp_text = recorder.text(TCP);
        recorder.kind_texts = Kind::ALL.iter().map(|k| recorder.text(k.name())).collect();
        recorder
    }

    /// How much is kept.
    pub fn detail(&self) -> Detail {
        self.detail
    }

    /// The code of a text, new or known.
    pub fn text(&mut self, text: &str) -> u16 {
        let known = self.texts.iter().position(|t| t == text);
        known.unwrap_or_else(|| {
            self.texts.push(text.to_owned());
            self.texts.len() - 1
        }) as u16
    }

    /// The code of a kind of media.
    pub fn kind_text(&self, kind: Kind) -> u16 {
        self.kind_texts[kind as usize]
    }

    /// The code of a flow's name.
    pub fn flow_text(&self, flow: FlowId) -> u16 {
        self.flows[usize::from(flow.0)].text
    }

    /// A packet enters the network.
    pub fn sent(&mut self, at: Time, label: &Label) -> PacketRecord {
        let protocol = self.protocol_texts[label.protocol as usize];
        let kind = label.rtp.map_or(NO_TEXT, |rtp| self.kind_texts[rtp.kind as usize]);
        self.sent_as(at, label, protocol, kind)
    }

    /// A segment of TCP enters the network.
    pub fn sent_segment(&mut self, at: Time, flow: FlowId, size: Bytes) -> PacketRecord {
        let label = Label { flow, size, protocol: Protocol::Other, rtp: None };
        self.sent_as(at, &label, self.tcp_text, NO_TEXT)
    }

    fn sent_as(&mut self, at: Time, label: &Label, protocol: u16, kind: u16) -> PacketRecord {
        let flow = &mut self.flows[usize::from(label.flow.0)];
        flow.begin.get_or_insert(at);
        let second = flow.second(at);
        second.sent.0 += 1;
        second.sent.1 += label.size.0;
        let first = First::of(label);
        if let Some(count) = second.first(first) {
            count.0 += 1;
        }
        let mut record = PacketRecord { row: 0, flow: label.flow.0, first, sent: at };
        if self.detail == Detail::Packets {
            record.row = self.packets.sent.len() as u32;
            self.packets.push(at, label, flow.text, protocol, kind);
        }
        record
    }

    /// A packet reached the other end.
    pub fn delivered(&mut self, at: Time, record: PacketRecord, size: Bytes) {
        if self.detail == Detail::Packets {
            self.packets.delivered[record.row as usize] = at.0 as i64;
        }
        let delay = at.saturating_sub(record.sent);
        let flow = &mut self.flows[usize::from(record.flow)];
        if at >= flow.end {
            return;
        }
        let bin = ((delay.0 / DELAY_BIN.0) as usize).min(MAX_DELAY_BINS - 1);
        if flow.delays.len() <= bin {
            flow.delays.resize(bin + 1, 0);
        }
        flow.delays[bin] += 1;
        let second = flow.second(at);
        second.delivered.0 += 1;
        second.delivered.1 += size.0;
        let (min, max, sum) = second.delay.unwrap_or((Time::MAX, Time::ZERO, 0));
        second.delay = Some((min.min(delay), max.max(delay), sum + delay.0));
    }

    /// A packet was dropped on the way.
    pub fn dropped(&mut self, at: Time, record: PacketRecord, path: PathId, cause: DropCause) {
        let second = self.flows[usize::from(record.flow)].second(at);
        second.dropped += 1;
        if let Some(count) = second.first(record.first) {
            count.1 += 1;
        }
        if self.detail == Detail::Packets {
            let row = record.row as usize;
            self.packets.dropped[row] = at.0 as i64;
            self.packets.cause[row] = self.cause_texts[cause as usize];
            self.packets.path[row] = self.path_texts[usize::from(path.0)];
        }
    }

    /// A row of statistics, in the order of the columns of the table.
    pub fn stats(&mut self, which: Stats, row: &[Cell]) {
        match which {
            Stats::Outbound => self.tables.outbound_rtp.push(row),
            Stats::Inbound => self.tables.inbound_rtp.push(row),
            Stats::RemoteInbound => self.tables.remote_inbound_rtp.push(row),
            Stats::CandidatePair => self.tables.candidate_pair.push(row),
            Stats::Tcp => self.tables.tcp.push(row),
        }
    }

    /// A picture was shown.
    pub fn frame(&mut self, flow: FlowId, ssrc: u32, captured: Time, frame: &Rendered) {
        let (width, height) = frame.resolution;
        self.tables.frames.push(&[
            Cell::Text(self.flows[usize::from(flow.0)].text),
            Cell::Int(i64::from(ssrc)),
            Cell::Int(frame.timestamp & 0xffff_ffff),
            Cell::Int(captured.0 as i64),
            Cell::Int(frame.received.0 as i64),
            Cell::Int(frame.rendered.0 as i64),
            Cell::Int(i64::from(width)),
            Cell::Int(i64::from(height)),
            Cell::Int(frame.size.0 as i64),
        ]);
    }

    /// An internal value of a congestion control.
    pub fn controller(&mut self, at: Time, participant: u16, flow: FlowId, name: u16, value: f64) {
        let flow = Cell::Text(self.flow_text(flow));
        let (at, name) = (Cell::Int(at.0 as i64), Cell::Text(name));
        self.tables.controller.push(&[at, Cell::Text(participant), flow, name, Cell::Float(value)]);
    }

    /// Something happened to a participant; `flow` is what it receives over the connection in question.
    pub fn event(&mut self, at: Time, participant: u16, flow: Option<FlowId>, event: &str) {
        let flow = flow.map_or(NO_TEXT, |flow| self.flow_text(flow));
        let (event, detail) = (self.text(event), self.text(""));
        self.tables.events.push(&[
            Cell::Int(at.0 as i64),
            Cell::Text(participant),
            Cell::Text(flow),
            Cell::Text(event),
            Cell::Text(detail),
        ]);
    }

    /// All texts and all tables; seconds from 0 to `end` are all there, empty ones included.
    pub fn finish(mut self, end: Time) -> (Vec<String>, Vec<Table>) {
        let last = Time(end.0.saturating_sub(1));
        for flow in &mut self.flows {
            flow.second(last);
        }
        let mut tables = vec![self.flow_spans(end), self.flow_seconds(), self.delay_histogram()];
        if self.detail == Detail::Packets {
            tables.push(self.packets.into_table());
        }
        let t = self.tables;
        tables.extend([t.outbound_rtp, t.inbound_rtp, t.remote_inbound_rtp, t.candidate_pair]);
        tables.extend([t.frames, t.controller, t.events, t.tcp]);
        (self.texts, tables)
    }

    /// When each flow was there: from its first packet to the end of its connection or of the run.
    fn flow_spans(&self, run_end: Time) -> Table {
        let columns = [("flow", text()), ("begin_ns", int()), ("end_ns", int())];
        let mut table = Table::new("flows", &columns);
        for flow in &self.flows {
            let begin = flow.begin.map_or(NO_INT, |at| at.0 as i64);
            let end = flow.end.min(run_end).0 as i64;
            table.push(&[Cell::Text(flow.text), Cell::Int(begin), Cell::Int(end)]);
        }
        table
    }

    fn flow_seconds(&self) -> Table {
        let mut table = Table::new(
            "flow_seconds",
            &[
                ("at_ns", int()),
                ("flow", text()),
                ("sent_packets", int()),
                ("sent_bytes", int()),
                ("delivered_packets", int()),
                ("delivered_bytes", int()),
                ("dropped_packets", int()),
                ("media_sent_packets", int()),
                ("media_dropped_packets", int()),
                ("fec_sent_packets", int()),
                ("fec_dropped_packets", int()),
                ("one_way_delay_min_ms", float()),
                ("one_way_delay_mean_ms", float()),
                ("one_way_delay_max_ms", float()),
            ],
        );
        for flow in &self.flows {
            for (i, second) in flow.seconds.iter().enumerate() {
                let ms = |ns: f64| Cell::Float(ns / 1e6);
                let (min, mean, max) = match second.delay {
                    Some((min, max, sum)) => {
                        let mean = sum as f64 / second.delivered.0 as f64;
                        (ms(min.0 as f64), ms(mean), ms(max.0 as f64))
                    }
                    None => (ms(f64::NAN), ms(f64::NAN), ms(f64::NAN)),
                };
                table.push(&[
                    Cell::Int(i as i64 * 1_000_000_000),
                    Cell::Text(flow.text),
                    Cell::Int(second.sent.0 as i64),
                    Cell::Int(second.sent.1 as i64),
                    Cell::Int(second.delivered.0 as i64),
                    Cell::Int(second.delivered.1 as i64),
                    Cell::Int(second.dropped as i64),
                    Cell::Int(second.media.0 as i64),
                    Cell::Int(second.media.1 as i64),
                    Cell::Int(second.fec.0 as i64),
                    Cell::Int(second.fec.1 as i64),
                    min,
                    mean,
                    max,
                ]);
            }
        }
        table
    }

    fn delay_histogram(&self) -> Table {
        let columns = [("flow", text()), ("one_way_delay_ms", float()), ("packets", int())];
        let mut table = Table::new("delay_histogram", &columns);
        for flow in &self.flows {
            for (bin, &packets) in flow.delays.iter().enumerate().filter(|(_, n)| **n > 0) {
                let lower = bin as f64 / 10.0;
                table.push(&[Cell::Text(flow.text), Cell::Float(lower), Cell::Int(packets.into())]);
            }
        }
        table
    }
}

impl Second {
    /// Packets sent and dropped among the first transmissions of this kind.
    fn first(&mut self, first: First) -> Option<&mut (u64, u64)> {
        match first {
            First::None => None,
            First::Media => Some(&mut self.media),
            First::Fec => Some(&mut self.fec),
        }
    }
}

impl Flow {
    fn second(&mut self, at: Time) -> &mut Second {
        let index = (at.0 / 1_000_000_000) as usize;
        if self.seconds.len() <= index {
            self.seconds.resize(index + 1, Second::default());
        }
        &mut self.seconds[index]
    }
}
