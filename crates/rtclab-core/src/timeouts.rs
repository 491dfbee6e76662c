//! Picks the earliest timeout among many.

use crate::units::Time;

/// The next timeout of each of a fixed number of parties; ties go to the lower index.
///
/// A tournament: each inner node holds the winner of the two below it.
#[derive(Debug)]
pub(crate) struct Timeouts {
    /// Timeouts with the party that each belongs to. Node 1 is the root, and the children of node `n` are
    /// `2n` and `2n + 1`. The second half of the nodes are the parties.
    nodes: Vec<(Time, u32)>,
}

impl Timeouts {
    pub(crate) fn new(parties: impl ExactSizeIterator<Item = Option<Time>>) -> Self {
        let leaves = parties.len().max(1).next_power_of_two();
        let mut nodes = vec![(Time::MAX, 0); 2 * leaves];
        for (party, timeout) in (0..).zip(parties) {
            nodes[leaves + party as usize] = (timeout.unwrap_or(Time::MAX), party);
        }
        let mut timeouts = Timeouts { nodes };
        for node in (1..leaves).rev() {
            timeouts.nodes[node] = timeouts.winner_below(node);
        }
        timeouts
    }

    pub(crate) fn set(&mut self, party: usize, timeout: Option<Time>) {
        let mut node = self.nodes.len() / 2 + party;
        let timeout = timeout.unwrap_or(Time::MAX);
        if self.nodes[node].0 == timeout {
            return;
        }
        self.nodes[node].0 = timeout;
        while node > 1 {
            node /= 2;
            let winner = self.winner_below(node);
            if self.nodes[node] == winner {
                return;
            }
            self.nodes[node] = winner;
        }
    }

    /// The party with the earliest timeout, and that timeout; `Time::MAX` if there is none.
    pub(crate) fn earliest(&self) -> (usize, Time) {
        let (at, party) = self.nodes[1];
        (party as usize, at)
    }

    fn winner_below(&self, node: usize) -> (Time, u32) {
        let (left, right) = (self.nodes[2 * node], self.nodes[2 * node + 1]);
        if right.0 < left.0 { right } else { left }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_earliest_timeout_is_what_a_linear_search_finds(
            changes in prop::collection::vec((0usize..7, prop::option::of(0u64..20)), 0..60)
        ) {
            let mut plain = [Time::MAX; 7];
            let mut timeouts = Timeouts::new([None; 7].into_iter());
            for (party, timeout) in changes {
                plain[party] = timeout.map_or(Time::MAX, Time);
                timeouts.set(party, timeout.map(Time));
                let expected = plain.iter().copied().enumerate().min_by_key(|(_, at)| *at);
                prop_assert_eq!(Some(timeouts.earliest()), expected);
            }
        }
    }
}
