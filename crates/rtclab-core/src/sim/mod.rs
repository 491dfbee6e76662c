//! The event loop in virtual time: network, nodes and record.

mod build;
mod compositions;
mod config;
mod links;
mod moment;

use crate::capture::{Capture, Captured, Passing};
use crate::catalogue::Catalogue;
use crate::cc::{Decision, DecisionRequest};
use crate::endpoint;
use crate::network::NodeId;
use crate::node::{self, Node, Received};
use crate::path::PathConfig;
use crate::record::{Detail, FlowId, Recorder, Source, Table};
use crate::table::Text;
use crate::timeouts::Timeouts;
use crate::turn_tcp::Carried;
use crate::units::Time;
use compositions::{Compositions, Picture};
use links::{Arrival, FlightId, Links};
use moment::Moment;

pub use config::{ConnectionConfig, ParticipantConfig, SimConfig, SimError, TrafficConfig};

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
    let mut simulation = Simulation::captured(config, Catalogue::ours())?;
    simulation.advance(config.duration_ns)?;
    let capture = simulation.capture.take();
    Ok((simulation.finish(), capture.map(Capture::finish).unwrap_or_default()))
}

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

/// Number of an end of a connection in a run, and its port. The two ends of a connection have adjacent numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EndId(u32);

impl EndId {
    /// The end of the side that offers, or of the other one, of the connection with this index.
    fn of(connection: usize, offers: bool) -> Self {
        EndId(2 * connection as u32 + u32::from(!offers))
    }

    /// The other end of the connection.
    fn far(self) -> Self {
        EndId(self.0 ^ 1)
    }

    /// Index of the connection.
    fn connection(self) -> usize {
        self.0 as usize / 2
    }

    /// Whether this is the end of the side that offers.
    fn offers(self) -> bool {
        self.0.is_multiple_of(2)
    }
}

/// What the record knows of an end.
struct EndRecord {
    /// Its node.
    node: NodeId,
    /// The flow that it sends.
    flow: FlowId,
    /// The data flow that TCP statistics of either end belong to.
    data_flow: FlowId,
    /// The participant or server that its events are recorded for; `None` if they are not recorded.
    source: Option<Source>,
    /// Name of the participant or server; empty if it is none.
    participant: String,
    /// Congestion control, participant and flow, for errors.
    control: String,
    /// Whose end it is, for errors: participant and flow, or a node.
    owner: String,
}

/// A run that can be stepped. Whatever the steps, it ends with the same bytes as a run in one go.
pub struct Simulation {
    duration: Time,
    /// Up to when it has run.
    now: Time,
    /// Time of the last event.
    last: Time,
    moment: Moment,
    links: Links,
    /// Indexed by [`NodeId`].
    nodes: Vec<Node>,
    /// When each node is due, and the port of its end that is. Of ends that are due at the same time, the one with the
    /// lowest port comes first, whatever its node.
    timeouts: Timeouts<(Time, u32)>,
    /// Indexed by port.
    ends: Vec<EndRecord>,
    /// Nodes that take time for encoding, and the names of their participants or servers.
    machines: Vec<(NodeId, Text)>,
    compositions: Compositions,
    recorder: Recorder,
    capture: Option<Capture>,
    /// Requests for decisions that have not been answered.
    requests: Vec<PendingRequest>,
    failure: Option<SimError>,
}

impl Simulation {
    /// Prepares a run with the congestion controls of a catalogue.
    ///
    /// # Errors
    /// The configuration is invalid; see [`SimError`].
    pub fn new(config: &SimConfig, catalogue: &Catalogue) -> Result<Self, SimError> {
        Ok(build::simulation(config, catalogue)?.0)
    }

    /// Prepares a run that captures every packet at every port that it passes.
    fn captured(config: &SimConfig, catalogue: &Catalogue) -> Result<Self, SimError> {
        let (mut simulation, descriptions) = build::simulation(config, catalogue)?;
        let ends: Vec<NodeId> = simulation.ends.iter().map(|end| end.node).collect();
        simulation.capture = Some(Capture::new(&config.network.nodes, &ends, &descriptions));
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
        let (now, end) = (self.now, self.duration);
        if !(now..=end).contains(&until) {
            return Err(SimError::Advance { until, now, end });
        }
        self.expect_no_requests()?;
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let result = self.run(until);
        self.failure = result.clone().err();
        result
    }

    fn run(&mut self, until: Time) -> Result<(), SimError> {
        loop {
            let network = self.links.network.poll_timeout().unwrap_or(Time::MAX);
            let (index, (timeout, _)) = self.timeouts.earliest();
            // An end may report a timeout that has already passed.
            let now = network.min(timeout).max(self.last);
            if now > self.last && !self.requests.is_empty() {
                self.now = self.last;
                return Ok(());
            }
            if now > until {
                self.now = until;
                return Ok(());
            }
            self.last = now;
            self.moment.begin(now);
            if network <= timeout {
                while let Some(arrival) = self.links.poll(now) {
                    self.handle_arrival(arrival);
                    if !self.moment.count_arrival() {
                        let what = "network".to_owned();
                        return Err(SimError::Standstill { at: now, what, next: network });
                    }
                }
            } else {
                if !self.moment.count_timeout(self.ends.len()) {
                    return Err(self.standstill(now, index));
                }
                self.nodes[index].handle_timeout(now);
                self.drain(now, index);
            }
            if let Some(failure) = self.failure.take() {
                self.now = now;
                return Err(failure);
            }
        }
    }

    /// Requests for decisions, which are to be answered before the run goes on.
    pub fn requests(&self) -> &[PendingRequest] {
        &self.requests
    }

    /// Answers the request of an end.
    ///
    /// # Errors
    /// The end has not asked, or its congestion control fails.
    pub fn decide(&mut self, end: u32, decision: Decision) -> Result<(), SimError> {
        let place = self.requests.iter().position(|request| request.end == end);
        let place = place.ok_or_else(|| {
            let asked: Vec<u32> = self.requests.iter().map(|request| request.end).collect();
            SimError::Unknown(format!(
                "end {end} has not asked for a decision; expected one of {asked:?}"
            ))
        })?;
        self.requests.remove(place);
        let node = self.ends[end as usize].node.0 as usize;
        self.nodes[node].handle_decision(self.now, end, decision);
        self.drain(self.now, node);
        self.failure.clone().map_or(Ok(()), Err)
    }

    fn expect_no_requests(&self) -> Result<(), SimError> {
        match self.requests.first() {
            Some(first) => Err(SimError::Undecided {
                at: self.now,
                what: self.ends[first.end as usize].control.clone(),
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
        let network = &mut self.links.network;
        let path = network.path(&config.name).ok_or_else(|| {
            let known = network.path_names().join("`, `");
            SimError::Unknown(format!("no path `{}`; expected one of `{known}`", config.name))
        })?;
        network.set_config(self.now, path, config);
        Ok(())
    }

    /// The configuration of a path as it is now; `None` if there is no path of this name.
    pub fn path(&self, name: &str) -> Option<&PathConfig> {
        let network = &self.links.network;
        network.path(name).map(|path| network.path_config(path))
    }

    /// The tables so far.
    pub fn result(&self) -> SimResult {
        self.result_of(self.recorder.clone())
    }

    /// The tables at the end.
    pub fn finish(mut self) -> SimResult {
        let empty = Recorder::new(Detail::Seconds, &[], &[]);
        let recorder = std::mem::replace(&mut self.recorder, empty);
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
        let what = format!("{part} of {}", self.ends[port as usize].owner);
        let next = self.nodes[node].poll_timeout().unwrap_or(at);
        SimError::Standstill { at, what, next }
    }

    fn handle_arrival(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Delivered(at, id) => {
                if let Some(capture) = &mut self.capture
                    && let Some(flight) = self.links.flight(id)
                {
                    capture.delivered(at, flight.passing());
                }
                self.receive(at, id);
            }
            Arrival::Passed(at, node, id) => {
                if let Some(capture) = &mut self.capture
                    && let Some(flight) = self.links.flight(id)
                {
                    capture.passed(at, node, flight.passing());
                }
                self.pass(at, node, id);
            }
            Arrival::Dropped(at, id, path, cause) => {
                if let Some(record) = self.links.flight(id).and_then(|flight| flight.record) {
                    self.recorder.dropped(at, record, path, cause);
                }
                self.links.end(id);
            }
        }
    }

    /// Passes a datagram on from a server or relay.
    fn pass(&mut self, now: Time, node: NodeId, id: FlightId) {
        let Some(flight) = self.links.flight(id) else { return };
        let relay = &self.nodes[node.0 as usize];
        if let Some(stream) = relay.stream_to(flight.to, flight.via, &flight.datagram) {
            self.carry(now, node, stream, id);
            return self.drain(now, node.0 as usize);
        }
        if let Some(capture) = &mut self.capture {
            capture.forwarded(now, node, flight.passing());
        }
        self.links.pass(now, node, id);
    }

    /// Sends a datagram over the TCP connection between a client and its relay.
    fn carry(&mut self, now: Time, node: NodeId, stream: u32, id: FlightId) {
        let Some(flight) = self.links.flight(id) else { return };
        if !self.nodes[node.0 as usize].carry(now, stream, flight.wire_size, id) {
            self.links.end(id);
        }
    }

    /// Handles a datagram that came out of the TCP connection between a client and its relay.
    fn handle_carried(&mut self, now: Time, node: NodeId, stream: u32, carried: Carried) {
        let Carried { datagram, queued } = carried;
        self.links.add_queued(datagram, queued);
        match self.nodes[node.0 as usize].is_client(stream) {
            true => self.receive(now, datagram),
            false => self.pass(now, node, datagram),
        }
    }

    /// Hands a datagram to its node, and ends its flight.
    fn receive(&mut self, now: Time, id: FlightId) {
        let Some(flight) = self.links.flight(id) else { return };
        // A packet is delivered when it has left the last path, as in a live call. A NAT may then filter it.
        if let Some(record) = flight.record {
            self.recorder.delivered(now, record, flight.wire_size, flight.past.queued);
        }
        let (from, to, via, past) = (flight.from, flight.to, flight.via, flight.past);
        let received = Received { from, via, past, datagram: &flight.datagram };
        let node = to.node.0 as usize;
        self.nodes[node].handle_datagram(now, to.port, &received);
        self.links.end(id);
        self.drain(now, node);
    }

    /// Takes all events and datagrams from a node.
    fn drain(&mut self, now: Time, node: usize) {
        while let Some(event) = self.nodes[node].poll_event() {
            self.handle_event(now, node, event);
        }
        while let Some(node::Departing { end, from, stream, transmit }) =
            self.nodes[node].poll_transmit(now)
        {
            let record = self.recorder.sent(self.ends[end as usize].flow, &transmit);
            if let Some(stream) = stream {
                let id = self.links.hold(from, transmit, record);
                self.carry(now, from.node, stream, id);
                continue;
            }
            if let Some(capture) = &mut self.capture {
                capture.sent(now, Passing::sent(from, &transmit));
            }
            self.links.launch(now, from, transmit, record);
        }
        self.timeouts.set(node, self.nodes[node].next());
    }

    fn handle_event(&mut self, now: Time, node: usize, event: node::Event) {
        match event {
            node::Event::Tcp(port, figures) => {
                self.recorder.tcp(now, self.ends[port as usize].data_flow, figures);
            }
            node::Event::Carried(stream, carried) => {
                self.handle_carried(now, NodeId(node as u32), stream, carried);
            }
            node::Event::Composed { end, at, of } => self.compositions.composed(end, at, &of),
            node::Event::Endpoint(port, event) => self.record(now, EndId(port), event),
        }
    }

    fn record(&mut self, now: Time, end: EndId, event: endpoint::Event) {
        let EndRecord { source, control, .. } = &self.ends[end.0 as usize];
        match (event, source) {
            (endpoint::Event::Failed(error), _) => {
                let what = control.clone();
                self.failure.get_or_insert(SimError::Control { at: now, what, error });
            }
            (endpoint::Event::FrameRendered { ssrc, frame }, Some(source)) => {
                let picture = self.compositions.shown(end.far().0, source.captured(&frame));
                let captured = picture.map(|Picture { captured, .. }| captured);
                self.recorder.frame(source, ssrc, &frame, captured);
                self.compositions.decoded(end.0, picture);
            }
            (endpoint::Event::DecisionRequested(request), _) => {
                let EndRecord { participant, flow, .. } = &self.ends[end.0 as usize];
                let (participant, flow) = (participant.clone(), self.recorder.flow_name(*flow));
                let flow = flow.to_owned();
                self.requests.push(PendingRequest { end: end.0, participant, flow, request });
            }
            (event, Some(source)) => self.recorder.event(now, source, event),
            (_, None) => {}
        }
    }
}
