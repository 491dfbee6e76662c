//! All connections, and what they have to do with each other.

use crate::connection::{Connection, datagram};
use crate::message::{self, Description, Request};
use crate::outbox::Outbox;
use crate::publication::PublishedPacket;
use crate::sources::Sources;
use crate::timeouts::ConnectionTimeouts;
use rtclab_core::simulcast::layers;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use str0m::media::Rid;
use str0m::{Input, RtcError};

const TICK: Duration = Duration::from_nanos(layers::TICK.as_nanos());
const STATISTICS_INTERVAL: Duration = Duration::from_secs(1);

/// The forwarding server without its sockets and clocks.
pub(crate) struct SfuServer {
    address: SocketAddr,
    connections: BTreeMap<u64, Connection>,
    sources: Sources,
    timeouts: ConnectionTimeouts,
    /// Subscriptions by the publication that they forward.
    subscriptions: BTreeMap<u64, BTreeSet<u64>>,
    began: Instant,
    next_tick: Instant,
    next_statistics: Instant,
    /// Number of datagrams dropped since the last statistics.
    dropped: u64,
}

impl SfuServer {
    pub(crate) fn new(address: SocketAddr, now: Instant) -> Self {
        Self {
            address,
            connections: BTreeMap::new(),
            sources: Sources::default(),
            timeouts: ConnectionTimeouts::default(),
            subscriptions: BTreeMap::new(),
            began: now,
            next_tick: now + TICK,
            next_statistics: now + STATISTICS_INTERVAL,
            dropped: 0,
        }
    }

    /// Handles a line of the caller.
    pub(crate) fn handle_line(&mut self, now: Instant, line: &str, outbox: &mut Outbox) {
        let request: Request = match serde_json::from_str(line) {
            Ok(request) => request,
            Err(error) => {
                let reason = format!("malformed message: {error}");
                outbox.messages.push(message::error(None, &reason));
                return;
            }
        };
        let id = request.connection;
        if request.close {
            self.remove(id);
        } else if let Some(description) = request.description {
            let result = self.describe(id, &description, request.forwards, now, outbox);
            self.settle(id, result, now, outbox);
        }
    }

    fn describe(
        &mut self,
        id: u64,
        description: &Description,
        forwards: Option<u64>,
        now: Instant,
        outbox: &mut Outbox,
    ) -> Result<(), String> {
        if description.kind != "offer" {
            return Err(format!(
                "expected an offer, got a description of type `{}`",
                description.kind
            ));
        }
        let connection = match self.connections.entry(id) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let connection = Connection::new(self.address, forwards, self.began, now);
                let connection = connection.map_err(|error| error.to_string())?;
                if let Some(publication) = forwards {
                    self.subscriptions.entry(publication).or_default().insert(id);
                }
                new.insert(connection)
            }
        };
        let answer = connection.accept(&description.sdp)?;
        self.sources.name(id, &connection.name());
        outbox.messages.push(message::answer(id, &answer));
        connection.drive(now, outbox).map_err(|error| error.to_string())
    }

    /// Handles a datagram that arrived from `source`.
    pub(crate) fn handle_datagram(
        &mut self,
        at: Instant,
        source: SocketAddr,
        bytes: &[u8],
        outbox: &mut Outbox,
    ) {
        let Some(receive) = datagram(source, self.address, bytes) else { return };
        let input = Input::Receive(at, receive);
        let Self { sources, connections, .. } = self;
        let found = sources.find(source, bytes, |id| {
            connections.get(&id).is_some_and(|connection| connection.accepts(&input))
        });
        if let Some(id) = found {
            self.act(id, at, outbox, |connection, outbox| connection.receive(at, input, outbox));
        }
    }

    /// Notes that datagrams were dropped before the server saw them.
    pub(crate) fn count_dropped(&mut self, datagrams: u64) {
        self.dropped += datagrams;
    }

    /// When [`SfuServer::handle_timeout`] must be called.
    pub(crate) fn poll_timeout(&self) -> Instant {
        let own = self.next_tick.min(self.next_statistics);
        self.timeouts.earliest().map_or(own, |at| at.min(own))
    }

    /// Does what is due at `now`, which is `unix_ms` in Unix time.
    pub(crate) fn handle_timeout(&mut self, now: Instant, unix_ms: u64, outbox: &mut Outbox) {
        if now >= self.next_tick {
            self.next_tick = now + TICK;
            self.choose_layers(now);
        }
        while let Some(id) = self.timeouts.pop_due(now) {
            self.act(id, now, outbox, |connection, outbox| connection.drive(now, outbox));
        }
        if now >= self.next_statistics {
            self.next_statistics += STATISTICS_INTERVAL;
            if self.dropped > 0 {
                outbox.messages.push(message::overload(unix_ms, std::mem::take(&mut self.dropped)));
            }
            for (&id, connection) in self.connections.iter().filter(|(_, it)| it.forwards.is_some())
            {
                outbox.messages.push(message::statistics(&connection.statistics(id, unix_ms)));
            }
        }
    }

    /// Does something on a connection, and everything that follows from it.
    fn act(
        &mut self,
        id: u64,
        now: Instant,
        outbox: &mut Outbox,
        act: impl FnOnce(&mut Connection, &mut Outbox) -> Result<(), RtcError>,
    ) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let result = act(connection, outbox).map_err(|error| error.to_string());
        self.settle(id, result, now, outbox);
    }

    fn choose_layers(&mut self, now: Instant) {
        self.connections.values_mut().for_each(|connection| connection.publication.tick());
        let rates: BTreeMap<u64, _> = self
            .connections
            .iter()
            .map(|(&id, connection)| {
                (id, (connection.publication.layers(), connection.publication.single()))
            })
            .collect();
        let mut needed = Vec::new();
        for connection in self.connections.values_mut() {
            let Some(publisher) = connection.forwards else { continue };
            let Some((layers, single)) = rates.get(&publisher) else { continue };
            if connection.choose_layer(layers, *single) {
                needed.push((publisher, connection.wanted_layer()));
            }
        }
        for (publisher, rid) in needed {
            self.want_keyframe(publisher, rid, now);
        }
    }

    fn want_keyframe(&mut self, publisher: u64, rid: Option<Rid>, now: Instant) {
        if let Some(connection) = self.connections.get_mut(&publisher) {
            connection.publication.want_keyframe(rid, now);
            self.timeouts.set(publisher, Some(connection.poll_timeout()));
        }
    }

    /// Passes on what happened on a connection: packets to subscribers, requests to the publisher. Ends it if it
    /// failed.
    fn settle(&mut self, id: u64, result: Result<(), String>, now: Instant, outbox: &mut Outbox) {
        if let Err(reason) = result {
            self.remove(id);
            outbox.messages.push(message::error(Some(id), &reason));
            return;
        }
        let Some(connection) = self.connections.get_mut(&id) else { return };
        self.timeouts.set(id, Some(connection.poll_timeout()));
        let needs_keyframe = connection.take_needs_keyframe();
        let (publisher, layer) = (connection.forwards, connection.wanted_layer());
        let mut received = std::mem::take(&mut connection.received);
        if let Some(publisher) = publisher.filter(|_| needs_keyframe) {
            self.want_keyframe(publisher, layer, now);
        }
        for packet in received.drain(..) {
            self.forward(id, &packet, now, outbox);
        }
        if let Some(connection) = self.connections.get_mut(&id) {
            // It is empty, and keeps its memory for the next packets.
            connection.received = received;
        }
    }

    /// Forwards a packet of a publication to its subscribers.
    fn forward(&mut self, id: u64, packet: &PublishedPacket, now: Instant, outbox: &mut Outbox) {
        let mut failed = Vec::new();
        for &subscription in self.subscriptions.get(&id).into_iter().flatten() {
            let Some(connection) = self.connections.get_mut(&subscription) else { continue };
            match connection.forward(packet, now, outbox) {
                Ok(()) => self.timeouts.set(subscription, Some(connection.poll_timeout())),
                Err(error) => failed.push((subscription, error.to_string())),
            }
        }
        for (subscription, reason) in failed {
            self.settle(subscription, Err(reason), now, outbox);
        }
    }

    fn remove(&mut self, id: u64) {
        let Some(connection) = self.connections.remove(&id) else { return };
        if let Some(publication) = connection.forwards {
            if let Some(subscriptions) = self.subscriptions.get_mut(&publication) {
                subscriptions.remove(&id);
            }
        }
        self.sources.forget(id);
        self.timeouts.set(id, None);
    }
}

#[cfg(test)]
mod tests;
