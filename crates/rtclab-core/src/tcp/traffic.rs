//! Sources of cross traffic: endless transfers and objects with pauses between them.

use super::{Algorithm, Receiver, Segment, SegmentKind, Sender, SenderConfig};
use crate::endpoint::Wire;
use crate::network::{NodeId, derive_seed};
use crate::record::{Cell, FlowId, NO_INT, Stats};
use crate::timeouts::Timeouts;
use crate::units::{Bytes, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

/// Objects one after the other, each over a connection of its own (RFC 8868, section 5, short TCP).
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectsConfig {
    /// Sizes are uniform from here …
    pub min_bytes: Bytes,
    /// … to here.
    pub max_bytes: Bytes,
    /// Pauses between them are exponential with this mean.
    pub mean_idle_ns: Time,
    /// Whether it begins with a pause.
    pub idle_first: bool,
}

/// TCP from one node to another.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrafficConfig {
    /// Names of its flows: one for each endless transfer, one for all objects together.
    pub flows: Vec<String>,
    /// Name of the node that sends data.
    pub sender: String,
    /// Name of the node that receives them.
    pub receiver: String,
    /// How it controls congestion.
    pub congestion_control: Algorithm,
    /// How many connections there are at the same time.
    pub connections: u32,
    /// When they begin.
    pub start_ns: Time,
    /// When nothing new is sent any more.
    pub stop_ns: Time,
    /// What is sent; `None` is an endless transfer.
    pub objects: Option<ObjectsConfig>,
}

/// Name of the flow of a flow's acknowledgements.
pub(crate) fn acknowledgements(flow: &str) -> String {
    format!("{flow} acks")
}

/// All sources of a run.
pub struct Traffic {
    sources: Vec<Source>,
    flows: Vec<FlowId>,
    timeouts: Timeouts,
}

/// One connection after another, or one that does not end.
struct Source {
    from: NodeId,
    to: NodeId,
    /// Of its data; acknowledgements go on the next one.
    flow: FlowId,
    congestion_control: Algorithm,
    objects: Option<ObjectsConfig>,
    connection: Option<Connection>,
    /// How many connections it had, and when the next begins.
    opened: u32,
    begin: Time,
    stop: Time,
    closed: bool,
    rng: Pcg64Mcg,
    /// Of the connections that are over.
    past: Totals,
}

struct Connection {
    id: u32,
    sender: Sender,
    receiver: Receiver,
}

#[derive(Clone, Copy, Default)]
struct Totals {
    delivered: u64,
    retransmitted: u64,
    timeouts: u64,
    objects: u64,
}

impl Traffic {
    /// The sources of `configs`; their flows are numbered from `first_flow` on, data and
    /// acknowledgements in turn, in the order of [`Traffic::flow_names`].
    ///
    /// # Errors
    /// What `node` says of a name that is no node.
    pub fn new<E>(
        configs: &[TrafficConfig],
        first_flow: usize,
        seed: u64,
        node: impl Fn(&str) -> Result<NodeId, E>,
    ) -> Result<Self, E> {
        let (mut sources, mut all_flows) = (Vec::new(), Vec::new());
        let mut flow = first_flow as u16;
        for config in configs {
            let (from, to) = (node(&config.sender)?, node(&config.receiver)?);
            let flows = config.flows.len().max(1) as u32;
            for index in 0..config.connections {
                let own = FlowId(flow + 2 * (index % flows) as u16);
                let seed = derive_seed(seed, sources.len() as u64);
                sources.push(Source::new(config, (from, to), own, seed));
            }
            all_flows.extend((0..flows).map(|index| FlowId(flow + 2 * index as u16)));
            flow += 2 * flows as u16;
        }
        let timeouts = Timeouts::new(sources.iter().map(Source::timeout));
        Ok(Traffic { sources, flows: all_flows, timeouts })
    }

    /// Names of the flows, in the order of their numbers.
    pub fn flow_names(configs: &[TrafficConfig]) -> Vec<String> {
        let flows = configs.iter().flat_map(|config| &config.flows);
        flows.flat_map(|flow| [flow.clone(), acknowledgements(flow)]).collect()
    }

    /// When to call [`Traffic::handle_timeout`]; [`Time::MAX`] for never.
    pub fn poll_timeout(&self) -> Time {
        self.timeouts.earliest().1
    }

    /// Does what is due first.
    pub fn handle_timeout(&mut self, now: Time, wire: &mut Wire) {
        let (index, count) = (self.timeouts.earliest().0, self.sources.len() as u32);
        let Some(source) = self.sources.get_mut(index) else { return };
        source.handle_timeout(now, index as u32, count);
        source.send(now, wire);
        self.update(index);
    }

    /// A segment reached its node.
    pub fn handle_segment(&mut self, now: Time, segment: &Segment, wire: &mut Wire) {
        let index = segment.connection as usize % self.sources.len().max(1);
        let Some(source) = self.sources.get_mut(index) else { return };
        source.handle_segment(now, segment);
        source.send(now, wire);
        self.update(index);
    }

    /// Writes the second that ends now.
    pub fn write_stats(&self, now: Time, wire: &mut Wire) {
        for &flow in &self.flows {
            let sources = self.sources.iter().filter(|source| source.flow == flow);
            write_flow(now, flow, sources, wire);
        }
    }

    fn update(&mut self, index: usize) {
        self.timeouts.set(index, self.sources[index].timeout());
    }
}

fn write_flow<'a>(
    now: Time,
    flow: FlowId,
    sources: impl Iterator<Item = &'a Source>,
    wire: &mut Wire,
) {
    let (mut totals, mut open, mut window, mut rtts) = (Totals::default(), 0, 0, Vec::new());
    for source in sources {
        let sum = source.totals();
        totals.delivered += sum.delivered;
        totals.retransmitted += sum.retransmitted;
        totals.timeouts += sum.timeouts;
        totals.objects += sum.objects;
        if let Some(connection) = &source.connection {
            open += 1;
            window += i64::from(connection.sender.window().segments);
            rtts.extend(connection.sender.smoothed_rtt());
        }
    }
    let mean =
        |rtts: &[Time]| rtts.iter().map(|rtt| rtt.as_secs_f64()).sum::<f64>() / rtts.len() as f64;
    let flow = Cell::Text(wire.recorder.flow_text(flow));
    wire.recorder.stats(
        Stats::Tcp,
        &[
            Cell::Int(now.0 as i64),
            flow,
            Cell::Int(open),
            Cell::Int(if open > 0 { window } else { NO_INT }),
            Cell::Float(mean(&rtts) * 1e3),
            Cell::Int(totals.delivered as i64),
            Cell::Int(totals.retransmitted as i64),
            Cell::Int(totals.timeouts as i64),
            Cell::Int(totals.objects as i64),
        ],
    );
}

impl Source {
    fn new(config: &TrafficConfig, (from, to): (NodeId, NodeId), flow: FlowId, seed: u64) -> Self {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let idle = config.objects.filter(|objects| objects.idle_first);
        let pause = idle.map_or(Time::ZERO, |objects| exponential(&mut rng, objects.mean_idle_ns));
        Source {
            from,
            to,
            flow,
            congestion_control: config.congestion_control,
            objects: config.objects,
            connection: None,
            opened: 0,
            begin: config.start_ns.saturating_add(pause),
            stop: config.stop_ns,
            closed: false,
            rng,
            past: Totals::default(),
        }
    }

    fn timeout(&self) -> Option<Time> {
        let Some(connection) = &self.connection else {
            return (self.begin < self.stop).then_some(self.begin);
        };
        let stop = (!self.closed && self.objects.is_none()).then_some(self.stop);
        let ends = [connection.sender.poll_timeout(), connection.receiver.poll_timeout(), stop];
        ends.into_iter().flatten().min()
    }

    fn handle_timeout(&mut self, now: Time, index: u32, sources: u32) {
        if self.connection.is_none() {
            // Where numbers run out after 2^32 objects, they are used again.
            let id = self.opened.wrapping_mul(sources).wrapping_add(index);
            self.open(id);
        }
        if let Some(connection) = &mut self.connection {
            if now >= self.stop && self.objects.is_none() && !self.closed {
                self.closed = true;
                connection.sender.close();
            }
            connection.sender.handle_timeout(now);
        }
    }

    fn open(&mut self, id: u32) {
        let size = self.objects.map(|objects| {
            let (min, max) = (objects.min_bytes.0, objects.max_bytes.0);
            Bytes(self.rng.random_range(min..=max.max(min)))
        });
        self.opened += 1;
        self.connection = Some(Connection {
            id,
            sender: Sender::new(SenderConfig {
                connection: id,
                congestion_control: self.congestion_control,
                size,
                seed: self.rng.random(),
            }),
            receiver: Receiver::new(id),
        });
    }

    fn handle_segment(&mut self, now: Time, segment: &Segment) {
        let current = self.connection.as_mut().filter(|open| open.id == segment.connection);
        let Some(connection) = current else { return };
        match segment.kind {
            SegmentKind::Syn | SegmentKind::Data => {
                connection.receiver.handle_segment(now, segment);
            }
            SegmentKind::SynAck | SegmentKind::Ack => {
                connection.sender.handle_segment(now, segment);
            }
        }
        if connection.sender.is_finished() {
            self.past = self.totals();
            self.connection = None;
            self.begin = Time::MAX;
            if let Some(objects) = self.objects {
                self.past.objects += 1;
                let pause = exponential(&mut self.rng, objects.mean_idle_ns);
                self.begin = now.saturating_add(pause);
            }
        }
    }

    fn send(&mut self, now: Time, wire: &mut Wire) {
        let Some(connection) = &mut self.connection else { return };
        while let Some(segment) = connection.sender.poll(now) {
            wire.send_segment(now, (self.from, self.to), self.flow, segment);
        }
        while let Some(segment) = connection.receiver.poll(now) {
            wire.send_segment(now, (self.to, self.from), FlowId(self.flow.0 + 1), segment);
        }
    }

    fn totals(&self) -> Totals {
        let mut totals = self.past;
        if let Some(Connection { sender, receiver, .. }) = &self.connection {
            totals.delivered += receiver.delivered().0;
            totals.retransmitted += sender.retransmissions();
            totals.timeouts += sender.timeouts();
        }
        totals
    }
}

fn exponential(rng: &mut Pcg64Mcg, mean: Time) -> Time {
    let uniform: f64 = rng.random();
    Time::from_secs_f64(-mean.as_secs_f64() * (1.0 - uniform).ln())
}
