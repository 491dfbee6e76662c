//! What the server wants to send.

use serde_json::Value;
use std::net::SocketAddr;

/// Datagrams and messages that wait to be sent.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Datagrams with their destinations.
    pub(crate) datagrams: Vec<(SocketAddr, Vec<u8>)>,
    /// JSON objects for the caller.
    pub(crate) messages: Vec<Value>,
}
