//! Configurations that came past the checks in Python: each is refused with the field, and none hangs or wraps.

use crate::support::{LINK, call};
use rtclab_core::path::PathConfig;
use rtclab_core::sim::{SimConfig, simulate};
use serde_json::{Value, json};

/// A call with everything that a configuration can have.
fn full() -> Value {
    let mut config = serde_json::to_value(call(LINK, 2, 1)).expect("JSON");
    config["participants"][0]["audio"] = json!({"bitrate_bps": 32_000, "frame_ns": 20_000_000});
    config["participants"][0]["host"] = json!({
        "encoder_capacity_pixels_per_second": 1e8,
        "variation": {"deviation": 0.1, "correlation_ns": 1_000_000},
    });
    config["network"]["paths"][0]["clock"] = json!({"wander": 0.02, "correlation_ns": 1_000_000});
    config["traffic"] = json!([
        {
            "flows": ["udp"], "sender": "alice", "receiver": "bob", "connections": 1, "start_ns": 0,
            "stop_ns": 1_000_000_000, "objects": null, "udp": {"rate_bps": 100_000, "packet_bytes": 1_200},
        },
        {
            "flows": ["tcp"], "sender": "alice", "receiver": "bob", "connections": 1, "start_ns": 0,
            "stop_ns": 1_000_000_000,
            "objects": {"min_bytes": 1, "max_bytes": 2, "mean_idle_ns": 1, "idle_first": false},
        },
    ]);
    config
}

/// The error of [`full`] with a value in place of another.
fn error_with(pointer: &str, value: Value) -> String {
    let mut config = full();
    let parent = pointer.rsplit_once('/').expect("a path").0;
    let key = &pointer[parent.len() + 1..];
    let table = config.pointer_mut(parent).unwrap_or_else(|| panic!("{parent}"));
    table[key] = value;
    let config: SimConfig = serde_json::from_value(config).expect("the right types");
    simulate(&config).err().map_or(String::new(), |error| error.to_string())
}

/// A server may have the table of a mixer and of a forwarder, but not the name of a participant or media that nobody
/// would send.
#[test]
fn a_server_that_forwards_has_a_name_and_no_media() {
    let server = |name: &str, audio: Value| {
        let mut server = full()["participants"][0].clone();
        (server["name"], server["video"], server["audio"]) = (json!(name), Value::Null, audio);
        server
    };
    let mut config = full();
    config["mixers"] =
        json!([server("box", json!({"bitrate_bps": 32_000, "frame_ns": 20_000_000}))]);
    config["forwarders"] = json!([server("box", Value::Null)]);
    let valid: SimConfig = serde_json::from_value(config).expect("the right types");
    assert_eq!(valid.check(), Ok(()));
    for (name, audio, said) in [
        ("alice", Value::Null, "forwarders: `alice` "),
        (
            "box",
            json!({"bitrate_bps": 32_000, "frame_ns": 20_000_000}),
            "forwarders: `box` with media ",
        ),
    ] {
        let error = error_with("/forwarders", json!([server(name, audio)]));
        assert!(error.starts_with(said), "{error}");
    }
}

#[test]
fn the_configuration_that_the_other_tests_spoil_is_valid() {
    let config: SimConfig = serde_json::from_value(full()).expect("a configuration");
    assert!(simulate(&config).is_ok());
}

#[test]
fn a_value_that_would_hang_wrap_or_panic_is_refused_with_its_field() {
    let long = 1_000_000_000_000_000_001_u64;
    let steps = |steps: Value| json!({"kind": "steps", "steps": steps});
    let (alice, path) = ("/participants/0", "/network/paths/0");
    let (udp, tcp) = ("/traffic/0", "/traffic/1");
    let cases = [
        ("", "/duration_ns", json!(u64::MAX), "duration_ns: "),
        (alice, "/leave_ns", json!(long), "participants.alice.leave_ns: "),
        (
            alice,
            "/pause",
            json!({"start_ns": 5, "end_ns": 5}),
            "participants.alice.pause.end_ns: 5 ns ",
        ),
        (alice, "/name", json!("bob"), "participants: `bob` "),
        (alice, "/audio/frame_ns", json!(0), "participants.alice.audio.frame_ns: 0 ns "),
        (alice, "/audio/frame_ns", json!(long), "participants.alice.audio.frame_ns: "),
        (alice, "/audio/bitrate_bps", json!(u64::MAX), "participants.alice.audio.bitrate_bps: "),
        (alice, "/audio/bitrate_bps", json!(30_000_000), "participants.alice.audio.bitrate_bps: "),
        (alice, "/video/width", json!(0), "participants.alice.video.width: 0 "),
        (alice, "/video/frame_rate", json!(0.0), "participants.alice.video.frame_rate: 0 "),
        (alice, "/video/frame_rate", json!(1e300), "participants.alice.video.frame_rate: 1"),
        (alice, "/video/max_bps", json!(u64::MAX), "participants.alice.video.max_bps: "),
        (
            alice,
            "/video/min_bps",
            json!(1_700_001),
            "participants.alice.video.min_bps: 1700001 bit/s ",
        ),
        (alice, "/video/start_bps", json!(0), "participants.alice.video.start_bps: 0 bit/s "),
        (
            alice,
            "/host/encoder_capacity_pixels_per_second",
            json!(-1.0),
            "participants.alice.host.encoder_capacity_pixels_per_second: -1 ",
        ),
        (
            alice,
            "/host/variation/correlation_ns",
            json!(0),
            "participants.alice.host.variation.correlation_ns: 0 ns ",
        ),
        ("/connections/0", "/end_ns", json!(long), "connections.0.end_ns: "),
        ("/network", "/nodes", json!(["alice", "bob", "core", "bob"]), "network.nodes: `bob` "),
        ("/network/paths/2", "/name", json!("alice.up"), "network.paths: `alice.up` "),
        (
            path,
            "/capacity",
            steps(json!([])),
            "network.paths.alice.up.capacity.steps: an empty list ",
        ),
        (
            path,
            "/capacity",
            steps(json!([[0, 1_000_000], [0, 2_000_000]])),
            "network.paths.alice.up.capacity.steps: 0 ns after 0 ns ",
        ),
        (
            path,
            "/capacity",
            steps(json!([[0, u64::MAX]])),
            "network.paths.alice.up.capacity.steps: ",
        ),
        (path, "/capacity/bps", json!(u64::MAX), "network.paths.alice.up.capacity.bps: "),
        (
            path,
            "/capacity",
            json!({"kind": "opportunities", "times": [], "period": 1, "bytes": 1_500}),
            "network.paths.alice.up.capacity.times: an empty list ",
        ),
        (
            path,
            "/capacity",
            json!({"kind": "opportunities", "times": [2], "period": 1, "bytes": 1_500}),
            "network.paths.alice.up.capacity.times: 2 ns ",
        ),
        (
            path,
            "/capacity",
            json!({"kind": "opportunities", "times": [1], "period": 1, "bytes": 0}),
            "network.paths.alice.up.capacity.bytes: 0 B ",
        ),
        (
            path,
            "/queue",
            json!({"kind": "time", "limit": u64::MAX}),
            "network.paths.alice.up.queue.limit: ",
        ),
        (path, "/delay/ns", json!(u64::MAX), "network.paths.alice.up.delay.ns: "),
        (path, "/delay/ns", json!(3_600_000_000_001_u64), "network.paths.alice.up.clock.wander: "),
        (path, "/delay", steps(json!([])), "network.paths.alice.up.delay.steps: an empty list "),
        (
            path,
            "/delay",
            json!({"kind": "ramp", "shape": "linear", "start_ns": 2, "end_ns": 1, "from_ns": 0, "to_ns": 0}),
            "network.paths.alice.up.delay.end_ns: 1 ns ",
        ),
        (
            path,
            "/delay",
            json!({"kind": "ramp", "shape": "exponential", "start_ns": 0, "end_ns": 1, "from_ns": 0, "to_ns": 1}),
            "network.paths.alice.up.delay.from_ns: a delay of 0 ns ",
        ),
        (path, "/jitter", json!({"sd_ns": u64::MAX}), "network.paths.alice.up.jitter.sd_ns: "),
        (
            path,
            "/loss",
            json!({"p": 0.0, "r": 1.0, "h": 1.1, "k": 1.0}),
            "network.paths.alice.up.loss.h: 1.1 ",
        ),
        (
            path,
            "/loss_trace",
            json!({"runs": []}),
            "network.paths.alice.up.loss_trace.runs: a period of 0 ",
        ),
        (path, "/tick_ns", json!(0), "network.paths.alice.up.tick_ns: 0 ns "),
        (path, "/clock/wander", json!(1e300), "network.paths.alice.up.clock.wander: 1"),
        (udp, "/udp/packet_bytes", json!(0), "traffic.0.udp.packet_bytes: 0 B "),
        (udp, "/udp/packet_bytes", json!(u64::MAX), "traffic.0.udp.packet_bytes: "),
        (udp, "/udp/rate_bps", json!(u64::MAX), "traffic.0.udp.rate_bps: "),
        (udp, "/flows", json!([]), "traffic.0.flows: an empty list "),
        (udp, "/connections", json!(u32::MAX), "traffic.0.connections: 4294967295 "),
        (tcp, "/stop_ns", json!(long), "traffic.1.stop_ns: "),
        (tcp, "/objects/min_bytes", json!(0), "traffic.1.objects.min_bytes: 0 B "),
        (tcp, "/objects/min_bytes", json!(3), "traffic.1.objects.min_bytes: 3 B "),
        (tcp, "/objects/max_bytes", json!(u64::MAX), "traffic.1.objects.max_bytes: "),
    ];
    for (table, field, value, expected) in cases {
        let pointer = format!("{table}{field}");
        let error = error_with(&pointer, value);
        assert!(error.starts_with(expected), "{pointer}: {error}");
        assert!(error.contains(" is not possible; expected "), "{error}");
    }
}

/// The longest times are no error, and do not wrap.
#[test]
fn a_call_over_a_path_of_31_years_delivers_nothing() {
    let longest = 1_000_000_000_000_000_000_u64;
    let mut config = full();
    config["network"]["paths"][0] = json!({
        "name": "alice.up", "delay": {"kind": "constant", "ns": longest}, "jitter": {"sd_ns": longest},
        "queue": {"kind": "time", "limit": longest}, "capacity": {"kind": "constant", "bps": 1},
    });
    for participant in ["/participants/0", "/participants/1"] {
        config.pointer_mut(participant).expect("a participant")["leave_ns"] = json!(longest);
    }
    let config: SimConfig = serde_json::from_value(config).expect("a configuration");
    assert!(simulate(&config).is_ok());
}

#[test]
fn a_path_alone_is_checked_too() {
    let path: PathConfig =
        serde_json::from_str(r#"{"name": "a.up", "capacity": {"kind": "steps", "steps": []}}"#)
            .expect("a path");
    assert_eq!(
        path.check().map_err(|error| error.to_string()),
        Err("a.up.capacity.steps: an empty list is not possible; expected at least one step"
            .to_owned())
    );
}

#[test]
fn a_path_loses_packets_at_random_or_as_recorded_but_not_both() {
    let path = r#"{"name": "a.up", "loss_trace": {"runs": [9, 1]}, "loss": {"p": 0, "r": 1, "h": 0.9, "k": 0.9}}"#;
    let path: PathConfig = serde_json::from_str(path).expect("a path");
    assert_eq!(
        path.check().map_err(|error| error.to_string()),
        Err("a.up.loss_trace: a trace beside random loss is not possible; expected one of the two"
            .to_owned())
    );
}
