//! Runs a simulation for `tools/instructions.py`, which counts what the processor does inside of [`counted`].
//!
//! Without an argument it prints the names of all cases. With the name of a case it runs it, and prints in JSON how much
//! work that was.

#[path = "../../../crates/rtclab-core/tests/support/mod.rs"]
mod support;

use rtclab_core::catalogue::Catalogue;
use rtclab_core::path::{Capacity, Delay, Packet, Path, PathConfig, QueueLimit};
use rtclab_core::record::{Column, Detail, Table};
use rtclab_core::sim::{SimConfig, Simulation};
use rtclab_core::units::{Bitrate, Bytes, Time};
use serde_json::{Value, json};
use std::hint::black_box;
use support::{LINK, Topology, call, meeting};

/// A name and what it runs.
type Case = (&'static str, fn() -> Value);

const CASES: [Case; 9] = [
    ("path", one_path),
    ("first-call", || per_flow(&first_call("goog-cc"), 0)),
    ("first-call, scream", || per_flow(&first_call("scream"), 0)),
    ("first-call, nada", || per_flow(&first_call("nada"), 0)),
    ("first-call, further paths", further_paths),
    ("mesh of 4", || per_flow(&many(4, Topology::Mesh), 1500)),
    ("mesh of 32", || per_flow(&many(32, Topology::Mesh), 1500)),
    ("SFU of 4", || per_flow(&many(4, Topology::Sfu), 1500)),
    ("SFU of 32", || per_flow(&many(32, Topology::Sfu), 1500)),
];

/// 100 Mbit/s, 25 ms of delay and a queue of 300 ms: no bottleneck for people who send 0.5 Mbit/s to each other.
const WIDE: &str = r#""capacity": {"kind": "constant", "bps": 100000000},
    "queue": {"kind": "time", "limit": 300000000}, "delay": {"kind": "constant", "ns": 25000000}"#;

/// The most that a participant of a meeting sends to each other one.
const MEETING: Bitrate = Bitrate::from_kbps(500);

fn main() {
    let Some(name) = std::env::args().nth(1) else {
        CASES.iter().for_each(|(name, _)| println!("{name}"));
        return;
    };
    let (_, run) = CASES.iter().find(|(known, _)| *known == name).expect("the name of a case");
    println!("{}", run());
}

/// The only function whose instructions are counted, with all that it calls.
#[inline(never)]
fn counted(work: &mut dyn FnMut()) {
    work();
}

/// Packets of 1200 B, 97 us apart, through 100 Mbit/s, where each takes 96 us.
fn one_path() -> Value {
    const PACKETS: u32 = 100_000;
    let mut path = Path::new(
        PathConfig {
            capacity: Some(Capacity::Constant { bps: Bitrate::from_mbps(100) }),
            queue: Some(QueueLimit::Time(Time::from_millis(300))),
            delay: Delay::Constant { ns: Time::from_millis(25) },
            ..PathConfig::default()
        },
        1,
    );
    counted(&mut || {
        for id in 0..PACKETS {
            let now = Time::from_micros(97 * u64::from(id));
            path.handle_packet(now, Packet::new(Bytes(1200), id));
            while let Some(departure) = path.poll(now) {
                black_box(&departure);
            }
        }
    });
    json!({"unit": "packet", "units": PACKETS})
}

/// The call of the benchmarks, with this congestion control.
fn first_call(control: &str) -> SimConfig {
    let mut config = call(LINK, 20, 1);
    for participant in &mut config.participants {
        participant.congestion_control.name = control.to_owned();
    }
    config
}

/// The call with further paths that nothing else uses: 100 Mbit/s and 1 ms each.
fn further_paths() -> Value {
    const FURTHER: usize = 2;
    let mut config = first_call("goog-cc");
    for (index, route) in config.network.routes.iter_mut().enumerate() {
        for number in 0..FURTHER {
            let name = format!("further.{index}.{number}");
            route.paths.push(name.clone());
            config.network.paths.push(PathConfig {
                name,
                capacity: Some(Capacity::Constant { bps: Bitrate::from_mbps(100) }),
                queue: Some(QueueLimit::Time(Time::from_millis(300))),
                delay: Delay::Constant { ns: Time::from_millis(1) },
                ..PathConfig::default()
            });
        }
    }
    let packets: i64 = run(&config, 0).iter().flat_map(delivered_packets).sum();
    json!({"unit": "packet and path", "units": FURTHER as i64 * packets, "beyond": "first-call"})
}

fn delivered_packets(table: &Table) -> &[i64] {
    match table.columns.iter().find(|(name, _)| *name == "delivered_packets") {
        Some((_, Column::Int(packets))) if table.name == "flow_seconds" => packets,
        _ => &[],
    }
}

/// Two seconds of a meeting in which everybody sends to everybody. Media flow after less than one and a half.
fn many(people: usize, topology: Topology) -> SimConfig {
    let names: Vec<String> = (0..people).map(|number| format!("p{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut config = meeting(&names, topology, [WIDE, WIDE], 2, 1);
    for participant in &mut config.participants {
        participant.video.as_mut().expect("a camera").max_bps = MEETING;
    }
    config
}

/// Runs a call, and counts from a time on. Its work is that of flows from one person to another.
fn per_flow(config: &SimConfig, from_ms: u64) -> Value {
    run(config, from_ms);
    let people = config.participants.len();
    let counted = config.duration_ns - Time::from_millis(from_ms);
    let seconds = counted.as_nanos() as f64 / 1e9;
    json!({"unit": "flow and second", "units": (people * (people - 1)) as f64 * seconds})
}

/// Counts the events of a run from a time on. To set it up and to finish its record is not counted.
fn run(config: &SimConfig, from_ms: u64) -> Vec<Table> {
    let config = SimConfig { record: Detail::Seconds, ..config.clone() };
    let mut simulation = Simulation::new(&config, Catalogue::ours()).expect("a run");
    simulation.advance(Time::from_millis(from_ms)).expect("no failure");
    counted(&mut || simulation.advance(config.duration_ns).expect("no failure"));
    simulation.finish().tables
}
