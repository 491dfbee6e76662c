//! Picks the earliest timeout among many.

use crate::units::Time;

/// Number of members of a block. Most runs have few parties, and so only a few blocks.
const BLOCK: usize = 8;

/// A timeout and the party that it belongs to.
type Member = (Time, u32);

/// The next timeout of each of a fixed number of parties; ties go to the lower index.
///
/// A tournament: parties form blocks, and the earliest member of each block is a member of a block above. A change
/// that leaves the earliest member of a block as it is goes no further.
#[derive(Debug)]
pub(crate) struct Timeouts {
    /// First the parties, then the earliest members of their blocks, and so on, last a single member.
    levels: Vec<Vec<Member>>,
}

impl Timeouts {
    pub(crate) fn new(parties: impl ExactSizeIterator<Item = Option<Time>>) -> Self {
        let timeouts = parties.map(|timeout| timeout.unwrap_or(Time::MAX));
        let mut members: Vec<Member> = timeouts.zip(0..).collect();
        if members.is_empty() {
            members.push((Time::MAX, 0));
        }
        let mut levels = Vec::new();
        while members.len() > 1 {
            let above = members.chunks(BLOCK).map(earliest_of).collect();
            levels.push(std::mem::replace(&mut members, above));
        }
        levels.push(members);
        Timeouts { levels }
    }

    pub(crate) fn set(&mut self, party: usize, timeout: Option<Time>) {
        let (mut index, mut changed) = (party, (timeout.unwrap_or(Time::MAX), party as u32));
        let mut before = std::mem::replace(&mut self.levels[0][index], changed);
        if before == changed {
            return;
        }
        for level in 1..self.levels.len() {
            let block = index / BLOCK;
            let earliest = self.levels[level][block];
            if changed > earliest {
                if before != earliest {
                    return;
                }
                let members = &self.levels[level - 1][block * BLOCK..];
                changed = earliest_of(&members[..members.len().min(BLOCK)]);
            }
            (index, before) = (block, earliest);
            self.levels[level][block] = changed;
        }
    }

    /// The party with the earliest timeout, and that timeout; `Time::MAX` if there is none.
    pub(crate) fn earliest(&self) -> (usize, Time) {
        let (at, party) = self.levels[self.levels.len() - 1][0];
        (party as usize, at)
    }
}

/// The first of the earliest members.
fn earliest_of(members: &[Member]) -> Member {
    let mut earliest = members[0];
    for member in &members[1..] {
        if member.0 < earliest.0 {
            earliest = *member;
        }
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
