//! TCP: sender, receiver, congestion controls, the ends of cross traffic, and a stream of messages.
//!
//! Sequence numbers count segments, not bytes. All segments are full except the last of an object or message.
//! Segments have the size of real ones with timestamps and SACK. The sender behaves like Linux: SACK
//! scoreboard, RACK-TLP (RFC 8985), proportional rate reduction (RFC 6937), a retransmission timeout of at
//! least 200 ms, and undo of spurious retransmissions by timestamps.

mod aggregation;
mod algorithm;
pub mod bbr;
pub mod congestion_control;
pub mod cubic;
mod delivery_rate;
pub mod newreno;
mod pacer;
mod policer;
mod rack;
mod receiver;
mod rtt;
mod scoreboard;
mod sender;
mod stream;
mod traffic;

pub use crate::packet::{MAX_SEGMENT_BYTES, Segment, SegmentKind};
pub use algorithm::Algorithm;
pub use congestion_control::Phase;
pub use delivery_rate::RateSample;
pub use receiver::TcpReceiver;
pub use sender::{SenderConfig, TcpSender};
pub use stream::Stream;
pub use traffic::{ObjectsConfig, Statistics, TcpClient, TcpClientConfig, TcpEvent, TcpServer};

/// Initial congestion window in segments (RFC 6928).
pub const INITIAL_WINDOW: u32 = 10;

#[cfg(test)]
mod tests;
