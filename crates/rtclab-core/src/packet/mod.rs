//! The values passed between endpoints, network and congestion control: packets before they are bytes.
//!
//! Media have a length and no content. [`bytes`] writes the same packets as they are on the wire.

pub mod bytes;
mod rtp;
mod segment;

pub use rtp::{FecBlock, Kind, MAX_RTP_BYTES, Rtp, RtpPayload, VideoPart, payload_type};
pub use segment::{MAX_SACK_BLOCKS, MAX_SEGMENT_BYTES, Segment, SegmentKind};

use crate::network::NodeId;
use crate::rtp::{Protocol, RtcpPacket};
use crate::units::{Bytes, Time};

/// Headers of IPv4 and UDP.
pub const IP_UDP_BYTES: u64 = 28;
/// RFC 3711: AES128_CM_HMAC_SHA1_80 adds a tag of ten bytes to RTP.
pub const SRTP_BYTES: u64 = 10;
/// RFC 3711: to RTCP the same tag, and an index of four bytes.
pub const SRTCP_BYTES: u64 = 14;
/// RFC 8656, section 12.4: channel number and length, before what a TURN relay passes on over UDP.
pub const CHANNEL_DATA_BYTES: u64 = 4;
/// Headers of IPv4 and TCP with timestamps, before a segment of signalling.
const TCP_IP_BYTES: u64 = 52;

/// The ECN field of an IP header. Source: RFC 3168, section 5; RFC 9331 for ECT(1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotCapable,
    /// ECT(0): classic congestion control.
    Ect0,
    /// ECT(1): low latency, low loss, scalable throughput.
    Ect1,
    /// Congestion experienced.
    CongestionExperienced,
}

/// Where datagrams arrive: a node, and a number that tells the ends at it apart as a port does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// The node.
    pub node: NodeId,
    /// Which end at the node.
    pub port: u32,
}

/// How a datagram gets from its sender to its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// Along the route between the two nodes.
    Direct,
    /// By way of a server that passes it on as it is: signalling, and requests that a relay answers.
    Server(NodeId),
    /// By way of a TURN relay, in a channel: four bytes more on the wire.
    Relay(NodeId),
}

/// What an endpoint wants to send.
#[derive(Clone, Debug, PartialEq)]
pub struct Transmit {
    /// Where to.
    pub to: Address,
    /// How.
    pub via: Via,
    /// When its content was first sent; before now if it is forwarded.
    pub first_sent: Time,
    /// What.
    pub datagram: Datagram,
}

impl Transmit {
    /// Sent for the first time now, along the route between two nodes.
    pub fn direct(now: Time, to: Address, content: Content) -> Self {
        let datagram = Datagram::new(Ecn::NotCapable, content);
        Transmit { to, via: Via::Direct, first_sent: now, datagram }
    }

    /// IP total length on the wire.
    pub fn wire_size(&self) -> Bytes {
        match self.via {
            Via::Relay(_) => Bytes(self.datagram.size.0 + CHANNEL_DATA_BYTES),
            Via::Direct | Via::Server(_) => self.datagram.size,
        }
    }
}

/// An IP packet.
#[derive(Clone, Debug, PartialEq)]
pub struct Datagram {
    /// IP total length, without the framing of a relay.
    pub size: Bytes,
    /// ECN codepoint.
    pub ecn: Ecn,
    /// What it carries.
    pub content: Content,
}

impl Datagram {
    /// A datagram of the size that its content has on the wire.
    pub fn new(ecn: Ecn, content: Content) -> Self {
        Datagram { size: content.ip_bytes(), ecn, content }
    }
}

/// What an IP packet carries.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// SRTP.
    Rtp(Rtp),
    /// SRTCP, one or several packets.
    Rtcp(Rtcp),
    /// A connectivity check or its answer.
    Stun(Stun),
    /// A flight of a DTLS handshake.
    Dtls(DtlsFlight),
    /// A segment of signalling between participants.
    Signalling(Signalling),
    /// A request to a TURN relay, and its answer of the same size.
    Allocation(Allocation),
    /// A segment of TCP.
    Tcp(Segment),
}

impl Content {
    /// The protocol that a monitor would see; `None` for what belongs to no flow.
    pub fn protocol(&self) -> Option<Protocol> {
        match self {
            Content::Rtp(_) => Some(Protocol::Rtp),
            Content::Rtcp(_) => Some(Protocol::Rtcp),
            Content::Stun(_) => Some(Protocol::Stun),
            Content::Dtls(_) => Some(Protocol::Dtls),
            Content::Signalling(_) | Content::Allocation(_) | Content::Tcp(_) => None,
        }
    }

    fn ip_bytes(&self) -> Bytes {
        match self {
            Content::Rtp(packet) => packet.ip_bytes(),
            Content::Rtcp(rtcp) => Bytes(IP_UDP_BYTES + rtcp.udp_bytes + SRTCP_BYTES),
            Content::Stun(stun) => Bytes(IP_UDP_BYTES + stun.udp_bytes()),
            Content::Dtls(flight) => Bytes(IP_UDP_BYTES + flight.udp_bytes()),
            Content::Signalling(segment) => Bytes(TCP_IP_BYTES + u64::from(segment.bytes)),
            Content::Allocation(_) => Bytes(IP_UDP_BYTES + Allocation::UDP_BYTES),
            Content::Tcp(segment) => segment.size(),
        }
    }
}

/// RTCP packets that travel together. Shared, because a forwarder may send them to many.
#[derive(Clone, Debug, PartialEq)]
pub struct Rtcp {
    /// In their order.
    pub packets: std::sync::Arc<[RtcpPacket]>,
    /// Bytes in clear, without IP, UDP and SRTCP.
    udp_bytes: u64,
}

impl Rtcp {
    /// One or several packets; `None` where one has more than its format can carry.
    pub fn new(packets: impl Into<std::sync::Arc<[RtcpPacket]>>) -> Option<Self> {
        let packets = packets.into();
        let bytes = packets.iter().map(RtcpPacket::wire_bytes).sum::<Option<usize>>()?;
        Some(Rtcp { packets, udp_bytes: bytes as u64 })
    }
}

/// A connectivity check (RFC 8445) between two participants with user names of Chromium's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stun {
    /// Whether it is the answer.
    pub success: bool,
    /// Number of the check; its transaction id.
    pub check: u32,
}

impl Stun {
    /// Two fragments of four characters, as in Chromium.
    pub(crate) const USERNAME: &'static str = "abcd:efgh";

    fn udp_bytes(self) -> u64 {
        // Header 20; XOR-MAPPED-ADDRESS 12; USERNAME 4 + 12, PRIORITY 8; FINGERPRINT 8.
        if self.success { 20 + 12 + 8 } else { 20 + 16 + 8 + 8 }
    }
}

/// A flight of the DTLS 1.2 handshake with certificates on both sides: ClientHello; ServerHello to
/// ServerHelloDone; Certificate to Finished; ChangeCipherSpec and Finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DtlsFlight(pub u8);

impl DtlsFlight {
    /// Bytes of each flight, as between two Chromiums.
    const BYTES: [u64; 4] = [160, 680, 760, 120];
    /// The flight that ends the handshake.
    pub const LAST: DtlsFlight = DtlsFlight(3);

    fn udp_bytes(self) -> u64 {
        Self::BYTES[usize::from(self.0).min(Self::BYTES.len() - 1)]
    }
}

/// A segment of a session description with candidates: one WebSocket message over TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signalling {
    /// Number of the segment.
    pub index: u8,
    /// Segments of the message.
    pub count: u8,
    /// Payload.
    pub bytes: u16,
}

impl Signalling {
    /// Payload of all segments but the last.
    pub(crate) const FULL_BYTES: u16 = 1_400;
}

/// A message of the exchange with a TURN relay, which sends it back as its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Number of the exchange.
    pub step: u8,
}

impl Allocation {
    /// UDP payload of an Allocate with credentials, for all messages and their answers: header 20,
    /// transport 8, user name, realm and nonce some 60, integrity 24, fingerprint 8.
    pub(crate) const UDP_BYTES: u64 = 120;
}
