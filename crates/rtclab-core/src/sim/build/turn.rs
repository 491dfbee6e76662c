//! TCP connections between participants and their TURN relays.

use super::super::config::SimConfig;
use super::{EndPlace, EndRecord, Ends, Wire};
use crate::nat::NatKind;
use crate::node::End;
use crate::packet::Address;
use crate::turn_tcp::TurnStream;

/// Adds a TCP connection with the relay for each relayed end whose participant is behind a firewall for UDP.
pub(super) fn add(config: &SimConfig, places: &[EndPlace], ends: &mut Ends) {
    for (end, &EndPlace { local, relay, flow, .. }) in (0..).zip(places) {
        let Some(relay) = relay else { continue };
        let name = &config.network.nodes[local.node.0 as usize];
        let nat = config.participants.iter().find(|it| it.name == *name).and_then(|it| it.nat);
        if nat != Some(NatKind::UdpBlocked) {
            continue;
        }
        let client = Address { node: local.node, port: ends.next_port() };
        let server = Address { node: relay, port: client.port + 1 };
        let owner = format!("{name} and its relay");
        let record = |node| EndRecord::new(node, flow, owner.clone());
        ends.add(End::Turn(Box::new(TurnStream::client(server))), record(client.node));
        ends.add(End::Turn(Box::new(TurnStream::relay(client))), record(server.node));
        ends.wire(end, Wire::OverTcp { stream: client.port });
        ends.wire(server.port, Wire::RelayTo { far_end: end });
    }
}
