//! A passive monitor: what passes a point of a network, per stream and per flow.
//!
//! Frames go in (from a capture file by [`CaptureReader`], or from a socket), tables come out:
//!
//! ```text
//! capture ─► link ─► ip ─► demux ─► flow ─┬─► stream   (RTP, after probation)
//!                                         ├─► rtcp_log
//!                                         └─► stun_log
//! ```
//!
//! Nothing panics whatever the bytes, and memory is bounded: everything that is kept per something on the
//! wire has a limit, and what is above it is counted in the table `notes`. [`compare`] follows packets from
//! one point to another.

pub mod capture;
pub mod compare;
pub mod demux;
pub mod framing;
pub mod ip;
pub mod link;
pub mod sdp;

mod config;
mod feedback;
mod flow;
mod fragments;
mod legs;
mod notes;
mod probation;
mod row_tables;
mod rows;
mod rtcp_log;
mod rtcp_tables;
mod stream;
mod stun_log;
mod tables;
mod texts;
mod watcher;

pub use capture::{CaptureError, CaptureFaults, CaptureReader, Direction, Frame, Interface};
pub use config::MonitorConfig;
pub use sdp::Sdp;
pub use texts::Tables;
pub use watcher::Monitor;
