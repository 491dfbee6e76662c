//! The queue before the serialiser: how many packets it takes, in which order they are served, and which of them are
//! dropped or marked.
//!
//! A packet is served when its serialisation begins; until then it waits. One that arrives while nothing is served
//! goes through the queue too, so that its discipline knows about it.

mod codel;
mod dualpi2;
mod fifo;
mod fq_codel;
mod limit;
mod pie;
mod step;
mod ticks;

pub use codel::Codel;
pub use dualpi2::DualPi2;
pub use fq_codel::FqCodel;
pub use limit::QueueLimit;
pub use pie::Pie;
pub use step::Step;

use super::{DropCause, Packet};
use crate::limits::Checked;
use crate::units::{Bitrate, Bytes, Time};
use codel::CodelQueue;
use dualpi2::DualPi2Queue;
pub(super) use fifo::Moment;
use fifo::QueuedPacket;
use fq_codel::FqCodelQueue;
use pie::PieQueue;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use step::StepQueue;

/// Active queue management: a discipline that drops or marks packets before the queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Aqm {
    /// Controlled delay (RFC 8289).
    Codel(Codel),
    /// Flow queueing with `CoDel` (RFC 8290).
    FqCodel(FqCodel),
    /// Proportional integral controller, enhanced (RFC 8033).
    Pie(Pie),
    /// Marks above a waiting time.
    Step(Step),
    /// Dual queue for L4S and classic traffic (RFC 9332).
    #[serde(rename = "dualpi2")]
    DualPi2(DualPi2),
}

impl Aqm {
    pub(super) fn check(&self) -> Checked {
        match self {
            Aqm::Codel(rules) => rules.check(),
            Aqm::FqCodel(rules) => rules.check(),
            Aqm::Pie(rules) => rules.check(),
            Aqm::Step(rules) => rules.check(),
            Aqm::DualPi2(rules) => rules.check(),
        }
    }

    /// Limit of a queue for which none is configured. 1000 packets are the default of `codel` and `pie` in Linux, 10240
    /// of `fq_codel` (RFC 8290, section 5.2.4); 250 ms are the one of RFC 9332, appendix A.1.
    fn default_limit(&self) -> Option<QueueLimit> {
        match self {
            Aqm::Codel(_) | Aqm::Pie(_) => Some(QueueLimit::Packets(1_000)),
            Aqm::FqCodel(_) => Some(QueueLimit::Packets(10_240)),
            Aqm::Step(_) => None,
            Aqm::DualPi2(_) => Some(QueueLimit::Time(Time::from_millis(250))),
        }
    }
}

/// Queues that drop or mark before they are full.
enum Managed<P> {
    Codel(CodelQueue<P>),
    FqCodel(FqCodelQueue<P>),
    Pie(PieQueue<P>),
    Step(StepQueue<P>),
    DualPi2(DualPi2Queue<P>),
}

impl<P> Managed<P> {
    fn new(now: Time, aqm: Aqm, seed: u64) -> Self {
        match aqm {
            Aqm::Codel(rules) => Managed::Codel(CodelQueue::new(rules)),
            Aqm::FqCodel(rules) => Managed::FqCodel(FqCodelQueue::new(rules, seed)),
            Aqm::Pie(rules) => Managed::Pie(PieQueue::new(now, rules, seed)),
            Aqm::Step(rules) => Managed::Step(StepQueue::new(rules)),
            Aqm::DualPi2(rules) => Managed::DualPi2(DualPi2Queue::new(now, rules)),
        }
    }

    /// Replaces the rules from `now` on; returns whether the discipline is still the same.
    fn set(&mut self, now: Time, aqm: Aqm) -> bool {
        match (self, aqm) {
            (Managed::Codel(queue), Aqm::Codel(rules)) => queue.rules = rules,
            (Managed::FqCodel(queue), Aqm::FqCodel(rules)) if queue.flows() == rules.flows => {
                queue.set(rules);
            }
            (Managed::Pie(queue), Aqm::Pie(rules)) => queue.set(now, rules),
            (Managed::Step(queue), Aqm::Step(rules)) => queue.rules = rules,
            (Managed::DualPi2(queue), Aqm::DualPi2(rules)) => queue.set(now, rules),
            _ => return false,
        }
        true
    }

    /// Removes all packets. Packets of one flow stay in order.
    fn drain(&mut self) -> Vec<QueuedPacket<P>> {
        match self {
            Managed::Codel(queue) => queue.fifo.drain(),
            Managed::FqCodel(queue) => queue.drain(),
            Managed::Pie(queue) => queue.fifo.drain(),
            Managed::Step(queue) => queue.fifo.drain(),
            Managed::DualPi2(queue) => queue.drain(),
        }
    }

    /// Puts a packet at its place, whatever the rules say about it.
    fn insert(&mut self, waiting: QueuedPacket<P>) {
        match self {
            Managed::Codel(queue) => queue.fifo.push(waiting),
            Managed::FqCodel(queue) => queue.enqueue(waiting),
            Managed::Pie(queue) => queue.fifo.push(waiting),
            Managed::Step(queue) => queue.fifo.push(waiting),
            Managed::DualPi2(queue) => queue.insert(waiting),
        }
    }

    fn len(&self) -> usize {
        match self {
            Managed::Codel(queue) => queue.fifo.len(),
            Managed::FqCodel(queue) => queue.len(),
            Managed::Pie(queue) => queue.fifo.len(),
            Managed::Step(queue) => queue.fifo.len(),
            Managed::DualPi2(queue) => queue.len(),
        }
    }

    fn bytes(&self) -> Bytes {
        match self {
            Managed::Codel(queue) => queue.fifo.bytes(),
            Managed::FqCodel(queue) => queue.bytes(),
            Managed::Pie(queue) => queue.fifo.bytes(),
            Managed::Step(queue) => queue.fifo.bytes(),
            Managed::DualPi2(queue) => queue.bytes(),
        }
    }

    /// Takes a packet that arrives; `fits` says whether the limit lets it wait.
    #[inline(never)]
    fn enqueue(&mut self, packet: Packet<P>, fits: bool, moment: &mut Moment<P>) {
        let waiting = QueuedPacket { entered: moment.now, packet };
        match self {
            Managed::FqCodel(queue) => {
                queue.enqueue(waiting);
                if !fits {
                    queue.shed(moment);
                }
            }
            _ if !fits => moment.drop(DropCause::Queue, waiting.packet),
            Managed::Codel(queue) => queue.fifo.push(waiting),
            Managed::Pie(queue) => queue.enqueue(waiting, moment),
            Managed::Step(queue) => queue.fifo.push(waiting),
            Managed::DualPi2(queue) => queue.enqueue(waiting),
        }
    }

    #[inline(never)]
    fn dequeue(&mut self, moment: &mut Moment<P>) -> Option<(Packet<P>, Time)> {
        match self {
            Managed::Codel(queue) => queue.dequeue(moment),
            Managed::FqCodel(queue) => queue.dequeue(moment),
            Managed::Pie(queue) => queue.dequeue(moment),
            Managed::Step(queue) => queue.dequeue(moment),
            Managed::DualPi2(queue) => queue.dequeue(moment),
        }
    }
}

/// How packets wait.
enum Discipline<P> {
    /// First in, first out; a packet that does not fit is dropped.
    DropTail(VecDeque<QueuedPacket<P>>),
    Managed(Box<Managed<P>>),
}

impl<P> Discipline<P> {
    fn new(now: Time, aqm: Option<Aqm>, seed: u64) -> Self {
        match aqm {
            None => Discipline::DropTail(VecDeque::new()),
            Some(aqm) => Discipline::Managed(Box::new(Managed::new(now, aqm, seed))),
        }
    }
}

/// The queue of a path.
pub(super) struct Queue<P> {
    limit: Option<QueueLimit>,
    discipline: Discipline<P>,
    seed: u64,
    /// Number of packets waiting.
    len: usize,
    /// Bytes waiting.
    bytes: Bytes,
}

impl<P> Queue<P> {
    /// An empty queue at time zero. Without a limit and a discipline it takes everything. The same `seed` gives the
    /// same decisions.
    pub(super) fn new(limit: Option<QueueLimit>, aqm: Option<Aqm>, seed: u64) -> Self {
        // A separate random stream, as for jitter.
        let seed = seed ^ 0x6171_6d00;
        let limit = limit.or_else(|| aqm?.default_limit());
        let discipline = Discipline::new(Time::ZERO, aqm, seed);
        Queue { limit, discipline, seed, len: 0, bytes: Bytes::ZERO }
    }

    /// Replaces limit and discipline at `now`. Packets in the queue stay there. A discipline of the same kind keeps its
    /// state, another one begins anew.
    pub(super) fn set(&mut self, now: Time, limit: Option<QueueLimit>, aqm: Option<Aqm>) {
        self.limit = limit.or_else(|| aqm?.default_limit());
        let mut waiting = match &mut self.discipline {
            Discipline::DropTail(_) if aqm.is_none() => return,
            Discipline::DropTail(fifo) => fifo.drain(..).collect(),
            Discipline::Managed(queue) => {
                if aqm.is_some_and(|aqm| queue.set(now, aqm)) {
                    return;
                }
                queue.drain()
            }
        };
        waiting.sort_by_key(|one| one.entered);
        self.discipline = Discipline::new(now, aqm, self.seed);
        for one in waiting {
            match &mut self.discipline {
                Discipline::DropTail(fifo) => fifo.push_back(one),
                Discipline::Managed(queue) => queue.insert(one),
            }
        }
    }

    /// Number of packets waiting.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Bytes waiting.
    #[inline]
    pub(super) fn bytes(&self) -> Bytes {
        self.bytes
    }

    /// Whether a discipline has to know about every packet.
    #[inline]
    pub(super) fn is_managed(&self) -> bool {
        matches!(self.discipline, Discipline::Managed(_))
    }

    /// Whether the limit lets this many packets wait, with `bytes` in total. `rate` converts a limit in time to bytes.
    #[inline]
    pub(super) fn holds(
        &self,
        packets: usize,
        bytes: Bytes,
        rate: impl FnOnce() -> Bitrate,
    ) -> bool {
        self.limit.is_none_or(|limit| limit.holds(packets, bytes, rate))
    }

    /// Puts a packet at the end of a queue without a discipline, whatever the limit says.
    pub(super) fn restore(&mut self, entered: Time, packet: Packet<P>) {
        if let Discipline::DropTail(fifo) = &mut self.discipline {
            self.len += 1;
            self.bytes += packet.size;
            fifo.push_back(QueuedPacket { entered, packet });
        }
    }

    /// Whether packets that wait may be dropped when the next one is to be served.
    #[inline]
    pub(super) fn drops_when_served(&self) -> bool {
        match &self.discipline {
            Discipline::DropTail(_) => false,
            Discipline::Managed(queue) => !matches!(**queue, Managed::Pie(_) | Managed::Step(_)),
        }
    }

    /// Takes a packet that has to wait. `rate` converts a limit in time to bytes.
    #[inline]
    pub(super) fn enqueue(
        &mut self,
        packet: Packet<P>,
        rate: impl FnOnce() -> Bitrate,
        moment: &mut Moment<P>,
    ) {
        let (len, bytes) = (self.len + 1, self.bytes + packet.size);
        let fits = self.holds(len, bytes, rate);
        match &mut self.discipline {
            Discipline::DropTail(fifo) if fits => {
                (self.len, self.bytes) = (len, bytes);
                fifo.push_back(QueuedPacket { entered: moment.now, packet });
            }
            Discipline::DropTail(_) => moment.drop(DropCause::Queue, packet),
            Discipline::Managed(queue) => {
                queue.enqueue(packet, fits, moment);
                (self.len, self.bytes) = (queue.len(), queue.bytes());
            }
        }
    }

    /// Takes a packet that arrives while nothing waits or is served, and returns it unless it is dropped.
    pub(super) fn pass(&mut self, packet: Packet<P>, moment: &mut Moment<P>) -> Option<Packet<P>> {
        let Discipline::Managed(queue) = &mut self.discipline else { return Some(packet) };
        queue.enqueue(packet, true, moment);
        queue.dequeue(moment).map(|(packet, _)| packet)
    }

    /// Removes the packet that is served next, and returns it with how long it has waited.
    #[inline]
    pub(super) fn dequeue(&mut self, moment: &mut Moment<P>) -> Option<(Packet<P>, Time)> {
        match &mut self.discipline {
            Discipline::DropTail(fifo) => {
                let first = fifo.pop_front()?;
                self.len -= 1;
                self.bytes -= first.packet.size;
                Some(moment.served(first))
            }
            Discipline::Managed(queue) => {
                let next = queue.dequeue(moment);
                (self.len, self.bytes) = (queue.len(), queue.bytes());
                next
            }
        }
    }
}

#[cfg(test)]
mod tests;
