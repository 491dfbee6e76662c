//! A loop in which tests run a control: perfectly paced packets, one queue before a constant delay, and a report every
//! 25 ms that arrives one delay later.
//!
//! It follows libwebrtc's `CcFeedbackGenerator` (f3ae3eb62e, `modules/congestion_controller/scream/test`), in steps of a
//! millisecond, so that expectations of its unit tests can be repeated.

use super::control::{Controller, Feedback, PacketReport, SenderState, SentPacket};
use crate::ecn::Ecn;
use crate::packet::Kind;
use crate::units::{Bitrate, Bytes, RemoteTime, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::VecDeque;

const STEP: Time = Time::from_millis(1);
/// How long the sender remembers packets that were lost.
const REMEMBERED: Time = Time::from_secs(2);

/// How a queue marks packets that are ECN-capable.
#[derive(Clone, Copy, Debug)]
pub(super) enum Marker {
    Never,
    /// Packets that waited longer.
    Step(Time),
    /// From none of those that waited this long to all of those that waited that long.
    Ramp(Time, Time),
}

/// The path of the packets.
#[derive(Clone, Debug)]
pub(super) struct Link {
    /// From when on it has which capacity; `None` is endless.
    pub(super) capacity: Vec<(Time, Option<Bitrate>)>,
    /// In each direction.
    pub(super) delay: Time,
    pub(super) marker: Marker,
    /// Packets that may wait or be sent.
    pub(super) most_packets: usize,
    /// Wait from which on packets are dropped.
    pub(super) longest_wait: Time,
    /// Standard deviation of the delay, which reorders packets.
    pub(super) jitter: Time,
    /// Share of packets lost at random.
    pub(super) loss: f64,
}

impl Link {
    /// Endless queue, and no marks.
    pub(super) fn new(kbps: Option<u64>, delay_ms: u64) -> Self {
        Link {
            capacity: vec![(Time::ZERO, kbps.map(Bitrate::from_kbps))],
            delay: Time::from_millis(delay_ms),
            marker: Marker::Never,
            most_packets: usize::MAX,
            longest_wait: Time::MAX,
            jitter: Time::ZERO,
            loss: 0.0,
        }
    }

    fn capacity_at(&self, at: Time) -> Option<Bitrate> {
        self.capacity.iter().rev().find(|(from, _)| *from <= at).and_then(|(_, rate)| *rate)
    }
}

/// A packet on its way.
#[derive(Clone, Copy, Debug)]
struct Flying {
    sent: SentPacket,
    arrives: Time,
    ecn: Ecn,
}

/// A packet that was sent and not reported as received.
#[derive(Clone, Copy, Debug)]
struct Open {
    sent: SentPacket,
    lost: bool,
}

/// What became of packets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub(super) sent: u64,
    pub(super) dropped: u64,
    pub(super) arrived: u64,
    pub(super) marked: u64,
    /// Sum of the waits in the queue.
    pub(super) waited: Time,
    pub(super) longest: Time,
}

impl Totals {
    pub(super) fn mean_wait_ms(&self) -> f64 {
        self.waited.as_secs_f64() * 1e3 / self.arrived as f64
    }

    pub(super) fn marked_share(&self) -> f64 {
        self.marked as f64 / self.arrived as f64
    }
}

/// The loop.
pub(super) struct Loop {
    link: Link,
    packet: Bytes,
    report_interval: Time,
    pub(super) now: Time,
    pub(super) totals: Totals,
    /// Whether the control hears of ECN and of how long packets were held, as with RFC 8888.
    pub(super) rfc8888: bool,
    /// What the far end's clock shows when the call begins.
    pub(super) remote_start: Time,
    /// Whether packets wait for the control's window and pacing rate.
    pub(super) is_paced: bool,
    rng: Pcg64Mcg,
    /// Bits that were produced, and bits that the pacer may send, times nanoseconds of a second.
    budget: u64,
    pacing: u64,
    /// Packets in the pacer.
    pub(super) backlog: u64,
    budget_at: Option<Time>,
    next_seq: i64,
    queue: VecDeque<SentPacket>,
    free_at: Time,
    flying: Vec<Flying>,
    arrived: VecDeque<Flying>,
    open: VecDeque<Open>,
    highest_reported: i64,
    last_report: Option<Time>,
    reports: Vec<PacketReport>,
}

/// 8 bits of a byte times nanoseconds of a second.
const BYTE: u64 = 8_000_000_000;

impl Loop {
    pub(super) fn new(link: Link, packet: u64) -> Self {
        Loop {
            link,
            packet: Bytes(packet),
            report_interval: Time::from_millis(25),
            now: Time::ZERO,
            totals: Totals::default(),
            rfc8888: true,
            remote_start: Time::from_secs(77),
            is_paced: false,
            rng: Pcg64Mcg::seed_from_u64(1),
            budget: 0,
            pacing: 0,
            backlog: 0,
            budget_at: None,
            next_seq: 0,
            queue: VecDeque::new(),
            free_at: Time::ZERO,
            flying: Vec::new(),
            arrived: VecDeque::new(),
            open: VecDeque::new(),
            highest_reported: -1,
            last_report: None,
            reports: Vec::new(),
        }
    }

    /// The same loop with a queue that marks.
    pub(super) fn with_marker(mut self, marker: Marker) -> Self {
        self.link.marker = marker;
        self
    }

    /// Sends at this rate until the next report has arrived, but no longer than 10 s. The control hears of everything.
    pub(super) fn until_report(&mut self, control: &mut dyn Controller, rate: Bitrate) -> bool {
        let end = self.now + Time::from_secs(10);
        while self.now < end {
            self.run_timeouts(control);
            let has_sent = self.send(control, rate);
            self.transmit();
            if self.report(control) {
                return true;
            }
            if !has_sent {
                self.now += STEP;
            }
        }
        false
    }

    /// Sends at the control's target from `now` until `end`, at `start` before the first report. `look` is called after
    /// each report.
    pub(super) fn run(
        &mut self,
        control: &mut dyn Controller,
        start: Bitrate,
        end: Time,
        mut look: impl FnMut(&Self, &mut dyn Controller),
    ) {
        while self.now < end {
            let rate = match self.last_report {
                Some(_) => control.decision().target,
                None => start,
            };
            self.until_report(control, rate);
            look(self, control);
        }
    }

    fn run_timeouts(&mut self, control: &mut dyn Controller) {
        if control.poll_timeout().is_some_and(|due| due <= self.now) {
            let state = SenderState {
                queued: Bytes(self.backlog * self.packet.0),
                in_flight: self.in_flight(),
                media_rate: control.decision().target,
                ..SenderState::default()
            };
            control.on_timeout(self.now, &state).expect("a timeout");
        }
    }

    fn in_flight(&self) -> Bytes {
        let above = self.open.iter().filter(|open| open.sent.transport_seq > self.highest_reported);
        Bytes(above.map(|open| open.sent.size.0).sum())
    }

    fn send(&mut self, control: &mut dyn Controller, rate: Bitrate) -> bool {
        let cost = self.packet.0 * BYTE;
        let decision = control.decision();
        let pacing = decision.pacing_rate.unwrap_or(decision.target);
        let elapsed = self.budget_at.replace(self.now).map(|at| (self.now - at).0);
        self.budget = elapsed.map_or(cost, |elapsed| self.budget + rate.0 * elapsed);
        self.pacing = elapsed.map_or(cost, |elapsed| self.pacing + pacing.0 * elapsed);
        if self.budget >= cost {
            self.budget -= cost;
            self.backlog += 1;
        }
        let is_held = self.is_paced
            && (self.pacing < cost
                || decision.window.is_some_and(|window| self.in_flight() >= window));
        if self.backlog == 0 || is_held {
            // A pacer saves nothing but a packet.
            self.pacing = self.pacing.min(cost);
            return false;
        }
        self.pacing = self.pacing.saturating_sub(cost);
        self.backlog -= 1;
        let mut sent = SentPacket {
            transport_seq: self.next_seq,
            at: self.now,
            size: self.packet,
            kind: Kind::Video,
            probe: None,
            in_flight: Bytes::ZERO,
            ecn: decision.ecn,
        };
        self.next_seq += 1;
        self.open.push_back(Open { sent, lost: false });
        sent.in_flight = self.in_flight();
        self.totals.sent += 1;
        let waiting = self.queue.len() + usize::from(self.free_at > self.now);
        let is_lost = self.link.loss > 0.0 && self.rng.random::<f64>() < self.link.loss;
        match waiting < self.link.most_packets && self.wait() < self.link.longest_wait && !is_lost {
            true => self.queue.push_back(sent),
            false => self.totals.dropped += 1,
        }
        control.on_sent(&sent).expect("a packet");
        true
    }

    /// How long a packet that comes now will wait at the present capacity.
    fn wait(&self) -> Time {
        let queued = Bytes(self.queue.iter().map(|packet| packet.size.0).sum());
        let capacity = self.link.capacity_at(self.now);
        let ahead = capacity.and_then(|rate| rate.time_for(queued)).unwrap_or(Time::ZERO);
        ahead + self.free_at.saturating_sub(self.now)
    }

    /// Takes packets out of the queue until now.
    fn transmit(&mut self) {
        while let Some(&sent) = self.queue.front().filter(|_| self.free_at <= self.now) {
            self.queue.pop_front();
            let begins = self.free_at.max(sent.at);
            let capacity = self.link.capacity_at(begins);
            let lasts = capacity.and_then(|rate| rate.time_for(sent.size)).unwrap_or(Time::ZERO);
            self.free_at = begins + lasts;
            let waited = begins - sent.at;
            let ecn = match sent.ecn == Ecn::NotCapable || !self.is_marked(waited) {
                true => sent.ecn,
                false => Ecn::CongestionExperienced,
            };
            self.totals.waited += waited;
            self.totals.longest = self.totals.longest.max(waited);
            let arrives = self.free_at + self.delay();
            self.flying.push(Flying { sent, arrives, ecn });
        }
        let now = self.now;
        self.flying.sort_by_key(|packet| (packet.arrives, packet.sent.transport_seq));
        let landed = self.flying.iter().take_while(|packet| packet.arrives <= now).count();
        for packet in self.flying.drain(..landed) {
            self.totals.arrived += 1;
            self.totals.marked += u64::from(packet.ecn == Ecn::CongestionExperienced);
            self.arrived.push_back(packet);
        }
    }

    fn is_marked(&mut self, waited: Time) -> bool {
        match self.link.marker {
            Marker::Never => false,
            Marker::Step(threshold) => waited > threshold,
            Marker::Ramp(none, all) => {
                let share = waited.saturating_sub(none).as_secs_f64() / (all - none).as_secs_f64();
                self.rng.random::<f64>() < share
            }
        }
    }

    /// The delay of a packet; with jitter it is normal, from the sum of twelve even numbers.
    fn delay(&mut self) -> Time {
        let Link { delay, jitter, .. } = self.link;
        if jitter == Time::ZERO {
            return delay;
        }
        let normal: f64 = (0..12).map(|_| self.rng.random::<f64>()).sum::<f64>() - 6.0;
        Time::from_secs_f64(delay.as_secs_f64() + jitter.as_secs_f64() * normal)
    }

    /// The report that arrives now, if one does.
    fn report(&mut self, control: &mut dyn Controller) -> bool {
        let (now, delay) = (self.now, self.link.delay);
        let Some(first) = self.arrived.front() else { return false };
        let last = *self.last_report.get_or_insert(first.arrives + delay);
        if now.saturating_sub(last) < self.report_interval {
            return false;
        }
        self.reports.clear();
        while let Some(&packet) =
            self.arrived.front().filter(|packet| packet.arrives + delay <= now)
        {
            self.arrived.pop_front();
            let seq = packet.sent.transport_seq;
            self.highest_reported = self.highest_reported.max(seq);
            let Ok(at) = self.open.binary_search_by_key(&seq, |open| open.sent.transport_seq)
            else {
                continue;
            };
            let Some(open) = self.open.remove(at) else { continue };
            self.reports.push(PacketReport {
                sent: packet.sent,
                received: Some(RemoteTime(packet.arrives + self.remote_start)),
                ecn: self.rfc8888.then_some(packet.ecn),
                held: self.rfc8888.then(|| now - packet.arrives - delay),
                lost_before: open.lost,
            });
        }
        for open in &mut self.open {
            if open.sent.transport_seq < self.highest_reported && !open.lost {
                open.lost = true;
                let sent = open.sent;
                let lost = PacketReport {
                    sent,
                    received: None,
                    ecn: None,
                    held: None,
                    lost_before: false,
                };
                self.reports.push(lost);
            }
        }
        let highest = self.highest_reported;
        self.open.retain(|open| {
            open.sent.transport_seq > highest || now.saturating_sub(open.sent.at) <= REMEMBERED
        });
        if self.reports.is_empty() {
            return false;
        }
        self.reports.sort_by_key(|report| report.sent.transport_seq);
        self.last_report = Some(now);
        let in_flight = self.in_flight();
        let resolution = Time::from_micros(976);
        let feedback = Feedback::Packets { reports: &self.reports, in_flight, resolution };
        control.on_feedback(now, feedback).expect("a report");
        true
    }
}

/// One value that a control shows.
pub(super) fn shown(control: &dyn Controller, name: &str) -> f64 {
    let mut values = Vec::new();
    control.observe(&mut values);
    values.iter().find(|value| value.name == name).map_or(f64::NAN, |value| value.value)
}
