//! The NAT or firewall between a participant and its access link: which UDP packets pass, and with which port.
//!
//! A NAT keeps no time: calls check their paths every 2.5 s, and mappings last for at least two minutes
//! (RFC 4787, section 4.3).

#[cfg(test)]
mod tests;

use crate::packet::Address;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};

/// How a NAT maps and filters UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NatKind {
    /// Shows one port to everybody, and lets in what comes from an address and port that was sent to: a
    /// port-restricted cone (RFC 3489, section 5), or endpoint-independent mapping with address-and-port-dependent
    /// filtering (RFC 4787, sections 4.1 and 5).
    PortRestricted,
    /// Shows another port to each address and port, and filters as the other kind: address-and-port-dependent
    /// mapping and filtering.
    Symmetric,
    /// A firewall that lets out TCP only.
    UdpBlocked,
}

/// Most pairs of a port and an address that a NAT lets through: as many as there are ports that mappings may have
/// (RFC 6335, section 6: 1,024 to 65,535). It blocks what would need another one.
const MAX_OPEN: usize = 64_512;

/// A NAT with the mappings that its participant has made. Its ports are in [`Address`].
#[derive(Clone, Debug)]
pub struct Nat {
    kind: NatKind,
    /// The next port that no packet has had.
    next: u32,
    /// The port outside for a port inside and a destination. Only a symmetric NAT has any.
    mapped: HashMap<(u32, Address), u32>,
    /// The port inside for a port outside.
    inside: HashMap<u32, u32>,
    /// Ports outside, each with an address that was sent to.
    open: HashSet<(u32, Address)>,
}

impl Nat {
    /// Creates a NAT. A symmetric one numbers its ports from `first` on, above all ports inside.
    pub fn new(kind: NatKind, first: u32) -> Self {
        let (mapped, inside, open) = (HashMap::new(), HashMap::new(), HashSet::new());
        Nat { kind, next: first, mapped, inside, open }
    }

    /// Whether it lets UDP out.
    pub fn passes_udp(&self) -> bool {
        self.kind != NatKind::UdpBlocked
    }

    /// Lets a packet out; returns the port from which it leaves, or `None` if it is blocked.
    pub fn send(&mut self, port: u32, to: Address) -> Option<u32> {
        let outside = match self.kind {
            NatKind::PortRestricted => Some(port),
            NatKind::Symmetric => self.mapped.get(&(port, to)).copied(),
            NatKind::UdpBlocked => return None,
        };
        let is_open = outside.is_some_and(|outside| self.open.contains(&(outside, to)));
        if is_open {
            return outside;
        }
        (self.open.len() < MAX_OPEN).then(|| self.open(port, outside, to))
    }

    /// Lets packets pass between a port inside and an address; returns the port outside.
    fn open(&mut self, port: u32, outside: Option<u32>, to: Address) -> u32 {
        let outside = outside.unwrap_or_else(|| {
            self.mapped.insert((port, to), self.next);
            self.next += 1;
            self.next - 1
        });
        self.inside.insert(outside, port);
        self.open.insert((outside, to));
        outside
    }

    /// Lets a packet in that arrives at a port outside; returns the port inside, or `None` if it is filtered.
    pub fn receive(&self, from: Address, port: u32) -> Option<u32> {
        let is_open = self.open.contains(&(port, from));
        is_open.then(|| self.inside.get(&port).copied()).flatten()
    }
}
