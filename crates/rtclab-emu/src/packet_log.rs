//! Log of every packet, in columns.

use crate::classify::LoggedProtocol;
use rtclab_core::ecn::Ecn;
use rtclab_core::network::{NodeId, PathId};
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
}

/// Statistics of lateness: real minus logical departure time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// Number of packets delivered.
    pub count: usize,
    /// Median.
    pub p50: Time,
    /// 99th percentile.
    pub p99: Time,
    /// Maximum.
    pub max: Time,
    /// Number of packets later than [`Lateness::BOUND`].
    pub over_bound: usize,
}

impl Lateness {
    /// Lateness that visibly disturbs a call: a sixth of the frame interval at 30 frames per second.
    pub const BOUND: Time = Time::from_millis(5);
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

    /// Computes the lateness of the frames.
    pub fn lateness(&self) -> Lateness {
        let mut late: Vec<u64> = (self.written_ns.iter().zip(&self.delivered_ns))
            .filter(|(written, _)| **written >= 0)
            .map(|(written, delivered)| (written - delivered).max(0) as u64)
            .collect();
        late.sort_unstable();
        // Smallest value that at least this percentage of the packets does not exceed.
        let quantile = |percent: usize| {
            Time(late.get((late.len() * percent).div_ceil(100).max(1) - 1).copied().unwrap_or(0))
        };
        Lateness {
            count: late.len(),
            p50: quantile(50),
            p99: quantile(99),
            max: quantile(100),
            over_bound: late.len() - late.partition_point(|nanos| *nanos <= Lateness::BOUND.0),
        }
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

    #[test]
    fn lateness_of_1_to_200_ms_has_its_median_at_100_and_its_99th_percentile_at_198_ms() {
        let mut log = PacketLog::default();
        for i in 1..=200 {
            let nodes = (NodeId(0), NodeId(1));
            let row = log.push(
                Time::ZERO,
                nodes,
                Bytes(100),
                Ecn::NotCapable,
                (LoggedProtocol::Other, None),
            );
            let written = Some(Time::from_millis(1000 + i));
            log.delivered(row, Time::from_secs(1), Time::ZERO, written);
        }
        let expected = Lateness {
            count: 200,
            p50: Time::from_millis(100),
            p99: Time::from_millis(198),
            max: Time::from_millis(200),
            over_bound: 195,
        };
        assert_eq!(log.lateness(), expected);
        assert_eq!(PacketLog::default().lateness(), Lateness::default());
    }
}
