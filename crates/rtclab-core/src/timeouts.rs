//! Picks the earliest timeout among many.

use crate::units::Time;

/// Number of parties in a block. Most runs have few parties, and so only one block or two.
const BLOCK: usize = 8;

/// When a party is due. [`Timeouts`] picks the least one.
pub(crate) trait Due: Copy + Ord {
    /// The value of a party that is never due.
    const NEVER: Self;
}

impl Due for Time {
    const NEVER: Self = Time::MAX;
}

/// A time, and a number that decides between equal times, in one number: a comparison then needs no branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TimeAndNumber(u128);

impl TimeAndNumber {
    pub(crate) fn new(at: Time, number: u32) -> Self {
        TimeAndNumber(u128::from(at.0) << 32 | u128::from(number))
    }

    pub(crate) fn at(self) -> Time {
        Time((self.0 >> 32) as u64)
    }
}

impl Due for TimeAndNumber {
    const NEVER: Self = TimeAndNumber(u128::MAX >> 32);
}

/// The next timeout of each of a fixed number of parties; ties go to the lower index.
///
/// A tournament: parties form blocks, and the earliest timeout of each block belongs to a block above, up to a single
/// block. For 2 to 2,000 parties that takes half to two thirds of the time of a heap with four children.
#[derive(Debug)]
pub(crate) struct Timeouts<T = Time> {
    /// Blocks of the parties, blocks of their earliest timeouts, and so on up to the single block, which is `top`;
    /// [`Due::NEVER`] in unused places.
    below: Vec<Vec<[T; BLOCK]>>,
    top: [T; BLOCK],
    /// Number of places of `top` in use.
    used: usize,
    earliest: (T, usize),
}

impl<T: Due> Timeouts<T> {
    pub(crate) fn new(parties: impl ExactSizeIterator<Item = Option<T>>) -> Self {
        let mut times: Vec<T> = parties.map(|timeout| timeout.unwrap_or(T::NEVER)).collect();
        let mut below = Vec::new();
        while times.len() > BLOCK {
            times.resize(times.len().next_multiple_of(BLOCK), T::NEVER);
            let blocks = times.chunks_exact(BLOCK).map(|block| block.try_into().expect("a block"));
            let blocks: Vec<[T; BLOCK]> = blocks.collect();
            times = blocks.iter().map(|block| earliest_in(block).0).collect();
            below.push(blocks);
        }
        let mut top = [T::NEVER; BLOCK];
        top[..times.len()].copy_from_slice(&times);
        let used = times.len().max(1);
        let mut timeouts = Timeouts { below, top, used, earliest: (T::NEVER, 0) };
        timeouts.earliest = timeouts.search();
        timeouts
    }

    pub(crate) fn set(&mut self, party: usize, timeout: Option<T>) {
        let timeout = timeout.unwrap_or(T::NEVER);
        if timeout == self.of(party) {
            return;
        }
        self.put(party, timeout);
        if (timeout, party) < self.earliest {
            self.earliest = (timeout, party);
        } else if party == self.earliest.1 {
            self.earliest = self.search();
        }
    }

    /// Puts a timeout into the block of its party, and the earliest ones of blocks into those above, as far as they
    /// change.
    fn put(&mut self, party: usize, timeout: T) {
        let (mut index, mut changed) = (party, timeout);
        for blocks in &mut self.below {
            let block = &mut blocks[index / BLOCK];
            if block[index % BLOCK] == changed {
                return;
            }
            block[index % BLOCK] = changed;
            (index, changed) = (index / BLOCK, earliest_in(block).0);
        }
        self.top[index] = changed;
    }

    /// The timeout of a party; [`Due::NEVER`] if it has none.
    pub(crate) fn of(&self, party: usize) -> T {
        let blocks = self.below.first();
        blocks.map_or(&self.top, |blocks| &blocks[party / BLOCK])[party % BLOCK]
    }

    /// The party with the earliest timeout, and that timeout; [`Due::NEVER`] if there is none.
    pub(crate) fn earliest(&self) -> (usize, T) {
        (self.earliest.1, self.earliest.0)
    }

    /// Follows the earliest timeout from the single block down to its party.
    fn search(&self) -> (T, usize) {
        let (earliest, mut index) = earliest_in(&self.top[..self.used]);
        for blocks in self.below.iter().rev() {
            index = BLOCK * index + earliest_in(&blocks[index]).1;
        }
        (earliest, index)
    }
}

/// The earliest of the timeouts, and the place of the first such.
fn earliest_in<T: Due>(block: &[T]) -> (T, usize) {
    let mut earliest = (block[0], 0);
    for (index, at) in block.iter().enumerate() {
        // Without a branch, which no processor could predict.
        earliest = if *at < earliest.0 { (*at, index) } else { earliest };
    }
    earliest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_earliest_timeout_is_what_a_linear_search_finds(
            changes in prop::collection::vec((0usize..70, prop::option::of(0u64..20)), 0..200)
        ) {
            let mut plain = [Time::MAX; 70];
            let mut timeouts = Timeouts::new([None; 70].into_iter());
            for (party, timeout) in changes {
                plain[party] = timeout.map_or(Time::MAX, Time);
                timeouts.set(party, timeout.map(Time));
                let expected = plain.iter().copied().enumerate().min_by_key(|(_, at)| *at);
                prop_assert_eq!(Some(timeouts.earliest()), expected);
            }
        }
    }
}
