//! The event loop in virtual time: network, nodes and record.

mod build;
mod compositions;
mod config;
mod links;
mod moment;

use crate::capture::{Capture, Captured, Passing};
use crate::cc::{self, ConfigError, CongestionControlConfig, Halves, RateBounds};
use crate::endpoint;
use crate::network::NodeId;
use crate::node::{self, Node, Received};
use crate::record::{FlowId, Recorder, Source, Table};
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

/// Creates both halves of a congestion control for given rate bounds.
pub type CreateControl<'a> =
    dyn Fn(&CongestionControlConfig, RateBounds) -> Result<Halves, ConfigError> + 'a;

/// Runs a scenario in virtual time. The same configuration gives the same result, byte for byte.
///
/// # Errors
/// See [`SimError`]. None of [`cc::ALGORITHMS`] fails once the run has started.
pub fn simulate(config: &SimConfig) -> Result<SimResult, SimError> {
    simulate_with(config, &cc::create)
}

/// Runs a scenario with the caller's congestion controls.
///
/// # Errors
/// See [`SimError`].
pub fn simulate_with(
    config: &SimConfig,
    create: &CreateControl<'_>,
) -> Result<SimResult, SimError> {
    let (mut simulation, _) = build::simulation(config, create)?;
    simulation.run(config.duration_ns)?;
    Ok(simulation.finish(config.duration_ns))
}

/// Runs a scenario as [`simulate`] does, and captures every packet at every port that it passes.
///
/// # Errors
/// See [`SimError`].
pub fn simulate_captured(config: &SimConfig) -> Result<(SimResult, Captured), SimError> {
    let (mut simulation, descriptions) = build::simulation(config, &cc::create)?;
    let ends: Vec<NodeId> = simulation.ends.iter().map(|end| end.node).collect();
    let mut capture = Capture::new(&config.network.nodes, &ends, &descriptions);
    simulation.capture = Some(&mut capture);
    simulation.run(config.duration_ns)?;
    let result = simulation.finish(config.duration_ns);
    Ok((result, capture.finish()))
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
    /// Congestion control, participant and flow, for errors.
    control: String,
    /// Whose end it is, for errors: participant and flow, or a node.
    owner: String,
}

struct Simulation<'a> {
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
    capture: Option<&'a mut Capture>,
    failure: Option<SimError>,
}

impl Simulation<'_> {
    fn run(&mut self, duration: Time) -> Result<(), SimError> {
        let mut last = Time::ZERO;
        let mut moment = Moment::default();
        loop {
            let network = self.links.network.poll_timeout().unwrap_or(Time::MAX);
            let (index, (timeout, _)) = self.timeouts.earliest();
            // An end may report a timeout that has already passed.
            let now = network.min(timeout).max(last);
            if now > duration {
                return Ok(());
            }
            last = now;
            moment.begin(now);
            if network <= timeout {
                while let Some(arrival) = self.links.poll(now) {
                    self.handle_arrival(arrival);
                    if !moment.count_arrival() {
                        let what = "network".to_owned();
                        return Err(SimError::Standstill { at: now, what, next: network });
                    }
                }
            } else {
                if !moment.count_timeout(self.ends.len()) {
                    return Err(self.standstill(now, index));
                }
                self.nodes[index].handle_timeout(now);
                self.drain(now, index);
            }
            if let Some(failure) = self.failure.take() {
                return Err(failure);
            }
        }
    }

    fn standstill(&self, at: Time, node: usize) -> SimError {
        let (port, part) = self.nodes[node].due().unwrap_or((0, "node"));
        let what = format!("{part} of {}", self.ends[port as usize].owner);
        let next = self.nodes[node].poll_timeout().unwrap_or(at);
        SimError::Standstill { at, what, next }
    }

    fn finish(mut self, duration: Time) -> SimResult {
        for (node, name) in &self.machines {
            if let Some(host) = self.nodes[node.0 as usize].host() {
                self.recorder.load(*name, host.busy(), duration);
            }
        }
        let (texts, tables) = self.recorder.finish(duration);
        SimResult { texts, tables }
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
            (event, Some(source)) => self.recorder.event(now, source, event),
            (_, None) => {}
        }
    }
}
