//! Calls of participants behind NATs: who connects, when, and what a failure looks like.

use rtclab_core::nat::NatKind::{self, PortRestricted, Symmetric, UdpBlocked};
use rtclab_core::record::{Column, Table};
use rtclab_core::sim::{SimConfig, SimResult, simulate};
use support::{LINK, call};

mod support;

type Nat = Option<NatKind>;

const KINDS: [Nat; 4] = [None, Some(PortRestricted), Some(Symmetric), Some(UdpBlocked)];

/// A call over links of 1 Mbit/s and 25 ms.
fn between(nats: [Nat; 2], seconds: u64, seed: u64) -> SimConfig {
    let mut config = call(LINK, seconds, seed);
    for (participant, nat) in config.participants.iter_mut().zip(nats) {
        participant.nat = nat;
    }
    config
}

fn relayed(nats: [Nat; 2], seconds: u64, seed: u64) -> SimConfig {
    let mut config = between(nats, seconds, seed);
    config.connections[0].relay = Some("core".to_string());
    config
}

fn table<'a>(result: &'a SimResult, name: &str) -> &'a Table {
    result.tables.iter().find(|table| table.name == name).expect("the table")
}

fn column<'a>(table: &'a Table, name: &str) -> &'a Column {
    &table.columns.iter().find(|column| column.0 == name).expect("the column").1
}

fn numbers<'a>(table: &'a Table, name: &str) -> &'a [i64] {
    match column(table, name) {
        Column::Int(values) => values,
        _ => panic!("the column has another type"),
    }
}

fn texts<'a>(result: &'a SimResult, table: &'a Table, name: &str) -> Vec<&'a str> {
    match column(table, name) {
        Column::Text(codes) => {
            let text = |code: &u32| result.texts.get(*code as usize).map_or("", String::as_str);
            codes.iter().map(text).collect()
        }
        _ => panic!("the column has another type"),
    }
}

/// When each participant saw an event, in ms: time and name.
fn seen(result: &SimResult, event: &str) -> Vec<(f64, String)> {
    let events = table(result, "events");
    let (at, who) = (numbers(events, "at_ns"), texts(result, events, "participant"));
    let names = texts(result, events, "event");
    let of = (0..at.len()).filter(|row| names[*row] == event);
    of.map(|row| (at[row] as f64 / 1e6, who[row].to_string())).collect()
}

fn run(config: &SimConfig) -> SimResult {
    simulate(config).expect("a run")
}

/// Whether both participants are connected and show a picture.
fn connects(config: &SimConfig) -> bool {
    let result = run(config);
    let shown = seen(&result, "first_frame").len();
    assert_eq!(shown, seen(&result, "dtls_connected").len());
    assert!(shown == 0 || shown == 2, "{shown}");
    shown == 2
}

/// Without a relay, by RFC 8445 and RFC 4787: somebody has to be reachable at the address that the other end knows. Two
/// port-restricted NATs let in what comes from where they have sent to. A symmetric NAT sends from a port that nobody
/// knows: who has no NAT learns it from the check (section 7.3.1.3), and who has one filters that check.
const DIRECT: [[bool; 4]; 4] = [
    [true, true, true, false],
    [true, true, false, false],
    [true, false, false, false],
    [false, false, false, false],
];

#[test]
fn pairs_connect_directly_as_the_rules_of_ice_say() {
    for (row, alice) in KINDS.iter().enumerate() {
        for (column, bob) in KINDS.iter().enumerate() {
            let config = between([*alice, *bob], 5, 1);
            assert_eq!(connects(&config), DIRECT[row][column], "{alice:?} with {bob:?}");
        }
    }
}

/// A relay is reached over UDP, or over TCP where there is no UDP.
#[test]
fn with_a_relay_everybody_connects() {
    for alice in KINDS {
        for bob in KINDS {
            assert!(connects(&relayed([alice, bob], 5, 1)), "{alice:?} with {bob:?}");
        }
    }
}

#[test]
fn a_server_is_reached_from_behind_any_nat_that_passes_udp() {
    for nat in KINDS {
        let mut config = between([nat, None], 5, 1);
        let connection = config.connections[0].clone();
        let between = |a: &str, b: &str, forwards| {
            let mut one = connection.clone();
            (one.a, one.b) = (a.to_string(), b.to_string());
            (one.one_way, one.forwards) = (true, forwards);
            one
        };
        config.connections = vec![
            between("alice", "core", None),
            between("bob", "core", None),
            between("core", "bob", Some(0)),
            between("core", "alice", Some(1)),
        ];
        let shown = seen(&run(&config), "first_frame");
        let expected = if nat == Some(UdpBlocked) { 0 } else { 2 };
        assert_eq!(shown.len(), expected, "{nat:?}: {shown:?}");
    }
}

/// The same in the set-up of the published measurements.
#[test]
fn calls_of_earlier_browsers_connect_in_the_same_cases() {
    for (row, alice) in KINDS.iter().enumerate() {
        for (column, bob) in KINDS.iter().enumerate() {
            for relay in [false, true] {
                let nats = [*alice, *bob];
                let mut config = if relay { relayed(nats, 4, 1) } else { between(nats, 4, 1) };
                for participant in &mut config.participants {
                    participant.stack = Some("chrome-27".to_string());
                }
                let expected = relay || DIRECT[row][column];
                assert_eq!(connects(&config), expected, "{nats:?}, relay: {relay}");
            }
        }
    }
}
