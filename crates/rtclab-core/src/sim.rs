//! The event loop in virtual time.

use crate::cc::{self, ConfigError, CongestionControlConfig};
use crate::endpoint::{Arrival, AudioConfig, Peer, PeerConfig, Port, Socket, Ssrcs, Wire};
use crate::media::encoder::VideoConfig;
use crate::media::host::{Host, HostConfig};
use crate::media::repair::Repair;
use crate::network::{Network, NetworkConfig, NetworkError, NodeId, derive_seed};
use crate::record::{Detail, FlowId, Recorder, Table};
use crate::timeouts::Timeouts;
use crate::units::Time;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Statistics are written at this interval.
const STATS_INTERVAL: Time = Time::from_secs(1);
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
}

impl fmt::Display for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SimError::Network(error) => error.fmt(f),
            SimError::CongestionControl(error) => error.fmt(f),
            SimError::Unknown(what) => f.write_str(what),
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
    peers: Vec<Peer>,
    timeouts: Timeouts,
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
        let core = node(CORE)?;
        let flows: Vec<String> =
            config.connections.iter().flat_map(ConnectionConfig::flow_names).collect();
        let paths: Vec<String> = config.network.paths.iter().map(|p| p.name.clone()).collect();
        let mut recorder = Recorder::new(config.record, &flows, &paths);
        let mut peers = Vec::new();
        for (i, connection) in config.connections.iter().enumerate() {
            let relay = connection.relay.as_deref().map(node).transpose()?;
            let ports = [(0, &connection.a, &connection.b), (1, &connection.b, &connection.a)];
            for (side, from, to) in ports {
                let index = 2 * i + side;
                let (here, there) = (node(from)?, node(to)?);
                // The peer at `index` sends on the flow of that number, and listens at that socket.
                let port = |from: NodeId, to: NodeId, index: usize| Port {
                    from,
                    to,
                    socket: Socket((index ^ 1) as u16),
                    flow: FlowId(index as u16),
                    relay,
                };
                let (port, back) = (port(here, there, index), port(there, here, index ^ 1));
                let local = participant(config, from)?;
                let remote = participant(config, to)?;
                let sends = side == 0 || !connection.one_way;
                let seed = |index: usize| derive_seed(config.seed, 1 + index as u64);
                let peer = PeerConfig {
                    video: local.video.filter(|_| sends),
                    audio: local.audio.filter(|_| sends),
                    congestion_control: local.congestion_control.clone(),
                    remote_congestion_control: remote.congestion_control.clone(),
                    repair: repair_of(local)?,
                    remote_repair: repair_of(remote)?,
                    participant: recorder.text(from),
                    core,
                    offerer: side == 0,
                    start: connection.start_ns.max(local.join_ns).max(remote.join_ns),
                    end: connection.end_ns.min(local.leave_ns).min(remote.leave_ns),
                    seed: seed(index),
                };
                let ssrcs = (Ssrcs::of(index), Ssrcs::of(index ^ 1));
                let peer = Peer::new(peer, port, back, ssrcs, seed(index ^ 1))
                    .map_err(SimError::CongestionControl)?;
                peers.push(peer);
            }
        }
        let mut hosts = Vec::new();
        for participant in &config.participants {
            if let Some(host) = participant.host {
                hosts.push((node(&participant.name)?, Host::new(host)));
            }
        }
        let mut wire = Wire::new(network, recorder);
        wire.hosts = hosts;
        let timeouts = Timeouts::new(peers.iter().map(Peer::poll_timeout));
        Ok(Simulation { wire, peers, timeouts })
    }

    fn run(&mut self, duration: Time) {
        let mut next_stats = STATS_INTERVAL;
        let mut last = Time::ZERO;
        loop {
            let wire = self.wire.poll_timeout().unwrap_or(Time::MAX);
            let (peer, timeout) = self.timeouts.earliest();
            let next = wire.min(timeout).min(next_stats);
            // Something handed over just now may have been due before.
            let now = next.max(last);
            if now > duration {
                return;
            }
            last = now;
            if next == wire {
                while let Some(arrival) = self.wire.poll(now) {
                    self.deliver(arrival);
                }
            } else if next == timeout {
                self.peers[peer].handle_timeout(now, &mut self.wire);
                self.update_timeout(peer);
            } else {
                for peer in &mut self.peers {
                    peer.write_stats(now, &mut self.wire);
                }
                next_stats += STATS_INTERVAL;
            }
        }
    }

    fn deliver(&mut self, arrival: Arrival) {
        let Arrival { at, socket: Socket(peer), bytes, size } = arrival;
        let peer = usize::from(peer);
        self.peers[peer].handle_datagram(at, &bytes, size, &mut self.wire);
        self.update_timeout(peer);
        self.wire.recycle(bytes);
    }

    fn update_timeout(&mut self, peer: usize) {
        self.timeouts.set(peer, self.peers[peer].poll_timeout());
    }
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
