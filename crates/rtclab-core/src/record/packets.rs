//! Every packet, one row each.

use super::table::{Column, Table};
use super::{Label, NO_INT, NO_TEXT, RtpLabel};
use crate::units::Time;

#[derive(Default)]
pub(super) struct Packets {
    pub(super) sent: Vec<i64>,
    pub(super) delivered: Vec<i64>,
    pub(super) dropped: Vec<i64>,
    pub(super) cause: Vec<u16>,
    pub(super) path: Vec<u16>,
    flow: Vec<u16>,
    size: Vec<i64>,
    protocol: Vec<u16>,
    kind: Vec<u16>,
    ssrc: Vec<i64>,
    payload_type: Vec<i64>,
    seq: Vec<i64>,
    timestamp: Vec<i64>,
    marker: Vec<i64>,
}

impl Packets {
    pub(super) fn push(&mut self, at: Time, label: &Label, flow: u16, protocol: u16, kind: u16) {
        self.sent.push(at.0 as i64);
        self.delivered.push(NO_INT);
        self.dropped.push(NO_INT);
        self.cause.push(NO_TEXT);
        self.path.push(NO_TEXT);
        self.flow.push(flow);
        self.size.push(label.size.0 as i64);
        self.protocol.push(protocol);
        self.kind.push(kind);
        let rtp = |value: fn(&RtpLabel) -> i64| label.rtp.as_ref().map_or(NO_INT, value);
        self.ssrc.push(rtp(|r| i64::from(r.ssrc)));
        self.payload_type.push(rtp(|r| i64::from(r.payload_type)));
        self.seq.push(rtp(|r| i64::from(r.seq)));
        self.timestamp.push(rtp(|r| i64::from(r.timestamp)));
        self.marker.push(rtp(|r| i64::from(r.marker)));
    }

    pub(super) fn into_table(self) -> Table {
        Table {
            name: "packets",
            columns: vec![
                ("sent_ns", Column::Int(self.sent)),
                ("delivered_ns", Column::Int(self.delivered)),
                ("dropped_ns", Column::Int(self.dropped)),
                ("drop_cause", Column::Text(self.cause)),
                ("drop_path", Column::Text(self.path)),
                ("flow", Column::Text(self.flow)),
                ("size_bytes", Column::Int(self.size)),
                ("protocol", Column::Text(self.protocol)),
                ("kind", Column::Text(self.kind)),
                ("ssrc", Column::Int(self.ssrc)),
                ("payload_type", Column::Int(self.payload_type)),
                ("seq", Column::Int(self.seq)),
                ("rtp_timestamp", Column::Int(self.timestamp)),
                ("marker", Column::Int(self.marker)),
            ],
        }
    }
}
