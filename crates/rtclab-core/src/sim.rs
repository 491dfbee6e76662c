//! The event loop in virtual time.

use crate::cc::{self, ConfigError, CongestionControlConfig};
use crate::endpoint::{
    AudioConfig, Delivery, End, Ends, Forwarder, ForwarderConfig, Forwarding, Peer, PeerConfig,
    Port, Socket, Ssrcs, Wire,
};
use crate::media::encoder::VideoConfig;
use crate::media::host::{Host, HostConfig};
use crate::media::repair::Repair;
use crate::network::{Network, NetworkConfig, NetworkError, NodeId, derive_seed};
use crate::record::{Detail, FlowId, Recorder, Table};
use crate::tcp::{Traffic, TrafficConfig};
use crate::units::Time;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Statistics are written at this interval.
const STATS_INTERVAL: Time = Time::from_secs(1);
/// Random stream of cross traffic: far from those of the connections.
const TRAFFIC_STREAM: u64 = 1 << 32;
/// Name of the node where servers live.
const CORE: &str = "core";

/// Someone who takes part.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParticipantConfig {
    /// Name, also of its node.
    pub name: String,
    /// When it joins.
    pub join_ns: Time,
    /// When it leaves.
    pub leave_ns: Time,
    /// Video that it sends.
    pub video: Option<VideoConfig>,
    /// Audio that it sends.
    pub audio: Option<AudioConfig>,
    /// Its machine; encoding takes no time without one.
    #[serde(default)]
    pub host: Option<HostConfig>,
    /// How it controls its rate.
    pub congestion_control: CongestionControlConfig,
    /// How lost packets of its video are made good.
    #[serde(default)]
    pub repair: Repair,
}

/// A connection between two participants, media in both directions.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConnectionConfig {
    /// Sends the offer.
    pub a: String,
    /// Answers.
    pub b: String,
    /// When it begins.
    pub start_ns: Time,
    /// When it ends.
    pub end_ns: Time,
    /// A TURN relay that media pass; directly without one.
    #[serde(default)]
    pub relay: Option<String>,
    /// Names of the flows from `a` to `b` and back; `a->b` and `b->a` if left out.
    #[serde(default)]
    pub flows: Option<[String; 2]>,
    /// Whether `b` sends no media.
    #[serde(default)]
    pub one_way: bool,
    /// The connection before this one that brought the media which `a` forwards; its own without.
    #[serde(default)]
    pub forwards: Option<usize>,
    /// Whether the forwarder passes RTCP on as well, instead of making its own.
    #[serde(default)]
    pub switching: bool,
}

impl ConnectionConfig {
    fn flow_names(&self) -> [String; 2] {
        let names = || [format!("{}->{}", self.a, self.b), format!("{}->{}", self.b, self.a)];
        self.flows.clone().unwrap_or_else(names)
    }
}

/// A run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimConfig {
    /// How long.
    pub duration_ns: Time,
    /// All randomness comes from it.
    pub seed: u64,
    /// How much is kept.
    pub record: Detail,
    /// The network.
    pub network: NetworkConfig,
    /// Who takes part.
    pub participants: Vec<ParticipantConfig>,
    /// Who talks with whom.
    pub connections: Vec<ConnectionConfig>,
    /// TCP beside the calls.
    #[serde(default)]
    pub traffic: Vec<TrafficConfig>,
}

/// Why a run could not begin.
#[derive(Clone, Debug, PartialEq)]
pub enum SimError {
    /// The network is wrong.
    Network(NetworkError),
    /// The algorithm is unknown, or it has no such option.
    CongestionControl(ConfigError),
    /// A connection names someone who does not take part, or a node without a place in the network.
    Unknown(String),
    /// TCP between two nodes that nothing keeps apart would send without end at one moment.
    Instant(String),
}

impl fmt::Display for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SimError::Network(error) => error.fmt(f),
            SimError::CongestionControl(error) => error.fmt(f),
            SimError::Unknown(what) | SimError::Instant(what) => f.write_str(what),
        }
    }
}
impl std::error::Error for SimError {}

/// What a run leaves.
pub struct SimResult {
    /// Texts that the text columns refer to.
    pub texts: Vec<String>,
    /// The tables.
    pub tables: Vec<Table>,
}

/// Runs a scenario in virtual time. Same configuration, same result, byte for byte.
///
/// # Errors
/// See [`SimError`]; nothing fails once the run has begun.
pub fn simulate(config: &SimConfig) -> Result<SimResult, SimError> {
    let mut sim = Simulation::new(config)?;
    sim.run(config.duration_ns);
    let (texts, tables) = sim.wire.recorder.finish(config.duration_ns);
    Ok(SimResult { texts, tables })
}

struct Simulation {
    wire: Wire,
    ends: Ends,
    traffic: Traffic,
}

impl Simulation {
    fn new(config: &SimConfig) -> Result<Self, SimError> {
        let network = Network::new(config.network.clone(), derive_seed(config.seed, 0))
            .map_err(SimError::Network)?;
        let node = |name: &str| {
            let index = network.nodes().iter().position(|n| n == name);
            index.map(|i| NodeId(i as u16)).ok_or_else(|| {
                SimError::Unknown(format!(
                    "`{name}` is no node of the network; known: {:?}",
                    network.nodes()
                ))
            })
        };
        let mut flows: Vec<(String, Time)> = Vec::new();
        let mut flow_id = |name: String, end: Time| {
            let known = flows.iter().position(|flow| *flow.0 == name);
            let index = known.unwrap_or_else(|| {
                flows.push((name, end));
                flows.len() - 1
            });
            flows[index].1 = flows[index].1.max(end);
            FlowId(index as u16)
        };
        let mut ports = Vec::new();
        for (i, connection) in config.connections.iter().enumerate() {
            let (a, b) = (node(&connection.a)?, node(&connection.b)?);
            let relay = connection.relay.as_deref().map(node).transpose()?;
            let end = end_of(config, connection);
            let [there, back] = connection.flow_names().map(|name| flow_id(name, end));
            // The end at an index listens at the socket of that number.
            let (to_a, to_b) = (Socket(2 * i as u16), Socket(2 * i as u16 + 1));
            ports.push(Port { from: a, to: b, socket: to_b, flow: there, relay });
            ports.push(Port { from: b, to: a, socket: to_a, flow: back, relay });
        }
        for traffic in &config.traffic {
            check_takes_time(traffic, &network, node)?;
        }
        let traffic_seed = derive_seed(config.seed, TRAFFIC_STREAM);
        let traffic = Traffic::new(&config.traffic, flows.len(), traffic_seed, node)?;
        for traffic in &config.traffic {
            let names = Traffic::flow_names(std::slice::from_ref(traffic));
            flows.extend(names.into_iter().map(|name| (name, traffic.stop_ns)));
        }
        let paths: Vec<String> = config.network.paths.iter().map(|p| p.name.clone()).collect();
        let recorder = Recorder::new(config.record, &flows, &paths);
        let core = node(CORE)?;
        let mut hosts = Vec::new();
        for participant in &config.participants {
            if let Some(host) = participant.host {
                hosts.push((node(&participant.name)?, Host::new(host)));
            }
        }
        let mut wire = Wire::new(network, recorder);
        wire.hosts = hosts;
        let ends =
            (0..ports.len()).map(|index| end(config, &ports, index, core, &mut wire.recorder));
        let ends = Ends::new(ends.collect::<Result<_, _>>()?);
        Ok(Simulation { wire, ends, traffic })
    }

    fn run(&mut self, duration: Time) {
        let mut next_stats = STATS_INTERVAL;
        let mut last = Time::ZERO;
        loop {
            let wire = self.wire.poll_timeout().unwrap_or(Time::MAX);
            let timeout = self.ends.poll_timeout();
            let traffic = self.traffic.poll_timeout();
            let next = wire.min(timeout).min(traffic).min(next_stats);
            // Something handed over just now may have been due before.
            let now = next.max(last);
            if now > duration {
                return;
            }
            last = now;
            if next == wire {
                while let Some(delivery) = self.wire.poll(now) {
                    match delivery {
                        Delivery::Datagram(arrival) => {
                            self.ends.handle_arrival(arrival, &mut self.wire);
                        }
                        Delivery::Segment(at, segment) => {
                            self.traffic.handle_segment(at, &segment, &mut self.wire);
                        }
                    }
                }
            } else if next == traffic {
                self.traffic.handle_timeout(now, &mut self.wire);
            } else if next == timeout {
                self.ends.handle_timeout(now, &mut self.wire);
            } else {
                self.ends.write_stats(now, &mut self.wire);
                self.traffic.write_stats(now, &mut self.wire);
                next_stats += STATS_INTERVAL;
            }
        }
    }
}

/// When a connection ends: when it shall, or when one of both leaves.
fn end_of(config: &SimConfig, connection: &ConnectionConfig) -> Time {
    let ends = config.participants.iter().filter(|p| p.name == connection.a || p.name == connection.b);
    ends.fold(connection.end_ns, |end, p| end.min(p.leave_ns))
}

/// The end of a connection that has this index: two per connection, `a` before `b`.
fn end(
    config: &SimConfig,
    ports: &[Port],
    index: usize,
    core: NodeId,
    recorder: &mut Recorder,
) -> Result<End, SimError> {
    let connection = &config.connections[index / 2];
    let offerer = index.is_multiple_of(2);
    let (port, back) = (ports[index], ports[index ^ 1]);
    let origin = origin(config, index / 2)?;
    let (here, there) = match offerer {
        true => (&connection.a, &connection.b),
        false => (&connection.b, &connection.a),
    };
    let person = |name: &str| config.participants.iter().find(|p| p.name == name);
    let (own, other) = (person(here), person(there));
    let present = || [own, other].into_iter().flatten();
    let start = present().fold(connection.start_ns, |start, p| start.max(p.join_ns));
    let end = present().fold(connection.end_ns, |end, p| end.min(p.leave_ns));
    let passes_on =
        if offerer { connection.forwards.is_some() } else { connection.switching && own.is_none() };
    let sender = participant(config, &config.connections[origin].a)?;
    if passes_on {
        let forwarding =
            if connection.switching { Forwarding::Switching } else { Forwarding::Terminating };
        let ssrcs = Ssrcs::of(2 * origin);
        let repair = repair_of(sender)?;
        let forwarder = ForwarderConfig { forwarding, ssrcs, repair, core, offerer, start, end };
        let forwarder = Forwarder::new(forwarder, port, back);
        let source = connection.forwards.filter(|_| offerer).map(|source| 2 * source + 1);
        return Ok(End::Forwarder(Box::new(forwarder), source));
    }
    let sends = own.filter(|_| offerer || !connection.one_way);
    let remote = if offerer { other } else { Some(sender) };
    let receives = remote.filter(|_| !offerer || !connection.one_way);
    let own_control = own.unwrap_or(sender).congestion_control.clone();
    // What comes over a forwarder has the names and the clock of who sent it first.
    let remote_index = if offerer { index ^ 1 } else { 2 * origin };
    let seed = |index: usize| derive_seed(config.seed, 1 + index as u64);
    let peer = PeerConfig {
        video: sends.and_then(|p| p.video),
        audio: sends.and_then(|p| p.audio),
        remote_media: (receives.and_then(|p| p.video), receives.and_then(|p| p.audio)),
        server: own.is_none(),
        remote_congestion_control: remote.map_or(&own_control, |p| &p.congestion_control).clone(),
        congestion_control: own_control,
        repair: repair_of(own.unwrap_or(sender))?,
        remote_repair: repair_of(remote.or(own).unwrap_or(sender))?,
        participant: recorder.text(here),
        core,
        offerer,
        start,
        end,
        seed: seed(index),
    };
    let ssrcs = (Ssrcs::of(index), Ssrcs::of(remote_index));
    let peer = Peer::new(peer, port, back, ssrcs, seed(remote_index));
    Ok(End::Peer(Box::new(peer.map_err(SimError::CongestionControl)?)))
}

/// Sending and acknowledging must take time, or virtual time would stand still.
fn check_takes_time(
    traffic: &TrafficConfig,
    network: &Network<u32>,
    node: impl Fn(&str) -> Result<NodeId, SimError>,
) -> Result<(), SimError> {
    let TrafficConfig { sender, receiver, .. } = traffic;
    let (from, to) = (node(sender)?, node(receiver)?);
    let mut paths = [(from, to), (to, from)].into_iter().filter_map(|(a, b)| network.route(a, b));
    if paths.all(|route| route.iter().all(|path| network.path_config(*path).is_instant())) {
        return Err(SimError::Instant(format!(
            "TCP from `{sender}` to `{receiver}` and back takes no time; expected a capacity or a delay on the way"
        )));
    }
    Ok(())
}

/// Index of the connection whose `a` first sends what this one carries.
fn origin(config: &SimConfig, mut index: usize) -> Result<usize, SimError> {
    while let Some(before) = config.connections[index].forwards {
        if before >= index {
            let what =
                format!("connection {index} forwards {before}, which does not stand before it");
            return Err(SimError::Unknown(what));
        }
        index = before;
    }
    Ok(index)
}

fn participant<'a>(config: &'a SimConfig, name: &str) -> Result<&'a ParticipantConfig, SimError> {
    config.participants.iter().find(|p| p.name == name).ok_or_else(|| {
        SimError::Unknown(format!("connection names `{name}`, who is no participant"))
    })
}

fn repair_of(participant: &ParticipantConfig) -> Result<Repair, SimError> {
    let algorithm =
        cc::check(&participant.congestion_control).map_err(SimError::CongestionControl)?;
    Ok(participant.repair.or(algorithm.repair))
}
