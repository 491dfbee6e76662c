//! The monitor: passes each frame to the parts that count it.

use super::capture::{CaptureError, CaptureReader, FRAMES_PER_PROGRESS, Frame};
use super::config::MonitorConfig;
use super::decapsulation::ip::{FragmentOf, Transport, TransportDatagram};
use super::decapsulation::{self, Found, Opened, Point, Tunnel, Tunnels, Unread};
use super::demux::{UnframedPayload, demultiplex};
use super::flow::{Flow, Flows};
use super::fragments::{Counted, Fragments};
use super::framing::Segment;
use super::probation::Probation;
use super::repair::{Likeness, Payload, protected_streams};
use super::rows::PacketRows;
use super::rtcp_log;
use super::rtcp_log::RtcpLog;
use super::stream::extensions::Values;
use super::stream::rate::Second;
use super::stream::sequence::Order;
use super::stream::sketch;
use super::stream::{RtpSeen, Stream, StreamUpdate};
use super::stun_log::StunLog;
use super::trials::Trials;
use crate::ecn::Ecn;
use crate::rtp::extension::Elements;
use crate::rtp::header::{FIXED_BYTES, parse_raw};
use crate::rtp::{Protocol, RtpHeader};
use std::collections::HashMap;
use std::io::Read;

/// Counts for the table `notes`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FrameCounts {
    pub(super) frames: u64,
    /// Datagrams and segments by the kind of tunnel they are in.
    pub(super) inside: [u64; Tunnel::ALL.len()],
    /// Datagrams to the port of a tunnel that are cut off before it shows what is inside.
    pub(super) cut_inside: u64,
    pub(super) cut_payloads: u64,
    pub(super) later_fragments: u64,
    pub(super) streams_over_limit: u64,
    pub(super) stray_packets: u64,
}

impl FrameCounts {
    /// Counts what was stripped from a datagram, and what the capture cut.
    #[inline]
    fn add(&mut self, opened: &Opened<'_>, datagram: &TransportDatagram<'_>) {
        let has_all = datagram.payload.len() >= datagram.payload_bytes as usize || opened.fragment;
        self.cut_payloads += u64::from(!has_all);
        self.cut_inside += u64::from(opened.cut_inside);
        if !opened.point.tunnels.is_empty() {
            self.add_inside(opened.point.tunnels);
        }
    }

    fn add_inside(&mut self, tunnels: Tunnels) {
        for (tunnel, count) in Tunnel::ALL.into_iter().zip(&mut self.inside) {
            *count += u64::from(tunnels.has(tunnel));
        }
    }
}

/// A completed second of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct SecondRow {
    pub(super) stream: u32,
    pub(super) second: Second,
    pub(super) lost: u64,
    pub(super) jitter_ms: Option<f64>,
}

/// Size of the cache of recent streams: a power of two.
const RECENT_STREAMS: usize = 64;

/// A monitor of one or more interfaces.
pub struct Monitor {
    pub(super) config: MonitorConfig,
    pub(super) begin_ns: Option<i64>,
    pub(super) counts: FrameCounts,
    /// Frames by what was not read.
    pub(super) unread: HashMap<Unread, u64>,
    fragments: Fragments,
    pub(super) flows: Flows,
    pub(super) probation: Probation,
    /// Flows that may carry on a stream of another flow.
    pub(super) trials: Trials,
    /// Numbers of the streams with an SSRC.
    pub(super) by_ssrc: HashMap<u32, Vec<u32>>,
    /// Number of packets in the sketch of a stream.
    sketch: usize,
    /// Clock rates by payload type, where an SDP or RFC 3551 gives one.
    clock_rates: [Option<u32>; 128],
    pub(super) stream_index: HashMap<(u32, u32), u32>,
    /// Cache of recent streams, which is faster than the index.
    pub(super) recent_streams: [Option<((u32, u32), u32)>; RECENT_STREAMS],
    pub(super) streams: Vec<Stream>,
    pub(super) stun: StunLog,
    pub(super) rtcp: RtcpLog,
    pub(super) seconds: Vec<SecondRow>,
    pub(super) rows: PacketRows,
}

/// Time, flow, interface and ECN codepoint of a datagram.
#[derive(Clone, Copy)]
struct Place {
    at_ns: i64,
    flow: u32,
    interface: u32,
    ecn: Ecn,
}

impl Monitor {
    /// Creates a monitor that has seen no frames.
    pub fn new(config: MonitorConfig) -> Self {
        let clock_rates =
            std::array::from_fn(|number| Some(config.sdp.codec(number as u8)?.clock_rate));
        Monitor {
            sketch: sketch::SMALL,
            clock_rates,
            config,
            begin_ns: None,
            counts: FrameCounts::default(),
            unread: HashMap::new(),
            fragments: Fragments::default(),
            flows: Flows::default(),
            probation: Probation::default(),
            trials: Trials::default(),
            by_ssrc: HashMap::new(),
            stream_index: HashMap::new(),
            recent_streams: [None; RECENT_STREAMS],
            streams: Vec::new(),
            stun: StunLog::default(),
            rtcp: RtcpLog::default(),
            seconds: Vec::new(),
            rows: PacketRows::default(),
        }
    }

    /// Creates a monitor with large sketches, so that its streams can be found in another capture.
    pub(crate) fn for_comparison(config: MonitorConfig) -> Self {
        Monitor { sketch: sketch::LARGE, ..Self::new(config) }
    }

    /// Watches a whole capture. `progress` is called regularly with the number of bytes read; if it
    /// returns false, reading stops.
    ///
    /// # Errors
    ///
    /// [`CaptureError::Io`] if reading fails.
    pub fn watch<R: Read>(
        &mut self,
        reader: &mut CaptureReader<R>,
        mut progress: impl FnMut(u64) -> bool,
    ) -> Result<(), CaptureError> {
        while let Some(frame) = reader.next_frame()? {
            self.handle_frame(&frame);
            if self.counts.frames % FRAMES_PER_PROGRESS == 0 && !progress(reader.bytes_read()) {
                break;
            }
        }
        Ok(())
    }

    /// Takes the next frame. Frames of one interface must be ordered by time.
    #[inline]
    pub fn handle_frame(&mut self, frame: &Frame<'_>) {
        self.counts.frames += 1;
        self.begin_ns.get_or_insert(frame.at_ns);
        let opened = decapsulation::open(frame);
        let point = opened.point;
        let mut datagram = match opened.found {
            Found::Datagram(datagram) => datagram,
            Found::LaterFragment(of, bytes) => {
                return self.later_fragment(frame.interface, of, bytes);
            }
            Found::Unread(unread) => return *self.unread.entry(unread).or_default() += 1,
        };
        self.counts.add(&opened, &datagram);
        if let Some(of) = datagram.fragment {
            let earlier_bytes = self.fragments.earlier_bytes(frame.interface, of);
            datagram.ip_bytes = datagram.ip_bytes.saturating_add(earlier_bytes);
        }
        let row = self.rows.next();
        let found = self.flows.receive(frame.at_ns, point, &datagram, &self.config.sdp);
        let Some(flow) = found else { return self.unlisted(frame.at_ns, point, &datagram) };
        self.flows.list[flow as usize].fragments += u64::from(datagram.fragment.is_some());
        let TransportDatagram { ecn, .. } = datagram;
        let place = Place { at_ns: frame.at_ns, flow, interface: frame.interface, ecn };
        match datagram.transport {
            Transport::Udp => {
                let content = demultiplex(datagram.payload, datagram.payload_bytes);
                self.content(place, &datagram, datagram.ip_bytes, &content);
            }
            Transport::Tcp => self.segment(place, &datagram),
        }
        if let Some(of) = datagram.fragment {
            let ssrc = rtp_ssrc(&datagram);
            self.fragments.first(frame.interface, of, Counted { flow, ssrc, row });
        }
    }

    /// Adds the bytes of a later fragment to the packet that began in the first fragment.
    fn later_fragment(&mut self, interface: u32, of: FragmentOf, bytes: u32) {
        self.counts.later_fragments += 1;
        let Some(counted) = self.fragments.later(interface, of, bytes) else { return };
        self.flows.list[counted.flow as usize].bytes += u64::from(bytes);
        self.rows.add_bytes(counted.row, bytes);
        let stream = counted.ssrc.and_then(|ssrc| self.known_stream((counted.flow, ssrc)));
        if let Some(stream) = stream {
            self.streams[stream as usize].add_bytes(bytes);
        }
    }

    /// Counts the frames in a segment. The IP and TCP headers count for the first one.
    fn segment(&mut self, place: Place, datagram: &TransportDatagram<'_>) {
        let flow = place.flow as usize;
        let (seq, begins) = datagram.tcp;
        let wire_bytes = datagram.payload_bytes;
        let segment = Segment { seq, begins, bytes: datagram.payload, wire_bytes };
        let mut ip_bytes = datagram.ip_bytes - wire_bytes.min(datagram.ip_bytes);
        let mut framing = std::mem::take(&mut self.flows.list[flow].framing);
        let framed = framing.receive(segment, &mut |content| {
            self.content(place, datagram, ip_bytes + content.wire_bytes, &content);
            ip_bytes = 0;
        });
        self.flows.list[flow].framing = framing;
        self.flows.list[flow].framed += u64::from(framed);
        if !framed && self.config.packets {
            let at = (place.at_ns, place.flow, place.ecn);
            self.rows.push(at, (datagram.ip_bytes, None), Protocol::Other, false);
        }
    }

    #[inline]
    fn content(
        &mut self,
        place: Place,
        datagram: &TransportDatagram<'_>,
        ip_bytes: u32,
        content: &UnframedPayload<'_>,
    ) {
        if content.protocol == Protocol::Rtp {
            return self.rtp(place, ip_bytes, content);
        }
        let mut protocol = content.protocol;
        match protocol {
            Protocol::Rtcp => {
                let Place { flow, interface, at_ns, .. } = place;
                let seen = rtcp_log::Seen { flow, interface, at_ns };
                if !self.rtcp.receive(seen, content.bytes, content.wire_bytes) {
                    protocol = Protocol::Other;
                }
            }
            Protocol::Stun => {
                let ends = (datagram.source, datagram.destination);
                if let Some((flow, rtt_ns)) =
                    self.stun.receive((place.flow, place.at_ns), ends, content.bytes)
                {
                    self.flows.list[flow as usize].stun_rtt.add(rtt_ns);
                }
            }
            _ => {}
        }
        let relayed = content.relay.is_some();
        self.flows.list[place.flow as usize].count(protocol, relayed);
        if self.config.packets {
            let sizes = (ip_bytes, Some(content.wire_bytes));
            let at = (place.at_ns, place.flow, place.ecn);
            self.rows.push(at, sizes, protocol, relayed);
        }
    }

    #[inline]
    fn rtp(&mut self, place: Place, ip_bytes: u32, content: &UnframedPayload<'_>) {
        let relayed = content.relay.is_some();
        let mut row = 0;
        if self.config.packets {
            let sizes = (ip_bytes, Some(content.wire_bytes));
            let at = (place.at_ns, place.flow, place.ecn);
            row = self.rows.push(at, sizes, Protocol::Other, relayed);
        }
        let Some(mut packet) = self.rtp_header(place, ip_bytes, content) else { return };
        packet.row = row;
        if let Some(stream) = self.known_stream((place.flow, packet.ssrc)) {
            return self.receive(stream, &packet);
        }
        match self.trials.receive(&packet) {
            (true, Some(packets)) => self.judge(&packets),
            (true, None) => {}
            (false, _) => {
                if let Some(packets) = self.probation.receive(place.flow, &packet) {
                    self.begin(packets);
                }
            }
        }
    }

    /// Looks for an RTP stream in a flow above the limit.
    fn unlisted(&mut self, at_ns: i64, point: Point, datagram: &TransportDatagram<'_>) {
        if datagram.transport != Transport::Udp {
            return;
        }
        let content = demultiplex(datagram.payload, datagram.payload_bytes);
        if content.protocol != Protocol::Rtp {
            return;
        }
        let Some((header, _, header_bytes)) = parse_rtp(&content) else { return };
        let sizes = (datagram.ip_bytes, datagram.ecn);
        let packet = self.seen((at_ns, 0), sizes, &content, (header, header_bytes));
        let unlisted = self.flows.unlisted(point, datagram);
        let Some(mut packets) = self.probation.receive(unlisted, &packet) else { return };
        let listed = self.flows.list_late(point, datagram, &packets, &self.config.sdp);
        let Some(flow) = listed else { return };
        for packet in &mut packets {
            packet.flow = flow;
            if self.config.packets {
                let (place, sizes) = ((packet.at_ns, flow, packet.ecn), (packet.ip_bytes, None));
                packet.row = self.rows.push(place, sizes, Protocol::Other, packet.relay.is_some());
            }
        }
        self.begin(packets);
    }

    #[inline]
    fn rtp_header(
        &mut self,
        place: Place,
        ip_bytes: u32,
        content: &UnframedPayload<'_>,
    ) -> Option<RtpSeen> {
        let (header, elements, header_bytes) = parse_rtp(content)?;
        let mut packet = self.seen(
            (place.at_ns, place.flow),
            (ip_bytes, place.ecn),
            content,
            (header, header_bytes),
        );
        let flow = &mut self.flows.list[place.flow as usize];
        packet.extensions = flow.extensions.read(place.at_ns, elements);
        packet.likeness = self.likeness(&packet, content, (header, header_bytes));
        Some(packet)
    }

    /// Compares a packet with the other streams of its flow.
    #[inline]
    fn likeness(
        &mut self,
        packet: &RtpSeen,
        content: &UnframedPayload<'_>,
        (header, header_bytes): (RtpHeader, usize),
    ) -> Likeness {
        let bytes = content.bytes.get(header_bytes..).unwrap_or_default();
        let RtpSeen { flow, ssrc, seq, timestamp, payload_bytes, .. } = *packet;
        // No IP packet is longer.
        let wire_bytes = u16::try_from(payload_bytes).unwrap_or(u16::MAX);
        let payload = Payload { ssrc, seq, timestamp, bytes, wire_bytes };
        let recent = &mut self.flows.list[flow as usize].recent;
        let (shares_timestamp, repeats, names_base) = recent.compare(payload);
        let is_beside = |other| other != ssrc && self.stream_index.contains_key(&(flow, other));
        let protects = names_base || protected_streams(content.bytes, bytes).any(is_beside);
        Likeness { shares_timestamp, repeats, protects, padded: header.padding }
    }

    #[inline]
    fn seen(
        &self,
        (at_ns, flow): (i64, u32),
        (ip_bytes, ecn): (u32, Ecn),
        content: &UnframedPayload<'_>,
        (header, header_bytes): (RtpHeader, usize),
    ) -> RtpSeen {
        RtpSeen {
            at_ns,
            flow,
            ssrc: header.ssrc,
            seq: header.seq,
            timestamp: header.timestamp,
            payload_type: header.payload_type,
            clock_rate: self.clock_rates[usize::from(header.payload_type & 0x7F)],
            marker: header.marker,
            ip_bytes,
            ecn,
            payload_bytes: content.wire_bytes.saturating_sub(header_bytes as u32),
            relay: content.relay,
            extensions: Values::default(),
            likeness: Likeness::default(),
            row: 0,
        }
    }

    pub(crate) fn flow_of(&self, stream: &Stream) -> &Flow {
        &self.flows.list[stream.flow as usize]
    }

    /// Returns the stream and packet of a frame, if the stream is known. Changes nothing.
    pub(crate) fn identify(&self, frame: &Frame<'_>) -> Option<(u32, Identified)> {
        let opened = decapsulation::open(frame);
        let Found::Datagram(datagram) = opened.found else { return None };
        if datagram.transport != Transport::Udp {
            return None;
        }
        let content = demultiplex(datagram.payload, datagram.payload_bytes);
        if content.protocol != Protocol::Rtp {
            return None;
        }
        let (header, ..) = parse_rtp(&content)?;
        let flow = self.flows.known(opened.point, &datagram)?;
        let stream = self.stream_index.get(&(flow, header.ssrc))?;
        let TransportDatagram { ip_bytes, ecn, .. } = datagram;
        Some((*stream, Identified { at_ns: frame.at_ns, header, ip_bytes, ecn }))
    }

    #[inline]
    fn known_stream(&mut self, key: (u32, u32)) -> Option<u32> {
        let recent = &mut self.recent_streams[(key.0 ^ key.1) as usize % RECENT_STREAMS];
        match recent {
            Some((known, stream)) if *known == key => Some(*stream),
            _ => {
                let stream = *self.stream_index.get(&key)?;
                *recent = Some((key, stream));
                Some(stream)
            }
        }
    }

    pub(super) fn admit(&mut self, packets: &[RtpSeen]) {
        if self.streams.len() >= self.config.max_streams {
            self.counts.streams_over_limit += packets.len() as u64;
            return;
        }
        let number = self.streams.len() as u32;
        let begin_ns = self.begin_ns.unwrap_or_default();
        let RtpSeen { flow, ssrc, .. } = packets[0];
        self.streams.push(Stream::new(&packets[0], begin_ns, self.sketch));
        self.stream_index.insert((flow, ssrc), number);
        self.by_ssrc.entry(ssrc).or_default().push(number);
        packets.iter().for_each(|packet| self.receive(number, packet));
    }

    #[inline]
    pub(super) fn receive(&mut self, number: u32, packet: &RtpSeen) {
        let stream = &mut self.streams[number as usize];
        let received = stream.receive(packet, self.begin_ns.unwrap_or_default());
        if received.order == Order::Stray {
            self.counts.stray_packets += 1;
            return;
        }
        if let Some(before) = &received.before {
            self.counts.stray_packets -= 1;
            self.count_accepted(number, &before.0, &before.1);
        }
        self.count_accepted(number, packet, &received);
    }

    /// Counts a packet that its stream has accepted in the seconds, its flow and the rows.
    #[inline]
    fn count_accepted(&mut self, number: u32, packet: &RtpSeen, received: &StreamUpdate) {
        let stream = &self.streams[number as usize];
        if let Some(second) = received.ended.filter(|_| self.config.seconds) {
            self.seconds.push(SecondRow::of(number, stream, second));
        }
        self.flows.list[packet.flow as usize].count(Protocol::Rtp, packet.relay.is_some());
        if self.config.packets {
            self.rows.set_rtp(number, packet, received);
        }
    }
}

/// A packet of a known stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identified {
    pub(crate) at_ns: i64,
    pub(crate) header: RtpHeader,
    pub(crate) ip_bytes: u32,
    pub(crate) ecn: Ecn,
}

fn rtp_ssrc(datagram: &TransportDatagram<'_>) -> Option<u32> {
    let content = demultiplex(datagram.payload, datagram.payload_bytes);
    let is_rtp = datagram.transport == Transport::Udp && content.protocol == Protocol::Rtp;
    is_rtp.then(|| parse_rtp(&content)).flatten().map(|(header, ..)| header.ssrc)
}

/// Parses an RTP header that the capture may have cut. Returns the header, the captured extension
/// elements and the length of the header.
#[inline]
fn parse_rtp<'a>(content: &UnframedPayload<'a>) -> Option<(RtpHeader, Elements<'a>, usize)> {
    match parse_raw(content.bytes) {
        Ok(parsed) => Some(parsed),
        Err(_) if content.bytes.len() >= content.wire_bytes as usize => None,
        Err(_) => parse_cut_rtp(content),
    }
}

fn parse_cut_rtp<'a>(content: &UnframedPayload<'a>) -> Option<(RtpHeader, Elements<'a>, usize)> {
    let mut fixed = *content.bytes.first_chunk::<FIXED_BYTES>()?;
    let (extended, sources) = (fixed[0] & 0x10 != 0, usize::from(fixed[0] & 15));
    fixed[0] &= 0xE0; // no contributing sources, no extensions
    let (header, ..) = parse_raw(&fixed).ok()?;
    let mut header_bytes = FIXED_BYTES + sources * 4;
    let mut elements = Elements::default();
    let rest = content.bytes.get(header_bytes..).unwrap_or_default();
    let extension = rest.split_first_chunk::<4>().filter(|_| extended);
    if let Some(([p0, p1, w0, w1], rest)) = extension {
        let extension_bytes = usize::from(u16::from_be_bytes([*w0, *w1])) * 4;
        elements =
            Elements::new(u16::from_be_bytes([*p0, *p1]), &rest[..rest.len().min(extension_bytes)]);
        header_bytes += 4 + extension_bytes;
    }
    (header_bytes <= content.wire_bytes as usize).then_some((header, elements, header_bytes))
}

impl SecondRow {
    pub(super) fn of(number: u32, stream: &Stream, second: Second) -> Self {
        let jitter_ms = stream.clock.jitter(stream.steps.rate_index()).map(|jitter| jitter.last_ms);
        SecondRow { stream: number, second, lost: stream.sequence.lost(), jitter_ms }
    }
}
