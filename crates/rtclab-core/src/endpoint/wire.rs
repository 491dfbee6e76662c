//! The network with datagrams in it: real bytes in, real bytes out, every packet recorded.

use crate::media::host::Host;
use crate::network::{Network, NetworkEvent, NodeId};
use crate::path::Packet;
use crate::record::{FlowId, Label, PacketRecord, Recorder, RtpLabel};
use crate::rtp::Protocol;
use crate::tcp::Segment;
use crate::units::{Bytes, Time};

/// Headers of IPv4 and UDP.
pub(super) const IP_UDP_BYTES: u64 = 28;
/// AES128_CM_HMAC_SHA1_80 adds a tag of ten bytes and an index of four to RTCP.
const SRTCP_BYTES: u64 = 14;
/// RFC 8656, section 12.4: channel number and length, before what a TURN relay passes on over UDP.
const CHANNEL_DATA_BYTES: u64 = 4;

struct Datagram {
    /// The headers; the encoded media behind them has a length but no content.
    bytes: Vec<u8>,
    /// IP total length, without the framing of a relay.
    size: Bytes,
    framing: Bytes,
    /// The nodes between pass it on.
    to: NodeId,
    socket: Socket,
    rtp: Option<RtpLabel>,
    record: Option<PacketRecord>,
}

/// Where datagrams of one end of a connection arrive: its address and UDP port, in one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Socket(pub u16);

/// A datagram that reached its destination.
pub struct Arrival {
    /// When.
    pub at: Time,
    /// Whom it reached.
    pub socket: Socket,
    /// Its bytes; give them back with [`Wire::recycle`].
    pub bytes: Vec<u8>,
    /// IP total length; a relay's framing is taken off.
    pub size: Bytes,
    /// When it was first sent, if it belongs to a flow.
    pub sent: Time,
    /// What it carries, if it is RTP.
    pub rtp: Option<RtpLabel>,
}

/// What reached a node.
pub enum Delivery {
    /// A datagram.
    Datagram(Arrival),
    /// A segment of TCP, and when it arrived.
    Segment(Time, Segment),
}

/// Bit of a packet's number that says that it is a segment.
const IS_SEGMENT: u32 = 1 << 31;

/// The network and what is in flight on it.
pub struct Wire {
    network: Network<u32>,
    datagrams: Vec<Datagram>,
    free: Vec<u32>,
    segments: Vec<(Segment, PacketRecord)>,
    free_segments: Vec<u32>,
    spare: Vec<Vec<u8>>,
    /// Everything observed.
    pub recorder: Recorder,
    /// Machines of participants whose encoding takes time.
    pub hosts: Vec<(NodeId, Host)>,
}

/// One sender's end of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Port {
    /// The sender.
    pub from: NodeId,
    /// The receiver.
    pub to: NodeId,
    /// Where the receiver listens.
    pub socket: Socket,
    /// The flow between them.
    pub flow: FlowId,
    /// A TURN relay that everything but signalling passes.
    pub relay: Option<NodeId>,
}

impl Wire {
    /// An empty network.
    pub fn new(network: Network<u32>, recorder: Recorder) -> Self {
        Wire {
            network,
            datagrams: Vec::new(),
            free: Vec::new(),
            segments: Vec::new(),
            free_segments: Vec::new(),
            spare: Vec::new(),
            recorder,
            hosts: Vec::new(),
        }
    }

    /// When to call [`Wire::poll`] again.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.network.poll_timeout()
    }

    /// The next datagram or segment that arrived by `now`.
    pub fn poll(&mut self, now: Time) -> Option<Delivery> {
        loop {
            match self.network.poll(now)? {
                NetworkEvent::Delivered { at, packet, .. } if packet.payload & IS_SEGMENT != 0 => {
                    let (segment, record) = self.take_segment(packet.payload);
                    self.recorder.delivered(at, record, packet.size);
                    return Some(Delivery::Segment(at, segment));
                }
                NetworkEvent::Dropped { at, path, cause, packet }
                    if packet.payload & IS_SEGMENT != 0 =>
                {
                    let (_, record) = self.take_segment(packet.payload);
                    self.recorder.dropped(at, record, path, cause);
                }
                NetworkEvent::Delivered { at, to, packet } => {
                    let datagram = &mut self.datagrams[packet.payload as usize];
                    if to != datagram.to {
                        let last = datagram.to;
                        self.enter(at, to, last, packet);
                        continue;
                    }
                    let Datagram { socket, size, rtp, .. } = *datagram;
                    let sent = datagram.record.map_or(at, |record| record.sent());
                    let bytes = std::mem::take(&mut datagram.bytes);
                    if let Some(record) = datagram.record {
                        self.recorder.delivered(at, record, packet.size);
                    }
                    self.free.push(packet.payload);
                    return Some(Delivery::Datagram(Arrival {
                        at,
                        socket,
                        bytes,
                        size,
                        sent,
                        rtp,
                    }));
                }
                NetworkEvent::Dropped { at, path, cause, packet } => {
                    let datagram = &mut self.datagrams[packet.payload as usize];
                    if let Some(record) = datagram.record {
                        self.recorder.dropped(at, record, path, cause);
                    }
                    self.spare.push(std::mem::take(&mut datagram.bytes));
                    self.free.push(packet.payload);
                }
            }
        }
    }

    /// Takes the bytes of an [`Arrival`] back for later use.
    pub fn recycle(&mut self, bytes: Vec<u8>) {
        self.spare.push(bytes);
    }

    /// When a picture taken now at `node` has been encoded.
    pub(super) fn encode(&mut self, now: Time, node: NodeId, pixels: u32) -> Time {
        let host = self.hosts.iter_mut().find(|(at, _)| *at == node);
        host.map_or(now, |(_, host)| host.encode(now, pixels))
    }

    /// An empty buffer.
    pub(super) fn buffer(&mut self) -> Vec<u8> {
        let mut bytes = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(128));
        bytes.clear();
        bytes
    }

    /// Sends RTCP; returns its IP total length.
    pub(super) fn send_rtcp(&mut self, now: Time, port: Port, bytes: Vec<u8>) -> Bytes {
        let size = Bytes(IP_UDP_BYTES + bytes.len() as u64 + SRTCP_BYTES);
        self.send(now, port, bytes, size, Protocol::Rtcp, None);
        size
    }

    /// Sends a datagram of connection set-up of `udp_bytes` in all.
    pub(super) fn send_setup(
        &mut self,
        now: Time,
        port: Port,
        protocol: Protocol,
        bytes: Vec<u8>,
        udp_bytes: usize,
    ) {
        let size = Bytes(IP_UDP_BYTES + udp_bytes.max(bytes.len()) as u64);
        self.send(now, port, bytes, size, protocol, None);
    }

    /// Sends a datagram of signalling, which belongs to no flow, by way of the server at `core`.
    pub(super) fn send_signalling(
        &mut self,
        now: Time,
        port: Port,
        core: NodeId,
        bytes: Vec<u8>,
        size: Bytes,
    ) {
        let (to, socket) = (port.to, port.socket);
        let framing = Bytes::ZERO;
        // A server at the core speaks to the signalling server without a network.
        let via = if port.from == core { to } else { core };
        let datagram = Datagram { bytes, size, framing, to, socket, rtp: None, record: None };
        self.launch(now, port.from, via, datagram);
    }

    /// Sends a request to a relay that comes back to its sender, of the same size, as the answer.
    pub(super) fn send_relay_request(
        &mut self,
        now: Time,
        from: (NodeId, Socket),
        relay: NodeId,
        bytes: Vec<u8>,
        udp_bytes: usize,
    ) {
        let size = Bytes(IP_UDP_BYTES + udp_bytes as u64);
        let (to, socket) = from;
        let framing = Bytes::ZERO;
        let datagram = Datagram { bytes, size, framing, to, socket, rtp: None, record: None };
        self.launch(now, to, relay, datagram);
    }

    /// Sends RTP or RTCP that was first sent at `origin`, maybe by someone else.
    pub(super) fn forward(
        &mut self,
        now: Time,
        origin: Time,
        port: Port,
        bytes: Vec<u8>,
        size: Bytes,
        rtp: Option<RtpLabel>,
    ) {
        let protocol = if rtp.is_some() { Protocol::Rtp } else { Protocol::Rtcp };
        self.send_from(now, origin, port, bytes, size, protocol, rtp);
    }

    /// Sends a segment of TCP.
    pub(crate) fn send_segment(
        &mut self,
        now: Time,
        (from, to): (NodeId, NodeId),
        flow: FlowId,
        segment: Segment,
    ) {
        let size = segment.size();
        let record = self.recorder.sent_segment(now, flow, size);
        let id = match self.free_segments.pop() {
            Some(id) => {
                self.segments[id as usize] = (segment, record);
                id
            }
            None => {
                self.segments.push((segment, record));
                self.segments.len() as u32 - 1
            }
        };
        let packet = Packet { size, payload: id | IS_SEGMENT };
        if self.network.handle_packet(now, from, to, packet).is_err() {
            self.free_segments.push(id);
        }
    }

    fn take_segment(&mut self, payload: u32) -> (Segment, PacketRecord) {
        let id = payload & !IS_SEGMENT;
        self.free_segments.push(id);
        self.segments[id as usize]
    }

    pub(super) fn send(
        &mut self,
        now: Time,
        port: Port,
        bytes: Vec<u8>,
        size: Bytes,
        protocol: Protocol,
        rtp: Option<RtpLabel>,
    ) {
        self.send_from(now, now, port, bytes, size, protocol, rtp);
    }

    #[expect(clippy::too_many_arguments, reason = "each of them is a field of what is recorded")]
    fn send_from(
        &mut self,
        now: Time,
        origin: Time,
        port: Port,
        bytes: Vec<u8>,
        size: Bytes,
        protocol: Protocol,
        rtp: Option<RtpLabel>,
    ) {
        let framing = port.relay.map_or(Bytes::ZERO, |_| Bytes(CHANNEL_DATA_BYTES));
        let on_wire = Bytes(size.0 + framing.0);
        let label = Label { flow: port.flow, size: on_wire, protocol, rtp };
        let record = Some(self.recorder.sent(origin, &label));
        let (to, socket) = (port.to, port.socket);
        let datagram = Datagram { bytes, size, framing, to, socket, rtp, record };
        self.launch(now, port.from, port.relay.unwrap_or(to), datagram);
    }

    fn launch(&mut self, now: Time, from: NodeId, next: NodeId, datagram: Datagram) {
        let size = Bytes(datagram.size.0 + datagram.framing.0);
        let payload = match self.free.pop() {
            Some(id) => {
                self.datagrams[id as usize] = datagram;
                id
            }
            None => {
                self.datagrams.push(datagram);
                self.datagrams.len() as u32 - 1
            }
        };
        self.enter(now, from, next, Packet { size, payload });
    }

    /// Without a route the packet vanishes, as on a host without one; the scenario checks routes.
    fn enter(&mut self, now: Time, from: NodeId, to: NodeId, packet: Packet<u32>) {
        if let Err(packet) = self.network.handle_packet(now, from, to, packet) {
            self.free.push(packet.payload);
        }
    }
}
