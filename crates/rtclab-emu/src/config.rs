//! What the emulator is told: a network, and which device belongs to which node.

use rtclab_core::network::{NetworkConfig, RouteConfig};
use rtclab_core::path::PathConfig;
use serde::Deserialize;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::str::FromStr;

/// Hardware address of an Ethernet interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct MacAddress(pub [u8; 6]);

impl FromStr for MacAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let octets: Vec<u8> =
            text.split(':').map_while(|octet| u8::from_str_radix(octet, 16).ok()).collect();
        let error = || format!("`{text}` is no hardware address; expected e.g. 02:77:00:00:00:01");
        octets.try_into().map(MacAddress).map_err(|_| error())
    }
}

impl TryFrom<String> for MacAddress {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// A device of the emulator and the node at its other end.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortConfig {
    /// Name of the node, one of [`EmulatorConfig::nodes`].
    pub node: String,
    /// Interface that the emulator reads and writes.
    pub interface: String,
    /// Hardware address of the node's own end.
    pub mac: MacAddress,
    /// Address of the node; packets to it are delivered there.
    pub address: Ipv4Addr,
}

/// Everything that a run of the emulator needs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EmulatorConfig {
    /// See [`NetworkConfig::nodes`].
    pub nodes: Vec<String>,
    /// See [`NetworkConfig::paths`].
    pub paths: Vec<PathConfig>,
    /// See [`NetworkConfig::routes`].
    pub routes: Vec<RouteConfig>,
    /// Seed of losses and jitter.
    pub seed: u64,
    /// The devices.
    pub ports: Vec<PortConfig>,
    /// Where to write what the ports saw, as pcapng.
    #[serde(default)]
    pub pcap: Option<PathBuf>,
    /// Bytes kept of each frame in that file.
    #[serde(default = "default_snaplen")]
    pub snaplen: u32,
}

/// Ethernet, IPv4, UDP, RTP and its extensions, and the beginning of an RTCP compound.
const fn default_snaplen() -> u32 {
    128
}

impl EmulatorConfig {
    /// The network alone.
    pub fn network(&self) -> NetworkConfig {
        NetworkConfig {
            nodes: self.nodes.clone(),
            paths: self.paths.clone(),
            routes: self.routes.clone(),
        }
    }
}
