//! The sending end: what may leave when, loss recovery and timers.

use super::algorithm::Algorithm;
use super::congestion_control::{Ack, CongestionControl, Phase, Totals, Window};
use super::pacer::Pacer;
use super::rtt::RttEstimator;
use super::scoreboard::{Acked, Found, Scoreboard};
use super::{INITIAL_WINDOW, MAX_SEGMENT_BYTES, Segment, SegmentKind};
use crate::units::{Bytes, Time};

/// RFC 8985, 7.2: a probe waits this much longer for the delayed ACK of a single segment
/// (200 ms in Linux) …
const PROBE_DELAY: Time = Time::from_millis(200);
/// … and otherwise two ticks of Linux.
const PROBE_SLACK: Time = Time::from_millis(2);
/// Linux, `tcp_rmem[2]`: 6 MiB that the receiver takes at most. Ends slow start where nothing is lost.
const RECEIVE_WINDOW_SEGMENTS: u32 = (6 << 20) / MAX_SEGMENT_BYTES as u32;

/// One connection's sender.
#[derive(Clone, Copy, Debug)]
pub struct SenderConfig {
    /// Number in its segments.
    pub connection: u32,
    /// How it controls congestion.
    pub congestion_control: Algorithm,
    /// How much it has to send; `None` never ends.
    pub size: Option<Bytes>,
    /// Its random stream.
    pub seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    Retransmission,
    Probe,
    Reordering,
}

/// Proportional rate reduction, RFC 6937.
#[derive(Clone, Copy, Debug, Default)]
struct Reduction {
    from: u32,
    delivered: u32,
    out: u32,
}

/// What to restore if the loss turns out to be none.
#[derive(Clone, Copy, Debug)]
struct Undo {
    window: Window,
    /// When the first retransmission left.
    retransmitted: Option<Time>,
}

/// Sender of one connection.
pub struct Sender {
    config: SenderConfig,
    congestion_control: Box<dyn CongestionControl>,
    window: Window,
    board: Scoreboard,
    rtt: RttEstimator,
    connected: bool,
    opening: bool,
    openings: u32,
    phase: Phase,
    /// Recovery ends when this segment is expected.
    recover: u32,
    reduction: Reduction,
    undo: Option<Undo>,
    timer: Option<(Time, Timer)>,
    /// A tail loss probe has to be sent.
    probe: bool,
    /// A tail loss probe was sent: the number of the segment that was to be sent next by then.
    probed: Option<u32>,
    pacer: Pacer,
    /// A segment waits for nothing but the pacer.
    held: bool,
    window_limited: bool,
    /// First segment that it does not have.
    end: u32,
    retransmissions: u64,
    timeouts: u64,
}

impl Sender {
    /// A sender whose first segment opens the connection.
    pub fn new(config: SenderConfig) -> Self {
        let full = u64::from(MAX_SEGMENT_BYTES);
        let segments = |size: Bytes| size.0.div_ceil(full).min(u64::from(u32::MAX)) as u32;
        Sender {
            congestion_control: config.congestion_control.start(config.seed),
            window: Window::new(INITIAL_WINDOW),
            board: Scoreboard::default(),
            rtt: RttEstimator::default(),
            connected: false,
            opening: true,
            openings: 0,
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
            retransmissions: 0,
            timeouts: 0,
            config,
        }
    }

    /// Everything was sent and acknowledged.
    pub fn is_finished(&self) -> bool {
        self.connected && self.board.una() >= self.end
    }

    /// Sends nothing new; what is in flight is still repaired.
    pub fn close(&mut self) {
        self.end = self.end.min(self.board.next());
        self.config.size = None;
    }

    /// Congestion window in segments.
    pub fn window(&self) -> Window {
        self.window
    }

    /// Smoothed round-trip time.
    pub fn smoothed_rtt(&self) -> Option<Time> {
        self.rtt.smoothed()
    }

    /// Segments sent again.
    pub fn retransmissions(&self) -> u64 {
        self.retransmissions
    }

    /// Times that the retransmission timer expired.
    pub fn timeouts(&self) -> u64 {
        self.timeouts
    }

    /// Phase of loss recovery.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// A segment of the receiver arrived.
    pub fn handle_segment(&mut self, now: Time, segment: &Segment) {
        match segment.kind {
            SegmentKind::SynAck if !self.connected => {
                self.connected = true;
                self.opening = false;
                self.timer = None;
                self.on_rtt(now.saturating_sub(segment.echo));
                // RFC 6928, 3: a lost opening says that the path is poor (Linux: more than one).
                self.window = Window::new(if self.openings > 2 { 1 } else { INITIAL_WINDOW });
                let rtt = self.rtt.smoothed().unwrap_or(Time::ZERO);
                self.congestion_control.on_connected(rtt, &self.window);
            }
            SegmentKind::Ack if self.connected => self.on_ack(now, segment),
            _ => {}
        }
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        let Some((_, timer)) = self.timer.filter(|(at, _)| *at <= now) else { return };
        self.timer = None;
        if !self.connected {
            self.opening = true;
            self.rtt.back_off();
            return;
        }
        match timer {
            Timer::Retransmission => self.on_retransmission_timeout(now),
            Timer::Probe => {
                self.probe = true;
                self.arm_retransmission(now, false);
            }
            Timer::Reordering => {
                // Linux, `tcp_rack_reo_timeout`: the window is reduced once in a recovery, which may follow
                // a timeout.
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

    /// When to call [`Sender::handle_timeout`] and [`Sender::poll`].
    pub fn poll_timeout(&self) -> Option<Time> {
        let timer = self.timer.map(|(at, _)| at);
        let paced = self.held.then_some(self.pacer.next());
        match (timer, paced) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (timer, paced) => timer.or(paced),
        }
    }

    /// The next segment that may leave by `now`.
    pub fn poll(&mut self, now: Time) -> Option<Segment> {
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
        let rate = self.congestion_control.pacing_rate();
        self.held = rate.is_some_and(|rate| !self.pacer.admits(now, rate));
        if self.held {
            return None;
        }
        Some(match lost {
            Some(seq) => self.retransmit(now, seq),
            None => self.send_new(now),
        })
    }

    fn open(&mut self, now: Time) -> Option<Segment> {
        if !std::mem::take(&mut self.opening) {
            return None;
        }
        self.openings += 1;
        self.timer = Some((now.saturating_add(self.rtt.timeout()), Timer::Retransmission));
        Some(Segment::new(self.config.connection, SegmentKind::Syn, now))
    }

    fn send_new(&mut self, now: Time) -> Segment {
        let seq = self.board.next();
        let first = self.board.outstanding() == 0;
        self.board.send_new(now);
        self.count_sent();
        if first || self.timer.is_none_or(|(_, timer)| timer != Timer::Reordering) {
            self.arm(now, first);
        }
        self.data(now, seq)
    }

    fn retransmit(&mut self, now: Time, seq: u32) -> Segment {
        self.board.retransmit(now, seq);
        self.retransmissions += 1;
        self.count_sent();
        if let Some(undo) = &mut self.undo {
            undo.retransmitted.get_or_insert(now);
        }
        // The timer runs from the last time that the first missing segment left.
        if self.timer.is_none() || seq == self.board.una() {
            self.arm_retransmission(now, true);
        }
        self.data(now, seq)
    }

    /// RFC 8985, 7.3: a new segment if there is one, else the last again.
    fn send_probe(&mut self, now: Time) -> Option<Segment> {
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

    fn data(&self, now: Time, seq: u32) -> Segment {
        let mut segment = Segment::new(self.config.connection, SegmentKind::Data, now);
        let full = u64::from(MAX_SEGMENT_BYTES);
        let left = self.config.size.map_or(full, |size| size.0 - u64::from(seq) * full);
        segment.seq = seq;
        segment.payload = left.min(full) as u16;
        segment
    }

    fn count_sent(&mut self) {
        if self.phase == Phase::Recovery {
            self.reduction.out += 1;
        }
    }

    fn on_ack(&mut self, now: Time, segment: &Segment) {
        if segment.ack > self.board.next() || segment.ack < self.board.una() {
            return;
        }
        let prior_in_flight = self.board.in_flight();
        let acked = self.board.acknowledge(now, segment);
        // RFC 7323, 4.1: of a retransmission, the echo says which copy arrived.
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
        let rate = self.board.rate.take(now, self.rtt.min);
        let found = self.detect_loss(now);
        // RFC 8985, 7.4.2, would take the repair of a last segment for a sign of congestion: nothing
        // follows it here, since there is new data to probe with until the end.
        self.probed = self.probed.filter(|end| segment.ack < *end);
        self.step_phase(segment, acked, found);
        let ack = Ack {
            now,
            acked: acked.cumulative,
            delivered: acked.delivered,
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
        } else if self.phase == Phase::Recovery {
            self.reduce(ack.delivered, ack.lost, ack.acked > 0);
        } else if ack.acked > 0 {
            self.congestion_control.on_ack(ack, &mut self.window);
        }
    }

    /// Linux: in slow start, half of the window in use is enough to let it grow.
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

    fn detect_loss(&mut self, now: Time) -> Found {
        let recovering = self.phase >= Phase::Recovery;
        let rack = &self.board.rack;
        let window = rack.window(recovering, self.board.sacked(), self.rtt.smoothed());
        let found = self.board.detect_loss(now, window);
        match found.look_again {
            Some(at) => self.timer = Some((at.max(now), Timer::Reordering)),
            None if self.timer.is_some_and(|(_, timer)| timer == Timer::Reordering) => {
                self.timer = None;
            }
            None => {}
        }
        found
    }

    fn step_phase(&mut self, segment: &Segment, acked: Acked, found: Found) {
        if acked.cumulative > 0 && self.phase >= Phase::Recovery && self.is_spurious(segment) {
            self.undo_reduction();
        }
        if self.phase != Phase::Open && self.board.una() >= self.recover {
            self.end_recovery();
        }
        let begins = match self.phase {
            Phase::Open => self.board.lost() > 0,
            Phase::Recovery => false,
            // RFC 5681, 4.3: the loss of a retransmission is a second sign of congestion.
            Phase::Loss => found.again,
        };
        if begins {
            self.begin_recovery();
        }
    }

    fn begin_recovery(&mut self) {
        self.undo = Some(self.undo());
        self.recover = self.board.next();
        self.reduction = Reduction { from: self.window.segments, delivered: 0, out: 0 };
        self.window.credit = 0;
        self.window.ssthresh = self.congestion_control.on_loss(&self.window);
        self.phase = Phase::Recovery;
    }

    /// Retransmissions of an earlier loss may still be in flight: what they bring is no proof.
    fn undo(&mut self) -> Undo {
        let retransmitted = self.board.oldest_retransmission().map(|(at, _)| at);
        Undo { window: self.window, retransmitted }
    }

    fn end_recovery(&mut self) {
        if self.phase == Phase::Recovery && !self.congestion_control.owns_window() {
            self.window.segments = self.window.ssthresh;
        }
        self.board.rack.on_recovery_end();
        self.phase = Phase::Open;
        self.undo = None;
    }

    /// RFC 4015: the acknowledgement was caused by a segment sent before the retransmission.
    fn is_spurious(&self, segment: &Segment) -> bool {
        let retransmitted = self.undo.and_then(|undo| undo.retransmitted);
        retransmitted.is_some_and(|at| segment.echo < at)
    }

    fn undo_reduction(&mut self) {
        let Some(undo) = self.undo.take() else { return };
        self.window.segments = self.window.segments.max(undo.window.segments);
        self.window.ssthresh = self.window.ssthresh.max(undo.window.ssthresh);
        self.board.forget_losses();
        self.congestion_control.on_undo();
        self.phase = Phase::Open;
    }

    /// RFC 6937, with the slow start part only when nothing more is lost, as in Linux.
    fn reduce(&mut self, delivered: u32, lost: u32, advanced: bool) {
        if self.congestion_control.owns_window() || delivered == 0 || self.reduction.from == 0 {
            return;
        }
        let (in_flight, ssthresh) = (self.board.in_flight(), self.window.ssthresh);
        let reduction = &mut self.reduction;
        reduction.delivered += delivered;
        let send = if in_flight > ssthresh {
            let share = u64::from(ssthresh) * u64::from(reduction.delivered);
            share.div_ceil(u64::from(reduction.from)) as i64 - i64::from(reduction.out)
        } else {
            let behind = i64::from(reduction.delivered) - i64::from(reduction.out);
            let grow = i64::from(advanced && lost == 0);
            i64::from(ssthresh - in_flight).min(behind.max(delivered.into()) + grow)
        };
        let least = i64::from(reduction.out == 0);
        self.window.segments = in_flight + send.max(least) as u32;
    }

    fn on_retransmission_timeout(&mut self, now: Time) {
        if self.board.outstanding() == 0 {
            return;
        }
        self.timeouts += 1;
        // RFC 5681, 4: the threshold comes down once per loss, not once per expiry.
        if self.phase < Phase::Recovery || self.board.una() > self.recover {
            self.undo = Some(self.undo());
            self.window.credit = 0;
            self.window.ssthresh = self.congestion_control.on_loss(&self.window);
        }
        self.phase = Phase::Loss;
        self.recover = self.board.next();
        self.board.mark_after_timeout(now);
        let (delivered, lost) = (self.board.rate.delivered, self.board.total_lost());
        self.congestion_control.on_timeout(&Totals { now, delivered, lost });
        self.window.segments = self.board.in_flight() + 1;
        self.rtt.back_off();
        self.probed = None;
        // The head goes at once: a timeout does not wait for the pacer.
        self.pacer.release(now);
        self.timer = Some((now.saturating_add(self.rtt.timeout()), Timer::Retransmission));
    }

    /// Sets the timer after a segment was sent or acknowledged.
    fn arm(&mut self, now: Time, anew: bool) {
        if self.board.outstanding() == 0 {
            return;
        }
        let probing =
            self.phase == Phase::Open && self.board.sacked() == 0 && self.probed.is_none();
        match self.rtt.smoothed().filter(|_| probing) {
            Some(smoothed) => {
                let alone = self.board.outstanding() == 1;
                let slack = if alone { PROBE_DELAY } else { PROBE_SLACK };
                let wait = Time(2 * smoothed.0) + slack;
                let at = (now + wait).min(self.retransmission_due(now, false));
                self.timer = Some((at, Timer::Probe));
            }
            None => self.arm_retransmission(now, anew),
        }
    }

    fn arm_retransmission(&mut self, now: Time, anew: bool) {
        if anew || self.timer.is_none_or(|(_, timer)| timer != Timer::Retransmission) {
            let at = self.retransmission_due(now, anew);
            self.timer = Some((at, Timer::Retransmission));
        }
    }

    /// A whole timeout from now, or what is left of the oldest segment's.
    fn retransmission_due(&self, now: Time, anew: bool) -> Time {
        let from = self.board.oldest_sent().filter(|_| !anew).unwrap_or(now);
        from.saturating_add(self.rtt.timeout()).max(now + PROBE_SLACK)
    }
}
