//! What a monitor looks for and keeps.

use super::sdp::Sdp;

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
