//! UDP cross traffic in a simulated run.

use crate::support::{LINK, call};
use rtclab_core::path::Delay;
use rtclab_core::record::{Column, Detail, Table};
use rtclab_core::sim::{SimConfig, simulate};

const SECONDS: u64 = 100;

/// 1 Mbit/s of 1250 B from alice to bob, alone, over `connections` connections with a flow each.
fn udp(link: &str, connections: u32) -> SimConfig {
    let mut config = call(link, SECONDS, 1);
    config.connections.clear();
    let flows: Vec<String> = (1..=connections).map(|number| format!("noise.{number}")).collect();
    config.traffic = serde_json::from_value(serde_json::json!([{
        "flows": flows, "sender": "alice", "receiver": "bob", "connections": connections,
        "start_ns": 0, "stop_ns": SECONDS * 1_000_000_000, "objects": null,
        "udp": {"rate_bps": 1_000_000 / u64::from(connections), "packet_bytes": 1_250},
    }]))
    .expect("valid traffic");
    config
}

fn ints(tables: &[Table], table: &str, name: &str) -> Vec<i64> {
    let table = tables.iter().find(|t| t.name == table).expect("the table");
    match &table.columns.iter().find(|c| c.0 == name).expect("the column").1 {
        Column::Int(values) => values.clone(),
        other => panic!("{name} is {other:?}"),
    }
}

fn sum(tables: &[Table], name: &str) -> i64 {
    ints(tables, "flow_seconds", name).iter().sum()
}

#[test]
fn a_link_of_half_the_rate_drops_half_of_the_packets() {
    let mut config = udp(&LINK.replace("1000000", "500000"), 1);
    config.record = Detail::Seconds;
    let tables = simulate(&config).expect("a run").tables;
    assert_eq!(sum(&tables, "sent_packets"), 10_000);
    assert_eq!(sum(&tables, "sent_bytes"), 12_500_000);
    // A packet every 20 ms for 100 s. The last one is still on its way.
    let delivered = sum(&tables, "delivered_packets");
    assert!((4_995..=5_000).contains(&delivered), "{delivered}");
    // The queue of 300 ms holds 15 packets at the end, and some are in flight.
    let dropped = sum(&tables, "dropped_packets");
    assert!((4_980..=4_987).contains(&dropped), "{dropped}");
    // Nobody acknowledges: there is one flow and no figures of TCP.
    assert_eq!(ints(&tables, "flows", "end_ns").len(), 1);
    assert!(ints(&tables, "tcp", "delivered_bytes").is_empty());
}

#[test]
fn several_connections_together_send_at_equal_intervals() {
    let tables = simulate(&udp(LINK, 4)).expect("a run").tables;
    let sent = ints(&tables, "packets", "sent_ns");
    assert_eq!(sent.len(), 10_000);
    assert!(sent.iter().zip(0..).all(|(at, number)| *at == number * 10_000_000));
    // Their sum is the capacity: nothing waits, and what is not under way at the end has arrived.
    assert_eq!(sum(&tables, "dropped_packets"), 0);
    let delays = ints(&tables, "packets", "delivered_ns");
    let arrived = sent.iter().zip(delays).filter(|(_, at)| *at >= 0);
    assert!(arrived.clone().count() >= 9_995);
    // 10 ms to serialise, 25 ms on the way.
    assert!(arrived.into_iter().all(|(sent, at)| at - sent == 35_000_000));
}

#[test]
fn udp_may_cross_links_that_take_no_time() {
    let mut config = udp(LINK, 1);
    for path in &mut config.network.paths {
        (path.capacity, path.queue, path.delay) = (None, None, Delay::default());
    }
    let tables = simulate(&config).expect("a run").tables;
    assert_eq!(sum(&tables, "delivered_packets"), 10_000);
}
