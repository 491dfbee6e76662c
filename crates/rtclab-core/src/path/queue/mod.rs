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
use fifo::{Fifo, Waiting};
use fq_codel::FqCodelQueue;
use pie::PieQueue;
use serde::{Deserialize, Serialize};
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

/// How packets wait.
enum Discipline<P> {
    /// First in, first out; a packet that does not fit is dropped.
    DropTail(Fifo<P>),
    Codel(Box<CodelQueue<P>>),
    FqCodel(Box<FqCodelQueue<P>>),
    Pie(Box<PieQueue<P>>),
    Step(Box<StepQueue<P>>),
    DualPi2(Box<DualPi2Queue<P>>),
}

impl<P> Discipline<P> {
    fn new(now: Time, aqm: Option<Aqm>, seed: u64) -> Self {
        match aqm {
            None => Discipline::DropTail(Fifo::default()),
            Some(Aqm::Codel(rules)) => Discipline::Codel(Box::new(CodelQueue::new(rules))),
            Some(Aqm::FqCodel(rules)) => {
                Discipline::FqCodel(Box::new(FqCodelQueue::new(rules, seed)))
            }
            Some(Aqm::Pie(rules)) => Discipline::Pie(Box::new(PieQueue::new(now, rules, seed))),
            Some(Aqm::Step(rules)) => Discipline::Step(Box::new(StepQueue::new(rules))),
            Some(Aqm::DualPi2(rules)) => {
                Discipline::DualPi2(Box::new(DualPi2Queue::new(now, rules)))
            }
        }
    }

    /// Replaces the rules from `now` on; returns whether the discipline is still the same.
    fn set(&mut self, now: Time, aqm: Option<Aqm>) -> bool {
        match (self, aqm) {
            (Discipline::DropTail(_), None) => {}
            (Discipline::Codel(queue), Some(Aqm::Codel(rules))) => queue.rules = rules,
            (Discipline::FqCodel(queue), Some(Aqm::FqCodel(rules)))
                if queue.flows() == rules.flows =>
            {
                queue.set(rules);
            }
            (Discipline::Pie(queue), Some(Aqm::Pie(rules))) => queue.set(now, rules),
            (Discipline::Step(queue), Some(Aqm::Step(rules))) => queue.rules = rules,
            (Discipline::DualPi2(queue), Some(Aqm::DualPi2(rules))) => queue.set(now, rules),
            _ => return false,
        }
        true
    }

    /// Removes all packets, in the order in which they entered.
    fn drain(&mut self) -> Vec<Waiting<P>> {
        let in_order = |fifo: &mut Fifo<P>| std::iter::from_fn(|| fifo.pop()).collect();
        let mut waiting: Vec<_> = match self {
            Discipline::DropTail(fifo) => in_order(fifo),
            Discipline::Codel(queue) => in_order(&mut queue.fifo),
            Discipline::FqCodel(queue) => queue.drain(),
            Discipline::Pie(queue) => in_order(&mut queue.fifo),
            Discipline::Step(queue) => in_order(&mut queue.fifo),
            Discipline::DualPi2(queue) => queue.drain(),
        };
        waiting.sort_by_key(|one| one.entered);
        waiting
    }

    /// Puts a packet at its place, whatever the rules say about it.
    fn insert(&mut self, waiting: Waiting<P>) {
        match self {
            Discipline::DropTail(fifo) => fifo.push(waiting),
            Discipline::Codel(queue) => queue.fifo.push(waiting),
            Discipline::FqCodel(queue) => queue.enqueue(waiting),
            Discipline::Pie(queue) => queue.fifo.push(waiting),
            Discipline::Step(queue) => queue.fifo.push(waiting),
            Discipline::DualPi2(queue) => queue.insert(waiting),
        }
    }

    /// Lets a packet enter for which there is room, at the moment at which it waits from.
    #[inline]
    fn enqueue(&mut self, waiting: Waiting<P>, moment: &mut Moment<P>) {
        match self {
            Discipline::DropTail(fifo) => fifo.push(waiting),
            Discipline::Codel(queue) => queue.fifo.push(waiting),
            Discipline::FqCodel(queue) => queue.enqueue(waiting),
            Discipline::Pie(queue) => queue.enqueue(waiting, moment),
            Discipline::Step(queue) => queue.fifo.push(waiting),
            Discipline::DualPi2(queue) => queue.enqueue(waiting),
        }
    }
}

/// The queue of a path.
pub(super) struct Queue<P> {
    limit: Option<QueueLimit>,
    discipline: Discipline<P>,
    seed: u64,
}

impl<P> Queue<P> {
    /// An empty queue at time zero. Without a limit and a discipline it takes everything. The same `seed` gives the
    /// same decisions.
    pub(super) fn new(limit: Option<QueueLimit>, aqm: Option<Aqm>, seed: u64) -> Self {
        // A separate random stream, as for jitter.
        let seed = seed ^ 0x6171_6d00;
        let limit = limit.or_else(|| aqm?.default_limit());
        Queue { limit, discipline: Discipline::new(Time::ZERO, aqm, seed), seed }
    }

    /// Replaces limit and discipline at `now`. Packets in the queue stay there. A discipline of the same kind keeps its
    /// state, another one begins anew.
    pub(super) fn set(&mut self, now: Time, limit: Option<QueueLimit>, aqm: Option<Aqm>) {
        self.limit = limit.or_else(|| aqm?.default_limit());
        if !self.discipline.set(now, aqm) {
            let waiting = self.discipline.drain();
            self.discipline = Discipline::new(now, aqm, self.seed);
            waiting.into_iter().for_each(|one| self.discipline.insert(one));
        }
    }

    /// Number of packets waiting.
    #[inline]
    pub(super) fn len(&self) -> usize {
        match &self.discipline {
            Discipline::DropTail(fifo) => fifo.len(),
            Discipline::Codel(queue) => queue.fifo.len(),
            Discipline::FqCodel(queue) => queue.len(),
            Discipline::Pie(queue) => queue.fifo.len(),
            Discipline::Step(queue) => queue.fifo.len(),
            Discipline::DualPi2(queue) => queue.len(),
        }
    }

    /// Bytes waiting.
    #[inline]
    pub(super) fn bytes(&self) -> Bytes {
        match &self.discipline {
            Discipline::DropTail(fifo) => fifo.bytes(),
            Discipline::Codel(queue) => queue.fifo.bytes(),
            Discipline::FqCodel(queue) => queue.bytes(),
            Discipline::Pie(queue) => queue.fifo.bytes(),
            Discipline::Step(queue) => queue.fifo.bytes(),
            Discipline::DualPi2(queue) => queue.bytes(),
        }
    }

    /// Whether packets that wait may be dropped when the next one is to be served.
    #[inline]
    pub(super) fn drops_when_served(&self) -> bool {
        match self.discipline {
            Discipline::DropTail(_) | Discipline::Pie(_) | Discipline::Step(_) => false,
            Discipline::Codel(_) | Discipline::FqCodel(_) | Discipline::DualPi2(_) => true,
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
        let (len, bytes) = (self.len() + 1, self.bytes() + packet.size);
        let fits = self.limit.is_none_or(|limit| limit.holds(len, bytes, rate));
        let waiting = Waiting { entered: moment.now, packet };
        match &mut self.discipline {
            Discipline::FqCodel(queue) if !fits => {
                queue.enqueue(waiting);
                queue.shed(moment);
            }
            _ if !fits => moment.drop(DropCause::Queue, waiting.packet),
            discipline => discipline.enqueue(waiting, moment),
        }
    }

    /// Takes a packet that arrives while nothing waits or is served, and returns it unless it is dropped.
    #[inline]
    pub(super) fn pass(
        &mut self,
        packet: Packet<P>,
        moment: &mut Moment<P>,
    ) -> Option<(Packet<P>, Time)> {
        if let Discipline::DropTail(_) = self.discipline {
            return Some((packet, Time::ZERO));
        }
        self.discipline.enqueue(Waiting { entered: moment.now, packet }, moment);
        self.dequeue(moment)
    }

    /// Removes the packet that is served next, and returns it with how long it has waited.
    #[inline]
    pub(super) fn dequeue(&mut self, moment: &mut Moment<P>) -> Option<(Packet<P>, Time)> {
        match &mut self.discipline {
            Discipline::DropTail(fifo) => Some(moment.served(fifo.pop()?)),
            Discipline::Codel(queue) => queue.dequeue(moment),
            Discipline::FqCodel(queue) => queue.dequeue(moment),
            Discipline::Pie(queue) => queue.dequeue(moment),
            Discipline::Step(queue) => queue.dequeue(moment),
            Discipline::DualPi2(queue) => queue.dequeue(moment),
        }
    }
}

#[cfg(test)]
mod tests;
