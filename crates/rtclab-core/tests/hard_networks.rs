//! Networks that leave a call little or nothing: the run ends, with figures that say so.

use crate::support::{LINK, call};
use rtclab_core::endpoint::AudioConfig;
use rtclab_core::record::{Column, Table};
use rtclab_core::sim::{SimConfig, simulate};
use rtclab_core::units::{Bitrate, Time};

fn run(config: &SimConfig) -> Vec<Table> {
    simulate(config).expect("a run").tables
}

fn ints<'a>(tables: &'a [Table], table: &str, name: &str) -> &'a [i64] {
    let table = tables.iter().find(|t| t.name == table).expect("the table");
    match &table.columns.iter().find(|c| c.0 == name).expect("the column").1 {
        Column::Int(values) => values,
        other => panic!("{name} is {other:?}"),
    }
}

/// Bytes delivered in both flows from second `from` until before second `to`.
fn delivered(tables: &[Table], from: i64, to: i64) -> i64 {
    let at = ints(tables, "flow_seconds", "at_ns");
    let bytes = ints(tables, "flow_seconds", "delivered_bytes");
    let inside = |at: i64| (from * 1_000_000_000..to * 1_000_000_000).contains(&at);
    at.iter().zip(bytes).filter(|(at, _)| inside(**at)).map(|(_, bytes)| bytes).sum()
}

#[test]
fn a_network_that_loses_everything_delivers_nothing_and_connects_nobody() {
    let all = r#""loss": {"p": 0.0, "r": 1.0, "h": 0.0, "k": 0.0}"#;
    let radio = r#"{"bps": 6000000, "error": 1.0}"#;
    let links = [
        format!("{LINK}, {all}"),
        format!(r#"{LINK}, {all}, "loss_position": "queue""#),
        format!(r#"{LINK}, {all}, "tick_ns": 1000000"#),
        format!(
            r#""queue": {{"kind": "packets", "limit": 20}}, "wifi": {{"attempts": 15,
                "good": {radio}, "fade": {radio}, "mean_good_ns": 0, "mean_fade_ns": 1}}"#
        ),
    ];
    for link in links {
        let tables = run(&call(&link, 20, 1));
        assert_eq!(delivered(&tables, 0, 20), 0, "{link}");
        assert!(ints(&tables, "frames", "rendered_ns").is_empty(), "{link}");
    }
}

#[test]
fn a_call_survives_an_outage_of_five_seconds() {
    let link = r#""queue": {"kind": "time", "limit": 300000000}, "delay": {"kind": "constant", "ns": 25000000},
        "capacity": {"kind": "steps", "steps": [[0, 1000000], [20000000000, 0], [25000000000, 1000000]]}"#;
    for link in [link.to_string(), format!(r#"{link}, "tick_ns": 1000000"#)] {
        let tables = run(&call(&link, 60, 1));
        assert_eq!(delivered(&tables, 21, 25), 0);
        // From 40 s on each direction has recovered at least half of the link: once a flow has been near its
        // capacity, it grows by at most a packet per round trip.
        let kbps = delivered(&tables, 40, 60) as f64 * 8.0 / 20e3 / 2.0;
        assert!((500.0..1000.0).contains(&kbps), "{kbps} kbit/s");
    }
}

#[test]
fn a_sender_without_any_feedback_stays_below_its_start_rate_and_its_probes() {
    // Bob's uplink dies at 10 s, so nothing that alice sends is reported any more.
    let mut config = call(LINK, 60, 1);
    let bob = config.network.paths.iter_mut().find(|p| p.name == "bob.up").expect("the path");
    bob.capacity = Some(rtclab_core::path::Capacity::Steps {
        steps: vec![(Time::ZERO, Bitrate::from_mbps(1)), (Time::from_secs(10), Bitrate::ZERO)],
    });
    let tables = run(&config);
    // libwebrtc backs off by a fifth a second once the corrected round trip exceeds 3 s, to 5 kbit/s;
    // 30 s later what is left is the encoder's minimum of 30 kbit/s and headers.
    let kbps = delivered(&tables, 45, 60) as f64 * 8.0 / 15e3;
    assert!((30.0..150.0).contains(&kbps), "{kbps} kbit/s");
}

/// A packet is requested again until it arrives, at most ten times, or FEC restores it. All ten
/// requests are in vain in 1e-7 of the cases. So every picture that is sent is shown, except in the last moments.
#[test]
fn twenty_percent_loss_leaves_a_call_with_all_its_pictures() {
    let link = format!(r#"{LINK}, "loss": {{"p": 0.0, "r": 1.0, "h": 0.8, "k": 0.8}}"#);
    let tables = run(&call(&link, 60, 1));
    let shown = ints(&tables, "frames", "rendered_ns").len() as i64;
    let (ssrc, frames) = ("ssrc", "framesSent");
    let [ssrc, frames] = [ssrc, frames].map(|name| ints(&tables, "outbound_rtp", name));
    let sent_by =
        |own: i64| ssrc.iter().zip(frames).rfind(|(ssrc, _)| **ssrc == own).expect("rows").1;
    let sent = sent_by(1_001) + sent_by(2_001);
    // Pictures of the last second may be on their way, and a key frame skips those that wait for a packet.
    assert!((sent * 98 / 100..=sent).contains(&shown), "{shown} of {sent}");
    // At two thirds of 30 a second, when most of the capacity goes to repair.
    assert!((20 * 2 * 57..=30 * 2 * 60).contains(&sent), "{sent}");
}

#[test]
fn opus_at_32_kbps_sends_fifty_packets_a_second() {
    let mut config = call(LINK, 20, 1);
    for participant in &mut config.participants {
        let frame_ns = Time::from_millis(20);
        participant.audio = Some(AudioConfig { bitrate_bps: Bitrate::from_kbps(32), frame_ns });
        participant.video = None;
    }
    let tables = run(&config);
    let sent = ints(&tables, "outbound_rtp", "packetsSent");
    let count = sent.iter().max().copied().unwrap_or(0);
    // Media starts within the first second.
    assert!((950..=1000).contains(&count), "{count}");
}
