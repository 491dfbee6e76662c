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

#[test]
fn dbg() {
    let mut pair = Pair::new(
        Algorithm::NewReno,
        None,
        link(Some(2_000_000), 50, Time::from_millis(25)),
        Time::from_millis(25),
    );
    let mut last = 0;
    for i in 0..200 {
        pair.run(Time::from_millis(100 * i));
        eprintln!(
            "{} w={:?} {:?} rtx={} rto={} sent={} srtt={:?}",
            pair.now,
            pair.sender.window(),
            pair.sender.phase(),
            pair.sender.retransmissions(),
            pair.sender.timeouts(),
            pair.sent.len() - last,
            pair.sender.smoothed_rtt()
        );
        last = pair.sent.len();
    }
}
