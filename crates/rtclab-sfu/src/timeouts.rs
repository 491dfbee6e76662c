//! When which connection must be driven.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

/// One timeout for each connection.
#[derive(Debug, Default)]
pub(crate) struct ConnectionTimeouts {
    queue: BTreeSet<(Instant, u64)>,
    of: HashMap<u64, Instant>,
}

impl ConnectionTimeouts {
    /// Sets the timeout of a connection, or removes it.
    pub(crate) fn set(&mut self, connection: u64, at: Option<Instant>) {
        let before = match at {
            Some(at) => self.of.insert(connection, at),
            None => self.of.remove(&connection),
        };
        if before != at {
            before.map(|before| self.queue.remove(&(before, connection)));
            self.queue.extend(at.map(|at| (at, connection)));
        }
    }

    /// The earliest timeout.
    pub(crate) fn earliest(&self) -> Option<Instant> {
        self.queue.first().map(|(at, _)| *at)
    }

    /// Removes the earliest timeout, if it is due, and returns its connection.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<u64> {
        let &(at, connection) = self.queue.first()?;
        (at <= now).then(|| {
            self.set(connection, None);
            connection
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn only_the_last_timeout_of_a_connection_counts_and_only_due_ones_are_returned() {
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        let mut timeouts = ConnectionTimeouts::default();
        for (connection, ms) in [(1, 30), (2, 10), (3, 20), (1, 5), (2, 40)] {
            timeouts.set(connection, Some(after(ms)));
        }
        timeouts.set(3, None);
        assert_eq!(timeouts.earliest(), Some(after(5)));
        assert_eq!(timeouts.pop_due(after(4)), None);
        assert_eq!(timeouts.pop_due(after(39)), Some(1));
        assert_eq!(timeouts.pop_due(after(39)), None);
        assert_eq!(timeouts.pop_due(after(40)), Some(2));
        assert_eq!(timeouts.earliest(), None);
    }
}
