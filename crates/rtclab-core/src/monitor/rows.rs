//! Rows of the table `packets`, until they are taken.

use super::stream::{RtpSeen, StreamUpdate};
use crate::ecn::Ecn;
use crate::rtp::Protocol;
use crate::table::NO_INT;

/// Columns filled packet by packet. Columns derived from flow and stream are added when the table is made.
#[derive(Clone, Debug, Default)]
pub(crate) struct PacketRows {
    /// Number of rows taken before the first one here.
    pub(crate) base: usize,
    /// The codepoint of the packet that is being watched.
    pub(crate) current_ecn: Ecn,
    pub(crate) at_ns: Vec<i64>,
    pub(crate) flow: Vec<i64>,
    pub(crate) size_bytes: Vec<i64>,
    pub(crate) ecn: Vec<Ecn>,
    pub(crate) protocol: Vec<Protocol>,
    pub(crate) relayed: Vec<i64>,
    pub(crate) content_bytes: Vec<i64>,
    pub(crate) stream: Vec<i64>,
    pub(crate) ssrc: Vec<i64>,
    pub(crate) payload_type: Vec<i64>,
    pub(crate) seq: Vec<i64>,
    pub(crate) seq_extended: Vec<i64>,
    pub(crate) rtp_timestamp: Vec<i64>,
    pub(crate) marker: Vec<i64>,
    pub(crate) transport_seq: Vec<i64>,
    pub(crate) abs_send_time: Vec<i64>,
    pub(crate) relative_delay_ms: Vec<f64>,
}

impl PacketRows {
    /// Adds a packet that is not known to be RTP, with its size as an IP packet and without any headers and TURN
    /// framing, if that is known. Returns its row.
    pub(crate) fn push(
        &mut self,
        (at_ns, flow): (i64, u32),
        (size, content): (u32, Option<u32>),
        protocol: Protocol,
        relayed: bool,
    ) -> usize {
        self.at_ns.push(at_ns);
        self.flow.push(flow.into());
        self.size_bytes.push(size.into());
        self.ecn.push(self.current_ecn);
        self.protocol.push(protocol);
        self.relayed.push(relayed.into());
        self.content_bytes.push(content.map_or(NO_INT, i64::from));
        for unknown in [
            &mut self.stream,
            &mut self.ssrc,
            &mut self.payload_type,
            &mut self.seq,
            &mut self.seq_extended,
            &mut self.rtp_timestamp,
            &mut self.marker,
            &mut self.transport_seq,
            &mut self.abs_send_time,
        ] {
            unknown.push(NO_INT);
        }
        self.relative_delay_ms.push(f64::NAN);
        self.base + self.at_ns.len() - 1
    }

    /// Marks a packet as part of a stream, unless its row has been taken.
    pub(crate) fn set_rtp(&mut self, stream: u32, packet: &RtpSeen, received: &StreamUpdate) {
        let Some(row) = packet.row.checked_sub(self.base) else { return };
        self.protocol[row] = Protocol::Rtp;
        self.stream[row] = stream.into();
        self.ssrc[row] = packet.ssrc.into();
        self.payload_type[row] = packet.payload_type.into();
        self.seq[row] = packet.seq.into();
        self.seq_extended[row] = received.extended_seq;
        self.rtp_timestamp[row] = packet.timestamp.into();
        self.marker[row] = packet.marker.into();
        self.transport_seq[row] = packet.extensions.transport_sequence.map_or(NO_INT, i64::from);
        self.abs_send_time[row] =
            packet.extensions.abs_send_time.map_or(NO_INT, |t| t.bits().into());
        self.relative_delay_ms[row] = received.relative_delay_ms.unwrap_or(f64::NAN);
    }

    /// Row number of the next packet.
    pub(crate) fn next(&self) -> usize {
        self.base + self.at_ns.len()
    }

    /// Adds bytes to a packet, unless its row has been taken.
    pub(crate) fn add_bytes(&mut self, row: usize, bytes: u32) {
        let size = row.checked_sub(self.base).and_then(|row| self.size_bytes.get_mut(row));
        size.into_iter().for_each(|size| *size += i64::from(bytes));
    }

    /// Takes all rows. Row numbers continue after them.
    pub(crate) fn take(&mut self) -> PacketRows {
        let base = self.base + self.at_ns.len();
        std::mem::replace(self, PacketRows { base, ..PacketRows::default() })
    }
}
