//! Deliveries that a network foresees.

use super::ingress::Position;
use super::{Hop, Network, NetworkEvent, NodeId, WaitsId};
use crate::path::{OnWire, Packet};
use crate::units::Time;

/// A lookahead of less than this is not worth its windows, which each cost a look at every node.
const LEAST: Time = Time::from_micros(200);

/// For how long deliveries are foreseen, whatever is sent meanwhile.
#[derive(Clone, Debug)]
pub(crate) struct Lookahead {
    /// A packet is delivered at least this long after it has left the serialiser of the last path of its route.
    pub(crate) time: Time,
    /// Indices of the last paths of all routes.
    last: Vec<usize>,
}

/// A foreseen delivery.
#[derive(Clone, Copy)]
pub(crate) struct Delivery<P> {
    /// When it is delivered.
    pub(crate) at: Time,
    /// Index of the last path of its route.
    pub(crate) path: usize,
    /// Its number on that path.
    pub(crate) number: u64,
    /// Its destination.
    pub(crate) to: NodeId,
    /// How long it has waited in the queues of all paths of its route.
    pub(crate) queued: Time,
    /// In which of them.
    pub(crate) waits: WaitsId,
    /// The packet.
    pub(crate) packet: Packet<P>,
}

/// A moment in the order in which things happen in a network.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Until {
    /// Everything before a time.
    Before(Time),
    /// Everything until the packet with a number has been delivered from the path with an index.
    Delivery(Time, usize, u64),
    /// Everything up to a time and at it.
    End(Time),
}

impl Until {
    fn position(self) -> Position {
        match self {
            Until::Before(at) => Position::before(at, 0),
            Until::Delivery(at, path, number) => Position::exit(at, path as u32, number),
            Until::End(at) => Position::end_of(at),
        }
    }
}

impl<P> Network<P> {
    /// For how long deliveries are foreseen as long as no path gets another configuration; `None` if that is not worth a
    /// window.
    pub(crate) fn lookahead(&self) -> Option<Lookahead> {
        let (mut last, mut time) = (Vec::new(), Time::MAX);
        for (_, route) in &self.routes {
            let mut indices = route.iter().map(|path| path.0 as usize);
            let end = indices.rfind(|path| !self.transparent[*path])?;
            time = time.min(self.paths[end].least_transit());
            if !last.contains(&end) {
                last.push(end);
            }
        }
        (LEAST..Time::MAX).contains(&time).then_some(Lookahead { time, last })
    }

    /// Takes all deliveries before `until` out of the network: path by path, and in order from each path. Everything before
    /// `now` has happened, and `until` is at most the time of the lookahead later.
    pub(crate) fn take_deliveries(
        &mut self,
        lookahead: &Lookahead,
        (now, until): (Time, Time),
        out: &mut Vec<Delivery<P>>,
    ) {
        self.reach(Position::before(now, 0));
        for &path in &lookahead.last {
            self.take_in(path, now);
            self.paths[path].advance(now);
            self.update(path, now);
            let before = out.len();
            let Network { paths, routes, transparent, waits, .. } = self;
            let is_last = |hop: &Hop<P>| {
                let later = &routes[hop.route as usize].1[hop.hop as usize + 1..];
                later.iter().all(|path| transparent[path.0 as usize])
            };
            paths[path].take_exits(until, is_last, |OnWire { at, number, queued, mut packet }| {
                let (to, _) = routes[packet.payload.route as usize];
                packet.payload.has_waited(waits, path, queued);
                let Hop { queued, waits, .. } = packet.payload;
                let packet = packet.map(|hop| hop.payload);
                out.push(Delivery { at, path, number, to, queued, waits, packet });
            });
            if out.len() > before {
                self.update_timeout(path);
            }
        }
    }

    /// The next packet that is dropped until then. Deliveries until then have been taken before.
    pub(crate) fn poll_until(&mut self, until: Until) -> Option<NetworkEvent<P>> {
        let position = until.position();
        let event = self.poll_to(position)?;
        debug_assert!(matches!(event, NetworkEvent::Dropped { .. }), "a delivery was not foreseen");
        Some(event)
    }
}
