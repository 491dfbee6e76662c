//! Tests with a sender and a receiver over two paths, in virtual time.

mod ecn;

use super::congestion_control::Phase;
use super::*;
use crate::ecn::Ecn;
use crate::path::{Capacity, Delay, Departure, Loss, Packet, Path, PathConfig, QueueLimit};
use crate::units::Bitrate;
use crate::units::{Bytes, Time};
use proptest::prelude::*;

/// A connection over a forward path and a return path, with a log.
struct Pair {
    sender: TcpSender,
    receiver: TcpReceiver,
    forward: Path<Segment>,
    back: Path<Segment>,
    now: Time,
    /// Data segments with their send times, in order.
    sent: Vec<(Time, u32)>,
    acks: Vec<Time>,
    /// Numbers of data segments to drop, once per entry.
    lose: Vec<u32>,
    /// What the network makes of the codepoint of a packet to the receiver that has waited for so long.
    remark: Box<dyn FnMut(Ecn, Time) -> Ecn>,
    /// What becomes of acknowledgements.
    forge: Box<dyn FnMut(&mut Segment)>,
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
    fn new(algorithm: Algorithm, size: Option<u64>, forward: PathConfig, back: Time) -> Self {
        let config = SenderConfig {
            connection: 0,
            congestion_control: algorithm,
            ecn: true,
            size: size.map(Bytes),
            seed: 1,
        };
        Pair {
            sender: TcpSender::new(config),
            receiver: TcpReceiver::new(0),
            forward: Path::new(forward, 1),
            back: Path::new(link(None, 0, back), 2),
            now: Time::ZERO,
            sent: Vec::new(),
            acks: Vec::new(),
            lose: Vec::new(),
            remark: Box::new(|ecn, _| ecn),
            forge: Box::new(|_| ()),
        }
    }

    fn flush(&mut self) {
        while let Some((segment, ecn)) = self.sender.poll(self.now) {
            if segment.kind == SegmentKind::Data {
                self.sent.push((self.now, segment.seq));
                if let Some(index) = self.lose.iter().position(|seq| *seq == segment.seq) {
                    self.lose.remove(index);
                    continue;
                }
            }
            let packet = Packet { ecn, ..Packet::new(segment.size(), segment) };
            self.forward.handle_packet(self.now, packet);
        }
        while let Some((mut segment, _)) = self.receiver.poll(self.now) {
            (self.forge)(&mut segment);
            if segment.kind == SegmentKind::Ack {
                self.acks.push(self.now);
            }
            let packet = Packet::new(segment.size(), segment);
            self.back.handle_packet(self.now, packet);
        }
    }

    /// Advances to the next event. Returns `false` when there is none.
    fn step(&mut self) -> bool {
        self.flush();
        let next = [
            self.sender.poll_timeout(),
            self.receiver.poll_timeout(),
            self.forward.poll_timeout(),
            self.back.poll_timeout(),
        ];
        let Some(next) = next.into_iter().flatten().min() else { return false };
        self.now = next.max(self.now);
        while let Some(departure) = self.forward.poll(self.now) {
            if let Departure::Delivered { packet, queued, .. } = departure {
                let ecn = (self.remark)(packet.ecn, queued);
                self.receiver.handle_segment(self.now, &packet.payload, ecn);
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
    // The handshake ends at 100 ms. Then 10, 20, 40, 80 segments leave, one round trip of 100 ms each. The
    // link has no capacity limit, so a round leaves at once.
    let half = Time::from_millis(50);
    let mut pair = Pair::new(Algorithm::NewReno, None, link(None, 0, half), half);
    for (round, segments) in [10, 20, 40, 80].into_iter().enumerate() {
        pair.run(Time::from_millis(100 * (round as u64 + 1) + 50));
        let begin = Time::from_millis(100 * (round as u64 + 1));
        let sent = pair.sent.iter().filter(|(at, _)| *at >= begin).count();
        // A delayed ACK holds back the odd last segment of a round for 40 ms.
        assert!((segments - 1..=segments).contains(&sent), "round {round}: {sent}");
    }
}

const HALF: Time = Time::from_millis(50);

#[test]
fn newreno_halves_its_window_on_loss() {
    let mut pair = Pair::new(Algorithm::NewReno, None, link(Some(FAST), 1000, HALF), HALF);
    pair.lose = vec![60];
    while pair.sender.phase() == Phase::Open && pair.step() {}
    let before = pair.sender.window().segments;
    while pair.sender.phase() != Phase::Open && pair.step() {}
    let after = pair.sender.window();
    // The acknowledgement that ends recovery covers two windows of half the size, which adds two segments.
    assert!((0..=2).contains(&(after.segments - after.ssthresh)), "{after:?}");
    assert!((before / 2 - 1..=before / 2 + 1).contains(&after.ssthresh), "{before} {after:?}");
}

#[test]
fn a_lost_segment_is_retransmitted_after_one_round_trip_without_a_timeout() {
    let mut pair = Pair::new(Algorithm::NewReno, None, link(Some(FAST), 1000, HALF), HALF);
    pair.lose = vec![30];
    pair.run(Time::from_millis(800));
    let at: Vec<Time> = pair.sent.iter().filter(|(_, seq)| *seq == 30).map(|(at, _)| *at).collect();
    // 100 ms for the round trip, then until three segments above it are acknowledged: 1 ms each, behind at
    // most a round of 40 segments at 1 ms each.
    assert_eq!(at.len(), 2);
    let waited = (at[1] - at[0]).as_millis();
    assert!((100..145).contains(&waited), "{waited} ms");
    assert_eq!((pair.sender.timeouts(), pair.sender.retransmissions()), (0, 1));
    assert!(pair.receiver.next() > 60);
}

#[test]
fn timeouts_double_while_nothing_is_acknowledged() {
    let mut pair = Pair::new(Algorithm::NewReno, Some(1000), link(None, 0, HALF), HALF);
    pair.lose = vec![0; 6];
    pair.run(Time::from_secs(60));
    let at: Vec<u64> = pair.sent.iter().map(|(at, _)| at.as_millis()).collect();
    let gaps: Vec<u64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // SRTT 100 ms + 200 ms. The probe would be due after 2 SRTT + 200 ms, but leaves no later than the
    // timeout.
    assert_eq!(gaps, [300, 300, 600, 1200, 2400, 4800]);
    assert_eq!(pair.receiver.delivered(), Bytes(1000));
    assert!(pair.sender.is_finished());
}

#[test]
fn after_sixteen_acknowledgements_every_second_segment_is_acknowledged() {
    let size = 116 * u64::from(MAX_SEGMENT_BYTES);
    let mut pair = Pair::new(Algorithm::Cubic, Some(size), link(Some(FAST), 1000, HALF), HALF);
    pair.run(Time::from_secs(5));
    // 16 at once, then one for every two of 100 segments. A round of odd length leaves one for the timer.
    assert!((66..=68).contains(&pair.acks.len()), "{}", pair.acks.len());
}

#[test]
fn the_last_segment_of_an_object_is_repaired_by_a_probe() {
    let size = 20 * u64::from(MAX_SEGMENT_BYTES);
    let mut pair = Pair::new(Algorithm::Cubic, Some(size), link(None, 0, HALF), HALF);
    pair.lose = vec![19];
    pair.run(Time::from_secs(5));
    assert_eq!((pair.sender.timeouts(), pair.sender.retransmissions()), (0, 1));
    assert!(pair.sender.is_finished());
}

#[test]
fn bbr_finds_the_rate_of_the_link_and_queues_at_most_a_bandwidth_delay_product() {
    // 12 Mbit/s are 1000 segments/s, or 100 segments in 100 ms.
    let mut pair = Pair::new(Algorithm::Bbr, None, link(Some(FAST), 1000, HALF), HALF);
    pair.run(Time::from_secs(3));
    let (mut looks, mut waiting) = (0u64, 0);
    let before = pair.receiver.next();
    while pair.now < Time::from_secs(9) {
        pair.step();
        looks += 1;
        waiting += pair.forward.queued().0;
        // The window has two bandwidth-delay products, three bursts of two segments, and two for probing.
        assert!(pair.sender.window().segments <= 220, "{:?}", pair.sender.window());
    }
    let rate = f64::from(pair.receiver.next() - before) / 6.0;
    assert!((950.0..=1000.5).contains(&rate), "{rate}");
    // The gain of 1.25 queues a quarter of a bandwidth-delay product in one of eight round trips.
    let mean = waiting as f64 / looks as f64 / 1500.0;
    assert!((0.5..50.0).contains(&mean), "{mean}");
}

#[test]
fn a_path_that_loses_everything_is_tried_less_and_less_often() {
    let nothing = Loss { p: 0.0, r: 1.0, h: 0.0, k: 0.0 };
    let forward = PathConfig { loss: Some(nothing), ..link(Some(FAST), 10, HALF) };
    let mut pair = Pair::new(Algorithm::Cubic, None, forward, HALF);
    let mut steps = 0;
    while pair.now < Time::from_secs(3600) && pair.step() {
        steps += 1;
    }
    // Timeouts of 1, 2, 4 … 120 s: 7 attempts until 127 s, then 30 an hour, with two steps each.
    assert!(steps < 200, "{steps}");
}

/// An acknowledgement as the receiver would send it.
fn ack(now: Time, ack: u32, echo: Time, sack: &[(u32, u32)]) -> Segment {
    let mut segment = Segment::new(0, SegmentKind::Ack, now);
    (segment.ack, segment.echo) = (ack, echo);
    segment.sack[..sack.len()].copy_from_slice(sack);
    segment.sack_blocks = sack.len() as u8;
    segment
}

/// A sender that has sent its first ten segments at 100 ms, after a handshake of 100 ms.
fn opened(algorithm: Algorithm) -> TcpSender {
    let mut sender = TcpSender::new(SenderConfig {
        connection: 0,
        congestion_control: algorithm,
        ecn: false,
        size: None,
        seed: 1,
    });
    while sender.poll(Time::ZERO).is_some() {}
    let mut answer = Segment::new(0, SegmentKind::SynAck, HALF);
    answer.echo = Time::ZERO;
    sender.handle_segment(HALF * 2, &answer);
    while sender.poll(HALF * 2).is_some() {}
    sender
}

#[test]
fn two_new_blocks_in_one_acknowledgement_are_not_reordering() {
    // Segments 0 and 4 are lost, and so is the acknowledgement that reported only 1 to 3.
    let mut sender = opened(Algorithm::NewReno);
    let now = Time::from_millis(200);
    sender.handle_segment(now, &ack(now, 0, Time::ZERO, &[(5, 10), (1, 4)]));
    // Three segments above them arrived. They are lost at once because nothing was reordered.
    assert_eq!(sender.phase(), Phase::Recovery);
    let again: Vec<u32> =
        std::iter::from_fn(|| sender.poll(now)).map(|(s, _)| s.seq).take(2).collect();
    assert_eq!(again, [0, 4]);
}

#[test]
fn on_an_unlimited_link_the_receive_window_limits_what_is_in_flight() {
    // 10 segments double every 100 ms. 6 MiB hold 2730 segments, reached in the tenth round.
    for algorithm in Algorithm::ALL {
        let mut pair = Pair::new(algorithm, None, link(None, 0, HALF), HALF);
        pair.run(Time::from_secs(3));
        let last_round = pair.now - HALF * 2;
        let sent = pair.sent.iter().filter(|(at, _)| *at > last_round).count();
        assert!((2_500..=2_800).contains(&sent), "{algorithm:?}: {sent}");
        // Slow start continues until half of the window suffices. BBR grows to 2.885 times what was in
        // flight.
        assert!(pair.sender.window().segments <= 3 * 2_730, "{:?}", pair.sender.window());
    }
}

/// 6 MiB hold 2,730 segments. Any number beyond is answered with an acknowledgement, which tells the sender where the
/// receiver is.
#[test]
fn a_segment_beyond_the_receive_window_is_dropped_and_answered() {
    let mut receiver = TcpReceiver::new(0);
    let syn = Segment::new(0, SegmentKind::Syn, Time::ZERO);
    receiver.handle_segment(Time::ZERO, &syn, Ecn::NotCapable);
    receiver.poll(Time::ZERO);
    let mut arrive = |seq: u32| {
        let mut segment = Segment::new(0, SegmentKind::Data, Time::ZERO);
        (segment.seq, segment.payload) = (seq, MAX_SEGMENT_BYTES);
        receiver.handle_segment(Time::ZERO, &segment, Ecn::NotCapable);
        let (ack, _) = receiver.poll(Time::ZERO).expect("an acknowledgement");
        (ack.ack, ack.sacked().first().copied())
    };
    for seq in [u32::MAX, 1 << 31, 2_731, 2_730] {
        assert_eq!(arrive(seq), (0, None), "{seq}");
    }
    assert_eq!(arrive(2_729), (0, Some((2_729, 2_730))));
    assert_eq!(arrive(0), (1, Some((2_729, 2_730))));
    assert_eq!(arrive(2_730), (1, Some((2_729, 2_731))));
}

/// Every message is a segment of its own. Its far end sends messages from beyond the window.
#[test]
fn a_stream_keeps_neither_what_was_acknowledged_nor_what_is_beyond_the_window() {
    let [mut near, mut far] = [MessageStream::connect(0), MessageStream::listen(0)];
    let mut now = Time::ZERO;
    let mut exchange = |near: &mut MessageStream<u32>, far: &mut MessageStream<u32>| {
        now += Time::from_millis(50);
        let go = |from: &mut MessageStream<u32>, to: &mut MessageStream<u32>| {
            from.handle_timeout(now);
            while let Some((segment, message)) = from.poll(now) {
                to.handle_segment(now, &segment, message.as_ref());
            }
        };
        go(near, far);
        go(far, near);
    };
    let mut read = Vec::new();
    for message in 0..1_000 {
        near.write(Bytes(100), message);
        exchange(&mut near, &mut far);
        read.extend(std::iter::from_fn(|| far.read()));
        assert!(near.kept() <= 20, "{message}: {}", near.kept());
        let mut segment = Segment::new(0, SegmentKind::Data, Time::ZERO);
        (segment.seq, segment.payload) = (1_000_000 + message, 100);
        far.handle_segment(Time::ZERO, &segment, Some(&9));
        assert!(far.kept() <= 20, "{message}: {}", far.kept());
    }
    (0..40).for_each(|_| exchange(&mut near, &mut far));
    read.extend(std::iter::from_fn(|| far.read()));
    assert_eq!(read, (0..1_000).collect::<Vec<_>>());
}

#[test]
fn the_reordering_timer_reduces_the_window_once_per_recovery() {
    let mut sender = opened(Algorithm::NewReno);
    let ms = Time::from_millis;
    let sent = HALF * 2;
    // Segment 1 arrives before 0: reordering. From now on segments get a quarter of the round trip more.
    sender.handle_segment(ms(200), &ack(ms(200), 0, sent, &[(1, 2)]));
    sender.handle_segment(ms(201), &ack(ms(201), 2, sent, &[]));
    sender.handle_segment(ms(204), &ack(ms(204), 2, sent, &[(3, 4)]));
    // Segment 2 is lost 104 + 25 ms after it was sent.
    assert_eq!(sender.poll_timeout(), Some(ms(229)));
    sender.handle_timeout(ms(229));
    assert_eq!(sender.phase(), Phase::Recovery);
    let ssthresh = sender.window().ssthresh;
    sender.handle_segment(ms(230), &ack(ms(230), 2, sent, &[(3, 4), (5, 6)]));
    // Recovery reduces the window only on acknowledgements. Segment 4 is lost at 100 + 130 + 25 ms, without
    // one.
    let before = sender.window();
    assert_eq!(sender.poll_timeout(), Some(ms(255)));
    sender.handle_timeout(ms(255));
    assert_eq!((sender.window(), sender.window().ssthresh), (before, ssthresh));
}

/// A sender whose retransmission timer has expired, because everything it sent was lost.
fn timed_out() -> (TcpSender, Time) {
    let mut sender = opened(Algorithm::NewReno);
    let mut now = HALF * 2;
    while sender.timeouts() == 0 {
        now = sender.poll_timeout().unwrap_or(now);
        sender.handle_timeout(now);
        if sender.timeouts() == 0 {
            while sender.poll(now).is_some() {}
        }
    }
    (sender, now)
}

#[test]
fn a_retransmission_lost_after_a_timeout_reduces_the_window_again() {
    let (mut sender, timeout) = timed_out();
    let at = |ms: u64| timeout + Time::from_millis(ms);
    assert_eq!(sender.poll(at(0)).map(|(s, _)| s.seq), Some(0));
    sender.handle_segment(at(100), &ack(at(100), 1, at(0), &[]));
    assert_eq!((sender.phase(), sender.window().ssthresh), (Phase::Loss, 5));
    // The second window has two segments: 1 is lost again, 2 arrives.
    assert_eq!(sender.poll(at(100)).map(|(s, _)| s.seq), Some(1));
    assert_eq!(sender.poll(at(101)).map(|(s, _)| s.seq), Some(2));
    sender.handle_segment(at(201), &ack(at(201), 1, at(0), &[(2, 3)]));
    assert_eq!((sender.phase(), sender.window().ssthresh), (Phase::Recovery, 2));
}

#[test]
fn the_echo_gives_the_round_trip_of_a_retransmission_and_ends_the_backoff() {
    let (mut sender, timeout) = timed_out();
    let at = |ms: u64| timeout + Time::from_millis(ms);
    while sender.poll(at(0)).is_some() {}
    sender.handle_segment(at(180), &ack(at(180), 1, at(0), &[]));
    // 7/8 of 100 ms and 1/8 of 180 ms.
    assert_eq!(sender.smoothed_rtt(), Some(Time::from_millis(110)));
    while sender.poll(at(180)).is_some() {}
    // RTTVAR was 50 ms and is now 3/4 * 50 + 1/4 * 80 = 57.5 ms. The timeout has four times that and is not
    // doubled.
    assert_eq!(sender.poll_timeout(), Some(at(180 + 110 + 230)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn everything_arrives_complete_and_in_order_whatever_is_lost_or_marked(
        kept in 0.6f64..1.0,
        marked in 0.0f64..1.0,
        size in 1u64..150_000,
        which in 0..Algorithm::ALL.len(),
        queue in 2u64..40,
    ) {
        let algorithm = Algorithm::ALL[which];
        let loss = Loss { p: 0.0, r: 1.0, h: kept, k: kept };
        let forward = PathConfig { loss: Some(loss), ..link(Some(2_000_000), queue, HALF) };
        let mut pair = Pair::new(algorithm, Some(size), forward, HALF);
        pair.remark = ecn::random(marked);
        pair.run(Time::from_secs(100_000));
        prop_assert!(pair.sender.is_finished());
        prop_assert_eq!(pair.receiver.delivered(), Bytes(size));
    }
}
