//! Whole runs of small random scenarios: what goes in comes out once, later, or is dropped; and a run has the same bytes
//! however it is run.

use crate::support::Two;
use proptest::prelude::*;
use rtclab_core::catalogue::Catalogue;
use rtclab_core::monitor::{CaptureReader, Direction};
use rtclab_core::path::{
    Aqm, Capacity, Codel, Delay, DualPi2, FqCodel, Jitter, Loss, PathConfig, Pie, QueueLimit, Step,
};
use rtclab_core::record::{Column, NO_INT, Table};
use rtclab_core::sim::{
    Executor, Sequential, SimConfig, SimResult, Simulation, simulate, simulate_captured,
};
use rtclab_core::units::{Bitrate, Bytes, Time};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Calls and cross traffic last for so long.
const ACTIVE: Time = Time::from_secs(3);
/// Longest way of a packet: a queue holds at most 50 packets of 1,500 B, which take 3 s at 200 kbit/s, and a route has two
/// queues and at most 0.3 s of delay.
const LONGEST_WAY: Time = Time::from_secs(7);
/// What was sent during the calls has arrived or was dropped by then.
const DURATION: Time = Time::from_secs(10);
/// The node where servers and relays are.
const CORE: usize = usize::MAX;

/// Who forwards what to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Topology {
    Mesh,
    Relay,
    Sfu,
    /// With a congestion control towards each receiver.
    ControlledSfu,
    SwitchingMcu,
    MixingMcu,
}

const TOPOLOGIES: [Topology; 6] = [
    Topology::Mesh,
    Topology::Relay,
    Topology::Sfu,
    Topology::ControlledSfu,
    Topology::SwitchingMcu,
    Topology::MixingMcu,
];

/// A connection: its ends, its flow from the first to the second end, and the participants that this flow's media comes
/// from and goes to.
struct Link {
    json: Value,
    ends: [usize; 2],
    media: [usize; 2],
}

#[derive(Clone, Debug)]
struct Scenario {
    topology: Topology,
    people: usize,
    control: usize,
    audio: bool,
    traffic: u8,
    seed: u64,
    /// The up- and the downlink of each participant.
    paths: Vec<PathConfig>,
    /// When which path changes into which.
    changes: Vec<(Time, usize, PathConfig)>,
    /// Times at which a run in steps stops, and whether two threads run to there.
    steps: Vec<(Time, bool)>,
}

fn path() -> impl Strategy<Value = PathConfig> {
    let queue = prop_oneof![
        (1u64..=50).prop_map(QueueLimit::Packets),
        (1_500u64..75_000).prop_map(|bytes| QueueLimit::Bytes(Bytes(bytes))),
        (10u64..500).prop_map(|ms| QueueLimit::Time(Time::from_millis(ms))),
    ];
    let aqm = prop::option::of(prop::sample::select(vec![
        Aqm::Codel(Codel::default()),
        Aqm::FqCodel(FqCodel::default()),
        Aqm::Pie(Pie { max_burst_ns: Time::ZERO, ..Pie::default() }),
        Aqm::Step(Step::default()),
        Aqm::DualPi2(DualPi2::default()),
    ]));
    let link = prop::option::weighted(0.8, (200u64..5_000, queue, aqm));
    let jitter = prop::option::of((1u64..20, any::<bool>()));
    let loss = prop::option::weighted(0.5, 0.8..1.0f64);
    (link, 0u64..80, jitter, loss).prop_map(|(link, delay_ms, jitter, loss)| PathConfig {
        capacity: link.map(|(kbps, ..)| Capacity::Constant { bps: Bitrate::from_kbps(kbps) }),
        queue: link.map(|(_, queue, _)| queue),
        aqm: link.and_then(|(.., aqm)| aqm),
        delay: Delay::Constant { ns: Time::from_millis(delay_ms) },
        jitter: jitter.map(|(ms, reorder)| Jitter { sd_ns: Time::from_millis(ms), reorder }),
        loss: loss.map(|kept| Loss { p: 0.0, r: 1.0, h: kept, k: kept }),
        ..PathConfig::default()
    })
}

fn scenario() -> impl Strategy<Value = Scenario> {
    let topology = prop::sample::select(&TOPOLOGIES);
    let changes = prop::collection::vec((0..ACTIVE.0, any::<prop::sample::Index>(), path()), 0..4);
    let steps = prop::collection::vec(((0..=DURATION.0).prop_map(Time), any::<bool>()), 0..12);
    let choices = (0..Catalogue::ours().algorithms().len(), any::<bool>(), 0u8..4, any::<u64>());
    (topology, prop::collection::vec(path(), 4..=8), choices, changes, steps).prop_map(
        |(topology, mut paths, (control, audio, traffic, seed), changes, mut steps)| {
            let people = paths.len() / 2;
            paths.truncate(2 * people);
            for (index, path) in paths.iter_mut().enumerate() {
                path.name = name_of_path(index);
            }
            let change = |(at, index, new): (u64, prop::sample::Index, PathConfig)| {
                let index = index.index(2 * people);
                (Time(at), index, PathConfig { name: name_of_path(index), ..new })
            };
            let mut changes: Vec<_> = changes.into_iter().map(change).collect();
            changes.sort_by_key(|(at, ..)| *at);
            steps.sort_unstable();
            Scenario { topology, people, control, audio, traffic, seed, paths, changes, steps }
        },
    )
}

fn name_of_path(index: usize) -> String {
    let direction = if index % 2 == 0 { "up" } else { "down" };
    format!("p{}.{direction}", index / 2)
}

fn name(node: usize) -> String {
    if node == CORE { "core".to_owned() } else { format!("p{node}") }
}

impl Scenario {
    /// The paths from one node to another.
    fn route(&self, [from, to]: [usize; 2]) -> Vec<usize> {
        let up = (from != CORE).then(|| 2 * from);
        up.into_iter().chain((to != CORE).then(|| 2 * to + 1)).collect()
    }

    /// The least delay of a path, whatever it has changed into.
    fn least_delay(&self, path: usize) -> Time {
        let changed = self.changes.iter().filter(|(_, index, _)| *index == path);
        let all = changed.map(|(.., config)| config).chain([&self.paths[path]]);
        all.map(|config| config.delay.at(Time::ZERO)).min().unwrap_or_default()
    }

    fn links(&self) -> Vec<Link> {
        let mut links = Vec::new();
        let mut join = |ends: [usize; 2], media: [usize; 2], rest: Value| {
            let [a, b] = ends.map(name);
            let flows = [media.map(name).join("->"), format!("{b}->{a}")];
            let mut json =
                json!({"a": a, "b": b, "start_ns": 0, "end_ns": ACTIVE.0, "flows": flows});
            let rest = rest.as_object().expect("a table").clone();
            json.as_object_mut().expect("a table").extend(rest);
            links.push(Link { json, ends, media });
            links.len() - 1
        };
        let people = 0..self.people;
        match self.topology {
            Topology::Mesh | Topology::Relay => {
                let relay = (self.topology == Topology::Relay).then_some("core");
                for a in people.clone() {
                    for b in a + 1..self.people {
                        join([a, b], [a, b], json!({"relay": relay}));
                    }
                }
            }
            Topology::Sfu | Topology::ControlledSfu | Topology::SwitchingMcu => {
                let switching = self.topology == Topology::SwitchingMcu;
                let rest = json!({"one_way": true, "switching": switching});
                let ups: Vec<usize> =
                    people.clone().map(|a| join([a, CORE], [a, CORE], rest.clone())).collect();
                for (a, up) in ups.into_iter().enumerate() {
                    for b in people.clone().filter(|b| *b != a) {
                        let mut rest = rest.clone();
                        rest["forwards"] = json!(up);
                        join([CORE, b], [a, b], rest);
                    }
                }
            }
            Topology::MixingMcu => {
                for a in people.clone() {
                    join([a, CORE], [a, CORE], json!({"conference": 0}));
                }
            }
        }
        links
    }

    fn config(&self) -> SimConfig {
        let nodes: Vec<usize> = (0..self.people).chain([CORE]).collect();
        let mut routes = Vec::new();
        for &from in &nodes {
            for &to in nodes.iter().filter(|to| **to != from) {
                let paths: Vec<String> =
                    self.route([from, to]).into_iter().map(name_of_path).collect();
                routes.push(json!({"from": name(from), "to": name(to), "paths": paths}));
            }
        }
        let control = &Catalogue::ours().algorithms()[self.control].name;
        let person = |node: usize| {
            json!({
                "name": name(node), "join_ns": 0, "leave_ns": ACTIVE.0,
                "video": {"width": 320, "height": 240, "frame_rate": 15.0, "min_bps": 30_000,
                          "max_bps": 600_000, "start_bps": 200_000},
                "audio": self.audio.then(|| json!({"bitrate_bps": 32_000, "frame_ns": 20_000_000})),
                "congestion_control": {"name": control},
            })
        };
        let traffic = |flow: &str, ends: [usize; 2], udp: Value| {
            let [sender, receiver] = ends.map(name);
            json!({
                "flows": [flow], "sender": sender, "receiver": receiver, "connections": 1,
                "start_ns": 500_000_000, "stop_ns": 2_000_000_000, "objects": null, "udp": udp,
            })
        };
        let mut all_traffic = Vec::new();
        if self.traffic & 1 != 0 && self.takes_time([0, 1]) {
            all_traffic.push(traffic("tcp", [0, 1], Value::Null));
        }
        if self.traffic & 2 != 0 {
            let rate = json!({"rate_bps": 300_000, "packet_bytes": 1_200});
            all_traffic.push(traffic("udp", [1, CORE], rate));
        }
        let mut forwarder = person(CORE);
        (forwarder["video"], forwarder["audio"]) = (Value::Null, Value::Null);
        let (mixers, forwarders) = match self.topology {
            Topology::MixingMcu => (vec![person(CORE)], vec![]),
            Topology::ControlledSfu => (vec![], vec![forwarder]),
            _ => (vec![], vec![]),
        };
        let config = json!({
            "duration_ns": DURATION.0, "seed": self.seed, "record": "packets",
            "network": {
                "nodes": nodes.iter().map(|node| name(*node)).collect::<Vec<_>>(),
                "paths": self.paths, "routes": routes,
            },
            "participants": (0..self.people).map(person).collect::<Vec<_>>(),
            "mixers": mixers, "forwarders": forwarders,
            "connections": self.links().iter().map(|link| link.json.clone()).collect::<Vec<_>>(),
            "traffic": all_traffic,
        });
        serde_json::from_value(config).expect("a configuration")
    }

    /// Whether TCP between two nodes has a bottleneck both before and after all changes.
    fn takes_time(&self, [a, b]: [usize; 2]) -> bool {
        let paths = [self.route([a, b]), self.route([b, a])].concat();
        let is_slow = |config: &PathConfig| config.capacity.is_some();
        let stays = |path: usize| {
            let mut changes = self.changes.iter().filter(|(_, index, _)| *index == path);
            is_slow(&self.paths[path]) && changes.all(|(.., config)| is_slow(config))
        };
        paths.into_iter().any(stays)
    }

    /// Runs with stops at these times and at the changes.
    fn run(&self, stops: &[(Time, bool)]) -> SimResult {
        let config = self.config();
        let mut simulation = Simulation::new(&config, Catalogue::ours()).expect("a run");
        let advance = |simulation: &mut Simulation, (until, on_two): (Time, bool)| {
            let executor: &dyn Executor = if on_two { &Two } else { &Sequential };
            simulation.advance_with(until, executor).expect("a step");
        };
        let mut stops = stops.iter().copied().peekable();
        for (at, _, path) in &self.changes {
            while let Some(stop) = stops.next_if(|(stop, _)| stop <= at) {
                advance(&mut simulation, stop);
            }
            simulation.advance(*at).expect("a step");
            simulation.set_path(path.clone()).expect("a change");
        }
        stops.for_each(|stop| advance(&mut simulation, stop));
        simulation.advance(DURATION).expect("the last step");
        simulation.finish()
    }
}

/// NaN differs from itself, so printed tables are compared.
fn printed(result: &SimResult) -> String {
    format!("{:?} {:?}", result.texts, result.tables)
}

fn table<'a>(result: &'a SimResult, name: &str) -> &'a Table {
    result.tables.iter().find(|table| table.name == name).expect("the table")
}

fn ints<'a>(table: &'a Table, name: &str) -> &'a [i64] {
    match table.columns.iter().find(|(known, _)| *known == name) {
        Some((_, Column::Int(values))) => values,
        other => panic!("{name}: {other:?}"),
    }
}

fn texts<'a>(result: &'a SimResult, table: &Table, name: &str) -> Vec<&'a str> {
    match table.columns.iter().find(|(known, _)| *known == name) {
        Some((_, Column::Text(codes))) => {
            let text = |code: &u32| result.texts.get(*code as usize).map_or("", String::as_str);
            codes.iter().map(text).collect()
        }
        other => panic!("{name}: {other:?}"),
    }
}

/// Packets and bytes of a flow.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    sent: [i64; 2],
    delivered: [i64; 2],
    dropped: i64,
}

/// By number of a packet, the paths on which it waited beside the one on which it waited longest, and how long.
fn waits_of_packets(result: &SimResult) -> HashMap<i64, Vec<(&str, i64)>> {
    let hops = table(result, "hops");
    let waits =
        texts(result, hops, "path").into_iter().zip(ints(hops, "queued_ns").iter().copied());
    let mut found: HashMap<i64, Vec<(&str, i64)>> = HashMap::new();
    for (packet, wait) in ints(hops, "packet").iter().zip(waits) {
        found.entry(*packet).or_default().push(wait);
    }
    found
}

/// What happens to the packets of the table `packets`. The table `flow_seconds` has the same sums.
fn check_packets(scenario: &Scenario, result: &SimResult) {
    let packets = table(result, "packets");
    let column = |name: &str| ints(packets, name);
    let [sent, delivered, dropped] = ["sent_ns", "delivered_ns", "dropped_ns"].map(column);
    let (sizes, queued) = (column("size_bytes"), column("queued_ns"));
    let text = |name: &str| texts(result, packets, name);
    let (flows, kinds, drop_paths) = (text("flow"), text("kind"), text("drop_path"));
    let queued_paths = text("queued_path");
    let routes = routes(scenario);
    let spans = table(result, "flows");
    let ends = texts(result, spans, "flow").into_iter().zip(ints(spans, "end_ns").iter().copied());
    let ends: HashMap<&str, i64> = ends.collect();
    let mut counts: BTreeMap<&str, Counts> = BTreeMap::new();
    let mut waits = waits_of_packets(result);
    for row in 0..sent.len() {
        let Route { whole, last } = &routes[flows[row]];
        let count = counts.entry(flows[row]).or_default();
        count.sent[0] += 1;
        count.sent[1] += sizes[row];
        let is_media = ["video", "audio", "fec"].contains(&kinds[row]);
        let paths = if is_media { whole } else { last };
        let least: i64 = paths.iter().map(|path| scenario.least_delay(*path).0 as i64).sum();
        match (delivered[row], dropped[row]) {
            (NO_INT, NO_INT) => {
                // It is on its way, such as a repetition of TCP at the end.
                let way = DURATION.0 as i64 - sent[row];
                assert!(way < LONGEST_WAY.0 as i64, "packet {row} of {} has vanished", flows[row]);
            }
            (NO_INT, at) => {
                assert!(at >= sent[row], "packet {row} of {}", flows[row]);
                let path = drop_paths[row];
                assert!(whole.iter().any(|index| name_of_path(*index) == path), "{path}");
                count.dropped += 1;
            }
            (at, NO_INT) => {
                assert!(at >= sent[row] + least, "packet {row} of {}", flows[row]);
                assert!(queued[row] >= 0 && queued[row] <= at - sent[row] - least);
                let others = waits.remove(&(row as i64)).unwrap_or_default();
                let longest = queued[row] - others.iter().map(|(_, queued)| queued).sum::<i64>();
                assert!(others.iter().all(|(_, queued)| (1..=longest).contains(queued)));
                // A packet crosses no path twice. What a server passes on has crossed paths of other flows.
                let mut places: Vec<&str> = others.iter().map(|(path, _)| *path).collect();
                places.extend((longest > 0).then_some(queued_paths[row]));
                let known = |path: &str| scenario.paths.iter().any(|config| config.name == path);
                assert!(places.iter().all(|path| known(path)));
                assert_eq!(places.iter().collect::<HashSet<_>>().len(), places.len());
                assert_eq!(longest > 0, !queued_paths[row].is_empty());
                // What arrives after the end of its flow is received by nobody.
                if at < ends[flows[row]] {
                    count.delivered[0] += 1;
                    count.delivered[1] += sizes[row];
                }
            }
            _ => panic!("packet {row} of {} is both delivered and dropped", flows[row]),
        }
    }
    assert!(waits.is_empty(), "a packet that was not delivered has waits: {waits:?}");
    let seconds = table(result, "flow_seconds");
    let sum = |flow: &str, name: &str| -> i64 {
        let rows = texts(result, seconds, "flow").into_iter().zip(ints(seconds, name));
        rows.filter(|(of, _)| *of == flow).map(|(_, value)| value).sum()
    };
    for (flow, counts) in &counts {
        let summed = Counts {
            sent: [sum(flow, "sent_packets"), sum(flow, "sent_bytes")],
            delivered: [sum(flow, "delivered_packets"), sum(flow, "delivered_bytes")],
            dropped: sum(flow, "dropped_packets"),
        };
        assert_eq!(&summed, counts, "{flow}");
    }
}

/// The paths of a flow's media, and the paths of what its last sender makes itself.
struct Route {
    whole: Vec<usize>,
    last: Vec<usize>,
}

fn routes(scenario: &Scenario) -> HashMap<String, Route> {
    let mut routes = HashMap::new();
    let mut add = |flow: String, whole: [usize; 2], last: [usize; 2]| {
        let [whole, last] = [whole, last].map(|ends| scenario.route(ends));
        routes.insert(flow, Route { whole, last });
    };
    for Link { ends: [a, b], media, .. } in scenario.links() {
        add(media.map(name).join("->"), media, [a, b]);
        // Receivers' RTCP goes through a switching MCU to the sender of media, over the flow of that connection.
        add(format!("{}->{}", name(b), name(a)), [b, a], [b, a]);
    }
    add("tcp".to_owned(), [0, 1], [0, 1]);
    add("tcp acks".to_owned(), [1, 0], [1, 0]);
    add("udp".to_owned(), [1, CORE], [1, CORE]);
    routes
}

/// Tables that are in order of time, by their columns of time.
const ORDERED: [(&str, &str); 5] = [
    ("outbound_rtp", "at_ns"),
    ("inbound_rtp", "at_ns"),
    ("controller", "at_ns"),
    ("events", "at_ns"),
    ("tcp", "at_ns"),
];

fn check_order(result: &SimResult) {
    for (name, column) in ORDERED {
        assert!(ints(table(result, name), column).is_sorted(), "{name}");
    }
    let frames = table(result, "frames");
    let [captured, received, rendered] =
        ["captured_ns", "received_ns", "rendered_ns"].map(|column| ints(frames, column));
    let flows = texts(result, frames, "flow");
    let mut shown: HashMap<(&str, i64), (i64, HashSet<i64>)> = HashMap::new();
    for (row, (&ssrc, &timestamp)) in
        ints(frames, "ssrc").iter().zip(ints(frames, "rtp_timestamp")).enumerate()
    {
        assert!(captured[row] <= received[row] && received[row] <= rendered[row], "frame {row}");
        let (last, timestamps) = shown.entry((flows[row], ssrc)).or_default();
        assert!(*last <= rendered[row], "frame {row}");
        *last = rendered[row];
        assert!(timestamps.insert(timestamp), "frame {row} is shown twice");
    }
}

/// A packet in a capture: all bytes or, over TCP, IP header and ports. Headers of TCP are made when a packet is captured, so
/// that they are not the same at both ends. A queue may change the ECN codepoint, and with it the checksum.
fn identity(bytes: &[u8]) -> Vec<u8> {
    const TCP: u8 = 6;
    let known = if bytes[9] == TCP { 24 } else { bytes.len() };
    let mut identity = bytes[..known].to_vec();
    identity[1] &= !3;
    identity[10..12].fill(0);
    identity
}

/// Every packet that arrives at a node has left another node before, and does not arrive more often than it left. Returns how
/// many arrive.
fn check_capture(pcapng: &[u8]) -> usize {
    let mut reader = CaptureReader::new(pcapng).expect("a capture");
    let (mut last, mut arrived, mut under_way) = (0, 0, HashMap::<Vec<u8>, i64>::new());
    while let Some(frame) = reader.next_frame().expect("memory can be read") {
        assert!(frame.at_ns >= last, "{} after {last}", frame.at_ns);
        last = frame.at_ns;
        let count = under_way.entry(identity(frame.bytes)).or_default();
        match frame.direction.expect("a direction") {
            Direction::Inbound => *count += 1,
            Direction::Outbound => {
                *count -= 1;
                arrived += 1;
                assert!(*count >= 0, "{:?} arrived at {last} ns and was not sent", frame.bytes);
            }
        }
    }
    arrived
}

/// Otherwise the properties would hold because nothing happens: over good paths, media arrives at everybody, and another
/// seed gives another run.
#[test]
fn every_topology_carries_media() {
    for topology in TOPOLOGIES {
        let path = |index| PathConfig {
            name: name_of_path(index),
            capacity: Some(Capacity::Constant { bps: Bitrate::from_mbps(5) }),
            queue: Some(QueueLimit::Packets(50)),
            jitter: Some(Jitter { sd_ns: Time::from_millis(1), reorder: false }),
            ..PathConfig::default()
        };
        let paths: Vec<PathConfig> = (0..6).map(path).collect();
        let (changes, steps) = (Vec::new(), Vec::new());
        let (people, audio, traffic, seed) = (3, true, 3, 1);
        let scenario =
            Scenario { topology, people, control: 0, audio, traffic, seed, paths, changes, steps };
        let result = scenario.run(&[]);
        check_packets(&scenario, &result);
        let shown = texts(&result, table(&result, "frames"), "flow");
        for flow in scenario.links().iter().map(|link| link.media.map(name).join("->")) {
            // At least a second of pictures, apart from those that a server does not show.
            let to_server = flow.ends_with("->core") && topology != Topology::MixingMcu;
            let count = shown.iter().filter(|of| **of == flow).count();
            assert!(to_server || count >= 15, "{topology:?} {flow}: {count}");
        }
        let (_, captured) = simulate_captured(&scenario.config()).expect("a run");
        let arrived = check_capture(&captured.pcapng);
        assert!(arrived > 1_000, "{topology:?}: {arrived}");
        let other = Scenario { seed: 2, ..scenario };
        assert!(printed(&result) != printed(&other.run(&[])), "{topology:?}");
    }
}

/// Packets for a relay and packets that only pass it leave an uplink without a capacity at one moment, when jitter that
/// keeps the order makes them wait for each other. The queue that both enter next has room for some of them.
#[test]
fn what_leaves_a_path_at_one_moment_stays_in_order_on_two_threads() {
    let delay = |ms| Delay::Constant { ns: Time::from_millis(ms) };
    let mut paths: Vec<PathConfig> = [1, 1, 15, 9]
        .into_iter()
        .enumerate()
        .map(|(index, ms)| PathConfig {
            name: name_of_path(index),
            delay: delay(ms),
            ..PathConfig::default()
        })
        .collect();
    paths[0].jitter = Some(Jitter { sd_ns: Time::from_millis(1), reorder: false });
    paths[3].capacity = Some(Capacity::Constant { bps: Bitrate::from_kbps(708) });
    paths[3].queue = Some(QueueLimit::Packets(7));
    for seed in 0..4 {
        let scenario = Scenario {
            topology: Topology::Relay,
            people: 2,
            control: 1,
            audio: true,
            traffic: 1,
            seed,
            paths: paths.clone(),
            changes: Vec::new(),
            steps: Vec::new(),
        };
        let [one, two] = [false, true].map(|on_two| printed(&scenario.run(&[(DURATION, on_two)])));
        assert!(one == two, "seed {seed}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_sent_is_delivered_once_or_dropped_and_time_goes_on(scenario in scenario()) {
        let result = scenario.run(&[]);
        check_packets(&scenario, &result);
        check_order(&result);
    }

    #[test]
    fn nothing_arrives_that_was_not_sent_and_nothing_arrives_twice(scenario in scenario()) {
        let config = scenario.config();
        let (result, captured) = simulate_captured(&config).expect("a run");
        check_capture(&captured.pcapng);
        prop_assert!(printed(&result) == printed(&simulate(&config).expect("a run")));
    }

    #[test]
    fn a_seed_gives_the_same_bytes_however_a_run_is_run(scenario in scenario()) {
        let whole = printed(&scenario.run(&[]));
        prop_assert!(whole == printed(&scenario.run(&scenario.steps)), "in steps");
        prop_assert!(whole == printed(&scenario.run(&[(DURATION, true)])), "on two threads");
        prop_assert!(whole == printed(&scenario.run(&[])), "again");
    }
}
