//! Two nodes with ends of every kind, and the network between them.

use super::input::Input;
use rtclab_core::catalogue::Catalogue;
use rtclab_core::cc::{CongestionControlConfig, Halves};
use rtclab_core::endpoint::{
    Addresses, AudioConfig, Direction, EndpointEvent, ForwardingMode, Media, Negotiation, Observe,
    Peer, PeerConfig, ServerKind, ServerSetup, Session, StreamConfig, Translator,
};
use rtclab_core::media::codec::Codec;
use rtclab_core::media::encoder::VideoConfig;
use rtclab_core::media::host::{Host, HostConfig};
use rtclab_core::media::repair::Repair;
use rtclab_core::nat::{Nat, NatKind};
use rtclab_core::network::NodeId;
use rtclab_core::node::{Arriving, Departing, End, Node, NodeEvent};
use rtclab_core::packet::{Address, Content, Datagram, Described, Past, Via};
use rtclab_core::signalling;
use rtclab_core::stack::{PROFILES, StackProfile};
use rtclab_core::tcp::{self, ObjectsConfig};
use rtclab_core::turn_tcp::{Carried, TurnStream};
use rtclab_core::udp::{ConstantRate, UdpSink, UdpSource};
use rtclab_core::units::{Bitrate, Bytes, Time};
use std::collections::VecDeque;
use std::mem::{Discriminant, discriminant};
use std::sync::Arc;

/// The participant's node and the server's. The server is also the relay.
pub(super) const PARTICIPANT: NodeId = NodeId(0);
pub(super) const SERVER: NodeId = NodeId(1);

/// Ports of all ends. Those of a connection are adjacent, the participant's is even.
const SENDS: u32 = 0;
const TERMINATED: u32 = 2;
const SENDS_SWITCHED: u32 = 4;
const SWITCHED: u32 = 6;
const MIXED: [u32; 2] = [8, 10];
const TCP: u32 = 12;
const UDP: u32 = 14;
const TURN: u32 = 16;
const PAGE: u32 = 18;
/// Ports outside the NAT follow.
pub(super) const PORTS: u32 = 20;

/// One-way delay between the two nodes.
const DELAY: Time = Time::from_millis(5);
/// When all calls end, beyond the end of every input.
const END: Time = Time::from_secs(60);
/// Datagrams that may wait in a connection with the relay. Ends whose buffers are full drop them.
const MOST_HELD: usize = 1_000;
/// What one node may tell its driver, or send, before it is given something again.
const MOST_DRAINED: usize = 20_000;
/// Timeouts of one end at one moment; as in the simulator, which takes more for a standstill.
const MOST_AT_ONCE: u64 = 1_000;
/// Timeouts and arrivals in a second of virtual time.
const MOST_STEPS: u64 = 100_000;

/// A datagram between the two nodes.
#[derive(Clone)]
struct Flight {
    at: Time,
    from: Address,
    to: Address,
    via: Via,
    past: Past,
    datagram: Datagram,
}

/// The nodes, what is on its way, and what can be imitated.
pub(super) struct World {
    pub(super) now: Time,
    nodes: [Node; 2],
    flights: VecDeque<Flight>,
    /// Datagrams in connections with the relay, by number.
    held: VecDeque<(u32, Flight)>,
    next_number: u32,
    /// How many of the next datagrams the network loses.
    pub(super) to_lose: u8,
    /// The latest datagram that came to each port, the port it came to in an order, and where from.
    pub(super) arrived: Vec<(Address, Address, Datagram)>,
    /// Timeouts since time last went on.
    at_once: u64,
}

/// What an input chooses of the two nodes.
struct Choice {
    control: usize,
    stack: &'static StackProfile,
    repair: Repair,
    streams: u8,
    nat: Option<NatKind>,
    relayed: bool,
    by_page: bool,
    server: Option<ServerKind>,
    browser: bool,
    with_host: bool,
    forwarding: ForwardingMode,
    algorithm: tcp::Algorithm,
    /// Connections that there are none of, by bit.
    without: u8,
}

impl Choice {
    fn new(input: &mut Input<'_>) -> Self {
        const REPAIRS: [Repair; 5] = [
            Repair::Rtx,
            Repair::RtxAndUlpfec,
            Repair::Nack2013,
            Repair::Hybrid2013FecAlways,
            Repair::None,
        ];
        let nats = [NatKind::PortRestricted, NatKind::Symmetric, NatKind::UdpBlocked];
        let algorithms = tcp::Algorithm::ALL;
        let stack = &PROFILES[input.below(PROFILES.len())];
        let nat = nats.get(input.below(4)).copied();
        let flags = input.u8();
        Choice {
            control: input.below(Catalogue::ours().algorithms().len()),
            stack,
            repair: match input.below(REPAIRS.len() + 1) {
                0 => stack.repair,
                choice => REPAIRS[choice - 1],
            },
            streams: flags & 3,
            relayed: flags & 4 != 0 || nat == Some(NatKind::UdpBlocked),
            nat,
            by_page: flags & 8 != 0,
            server: [None, Some(ServerKind::Janus), Some(ServerKind::Str0m)][input.below(3)],
            browser: flags & 16 != 0,
            with_host: flags & 32 != 0,
            forwarding: if flags & 64 != 0 {
                ForwardingMode::Controlled
            } else {
                ForwardingMode::AtOnce
            },
            algorithm: algorithms[input.below(algorithms.len())],
            without: input.u8(),
        }
    }

    /// Whether there is an end with this port.
    fn has(&self, port: u32) -> bool {
        let bit = match port {
            0..SENDS_SWITCHED => 1,
            SENDS_SWITCHED..8 => 2,
            8..TCP => 4,
            TCP..UDP => 8,
            UDP..TURN => 16,
            _ => 0,
        };
        self.without & bit == 0
    }

    fn halves(&self, direction: &Direction) -> Halves {
        let catalogue = Catalogue::ours();
        let name = catalogue.algorithms()[self.control].name.to_string();
        let config = CongestionControlConfig { name, options: Default::default() };
        let choice = catalogue.choose(&config).expect("one of ours");
        choice.create(direction.bounds()).expect("it does not panic")
    }

    /// Camera, microphone or both.
    fn streams(&self, port: u32) -> Vec<StreamConfig> {
        let video = Media::Video(VideoConfig {
            width: 320,
            height: 180,
            frame_rate: 15.0,
            codec: Codec::Vp8,
            min_bps: Bitrate::from_kbps(30),
            max_bps: Bitrate::from_kbps(400),
            start_bps: Bitrate::from_kbps(200),
            steady: true,
        });
        let frame_ns = Time::from_millis(20);
        let audio = Media::Audio(AudioConfig { bitrate_bps: Bitrate::from_kbps(32), frame_ns });
        let media: &[Media] = match self.streams {
            0 => &[video],
            1 => &[audio],
            2 => &[audio, video],
            _ => &[video, audio],
        };
        let base = ssrc(port);
        let stream = |(number, &media): (u32, &Media)| StreamConfig {
            ssrc: base + 2 * number,
            repair_ssrc: base + 2 * number + 1,
            media,
            repair: self.repair,
        };
        (0..).zip(media).map(stream).collect()
    }

    fn direction(&self, port: Option<u32>) -> Direction {
        let streams = port.map_or(Vec::new(), |port| self.streams(port));
        Direction { streams, stack: self.stack }
    }

    fn addresses(&self, port: u32) -> Addresses {
        let relay = (self.relayed && port / 2 == SENDS / 2).then_some(SERVER);
        Addresses { local: address(port), remote: address(port ^ 1), relay, core: SERVER }
    }

    fn session(&self, port: u32) -> Session {
        let negotiation = match self.by_page {
            false => Negotiation::Bursts,
            true => Negotiation::Page {
                seed: u64::from(port),
                pace: 1,
                browser: self.browser && port % 2 == 0,
                described: Described::Both,
                server: self
                    .server
                    .map(|kind| ServerSetup { kind, subscribes: port / 2 != SENDS / 2 }),
            },
        };
        let behind_nat = self.nat.is_some() && port % 2 == 0;
        // The server offers what it forwards.
        let offerer = (port % 2 == 0) != matches!(port & !1, TERMINATED | SWITCHED);
        Session { offerer, negotiation, behind_nat, start: Time::ZERO, end: END }
    }

    /// An end that sends the streams of one port, and receives the streams of another.
    fn peer(&self, port: u32, streams: [Option<u32>; 2]) -> (u32, End) {
        self.created(port, self.config(port, streams))
    }

    fn config(&self, port: u32, [sends, receives]: [Option<u32>; 2]) -> PeerConfig {
        let (sends, receives) = (self.direction(sends), self.direction(receives));
        let composes = port % 2 == 1 && MIXED.contains(&(port - 1));
        PeerConfig {
            addresses: self.addresses(port),
            session: self.session(port),
            ssrc: ssrc(port) + 9,
            forwards: None,
            plays: composes || port % 2 == 0,
            encodes_slowly: self.with_host && port % 2 == 0,
            composes,
            pause: None,
            observe: Observe::EachChange,
            seed: 7 + u64::from(port),
            sends,
            receives,
        }
    }

    fn created(&self, port: u32, config: PeerConfig) -> (u32, End) {
        let (controller, _) = self.halves(&config.sends);
        let (_, estimator) = self.halves(&config.receives);
        (port, End::Peer(Box::new(Peer::new(config, (controller, estimator)))))
    }

    /// An end that forwards the streams of another port.
    fn forwarder(&self, port: u32, of: u32) -> (u32, End) {
        let config =
            PeerConfig { forwards: Some(self.forwarding), ..self.config(port, [Some(of), None]) };
        self.created(port, config)
    }

    /// An end that passes everything on.
    fn translator(&self, port: u32) -> (u32, End) {
        let translator = Translator::new(self.addresses(port), self.session(port));
        (port, End::Translator(Box::new(translator)))
    }

    fn participant(&self) -> Node {
        let objects = ObjectsConfig {
            min_bytes: Bytes(10_000),
            max_bytes: Bytes(200_000),
            mean_idle_ns: Time::from_millis(200),
            idle_first: false,
        };
        let client = tcp::TcpClientConfig {
            congestion_control: self.algorithm,
            ecn: self.forwarding == ForwardingMode::Controlled,
            start: Time::ZERO,
            stop: END,
            objects: Some(objects),
            seed: 3,
        };
        let rate = ConstantRate { rate_bps: Bitrate::from_kbps(50), packet_bytes: Bytes(500) };
        let page = signalling::SignallingClientConfig {
            server: address(PAGE + 1),
            open: Time::ZERO,
            close: END,
            browser: self.browser,
            seed: 4,
            pace: 1,
        };
        let [first, second] = MIXED.map(|port| self.peer(port, [Some(port), Some(port + 1)]));
        let ends = vec![
            self.peer(SENDS, [Some(SENDS), None]),
            self.peer(TERMINATED, [None, Some(SENDS)]),
            self.peer(SENDS_SWITCHED, [Some(SENDS_SWITCHED), None]),
            self.peer(SWITCHED, [None, Some(SENDS_SWITCHED)]),
            first,
            second,
            (TCP, End::Client(Box::new(tcp::TcpClient::new(client, address(TCP + 1))))),
            (UDP, End::Source(Box::new(UdpSource::new(rate, Time::ZERO, END, address(UDP + 1))))),
            (TURN, End::Turn(Box::new(TurnStream::client(address(TURN + 1))))),
            (PAGE, End::Page(Box::new(signalling::SignallingClient::new(page)))),
        ];
        let ends = ends.into_iter().filter(|(port, _)| self.has(*port)).collect();
        let mut node = Node::new(PARTICIPANT, ends);
        if self.with_host {
            let config = HostConfig {
                encoder_capacity_pixels_per_second: 5e6,
                encoder_output_bps: Some(Bitrate::from_mbps(10)),
                decoder_capacity_pixels_per_second: Some(5e7),
                variation: None,
            };
            node.set_host(Host::new(config, 5));
        }
        node.set_nat(self.nat.map(|kind| Nat::new(kind, PORTS)), Arc::new([]));
        if self.nat == Some(NatKind::UdpBlocked) {
            node.relay_over_tcp(SENDS, TURN);
        }
        if self.by_page {
            (0..TCP).step_by(2).for_each(|port| node.meet(port, Some(PAGE), None));
        }
        node
    }

    fn server(&self) -> Node {
        let pages = vec![address(PAGE)];
        let page_of = (0..TCP).map(|port| (port % 2 == 0).then_some(0)).collect();
        let server = signalling::SignallingServerConfig { pages, page_of };
        let [first, second] = MIXED.map(|port| self.peer(port + 1, [Some(port + 1), Some(port)]));
        let ends = vec![
            self.peer(SENDS + 1, [None, Some(SENDS)]),
            self.forwarder(TERMINATED + 1, SENDS),
            self.translator(SENDS_SWITCHED + 1),
            self.translator(SWITCHED + 1),
            first,
            second,
            (TCP + 1, End::Server(Box::new(tcp::TcpServer::new(address(TCP))))),
            (UDP + 1, End::Sink(UdpSink)),
            (TURN + 1, End::Turn(Box::new(TurnStream::relay(address(TURN))))),
            (PAGE + 1, End::Signalling(Box::new(signalling::SignallingServer::new(server)))),
        ];
        let ends = ends.into_iter().filter(|(port, _)| self.has(*port)).collect();
        let mut node = Node::new(SERVER, ends);
        node.forward(SENDS + 1, TERMINATED + 1);
        node.forward(SENDS_SWITCHED + 1, SWITCHED + 1);
        MIXED.iter().for_each(|port| node.enter_room(port + 1, 0));
        if self.nat == Some(NatKind::UdpBlocked) {
            node.relay_to(SENDS, TURN + 1);
        }
        if self.by_page {
            (0..TCP).step_by(2).for_each(|port| node.meet(port + 1, None, Some(PAGE)));
        }
        node
    }
}

/// The first SSRC of what an end sends.
pub(super) fn ssrc(port: u32) -> u32 {
    1_000 * (port + 1)
}

pub(super) fn address(port: u32) -> Address {
    let node = if port % 2 == 0 { PARTICIPANT } else { SERVER };
    Address { node, port }
}

/// Kind of content and, of media, the stream.
fn kind_of(datagram: &Datagram) -> (Discriminant<Content>, u32) {
    let ssrc = match &datagram.content {
        Content::Rtp(packet) => packet.header.ssrc,
        _ => 0,
    };
    (discriminant(&datagram.content), ssrc)
}

impl World {
    /// Two nodes as an input chooses them. They are connected after half a second, if their set-up takes no work.
    pub(super) fn new(input: &mut Input<'_>) -> Self {
        let choice = Choice::new(input);
        World {
            now: Time::ZERO,
            nodes: [choice.participant(), choice.server()],
            flights: VecDeque::new(),
            held: VecDeque::new(),
            next_number: 0,
            to_lose: 0,
            arrived: Vec::new(),
            at_once: 0,
        }
    }

    /// Runs up to a time, and everything that happens at that time.
    pub(super) fn advance(&mut self, until: Time) {
        let mut steps = 0;
        while let Some(next) = self.next().filter(|next| *next <= until) {
            if next > self.now {
                (self.now, self.at_once) = (next, 0);
            }
            self.step();
            steps += 1;
            let most = MOST_STEPS + MOST_STEPS * until.as_millis() / 1_000;
            assert!(steps < most, "{steps} steps before {until}");
        }
        if until > self.now {
            (self.now, self.at_once) = (until, 0);
        }
    }

    /// When something happens next.
    pub(super) fn next(&self) -> Option<Time> {
        let timeouts = self.nodes.iter().filter_map(Node::poll_timeout);
        let arrival = self.flights.front().map(|flight| flight.at);
        timeouts.chain(arrival).min().map(|next| next.max(self.now))
    }

    fn step(&mut self) {
        if self.flights.front().is_some_and(|flight| flight.at <= self.now) {
            let flight = self.flights.pop_front().expect("it was there");
            return self.arrive(flight);
        }
        for node in [PARTICIPANT, SERVER] {
            if self.nodes[node.0 as usize].poll_timeout().is_some_and(|at| at <= self.now) {
                self.at_once += 1;
                let due = self.nodes[node.0 as usize].due();
                let most = MOST_AT_ONCE * u64::from(PORTS);
                assert!(self.at_once < most, "{due:?} stands still at {}", self.now);
                return self.handle_timeout(node);
            }
        }
    }

    /// Calls a node that may not be due.
    pub(super) fn handle_timeout(&mut self, node: NodeId) {
        self.nodes[node.0 as usize].handle_timeout(self.now);
        self.drain(node);
    }

    /// Gives a node a datagram that nobody has sent.
    pub(super) fn inject(&mut self, from: Address, to: Address, via: Via, datagram: &Datagram) {
        let received = Arriving { from, via, past: Past::new(self.now), datagram };
        self.nodes[to.node.0 as usize].handle_datagram(self.now, to.port, &received);
        self.drain(to.node);
    }

    fn arrive(&mut self, flight: Flight) {
        let through = match flight.via {
            Via::Server(node) | Via::Relay(node) => Some(node),
            Via::Direct => None,
        };
        match through {
            Some(node) => self.pass(node, flight),
            None => self.receive(flight),
        }
    }

    /// Lets the server or relay pass a datagram on.
    fn pass(&mut self, node: NodeId, flight: Flight) {
        let relay = &self.nodes[node.0 as usize];
        match relay.stream_to(flight.to, flight.via, &flight.datagram) {
            Some(stream) => {
                self.carry(node, stream, flight);
                self.drain(node);
            }
            None => self.receive(flight),
        }
    }

    fn receive(&mut self, flight: Flight) {
        let Flight { from, to, via, past, datagram, .. } = flight;
        let received = Arriving { from, via, past, datagram: &datagram };
        self.nodes[to.node.0 as usize].handle_datagram(self.now, to.port, &received);
        self.imitate(from, to, datagram);
        self.drain(to.node);
    }

    /// Keeps a datagram that can be imitated, in place of the last one of its kind.
    pub(super) fn imitate(&mut self, from: Address, to: Address, datagram: Datagram) {
        let kind = kind_of(&datagram);
        self.arrived.retain(|(_, port, other)| *port != to || kind_of(other) != kind);
        self.arrived.push((from, to, datagram));
    }

    /// Puts a datagram into a connection with the relay.
    fn carry(&mut self, node: NodeId, stream: u32, flight: Flight) {
        let number = self.next_number;
        self.next_number += 1;
        let size = flight.datagram.size;
        if self.nodes[node.0 as usize].carry(self.now, stream, size, number) {
            self.held.push_back((number, flight));
            self.held.truncate(MOST_HELD);
        }
    }

    fn handle_carried(&mut self, node: NodeId, stream: u32, carried: Carried) {
        let place = self.held.iter().position(|(number, _)| *number == carried.datagram);
        let Some((_, flight)) = place.and_then(|place| self.held.remove(place)) else { return };
        match self.nodes[node.0 as usize].is_client(stream) {
            true => self.receive(flight),
            false => self.pass(node, flight),
        }
    }

    /// Takes everything that a node has to say and to send.
    fn drain(&mut self, node: NodeId) {
        let index = node.0 as usize;
        let mut drained = 0;
        let mut count = || {
            drained += 1;
            assert!(drained < MOST_DRAINED, "{drained} events and datagrams at once");
        };
        while let Some(event) = self.nodes[index].poll_event() {
            count();
            match event {
                NodeEvent::Carried(stream, carried) => self.handle_carried(node, stream, carried),
                NodeEvent::Endpoint(port, EndpointEvent::Failed(error)) => {
                    panic!("the control at port {port} fails: {error}")
                }
                _ => {}
            }
        }
        while let Some(departing) = self.nodes[index].poll_transmit(self.now) {
            count();
            let Departing { from, stream, transmit, .. } = departing;
            let (to, via, past, datagram) =
                (transmit.to, transmit.via, transmit.past, transmit.datagram);
            let flight = Flight { at: self.now + DELAY, from, to, via, past, datagram };
            match stream {
                Some(stream) => self.carry(node, stream, flight),
                None if self.to_lose > 0 => self.to_lose -= 1,
                None => self.flights.push_back(flight),
            }
        }
    }
}
