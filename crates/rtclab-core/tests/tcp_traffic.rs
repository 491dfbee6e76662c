//! TCP cross traffic in a simulated run.

use crate::support::{LINK, call};
use rtclab_core::path::{Capacity, Delay};
use rtclab_core::record::{Column, Detail, Table};
use rtclab_core::sim::{SimConfig, simulate};
use rtclab_core::units::{Bitrate, Time};

/// TCP from alice to bob for the whole run, beside their call if `beside` is set.
fn with_traffic(traffic: &str, link: &str, seconds: u64, beside: bool) -> SimConfig {
    let mut config = call(link, seconds, 1);
    config.record = Detail::Seconds;
    if !beside {
        config.connections.clear();
    }
    let stop = seconds * 1_000_000_000;
    let json = format!(
        r#"[{{{traffic}, "sender": "alice", "receiver": "bob", "start_ns": 0, "stop_ns": {stop}}}]"#
    );
    config.traffic = serde_json::from_str(&json).expect("valid traffic");
    config
}

fn long(congestion_control: &str) -> String {
    format!(
        r#""flows": ["tcp.1", "tcp.2"], "connections": 2, "objects": null,
           "congestion_control": "{congestion_control}""#
    )
}

/// The last value of an integer column for each flow of the table `tcp`.
fn last(tables: &[Table], name: &str, flows: usize) -> Vec<i64> {
    let table = tables.iter().find(|t| t.name == "tcp").expect("the table");
    match &table.columns.iter().find(|c| c.0 == name).expect("the column").1 {
        Column::Int(values) => values[values.len() - flows..].to_vec(),
        other => panic!("{name} is {other:?}"),
    }
}

#[test]
fn two_equal_flows_share_a_link_and_fill_it() {
    for congestion_control in ["newreno", "cubic", "bbr", "dctcp", "prague"] {
        let config = with_traffic(&long(congestion_control), LINK, 120, false);
        let bytes = last(&simulate(&config).expect("a run").tables, "delivered_bytes", 2);
        let share = bytes[0] as f64 / (bytes[0] + bytes[1]) as f64;
        assert!((0.35..=0.65).contains(&share), "{congestion_control}: {share}");
        // 1448 of 1500 bytes of 1 Mbit/s for 120 s are 14.5 MB; set-up and losses take some.
        let total = (bytes[0] + bytes[1]) as f64 / 14.48e6;
        assert!((0.93..=1.0).contains(&total), "{congestion_control}: {total}");
    }
}

#[test]
fn the_number_of_objects_follows_from_their_transfers_and_pauses() {
    let objects = r#""flows": ["web"], "connections": 4, "congestion_control": "cubic",
        "objects": {"min_bytes": 30000, "max_bytes": 50000, "mean_idle_ns": 1000000000, "idle_first": false}"#;
    let config = with_traffic(objects, &LINK.replace("1000000", "10000000"), 400, false);
    let tables = simulate(&config).expect("a run").tables;
    // 30 to 50 kB take four or five round trips of 50 ms: 4 sources of 400 s / (1 s + 0.2 s) each.
    let count = last(&tables, "objects", 1)[0];
    assert!((1200..=1450).contains(&count), "{count}");
    let mean = last(&tables, "delivered_bytes", 1)[0] / count;
    assert!((39_000..=41_000).contains(&mean), "{mean}");
}

#[test]
fn tcp_recovers_from_an_outage_of_a_minute_beside_a_call() {
    for congestion_control in ["newreno", "cubic", "bbr", "dctcp", "prague"] {
        let mut config = with_traffic(&long(congestion_control), LINK, 120, true);
        let up = config.network.paths.iter_mut().find(|p| p.name == "alice.up").expect("the path");
        let steps = [(0, 1), (20, 0), (80, 1)];
        let steps = steps.map(|(at, mbps)| (Time::from_secs(at), Bitrate::from_mbps(mbps)));
        up.capacity = Some(Capacity::Steps { steps: steps.to_vec() });
        let tables = simulate(&config).expect("a run").tables;
        let bytes: i64 = last(&tables, "delivered_bytes", 2).iter().sum();
        // 60 s of 1 Mbit/s are 7.2 MB; the timeouts grow to 51 s in the outage, which may cost
        // almost all of what comes after it.
        assert!((1_200_000..=7_300_000).contains(&bytes), "{congestion_control}: {bytes}");
    }
}

#[test]
fn traffic_to_an_unknown_node_is_an_error() {
    let mut config = with_traffic(&long("cubic"), LINK, 1, false);
    config.traffic[0].receiver = "carol".into();
    let error = simulate(&config).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("`carol` is not a node"), "{error}");
}

/// Only acknowledgements would limit it, and they would arrive at once.
#[test]
fn traffic_over_links_that_take_no_time_is_an_error() {
    let mut config = with_traffic(&long("cubic"), LINK, 1, false);
    for path in &mut config.network.paths {
        (path.capacity, path.queue, path.delay) = (None, None, Delay::default());
    }
    let error = simulate(&config).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("takes no time"), "{error}");
    config.network.paths[0].delay = Delay::Constant { ns: Time::from_millis(1) };
    config.duration_ns = Time::from_millis(10);
    assert!(simulate(&config).is_ok());
}

/// BBR never uses ECN, and DCTCP and Prague always do.
#[test]
fn ecn_is_a_choice_of_newreno_and_cubic_alone() {
    for (congestion_control, is_fine) in
        [("newreno", true), ("cubic", true), ("bbr", false), ("dctcp", false), ("prague", false)]
    {
        let own = format!(r#"{}, "ecn": true"#, long(congestion_control));
        let error = with_traffic(&own, LINK, 1, false).check().err().map(|error| error.to_string());
        let expected =
            "traffic.0.ecn: true is not possible; expected false, or TCP with newreno or cubic";
        assert_eq!(error.as_deref(), (!is_fine).then_some(expected), "{congestion_control}");
    }
}
