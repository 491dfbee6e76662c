//! A congestion control whose decisions are made outside of the run.
//!
//! [`External`] gathers what its sender sees, in columns, and asks for a decision. The driver hands the request out
//! and passes the answer back, so one call outside can decide for many runs that advance in lockstep.

use super::{
    ControlError, Controller, Decision, Feedback, Observation, PacketReport, RateBounds,
    SenderState, SentPacket,
};
use crate::packet::Kind;
use crate::table::{Row, RowColumns, Table, row};
use crate::units::{Bitrate, RemoteTime, Time};

row! {
    /// A packet that was sent.
    pub struct SentRow / SentRowColumns {
        /// When it left the pacer.
        at: Time = "at_ns",
        /// Transport-wide sequence number, unwrapped.
        seq: i64 = "seq",
        /// IP total length.
        size: u64 = "size_bytes",
        /// What it carries: a position in [`Kind::ALL`].
        kind: u64 = "kind",
        /// The probe it belongs to.
        probe: Option<u32> = "probe",
        /// Its ECN codepoint, as the two bits of the IP header.
        ecn: u64 = "ecn",
    }
}

row! {
    /// What the far end reports about a packet.
    pub struct ReportRow / ReportRowColumns {
        /// When the report arrived.
        at: Time = "at_ns",
        /// Transport-wide sequence number of the packet, unwrapped.
        seq: i64 = "seq",
        /// When the packet left.
        sent: Time = "sent_ns",
        /// IP total length of the packet.
        size: u64 = "size_bytes",
        /// When the packet arrived, on the far end's clock; null if it had not when the report was sent.
        received: Option<Time> = "received_ns",
        /// ECN codepoint on arrival; null if the feedback has no field for it.
        ecn: Option<u64> = "ecn",
        /// What the packet carries: a position in [`Kind::ALL`].
        kind: u64 = "kind",
    }
}

row! {
    /// A receiver report, or a REMB.
    pub struct SummaryRow / SummaryRowColumns {
        /// When it arrived.
        at: Time = "at_ns",
        /// Packets lost since the last report; null for a REMB.
        lost: Option<u64> = "lost",
        /// Packets expected since the last report; null for a REMB.
        expected: Option<u64> = "expected",
        /// Round-trip time; null if unknown.
        rtt: Option<Time> = "rtt_ns",
        /// The estimate of the receiver; null for a report.
        remb: Option<u64> = "remb_bps",
    }
}

/// A request for a decision, with what the sender has seen since the last one.
#[derive(Clone, Debug, PartialEq)]
pub struct DecisionRequest {
    /// When it is made.
    pub at: Time,
    /// The decision so far.
    pub decision: Decision,
    /// Bounds that the encoders set on the rate. `max` follows the resolution.
    pub bounds: RateBounds,
    /// State of the sender at the last timeout of the control.
    pub sender: SenderState,
    /// The tables `sent` ([`SentRow`]), `reports` ([`ReportRow`]) and `summaries` ([`SummaryRow`]).
    pub tables: [Table; 3],
}

/// A congestion control that asks for each of its decisions.
pub struct External {
    bounds: RateBounds,
    /// Time between two requests; zero for a request with each transport-wide feedback.
    interval: Time,
    next: Option<Time>,
    is_due: bool,
    decision: Decision,
    sender: SenderState,
    sent: SentRowColumns,
    reports: ReportRowColumns,
    summaries: SummaryRowColumns,
}

impl External {
    /// A control that asks when media starts, and then every `interval`; at each transport-wide feedback if that is zero.
    /// It sends at the start rate until it is answered.
    pub fn new(bounds: RateBounds, interval: Time) -> Self {
        External {
            bounds,
            interval,
            next: None,
            is_due: false,
            decision: Decision::at(bounds.start),
            sender: SenderState::default(),
            sent: SentRowColumns::default(),
            reports: ReportRowColumns::default(),
            summaries: SummaryRowColumns::default(),
        }
    }
}

impl Controller for External {
    fn on_sent(&mut self, packet: &SentPacket) -> Result<(), ControlError> {
        let &SentPacket { transport_seq, at, size, kind, probe, ecn, .. } = packet;
        let (kind, ecn) = (position(kind), ecn.bits().into());
        self.sent.push(SentRow { at, seq: transport_seq, size: size.0, kind, probe, ecn });
        Ok(())
    }

    fn on_feedback(&mut self, now: Time, feedback: Feedback<'_>) -> Result<(), ControlError> {
        let summary = SummaryRow { at: now, lost: None, expected: None, rtt: None, remb: None };
        match feedback {
            Feedback::Packets { reports, in_flight, .. } => {
                self.sender.in_flight = in_flight;
                for &PacketReport { sent, received, ecn, .. } in reports {
                    self.reports.push(ReportRow {
                        at: now,
                        seq: sent.transport_seq,
                        sent: sent.at,
                        size: sent.size.0,
                        received: received.map(|RemoteTime(at)| at),
                        ecn: ecn.map(|ecn| ecn.bits().into()),
                        kind: position(sent.kind),
                    });
                }
                self.is_due |= self.interval == Time::ZERO;
            }
            Feedback::ReceiverReport { lost, expected, rtt, .. } => {
                let (lost, expected) = (Some(lost), Some(expected));
                self.summaries.push(SummaryRow { lost, expected, rtt, ..summary });
            }
            Feedback::Remb(rate) => {
                self.summaries.push(SummaryRow { remb: Some(rate.0), ..summary });
            }
        }
        Ok(())
    }

    fn on_timeout(&mut self, now: Time, sender: &SenderState) -> Result<(), ControlError> {
        self.sender = *sender;
        self.is_due = true;
        self.next = (self.interval > Time::ZERO).then(|| now + self.interval);
        Ok(())
    }

    fn on_media_limit(&mut self, _now: Time, max: Bitrate) {
        self.bounds.max = max;
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.next
    }

    fn poll_request(&mut self, now: Time) -> Option<Box<DecisionRequest>> {
        if !std::mem::take(&mut self.is_due) {
            return None;
        }
        Some(Box::new(DecisionRequest {
            at: now,
            decision: self.decision,
            bounds: self.bounds,
            sender: self.sender,
            tables: [
                table::<SentRow>("sent", &mut self.sent),
                table::<ReportRow>("reports", &mut self.reports),
                table::<SummaryRow>("summaries", &mut self.summaries),
            ],
        }))
    }

    fn handle_decision(&mut self, _now: Time, decision: Decision) -> Result<(), ControlError> {
        self.decision = decision;
        Ok(())
    }

    fn decision(&self) -> Decision {
        self.decision
    }

    fn observe(&self, out: &mut Vec<Observation>) {
        out.push(Observation::new("target_bps", self.decision.target.0 as f64));
    }
}

/// The position of a kind in [`Kind::ALL`].
fn position(kind: Kind) -> u64 {
    Kind::ALL.iter().position(|known| *known == kind).unwrap_or_default() as u64
}

/// Takes all rows.
fn table<R: Row>(name: &'static str, columns: &mut R::Columns) -> Table {
    Table { name, columns: std::mem::take(columns).finish() }
}
