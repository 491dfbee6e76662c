//! TCP congestion controls by name.

use super::bbr::Bbr;
use super::congestion_control::CongestionControl;
use super::cubic::Cubic;
use super::newreno::NewReno;
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
}

impl Algorithm {
    /// Creates the congestion control of a new connection.
    pub fn start(self, seed: u64) -> Box<dyn CongestionControl> {
        match self {
            Algorithm::NewReno => Box::new(NewReno),
            Algorithm::Cubic => Box::new(Cubic::default()),
            Algorithm::Bbr => Box::new(Bbr::new(seed)),
        }
    }
}
