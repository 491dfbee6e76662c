//! The sender of a connection: what may leave when, loss recovery, and timers.

mod ecn;
mod recovery;
mod timers;

use super::algorithm::Algorithm;
use super::congestion_control::{Ack, CongestionControl, CongestionWindow, Marks, Phase};
use super::pacer::Pacer;
use super::receiver::RECEIVE_WINDOW_SEGMENTS;
use super::rtt::RttEstimator;
use super::scoreboard::Scoreboard;
use super::{INITIAL_WINDOW, MAX_SEGMENT_BYTES, Segment, SegmentKind};
use crate::ecn::Ecn;
use crate::units::{Bytes, Time};
use ecn::SenderEcn;
use recovery::{Reduction, Undo};
use std::collections::VecDeque;
use timers::Timer;

/// Linux, `tcp_syn_linear_timeouts` (since 6.5): how many timeouts of an opening do not double the next one.
const LINEAR_OPENINGS: u32 = 4;

/// Configuration of a sender.
#[derive(Clone, Copy, Debug)]
pub struct SenderConfig {
    /// Number of the connection, which its segments carry.
    pub connection: u32,
    /// Congestion control.
    pub congestion_control: Algorithm,
    /// Whether to use classic ECN, if [that is a choice](Algorithm::may_use_ecn).
    pub ecn: bool,
    /// Amount of data to send. `None` sends without end.
    pub size: Option<Bytes>,
    /// Seed of the congestion control.
    pub seed: u64,
}

/// Sender of one connection.
pub struct TcpSender {
    config: SenderConfig,
    congestion_control: Box<dyn CongestionControl>,
    window: CongestionWindow,
    board: Scoreboard,
    rtt: RttEstimator,
    connected: bool,
    opening: bool,
    openings: u32,
    ecn: SenderEcn,
    phase: Phase,
    /// Recovery ends when all segments below this one are acknowledged, and a reduction without loss with this one.
    recover: u32,
    reduction: Reduction,
    undo: Option<Undo>,
    timer: Option<(Time, Timer)>,
    /// Whether a tail loss probe is due.
    probe: bool,
    /// Set while a tail loss probe is unacknowledged: number of the segment after the last one sent.
    probed: Option<u32>,
    pacer: Pacer,
    /// Whether a segment waits only for the pacer.
    held: bool,
    window_limited: bool,
    /// Number of the segment after the last one to send.
    end: u32,
    /// Payloads of the segments of written messages that are not acknowledged. Empty if the data have one size.
    written: VecDeque<u16>,
    /// Number of timeouts of the opening that do not double the next one.
    linear_openings: u32,
    retransmissions: u64,
    timeouts: u64,
}

impl TcpSender {
    /// Creates a sender whose first segment opens the connection.
    pub fn new(config: SenderConfig) -> Self {
        let full = u64::from(MAX_SEGMENT_BYTES);
        let segments = |size: Bytes| size.0.div_ceil(full).min(u64::from(u32::MAX)) as u32;
        TcpSender {
            congestion_control: config.congestion_control.start(config.seed),
            window: CongestionWindow::new(INITIAL_WINDOW),
            board: Scoreboard::default(),
            rtt: RttEstimator::default(),
            connected: false,
            opening: true,
            openings: 0,
            ecn: SenderEcn::new(config.congestion_control.ecn(config.ecn)),
            phase: Phase::Open,
            recover: 0,
            reduction: Reduction::default(),
            undo: None,
            timer: None,
            probe: false,
            probed: None,
            pacer: Pacer::default(),
            held: false,
            window_limited: false,
            end: config.size.map_or(u32::MAX, segments),
            written: VecDeque::new(),
            linear_openings: 0,
            retransmissions: 0,
            timeouts: 0,
            config,
        }
    }

    /// Creates a sender of messages, which are written one by one.
    pub(super) fn of_messages(connection: u32) -> Self {
        let congestion_control = Algorithm::Cubic;
        let size = Some(Bytes(0));
        let config = SenderConfig { connection, congestion_control, ecn: false, size, seed: 0 };
        TcpSender { linear_openings: LINEAR_OPENINGS, ..TcpSender::new(config) }
    }

    /// Appends a message; returns the number of its last segment. A message begins a new segment, as
    /// with the option TCP_NODELAY.
    pub(super) fn write(&mut self, message: Bytes) -> u32 {
        let full = u64::from(MAX_SEGMENT_BYTES);
        let mut left = message.0.max(1);
        while left > 0 {
            let payload = left.min(full);
            self.written.push_back(payload as u16);
            left -= payload;
        }
        self.end = self.board.una() + self.written.len() as u32;
        self.end - 1
    }

    /// Whether a new segment could leave now.
    pub(super) fn has_room(&self) -> bool {
        self.connected && self.board.in_flight() < self.window.segments
    }

    /// Segments of written messages that it keeps.
    #[cfg(test)]
    pub(super) fn written(&self) -> usize {
        self.written.len()
    }

    /// Number of the first segment that is not acknowledged.
    pub(super) fn una(&self) -> u32 {
        self.board.una()
    }

    /// Whether the connection is open.
    pub(super) fn is_connected(&self) -> bool {
        self.connected
    }

    /// Begins to send on a connection that the far end has opened; `rtt` is the round trip of its opening.
    pub(super) fn accept(&mut self, rtt: Time) {
        if !self.connected {
            self.on_connected(rtt);
        }
    }

    /// Whether everything has been sent and acknowledged.
    pub fn is_finished(&self) -> bool {
        self.connected && self.board.una() >= self.end
    }

    /// Stops sending new data. Segments in flight are still repaired.
    pub fn close(&mut self) {
        self.end = self.end.min(self.board.next());
        self.config.size = None;
    }

    /// Congestion window in segments.
    pub fn window(&self) -> CongestionWindow {
        self.window
    }

    /// Smoothed round-trip time.
    pub fn smoothed_rtt(&self) -> Option<Time> {
        self.rtt.smoothed()
    }

    /// Number of segments sent again.
    pub fn retransmissions(&self) -> u64 {
        self.retransmissions
    }

    /// Number of times that the retransmission timer expired.
    pub fn timeouts(&self) -> u64 {
        self.timeouts
    }

    /// Phase of loss recovery.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Handles a segment from the receiver.
    pub fn handle_segment(&mut self, now: Time, segment: &Segment) {
        match segment.kind {
            SegmentKind::SynAck if !self.connected => {
                self.ecn.on_answer(segment);
                self.on_connected(now.saturating_sub(segment.echo));
            }
            SegmentKind::Ack if self.connected => self.on_ack(now, segment),
            _ => {}
        }
    }

    /// Acts on an expired timer.
    pub fn handle_timeout(&mut self, now: Time) {
        let Some((_, timer)) = self.timer.filter(|(at, _)| *at <= now) else { return };
        self.timer = None;
        if !self.connected {
            self.opening = true;
            if self.openings > self.linear_openings {
                self.rtt.back_off();
            }
            return;
        }
        match timer {
            Timer::Retransmission => self.on_retransmission_timeout(now),
            Timer::Probe => {
                self.probe = true;
                self.arm_retransmission(now, false);
            }
            Timer::Reordering => {
                // Linux, `tcp_rack_reo_timeout`: the window is reduced once per recovery. The recovery may
                // follow a timeout.
                if self.detect_loss(now).lost > 0 && self.phase != Phase::Recovery {
                    self.begin_recovery();
                    self.reduce(1, 0, false);
                }
                if self.timer.is_none() {
                    self.arm_retransmission(now, false);
                }
            }
        }
    }

    /// When to call [`TcpSender::handle_timeout`] and [`TcpSender::poll`].
    pub fn poll_timeout(&self) -> Option<Time> {
        let timer = self.timer.map(|(at, _)| at);
        let paced = self.held.then_some(self.pacer.next());
        match (timer, paced) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (timer, paced) => timer.or(paced),
        }
    }

    /// The next segment that may leave by `now`, and its codepoint.
    pub fn poll(&mut self, now: Time) -> Option<(Segment, Ecn)> {
        if !self.connected {
            return self.open(now);
        }
        if std::mem::take(&mut self.probe) {
            return self.send_probe(now);
        }
        self.held = false;
        let room = self.board.in_flight() < self.window.segments;
        let lost = self.board.next_lost();
        let new =
            self.board.next() < self.end && self.board.outstanding() < RECEIVE_WINDOW_SEGMENTS;
        if lost.is_none() && !new {
            self.window_limited = !room;
            if room {
                self.board.rate.limit_by_application(self.board.in_flight());
            }
            return None;
        }
        if !room {
            self.window_limited = true;
            return None;
        }
        self.held = self.congestion_control.pacing_rate().is_some_and(|rate| {
            let burst = self.congestion_control.burst(rate);
            !self.pacer.admits(now, rate, burst)
        });
        if self.held {
            // The pacer follows the window.
            self.window_limited = true;
            return None;
        }
        Some(match lost {
            Some(seq) => self.retransmit(now, seq),
            None => self.send_new(now),
        })
    }

    fn on_connected(&mut self, rtt: Time) {
        self.connected = true;
        self.opening = false;
        self.timer = None;
        self.on_rtt(rtt);
        // RFC 6928, 3: the window begins at one segment if the SYN was lost (in Linux, more than once).
        self.window = CongestionWindow::new(if self.openings > 2 { 1 } else { INITIAL_WINDOW });
        let rtt = self.rtt.smoothed().unwrap_or(Time::ZERO);
        self.congestion_control.on_connected(rtt, &self.window);
    }

    fn open(&mut self, now: Time) -> Option<(Segment, Ecn)> {
        if !std::mem::take(&mut self.opening) {
            return None;
        }
        self.openings += 1;
        self.timer = Some((now.saturating_add(self.rtt.timeout()), Timer::Retransmission));
        let mut segment = Segment::new(self.config.connection, SegmentKind::Syn, now);
        segment.ecn = self.ecn.ask(self.openings == 1);
        Some((segment, Ecn::NotCapable))
    }

    fn send_new(&mut self, now: Time) -> (Segment, Ecn) {
        let seq = self.board.next();
        let first = self.board.outstanding() == 0;
        self.board.send_new(now);
        self.count_sent();
        if first || self.timer.is_none_or(|(_, timer)| timer != Timer::Reordering) {
            self.arm(now, first);
        }
        self.data(now, seq, true)
    }

    fn retransmit(&mut self, now: Time, seq: u32) -> (Segment, Ecn) {
        self.board.retransmit(now, seq);
        self.retransmissions += 1;
        self.count_sent();
        if let Some(undo) = &mut self.undo {
            undo.retransmitted.get_or_insert(now);
        }
        // The timer runs from the last transmission of the first missing segment.
        if self.timer.is_none() || seq == self.board.una() {
            self.arm_retransmission(now, true);
        }
        self.data(now, seq, false)
    }

    /// Sends a probe: a new segment if there is one, else the last one again (RFC 8985, 7.3).
    fn send_probe(&mut self, now: Time) -> Option<(Segment, Ecn)> {
        if self.board.outstanding() == 0 || self.probed.is_some() {
            return None;
        }
        let new = self.board.next() < self.end;
        let segment = if new {
            let segment = self.send_new(now);
            self.arm_retransmission(now, true);
            segment
        } else {
            self.retransmit(now, self.board.next() - 1)
        };
        self.probed = Some(self.board.next());
        Some(segment)
    }

    fn data(&mut self, now: Time, seq: u32, is_new: bool) -> (Segment, Ecn) {
        let mut segment = Segment::new(self.config.connection, SegmentKind::Data, now);
        let full = u64::from(MAX_SEGMENT_BYTES);
        let left =
            self.config.size.map_or(full, |size| size.0.saturating_sub(u64::from(seq) * full));
        segment.seq = seq;
        let written = self.written.get((seq - self.board.una()) as usize);
        segment.payload = written.copied().unwrap_or(left.min(full) as u16);
        let ecn = self.ecn.mark_outgoing(&mut segment, is_new);
        (segment, ecn)
    }

    fn count_sent(&mut self) {
        if self.is_reducing() {
            self.reduction.out += 1;
        }
    }

    fn on_ack(&mut self, now: Time, segment: &Segment) {
        if segment.ack > self.board.next() || segment.ack < self.board.una() {
            return;
        }
        let prior_in_flight = self.board.in_flight();
        let acked = self.board.acknowledge(now, segment);
        self.written.drain(..self.written.len().min(acked.cumulative as usize));
        // RFC 7323, 4.1: the echo tells which copy of a retransmitted segment arrived.
        let echoed = (acked.cumulative > 0).then(|| now.saturating_sub(segment.echo));
        let newest_rtt = acked.newest_rtt.or(echoed);
        if let Some(rtt) = acked.oldest_rtt.or(echoed) {
            self.on_rtt(rtt);
        }
        if let Some(rtt) = newest_rtt {
            self.on_min_rtt(rtt);
        }
        if segment.duplicate {
            self.board.rack.on_duplicate(self.board.una(), self.board.next());
        }
        let marked = self.ecn.marks(segment, acked.delivered);
        if self.ecn.is_accurate() {
            let (una, next) = (self.board.una(), self.board.next());
            let delivered = acked.delivered;
            self.congestion_control.on_marks(&Marks { now, delivered, marked, una, next });
        }
        let rate = self.board.rate.take(now, self.rtt.min);
        let found = self.detect_loss(now);
        // RFC 8985, 7.4.2 treats a loss that a probe repaired as congestion. That is left out: until the end
        // there is new data to probe with, and after the last segment nothing more is sent.
        self.probed = self.probed.filter(|end| segment.ack < *end);
        self.step_phase(segment, acked, found, marked);
        let ack = Ack {
            now,
            acked: acked.cumulative,
            delivered: acked.delivered,
            marked,
            total_delivered: self.board.rate.delivered,
            lost: found.lost,
            total_lost: self.board.total_lost(),
            rtt: newest_rtt,
            smoothed_rtt: self.rtt.smoothed(),
            rate,
            prior_in_flight,
            in_flight: self.board.in_flight(),
            una: self.board.una(),
            next: self.board.next(),
            next_departure: self.pacer.next(),
            window_limited: self.is_window_limited(prior_in_flight),
            phase: self.phase,
        };
        self.control(&ack);
        if acked.delivered > 0 && self.timer.is_none_or(|(_, timer)| timer != Timer::Reordering) {
            self.arm(now, acked.cumulative > 0);
        }
        if self.board.outstanding() == 0 {
            self.timer = None;
        }
    }

    fn control(&mut self, ack: &Ack) {
        if let Some(rtt) = ack.rtt {
            self.congestion_control.on_rtt(ack, rtt, &mut self.window);
        }
        if self.congestion_control.owns_window() {
            self.congestion_control.on_ack(ack, &mut self.window);
            if self.congestion_control.limits_itself() {
                self.board.rate.limit_by_application(ack.in_flight);
            }
        } else if self.is_reducing() {
            self.reduce(ack.delivered, ack.lost, ack.acked > 0);
        } else if ack.acked > 0 {
            self.congestion_control.on_ack(ack, &mut self.window);
        }
    }

    /// Whether the window is being reduced in proportion to what arrives.
    fn is_reducing(&self) -> bool {
        matches!(self.phase, Phase::Reducing | Phase::Recovery)
    }

    /// Whether the window may grow. In slow start, Linux requires only half of the window to be in use.
    fn is_window_limited(&self, prior_in_flight: u32) -> bool {
        self.window_limited
            || (self.window.in_slow_start() && self.window.segments < 2 * prior_in_flight)
    }

    fn on_rtt(&mut self, rtt: Time) {
        self.rtt.sample(rtt);
        self.on_min_rtt(rtt);
    }

    fn on_min_rtt(&mut self, rtt: Time) {
        let min = self.rtt.min.map_or(rtt, |min| min.min(rtt));
        self.rtt.min = Some(min);
        self.board.rack.min_rtt = Some(min);
    }
}
