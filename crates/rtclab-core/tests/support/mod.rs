//! A scenario for tests and benches, and a catalogue with one more control.
#![allow(dead_code)] // every test file uses a part

use rtclab_core::catalogue::{Algorithm, Catalogue};
use rtclab_core::cc::{Halves, RateBounds};
use rtclab_core::sim::{Executor, Job, SimConfig};
use rtclab_core::stack::StackProfile;
use serde_json::{Value, json};

/// A two-way call of 640x480 at 30/s over access links with the given up paths.
pub(crate) fn call(up: &str, seconds: u64, seed: u64) -> SimConfig {
    meeting(&["alice", "bob"], Topology::Mesh, [up, ""], seconds, seed)
}

/// How the people of a meeting are connected.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Topology {
    /// Every two have a connection.
    Mesh,
    /// An SFU at the node `core` has a connection from every sender, and one for each of its receivers.
    Sfu,
}

/// A meeting in which all send video of 640x480 at 30/s, over access links with the given up and down paths.
pub(crate) fn meeting(
    people: &[&str],
    topology: Topology,
    [up, down]: [&str; 2],
    seconds: u64,
    seed: u64,
) -> SimConfig {
    let path = |name: String, fields: &str| -> Value {
        let mut path: Value = serde_json::from_str(&format!("{{{fields}}}")).expect("a path");
        path["name"] = json!(name);
        path
    };
    let paths: Vec<Value> = people
        .iter()
        .flat_map(|name| [path(format!("{name}.up"), up), path(format!("{name}.down"), down)])
        .collect();
    let nodes: Vec<&str> = people.iter().copied().chain(["core"]).collect();
    let mut routes = Vec::new();
    for from in &nodes {
        for to in nodes.iter().filter(|to| *to != from) {
            let up = (*from != "core").then(|| format!("{from}.up"));
            let down = (*to != "core").then(|| format!("{to}.down"));
            let hops: Vec<String> = up.into_iter().chain(down).collect();
            routes.push(json!({"from": from, "to": to, "paths": hops}));
        }
    }
    let end = seconds * 1_000_000_000;
    let video = json!({
        "width": 640, "height": 480, "frame_rate": 30.0,
        "min_bps": 30_000, "max_bps": 1_700_000, "start_bps": 300_000,
    });
    let person = |name: &&str| {
        json!({
            "name": name, "join_ns": 0, "leave_ns": end, "video": video, "audio": null,
            "congestion_control": {"name": "goog-cc"},
        })
    };
    let config = json!({
        "duration_ns": end, "seed": seed, "record": "packets",
        "network": {"nodes": nodes, "paths": paths, "routes": routes},
        "participants": people.iter().map(person).collect::<Vec<_>>(),
        "connections": connections(people, topology, end),
    });
    serde_json::from_value(config).expect("a valid configuration")
}

fn connections(people: &[&str], topology: Topology, end_ns: u64) -> Vec<Value> {
    let pairs = people.iter().enumerate().flat_map(|(index, a)| {
        let others = people.iter().enumerate().filter(move |(other, _)| *other != index);
        others.map(move |(other, b)| ((index, *a), (other, *b)))
    });
    match topology {
        Topology::Mesh => pairs
            .filter(|((a, _), (b, _))| a < b)
            .map(|((_, a), (_, b))| json!({"a": a, "b": b, "start_ns": 0, "end_ns": end_ns}))
            .collect(),
        Topology::Sfu => {
            let up = |name: &&str| json!({"a": name, "b": "core", "start_ns": 0, "end_ns": end_ns, "one_way": true});
            let downs = pairs.map(|((up, a), (_, b))| {
                json!({
                    "a": "core", "b": b, "start_ns": 0, "end_ns": end_ns, "one_way": true,
                    "forwards": up, "flows": [format!("{a}->{b}"), format!("{b}->core#{a}")],
                })
            });
            people.iter().map(up).chain(downs).collect()
        }
    }
}

/// 1 Mbit/s, 25 ms of delay and a queue of 300 ms on each uplink; downlinks are unlimited.
pub(crate) const LINK: &str = r#""capacity": {"kind": "constant", "bps": 1000000},
    "queue": {"kind": "time", "limit": 300000000}, "delay": {"kind": "constant", "ns": 25000000}"#;

/// Two threads.
pub(crate) struct Two;

impl Executor for Two {
    fn threads(&self) -> usize {
        2
    }

    fn run_all(&self, jobs: Vec<Job<'_>>) {
        std::thread::scope(|scope| jobs.into_iter().for_each(|job| drop(scope.spawn(job))));
    }
}

/// The controls of rtclab and one more, `own`, which runs in the stack of this name.
pub(crate) fn with_own(
    stack: &str,
    create: impl Fn(RateBounds) -> Halves + Send + Sync + 'static,
) -> Catalogue {
    let stack = StackProfile::named(stack).expect("a profile of ours");
    let mut catalogue = Catalogue::ours().clone();
    let own = Algorithm::new("own", stack, move |bounds, _| create(bounds));
    catalogue.add(own).expect("a new name");
    catalogue
}
