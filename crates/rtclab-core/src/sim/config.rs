//! Configuration of a run, as it is handed over in JSON.

use crate::cc::{ConfigError, CongestionControlConfig, ControlError};
use crate::endpoint::AudioConfig;
use crate::media::encoder::VideoConfig;
use crate::media::host::HostConfig;
use crate::media::repair::Repair;
use crate::network::{NetworkConfig, NetworkError};
use crate::record::Detail;
use crate::tcp::{Algorithm, ObjectsConfig};
use crate::udp::ConstantRate;
use crate::units::Time;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A participant.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParticipantConfig {
    /// Name of the participant and of its node.
    pub name: String,
    /// When it joins.
    pub join_ns: Time,
    /// When it leaves.
    pub leave_ns: Time,
    /// Video that it sends.
    pub video: Option<VideoConfig>,
    /// Audio that it sends.
    pub audio: Option<AudioConfig>,
    /// Its machine; without one, encoding takes no time.
    #[serde(default)]
    pub host: Option<HostConfig>,
    /// Its congestion control.
    pub congestion_control: CongestionControlConfig,
    /// How lost packets of its video are repaired.
    #[serde(default)]
    pub repair: Repair,
    /// Name of its stack profile; if left out, the profile of the congestion control's era.
    #[serde(default)]
    pub stack: Option<String>,
}

/// A connection between two participants, with media in both directions.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConnectionConfig {
    /// Name of the participant or server that sends the offer.
    pub a: String,
    /// Name of the participant or server that answers.
    pub b: String,
    /// When it starts.
    pub start_ns: Time,
    /// When it ends.
    pub end_ns: Time,
    /// A TURN relay that media passes through; without one, media goes directly.
    #[serde(default)]
    pub relay: Option<String>,
    /// Names of the flows from `a` to `b` and back; `a->b` and `b->a` if left out.
    #[serde(default)]
    pub flows: Option<[String; 2]>,
    /// Whether `b` sends no media.
    #[serde(default)]
    pub one_way: bool,
    /// Index of the earlier connection whose media `a` forwards; without one, `a` sends its own media.
    #[serde(default)]
    pub forwards: Option<usize>,
    /// Whether the forwarder passes RTCP on as well, instead of sending its own.
    #[serde(default)]
    pub switching: bool,
}

impl ConnectionConfig {
    pub(super) fn flow_names(&self) -> [String; 2] {
        let names = || [format!("{}->{}", self.a, self.b), format!("{}->{}", self.b, self.a)];
        self.flows.clone().unwrap_or_else(names)
    }
}

/// Configuration of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimConfig {
    /// Duration of the run.
    pub duration_ns: Time,
    /// Seed of all randomness.
    pub seed: u64,
    /// How much detail is recorded.
    pub record: Detail,
    /// The network.
    pub network: NetworkConfig,
    /// The participants.
    pub participants: Vec<ParticipantConfig>,
    /// Connections between participants and servers.
    pub connections: Vec<ConnectionConfig>,
    /// Cross traffic.
    #[serde(default)]
    pub traffic: Vec<TrafficConfig>,
}

/// Cross traffic from one node to another, over TCP or UDP.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrafficConfig {
    /// Names of its flows: one for each connection, one for all objects together.
    pub flows: Vec<String>,
    /// Name of the node that sends data.
    pub sender: String,
    /// Name of the node that receives data.
    pub receiver: String,
    /// Its congestion control over TCP.
    #[serde(default)]
    pub congestion_control: Algorithm,
    /// Number of simultaneous connections.
    pub connections: u32,
    /// When the connections start.
    pub start_ns: Time,
    /// When the connections stop sending new data.
    pub stop_ns: Time,
    /// What is sent over TCP; `None` is an endless transfer.
    pub objects: Option<ObjectsConfig>,
    /// The rate of each connection over UDP; `None` selects TCP.
    #[serde(default)]
    pub udp: Option<ConstantRate>,
}

/// Why a run could not start or continue.
#[derive(Clone, Debug, PartialEq)]
pub enum SimError {
    /// The network is invalid.
    Network(NetworkError),
    /// The congestion control is unknown, or one of its options is invalid.
    CongestionControl(ConfigError),
    /// A participant, node, connection or stack profile is named that does not exist.
    Unknown(String),
    /// TCP between two nodes without any delay would send forever at one moment in time.
    Instant(String),
    /// A congestion control failed during the run.
    Control {
        /// Time of the failure.
        at: Time,
        /// The congestion control, its participant and its flow.
        what: String,
        /// Its error.
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
