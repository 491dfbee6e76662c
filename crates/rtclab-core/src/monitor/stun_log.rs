//! Follows STUN transactions and TURN channel bindings.
//!
//! Source: RFC 8489, section 6; RFC 8656, section 12.

use super::demux::{StunHeader, attributes};
use crate::rtp::stun::{self, Class, TransactionId, attribute, method};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

/// Maximum number of requests without a response.
const MAX_PENDING: usize = 4096;
/// Maximum time between request and response. A client gives up after 39.5 s (RFC 8489).
const TIMEOUT_NS: i64 = 39_500_000_000;
/// Maximum number of channel bindings.
const MAX_CHANNELS: usize = 16_384;

/// Requests without a response, and the peers of channels.
#[derive(Default)]
pub(crate) struct StunLog {
    pending: HashMap<TransactionId, Request>,
    order: VecDeque<TransactionId>,
    channels: HashMap<(SocketAddr, SocketAddr, u16), SocketAddr>,
    /// Number of requests and bindings forgotten because a limit was reached.
    pub(crate) forgotten: u64,
}

#[derive(Clone, Copy)]
struct Request {
    flow: u32,
    at_ns: i64,
}

impl StunLog {
    /// Takes a message. For a response, returns the flow of the request and the time between the two.
    pub(crate) fn receive(
        &mut self,
        (flow, at_ns): (u32, i64),
        ends: (SocketAddr, SocketAddr),
        bytes: &[u8],
    ) -> Option<(u32, i64)> {
        let header = StunHeader::parse(bytes)?;
        match header.class {
            Class::Request => {
                if header.method == method::CHANNEL_BIND {
                    self.bind(ends, &header, bytes);
                }
                self.remember(header.transaction_id, Request { flow, at_ns });
                None
            }
            Class::Success | Class::Error => {
                let request = self.pending.remove(&header.transaction_id)?;
                let rtt_ns = at_ns - request.at_ns;
                (0..=TIMEOUT_NS).contains(&rtt_ns).then_some((request.flow, rtt_ns))
            }
            Class::Indication => None,
        }
    }

    /// Remembers a request. A retransmitted request keeps its first time, because the response may belong
    /// to either.
    fn remember(&mut self, id: TransactionId, request: Request) {
        if self.pending.contains_key(&id) {
            return;
        }
        // The ids of answered requests stay in the queue until they reach its front.
        while self.order.len() >= MAX_PENDING {
            let oldest = self.order.pop_front().and_then(|id| self.pending.remove(&id));
            let in_time = oldest.is_some_and(|o| request.at_ns - o.at_ns < TIMEOUT_NS);
            self.forgotten += u64::from(in_time);
        }
        self.order.push_back(id);
        self.pending.insert(id, request);
    }

    fn bind(
        &mut self,
        (client, server): (SocketAddr, SocketAddr),
        header: &StunHeader,
        bytes: &[u8],
    ) {
        let value = |wanted| attributes(bytes).find(|(kind, ..)| *kind == wanted).map(|a| a.2);
        let Some([high, low, ..]) = value(attribute::CHANNEL_NUMBER) else { return };
        let Some(peer) = value(attribute::XOR_PEER_ADDRESS) else { return };
        let Ok(peer) = stun::parse_xor_address(peer, &header.transaction_id) else { return };
        if self.channels.len() < MAX_CHANNELS {
            self.channels.insert((client, server, u16::from_be_bytes([*high, *low])), peer);
        } else {
            self.forgotten += 1;
        }
    }

    /// Peer of a channel between two addresses. Either one may be the client.
    pub(crate) fn peer(&self, ends: (SocketAddr, SocketAddr), channel: u16) -> Option<SocketAddr> {
        let found = self.channels.get(&(ends.0, ends.1, channel));
        found.or_else(|| self.channels.get(&(ends.1, ends.0, channel))).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: &str = "192.0.2.1:5000";
    const SERVER: &str = "192.0.2.2:3478";

    fn ends() -> (SocketAddr, SocketAddr) {
        (CLIENT.parse().unwrap(), SERVER.parse().unwrap())
    }

    fn message(kind: [u8; 2], id: u32, attributes: &[u8]) -> Vec<u8> {
        let mut bytes = vec![kind[0], kind[1], 0, attributes.len() as u8, 0x21, 0x12, 0xA4, 0x42];
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(&id.to_be_bytes());
        bytes.extend_from_slice(attributes);
        bytes
    }

    #[test]
    fn a_response_gives_the_flow_of_its_request_and_the_time_since_the_first_one() {
        let mut log = StunLog::default();
        let request = message([0, 1], 1, &[]);
        assert_eq!(log.receive((7, 1_000), ends(), &request), None);
        assert_eq!(log.receive((7, 1_500), ends(), &request), None);
        let response = message([1, 1], 1, &[]);
        assert_eq!(log.receive((8, 3_000), ends(), &response), Some((7, 2_000)));
        assert_eq!(log.receive((8, 4_000), ends(), &response), None);
    }

    #[test]
    fn requests_without_a_response_are_forgotten_at_the_limit() {
        let mut log = StunLog::default();
        for id in 0..=MAX_PENDING as u32 {
            log.receive((0, i64::from(id)), ends(), &message([0, 1], id, &[]));
        }
        assert_eq!(
            (log.forgotten, log.pending.len(), log.order.len()),
            (1, MAX_PENDING, MAX_PENDING)
        );
        assert_eq!(log.receive((1, 5_000), ends(), &message([1, 1], 0, &[])), None);
        assert_eq!(log.receive((1, 5_000), ends(), &message([1, 1], 1, &[])), Some((0, 4_999)));
    }

    #[test]
    fn a_channel_is_bound_to_its_peer_in_both_directions() {
        let mut log = StunLog::default();
        let attributes =
            [0, 0x0C, 0, 4, 0x40, 1, 0, 0, 0, 0x12, 0, 8, 0, 1, 0xA1, 0x47, 0xE1, 0x12, 0xA6, 0x43];
        log.receive((0, 0), ends(), &message([0, 9], 1, &attributes));
        let peer = Some("192.0.2.1:32853".parse().unwrap());
        assert_eq!(log.peer(ends(), 0x4001), peer);
        assert_eq!(log.peer((ends().1, ends().0), 0x4001), peer);
        assert_eq!(log.peer(ends(), 0x4002), None);
    }
}
