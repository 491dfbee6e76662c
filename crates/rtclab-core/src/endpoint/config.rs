//! What an endpoint sends and receives.

use super::format::audio_size;
use crate::cc::RateBounds;
use crate::limits::{self, Checked};
use crate::media::encoder::VideoConfig;
use crate::media::repair::Repair;
use crate::network::NodeId;
use crate::packet::{Address, Content, Described, SRTP_BYTES, payload_type};
use crate::stack::StackProfile;
use crate::units::{Bitrate, Bytes, Time};
use serde::{Deserialize, Serialize};

/// A constant-rate audio stream, like Opus without silence suppression.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AudioConfig {
    /// Codec bitrate.
    pub bitrate_bps: Bitrate,
    /// Duration of the audio in a packet.
    pub frame_ns: Time,
}

/// Shortest and longest frame of Opus (RFC 6716, section 2.1.4, with up to 120 ms in a packet).
const AUDIO_FRAME: (Time, Time) = (Time::from_micros(2_500), Time::from_millis(120));
/// Largest payload, which leaves room for headers in an IP packet.
const LARGEST_PAYLOAD: Bytes = Bytes(65_000);

impl AudioConfig {
    pub(crate) fn check(&self) -> Checked {
        let (shortest, longest) = AUDIO_FRAME;
        let expected = format!("{} to {} ns", shortest.0, longest.0);
        let value = format!("{} ns", self.frame_ns.0);
        limits::require(
            (shortest..=longest).contains(&self.frame_ns),
            "frame_ns",
            value,
            expected,
        )?;
        let (bytes, most) = (self.payload().0, LARGEST_PAYLOAD.0);
        let value = format!("{} bit/s, or {bytes} B in a frame,", self.bitrate_bps.0);
        let expected = format!("at most {most} B");
        limits::require(bytes <= most, "bitrate_bps", value, expected)
    }

    pub(super) fn payload(&self) -> Bytes {
        self.bitrate_bps.bytes_in(self.frame_ns)
    }

    /// Rate on the wire, headers included.
    pub(super) fn wire_rate(&self, stack: &StackProfile) -> Bitrate {
        let size = audio_size(stack, self.payload());
        let bits = u128::from(size.bits()) * 1_000_000_000;
        Bitrate((bits / u128::from(self.frame_ns.0.max(1))) as u64)
    }
}

/// What a stream carries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Media {
    /// A camera and its encoder.
    Video(VideoConfig),
    /// A microphone.
    Audio(AudioConfig),
}

/// One stream, as a session description would give it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StreamConfig {
    /// SSRC of its media.
    pub ssrc: u32,
    /// SSRC of its retransmissions and of padding; unused for audio.
    pub repair_ssrc: u32,
    /// What it carries.
    pub media: Media,
    /// How losses are repaired. Unused for audio.
    pub repair: Repair,
}

impl StreamConfig {
    /// Whether it is a video stream.
    pub fn is_video(&self) -> bool {
        matches!(self.media, Media::Video(_))
    }
}

/// One direction of a connection.
#[derive(Clone, Debug)]
pub struct Direction {
    /// The streams sent this way.
    pub streams: Vec<StreamConfig>,
    /// The stack that sends them, and how it wants feedback.
    pub stack: &'static StackProfile,
}

impl Direction {
    /// Whether video is sent this way.
    pub fn has_video(&self) -> bool {
        self.streams.iter().any(StreamConfig::is_video)
    }

    /// Whether audio is sent this way.
    pub fn has_audio(&self) -> bool {
        self.streams.iter().any(|stream| !stream.is_video())
    }

    /// Rate bounds that the media sets for a congestion control.
    pub fn bounds(&self) -> RateBounds {
        let (mut video, mut has_video) = ([0; 3], false);
        let mut audio = 0;
        for stream in &self.streams {
            match stream.media {
                Media::Audio(config) => audio += config.wire_rate(self.stack).0,
                Media::Video(VideoConfig { start_bps, min_bps, max_bps, .. }) => {
                    has_video = true;
                    for (sum, rate) in video.iter_mut().zip([start_bps, min_bps, max_bps]) {
                        *sum += rate.0;
                    }
                }
            }
        }
        let audio = Bitrate(audio);
        match (has_video, video.map(Bitrate)) {
            (true, [start, min, max]) => RateBounds { start, min, max, audio, has_video },
            (false, _) => {
                RateBounds { start: audio, min: audio, max: audio, audio: Bitrate::ZERO, has_video }
            }
        }
    }
}

/// How an end sends on what another end of its node receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardingMode {
    /// At once, whatever its receiver reports, as Janus does by default. It has no statistics.
    AtOnce,
    /// As a sender of its own media would: its congestion control paces the packets, and probes. No encoder follows its
    /// target, so the pacer may send faster than that, to empty a long queue.
    Controlled,
}

/// Where an endpoint is, and which nodes it talks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Its own address.
    pub local: Address,
    /// Address of the far end.
    pub remote: Address,
    /// A TURN relay that carries everything except signalling.
    pub relay: Option<NodeId>,
    /// Node of the signalling server.
    pub core: NodeId,
}

/// How an end negotiates a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Negotiation {
    /// Descriptions in bursts through the signalling server, and DTLS 1.2.
    Bursts,
    /// As a page in Chromium 156: messages over the page's WebSocket, and DTLS 1.3. The side that comes
    /// to the signalling server later calls.
    Page {
        /// Seed of the times that page and browser work.
        seed: u64,
        /// Seed of how fast the machine works, the same for all ends of a run.
        pace: u64,
        /// Whether there is a page in a browser; the work of a server takes no time.
        browser: bool,
        /// The media in descriptions.
        described: Described,
        /// How the server in the connection sets it up; `None` if neither end is an SFU.
        server: Option<ServerSetup>,
    },
}

impl Negotiation {
    /// The SFU in the connection; `None` if neither end is one.
    pub(super) fn server(&self) -> Option<ServerSetup> {
        match self {
            Negotiation::Page { server, .. } => *server,
            Negotiation::Bursts => None,
        }
    }
}

/// An SFU that browsers know. Both kinds are lite agents of ICE (RFC 8445, section 2.5) and use DTLS 1.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServerKind {
    /// Janus 1.1.2 with its plugin VideoRoom. A page makes requests before it publishes or subscribes, and Janus offers
    /// subscriptions. Others hear of a publication when its handshake is over.
    Janus,
    /// rtclab's own SFU. The page offers everything, and others hear of a publication when it is answered.
    Str0m,
}

impl ServerKind {
    /// How often it sends transport-wide feedback: Janus by default (`ice.c`, DEFAULT_TWCC_PERIOD), and str0m 0.24
    /// (`session.rs`, TWCC_INTERVAL).
    pub(super) fn feedback_interval(self) -> Time {
        match self {
            ServerKind::Janus => Time::from_millis(200),
            ServerKind::Str0m => Time::from_millis(50),
        }
    }
}

/// How an SFU and the page of a participant set up a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerSetup {
    /// Which SFU.
    pub kind: ServerKind,
    /// Whether the page receives what another one publishes.
    pub subscribes: bool,
}

impl ServerSetup {
    /// The size of a packet with the tag and the header extensions that Chromium 156 negotiates with the server. `size` is
    /// the one that the packet would have between two browsers.
    ///
    /// Measured in live meetings: `getStats` tells headers and payloads, and the size on the wire the rest. Towards Janus the
    /// tag has 10 bytes. Behind Janus and with str0m it has 16, as in AEAD_AES_128_GCM (RFC 7714, section 5.1). Headers have
    /// 20 bytes towards Janus, without `abs-send-time`, and behind it 20 for sound and 28 for video. With str0m they have
    /// 28 bytes, but for video towards it 24.
    pub(super) fn size(self, size: Bytes, content: &Content) -> Bytes {
        let tag = match (self.kind, self.subscribes) {
            (ServerKind::Janus, false) => SRTP_BYTES,
            (ServerKind::Janus, true) | (ServerKind::Str0m, _) => 16,
        };
        let (before, after) = match content {
            Content::Rtp(rtp) => {
                let is_audio = rtp.header.payload_type == payload_type::AUDIO;
                let header = match (self.kind, self.subscribes, is_audio) {
                    (ServerKind::Janus, false, _) | (ServerKind::Janus, true, true) => 20,
                    (ServerKind::Str0m, false, false) => 24,
                    (ServerKind::Janus, true, false) | (ServerKind::Str0m, ..) => 28,
                };
                (rtp.header_bytes() + SRTP_BYTES, header + tag)
            }
            Content::Rtcp(_) => (SRTP_BYTES, tag),
            _ => (0, 0),
        };
        Bytes((size.0 + after).saturating_sub(before))
    }
}

/// A time in which camera and microphone give nothing, and the connection stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// When it begins.
    pub start_ns: Time,
    /// When pictures and sound are there again.
    pub end_ns: Time,
}

impl Pause {
    pub(crate) fn check(&self) -> Checked {
        limits::time("end_ns", self.end_ns)?;
        let (value, expected) = (self.end_ns.0, format!("later than {} ns", self.start_ns.0));
        limits::require(self.start_ns < self.end_ns, "end_ns", format_args!("{value} ns"), expected)
    }

    pub(super) fn covers(&self, now: Time) -> bool {
        (self.start_ns..self.end_ns).contains(&now)
    }
}

/// When a connection exists, and how it is negotiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// Whether this side sends the offer, in a [`Negotiation::Bursts`].
    pub offerer: bool,
    /// How the connection is negotiated.
    pub negotiation: Negotiation,
    /// Whether this side is behind a NAT, and so learns from a STUN server where others can reach it.
    pub behind_nat: bool,
    /// When the connection starts.
    pub start: Time,
    /// When it ends.
    pub end: Time,
}
