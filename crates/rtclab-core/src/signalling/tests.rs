//! Pages and a server in virtual time, over a network of equal delays that may lose segments.

use super::*;
use crate::network::NodeId;
use crate::packet::{
    Address, Content, Datagram, Ecn, Message, Segment, SegmentKind, SignalKind, Transmit,
    WebSocketSegment,
};
use crate::units::Time;
use proptest::prelude::*;

/// One-way delay between a page and the server.
const DELAY: Time = Time::from_millis(40);
const SERVER: u32 = 4;
const CANDIDATE: Signal = Signal { from: 0, to: 1, kind: SignalKind::Candidate };

fn address(port: u32) -> Address {
    Address { node: NodeId(port), port }
}

/// Two pages with the ports 2 and 3, to which the ends of calls 0 and 1 belong, and a server with port 4. The
/// pages work in no time.
struct World {
    pages: [SignallingClient; 2],
    server: SignallingServer,
    in_transit: Vec<(Time, u32, u32, Datagram)>,
    sent: Vec<(Time, u32, Datagram)>,
    events: Vec<(Time, u32, SignallingEvent)>,
    lost: Box<dyn FnMut(&Datagram) -> bool>,
}

impl World {
    fn new(opens: [Time; 2]) -> Self {
        let page = |open: Time| {
            let (server, close) = (address(SERVER), Time::from_secs(200_000));
            SignallingClient::new(SignallingClientConfig {
                server,
                open,
                close,
                browser: false,
                seed: 1,
                pace: 1,
            })
        };
        let pages = vec![address(2), address(3)];
        World {
            pages: opens.map(page),
            server: SignallingServer::new(SignallingServerConfig {
                pages,
                page_of: vec![Some(0), Some(1)],
            }),
            in_transit: Vec::new(),
            sent: Vec::new(),
            events: Vec::new(),
            lost: Box::new(|_| false),
        }
    }

    fn run(&mut self, until: Time) {
        loop {
            let arrival = self.in_transit.first().map_or(Time::MAX, |first| first.0);
            let timeouts = [
                self.pages[0].poll_timeout(),
                self.pages[1].poll_timeout(),
                self.server.poll_timeout(),
            ];
            let timeouts = timeouts.map(|at| at.unwrap_or(Time::MAX));
            let now = timeouts.into_iter().fold(arrival, Time::min);
            if now > until {
                return;
            }
            if arrival == now {
                let (_, from, to, datagram) = self.in_transit.remove(0);
                match to {
                    SERVER => self.server.handle_datagram(now, address(from), &datagram),
                    page => {
                        self.pages[page as usize - 2].handle_datagram(
                            now,
                            address(from),
                            &datagram,
                        );
                    }
                }
            }
            for (page, timeout) in self.pages.iter_mut().zip(timeouts) {
                if timeout <= now {
                    page.handle_timeout(now);
                }
            }
            if timeouts[2] <= now {
                self.server.handle_timeout(now);
            }
            self.drain(now);
        }
    }

    fn drain(&mut self, now: Time) {
        let mut all: Vec<(u32, Transmit)> = Vec::new();
        for (port, page) in (2..).zip(&mut self.pages) {
            while let Some(transmit) = page.poll_transmit(now) {
                all.push((port, transmit));
            }
            while let Some(event) = page.poll_event() {
                self.events.push((now, port, event));
            }
        }
        while let Some(transmit) = self.server.poll_transmit(now) {
            all.push((SERVER, transmit));
        }
        for (from, Transmit { to, datagram, .. }) in all {
            self.sent.push((now, from, datagram.clone()));
            if !(self.lost)(&datagram) {
                self.in_transit.push((now + DELAY, from, to.port, datagram));
            }
        }
        self.in_transit.sort_by_key(|(at, ..)| *at);
    }

    /// When a page was told who is present, and how many those are.
    fn present(&self, page: u32) -> Option<(Time, usize)> {
        self.events.iter().find_map(|(at, port, event)| match event {
            SignallingEvent::Present(pages) if *port == page => Some((*at, pages.len())),
            _ => None,
        })
    }
}

fn kind(datagram: &Datagram) -> SegmentKind {
    match &datagram.content {
        Content::WebSocket(frame) => frame.segment.kind,
        _ => panic!("only signalling is sent here"),
    }
}

/// In delays: SYN 0 to 1, its answer to 2, the request to 3; 0.5 ms of work for the acceptance and for the list;
/// both arrive after 4.
#[test]
fn a_page_knows_who_is_present_after_two_round_trips() {
    let mut world = World::new([Time::ZERO, Time::from_secs(1)]);
    world.run(Time::from_secs(2));
    let took = DELAY * 4 + Time::from_millis(1);
    assert_eq!(world.present(2), Some((took, 0)));
    assert_eq!(world.present(3), Some((Time::from_secs(1) + took, 1)));
}

#[test]
fn the_page_that_asks_later_finds_the_other_one() {
    for (opens, counts) in [([0, 3], [0, 1]), ([3, 0], [1, 0])] {
        let mut world = World::new(opens.map(Time::from_millis));
        world.run(Time::from_secs(1));
        assert_eq!(
            [2, 3].map(|page| world.present(page).map(|(_, count)| count)),
            counts.map(Some)
        );
    }
}

#[test]
fn a_signal_takes_two_delays_and_the_work_of_the_server() {
    let mut world = World::new([Time::ZERO; 2]);
    world.run(Time::from_secs(1));
    world.pages[0].send(CANDIDATE);
    world.drain(Time::from_secs(1));
    world.run(Time::from_secs(2));
    let arrived = Time::from_secs(1) + DELAY * 2 + Time::from_micros(500);
    assert_eq!(world.events.last(), Some(&(arrived, 3, SignallingEvent::Signal(CANDIDATE))));
}

/// Linux repeats a SYN after 1, 2, 3, 4 and 5 s, then after twice the pause each time.
#[test]
fn a_syn_is_repeated_every_second_and_then_less_often() {
    let mut world = World::new([Time::ZERO, Time::from_secs(900)]);
    world.lost = Box::new(|_| true);
    world.run(Time::from_secs(40));
    let times: Vec<u64> = world.sent.iter().map(|(at, ..)| at.as_millis() / 1_000).collect();
    assert_eq!(times, [0, 1, 2, 3, 4, 5, 7, 11, 19, 35]);
}

/// The opening and the page's acknowledgement of it, the request, its acknowledgement, two messages and their
/// acknowledgements: nothing else, and in sizes as in a capture.
#[test]
fn the_segments_of_an_opening_are_those_of_a_capture() {
    let mut world = World::new([Time::ZERO, Time::from_secs(900)]);
    world.run(Time::from_secs(5));
    let of = |by: u32| -> Vec<(SegmentKind, u64)> {
        let own = world.sent.iter().filter(|(_, port, _)| *port == by);
        own.map(|(.., datagram)| (kind(datagram), datagram.size.0)).collect()
    };
    use SegmentKind::{Ack, Data, Syn, SynAck};
    assert_eq!(of(2), [(Syn, 60), (Ack, 52), (Data, 574), (Ack, 52), (Ack, 52)]);
    assert_eq!(of(SERVER), [(SynAck, 60), (Ack, 52), (Data, 300), (Data, 103)]);
}

/// A server to which one page is connected, and the numbers of that page's next segments.
fn connected() -> (SignallingServer, std::ops::RangeFrom<u32>) {
    let pages = vec![address(2), address(3)];
    let mut server =
        SignallingServer::new(SignallingServerConfig { pages, page_of: vec![Some(0), Some(1)] });
    let syn = Segment::new(0, SegmentKind::Syn, Time::ZERO);
    server.handle_datagram(Time::ZERO, address(2), &frame(syn, None));
    (server, 0..)
}

fn frame(segment: Segment, message: Option<Message>) -> Datagram {
    let content = Content::WebSocket(Box::new(WebSocketSegment { segment, message }));
    Datagram::new(Ecn::NotCapable, content)
}

/// The page sends messages, each in a segment.
fn say(
    server: &mut SignallingServer,
    seqs: &mut std::ops::RangeFrom<u32>,
    message: Message,
    times: usize,
) {
    for seq in seqs.take(times) {
        let mut segment = Segment::new(0, SegmentKind::Data, Time::ZERO);
        (segment.seq, segment.payload) = (seq, 100);
        server.handle_datagram(Time::ZERO, address(2), &frame(segment, Some(message.clone())));
    }
}

/// The acceptance and the list take 1 ms.
#[test]
fn a_page_that_asks_again_is_not_admitted_again() {
    let (mut server, mut seqs) = connected();
    say(&mut server, &mut seqs, Message::Request, 100);
    assert_eq!(server.busy_until(), Time::from_millis(1));
}

/// 0.5 ms for each of 100,000 messages.
#[test]
fn a_server_drops_what_it_would_work_on_after_fifty_seconds() {
    let (mut server, mut seqs) = connected();
    say(&mut server, &mut seqs, Message::Signal(CANDIDATE), 120_000);
    assert_eq!(server.busy_until(), Time::from_secs(50));
}

proptest! {
    /// Whatever is lost, up to two of five segments: every message arrives once and in order. Timeouts grow to 120 s
    /// (Linux, `TCP_RTO_MAX`), and ten losses in a row are not rare enough for a shorter time.
    #[test]
    fn messages_survive_loss(seed in any::<u64>(), loss in 0.0f64..0.4) {
        use rand::{RngExt, SeedableRng};
        let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
        let mut world = World::new([Time::ZERO; 2]);
        world.lost = Box::new(move |_| rng.random::<f64>() < loss);
        let kinds = [SignalKind::Offer(crate::packet::Described::Both), SignalKind::Candidate,
            SignalKind::TcpCandidate];
        for kind in kinds {
            world.pages[0].send(Signal { from: 0, to: 1, kind });
        }
        world.run(Time::from_secs(100_000));
        let arrived: Vec<SignalKind> = world.events.iter().filter_map(|(_, port, event)| match event {
            SignallingEvent::Signal(signal) if *port == 3 => Some(signal.kind),
            _ => None,
        }).collect();
        prop_assert_eq!(arrived, kinds);
    }
}
