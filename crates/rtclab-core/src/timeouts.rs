//! Picks the earliest timeout among many.

use crate::units::Time;

/// The next timeout of each of a fixed number of parties; ties go to the lower index.
///
/// A tournament: each inner node holds the smaller of the two below it.
#[derive(Debug)]
pub(crate) struct Timeouts {
    /// Node 1 is the root, the two below node `n` are `2n` and `2n + 1`; the last half are the parties.
    nodes: Vec<Time>,
}

impl Timeouts {
    pub(crate) fn new(parties: impl ExactSizeIterator<Item = Option<Time>>) -> Self {
        let leaves = parties.len().max(1).next_power_of_two();
        let mut timeouts = Timeouts { nodes: vec![Time::MAX; 2 * leaves] };
        for (party, timeout) in parties.enumerate() {
            timeouts.set(party, timeout);
        }
        timeouts
    }

    pub(crate) fn set(&mut self, party: usize, timeout: Option<Time>) {
        let mut node = self.nodes.len() / 2 + party;
        let timeout = timeout.unwrap_or(Time::MAX);
        if self.nodes[node] == timeout {
            return;
        }
        self.nodes[node] = timeout;
        while node > 1 {
            let least = self.nodes[node].min(self.nodes[node ^ 1]);
            node /= 2;
            if self.nodes[node] == least {
                return;
            }
            self.nodes[node] = least;
        }
    }

    /// The party with the earliest timeout, and that timeout; `Time::MAX` if there is none.
    pub(crate) fn earliest(&self) -> (usize, Time) {
        let at = self.nodes[1];
        let mut node = 1;
        while 2 * node < self.nodes.len() {
            node *= 2;
            node += usize::from(self.nodes[node] != at);
        }
        (node - self.nodes.len() / 2, at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_earliest_is_what_a_search_through_all_finds(
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
