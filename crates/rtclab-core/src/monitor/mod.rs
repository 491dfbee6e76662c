//! A passive monitor: describes the streams and flows that pass a point of a network.
//!
//! Frames go in, read from a capture file by [`CaptureReader`] or from a socket. Tables come out:
//!
//! ```text
//! capture ─► decapsulation ─► demux ─► flow ─┬─► stream   (RTP, after probation)
//!                                            ├─► rtcp_log
//!                                            └─► stun_log
//! ```
//!
//! No input causes a panic, and memory is bounded: the number of streams, flows and other entries is
//! limited, and the table `notes` counts what exceeded a limit. [`compare`] follows packets from one
//! point to another.

pub mod capture;
pub mod compare;
pub mod decapsulation;
pub mod demux;
pub mod framing;
pub mod sdp;

mod config;
mod feedback;
mod flow;
mod fragments;
mod kinds;
mod legs;
mod notes;
mod paths;
mod probation;
mod repair;
mod row_tables;
mod rows;
mod rtcp_log;
mod rtcp_tables;
mod stream;
mod stun_log;
mod tables;
mod texts;
mod trials;
mod watcher;

pub use capture::{CaptureError, CaptureFaults, CaptureReader, Direction, Frame, Interface};
pub use config::MonitorConfig;
pub use sdp::Sdp;
pub use texts::Tables;
pub use watcher::Monitor;
