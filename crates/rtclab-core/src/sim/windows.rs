//! Runs node after node for a while, instead of event after event.
//!
//! Nothing that a node does reaches another before the [lookahead](crate::network::lookahead) of the network. So within
//! windows of that time each node is run for itself: in its own cache, or on a processor of its own. Where a node falls
//! into [parts](Node::split), each part is run for itself too. What the nodes sent in a window is then put into the
//! network, in the order in which it was sent. On several threads that happens while the nodes run through the next
//! window, so windows are half as long. The order of all events, and so every byte, is the same as event after event
//! (`make same-bytes` compares them). The caller brings the threads, as an [`Executor`].
//!
//! Runs with a capture, TURN over TCP or controls of others go event after event. So does every run while a route ends
//! in a path without delay, and on one thread a run of few ends, for which windows do not pay.

use super::config::SimError;
use super::links::Flight;
use super::moment::Moment;
use super::order::{Happening, Order};
use super::world::World;
use crate::network::lookahead::{Delivery, Lookahead, Until};
use crate::network::{NetworkEvent, NodeId};
use crate::node::{Departing, Node, NodeEvent};
use crate::units::Time;
use std::collections::VecDeque;
use std::sync::Mutex;

/// Something to be done.
pub type Job<'a> = Box<dyn FnOnce() + Send + 'a>;

/// What runs jobs, on one thread or several.
pub trait Executor {
    /// Number of its threads.
    fn threads(&self) -> usize;
    /// Does all jobs, at the same time if it can, and returns when they are done.
    fn run_all(&self, jobs: Vec<Job<'_>>);
}

/// Does one job after another in the calling thread.
pub struct Sequential;

impl Executor for Sequential {
    fn threads(&self) -> usize {
        1
    }

    fn run_all(&self, jobs: Vec<Job<'_>>) {
        jobs.into_iter().for_each(|job| job());
    }
}

/// Where something belongs in the order of a run without windows: by time; at one time deliveries before timeouts,
/// deliveries in the order of the network, and timeouts by when they were due and by port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct EventKey {
    at: Time,
    /// The number of a delivery; [`EventKey::TIMEOUT`] for a timeout.
    delivery: u64,
    due: Time,
    /// The port of a timeout; the path of a delivery.
    port: u32,
    /// The number of a delivered packet on that path.
    number: u64,
}

impl EventKey {
    const TIMEOUT: u64 = u64::MAX;
    const BEGINNING: EventKey =
        EventKey { at: Time::ZERO, delivery: 0, due: Time::ZERO, port: 0, number: 0 };

    /// The moment in the network up to which everything has happened.
    fn until(&self) -> Until {
        match self.delivery {
            EventKey::TIMEOUT => Until::End(self.at),
            _ => Until::Delivery(self.at, self.port as usize, self.number),
        }
    }
}

/// A datagram that arrives at a node.
struct Arrived {
    key: EventKey,
    flight: Flight,
}

/// What a node does.
enum Output {
    Event(NodeEvent),
    Departing(Departing),
    /// Its time stands still.
    Standstill,
}

/// What comes to a node and from it.
#[derive(Default)]
struct NodeRun {
    /// Datagrams that arrive in the window, in order.
    inbox: Vec<Arrived>,
    /// For each part of the node, the places of its datagrams in the inbox.
    inboxes: Vec<Vec<u32>>,
    /// What the node did. Each part of it did so in order.
    outputs: Vec<(EventKey, Option<Output>)>,
    /// Number of events in the last window.
    events: usize,
}

impl NodeRun {
    /// Runs a node from `begin` to `until`. `ends` is the number of ends of the whole run.
    fn run(&mut self, node: &mut Node, (begin, until): (Time, Time), ends: usize) {
        self.events = 0;
        let inbox = std::mem::take(&mut self.inbox);
        let parts = node.split(until);
        if parts > 0 && self.sort(node, &inbox, parts) {
            for part in 0..parts {
                let places = std::mem::take(&mut self.inboxes[part]);
                let arrivals = places.iter().map(|place| &inbox[*place as usize]);
                self.run_part(node, Some(part), arrivals, (begin, until), ends);
                self.inboxes[part] = places;
            }
        } else {
            node.join();
            self.run_part(node, None, inbox.iter(), (begin, until), ends);
        }
        self.inbox = inbox;
        self.inbox.clear();
    }

    /// Sorts the datagrams by the parts of the node; returns whether each is for one of them.
    fn sort(&mut self, node: &Node, inbox: &[Arrived], parts: usize) -> bool {
        self.inboxes.resize_with(parts, Vec::new);
        self.inboxes.iter_mut().for_each(Vec::clear);
        for (place, arrived) in (0..).zip(inbox) {
            let Some(part) = node.part_of(arrived.flight.to.port) else { return false };
            self.inboxes[part].push(place);
        }
        true
    }

    /// Runs a part of a node, or the whole node.
    fn run_part<'a>(
        &mut self,
        node: &mut Node,
        part: Option<usize>,
        arrivals: impl Iterator<Item = &'a Arrived>,
        (begin, until): (Time, Time),
        ends: usize,
    ) {
        let mut arrivals = arrivals.peekable();
        let mut moment = Moment::default();
        let mut last = begin;
        let mut last_key = EventKey::BEGINNING;
        loop {
            let arrival = arrivals.peek().map_or(Time::MAX, |arrived| arrived.key.at);
            let (due, port) = match part {
                Some(part) => node.next_of(part),
                None => node.next().unwrap_or((Time::MAX, 0)),
            };
            // All deliveries at one time come before its timeouts, also those that are overdue.
            let is_delivery = arrival <= due.max(last);
            let now = arrival.min(due).max(last);
            if now >= until {
                return;
            }
            last = now;
            moment.begin(now);
            self.events += 1;
            match arrivals.next_if(|_| is_delivery) {
                Some(Arrived { key, flight }) => {
                    last_key = *key;
                    node.handle_datagram(now, flight.to.port, &flight.received(now));
                }
                None => {
                    let key =
                        EventKey { at: now, delivery: EventKey::TIMEOUT, due, port, number: 0 };
                    last_key = last_key.max(key);
                    if !moment.count_timeout(ends) {
                        self.outputs.push((last_key, Some(Output::Standstill)));
                        return;
                    }
                    match part {
                        Some(part) => node.handle_timeout_of(part, now),
                        None => node.handle_timeout(now),
                    }
                }
            }
            while let Some(event) = node.poll_event() {
                self.outputs.push((last_key, Some(Output::Event(event))));
            }
            while let Some(departing) = node.poll_transmit(now) {
                self.outputs.push((last_key, Some(Output::Departing(departing))));
            }
        }
    }
}

/// The state of a run in windows.
pub(super) struct Windows {
    runs: Vec<NodeRun>,
    /// What the nodes did in the window that is over.
    done: Vec<Vec<(EventKey, Option<Output>)>>,
    foreseen: Deliveries,
}

/// Deliveries that the network foresees.
struct Deliveries {
    /// Everything before this time has been taken out of the network.
    until: Time,
    /// Number of the next delivery.
    next: u64,
    /// Those of one window, path by path.
    deliveries: Vec<Delivery<u32>>,
    /// Datagrams for each node in the next window, in order.
    arrived: Vec<Vec<Arrived>>,
    /// Datagrams that servers and relays pass on, in order.
    passing: VecDeque<(EventKey, NodeId, u32)>,
    /// The order of deliveries, as time, path and index in `deliveries`. Later, the order of outputs, as time, node and index
    /// among the outputs of that node.
    order: Order,
}

impl Windows {
    /// Prepares a run of this many nodes.
    pub(super) fn new(nodes: usize) -> Self {
        Windows {
            runs: (0..nodes).map(|_| NodeRun::default()).collect(),
            done: (0..nodes).map(|_| Vec::new()).collect(),
            foreseen: Deliveries {
                until: Time::ZERO,
                next: 0,
                deliveries: Vec::new(),
                arrived: (0..nodes).map(|_| Vec::new()).collect(),
                passing: VecDeque::new(),
                order: Order::default(),
            },
        }
    }

    /// Runs from `begin` to just before `end`; everything before `begin` has happened.
    pub(super) fn run(
        &mut self,
        (begin, end): (Time, Time),
        lookahead: &Lookahead,
        nodes: &mut [Node],
        world: &mut World,
        executor: &dyn Executor,
    ) -> Result<(), SimError> {
        // On several threads, one settles what was done in a window while the others run through the next one.
        let threads = executor.threads();
        let length = if threads > 1 { Time((lookahead.time.0 / 2).max(1)) } else { lookahead.time };
        let ends = world.ends.len();
        let mut now = begin;
        self.foreseen.take(world, lookahead, now, end.min(now + length));
        while now < end {
            let next = end.min(now + length);
            let Windows { runs, done, foreseen } = self;
            // The inboxes of the window before are empty.
            for (run, arrived) in runs.iter_mut().zip(&mut foreseen.arrived) {
                std::mem::swap(&mut run.inbox, arrived);
            }
            let mut waiting: Vec<_> = runs.iter_mut().zip(nodes.iter_mut()).collect();
            if threads > 1 {
                // The last one is taken first.
                waiting.sort_by_key(|(run, _)| run.events);
                let waiting = Mutex::new(waiting);
                let run_nodes = || {
                    let take = || waiting.lock().ok()?.pop();
                    while let Some((run, node)) = take() {
                        run.run(node, (now, next), ends);
                    }
                };
                let mut jobs: Vec<Job<'_>> = Vec::new();
                jobs.push(Box::new(|| {
                    world.settle(foreseen, done, now);
                    foreseen.take(world, lookahead, now, end.min(next + length));
                    run_nodes();
                }));
                (1..threads).for_each(|_| jobs.push(Box::new(&run_nodes)));
                executor.run_all(jobs);
            } else {
                waiting.into_iter().for_each(|(run, node)| run.run(node, (now, next), ends));
            }
            for (run, done) in runs.iter_mut().zip(&mut *done) {
                std::mem::swap(&mut run.outputs, done);
            }
            if threads == 1 {
                world.settle(foreseen, done, next);
                foreseen.take(world, lookahead, next, end.min(next + length));
            }
            if let Some(failure) = &world.failure {
                return Err(failure.clone());
            }
            now = next;
        }
        world.settle(&mut self.foreseen, &mut self.done, end);
        nodes.iter_mut().for_each(Node::join);
        world.failure.clone().map_or(Ok(()), Err)
    }
}

impl Deliveries {
    /// Takes all deliveries before `until` out of the network. Everything before `now` has happened in it.
    fn take(&mut self, world: &mut World, lookahead: &Lookahead, now: Time, until: Time) {
        if until <= self.until {
            return;
        }
        self.until = until;
        let World { links, recorder, .. } = world;
        links.network.take_deliveries(lookahead, (now, until), &mut self.deliveries);
        self.order.clear();
        let order =
            (0..).zip(&self.deliveries).map(|(place, one)| (one.at, one.path as u32, place));
        self.order.extend(order);
        for &(.., place) in self.order.sort_by(Ord::cmp) {
            let Delivery { at, path, number, to, queued, waits, packet } =
                self.deliveries[place as usize];
            let key = EventKey { at, delivery: self.next, due: at, port: path as u32, number };
            self.next += 1;
            let id = packet.payload;
            links.crossed(packet, queued, waits);
            if links.flight(id).is_some_and(|flight| flight.to.node != to) {
                self.passing.push_back((key, to, id));
            } else if let Some(flight) = links.take(id) {
                if let Some(record) = flight.record {
                    let waits = links.network.waits();
                    recorder.delivered(at, record, flight.wire_size, flight.fate(), waits);
                }
                self.arrived[to.0 as usize].push(Arrived { key, flight });
            }
        }
        self.deliveries.clear();
    }
}

impl World {
    /// Puts what nodes, servers and relays did before `end` into the network and the record, in order, and lets
    /// everything happen in the network that happens before `end`.
    fn settle(
        &mut self,
        foreseen: &mut Deliveries,
        done: &mut [Vec<(EventKey, Option<Output>)>],
        end: Time,
    ) {
        let Deliveries { order, passing, .. } = foreseen;
        order.clear();
        for (node, outputs) in (0..).zip(&*done) {
            order.extend((0..).zip(outputs).map(|(place, (key, _))| (key.at, node, place)));
        }
        let outside = done.len() as u32;
        let pass = passing.iter().take_while(|(key, ..)| key.at < end);
        order.extend((0..).zip(pass).map(|(place, (key, ..))| (key.at, outside, place)));
        // Keys are large, and most things happen at a time of their own. Those with equal keys are of one part of a node,
        // and stay in its order.
        let key = |&(_, node, place): &Happening| match done.get(node as usize) {
            Some(outputs) => outputs[place as usize].0,
            None => passing[place as usize].0,
        };
        let in_order = order.sort_by(|one, other| (key(one), one).cmp(&(key(other), other)));
        for &(at, node, place) in in_order {
            if self.failure.is_some() {
                return;
            }
            let Some(outputs) = done.get_mut(node as usize) else {
                if let Some((key, node, id)) = passing.pop_front() {
                    self.happen(key.until());
                    self.pass(at, node, id);
                }
                continue;
            };
            let (key, output) = &mut outputs[place as usize];
            self.happen(key.until());
            match output.take() {
                Some(Output::Event(event)) => self.handle_event(key.at, event),
                Some(Output::Departing(departing)) => self.launch(key.at, departing),
                Some(Output::Standstill) => {
                    let what = format!("a part of {}", self.ends[key.port as usize].owner);
                    self.failure = Some(SimError::Standstill { at: key.at, what, next: key.due });
                }
                None => {}
            }
        }
        done.iter_mut().for_each(Vec::clear);
        self.happen(Until::Before(end));
    }

    /// Lets everything happen in the network until then.
    fn happen(&mut self, until: Until) {
        while let Some(event) = self.links.network.poll_until(until) {
            if let NetworkEvent::Dropped { at, path, cause, packet } = event {
                self.dropped(at, packet.payload, path, cause);
            }
        }
    }
}
