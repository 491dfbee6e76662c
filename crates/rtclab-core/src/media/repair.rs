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

    /// A sender leaves a request for a packet aside for a round trip after it sent it, and this longer.
    ///
    /// Source: libwebrtc 4d06db557a, `rtp_sender.cc`; today `rtp_packet_history.cc`.
    pub fn resend_pause(self) -> Time {
        if self.on_original_ssrc() { Time::from_millis(5) } else { Time::ZERO }
    }
}
