//! All connections, and what they have to do with each other.

use crate::connection::{Connection, Happened, datagram};
use crate::layers::TICKS_PER_S;
use crate::message::{self, Description, Request};
use crate::outbox::Outbox;
use crate::sources::Sources;
use crate::timeouts::Timeouts;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use str0m::{Input, RtcError};

const TICK: Duration = Duration::from_millis(1000 / TICKS_PER_S);
const STATISTICS_INTERVAL: Duration = Duration::from_secs(1);

/// The forwarding server without its sockets and clocks.
pub(crate) struct Server {
    address: SocketAddr,
    connections: BTreeMap<u64, Connection>,
    sources: Sources,
    timeouts: Timeouts,
    /// Subscriptions by the publication that they forward.
    subscriptions: BTreeMap<u64, BTreeSet<u64>>,
    /// Publications whose sender is still to be asked for a key frame.
    wanting: BTreeSet<u64>,
    next_tick: Instant,
    next_statistics: Instant,
    /// Number of datagrams dropped since the last statistics.
    dropped: u64,
}

impl Server {
    pub(crate) fn new(address: SocketAddr, now: Instant) -> Self {
        Self {
            address,
            connections: BTreeMap::new(),
            sources: Sources::default(),
            timeouts: Timeouts::default(),
            subscriptions: BTreeMap::new(),
            wanting: BTreeSet::new(),
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
                let connection = Connection::new(self.address, forwards, now);
                let connection = connection.map_err(|error| error.to_string())?;
                if let Some(publication) = forwards {
                    self.subscriptions.entry(publication).or_default().insert(id);
                }
                new.insert(connection)
            }
        };
        let answer = connection.accept(&description.sdp)?;
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
        let found = sources.find(source, connections.keys().copied(), |id| {
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

    /// When [`Server::handle_timeout`] must be called.
    pub(crate) fn poll_timeout(&self) -> Instant {
        let own = self.next_tick.min(self.next_statistics);
        self.timeouts.earliest().map_or(own, |at| at.min(own))
    }

    /// Does what is due at `now`, which is `unix_ms` in Unix time.
    pub(crate) fn handle_timeout(&mut self, now: Instant, unix_ms: u64, outbox: &mut Outbox) {
        while let Some(id) = self.timeouts.pop_due(now) {
            self.act(id, now, outbox, |connection, outbox| connection.drive(now, outbox));
        }
        if now >= self.next_tick {
            self.next_tick = now + TICK;
            self.choose_layers();
        }
        for id in self.wanting.clone() {
            self.act(id, now, outbox, |connection, outbox| {
                connection.request_keyframes(now, outbox)
            });
        }
        self.wanting.retain(|id| {
            self.connections.get(id).is_some_and(|it| it.publication.wants_keyframes())
        });
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

    fn choose_layers(&mut self) {
        self.connections.values_mut().for_each(|connection| connection.publication.tick());
        let rates: BTreeMap<u64, _> = self
            .connections
            .iter()
            .map(|(&id, connection)| {
                (id, (connection.publication.layers(), connection.publication.single_bps()))
            })
            .collect();
        let mut needed = Vec::new();
        for connection in self.connections.values_mut() {
            let Some(publisher) = connection.forwards else { continue };
            let Some((layers, single_bps)) = rates.get(&publisher) else { continue };
            if connection.choose_layer(layers, *single_bps) {
                needed.push((publisher, connection.wanted_layer()));
            }
        }
        for (publisher, rid) in needed {
            self.want_keyframe(publisher, rid);
        }
    }

    fn want_keyframe(&mut self, publisher: u64, rid: Option<str0m::media::Rid>) {
        if let Some(connection) = self.connections.get_mut(&publisher) {
            connection.publication.want_keyframe(rid);
            self.wanting.insert(publisher);
        }
    }

    /// Passes on what happened on a connection: packets to subscribers, requests to the publisher. Ends it if it
    /// failed.
    fn settle(&mut self, id: u64, result: Result<(), String>, now: Instant, outbox: &mut Outbox) {
        let mut happened: VecDeque<(u64, Happened)> = VecDeque::new();
        self.collect(id, result, &mut happened, outbox);
        while let Some((id, event)) = happened.pop_front() {
            match event {
                Happened::NeedsKeyframe => {
                    let Some(connection) = self.connections.get(&id) else { continue };
                    let Some(publisher) = connection.forwards else { continue };
                    self.want_keyframe(publisher, connection.wanted_layer());
                }
                Happened::Received(received) => {
                    for subscription in self.subscriptions.get(&id).cloned().unwrap_or_default() {
                        let Some(connection) = self.connections.get_mut(&subscription) else {
                            continue;
                        };
                        let result = connection.forward(&received, now, outbox);
                        let result = result.map_err(|error| error.to_string());
                        self.collect(subscription, result, &mut happened, outbox);
                    }
                }
            }
        }
    }

    /// Takes what happened on a connection and its next timeout. Ends it if it failed.
    fn collect(
        &mut self,
        id: u64,
        result: Result<(), String>,
        into: &mut VecDeque<(u64, Happened)>,
        outbox: &mut Outbox,
    ) {
        if let Err(reason) = result {
            self.remove(id);
            outbox.messages.push(message::error(Some(id), &reason));
        } else if let Some(connection) = self.connections.get_mut(&id) {
            self.timeouts.set(id, Some(connection.poll_timeout()));
            into.extend(connection.take_happened().into_iter().map(|event| (id, event)));
        }
    }

    fn remove(&mut self, id: u64) {
        let Some(connection) = self.connections.remove(&id) else { return };
        if let Some(publication) = connection.forwards
            && let Some(subscriptions) = self.subscriptions.get_mut(&publication)
        {
            subscriptions.remove(&id);
        }
        self.sources.forget(id);
        self.timeouts.set(id, None);
    }
}

#[cfg(test)]
mod tests;
