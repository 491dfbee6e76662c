//! Which connection a datagram belongs to.

use std::collections::HashMap;
use std::net::SocketAddr;

/// The connections by the addresses that they are known to receive from.
#[derive(Debug, Default)]
pub(crate) struct Sources(HashMap<SocketAddr, u64>);

impl Sources {
    /// The connection that accepts a datagram from `source`. The others in `all` are only asked if it comes from
    /// a new address, or if the connection of this address does not accept it.
    pub(crate) fn find(
        &mut self,
        source: SocketAddr,
        all: impl IntoIterator<Item = u64>,
        mut accepts: impl FnMut(u64) -> bool,
    ) -> Option<u64> {
        if let Some(&known) = self.0.get(&source)
            && accepts(known)
        {
            return Some(known);
        }
        let found = all.into_iter().find(|&id| accepts(id))?;
        self.0.insert(source, found);
        Some(found)
    }

    /// A connection has ended.
    pub(crate) fn forget(&mut self, connection: u64) {
        self.0.retain(|_, id| *id != connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};

    /// The sources of 1,024 connections, each with a port of its own number.
    struct Lab {
        sources: Sources,
        asked: usize,
    }

    impl Lab {
        fn find(&mut self, port: u16, accepting: u64) -> Option<u64> {
            let source = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
            let Lab { sources, asked } = self;
            sources.find(source, 0..1024, |id| {
                *asked += 1;
                id == accepting
            })
        }
    }

    #[test]
    fn only_the_connection_of_a_known_address_is_asked() {
        let mut lab = Lab { sources: Sources::default(), asked: 0 };
        for port in 0..1024 {
            assert_eq!(lab.find(port, port.into()), Some(port.into()));
        }
        lab.asked = 0;
        for port in 0..1024 {
            assert_eq!(lab.find(port, port.into()), Some(port.into()));
        }
        assert_eq!(lab.asked, 1024);
    }

    #[test]
    fn an_address_that_another_connection_uses_now_belongs_to_that_one() {
        let mut lab = Lab { sources: Sources::default(), asked: 0 };
        assert_eq!(lab.find(1, 7), Some(7));
        assert_eq!(lab.find(1, 8), Some(8));
        lab.asked = 0;
        assert_eq!((lab.find(1, 8), lab.asked), (Some(8), 1));
        lab.sources.forget(8);
        assert_eq!(lab.find(1, 9999), None);
    }
}
