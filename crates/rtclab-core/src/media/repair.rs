//! How lost packets of video are made good.

use super::nack::NackRules;
use crate::units::Time;
use serde::{Deserialize, Serialize};

/// A scheme of loss repair, as scenarios name it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Repair {
    /// What was used when the congestion control was.
    #[default]
    Auto,
    /// Retransmission on a stream of its own (RFC 4588), as libwebrtc does today.
    Rtx,
    /// Retransmission under the original SSRC and sequence number: libwebrtc without RTX and FEC.
    #[serde(rename = "nack-2013")]
    Nack2013,
    /// The same, and ULPFEC in RED (RFC 5109, RFC 2198) when round trips are long: Chrome 27.
    #[serde(rename = "hybrid-2013")]
    Hybrid2013,
    /// None; a decoder that cannot go on asks for a key frame.
    None,
}

impl Repair {
    /// The scheme that is meant, for a congestion control whose era had `era`.
    pub fn or(self, era: Repair) -> Repair {
        if self == Repair::Auto { era } else { self }
    }

    /// Whether retransmissions are packets of the stream itself.
    pub fn on_original_ssrc(self) -> bool {
        matches!(self, Repair::Nack2013 | Repair::Hybrid2013)
    }

    /// Whether packets of video are wrapped in RED.
    pub fn uses_red(self) -> bool {
        self == Repair::Hybrid2013
    }

    /// When a receiver asks for packets.
    pub fn nack_rules(self) -> NackRules {
        match self {
            Repair::Auto | Repair::Rtx => NackRules::TODAY,
            Repair::Nack2013 | Repair::Hybrid2013 => NackRules::OF_2013,
            Repair::None => NackRules::NEVER,
        }
    }

    /// How long after it last sent a packet a sender leaves a request for it aside; `resent` says whether
    /// that was a retransmission.
    ///
    /// Source: libwebrtc 4d06db557a (2013), `rtp_sender.cc`; since 2015 `rtp_packet_history.cc` always answers
    /// the first request, because a packet that is asked for is lost.
    pub fn resend_pause(self, rtt: Time, resent: bool) -> Time {
        match self.on_original_ssrc() {
            true => rtt + Time::from_millis(5),
            false if resent => rtt,
            false => Time::ZERO,
        }
    }
}
