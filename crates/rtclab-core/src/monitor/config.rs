//! Configuration of a monitor.

use super::sdp::Sdp;

/// What a monitor knows in advance, and which tables it keeps.
#[derive(Clone, Debug)]
pub struct MonitorConfig {
    /// Codecs, repair streams and extension ids, if known.
    pub sdp: Sdp,
    /// Whether to keep a row per packet, 130 bytes each.
    pub packets: bool,
    /// Whether to keep a row per stream and second.
    pub seconds: bool,
    /// Maximum number of streams tracked. Packets of further ones are only counted, in the table `notes`.
    pub max_streams: usize,
}

impl Default for MonitorConfig {
    fn default() -> Self {
        MonitorConfig { sdp: Sdp::default(), packets: false, seconds: false, max_streams: 10_000 }
    }
}
