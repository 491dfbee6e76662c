//! Responsive flows through `DualPI2` and `CoDel`: what their laws and the coupling give together.

use super::{ms, near};
use crate::ecn::Ecn;
use crate::path::{Aqm, Capacity, Codel, Departure, DualPi2, Packet, Path, PathConfig};
use crate::units::{Bitrate, Bytes, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// How a flow reacts.
#[derive(Clone, Copy, PartialEq)]
enum Law {
    /// One packet more in each round trip, half of the window after a loss or a mark.
    Reno,
    /// One packet more in each round trip, at least 25 ms, and less in proportion to the share of marks.
    Prague,
    /// Sends at this rate, in bit/s.
    Unresponsive(u64),
}

/// Rounds of Prague are at least as long.
const VIRTUAL: f64 = 0.025;
const SIZE: Bytes = Bytes(1500);

struct Flow {
    law: Law,
    ecn: Ecn,
    window: f64,
    inside: f64,
    reduced: Time,
    /// Average share of marks, and packets and marks of this round.
    alpha: f64,
    round: (Time, f64, f64),
    delivered: u64,
    dropped: u64,
    marked: u64,
    queued: f64,
}

impl Flow {
    fn new(law: Law, ecn: Ecn) -> Self {
        let (reduced, round) = (Time::ZERO, (Time::ZERO, 0.0, 0.0));
        let (window, inside, alpha, queued) = (10.0, 0.0, 1.0, 0.0);
        let (delivered, dropped, marked) = (0, 0, 0);
        Flow { law, ecn, window, inside, reduced, alpha, round, delivered, dropped, marked, queued }
    }

    /// The far end tells what became of a packet.
    fn told(&mut self, now: Time, round_trip: f64, congested: bool, lost: bool) {
        self.inside -= 1.0;
        let is_prague = self.law == Law::Prague;
        let virtual_trip = if is_prague { round_trip.max(VIRTUAL) } else { round_trip };
        self.round.1 += 1.0;
        self.round.2 += f64::from(u8::from(congested));
        if (now - self.round.0).as_secs_f64() > virtual_trip {
            self.alpha += (self.round.2 / self.round.1 - self.alpha) / 16.0;
            self.round = (now, 0.0, 0.0);
        }
        if congested && (now - self.reduced).as_secs_f64() > virtual_trip {
            self.reduced = now;
            self.window *= if is_prague && !lost { 1.0 - self.alpha / 2.0 } else { 0.5 };
        } else if !congested {
            let slower = round_trip / virtual_trip;
            self.window += slower * slower / self.window;
        }
        self.window = self.window.max(2.0);
    }
}

/// Runs flows over a link with this base round-trip time, and returns them with what they did in the second half.
fn share(mbps: u64, base: Time, aqm: Aqm, flows: &[(Law, Ecn)], until: Time) -> Vec<Flow> {
    let capacity = Some(Capacity::Constant { bps: Bitrate::from_mbps(mbps) });
    let config = PathConfig { capacity, aqm: Some(aqm), ..PathConfig::default() };
    let mut path = Path::new(config, 1);
    let mut flows: Vec<_> = flows.iter().map(|(law, ecn)| Flow::new(*law, *ecn)).collect();
    let mut told = BinaryHeap::new();
    let mut now = Time::ZERO;
    while now < until {
        for (index, flow) in flows.iter_mut().enumerate() {
            let sent = Packet { ecn: flow.ecn, flow: index as u32, ..Packet::new(SIZE, now) };
            if let Law::Unresponsive(bps) = flow.law {
                if flow.round.0 <= now {
                    flow.round.0 += Bitrate(bps).time_for(SIZE).expect("a rate");
                    path.handle_packet(now, sent);
                }
                continue;
            }
            while flow.inside + 1.0 <= flow.window {
                flow.inside += 1.0;
                path.handle_packet(now, sent);
            }
        }
        while let Some(departure) = path.poll(now) {
            let (at, queued, packet, lost) = match departure {
                Departure::Delivered { at, queued, packet } => (at, queued, packet, false),
                Departure::Dropped { at, packet, .. } => (at, Time::ZERO, packet, true),
            };
            let flow = &mut flows[packet.flow as usize];
            if at > Time(until.0 / 2) {
                flow.dropped += u64::from(lost);
                flow.delivered += u64::from(!lost);
                flow.marked += u64::from(packet.mark.is_some());
                flow.queued += queued.as_secs_f64() * 1e3;
            }
            let congested = lost || packet.mark.is_some();
            if !matches!(flow.law, Law::Unresponsive(_)) {
                told.push(Reverse((at + base, packet.flow, packet.payload, congested, lost)));
            }
        }
        while let Some(Reverse((at, index, sent, congested, lost))) = told.peek().copied() {
            if at > now {
                break;
            }
            told.pop();
            flows[index as usize].told(now, (now - sent).as_secs_f64(), congested, lost);
        }
        let due = flows
            .iter()
            .filter(|flow| matches!(flow.law, Law::Unresponsive(_)))
            .map(|flow| flow.round.0);
        let due = due.chain(told.peek().map(|next| next.0.0)).chain(path.poll_timeout()).min();
        // What the far end has told may let a flow send at once.
        let can_send = |flow: &Flow| {
            flow.inside + 1.0 <= flow.window && !matches!(flow.law, Law::Unresponsive(_))
        };
        if !flows.iter().any(can_send) {
            now = due.expect("something goes on").max(now);
        }
    }
    flows
}

/// Rate in Mbit/s in the second half.
fn rate(flow: &Flow, until: Time) -> f64 {
    flow.delivered as f64 * SIZE.bits() as f64 / (until.as_secs_f64() / 2.0) / 1e6
}

fn part(some: u64, flow: &Flow) -> f64 {
    some as f64 / (flow.delivered + flow.dropped) as f64 * 100.0
}

#[test]
fn reno_alone_loses_what_its_law_needs_at_the_target_of_dualpi2() {
    // Packets of 1500 B. At 10 Mbit/s and 20 ms the round trip is 35 ms, the window 29.2 packets, and the law, 1.22 /
    // sqrt(p), gives p = 0.175 %; at 2 Mbit/s and 50 ms it is 10.8 packets and 1.27 %.
    let until = Time::from_secs(200);
    for (mbps, base, expected) in [(10, 20, 0.175), (2, 50, 1.27)] {
        let aqm = Aqm::DualPi2(DualPi2::default());
        let flows = share(mbps, ms(base), aqm, &[(Law::Reno, Ecn::NotCapable)], until);
        let (lost, queued) =
            (part(flows[0].dropped, &flows[0]), flows[0].queued / flows[0].delivered as f64);
        near(lost / expected, 1.0, 0.2, "loss");
        near(queued, 15.0, 3.0, "delay");
    }
}

#[test]
fn reno_and_prague_share_a_link_about_equally() {
    // Windows of 1.22 / sqrt(p_C) and 2 / p_CL with p_CL = 2 sqrt(p_C), round trips of base + 15 ms and of base, or at
    // least 25 ms for the law of Prague. At 10 Mbit/s for two flows and 20 ms: 4.7 to 5.3 Mbit/s with p_CL 18 %; with
    // 50 ms 4.8 to 5.2 and 9.3 %; at 20 Mbit/s and 20 ms 9.3 to 10.7 and 9.0 %. Five of each, so that the probability
    // is about the same at all times; coupled marks alone, because packets that are not paced would be marked for
    // their own queue as well.
    let (step_min_ns, step_max_ns) = (ms(1_000), ms(1_000));
    let coupled = Aqm::DualPi2(DualPi2 { step_min_ns, step_max_ns, ..DualPi2::default() });
    let until = Time::from_secs(60);
    for (mbps, base, expected, marks) in
        [(10, 20, 4.7, 18.0), (10, 50, 4.8, 9.3), (20, 20, 9.3, 9.0)]
    {
        let both = [(Law::Reno, Ecn::NotCapable), (Law::Prague, Ecn::Ect1)].repeat(5);
        let flows = share(5 * mbps, ms(base), coupled, &both, until);
        let of = |law| flows.iter().filter(move |flow| flow.law == law);
        let mean_rate = |law| of(law).map(|flow| rate(flow, until)).sum::<f64>() / 5.0;
        let (classic, l4s) = (mean_rate(Law::Reno), mean_rate(Law::Prague));
        let marked = of(Law::Prague).map(|flow| part(flow.marked, flow)).sum::<f64>() / 5.0;
        near(classic / expected, 1.0, 0.25, "rate of the classic flows");
        near(marked / marks, 1.0, 0.25, "marks");
        assert!(of(Law::Prague).all(|flow| flow.dropped == 0));
        assert!(classic + l4s > 0.95 * mbps as f64, "the link is full");
    }
}

#[test]
fn an_unresponsive_load_that_codel_marks_takes_the_whole_link_from_a_flow_that_it_drops() {
    let codel = Aqm::Codel(Codel { ecn: true, ..Codel::default() });
    let until = Time::from_secs(120);
    let both = [(Law::Reno, Ecn::NotCapable), (Law::Unresponsive(10_000_000), Ecn::Ect0)];
    let flows = share(10, ms(20), codel, &both, until);
    let (reno, load) = (rate(&flows[0], until), rate(&flows[1], until));
    assert!(load / (reno + load) > 0.99, "{reno} {load}");
}
