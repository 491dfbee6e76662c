//! The event loop in virtual time, which drives the endpoints.

mod build;
mod config;
mod ends;
mod links;
mod mixing;
mod moment;
mod nats;

use crate::capture::{Capture, Captured, Passing};
use crate::cc::{self, ConfigError, CongestionControlConfig, Halves, RateBounds};
use crate::endpoint::{self, Forwarding};
use crate::media::host::Host;
use crate::media::playout::Rendered;
use crate::network::NodeId;
use crate::packet::{Address, Content, Datagram, Via};
use crate::record::{FlowId, Recorder, Source, Table};
use crate::signalling;
use crate::table::Text;
use crate::tcp;
use crate::timeouts::Timeouts;
use crate::turn_tcp::Carried;
use crate::units::Time;
use ends::{End, Event};
use links::{Arrival, FlightId, Links};
use mixing::Mixer;
use moment::Moment;
use nats::Nats;

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
    let ends: Vec<NodeId> = simulation.places.iter().map(|place| place.node).collect();
    let mut capture = Capture::new(&config.network.nodes, &ends, &descriptions);
    simulation.capture = Some(&mut capture);
    simulation.run(config.duration_ns)?;
    let result = simulation.finish(config.duration_ns);
    Ok((result, capture.finish()))
}

/// What the driver knows about an end.
struct Place {
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
    /// Index of the end whose media this one forwards.
    media_from: Option<usize>,
    /// Indices of the ends that forward what this one receives.
    media_to: Vec<usize>,
    /// Index of the page that this end of a call belongs to; `None` for an end at the signalling server.
    page: Option<usize>,
    /// Index of this end's TCP connection with its TURN relay, if it has one. The next index is the relay's end.
    turn: Option<usize>,
}

/// A machine that takes time for encoding.
struct Machine {
    /// Its node.
    node: NodeId,
    /// Name of the participant or server.
    name: Text,
    /// Its processor.
    host: Host,
}

struct Simulation<'a> {
    links: Links,
    /// Indexed by the port of their address.
    ends: Vec<End>,
    places: Vec<Place>,
    timeouts: Timeouts,
    /// Machines that take time for encoding.
    machines: Vec<Machine>,
    mixer: Mixer,
    nats: Nats,
    /// Index of the signalling server, if calls have pages.
    signalling: Option<usize>,
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
            let (index, timeout) = self.timeouts.earliest();
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
                    let what =
                        format!("{} of {}", self.ends[index].due(), self.places[index].owner);
                    return Err(SimError::Standstill { at: now, what, next: timeout });
                }
                self.ends[index].handle_timeout(now);
                self.drain(now, index);
            }
            if let Some(failure) = self.failure.take() {
                return Err(failure);
            }
        }
    }

    fn finish(mut self, duration: Time) -> SimResult {
        for machine in &self.machines {
            self.recorder.load(machine.name, machine.host.busy(), duration);
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
                self.links.end(id);
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
        if let Some(turn) = self.places[flight.to.port as usize].turn
            && is_relayed(flight.via, &flight.datagram)
        {
            return self.carry(now, turn + 1, id);
        }
        if let Some(capture) = &mut self.capture {
            capture.forwarded(now, node, flight.passing());
        }
        self.links.pass(now, node, id);
    }

    /// Sends a datagram over the TCP connection between a client and its relay.
    fn carry(&mut self, now: Time, turn: usize, id: FlightId) {
        if let End::Turn(stream) = &mut self.ends[turn]
            && let Some(flight) = self.links.flight(id)
            && !stream.send(flight.wire_size, id)
        {
            self.links.end(id);
        }
        self.drain(now, turn);
    }

    /// Handles a datagram that came out of the TCP connection between a client and its relay.
    fn handle_carried(&mut self, now: Time, index: usize, Carried { datagram, queued }: Carried) {
        self.links.add_queued(datagram, queued);
        match &self.ends[index] {
            End::Turn(stream) if stream.is_client() => {
                self.receive(now, datagram);
                self.links.end(datagram);
            }
            _ => self.pass(now, self.places[index].node, datagram),
        }
    }

    fn receive(&mut self, now: Time, id: FlightId) {
        let Some(flight) = self.links.flight(id) else { return };
        // A packet is delivered when it has left the last path, as in a live call. A NAT may then filter it.
        if let Some(record) = flight.record {
            self.recorder.delivered(now, record, flight.wire_size, flight.past.queued);
        }
        let Some(index) = self.nats.receive(flight.from, flight.to, flight.via, &flight.datagram)
        else {
            return;
        };
        let end = &mut self.ends[index];
        end.handle_datagram(now, flight.from, &flight.datagram, flight.past.queued);
        let passes = passes_on(end, &flight.datagram);
        self.drain(now, index);
        if !passes {
            return;
        }
        // RTCP of a receiver goes back to the source of its media. Media, and RTCP of its sender, goes to all
        // ends that forward it.
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
            forwarder.forward(now, flight.past, &flight.datagram);
            self.drain(now, index);
        }
    }

    /// Takes all events and datagrams from an end.
    fn drain(&mut self, now: Time, index: usize) {
        if self.ends[index].is_pending() {
            self.take_all(now, index);
        }
        self.timeouts.set(index, self.ends[index].poll_timeout());
    }

    fn take_all(&mut self, now: Time, index: usize) {
        while let Some(event) = self.ends[index].poll_event() {
            match event {
                Event::Endpoint(event) => self.handle_event(now, index, event),
                Event::Signalling(event) => self.handle_signalling(now, index, event),
                Event::Tcp(tcp::Event::Statistics(figures)) => {
                    self.recorder.tcp(now, self.places[index].data_flow, figures);
                }
                Event::Carried(carried) => self.handle_carried(now, index, carried),
            }
        }
        let Place { node, flow, turn, .. } = self.places[index];
        let inside = Address { node, port: index as u32 };
        while let Some(transmit) = self.ends[index].poll_transmit(now) {
            if let Some(turn) = turn
                && is_relayed(transmit.via, &transmit.datagram)
            {
                let record = self.recorder.sent(flow, &transmit);
                let id = self.links.hold(inside, transmit, record);
                self.carry(now, turn, id);
                continue;
            }
            let Some(from) = self.nats.send(inside, &transmit) else { continue };
            let record = self.recorder.sent(flow, &transmit);
            if let Some(capture) = &mut self.capture {
                capture.sent(now, Passing::sent(from, &transmit));
            }
            self.links.launch(now, from, transmit, record);
        }
    }

    /// Handles an event of a page or the signalling server.
    fn handle_signalling(&mut self, now: Time, index: usize, event: signalling::Event) {
        match event {
            signalling::Event::Present(pages) => {
                for end in 0..self.places.len() {
                    // The two ends of a connection have adjacent numbers.
                    let far = self.places.get(end ^ 1).and_then(|place| place.page);
                    let is_present = far.is_none_or(|page| pages.contains(&(page as u32)));
                    if self.places[end].page == Some(index) && is_present {
                        self.ends[end].handle_present(now);
                        self.drain(now, end);
                    }
                }
            }
            signalling::Event::Signal(signal) => {
                let end = signal.to as usize;
                if let Some(of) = self.ends.get_mut(end) {
                    of.handle_signal(now, signal);
                    self.drain(now, end);
                }
            }
        }
    }

    fn handle_event(&mut self, now: Time, index: usize, event: endpoint::Event) {
        match event {
            endpoint::Event::EncodeRequested { stream, pixels } => {
                let ready = self.host(index).map_or(now, |host| host.encode(now, pixels));
                if let End::Peer(peer) = &mut self.ends[index] {
                    peer.handle_encoded(stream, ready);
                }
            }
            endpoint::Event::FrameRendered { ssrc, frame } => self.show(now, index, ssrc, &frame),
            endpoint::Event::Composed { at } => self.mixer.compose(index, at),
            endpoint::Event::Left => {
                for end in self.mixer.leave(index) {
                    self.set_pictures_from(end, Time::MAX);
                }
                self.record(now, index, event);
            }
            endpoint::Event::KeyFrameRequested => {
                let Some(source) = self.places[index].media_from else { return };
                if let End::Peer(peer) = &mut self.ends[source] {
                    peer.request_key_frame(now);
                    self.drain(now, source);
                }
            }
            endpoint::Event::Signal(signal) => {
                let Some(to) = self.places[index].page.or(self.signalling) else { return };
                match &mut self.ends[to] {
                    End::Page(page) => page.send(signal),
                    End::Signalling(server) => server.send(now, signal),
                    _ => {}
                }
                self.drain(now, to);
            }
            endpoint::Event::Failed(error) => {
                let what = self.places[index].control.clone();
                self.failure.get_or_insert(SimError::Control { at: now, what, error });
            }
            event => self.record(now, index, event),
        }
    }

    /// The processor of the machine at which an end is.
    fn host(&mut self, index: usize) -> Option<&mut Host> {
        let node = self.places[index].node;
        let machine = self.machines.iter_mut().find(|machine| machine.node == node)?;
        Some(&mut machine.host)
    }

    /// An end shows a picture, or a server that mixes decodes it.
    fn show(&mut self, now: Time, index: usize, ssrc: u32, frame: &Rendered) {
        let (width, height) = frame.resolution;
        let pixels = u32::from(width) * u32::from(height);
        let ready = self.host(index).map_or(now, |host| host.decode(now, pixels));
        let Some(source) = self.places[index].source else { return };
        // The two ends of a connection have adjacent numbers.
        let picture = self.mixer.shown(index ^ 1, source.captured(frame));
        self.recorder.frame(&source, ssrc, frame, picture.map(|picture| picture.captured));
        let Some(picture) = picture else { return };
        for end in self.mixer.decode(index, now, ready, picture) {
            self.set_pictures_from(end, ready);
        }
    }

    fn set_pictures_from(&mut self, index: usize, at: Time) {
        if let End::Peer(peer) = &mut self.ends[index] {
            peer.set_pictures_from(at);
        }
    }

    fn record(&mut self, now: Time, index: usize, event: endpoint::Event) {
        if let Some(source) = &self.places[index].source {
            self.recorder.event(now, source, event);
        }
    }
}

/// Whether a datagram passes a TURN relay, or is part of the exchange with it.
fn is_relayed(via: Via, datagram: &Datagram) -> bool {
    matches!(via, Via::Relay(_)) || matches!(datagram.content, Content::Allocation(_))
}

/// Whether a datagram that arrived at an end is handed to the ends that forward it.
fn passes_on(end: &End, datagram: &Datagram) -> bool {
    match (end, &datagram.content) {
        (End::Peer(peer), Content::Rtp(_)) => peer.decrypts(),
        (End::Forwarder(forwarder), Content::Rtp(_) | Content::Rtcp(_)) => {
            forwarder.forwarding() == Forwarding::Switching
        }
        _ => false,
    }
}
