//! The table `packets`, with one row per packet.

use super::Fate;
use crate::packet::Kind;
use crate::table::{Column, NO_INT, NO_TEXT, RowColumns, Table, Text, row};
use crate::units::{Bytes, Time};

row! {
    /// What is known when a packet is sent.
    pub(super) struct PacketRow / PacketColumns {
        sent: Time = "sent_ns",
        flow: Text = "flow",
        size: u64 = "size_bytes",
        protocol: Text = "protocol",
        ecn: Text = "ecn",
        kind: Option<Text> = "kind",
        ssrc: Option<u32> = "ssrc",
        payload_type: Option<u32> = "payload_type",
        seq: Option<u32> = "seq",
        rtp_timestamp: Option<u32> = "rtp_timestamp",
        marker: Option<u32> = "marker",
    }
}

/// The table `packets`: each packet as it is sent, and its fate.
#[derive(Clone, Default)]
pub(super) struct Packets {
    rows: PacketColumns,
    delivered: Vec<i64>,
    queued: Vec<i64>,
    queued_path: Vec<u32>,
    held: Vec<i64>,
    dropped: Vec<i64>,
    cause: Vec<u32>,
    path: Vec<u32>,
    mark_path: Vec<u32>,
    mark_cause: Vec<u32>,
}

/// Fields of a packet's RTP header.
#[derive(Clone, Copy)]
pub(super) struct RtpLabel {
    pub(super) kind: Kind,
    pub(super) ssrc: u32,
    pub(super) payload_type: u8,
    pub(super) seq: u16,
    pub(super) timestamp: u32,
    pub(super) marker: bool,
}

impl Packets {
    /// Appends a packet and returns its row.
    // Not inlined: the addresses of all columns would be computed even in runs that record no packets.
    #[inline(never)]
    pub(super) fn push(
        &mut self,
        sent: Time,
        flow: Text,
        size: Bytes,
        (protocol, ecn): (Text, Text),
        rtp: Option<RtpLabel>,
    ) -> u32 {
        let row = self.delivered.len() as u32;
        self.rows.push(PacketRow {
            sent,
            flow,
            size: size.0,
            protocol,
            ecn,
            kind: rtp.map(|rtp| Text(rtp.kind as u32)),
            ssrc: rtp.map(|rtp| rtp.ssrc),
            payload_type: rtp.map(|rtp| rtp.payload_type.into()),
            seq: rtp.map(|rtp| rtp.seq.into()),
            rtp_timestamp: rtp.map(|rtp| rtp.timestamp),
            marker: rtp.map(|rtp| rtp.marker.into()),
        });
        self.delivered.push(NO_INT);
        self.queued.push(NO_INT);
        self.queued_path.push(NO_TEXT);
        self.held.push(NO_INT);
        self.dropped.push(NO_INT);
        self.cause.push(NO_TEXT);
        self.path.push(NO_TEXT);
        self.mark_path.push(NO_TEXT);
        self.mark_cause.push(NO_TEXT);
        row
    }

    pub(super) fn delivered(&mut self, row: u32, at: Time, fate: &Fate) {
        self.delivered[row as usize] = at.0 as i64;
        self.queued[row as usize] = fate.queued.0 as i64;
        self.held[row as usize] = fate.held.0 as i64;
    }

    pub(super) fn waited_longest(&mut self, row: u32, path: Text) {
        self.queued_path[row as usize] = path.0;
    }

    pub(super) fn marked(&mut self, row: u32, cause: Text, path: Text) {
        self.mark_cause[row as usize] = cause.0;
        self.mark_path[row as usize] = path.0;
    }

    pub(super) fn dropped(&mut self, row: u32, at: Time, cause: Text, path: Text) {
        self.dropped[row as usize] = at.0 as i64;
        self.cause[row as usize] = cause.0;
        self.path[row as usize] = path.0;
    }

    pub(super) fn finish(self) -> Table {
        let numbers = (0..self.delivered.len() as i64).collect();
        let mut columns = self.rows.finish();
        columns.extend([
            ("packet", Column::Int(numbers)),
            ("delivered_ns", Column::Int(self.delivered)),
            ("queued_ns", Column::Int(self.queued)),
            ("queued_path", Column::Text(self.queued_path)),
            ("held_ns", Column::Int(self.held)),
            ("dropped_ns", Column::Int(self.dropped)),
            ("drop_cause", Column::Text(self.cause)),
            ("drop_path", Column::Text(self.path)),
            ("mark_path", Column::Text(self.mark_path)),
            ("mark_cause", Column::Text(self.mark_cause)),
        ]);
        Table { name: "packets", columns }
    }
}
