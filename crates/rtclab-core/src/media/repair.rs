//! How lost video packets are repaired.

use super::nack::NackRules;
use crate::packet::payload_type;
use crate::units::Time;
use serde::{Deserialize, Serialize};

/// What changed about retransmission from release to release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retransmission {
    /// As modelled for browsers before 2024: a request is repeated ten times, a sender keeps 600 packets.
    Until2024,
    /// Requests on the browser's timer grid by the longest recent round trip, up to 100 times. A sender keeps
    /// packets by their age and until they are acknowledged, resends the last packets of a report that are
    /// lost, and makes at most one key frame per 300 ms.
    ///
    /// Source: libwebrtc, `nack_requester.cc`, `rtp_packet_history.cc`, `rtp_video_sender.cc`,
    /// `encoder_rtcp_feedback.cc`.
    Since2024,
}

/// A loss repair scheme, as scenarios name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Repair {
    /// Retransmission on a separate stream (RFC 4588), as libwebrtc does without RED and ULPFEC.
    Rtx,
    /// `Rtx`, plus ULPFEC in RED when round trips are long: what a page gets that leaves its session
    /// descriptions as the browser makes them.
    RtxAndUlpfec,
    /// Retransmission with the original SSRC and sequence number: libwebrtc without RTX and FEC.
    #[serde(rename = "nack-2013")]
    Nack2013,
    /// `Nack2013`, plus ULPFEC in RED (RFC 5109, RFC 2198) when round trips are long: Chrome 27.
    #[serde(rename = "hybrid-2013")]
    Hybrid2013,
    /// `Hybrid2013`, but with ULPFEC at any round-trip time.
    #[serde(rename = "hybrid-2013-fec-always")]
    Hybrid2013FecAlways,
    /// No repair; a decoder that cannot continue requests a key frame.
    None,
}

impl Repair {
    /// The scheme that is left of this one towards somebody with another one: retransmissions and FEC are used where both
    /// ends have them, and a retransmission stream of its own is, too.
    pub fn negotiated(self, other: Repair) -> Repair {
        if other == Repair::None {
            return Repair::None;
        }
        let without_fec = match self {
            Repair::RtxAndUlpfec => Repair::Rtx,
            Repair::Hybrid2013 | Repair::Hybrid2013FecAlways => Repair::Nack2013,
            other => other,
        };
        let known = if other.uses_red() { self } else { without_fec };
        match known {
            Repair::Rtx if other.on_original_ssrc() => Repair::Nack2013,
            Repair::RtxAndUlpfec if other.on_original_ssrc() => Repair::Hybrid2013,
            known => known,
        }
    }

    /// Whether retransmissions are packets of the stream itself.
    pub fn on_original_ssrc(self) -> bool {
        matches!(self, Repair::Nack2013 | Repair::Hybrid2013 | Repair::Hybrid2013FecAlways)
    }

    /// Whether video packets are wrapped in RED.
    pub fn uses_red(self) -> bool {
        use Repair::{Hybrid2013, Hybrid2013FecAlways, RtxAndUlpfec};
        matches!(self, Hybrid2013 | Hybrid2013FecAlways | RtxAndUlpfec)
    }

    /// Payload type of first transmissions of video.
    pub fn video_payload_type(self) -> u8 {
        if self.uses_red() { payload_type::RED } else { payload_type::VIDEO }
    }

    /// Payload type of retransmissions on a separate stream. In RED, they contain its header.
    pub fn rtx_payload_type(self) -> u8 {
        if self.uses_red() { payload_type::RED_RTX } else { payload_type::RTX }
    }

    /// When a receiver requests packets.
    pub fn nack_rules(self, retransmission: Retransmission) -> NackRules {
        match (self, retransmission) {
            (Repair::Rtx | Repair::RtxAndUlpfec, Retransmission::Since2024) => {
                NackRules::SINCE_2024
            }
            (Repair::Rtx | Repair::RtxAndUlpfec, Retransmission::Until2024) => {
                NackRules::UNTIL_2024
            }
            (Repair::Nack2013 | Repair::Hybrid2013 | Repair::Hybrid2013FecAlways, _) => {
                NackRules::OF_2013
            }
            (Repair::None, _) => NackRules::NEVER,
        }
    }

    /// How long a sender ignores requests for a packet after it last sent it; `resent` says whether that was
    /// a retransmission.
    ///
    /// Source: libwebrtc 4d06db557a (2013), `rtp_sender.cc`; since 2015 `rtp_packet_history.cc` always
    /// answers the first request, because a requested packet is lost.
    pub fn resend_pause(self, rtt: Time, resent: bool) -> Time {
        match self.on_original_ssrc() {
            true => rtt + Time::from_millis(5),
            false if resent => rtt,
            false => Time::ZERO,
        }
    }
}
