//! Whatever an input sends to two nodes in calls, they neither panic, nor stand still, nor grow without bound.
//!
//! An input is a sequence of bytes. The first ones choose the nodes, the others are actions: time goes on, or a datagram
//! arrives that nobody has sent. The fuzz target `node` and the test `node_inputs.rs` share this module.

mod contents;
mod input;
mod world;

use contents::Steps;
use input::Input;
use rtclab_core::packet::{Address, Content, Datagram, Via};
use rtclab_core::units::Time;
use world::{PARTICIPANT, SERVER, World};

/// How long the two nodes are left alone first, so that their calls are connected.
const SET_UP: Time = Time::from_millis(500);
/// Virtual time that an input may last.
const LONGEST: Time = Time::from_secs(20);
/// Most copies of a datagram in an action.
const MOST_COPIES: u8 = 200;
/// What all ends of both nodes may hold, in bytes: 1.5 MB each.
const MOST_BYTES: usize = 30_000_000;

/// Runs an input. `allocated` tells how many bytes are allocated.
pub(crate) fn run(bytes: &[u8], allocated: &dyn Fn() -> usize) {
    let before = allocated();
    let mut input = Input(bytes);
    let mut world = World::new(&mut input);
    world.advance(SET_UP);
    while !input.is_empty() {
        act(&mut world, &mut input);
        let grown = allocated().saturating_sub(before);
        assert!(grown < MOST_BYTES, "{grown} B at {}", world.now);
    }
}

/// The ports at which media arrives within a time if nobody disturbs the nodes that an input chooses.
#[allow(dead_code)] // the fuzz target does not ask
pub(crate) fn media_arrives_at(choice: &[u8], within: Time) -> Vec<u32> {
    let mut world = World::new(&mut Input(choice));
    world.advance(within);
    let is_media = |datagram: &Datagram| matches!(datagram.content, Content::Rtp(_));
    let with_media = world.arrived.iter().filter(|(.., datagram)| is_media(datagram));
    let mut ports: Vec<u32> = with_media.map(|(_, to, _)| to.port).collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

fn act(world: &mut World, input: &mut Input<'_>) {
    match input.below(8) {
        0 => {
            let unit = [1, 10, 100, 1_000][input.below(4)];
            let until = world.now + Time::from_millis(unit * u64::from(input.u8() & 15));
            world.advance(until.min(LONGEST));
        }
        1 => {
            if let Some(next) = world.next().filter(|next| *next <= LONGEST) {
                world.advance(next);
            }
        }
        2 => world.handle_timeout(if input.bool() { PARTICIPANT } else { SERVER }),
        3 => world.to_lose = input.u8(),
        4 => {
            if let Some(datagram) = contents::datagram(input, world.now) {
                let to = contents::any_address(input);
                let from = match input.bool() {
                    true => contents::any_address(input),
                    false => Address { node: far(to), port: to.port ^ 1 },
                };
                send(world, input, (from, to), datagram);
            }
        }
        _ => {
            let place = input.below(world.arrived.len());
            if let Some((from, to, mut datagram)) = world.arrived.get(place).cloned() {
                contents::change(input, &mut datagram);
                send(world, input, (from, to), datagram);
            }
        }
    }
}

fn far(of: Address) -> rtclab_core::network::NodeId {
    if of.node == PARTICIPANT { SERVER } else { PARTICIPANT }
}

/// Sends copies of a datagram, each a step further, at one moment or at intervals.
fn send(
    world: &mut World,
    input: &mut Input<'_>,
    (from, to): (Address, Address),
    mut datagram: Datagram,
) {
    let via = [Via::Direct, Via::Server(SERVER), Via::Relay(SERVER)][input.below(3)];
    let copies = if input.bool() { 1 + input.u8() % MOST_COPIES } else { 1 };
    let steps = Steps::new(input);
    let interval = Time::from_millis(u64::from(input.u8() & 31));
    for _ in 0..copies {
        world.inject(from, to, via, &datagram);
        steps.apply(&mut datagram);
        let until = world.now + interval;
        world.advance(until.min(LONGEST).max(world.now));
    }
    world.imitate(from, to, datagram);
}
