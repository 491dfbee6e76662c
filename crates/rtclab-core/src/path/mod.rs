//! One direction of a link: capacity, then queue, then wire (delay, jitter, loss).
//!
//! A packet is in one of three places: waiting in the queue, being serialised, or in flight. The
//! queue limit counts waiting packets only, so a long link does not eat its own buffer.

mod capacity;
mod clock;
mod delay;
mod loss;
mod wifi;

pub use capacity::Capacity;
pub use clock::Clock;
pub use delay::{Delay, Jitter, RampShape};
pub use loss::Loss;
pub use wifi::{Radio, Wifi};

use crate::units::{Bytes, Time};
use capacity::Server;
use clock::ClockReadings;
use delay::JitterSource;
use loss::LossProcess;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use wifi::{Channel, Service};

/// How much may wait in front of the serialiser; a packet above the limit is dropped (drop-tail).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "limit", rename_all = "lowercase")]
pub enum QueueLimit {
    /// At most this many packets.
    Packets(u64),
    /// At most this many bytes.
    Bytes(Bytes),
    /// At most the bytes that the capacity at the moment of arrival serves in this time
    /// (RFC 8868, section 4: bytes = seconds * bit/s / 8).
    Time(Time),
}

/// Everything that a path is, as functions of time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathConfig {
    /// What the path is called in records, e.g. `alice.up`.
    pub name: String,
    /// Rate of the serialiser; `None` serialises in no time.
    #[serde(default)]
    pub capacity: Option<Capacity>,
    /// A Wi-Fi hop in place of the capacity.
    #[serde(default)]
    pub wifi: Option<Wifi>,
    /// Limit of the queue; `None` never drops there.
    #[serde(default)]
    pub queue: Option<QueueLimit>,
    /// Propagation delay.
    #[serde(default)]
    pub delay: Delay,
    /// Random additional delay.
    #[serde(default)]
    pub jitter: Option<Jitter>,
    /// Random loss.
    #[serde(default)]
    pub loss: Option<Loss>,
    /// Loss that replaces `loss` from given moments on: `(from, loss)`, times strictly increasing.
    #[serde(default)]
    pub loss_steps: Vec<(Time, Loss)>,
    /// Where on the path packets are lost.
    #[serde(default)]
    pub loss_position: LossPosition,
    /// Timer resolution of an emulating box; `None` is exact. As dummynet does it: the serialiser
    /// begins at the tick before an arrival and lets packets out at ticks, what a tick carries beyond
    /// a packet goes to the next one, and the delay is whole ticks, rounded down.
    #[serde(default)]
    pub tick_ns: Option<Time>,
    /// What the delay is counted with; `None` counts exactly.
    #[serde(default)]
    pub clock: Option<Clock>,
}

impl PathConfig {
    /// Whether packets pass it in no time at all, always or at some time.
    pub fn is_instant(&self) -> bool {
        self.capacity.is_none() && self.wifi.is_none() && self.delay.vanishes()
    }
}

/// Where on a path packets are lost at random.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LossPosition {
    /// After the serialiser: a lost packet has used queue and capacity.
    #[default]
    Wire,
    /// Before the queue, as in dummynet and netem: it has used neither.
    Queue,
}

/// A packet as the network sees it: a size (IP total length) and whatever the caller moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Packet<P> {
    /// IP total length.
    pub size: Bytes,
    /// The caller's own value: an id in the simulator, a frame in the emulator.
    pub payload: P,
}

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DropCause {
    /// The queue was full.
    Queue,
    /// Random loss, or a Wi-Fi hop gave it up.
    Loss,
}

impl DropCause {
    /// All causes, in the order of their codes in a trace.
    pub const ALL: [DropCause; 2] = [DropCause::Queue, DropCause::Loss];

    /// The name used in traces.
    pub const fn name(self) -> &'static str {
        match self {
            DropCause::Queue => "queue",
            DropCause::Loss => "loss",
        }
    }
}

/// What leaves a path, with its own logical time.
#[derive(Clone, Debug, PartialEq)]
pub enum Departure<P> {
    /// The last bit arrived at the far end.
    Delivered {
        /// When.
        at: Time,
        /// What.
        packet: Packet<P>,
    },
    /// The packet is gone.
    Dropped {
        /// When.
        at: Time,
        /// Why.
        cause: DropCause,
        /// What.
        packet: Packet<P>,
    },
}

struct InService<P> {
    packet: Packet<P>,
    finish: Time,
    lost: bool,
}

/// One direction of a link.
pub struct Path<P> {
    config: PathConfig,
    server: Server,
    channel: Option<Channel>,
    queue: VecDeque<Packet<P>>,
    queued: Bytes,
    in_service: Option<InService<P>>,
    wire: VecDeque<(Time, Packet<P>)>,
    dropped: VecDeque<(Time, DropCause, Packet<P>)>,
    last_arrival: Time,
    jitter: JitterSource,
    clock: ClockReadings,
    loss: LossProcess,
    /// How many of the `loss_steps` have come.
    loss_step: usize,
    seed: u64,
}

impl<P> Path<P> {
    /// A path at time zero. The same `seed` gives the same losses and the same jitter.
    pub fn new(config: PathConfig, seed: u64) -> Self {
        Path {
            server: Server::new(config.capacity.clone(), config.tick_ns),
            channel: config.wifi.map(|wifi| Channel::new(wifi, seed)),
            seed,
            jitter: JitterSource::new(config.jitter, seed),
            clock: ClockReadings::new(config.clock, seed),
            loss: LossProcess::new(config.loss, seed),
            loss_step: 0,
            config,
            queue: VecDeque::new(),
            queued: Bytes::ZERO,
            in_service: None,
            wire: VecDeque::new(),
            dropped: VecDeque::new(),
            last_arrival: Time::ZERO,
        }
    }

    /// The configuration in force.
    pub fn config(&self) -> &PathConfig {
        &self.config
    }

    /// Bytes waiting in the queue; the packet being serialised is not among them.
    pub fn queued(&self) -> Bytes {
        self.queued
    }

    /// Packets waiting, being serialised and in flight, and drops not yet polled.
    pub fn pending(&self) -> usize {
        self.queue.len()
            + usize::from(self.in_service.is_some())
            + self.wire.len()
            + self.dropped.len()
    }

    /// Replaces the configuration from `now` on.
    ///
    /// The packet being serialised keeps the fraction already sent: 1250 bytes at 1 Mbit/s take
    /// 10 ms; after a change to 2 Mbit/s at 5 ms the other half takes 2.5 ms. Packets in the queue
    /// stay, packets in flight keep their arrival times.
    pub fn set_config(&mut self, now: Time, config: PathConfig) {
        self.advance(now);
        self.server.replace(now, config.capacity.clone(), config.tick_ns);
        // On Wi-Fi the packet in service keeps its attempts.
        if let (None, Some(in_service)) = (&self.channel, &mut self.in_service) {
            in_service.finish = self.server.finish().max(now);
        }
        match (&mut self.channel, config.wifi) {
            (Some(channel), Some(wifi)) => channel.set(wifi),
            (channel, wifi) => *channel = wifi.map(|wifi| Channel::new(wifi, self.seed)),
        }
        self.jitter.set(config.jitter);
        self.clock.set(config.clock);
        self.loss.set(config.loss);
        self.loss_step = 0;
        self.config = config;
    }

    /// A packet enters. Calls must come in order of time.
    pub fn handle_packet(&mut self, now: Time, packet: Packet<P>) {
        self.advance(now);
        if self.loses(now, LossPosition::Queue) {
            self.dropped.push_back((now, DropCause::Loss, packet));
        } else if self.in_service.is_none() {
            self.serve(now, packet);
            // A path without capacity serialises in no time: let it through at once.
            self.advance(now);
        } else if self.fits(now, packet.size) {
            self.queued += packet.size;
            self.queue.push_back(packet);
        } else {
            self.dropped.push_back((now, DropCause::Queue, packet));
        }
    }

    /// What has come out by `now`, earliest first.
    pub fn poll(&mut self, now: Time) -> Option<Departure<P>> {
        self.advance(now);
        let arrival = self.wire.front().map_or(Time::MAX, |(at, _)| *at);
        let drop = self.dropped.front().map_or(Time::MAX, |(at, ..)| *at);
        if drop <= arrival && drop <= now {
            let (at, cause, packet) = self.dropped.pop_front()?;
            return Some(Departure::Dropped { at, cause, packet });
        }
        if arrival <= now {
            let (at, packet) = self.wire.pop_front()?;
            return Some(Departure::Delivered { at, packet });
        }
        None
    }

    /// When to call [`Path::poll`] again, pending drops included; nothing comes out before.
    pub fn poll_timeout(&self) -> Option<Time> {
        let next = self
            .wire
            .front()
            .map_or(Time::MAX, |(at, _)| *at)
            .min(self.dropped.front().map_or(Time::MAX, |(at, ..)| *at))
            .min(self.in_service.as_ref().map_or(Time::MAX, |s| self.earliest_departure(s.finish)));
        (next < Time::MAX).then_some(next)
    }

    /// Of a packet that leaves the serialiser at `finish`. Without loss it still has to fly, so that
    /// nobody needs to look at the path when it merely changes from one stage to the next.
    fn earliest_departure(&self, finish: Time) -> Time {
        match self.config {
            PathConfig { loss: Some(_), loss_position: LossPosition::Wire, .. }
            | PathConfig { tick_ns: Some(_), .. }
            | PathConfig { wifi: Some(_), .. }
            | PathConfig { clock: Some(_), .. } => finish,
            _ if !self.config.loss_steps.is_empty() => finish,
            _ => finish.saturating_add(self.config.delay.smallest()),
        }
    }

    #[inline]
    fn loses(&mut self, now: Time, position: LossPosition) -> bool {
        if self.config.loss_position != position {
            return false;
        }
        if !self.config.loss_steps.is_empty() {
            self.step_loss(now);
        }
        self.loss.loses()
    }

    fn step_loss(&mut self, now: Time) {
        while let Some((from, loss)) = self.config.loss_steps.get(self.loss_step)
            && *from <= now
        {
            self.loss.set(Some(*loss));
            self.loss_step += 1;
        }
    }

    fn fits(&self, now: Time, size: Bytes) -> bool {
        match self.config.queue {
            None => true,
            Some(QueueLimit::Packets(limit)) => (self.queue.len() as u64) < limit,
            Some(QueueLimit::Bytes(limit)) => self.queued + size <= limit,
            Some(QueueLimit::Time(limit)) => {
                let rate = match &self.channel {
                    Some(channel) => channel.rate_for_queue(),
                    None => self.server.rate_for_queue(now),
                };
                self.queued + size <= rate.bytes_in(limit)
            }
        }
    }

    fn serve(&mut self, now: Time, packet: Packet<P>) {
        let Service { finish, lost } = match &mut self.channel {
            Some(channel) => channel.serve(now, packet.size),
            None => {
                self.server.start(now, packet.size);
                Service { finish: self.server.finish().max(now), lost: false }
            }
        };
        self.in_service = Some(InService { packet, finish, lost });
    }

    /// Brings the serialiser up to `now`.
    #[inline]
    fn advance(&mut self, now: Time) {
        while self.in_service.as_ref().is_some_and(|s| s.finish <= now) {
            self.finish_service();
        }
    }

    fn finish_service(&mut self) {
        if let Some(InService { packet, finish, lost }) = self.in_service.take() {
            if lost {
                self.dropped.push_back((finish, DropCause::Loss, packet));
            } else {
                self.put_on_wire(finish, packet);
            }
            if let Some(next) = self.queue.pop_front() {
                self.queued -= next.size;
                self.serve(finish, next);
            }
        }
    }

    fn put_on_wire(&mut self, now: Time, packet: Packet<P>) {
        if self.loses(now, LossPosition::Wire) {
            self.dropped.push_back((now, DropCause::Loss, packet));
            return;
        }
        let delay = self.config.delay.at(now) + self.jitter.sample();
        let due = match self.config.tick_ns {
            None => now + self.clock.count(now, delay),
            Some(tick) => {
                let delay = self.clock.count(now, delay.floor_to(tick));
                (now.floor_to(tick) + delay.floor_to(tick)).max(now)
            }
        };
        if self.config.jitter.is_some_and(|j| j.reorder) {
            let index = self.wire.partition_point(|(at, _)| *at <= due);
            self.wire.insert(index, (due, packet));
            return;
        }
        // RFC 8868, section 4.4: jitter without reordering keeps one serialisation time between packets.
        let spacing = if self.config.jitter.is_some() {
            self.server.rate(now).time_for(packet.size).unwrap_or(Time::ZERO)
        } else {
            Time::ZERO
        };
        let earliest = match self.last_arrival {
            Time::ZERO => Time::ZERO,
            last => last.saturating_add(spacing),
        };
        self.last_arrival = due.max(earliest);
        self.wire.push_back((self.last_arrival, packet));
    }
}

#[cfg(test)]
mod tests;
