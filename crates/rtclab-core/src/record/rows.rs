//! The tables that are filled row by row: statistics, frames, controller values, events.

use super::table::{Column, Table, float, int, text};

/// Which of the row-by-row tables a row belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stats {
    /// `outbound_rtp`
    Outbound,
    /// `inbound_rtp`
    Inbound,
    /// `remote_inbound_rtp`
    RemoteInbound,
    /// `candidate_pair`
    CandidatePair,
    /// `tcp`
    Tcp,
}

/// The tables that are filled row by row.
pub(super) struct Tables {
    pub(super) outbound_rtp: Table,
    pub(super) inbound_rtp: Table,
    pub(super) remote_inbound_rtp: Table,
    pub(super) candidate_pair: Table,
    pub(super) frames: Table,
    pub(super) controller: Table,
    pub(super) events: Table,
    pub(super) tcp: Table,
}

impl Tables {
    pub(super) fn new() -> Self {
        let stream = |name, rest: &[(&'static str, Column)]| {
            let mut columns = vec![
                ("at_ns", int()),
                ("participant", text()),
                ("flow", text()),
                ("ssrc", int()),
                ("kind", text()),
            ];
            columns.extend_from_slice(rest);
            Table::new(name, &columns)
        };
        let outbound = [
            ("packetsSent", int()),
            ("bytesSent", int()),
            ("headerBytesSent", int()),
            ("retransmittedPacketsSent", int()),
            ("retransmittedBytesSent", int()),
            ("targetBitrate", float()),
            ("framesEncoded", int()),
            ("keyFramesEncoded", int()),
            ("framesSent", int()),
            ("frameWidth", int()),
            ("frameHeight", int()),
            ("framesPerSecond", float()),
            ("nackCount", int()),
            ("pliCount", int()),
        ];
        let inbound = [
            ("packetsReceived", int()),
            ("packetsLost", int()),
            ("bytesReceived", int()),
            ("headerBytesReceived", int()),
            ("jitter", float()),
            ("framesReceived", int()),
            ("framesDecoded", int()),
            ("framesDropped", int()),
            ("frameWidth", int()),
            ("frameHeight", int()),
            ("framesPerSecond", float()),
            ("freezeCount", int()),
            ("totalFreezesDuration", float()),
            ("nackCount", int()),
            ("pliCount", int()),
            ("jitterBufferDelay", float()),
            ("jitterBufferEmittedCount", int()),
            ("retransmittedPacketsReceived", int()),
            ("packetsRepaired", int()),
            ("fecPacketsReceived", int()),
            ("fecPacketsDiscarded", int()),
        ];
        let remote = [
            ("roundTripTime", float()),
            ("fractionLost", float()),
            ("packetsLost", int()),
            ("jitter", float()),
        ];
        let pair = [
            ("at_ns", int()),
            ("participant", text()),
            ("flow", text()),
            ("currentRoundTripTime", float()),
            ("availableOutgoingBitrate", float()),
            ("bytesSent", int()),
            ("bytesReceived", int()),
            ("packetsSent", int()),
            ("packetsReceived", int()),
        ];
        let frames = [
            ("flow", text()),
            ("ssrc", int()),
            ("rtp_timestamp", int()),
            ("captured_ns", int()),
            ("received_ns", int()),
            ("rendered_ns", int()),
            ("width", int()),
            ("height", int()),
            ("size_bytes", int()),
        ];
        let controller = [
            ("at_ns", int()),
            ("participant", text()),
            ("flow", text()),
            ("name", text()),
            ("value", float()),
        ];
        let events = [
            ("at_ns", int()),
            ("participant", text()),
            ("flow", text()),
            ("event", text()),
            ("detail", text()),
        ];
        let tcp = [
            ("at_ns", int()),
            ("flow", text()),
            ("connections", int()),
            ("cwnd_segments", int()),
            ("srtt_ms", float()),
            ("delivered_bytes", int()),
            ("retransmitted_segments", int()),
            ("timeouts", int()),
            ("objects", int()),
        ];
        Tables {
            outbound_rtp: stream("outbound_rtp", &outbound),
            inbound_rtp: stream("inbound_rtp", &inbound),
            remote_inbound_rtp: stream("remote_inbound_rtp", &remote),
            candidate_pair: Table::new("candidate_pair", &pair),
            frames: Table::new("frames", &frames),
            controller: Table::new("controller", &controller),
            events: Table::new("events", &events),
            tcp: Table::new("tcp", &tcp),
        }
    }
}
