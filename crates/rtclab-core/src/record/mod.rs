//! Records a run as tables in the shape of docs/trace.md.
//!
//! A [`Recorder`] only listens. The driver of endpoints and network passes it their events. It has a method for each
//! kind of observation, which fills columns, because a simulation makes hundreds of thousands of rows a second. Packets
//! are no events, because the driver sees every datagram anyway.

mod flow;
mod packets;

use crate::cc::Observation;
use crate::ecn::Ecn;
use crate::endpoint::{
    AUDIO_CLOCK, CandidatePair, EndpointEvent, InboundRtp, OutboundRtp, RemoteInboundRtp,
    Statistics,
};
use crate::media::encoder::Limitation;
use crate::media::load::BusyTime;
use crate::media::playout::Rendered;
use crate::network::{PathId, Wait, Waits, WaitsId};
use crate::packet::{Content, Kind, Transmit};
use crate::path::{DropCause, Mark, MarkCause};
use crate::table::{Rows, Text, Texts, row};
use crate::tcp;
use crate::units::{Bytes, Time};
use flow::{First, FlowCounts};
use packets::{Packets, RtpLabel};
use std::borrow::Cow;
use std::collections::HashMap;

pub use crate::table::{Column, NO_INT, NO_TEXT, Table};

/// Names of protocols in a trace: the variants of [`crate::rtp::Protocol`] in order, then the names of cross traffic.
const PROTOCOLS: [&str; 8] = ["stun", "dtls", "turn", "rtp", "rtcp", "other", "tcp", "udp"];
/// Index of TCP in [`PROTOCOLS`].
const TCP: usize = 6;
/// Index of UDP in [`PROTOCOLS`].
const UDP: usize = 7;

/// How much is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Detail {
    /// Statistics of each second, frames and events.
    Seconds,
    /// Also every packet and every decision of congestion control.
    Packets,
}

/// Index of a flow: one direction between two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowId(pub u32);

/// A flow to be recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowConfig {
    /// Name of the flow.
    pub name: String,
    /// When the flow's connection ends.
    pub end: Time,
    /// Whether the flow's connection forwards media. Then only first transmissions of media and FEC have
    /// delays, because all other packets begin at the forwarder, and not at the flow's sender.
    pub forwarded: bool,
}

/// The source of recorded events.
#[derive(Clone, Copy, Debug)]
pub struct RecordSource {
    /// Name of the participant or server.
    pub participant: Text,
    /// Whether it takes part in the call, so that its joining and leaving are recorded, or only forwards.
    pub is_participant: bool,
    /// The flow that it sends.
    pub sends: FlowId,
    /// The flow that it receives.
    pub receives: FlowId,
    /// Difference between the RTP timestamps that it receives and the capture times.
    pub timestamp_offset: u32,
}

impl RecordSource {
    /// When a frame that it receives was captured, rounded down to a tick of 90 kHz. After 13 hours of media the
    /// timestamp wraps, and the capture time begins at 0 again.
    pub fn captured(&self, frame: &Rendered) -> Time {
        let ticks = (frame.timestamp - i64::from(self.timestamp_offset)).rem_euclid(1 << 32);
        Time(ticks as u64 * 100_000 / 9)
    }

    /// The row, with a sound delay from when the microphone took the sound. The RTP timestamp of a packet is that of the
    /// end of its sound, and wraps after a day.
    fn with_sound_delay(&self, row: InboundRtp) -> InboundRtp {
        let (Some(sum_s), Some(samples)) = (row.total_sound_delay, row.jitter_buffer_emitted_count)
        else {
            return row;
        };
        let (rate, wrap) = (AUDIO_CLOCK as f64, (1_u64 << 32) as f64 / AUDIO_CLOCK as f64);
        let mean_s = sum_s / samples as f64 + f64::from(self.timestamp_offset) / rate;
        let total_sound_delay = (samples > 0).then(|| mean_s.rem_euclid(wrap) * samples as f64);
        InboundRtp { total_sound_delay, ..row }
    }
}

/// Handle of a packet between being sent and being delivered or dropped.
#[derive(Clone, Copy, Debug)]
pub struct PacketHandle {
    row: u32,
    flow: FlowId,
    first: First,
    ecn: Ecn,
    sent: Time,
}

/// What happened to a packet that was delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// How long it waited in queues.
    pub queued: Time,
    /// In which queues.
    pub waits: WaitsId,
    /// How long servers held it.
    pub held: Time,
    /// The first mark that a queue gave it, if it arrived with a mark.
    pub mark: Option<Mark>,
}

row! {
    /// Key of a row: time, participant and flow.
    struct ParticipantKey / ParticipantKeyColumns {
        at: Time = "at_ns",
        participant: Text = "participant",
        flow: Option<Text> = "flow",
    }
}

row! {
    /// A queue in which a packet waited, and not longest.
    struct HopRow / HopColumns {
        flow: Text = "flow",
        packet: u32 = "packet",
        path: Text = "path",
        queued: Time = "queued_ns",
    }
}

row! {
    /// A frame that was shown.
    struct FrameRow / FrameColumns {
        flow: Text = "flow",
        ssrc: u32 = "ssrc",
        rtp_timestamp: u32 = "rtp_timestamp",
        captured: Option<Time> = "captured_ns",
        received: Time = "received_ns",
        rendered: Time = "rendered_ns",
        encode_begin: Option<Time> = "encode_begin_ns",
        encoded: Option<Time> = "encoded_ns",
        decode: Time = "decode_ns",
        width: u16 = "width",
        height: u16 = "height",
        size: u64 = "size_bytes",
    }
}

row! {
    /// An internal value of a congestion control.
    struct ControlValue / ControlValueColumns {
        name: Text = "name",
        value: f64 = "value",
    }
}

row! {
    /// An event in a call.
    struct EventRow / EventColumns {
        event: Text = "event",
        detail: Text = "detail",
    }
}

row! {
    /// Key of a row: time and flow.
    struct TcpKey / TcpKeyColumns {
        at: Time = "at_ns",
        flow: Text = "flow",
    }
}

row! {
    /// Figures of all TCP connections of a flow.
    struct TcpRow / TcpColumns {
        connections: u64 = "connections",
        cwnd_segments: Option<u64> = "cwnd_segments",
        srtt_ms: Option<f64> = "srtt_ms",
        delivered_bytes: u64 = "delivered_bytes",
        retransmitted_segments: u64 = "retransmitted_segments",
        timeouts: u64 = "timeouts",
        objects: u64 = "objects",
    }
}

row! {
    /// The load of a processor in one second.
    struct HostRow / HostColumns {
        at: Time = "at_ns",
        participant: Text = "participant",
        cpu_percent: f64 = "cpu_percent",
    }
}

row! {
    /// The second part of a row that has only one.
    struct Nothing / NoColumns {}
}

/// Collects everything that is observed.
#[derive(Clone)]
pub struct Recorder {
    detail: Detail,
    texts: Texts,
    flows: Vec<FlowCounts>,
    path_texts: Vec<Text>,
    cause_texts: Vec<Text>,
    mark_texts: Vec<Text>,
    ecn_texts: Vec<Text>,
    protocol_texts: Vec<Text>,
    packets: Packets,
    hops: Rows<HopRow, Nothing>,
    outbound_rtp: Rows<ParticipantKey, OutboundRtp>,
    inbound_rtp: Rows<ParticipantKey, InboundRtp>,
    remote_inbound_rtp: Rows<ParticipantKey, RemoteInboundRtp>,
    candidate_pair: Rows<ParticipantKey, CandidatePair>,
    frames: Rows<FrameRow, Nothing>,
    /// By SSRC and RTP timestamp of a picture, when its encoding began and ended.
    encoded: HashMap<(u32, u32), (Time, Time)>,
    controller: Rows<ParticipantKey, ControlValue>,
    /// Names of the values that sender and receiver halves reported last, in their order, with their codes. They
    /// seldom change, and looking up a text takes longer than comparing two.
    value_names: [Vec<(Cow<'static, str>, Text)>; 2],
    events: Rows<ParticipantKey, EventRow>,
    tcp: Rows<TcpKey, TcpRow>,
    host: Rows<HostRow, Nothing>,
    /// End of the current second, and the TCP figures reported for it so far, summed per flow.
    tcp_second: (Time, Vec<(FlowId, tcp::TcpStatistics)>),
}

impl Recorder {
    /// Begins the record of a run with these flows and paths.
    pub fn new(detail: Detail, flows: &[FlowConfig], paths: &[String]) -> Self {
        let mut texts = Texts::default();
        // Kinds and limitations come first so that their codes follow from their discriminants.
        for kind in Kind::ALL {
            texts.code(kind.name());
        }
        for limitation in Limitation::ALL {
            texts.code(limitation.name());
        }
        Recorder {
            detail,
            flows: flows.iter().map(|f| FlowCounts::new(texts.code(&f.name), f)).collect(),
            path_texts: paths.iter().map(|name| texts.code(name)).collect(),
            cause_texts: DropCause::ALL.iter().map(|cause| texts.code(cause.name())).collect(),
            mark_texts: MarkCause::ALL.iter().map(|cause| texts.code(cause.name())).collect(),
            ecn_texts: Ecn::ALL.iter().map(|ecn| texts.code(ecn.name())).collect(),
            protocol_texts: PROTOCOLS.iter().map(|name| texts.code(name)).collect(),
            texts,
            packets: Packets::default(),
            hops: Rows::new("hops"),
            outbound_rtp: Rows::new("outbound_rtp"),
            inbound_rtp: Rows::new("inbound_rtp"),
            remote_inbound_rtp: Rows::new("remote_inbound_rtp"),
            candidate_pair: Rows::new("candidate_pair"),
            frames: Rows::new("frames"),
            encoded: HashMap::new(),
            controller: Rows::new("controller"),
            value_names: [Vec::new(), Vec::new()],
            events: Rows::new("events"),
            tcp: Rows::new("tcp"),
            host: Rows::new("host"),
            tcp_second: (Time::ZERO, Vec::new()),
        }
    }

    /// The code of a text. A new text is added to the list.
    pub fn text(&mut self, text: &str) -> Text {
        self.texts.code(text)
    }

    /// The name of a flow.
    pub fn flow_name(&self, flow: FlowId) -> &str {
        &self.texts.list[self.flow_text(flow).0 as usize]
    }

    /// Records that a packet enters the network. Returns `None` if the packet belongs to no flow.
    pub fn sent(&mut self, flow: FlowId, transmit: &Transmit) -> Option<PacketHandle> {
        let content = &transmit.datagram.content;
        let protocol = match content {
            Content::Tcp(_) => TCP,
            Content::Udp(_) => UDP,
            _ => content.protocol()? as usize,
        };
        let rtp = match content {
            Content::Rtp(packet) => Some(RtpLabel {
                kind: packet.kind,
                ssrc: packet.header.ssrc,
                payload_type: packet.header.payload_type,
                seq: packet.header.seq,
                timestamp: packet.header.timestamp,
                marker: packet.header.marker,
            }),
            _ => None,
        };
        let (sent, size) = (transmit.past.first_sent, transmit.wire_size());
        let first = First::of(rtp.map(|rtp| rtp.kind));
        let of = &mut self.flows[flow.0 as usize];
        let ecn = transmit.datagram.ecn;
        of.sent(sent, size, first, ecn);
        let row = match self.detail {
            Detail::Packets => {
                let texts = (self.protocol_texts[protocol], self.ecn_texts[ecn as usize]);
                self.packets.push(sent, of.text, size, texts, rtp)
            }
            Detail::Seconds => 0,
        };
        Some(PacketHandle { row, flow, first, ecn, sent })
    }

    /// Records that a packet reached the other end. `waits` are those of its network.
    pub fn delivered(
        &mut self,
        at: Time,
        record: PacketHandle,
        size: Bytes,
        fate: Fate,
        waits: &Waits,
    ) {
        self.flows[record.flow.0 as usize].delivered(at, &record, size, fate);
        if self.detail == Detail::Packets {
            self.packets.delivered(record.row, at, &fate);
            self.waited(&record, waits.of(fate.waits));
            if let Some(Mark { path, cause }) = fate.mark {
                let (cause, path) =
                    (self.mark_texts[cause as usize], self.path_texts[path as usize]);
                self.packets.marked(record.row, cause, path);
            }
        }
    }

    /// Records the path on which a packet waited longest, and all its other waits.
    fn waited(&mut self, record: &PacketHandle, waits: impl Iterator<Item = Wait>) {
        let (packet, flow) = (record.row, self.flow_text(record.flow));
        let mut longest: Option<Wait> = None;
        for wait in waits {
            let shorter = match longest {
                Some(other) if other.queued >= wait.queued => Some(wait),
                _ => longest.replace(wait),
            };
            if let Some(Wait { path, queued }) = shorter {
                let path = self.path_texts[path.0 as usize];
                self.hops.push(HopRow { flow, packet, path, queued }, Nothing {});
            }
        }
        if let Some(Wait { path, .. }) = longest {
            self.packets.waited_longest(packet, self.path_texts[path.0 as usize]);
        }
    }

    /// Records that a packet was dropped on the way.
    pub fn dropped(&mut self, at: Time, record: PacketHandle, path: PathId, cause: DropCause) {
        self.flows[record.flow.0 as usize].dropped(at, record.first, cause);
        if self.detail == Detail::Packets {
            let (cause, path) =
                (self.cause_texts[cause as usize], self.path_texts[path.0 as usize]);
            self.packets.dropped(record.row, at, cause, path);
        }
    }

    /// Records an event of an endpoint. Requests to the driver are not recorded, and frames that were shown with
    /// [`Recorder::frame`].
    // Not inlined: in a loop over packets, the addresses of all columns would be computed for each packet.
    #[inline(never)]
    pub fn event(&mut self, at: Time, source: &RecordSource, event: EndpointEvent) {
        match event {
            EndpointEvent::Joined => self.participant_event(at, source, "joined"),
            EndpointEvent::Left => self.participant_event(at, source, "left"),
            EndpointEvent::Signalled => self.connection_event(at, source, "signalling_done"),
            EndpointEvent::IceConnected => self.connection_event(at, source, "ice_connected"),
            EndpointEvent::DtlsConnected => self.connection_event(at, source, "dtls_connected"),
            EndpointEvent::FirstFrame => self.connection_event(at, source, "first_frame"),
            EndpointEvent::Statistics(statistics) => self.statistics(at, source, *statistics),
            EndpointEvent::Observed { sender, values } => self.observed(at, source, sender, values),
            EndpointEvent::Encoded { ssrc, timestamp, begin } => {
                self.encoded.insert((ssrc, timestamp), (begin, at));
            }
            EndpointEvent::EncodeRequested { .. }
            | EndpointEvent::FrameRendered { .. }
            | EndpointEvent::Composed { .. }
            | EndpointEvent::Published
            | EndpointEvent::KeyFrameRequested
            | EndpointEvent::PacketsRequested { .. }
            | EndpointEvent::Signal(_)
            | EndpointEvent::DecisionRequested(_)
            | EndpointEvent::Failed(_) => {}
        }
    }

    /// Records the figures that an end of a TCP connection of `flow` reports.
    // Not inlined, for the same reason as `Recorder::event`.
    #[inline(never)]
    pub fn tcp(&mut self, at: Time, flow: FlowId, figures: tcp::TcpStatistics) {
        if self.tcp_second.0 < at {
            self.finish_tcp_second();
            self.tcp_second.0 = at;
        }
        let of_flow = self.tcp_second.1.iter_mut().find(|(known, _)| *known == flow);
        match of_flow {
            Some((_, sum)) => *sum = sum.plus(&figures),
            None => self.tcp_second.1.push((flow, figures)),
        }
    }

    /// Records how busy the processor of a participant or server is in a run that ends at `end`.
    pub fn load(&mut self, participant: Text, busy: &BusyTime, end: Time) {
        for (second, cpu_percent) in (1..).zip(busy.percent_of_seconds(end)) {
            let row = HostRow { at: Time::from_secs(second), participant, cpu_percent };
            self.host.push(row, Nothing {});
        }
    }

    /// All texts and all tables. Every second from 0 to `end` has a row, even if it is empty.
    pub fn finish(mut self, end: Time) -> (Vec<String>, Vec<Table>) {
        self.finish_tcp_second();
        let mut tables = Vec::from(flow::tables(&mut self.flows, end));
        if self.detail == Detail::Packets {
            tables.extend([self.packets.finish(), self.hops.finish()]);
        }
        tables.extend([
            self.outbound_rtp.finish(),
            self.inbound_rtp.finish(),
            self.remote_inbound_rtp.finish(),
            self.candidate_pair.finish(),
            self.frames.finish(),
            self.controller.finish(),
            self.events.finish(),
            self.tcp.finish(),
            self.host.finish(),
        ]);
        (self.texts.list, tables)
    }

    fn flow_text(&self, flow: FlowId) -> Text {
        self.flows[flow.0 as usize].text
    }

    fn participant_event(&mut self, at: Time, source: &RecordSource, event: &str) {
        if source.is_participant {
            self.happened(at, source.participant, None, event);
        }
    }

    /// Records an event of a connection, with the flow that the source receives.
    fn connection_event(&mut self, at: Time, source: &RecordSource, event: &str) {
        let flow = self.flow_text(source.receives);
        self.happened(at, source.participant, Some(flow), event);
    }

    fn happened(&mut self, at: Time, participant: Text, flow: Option<Text>, event: &str) {
        let happened = EventRow { event: self.texts.code(event), detail: self.texts.code("") };
        self.events.push(ParticipantKey { at, participant, flow }, happened);
    }

    /// Records a frame that was shown, and when the camera took it, if that is known.
    pub fn frame(
        &mut self,
        source: &RecordSource,
        ssrc: u32,
        frame: &Rendered,
        captured: Option<Time>,
    ) {
        let (width, height) = frame.resolution;
        let encoded = self.encoded.get(&(ssrc, frame.timestamp as u32));
        let row = FrameRow {
            flow: self.flow_text(source.receives),
            ssrc,
            rtp_timestamp: frame.timestamp as u32,
            captured,
            received: frame.received,
            rendered: frame.rendered,
            encode_begin: encoded.map(|(begin, _)| *begin),
            encoded: encoded.map(|(_, end)| *end),
            decode: frame.decode,
            width,
            height,
            size: frame.size.0,
        };
        self.frames.push(row, Nothing {});
    }

    fn statistics(&mut self, at: Time, source: &RecordSource, statistics: Statistics) {
        let Statistics { outbound, inbound, remote_inbound, candidate_pair } = statistics;
        let key =
            |flow: Text| ParticipantKey { at, participant: source.participant, flow: Some(flow) };
        let (sends, receives) = (self.flow_text(source.sends), self.flow_text(source.receives));
        for row in outbound {
            self.outbound_rtp.push(key(sends), row);
        }
        for row in inbound {
            let row = source.with_sound_delay(row);
            self.inbound_rtp.push(key(receives), row);
        }
        for row in remote_inbound {
            self.remote_inbound_rtp.push(key(sends), row);
        }
        self.candidate_pair.push(key(sends), candidate_pair);
    }

    fn observed(
        &mut self,
        at: Time,
        source: &RecordSource,
        sender: bool,
        values: Vec<Observation>,
    ) {
        let flow = self.flow_text(if sender { source.sends } else { source.receives });
        let key = ParticipantKey { at, participant: source.participant, flow: Some(flow) };
        let known = &mut self.value_names[usize::from(sender)];
        let texts = &mut self.texts;
        let rows = values.into_iter().enumerate().map(|(index, Observation { name, value })| {
            let name = match known.get(index) {
                Some((same, code)) if *same == name => *code,
                _ => {
                    let code = texts.code(&name);
                    known.truncate(index);
                    known.push((name, code));
                    code
                }
            };
            ControlValue { name, value }
        });
        self.controller.extend(key, rows);
    }

    fn finish_tcp_second(&mut self) {
        let at = self.tcp_second.0;
        for (flow, figures) in std::mem::take(&mut self.tcp_second.1) {
            let tcp::TcpStatistics { connections, window, smoothed_rtts: (sum, count), .. } =
                figures;
            let row = TcpRow {
                connections,
                cwnd_segments: (connections > 0).then_some(window),
                srtt_ms: (count > 0).then(|| sum.as_secs_f64() * 1e3 / count as f64),
                delivered_bytes: figures.delivered,
                retransmitted_segments: figures.retransmitted,
                timeouts: figures.timeouts,
                objects: figures.objects,
            };
            self.tcp.push(TcpKey { at, flow: self.flow_text(flow) }, row);
        }
    }
}

#[cfg(test)]
mod tests;
