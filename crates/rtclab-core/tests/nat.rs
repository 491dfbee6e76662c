//! Calls of participants behind NATs: who connects, when, and what a failure looks like.

use crate::support::{LINK, call};
use proptest::prelude::*;
use rtclab_core::nat::NatKind::{self, PortRestricted, Symmetric, UdpBlocked};
use rtclab_core::record::{Column, Table};
use rtclab_core::sim::{SimConfig, SimResult, simulate, simulate_captured};
use rtclab_core::units::{Bitrate, Time};

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

/// By participant, alice first, how much later an event came with these NATs than without any, in ms.
fn later(nats: [Nat; 2], event: &str, seed: u64) -> Vec<f64> {
    let at = |nats: [Nat; 2]| {
        let mut seen = seen(&run(&between(nats, 4, seed)), event);
        seen.sort_by(|one, other| one.1.cmp(&other.1));
        seen
    };
    let (with, without) = (at(nats), at([None; 2]));
    assert_eq!(with.len(), 2, "seed {seed}");
    with.iter().zip(&without).map(|(with, without)| with.0 - without.0).collect()
}

/// A check that leads nowhere costs the time until the next one: 48 ms, moved up to a grid of 15.625 ms.
const CHECK_MS: f64 = 48.0 + 15.625 + 0.1;

/// Alice's checks arrive at bob's as ever. Bob's first one is either triggered by hers, as without a NAT, or leaves
/// before, for her private address; then his next one finds her. Her work in between may come in another order: the
/// first answer of 0.45 to 5.5 ms, and what follows of up to 11.5 ms.
#[test]
fn a_nat_at_one_end_costs_nothing_or_one_check() {
    let (mut nothing, mut one) = (0, 0);
    for seed in 1..=20 {
        let late = later([Some(PortRestricted), None], "ice_connected", seed);
        if late == [0.0, 0.0] {
            nothing += 1;
        } else {
            one += 1;
            assert!(late[0].abs() <= 17.0, "seed {seed}: {late:?}");
            assert!((20.0..=CHECK_MS).contains(&late[1]), "seed {seed}: {late:?}");
        }
    }
    assert!(nothing >= 5 && one >= 5, "{nothing} and {one}");
}

/// The address outside is known 25 ms after the one inside, and each side can lose two checks: to the private address, and
/// to the NAT that the other end has not opened yet.
#[test]
fn nats_at_both_ends_cost_a_request_to_the_stun_server_and_at_most_two_checks() {
    for seed in 1..=20 {
        for late in later([Some(PortRestricted); 2], "ice_connected", seed) {
            assert!((25.0..=25.0 + 2.0 * CHECK_MS).contains(&late), "seed {seed}: {late}");
        }
    }
}

#[test]
fn nats_do_not_delay_signalling() {
    for nat in KINDS {
        let result = run(&between([nat, nat], 4, 1));
        let without = run(&between([None; 2], 4, 1));
        assert_eq!(seen(&result, "signalling_done"), seen(&without, "signalling_done"));
    }
}

/// 15 s after the first check to the last candidate, which is known 100 ms after the descriptions at most.
#[test]
fn the_checks_of_a_pair_that_cannot_connect_end_after_fifteen_seconds() {
    let result = run(&between([Some(PortRestricted), Some(Symmetric)], 40, 1));
    let signalled = seen(&result, "signalling_done").iter().map(|(at, _)| *at).fold(0.0, f64::max);
    let sent = numbers(table(&result, "packets"), "sent_ns");
    let last = *sent.iter().max().expect("checks") as f64 / 1e6;
    assert!((14_900.0..15_200.0).contains(&(last - signalled)), "{signalled} to {last} ms");
    assert_eq!(seen(&result, "ice_connected"), []);
}

/// Nothing of alice leaves her network, and nobody has a route into it.
#[test]
fn where_udp_is_blocked_no_packet_of_a_call_is_seen() {
    let result = run(&between([Some(UdpBlocked), None], 20, 1));
    assert_eq!(numbers(table(&result, "packets"), "sent_ns").len(), 0);
}

/// Names and values of all tables.
fn contents(result: &SimResult) -> String {
    format!(
        "{:?}",
        result.tables.iter().map(|table| (table.name, &table.columns)).collect::<Vec<_>>()
    )
}

#[test]
fn a_relay_makes_no_difference_between_nats_that_pass_udp() {
    let without = contents(&run(&relayed([None; 2], 4, 1)));
    for nats in [[Some(PortRestricted), None], [Some(Symmetric); 2]] {
        assert_eq!(contents(&run(&relayed(nats, 4, 1))), without, "{nats:?}");
    }
}

/// 20 Mbit/s, 25 ms and 3 % of loss on each uplink, and a relay.
fn lossy(nats: [Nat; 2], seed: u64) -> SimResult {
    let link = r#""capacity": {"kind": "constant", "bps": 20000000}, "delay": {"kind": "constant", "ns": 25000000},
        "loss": {"p": 0.03, "r": 0.97, "h": 0.0, "k": 1.0}"#;
    let mut config = call(link, 20, seed);
    config.connections[0].relay = Some("core".to_string());
    for (participant, nat) in config.participants.iter_mut().zip(nats) {
        participant.nat = nat;
    }
    run(&config)
}

/// When each packet from alice to bob left and arrived, in ms; -1 if it did not.
fn ways(result: &SimResult) -> Vec<(f64, f64)> {
    let packets = table(result, "packets");
    let flows = texts(result, packets, "flow");
    let (sent, delivered) = (numbers(packets, "sent_ns"), numbers(packets, "delivered_ns"));
    let of = (0..flows.len()).filter(|row| flows[*row] == "alice->bob");
    of.map(|row| (sent[row] as f64 / 1e6, delivered[row].max(-1_000_000) as f64 / 1e6)).collect()
}

/// Over UDP what is lost does not arrive, and the rest does after 25 ms and a few more in the link. Over TCP all arrives
/// in order. A lost segment leaves again when a later one was acknowledged, after 25 ms there and none back, and takes
/// 25 ms again: 3 % of the segments, and what is behind them, are on their way for 50 ms or more. Medians of five
/// calls, because a segment that is lost again and again stalls TCP until the browser drops what it cannot take.
#[test]
fn over_tcp_nothing_is_lost_and_everything_behind_a_loss_waits() {
    // What left in the last second may still be on its way.
    let lost = |ways: &[(f64, f64)]| {
        let settled = ways.iter().filter(|(sent, _)| *sent < 19_000.0);
        settled.filter(|(_, arrived)| *arrived < 0.0).count() as f64
    };
    let late = |ways: &[(f64, f64)]| {
        let delays = ways.iter().filter(|(_, arrived)| *arrived >= 0.0).map(|(sent, at)| at - sent);
        let mut delays: Vec<f64> = delays.collect();
        delays.sort_by(f64::total_cmp);
        (delays[0], delays[delays.len() * 97 / 100])
    };
    // Share lost over UDP, packets lost over TCP, and delays that 97 % do not exceed.
    let mut figures = [const { Vec::new() }; 4];
    for seed in 1..=5 {
        let (udp, tcp) =
            (ways(&lossy([None; 2], seed)), ways(&lossy([Some(UdpBlocked), None], seed)));
        let arrived = tcp.iter().map(|(_, arrived)| *arrived).filter(|arrived| *arrived >= 0.0);
        assert!(arrived.collect::<Vec<_>>().is_sorted());
        let ((udp_least, udp_most), (tcp_least, tcp_most)) = (late(&udp), late(&tcp));
        assert!(udp_least >= 25.0 && tcp_least >= 25.0, "{udp_least} and {tcp_least}");
        let found = [lost(&udp) / udp.len() as f64, lost(&tcp), udp_most, tcp_most];
        figures.iter_mut().zip(found).for_each(|(all, one)| all.push(one));
    }
    let [share, lost, udp_most, tcp_most] = figures.map(|mut of_calls| {
        of_calls.sort_by(f64::total_cmp);
        of_calls[2]
    });
    assert!((0.02..0.04).contains(&share) && lost == 0.0, "{share}, {lost}");
    assert!(udp_most < 40.0 && (50.0..200.0).contains(&tcp_most), "{udp_most} and {tcp_most}");
}

/// At 2 Mbit/s over 1 Mbit/s. 64 kB in the browser take 0.52 s, the way with its queue 0.33 s, and each repetition of a
/// segment that found the queue full as much again.
#[test]
fn a_browser_drops_what_tcp_cannot_take() {
    let mut config = relayed([Some(UdpBlocked), None], 20, 1);
    let alice = &mut config.participants[0];
    alice.congestion_control = serde_json::from_str(r#"{"name": "fixed"}"#).expect("a control");
    let video = alice.video.as_mut().expect("a camera");
    (video.start_bps, video.max_bps) = (Bitrate::from_kbps(2_000), Bitrate::from_kbps(2_000));
    let ways = ways(&run(&config));
    let settled = ways.iter().filter(|(sent, _)| *sent < 17_000.0);
    let (mut lost, mut arrived_late, mut longest) = (0, 0, 0.0_f64);
    for (sent, arrived) in settled {
        match *arrived < 0.0 {
            true => lost += 1,
            false => {
                arrived_late += 1;
                longest = longest.max(arrived - sent);
            }
        }
    }
    let share = f64::from(lost) / f64::from(lost + arrived_late);
    assert!((0.4..0.6).contains(&share), "{share}");
    assert!((500.0..2_000.0).contains(&longest), "{longest} ms");
}

#[test]
fn a_run_with_nats_that_is_captured_has_the_same_tables() {
    for alice in KINDS {
        for relay in [false, true] {
            let nats = [alice, None];
            let config = if relay { relayed(nats, 3, 1) } else { between(nats, 3, 1) };
            let (captured, capture) = simulate_captured(&config).expect("a run");
            assert_eq!(contents(&captured), contents(&run(&config)), "{alice:?}");
            assert!(capture.pcapng.len() > 1_000);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Whatever the delay, moderate loss and who comes first: the NATs alone decide who connects.
    #[test]
    fn the_network_does_not_decide_who_connects(
        kinds in (0..4usize, 0..4usize),
        delay_ms in 1..150u64,
        loss in 0.0..0.05,
        join_ms in 0..2_000u64,
        relay: bool,
        seed in 1..1_000u64,
    ) {
        let link = format!(
            r#""delay": {{"kind": "constant", "ns": {delay_ms}000000}},
               "loss": {{"p": {loss}, "r": {}, "h": 0.0, "k": 1.0}}"#, 1.0 - loss
        );
        let mut config = call(&link, 20, seed);
        config.participants[0].nat = KINDS[kinds.0];
        config.participants[1].nat = KINDS[kinds.1];
        config.participants[0].join_ns = Time::from_millis(join_ms);
        config.connections[0].relay = relay.then(|| "core".to_string());
        let result = run(&config);
        let expected = relay || DIRECT[kinds.0][kinds.1];
        prop_assert_eq!(seen(&result, "dtls_connected").len(), if expected { 2 } else { 0 });
    }
}
