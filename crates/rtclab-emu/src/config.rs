//! Configuration of the emulator: a network, and the device of each node.

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
        let octets: Option<Vec<u8>> =
            text.split(':').map(|octet| u8::from_str_radix(octet, 16).ok()).collect();
        let octets = octets.and_then(|octets| octets.try_into().ok());
        octets.map(MacAddress).ok_or_else(|| {
            format!("`{text}` is not a hardware address; expected e.g. 02:77:00:00:00:01")
        })
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
    /// Hardware address at the node's end.
    pub mac: MacAddress,
    /// Address of the node, to which its packets are sent.
    pub address: Ipv4Addr,
    /// Whether the node also gets the packets to addresses that no node has, except multicast and broadcast.
    #[serde(default)]
    pub gateway: bool,
}

/// Configuration of a run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EmulatorConfig {
    /// Names of the nodes: see [`NetworkConfig::nodes`].
    pub nodes: Vec<String>,
    /// Paths of the network: see [`NetworkConfig::paths`].
    pub paths: Vec<PathConfig>,
    /// Routes over the paths: see [`NetworkConfig::routes`].
    pub routes: Vec<RouteConfig>,
    /// Seed of loss and jitter.
    pub seed: u64,
    /// Devices of the emulator.
    pub ports: Vec<PortConfig>,
    /// Whether to keep a row for every packet, for a trace. Otherwise memory does not grow with the packets.
    #[serde(default)]
    pub packet_log: bool,
    /// File for a pcapng capture of all ports.
    #[serde(default)]
    pub pcap: Option<PathBuf>,
    /// Maximum number of bytes captured per frame.
    #[serde(default = "default_snaplen")]
    pub snaplen: u32,
}

/// Enough for Ethernet, IPv4, UDP and RTP headers with extensions, and for the beginning of RTCP.
const fn default_snaplen() -> u32 {
    128
}

impl EmulatorConfig {
    /// The network part of the configuration.
    pub fn network(&self) -> NetworkConfig {
        NetworkConfig {
            nodes: self.nodes.clone(),
            paths: self.paths.clone(),
            routes: self.routes.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hardware_address_has_six_octets_and_nothing_after_them() {
        let address = |text: &str| text.parse::<MacAddress>();
        assert_eq!(address("02:77:00:00:00:ff"), Ok(MacAddress([2, 0x77, 0, 0, 0, 0xff])));
        let errors = ["", "02:77:00:00:00", "02:77:00:00:00:01:02", "02:77:00:00:00:01:zz"];
        for text in errors {
            let error =
                format!("`{text}` is not a hardware address; expected e.g. 02:77:00:00:00:01");
            assert_eq!(address(text), Err(error));
        }
    }
}
