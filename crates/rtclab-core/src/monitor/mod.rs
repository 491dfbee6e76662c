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
pub use sdp::Sdp;
pub use watcher::Monitor;

use crate::table::Table;

/// What to look for and what to keep.
#[derive(Clone, Debug)]
pub struct MonitorConfig {
    /// Codecs, repair streams and extension ids, if known.
    pub sdp: Sdp,
    /// Keep a row of every packet: 130 bytes each.
    pub packets: bool,
    /// Keep a row of every second of every stream.
    pub seconds: bool,
    /// Streams that are kept; packets of others are counted together.
    pub max_streams: usize,
}

impl Default for MonitorConfig {
    fn default() -> Self {
        MonitorConfig { sdp: Sdp::default(), packets: false, seconds: false, max_streams: 10_000 }
    }
}

/// Tables, and the texts that their text columns number.
#[derive(Clone, Debug, PartialEq)]
pub struct Tables {
    /// Texts by number.
    pub texts: Vec<String>,
    /// The tables.
    pub tables: Vec<Table>,
}
