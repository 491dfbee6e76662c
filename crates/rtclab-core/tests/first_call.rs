//! Two participants over one link each: the whole simulator, from bytes to pictures.

use crate::support::{LINK, call, with_own};
use rtclab_core::catalogue::Catalogue;
use rtclab_core::cc::{
    ControlError, Controller, Decision, Feedback, Observation, Probe, RateBounds, SenderState,
    SentPacket,
};
use rtclab_core::media::host::HostConfig;
use rtclab_core::record::{Column, Detail, Table};
use rtclab_core::sim::{SimResult, simulate, simulate_with};
use rtclab_core::units::Time;
use std::sync::atomic::{AtomicBool, Ordering};

fn table<'a>(result: &'a SimResult, name: &str) -> &'a Table {
    result.tables.iter().find(|t| t.name == name).expect("the table")
}

fn ints<'a>(table: &'a Table, name: &str) -> &'a [i64] {
    match &table.columns.iter().find(|c| c.0 == name).expect("the column").1 {
        Column::Int(values) => values,
        other => panic!("{name} is {other:?}"),
    }
}

fn texts<'a>(result: &'a SimResult, table: &'a Table, name: &str) -> Vec<&'a str> {
    match &table.columns.iter().find(|c| c.0 == name).expect("the column").1 {
        Column::Text(codes) => codes
            .iter()
            .map(|code| result.texts.get(*code as usize).map_or("", String::as_str))
            .collect(),
        other => panic!("{name} is {other:?}"),
    }
}

/// Delivered rate of a flow in kbit/s over the last 30 of 60 seconds.
fn rate_kbps(result: &SimResult, flow: &str) -> f64 {
    let table = table(result, "flow_seconds");
    let flows = texts(result, table, "flow");
    let (at, bytes) = (ints(table, "at_ns"), ints(table, "delivered_bytes"));
    let sum: i64 = (0..flows.len())
        .filter(|&i| flows[i] == flow && at[i] >= 30_000_000_000)
        .map(|i| bytes[i])
        .sum();
    sum as f64 * 8.0 / 30e3
}

#[test]
fn each_direction_uses_70_to_100_percent_of_a_1_mbps_link() {
    let result = simulate(&call(LINK, 60, 1)).expect("a run");
    for flow in ["alice->bob", "bob->alice"] {
        let rate = rate_kbps(&result, flow);
        assert!((700.0..1000.0).contains(&rate), "{flow}: {rate} kbit/s");
    }
}

#[test]
fn an_unlimited_link_gives_the_encoder_its_maximum() {
    // 1700 kbit/s of media; headers of 64 bytes on 1.17 kB packets add 5 to 8 %
    let free = r#""delay": {"kind": "constant", "ns": 25000000}"#;
    let result = simulate(&call(free, 60, 1)).expect("a run");
    let rate = rate_kbps(&result, "alice->bob");
    assert!((1700.0..1860.0).contains(&rate), "{rate} kbit/s");
}

#[test]
fn the_same_seed_gives_the_same_tables_and_another_seed_gives_others() {
    let run = |seed| simulate(&call(LINK, 10, seed)).expect("a run").tables;
    // NaN differs from itself, so printed tables are compared.
    let print = |seed| format!("{:?}", run(seed));
    assert_eq!(print(1), print(1));
    assert_ne!(print(1), print(2));
}

/// Passes everything on, but takes 20 ms for each feedback. With up to 20 feedbacks a second in each direction, a
/// run takes about as long as the call itself.
struct Slow(Box<dyn Controller>);

impl Controller for Slow {
    fn on_sent(&mut self, packet: &SentPacket) -> Result<(), ControlError> {
        self.0.on_sent(packet)
    }
    fn on_feedback(&mut self, now: Time, feedback: Feedback<'_>) -> Result<(), ControlError> {
        // This test is the only place in core that uses a wall clock.
        #[allow(clippy::disallowed_methods)]
        std::thread::sleep(std::time::Duration::from_millis(20));
        self.0.on_feedback(now, feedback)
    }
    fn on_timeout(&mut self, now: Time, sender: &SenderState) -> Result<(), ControlError> {
        self.0.on_timeout(now, sender)
    }
    fn poll_timeout(&self) -> Option<Time> {
        self.0.poll_timeout()
    }
    fn poll_probe(&mut self) -> Option<Probe> {
        self.0.poll_probe()
    }
    fn decision(&self) -> Decision {
        self.0.decision()
    }
    fn observe(&self, out: &mut Vec<Observation>) {
        self.0.observe(out);
    }
}

/// Media is far below the capacity, which is when a congestion control probes for more from time to time.
#[test]
fn a_run_does_not_depend_on_how_fast_the_machine_is() {
    let mut config = call(&LINK.replace("1000000}", "5000000}"), 15, 1);
    config.record = Detail::Seconds;
    let fast = format!("{:?}", simulate(&config).expect("a run").tables);
    let goog_cc = config.participants[0].congestion_control.clone();
    config.participants.iter_mut().for_each(|own| own.congestion_control.name = "own".to_owned());
    let tables = |slow: bool| {
        let goog_cc = goog_cc.clone();
        let create = move |bounds: RateBounds| {
            let chosen = Catalogue::ours().choose(&goog_cc).expect("a control of ours");
            let (controller, estimator) = chosen.create(bounds).expect("a control");
            let controller = if slow { Box::new(Slow(controller)) } else { controller };
            (controller as Box<dyn Controller>, estimator)
        };
        let catalogue = with_own("chrome-156", create);
        format!("{:?}", simulate_with(&config, &catalogue).expect("a run").tables)
    };
    assert!(fast == tables(false) && fast == tables(true));
}

/// The clock of a run is the simulator's, so whatever else the machine does must not show.
#[test]
fn a_long_call_beside_busy_threads_gives_the_same_bytes() {
    let mut config = call(&LINK.replace("1000000}", "5000000}"), 120, 1);
    config.record = Detail::Seconds;
    let run = || format!("{:?}", simulate(&config).expect("a run").tables);
    let alone = run();
    let done = AtomicBool::new(false);
    let busy = std::thread::available_parallelism().map_or(2, usize::from) * 2;
    std::thread::scope(|scope| {
        for _ in 0..busy {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let beside = run();
        done.store(true, Ordering::Relaxed);
        assert!(alone == beside);
    });
}

#[test]
fn every_packet_is_delivered_dropped_or_still_in_transit() {
    let lossy = format!(r#"{LINK}, "loss": {{"p": 0.0, "r": 1.0, "h": 0.95, "k": 0.95}}"#);
    let result = simulate(&call(&lossy, 30, 3)).expect("a run");
    let packets = table(&result, "packets");
    let (delivered, dropped) = (ints(packets, "delivered_ns"), ints(packets, "dropped_ns"));
    let sent = ints(packets, "sent_ns");
    for i in 0..sent.len() {
        assert!(delivered[i] < 0 || dropped[i] < 0, "packet {i} was delivered and dropped");
        let left = delivered[i].max(dropped[i]);
        // 25 ms of delay, at most 300 ms of queue and one packet in service
        assert!(left >= sent[i] || (left < 0 && sent[i] > 29_500_000_000), "packet {i}");
    }
    let lost = dropped.iter().filter(|at| **at >= 0).count() as f64 / sent.len() as f64;
    assert!((0.04..0.06).contains(&lost), "{lost}");
}

#[test]
fn pictures_are_shown_thirty_times_a_second_and_the_call_is_set_up_within_a_second() {
    let result = simulate(&call(LINK, 60, 1)).expect("a run");
    let frames = table(&result, "frames");
    let count = ints(frames, "rendered_ns").len() as f64 / 2.0 / 60.0;
    assert!((28.0..31.0).contains(&count), "{count} frames/s");
    let events = table(&result, "events");
    let names = texts(&result, events, "event");
    let first = names.iter().position(|n| *n == "first_frame").expect("a first frame");
    let at = ints(events, "at_ns")[first];
    // offer, answer, check, two round trips of DTLS, a frame: at least six times 25 ms
    assert!((150_000_000..1_000_000_000).contains(&at), "{at} ns");
}

#[test]
fn a_machine_that_needs_50_ms_for_a_picture_encodes_twenty_a_second_at_the_same_rate() {
    let mut config = call(r#""delay": {"kind": "constant", "ns": 25000000}"#, 60, 1);
    let unlimited = rate_kbps(&simulate(&config).expect("a run"), "alice->bob");
    // 307,200 pixels at 6.144 million a second take 50 ms. After 20 s the pictures become smaller.
    for participant in &mut config.participants {
        participant.host = Some(HostConfig {
            encoder_capacity_pixels_per_second: 6.144e6,
            encoder_output_bps: None,
            decoder_capacity_pixels_per_second: None,
            variation: None,
        });
    }
    let result = simulate(&config).expect("a run");
    let shown = ints(table(&result, "frames"), "rendered_ns");
    let early = shown.iter().filter(|at| (3_000_000_000..18_000_000_000).contains(*at));
    let count = early.count() as f64 / 2.0 / 15.0;
    assert!((19.0..20.2).contains(&count), "{count} frames/s");
    let ratio = rate_kbps(&result, "alice->bob") / unlimited;
    assert!((0.9..1.1).contains(&ratio), "{ratio}");
}
