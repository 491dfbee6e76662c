//! A scenario for tests and benches, and a catalogue with one more control.
#![allow(dead_code)] // every test file uses a part

use rtclab_core::catalogue::{Algorithm, Catalogue};
use rtclab_core::cc::{Halves, RateBounds};
use rtclab_core::sim::{Executor, Job, SimConfig};
use rtclab_core::stack::StackProfile;

/// A two-way call of 640x480 at 30/s over access links with the given up paths.
pub(crate) fn call(up: &str, seconds: u64, seed: u64) -> SimConfig {
    let paths: Vec<String> = ["alice", "bob"]
        .iter()
        .flat_map(|name| {
            [format!(r#"{{"name": "{name}.up", {up}}}"#), format!(r#"{{"name": "{name}.down"}}"#)]
        })
        .collect();
    let mut routes = Vec::new();
    for from in ["alice", "bob", "core"] {
        for to in ["alice", "bob", "core"] {
            if from != to {
                let up = (from != "core").then(|| format!(r#""{from}.up""#));
                let down = (to != "core").then(|| format!(r#""{to}.down""#));
                let hops: Vec<String> = up.into_iter().chain(down).collect();
                let hops = hops.join(", ");
                routes.push(format!(r#"{{"from": "{from}", "to": "{to}", "paths": [{hops}]}}"#));
            }
        }
    }
    let end = seconds * 1_000_000_000;
    let video = r#"{"width": 640, "height": 480, "frame_rate": 30.0, "min_bps": 30000, "max_bps": 1700000, "start_bps": 300000}"#;
    let participants: Vec<String> = ["alice", "bob"]
        .iter()
        .map(|name| {
            format!(
                r#"{{"name": "{name}", "join_ns": 0, "leave_ns": {end}, "video": {video}, "audio": null, "congestion_control": {{"name": "goog-cc"}}}}"#
            )
        })
        .collect();
    let json = format!(
        r#"{{"duration_ns": {end}, "seed": {seed}, "record": "packets",
            "network": {{"nodes": ["alice", "bob", "core"], "paths": [{}], "routes": [{}]}},
            "participants": [{}],
            "connections": [{{"a": "alice", "b": "bob", "start_ns": 0, "end_ns": {end}}}]}}"#,
        paths.join(", "),
        routes.join(", "),
        participants.join(", ")
    );
    serde_json::from_str(&json).expect("a valid configuration")
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
