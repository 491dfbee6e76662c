//! Congestion control: its two halves, and the table of algorithms.
//!
//! A sender half ([`Controller`]) turns feedback into a [`Decision`]; a receiver half
//! ([`Estimator`]) turns arrivals into a REMB. An algorithm is a line in [`ALGORITHMS`] and one file.
//! What else a browser did in the same year is its [`StackProfile`](crate::stack::StackProfile).

mod control;
mod dynamic_alpha;
mod fixed;
mod gcc_2016;
mod goog_cc;
mod loss_based;
mod options;
mod receive_side;
mod rrtcc_2013;
mod table;
mod tfrc;

pub(crate) use control::{CallsAtOnce, MAX_CALLS_AT_ONCE, probes};
pub use control::{
    ControlError, Controller, Decision, Estimator, Feedback, Halves, Observation, PacketReport,
    Probe, RateBounds, ReceivedPacket, SenderState, SentPacket,
};
pub use fixed::Fixed;
pub use goog_cc::GoogCc;
pub use options::OptionSpec;
pub use table::{
    ALGORITHMS, Algorithm, ConfigError, CongestionControlConfig, NAMES, check, create,
};
