//! Media without pixels: encoder model, pacer, loss repair and playout.

pub mod codec;
pub mod encoder;
pub mod fec;
pub mod host;
pub mod nack;
mod overshoot;
pub mod pacer;
pub mod playout;
pub mod protection;
pub mod repair;

/// What a packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Encoded video, first transmission.
    Video,
    /// Encoded audio.
    Audio,
    /// A retransmission, on a stream of its own (RFC 4588) or on that of the original.
    Rtx,
    /// Padding, sent on the retransmission stream.
    Padding,
    /// Forward error correction of video (RFC 5109), on the stream that it protects.
    Fec,
}

impl Kind {
    /// All kinds, in the order of their codes in a trace.
    pub const ALL: [Kind; 5] = [Kind::Video, Kind::Audio, Kind::Rtx, Kind::Padding, Kind::Fec];

    /// The name used in traces.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Video => "video",
            Kind::Audio => "audio",
            Kind::Rtx => "rtx",
            Kind::Padding => "padding",
            Kind::Fec => "fec",
        }
    }
}

/// A packet of media before it gets its transport-wide sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MediaPacket {
    /// What it carries.
    pub kind: Kind,
    /// RTP sequence number; for a retransmission that of the original.
    pub seq: u16,
    /// RTP timestamp.
    pub timestamp: u32,
    /// Last packet of its frame.
    pub marker: bool,
    /// First packet of its frame.
    pub first: bool,
    /// Part of a key frame.
    pub key: bool,
    /// Number of the frame, as in the VP8 picture id.
    pub picture_id: u16,
    /// Width and height, known to the receiver from key frames only.
    pub resolution: (u16, u16),
    /// Bytes of encoded media, without any header.
    pub payload: u16,
}
