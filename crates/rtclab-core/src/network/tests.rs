mod reference;

use super::*;
use crate::path::Delay;
use crate::units::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;

fn path(name: String, delay: Time) -> PathConfig {
    PathConfig { name, delay: Delay::Constant { ns: delay }, ..PathConfig::default() }
}

fn route(from: &str, to: &str, paths: &[&str]) -> RouteConfig {
    let paths = paths.iter().map(|path| path.to_string()).collect();
    RouteConfig { from: from.to_owned(), to: to.to_owned(), paths }
}

fn packet(payload: u32) -> Packet<u32> {
    Packet::new(Bytes(100), payload)
}

/// Everything delivered by `until`: time, destination and payload.
fn delivered(network: &mut Network<u32>, until: Time) -> Vec<(Time, NodeId, u32)> {
    let events = std::iter::from_fn(|| network.poll(until));
    let delivered = events.filter_map(|event| match event {
        NetworkEvent::Delivered { at, to, packet, .. } => Some((at, to, packet.payload)),
        NetworkEvent::Dropped { .. } => None,
    });
    delivered.collect()
}

/// A star around node 0. Indices that differ by 65,536 would be equal in 16 bits.
#[test]
fn more_than_65536_nodes_paths_and_routes_stay_distinct() {
    const LEAVES: u32 = 65_600;
    let name = |leaf: u32| format!("leaf {leaf}");
    let delay = |leaf: u32| Time::from_micros(u64::from(leaf) + 1);
    let nodes = std::iter::once("hub".to_owned()).chain((0..LEAVES).map(name)).collect();
    let paths = (0..LEAVES).map(|leaf| path(name(leaf), delay(leaf))).collect();
    let routes = (0..LEAVES).map(|leaf| route("hub", &name(leaf), &[&name(leaf)])).collect();
    let mut network =
        Network::new(NetworkConfig { nodes, paths, routes }, 1).expect("a valid network");
    let hub = NodeId(0);
    for leaf in [0, 63, 65_535, 65_536, 65_599] {
        let to = NodeId(leaf + 1);
        assert_eq!(network.route(hub, to), Some([PathId(leaf)].as_slice()));
        assert_eq!(network.route(to, hub), None);
        assert_eq!(network.handle_packet(Time::ZERO, hub, to, packet(leaf)), Ok(()));
    }
    let expected =
        [0, 63, 65_535, 65_536, 65_599].map(|leaf| (delay(leaf), NodeId(leaf + 1), leaf));
    assert_eq!(delivered(&mut network, Time::from_secs(1)), expected);
}

#[test]
fn without_a_route_a_packet_is_returned() {
    let nodes: Vec<String> = ["a", "b", "c"].map(str::to_owned).into();
    let paths = vec![path("p".to_owned(), Time(1))];
    let routes = vec![route("a", "b", &["p"]), route("a", "c", &["p"])];
    let mut network = Network::new(NetworkConfig { nodes, paths, routes }, 1).expect("valid");
    for (from, to) in [(0, 0), (1, 0), (1, 2), (2, 1), (0, 3), (3, 0)] {
        let given = network.handle_packet(Time::ZERO, NodeId(from), NodeId(to), packet(7));
        assert_eq!(given, Err(packet(7)), "{from} to {to}");
    }
    assert_eq!(network.poll_timeout(), None);
}

#[test]
fn of_two_routes_between_the_same_nodes_the_last_one_is_used() {
    let nodes: Vec<String> = ["a", "b"].map(str::to_owned).into();
    let paths = ["p", "q"].map(|name| path(name.to_owned(), Time(1))).into();
    let routes = vec![route("a", "b", &["p"]), route("a", "b", &["q", "p"])];
    let network: Network<u32> =
        Network::new(NetworkConfig { nodes, paths, routes }, 1).expect("valid");
    assert_eq!(network.route(NodeId(0), NodeId(1)), Some([PathId(1), PathId(0)].as_slice()));
}

#[test]
fn the_queuing_delay_of_a_packet_is_the_sum_over_the_paths_of_its_route() {
    // 100 B take 1 µs on path 1 and 2 µs on path 3. Of three packets sent at once the last waits 4 µs on
    // path 3. They reach path 1 2 µs apart, and wait there only behind two others of 1 µs each that are
    // sent when the first of them arrives, at 3 µs.
    let nodes = ["a", "b", "c"].map(str::to_owned).into();
    let routes = vec![route("a", "c", &["3", "1"]), route("b", "c", &["1"])];
    let config = NetworkConfig { nodes, paths: four_paths(), routes };
    let mut network = Network::new(config, 1).expect("valid");
    network.keep_waits();
    let send = |network: &mut Network<u32>, at, from, id| {
        network.handle_packet(Time(at), NodeId(from), NodeId(2), packet(id)).expect("a route");
    };
    (0..3).for_each(|id| send(&mut network, 0, 0, id));
    assert!(network.poll(Time(2_999)).is_none());
    (3..5).for_each(|id| send(&mut network, 2_999, 1, id));
    let mut queued = [Time::MAX; 5];
    let mut by_path = vec![Vec::new(); 5];
    while let Some(event) = network.poll(Time::from_secs(1)) {
        let NetworkEvent::Delivered { queued: waited, waits, packet, .. } = event else { continue };
        queued[packet.payload as usize] = waited;
        let waits = network.waits().of(waits);
        by_path[packet.payload as usize] =
            waits.map(|Wait { path, queued }| (path.0, queued.0)).collect();
    }
    // The last wait comes first, and who passes a queue at once did not wait there.
    let [path_1, path_3] = [1, 3];
    let expected = [
        vec![(path_1, 1_999)],
        vec![(path_1, 999), (path_3, 2_000)],
        vec![(path_3, 4_000)],
        vec![],
        vec![(path_1, 1_000)],
    ];
    assert_eq!(by_path, expected);
    // 3 and 4 occupy path 1 from 2,999 to 4,999 ns; 0 enters it at 3,000 and 1 at 5,000 ns.
    let expected = [1_999, 2_000 + 999, 4_000, 0, 1_000].map(Time);
    assert_eq!(queued, expected);
}

/// Paths that delay packets in different ways: 100 bytes take 1 µs at 800 Mbit/s.
fn four_paths() -> Vec<PathConfig> {
    let paths = r#"[
        {"name": "0", "delay": {"kind": "constant", "ns": 3000}},
        {"name": "1", "capacity": {"kind": "constant", "bps": 800000000}, "queue": {"kind": "packets", "limit": 2}},
        {"name": "2", "loss": {"p": 0.0, "r": 1.0, "h": 0.5, "k": 0.5}, "delay": {"kind": "constant", "ns": 1000}},
        {"name": "3", "capacity": {"kind": "constant", "bps": 400000000}, "delay": {"kind": "constant", "ns": 1000}}
    ]"#;
    serde_json::from_str(paths).expect("valid paths")
}

/// Routes from node `n` to the node after it.
const ROUTES: [&[usize]; 5] = [&[0], &[1], &[2, 1], &[3, 0, 1], &[1, 3]];

proptest! {
    #[test]
    fn who_wakes_for_outputs_alone_is_never_late_for_one_and_wakes_less_often(
        sent in vec((0u64..20_000, 0usize..ROUTES.len()), 1..60),
    ) {
        let nodes: Vec<String> = (0..=ROUTES.len()).map(|node| node.to_string()).collect();
        let routes = ROUTES.iter().enumerate().map(|(from, paths)| {
            let names: Vec<String> = paths.iter().map(usize::to_string).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            route(&from.to_string(), &(from + 1).to_string(), &names)
        });
        let config = NetworkConfig { nodes, paths: four_paths(), routes: routes.collect() };
        let mut sent: Vec<(Time, usize)> = sent.into_iter().map(|(at, r)| (Time(at), r)).collect();
        sent.sort();
        let (all, often) = woken(&config, &sent, Network::poll_timeout);
        let (same, seldom) = woken(&config, &sent, Network::output_timeout);
        prop_assert!(same.iter().all(|(woke, at, _)| woke == at));
        prop_assert_eq!(same, all);
        prop_assert!(seldom <= often);
    }
}

/// Drives a network that is woken at `timeout`, and whenever a packet is sent. Returns when it was woken for each
/// packet that came out, the packet's own time and number, and how often it was woken between the packets.
fn woken(
    config: &NetworkConfig,
    sent: &[(Time, usize)],
    timeout: fn(&Network<u32>) -> Option<Time>,
) -> (Vec<(Time, Time, u32)>, u32) {
    let mut network = Network::new(config.clone(), 1).expect("valid");
    let (mut out, mut wakes) = (Vec::new(), 0);
    let mut drain = |network: &mut Network<u32>, now| {
        out.extend(delivered(network, now).into_iter().map(|(at, _, id)| (now, at, id)));
    };
    for (id, &(now, index)) in (0..).zip(sent) {
        while let Some(at) = timeout(&network).filter(|at| *at <= now) {
            drain(&mut network, at);
            wakes += 1;
        }
        drain(&mut network, now);
        let [from, to] = [index, index + 1].map(|node| NodeId(node as u32));
        network.handle_packet(now, from, to, packet(id)).expect("there is a route");
    }
    while let Some(at) = timeout(&network) {
        drain(&mut network, at);
        wakes += 1;
    }
    (out, wakes)
}
