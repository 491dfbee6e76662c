//! What the control reads from one report. Source: `scream_feedback.cc`.

use crate::cc::control::PacketReport;
use crate::cc::reals::{bytes, micros, remote_micros};
use crate::ecn::Ecn;
use crate::units::Time;

/// One report in numbers. Times are in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Report {
    /// When it arrived.
    pub(super) now: f64,
    /// Bytes in flight after it.
    pub(super) in_flight: f64,
    /// Bytes of all packets in it that arrived without a mark or did not arrive.
    pub(super) unmarked_bytes: f64,
    pub(super) received_bytes: f64,
    pub(super) received: u64,
    /// Packets that arrived with a mark.
    pub(super) marked: u64,
    /// Packets reported as lost for the first time.
    pub(super) lost: u64,
    /// Packets reported as lost before that arrived.
    pub(super) recovered: u64,
    /// Smallest one-way delay, with the offset of the far end's clock.
    pub(super) min_delay: f64,
    pub(super) max_delay: f64,
    /// When its last packet arrived, on the far end's clock.
    pub(super) last_received: f64,
    /// How long the far end held its first packet, reckoned from the first arrival.
    pub(super) hold: f64,
    /// Round-trip time of its last packet, without the time that the far end held it.
    pub(super) rtt: f64,
}

impl Report {
    /// Reads a report that arrives at `now`; `None` if no packet in it arrived, for then it says nothing.
    pub(super) fn read(now: Time, reports: &[PacketReport], in_flight: f64) -> Option<Report> {
        let order =
            |report: &PacketReport| (report.received, report.sent.at, report.sent.transport_seq);
        let arrived = || reports.iter().filter(|report| report.received.is_some());
        let first = arrived().min_by_key(|report| order(report))?.received?;
        let last = arrived().max_by_key(|report| order(report))?;
        let last_received = remote_micros(last.received?);
        let held = last.held.map_or(0.0, micros);
        let now = micros(now);
        let mut read = Report {
            now,
            in_flight,
            unmarked_bytes: 0.0,
            received_bytes: 0.0,
            received: 0,
            marked: 0,
            lost: 0,
            recovered: 0,
            min_delay: f64::INFINITY,
            max_delay: f64::NEG_INFINITY,
            last_received,
            hold: last_received + held - remote_micros(first),
            rtt: (now - micros(last.sent.at) - held).max(0.0),
        };
        reports.iter().for_each(|report| read.add(report));
        Some(read)
    }

    fn add(&mut self, report: &PacketReport) {
        let size = bytes(report.sent.size);
        let is_marked = report.ecn == Some(Ecn::CongestionExperienced);
        if !is_marked {
            self.unmarked_bytes += size;
        }
        let Some(received) = report.received else {
            self.lost += u64::from(!report.lost_before);
            return;
        };
        self.recovered += u64::from(report.lost_before);
        self.received_bytes += size;
        self.received += 1;
        self.marked += u64::from(is_marked);
        let delay = remote_micros(received) - micros(report.sent.at);
        self.min_delay = self.min_delay.min(delay);
        self.max_delay = self.max_delay.max(delay);
    }
}
