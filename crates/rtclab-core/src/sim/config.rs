//! Configuration of a run, as it is handed over in JSON.

use crate::catalogue::{Catalogue, ConfigError};
use crate::cc::{CongestionControlConfig, ControlError};
use crate::endpoint::{AudioConfig, Pause, ServerKind};
use crate::limits::{self, Checked, FieldError, within};
use crate::media::encoder::VideoConfig;
use crate::media::host::HostConfig;
use crate::media::repair::Repair;
use crate::nat::NatKind;
use crate::network::{NetworkConfig, NetworkError};
use crate::record::Detail;
use crate::tcp::{Algorithm, ObjectsConfig};
use crate::udp::ConstantRate;
use crate::units::Time;
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// A participant, or a server that mixes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParticipantConfig {
    /// Its name, and the name of its node.
    pub name: String,
    /// When it joins.
    pub join_ns: Time,
    /// When it leaves.
    pub leave_ns: Time,
    /// Video that it sends.
    pub video: Option<VideoConfig>,
    /// Audio that it sends.
    pub audio: Option<AudioConfig>,
    /// When its camera and microphone give nothing.
    #[serde(default)]
    pub pause: Option<Pause>,
    /// Its machine; without one, it keeps up with its cameras, and decoding takes no time.
    #[serde(default)]
    pub host: Option<HostConfig>,
    /// The NAT or firewall between it and its access link.
    #[serde(default)]
    pub nat: Option<NatKind>,
    /// Its congestion control.
    pub congestion_control: CongestionControlConfig,
    /// How lost packets of its video are repaired; `None`, or `auto` in JSON, for the repair of its stack profile.
    #[serde(default, deserialize_with = "repair_or_auto")]
    pub repair: Option<Repair>,
    /// Name of its stack profile; if left out, the profile of the congestion control's era.
    #[serde(default)]
    pub stack: Option<String>,
}

fn repair_or_auto<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Repair>, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Choice {
        Auto,
        #[serde(untagged)]
        Scheme(Repair),
    }
    Ok(match Option::deserialize(value)? {
        Some(Choice::Scheme(repair)) => Some(repair),
        Some(Choice::Auto) | None => None,
    })
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
    /// Number of the conference that it belongs to if its servers mix: they decode what they receive, and send what
    /// all other connections of the conference bring them, composed.
    #[serde(default)]
    pub conference: Option<usize>,
    /// Which SFU one of its ends is, if the other is the page of a participant.
    #[serde(default)]
    pub server: Option<ServerKind>,
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
    /// Servers that mix, and what they send.
    #[serde(default)]
    pub mixers: Vec<ParticipantConfig>,
    /// Servers that forward with a congestion control of their own. They have no media. Other servers forward at once.
    #[serde(default)]
    pub forwarders: Vec<ParticipantConfig>,
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
    /// Whether NewReno and CUBIC use classic ECN (RFC 3168). The other controls always use ECN, or never.
    #[serde(default)]
    pub ecn: bool,
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

/// Most connections of calls, and of one table of traffic; each takes two ends of some 50 kB.
const MOST_CONNECTIONS: usize = 100_000;

impl SimConfig {
    /// Checks all fields but two kinds: [`Network::new`](crate::network::Network::new) checks the network, and
    /// [`Catalogue::choose`](crate::catalogue::Catalogue::choose) the congestion controls.
    ///
    /// # Errors
    /// A field breaks a rule; the error names it.
    pub fn check(&self) -> Result<(), FieldError> {
        limits::time("duration_ns", self.duration_ns)?;
        let tables = [
            ("participants", &self.participants),
            ("mixers", &self.mixers),
            ("forwarders", &self.forwarders),
        ];
        for (table, nodes) in tables {
            for node in nodes {
                let name = &node.name;
                // A server may mix in one call and forward in another.
                let others = if table == "participants" { &[][..] } else { &nodes[..] };
                let all = self.participants.iter().chain(others);
                let is_only = all.filter(|other| other.name == *name).count() == 1;
                let expected = "a name that no other participant has";
                limits::require(is_only, table, format_args!("`{name}`"), expected)?;
                within(&format!("{table}.{name}"), node.check())?;
            }
        }
        for server in &self.forwarders {
            let has_media = server.video.is_some() || server.audio.is_some();
            let value = format!("`{}` with media of its own", server.name);
            limits::require(!has_media, "forwarders", value, "neither video nor audio")?;
        }
        let count = self.connections.len();
        let expected = format!("at most {MOST_CONNECTIONS}");
        limits::require(count <= MOST_CONNECTIONS, "connections", count, expected)?;
        for (index, connection) in self.connections.iter().enumerate() {
            let ConnectionConfig { start_ns, end_ns, .. } = *connection;
            let times = limits::time("start_ns", start_ns).and(limits::time("end_ns", end_ns));
            within(&format!("connections.{index}"), times)?;
        }
        for (index, traffic) in self.traffic.iter().enumerate() {
            within(&format!("traffic.{index}"), traffic.check())?;
        }
        Ok(())
    }
}

impl SimConfig {
    /// Everybody with a congestion control.
    fn nodes(&self) -> impl Iterator<Item = &ParticipantConfig> {
        self.participants.iter().chain(&self.mixers).chain(&self.forwarders)
    }

    /// Whether all congestion controls come with rtclab.
    pub(super) fn algorithms_are_ours(&self, catalogue: &Catalogue) -> bool {
        let chosen = self.nodes().map(|node| catalogue.choose(&node.congestion_control));
        chosen.flatten().all(|choice| choice.algorithm.is_ours())
    }
}

impl ParticipantConfig {
    fn check(&self) -> Checked {
        limits::time("join_ns", self.join_ns)?;
        limits::time("leave_ns", self.leave_ns)?;
        if let Some(video) = &self.video {
            within("video", video.check())?;
        }
        if let Some(audio) = &self.audio {
            within("audio", audio.check())?;
        }
        if let Some(pause) = &self.pause {
            within("pause", pause.check())?;
        }
        self.host.map_or(Ok(()), |host| within("host", host.check()))
    }
}

impl TrafficConfig {
    fn check(&self) -> Checked {
        limits::require(!self.flows.is_empty(), "flows", "an empty list", "at least one name")?;
        let expected = format!("1 to {MOST_CONNECTIONS}");
        let count = self.connections as usize;
        let fits = (1..=MOST_CONNECTIONS).contains(&count);
        limits::require(fits, "connections", count, expected)?;
        let has_choice = self.udp.is_none() && self.congestion_control.may_use_ecn();
        let expected = "false, or TCP with newreno or cubic";
        limits::require(!self.ecn || has_choice, "ecn", self.ecn, expected)?;
        limits::time("start_ns", self.start_ns)?;
        limits::time("stop_ns", self.stop_ns)?;
        if let Some(objects) = &self.objects {
            within("objects", objects.check())?;
        }
        self.udp.map_or(Ok(()), |udp| within("udp", udp.check()))
    }
}

/// Why a run could not start or continue.
#[derive(Clone, Debug, PartialEq)]
pub enum SimError {
    /// A field of the configuration breaks a rule.
    Field(FieldError),
    /// The network is invalid.
    Network(NetworkError),
    /// The congestion control is unknown, or one of its options is invalid.
    CongestionControl(ConfigError),
    /// A participant, node, connection or stack profile is named that does not exist.
    Unknown(String),
    /// TCP between two nodes without any delay would send forever at one moment in time.
    Instant(String),
    /// Virtual time does not advance any more: something wants to be called at the same moment again and again.
    Standstill {
        /// That moment.
        at: Time,
        /// What it is, with its participant and flow.
        what: String,
        /// When it wants the next call.
        next: Time,
    },
    /// A run cannot be advanced to this time.
    Advance {
        /// The time.
        until: Time,
        /// Up to when the run has come.
        now: Time,
        /// When it ends.
        end: Time,
    },
    /// A congestion control has asked for a decision and nobody has answered.
    Undecided {
        /// When it asked.
        at: Time,
        /// The congestion control, its participant and its flow.
        what: String,
    },
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
            SimError::Field(error) => error.fmt(f),
            SimError::Network(error) => error.fmt(f),
            SimError::CongestionControl(error) => error.fmt(f),
            SimError::Unknown(what) | SimError::Instant(what) => f.write_str(what),
            SimError::Standstill { at, what, next } => {
                write!(
                    f,
                    "{what} stands still at {at}: it wants the next call at {next}, without end"
                )
            }
            SimError::Advance { until, now, end } => {
                write!(f, "the run cannot advance to {until}; expected {now} to its end at {end}")
            }
            SimError::Undecided { at, what } => write!(
                f,
                "{what} asked for a decision at {at}, and nobody has answered\n  hint: it is made for runs that are stepped"
            ),
            SimError::Control { at, what, error } => write!(f, "{what} failed at {at}: {error}"),
        }
    }
}
impl std::error::Error for SimError {}
