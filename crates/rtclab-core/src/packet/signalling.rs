//! Signalling over a WebSocket between the page of a participant and the signalling server.

use super::Segment;
use crate::units::Bytes;
use std::sync::Arc;

/// A segment of the TCP connection under a WebSocket, and the message that ends with it.
#[derive(Clone, Debug, PartialEq)]
pub struct WebSocketSegment {
    /// The segment.
    pub segment: Segment,
    /// The message whose last bytes it carries.
    pub message: Option<Message>,
}

/// A message between a page and the signalling server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The page asks for a WebSocket (RFC 6455, section 4.1).
    Request,
    /// The server accepts (RFC 6455, section 4.2.2).
    Accepted,
    /// The server lists the pages that were there before, by the port of their [`Address`](super::Address).
    Present(Arc<[u32]>),
    /// One end of a connection tells the other something.
    Signal(Signal),
}

/// What one end of a connection tells the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    /// Port of the sender's [`Address`](super::Address).
    pub from: u32,
    /// Port of the receiver's address.
    pub to: u32,
    /// What it is.
    pub kind: SignalKind,
}

/// Kind of a [`Signal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalKind {
    /// A description that offers a call.
    Offer(Described),
    /// The description that answers it.
    Answer(Described),
    /// A candidate that others can reach: of the participant itself or, behind a NAT, of the NAT.
    Candidate,
    /// A candidate in the network behind a NAT, which nobody else can reach.
    PrivateCandidate,
    /// A further candidate, for TCP, which libwebrtc gathers later.
    TcpCandidate,
    /// A request to a server's own interface that makes no description, and whether the next thing that it makes the
    /// server do is to offer a call.
    Request {
        /// Whether the answer is an offer, and not a [`SignalKind::Reply`].
        wants_offer: bool,
    },
    /// The answer to a request.
    Reply,
    /// A server has media of somebody else.
    Published,
}

/// Kinds of media in a session description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Described {
    /// Audio only.
    Audio,
    /// Video only.
    Video,
    /// Both.
    Both,
}

/// TCP payload of a description on its way to the server and from it. Its other numbers are medians of 26
/// calls of a plain page of Chromium 156, which compresses messages (RFC 7692); they vary by 1 %. With audio
/// only it was not measured: that is what audio adds to video, and 400 B for what describes no medium.
const fn description_bytes(described: Described, offer: bool) -> (u64, u64) {
    match (described, offer) {
        (Described::Audio, _) => (620, 670),
        (Described::Video, true) => (1_295, 1_379),
        (Described::Video, false) => (1_283, 1_366),
        (Described::Both, true) => (1_515, 1_643),
        (Described::Both, false) => (1_499, 1_620),
    }
}

/// TCP payload of a request to Janus and of its answer, in round numbers: a JSON object with an address, an operation
/// and an identifier.
const REQUEST_BYTES: (u64, u64) = (200, 200);

impl Message {
    /// TCP payload on the way from a page to the server.
    pub fn bytes_up(&self) -> Bytes {
        Bytes(match self {
            Message::Request => 522,
            Message::Signal(signal) => signal.bytes().0,
            // No page sends these.
            Message::Accepted | Message::Present(_) => 0,
        })
    }

    /// TCP payload on the way from the server to a page.
    pub fn bytes_down(&self) -> Bytes {
        Bytes(match self {
            Message::Accepted => 248,
            Message::Present(others) => 51 + 6 * others.len() as u64,
            Message::Signal(signal) => signal.bytes().1,
            // The server does not send this.
            Message::Request => 0,
        })
    }
}

impl Signal {
    /// TCP payload on the way to the server and from it. The server compresses anew and adds a name.
    const fn bytes(&self) -> (u64, u64) {
        match self.kind {
            SignalKind::Offer(described) => description_bytes(described, true),
            SignalKind::Answer(described) => description_bytes(described, false),
            SignalKind::Candidate | SignalKind::PrivateCandidate => (150, 150),
            SignalKind::TcpCandidate => (54, 53),
            SignalKind::Request { .. } | SignalKind::Reply | SignalKind::Published => REQUEST_BYTES,
        }
    }
}
