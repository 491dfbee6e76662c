//! Parts of a node: ends that share nothing with those of other parts, so that the parts may run one after another.
//!
//! Ends share media that one of them forwards, the processor, the NAT, the rooms of a server that mixes, the TCP
//! connections with a relay, and the page or signalling server through which they are set up. A node falls into parts
//! once all its calls are set up, and for as long as nothing happens at its page.

use super::{End, Node, Wiring};
use crate::timeouts::Timeouts;
use crate::units::Time;

/// The parts of a node.
pub(super) struct Parts {
    /// For each end its part, and its place there; `None` for an end that is in no part.
    places: Vec<Option<(usize, usize)>>,
    parts: Vec<Part>,
}

/// Ends that share nothing with others.
struct Part {
    /// Indices of the ends, in ascending order.
    ends: Vec<usize>,
    timeouts: Timeouts,
}

impl Parts {
    /// The parts of these ends. They begin without timeouts.
    fn new(ends: &[End], wiring: &[Wiring]) -> Self {
        let mut places = vec![None; ends.len()];
        let mut parts: Vec<Vec<usize>> = Vec::new();
        for index in (0..ends.len()).filter(|index| !ends[*index].is_shared()) {
            if places[index].is_some() {
                continue;
            }
            let part = parts.len();
            let mut members = vec![index];
            places[index] = Some((part, 0));
            let mut next = 0;
            while let Some(&member) = members.get(next) {
                next += 1;
                let Wiring { media_from, media_to, .. } = &wiring[member];
                for &other in media_from.iter().chain(media_to) {
                    if places[other].is_none() {
                        places[other] = Some((part, 0));
                        members.push(other);
                    }
                }
            }
            members.sort_unstable();
            (0..).zip(&members).for_each(|(place, member)| places[*member] = Some((part, place)));
            parts.push(members);
        }
        let part =
            |ends: Vec<usize>| Part { timeouts: Timeouts::new(ends.iter().map(|_| None)), ends };
        Parts { places, parts: parts.into_iter().map(part).collect() }
    }

    /// Sets when an end is due. An end that is in no part is left out.
    pub(super) fn set(&mut self, index: usize, timeout: Option<Time>) {
        if let Some((part, place)) = self.places[index] {
            self.parts[part].timeouts.set(place, timeout);
        }
    }
}

impl Node {
    /// Splits the node into parts, if it falls into several and nothing happens at its page before `until`, or else joins
    /// them; returns the number of parts, 0 if they are joined.
    pub(crate) fn split(&mut self, until: Time) -> usize {
        let quiet = |end: &End| !end.is_shared() || end.poll_timeout().is_none_or(|at| at >= until);
        match &self.parts {
            Some(parts) if self.shared.iter().all(|index| quiet(&self.ends[*index])) => {
                return parts.parts.len();
            }
            Some(_) => {
                self.join();
                return 0;
            }
            None => {}
        }
        if !self.may_split() || !self.ends.iter().all(|end| end.is_set_up() && quiet(end)) {
            return 0;
        }
        let mut parts = Parts::new(&self.ends, &self.wiring);
        if parts.parts.len() < 2 {
            self.is_whole = true;
            return 0;
        }
        (0..).zip(&self.ends).for_each(|(index, end)| parts.set(index, end.poll_timeout()));
        self.shared = (0..self.ends.len()).filter(|index| self.ends[*index].is_shared()).collect();
        self.parts.insert(Box::new(parts)).parts.len()
    }

    /// Whether nothing that the node has is shared by all its ends.
    fn may_split(&self) -> bool {
        let alone = self.host.is_none() && self.nat.is_none() && self.rooms.is_empty();
        alone && !self.is_whole && self.relayed.is_empty() && !self.relays_over_tcp()
    }

    /// Joins the parts again.
    pub(crate) fn join(&mut self) {
        if self.parts.take().is_some() {
            for (index, end) in self.ends.iter().enumerate() {
                self.timeouts.set(index, end.poll_timeout());
            }
        }
    }

    /// The part with the end at a port; `None` if it is in no part.
    pub(crate) fn part_of(&self, port: u32) -> Option<usize> {
        let places = &self.parts.as_ref()?.places;
        places[self.index_of(port)?].map(|(part, _)| part)
    }

    /// When a part is due, and the port of the end that is due then; [`Time::MAX`] if none is.
    pub(crate) fn next_of(&self, part: usize) -> (Time, u32) {
        let part = self.parts.as_ref().map(|parts| &parts.parts[part]);
        let next = part.map(|part| (part.timeouts.earliest(), part));
        next.map_or((Time::MAX, 0), |((place, at), part)| (at, self.ports[part.ends[place]]))
    }

    /// Handles what is due first in a part.
    pub(crate) fn handle_timeout_of(&mut self, part: usize, now: Time) {
        let Some(parts) = &self.parts else { return };
        let part = &parts.parts[part];
        let index = part.ends[part.timeouts.earliest().0];
        self.ends[index].handle_timeout(now);
        self.settle(now, index);
    }
}

impl End {
    /// Whether all other ends of its node may use it.
    fn is_shared(&self) -> bool {
        matches!(self, End::Page(_) | End::Signalling(_))
    }

    /// Whether it will say nothing more to its page by itself.
    fn is_set_up(&self) -> bool {
        match self {
            End::Peer(peer) => peer.is_set_up(),
            End::Translator(_) | End::Turn(_) => false,
            _ => true,
        }
    }
}
