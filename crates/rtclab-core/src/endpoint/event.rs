//! What an endpoint tells whoever drives it: for the record, or because it needs something from outside.

use super::statistics::Statistics;
use crate::cc::{ControlError, Observation};
use crate::media::playout::Rendered;

/// Something that happened at an endpoint at the time of the last call of `handle_…`.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The participant joined the connection.
    Joined,
    /// The session descriptions are exchanged.
    Signalled,
    /// A connectivity check was answered.
    IceConnected,
    /// Both sides have finished the DTLS handshake, as far as this one knows.
    DtlsConnected,
    /// The first frame was shown.
    FirstFrame,
    /// The participant left.
    Left,
    /// A frame was shown.
    FrameRendered {
        /// The stream that it came on.
        ssrc: u32,
        /// The frame.
        frame: Rendered,
    },
    /// The statistics of the second that ends now, or of the connection when it ends.
    Statistics(Box<Statistics>),
    /// Inner values of the congestion control.
    Observed {
        /// Of the sender half, which is about what this side sends; else of the receiver half.
        sender: bool,
        /// The values.
        values: Vec<Observation>,
    },
    /// A picture waits for the encoder; answer with
    /// [`Peer::handle_encoded`](super::Peer::handle_encoded).
    EncodeRequested {
        /// Index of its stream.
        stream: usize,
        /// Pixels of the picture.
        pixels: u32,
    },
    /// A forwarder needs a key frame from where its media come from.
    KeyFrameRequested,
    /// The congestion control cannot go on.
    Failed(ControlError),
}
