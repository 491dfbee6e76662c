//! Any network against a simple one that takes an event for each path that a packet leaves.

use super::*;
use crate::ecn::Ecn;
use crate::path::{
    Aqm, Capacity, Clock, Codel, DualPi2, EcnTreatment, FqCodel, Jitter, Loss, LossPosition,
    LossTrace, Mark, Pie, QueueLimit, Radio, Step as StepMarking, TraceStart, Wifi,
};
use crate::units::{Bitrate, Bytes};
use proptest::option::weighted;

/// Number of paths of a network.
const PATHS: usize = 5;
/// Share of the paths that have something out of the ordinary.
const SELDOM: f64 = 0.12;

/// What came out: when, the packet's number, the path on which it was dropped and why, its queuing delay, codepoint and
/// mark.
type Outcome = (Time, u32, Option<(PathId, DropCause)>, (Time, Ecn, Option<Mark>));

/// Number of flows; packets of a flow are sent with the same codepoint.
const FLOWS: u32 = 3;

fn numbered<P>(size: Bytes, id: u32, payload: P) -> Packet<P> {
    let (flow, ecn) = (id % FLOWS, Ecn::from_bits((id % FLOWS) as u8));
    Packet { flow, ecn, ..Packet::new(size, payload) }
}

/// A packet on its way: its route, which path of it, how long it was queued, and its number.
type Travelling = (usize, usize, Time, u32);

/// A network that searches all of its paths: the earliest departure comes first, and of several the one on the path
/// with the lowest index.
struct Simple {
    paths: Vec<Path<Travelling>>,
    routes: Vec<Vec<usize>>,
    transparent: Vec<bool>,
    ready: VecDeque<(Time, u32, Ecn)>,
}

impl Simple {
    fn new(configs: &[PathConfig], routes: &[Vec<usize>]) -> Self {
        let path = |(config, index): (&PathConfig, u64)| {
            Path::new(config.clone(), derive_seed(1, index)).at_index(index as u32)
        };
        let paths: Vec<_> = configs.iter().zip(0..).map(path).collect();
        let transparent = paths.iter().map(Path::is_transparent).collect();
        Simple { paths, routes: routes.to_vec(), transparent, ready: VecDeque::new() }
    }

    /// Puts a packet on the next path; returns `false` if it is at its destination.
    fn enter(&mut self, now: Time, mut packet: Packet<Travelling>) -> bool {
        let (route, hop, ..) = &mut packet.payload;
        while self.routes[*route].get(*hop).is_some_and(|path| self.transparent[*path]) {
            *hop += 1;
        }
        let path = self.routes[*route].get(*hop).copied();
        path.inspect(|path| self.paths[*path].handle_packet(now, packet)).is_some()
    }

    fn earliest(&self) -> (Time, usize) {
        let due = |path: &Path<_>| path.poll_timeout().unwrap_or(Time::MAX);
        let due = self.paths.iter().map(due).zip(0..);
        due.min().unwrap_or((Time::MAX, 0))
    }
}

/// What a test does with a network.
trait Driven {
    fn send(&mut self, now: Time, route: usize, size: Bytes, id: u32);
    fn change(&mut self, now: Time, path: usize, config: PathConfig);
    fn next(&mut self, now: Time) -> Option<Outcome>;
    fn due(&self) -> Option<Time>;
    /// Number of packets inside.
    fn inside(&self) -> usize;
}

impl Driven for Simple {
    fn send(&mut self, now: Time, route: usize, size: Bytes, id: u32) {
        if !self.enter(now, numbered(size, id, (route, 0, Time::ZERO, id))) {
            self.ready.push_back((now, id, numbered(size, id, ()).ecn));
        }
    }

    fn change(&mut self, now: Time, path: usize, config: PathConfig) {
        self.paths[path].set_config(now, config);
        self.transparent[path] = self.paths[path].is_transparent();
    }

    fn next(&mut self, now: Time) -> Option<Outcome> {
        loop {
            let (at, index) = self.earliest();
            let ready = self.ready.front().map_or(Time::MAX, |next| next.0);
            if at.min(ready) > now {
                return None;
            }
            if ready < at {
                return self
                    .ready
                    .pop_front()
                    .map(|(at, id, ecn)| (at, id, None, (Time::ZERO, ecn, None)));
            }
            match self.paths[index].poll(at) {
                None => {}
                Some(Departure::Dropped { at, cause, packet }) => {
                    let place = Some((PathId(index as u32), cause));
                    return Some((
                        at,
                        packet.payload.3,
                        place,
                        (Time::ZERO, packet.ecn, packet.mark),
                    ));
                }
                Some(Departure::Delivered { at, queued, mut packet }) => {
                    packet.payload.1 += 1;
                    packet.payload.2 += queued;
                    if !self.enter(at, packet) {
                        let (.., queued, id) = packet.payload;
                        return Some((at, id, None, (queued, packet.ecn, packet.mark)));
                    }
                }
            }
        }
    }

    fn due(&self) -> Option<Time> {
        let ready = self.ready.front().map_or(Time::MAX, |next| next.0);
        Some(self.earliest().0.min(ready)).filter(|at| *at < Time::MAX)
    }

    fn inside(&self) -> usize {
        self.paths.iter().map(Path::pending).sum::<usize>() + self.ready.len()
    }
}

impl Driven for Network<u32> {
    fn send(&mut self, now: Time, route: usize, size: Bytes, id: u32) {
        let [from, to] = [route, route + 1].map(|node| NodeId(node as u32));
        self.handle_packet(now, from, to, numbered(size, id, id)).expect("a route");
    }

    fn change(&mut self, now: Time, path: usize, config: PathConfig) {
        self.set_config(now, PathId(path as u32), config);
    }

    fn next(&mut self, now: Time) -> Option<Outcome> {
        Some(match self.poll(now)? {
            NetworkEvent::Delivered { at, queued, packet, .. } => {
                (at, packet.payload, None, (queued, packet.ecn, packet.mark))
            }
            NetworkEvent::Dropped { at, path, cause, packet } => {
                (at, packet.payload, Some((path, cause)), (Time::ZERO, packet.ecn, packet.mark))
            }
        })
    }

    fn due(&self) -> Option<Time> {
        self.poll_timeout()
    }

    fn inside(&self) -> usize {
        let on_paths: usize = self.paths.iter().map(Path::pending).sum();
        let between: usize = self.ingress.iter().map(Ingress::len).sum();
        on_paths + between + self.ready.len()
    }
}

fn network(configs: &[PathConfig], routes: &[Vec<usize>]) -> Network<u32> {
    let nodes = (0..=routes.len()).map(|node| node.to_string()).collect();
    let routes = routes.iter().enumerate().map(|(from, paths)| RouteConfig {
        from: from.to_string(),
        to: (from + 1).to_string(),
        paths: paths.iter().map(usize::to_string).collect(),
    });
    let named = configs.iter().enumerate();
    let named = named.map(|(index, path)| PathConfig { name: index.to_string(), ..path.clone() });
    let config = NetworkConfig { nodes, paths: named.collect(), routes: routes.collect() };
    Network::new(config, 1).expect("valid")
}

/// One step of a test.
#[derive(Clone, Debug)]
enum Step {
    /// Sends a packet on a route; the number wraps around at the number of routes.
    Send(usize, Bytes),
    /// Gives a path another configuration.
    Change(usize, Box<PathConfig>),
}

/// Takes the steps, and lets every packet that is delivered answer itself at once, up to `ANSWERS` packets in all.
/// Returns what came out, and the number of packets sent.
fn drive<N: Driven>(
    mut network: N,
    routes: usize,
    steps: &[(Time, Step)],
    at_timeouts: bool,
) -> (Vec<Outcome>, u32) {
    const ANSWERS: u32 = 200;
    const END: Time = Time::from_secs(5);
    let (mut out, mut sent) = (Vec::new(), 0);
    let mut drain = |network: &mut N, sent: &mut u32, now| {
        // At its timeouts, as the simulator does, or whenever it likes, as the emulator does.
        let next = |network: &N| {
            if at_timeouts { network.due().filter(|at| *at <= now) } else { Some(now) }
        };
        while let Some(until) = next(network) {
            while let Some(outcome) = network.next(until) {
                let (at, id, dropped, _) = outcome;
                if dropped.is_none() && *sent < ANSWERS {
                    network.send(at, (id as usize * 7 + 1) % routes, Bytes(125), *sent);
                    *sent += 1;
                }
                out.push(outcome);
                assert_eq!(network.inside() + out.len(), *sent as usize, "all are accounted for");
            }
            assert!(network.due().is_none_or(|at| at > until), "stands still at {until}");
            if until == now {
                return;
            }
        }
    };
    for (now, step) in steps {
        drain(&mut network, &mut sent, *now);
        match step.clone() {
            Step::Send(route, size) => {
                network.send(*now, route % routes, size, sent);
                sent += 1;
            }
            Step::Change(path, config) => network.change(*now, path, *config),
        }
    }
    drain(&mut network, &mut sent, END);
    (out, sent)
}

/// Times of whole milliseconds: 125 B take 1 ms at 1 Mbit/s. So much happens at the same moment.
fn ms(ms: u64) -> Time {
    Time::from_millis(ms)
}

fn capacity() -> impl Strategy<Value = Option<Capacity>> {
    let mbps = Bitrate::from_mbps;
    let steps = vec![(ms(0), mbps(1)), (ms(7), Bitrate::ZERO), (ms(12), mbps(2))];
    let times = [2, 3, 3, 7].map(ms).into();
    prop_oneof![
        2 => Just(None),
        4 => (1u64..4).prop_map(move |rate| Some(Capacity::Constant { bps: mbps(rate) })),
        1 => Just(Some(Capacity::Constant { bps: Bitrate::ZERO })),
        1 => Just(Some(Capacity::Steps { steps })),
        1 => Just(Some(Capacity::Opportunities { times, period: ms(10), bytes: Bytes(250) })),
    ]
}

fn queue() -> impl Strategy<Value = Option<QueueLimit>> {
    prop_oneof![
        Just(None),
        (0u64..12).prop_map(|limit| Some(QueueLimit::Packets(limit))),
        (0u64..1_500).prop_map(|limit| Some(QueueLimit::Bytes(Bytes(limit)))),
        (0u64..12).prop_map(|limit| Some(QueueLimit::Time(ms(limit)))),
    ]
}

/// Disciplines that drop and mark after some milliseconds. With two queues, packets of a flow that were marked before
/// overtake others.
fn aqm(reorder: bool) -> impl Strategy<Value = Aqm> {
    let (target_ns, interval_ns, update_ns, ce_threshold_ns) = (ms(1), ms(4), ms(3), Some(ms(5)));
    let codel = move |ecn| Codel { target_ns, interval_ns, ecn, ce_threshold_ns };
    let fq_codel = move |flows| FqCodel {
        flows,
        quantum: Bytes(300),
        target_ns,
        interval_ns,
        drop_batch: 2,
        ..FqCodel::default()
    };
    let pie =
        Pie { target_ns, update_ns, max_burst_ns: ms(0), alpha: 10.0, ecn: true, ..Pie::default() };
    let dual = DualPi2 { target_ns, update_ns, alpha: 10.0, ..DualPi2::default() };
    prop_oneof![
        any::<bool>().prop_map(move |ecn| Aqm::Codel(codel(ecn))),
        (1u32..9).prop_map(move |flows| Aqm::FqCodel(fq_codel(flows))),
        Just(Aqm::Pie(pie)),
        any::<bool>().prop_map(move |two| match reorder && two {
            true => Aqm::DualPi2(dual),
            false => Aqm::Step(StepMarking { threshold_ns: ms(2), only_ect1: two }),
        }),
    ]
}

fn treatment() -> impl Strategy<Value = EcnTreatment> {
    prop_oneof![
        8 => Just(EcnTreatment::Keep),
        1 => Just(EcnTreatment::Bleach),
        1 => Just(EcnTreatment::Mangle),
    ]
}

fn delay() -> impl Strategy<Value = Delay> {
    let steps = vec![(ms(0), ms(3)), (ms(10), ms(1))];
    let (shape, start_ns, end_ns) = (crate::path::RampShape::Linear, ms(5), ms(25));
    prop_oneof![
        6 => (0u64..6).prop_map(|delay| Delay::Constant { ns: ms(delay) }),
        1 => Just(Delay::Steps { steps }),
        1 => Just(Delay::Ramp { shape, start_ns, end_ns, from_ns: ms(4), to_ns: ms(1) }),
    ]
}

fn wifi() -> impl Strategy<Value = Wifi> {
    let good = Radio { bps: Bitrate::from_mbps(6), error: 0.5 };
    let (mean_good_ns, mean_fade_ns) = (ms(10), ms(2));
    (1u8..4, any::<bool>()).prop_map(move |(attempts, adaptive)| {
        let fade = Radio { error: 0.9, ..good };
        Wifi { attempts, adaptive, good, fade, mean_good_ns, mean_fade_ns }
    })
}

fn config(reorder: bool) -> impl Strategy<Value = PathConfig> {
    let jitter = any::<bool>()
        .prop_map(move |reorders| Jitter { sd_ns: ms(1), reorder: reorder && reorders });
    let clock = Just(Clock { wander: 0.05, correlation_ns: ms(10) });
    let tick = (1u64..3).prop_map(ms);
    let box_ = (weighted(SELDOM, jitter), weighted(SELDOM, tick), weighted(SELDOM, clock));
    let trace = Just(LossTrace { runs: vec![2, 1, 3, 2], start: TraceStart::Random });
    let random = Just(Loss::independent(0.3));
    let position = prop_oneof![Just(LossPosition::Wire), Just(LossPosition::Queue)];
    let loss = (weighted(SELDOM, random), any::<bool>(), weighted(SELDOM, trace), position);
    let queue = (queue(), weighted(0.4, aqm(reorder)), treatment());
    let link = (capacity(), queue, delay(), weighted(SELDOM, wifi()));
    (link, loss, box_).prop_map(|(link, loss, (jitter, tick_ns, clock))| {
        let (capacity, (queue, aqm, ecn), delay, wifi) = link;
        let aqm = aqm.filter(|_| capacity.is_some() || wifi.is_some());
        let (loss, stepped, trace, loss_position) = loss;
        let later = loss.filter(|_| stepped).map(|_| (ms(20), Loss::independent(0.1)));
        PathConfig {
            name: String::new(),
            capacity,
            wifi,
            queue,
            aqm,
            ecn,
            delay,
            jitter,
            loss,
            loss_steps: later.into_iter().collect(),
            loss_trace: trace.filter(|_| loss.is_none()),
            loss_position,
            tick_ns,
            clock,
        }
    })
}

fn configs(reorder: bool) -> impl Strategy<Value = Vec<PathConfig>> {
    vec(config(reorder), PATHS)
}

fn routes() -> impl Strategy<Value = Vec<Vec<usize>>> {
    vec(vec(0..PATHS, 1..5), 1..6)
}

fn steps(reorder: bool) -> impl Strategy<Value = Vec<(Time, Step)>> {
    let step = prop_oneof![
        20 => (0usize..100, 1u64..3).prop_map(|(route, size)| Step::Send(route, Bytes(125 * size))),
        1 => (0..PATHS, config(reorder)).prop_map(|(path, config)| Step::Change(path, Box::new(config))),
    ];
    vec(((0u64..60).prop_map(ms), step), 1..80).prop_map(|mut steps| {
        steps.sort_by_key(|(at, _)| *at);
        steps
    })
}

proptest! {
    #[test]
    fn a_network_does_what_one_with_an_event_for_each_path_does(
        configs in configs(true), routes in routes(), steps in steps(true), at_timeouts: bool,
    ) {
        let (expected, _) = drive(Simple::new(&configs, &routes), routes.len(), &steps, at_timeouts);
        let (found, _) = drive(network(&configs, &routes), routes.len(), &steps, at_timeouts);
        let first = found.iter().zip(&expected).find(|(found, expected)| found != expected);
        prop_assert_eq!(first, None);
        prop_assert_eq!(found.len(), expected.len());
    }

    #[test]
    fn each_packet_comes_out_once_and_time_never_goes_back(
        configs in configs(true), routes in routes(), steps in steps(true), at_timeouts: bool,
    ) {
        let (out, sent) = drive(network(&configs, &routes), routes.len(), &steps, at_timeouts);
        let back = out.windows(2).find(|pair| pair[1].0 < pair[0].0);
        prop_assert_eq!(back, None);
        let mut ids: Vec<u32> = out.iter().map(|(_, id, ..)| *id).collect();
        ids.sort_unstable();
        prop_assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "{ids:?}");
        prop_assert!(ids.last().is_none_or(|last| *last < sent));
    }

    #[test]
    fn packets_of_a_flow_keep_their_order_where_no_path_reorders(
        configs in configs(false), route in vec(0..PATHS, 1..5), steps in steps(false),
    ) {
        let (out, _) = drive(network(&configs, &[route]), 1, &steps, true);
        for flow in 0..FLOWS {
            let of_flow = out.iter().filter(|(_, id, dropped, _)| dropped.is_none() && id % FLOWS == flow);
            prop_assert!(of_flow.map(|(_, id, ..)| id).is_sorted());
        }
    }

    #[test]
    fn who_wakes_for_outputs_alone_is_late_for_none_of_any_network(
        configs in configs(true), routes in routes(), steps in steps(true),
    ) {
        let mut network = network(&configs, &routes);
        let (mut wakes, mut sent) = (0, 0);
        let last = std::iter::once((Time::from_secs(1), None));
        let steps = steps.into_iter().map(|(at, step)| (at, Some(step))).chain(last);
        for (now, step) in steps {
            while let Some(at) = network.output_timeout().filter(|at| *at < now) {
                wakes += 1;
                prop_assert!(wakes < 10_000, "wakes for nothing at {at}");
                while let Some((came, _, dropped, _)) = network.next(at) {
                    prop_assert!(dropped.is_some() || came == at, "{came} at {at}");
                }
            }
            while let Some((came, _, dropped, _)) = network.next(now) {
                prop_assert!(dropped.is_some() || came == now, "{came} at {now}");
            }
            match step {
                Some(Step::Send(route, size)) => {
                    network.send(now, route % routes.len(), size, sent);
                    sent += 1;
                }
                Some(Step::Change(path, config)) => network.change(now, path, *config),
                None => {}
            }
        }
    }
}
