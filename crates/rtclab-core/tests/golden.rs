//! Short runs whose tables have the same bytes on every machine.

use crate::support::{LINK, call};
use rtclab_core::catalogue::Catalogue;
use rtclab_core::record::Column;
use rtclab_core::sim::{SimResult, simulate};
use rtclab_core::stack::PROFILES;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/digests.txt");
const RENEW: &str = "RTCLAB_RENEW_DIGESTS";

/// A call with this stack and its congestion control, or goog-cc if it has none of its own, over links with everything that a path models, beside TCP.
fn run(stack: &str) -> SimResult {
    let algorithms = Catalogue::ours().algorithms();
    let own = algorithms.iter().find(|it| it.stack.name == stack);
    let algorithm = own.or(algorithms.first()).expect("a control");
    let mut config = call(LINK, 10, 1);
    let paths = r#"[
        {"name": "alice.up", "capacity": {"kind": "steps", "steps": [[0, 1500000], [5000000000, 700000]]},
         "queue": {"kind": "time", "limit": 300000000}, "jitter": {"sd_ns": 3000000},
         "delay": {"kind": "ramp", "shape": "exponential", "start_ns": 2000000000, "end_ns": 6000000000,
                   "from_ns": 20000000, "to_ns": 60000000}},
        {"name": "alice.down", "wifi": {"attempts": 7, "mean_good_ns": 900000000, "mean_fade_ns": 100000000,
         "good": {"bps": 24000000, "error": 0.1}, "fade": {"bps": 6000000, "error": 0.6}}},
        {"name": "bob.up", "capacity": {"kind": "constant", "bps": 3000000}, "tick_ns": 1000000,
         "queue": {"kind": "packets", "limit": 60}, "delay": {"kind": "constant", "ns": 50000000},
         "clock": {"wander": 0.02, "correlation_ns": 1000000000},
         "loss": {"p": 0.01, "r": 0.5, "h": 0.5, "k": 1.0}},
        {"name": "bob.down", "delay": {"kind": "constant", "ns": 5000000}}]"#;
    config.network.paths = serde_json::from_str(paths).expect("valid paths");
    let traffic = r#"[
        {"flows": ["cubic"], "sender": "bob", "receiver": "alice", "connections": 1, "objects": null,
         "start_ns": 1000000000, "stop_ns": 6000000000, "congestion_control": "cubic"},
        {"flows": ["bbr"], "sender": "bob", "receiver": "alice", "connections": 1,
         "start_ns": 3000000000, "stop_ns": 9000000000, "congestion_control": "bbr",
         "objects": {"min_bytes": 20000, "max_bytes": 90000, "mean_idle_ns": 300000000, "idle_first": true}}]"#;
    config.traffic = serde_json::from_str(traffic).expect("valid traffic");
    let host = r#"{"encoder_capacity_pixels_per_second": 12000000, "decoder_capacity_pixels_per_second": 30000000,
        "variation": {"deviation": 0.2, "correlation_ns": 1000000000}}"#;
    for participant in &mut config.participants {
        participant.stack = Some(stack.to_owned());
        participant.congestion_control.name = algorithm.name.to_string();
        participant.audio = Some(
            serde_json::from_str(r#"{"bitrate_bps": 32000, "frame_ns": 20000000}"#).expect("valid"),
        );
        participant.host = Some(serde_json::from_str(host).expect("a valid host"));
    }
    simulate(&config).expect("a run")
}

/// FNV-1a with 64 bits: small, and the same in every version of Rust.
struct Digest(u64);

impl Digest {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn add_all<const N: usize, T: Copy>(&mut self, values: &[T], bytes: impl Fn(T) -> [u8; N]) {
        self.add(&(values.len() as u64).to_le_bytes());
        values.iter().for_each(|value| self.add(&bytes(*value)));
    }
}

/// Processors differ in the sign of NaN and in which zero is the smaller one. Neither is a difference of results.
fn bits(value: f64) -> u64 {
    if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() }
}

fn digest(result: &SimResult) -> u64 {
    let mut digest = Digest(0xcbf2_9ce4_8422_2325);
    result.texts.iter().for_each(|text| digest.add(text.as_bytes()));
    for table in &result.tables {
        digest.add(table.name.as_bytes());
        for (name, column) in &table.columns {
            digest.add(name.as_bytes());
            match column {
                Column::Int(values) => digest.add_all(values, i64::to_le_bytes),
                Column::Float(values) => digest.add_all(values, |value| bits(value).to_le_bytes()),
                Column::Text(values) => digest.add_all(values, u32::to_le_bytes),
            }
        }
    }
    digest.0
}

#[test]
fn a_short_run_of_each_stack_has_the_same_bytes_on_every_machine() {
    let lines = PROFILES.iter().map(|it| format!("{} {:016x}\n", it.name, digest(&run(it.name))));
    let found: String = lines.collect();
    if std::env::var_os(RENEW).is_some() {
        std::fs::write(FILE, &found).expect("the file of digests can be written");
    }
    let expected = std::fs::read_to_string(FILE).expect("the file of digests can be read");
    assert!(
        found == expected,
        "results differ from {FILE}\nexpected:\n{expected}found:\n{found}\
         hint: after a change that is meant to change results, run `{RENEW}=1 cargo test -p rtclab-core --test all \
         golden` and say in the commit why they change. Without such a change, results depend on the machine or \
         the compiler."
    );
}
