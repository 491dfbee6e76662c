//! The NATs between participants and the network.

use super::config::SimConfig;
use crate::nat::Nat;
use crate::network::NodeId;
use crate::packet::{Address, Content, Datagram, Transmit, Via};

/// NATs by node; empty if there is none.
///
/// A NAT acts on what goes from one end of a call to another. A server that answers its client, as signalling, STUN
/// servers and relays do, always gets through a NAT that lets out the request.
pub(super) struct Nats(Vec<Option<Nat>>);

impl Nats {
    /// The NATs of all participants. `ends` is the number of ends, which is above all their ports.
    pub(super) fn new(config: &SimConfig, ends: usize) -> Self {
        let kind = |name: &String| config.participants.iter().find(|it| it.name == *name)?.nat;
        let nats = config.network.nodes.iter().map(kind);
        let nats: Vec<_> = nats.map(|kind| Some(Nat::new(kind?, ends as u32))).collect();
        Nats(if nats.iter().all(Option::is_none) { Vec::new() } else { nats })
    }

    /// Lets a datagram out; returns the address from which it enters the network, or `None` if it does not.
    pub(super) fn send(&mut self, from: Address, transmit: &Transmit) -> Option<Address> {
        let Transmit { to, via, ref datagram, .. } = *transmit;
        // Without UDP there is no address outside, and nobody has a route to the one inside.
        let has_route =
            !is_between_ends(via, datagram) || self.at(to.node).is_none_or(Nat::passes_udp);
        let Some(Some(nat)) = self.0.get_mut(from.node.0 as usize) else {
            return has_route.then_some(from);
        };
        if is_between_ends(via, datagram) && has_route {
            return nat.send(from.port, to).map(|port| Address { port, ..from });
        }
        let passes = has_route && (nat.passes_udp() || !is_udp(datagram));
        passes.then_some(from)
    }

    /// Lets a datagram in; returns the number of the end that gets it, or `None` if it is filtered.
    pub(super) fn receive(
        &self,
        from: Address,
        to: Address,
        via: Via,
        datagram: &Datagram,
    ) -> Option<usize> {
        let port = match self.at(to.node) {
            Some(nat) if is_between_ends(via, datagram) => nat.receive(from, to.port)?,
            _ => to.port,
        };
        Some(port as usize)
    }

    fn at(&self, node: NodeId) -> Option<&Nat> {
        self.0.get(node.0 as usize)?.as_ref()
    }
}

/// Whether a datagram goes from one end of a call to the other without a server in between.
fn is_between_ends(via: Via, datagram: &Datagram) -> bool {
    via == Via::Direct && datagram.content.protocol().is_some()
}

/// Whether a datagram of a call, or to a server, is UDP.
fn is_udp(datagram: &Datagram) -> bool {
    let content = &datagram.content;
    content.protocol().is_some() || matches!(content, Content::Allocation(_) | Content::Binding)
}
