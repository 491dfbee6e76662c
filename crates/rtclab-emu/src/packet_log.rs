//! Log of every packet, in columns.

use crate::classify::LoggedProtocol;
use rtclab_core::ecn::Ecn;
use rtclab_core::network::{NodeId, PathId, Wait};
use rtclab_core::path::{DropCause, Mark};
use rtclab_core::rtp::RtpHeader;
use rtclab_core::units::{Bytes, Time};

/// One row per carried packet in order of entry, with -1 for a missing value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PacketLog {
    /// Time at which the packet entered the network.
    pub sent_ns: Vec<i64>,
    /// Logical departure time; -1 if the packet was dropped, or still in the network at the end.
    pub delivered_ns: Vec<i64>,
    /// Time that a delivered packet waited in queues.
    pub queued_ns: Vec<i64>,
    /// Time at which the packet was dropped.
    pub dropped_ns: Vec<i64>,
    /// Time at which its frame had really been written.
    pub written_ns: Vec<i64>,
    /// Cause of the drop: index in [`DropCause::ALL`].
    pub drop_cause: Vec<i8>,
    /// Index of the path that dropped the packet.
    pub drop_path: Vec<i64>,
    /// ECN codepoint on entry: its two bits, which are its index in [`Ecn::ALL`].
    pub ecn: Vec<u8>,
    /// Index of the first path whose queue marked the packet; -1 if it did not arrive with a mark.
    pub mark_path: Vec<i64>,
    /// Cause of that mark: index in [`MarkCause::ALL`](rtclab_core::path::MarkCause::ALL).
    pub mark_cause: Vec<i8>,
    /// Index of the sending node.
    pub from: Vec<u32>,
    /// Index of the receiving node.
    pub to: Vec<u32>,
    /// IP total length.
    pub size_bytes: Vec<u32>,
    /// Protocol: index in [`LoggedProtocol::ALL`].
    pub protocol: Vec<u8>,
    /// RTP SSRC.
    pub ssrc: Vec<i64>,
    /// RTP payload type.
    pub payload_type: Vec<i16>,
    /// RTP sequence number.
    pub seq: Vec<i32>,
    /// RTP timestamp.
    pub rtp_timestamp: Vec<i64>,
    /// RTP marker bit, 0 or 1.
    pub marker: Vec<i8>,
    /// The queues in which delivered packets waited.
    pub hops: HopLog,
}

/// One row per queue in which a delivered packet waited.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HopLog {
    /// Row of the packet.
    pub packet: Vec<u32>,
    /// Index of the path.
    pub path: Vec<u32>,
    /// Time that the packet waited in the queue of the path.
    pub queued_ns: Vec<i64>,
}

impl PacketLog {
    pub(crate) fn push(
        &mut self,
        sent: Time,
        (from, to): (NodeId, NodeId),
        size: Bytes,
        ecn: Ecn,
        (protocol, rtp): (LoggedProtocol, Option<RtpHeader>),
    ) -> usize {
        self.sent_ns.push(sent.0 as i64);
        for unknown in [
            &mut self.delivered_ns,
            &mut self.queued_ns,
            &mut self.dropped_ns,
            &mut self.written_ns,
        ] {
            unknown.push(-1);
        }
        self.drop_cause.push(-1);
        self.drop_path.push(-1);
        self.ecn.push(ecn.bits());
        self.mark_path.push(-1);
        self.mark_cause.push(-1);
        self.from.push(from.0);
        self.to.push(to.0);
        self.size_bytes.push(size.0 as u32);
        self.protocol.push(protocol as u8);
        self.ssrc.push(rtp.map_or(-1, |r| r.ssrc.into()));
        self.payload_type.push(rtp.map_or(-1, |r| r.payload_type.into()));
        self.seq.push(rtp.map_or(-1, |r| r.seq.into()));
        self.rtp_timestamp.push(rtp.map_or(-1, |r| r.timestamp.into()));
        self.marker.push(rtp.map_or(-1, |r| r.marker.into()));
        self.sent_ns.len() - 1
    }

    pub(crate) fn delivered(&mut self, row: usize, at: Time, queued: Time, written: Option<Time>) {
        self.delivered_ns[row] = at.0 as i64;
        self.queued_ns[row] = queued.0 as i64;
        self.written_ns[row] = written.map_or(-1, |at| at.0 as i64);
    }

    pub(crate) fn waited(&mut self, row: usize, waits: impl Iterator<Item = Wait>) {
        for Wait { path, queued } in waits {
            self.hops.packet.push(row as u32);
            self.hops.path.push(path.0);
            self.hops.queued_ns.push(queued.0 as i64);
        }
    }

    pub(crate) fn marked(&mut self, row: usize, mark: Mark) {
        self.mark_path[row] = mark.path.into();
        self.mark_cause[row] = mark.cause as i8;
    }

    pub(crate) fn dropped(&mut self, row: usize, at: Time, path: PathId, cause: DropCause) {
        self.dropped_ns[row] = at.0 as i64;
        self.drop_path[row] = path.0.into();
        self.drop_cause[row] =
            DropCause::ALL.iter().position(|c| *c == cause).map_or(-1, |i| i as i8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtclab_core::path::MarkCause;

    #[test]
    fn a_packet_has_the_codepoint_of_its_entry_and_the_place_and_cause_of_its_mark() {
        let mut log = PacketLog::default();
        for ecn in Ecn::ALL {
            let other = (LoggedProtocol::Other, None);
            log.push(Time::ZERO, (NodeId(0), NodeId(1)), Bytes(100), ecn, other);
        }
        log.marked(1, Mark { path: 5, cause: MarkCause::Threshold });
        assert_eq!(log.ecn, [0, 1, 2, 3]);
        assert_eq!(log.mark_path, [-1, 5, -1, -1]);
        assert_eq!(MarkCause::ALL[log.mark_cause[1] as usize], MarkCause::Threshold);
        assert_eq!([log.mark_cause[0], log.mark_cause[2], log.mark_cause[3]], [-1; 3]);
    }
}
