//! TCP: sender, receiver, congestion controls, the ends of cross traffic, and a stream of messages.
//!
//! Sequence numbers count segments, not bytes. All segments are full except the last of an object or message.
//! Segments have the size of real ones with timestamps and SACK. The sender behaves like Linux: SACK
//! scoreboard, RACK-TLP (RFC 8985), proportional rate reduction (RFC 6937), a retransmission timeout of at
//! least 200 ms, and undo of spurious retransmissions by timestamps.
//!
//! ECN is classic (RFC 3168) or accurate (RFC 9768). Accurate ECN is the ACE field alone: three flags of the header that
//! count marked segments. Its option, which would count bytes, is left out, and so are the fallbacks of its
//! negotiation: a far end that does not answer in kind gets no ECN. With classic ECN only new data are ECN-capable.
//! With accurate ECN retransmissions and acknowledgements are too, as in Linux. Linux also makes the opening of DCTCP and
//! Prague ECN-capable, which is left out.

mod aggregation;
mod algorithm;
mod alpha;
pub mod bbr;
pub mod congestion_control;
pub mod cubic;
pub mod dctcp;
mod delivery_rate;
pub mod newreno;
mod pacer;
mod policer;
pub mod prague;
mod rack;
mod receiver;
mod rtt;
mod scoreboard;
mod sender;
mod stream;
mod traffic;

pub use crate::packet::{EcnFlags, MAX_SEGMENT_BYTES, Segment, SegmentKind};
pub use algorithm::{Algorithm, EcnUse};
pub use congestion_control::Phase;
pub use delivery_rate::RateSample;
pub use receiver::TcpReceiver;
pub use sender::{SenderConfig, TcpSender};
pub use stream::MessageStream;
pub use traffic::{ObjectsConfig, TcpClient, TcpClientConfig, TcpEvent, TcpServer, TcpStatistics};

/// Initial congestion window in segments (RFC 6928).
pub const INITIAL_WINDOW: u32 = 10;

#[cfg(test)]
mod tests;
