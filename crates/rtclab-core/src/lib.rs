//! The pure part of rtclab: network model, simulator, media and congestion control.
//!
//! Nothing here reads a clock, opens a socket, starts a thread or touches a file. Every component
//! that depends on time has three verbs: `handle_…(now, input)`, `poll(now)` and `poll_timeout()`.

pub mod capture;
pub mod catalogue;
pub mod cc;
pub mod ecn;
pub mod endpoint;
pub mod environment;
pub mod event_log;
pub mod ipv4;
pub mod limits;
pub mod media;
pub mod monitor;
pub mod nat;
pub mod network;
pub mod node;
mod normal;
pub mod packet;
pub mod parquet;
pub mod path;
pub mod pcapng;
pub mod record;
pub mod replay;
pub mod rtp;
pub mod signalling;
pub mod sim;
pub mod simulcast;
mod sliding;
pub mod stack;
pub mod table;
pub mod tcp;
mod timeouts;
mod transport_history;
pub mod turn_tcp;
pub mod udp;
pub mod units;

/// The example of the page on new congestion controls compiles and does what it says.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/add-a-control.md")]
struct AddAControl;
