//! The network, and the datagrams in transit in it.

use crate::capture::Passing;
use crate::ecn::Ecn;
use crate::network::{Network, NetworkEvent, NodeId, PathId, WaitsId};
use crate::node::Arriving;
use crate::packet::{Address, Datagram, Past, Transmit, Via};
use crate::path::{DropCause, Mark, Packet};
use crate::record::{Fate, PacketHandle};
use crate::turn_tcp::Carried;
use crate::units::{Bytes, Time};

/// Number of a datagram, valid until [`Links::end`].
pub(super) type FlightId = u32;

/// A datagram in transit.
pub(super) struct Flight {
    pub(super) from: Address,
    pub(super) to: Address,
    pub(super) datagram: Datagram,
    /// What happened to it before, with the queues that it has passed on the way so far.
    pub(super) past: Past,
    /// IP total length on the wire.
    pub(super) wire_size: Bytes,
    /// Whether a server or relay passes it on.
    pub(super) via: Via,
    pub(super) record: Option<PacketHandle>,
    /// The first mark that a queue gave it.
    pub(super) mark: Option<Mark>,
}

impl Flight {
    /// The datagram as it arrives at its destination now.
    pub(super) fn received(&self, now: Time) -> Arriving<'_> {
        let Flight { from, via, past, ref datagram, .. } = *self;
        let past = Past { arrived: Some(now), ..past };
        Arriving { from, via, past, datagram }
    }

    /// What the network did to it, for the record.
    pub(super) fn fate(&self) -> Fate {
        // A path may have set another codepoint behind the queue that marked it.
        let mark = self.mark.filter(|_| self.datagram.ecn == Ecn::CongestionExperienced);
        Fate { queued: self.past.queued, waits: self.past.waits, held: self.past.held, mark }
    }

    pub(super) fn passing(&self) -> Passing<'_> {
        let Flight { from, to, via, wire_size, ref datagram, .. } = *self;
        Passing { from, to, via, wire_size, datagram }
    }
}

/// A datagram that came out of the network.
pub(super) enum Emerged {
    /// A datagram reached its destination.
    Delivered(Time, FlightId),
    /// A datagram reached a server or relay, which may pass it on; see [`Links::pass`].
    Passed(Time, NodeId, FlightId),
    /// A datagram was dropped.
    Dropped(Time, FlightId, PathId, DropCause),
}

pub(super) struct Links {
    pub(super) network: Network<FlightId>,
    flights: Vec<Option<Flight>>,
    free: Vec<FlightId>,
}

impl Links {
    pub(super) fn new(network: Network<FlightId>) -> Self {
        Links { network, flights: Vec::new(), free: Vec::new() }
    }

    /// Sends a datagram into the network.
    pub(super) fn launch(
        &mut self,
        now: Time,
        from: Address,
        transmit: Transmit,
        record: Option<PacketHandle>,
    ) {
        let next = match transmit.via {
            Via::Direct => transmit.to.node,
            Via::Server(node) | Via::Relay(node) => node,
        };
        let id = self.hold(now, from, transmit, record);
        self.enter(now, from.node, next, id);
    }

    /// Keeps a datagram that is in transit by other means, such as in a TCP connection.
    pub(super) fn hold(
        &mut self,
        now: Time,
        from: Address,
        transmit: Transmit,
        record: Option<PacketHandle>,
    ) -> FlightId {
        let wire_size = transmit.wire_size();
        let Transmit { to, via, past, datagram } = transmit;
        let id = self.free.pop().unwrap_or(self.flights.len() as FlightId);
        if id as usize == self.flights.len() {
            self.flights.push(None);
        }
        self.flights[id as usize] = Some(Flight {
            from,
            to,
            datagram,
            past: past.left(now),
            wire_size,
            via,
            record,
            mark: None,
        });
        id
    }

    /// Passes a datagram on from a server or relay to its destination.
    pub(super) fn pass(&mut self, now: Time, node: NodeId, id: FlightId) {
        if let Some(&Flight { to, .. }) = self.flight(id) {
            self.enter(now, node, to.node, id);
        }
    }

    /// Notes what the network did to a datagram that came out of it after waiting in queues for `queued`.
    pub(super) fn crossed(&mut self, packet: Packet<FlightId>, queued: Time, waits: WaitsId) {
        if let Some(Some(flight)) = self.flights.get_mut(packet.payload as usize) {
            flight.past.queued += queued;
            flight.past.waits = self.network.waits_mut().append(flight.past.waits, waits);
            debug_assert!(self.network.waits().add_up(flight.past.waits, flight.past.queued));
            flight.datagram.ecn = packet.ecn;
            flight.mark = packet.mark;
        }
    }

    /// Notes that a datagram came out of a TCP connection. The connection does not carry its ECN codepoint (RFC 8656,
    /// sections 15 and 16).
    pub(super) fn carried(&mut self, carried: Carried) {
        let Carried { datagram, queued, waits } = carried;
        if let Some(Some(flight)) = self.flights.get_mut(datagram as usize) {
            flight.past.queued += queued;
            flight.past.waits = self.network.waits_mut().append(flight.past.waits, waits);
            debug_assert!(self.network.waits().add_up(flight.past.waits, flight.past.queued));
            flight.datagram.ecn = Ecn::NotCapable;
        }
    }

    /// The datagram with this number, until [`Links::end`].
    pub(super) fn flight(&self, id: FlightId) -> Option<&Flight> {
        self.flights.get(id as usize)?.as_ref()
    }

    /// Takes a datagram out, so that its number can be used for another.
    pub(super) fn take(&mut self, id: FlightId) -> Option<Flight> {
        let flight = self.flights.get_mut(id as usize)?.take()?;
        self.free.push(id);
        Some(flight)
    }

    /// Removes a datagram, so that its number can be used for another.
    pub(super) fn end(&mut self, id: FlightId) {
        self.flights[id as usize] = None;
        self.free.push(id);
    }

    /// The next datagram that has come out by `now`. Delivered and dropped ones stay until [`Links::end`].
    pub(super) fn poll(&mut self, now: Time) -> Option<Emerged> {
        match self.network.poll(now)? {
            NetworkEvent::Delivered { at, to, queued, waits, packet } => {
                let id = packet.payload;
                self.crossed(packet, queued, waits);
                match self.flight(id).map(|flight| flight.to.node) {
                    Some(last) if last != to => Some(Emerged::Passed(at, to, id)),
                    _ => Some(Emerged::Delivered(at, id)),
                }
            }
            NetworkEvent::Dropped { at, path, cause, packet } => {
                Some(Emerged::Dropped(at, packet.payload, path, cause))
            }
        }
    }

    /// Puts a datagram into the network. One to a node without a route vanishes, as on a real host; the scenario
    /// checks routes.
    fn enter(&mut self, now: Time, from: NodeId, to: NodeId, id: FlightId) {
        let Some(flight) = self.flight(id) else { return };
        let (size, ecn) = (flight.wire_size, flight.datagram.ecn);
        let flow = flow_between(flight.from, flight.to);
        let packet = Packet { size, ecn, flow, mark: flight.mark, payload: id };
        if let Err(packet) = self.network.handle_packet(now, from, to, packet) {
            self.end(packet.payload);
        }
    }
}

/// Number of the flow from one address to another. With up to 65,536 ends and mappings of NATs, each has its own.
fn flow_between(from: Address, to: Address) -> u32 {
    from.port.rotate_left(16) ^ to.port
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_datagram_that_a_path_bleached_arrives_without_the_mark() {
        let address = Address { node: NodeId(0), port: 1 };
        let content = crate::packet::Content::Stun(crate::packet::Stun {
            success: false,
            check: 1,
            form: crate::packet::StunForm::Bare,
        });
        let mark = Some(Mark { path: 0, cause: crate::path::MarkCause::Threshold });
        for (ecn, carried) in [(Ecn::CongestionExperienced, mark), (Ecn::NotCapable, None)] {
            let mut flight = Flight {
                from: address,
                to: address,
                datagram: Datagram::new(ecn, content.clone()),
                past: Past::new(Time::ZERO),
                wire_size: Bytes(100),
                via: Via::Direct,
                record: None,
                mark,
            };
            flight.past.queued = Time::from_millis(3);
            let (queued, waits) = (Time::from_millis(3), WaitsId::NONE);
            assert_eq!(flight.fate(), Fate { queued, waits, held: Time::ZERO, mark: carried });
        }
    }

    #[test]
    fn each_direction_between_two_ends_is_a_flow_of_its_own() {
        let address = |port| Address { node: NodeId(0), port };
        let ports = [0, 1, 2, 255, 256, 65_535];
        let flows = ports.iter().flat_map(|from| ports.map(|to| (*from, to)));
        let numbers: HashSet<u32> =
            flows.map(|(from, to)| flow_between(address(from), address(to))).collect();
        assert_eq!(numbers.len(), ports.len() * ports.len());
    }
}
