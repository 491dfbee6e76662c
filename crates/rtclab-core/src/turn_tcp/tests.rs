//! The two ends of a connection, with a vector as network.

use super::*;
use crate::network::NodeId;
use crate::packet::SegmentKind;
use proptest::prelude::*;

const DELAY: Time = Time::from_millis(10);
const CLIENT: Address = Address { node: NodeId(0), port: 0 };
const RELAY: Address = Address { node: NodeId(1), port: 1 };

fn waited(queued: Time) -> Past {
    Past { queued, ..Past::new(Time::ZERO) }
}

struct Pair {
    ends: [TurnStream; 2],
    now: Time,
    in_transit: VecDeque<(Time, usize, Datagram)>,
    /// Segments that were sent, also those that were lost.
    sent: Vec<TurnSegment>,
    arrived: [Vec<u32>; 2],
}

impl Pair {
    fn new() -> Self {
        let ends = [TurnStream::client(RELAY), TurnStream::relay(CLIENT)];
        let (in_transit, sent, arrived) = (VecDeque::new(), Vec::new(), [Vec::new(), Vec::new()]);
        Pair { ends, now: Time::ZERO, in_transit, sent, arrived }
    }

    fn drain(&mut self, index: usize, is_lost: &mut impl FnMut() -> bool) {
        while let Some(transmit) = self.ends[index].poll_transmit(self.now) {
            if let Content::Turn(segment) = &transmit.datagram.content {
                self.sent.push(TurnSegment::clone(segment));
            }
            if !is_lost() {
                self.in_transit.push_back((self.now + DELAY, 1 - index, transmit.datagram));
            }
        }
        while let Some(carried) = self.ends[index].poll_event() {
            assert_eq!(carried.queued, DELAY);
            self.arrived[index].push(carried.datagram);
        }
    }

    fn run(&mut self, until: Time, mut is_lost: impl FnMut() -> bool) {
        for index in [0, 1] {
            self.drain(index, &mut is_lost);
        }
        loop {
            let arrival = self.in_transit.front().map_or(Time::MAX, |first| first.0);
            let timeouts = [0, 1].map(|end| self.ends[end].poll_timeout().unwrap_or(Time::MAX));
            let due = arrival.min(timeouts[0]).min(timeouts[1]);
            if due > until {
                return;
            }
            self.now = due.max(self.now);
            let index = match (arrival == due).then(|| self.in_transit.pop_front()).flatten() {
                Some((_, to, datagram)) => {
                    self.ends[to].handle_segment(self.now, &datagram, waited(DELAY));
                    to
                }
                None => {
                    let index = usize::from(timeouts[0] != due);
                    self.ends[index].handle_timeout(self.now);
                    index
                }
            };
            self.drain(index, &mut is_lost);
        }
    }
}

/// Nobody sends before the client does. Its SYN, the relay's, and the first datagram are on their way for 30 ms.
#[test]
fn the_client_opens_the_connection_when_it_has_something_to_send() {
    let mut pair = Pair::new();
    pair.run(Time::from_secs(1), || false);
    assert_eq!(pair.sent.len(), 0);
    assert!(pair.ends[0].send(Bytes(128), 7));
    pair.run(DELAY * 3, || false);
    assert_eq!(pair.arrived, [vec![], vec![7]]);
}

/// 400 B each and 1448 B in a segment: three and a part of the fourth, and its rest. Lengths are rounded up to 4 B.
#[test]
fn datagrams_that_wait_share_segments() {
    let mut pair = Pair::new();
    for number in 0..4 {
        assert!(pair.ends[0].send(Bytes(IP_UDP_BYTES + 397), number));
    }
    pair.run(Time::from_secs(1), || false);
    let data = pair.sent.iter().filter(|sent| sent.segment.kind == SegmentKind::Data);
    let data: Vec<_> = data.map(|sent| (sent.segment.payload, sent.datagrams.to_vec())).collect();
    assert_eq!(data, [(1_448, vec![0, 1, 2]), (1_600 - 1_448, vec![3])]);
    assert_eq!(pair.arrived[1], [0, 1, 2, 3]);
}

/// 64 kB are 55 datagrams of 1200 B and half of one, which is still taken.
#[test]
fn a_full_buffer_takes_no_more() {
    let mut pair = Pair::new();
    let taken = (0..100).take_while(|number| pair.ends[0].send(Bytes(1_228), *number)).count();
    assert_eq!(taken as u64, CLIENT_BUFFER.0.div_ceil(1_200));
}

proptest! {
    /// Whatever is lost, what was taken comes out once and in order, at both ends.
    #[test]
    fn everything_comes_out_in_order(
        sizes in proptest::collection::vec((30..1_400u64, any::<bool>()), 1..80),
        losses in proptest::collection::vec(any::<bool>(), 0..40),
    ) {
        let mut pair = Pair::new();
        let mut losses = losses.into_iter();
        let mut is_lost = || losses.next().unwrap_or(false);
        let mut taken = [Vec::new(), Vec::new()];
        for (number, (size, by_relay)) in sizes.into_iter().enumerate() {
            // The relay may send once the client has.
            let index = usize::from(by_relay && number > 0);
            if pair.ends[index].send(Bytes(size), number as u32) {
                taken[1 - index].push(number as u32);
            }
            let until = pair.now + Time::from_millis(3);
            pair.run(until, &mut is_lost);
            pair.now = until;
        }
        // 40 losses in a row, each after a timeout of at most two minutes.
        let until = pair.now + Time::from_secs(40 * 120);
        pair.run(until, &mut is_lost);
        prop_assert_eq!(pair.arrived, taken);
    }
}
