//! Builds nodes, network and recorder from a configuration.

mod calls;
mod signalling;
mod traffic;
mod turn;

use super::Simulation;
use super::compositions::Compositions;
use super::config::{ParticipantConfig, SimConfig, SimError};
use super::links::Links;
use super::moment::Moment;
use super::world::{EndRecord, World};
use crate::capture::Description;
use crate::catalogue::Catalogue;
use crate::media::host::Host;
use crate::nat::Nat;
use crate::network::{Network, NodeId, derive_seed};
use crate::node::{End, Node};
use crate::packet::Address;
use crate::record::{Detail, FlowConfig, FlowId, Recorder};
use crate::table::Text;
use crate::timeouts::Timeouts;
use crate::units::Time;
use calls::Calls;
use std::collections::HashMap;
use std::sync::Arc;
use traffic::Traffic;

/// Index of the random stream of cross traffic, far from the indices of the connections.
const TRAFFIC_STREAM: u64 = 1 << 32;
/// Index of the random stream of the work during set-up.
const SETUP_STREAM: u64 = 1 << 33;
/// Index of the random stream of the work of pages at the signalling server.
const PAGE_STREAM: u64 = 1 << 34;
/// The pace of the machine that pages and browsers work on.
const PACE_STREAM: u64 = 1 << 35;
/// Index of the first random stream of the machines of participants.
const HOST_STREAM: u64 = 1 << 36;
/// Index of the first random stream of the times until pages join, one for each node.
const JOIN_STREAM: u64 = 1 << 37;
/// Name of the node where servers are.
const CORE: &str = "core";

/// Nodes by name.
struct Names<'a>(HashMap<&'a str, NodeId>);

impl Names<'_> {
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
        self.flows.push(FlowConfig { name, end, forwarded: false });
        id
    }

    /// Says that a connection of the flow forwards media.
    fn set_forwarded(&mut self, id: FlowId) {
        self.flows[id.0 as usize].forwarded = true;
    }
}

/// A connection between an end and something else at its node. All are named by their ports.
enum Wire {
    /// The end forwards what the end at `source` receives.
    Forward { source: u32 },
    /// The end meets its far end over signalling.
    Meet { page: Option<u32>, far_page: Option<u32> },
    /// The far end is at the signalling server from the beginning, as this one is, which therefore calls.
    Present,
    /// The end belongs to a room of a server that mixes.
    Room(usize),
    /// The end sends what is relayed through a TCP connection.
    OverTcp { stream: u32 },
    /// The end is a relay's TCP connection, for what goes to an end elsewhere.
    RelayTo { far_end: u32 },
}

/// The ends of all nodes, in the order of their ports, and how they are wired.
#[derive(Default)]
struct Ends {
    ends: Vec<End>,
    records: Vec<EndRecord>,
    wires: Vec<(u32, Wire)>,
}

impl Ends {
    /// The port of the next end.
    fn next_port(&self) -> u32 {
        self.ends.len() as u32
    }

    fn add(&mut self, end: End, record: EndRecord) {
        self.ends.push(end);
        self.records.push(record);
    }

    fn wire(&mut self, end: u32, wire: Wire) {
        self.wires.push((end, wire));
    }

    /// The nodes with these ends, and what the record knows of the ends.
    fn into_nodes(self, count: usize) -> (Vec<Node>, Vec<EndRecord>) {
        let Ends { ends, records, wires } = self;
        let mut at_nodes: Vec<Vec<(u32, End)>> = (0..count).map(|_| Vec::new()).collect();
        for (port, (end, record)) in (0..).zip(ends.into_iter().zip(&records)) {
            at_nodes[record.node.0 as usize].push((port, end));
        }
        let nodes = (0..).zip(at_nodes).map(|(id, ends)| Node::new(NodeId(id), ends));
        let mut nodes: Vec<Node> = nodes.collect();
        for (end, wire) in wires {
            let node = &mut nodes[records[end as usize].node.0 as usize];
            match wire {
                Wire::Forward { source } => node.forward(source, end),
                Wire::Meet { page, far_page } => node.meet(end, page, far_page),
                Wire::Present => node.handle_present(Time::ZERO, end),
                Wire::Room(room) => node.enter_room(end, room),
                Wire::OverTcp { stream } => node.relay_over_tcp(end, stream),
                Wire::RelayTo { far_end } => node.relay_to(far_end, end),
            }
        }
        (nodes, records)
    }
}

impl EndRecord {
    /// What the record knows of an end that belongs to no participant.
    fn new(node: NodeId, flow: FlowId, owner: String) -> Self {
        let (participant, control) = (String::new(), String::new());
        EndRecord { node, flow, data_flow: flow, source: None, participant, control, owner }
    }
}

/// The simulation at the start of a run, and what the ends of calls send, for captures.
pub(super) fn simulation(
    config: &SimConfig,
    catalogue: &Catalogue,
) -> Result<(Simulation, Vec<Description>), SimError> {
    config.check().map_err(SimError::Field)?;
    let mut network = Network::new(config.network.clone(), derive_seed(config.seed, 0))
        .map_err(SimError::Network)?;
    if config.record == Detail::Packets {
        network.keep_waits();
    }
    let names = config.network.nodes.iter().enumerate();
    let names = Names(names.map(|(i, name)| (name.as_str(), NodeId(i as u32))).collect());
    let core = names.get(CORE)?;
    let mut flows = Flows::default();
    let places = calls::places(config, &names, &mut flows)?;
    let traffic = Traffic::new(config, &network, &names, &mut flows, places.len() as u32)?;
    let paths: Vec<String> = config.network.paths.iter().map(|p| p.name.clone()).collect();
    let mut recorder = Recorder::new(config.record, &flows.flows, &paths);
    let mut calls = Calls::new(config, catalogue, core, &places);
    calls.add_all(&mut recorder)?;
    let Calls { mut ends, descriptions, meets, .. } = calls;
    traffic.add_to(&mut ends, &flows.flows);
    signalling::add(config, core, &meets, &mut ends);
    turn::add(config, &places, &mut ends);
    let mut compositions = Compositions::default();
    for (end, wire) in &ends.wires {
        if matches!(wire, Wire::Room(_)) {
            compositions.add(*end);
        }
    }
    let (mut nodes, records) = ends.into_nodes(config.network.nodes.len());
    set_nats(config, &mut nodes, records.len() as u32);
    let machines = set_hosts(config, &names, &mut nodes, &mut recorder)?;
    let simulation = Simulation {
        duration: config.duration_ns,
        now: Time::ZERO,
        last: Time::ZERO,
        moment: Moment::default(),
        timeouts: Timeouts::new(nodes.iter().map(Node::next_key)),
        nodes,
        machines,
        world: World {
            links: Links::new(network),
            ends: records,
            compositions,
            recorder,
            capture: None,
            requests: Vec::new(),
            failure: None,
        },
        windows: None,
        lookahead: None,
        next: Time::ZERO,
    };
    Ok((simulation, descriptions))
}

/// Puts NATs in front of participants. `first` is a port above all ports of ends.
fn set_nats(config: &SimConfig, nodes: &mut [Node], first: u32) {
    let of_node = |name: &String| {
        let participant = config.participants.iter().find(|it| it.name == *name)?;
        Some(Nat::new(participant.nat?, first))
    };
    let nats: Vec<Option<Nat>> = config.network.nodes.iter().map(of_node).collect();
    let is_closed = |nat: &Option<Nat>| nat.as_ref().is_some_and(|nat| !nat.passes_udp());
    let closed = (0..).zip(&nats).filter(|(_, nat)| is_closed(nat));
    let unreachable: Arc<[NodeId]> = closed.map(|(id, _)| NodeId(id)).collect();
    for (node, nat) in nodes.iter_mut().zip(nats) {
        node.set_nat(nat, Arc::clone(&unreachable));
    }
}

/// Gives nodes the processors of their participants and servers. Returns these nodes, with the names.
fn set_hosts(
    config: &SimConfig,
    names: &Names<'_>,
    nodes: &mut [Node],
    recorder: &mut Recorder,
) -> Result<Vec<(NodeId, Text)>, SimError> {
    let all: Vec<&ParticipantConfig> = config.participants.iter().chain(&config.mixers).collect();
    let with_hosts = all.iter().filter_map(|of| Some((&of.name, of.host?)));
    let mut machines = Vec::new();
    for (index, (name, host)) in (0..).zip(with_hosts) {
        let node = names.get(name)?;
        let seed = derive_seed(config.seed, HOST_STREAM + index);
        nodes[node.0 as usize].set_host(Host::new(host, seed));
        machines.push((node, recorder.text(name)));
    }
    Ok(machines)
}

/// Addresses and flow of one end of a connection in a call.
#[derive(Clone, Copy)]
struct EndPlace {
    local: Address,
    remote: Address,
    relay: Option<NodeId>,
    flow: FlowId,
}
