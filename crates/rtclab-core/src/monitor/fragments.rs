//! IP fragments. They are not reassembled. The bytes of all fragments count for the packet in the first one.
//!
//! Source: RFC 791, section 3.2; RFC 8200, section 4.5 (addresses and identification identify the packet).

use super::decapsulation::ip::FragmentOf;
use std::collections::{HashMap, VecDeque};

/// Maximum number of fragmented packets remembered.
const MAX_PACKETS: usize = 4096;

/// Where the first fragment of a packet was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) flow: u32,
    pub(crate) ssrc: Option<u32>,
    /// Row in the table of packets.
    pub(crate) row: usize,
}

/// Fragmented packets seen recently.
#[derive(Default)]
pub(crate) struct Fragments {
    packets: HashMap<(u32, FragmentOf), UnfinishedPacket>,
    order: VecDeque<(u32, FragmentOf)>,
}

#[derive(Clone, Copy, Default)]
struct UnfinishedPacket {
    counted: Option<Counted>,
    /// IP length of the fragments that came before the first one.
    bytes: u32,
}

impl Fragments {
    /// IP length of the fragments of a packet seen before its first one.
    pub(crate) fn earlier_bytes(&self, interface: u32, of: FragmentOf) -> u32 {
        self.packets.get(&(interface, of)).map_or(0, |packet| packet.bytes)
    }

    /// Records where the first fragment was counted, together with those before it.
    pub(crate) fn first(&mut self, interface: u32, of: FragmentOf, counted: Counted) {
        *self.packet((interface, of)) = UnfinishedPacket { counted: Some(counted), bytes: 0 };
    }

    /// Takes a later fragment. Returns where to count its bytes, or `None` if the first one has not been
    /// seen.
    pub(crate) fn later(&mut self, interface: u32, of: FragmentOf, bytes: u32) -> Option<Counted> {
        let packet = self.packet((interface, of));
        if packet.counted.is_none() {
            packet.bytes = packet.bytes.saturating_add(bytes);
        }
        packet.counted
    }

    fn packet(&mut self, key: (u32, FragmentOf)) -> &mut UnfinishedPacket {
        if !self.packets.contains_key(&key) {
            if self.order.len() == MAX_PACKETS {
                if let Some(oldest) = self.order.pop_front() {
                    self.packets.remove(&oldest);
                }
            }
            self.order.push_back(key);
        }
        self.packets.entry(key).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(id: u32) -> FragmentOf {
        let address = std::net::Ipv4Addr::LOCALHOST.into();
        FragmentOf { source: address, destination: address, id }
    }

    const COUNTED: Counted = Counted { flow: 3, ssrc: Some(7), row: 5 };

    #[test]
    fn fragments_before_the_first_wait_for_it_and_those_after_follow_it() {
        let mut fragments = Fragments::default();
        assert_eq!(fragments.later(0, of(1), 100), None);
        assert_eq!(fragments.later(0, of(1), 50), None);
        assert_eq!(
            (fragments.earlier_bytes(0, of(1)), fragments.earlier_bytes(1, of(1))),
            (150, 0)
        );
        fragments.first(0, of(1), COUNTED);
        assert_eq!(fragments.later(0, of(1), 10), Some(COUNTED));
        assert_eq!(fragments.later(0, of(2), 10), None);
    }

    #[test]
    fn the_oldest_packets_are_forgotten() {
        let mut fragments = Fragments::default();
        (0..=MAX_PACKETS as u32).for_each(|id| fragments.first(0, of(id), COUNTED));
        assert_eq!((fragments.packets.len(), fragments.order.len()), (MAX_PACKETS, MAX_PACKETS));
        assert_eq!(fragments.later(0, of(0), 10), None);
        assert_eq!(fragments.later(0, of(2), 10), Some(COUNTED));
    }
}
