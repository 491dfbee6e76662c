//! Events of an endpoint: for the record, or because the endpoint needs something from its driver.

use super::statistics::Statistics;
use crate::cc::{ControlError, DecisionRequest, Observation};
use crate::media::playout::Rendered;
use crate::packet::Signal;
use crate::units::{Bytes, Time};

/// Something that happened at an endpoint at the time of the last `handle_…` call.
#[derive(Clone, Debug, PartialEq)]
pub enum EndpointEvent {
    /// The participant joined the connection.
    Joined,
    /// The session descriptions have been exchanged.
    Signalled,
    /// A connectivity check was answered.
    IceConnected,
    /// Both sides have finished the DTLS handshake, as far as this side knows.
    DtlsConnected,
    /// The first frame was shown.
    FirstFrame,
    /// The participant left.
    Left,
    /// A frame was shown.
    FrameRendered {
        /// SSRC of its stream.
        ssrc: u32,
        /// The frame.
        frame: Rendered,
    },
    /// Statistics, once a second and when the connection ends.
    Statistics(Box<Statistics>),
    /// Internal values of the congestion control.
    Observed {
        /// Whether they are from the sender half, about what this side sends, or from the receiver half.
        sender: bool,
        /// The values.
        values: Vec<Observation>,
    },
    /// A picture is waiting for the encoder; answer with
    /// [`Peer::handle_encoded`](super::Peer::handle_encoded).
    EncodeRequested {
        /// Index of its stream.
        stream: usize,
        /// Number of pixels in the picture.
        pixels: u32,
        /// Encoded size.
        size: Bytes,
    },
    /// A picture has been encoded.
    Encoded {
        /// SSRC of its stream.
        ssrc: u32,
        /// Its RTP timestamp.
        timestamp: u32,
        /// When its encoding began.
        begin: Time,
    },
    /// A composed picture begins to be encoded; see [`PeerConfig::composes`](super::PeerConfig::composes).
    Composed {
        /// When it was composed.
        at: Time,
    },
    /// Something to tell the other end over signalling; see [`Peer::handle_signal`](super::Peer::handle_signal).
    Signal(Signal),
    /// The receiver of forwarded media has not received these packets of a stream; answer with
    /// [`Peer::retransmit`](super::Peer::retransmit).
    PacketsRequested {
        /// SSRC of the stream.
        ssrc: u32,
        /// Sequence numbers of the packets.
        lost: Vec<u16>,
    },
    /// Others may subscribe to what this end of a server receives; answer with
    /// [`Peer::handle_published`](super::Peer::handle_published) at their connections.
    Published,
    /// The receiver of forwarded media needs a key frame from its source.
    KeyFrameRequested,
    /// The congestion control asks for a decision; answer with
    /// [`Peer::handle_decision`](super::Peer::handle_decision).
    DecisionRequested(Box<DecisionRequest>),
    /// The congestion control cannot continue.
    Failed(ControlError),
}
