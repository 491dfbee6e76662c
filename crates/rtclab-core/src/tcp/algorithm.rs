//! TCP congestion controls by name.

use super::bbr::Bbr;
use super::congestion_control::CongestionControl;
use super::cubic::Cubic;
use super::dctcp::Dctcp;
use super::newreno::NewReno;
use super::prague::Prague;
use crate::ecn::Ecn;
use serde::{Deserialize, Serialize};

/// Name of a TCP congestion control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    /// RFC 5681 and 6582.
    NewReno,
    /// RFC 9438 with HyStart, as in Linux.
    #[default]
    Cubic,
    /// BBR version 1, as in Linux.
    Bbr,
    /// RFC 8257, as in Linux.
    Dctcp,
    /// TCP Prague, as in the Linux of the L4S team.
    Prague,
}

/// How a connection uses ECN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EcnUse {
    /// Not at all.
    None,
    /// RFC 3168: a mark counts as a loss, and the receiver repeats the echo until the sender has reduced its window.
    Classic,
    /// RFC 9768: the receiver counts marks. Segments have this codepoint.
    Accurate(Ecn),
}

impl Algorithm {
    /// All controls.
    pub const ALL: [Algorithm; 5] =
        [Algorithm::NewReno, Algorithm::Cubic, Algorithm::Bbr, Algorithm::Dctcp, Algorithm::Prague];

    /// Creates the congestion control of a new connection.
    pub fn start(self, seed: u64) -> Box<dyn CongestionControl> {
        match self {
            Algorithm::NewReno => Box::new(NewReno),
            Algorithm::Cubic => Box::new(Cubic::default()),
            Algorithm::Bbr => Box::new(Bbr::new(seed)),
            Algorithm::Dctcp => Box::new(Dctcp::default()),
            Algorithm::Prague => Box::new(Prague::default()),
        }
    }

    /// Whether it is a matter of choice if it uses ECN.
    pub fn may_use_ecn(self) -> bool {
        matches!(self, Algorithm::NewReno | Algorithm::Cubic)
    }

    /// How it uses ECN. `classic` asks for classic ECN where [that is a choice](Self::may_use_ecn).
    pub fn ecn(self, classic: bool) -> EcnUse {
        match self {
            Algorithm::NewReno | Algorithm::Cubic if classic => EcnUse::Classic,
            Algorithm::NewReno | Algorithm::Cubic | Algorithm::Bbr => EcnUse::None,
            Algorithm::Dctcp => EcnUse::Accurate(Ecn::Ect0),
            Algorithm::Prague => EcnUse::Accurate(Ecn::Ect1),
        }
    }
}
