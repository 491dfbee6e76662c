//! One direction of a link: queue, serialiser (capacity), then wire (delay, jitter, loss).
//!
//! A packet is waiting in the queue, being serialised, or in flight. The queue limit counts waiting
//! packets only, so packets in flight on a long link do not use up its buffer.
//!
//! The queuing delay of a packet is the time that it waits behind others. When it is at the head, its
//! service begins. Service contains whatever the path then waits for: the end of a tick, an opportunity of
//! a recorded capacity, back-off and further attempts on Wi-Fi, or the end of an outage.
//!
//! A path may also have the effects of a testbed, because published figures contain them: a box that works in ticks,
//! drops packets before its queue, and measures its delay with a clock that drifts.

mod capacity;
mod clock;
mod config;
mod delay;
mod loss;
mod loss_trace;
mod offers;
mod packet;
mod queue;
mod schedule;
mod wifi;

pub use capacity::Capacity;
pub use clock::Clock;
pub use config::{EcnTreatment, LossPosition, PathConfig};
pub use delay::{Delay, Jitter, RampShape};
pub use loss::Loss;
pub use loss_trace::{LossTrace, TraceStart};
pub use packet::{Departure, DropCause, Mark, MarkCause, Packet};
pub use queue::{Aqm, Codel, DualPi2, FqCodel, Pie, QueueLimit, Step};
pub use wifi::{Radio, Wifi};

use crate::units::{Bytes, Time};
use capacity::Serialiser;
use clock::ClockReadings;
use delay::JitterSource;
use loss::LossProcess;
use loss_trace::TracePosition;
use offers::Room;
use queue::{Moment, Queue};
use schedule::Schedule;
use std::collections::VecDeque;
use wifi::{Channel, Service};

/// A packet in flight.
pub(crate) struct OnWire<P> {
    /// When it arrives at the far end.
    pub(crate) at: Time,
    /// How many packets this path has put on the wire, this one included. Packets that arrive at one moment do so in the
    /// order of their numbers.
    pub(crate) number: u64,
    /// How long it waited in the queue.
    pub(crate) queued: Time,
    /// The packet.
    pub(crate) packet: Packet<P>,
}

/// A packet that occupies the serialiser.
struct InService<P> {
    finish: Time,
    packet: Packet<P>,
    queued: Time,
    lost: bool,
}

/// One direction of a link.
pub struct Path<P> {
    config: PathConfig,
    serialiser: Serialiser,
    channel: Option<Channel>,
    queue: Queue<P>,
    /// Index of the path in its network.
    index: u32,
    in_service: Option<InService<P>>,
    schedule: Schedule,
    /// Packets in flight, in order of their arrival, and behind them the scheduled ones.
    wire: VecDeque<OnWire<P>>,
    /// Whether packets are offered to a network before they are put on the wire.
    offers: bool,
    /// Packets that are offered.
    offered: VecDeque<OnWire<P>>,
    dropped: VecDeque<(Time, DropCause, Packet<P>)>,
    last_arrival: Time,
    /// Number of packets put on the wire so far.
    count: u64,
    /// Propagation delay if it is constant and nothing else happens on the wire.
    plain_delay: Option<Time>,
    /// Whether packets that find nothing in service are scheduled.
    is_plain: bool,
    /// Minimum time between the serialiser and the next departure or drop.
    unobserved: Time,
    /// What may wait in the queue without a further packet ever being dropped when it enters.
    room: Room,
    jitter: JitterSource,
    clock: ClockReadings,
    loss: LossProcess,
    /// Number of `loss_steps` applied so far.
    loss_step: usize,
    trace_position: TracePosition,
    seed: u64,
}

impl<P> Path<P> {
    /// Creates a path at time zero. The same `seed` gives the same losses and the same jitter.
    pub fn new(config: PathConfig, seed: u64) -> Self {
        Path {
            serialiser: Serialiser::new(config.capacity.clone(), config.tick_ns),
            channel: config.wifi.map(|wifi| Channel::new(wifi, seed)),
            seed,
            jitter: JitterSource::new(config.jitter, seed),
            clock: ClockReadings::new(config.clock, seed),
            loss: LossProcess::new(config.loss, seed),
            loss_step: 0,
            trace_position: TracePosition::new(config.loss_trace.as_ref(), seed),
            unobserved: config.unobserved(),
            room: config.room(),
            plain_delay: config.plain_delay(),
            is_plain: config.is_plain(),
            schedule: Schedule::default(),
            queue: Queue::new(config.queue, config.aqm, seed),
            index: 0,
            config,
            in_service: None,
            wire: VecDeque::new(),
            offers: false,
            offered: VecDeque::new(),
            dropped: VecDeque::new(),
            last_arrival: Time::ZERO,
            count: 0,
        }
    }

    /// The same path with its index in a network, which its marks bear; a path alone has 0.
    pub(crate) fn at_index(self, index: u32) -> Self {
        Path { index, ..self }
    }

    /// Current configuration.
    pub fn config(&self) -> &PathConfig {
        &self.config
    }

    /// Whether a packet of any size leaves at the moment at which it enters, and no packet is inside.
    pub fn is_transparent(&self) -> bool {
        let PathConfig { capacity, jitter, tick_ns, wifi, clock, delay, .. } = &self.config;
        let PathConfig { loss, loss_steps, loss_trace, .. } = &self.config;
        let takes_time = capacity.is_some() || jitter.is_some() || *delay != Delay::default();
        let may_lose = loss.is_some() || !loss_steps.is_empty() || loss_trace.is_some();
        let measures = tick_ns.is_some() || wifi.is_some() || clock.is_some();
        let changes = self.config.ecn != EcnTreatment::Keep;
        !(takes_time || may_lose || measures || changes) && self.pending() == 0
    }

    /// Bytes waiting in the queue, without the packet being serialised.
    pub fn queued(&self) -> Bytes {
        self.queue.bytes() + self.schedule.bytes()
    }

    /// Number of packets waiting, being serialised or in flight, and of drops not yet polled.
    pub fn pending(&self) -> usize {
        let serving = usize::from(self.in_service.is_some());
        self.queue.len() + serving + self.wire.len() + self.offered.len() + self.dropped.len()
    }

    /// Replaces the configuration from `now` on.
    ///
    /// The packet being serialised keeps the fraction already sent. For example, 1250 bytes at 1 Mbit/s
    /// take 10 ms; after a change to 2 Mbit/s at 5 ms, the other half takes 2.5 ms. Packets in the queue
    /// stay there, and packets in flight keep their arrival times.
    pub fn set_config(&mut self, now: Time, config: PathConfig) {
        self.advance(now);
        self.wire.append(&mut self.offered);
        self.recall(now);
        let in_service = self.in_service.take();
        self.serialiser.replace(now, config.capacity.clone(), config.tick_ns);
        // On Wi-Fi, the attempts of the packet in service have been drawn already.
        let finish_again = self.channel.is_none().then(|| self.serialiser.finish().max(now));
        match (&mut self.channel, config.wifi) {
            (Some(channel), Some(wifi)) => channel.set(wifi),
            (channel, wifi) => *channel = wifi.map(|wifi| Channel::new(wifi, self.seed)),
        }
        self.queue.set(now, config.queue, config.aqm);
        self.jitter.set(config.jitter);
        self.clock.set(config.clock);
        self.loss.set(config.loss);
        self.loss_step = 0;
        if self.config.loss_trace != config.loss_trace {
            self.trace_position.begin(config.loss_trace.as_ref());
        }
        self.unobserved = config.unobserved();
        self.room = config.room();
        self.plain_delay = config.plain_delay();
        self.is_plain = config.is_plain();
        self.config = config;
        self.in_service = in_service
            .map(|service| InService { finish: finish_again.unwrap_or(service.finish), ..service });
    }

    /// Takes a packet at `now`. Calls must be ordered by time.
    pub fn handle_packet(&mut self, now: Time, packet: Packet<P>) {
        self.advance(now);
        if self.loses(now, LossPosition::Queue) {
            self.dropped.push_back((now, DropCause::Loss, packet));
            return;
        }
        if let Some(channel) = &mut self.channel {
            channel.offer(now);
        }
        if self.in_service.is_none() {
            if self.is_plain {
                return self.schedule(now, packet);
            }
            if self.queue.is_managed() {
                return self.pass(now, packet);
            }
            self.serve(now, packet, Time::ZERO);
            // Without a capacity, serialising takes no time, so the packet passes at once.
            self.advance(now);
            return;
        }
        let rate = || match &self.channel {
            Some(channel) => channel.rate_for_queue(),
            None => self.serialiser.rate_for_queue(now),
        };
        let mut moment = Moment { now, path: self.index, dropped: &mut self.dropped };
        self.queue.enqueue(packet, rate, &mut moment);
    }

    /// Takes a packet that arrives while nothing is served, where the discipline of the queue has to know about it.
    fn pass(&mut self, now: Time, packet: Packet<P>) {
        let mut moment = Moment { now, path: self.index, dropped: &mut self.dropped };
        if let Some(packet) = self.queue.pass(packet, &mut moment) {
            self.serve(now, packet, Time::ZERO);
            self.advance(now);
        }
    }

    /// Returns the next packet that has left by `now`, earliest first.
    pub fn poll(&mut self, now: Time) -> Option<Departure<P>> {
        self.poll_by(now, u64::MAX).map(|(departure, _)| departure)
    }

    /// Returns the next packet that has left by `now`, and its number on the wire; 0 if it was dropped, because drops come
    /// before all arrivals at their moment. A packet with a number above `last` stays on the wire.
    pub(crate) fn poll_by(&mut self, now: Time, last: u64) -> Option<(Departure<P>, u64)> {
        self.advance(now);
        let arrival = self.wire.front().map_or(Time::MAX, |next| next.at);
        let drop = self.dropped.front().map_or(Time::MAX, |(at, ..)| *at);
        if drop <= arrival && drop <= now {
            let (at, cause, packet) = self.dropped.pop_front()?;
            return Some((Departure::Dropped { at, cause, packet }, 0));
        }
        self.wire.front().filter(|next| next.at <= now && next.number <= last)?;
        let OnWire { at, number, queued, packet } = self.wire.pop_front()?;
        Some((Departure::Delivered { at, queued, packet }, number))
    }

    /// Time of the next departure or drop, at which to call [`Path::poll`] again.
    pub fn poll_timeout(&self) -> Option<Time> {
        let arrival = self.wire.front().map_or(Time::MAX, |next| next.at);
        let drop = self.dropped.front().map_or(Time::MAX, |(at, ..)| *at);
        let served = self.earliest_served().min(self.earliest_drop());
        Some(arrival.min(drop).min(served)).filter(|at| *at < Time::MAX)
    }

    /// Lower bound of when a packet is dropped as the next one is to be served.
    fn earliest_drop(&self) -> Time {
        match &self.in_service {
            Some(service) if self.queue.drops_when_served() && self.queue.len() > 0 => {
                service.finish
            }
            _ => Time::MAX,
        }
    }

    /// Lower bound of when a packet that is not on the wire yet leaves, or is lost on its way.
    fn earliest_served(&self) -> Time {
        match &self.in_service {
            // On Wi-Fi, which the path may have been when its service began.
            Some(service) if service.lost => service.finish,
            Some(service) => service.finish.saturating_add(self.unobserved),
            None => Time::MAX,
        }
    }

    /// Minimum time from a packet's entry to its exit.
    pub(crate) fn least_transit(&self) -> Time {
        self.unobserved
    }

    /// When the first packet on the wire comes out at the end of its route, [`Time::MAX`] if there is none. `rest` is the
    /// minimum time that a packet needs for the rest of its route.
    pub(crate) fn first_output(&self, rest: impl Fn(&P) -> Time) -> Time {
        let first = self.wire.front();
        first.map_or(Time::MAX, |next| next.at.saturating_add(rest(&next.packet.payload)))
    }

    /// Lower bound of when anything that is on this path now comes out at the end of its route, or `bound` if nothing does
    /// before. `rest` is the minimum time that a packet needs for the rest of its route. Drops do not come out.
    pub(crate) fn earliest_output(&self, bound: Time, rest: impl Fn(&P) -> Time) -> Time {
        // Packets that wait behind the one in service may have less of a route to go.
        let behind = match &self.in_service {
            Some(service) if self.queue.len() == 0 => rest(&service.packet.payload),
            _ => Time::ZERO,
        };
        let mut earliest = bound.min(self.earliest_served().saturating_add(behind));
        // Packets leave the wire in this order, so those behind one that is too late are too late as well.
        for next in self.wire.iter().take_while(|next| next.at < bound) {
            earliest = earliest.min(next.at.saturating_add(rest(&next.packet.payload)));
        }
        earliest
    }

    #[inline]
    fn loses(&mut self, now: Time, position: LossPosition) -> bool {
        if self.config.loss_position != position {
            return false;
        }
        if let Some(trace) = &self.config.loss_trace {
            return self.trace_position.loses(trace);
        }
        if !self.config.loss_steps.is_empty() {
            self.step_loss(now);
        }
        self.loss.loses()
    }

    fn step_loss(&mut self, now: Time) {
        let steps = &self.config.loss_steps;
        while let Some((_, loss)) = steps.get(self.loss_step).filter(|(from, _)| *from <= now) {
            self.loss.set(Some(*loss));
            self.loss_step += 1;
        }
    }

    /// Begins to serve a packet that has waited for `queued`.
    fn serve(&mut self, now: Time, packet: Packet<P>, queued: Time) {
        let Service { finish, lost } = match &mut self.channel {
            Some(channel) => channel.serve(now, packet.size),
            None => {
                self.serialiser.start(now, packet.size);
                Service { finish: self.serialiser.finish().max(now), lost: false }
            }
        };
        self.in_service = Some(InService { finish, packet, queued, lost });
    }

    /// Advances the serialiser to `now`.
    #[inline]
    pub(crate) fn advance(&mut self, now: Time) {
        if self.schedule.len() > 0 || self.in_service.is_some() {
            self.end_services(now);
        }
    }

    /// Ends all services that end by `now`, and begins those behind them.
    fn end_services(&mut self, now: Time) {
        self.schedule.advance(now);
        while self.in_service.as_ref().is_some_and(|service| service.finish <= now) {
            self.finish_service();
        }
    }

    fn finish_service(&mut self) {
        let Some(InService { finish, packet, queued, lost }) = self.in_service.take() else {
            return;
        };
        if lost {
            self.dropped.push_back((finish, DropCause::Loss, packet));
        } else {
            self.leave_serialiser(finish, queued, packet);
        }
        let mut moment = Moment { now: finish, path: self.index, dropped: &mut self.dropped };
        if let Some((next, queued)) = self.queue.dequeue(&mut moment) {
            self.serve(finish, next, queued);
        }
    }

    /// The packet with the next number.
    #[inline]
    fn numbered(&mut self, at: Time, queued: Time, packet: Packet<P>) -> OnWire<P> {
        self.count += 1;
        OnWire { at, number: self.count, queued, packet }
    }

    #[inline]
    fn put_on_wire(&mut self, at: Time, queued: Time, packet: Packet<P>) {
        let packet = self.numbered(at, queued, packet);
        if self.offers {
            self.offered.push_back(packet);
        } else {
            self.wire.push_back(packet);
        }
    }

    fn leave_serialiser(&mut self, now: Time, queued: Time, mut packet: Packet<P>) {
        if self.loses(now, LossPosition::Wire) {
            self.dropped.push_back((now, DropCause::Loss, packet));
            return;
        }
        packet.ecn = self.config.ecn.leaving(packet.ecn);
        let delay = self.config.delay.at(now) + self.jitter.sample();
        let due = match self.config.tick_ns {
            None => now + self.clock.count(now, delay),
            Some(tick) => {
                let delay = self.clock.count(now, delay.floor_to(tick));
                (now.floor_to(tick) + delay.floor_to(tick)).max(now)
            }
        };
        if self.config.jitter.is_some_and(|j| j.reorder) {
            // A path that keeps the order from then on keeps it behind all that are on the wire.
            self.last_arrival = self.last_arrival.max(due);
            let index = self.wire.partition_point(|earlier| earlier.at <= due);
            let packet = self.numbered(due, queued, packet);
            self.wire.insert(index, packet);
            return;
        }
        // RFC 8868, section 4.4: without reordering, packets with jitter stay one serialisation time
        // apart.
        let spacing = if self.config.jitter.is_some() {
            self.serialiser.rate(now).time_for(packet.size).unwrap_or(Time::ZERO)
        } else {
            Time::ZERO
        };
        let earliest = match self.last_arrival {
            Time::ZERO => Time::ZERO,
            last => last.saturating_add(spacing),
        };
        self.last_arrival = due.max(earliest);
        self.put_on_wire(self.last_arrival, queued, packet);
    }
}

#[cfg(test)]
mod tests;
