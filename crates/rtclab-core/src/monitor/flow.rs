//! Flows: packets from one address and port to another, past one interface.

use super::decapsulation::Point;
use super::decapsulation::ip::{Transport, TransportDatagram};
use super::framing::Framing;
use super::repair::Recent;
use super::sdp::Sdp;
use super::stream::RtpSeen;
use super::stream::extensions::Learner;
use super::texts::ms;
use crate::rtp::Protocol;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::net::{IpAddr, SocketAddr};

/// Maximum number of flows. Packets of further flows are only counted. As many flows again are added if they
/// have RTP streams, so that a call is found among other traffic.
pub(crate) const MAX_FLOWS: usize = 10_000;
/// Size of the cache of recent flows: a power of two.
const RECENT_FLOWS: usize = 64;

/// Addresses and ports as numbers, which are fast to hash. IPv4 is mapped into IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct FlowKey {
    source: u128,
    destination: u128,
    ports: u32,
    tcp: bool,
    point: Point,
}

/// Counts of one flow.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) point: Point,
    pub(crate) transport: Transport,
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
    /// Hop limit of the first packet.
    pub(crate) hop_limit: u8,
    pub(crate) first_ns: i64,
    pub(crate) last_ns: i64,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// Number of packets by ECN codepoint, in the order of [`Ecn::ALL`](crate::ecn::Ecn::ALL).
    pub(crate) ecn: [u64; 4],
    pub(crate) stun: u64,
    pub(crate) dtls: u64,
    pub(crate) rtp: u64,
    pub(crate) rtcp: u64,
    /// Number of STUN, DTLS, RTP and RTCP packets in TURN framing.
    pub(crate) relayed: u64,
    pub(crate) fragments: u64,
    /// Number of TCP segments that begin or continue a frame.
    pub(crate) framed: u64,
    pub(crate) framing: Framing,
    pub(crate) stun_rtt: Rtt,
    pub(crate) extensions: Learner,
    pub(crate) recent: Recent,
}

/// Statistics of round-trip times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rtt {
    pub(crate) count: u64,
    pub(crate) min_ns: i64,
    pub(crate) max_ns: i64,
    pub(crate) sum_ns: i128,
}

impl Rtt {
    pub(crate) fn add(&mut self, ns: i64) {
        self.min_ns = if self.count == 0 { ns } else { self.min_ns.min(ns) };
        self.max_ns = if self.count == 0 { ns } else { self.max_ns.max(ns) };
        self.sum_ns += i128::from(ns);
        self.count += 1;
    }

    pub(crate) fn min_ms(&self) -> Option<f64> {
        (self.count > 0).then(|| ms(self.min_ns as f64))
    }

    pub(crate) fn mean_ms(&self) -> Option<f64> {
        (self.count > 0).then(|| ms(self.sum_ns as f64 / self.count as f64))
    }

    pub(crate) fn max_ms(&self) -> Option<f64> {
        (self.count > 0).then(|| ms(self.max_ns as f64))
    }
}

impl Flow {
    pub(crate) fn count(&mut self, protocol: Protocol, relayed: bool) {
        match protocol {
            Protocol::Stun => self.stun += 1,
            Protocol::Dtls => self.dtls += 1,
            Protocol::Rtp => self.rtp += 1,
            Protocol::Rtcp => self.rtcp += 1,
            Protocol::TurnChannel | Protocol::Other => return,
        }
        self.relayed += u64::from(relayed);
    }

    /// Number of packets of other protocols. For TCP, number of segments without frames.
    pub(crate) fn other(&self) -> u64 {
        match self.transport {
            Transport::Udp => {
                self.packets.saturating_sub(self.stun + self.dtls + self.rtp + self.rtcp)
            }
            Transport::Tcp => self.packets.saturating_sub(self.framed),
        }
    }
}

/// All flows, and a count of packets beyond the limit.
pub(crate) struct Flows {
    index: HashMap<FlowKey, u32>,
    pub(crate) list: Vec<Flow>,
    /// Cache of recent flows, by a few bits of their key. It is faster than the index, whose hash resists
    /// collision attacks.
    recent: [Option<(FlowKey, u32)>; RECENT_FLOWS],
    /// Number of packets whose flow exceeded the limit.
    pub(crate) packets_over_limit: u64,
}

impl Default for Flows {
    fn default() -> Self {
        let recent = [None; RECENT_FLOWS];
        Flows { index: HashMap::new(), list: Vec::new(), recent, packets_over_limit: 0 }
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => 0xFFFF_0000_0000 | u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

impl Flows {
    fn key(point: Point, datagram: &TransportDatagram<'_>) -> FlowKey {
        FlowKey {
            source: number(datagram.source.ip()),
            destination: number(datagram.destination.ip()),
            ports: u32::from(datagram.source.port()) << 16 | u32::from(datagram.destination.port()),
            tcp: datagram.transport == Transport::Tcp,
            point,
        }
    }

    /// Index of a packet's flow, if it is known.
    pub(crate) fn known(&self, point: Point, datagram: &TransportDatagram<'_>) -> Option<u32> {
        self.index.get(&Self::key(point, datagram)).copied()
    }

    /// Counts a packet and returns the index of its flow, or `None` above the limit.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        at_ns: i64,
        point: Point,
        datagram: &TransportDatagram<'_>,
        sdp: &Sdp,
    ) -> Option<u32> {
        let key = Self::key(point, datagram);
        let slot = (key.source ^ key.destination.rotate_left(3)) as usize ^ key.ports as usize;
        let slot = slot % RECENT_FLOWS;
        let index = match self.recent[slot] {
            Some((recent, index)) if recent == key => index,
            _ => self.find(key, at_ns, datagram, sdp)?,
        };
        self.recent[slot] = Some((key, index));
        let flow = &mut self.list[index as usize];
        flow.first_ns = flow.first_ns.min(at_ns);
        flow.last_ns = flow.last_ns.max(at_ns);
        flow.packets += 1;
        flow.bytes += u64::from(datagram.ip_bytes);
        flow.ecn[datagram.ecn as usize] += 1;
        Some(index)
    }

    fn find(
        &mut self,
        key: FlowKey,
        at_ns: i64,
        datagram: &TransportDatagram<'_>,
        sdp: &Sdp,
    ) -> Option<u32> {
        if let Some(index) = self.index.get(&key) {
            return Some(*index);
        }
        if self.list.len() >= MAX_FLOWS {
            self.packets_over_limit += 1;
            return None;
        }
        Some(self.insert(key, at_ns, datagram, sdp))
    }

    fn insert(
        &mut self,
        key: FlowKey,
        at_ns: i64,
        datagram: &TransportDatagram<'_>,
        sdp: &Sdp,
    ) -> u32 {
        let index = self.list.len() as u32;
        self.index.insert(key, index);
        self.list.push(Flow {
            point: key.point,
            transport: datagram.transport,
            source: datagram.source,
            destination: datagram.destination,
            hop_limit: datagram.hop_limit,
            first_ns: at_ns,
            last_ns: at_ns,
            packets: 0,
            bytes: 0,
            ecn: [0; 4],
            stun: 0,
            dtls: 0,
            rtp: 0,
            rtcp: 0,
            relayed: 0,
            fragments: 0,
            framed: 0,
            framing: Framing::default(),
            stun_rtt: Rtt::default(),
            extensions: Learner::new(sdp),
            recent: Recent::default(),
        });
        index
    }

    /// A number for a flow above the limit that differs from every index of a known flow.
    pub(crate) fn unlisted(&self, point: Point, datagram: &TransportDatagram<'_>) -> u32 {
        self.index.hasher().hash_one(Self::key(point, datagram)) as u32 | 1 << 31
    }

    /// Adds a flow although the limit is reached, because these packets of it are an RTP stream. `None` if
    /// the limit for such flows is reached as well.
    pub(crate) fn list_late(
        &mut self,
        point: Point,
        datagram: &TransportDatagram<'_>,
        packets: &[RtpSeen],
        sdp: &Sdp,
    ) -> Option<u32> {
        if self.list.len() >= 2 * MAX_FLOWS {
            return None;
        }
        let index = self.insert(Self::key(point, datagram), packets[0].at_ns, datagram, sdp);
        let flow = &mut self.list[index as usize];
        flow.last_ns = packets[packets.len() - 1].at_ns;
        flow.packets = packets.len() as u64;
        flow.bytes = packets.iter().map(|packet| u64::from(packet.ip_bytes)).sum();
        packets.iter().for_each(|packet| flow.ecn[packet.ecn as usize] += 1);
        self.packets_over_limit -= flow.packets;
        Some(index)
    }
}
