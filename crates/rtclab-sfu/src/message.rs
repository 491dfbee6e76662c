//! The lines that the server reads and writes. Each is a JSON object.
//!
//! ```text
//! out  {"listening": "10.77.0.5:40123"}
//! in   {"connection": 3, "description": {"type": "offer", "sdp": "…"}, "forwards": null}
//! in   {"connection": 7, "description": {"type": "offer", "sdp": "…"}, "forwards": 3}
//! in   {"connection": 3, "candidate": {"candidate": "candidate:…", "sdpMid": "0"}}
//! in   {"connection": 3, "close": true}
//! out  {"connection": 7, "description": {"type": "answer", "sdp": "…"}}
//! out  {"statistics": {"at_ms": 1764000000000, "connection": 7, "estimate_bps": 500000, …}}
//! out  {"overload": {"at_ms": 1764000000000, "dropped": 120}}
//! out  {"error": "…", "connection": 7}
//! ```
//!
//! A line with an error and a number says that this connection has ended; without a number, that a line could
//! not be read. Lines with candidates are allowed, but the server does nothing with them: it is a lite ICE
//! agent (RFC 8445 section 2.5), which learns the addresses of a page from the page's checks.

use serde::Deserialize;
use serde_json::{Value, json};
use std::net::SocketAddr;

/// What a page sent, with the number of its connection.
#[derive(Debug, Deserialize)]
pub(crate) struct Request {
    pub(crate) connection: u64,
    pub(crate) description: Option<Description>,
    /// The connection whose media this one wants; `None` publishes.
    pub(crate) forwards: Option<u64>,
    #[serde(default)]
    pub(crate) close: bool,
}

/// A session description in the form of `RTCSessionDescription`.
#[derive(Debug, Deserialize)]
pub(crate) struct Description {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) sdp: String,
}

/// What the server knows about a subscription, once a second.
#[derive(Debug)]
pub(crate) struct Statistics {
    /// Unix time in milliseconds.
    pub(crate) at_ms: u64,
    pub(crate) connection: u64,
    /// Send-side estimate in bit/s; `None` before the first.
    pub(crate) estimate_bps: Option<u64>,
    /// Identifier (`rid`) of the forwarded simulcast layer; `None` without simulcast.
    pub(crate) layer: Option<String>,
    /// Round-trip time in seconds; `None` before the first measurement.
    pub(crate) rtt_s: Option<f64>,
}

pub(crate) fn listening(address: SocketAddr) -> Value {
    json!({"listening": address.to_string()})
}

pub(crate) fn answer(connection: u64, sdp: &str) -> Value {
    json!({"connection": connection, "description": {"type": "answer", "sdp": sdp}})
}

pub(crate) fn statistics(of: &Statistics) -> Value {
    json!({"statistics": {
        "at_ms": of.at_ms,
        "connection": of.connection,
        "estimate_bps": of.estimate_bps,
        "layer": of.layer,
        "rtt_s": of.rtt_s,
    }})
}

/// The server was too slow for this many datagrams since it last said so.
pub(crate) fn overload(at_ms: u64, dropped: u64) -> Value {
    json!({"overload": {"at_ms": at_ms, "dropped": dropped}})
}

pub(crate) fn error(connection: Option<u64>, reason: &str) -> Value {
    match connection {
        Some(connection) => json!({"error": reason, "connection": connection}),
        None => json!({"error": reason}),
    }
}
