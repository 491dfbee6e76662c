//! What the parts are told about packets.

/// One packet of a feedback report. Times in microseconds, sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PacketResult {
    /// Transport-wide sequence number, unwrapped.
    pub(super) seq: i64,
    /// When it left the pacer.
    pub(super) sent: i64,
    /// When it arrived, on the far end's clock; `None` for a lost packet.
    pub(super) received: Option<i64>,
    /// Size with IP and UDP headers.
    pub(super) size: i64,
    /// The probe cluster that it belongs to.
    pub(super) probe: Option<u32>,
}
