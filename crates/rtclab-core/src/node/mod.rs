//! A node: everything that happens at one machine, without I/O.
//!
//! A node has the ends of its connections, the processor that encodes and decodes for all of them, its page at the
//! signalling server, what it forwards to whom, and the NAT in front of it. It has the five verbs of an end, with
//! ports: `handle_datagram`, `handle_timeout`, `poll_transmit`, `poll_event` and `poll_timeout`. It knows neither the
//! network, nor the record, nor any other node. After each `handle_…` call the driver drains `poll_event`, then
//! `poll_transmit`, and comes back at `poll_timeout`.
//!
//! Anything may arrive, at any time and from anywhere: a node neither panics, stands still, nor grows without bound.
//! Each jump of a number from the wire has a limit, with its source beside it, which honest calls never reach. The fuzz
//! target `node` and `tests/node_inputs.rs` try it.

mod end;
mod parts;
mod rooms;

pub use end::End;
pub use rooms::Decoded;

use crate::cc::Decision;
use crate::endpoint::{EndpointEvent, FanOut};
use crate::media::host::Host;
use crate::media::playout::Rendered;
use crate::nat::Nat;
use crate::network::NodeId;
use crate::packet::{Address, Content, Datagram, Past, Transmit, Via};
use crate::signalling::SignallingEvent;
use crate::tcp::{self, TcpEvent};
use crate::timeouts::{Due, TimeAndNumber, Timeouts};
use crate::turn_tcp::Carried;
use crate::units::{Bytes, Time};
use parts::Parts;
use rooms::Rooms;
use std::collections::VecDeque;
use std::sync::Arc;

/// A datagram that arrives at a node.
#[derive(Clone, Copy, Debug)]
pub struct Arriving<'a> {
    /// The address that it comes from.
    pub from: Address,
    /// How it got here.
    pub via: Via,
    /// What happened to its content before, with the queues on the way.
    pub past: Past,
    /// The datagram.
    pub datagram: &'a Datagram,
}

/// A datagram that leaves a node.
#[derive(Debug)]
pub struct Departing {
    /// The port of the end that sends it.
    pub end: u32,
    /// The address that others see, which differs from the address of the end behind a NAT.
    pub from: Address,
    /// The port of the TCP connection with a relay that it goes into, instead of into the network. The driver keeps
    /// the datagram and calls [`Node::carry`] with a number of its own.
    pub stream: Option<u32>,
    /// The datagram.
    pub transmit: Transmit,
}

/// What a node tells its driver. Ports say which end it is about.
#[derive(Debug)]
pub enum NodeEvent {
    /// Something that happened at an end of a call.
    Endpoint(u32, EndpointEvent),
    /// Figures of an end of a TCP connection.
    Tcp(u32, tcp::TcpStatistics),
    /// A picture was composed at a server that mixes.
    Composed {
        /// The port of the end that sends it.
        end: u32,
        /// When it was composed.
        at: Time,
        /// The pictures in it.
        of: Vec<Decoded>,
    },
    /// A datagram came out of the TCP connection of a client with its relay.
    Carried(u32, Carried),
}

/// How an end is connected with others of its node. Ends are named by their index.
#[derive(Clone, Debug, Default)]
struct Wiring {
    /// The end whose media this one forwards.
    media_from: Option<usize>,
    /// The ends that forward what this one receives.
    media_to: Vec<usize>,
    /// The page that this end of a call belongs to; `None` for an end at the signalling server.
    page: Option<usize>,
    /// The port of the page of the far end.
    far_page: Option<u32>,
    /// This end's TCP connection with its TURN relay.
    turn: Option<usize>,
}

/// Everything that happens at one machine.
pub struct Node {
    id: NodeId,
    /// The port of each end, in ascending order.
    ports: Vec<u32>,
    ends: Vec<End>,
    wiring: Vec<Wiring>,
    /// When each end is due, while the node is not split.
    timeouts: Timeouts,
    /// The parts into which the node is split.
    parts: Option<Box<Parts>>,
    /// Ends that all parts share.
    shared: Vec<usize>,
    /// Whether the node is known to have one part only.
    is_whole: bool,
    /// The processor, if encoding takes time.
    host: Option<Host>,
    nat: Option<Nat>,
    /// Nodes that no UDP reaches.
    unreachable: Arc<[NodeId]>,
    rooms: Rooms,
    /// For each end the media that it receives, if that is forwarded to others.
    fan_outs: Vec<Option<FanOut>>,
    /// The signalling server, if it is here.
    signalling: Option<usize>,
    /// Ports of the ends elsewhere whose datagrams this node relays over TCP, and the connections with them.
    relayed: Vec<(u32, usize)>,
    /// Ends that may have datagrams to send.
    pending: VecDeque<usize>,
    events: VecDeque<NodeEvent>,
}

impl Node {
    /// Creates a node with these ends, in ascending order of their ports.
    pub fn new(id: NodeId, ends: Vec<(u32, End)>) -> Self {
        let (ports, ends): (Vec<u32>, Vec<End>) = ends.into_iter().unzip();
        let is_server = |end: &End| matches!(end, End::Signalling(_));
        Node {
            id,
            wiring: vec![Wiring::default(); ends.len()],
            timeouts: Timeouts::new(ends.iter().map(End::poll_timeout)),
            parts: None,
            shared: Vec::new(),
            is_whole: false,
            host: None,
            nat: None,
            unreachable: Arc::new([]),
            rooms: Rooms::default(),
            fan_outs: ends.iter().map(|_| None).collect(),
            signalling: ends.iter().position(is_server),
            relayed: Vec::new(),
            pending: VecDeque::new(),
            events: VecDeque::new(),
            ports,
            ends,
        }
    }

    /// Gives the node a processor, so that encoding takes time.
    pub fn set_host(&mut self, host: Host) {
        self.host = Some(host);
    }

    /// Puts a NAT in front of the node, if there is one, and tells it which nodes no UDP reaches.
    pub fn set_nat(&mut self, nat: Option<Nat>, unreachable: Arc<[NodeId]>) {
        (self.nat, self.unreachable) = (nat, unreachable);
    }

    /// Lets the end at one port forward what the end at another port receives.
    pub fn forward(&mut self, source: u32, forwarder: u32) {
        if let (Some(from), Some(to)) = (self.index_of(source), self.index_of(forwarder)) {
            self.wiring[to].media_from = Some(from);
            self.wiring[from].media_to.push(to);
            if let (End::Peer(peer), None) = (&self.ends[to], &self.fan_outs[from]) {
                self.fan_outs[from] = peer.fan_out();
            }
        }
    }

    /// Lets an end of a call meet its far end over signalling: through a page here, or directly at the signalling
    /// server. `far_page` is the port of the page of the far end.
    pub fn meet(&mut self, end: u32, page: Option<u32>, far_page: Option<u32>) {
        if let Some(index) = self.index_of(end) {
            self.wiring[index].page = page.and_then(|page| self.index_of(page));
            self.wiring[index].far_page = far_page;
        }
    }

    /// Puts an end into a room of this server, which mixes: everybody in it is shown everybody else in it.
    pub fn enter_room(&mut self, end: u32, room: usize) {
        if let Some(index) = self.index_of(end) {
            self.rooms.enter(index, room);
        }
    }

    /// Lets an end send what is relayed through the TCP connection at another port.
    pub fn relay_over_tcp(&mut self, end: u32, stream: u32) {
        if let (Some(index), Some(stream)) = (self.index_of(end), self.index_of(stream)) {
            self.wiring[index].turn = Some(stream);
        }
    }

    /// Lets this relay send what is for an end elsewhere through the TCP connection at a port here.
    pub fn relay_to(&mut self, far_end: u32, stream: u32) {
        self.relayed.extend(self.index_of(stream).map(|stream| (far_end, stream)));
    }

    /// Whether an end here has a TCP connection with a relay.
    pub(crate) fn relays_over_tcp(&self) -> bool {
        self.wiring.iter().any(|wiring| wiring.turn.is_some())
    }

    /// The processor, if encoding takes time.
    pub fn host(&self) -> Option<&Host> {
        self.host.as_ref()
    }

    /// The port of the end that is due first, and the part of it that is due, for errors.
    pub fn due(&self) -> Option<(u32, &'static str)> {
        let (index, at) = self.timeouts.earliest();
        (at < Time::NEVER).then(|| (self.ports[index], self.ends[index].due()))
    }

    /// When to call [`Node::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Time> {
        self.next().map(|(at, _)| at)
    }

    /// When to call [`Node::handle_timeout`], and the port of the end that is due then.
    pub(crate) fn next(&self) -> Option<(Time, u32)> {
        let (index, at) = self.timeouts.earliest();
        (at < Time::NEVER).then(|| (at, self.ports[index]))
    }

    /// The same as one number, to compare nodes by.
    pub(crate) fn next_key(&self) -> Option<TimeAndNumber> {
        self.next().map(|(at, port)| TimeAndNumber::new(at, port))
    }

    /// Handles what is due first. Other ends may be due at the same time; see [`Node::poll_timeout`].
    pub fn handle_timeout(&mut self, now: Time) {
        let (index, at) = self.timeouts.earliest();
        if at <= now {
            self.ends[index].handle_timeout(now);
            self.settle(now, index);
        }
    }

    /// Tells the endpoint at a port that its far end reached the signalling server first.
    pub fn handle_present(&mut self, now: Time, port: u32) {
        if let Some(index) = self.index_of(port) {
            self.ends[index].handle_present(now);
            self.settle(now, index);
        }
    }

    /// Passes a decision on to the end of a call that has asked for one; see
    /// [`EndpointEvent::DecisionRequested`].
    pub fn handle_decision(&mut self, now: Time, port: u32, decision: Decision) {
        let Some(index) = self.index_of(port) else { return };
        if let End::Peer(peer) = &mut self.ends[index] {
            peer.handle_decision(now, decision);
            self.settle(now, index);
        }
    }

    /// Handles a datagram that arrives at a port.
    pub fn handle_datagram(&mut self, now: Time, port: u32, received: &Arriving<'_>) {
        let Some(index) = self.let_in(port, received) else { return };
        let before = self.pending.len();
        let Arriving { from, past, datagram, .. } = *received;
        let end = &mut self.ends[index];
        end.handle_datagram(now, from, datagram, past);
        let passes = end.passes_on(datagram);
        self.settle(now, index);
        if passes {
            self.pass_on(now, index, past, datagram);
        }
        // What a connection with a relay carried is answered before the connection acknowledges it.
        self.pending.rotate_left(before);
    }

    /// Puts a datagram of this IP total length into a TCP connection between a client and its relay, under a number of
    /// the driver's. Returns false if the buffer is full, so that it is dropped.
    pub fn carry(&mut self, now: Time, stream: u32, size: Bytes, number: u32) -> bool {
        let Some(index) = self.index_of(stream) else { return false };
        let End::Turn(connection) = &mut self.ends[index] else { return false };
        let is_carried = connection.send(size, number);
        let before = self.pending.len();
        self.settle(now, index);
        self.pending.rotate_left(before);
        is_carried
    }

    /// The port of the TCP connection over which this relay sends what is for an end elsewhere, if it is relayed so.
    pub fn stream_to(&self, to: Address, via: Via, datagram: &Datagram) -> Option<u32> {
        let (_, stream) = self.relayed.iter().find(|(far, _)| *far == to.port)?;
        is_relayed(via, datagram).then(|| self.ports[*stream])
    }

    /// Whether the end of a TCP connection with a relay is the client's.
    pub fn is_client(&self, stream: u32) -> bool {
        let end = self.index_of(stream).map(|index| &self.ends[index]);
        matches!(end, Some(End::Turn(stream)) if stream.is_client())
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<NodeEvent> {
        self.events.pop_front()
    }

    /// The next datagram to send. All events must have been polled before.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Departing> {
        loop {
            let index = *self.pending.front()?;
            let Some(transmit) = self.ends[index].poll_transmit(now) else {
                self.pending.pop_front();
                self.note_timeout(index);
                continue;
            };
            let end = self.ports[index];
            let inside = Address { node: self.id, port: end };
            let stream = self.wiring[index].turn;
            if let Some(stream) = stream.filter(|_| is_relayed(transmit.via, &transmit.datagram)) {
                let stream = Some(self.ports[stream]);
                return Some(Departing { end, from: inside, stream, transmit });
            }
            if let Some(from) = self.let_out(inside, &transmit) {
                return Some(Departing { end, from, stream: None, transmit });
            }
        }
    }

    fn note_timeout(&mut self, index: usize) {
        let timeout = self.ends[index].poll_timeout();
        match &mut self.parts {
            None => self.timeouts.set(index, timeout),
            Some(parts) => parts.set(index, timeout),
        }
    }

    fn index_of(&self, port: u32) -> Option<usize> {
        self.ports.binary_search(&port).ok()
    }

    /// Takes all events from an end, and notes that it may have datagrams to send.
    fn settle(&mut self, now: Time, index: usize) {
        if !self.ends[index].is_pending() {
            self.note_timeout(index);
            return;
        }
        while let Some(event) = self.ends[index].poll_event() {
            let port = self.ports[index];
            match event {
                end::EndEvent::Endpoint(event) => self.handle_event(now, index, event),
                end::EndEvent::Signalling(event) => self.handle_signalling(now, index, event),
                end::EndEvent::Tcp(TcpEvent::Statistics(figures)) => {
                    self.events.push_back(NodeEvent::Tcp(port, figures));
                }
                end::EndEvent::Carried(carried) => {
                    self.events.push_back(NodeEvent::Carried(port, carried));
                }
            }
        }
        self.pending.push_back(index);
    }

    /// Hands media to the ends that forward it. RTCP of a receiver goes back to the source of its media. Media, and
    /// RTCP of its sender, goes to all ends that forward it.
    fn pass_on(&mut self, now: Time, index: usize, past: Past, datagram: &Datagram) {
        if let Some(source) = self.wiring[index].media_from {
            return self.translate(now, source, past, datagram);
        }
        let forwarded = match (&mut self.fan_outs[index], &datagram.content) {
            (Some(fan_out), Content::Rtp(packet)) => fan_out.take(now, packet),
            _ => None,
        };
        for place in 0..self.wiring[index].media_to.len() {
            let to = self.wiring[index].media_to[place];
            match (&mut self.ends[to], &forwarded) {
                (End::Peer(peer), Some(forwarded)) => {
                    peer.forward(now, past, forwarded);
                    self.settle(now, to);
                }
                _ => self.translate(now, to, past, datagram),
            }
        }
    }

    fn translate(&mut self, now: Time, index: usize, past: Past, datagram: &Datagram) {
        if let End::Translator(translator) = &mut self.ends[index] {
            translator.pass_on(now, past, datagram);
            self.settle(now, index);
        }
    }

    /// Handles an event of a page or the signalling server.
    fn handle_signalling(&mut self, now: Time, index: usize, event: SignallingEvent) {
        match event {
            SignallingEvent::Present(pages) => {
                for end in 0..self.ends.len() {
                    let Wiring { page, far_page, .. } = self.wiring[end];
                    if page == Some(index) && far_page.is_none_or(|page| pages.contains(&page)) {
                        self.ends[end].handle_present(now);
                        self.settle(now, end);
                    }
                }
            }
            SignallingEvent::Signal(signal) => {
                if let Some(end) = self.index_of(signal.to) {
                    self.ends[end].handle_signal(now, signal);
                    self.settle(now, end);
                }
            }
        }
    }

    fn handle_event(&mut self, now: Time, index: usize, event: EndpointEvent) {
        match event {
            EndpointEvent::EncodeRequested { stream, pixels, size } => {
                let ready = self.host.as_mut().map_or(now, |host| host.encode(now, pixels, size));
                if let End::Peer(peer) = &mut self.ends[index] {
                    peer.handle_encoded(stream, ready);
                }
                return;
            }
            EndpointEvent::Composed { at } => {
                let of = self.rooms.compose(index, at);
                let of = of.map(|(end, number)| Decoded { end: self.ports[end], number }).collect();
                return self.events.push_back(NodeEvent::Composed {
                    end: self.ports[index],
                    at,
                    of,
                });
            }
            EndpointEvent::PacketsRequested { ssrc, ref lost } => {
                let fan_out = self.wiring[index].media_from.map(|from| &self.fan_outs[from]);
                if let (Some(Some(fan_out)), End::Peer(peer)) = (fan_out, &mut self.ends[index]) {
                    peer.retransmit(now, fan_out, ssrc, lost);
                }
                return;
            }
            EndpointEvent::Published => {
                for end in self.wiring[index].media_to.clone() {
                    if let End::Peer(peer) = &mut self.ends[end] {
                        peer.handle_published();
                        self.settle(now, end);
                    }
                }
                return;
            }
            EndpointEvent::KeyFrameRequested => return self.request_key_frame(now, index),
            EndpointEvent::Signal(signal) => {
                let Some(to) = self.wiring[index].page.or(self.signalling) else { return };
                match &mut self.ends[to] {
                    End::Page(page) => page.send(signal),
                    End::Signalling(server) => server.send(now, signal),
                    _ => {}
                }
                return self.settle(now, to);
            }
            EndpointEvent::FrameRendered { ref frame, .. } => self.show(now, index, frame),
            EndpointEvent::Left => {
                for end in self.rooms.leave(index) {
                    self.set_pictures_from(end, Time::MAX);
                }
            }
            _ => {}
        }
        self.events.push_back(NodeEvent::Endpoint(self.ports[index], event));
    }

    fn request_key_frame(&mut self, now: Time, index: usize) {
        let Some(source) = self.wiring[index].media_from else { return };
        if let End::Peer(peer) = &mut self.ends[source] {
            peer.request_key_frame(now);
            self.settle(now, source);
        }
    }

    /// An end shows a picture, or a server that mixes decodes it.
    fn show(&mut self, now: Time, index: usize, frame: &Rendered) {
        let (width, height) = frame.resolution;
        let pixels = u32::from(width) * u32::from(height);
        let ready = self.host.as_mut().map_or(now, |host| host.decode(now, pixels));
        for end in self.rooms.decode(index, now, ready) {
            self.set_pictures_from(end, ready);
        }
    }

    fn set_pictures_from(&mut self, index: usize, at: Time) {
        if let End::Peer(peer) = &mut self.ends[index] {
            peer.set_pictures_from(at);
        }
    }

    /// Lets a datagram out; returns the address from which it enters the network, or `None` if it does not.
    ///
    /// A NAT acts on what goes from one end of a call to another. A server that answers its client, as signalling, STUN
    /// servers and relays do, always gets through a NAT that lets out the request.
    fn let_out(&mut self, from: Address, transmit: &Transmit) -> Option<Address> {
        let Transmit { to, via, ref datagram, .. } = *transmit;
        // Without UDP there is no address outside, and nobody has a route to the one inside.
        let is_direct = is_between_ends(via, datagram);
        if is_direct && self.unreachable.contains(&to.node) {
            return None;
        }
        let Some(nat) = &mut self.nat else { return Some(from) };
        if is_direct {
            return nat.send(from.port, to).map(|port| Address { port, ..from });
        }
        (nat.passes_udp() || !is_udp(datagram)).then_some(from)
    }

    /// Lets a datagram in; returns the index of the end that gets it, or `None` if it is filtered.
    fn let_in(&self, port: u32, received: &Arriving<'_>) -> Option<usize> {
        let port = match &self.nat {
            Some(nat) if is_between_ends(received.via, received.datagram) => {
                nat.receive(received.from, port)?
            }
            _ => port,
        };
        self.index_of(port)
    }
}

/// Whether a datagram passes a TURN relay, or is part of the exchange with it.
fn is_relayed(via: Via, datagram: &Datagram) -> bool {
    matches!(via, Via::Relay(_)) || matches!(datagram.content, Content::Allocation(_))
}

/// Whether a datagram goes from one end of a call to the other without a server in between.
fn is_between_ends(via: Via, datagram: &Datagram) -> bool {
    via == Via::Direct && datagram.content.protocol().is_some()
}

/// Whether a datagram of a call, or to a server, is UDP.
fn is_udp(datagram: &Datagram) -> bool {
    let content = &datagram.content;
    content.protocol().is_some() || matches!(content, Content::Allocation(_) | Content::Binding)
}

impl End {
    /// Whether a datagram that arrived here is handed to the ends that forward it.
    fn passes_on(&self, datagram: &Datagram) -> bool {
        match (self, &datagram.content) {
            (End::Peer(peer), Content::Rtp(_)) => peer.decrypts(),
            (End::Translator(_), Content::Rtp(_) | Content::Rtcp(_)) => true,
            _ => false,
        }
    }
}
