//! In which queues packets waited, as chains from the last queue back to the first.
//!
//! Copies of a packet have the beginning of their chains in common. A chain has no end of its own: it is part of the
//! list until it is forgotten or the network is dropped, so a network keeps chains only if it is told to.

use super::PathId;
use crate::units::Time;

/// The queues in which a packet waited: the place of the last one in [`Waits`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitsId(u32);

impl WaitsId {
    /// It waited nowhere, or nobody kept where.
    pub const NONE: Self = WaitsId(0);
}

/// How long a packet waited in the queue of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The path.
    pub path: PathId,
    /// How long it waited.
    pub queued: Time,
}

/// All waits, each with the one before it.
#[derive(Clone, Debug, Default)]
pub struct Waits {
    is_kept: bool,
    list: Vec<(Wait, WaitsId)>,
    /// Places in the list that are free again.
    free: Vec<WaitsId>,
}

impl Waits {
    /// Keeps waits from now on.
    pub(super) fn keep(&mut self) {
        self.is_kept = true;
    }

    /// A chain with one more wait at its end. A packet that passed a queue at once did not wait in it.
    #[inline]
    pub(super) fn add(&mut self, before: WaitsId, path: usize, queued: Time) -> WaitsId {
        if !self.is_kept || queued == Time::ZERO {
            return before;
        }
        self.push(before, Wait { path: PathId(path as u32), queued })
    }

    /// A chain and, behind it, another one.
    pub fn append(&mut self, before: WaitsId, behind: WaitsId) -> WaitsId {
        if before == WaitsId::NONE {
            return behind;
        }
        let waits: Vec<_> = self.of(behind).collect();
        waits.into_iter().rev().fold(before, |before, wait| self.push(before, wait))
    }

    /// The waits of a chain, the last one first.
    pub fn of(&self, last: WaitsId) -> impl Iterator<Item = Wait> {
        let link = |id: WaitsId| self.list.get((id.0 as usize).wrapping_sub(1));
        std::iter::successors(link(last), move |(_, before)| link(*before)).map(|(wait, _)| *wait)
    }

    /// Whether the waits of a chain add up to the time that its packet has waited in all. They do if they are kept.
    pub(crate) fn add_up(&self, last: WaitsId, queued: Time) -> bool {
        !self.is_kept || self.of(last).map(|wait| wait.queued.0).sum::<u64>() == queued.0
    }

    /// Forgets a chain, none of which may be part of another one: no copy of its packet was sent on.
    pub fn forget(&mut self, mut last: WaitsId) {
        while let Some((_, before)) = self.list.get((last.0 as usize).wrapping_sub(1)) {
            self.free.push(last);
            last = *before;
        }
    }

    fn push(&mut self, before: WaitsId, wait: Wait) -> WaitsId {
        if let Some(place) = self.free.pop() {
            self.list[place.0 as usize - 1] = (wait, before);
            return place;
        }
        self.list.push((wait, before));
        WaitsId(self.list.len() as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_that_are_forgotten_give_their_places_to_new_ones_and_leave_the_others() {
        let mut waits = Waits::default();
        waits.keep();
        let kept = waits.add(WaitsId::NONE, 7, Time(1));
        for round in 1..1_000 {
            let first = waits.add(WaitsId::NONE, 1, Time(round));
            let last = waits.add(first, 2, Time(2 * round));
            assert!(waits.add_up(last, Time(3 * round)));
            waits.forget(last);
        }
        assert_eq!(waits.list.len(), 3);
        assert_eq!(waits.of(kept).map(|wait| wait.path).collect::<Vec<_>>(), [PathId(7)]);
        waits.forget(WaitsId::NONE);
    }
}
