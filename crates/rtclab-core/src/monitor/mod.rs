//! A passive monitor: what passes a point of a network, per stream and per flow.
//!
//! Frames go in (from a capture file by [`CaptureReader`], or from a socket), tables come out:
//!
//! ```text
//! capture ─► link ─► ip ─► demux ─► flow ─┬─► stream   (RTP, after probation)
//!                                         ├─► rtcp_log
//!                                         └─► stun_log
//! ```
//!
//! Nothing panics whatever the bytes, and memory is bounded: everything that is kept per something on the
//! wire has a limit, and what is above it is counted in the table `notes`. [`compare`] follows packets from
//! one point to another.

pub mod capture;
pub mod compare;
pub mod demux;
pub mod ip;
pub mod link;
pub mod sdp;

mod feedback;
mod flow;
mod legs;
mod notes;
mod probation;
mod rows;
mod rtcp_log;
mod stream;
mod stun_log;
mod tables;
mod texts;

pub use capture::{CaptureError, CaptureFaults, CaptureReader, Direction, Frame, Interface};
pub use sdp::Sdp;

use crate::record::Table;
use crate::rtp::extension::Elements;
use crate::rtp::header::{FIXED_BYTES, parse_raw};
use crate::rtp::{Protocol, RtpHeader};
use demux::{Content, demultiplex, demultiplex_segment};
use flow::{Flows, Point};
use ip::{Datagram, IpContent, Transport};
use probation::Probation;
use rows::PacketRows;
use rtcp_log::RtcpLog;
use std::collections::HashMap;
use std::io::Read;
use stream::rate::Second;
use stream::sequence::Order;
use stream::{RtpSeen, Stream};
use stun_log::StunLog;

/// What to look for and what to keep.
#[derive(Clone, Debug)]
pub struct MonitorConfig {
    /// Codecs, repair streams and extension ids, if known.
    pub sdp: Sdp,
    /// Keep a row of every packet: 130 bytes each.
    pub packets: bool,
    /// Keep a row of every second of every stream.
    pub seconds: bool,
    /// Streams that are kept; packets of others are counted together.
    pub max_streams: usize,
}

impl Default for MonitorConfig {
    fn default() -> Self {
        MonitorConfig { sdp: Sdp::default(), packets: false, seconds: false, max_streams: 10_000 }
    }
}

/// Tables, and the texts that their text columns number.
#[derive(Clone, Debug, PartialEq)]
pub struct Tables {
    /// Texts by number.
    pub texts: Vec<String>,
    /// The tables.
    pub tables: Vec<Table>,
}

/// What is told apart among frames that carry no UDP or TCP.
#[derive(Clone, Copy, Debug, Default)]
struct FrameCounts {
    frames: u64,
    not_ip: u64,
    other_transport: u64,
    malformed: u64,
    later_fragments: u64,
    streams_over_limit: u64,
    stray_packets: u64,
}

/// A second of a stream that has ended.
#[derive(Clone, Copy, Debug)]
struct SecondRow {
    stream: u32,
    second: Second,
    lost: u64,
    jitter_ms: Option<f64>,
}

/// A power of two.
const RECENT_STREAMS: usize = 64;

/// Watches frames go by.
pub struct Monitor {
    config: MonitorConfig,
    begin_ns: Option<i64>,
    counts: FrameCounts,
    flows: Flows,
    probation: Probation,
    stream_index: HashMap<(u32, u32), u32>,
    /// Streams seen lately, as for flows.
    recent_streams: [Option<((u32, u32), u32)>; RECENT_STREAMS],
    streams: Vec<Stream>,
    stun: StunLog,
    rtcp: RtcpLog,
    seconds: Vec<SecondRow>,
    rows: PacketRows,
}

/// Where a datagram was seen and to which flow it belongs.
#[derive(Clone, Copy)]
struct Place {
    at_ns: i64,
    flow: u32,
    interface: u32,
}

impl Monitor {
    /// Has seen nothing yet.
    pub fn new(config: MonitorConfig) -> Self {
        Monitor {
            config,
            begin_ns: None,
            counts: FrameCounts::default(),
            flows: Flows::default(),
            probation: Probation::default(),
            stream_index: HashMap::new(),
            recent_streams: [None; RECENT_STREAMS],
            streams: Vec::new(),
            stun: StunLog::default(),
            rtcp: RtcpLog::default(),
            seconds: Vec::new(),
            rows: PacketRows::default(),
        }
    }

    /// Watches a whole capture; `progress` hears now and then how many bytes have been read, and stops the
    /// reading by returning false.
    ///
    /// # Errors
    ///
    /// [`CaptureError::Io`] when reading fails.
    pub fn watch<R: Read>(
        &mut self,
        reader: &mut CaptureReader<R>,
        mut progress: impl FnMut(u64) -> bool,
    ) -> Result<(), CaptureError> {
        /// Often enough for a progress bar, rarely enough to cost nothing.
        const FRAMES_PER_PROGRESS: u64 = 100_000;
        while let Some(frame) = reader.next_frame()? {
            self.handle_frame(&frame);
            if self.counts.frames.is_multiple_of(FRAMES_PER_PROGRESS)
                && !progress(reader.bytes_read())
            {
                break;
            }
        }
        Ok(())
    }

    /// Takes the next frame. Frames of one interface come in the order of their time.
    #[inline]
    pub fn handle_frame(&mut self, frame: &Frame<'_>) {
        self.counts.frames += 1;
        self.begin_ns.get_or_insert(frame.at_ns);
        let Some(packet) = link::ip_packet(frame) else {
            self.counts.not_ip += 1;
            return;
        };
        let (content, fragment) = ip::parse(&packet);
        let datagram = match content {
            IpContent::Datagram(datagram) => datagram,
            IpContent::LaterFragment => return self.counts.later_fragments += 1,
            IpContent::Other => return self.counts.other_transport += 1,
            IpContent::Malformed => return self.counts.malformed += 1,
        };
        let point = point_of(frame, &packet);
        let found = self.flows.receive(frame.at_ns, point, &datagram, &self.config.sdp);
        let Some(flow) = found else { return };
        self.flows.list[flow as usize].fragments += u64::from(fragment);
        let place = Place { at_ns: frame.at_ns, flow, interface: frame.interface };
        match datagram.transport {
            Transport::Udp => {
                let content = demultiplex(datagram.payload, datagram.payload_bytes);
                self.content(place, &datagram, datagram.ip_bytes, &content);
            }
            Transport::Tcp => self.segment(place, &datagram),
        }
    }

    /// A segment's IP and TCP headers count for its first frame.
    fn segment(&mut self, place: Place, datagram: &Datagram<'_>) {
        let mut ip_bytes = datagram.ip_bytes - datagram.payload_bytes.min(datagram.ip_bytes);
        let mut frames = 0;
        demultiplex_segment(datagram.payload, datagram.payload_bytes, &mut |content| {
            frames += 1;
            self.content(place, datagram, ip_bytes + content.wire_bytes, &content);
            ip_bytes = 0;
        });
        if frames > 0 {
            self.flows.list[place.flow as usize].frames += 1;
        } else if self.config.packets {
            let at = (place.at_ns, place.flow);
            self.rows.push(at, datagram.ip_bytes, Protocol::Other, false);
        }
    }

    #[inline]
    fn content(
        &mut self,
        place: Place,
        datagram: &Datagram<'_>,
        ip_bytes: u32,
        content: &Content<'_>,
    ) {
        if content.protocol == Protocol::Rtp {
            return self.rtp(place, ip_bytes, content);
        }
        let mut protocol = content.protocol;
        match protocol {
            Protocol::Rtcp => {
                let Place { flow, interface, at_ns } = place;
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
            self.rows.push((place.at_ns, place.flow), ip_bytes, protocol, relayed);
        }
    }

    #[inline]
    fn rtp(&mut self, place: Place, ip_bytes: u32, content: &Content<'_>) {
        let relayed = content.relay.is_some();
        let mut row = 0;
        if self.config.packets {
            row = self.rows.push((place.at_ns, place.flow), ip_bytes, Protocol::Other, relayed);
        }
        let Some(mut packet) = self.rtp_header(place, ip_bytes, content) else { return };
        packet.row = row;
        if let Some(stream) = self.known_stream((place.flow, packet.ssrc)) {
            self.receive(stream, &packet);
        } else if let Some(packets) = self.probation.receive(place.flow, &packet) {
            self.admit(place.flow, &packets);
        }
    }

    #[inline]
    fn rtp_header(
        &mut self,
        place: Place,
        ip_bytes: u32,
        content: &Content<'_>,
    ) -> Option<RtpSeen> {
        let (header, elements, header_bytes) = parse_rtp(content)?;
        let flow = &mut self.flows.list[place.flow as usize];
        Some(RtpSeen {
            at_ns: place.at_ns,
            ssrc: header.ssrc,
            seq: header.seq,
            timestamp: header.timestamp,
            payload_type: header.payload_type,
            marker: header.marker,
            ip_bytes,
            payload_bytes: content.wire_bytes.saturating_sub(header_bytes as u32),
            relay: content.relay,
            extensions: flow.extensions.read(place.at_ns, elements),
            shares_timestamp: flow.shares_timestamp(header.ssrc, header.timestamp),
            row: 0,
        })
    }

    /// The stream that a frame belongs to, among those known by now, and its packet; changes nothing.
    pub(crate) fn identify(&self, frame: &Frame<'_>) -> Option<(u32, Identified)> {
        let packet = link::ip_packet(frame)?;
        let (IpContent::Datagram(datagram), _) = ip::parse(&packet) else { return None };
        if datagram.transport != Transport::Udp {
            return None;
        }
        let content = demultiplex(datagram.payload, datagram.payload_bytes);
        if content.protocol != Protocol::Rtp {
            return None;
        }
        let (header, ..) = parse_rtp(&content)?;
        let flow = self.flows.known(point_of(frame, &packet), &datagram)?;
        let stream = self.stream_index.get(&(flow, header.ssrc))?;
        Some((*stream, Identified { at_ns: frame.at_ns, header, ip_bytes: datagram.ip_bytes }))
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

    fn admit(&mut self, flow: u32, packets: &[RtpSeen]) {
        if self.streams.len() >= self.config.max_streams {
            self.counts.streams_over_limit += packets.len() as u64;
            return;
        }
        let number = self.streams.len() as u32;
        let begin_ns = self.begin_ns.unwrap_or_default();
        self.streams.push(Stream::new(flow, &packets[0], begin_ns, &self.config.sdp));
        self.stream_index.insert((flow, packets[0].ssrc), number);
        packets.iter().for_each(|packet| self.receive(number, packet));
    }

    #[inline]
    fn receive(&mut self, number: u32, packet: &RtpSeen) {
        let stream = &mut self.streams[number as usize];
        let received = stream.receive(packet, self.begin_ns.unwrap_or_default());
        if received.order == Order::Stray {
            self.counts.stray_packets += 1;
            return;
        }
        if let Some(second) = received.ended.filter(|_| self.config.seconds) {
            self.seconds.push(SecondRow::of(number, stream, second));
        }
        self.flows.list[stream.flow as usize].count(Protocol::Rtp, packet.relay.is_some());
        if self.config.packets {
            self.rows.set_rtp(number, packet, &received);
        }
    }
}

/// A packet of a stream that is known already.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identified {
    pub(crate) at_ns: i64,
    pub(crate) header: RtpHeader,
    pub(crate) ip_bytes: u32,
}

fn point_of(frame: &Frame<'_>, packet: &link::LinkPacket<'_>) -> Point {
    Point { interface: frame.interface, device: packet.device, direction: packet.direction }
}

/// The header, its extensions as far as the capture has kept them, and its length.
#[inline]
fn parse_rtp<'a>(content: &Content<'a>) -> Option<(RtpHeader, Elements<'a>, usize)> {
    let bytes = content.bytes;
    match parse_raw(bytes) {
        Ok(parsed) => Some(parsed),
        Err(_) if bytes.len() >= content.wire_bytes as usize => None,
        Err(_) => {
            let mut fixed = *bytes.first_chunk::<FIXED_BYTES>()?;
            let sources = usize::from(fixed[0] & 15) * 4;
            fixed[0] &= 0xE0; // neither sources nor extensions
            let (header, ..) = parse_raw(&fixed).ok()?;
            Some((header, Elements::default(), FIXED_BYTES + sources))
        }
    }
}

impl SecondRow {
    fn of(number: u32, stream: &Stream, second: Second) -> Self {
        let jitter_ms = stream.clock.jitter().map(|jitter| jitter.last_ms);
        SecondRow { stream: number, second, lost: stream.sequence.lost(), jitter_ms }
    }
}
