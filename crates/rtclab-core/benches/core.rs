//! Speed of the path model and of the simulator.
#![allow(missing_docs)] // criterion_group makes a public function

#[path = "../tests/support/mod.rs"]
mod support;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rtclab_core::cc::{Decision, External, Fixed};
use rtclab_core::ecn::Ecn;
use rtclab_core::network::{Network, NetworkConfig, NodeId, RouteConfig};
use rtclab_core::path::{
    Aqm, Capacity, Codel, Delay, DualPi2, FqCodel, Loss, Packet, Path, PathConfig, Pie, QueueLimit,
    Step,
};
use rtclab_core::record::Detail;
use rtclab_core::sim::{Simulation, simulate};
use rtclab_core::units::{Bitrate, Bytes, Time};
use std::hint::black_box;

/// Packets per second through a path with capacity, delay and bursty loss. The load is just below the
/// capacity.
fn path(c: &mut Criterion) {
    const PACKETS: u64 = 100_000;
    let config = PathConfig {
        name: "bench".into(),
        capacity: Some(Capacity::Constant { bps: Bitrate::from_mbps(100) }),
        queue: Some(QueueLimit::Time(Time::from_millis(300))),
        delay: Delay::Constant { ns: Time::from_millis(25) },
        jitter: None,
        loss: Some(Loss { p: 0.01, r: 0.3, h: 0.2, k: 1.0 }),
        ..PathConfig::default()
    };
    let mut group = c.benchmark_group("path");
    group.throughput(Throughput::Elements(PACKETS));
    group.bench_function("capacity, delay, Gilbert-Elliott: packets/s", |b| {
        b.iter(|| {
            let mut path = Path::new(config.clone(), 1);
            let mut out = 0u64;
            for id in 0..PACKETS {
                // 1200 B at 100 Mbit/s take 96 us
                let now = Time::from_micros(97 * id);
                path.handle_packet(now, Packet::new(Bytes(1200), id as u32));
                while let Some(departure) = path.poll(now) {
                    black_box(&departure);
                    out += 1;
                }
            }
            out
        });
    });
    group.finish();
}

/// Packets per second through a path with a queue discipline. Bursts of ten packets of four flows wait for each other;
/// the load is just below the capacity.
fn queues(c: &mut Criterion) {
    const BURSTS: u64 = 10_000;
    let disciplines = [
        ("drop-tail", None),
        ("CoDel", Some(Aqm::Codel(Codel::default()))),
        ("FQ-CoDel", Some(Aqm::FqCodel(FqCodel::default()))),
        ("PIE", Some(Aqm::Pie(Pie::default()))),
        ("step", Some(Aqm::Step(Step::default()))),
        ("DualPI2", Some(Aqm::DualPi2(DualPi2::default()))),
    ];
    let mut group = c.benchmark_group("queue");
    group.throughput(Throughput::Elements(10 * BURSTS));
    for (name, aqm) in disciplines {
        let config = PathConfig {
            name: "bench".into(),
            capacity: Some(Capacity::Constant { bps: Bitrate::from_mbps(100) }),
            aqm,
            delay: Delay::Constant { ns: Time::from_millis(25) },
            ..PathConfig::default()
        };
        group.bench_function(format!("{name}: packets/s"), |b| {
            b.iter(|| {
                let mut path = Path::new(config.clone(), 1);
                let mut out = 0u64;
                for burst in 0..BURSTS {
                    // Ten packets of 1200 B at 100 Mbit/s take 960 us.
                    let now = Time::from_micros(970 * burst);
                    for id in 0..10 {
                        let ecn = if id < 5 { Ecn::Ect1 } else { Ecn::NotCapable };
                        let payload = u64::from(id);
                        let packet =
                            Packet { ecn, flow: id % 4, ..Packet::new(Bytes(1200), payload) };
                        path.handle_packet(now, packet);
                    }
                    while let Some(departure) = path.poll(now) {
                        black_box(&departure);
                        out += 1;
                    }
                }
                out
            });
        });
    }
    group.finish();
}

/// Packets per second from ten nodes to ten others, through a link of each sender, one that all share, and a link of
/// each receiver. The load is just below the capacity of the shared one.
fn network(c: &mut Criterion) {
    const BURSTS: u64 = 20_000;
    let path = |name: String, mbps, delay| PathConfig {
        name,
        capacity: Some(Capacity::Constant { bps: Bitrate::from_mbps(mbps) }),
        queue: Some(QueueLimit::Time(Time::from_millis(300))),
        delay: Delay::Constant { ns: Time::from_millis(delay) },
        ..PathConfig::default()
    };
    let mut paths = vec![path("shared".into(), 20, 10)];
    let mut routes = Vec::new();
    for pair in 0..10 {
        let [up, down] = ["up", "down"].map(|direction| format!("{direction} {pair}"));
        paths.extend([&up, &down].map(|name| path(name.clone(), 100, 25)));
        let (from, to) = (format!("from {pair}"), format!("to {pair}"));
        routes.push(RouteConfig { from, to, paths: vec![up, "shared".into(), down] });
    }
    let nodes = routes.iter().flat_map(|route| [route.from.clone(), route.to.clone()]).collect();
    let config = NetworkConfig { nodes, paths, routes };
    let mut group = c.benchmark_group("network");
    group.throughput(Throughput::Elements(3 * BURSTS));
    group.bench_function("three paths: packets/s", |b| {
        b.iter(|| {
            let mut network = Network::new(config.clone(), 1).expect("valid");
            let mut out = 0u64;
            for burst in 0..BURSTS {
                // Three packets of 1200 B at 20 Mbit/s take 1.44 ms.
                let now = Time::from_micros(1_500 * burst);
                while network.poll_timeout().is_some_and(|at| at <= now) {
                    out += std::iter::from_fn(|| network.poll(now)).count() as u64;
                }
                let from = 2 * (burst * 7 % 10) as u32;
                for _ in 0..3 {
                    let packet = Packet::new(Bytes(1200), 0u32);
                    let refused =
                        network.handle_packet(now, NodeId(from), NodeId(from + 1), packet);
                    assert!(refused.is_ok());
                }
            }
            out
        });
    });
    group.finish();
}

/// Simulated seconds per second of the scenario `first-call`.
fn simulator(c: &mut Criterion) {
    const SECONDS: u64 = 60;
    let mut group = c.benchmark_group("first-call");
    group.throughput(Throughput::Elements(SECONDS));
    group.sample_size(20);
    for (name, detail) in [("seconds", Detail::Seconds), ("packets", Detail::Packets)] {
        let mut config = support::call(support::LINK, SECONDS, 1);
        config.record = detail;
        group.bench_function(format!("record = {name}: simulated s/s"), |b| {
            b.iter(|| simulate(black_box(&config)).map(|r| r.tables.len()));
        });
    }
    group.finish();
}

/// Data segments per second of two CUBIC flows through 20 Mbit/s, in a call without media.
fn tcp(c: &mut Criterion) {
    const SECONDS: u64 = 60;
    let link = support::LINK.replace("1000000", "20000000");
    let mut config = support::call(&link, SECONDS, 1);
    config.record = Detail::Seconds;
    config.connections.clear();
    let end = SECONDS * 1_000_000_000;
    let traffic = format!(
        r#"[{{"flows": ["a", "b"], "sender": "alice", "receiver": "bob", "connections": 2,
            "congestion_control": "cubic", "start_ns": 0, "stop_ns": {end}, "objects": null}}]"#
    );
    config.traffic = serde_json::from_str(&traffic).expect("a valid configuration");
    let mut group = c.benchmark_group("tcp");
    // 20 Mbit/s are 1667 segments/s.
    group.throughput(Throughput::Elements(1_667 * SECONDS));
    group.sample_size(20);
    group.bench_function("two CUBIC flows: segments/s", |b| {
        b.iter(|| simulate(black_box(&config)).map(|r| r.tables.len()));
    });
    group.finish();
}

/// Calls whose controls are decided outside, in lockstep: what the requests cost beside a control that decides by
/// itself.
fn external(c: &mut Criterion) {
    const RUNS: u64 = 16;
    const SECONDS: u64 = 10;
    let rate = Bitrate::from_kbps(300);
    let catalogue = |is_external: bool| {
        support::with_own("chrome-156", move |bounds| match is_external {
            true => (Box::new(External::new(bounds, Time::from_millis(50))), None),
            false => (Box::new(Fixed::new(rate)), None),
        })
    };
    let mut group = c.benchmark_group("16 calls in lockstep");
    group.throughput(Throughput::Elements(RUNS * SECONDS));
    group.sample_size(20);
    for (name, is_external) in [("decided outside every 50 ms", true), ("fixed", false)] {
        let catalogue = catalogue(is_external);
        group.bench_function(format!("{name}: simulated s/s"), |b| {
            b.iter(|| {
                let new = |seed| {
                    let mut config = support::call(support::LINK, SECONDS, seed);
                    config.record = Detail::Seconds;
                    for participant in &mut config.participants {
                        participant.congestion_control.name = "own".into();
                    }
                    Simulation::new(&config, &catalogue).expect("a run")
                };
                let mut runs: Vec<Simulation> = (1..=RUNS).map(new).collect();
                decide_all(&mut runs, rate);
                runs.len()
            });
        });
    }
    group.finish();
}

fn decide_all(runs: &mut [Simulation], rate: Bitrate) {
    while runs.iter().any(|run| run.now() < run.duration() || !run.requests().is_empty()) {
        for run in &mut *runs {
            run.advance(run.duration()).expect("a step");
        }
        for run in &mut *runs {
            let ends: Vec<u32> = run.requests().iter().map(|request| request.end).collect();
            for end in ends {
                run.decide(end, Decision::at(rate)).expect("an answer");
            }
        }
    }
}

criterion_group!(benches, path, queues, network, simulator, external, tcp);
criterion_main!(benches);
