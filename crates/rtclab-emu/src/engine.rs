//! The loop that drives a network with a clock.

use crate::capture::Capture;
use crate::classify::classify;
use crate::config::PortConfig;
use crate::device::{Device, PortId};
use crate::frame::{FrameContent, ecn, flow, parse};
use crate::lateness::Lateness;
use crate::log_store::LogStore;
use crate::segments::Frame;
use crate::traffic::{Entered, NodePair, Tally};
use rtclab_core::ecn::Ecn;
use rtclab_core::network::{Network, NetworkConfig, NetworkEvent, NodeId, PathId, WaitsId};
use rtclab_core::path::{Mark, Packet, PathConfig};
use rtclab_core::pcapng::Direction;
use rtclab_core::units::{Bytes, Time};
use std::collections::HashMap;
use std::io;
use std::net::Ipv4Addr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};

/// Command to a running loop.
#[derive(Debug)]
pub(crate) enum Command {
    /// Replace the configuration of a path from now on.
    SetPath(PathId, Box<PathConfig>),
    /// Stop the loop.
    Stop,
}

/// Counts of events that are not in the packet log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Number of ARP requests answered.
    pub arp_answered: u64,
    /// Number of frames dropped because they were neither IPv4 nor an ARP request.
    pub not_ipv4: u64,
    /// Number of IPv4 packets dropped because no route leads to their address.
    pub no_route: u64,
    /// Number of delivered packets whose frame the device did not accept.
    pub write_failed: u64,
    /// Number of frames lost because the socket buffer was full, on a machine that was too slow.
    pub receive_overflows: u64,
    /// Number of frames missing from the capture file because the disk was too slow.
    pub capture_dropped: u64,
}

/// An error at which a port could not be read. Other ports went on.
#[derive(Debug)]
pub struct PortFailure {
    /// Name of the interface.
    pub interface: String,
    /// When the error was seen.
    pub at: Time,
    /// The error. With [`io::ErrorKind::NetworkDown`] the interface is used again once it comes up; after any
    /// other error nothing more is received from it.
    pub error: io::Error,
}

/// Result of a loop.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) packets: Option<LogStore>,
    pub(crate) traffic: Vec<NodePair>,
    pub(crate) lateness: Lateness,
    pub(crate) counters: Counters,
    pub(crate) port_failures: Vec<PortFailure>,
    /// Why the loop ended by itself.
    pub(crate) failure: Option<EngineError>,
}

/// Why a loop stopped by itself.
#[derive(Debug)]
pub(crate) enum EngineError {
    /// Waiting for the devices failed.
    Device(io::Error),
    /// The capture file failed; its writer returns the error.
    Capture,
}

/// A segment of a frame in the network, and the port at which it leaves.
struct Carried {
    frame: Arc<Frame>,
    segment: usize,
    port: PortId,
    entered: Entered,
    /// Its row in the log, if there is one.
    row: Option<usize>,
}

/// Consecutive segments of a frame that leave the network together, and are written as one frame.
struct Leaving {
    frame: Arc<Frame>,
    segments: Range<usize>,
    port: PortId,
    ecn: Ecn,
}

impl Leaving {
    /// Whether a segment continues these.
    fn is_continued_by(&self, next: &Carried, ecn: Ecn) -> bool {
        self.segments.end == next.segment
            && self.ecn == ecn
            && Arc::ptr_eq(&self.frame, &next.frame)
    }
}

/// A packet that leaves the network, and is not written yet.
struct Left {
    at: Time,
    row: Option<usize>,
    queued: Time,
    waits: WaitsId,
    mark: Option<Mark>,
}

struct ArrivedFrame {
    at: Time,
    port: PortId,
    frame: Frame,
}

/// A port and the index of its node.
struct Port {
    node: NodeId,
    config: PortConfig,
}

pub(crate) struct Engine<D> {
    device: D,
    network: Network<Carried>,
    ports: Vec<Port>,
    port_of_address: HashMap<Ipv4Addr, PortId>,
    /// Port for addresses that no node has.
    gateway: Option<PortId>,
    /// Time up to which the network has been driven. It accepts no earlier packets.
    clock: Time,
    arrivals: Vec<ArrivedFrame>,
    leaving: Option<Leaving>,
    /// The packets of `leaving`.
    left: Vec<Left>,
    capture: Option<Capture>,
    packets: Option<LogStore>,
    tally: Tally,
    lateness: Lateness,
    counters: Counters,
    port_failures: Vec<PortFailure>,
}

impl<D: Device> Engine<D> {
    /// Creates a loop over `ports` and a network, made of its configuration and seed. Fails if a port's node is
    /// unknown, two ports share an address, or two are gateways.
    pub(crate) fn new(
        device: D,
        (network, seed): (NetworkConfig, u64),
        ports: Vec<PortConfig>,
        packets: Option<LogStore>,
        capture: Option<Capture>,
    ) -> Result<Self, String> {
        let mut network = Network::new(network, seed).map_err(|error| error.to_string())?;
        if packets.is_some() {
            network.keep_waits();
        }
        let mut resolved: Vec<Port> = Vec::new();
        let mut port_of_address = HashMap::new();
        let mut gateway = None;
        for (index, config) in ports.into_iter().enumerate() {
            let known = network.nodes();
            let node = known.iter().position(|n| *n == config.node).ok_or_else(|| {
                format!(
                    "port `{}` belongs to unknown node `{}`; expected one of {known:?}",
                    config.interface, config.node
                )
            })?;
            if let Some(PortId(other)) = port_of_address.insert(config.address, PortId(index)) {
                let other = &resolved[other].config.interface;
                return Err(format!(
                    "ports `{other}` and `{}` have the same address {}",
                    config.interface, config.address
                ));
            }
            if config.gateway {
                if let Some(PortId(other)) = gateway.replace(PortId(index)) {
                    let other: &Port = &resolved[other];
                    return Err(format!(
                        "ports `{}` and `{}` are both gateways; expected at most one",
                        other.config.interface, config.interface
                    ));
                }
            }
            resolved.push(Port { node: NodeId(node as u32), config });
        }
        Ok(Engine {
            device,
            network,
            ports: resolved,
            port_of_address,
            gateway,
            clock: Time::ZERO,
            arrivals: Vec::new(),
            leaving: None,
            left: Vec::new(),
            capture,
            packets,
            tally: Tally::default(),
            lateness: Lateness::default(),
            counters: Counters::default(),
            port_failures: Vec::new(),
        })
    }

    /// Runs until the stop command, until the sender of commands is dropped, or until an error. What was logged
    /// by then is returned in any case.
    pub(crate) fn run(mut self, commands: &Receiver<Command>) -> Finished {
        let failure = self.run_until_stopped(commands).err();
        self.counters.receive_overflows = self.device.overflows();
        self.counters.capture_dropped = self.capture.as_ref().map_or(0, |capture| capture.dropped);
        let pairs = self.pairs();
        let Engine { packets, tally, lateness, counters, port_failures, .. } = self;
        let traffic = tally.finish(&pairs);
        Finished { packets, traffic, lateness, counters, port_failures, failure }
    }

    /// The pairs of nodes with a route from the first to the second.
    fn pairs(&self) -> Vec<(NodeId, NodeId)> {
        let nodes = || (0..self.network.nodes().len() as u32).map(NodeId);
        let all = nodes().flat_map(|from| nodes().map(move |to| (from, to)));
        all.filter(|(from, to)| self.network.route(*from, *to).is_some()).collect()
    }

    fn run_until_stopped(&mut self, commands: &Receiver<Command>) -> Result<(), EngineError> {
        loop {
            match commands.try_recv() {
                Ok(Command::SetPath(path, config)) => {
                    let now = self.device.now().max(self.clock);
                    self.drain(now)?;
                    self.network.set_config(now, path, *config);
                }
                Ok(Command::Stop) | Err(TryRecvError::Disconnected) => {
                    // Drops so far are logged.
                    let now = self.device.now();
                    return self.drain(now);
                }
                Err(TryRecvError::Empty) => {
                    let timeout = self.network.output_timeout();
                    self.device.wait(timeout).map_err(EngineError::Device)?;
                    self.step()?;
                }
            }
        }
    }

    /// Carries each frame that has arrived, in arrival order, and then drains the network up to now.
    fn step(&mut self) -> Result<(), EngineError> {
        let now = self.device.now();
        let mut arrivals = std::mem::take(&mut self.arrivals);
        self.device.receive(now, &mut |port, received| match received {
            Ok((at, frame)) => arrivals.push(ArrivedFrame { at, port, frame }),
            Err(error) => {
                let interface = self.ports[port.0].config.interface.clone();
                self.port_failures.push(PortFailure { interface, at: now, error });
            }
        });
        arrivals.sort_by_key(|arrival| arrival.at);
        for arrival in arrivals.drain(..) {
            self.handle_arrival(arrival)?;
        }
        self.arrivals = arrivals;
        self.drain(now)
    }

    fn handle_arrival(&mut self, mut arrival: ArrivedFrame) -> Result<(), EngineError> {
        // The network requires packets ordered by time. The log and the capture show the time at which the
        // network took this one.
        arrival.at = arrival.at.max(self.clock);
        let (frame, place) = (&arrival.frame, (arrival.at, arrival.port));
        self.record(place, Direction::Inbound, frame, (0..frame.segments(), ecn(frame.bytes())))?;
        match parse(arrival.frame.bytes()) {
            FrameContent::Other => self.counters.not_ipv4 += 1,
            FrameContent::ArpRequest { reply } => {
                self.counters.arp_answered += 1;
                let unchanged = ecn(&reply);
                self.write(arrival.port, &Frame::whole(reply), 0..1, unchanged)?;
            }
            FrameContent::Ipv4 { destination, size } => self.carry(arrival, destination, size)?,
        }
        Ok(())
    }

    fn carry(
        &mut self,
        arrival: ArrivedFrame,
        destination: Ipv4Addr,
        size: Bytes,
    ) -> Result<(), EngineError> {
        let from = self.ports[arrival.port.0].node;
        let Some(port) = self.port_to(destination) else {
            self.counters.no_route += 1;
            return Ok(());
        };
        let Port { node: to, config } = &self.ports[port.0];
        let to = *to;
        if self.network.route(from, to).is_none() {
            self.counters.no_route += 1;
            return Ok(());
        }
        let ArrivedFrame { at, mut frame, .. } = arrival;
        frame.readdress(config.mac);
        // Packets that leave before this one arrives come first.
        self.drain(at)?;
        let (ecn, flow) = (ecn(frame.bytes()), flow(frame.bytes()));
        let what = classify(frame.bytes());
        let frame = Arc::new(frame);
        for segment in 0..frame.segments() {
            let size = frame.size(segment, size);
            let row = self
                .packets
                .as_mut()
                .map(|log| log.push(|log| log.push(at, (from, to), size, ecn, what)));
            let entered = self.tally.enter(at, (from, to), size, ecn, what);
            let payload = Carried { frame: Arc::clone(&frame), segment, port, entered, row };
            let packet = Packet { size, ecn, flow, mark: None, payload };
            let refused = self.network.handle_packet(at, from, to, packet);
            debug_assert!(refused.is_ok(), "the route was looked up above");
        }
        Ok(())
    }

    /// The port at which packets to an address leave.
    fn port_to(&self, destination: Ipv4Addr) -> Option<PortId> {
        let known = self.port_of_address.get(&destination).copied();
        let unicast = !destination.is_multicast() && !destination.is_broadcast();
        known.or(self.gateway.filter(|_| unicast))
    }

    /// Advances the network to `now` and writes the packets that left it.
    fn drain(&mut self, now: Time) -> Result<(), EngineError> {
        self.clock = self.clock.max(now);
        while let Some(event) = self.network.poll(self.clock) {
            match event {
                NetworkEvent::Dropped { at, path, cause, packet } => {
                    let Carried { entered, row, .. } = packet.payload;
                    self.tally.dropped(&entered, cause);
                    if let Some((log, row)) = self.packets.as_mut().zip(row) {
                        log.complete(row, |log, row| log.dropped(row, at, path, cause));
                    }
                }
                NetworkEvent::Delivered { at, queued, waits, packet, .. } => {
                    self.deliver(at, (queued, waits), packet)?;
                }
            }
        }
        self.write_leaving()
    }

    /// Takes a packet that has left the network, to be written with those that it continues.
    fn deliver(
        &mut self,
        at: Time,
        (queued, waits): (Time, WaitsId),
        packet: Packet<Carried>,
    ) -> Result<(), EngineError> {
        let Packet { ecn, mark, payload, .. } = packet;
        // A path may have set another codepoint behind the queue that marked it.
        let mark = mark.filter(|_| ecn == Ecn::CongestionExperienced);
        self.tally.delivered(&payload.entered, at, mark);
        let left = Left { at, row: payload.row, queued, waits, mark };
        match &mut self.leaving {
            Some(leaving) if leaving.is_continued_by(&payload, ecn) => leaving.segments.end += 1,
            _ => {
                self.write_leaving()?;
                let Carried { frame, segment, port, .. } = payload;
                self.leaving = Some(Leaving { frame, segments: segment..segment + 1, port, ecn });
            }
        }
        self.left.push(left);
        Ok(())
    }

    /// Writes the packets that leave together, if there are any.
    fn write_leaving(&mut self) -> Result<(), EngineError> {
        let Some(Leaving { frame, segments, port, ecn }) = self.leaving.take() else {
            return Ok(());
        };
        let written = self.write(port, &frame, segments, ecn)?;
        for Left { at, row, queued, waits, mark } in self.left.drain(..) {
            if let Some(written) = written {
                self.lateness.add(at, written);
            }
            if let Some((log, row)) = self.packets.as_mut().zip(row) {
                let waited = self.network.waits().of(waits);
                log.complete(row, |log, row| {
                    log.delivered(row, at, queued, written);
                    log.waited(row, waited);
                    if let Some(mark) = mark {
                        log.marked(row, mark);
                    }
                });
                self.network.waits_mut().forget(waits);
            }
        }
        Ok(())
    }

    /// Writes segments of a frame. Returns the time at which the device had accepted them, or `None` if it did not.
    fn write(
        &mut self,
        port: PortId,
        frame: &Frame,
        segments: Range<usize>,
        ecn: Ecn,
    ) -> Result<Option<Time>, EngineError> {
        if self.device.send(port, &frame.outgoing(&segments, ecn)).is_err() {
            self.counters.write_failed += segments.len() as u64;
            return Ok(None);
        }
        let now = self.device.now();
        self.record((now, port), Direction::Outbound, frame, (segments, ecn))?;
        Ok(Some(now))
    }

    /// Captures segments, each as it is on a wire.
    fn record(
        &mut self,
        (at, port): (Time, PortId),
        direction: Direction,
        frame: &Frame,
        (segments, ecn): (Range<usize>, Ecn),
    ) -> Result<(), EngineError> {
        let Some(capture) = &mut self.capture else { return Ok(()) };
        for segment in segments {
            let bytes = frame.outgoing(&(segment..segment + 1), ecn).on_wire();
            capture.record(at, port, direction, &bytes).map_err(|_| EngineError::Capture)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
