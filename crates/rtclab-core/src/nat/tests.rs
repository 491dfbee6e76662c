//! What NATs map and filter.

use super::*;
use crate::network::NodeId;
use proptest::prelude::*;

/// The first port of a symmetric NAT here; ports inside are below.
const FIRST: u32 = 100;
const UDP_KINDS: [NatKind; 2] = [NatKind::PortRestricted, NatKind::Symmetric];

fn at(node: u32, port: u32) -> Address {
    Address { node: NodeId(node), port }
}

#[test]
fn a_port_restricted_nat_shows_the_port_inside_to_everybody() {
    let mut nat = Nat::new(NatKind::PortRestricted, FIRST);
    for to in [at(1, 1), at(1, 2), at(2, 1)] {
        assert_eq!(nat.send(7, to), Some(7));
    }
}

#[test]
fn a_symmetric_nat_shows_another_port_to_each_destination_and_always_the_same() {
    let mut nat = Nat::new(NatKind::Symmetric, FIRST);
    let ports = [at(1, 1), at(1, 2), at(2, 1)].map(|to| nat.send(7, to));
    assert_eq!(ports, [FIRST, FIRST + 1, FIRST + 2].map(Some));
    assert_eq!(nat.send(7, at(1, 2)), Some(FIRST + 1));
    assert_eq!(nat.send(8, at(1, 2)), Some(FIRST + 3));
}

#[test]
fn only_the_destination_s_own_address_and_port_may_answer() {
    for kind in UDP_KINDS {
        let mut nat = Nat::new(kind, FIRST);
        let outside = nat.send(7, at(1, 1)).expect("it passes");
        assert_eq!(nat.receive(at(1, 1), outside), Some(7));
        for other in [at(1, 2), at(2, 1)] {
            assert_eq!(nat.receive(other, outside), None, "{kind:?}");
        }
    }
}

/// There are 64,512 ports from 1,024 to 65,535.
#[test]
fn a_nat_blocks_what_needs_more_mappings_than_there_are_ports() {
    for kind in UDP_KINDS {
        let mut nat = Nat::new(kind, FIRST);
        assert!((0..64_512).all(|port| nat.send(7, at(1, port)).is_some()), "{kind:?}");
        assert_eq!(nat.send(7, at(1, 64_512)), None, "{kind:?}");
        // Those that it has still work.
        let outside = nat.send(7, at(1, 64_511)).expect("it passes");
        assert_eq!(nat.receive(at(1, 64_511), outside), Some(7), "{kind:?}");
    }
}

/// An early packet from outside does not spoil the mapping.
#[test]
fn a_packet_that_comes_too_early_is_dropped_and_a_later_one_passes() {
    let mut nat = Nat::new(NatKind::PortRestricted, FIRST);
    assert_eq!(nat.receive(at(1, 1), 7), None);
    nat.send(7, at(1, 1));
    assert_eq!(nat.receive(at(1, 1), 7), Some(7));
}

#[test]
fn without_udp_nothing_passes_either_way() {
    let mut nat = Nat::new(NatKind::UdpBlocked, FIRST);
    assert_eq!(nat.send(7, at(1, 1)), None);
    assert_eq!(nat.receive(at(1, 1), 7), None);
    assert!(!nat.passes_udp());
}

/// Two NATs whose ends know the port that a STUN server has seen, and send to it in turn.
fn punched(kinds: [NatKind; 2]) -> bool {
    let server = at(9, 0);
    let mut nats = kinds.map(|kind| Nat::new(kind, FIRST));
    let seen: Vec<Address> = (0..2)
        .map(|side| at(side, nats[side as usize].send(side, server).expect("it passes")))
        .collect();
    let mut through = [false; 2];
    for side in [0, 1, 0] {
        let far = 1 - side;
        let from = nats[side].send(side as u32, seen[far]).expect("it passes");
        through[far] |= nats[far].receive(at(side as u32, from), seen[far].port).is_some();
    }
    through == [true; 2]
}

/// As in the live tests.
#[test]
fn two_nats_can_be_punched_unless_one_is_symmetric() {
    use NatKind::{PortRestricted, Symmetric};
    assert!(punched([PortRestricted, PortRestricted]));
    assert!(!punched([PortRestricted, Symmetric]));
    assert!(!punched([Symmetric, PortRestricted]));
    assert!(!punched([Symmetric, Symmetric]));
}

/// A packet out from a port inside to an address, or one in from an address to a port outside.
#[derive(Clone, Copy, Debug)]
enum Packet {
    Out(u32, Address),
    In(Address, u32),
}

fn packets() -> impl Strategy<Value = Vec<Packet>> {
    let address = || (0..3u32, 0..3u32).prop_map(|(node, port)| at(node, port));
    let outside = prop_oneof![0..3u32, FIRST..FIRST + 12];
    let packet = prop_oneof![
        (0..3u32, address()).prop_map(|(port, to)| Packet::Out(port, to)),
        (address(), outside).prop_map(|(from, port)| Packet::In(from, port)),
    ];
    proptest::collection::vec(packet, 0..60)
}

proptest! {
    /// A packet passes inwards if and only if one went out before to its address and port, from its port outside; and
    /// it gets to the end that sent that one.
    #[test]
    fn what_comes_in_answers_something_that_went_out(packets in packets(), kind in 0..2usize) {
        let mut nat = Nat::new(UDP_KINDS[kind], FIRST);
        let mut sent: Vec<(u32, Address, u32)> = Vec::new();
        for packet in packets {
            match packet {
                Packet::Out(port, to) => {
                    let outside = nat.send(port, to).expect("it passes");
                    sent.push((port, to, outside));
                }
                Packet::In(from, outside) => {
                    let asked = sent.iter().find(|(_, to, port)| (*to, *port) == (from, outside));
                    prop_assert_eq!(nat.receive(from, outside), asked.map(|(inside, ..)| *inside));
                }
            }
        }
    }

    /// No two ends inside share a port outside, and of a symmetric NAT no two destinations do.
    #[test]
    fn a_port_outside_belongs_to_one_end(packets in packets(), kind in 0..2usize) {
        let mut nat = Nat::new(UDP_KINDS[kind], FIRST);
        let mut owners: HashMap<u32, (u32, Option<Address>)> = HashMap::new();
        for packet in packets {
            if let Packet::Out(port, to) = packet {
                let outside = nat.send(port, to).expect("it passes");
                let to = (UDP_KINDS[kind] == NatKind::Symmetric).then_some(to);
                prop_assert_eq!(*owners.entry(outside).or_insert((port, to)), (port, to));
            }
        }
    }
}
