//! Builds endpoints, network and recorder from a configuration.

use super::config::{ConnectionConfig, ParticipantConfig, SimConfig, SimError, TrafficConfig};
use super::ends::End;
use super::links::Links;
use super::mixing::Mixer;
use super::nats::Nats;
use super::{CreateControl, Machine, Place, Simulation};
use crate::capture::Description;
use crate::cc::{self, CongestionControlConfig};
use crate::endpoint::setup::work::join_delay;
use crate::endpoint::{
    Addresses, Direction, Forwarder, ForwarderConfig, Forwarding, Media, Negotiation, Observe,
    Peer, PeerConfig, Session, StreamConfig,
};
use crate::media::host::Host;
use crate::nat::NatKind;
use crate::network::{Network, NodeId, derive_seed};
use crate::packet::{Address, Described};
use crate::record::{Detail, FlowConfig, FlowId, Recorder, Source};
use crate::signalling;
use crate::stack::{PROFILES, SetupProfile, StackProfile};
use crate::tcp::{Client, ClientConfig, Server};
use crate::timeouts::Timeouts;
use crate::turn_tcp::TurnStream;
use crate::udp::{self, ConstantRate};
use crate::units::Time;
use std::collections::HashMap;

/// Index of the random stream of cross traffic, far from the indices of the connections.
const TRAFFIC_STREAM: u64 = 1 << 32;
/// Index of the random stream of the work during set-up.
const SETUP_STREAM: u64 = 1 << 33;
/// Index of the random stream of the work of pages at the signalling server.
const PAGE_STREAM: u64 = 1 << 34;
/// The pace of the machine that pages and browsers work on.
const PACE_STREAM: u64 = 1 << 35;
/// Index of the first random stream of the times until pages join, one for each node.
const JOIN_STREAM: u64 = 1 << 37;
/// Index of the first random stream of the machines of participants.
const HOST_STREAM: u64 = 1 << 36;
/// Name of the node where servers are.
const CORE: &str = "core";

/// Nodes by name.
struct Nodes<'a>(HashMap<&'a str, NodeId>);

impl Nodes<'_> {
    fn get(&self, name: &str) -> Result<NodeId, SimError> {
        self.0.get(name).copied().ok_or_else(|| {
            let mut known: Vec<_> = self.0.keys().collect();
            known.sort();
            SimError::Unknown(format!(
                "`{name}` is not a node of the network; expected one of {known:?}"
            ))
        })
    }
}

/// Flows, ordered by [`FlowId`].
#[derive(Default)]
struct Flows {
    flows: Vec<FlowConfig>,
    ids: HashMap<String, FlowId>,
}

impl Flows {
    /// The flow with this name. If several connections share it, it ends with the last of them.
    fn get(&mut self, name: String, end: Time) -> FlowId {
        if let Some(id) = self.ids.get(&name) {
            let flow = &mut self.flows[id.0 as usize];
            flow.end = flow.end.max(end);
            return *id;
        }
        let id = FlowId(self.flows.len() as u32);
        self.ids.insert(name.clone(), id);
        self.flows.push(FlowConfig { name, end });
        id
    }
}

/// Addresses and flow of one end of a connection in a call.
#[derive(Clone, Copy)]
struct EndConfig {
    local: Address,
    remote: Address,
    relay: Option<NodeId>,
    flow: FlowId,
}

/// The simulation at the start of a run, and what the ends of calls send, for captures.
pub(super) fn simulation(
    config: &SimConfig,
    create: &CreateControl<'_>,
) -> Result<(Simulation<'static>, Vec<Description>), SimError> {
    config.check().map_err(SimError::Field)?;
    let network = Network::new(config.network.clone(), derive_seed(config.seed, 0))
        .map_err(SimError::Network)?;
    let names = config.network.nodes.iter().enumerate();
    let nodes = Nodes(names.map(|(i, name)| (name.as_str(), NodeId(i as u32))).collect());
    let mut flows = Flows::default();
    let end_configs = end_configs(config, &nodes, &mut flows)?;
    let traffic = Traffic::new(config, &network, &nodes, &mut flows, end_configs.len() as u32)?;
    let paths: Vec<String> = config.network.paths.iter().map(|p| p.name.clone()).collect();
    let mut recorder = Recorder::new(config.record, &flows.flows, &paths);
    let mut builder = Builder {
        config,
        create,
        participants: by_name(&config.participants),
        mixers: by_name(&config.mixers),
        core: nodes.get(CORE)?,
        end_configs,
        ends: Vec::new(),
        places: Vec::new(),
        descriptions: Vec::new(),
        meets: Vec::new(),
        mixer: Mixer::default(),
    };
    for index in 0..builder.end_configs.len() {
        builder.add_end(index, &mut recorder)?;
    }
    let Builder { end_configs, mut ends, mut places, descriptions, meets, mixer, core, .. } =
        builder;
    traffic.add_ends(&flows.flows, &mut ends, &mut places);
    let signalling = add_signalling(config, core, &meets, &mut ends, &mut places);
    for index in 0..places.len() {
        if let Some(from) = places[index].media_from {
            places[from].media_to.push(index);
        }
    }
    let mut machines = Vec::new();
    for node in config.participants.iter().chain(&config.mixers) {
        if let Some(host) = node.host {
            let seed = derive_seed(config.seed, HOST_STREAM + machines.len() as u64);
            let (name, host) = (recorder.text(&node.name), Host::new(host, seed));
            machines.push(Machine { node: nodes.get(&node.name)?, name, host });
        }
    }
    add_turn_streams(config, &end_configs, &mut ends, &mut places);
    let nats = Nats::new(config, ends.len());
    let timeouts = Timeouts::new(ends.iter().map(End::poll_timeout));
    let links = Links::new(network);
    let simulation = Simulation {
        links,
        ends,
        places,
        timeouts,
        machines,
        mixer,
        nats,
        signalling,
        recorder,
        capture: None,
        failure: None,
    };
    Ok((simulation, descriptions))
}

/// Two ends per connection, `a` before `b`. The port of an address is the index of its end.
fn end_configs(
    config: &SimConfig,
    nodes: &Nodes<'_>,
    flows: &mut Flows,
) -> Result<Vec<EndConfig>, SimError> {
    let mut end_configs = Vec::new();
    for connection in &config.connections {
        let port = end_configs.len() as u32;
        let a = Address { node: nodes.get(&connection.a)?, port };
        let b = Address { node: nodes.get(&connection.b)?, port: port + 1 };
        let relay = connection.relay.as_deref().map(|name| nodes.get(name)).transpose()?;
        let end = end_of(config, connection);
        let [there, back] = connection.flow_names().map(|name| flows.get(name, end));
        end_configs.push(EndConfig { local: a, remote: b, relay, flow: there });
        end_configs.push(EndConfig { local: b, remote: a, relay, flow: back });
    }
    Ok(end_configs)
}

/// When a connection ends: at its configured end, or earlier if a participant leaves.
fn end_of(config: &SimConfig, connection: &ConnectionConfig) -> Time {
    let of = |p: &&ParticipantConfig| p.name == connection.a || p.name == connection.b;
    config.participants.iter().filter(of).fold(connection.end_ns, |end, p| end.min(p.leave_ns))
}

struct Builder<'a> {
    config: &'a SimConfig,
    create: &'a CreateControl<'a>,
    participants: HashMap<&'a str, &'a ParticipantConfig>,
    mixers: HashMap<&'a str, &'a ParticipantConfig>,
    core: NodeId,
    end_configs: Vec<EndConfig>,
    ends: Vec<End>,
    places: Vec<Place>,
    descriptions: Vec<Description>,
    /// Ends of calls that meet over signalling.
    meets: Vec<(usize, Session)>,
    mixer: Mixer,
}

impl<'a> Builder<'a> {
    /// Adds the end with this index.
    fn add_end(&mut self, index: usize, recorder: &mut Recorder) -> Result<(), SimError> {
        let connection = &self.config.connections[index / 2];
        let offerer = index.is_multiple_of(2);
        let (here, there) = match offerer {
            true => (connection.a.as_str(), connection.b.as_str()),
            false => (connection.b.as_str(), connection.a.as_str()),
        };
        let (own, other) = (self.participants.get(here).copied(), self.participants.get(there));
        let other = other.copied();
        let [own_media, other_media] = [here, there].map(|name| self.sender(connection, name));
        let EndConfig { local, remote, relay, flow } = self.end_configs[index];
        let addresses = Addresses { local, remote, relay, core: self.core };
        let origin = self.origin(index / 2)?;
        let first = &self.config.connections[origin];
        let sender = self.sender(first, &first.a).ok_or_else(|| unknown_sender(&first.a))?;
        let mut session = Session {
            negotiation: self.negotiation(
                index,
                own.is_some(),
                [own_media, other_media, Some(sender)],
            )?,
            ..session(connection, offerer, [own, other])
        };
        if own.is_some() && matches!(session.negotiation, Negotiation::Page { .. }) {
            let own_join = joins_after(self.config, local.node);
            // What somebody else sends cannot come before that page has joined.
            let of_origin = joins_after(self.config, self.end_configs[2 * origin].local.node);
            session.start +=
                if connection.forwards.is_some() { own_join.max(of_origin) } else { own_join };
        }
        let passes_on = match offerer {
            true => connection.forwards.is_some(),
            false => connection.switching && own.is_none(),
        };
        let control_of = own_media.unwrap_or(sender);
        let (end, source) = if passes_on {
            let forwarding = match connection.switching {
                true => Forwarding::Switching,
                false => Forwarding::Terminating,
            };
            let stack = stack_of(sender)?;
            let streams = streams(sender, 2 * origin, stack);
            self.describe(index, local, &Direction { streams: streams.clone(), stack });
            let config = ForwarderConfig { addresses, session, forwarding, streams };
            (End::Forwarder(Box::new(Forwarder::new(config))), None)
        } else {
            // Media from a forwarder has the SSRCs and the clock of its original sender.
            let remote_index = if offerer { index ^ 1 } else { 2 * origin };
            let source = Source {
                participant: recorder.text(here),
                is_participant: own_media.is_some(),
                sends: flow,
                receives: self.end_configs[index ^ 1].flow,
                timestamp_offset: self.seed(remote_index) as u32,
            };
            let sends = own_media.filter(|_| offerer || !connection.one_way);
            let remote = if offerer { other_media } else { Some(sender) };
            let receives = remote.filter(|_| !offerer || !connection.one_way);
            let from = remote.unwrap_or(control_of);
            let config = PeerConfig {
                addresses,
                session,
                ssrc: ssrc_base(index) + 1,
                sends: direction(sends, index, stack_of(control_of)?),
                receives: direction(receives, remote_index, stack_of(from)?),
                plays: own_media.is_some(),
                encodes_slowly: own_media.is_some_and(|own| own.host.is_some()),
                composes: own.is_none() && own_media.is_some(),
                observe: match self.config.record {
                    Detail::Packets => Observe::EachChange,
                    Detail::Seconds => Observe::EachSecond,
                },
                seed: self.seed(index),
            };
            self.describe(index, local, &config.sends);
            let create = |control: &CongestionControlConfig, direction: &Direction| {
                (self.create)(control, direction.bounds()).map_err(SimError::CongestionControl)
            };
            let (controller, _) = create(&control_of.congestion_control, &config.sends)?;
            let (_, estimator) = create(&from.congestion_control, &config.receives)?;
            (End::Peer(Box::new(Peer::new(config, (controller, estimator)))), Some(source))
        };
        if session.negotiation != Negotiation::Bursts {
            self.meets.push((index, session));
        }
        if let Some(conference) = connection.conference.filter(|_| own.is_none()) {
            own_media.ok_or_else(|| unknown_sender(here))?;
            self.mixer.add(index, (local.node, conference));
        }
        let media_from = connection.forwards.filter(|_| offerer).map(|source| 2 * source + 1);
        self.ends.push(end);
        self.places.push(Place {
            node: local.node,
            flow,
            data_flow: flow,
            source,
            control: format!(
                "congestion control `{}` of {here} on {here}->{there}",
                control_of.congestion_control.name
            ),
            owner: format!("{here} on {here}->{there}"),
            media_from,
            media_to: Vec::new(),
            page: None,
            turn: None,
        });
        Ok(())
    }

    fn describe(&mut self, index: usize, from: Address, sends: &Direction) {
        self.descriptions.push(Description {
            from,
            flow: self.config.connections[index / 2].flow_names()[index % 2].clone(),
            streams: sends.streams.clone(),
            feedback: sends.stack.feedback,
        });
    }

    /// How the oldest stack in a connection negotiates.
    fn negotiation(
        &self,
        index: usize,
        browser: bool,
        participants: [Option<&ParticipantConfig>; 3],
    ) -> Result<Negotiation, SimError> {
        let mut oldest = SetupProfile::Page;
        for participant in participants.into_iter().flatten() {
            oldest = oldest.min(stack_of(participant)?.setup);
        }
        Ok(match oldest {
            SetupProfile::Bursts => Negotiation::Bursts,
            SetupProfile::Page => Negotiation::Page {
                seed: derive_seed(self.config.seed, SETUP_STREAM + index as u64),
                pace: derive_seed(self.config.seed, PACE_STREAM),
                browser,
                described: described(participants),
            },
        })
    }

    fn seed(&self, index: usize) -> u64 {
        derive_seed(self.config.seed, 1 + index as u64)
    }

    /// The participant of this name or, in a conference, the server that mixes.
    fn sender(&self, connection: &ConnectionConfig, name: &str) -> Option<&'a ParticipantConfig> {
        let mixer = || connection.conference.and_then(|_| self.mixers.get(name));
        self.participants.get(name).or_else(mixer).copied()
    }

    /// Index of the connection whose `a` is the original sender of what this one carries.
    fn origin(&self, mut index: usize) -> Result<usize, SimError> {
        while let Some(before) = self.config.connections[index].forwards {
            if before >= index {
                let what = format!(
                    "connection {index} forwards connection {before}; expected an earlier one"
                );
                return Err(SimError::Unknown(what));
            }
            index = before;
        }
        Ok(index)
    }
}

fn by_name(configs: &[ParticipantConfig]) -> HashMap<&str, &ParticipantConfig> {
    configs.iter().map(|config| (config.name.as_str(), config)).collect()
}

fn unknown_sender(name: &str) -> SimError {
    SimError::Unknown(format!(
        "connection names `{name}`, which is neither a participant nor a server that mixes"
    ))
}

/// The media in the descriptions of a connection between these participants.
fn described(participants: [Option<&ParticipantConfig>; 3]) -> Described {
    let mut all = participants.into_iter().flatten();
    let audio = all.clone().any(|participant| participant.audio.is_some());
    let video = all.any(|participant| participant.video.is_some());
    match (audio, video) {
        (true, true) => Described::Both,
        (true, false) => Described::Audio,
        (false, _) => Described::Video,
    }
}

/// How long the page at a node takes to join.
fn joins_after(config: &SimConfig, node: NodeId) -> Time {
    join_delay(derive_seed(config.seed, JOIN_STREAM + u64::from(node.0)))
}

/// The time when both participants are present.
fn session(
    connection: &ConnectionConfig,
    offerer: bool,
    participants: [Option<&ParticipantConfig>; 2],
) -> Session {
    let present = || participants.into_iter().flatten();
    Session {
        offerer,
        negotiation: Negotiation::Bursts,
        behind_nat: participants[0].is_some_and(|own| own.nat.is_some()),
        start: present().fold(connection.start_ns, |start, p| start.max(p.join_ns)),
        end: present().fold(connection.end_ns, |end, p| end.min(p.leave_ns)),
    }
}

/// One less than the first SSRC of the end with this index.
fn ssrc_base(index: usize) -> u32 {
    (index as u32 + 1) * 1_000
}

/// Streams that a participant sends at the end with this index.
fn streams(
    participant: &ParticipantConfig,
    index: usize,
    stack: &StackProfile,
) -> Vec<StreamConfig> {
    let video = participant.video.map(Media::Video);
    let audio = participant.audio.map(Media::Audio);
    let stream = |(number, media): (u32, Media)| StreamConfig {
        ssrc: ssrc_base(index) + 2 * number + 1,
        repair_ssrc: ssrc_base(index) + 2 * number + 2,
        media,
        repair: participant.repair.or(stack.repair),
    };
    (0..).zip([video, audio]).filter_map(|(n, media)| Some(stream((n, media?)))).collect()
}

fn direction(
    participant: Option<&ParticipantConfig>,
    index: usize,
    stack: &'static StackProfile,
) -> Direction {
    let streams = participant.map_or(Vec::new(), |participant| streams(participant, index, stack));
    Direction { streams, stack }
}

/// The stack profile of a participant.
fn stack_of(participant: &ParticipantConfig) -> Result<&'static StackProfile, SimError> {
    let control =
        cc::check(&participant.congestion_control).map_err(SimError::CongestionControl)?;
    let name = participant.stack.as_deref().unwrap_or(control.stack);
    StackProfile::named(name).ok_or_else(|| {
        let known = PROFILES.map(|profile| profile.name).join("`, `");
        SimError::Unknown(format!(
            "congestion_control.stack: unknown `{name}`; expected one of `{known}`"
        ))
    })
}

/// What the sending end of cross traffic does.
enum Sender {
    Tcp(ClientConfig),
    /// Packets at this rate, from the first time on and before the second one.
    Udp(ConstantRate, [Time; 2]),
}

/// The ends of cross traffic. Their indices follow the indices of the calls.
struct Traffic {
    senders: Vec<(Sender, [Address; 2], [FlowId; 2])>,
}

impl Traffic {
    fn new(
        config: &SimConfig,
        network: &Network<u32>,
        nodes: &Nodes<'_>,
        flows: &mut Flows,
        first_port: u32,
    ) -> Result<Self, SimError> {
        let seed = derive_seed(config.seed, TRAFFIC_STREAM);
        let mut senders = Vec::new();
        for traffic in &config.traffic {
            let [from, to] = [nodes.get(&traffic.sender)?, nodes.get(&traffic.receiver)?];
            if traffic.udp.is_none() {
                check_takes_time(traffic, network, [from, to])?;
            }
            let mut flow_ids = |flow: &String| {
                let data = flows.get(flow.clone(), traffic.stop_ns);
                // Nothing acknowledges UDP: its receiver sends no flow.
                let acks = match traffic.udp {
                    Some(_) => data,
                    None => flows.get(format!("{flow} acks"), traffic.stop_ns),
                };
                [data, acks]
            };
            let ids: Vec<[FlowId; 2]> = traffic.flows.iter().map(&mut flow_ids).collect();
            let of_connections = ids.iter().cycle().take(traffic.connections as usize);
            for (number, &of_flow) in of_connections.enumerate() {
                let port = first_port + 2 * senders.len() as u32;
                let sender = match traffic.udp {
                    Some(rate) => udp_sender(traffic, rate, number as u64),
                    None => Sender::Tcp(ClientConfig {
                        congestion_control: traffic.congestion_control,
                        start: traffic.start_ns,
                        stop: traffic.stop_ns,
                        objects: traffic.objects,
                        seed: derive_seed(seed, senders.len() as u64),
                    }),
                };
                let ends = [Address { node: from, port }, Address { node: to, port: port + 1 }];
                senders.push((sender, ends, of_flow));
            }
        }
        Ok(Traffic { senders })
    }

    fn add_ends(self, flows: &[FlowConfig], ends: &mut Vec<End>, places: &mut Vec<Place>) {
        for (sender, [from, to], [data, acks]) in self.senders {
            let pair = match sender {
                Sender::Tcp(config) => [
                    End::Client(Box::new(Client::new(config, to))),
                    End::Server(Box::new(Server::new(from))),
                ],
                Sender::Udp(rate, [first, stop]) => [
                    End::Source(Box::new(udp::Source::new(rate, first, stop, to))),
                    End::Sink(udp::Sink),
                ],
            };
            ends.extend(pair);
            for (Address { node, .. }, flow) in [(from, data), (to, acks)] {
                let owner = flows[flow.0 as usize].name.clone();
                places.push(Place {
                    node,
                    flow,
                    data_flow: data,
                    source: None,
                    control: String::new(),
                    owner,
                    media_from: None,
                    media_to: Vec::new(),
                    page: None,
                    turn: None,
                });
            }
        }
    }
}

/// The sender of one of several connections over UDP. Their first packets are spread evenly over an interval,
/// so that all connections together send at equal intervals too.
fn udp_sender(traffic: &TrafficConfig, rate: ConstantRate, number: u64) -> Sender {
    let interval = rate.after(1).unwrap_or(Time::ZERO);
    let offset = Time(interval.0 / u64::from(traffic.connections.max(1)) * number);
    Sender::Udp(rate, [traffic.start_ns.saturating_add(offset), traffic.stop_ns])
}

/// Adds a page for each node whose ends of calls meet over signalling, and the server. Returns the index of the
/// server.
fn add_signalling(
    config: &SimConfig,
    core: NodeId,
    meets: &[(usize, Session)],
    ends: &mut Vec<End>,
    places: &mut Vec<Place>,
) -> Option<usize> {
    if meets.is_empty() {
        return None;
    }
    let place = |node: NodeId| Place {
        node,
        // Signalling belongs to no flow.
        flow: FlowId(0),
        data_flow: FlowId(0),
        source: None,
        control: String::new(),
        owner: config.network.nodes[node.0 as usize].clone(),
        media_from: None,
        media_to: Vec::new(),
        page: None,
        turn: None,
    };
    let address = |index: usize, node| Address { node, port: index as u32 };
    let mut nodes: Vec<NodeId> = Vec::new();
    for &(index, _) in meets {
        let node = places[index].node;
        if node != core && !nodes.contains(&node) {
            nodes.push(node);
        }
    }
    let first = ends.len();
    let server = first + nodes.len();
    let mut pages = Vec::new();
    for (number, &node) in nodes.iter().enumerate() {
        let own = || meets.iter().filter(|(index, _)| places[*index].node == node);
        let open = own().map(|(_, session)| session.start).min();
        let close = own().map(|(_, session)| session.end).max();
        // A participant comes to the server when it joins, a server when its first call begins.
        let name = &config.network.nodes[node.0 as usize];
        let participant = config.participants.iter().find(|participant| participant.name == *name);
        let client = signalling::ClientConfig {
            server: address(server, core),
            open: participant
                .map(|own| own.join_ns + joins_after(config, node))
                .or(open)
                .unwrap_or(Time::ZERO),
            close: close.unwrap_or(Time::ZERO),
            browser: participant.is_some(),
            seed: derive_seed(config.seed, PAGE_STREAM + u64::from(node.0)),
            pace: derive_seed(config.seed, PACE_STREAM),
        };
        ends.push(End::Page(Box::new(signalling::Client::new(client))));
        pages.push(address(first + number, node));
    }
    for &(index, _) in meets {
        let number = nodes.iter().position(|node| *node == places[index].node);
        places[index].page = number.map(|number| first + number);
    }
    let page_of = places[..first].iter().map(|place| Some(place.page? - first)).collect();
    places.extend(nodes.into_iter().map(place));
    let config = signalling::ServerConfig { pages, page_of };
    ends.push(End::Signalling(Box::new(signalling::Server::new(config))));
    places.push(place(core));
    for &(index, session) in meets {
        let both_local = places[index].page.is_none() && places[index ^ 1].page.is_none();
        if session.offerer && both_local {
            ends[index].handle_present(Time::ZERO);
        }
    }
    Some(server)
}

/// Adds a TCP connection with the relay for each relayed end whose participant is behind a firewall for UDP.
fn add_turn_streams(
    config: &SimConfig,
    end_configs: &[EndConfig],
    ends: &mut Vec<End>,
    places: &mut Vec<Place>,
) {
    for (index, &EndConfig { local, relay, flow, .. }) in end_configs.iter().enumerate() {
        let Some(relay) = relay else { continue };
        let name = &config.network.nodes[local.node.0 as usize];
        let nat = config.participants.iter().find(|it| it.name == *name).and_then(|it| it.nat);
        if nat != Some(NatKind::UdpBlocked) {
            continue;
        }
        let client = Address { node: local.node, port: ends.len() as u32 };
        let server = Address { node: relay, port: client.port + 1 };
        places[index].turn = Some(ends.len());
        ends.push(End::Turn(Box::new(TurnStream::client(server))));
        ends.push(End::Turn(Box::new(TurnStream::relay(client))));
        for Address { node, .. } in [client, server] {
            places.push(Place {
                node,
                flow,
                data_flow: flow,
                source: None,
                control: String::new(),
                owner: format!("{name} and its relay"),
                media_from: None,
                media_to: Vec::new(),
                page: None,
                turn: None,
            });
        }
    }
}

/// Sending and acknowledging must take time, or virtual time would stand still.
fn check_takes_time(
    traffic: &TrafficConfig,
    network: &Network<u32>,
    [from, to]: [NodeId; 2],
) -> Result<(), SimError> {
    let mut routes = [(from, to), (to, from)].into_iter().filter_map(|(a, b)| network.route(a, b));
    if routes.all(|route| route.iter().all(|path| network.path_config(*path).is_instant())) {
        let TrafficConfig { sender, receiver, .. } = traffic;
        return Err(SimError::Instant(format!(
            "TCP from `{sender}` to `{receiver}` and back takes no time; expected a capacity or a delay on the way"
        )));
    }
    Ok(())
}
