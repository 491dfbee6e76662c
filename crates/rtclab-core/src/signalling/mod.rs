//! Signalling over WebSockets: the page of each participant has one to a server, which passes messages on.
//!
//! As in a live call, a page learns who was there before, and calls them. Neither end interprets what the
//! ends of calls tell each other. Both have the five methods of an endpoint.

mod client;
mod server;
#[cfg(test)]
mod tests;

pub use client::{SignallingClient, SignallingClientConfig};
pub use server::{SignallingServer, SignallingServerConfig};

use crate::packet::Signal;
use std::sync::Arc;

/// What an end of signalling tells its driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignallingEvent {
    /// The pages that were at the server before this one, by the port of their address.
    Present(Arc<[u32]>),
    /// Something for the end of a call at `to`.
    Signal(Signal),
}
