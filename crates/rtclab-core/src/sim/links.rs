//! The network, and the datagrams that are on their way in it.

use crate::capture::Passing;
use crate::network::{Network, NetworkEvent, NodeId, PathId};
use crate::packet::{Address, Datagram, Transmit, Via};
use crate::path::{DropCause, Packet};
use crate::record::PacketRecord;
use crate::units::{Bytes, Time};

/// A datagram on its way.
pub(super) struct Flight {
    pub(super) from: Address,
    pub(super) to: Address,
    pub(super) datagram: Datagram,
    pub(super) first_sent: Time,
    /// IP total length on the wire.
    pub(super) wire_size: Bytes,
    /// The node that passes it on, if it passes one: it has bytes of framing there.
    pub(super) via: Via,
    pub(super) record: Option<PacketRecord>,
}

impl Flight {
    pub(super) fn passing(&self) -> Passing<'_> {
        let Flight { from, to, via, wire_size, ref datagram, .. } = *self;
        Passing { from, to, via, wire_size, datagram }
    }
}

/// What came out of the network.
pub(super) enum Arrival {
    /// A datagram reached its destination.
    Delivered(Time, Flight),
    /// A datagram reached a server or relay on its way, which has passed it on.
    Passed(Time, NodeId, u32),
    /// A datagram was dropped.
    Dropped(Time, Flight, PathId, DropCause),
}

pub(super) struct Links {
    pub(super) network: Network<u32>,
    flights: Vec<Option<Flight>>,
    free: Vec<u32>,
}

impl Links {
    pub(super) fn new(network: Network<u32>) -> Self {
        Links { network, flights: Vec::new(), free: Vec::new() }
    }

    /// Puts a datagram on its way.
    pub(super) fn launch(
        &mut self,
        now: Time,
        from: Address,
        transmit: Transmit,
        record: Option<PacketRecord>,
    ) {
        let wire_size = transmit.wire_size();
        let Transmit { to, via, first_sent, datagram } = transmit;
        let next = match via {
            Via::Direct => to.node,
            Via::Server(node) | Via::Relay(node) => node,
        };
        let flight = Some(Flight { from, to, datagram, first_sent, wire_size, via, record });
        let id = match self.free.pop() {
            Some(id) => {
                self.flights[id as usize] = flight;
                id
            }
            None => {
                self.flights.push(flight);
                self.flights.len() as u32 - 1
            }
        };
        self.enter(now, from.node, next, Packet { size: wire_size, payload: id });
    }

    /// The datagram with this number, while it is on its way.
    pub(super) fn flight(&self, id: u32) -> Option<&Flight> {
        self.flights.get(id as usize)?.as_ref()
    }

    /// What has come out by `now`.
    pub(super) fn poll(&mut self, now: Time) -> Option<Arrival> {
        loop {
            match self.network.poll(now)? {
                NetworkEvent::Delivered { at, to, packet } => {
                    let last = self.flight(packet.payload).map(|flight| flight.to.node);
                    if let Some(last) = last.filter(|last| *last != to) {
                        let id = packet.payload;
                        self.enter(at, to, last, packet);
                        return Some(Arrival::Passed(at, to, id));
                    }
                    if let Some(flight) = self.take(packet.payload) {
                        return Some(Arrival::Delivered(at, flight));
                    }
                }
                NetworkEvent::Dropped { at, path, cause, packet } => {
                    if let Some(flight) = self.take(packet.payload) {
                        return Some(Arrival::Dropped(at, flight, path, cause));
                    }
                }
            }
        }
    }

    /// Without a route the packet vanishes, as on a host without one; the scenario checks routes.
    fn enter(&mut self, now: Time, from: NodeId, to: NodeId, packet: Packet<u32>) {
        if let Err(packet) = self.network.handle_packet(now, from, to, packet) {
            self.take(packet.payload);
        }
    }

    fn take(&mut self, id: u32) -> Option<Flight> {
        let flight = self.flights.get_mut(id as usize)?.take();
        self.free.extend(flight.is_some().then_some(id));
        flight
    }
}
