//! What a run is made of, as JSON hands it over.

use crate::cc::{ConfigError, CongestionControlConfig, ControlError};
use crate::endpoint::AudioConfig;
use crate::media::encoder::VideoConfig;
use crate::media::host::HostConfig;
use crate::media::repair::Repair;
use crate::network::{NetworkConfig, NetworkError};
use crate::record::Detail;
use crate::tcp::{Algorithm, ObjectsConfig};
use crate::units::Time;
use serde::{Deserialize, Serialize};
use std::fmt;

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
    /// Name of its stack profile; that of the congestion control's time if left out.
    #[serde(default)]
    pub stack: Option<String>,
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
    pub(super) fn flow_names(&self) -> [String; 2] {
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

/// TCP from one node to another.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrafficConfig {
    /// Names of its flows: one for each endless transfer, one for all objects together.
    pub flows: Vec<String>,
    /// Name of the node that sends data.
    pub sender: String,
    /// Name of the node that receives them.
    pub receiver: String,
    /// How it controls congestion.
    pub congestion_control: Algorithm,
    /// How many connections there are at the same time.
    pub connections: u32,
    /// When they begin.
    pub start_ns: Time,
    /// When nothing new is sent any more.
    pub stop_ns: Time,
    /// What is sent; `None` is an endless transfer.
    pub objects: Option<ObjectsConfig>,
}

/// Why a run could not begin, or could not go on.
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
    /// A congestion control gave up while the run was under way.
    Control {
        /// When.
        at: Time,
        /// Which, and whose.
        what: String,
        /// What it said.
        error: ControlError,
    },
}

impl fmt::Display for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SimError::Network(error) => error.fmt(f),
            SimError::CongestionControl(error) => error.fmt(f),
            SimError::Unknown(what) | SimError::Instant(what) => f.write_str(what),
            SimError::Control { at, what, error } => write!(f, "{what} failed at {at}: {error}"),
        }
    }
}
impl std::error::Error for SimError {}
