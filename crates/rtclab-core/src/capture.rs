//! Writes a simulated call to a capture file: every packet, at the port of every node that it passes.
//!
//! There is one interface per node, named after it. As in a capture of the emulator, a packet is inbound at
//! the node that sends it and outbound at the node that receives it. At a relay or server that forwards it,
//! it is both. Times are virtual, in nanoseconds from 0. Nothing is encrypted: headers and RTCP are captured
//! in clear. Encoded media and what SRTP adds have no bytes and only count in the length on the wire.

mod payload;
mod sdp;
mod tcp;

pub use sdp::Description;

use crate::ipv4::{Ends, Payload, write_tcp, write_udp};
use crate::network::NodeId;
use crate::packet::{Address, Content, Datagram, Transmit, Via};
use crate::pcapng::{self, Direction, Interface, Packet, link_type};
use crate::units::{Bytes, Time};
use std::net::{Ipv4Addr, SocketAddrV4};
use tcp::Connections;

/// Network part of node addresses, which count up from 10.0.0.1.
const NETWORK: u32 = 10 << 24;
/// Port of the first end at a node; further ends count up from it.
const FIRST_PORT: u32 = 10_000;
/// TURN over UDP (RFC 8656, section 19).
const TURN_PORT: u16 = 3_478;
/// Port of signalling, a WebSocket over TLS.
const SIGNALLING_PORT: u16 = 443;
/// The first TURN channel number (RFC 8656, section 12). Every end binds this one, in an allocation of its
/// own.
const CHANNEL: u16 = 0x4000;

/// The capture of a run, and what is needed to read it.
#[derive(Default)]
pub struct Captured {
    /// A file in the pcapng format.
    pub pcapng: Vec<u8>,
    /// Session descriptions of all connections: codecs, extension ids, SSRCs and repair.
    pub sdp: String,
}

/// A datagram on its way between two ends.
#[derive(Clone, Copy)]
pub struct Passing<'a> {
    /// The sender.
    pub from: Address,
    /// The receiver.
    pub to: Address,
    /// How it reaches the receiver.
    pub via: Via,
    /// IP total length on the wire.
    pub wire_size: Bytes,
    /// The datagram.
    pub datagram: &'a Datagram,
}

impl<'a> Passing<'a> {
    /// Describes a datagram that the end at `from` sends.
    pub fn sent(from: Address, transmit: &'a Transmit) -> Self {
        let Transmit { to, via, datagram, .. } = transmit;
        Passing { from, to: *to, via: *via, wire_size: transmit.wire_size(), datagram }
    }

    /// The node that forwards the datagram, if any.
    fn passed_by(&self) -> Option<NodeId> {
        match self.via {
            Via::Direct => None,
            Via::Server(node) | Via::Relay(node) => (node != self.to.node).then_some(node),
        }
    }
}

/// Part of a datagram's way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leg {
    /// From the sender to the receiver, or to the node that forwards the packet.
    First,
    /// From the forwarding node to the receiver.
    Second,
}

/// Writes a capture.
pub struct Capture {
    pcapng: Vec<u8>,
    /// IP address and port of each end, indexed by the port of its [`Address`].
    sockets: Vec<SocketAddrV4>,
    /// Number of ends at each node.
    ends_at: Vec<u32>,
    connections: Connections,
    sdp: String,
    /// Payload of the packet being written; the buffer is reused.
    payload: Vec<u8>,
    /// The packet being written; the buffer is reused.
    packet: Vec<u8>,
}

impl Capture {
    /// Begins a capture. `nodes` are the names of the nodes and `ends` is the node of each end, both in
    /// numerical order.
    pub fn new(nodes: &[String], ends: &[NodeId], descriptions: &[Description]) -> Self {
        let named =
            |name: &String| Interface { link_type: link_type::RAW, name: Some(name.clone()) };
        let mut pcapng = Vec::new();
        pcapng::write_section(&mut pcapng, &nodes.iter().map(named).collect::<Vec<_>>(), 0);
        let mut ends_at = vec![0u32; nodes.len()];
        let sockets: Vec<SocketAddrV4> = ends
            .iter()
            .map(|node| {
                let count = &mut ends_at[node.0 as usize];
                *count += 1;
                SocketAddrV4::new(address(*node), port(*count - 1))
            })
            .collect();
        Capture {
            sdp: sdp::write(descriptions, &sockets),
            connections: Connections::default(),
            ends_at,
            pcapng,
            sockets,
            payload: Vec::new(),
            packet: Vec::new(),
        }
    }

    /// Ends the capture.
    pub fn finish(self) -> Captured {
        Captured { pcapng: self.pcapng, sdp: self.sdp }
    }

    /// Records that a packet left its sender.
    pub fn sent(&mut self, at: Time, passing: Passing<'_>) {
        self.write(at, passing.from.node, Direction::Inbound, Leg::First, passing);
    }

    /// Records that a packet reached a node on its way.
    pub fn passed(&mut self, at: Time, node: NodeId, passing: Passing<'_>) {
        self.write(at, node, Direction::Outbound, Leg::First, passing);
    }

    /// Records that a node on the way of a packet forwarded it.
    pub fn forwarded(&mut self, at: Time, node: NodeId, passing: Passing<'_>) {
        self.write(at, node, Direction::Inbound, Leg::Second, passing);
    }

    /// Records that a packet reached its destination.
    pub fn delivered(&mut self, at: Time, passing: Passing<'_>) {
        let leg = if passing.passed_by().is_some() { Leg::Second } else { Leg::First };
        self.write(at, passing.to.node, Direction::Outbound, leg, passing);
    }

    fn write(
        &mut self,
        at: Time,
        node: NodeId,
        direction: Direction,
        leg: Leg,
        passing: Passing<'_>,
    ) {
        let ends = self.ends(leg, passing);
        self.packet.clear();
        let wire_bytes = match &passing.datagram.content {
            Content::Tcp(segment) => {
                let client = tcp::client(segment, passing.from, passing.to);
                self.connections.write(&mut self.packet, ends, client, segment)
            }
            Content::WebSocket(frame) => {
                let ports = [passing.from.port, passing.to.port];
                self.connections.write_stream(&mut self.packet, ends, ports, &frame.segment)
            }
            Content::Signalling(segment) => {
                let fields = tcp::of_signalling(at, *segment);
                let payload = Payload { bytes: &[], zeros: segment.bytes.into() };
                write_tcp(&mut self.packet, ends, &fields, payload)
            }
            Content::Turn(turn) => {
                let ports = [passing.from.port, passing.to.port];
                self.connections.write_stream(&mut self.packet, ends, ports, &turn.segment)
            }
            _ => {
                self.payload.clear();
                self.write_payload(leg, passing);
                let udp_bytes = (passing.wire_size.0 - crate::packet::IP_UDP_BYTES) as usize;
                let zeros = udp_bytes.saturating_sub(self.payload.len());
                write_udp(&mut self.packet, ends, Payload { bytes: &self.payload, zeros })
            }
        };
        let bytes = &self.packet;
        Packet { interface: node.0, at_ns: at.0, direction, wire_bytes, bytes, zeros: 0 }
            .write(&mut self.pcapng);
    }

    fn ends(&self, leg: Leg, passing: Passing<'_>) -> Ends {
        let Passing { from, to, datagram, .. } = passing;
        let passed_by = passing.passed_by().map(|node| {
            let signalling = matches!(datagram.content, Content::Signalling(_));
            let port = if signalling { SIGNALLING_PORT } else { TURN_PORT };
            SocketAddrV4::new(address(node), port)
        });
        let mut sender = self.socket(from);
        let mut receiver = self.socket(to);
        if let Content::Tcp(segment) = &datagram.content {
            let client = tcp::client(segment, from, to);
            let own = if client == from { &mut sender } else { &mut receiver };
            own.set_port(self.connection_port(client, segment.connection));
        }
        let (source, destination) = match (passed_by, leg) {
            (None, _) => (sender, receiver),
            (Some(server), Leg::First) => (sender, server),
            (Some(server), Leg::Second) => (server, receiver),
        };
        let ecn = datagram.ecn.bits();
        Ends { source, destination, ecn }
    }

    /// IP address and port of an end, or of a mapping of a NAT. These have higher numbers than all ends.
    fn socket(&self, at: Address) -> SocketAddrV4 {
        let of_nat = || SocketAddrV4::new(address(at.node), port(at.port));
        self.sockets.get(at.port as usize).copied().unwrap_or_else(of_nat)
    }

    /// The client's port for one of its connections. Each connection has its own.
    fn connection_port(&self, client: Address, connection: u32) -> u16 {
        let first = u32::from(self.sockets[client.port as usize].port()) - FIRST_PORT;
        let others = self.ends_at[client.node.0 as usize];
        port(first.wrapping_add(connection.wrapping_mul(others)))
    }
}

fn address(node: NodeId) -> Ipv4Addr {
    Ipv4Addr::from_bits(NETWORK + 1 + node.0)
}

/// The port for a number; wraps around after the last port.
fn port(number: u32) -> u16 {
    (FIRST_PORT + number % (u32::from(u16::MAX) + 1 - FIRST_PORT)) as u16
}
