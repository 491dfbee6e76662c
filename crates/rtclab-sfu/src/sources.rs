//! Which connection a datagram belongs to.

use rtclab_core::rtp::stun::{Message, attribute};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

/// Most addresses that are remembered of a connection. str0m remembers as many (`Rtc::remote_addrs`). A page
/// whose address changes over and over must not fill the memory.
const MAX_ADDRESSES: usize = 20;

/// The connections by the addresses that they receive from, and by their names in ICE.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    by_address: HashMap<SocketAddr, u64>,
    by_name: HashMap<String, u64>,
    known: HashMap<u64, Known>,
}

/// What leads to a connection.
#[derive(Debug, Default)]
struct Known {
    name: String,
    /// Oldest first. Another connection may use an address by now.
    addresses: VecDeque<SocketAddr>,
}

impl Sources {
    /// A connection has this user name fragment from now on (RFC 8445, 5.3).
    pub(crate) fn name(&mut self, connection: u64, name: &str) {
        let known = self.known.entry(connection).or_default();
        if known.name != name {
            self.by_name.remove(&known.name);
            known.name = name.to_owned();
            self.by_name.insert(name.to_owned(), connection);
        }
    }

    /// The connection that accepts a datagram from `source`. At most two are asked: the one that receives from
    /// there, and the one that the datagram names, as each STUN request does (RFC 8445, 7.2.2). A page sends such
    /// requests before anything else.
    pub(crate) fn find(
        &mut self,
        source: SocketAddr,
        datagram: &[u8],
        accepts: impl Fn(u64) -> bool,
    ) -> Option<u64> {
        let known = self.by_address.get(&source).copied();
        if known.is_some_and(&accepts) {
            return known;
        }
        let named = *self.by_name.get(name_in(datagram)?)?;
        accepts(named).then(|| {
            self.remember(named, source);
            named
        })
    }

    fn remember(&mut self, connection: u64, source: SocketAddr) {
        let addresses = &mut self.known.entry(connection).or_default().addresses;
        addresses.retain(|address| *address != source);
        addresses.push_back(source);
        let oldest = if addresses.len() > MAX_ADDRESSES { addresses.pop_front() } else { None };
        self.by_address.insert(source, connection);
        if let Some(oldest) = oldest {
            self.forget_address(connection, oldest);
        }
    }

    /// A connection has ended.
    pub(crate) fn forget(&mut self, connection: u64) {
        let Some(known) = self.known.remove(&connection) else { return };
        self.by_name.remove(&known.name);
        known.addresses.into_iter().for_each(|address| self.forget_address(connection, address));
    }

    fn forget_address(&mut self, connection: u64, address: SocketAddr) {
        if self.by_address.get(&address) == Some(&connection) {
            self.by_address.remove(&address);
        }
    }
}

/// The user name fragment of the connection that a STUN message is for: what precedes the colon of its user name.
fn name_in(datagram: &[u8]) -> Option<&str> {
    let user = Message::parse(datagram).ok()?.attribute(attribute::USERNAME).ok()??;
    Some(std::str::from_utf8(user).ok()?.split_once(':')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtclab_core::rtp::stun::write_binding_request;
    use std::cell::RefCell;
    use std::net::{IpAddr, Ipv4Addr};

    const RTP: [u8; 2] = [0x80, 96];

    /// The sources of 1,024 connections. Their names are their numbers.
    struct Lab {
        sources: Sources,
        asked: RefCell<Vec<u64>>,
    }

    impl Lab {
        fn new() -> Self {
            let mut sources = Sources::default();
            (0..1024).for_each(|id| sources.name(id, &id.to_string()));
            Self { sources, asked: RefCell::default() }
        }

        /// Only `accepting` accepts the datagram.
        fn find(&mut self, port: u16, datagram: &[u8], accepting: u64) -> Option<u64> {
            let source = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
            self.asked.take();
            self.sources.find(source, datagram, |id| {
                self.asked.borrow_mut().push(id);
                id == accepting
            })
        }
    }

    fn check(name: u64) -> Vec<u8> {
        let mut datagram = Vec::new();
        let user = format!("{name}:page");
        write_binding_request(&[0; 12], &user, None, &mut datagram).expect("a short name");
        datagram
    }

    #[test]
    fn a_new_address_is_learned_from_a_check_and_then_only_its_connection_is_asked() {
        let mut lab = Lab::new();
        for id in 0..1024 {
            let port = id as u16;
            assert_eq!(lab.find(port, &RTP, id), None, "nobody is known to send from there");
            assert!(lab.asked.borrow().is_empty());
            for datagram in [&check(id)[..], &RTP] {
                assert_eq!(lab.find(port, datagram, id), Some(id));
                assert_eq!(*lab.asked.borrow(), [id]);
            }
        }
    }

    #[test]
    fn a_check_that_its_connection_does_not_accept_teaches_nothing() {
        let mut lab = Lab::new();
        assert_eq!(lab.find(1, &check(7), 8), None);
        assert_eq!(lab.find(1, &RTP, 7), None);
    }

    #[test]
    fn an_address_that_another_connection_uses_now_belongs_to_it() {
        let mut lab = Lab::new();
        assert_eq!(lab.find(1, &check(7), 7), Some(7));
        assert_eq!(lab.find(1, &check(8), 8), Some(8));
        lab.sources.forget(7);
        assert_eq!(lab.find(1, &RTP, 8), Some(8));
        assert_eq!(*lab.asked.borrow(), [8]);
    }

    #[test]
    fn a_new_name_replaces_the_old_one() {
        let mut lab = Lab::new();
        lab.sources.name(7, "2000");
        assert_eq!(lab.find(1, &check(7), 7), None);
        assert_eq!(lab.find(1, &check(2000), 7), Some(7));
    }

    #[test]
    fn nothing_stays_of_connections_that_ended_nor_of_addresses_that_were_used_long_ago() {
        let mut lab = Lab::new();
        for port in 0..1000 {
            assert_eq!(lab.find(port, &check(7), 7), Some(7));
        }
        assert_eq!(lab.sources.by_address.len(), MAX_ADDRESSES);
        assert_eq!(lab.find(999, &RTP, 7), Some(7), "the newest are kept");
        (0..1024).for_each(|id| lab.sources.forget(id));
        let Sources { by_address, by_name, known } = lab.sources;
        assert_eq!((by_address.len(), by_name.len(), known.len()), (0, 0, 0));
    }
}
