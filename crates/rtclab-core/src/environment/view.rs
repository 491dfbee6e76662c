//! What a sender knows of its path, from the reports of the far end.

use crate::cc::features::{Arrival, ArrivalWindow, Features, SHORT};
use crate::cc::{DecisionRequest, RateBounds, SenderState};
use crate::ecn::Ecn;
use crate::packet::Kind;
use crate::table::{Column, NO_INT, Table};
use crate::units::{Bitrate, Time};

/// Transport-wide feedback is sent at least this often. If nothing is reported for longer, nothing arrives.
const REPORTS_LATE: Time = Time::from_millis(250);

/// The columns of an [`Outcome`], with their units.
pub const OUTCOME: [&str; 10] = [
    "receiving_rate_bps",
    "received_packets_per_s",
    "sending_rate_bps",
    "delay_ms",
    "delay_p95_ms",
    "delay_min_ms",
    "queuing_delay_ms",
    "loss",
    "rate_change_bps",
    "target_bps",
];

/// What has become known in a step. What was reported last stands until something else is. Delays and loss are NaN until
/// anything is reported.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Rate at which packets arrived, in bit/s.
    pub receiving_rate_bps: f64,
    /// Packets that arrived per second.
    pub received_packets_per_s: f64,
    /// Rate at which the sender sent, in bit/s.
    pub sending_rate_bps: f64,
    /// Mean one-way delay of the packets that arrived, in ms.
    pub delay_ms: f64,
    /// The 95th percentile of their one-way delays, in ms.
    pub delay_p95_ms: f64,
    /// Least one-way delay in the call, in ms.
    pub delay_min_ms: f64,
    /// Mean one-way delay above the least one, in ms.
    pub queuing_delay_ms: f64,
    /// Share of packets that were lost.
    pub loss: f64,
    /// The receiving rate less the one before, in bit/s.
    pub rate_change_bps: f64,
    /// What was decided last, in bit/s; before that, the rate at which the sender begins.
    pub target_bps: f64,
}

impl Outcome {
    const UNKNOWN: Outcome = Outcome {
        receiving_rate_bps: 0.0,
        received_packets_per_s: 0.0,
        sending_rate_bps: 0.0,
        delay_ms: f64::NAN,
        delay_p95_ms: f64::NAN,
        delay_min_ms: f64::NAN,
        queuing_delay_ms: f64::NAN,
        loss: f64::NAN,
        rate_change_bps: 0.0,
        target_bps: 0.0,
    };

    /// Its values, in the order of [`OUTCOME`].
    pub fn values(&self) -> [f64; OUTCOME.len()] {
        [
            self.receiving_rate_bps,
            self.received_packets_per_s,
            self.sending_rate_bps,
            self.delay_ms,
            self.delay_p95_ms,
            self.delay_min_ms,
            self.queuing_delay_ms,
            self.loss,
            self.rate_change_bps,
            self.target_bps,
        ]
    }

    /// Whether anything has been reported.
    pub(super) fn is_known(&self) -> bool {
        !self.delay_ms.is_nan()
    }
}

/// When something was reported, and the newest arrival in it.
#[derive(Clone, Copy)]
struct LastReport {
    at: Time,
    received: Time,
}

impl LastReport {
    /// Up to when arrivals are known, on the receiver's clock.
    fn known_until(&self, now: Time) -> Time {
        let silent = now.saturating_sub(self.at);
        self.received.saturating_add(silent.saturating_sub(REPORTS_LATE))
    }
}

/// What a sender knows when it decides.
#[derive(Default)]
pub(super) struct View {
    pub(super) features: Features,
    /// Time of the last request, and of the first.
    times: Option<(Time, Time)>,
    last_report: Option<LastReport>,
    /// Up to when arrivals were known at the last request.
    until: Option<Time>,
    /// Highest number that was reported.
    highest: Option<i64>,
    /// Packets reported as lost since the last one that arrived.
    lost: u32,
    outcome: Option<Outcome>,
    decided: Option<Bitrate>,
    pub(super) bounds: Option<RateBounds>,
    pub(super) sender: SenderState,
    /// Last round-trip time in ns.
    pub(super) rtt_ns: Option<i64>,
    /// Packets that were reported as arrived in the last step, and how many of them with a mark.
    pub(super) reported: u32,
    pub(super) marked: u32,
}

impl View {
    pub(super) fn outcome(&self) -> &Outcome {
        self.outcome.as_ref().unwrap_or(&Outcome::UNKNOWN)
    }

    pub(super) fn decided(&mut self, rate: Bitrate) {
        self.decided = Some(rate);
    }

    /// Time since the first request.
    pub(super) fn elapsed(&self) -> Time {
        self.times.map_or(Time::ZERO, |(now, began)| now.saturating_sub(began))
    }

    /// Time since the last report; `None` before the first.
    pub(super) fn silent(&self) -> Option<Time> {
        Some(self.times?.0.saturating_sub(self.last_report?.at))
    }

    /// Up to when arrivals are known, on the receiver's clock; `None` before the first report.
    pub(super) fn known_until(&self) -> Option<Time> {
        self.until
    }

    /// Takes what the sender has seen since the last request.
    pub(super) fn take(&mut self, request: &DecisionRequest) {
        let (before, began) = self.times.unwrap_or((request.at, request.at));
        self.times = Some((request.at, began));
        (self.bounds, self.sender) = (Some(request.bounds), request.sender);
        let [sent, reports, summaries] = &request.tables;
        let bytes: i64 = integers(sent, "size_bytes").iter().sum();
        let step = request.at.saturating_sub(before);
        let mut outcome = Outcome {
            sending_rate_bps: rate_of(bytes as u64, step),
            target_bps: self.decided.unwrap_or(request.decision.target).0 as f64,
            ..*self.outcome()
        };
        self.take_reports(reports);
        let known = integers(summaries, "rtt_ns").iter().rfind(|rtt| **rtt != NO_INT);
        self.rtt_ns = known.copied().or(self.rtt_ns);
        if let Some(until) = self.last_report.map(|last| last.known_until(request.at)) {
            let begin = self.until.unwrap_or(until.saturating_sub(SHORT));
            if until > begin {
                self.until = Some(until);
                self.add(begin, until, &mut outcome);
            }
        }
        self.outcome = Some(outcome);
    }

    fn take_reports(&mut self, reports: &Table) {
        let [at, seq, sent, size, received, ecn, kind] =
            ["at_ns", "seq", "sent_ns", "size_bytes", "received_ns", "ecn", "kind"]
                .map(|name| integers(reports, name));
        (self.reported, self.marked) = (0, 0);
        for index in 0..at.len() {
            let is_new = self.highest.is_none_or(|highest| seq[index] > highest);
            self.highest = self.highest.max(Some(seq[index]));
            if received[index] == NO_INT {
                self.lost += u32::from(is_new);
                continue;
            }
            let received = Time(received[index] as u64);
            self.features.push(Arrival {
                sent: Time(sent[index] as u64),
                received,
                size: size[index] as u64,
                kind: Kind::ALL.get(kind[index] as usize).copied().unwrap_or(Kind::Video),
                lost_before: std::mem::take(&mut self.lost),
            });
            let newest = self.last_report.map_or(received, |last| last.received.max(received));
            self.last_report = Some(LastReport { at: Time(at[index] as u64), received: newest });
            self.reported += 1;
            self.marked += u32::from(ecn[index] == i64::from(Ecn::CongestionExperienced.bits()));
        }
    }

    /// Adds what arrived after `begin`, up to `until`. If nothing did, delays and loss stay as they were.
    fn add(&self, begin: Time, until: Time, outcome: &mut Outcome) {
        let length = until.saturating_sub(begin);
        let window: ArrivalWindow = self.features.window(begin, until);
        let rate = window.rate_bps(length);
        outcome.rate_change_bps = rate - outcome.receiving_rate_bps;
        outcome.receiving_rate_bps = rate;
        outcome.received_packets_per_s = window.packets as f64 / length.as_secs_f64();
        if window.packets == 0 {
            return;
        }
        let least = self.features.delay_min_ms().unwrap_or_default();
        let mut delays: Vec<i128> =
            self.features.within(begin, until).map(Arrival::delay_ns).collect();
        delays.sort_unstable();
        let p95 = (delays.len() * 95).div_ceil(100).saturating_sub(1);
        outcome.delay_ms = window.delay_ms();
        outcome.delay_p95_ms = delays.get(p95).map_or(f64::NAN, |delay| *delay as f64 / 1e6);
        outcome.delay_min_ms = least;
        outcome.queuing_delay_ms = outcome.delay_ms - least;
        outcome.loss = window.loss();
    }
}

/// Rate in bit/s; 0 in no time.
fn rate_of(bytes: u64, time: Time) -> f64 {
    if time == Time::ZERO { 0.0 } else { 8.0 * bytes as f64 / time.as_secs_f64() }
}

/// A column of integers; empty if there is none.
fn integers<'a>(table: &'a Table, name: &str) -> &'a [i64] {
    let found = table.columns.iter().find(|(column, _)| *column == name);
    match found {
        Some((_, Column::Int(values))) => values,
        _ => &[],
    }
}
