//! The UDP payload of a packet, as far as it has content.

use super::{CHANNEL, Capture, Leg, Passing, TURN_PORT, address};
use crate::packet::{
    Address, Allocation, BINDING_BYTES, CHANNEL_DATA_BYTES, Content, IP_UDP_BYTES, Via,
};
use crate::rtp::stun::{
    Class, attribute, method, write_binding_success, write_padded, xor_address,
};
use std::net::SocketAddrV4;

/// UDP as the value of REQUESTED-TRANSPORT (RFC 8656, section 18.7).
const TRANSPORT_UDP: [u8; 4] = [17, 0, 0, 0];
/// Error 401, missing credentials, without a reason phrase (RFC 8489, section 14.8).
const UNAUTHENTICATED: [u8; 4] = [0, 0, 4, 1];
/// Transaction id of a request to a STUN server, without the end's number in front. A request to a relay has the number
/// of its step after it, and a connectivity check zeros before it.
const BINDING_ID: [u8; 12] = [0xFF; 12];

impl Capture {
    /// Fills `self.payload`.
    pub(super) fn write_payload(&mut self, leg: Leg, passing: Passing<'_>) {
        let Passing { from, to, via, wire_size, datagram } = passing;
        if let Via::Relay(_) = via {
            let len = wire_size.0 - IP_UDP_BYTES - CHANNEL_DATA_BYTES;
            self.payload.extend_from_slice(&CHANNEL.to_be_bytes());
            self.payload.extend_from_slice(&(len as u16).to_be_bytes());
        }
        match &datagram.content {
            Content::Stun(stun) => {
                let requester = if stun.success { to } else { from };
                let mapped = self.socket(to);
                stun.write(u64::from(requester.port).to_be_bytes(), mapped, &mut self.payload);
            }
            Content::Rtp(rtp) if rtp.header.padding => {
                rtp.write(&mut self.payload);
                // RFC 3550, 5.1: the last octet is the padding count. Readers expect it at the very end of
                // the packet, so the SRTP tag counts as padding here.
                let begin = self.payload.len();
                self.payload.resize((wire_size.0 - IP_UDP_BYTES) as usize, 0);
                let padding = self.payload.len() - begin;
                if let Some(last) = self.payload.last_mut() {
                    *last = padding as u8;
                }
            }
            Content::Allocation(allocation) => self.write_allocation(leg, passing, *allocation),
            Content::Binding => self.write_binding(leg, to),
            content => content.write(&mut self.payload),
        }
    }

    /// Writes the request on its way to the STUN server, or the answer on its way back.
    fn write_binding(&mut self, leg: Leg, own: Address) {
        let (mapped, mut id) = (self.socket(own), BINDING_ID);
        id[..4].copy_from_slice(&own.port.to_be_bytes());
        match leg {
            Leg::First => {
                let (kind, bytes) = ((Class::Request, method::BINDING), BINDING_BYTES as usize);
                write_padded(kind, &id, &[], bytes, &mut self.payload);
            }
            Leg::Second => write_binding_success(&id, mapped, &mut self.payload),
        }
    }

    /// Writes the request on its way to the relay, or the answer on its way back.
    fn write_allocation(
        &mut self,
        leg: Leg,
        passing: Passing<'_>,
        Allocation { step }: Allocation,
    ) {
        let own = passing.to.port;
        let Via::Server(relay) = passing.via else { return };
        // The relayed address of an end has the same port as the end itself. The ends of a call come in
        // pairs.
        let relayed = |end: u32| {
            let port = self.sockets.get(end as usize).map_or(TURN_PORT, SocketAddrV4::port);
            xor_address(SocketAddrV4::new(address(relay), port))
        };
        let (given, peer) = (relayed(own), relayed(own ^ 1));
        let mapped = xor_address(self.sockets[own as usize]);
        let [high, low] = CHANNEL.to_be_bytes();
        let channel = [high, low, 0, 0];
        let channel_bind =
            [(attribute::CHANNEL_NUMBER, &channel[..]), (attribute::XOR_PEER_ADDRESS, &peer)];
        let allocate = [(attribute::REQUESTED_TRANSPORT, &TRANSPORT_UDP[..])];
        let refused = [(attribute::ERROR_CODE, &UNAUTHENTICATED[..])];
        let allocated = [
            (attribute::XOR_RELAYED_ADDRESS, &given[..]),
            (attribute::XOR_MAPPED_ADDRESS, &mapped),
        ];
        let (class, method, attributes): (_, _, &[(u16, &[u8])]) = match (step, leg) {
            (0 | 1, Leg::First) => (Class::Request, method::ALLOCATE, &allocate),
            (0, Leg::Second) => (Class::Error, method::ALLOCATE, &refused),
            (1, Leg::Second) => (Class::Success, method::ALLOCATE, &allocated),
            (_, Leg::First) => (Class::Request, method::CHANNEL_BIND, &channel_bind),
            (_, Leg::Second) => (Class::Success, method::CHANNEL_BIND, &[]),
        };
        // No connectivity check has such an id: theirs is the end's number in eight bytes, then a counter.
        let mut id = [0xFF; 12];
        id[..4].copy_from_slice(&own.to_be_bytes());
        id[4] = step;
        let bytes = Allocation::UDP_BYTES as usize;
        write_padded((class, method), &id, attributes, bytes, &mut self.payload);
    }
}
