//! All connections, and what they have to do with each other.

use crate::connection::{Connection, Happened, datagram};
use crate::layers::TICKS_PER_S;
use crate::message::{self, Description, Request};
use crate::outbox::Outbox;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(1000 / TICKS_PER_S);
const STATISTICS_INTERVAL: Duration = Duration::from_secs(1);

/// The forwarding server without its sockets and clocks.
pub(crate) struct Server {
    address: SocketAddr,
    connections: BTreeMap<u64, Connection>,
    next_tick: Instant,
    next_statistics: Instant,
}

impl Server {
    pub(crate) fn new(address: SocketAddr, now: Instant) -> Self {
        let connections = BTreeMap::new();
        Self {
            address,
            connections,
            next_tick: now + TICK,
            next_statistics: now + STATISTICS_INTERVAL,
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
            self.connections.remove(&id);
        } else if let Some(description) = request.description {
            let result = self.describe(id, &description, request.forwards, now, outbox);
            self.end_if_failed(id, result, outbox);
            self.pass_on(id, now, outbox);
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
        let connection = match self.connections.remove(&id) {
            Some(connection) => connection,
            None => {
                Connection::new(self.address, forwards, now).map_err(|error| error.to_string())?
            }
        };
        let connection = self.connections.entry(id).or_insert(connection);
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
        let mut found = None;
        for (&id, connection) in &mut self.connections {
            let Some(receive) = datagram(source, self.address, bytes) else { return };
            let result = connection.receive(at, receive, outbox);
            if !matches!(result, Ok(false)) {
                found = Some((id, result.map(|_| ()).map_err(|error| error.to_string())));
                break;
            }
        }
        let Some((id, result)) = found else { return };
        self.end_if_failed(id, result, outbox);
        self.pass_on(id, at, outbox);
    }

    /// When [`Server::handle_timeout`] must be called.
    pub(crate) fn poll_timeout(&self) -> Instant {
        let timeouts = self.connections.values().map(Connection::poll_timeout);
        timeouts.fold(self.next_tick.min(self.next_statistics), Instant::min)
    }

    /// Does what is due at `now`, which is `unix_ms` in Unix time.
    pub(crate) fn handle_timeout(&mut self, now: Instant, unix_ms: u64, outbox: &mut Outbox) {
        self.for_each(now, outbox, |connection, outbox| {
            if connection.poll_timeout() <= now { connection.drive(now, outbox) } else { Ok(()) }
        });
        if now >= self.next_tick {
            self.next_tick = now + TICK;
            self.choose_layers();
        }
        self.for_each(now, outbox, |connection, outbox| connection.request_keyframes(now, outbox));
        if now >= self.next_statistics {
            self.next_statistics += STATISTICS_INTERVAL;
            for (&id, connection) in self.connections.iter().filter(|(_, it)| it.forwards.is_some())
            {
                outbox.messages.push(message::statistics(&connection.statistics(id, unix_ms)));
            }
        }
    }

    fn for_each(
        &mut self,
        now: Instant,
        outbox: &mut Outbox,
        mut act: impl FnMut(&mut Connection, &mut Outbox) -> Result<(), str0m::RtcError>,
    ) {
        let ids: Vec<u64> = self.connections.keys().copied().collect();
        for id in ids {
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            let result = act(connection, outbox).map_err(|error| error.to_string());
            self.end_if_failed(id, result, outbox);
            self.pass_on(id, now, outbox);
        }
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
        }
    }

    /// Passes on what happened on a connection: packets to subscribers, requests to the publisher.
    fn pass_on(&mut self, id: u64, now: Instant, outbox: &mut Outbox) {
        let mut happened: VecDeque<(u64, Happened)> = VecDeque::new();
        self.collect(id, &mut happened);
        while let Some((id, event)) = happened.pop_front() {
            match event {
                Happened::NeedsKeyframe => {
                    let Some(connection) = self.connections.get(&id) else { continue };
                    let Some(publisher) = connection.forwards else { continue };
                    self.want_keyframe(publisher, connection.wanted_layer());
                }
                Happened::Received(received) => {
                    let subscribers =
                        self.connections.iter().filter(|(_, it)| it.forwards == Some(id));
                    let subscribers: Vec<u64> = subscribers.map(|(&id, _)| id).collect();
                    for subscriber in subscribers {
                        let Some(connection) = self.connections.get_mut(&subscriber) else {
                            continue;
                        };
                        let result = connection.forward(&received, now, outbox);
                        self.end_if_failed(
                            subscriber,
                            result.map_err(|error| error.to_string()),
                            outbox,
                        );
                        self.collect(subscriber, &mut happened);
                    }
                }
            }
        }
    }

    fn collect(&mut self, id: u64, into: &mut VecDeque<(u64, Happened)>) {
        if let Some(connection) = self.connections.get_mut(&id) {
            into.extend(connection.take_happened().into_iter().map(|event| (id, event)));
        }
    }

    fn end_if_failed(&mut self, id: u64, result: Result<(), String>, outbox: &mut Outbox) {
        if let Err(reason) = result {
            self.connections.remove(&id);
            outbox.messages.push(message::error(Some(id), &reason));
        }
    }
}

#[cfg(test)]
mod tests;
