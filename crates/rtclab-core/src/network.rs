//! Nodes connected by paths; routes packets over one or more of them.
//!
//! # When is a packet where
//!
//! | place | from | until |
//! |---|---|---|
//! | queue of a path | it enters the path | its service begins |
//! | serialiser | its service begins | its last bit has been sent |
//! | wire | its last bit has been sent | its exit: its arrival at the far end of the path |
//!
//! Packets exit in the order of time. Of exits at one moment, those from the path with the lowest index come first, and
//! those from one path come in the order in which the packets went on its wire (`ingress::Position`).
//!
//! An exit is *foreseen* if nothing that is sent later can change it. Every packet on a wire has a foreseen exit. A
//! *plain* path (`path::schedule`) puts each packet on its wire as the packet enters, and only counts what waits. Any other
//! path puts a packet on its wire when its service ends. Foreseen exits save events in two ways:
//!
//! - A path that leads to another one *offers* each packet that goes on its wire. The network takes the packet into the
//!   `Ingress` of the next path if that path is certain to have room for it. The exit is then no event: the packet
//!   enters in its turn when the next path is looked at for another reason. Otherwise the path keeps the packet on its
//!   wire. If the room is taken by another packet, or the configuration of a path changes, the network *puts* packets of
//!   the ingress *back* on the wires from which they came.
//! - The last path of a route foresees deliveries. `lookahead::Lookahead` says for how long at least, and a
//!   simulation takes the deliveries of such a window out of the network at once (`sim/windows.rs`).

mod ingress;
pub(crate) mod lookahead;
mod waits;

use crate::limits::{self, FieldError, within};
use crate::path::{Departure, DropCause, OnWire, Packet, Path, PathConfig};
use crate::timeouts::Timeouts;
use crate::units::{Bytes, Time};
use ingress::{Incoming, Ingress, Position};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, VecDeque};
use std::fmt;

pub use waits::{Wait, Waits, WaitsId};

/// Index of a node in [`NetworkConfig::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub u32);

/// Index of a path in [`NetworkConfig::paths`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PathId(pub u32);

/// Which paths a packet takes from one node to another, in order.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteConfig {
    /// Name of the sending node.
    pub from: String,
    /// Name of the receiving node.
    pub to: String,
    /// Names of the paths; at least one.
    pub paths: Vec<String>,
}

/// Configuration of a network. Routes that contain the same path share it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkConfig {
    /// Names of participants and servers.
    pub nodes: Vec<String>,
    /// The paths.
    pub paths: Vec<PathConfig>,
    /// The routes; nodes without a route between them cannot communicate.
    pub routes: Vec<RouteConfig>,
}

/// Why a network could not be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkError(String);

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for NetworkError {}

impl From<FieldError> for NetworkError {
    fn from(error: FieldError) -> Self {
        NetworkError(error.to_string())
    }
}

/// A packet in transit.
#[derive(Clone, Copy, Debug)]
struct Hop<P> {
    route: u32,
    hop: u32,
    /// How long it has waited in the queues of the paths behind it.
    queued: Time,
    waits: WaitsId,
    payload: P,
}

impl<P> Hop<P> {
    /// Notes that the packet comes out of a path after waiting there for `queued`.
    #[inline]
    fn has_waited(&mut self, waits: &mut Waits, path: usize, queued: Time) {
        self.queued += queued;
        self.waits = waits.add(self.waits, path, queued);
    }
}

/// A packet at its destination.
struct Ready<P> {
    at: Time,
    to: NodeId,
    packet: Packet<P>,
}

/// A packet that comes out of the network, with its logical time.
#[derive(Clone, Debug, PartialEq)]
pub enum NetworkEvent<P> {
    /// A packet reached its destination.
    Delivered {
        /// Time of arrival.
        at: Time,
        /// The destination.
        to: NodeId,
        /// How long it waited in the queues of all paths of its route.
        queued: Time,
        /// In which of them, if the network keeps that; see [`Network::keep_waits`].
        waits: WaitsId,
        /// The packet that arrived.
        packet: Packet<P>,
    },
    /// A packet was dropped on the way.
    Dropped {
        /// Time of the drop.
        at: Time,
        /// Path on which it was dropped.
        path: PathId,
        /// Cause of the drop.
        cause: DropCause,
        /// The packet that was dropped.
        packet: Packet<P>,
    },
}

/// Nodes connected by paths.
pub struct Network<P> {
    nodes: Vec<String>,
    paths: Vec<Path<Hop<P>>>,
    /// For each path, the packets that will enter it.
    ingress: Vec<Ingress<P>>,
    /// Every exit up to this position has happened.
    reached: Position,
    /// Whether each path lets every packet through at once, so that packets need not enter it.
    transparent: Vec<bool>,
    timeouts: Timeouts,
    /// Packets that have crossed only transparent paths, in order of time.
    ready: VecDeque<Ready<P>>,
    routes: Vec<(NodeId, Vec<PathId>)>,
    /// For each node its destinations, in order, and the routes to them.
    routes_from: Vec<Vec<(NodeId, u32)>>,
    waits: Waits,
}

impl<P> Network<P> {
    /// Builds the network; each path draws from a random stream of its own, derived from `seed`.
    ///
    /// # Errors
    /// Two nodes or two paths with one name; a path with a field that breaks a rule; a route that names an unknown node or path, or no path at all.
    pub fn new(config: NetworkConfig, seed: u64) -> Result<Self, NetworkError> {
        let checked = config.paths.iter().try_for_each(PathConfig::check);
        within("network.paths", checked)?;
        let nodes = index_of("network.nodes", config.nodes.iter())?;
        let path_ids = index_of("network.paths", config.paths.iter().map(|path| &path.name))?;
        let node = |name: &str| {
            nodes.get(name).copied().ok_or_else(|| {
                NetworkError(format!(
                    "route names unknown node `{name}`; expected one of {:?}",
                    config.nodes
                ))
            })
        };
        let path = |name: &String| {
            path_ids
                .get(name.as_str())
                .map(|index| PathId(*index))
                .ok_or_else(|| NetworkError(format!("route names unknown path `{name}`")))
        };
        let mut routes_from = vec![Vec::new(); config.nodes.len()];
        let mut routes = Vec::new();
        let mut leads_on = vec![false; config.paths.len()];
        for route in &config.routes {
            let (from, to) = (node(&route.from)?, node(&route.to)?);
            let hops = route.paths.iter().map(path).collect::<Result<Vec<_>, _>>()?;
            if hops.is_empty() {
                return Err(NetworkError(format!(
                    "route {} -> {} has no path; expected at least one",
                    route.from, route.to
                )));
            }
            hops.iter().rev().skip(1).for_each(|path| leads_on[path.0 as usize] = true);
            routes_from[from as usize].push((NodeId(to), routes.len() as u32));
            routes.push((NodeId(to), hops));
        }
        // Of several routes between the same nodes, the last one is used.
        routes_from.iter_mut().for_each(|routes| routes.sort_unstable());
        let mut paths: Vec<_> = config
            .paths
            .into_iter()
            .enumerate()
            .map(|(i, path)| Path::new(path, derive_seed(seed, i as u64)).at_index(i as u32))
            .collect();
        for (path, _) in paths.iter_mut().zip(leads_on).filter(|(_, leads_on)| *leads_on) {
            path.offer_exits();
        }
        Ok(Network {
            timeouts: Timeouts::new(paths.iter().map(Path::poll_timeout)),
            transparent: paths.iter().map(Path::is_transparent).collect(),
            ingress: paths.iter().map(|_| Ingress::default()).collect(),
            reached: Position::BEGINNING,
            ready: VecDeque::new(),
            nodes: config.nodes,
            paths,
            routes,
            routes_from,
            waits: Waits::default(),
        })
    }

    /// Names of the nodes, by [`NodeId`].
    pub fn nodes(&self) -> &[String] {
        &self.nodes
    }

    /// The path of this name.
    pub fn path(&self, name: &str) -> Option<PathId> {
        let place = self.paths.iter().position(|path| path.config().name == name)?;
        Some(PathId(place as u32))
    }

    /// Names of all paths.
    pub fn path_names(&self) -> Vec<&str> {
        self.paths.iter().map(|path| path.config().name.as_str()).collect()
    }

    /// Configuration of a path.
    pub fn path_config(&self, path: PathId) -> &PathConfig {
        self.paths[path.0 as usize].config()
    }

    /// Keeps in which queues packets wait that are sent from now on. That takes memory for every wait.
    pub fn keep_waits(&mut self) {
        self.waits.keep();
    }

    /// The waits that were kept.
    pub fn waits(&self) -> &Waits {
        &self.waits
    }

    /// The waits that were kept, for chains of packets that other means carry on.
    pub fn waits_mut(&mut self) -> &mut Waits {
        &mut self.waits
    }

    /// The paths from one node to another, or `None` if there is no route.
    pub fn route(&self, from: NodeId, to: NodeId) -> Option<&[PathId]> {
        self.route_index(from, to).map(|route| self.routes[route].1.as_slice())
    }

    /// Replaces the configuration of a path; see [`Path::set_config`].
    pub fn set_config(&mut self, now: Time, path: PathId, config: PathConfig) {
        self.reach_input(now);
        // Exits that were foreseen may be wrong from now on.
        for index in 0..self.paths.len() {
            self.take_in(index, now);
        }
        for index in 0..self.paths.len() {
            self.put_back(index);
        }
        let index = path.0 as usize;
        self.paths[index].set_config(now, config);
        self.transparent[index] = self.paths[index].is_transparent();
        for index in 0..self.paths.len() {
            self.update(index, now);
        }
    }

    /// Sends a packet from node `from` to node `to`; returns the packet if there is no route.
    ///
    /// What has come out before `now` must have been polled. A packet that is sent at the time of the last event enters
    /// right after that event, unless [`Network::poll`] has returned `None` since. Any other enters after all that
    /// happens at `now`.
    ///
    /// # Errors
    /// There is no route between the two nodes.
    pub fn handle_packet(
        &mut self,
        now: Time,
        from: NodeId,
        to: NodeId,
        packet: Packet<P>,
    ) -> Result<(), Packet<P>> {
        let Some(route) = self.route_index(from, to) else { return Err(packet) };
        self.reach_input(now);
        match self.next_path(route as u32, 0) {
            None => self.ready.push_back(Ready { at: now, to, packet }),
            Some((hop, index)) => {
                let (route, queued, waits) = (route as u32, Time::ZERO, WaitsId::NONE);
                let packet = packet.map(|payload| Hop { route, hop, queued, waits, payload });
                self.enter(now, index, packet);
            }
        }
        Ok(())
    }

    /// The next packet that has come out by `now`, earliest first.
    pub fn poll(&mut self, now: Time) -> Option<NetworkEvent<P>> {
        self.poll_to(Position::end_of(now))
    }

    fn poll_to(&mut self, limit: Position) -> Option<NetworkEvent<P>> {
        loop {
            let (index, at) = self.timeouts.earliest();
            let ready = self.ready.front().map_or(Time::MAX, |next| next.at);
            if Position::before(at, index as u32).min(Position::end_of(ready)) > limit {
                self.reach(limit);
                return None;
            }
            if ready < at {
                self.reach(Position::end_of(ready));
                let Ready { at, to, packet } = self.ready.pop_front()?;
                let (queued, waits) = (Time::ZERO, WaitsId::NONE);
                return Some(NetworkEvent::Delivered { at, to, queued, waits, packet });
            }
            self.reach(Position::before(at, index as u32));
            self.take_in(index, at);
            let last = limit.last_exit(at, index as u32);
            let departure = self.paths[index].poll_by(at, last);
            self.update(index, at);
            match departure {
                None if self.paths[index].exits_after(at, last) => {
                    self.reach(limit);
                    return None;
                }
                None => {}
                Some((Departure::Dropped { at, cause, packet }, _)) => {
                    let packet = packet.map(|hop| hop.payload);
                    let path = PathId(index as u32);
                    return Some(NetworkEvent::Dropped { at, path, cause, packet });
                }
                Some((Departure::Delivered { at, queued, mut packet }, number)) => {
                    self.reach(Position::exit(at, index as u32, number));
                    let Hop { route, hop, .. } = packet.payload;
                    packet.payload.has_waited(&mut self.waits, index, queued);
                    let Some((hop, next)) = self.next_path(route, hop + 1) else {
                        let to = self.routes[route as usize].0;
                        let Hop { queued, waits, .. } = packet.payload;
                        let packet = packet.map(|hop| hop.payload);
                        return Some(NetworkEvent::Delivered { at, to, queued, waits, packet });
                    };
                    packet.payload.hop = hop;
                    self.enter(at, next, packet);
                }
            }
        }
    }

    /// When to call [`Network::poll`] again.
    pub fn poll_timeout(&self) -> Option<Time> {
        let ready = self.ready.front().map_or(Time::MAX, |next| next.at);
        Some(self.timeouts.earliest().1.min(ready)).filter(|at| *at < Time::MAX)
    }

    /// Lower bound of when a packet that is in the network now reaches its destination; `None` if none will.
    ///
    /// A caller that only needs deliveries may sleep until then. Drops and everything else on the way keep their
    /// logical times.
    pub fn output_timeout(&self) -> Option<Time> {
        let rest = |route: u32, hop: u32| {
            let later = &self.routes[route as usize].1[hop as usize + 1..];
            let least = later.iter().map(|path| self.paths[path.0 as usize].least_transit());
            least.fold(Time::ZERO, Time::saturating_add)
        };
        let after = |packet: &Hop<P>| rest(packet.route, packet.hop);
        // The first packets of all paths give a bound, so that few of those behind them need a look.
        let ready = self.ready.front().map_or(Time::MAX, |next| next.at);
        let firsts = self.paths.iter().map(|path| path.first_output(after));
        let mut earliest = firsts.fold(ready, Time::min);
        for path in &self.paths {
            earliest = path.earliest_output(earliest, after);
        }
        for (index, ingress) in self.ingress.iter().enumerate() {
            for incoming in ingress.iter() {
                if incoming.packet.at >= earliest {
                    break;
                }
                let OnWire { at, packet, .. } = &incoming.packet;
                let exit = self.paths[index].earliest_exit(*at, packet.size);
                let exit = exit.max(self.timeouts.of(index));
                earliest =
                    earliest.min(exit.saturating_add(rest(packet.payload.route, incoming.hop)));
            }
        }
        Some(earliest).filter(|at| *at < Time::MAX)
    }

    fn route_index(&self, from: NodeId, to: NodeId) -> Option<usize> {
        let routes = self.routes_from.get(from.0 as usize)?;
        let behind = routes.partition_point(|(node, _)| *node <= to);
        let (node, route) = routes.get(behind.checked_sub(1)?)?;
        (*node == to).then_some(*route as usize)
    }

    /// Puts a packet on a path.
    fn enter(&mut self, now: Time, index: usize, packet: Packet<Hop<P>>) {
        self.take_in(index, now);
        self.paths[index].handle_packet(now, packet);
        let ingress = &self.ingress[index];
        if !ingress.is_empty() && !self.paths[index].has_room(ingress.len(), ingress.bytes()) {
            self.put_back(index);
        }
        self.update(index, now);
    }

    /// The first path of a route, from its path number `hop` on, that is not transparent: its number on the route, and
    /// its index.
    #[inline]
    fn next_path(&self, route: u32, mut hop: u32) -> Option<(u32, usize)> {
        let paths = &self.routes[route as usize].1;
        loop {
            let index = paths.get(hop as usize)?.0 as usize;
            if !self.transparent[index] {
                return Some((hop, index));
            }
            hop += 1;
        }
    }

    fn reach(&mut self, position: Position) {
        self.reached = self.reached.max(position);
    }

    /// A packet or configuration comes from outside at `now`; see [`Network::handle_packet`].
    fn reach_input(&mut self, now: Time) {
        if now > self.reached.at {
            self.reached = Position::end_of(now);
        }
    }

    /// Lets the packets in the ingress of a path enter it whose turn comes by `now` and by the position reached.
    #[inline]
    fn take_in(&mut self, index: usize, now: Time) {
        if !self.ingress[index].is_empty() {
            self.take_in_by(index, now);
        }
    }

    fn take_in_by(&mut self, index: usize, now: Time) {
        let limit = self.reached.min(Position::end_of(now));
        while let Some(Incoming { from, hop, packet }) = self.ingress[index].pop_by(limit) {
            let OnWire { at, queued, mut packet, .. } = packet;
            packet.payload.hop = hop;
            packet.payload.has_waited(&mut self.waits, from as usize, queued);
            self.paths[index].handle_packet(at, packet);
        }
    }

    /// Whether the ingress of a path can take a further packet: the packet is not dropped when it enters, and exits later.
    #[inline]
    fn has_room_for(&self, index: usize, size: Bytes) -> bool {
        let ingress = &self.ingress[index];
        size > Bytes::ZERO && self.paths[index].has_room(ingress.len() + 1, ingress.bytes() + size)
    }

    /// Puts all packets in the ingress of a path back on the wires from which they came, so that their exits are events
    /// again.
    fn put_back(&mut self, index: usize) {
        while let Some(Incoming { from, packet, .. }) = self.ingress[index].pop_last() {
            self.paths[from as usize].put_back(packet);
            self.update_timeout(from as usize);
        }
    }

    /// Takes the packets that a path offers into the ingress of the next one, or returns them, and updates the timeouts.
    fn update(&mut self, index: usize, now: Time) {
        while let Some(packet) = self.paths[index].offered() {
            let (at, size) = (packet.at, packet.packet.size);
            let Hop { route, hop, .. } = packet.packet.payload;
            match self.next_path(route, hop + 1) {
                Some((hop, next)) if at > now && self.has_room_for(next, size) => {
                    if self.ingress[next].insert(Incoming { from: index as u32, hop, packet }) {
                        self.update_timeout(next);
                    }
                }
                _ => self.paths[index].keep(packet),
            }
        }
        self.update_timeout(index);
    }

    fn update_timeout(&mut self, index: usize) {
        let path = &self.paths[index];
        let mut next = path.poll_timeout().unwrap_or(Time::MAX);
        if !path.exits_in_order() {
            if let Some(Incoming { packet, .. }) = self.ingress[index].first() {
                next = next.min(path.earliest_exit(packet.at, packet.packet.size));
            }
        }
        self.timeouts.set(index, Some(next));
    }
}

/// Indices by name; fails if one name stands for two.
fn index_of<'a>(
    field: &str,
    names: impl Iterator<Item = &'a String>,
) -> Result<HashMap<&'a str, u32>, FieldError> {
    let mut index = HashMap::new();
    for (number, name) in (0..).zip(names) {
        let is_only = index.insert(name.as_str(), number).is_none();
        let value = format!("`{name}` a second time");
        limits::require(is_only, field, value, "a name that no other has")?;
    }
    Ok(index)
}

/// Seed of the `index`-th random stream of a run (SplitMix64, Steele et al. 2014).
pub fn derive_seed(seed: u64, index: u64) -> u64 {
    let mut z = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests;
