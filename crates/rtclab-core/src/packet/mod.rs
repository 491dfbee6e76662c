//! Packets as values, passed between endpoints, network and congestion control.
//!
//! Media have a length but no content. [`bytes`] writes the same packets as bytes on the wire.

pub mod bytes;
mod dtls;
mod rtp;
mod segment;
mod signalling;

pub use crate::ecn::Ecn;
pub use dtls::Dtls13;
pub use rtp::{FecBlock, Kind, MAX_RTP_BYTES, Rtp, RtpPayload, VideoPart, payload_type};
pub use segment::{
    EcnFlags, MAX_SACK_BLOCKS, MAX_SEGMENT_BYTES, Segment, SegmentKind, TurnSegment,
};
pub use signalling::{Described, Message, Signal, SignalKind, WebSocketSegment};

use crate::network::{NodeId, WaitsId};
use crate::rtp::{Protocol, RtcpPacket};
use crate::units::{Bytes, Time};

/// Headers of IPv4 and UDP.
pub const IP_UDP_BYTES: u64 = 28;
/// RFC 3711: AES128_CM_HMAC_SHA1_80 adds a tag of ten bytes to RTP.
pub const SRTP_BYTES: u64 = 10;
/// RFC 3711: RTCP gets the same tag, and an index of four bytes.
pub const SRTCP_BYTES: u64 = 14;
/// RFC 8656, section 12.4: channel number and length, in front of what a TURN relay forwards over UDP.
pub const CHANNEL_DATA_BYTES: u64 = 4;
/// UDP payload of the answer to a Binding request (RFC 8489, sections 5 and 14): header 20, XOR-MAPPED-ADDRESS 12,
/// FINGERPRINT 8.
pub(crate) const BINDING_BYTES: u64 = 40;
/// Headers of IPv4 and TCP with timestamps, in front of a segment of signalling.
const TCP_IP_BYTES: u64 = 52;

/// Where datagrams arrive: a node, and a number that identifies the end at this node, like a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// The node.
    pub node: NodeId,
    /// Number of the end at the node.
    pub port: u32,
}

/// How a datagram gets from its sender to its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// Along the route between the two nodes.
    Direct,
    /// Through a server that forwards it unchanged: signalling, and requests that a relay answers.
    Server(NodeId),
    /// Through a TURN relay, in a channel, which adds four bytes on the wire.
    Relay(NodeId),
}

/// What happened to a datagram's content before a node sends it. A node that forwards it keeps its past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Past {
    /// When the content was first sent, possibly by another node.
    pub first_sent: Time,
    /// How long it has waited in queues since then.
    pub queued: Time,
    /// In which queues.
    pub waits: WaitsId,
    /// How long servers have held it since then.
    pub held: Time,
    /// When it last arrived at a node, if it did.
    pub arrived: Option<Time>,
}

impl Past {
    /// Content that is sent for the first time, now.
    pub const fn new(now: Time) -> Self {
        Past {
            first_sent: now,
            queued: Time::ZERO,
            waits: WaitsId::NONE,
            held: Time::ZERO,
            arrived: None,
        }
    }

    /// The same as the content leaves a node now, to which it had come unless it begins there.
    pub(crate) fn left(self, now: Time) -> Self {
        let here = self.arrived.map_or(Time::ZERO, |arrived| now.saturating_sub(arrived));
        Past { held: self.held + here, arrived: None, ..self }
    }
}

/// A datagram that an endpoint wants to send.
#[derive(Clone, Debug, PartialEq)]
pub struct Transmit {
    /// The destination.
    pub to: Address,
    /// How it gets there.
    pub via: Via,
    /// What happened to the content before.
    pub past: Past,
    /// The datagram.
    pub datagram: Datagram,
}

impl Transmit {
    /// Sends `content` for the first time, now, along the route between the two nodes.
    pub fn direct(now: Time, to: Address, content: Content) -> Self {
        let datagram = Datagram::new(Ecn::NotCapable, content);
        Transmit { to, via: Via::Direct, past: Past::new(now), datagram }
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
    /// IP total length, without a relay's framing.
    pub size: Bytes,
    /// ECN codepoint.
    pub ecn: Ecn,
    /// What it carries.
    pub content: Content,
}

impl Datagram {
    /// Makes a datagram with the size that its content has on the wire.
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
    /// A flight of a DTLS 1.2 handshake.
    Dtls(DtlsFlight),
    /// A datagram of a DTLS 1.3 handshake.
    Dtls13(Dtls13),
    /// A segment of signalling between participants.
    Signalling(Signalling),
    /// A segment of signalling between a page and the signalling server. It is boxed because it is rare and large.
    WebSocket(Box<WebSocketSegment>),
    /// A request to a TURN relay, or its answer of the same size.
    Allocation(Allocation),
    /// A Binding request to a STUN server, or its answer of the same size.
    Binding,
    /// A segment of the TCP connection between a client and its TURN relay. It is boxed because it is larger than others.
    Turn(Box<TurnSegment>),
    /// A segment of cross traffic over TCP.
    Tcp(Segment),
    /// A datagram of cross traffic over UDP, with this much payload.
    Udp(Bytes),
}

impl Content {
    /// The protocol that a monitor would see, or `None` if the content belongs to no flow.
    pub fn protocol(&self) -> Option<Protocol> {
        match self {
            Content::Rtp(_) => Some(Protocol::Rtp),
            Content::Rtcp(_) => Some(Protocol::Rtcp),
            Content::Stun(_) => Some(Protocol::Stun),
            Content::Dtls(_) | Content::Dtls13(_) => Some(Protocol::Dtls),
            Content::Signalling(_)
            | Content::WebSocket(_)
            | Content::Allocation(_)
            | Content::Binding
            | Content::Turn(_)
            | Content::Tcp(_)
            | Content::Udp(_) => None,
        }
    }

    fn ip_bytes(&self) -> Bytes {
        match self {
            Content::Rtp(packet) => packet.ip_bytes(),
            Content::Rtcp(rtcp) => Bytes(IP_UDP_BYTES + rtcp.udp_bytes + SRTCP_BYTES),
            Content::Stun(stun) => Bytes(IP_UDP_BYTES + stun.udp_bytes()),
            Content::Dtls(flight) => Bytes(IP_UDP_BYTES + flight.udp_bytes()),
            Content::Dtls13(datagram) => Bytes(IP_UDP_BYTES + datagram.udp_bytes()),
            Content::WebSocket(frame) => frame.segment.size(),
            Content::Signalling(segment) => Bytes(TCP_IP_BYTES + u64::from(segment.bytes)),
            Content::Allocation(_) => Bytes(IP_UDP_BYTES + Allocation::UDP_BYTES),
            Content::Binding => Bytes(IP_UDP_BYTES + BINDING_BYTES),
            Content::Turn(turn) => turn.segment.size(),
            Content::Tcp(segment) => segment.size(),
            Content::Udp(payload) => Bytes(IP_UDP_BYTES + payload.0),
        }
    }
}

/// RTCP packets in one datagram. They are shared because a forwarder may send them to many receivers.
#[derive(Clone, Debug, PartialEq)]
pub struct Rtcp {
    /// The packets, in order.
    pub packets: std::sync::Arc<[RtcpPacket]>,
    /// Bytes in clear, without IP, UDP and SRTCP.
    udp_bytes: u64,
}

impl Rtcp {
    /// Combines one or more packets. Returns `None` if one of them has more than its format can carry.
    pub fn new(packets: impl Into<std::sync::Arc<[RtcpPacket]>>) -> Option<Self> {
        let packets = packets.into();
        let bytes = packets.iter().map(RtcpPacket::wire_bytes).sum::<Option<usize>>()?;
        Some(Rtcp { packets, udp_bytes: bytes as u64 })
    }
}

/// A connectivity check (RFC 8445) between two participants with user names of Chromium's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stun {
    /// Whether this is the success response.
    pub success: bool,
    /// Number of the check, used as its transaction id.
    pub check: u32,
    /// Which attributes it has.
    pub form: StunForm,
}

/// Which attributes a connectivity check has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StunForm {
    /// User name and priority.
    #[default]
    Bare,
    /// Those of Chromium 156 as well: MESSAGE-INTEGRITY, role, network.
    Full,
    /// In addition USE-CANDIDATE: the controlling side nominates the pair.
    Nominating,
}

impl Stun {
    /// User name of two fragments with four characters each, as in Chromium.
    pub(crate) const USERNAME: &'static str = "abcd:efgh";

    fn udp_bytes(self) -> u64 {
        if self.form != StunForm::Bare {
            // Measured on calls of Chromium 156.
            return match (self.success, self.form) {
                (true, _) => 64,
                (false, StunForm::Nominating) => 100,
                (false, _) => 96,
            };
        }
        // Header 20; XOR-MAPPED-ADDRESS 12; USERNAME 4 + 12, PRIORITY 8; FINGERPRINT 8.
        if self.success { 20 + 12 + 8 } else { 20 + 16 + 8 + 8 }
    }
}

/// A flight of the DTLS 1.2 handshake with certificates on both sides: ClientHello; ServerHello to
/// ServerHelloDone; Certificate to Finished; ChangeCipherSpec and Finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DtlsFlight(pub u8);

impl DtlsFlight {
    /// UDP payload of each flight between two Chromium browsers.
    const BYTES: [u64; 4] = [160, 680, 760, 120];
    /// The flight that ends the handshake.
    pub const LAST: DtlsFlight = DtlsFlight(3);

    fn udp_bytes(self) -> u64 {
        Self::BYTES[usize::from(self.0).min(Self::BYTES.len() - 1)]
    }
}

/// A segment of a session description with candidates, which is one WebSocket message over TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signalling {
    /// Number of the segment.
    pub index: u8,
    /// Number of segments in the message.
    pub count: u8,
    /// Payload, in bytes.
    pub bytes: u16,
}

impl Signalling {
    /// Payload of every segment but the last, in bytes.
    pub(crate) const FULL_BYTES: u16 = 1_400;
}

/// A message of the exchange with a TURN relay, which returns it as its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Number of the request, counted from 0.
    pub step: u8,
}

impl Allocation {
    /// UDP payload of an Allocate with credentials, for all messages and their answers: header 20,
    /// transport 8, user name, realm and nonce some 60, integrity 24, fingerprint 8.
    pub(crate) const UDP_BYTES: u64 = 120;
}
