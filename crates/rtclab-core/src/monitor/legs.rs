//! Finds the same stream at several places of a capture: both legs of a relayed call, or two interfaces.

use super::stream::Stream;
use super::stream::sketch::{self, PacketName};
use std::collections::HashMap;

/// Returns for each stream the first one with the same packets, or `None` if it is the first itself.
///
/// Packets are the same if their SSRC, sequence number and timestamp are the same. Relays do not change
/// these.
pub(crate) fn first_legs(streams: &[Stream]) -> Vec<Option<u32>> {
    let mut order: Vec<u32> = (0..streams.len() as u32).collect();
    order.sort_by_key(|number| streams[*number as usize].first_ns);
    let mut carriers: HashMap<(u32, PacketName), u32> = HashMap::new();
    let mut legs = vec![None; streams.len()];
    for number in order {
        let stream = &streams[number as usize];
        let names = || {
            let packets = stream.sketch.packets().take(sketch::SMALL);
            packets.map(|(name, _)| (stream.ssrc, name))
        };
        let known = names().find_map(|name| carriers.get(&name).copied());
        legs[number as usize] = known;
        let first = known.unwrap_or(number);
        for name in names() {
            carriers.entry(name).or_insert(first);
        }
    }
    legs
}
