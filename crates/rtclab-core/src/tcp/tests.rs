//! A sender and a receiver over two paths, in virtual time.

use super::congestion_control::Phase;
use super::*;
use crate::path::{Capacity, Delay, Departure, Packet, Path, PathConfig, QueueLimit};
use crate::units::Bitrate;

/// One connection over a path there and a path back, and what happened.
struct Pair {
    sender: Sender,
    receiver: Receiver,
    there: Path<Segment>,
    back: Path<Segment>,
    now: Time,
    /// Data segments in the order of sending, and when.
    sent: Vec<(Time, u32)>,
    acks: Vec<Time>,
    /// Numbers of data segments that vanish once each.
    lose: Vec<u32>,
}

fn link(bps: Option<u64>, queue: u64, delay: Time) -> PathConfig {
    PathConfig {
        capacity: bps.map(|bps| Capacity::Constant { bps: Bitrate(bps) }),
        queue: bps.map(|_| QueueLimit::Packets(queue)),
        delay: Delay::Constant { ns: delay },
        ..PathConfig::default()
    }
}

impl Pair {
    fn new(algorithm: Algorithm, size: Option<u64>, there: PathConfig, back: Time) -> Self {
        let config = SenderConfig {
            connection: 0,
            congestion_control: algorithm,
            size: size.map(Bytes),
            seed: 1,
        };
        Pair {
            sender: Sender::new(config),
            receiver: Receiver::new(0),
            there: Path::new(there, 1),
            back: Path::new(link(None, 0, back), 2),
            now: Time::ZERO,
            sent: Vec::new(),
            acks: Vec::new(),
            lose: Vec::new(),
        }
    }

    fn flush(&mut self) {
        while let Some(segment) = self.sender.poll(self.now) {
            if segment.kind == SegmentKind::Data {
                self.sent.push((self.now, segment.seq));
                if let Some(index) = self.lose.iter().position(|seq| *seq == segment.seq) {
                    self.lose.remove(index);
                    continue;
                }
            }
            let packet = Packet { size: segment.size(), payload: segment };
            self.there.handle_packet(self.now, packet);
        }
        while let Some(segment) = self.receiver.poll(self.now) {
            if segment.kind == SegmentKind::Ack {
                self.acks.push(self.now);
            }
            let packet = Packet { size: segment.size(), payload: segment };
            self.back.handle_packet(self.now, packet);
        }
    }

    /// One step of virtual time; `false` when nothing is left to happen.
    fn step(&mut self) -> bool {
        self.flush();
        let next = [
            self.sender.poll_timeout(),
            self.receiver.poll_timeout(),
            self.there.poll_timeout(),
            self.back.poll_timeout(),
        ];
        let Some(next) = next.into_iter().flatten().min() else { return false };
        self.now = next.max(self.now);
        while let Some(departure) = self.there.poll(self.now) {
            if let Departure::Delivered { packet, .. } = departure {
                self.receiver.handle_segment(self.now, &packet.payload);
                self.flush();
            }
        }
        while let Some(departure) = self.back.poll(self.now) {
            if let Departure::Delivered { packet, .. } = departure {
                self.sender.handle_segment(self.now, &packet.payload);
                self.flush();
            }
        }
        self.sender.handle_timeout(self.now);
        self.flush();
        true
    }

    fn run(&mut self, until: Time) {
        while self.now < until && self.step() {}
    }
}

/// 1500 B at 12 Mbit/s take 1 ms.
const FAST: u64 = 12_000_000;

#[test]
fn slow_start_doubles_each_round_trip_from_ten_segments() {
    // Handshake until 100 ms, then 10, 20, 40, 80 segments, one round trip of 100 ms each; the link has
    // no capacity limit, so that a round leaves at once.
    let half = Time::from_millis(50);
    let mut pair = Pair::new(Algorithm::NewReno, None, link(None, 0, half), half);
    for (round, segments) in [10, 20, 40, 80].into_iter().enumerate() {
        pair.run(Time::from_millis(100 * (round as u64 + 1) + 50));
        let begin = Time::from_millis(100 * (round as u64 + 1));
        let sent = pair.sent.iter().filter(|(at, _)| *at >= begin).count();
        // Delayed ACKs keep the last odd segment of a round for 40 ms.
        assert!((segments - 1..=segments).contains(&sent), "round {round}: {sent}");
    }
}

#[test]
fn newreno_halves_its_window_on_loss() {
    let half = Time::from_millis(50);
    let mut pair = Pair::new(Algorithm::NewReno, None, link(Some(FAST), 1000, half), half);
    pair.lose = vec![60];
    pair.run(Time::from_millis(440));
    let before = pair.sender.window().segments;
    while pair.sender.phase() == Phase::Open && pair.step() {}
    let ssthresh = pair.sender.window().ssthresh;
    // At most two ACKs of two segments between the two looks.
    assert!((before / 2..=before / 2 + 40).contains(&ssthresh), "{before} {ssthresh}");
}
