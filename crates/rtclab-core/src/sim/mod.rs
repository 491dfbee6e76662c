//! The event loop in virtual time: network, nodes and record.
//!
//! The loop does not depend on the topology: `scenario/topology.py` lists the connections and what each node forwards,
//! and `build/` makes nodes of it. Ends have numbers, which are also their ports.

mod build;
mod compositions;
mod config;
mod links;
mod moment;
mod order;
mod windows;
mod world;

use crate::capture::{Capture, Captured};
use crate::catalogue::Catalogue;
use crate::cc::{Decision, DecisionRequest};
use crate::network::NodeId;
use crate::network::lookahead::Lookahead;
use crate::node::{Node, NodeEvent};
use crate::path::PathConfig;
use crate::record::{Detail, Recorder, Table};
use crate::table::Text;
use crate::timeouts::{TimeAndNumber, Timeouts};
use crate::turn_tcp::Carried;
use crate::units::Time;
use links::{Emerged, FlightId};
use moment::Moment;
use windows::Windows;
use world::World;

pub use config::{ConnectionConfig, ParticipantConfig, SimConfig, SimError, TrafficConfig};
pub use windows::{Executor, Job, Sequential};

/// Result of a run.
pub struct SimResult {
    /// Texts that the text columns refer to.
    pub texts: Vec<String>,
    /// The tables.
    pub tables: Vec<Table>,
}

/// Runs a scenario in virtual time. The same configuration gives the same result, byte for byte.
///
/// # Errors
/// See [`SimError`]. None of the congestion controls of [`Catalogue::ours`] fails once the run has started.
pub fn simulate(config: &SimConfig) -> Result<SimResult, SimError> {
    simulate_with(config, Catalogue::ours())
}

/// Runs a scenario with the congestion controls of a catalogue.
///
/// # Errors
/// See [`SimError`].
pub fn simulate_with(config: &SimConfig, catalogue: &Catalogue) -> Result<SimResult, SimError> {
    let mut simulation = Simulation::new(config, catalogue)?;
    simulation.advance(config.duration_ns)?;
    simulation.expect_no_requests()?;
    Ok(simulation.finish())
}

/// Runs a scenario as [`simulate`] does, and captures every packet at every port that it passes.
///
/// # Errors
/// See [`SimError`].
pub fn simulate_captured(config: &SimConfig) -> Result<(SimResult, Captured), SimError> {
    simulate_captured_with(config, Catalogue::ours())
}

/// Runs and captures a scenario as [`simulate_captured`] does, with the controls of a catalogue.
///
/// # Errors
/// See [`SimError`].
pub fn simulate_captured_with(
    config: &SimConfig,
    catalogue: &Catalogue,
) -> Result<(SimResult, Captured), SimError> {
    let mut simulation = Simulation::captured(config, catalogue)?;
    simulation.advance(config.duration_ns)?;
    let capture = simulation.world.capture.take();
    Ok((simulation.finish(), capture.map(Capture::finish).unwrap_or_default()))
}

/// From this many ends on, the state of all ends does not fit into a processor's cache, and it pays to run node after
/// node.
const MANY_ENDS: usize = 200;

/// A request of a congestion control for a decision, made at an end of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingRequest {
    /// The number of the end, for [`Simulation::decide`].
    pub end: u32,
    /// The participant or server at the end.
    pub participant: String,
    /// The flow that it sends.
    pub flow: String,
    /// The request.
    pub request: Box<DecisionRequest>,
}

/// A run that can be stepped. Whatever the steps, it ends with the same bytes as a run in one go.
pub struct Simulation {
    duration: Time,
    /// Up to when it has run.
    now: Time,
    /// Time of the last event.
    last: Time,
    moment: Moment,
    /// Indexed by [`NodeId`].
    nodes: Vec<Node>,
    /// When each node is due, and the port of its end that is. Of ends that are due at the same time, the one with the
    /// lowest port comes first, whatever its node.
    timeouts: Timeouts<TimeAndNumber>,
    /// Nodes that take time for encoding, and the names of their participants or servers.
    machines: Vec<(NodeId, Text)>,
    world: World,
    /// If the run can be worked off in windows as long as deliveries are known ahead.
    windows: Option<Windows>,
    /// How far ahead deliveries are known with the present paths.
    lookahead: Option<Lookahead>,
    /// Everything before this time has happened.
    next: Time,
}

impl Simulation {
    /// Prepares a run with the congestion controls of a catalogue.
    ///
    /// # Errors
    /// The configuration is invalid; see [`SimError`].
    pub fn new(config: &SimConfig, catalogue: &Catalogue) -> Result<Self, SimError> {
        let (mut simulation, _) = build::simulation(config, catalogue)?;
        if config.algorithms_are_ours(catalogue) && !simulation.relays_over_tcp() {
            simulation.windows = Some(Windows::new(simulation.nodes.len()));
            simulation.lookahead = simulation.world.links.network.lookahead();
        }
        Ok(simulation)
    }

    /// Prepares a run that captures every packet at every port that it passes.
    fn captured(config: &SimConfig, catalogue: &Catalogue) -> Result<Self, SimError> {
        let (mut simulation, descriptions) = build::simulation(config, catalogue)?;
        let ends: Vec<NodeId> = simulation.world.ends.iter().map(|end| end.node).collect();
        simulation.world.capture = Some(Capture::new(&config.network.nodes, &ends, &descriptions));
        Ok(simulation)
    }

    /// Up to when it has run.
    pub fn now(&self) -> Time {
        self.now
    }

    /// When it ends.
    pub fn duration(&self) -> Time {
        self.duration
    }

    /// Runs up to a time, and everything that happens at that time. If congestion controls ask for decisions, it stops at
    /// the end of that moment; see [`Simulation::requests`].
    ///
    /// # Errors
    /// `until` is before [`Simulation::now`] or after the end; a request has not been answered; or the run failed, now or
    /// before. What was recorded until then can still be read.
    pub fn advance(&mut self, until: Time) -> Result<(), SimError> {
        self.advance_with(until, &Sequential)
    }

    /// Runs up to a time as [`Simulation::advance`] does, on several processors if that is possible. The result is the
    /// same, byte for byte.
    ///
    /// # Errors
    /// See [`Simulation::advance`].
    pub fn advance_with(&mut self, until: Time, executor: &dyn Executor) -> Result<(), SimError> {
        let (now, end) = (self.now, self.duration);
        if !(now..=end).contains(&until) {
            return Err(SimError::Advance { until, now, end });
        }
        self.expect_no_requests()?;
        if let Some(failure) = &self.world.failure {
            return Err(failure.clone());
        }
        let pays = executor.threads() > 1 || self.world.ends.len() >= MANY_ENDS;
        let lookahead = self.lookahead.as_ref().filter(|_| pays).cloned();
        let windows = self.windows.take_if(|_| lookahead.is_some());
        let result = match windows.zip(lookahead) {
            Some((mut windows, lookahead)) => {
                let result = self.run_in_windows(until, &mut windows, &lookahead, executor);
                self.windows = Some(windows);
                result
            }
            None => self.run(until),
        };
        self.world.failure = result.clone().err();
        result
    }

    /// Whether datagrams are in TCP connections, where their numbers in the world are needed.
    fn relays_over_tcp(&self) -> bool {
        self.nodes.iter().any(Node::relays_over_tcp)
    }

    fn run_in_windows(
        &mut self,
        until: Time,
        windows: &mut Windows,
        lookahead: &Lookahead,
        executor: &dyn Executor,
    ) -> Result<(), SimError> {
        let end = until.saturating_add(Time(1));
        let (nodes, world) = (&mut self.nodes, &mut self.world);
        let result = windows.run((self.next, end), lookahead, nodes, world, executor);
        (self.next, self.last) = (end, until);
        for (index, node) in self.nodes.iter().enumerate() {
            self.timeouts.set(index, node.next_key());
        }
        self.now = match &result {
            Err(SimError::Control { at, .. } | SimError::Standstill { at, .. }) => *at,
            _ => until,
        };
        result
    }

    fn run(&mut self, until: Time) -> Result<(), SimError> {
        loop {
            let network = self.world.links.network.poll_timeout().unwrap_or(Time::MAX);
            let (index, timeout) = self.timeouts.earliest();
            let timeout = timeout.at();
            // An end may report a timeout that has already passed.
            let now = network.min(timeout).max(self.last);
            if now > self.last && !self.world.requests.is_empty() {
                self.now = self.last;
                return Ok(());
            }
            if now > until {
                (self.now, self.next) = (until, until.saturating_add(Time(1)));
                return Ok(());
            }
            self.last = now;
            self.moment.begin(now);
            if network <= timeout {
                while let Some(arrival) = self.world.links.poll(now) {
                    self.handle_arrival(arrival);
                    if !self.moment.count_arrival() {
                        let what = "network".to_owned();
                        return Err(SimError::Standstill { at: now, what, next: network });
                    }
                }
            } else {
                if !self.moment.count_timeout(self.world.ends.len()) {
                    return Err(self.standstill(now, index));
                }
                self.nodes[index].handle_timeout(now);
                self.drain(now, index);
            }
            if let Some(failure) = self.world.failure.take() {
                self.now = now;
                return Err(failure);
            }
        }
    }

    /// Requests for decisions, which are to be answered before the run goes on.
    pub fn requests(&self) -> &[PendingRequest] {
        &self.world.requests
    }

    /// Answers the request of an end.
    ///
    /// # Errors
    /// The end has not asked, or its congestion control fails.
    pub fn decide(&mut self, end: u32, decision: Decision) -> Result<(), SimError> {
        let place = self.world.requests.iter().position(|request| request.end == end);
        let place = place.ok_or_else(|| {
            let asked: Vec<u32> = self.world.requests.iter().map(|request| request.end).collect();
            SimError::Unknown(format!(
                "end {end} has not asked for a decision; expected one of {asked:?}"
            ))
        })?;
        self.world.requests.remove(place);
        let node = self.world.ends[end as usize].node.0 as usize;
        self.nodes[node].handle_decision(self.now, end, decision);
        self.drain(self.now, node);
        self.world.failure.clone().map_or(Ok(()), Err)
    }

    fn expect_no_requests(&self) -> Result<(), SimError> {
        match self.world.requests.first() {
            Some(first) => Err(SimError::Undecided {
                at: self.now,
                what: self.world.ends[first.end as usize].control.clone(),
            }),
            None => Ok(()),
        }
    }

    /// Replaces the configuration of a path from now on.
    ///
    /// # Errors
    /// There is no path of this name, or a field breaks a rule.
    pub fn set_path(&mut self, config: PathConfig) -> Result<(), SimError> {
        config.check().map_err(SimError::Field)?;
        let network = &mut self.world.links.network;
        let path = network.path(&config.name).ok_or_else(|| {
            let known = network.path_names().join("`, `");
            SimError::Unknown(format!("no path `{}`; expected one of `{known}`", config.name))
        })?;
        network.set_config(self.now, path, config);
        // Deliveries may now be known more or less far ahead, or not at all.
        self.lookahead = network.lookahead();
        Ok(())
    }

    /// The configuration of a path as it is now; `None` if there is no path of this name.
    pub fn path(&self, name: &str) -> Option<&PathConfig> {
        let network = &self.world.links.network;
        network.path(name).map(|path| network.path_config(path))
    }

    /// The tables so far.
    pub fn result(&self) -> SimResult {
        self.result_of(self.world.recorder.clone())
    }

    /// The tables at the end.
    pub fn finish(mut self) -> SimResult {
        let empty = Recorder::new(Detail::Seconds, &[], &[]);
        let recorder = std::mem::replace(&mut self.world.recorder, empty);
        self.result_of(recorder)
    }

    fn result_of(&self, mut recorder: Recorder) -> SimResult {
        for (node, name) in &self.machines {
            if let Some(host) = self.nodes[node.0 as usize].host() {
                recorder.load(*name, host.busy(), self.now);
            }
        }
        let (texts, tables) = recorder.finish(self.now);
        SimResult { texts, tables }
    }

    fn standstill(&self, at: Time, node: usize) -> SimError {
        let (port, part) = self.nodes[node].due().unwrap_or((0, "node"));
        let what = format!("{part} of {}", self.world.ends[port as usize].owner);
        let next = self.nodes[node].poll_timeout().unwrap_or(at);
        SimError::Standstill { at, what, next }
    }

    fn handle_arrival(&mut self, arrival: Emerged) {
        match arrival {
            Emerged::Delivered(at, id) => {
                self.world.delivered(at, id);
                self.receive(at, id);
            }
            Emerged::Passed(at, node, id) => {
                self.world.passed(at, node, id);
                self.pass(at, node, id);
            }
            Emerged::Dropped(at, id, path, cause) => self.world.dropped(at, id, path, cause),
        }
    }

    /// Passes a datagram on from a server or relay.
    fn pass(&mut self, now: Time, node: NodeId, id: FlightId) {
        let Some(flight) = self.world.links.flight(id) else { return };
        let relay = &self.nodes[node.0 as usize];
        if let Some(stream) = relay.stream_to(flight.to, flight.via, &flight.datagram) {
            self.carry(now, node, stream, id);
            return self.drain(now, node.0 as usize);
        }
        self.world.pass(now, node, id);
    }

    /// Sends a datagram over the TCP connection between a client and its relay.
    fn carry(&mut self, now: Time, node: NodeId, stream: u32, id: FlightId) {
        let Some(flight) = self.world.links.flight(id) else { return };
        if !self.nodes[node.0 as usize].carry(now, stream, flight.wire_size, id) {
            self.world.links.end(id);
        }
    }

    /// Handles a datagram that came out of the TCP connection between a client and its relay.
    fn handle_carried(&mut self, now: Time, node: NodeId, stream: u32, carried: Carried) {
        let datagram = carried.datagram;
        self.world.links.carried(carried);
        match self.nodes[node.0 as usize].is_client(stream) {
            true => self.receive(now, datagram),
            false => self.pass(now, node, datagram),
        }
    }

    /// Hands a datagram to its node, and ends its flight.
    fn receive(&mut self, now: Time, id: FlightId) {
        let Some(flight) = self.world.links.flight(id) else { return };
        // A packet is delivered when it has left the last path, as in a live call. A NAT may then filter it.
        if let Some(record) = flight.record {
            let waits = self.world.links.network.waits();
            self.world.recorder.delivered(now, record, flight.wire_size, flight.fate(), waits);
        }
        let to = flight.to;
        self.nodes[to.node.0 as usize].handle_datagram(now, to.port, &flight.received(now));
        self.world.links.end(id);
        self.drain(now, to.node.0 as usize);
    }

    /// Takes all events and datagrams from a node.
    fn drain(&mut self, now: Time, node: usize) {
        while let Some(event) = self.nodes[node].poll_event() {
            match event {
                NodeEvent::Carried(stream, carried) => {
                    self.handle_carried(now, NodeId(node as u32), stream, carried);
                }
                event => self.world.handle_event(now, event),
            }
        }
        while let Some(departing) = self.nodes[node].poll_transmit(now) {
            match departing.stream {
                Some(stream) => {
                    let (from, id) = self.world.hold(now, departing);
                    self.carry(now, from.node, stream, id);
                }
                None => self.world.launch(now, departing),
            }
        }
        self.timeouts.set(node, self.nodes[node].next_key());
    }
}
