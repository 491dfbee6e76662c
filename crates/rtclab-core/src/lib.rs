//! The pure part of rtclab: network model, simulator, media and congestion control.
//!
//! Nothing here reads a clock, opens a socket, starts a thread or touches a file. Every component
//! that depends on time has three verbs: `handle_…(now, input)`, `poll(now)` and `poll_timeout()`.
//!
//! # Silent timeouts
//!
//! Some timeouts change nothing that others can see: an update of a congestion control that leaves its decision as it
//! is, a picture that goes to the decoder, an update of an AQM while no packet comes. Nobody stops for them, which saves
//! most events of a call. A component with silent timeouts has one more verb, `catch_up(now)`. It makes up for those
//! before `now`, at the times at which they were due, and comes before anything else is done with the component.
//!
//! # Names
//!
//! A type has a name of its own. Where several modules have a server or an event, the name says whose it is:
//! `TcpServer`, `EndpointEvent`. A rule that changed from release to release has the year or the release in its name:
//! `Since2024`, `OF_2013`.

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
