//! Congestion control: its two halves, and the algorithms.
//!
//! A sender half ([`Controller`]) turns feedback into a [`Decision`]; a receiver half
//! ([`Estimator`]) turns arrivals into a REMB. An algorithm is one file, and an entry in the
//! [`Catalogue`](crate::catalogue::Catalogue). What else a browser did in the same year is its [`StackProfile`](crate::stack::StackProfile).

#[cfg(test)]
mod closed_loop;
mod control;
pub(crate) mod dynamic_alpha;
mod external;
pub mod features;
mod feedback_figures;
mod fixed;
pub(crate) mod gcc_2016;
pub(crate) mod goog_cc;
mod guarded;
#[cfg(test)]
mod laws;
mod loss_based;
pub(crate) mod nada;
mod options;
mod reals;
mod receive_side;
pub(crate) mod rrtcc_2013;
pub(crate) mod scream;
pub(crate) mod scream_rfc8298;
mod tfrc;

pub(crate) use control::{CallsAtOnce, MAX_CALLS_AT_ONCE, probes};
pub use control::{
    ControlError, Controller, Decision, Estimator, Feedback, Halves, Observation, PacketReport,
    Probe, RateBounds, ReceivedPacket, SenderState, SentPacket,
};
pub use external::{DecisionRequest, External, ReportRow, SentRow, SummaryRow};
pub use feedback_figures::{FeedbackFigures, FeedbackMeter};
pub use fixed::Fixed;
pub use goog_cc::GoogCc;
pub(crate) use guarded::{Guarded, message_of};
pub use options::{OptionSpec, Options};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which congestion control a participant uses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CongestionControlConfig {
    /// A name in the [`Catalogue`](crate::catalogue::Catalogue).
    pub name: String,
    /// Options of the algorithm.
    #[serde(default)]
    pub options: BTreeMap<String, f64>,
}
