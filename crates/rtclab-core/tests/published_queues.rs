//! TCP through queues, against published measurements. The page `docs/queues.md` has the same figures.

use rtclab_core::ecn::Ecn;
use rtclab_core::path::{
    Aqm, Capacity, Codel, Delay, Departure, DualPi2, FqCodel, Packet, Path, PathConfig, Pie,
    QueueLimit, Step,
};
use rtclab_core::tcp::{Algorithm, Segment, SegmentKind, SenderConfig, TcpReceiver, TcpSender};
use rtclab_core::units::{Bitrate, Bytes, Time};
use std::ops::RangeInclusive;

/// Linux shapes whole Ethernet frames: 1514 B for an IP packet of 1500 B.
const ETHERNET: (u64, u64) = (1_500, 1_514);
/// An echo request of `ping`: 56 B with headers of ICMP and IP.
const PING: Bytes = Bytes(84);
const PING_FLOW: u32 = 1_000;
/// Time between pings, and between looks at the round trip that a sender knows: `step_size` of the measurements.
const LOOK: Time = Time::from_millis(50);

/// A bottleneck with the same rate and queue in both directions.
#[derive(Clone)]
struct Link {
    mbps: f64,
    /// Round trip without queues.
    base: Time,
    aqm: Option<Aqm>,
    queue: Option<QueueLimit>,
}

impl Link {
    fn path(&self, seed: u64) -> Path<Load> {
        let (ip, frame) = ETHERNET;
        let bps = Bitrate((self.mbps * 1e6) as u64 * ip / frame);
        let config = PathConfig {
            capacity: Some(Capacity::Constant { bps }),
            queue: self.queue,
            aqm: self.aqm,
            delay: Delay::Constant { ns: Time(self.base.0 / 2) },
            ..PathConfig::default()
        };
        config.check().expect("a valid path");
        Path::new(config, seed)
    }
}

/// What a packet carries: a segment, or when the ping was sent.
#[derive(Clone, Copy)]
enum Load {
    Tcp(Segment),
    Ping(Time),
}

/// A transfer without end.
#[derive(Clone, Copy)]
struct Bulk {
    algorithm: Algorithm,
    /// Whether CUBIC and NewReno ask for classic ECN.
    ecn: bool,
    start: Time,
}

/// One of the flows, and what was measured.
struct Flow {
    start: Time,
    sender: TcpSender,
    receiver: TcpReceiver,
    /// Delivered and sent again when the measurement began.
    before: (Bytes, u64),
    /// Goodput in Mbit/s.
    rate: f64,
    retransmitted: u64,
    /// Waiting time of each segment, in ms.
    queued: Vec<f64>,
    /// Smoothed round trips less the base, in ms.
    round_trips: Vec<f64>,
    marked: u64,
}

struct Run {
    flows: Vec<Flow>,
    /// Round trips of pings less the base, in ms.
    pings: Vec<f64>,
}

fn millis(time: Time) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The value that a share of all is at most.
fn percentile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() as f64 * share) as usize).min(sorted.len() - 1)]
}

/// Runs flows and pings, and measures from `from` on.
fn run(link: &Link, bulks: &[Bulk], from: Time, until: Time) -> Run {
    let (mut forward, mut back) = (link.path(seed()), link.path(seed() + 1_000));
    let mut flows: Vec<_> = bulks
        .iter()
        .enumerate()
        .map(|(id, bulk)| {
            let Bulk { algorithm, ecn, start } = *bulk;
            let config = SenderConfig {
                connection: id as u32,
                congestion_control: algorithm,
                ecn,
                size: None,
                seed: 1,
            };
            Flow {
                start,
                sender: TcpSender::new(config),
                receiver: TcpReceiver::new(id as u32),
                before: (Bytes::ZERO, 0),
                rate: 0.0,
                retransmitted: 0,
                queued: Vec::new(),
                round_trips: Vec::new(),
                marked: 0,
            }
        })
        .collect();
    let (mut now, mut look, mut pings) = (Time::ZERO, LOOK, Vec::new());
    let mut measuring = false;
    while now < until {
        if now >= from && !measuring {
            measuring = true;
            for flow in &mut flows {
                flow.before = (flow.receiver.delivered(), flow.sender.retransmissions());
            }
        }
        while let Some(departure) = forward.poll(now) {
            let Departure::Delivered { queued, packet, .. } = departure else { continue };
            match packet.payload {
                Load::Ping(_) => back.handle_packet(now, packet),
                Load::Tcp(segment) => {
                    let flow = &mut flows[packet.flow as usize];
                    if measuring && segment.kind == SegmentKind::Data {
                        flow.queued.push(millis(queued));
                        flow.marked += u64::from(packet.mark.is_some());
                    }
                    flow.receiver.handle_segment(now, &segment, packet.ecn);
                    flow.acknowledge(now, packet.flow, &mut back);
                }
            }
        }
        while let Some(departure) = back.poll(now) {
            let Departure::Delivered { packet, .. } = departure else { continue };
            match packet.payload {
                Load::Ping(sent) if sent >= from => pings.push(millis(now - sent - link.base)),
                Load::Ping(_) => {}
                Load::Tcp(segment) => {
                    let flow = &mut flows[packet.flow as usize];
                    flow.sender.handle_segment(now, &segment);
                    flow.send(now, packet.flow, &mut forward);
                }
            }
        }
        for (id, flow) in (0..).zip(&mut flows) {
            if flow.start <= now {
                flow.sender.handle_timeout(now);
                flow.send(now, id, &mut forward);
                flow.acknowledge(now, id, &mut back);
            }
        }
        if look <= now {
            look += LOOK;
            let ping = Packet { flow: PING_FLOW, ..Packet::new(PING, Load::Ping(now)) };
            forward.handle_packet(now, ping);
            for flow in flows.iter_mut().filter(|_| measuring) {
                let smoothed = flow.sender.smoothed_rtt();
                let above = smoothed.map(|rtt| millis(rtt) - millis(link.base));
                flow.round_trips.extend(above);
            }
        }
        let timers = flows.iter().map(|flow| match flow.start <= now {
            true => {
                let both = [flow.sender.poll_timeout(), flow.receiver.poll_timeout()];
                both.into_iter().flatten().min().unwrap_or(Time::MAX)
            }
            false => flow.start,
        });
        let paths = [forward.poll_timeout(), back.poll_timeout(), Some(look)];
        let next = timers.chain(paths.into_iter().flatten()).min();
        now = next.expect("the next look").max(now);
    }
    let span = (until - from).as_secs_f64();
    for flow in &mut flows {
        let delivered = flow.receiver.delivered().0 - flow.before.0.0;
        flow.rate = delivered as f64 * 8.0 / span / 1e6;
        flow.retransmitted = flow.sender.retransmissions() - flow.before.1;
    }
    Run { flows, pings }
}

impl Flow {
    fn send(&mut self, now: Time, id: u32, path: &mut Path<Load>) {
        while let Some((segment, ecn)) = self.sender.poll(now) {
            put(now, id, segment, ecn, path);
        }
    }

    fn acknowledge(&mut self, now: Time, id: u32, path: &mut Path<Load>) {
        while let Some((segment, ecn)) = self.receiver.poll(now) {
            put(now, id, segment, ecn, path);
        }
    }
}

fn put(now: Time, flow: u32, segment: Segment, ecn: Ecn, path: &mut Path<Load>) {
    path.handle_packet(now, Packet { flow, ecn, ..Packet::new(segment.size(), Load::Tcp(segment)) });
}

fn seed() -> u64 {
    std::env::var("SEED").map_or(1, |s| s.parse().expect("seed"))
}

fn bulk(algorithm: Algorithm, ecn: bool, start: u64) -> Bulk {
    Bulk { algorithm, ecn, start: Time::from_millis(start + 7 * seed() * u64::from(start > 0)) }
}

fn linux_dualpi2() -> Option<Aqm> {
    let step = Time::from_millis(1);
    Some(Aqm::DualPi2(DualPi2 { step_min_ns: step, step_max_ns: step, ..DualPi2::default() }))
}

fn one_codel(ecn: bool) -> Option<Aqm> {
    Some(Aqm::FqCodel(FqCodel { flows: 1, ecn, ..FqCodel::default() }))
}

#[test]
fn explore() {
    use Algorithm::{Cubic, NewReno, Prague};
    let s = Time::from_secs;
    let show = |what: &str, link: &Link, bulks: &[Bulk], from: u64, until: u64| {
        let begin = std::time::Instant::now();
        let r = run(link, bulks, s(from), s(until));
        println!("{what} base {} [{:.1} s]", link.base, begin.elapsed().as_secs_f64());
        for f in &r.flows {
            let q = |p| percentile(&f.queued, p);
            let t = |p| percentile(&f.round_trips, p);
            println!(
                "   rate {:.2} rtx {} marked {:.2}% q p50 {:.2} p95 {:.2} p99 {:.2} rtt p50 {:.2} p99 {:.2}",
                f.rate, f.retransmitted, f.marked as f64 / f.queued.len() as f64 * 100.0, q(0.5), q(0.95), q(0.99), t(0.5), t(0.99)
            );
        }
        let p = |p| percentile(&r.pings, p);
        println!("   ping p50 {:.2} p95 {:.2} p99 {:.2}", p(0.5), p(0.95), p(0.99));
    };
    let ms = Time::from_millis;
    let which = std::env::var("ROW").unwrap_or_default();
    let on = |row: &str| which.is_empty() || which.split(',').any(|w| w == row);
    for base in [5, 20, 40, 80] {
        if on("1") {
            let link = Link { mbps: 20.0, base: ms(base), aqm: linux_dualpi2(), queue: None };
            show("1", &link, &[bulk(Prague, false, 0)], 5, 40);
        }
        if on("2") {
            let link = Link { mbps: 20.0, base: ms(base), aqm: one_codel(true), queue: None };
            show("2", &link, &[bulk(Cubic, true, 0)], 5, 40);
        }
    }
    if on("3") {
        let link = Link { mbps: 100.0, base: ms(20), aqm: one_codel(true), queue: None };
        show("3 shared", &link, &[bulk(Cubic, true, 0), bulk(Prague, false, 10)], 5, 40);
        let link = Link { mbps: 100.0, base: ms(20), aqm: linux_dualpi2(), queue: None };
        show("3 dual", &link, &[bulk(Cubic, false, 10), bulk(Prague, false, 0)], 5, 40);
    }
    for (base, until) in [(20, 30), (80, 60), (160, 150)] {
        if on("4") {
            let link = Link { mbps: 50.0, base: ms(base), aqm: linux_dualpi2(), queue: None };
            show("4", &link, &[bulk(Prague, false, 0)], 5, until);
        }
    }
    if on("5") {
        let link = Link { mbps: 5.0, base: ms(20), aqm: linux_dualpi2(), queue: None };
        show("5", &link, &[bulk(Prague, false, 0)], 5, 30);
    }
    for (base, until) in [(20, 40), (80, 60), (160, 180)] {
        if on("6") {
            let link = Link { mbps: 50.0, base: ms(base), aqm: linux_dualpi2(), queue: None };
            show("6", &link, &[bulk(Cubic, false, 0), bulk(Prague, false, 10_000)], 15, until);
        }
    }
    if on("7") {
        let link = Link { mbps: 50.0, base: ms(20), aqm: Some(Aqm::Pie(Pie::default())), queue: None };
        show("7", &link, &[bulk(Cubic, false, 0), bulk(Prague, false, 10_000)], 15, 40);
        show("7 cc", &link, &[bulk(Cubic, false, 0), bulk(Cubic, false, 10_000)], 15, 40);
    }
    if on("8") {
        let link = Link { mbps: 50.0, base: ms(20), aqm: one_codel(true), queue: None };
        show("8 prague", &link, &[bulk(Cubic, true, 0), bulk(Prague, false, 10_000)], 15, 40);
        show("8 cc", &link, &[bulk(Cubic, true, 0), bulk(Cubic, true, 10_000)], 15, 40);
        show("8 cr", &link, &[bulk(Cubic, true, 0), bulk(NewReno, true, 10_000)], 15, 40);
    }
    if on("9") {
        for n in [1000, 50] {
            let link = Link { mbps: 50.0, base: ms(20), aqm: None, queue: Some(QueueLimit::Packets(n)) };
            show("9", &link, &[bulk(Cubic, true, 0), bulk(Prague, false, 10_000)], 15, 40);
        }
    }
    if on("17") {
        for (a, aqm) in [(Prague, Some(Aqm::Step(Step { threshold_ns: ms(5), only_ect1: true }))), (NewReno, None)] {
            let link = Link { mbps: 10.0, base: ms(20), aqm, queue: Some(QueueLimit::Time(ms(20))) };
            show("17 full 4 s", &link, &[bulk(a, false, 0)], 0, 4);
        }
    }
    if on("h") {
        let link = Link { mbps: 50.0, base: ms(20), aqm: Some(Aqm::FqCodel(FqCodel::default())), queue: None };
        show("h fq", &link, &[bulk(Cubic, true, 0), bulk(Prague, false, 0)], 10, 40);
        show("h fq cc", &link, &[bulk(Cubic, true, 0), bulk(Cubic, true, 100)], 10, 40);
        for (mbps, base) in [(10.0, 20), (10.0, 50), (20.0, 20)] {
            let step = Time::from_micros((2.0 * 1514.0 * 8.0 / mbps) as u64).max(ms(1));
            let aqm = Some(Aqm::DualPi2(DualPi2 { step_min_ns: step, step_max_ns: step, ..DualPi2::default() }));
            let link = Link { mbps, base: ms(base), aqm, queue: None };
            show("h reno 2mtu", &link, &[bulk(NewReno, false, 0), bulk(Prague, false, 0)], 20, 120);
            let link = Link { mbps, base: ms(base), aqm: linux_dualpi2(), queue: None };
            show("h reno", &link, &[bulk(NewReno, false, 0), bulk(Prague, false, 0)], 20, 120);
        }
    }
    if on("step") {
        for us in [1_000, 1_300, 2_400] {
            for a in [Prague, Algorithm::Dctcp] {
            let link = Link { mbps: 10.0, base: ms(25), aqm: Some(Aqm::Step(Step { threshold_ns: Time::from_micros(us), only_ect1: false })), queue: None };
            show(&format!("step {us} {a:?}"), &link, &[bulk(a, false, 0)], 5, 40);
            }
        }
    }
    let _ = Codel::default();
}
