//! Queue of datagrams that an endpoint wants to send.

use super::config::{Addresses, ServerSetup};
use crate::packet::{
    Address, Allocation, Content, Datagram, Dtls13, DtlsFlight, Ecn, Past, Rtcp, Rtp, Signal,
    SignalKind, Signalling, Stun, Transmit, Via,
};
use crate::rtp::RtcpPacket;
use crate::units::{Bytes, Time};
use std::collections::VecDeque;

/// Datagrams waiting to be polled, and the addresses they need.
pub(super) struct Outbox {
    pub(super) addresses: Addresses,
    /// Where the far end is, as far as this end knows.
    destination: Address,
    /// The SFU in the connection, which decides on header extensions and on the protection of packets.
    server: Option<ServerSetup>,
    /// Codepoint of RTCP.
    rtcp_ecn: Ecn,
    queue: VecDeque<Transmit>,
    signals: VecDeque<Signal>,
}

impl Outbox {
    pub(super) fn new(addresses: Addresses, server: Option<ServerSetup>) -> Self {
        let destination = addresses.remote;
        let (rtcp_ecn, queue, signals) = (Ecn::NotCapable, VecDeque::new(), VecDeque::new());
        Outbox { addresses, destination, server, rtcp_ecn, queue, signals }
    }

    /// Sends everything to the address that a check of the far end came from: behind a NAT the far end may have
    /// another one than it knows (RFC 8445, section 7.3.1.3).
    pub(super) fn send_to(&mut self, from: Address) {
        self.destination = from;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.signals.is_empty()
    }

    pub(super) fn poll(&mut self) -> Option<Transmit> {
        self.queue.pop_front()
    }

    /// The next thing to tell the other end over signalling.
    pub(super) fn poll_signal(&mut self) -> Option<Signal> {
        self.signals.pop_front()
    }

    /// Sends RTP; returns the IP total length that it has between two browsers, which is what congestion control counts.
    pub(super) fn send_rtp(&mut self, past: Past, ecn: Ecn, packet: Rtp) -> Bytes {
        let size = packet.ip_bytes();
        self.forward(past, Datagram { size, ecn, content: Content::Rtp(packet) });
        size
    }

    /// Sends RTCP from now on as ECT(1) if an RTP packet with this codepoint was ECT(1), as libwebrtc does with RFC 8888
    /// (f3ae3eb).
    pub(super) fn answer_ecn(&mut self, received: Ecn) {
        self.rtcp_ecn = match received {
            Ecn::Ect1 | Ecn::CongestionExperienced => Ecn::Ect1,
            Ecn::Ect0 | Ecn::NotCapable => Ecn::NotCapable,
        };
    }

    /// Sends RTCP packets in one datagram, unless one of them does not fit its wire format.
    pub(super) fn send_rtcp(
        &mut self,
        now: Time,
        packets: impl Into<std::sync::Arc<[RtcpPacket]>>,
    ) {
        if let Some(rtcp) = Rtcp::new(packets) {
            self.forward(Past::new(now), Datagram::new(self.rtcp_ecn, Content::Rtcp(rtcp)));
        }
    }

    pub(super) fn send_stun(&mut self, now: Time, stun: Stun) {
        self.forward(Past::new(now), Datagram::new(Ecn::NotCapable, Content::Stun(stun)));
    }

    pub(super) fn send_dtls(&mut self, now: Time, flight: DtlsFlight) {
        self.forward(Past::new(now), Datagram::new(Ecn::NotCapable, Content::Dtls(flight)));
    }

    pub(super) fn send_dtls13(&mut self, now: Time, datagram: Dtls13) {
        self.forward(Past::new(now), Datagram::new(Ecn::NotCapable, Content::Dtls13(datagram)));
    }

    pub(super) fn send_signal(&mut self, kind: SignalKind) {
        let Addresses { local, remote, .. } = self.addresses;
        self.signals.push_back(Signal { from: local.port, to: remote.port, kind });
    }

    /// Sends a datagram whose content another node may have sent first.
    pub(super) fn forward(&mut self, past: Past, mut datagram: Datagram) {
        if let Some(server) = self.server {
            datagram.size = server.size(datagram.size, &datagram.content);
        }
        let via = self.addresses.relay.map_or(Via::Direct, Via::Relay);
        self.queue.push_back(Transmit { to: self.destination, via, past, datagram });
    }

    /// Sends a segment of signalling via the signalling server.
    pub(super) fn send_signalling(&mut self, now: Time, segment: Signalling) {
        let Addresses { local, remote, core, .. } = self.addresses;
        // A server at the core talks to the signalling server without a network.
        let via = if local.node == core { Via::Direct } else { Via::Server(core) };
        let datagram = Datagram::new(Ecn::NotCapable, Content::Signalling(segment));
        self.queue.push_back(Transmit { to: remote, via, past: Past::new(now), datagram });
    }

    /// Sends a request to the relay; the request comes back as its own answer.
    pub(super) fn send_allocation(&mut self, now: Time, allocation: Allocation) {
        let Addresses { local, relay, .. } = self.addresses;
        let Some(relay) = relay else { return };
        let datagram = Datagram::new(Ecn::NotCapable, Content::Allocation(allocation));
        let via = Via::Server(relay);
        self.queue.push_back(Transmit { to: local, via, past: Past::new(now), datagram });
    }

    /// Asks the STUN server at the core for this end's address outside its NAT; the request comes back as its own
    /// answer.
    pub(super) fn send_binding(&mut self, now: Time) {
        let Addresses { local, core, .. } = self.addresses;
        let datagram = Datagram::new(Ecn::NotCapable, Content::Binding);
        let via = Via::Server(core);
        self.queue.push_back(Transmit { to: local, via, past: Past::new(now), datagram });
    }
}
