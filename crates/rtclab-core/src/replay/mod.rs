//! Replays what a browser sent and heard into a congestion control of ours, to compare their decisions.
//!
//! [`replay_log`] feeds the packets and the feedback of an RTC event log to a [`Controller`], at the times of
//! the log and in the form in which libwebrtc hands them to its own control. If the control has a receiving
//! half, that half is fed with the arrivals that the feedback reports. [`replay_arrivals`] feeds the packets
//! that arrived at a receiver to an [`Estimator`](crate::cc::Estimator) alone.

mod arrivals;
mod inputs;
#[cfg(test)]
mod tests;

pub use arrivals::replay_arrivals;

use crate::catalogue::{Choice, ConfigError};
use crate::cc::{
    self, CallsAtOnce, ControlError, Controller, Feedback, Observation, PacketReport, Probe,
    RateBounds, ReceivedPacket, SenderState,
};
use crate::event_log::EventLog;
use crate::packet::Kind;
use crate::rtp::rtcp::{ArrivalOffset, IntervalLoss};
use crate::stack::FeedbackKind;
use crate::table::{Column, Row, RowColumns, Table, Text, Texts, row};
use crate::transport_history::TransportHistory;
use crate::units::{Bitrate, RemoteTime, Time};
use arrivals::{RembRow, ReplayedReceiver};
use inputs::{Acknowledged, Inputs, What};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;

/// Arrival times in transport-wide feedback, after libwebrtc's adapter has rounded them down
/// (`TransportFeedbackAdapter::ProcessTransportFeedbackInner`).
const RESOLUTION: Time = Time::from_millis(1);
/// A probe of our control stands for a probe of the browser if it is at most this much older than the first packet of
/// the browser's: the pacer waits as long for a packet (kProbeClusterTimeout).
const PROBE_AGE: Time = Time::from_secs(5);
/// The rates of the two probes differ by at most this factor.
const PROBE_RATIO: f64 = 1.5;

/// Why a replay is not possible.
#[derive(Clone, Debug, PartialEq)]
pub enum ReplayError {
    /// The log lacks something. The text says what.
    Log(&'static str),
    /// The algorithm cannot be created.
    Config(ConfigError),
    /// The algorithm of this name has no half of this kind.
    NoEstimator(String),
    /// The algorithm failed at this time of the log.
    Control(Time, ControlError),
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplayError::Log(what) => f.write_str(what),
            ReplayError::Config(error) => error.fmt(f),
            ReplayError::NoEstimator(name) => {
                write!(f, "`{name}` estimates at the sender; it has no estimator at the receiver")
            }
            ReplayError::Control(at, error) => write!(f, "at {at}: {error}"),
        }
    }
}
impl Error for ReplayError {}

row! {
    /// The control has decided on another target.
    struct TargetRow / TargetColumns {
        /// When, in nanoseconds after the first event of the log.
        at: Time = "at_ns",
        /// The target.
        target: u64 = "target_bps",
    }
}

row! {
    /// An internal value of the control, at every feedback.
    pub(super) struct ValueRow / ValueColumns {
        /// When.
        at: Time = "at_ns",
        /// Name of the value.
        name: Text = "name",
        /// The value.
        value: f64 = "value",
    }
}

row! {
    /// A probe that the control wanted.
    struct ProbeRow / ProbeColumns {
        /// When.
        at: Time = "at_ns",
        /// Rate of the probe.
        rate: u64 = "rate_bps",
        /// Number of the browser's own probe that stood for it; null if it sent none like it.
        cluster: Option<u32> = "cluster",
    }
}

/// What a control decided in a replay.
#[derive(Clone, Debug, PartialEq)]
pub struct Replayed {
    /// The tables `target`, `values` and `probes`, and `remb` if the control has a receiving half.
    pub tables: Vec<Table>,
    /// The texts of text columns.
    pub texts: Vec<String>,
    /// Time of the log, in milliseconds, at which the replay has time zero.
    pub begin_ms: i64,
}

/// Feeds the packets and the feedback of a log to a congestion control.
///
/// The control starts together with the browser's, and again at each change of route in the log. It
/// sees whole milliseconds, as libwebrtc's does. Packets belong to the probes that the browser made; the
/// control knows such a probe as its own if it wanted one like it at that time.
///
/// The receiving half of a control, if it has one, is fed with the arrivals in the feedback, when the feedback
/// comes in. Its REMBs reach the sending half at once, so that they take as long as the feedback. They replace
/// the REMBs of the log.
///
/// `sent_ms` tells when packets left the socket, in milliseconds of the log's clock, rounded down: one value for
/// each row of the log's table `outgoing_rtp`, [`NO_VALUE`](crate::event_log::NO_VALUE) where unknown. It may be
/// empty. For other packets the replay takes their abs-send-time, which is up to a few milliseconds earlier.
///
/// # Errors
/// See [`ReplayError`].
pub fn replay_log(
    log: &EventLog,
    sent_ms: &[i64],
    control: &Choice<'_>,
    bounds: RateBounds,
) -> Result<Replayed, ReplayError> {
    let inputs = Inputs::read(log, sent_ms)?;
    let bounds = RateBounds { has_video: inputs.has_video, ..bounds };
    let mut replay = Replay::new(control, bounds, inputs.feedback)?;
    replay.record(Time::ZERO)?;
    for event in &inputs.events {
        replay.advance(event.at)?;
        replay.handle(event.at, &event.what)?;
    }
    let (probes, receives) = (replay.probe_rows(), replay.receiving.is_some());
    if receives && replay.rembs.is_empty() && !inputs.has_send_times {
        return Err(ReplayError::Log(
            "the receiving half of the control needs the extension abs-send-time, which no packet of the log has",
        ));
    }
    let remb = receives.then(|| Table { name: "remb", columns: finish(replay.rembs) });
    let mut tables = vec![
        Table { name: "probes", columns: finish(probes) },
        Table { name: "target", columns: finish(replay.targets) },
        Table { name: "values", columns: finish(replay.values) },
    ];
    tables.extend(remb);
    Ok(Replayed { tables, texts: replay.texts.list, begin_ms: inputs.begin_ms })
}

fn halves(
    control: &Choice<'_>,
    bounds: RateBounds,
) -> Result<(Box<dyn Controller>, Option<Receiving>), ReplayError> {
    let (controller, estimator) = control.create(bounds).map_err(ReplayError::Config)?;
    let receiving = estimator.map(|estimator| Receiving {
        receiver: ReplayedReceiver::new(estimator),
        sent: BTreeMap::new(),
        first: None,
    });
    Ok((controller, receiving))
}

fn finish<R: Row>(rows: Vec<R>) -> Vec<(&'static str, Column)> {
    let mut columns = R::Columns::default();
    for row in rows {
        columns.push(row);
    }
    columns.finish()
}

/// A probe that our control wanted, and the browser's probe that stands for it.
struct Wanted {
    at: Time,
    probe: Probe,
    cluster: Option<u32>,
}

/// The receiving half of the control.
struct Receiving {
    receiver: ReplayedReceiver,
    /// Packets that no feedback has reported as received, by transport-wide sequence number.
    sent: BTreeMap<i64, inputs::ReplayedPacket>,
    /// The first arrival, which has time zero on the receiver's clock.
    first: Option<RemoteTime>,
}

impl Receiving {
    /// Hands over the packets that a feedback reports as received, in order of arrival. Returns the REMBs that
    /// the receiver sends meanwhile.
    fn receive(&mut self, reports: &[PacketReport]) -> Result<Vec<Bitrate>, ReplayError> {
        let arrived = |report: &PacketReport| {
            let ecn = report.ecn.unwrap_or_default();
            Some((report.received?, report.sent.transport_seq, ecn))
        };
        let mut arrivals: Vec<_> = reports.iter().filter_map(arrived).collect();
        arrivals.sort_by_key(|(received, seq, _)| (*received, *seq));
        let mut rembs = Vec::new();
        for (received, seq, ecn) in arrivals {
            let Some(packet) = self.sent.remove(&seq) else { continue };
            let first = *self.first.get_or_insert(received);
            let packet = ReceivedPacket {
                at: received.0.saturating_sub(first.0).max(self.receiver.clock),
                ssrc: packet.rtp.ssrc,
                seq: packet.rtp.seq,
                audio: packet.kind == Kind::Audio,
                size: packet.size,
                payload: packet.rtp.payload,
                rtp_timestamp: packet.rtp.timestamp,
                abs_send_time: packet.rtp.abs_send_time,
                transport_seq: Some(seq as u16),
                ecn,
            };
            self.receiver.receive(&packet, &mut |_, rate, _| rembs.push(rate))?;
        }
        Ok(rembs)
    }
}

struct Replay<'a> {
    control: &'a Choice<'a>,
    bounds: RateBounds,
    controller: Box<dyn Controller>,
    receiving: Option<Receiving>,
    calls: CallsAtOnce,
    clock: Time,
    feedback: FeedbackKind,
    history: TransportHistory<()>,
    wanted: Vec<Wanted>,
    /// Probes from here on belong to the current controller.
    wanted_since: usize,
    targets: Vec<TargetRow>,
    rembs: Vec<RembRow>,
    values: Vec<ValueRow>,
    texts: Texts,
    observed: Vec<Observation>,
}

impl<'a> Replay<'a> {
    fn new(
        control: &'a Choice<'a>,
        bounds: RateBounds,
        feedback: FeedbackKind,
    ) -> Result<Self, ReplayError> {
        let (controller, receiving) = halves(control, bounds)?;
        Ok(Replay {
            control,
            bounds,
            controller,
            receiving,
            calls: CallsAtOnce::default(),
            clock: Time::ZERO,
            feedback,
            history: TransportHistory::new(feedback),
            wanted: Vec::new(),
            wanted_since: 0,
            targets: Vec::new(),
            rembs: Vec::new(),
            values: Vec::new(),
            texts: Texts::default(),
            observed: Vec::new(),
        })
    }

    /// Runs the control's own timeouts up to `now`.
    fn advance(&mut self, now: Time) -> Result<(), ReplayError> {
        while let Some(due) = self.controller.poll_timeout() {
            let at = due.max(self.clock);
            if at > now {
                break;
            }
            self.clock = at;
            let state = SenderState {
                in_flight: self.history.in_flight(),
                media_rate: self.controller.decision().target,
                ..SenderState::default()
            };
            let failed = |error| ReplayError::Control(at, error);
            self.controller.on_timeout(at, &state).map_err(failed)?;
            self.calls.count(at, self.controller.poll_timeout()).map_err(failed)?;
            self.record(at)?;
        }
        self.clock = self.clock.max(now);
        Ok(())
    }

    fn handle(&mut self, now: Time, what: &What) -> Result<(), ReplayError> {
        let failed = |error| ReplayError::Control(now, error);
        match what {
            What::Sent(packet) => {
                let probe = packet.cluster.and_then(|cluster| self.own_probe(now, cluster));
                let sent = self.history.sent(packet.departure(now, probe));
                self.controller.on_sent(&sent).map_err(failed)?;
                if let Some(receiving) = &mut self.receiving {
                    receiving.sent.insert(packet.seq, *packet);
                }
            }
            What::Transport(feedback) => {
                self.history.acknowledge(feedback.iter().map(Acknowledged::arrival));
                self.report(now, RESOLUTION)?;
            }
            What::Congestion(report) => {
                let entries = report.entries.iter().copied();
                self.history.acknowledge_by_number(now, report.timestamp, entries);
                self.report(now, ArrivalOffset::RESOLUTION)?;
            }
            What::Reports(report) => {
                let &inputs::Reports { loss: IntervalLoss { lost, expected }, fraction, rtt } =
                    report;
                let report = Feedback::ReceiverReport { lost, expected, fraction, rtt };
                self.controller.on_feedback(now, report).map_err(failed)?;
                if let (Some(receiving), Some(rtt)) = (&mut self.receiving, rtt) {
                    let receiver = &mut receiving.receiver;
                    receiver.estimator.on_rtt(receiver.clock, rtt);
                }
            }
            What::Remb(_) if self.receiving.is_some() => {}
            What::Remb(rate) => {
                self.controller.on_feedback(now, Feedback::Remb(*rate)).map_err(failed)?;
            }
            What::Route => {
                (self.controller, self.receiving) = halves(self.control, self.bounds)?;
                self.history = TransportHistory::new(self.feedback);
                self.wanted_since = self.wanted.len();
            }
        }
        self.record(now)
    }

    /// Hands the feedback that was read last to the control, or its arrivals to the receiving half.
    fn report(&mut self, now: Time, resolution: Time) -> Result<(), ReplayError> {
        let reports: &[PacketReport] = &self.history.reports().collect::<Vec<_>>();
        let failed = |error| ReplayError::Control(now, error);
        if let Some(receiving) = &mut self.receiving {
            for rate in receiving.receive(reports)? {
                self.rembs.push(RembRow { at: now, rate: rate.0 });
                self.controller.on_feedback(now, Feedback::Remb(rate)).map_err(failed)?;
            }
            self.observe(now);
        } else if !reports.is_empty() {
            let in_flight = self.history.in_flight();
            let packets = Feedback::Packets { reports, in_flight, resolution };
            self.controller.on_feedback(now, packets).map_err(failed)?;
            self.observe(now);
        }
        Ok(())
    }

    /// The number of the probe that our control wanted when the browser made this one.
    fn own_probe(&mut self, now: Time, cluster: inputs::BrowserProbe) -> Option<u32> {
        let current = &mut self.wanted[self.wanted_since..];
        if let Some(known) = current.iter().find(|wanted| wanted.cluster == Some(cluster.id)) {
            return Some(known.probe.id);
        }
        let ratio = |wanted: &Wanted| {
            let (own, of_browser) =
                (wanted.probe.rate.0.max(1) as f64, cluster.rate.0.max(1) as f64);
            (own / of_browser).max(of_browser / own)
        };
        let fits = |wanted: &&mut Wanted| {
            wanted.cluster.is_none()
                && wanted.at.saturating_add(PROBE_AGE) >= now
                && ratio(wanted) <= PROBE_RATIO
        };
        let best = current.iter_mut().filter(fits).min_by(|a, b| ratio(a).total_cmp(&ratio(b)))?;
        best.cluster = Some(cluster.id);
        Some(best.probe.id)
    }

    /// Takes the control's probes and its target.
    fn record(&mut self, at: Time) -> Result<(), ReplayError> {
        let probes = cc::probes(self.controller.as_mut());
        for probe in probes.map_err(|error| ReplayError::Control(at, error))? {
            self.wanted.push(Wanted { at, probe, cluster: None });
        }
        let target = self.controller.decision().target.0;
        if self.targets.last().is_none_or(|last| last.target != target) {
            self.targets.push(TargetRow { at, target });
        }
        Ok(())
    }

    fn observe(&mut self, at: Time) {
        self.observed.clear();
        self.controller.observe(&mut self.observed);
        if let Some(receiving) = &self.receiving {
            receiving.receiver.estimator.observe(&mut self.observed);
        }
        for Observation { name, value } in &self.observed {
            let name = self.texts.code(name);
            self.values.push(ValueRow { at, name, value: *value });
        }
    }

    fn probe_rows(&self) -> Vec<ProbeRow> {
        let row = |wanted: &Wanted| ProbeRow {
            at: wanted.at,
            rate: wanted.probe.rate.0,
            cluster: wanted.cluster,
        };
        self.wanted.iter().map(row).collect()
    }
}
