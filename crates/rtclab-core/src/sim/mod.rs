//! The event loop in virtual time: one driver of endpoints, beside tests and whatever may come.

mod build;
mod config;
mod ends;
mod links;

use crate::capture::{Capture, Captured, Passing};
use crate::cc::{self, ConfigError, CongestionControlConfig, Halves, RateBounds};
use crate::endpoint::{self, Forwarding};
use crate::media::host::Host;
use crate::network::NodeId;
use crate::packet::{Content, Datagram};
use crate::record::{FlowId, Recorder, Source, Table};
use crate::tcp;
use crate::timeouts::Timeouts;
use crate::units::Time;
use ends::{End, Event};
use links::{Arrival, FlightId, Links};

pub use config::{ConnectionConfig, ParticipantConfig, SimConfig, SimError, TrafficConfig};

/// What a run leaves.
pub struct SimResult {
    /// Texts that the text columns refer to.
    pub texts: Vec<String>,
    /// The tables.
    pub tables: Vec<Table>,
}

/// Makes both halves of a congestion control for given bounds of the rate.
pub type CreateControl<'a> =
    dyn Fn(&CongestionControlConfig, RateBounds) -> Result<Halves, ConfigError> + 'a;

/// Runs a scenario in virtual time. Same configuration, same result, byte for byte.
///
/// # Errors
/// See [`SimError`]; of the algorithms in [`cc::ALGORITHMS`] none fails once the run has begun.
pub fn simulate(config: &SimConfig) -> Result<SimResult, SimError> {
    simulate_with(config, &cc::create)
}

/// Runs a scenario with congestion controls of the caller's.
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

/// Runs a scenario as [`simulate`] does, and keeps every packet at every port that it passes.
///
/// # Errors
/// See [`SimError`].
pub fn simulate_captured(config: &SimConfig) -> Result<(SimResult, Captured), SimError> {
    let (mut simulation, descriptions) = build::simulation(config, &cc::create)?;
    let ends: Vec<NodeId> = simulation.places.iter().map(|place| place.node).collect();
    let mut capture = Capture::new(&config.network.nodes, &ends, &descriptions);
    simulation.capture = Some(&mut capture);
    simulation.run(config.duration_ns)?;
    let result = simulation.finish(config.duration_ns);
    Ok((result, capture.finish()))
}

/// What the driver knows of an end.
struct Place {
    /// Where it is.
    node: NodeId,
    /// The flow that it sends.
    flow: FlowId,
    /// The flow of data that figures of TCP belong to, at both of its ends.
    data_flow: FlowId,
    /// Whose events these are, if they are recorded as a participant's or a server's.
    source: Option<Source>,
    /// Participant, flow and congestion control, for errors.
    control: String,
    /// The end that media come from which this one passes on.
    media_from: Option<usize>,
    /// The ends that pass on what this one receives.
    media_to: Vec<usize>,
}

struct Simulation<'a> {
    links: Links,
    /// By the port of their address.
    ends: Vec<End>,
    places: Vec<Place>,
    timeouts: Timeouts,
    /// Machines of participants whose encoding takes time, by node.
    hosts: Vec<(NodeId, Host)>,
    recorder: Recorder,
    capture: Option<&'a mut Capture>,
    failure: Option<SimError>,
}

impl Simulation<'_> {
    fn run(&mut self, duration: Time) -> Result<(), SimError> {
        let mut last = Time::ZERO;
        loop {
            let network = self.links.network.poll_timeout().unwrap_or(Time::MAX);
            let (index, timeout) = self.timeouts.earliest();
            // An end may have had something to do before it was handed a datagram.
            let now = network.min(timeout).max(last);
            if now > duration {
                return Ok(());
            }
            last = now;
            if network <= timeout {
                while let Some(arrival) = self.links.poll(now) {
                    self.handle_arrival(arrival);
                }
            } else {
                self.ends[index].handle_timeout(now);
                self.drain(now, index);
            }
            if let Some(failure) = self.failure.take() {
                return Err(failure);
            }
        }
    }

    fn finish(self, duration: Time) -> SimResult {
        let (texts, tables) = self.recorder.finish(duration);
        SimResult { texts, tables }
    }

    fn handle_arrival(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Delivered(at, id) => {
                self.receive(at, id);
                self.links.end(id);
            }
            Arrival::Passed(at, node, id) => {
                if let Some(capture) = &mut self.capture
                    && let Some(flight) = self.links.flight(id)
                {
                    capture.passed(at, node, flight.passing());
                }
            }
            Arrival::Dropped(at, id, path, cause) => {
                if let Some(record) = self.links.flight(id).and_then(|flight| flight.record) {
                    self.recorder.dropped(at, record, path, cause);
                }
                self.links.end(id);
            }
        }
    }

    fn receive(&mut self, now: Time, id: FlightId) {
        let Some(flight) = self.links.flight(id) else { return };
        if let Some(record) = flight.record {
            self.recorder.delivered(now, record, flight.wire_size);
        }
        if let Some(capture) = &mut self.capture {
            capture.delivered(now, flight.passing());
        }
        let index = flight.to.port as usize;
        let end = &mut self.ends[index];
        end.handle_datagram(now, flight.from, &flight.datagram);
        let passes = passes_on(end, &flight.datagram);
        self.drain(now, index);
        if !passes {
            return;
        }
        // What a receiver says goes back to where its media come from; media, and what their sender says,
        // go to all who pass them on.
        match self.places[index].media_from {
            Some(source) => self.forward(now, source, id),
            None => {
                for i in 0..self.places[index].media_to.len() {
                    self.forward(now, self.places[index].media_to[i], id);
                }
            }
        }
    }

    fn forward(&mut self, now: Time, index: usize, id: FlightId) {
        if let End::Forwarder(forwarder) = &mut self.ends[index]
            && let Some(flight) = self.links.flight(id)
        {
            forwarder.forward(now, flight.first_sent, &flight.datagram);
            self.drain(now, index);
        }
    }

    /// Takes everything that an end has to send and to say.
    fn drain(&mut self, now: Time, index: usize) {
        while let Some(event) = self.ends[index].poll_event() {
            match event {
                Event::Endpoint(event) => self.handle_event(now, index, event),
                Event::Tcp(tcp::Event::Statistics(figures)) => {
                    self.recorder.tcp(now, self.places[index].data_flow, figures);
                }
            }
        }
        let Place { node, flow, .. } = self.places[index];
        let from = crate::packet::Address { node, port: index as u32 };
        while let Some(transmit) = self.ends[index].poll_transmit(now) {
            let record = self.recorder.sent(flow, &transmit);
            if let Some(capture) = &mut self.capture {
                capture.sent(now, Passing::sent(from, &transmit));
            }
            self.links.launch(now, from, transmit, record);
        }
        self.timeouts.set(index, self.ends[index].poll_timeout());
    }

    fn handle_event(&mut self, now: Time, index: usize, event: endpoint::Event) {
        match event {
            endpoint::Event::EncodeRequested { stream, pixels } => {
                let node = self.places[index].node;
                let host = self.hosts.iter_mut().find(|(at, _)| *at == node);
                let ready = host.map_or(now, |(_, host)| host.encode(now, pixels));
                if let End::Peer(peer) = &mut self.ends[index] {
                    peer.handle_encoded(stream, ready);
                }
            }
            endpoint::Event::KeyFrameRequested => {
                let Some(source) = self.places[index].media_from else { return };
                if let End::Peer(peer) = &mut self.ends[source] {
                    peer.request_key_frame(now);
                    self.drain(now, source);
                }
            }
            endpoint::Event::Failed(error) => {
                let what = self.places[index].control.clone();
                self.failure.get_or_insert(SimError::Control { at: now, what, error });
            }
            event => {
                if let Some(source) = &self.places[index].source {
                    self.recorder.event(now, source, event);
                }
            }
        }
    }
}

/// Whether what arrived at an end is handed to those that pass it on.
fn passes_on(end: &End, datagram: &Datagram) -> bool {
    match (end, &datagram.content) {
        (End::Peer(_), Content::Rtp(_)) => true,
        (End::Forwarder(forwarder), Content::Rtp(_) | Content::Rtcp(_)) => {
            forwarder.forwarding() == Forwarding::Switching
        }
        _ => false,
    }
}
