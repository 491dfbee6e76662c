//! Marks: what is negotiated, who repeats them, and what they do to the window.

use super::*;
use crate::packet::{Address, Content};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::cell::Cell;
use std::rc::Rc;

/// The round trip of most of these paths.
const ROUND: Time = Time::from_millis(100);
/// All controls that use ECN. [`Pair`] asks for it.
const CAPABLE: [Algorithm; 4] =
    [Algorithm::NewReno, Algorithm::Cubic, Algorithm::Dctcp, Algorithm::Prague];

/// A pair over a path without capacity limit.
fn unlimited(algorithm: Algorithm) -> Pair {
    Pair::new(algorithm, None, link(None, 0, HALF), HALF)
}

/// A network that marks what is ECN-capable if `marks` says so of the time that it has waited.
fn marking(mut marks: impl FnMut(Time) -> bool + 'static) -> Box<dyn FnMut(Ecn, Time) -> Ecn> {
    Box::new(move |ecn, queued| match ecn {
        Ecn::Ect0 | Ecn::Ect1 if marks(queued) => Ecn::CongestionExperienced,
        other => other,
    })
}

/// Marks each segment with probability `p`.
pub(super) fn random(p: f64) -> Box<dyn FnMut(Ecn, Time) -> Ecn> {
    let mut rng = Pcg64Mcg::seed_from_u64(5);
    marking(move |_| rng.random::<f64>() < p)
}

/// Mean number of segments sent in a round trip of 100 ms, from 50 s to 400 s.
fn mean_window(pair: &mut Pair) -> f64 {
    pair.run(Time::from_secs(400));
    let sent = pair.sent.iter().filter(|(at, _)| *at >= Time::from_secs(50)).count();
    sent as f64 * 0.1 / 350.0
}

/// A sender whose opening was answered with these flags, and its opening.
fn answered(algorithm: Algorithm, ecn: bool, answer: u8) -> (TcpSender, Segment) {
    let congestion_control = algorithm;
    let config = SenderConfig { connection: 0, congestion_control, ecn, size: None, seed: 1 };
    let mut sender = TcpSender::new(config);
    let (opening, codepoint) = sender.poll(Time::ZERO).expect("an opening");
    assert_eq!(codepoint, Ecn::NotCapable);
    let mut segment = Segment::new(0, SegmentKind::SynAck, HALF);
    segment.ecn = EcnFlags::from_bits(answer);
    sender.handle_segment(ROUND, &segment);
    (sender, opening)
}

/// An acknowledgement with ECN flags.
fn ack_with(now: Time, number: u32, ecn: EcnFlags) -> Segment {
    Segment { ecn, ..ack(now, number, Time::ZERO, &[]) }
}

/// RFC 3168, 6.1.1, and RFC 9768, table 2. Everything else is no agreement.
#[test]
fn only_the_answer_that_fits_the_question_makes_data_ecn_capable() {
    let cases = [
        (Algorithm::NewReno, false, 0b000, vec![], Ecn::NotCapable),
        (Algorithm::Cubic, false, 0b000, vec![], Ecn::NotCapable),
        (Algorithm::Bbr, true, 0b000, vec![], Ecn::NotCapable),
        (Algorithm::NewReno, true, 0b011, vec![0b001], Ecn::Ect0),
        (Algorithm::Cubic, true, 0b011, vec![0b001], Ecn::Ect0),
        (Algorithm::Dctcp, false, 0b111, vec![0b010, 0b011, 0b100, 0b110], Ecn::Ect0),
        (Algorithm::Prague, false, 0b111, vec![0b010, 0b011, 0b100, 0b110], Ecn::Ect1),
    ];
    for (algorithm, ecn, asks, accepting, capable) in cases {
        for answer in 0..8 {
            let (mut sender, opening) = answered(algorithm, ecn, answer);
            assert_eq!(opening.ecn.bits(), asks, "{algorithm:?}");
            let (_, codepoint) = sender.poll(ROUND).expect("data");
            let expected = if accepting.contains(&answer) { capable } else { Ecn::NotCapable };
            assert_eq!(codepoint, expected, "{algorithm:?} {answer:03b}");
        }
    }
}

#[test]
fn an_opening_that_is_sent_again_does_not_ask_for_ecn() {
    for algorithm in CAPABLE {
        let congestion_control = algorithm;
        let config =
            SenderConfig { connection: 0, congestion_control, ecn: true, size: None, seed: 1 };
        let mut sender = TcpSender::new(config);
        assert_ne!(sender.poll(Time::ZERO).map(|(s, _)| s.ecn), Some(EcnFlags::NONE));
        let second = Time::from_secs(1);
        sender.handle_timeout(second);
        assert_eq!(sender.poll(second).map(|(s, _)| s.ecn), Some(EcnFlags::NONE));
        // The answer to the first may still come.
        let mut answer = Segment::new(0, SegmentKind::SynAck, second);
        let is_accurate = matches!(algorithm.ecn(true), EcnUse::Accurate(_));
        answer.ecn = if is_accurate { EcnFlags::REDUCED } else { EcnFlags::ECHO };
        sender.handle_segment(second, &answer);
        assert_eq!(sender.poll(second).map(|(_, codepoint)| codepoint), Some(Ecn::NotCapable));
    }
}

/// RFC 3168, 6.1.2: once per round trip, and the next new segment says so.
#[test]
fn echoes_reduce_the_window_once_per_round_trip_and_the_next_new_segment_says_so() {
    let ms = Time::from_millis;
    let (mut sender, _) = answered(Algorithm::NewReno, true, 0b001);
    while sender.poll(ROUND).is_some() {}
    // The window has doubled for no segment yet: 10 segments, and half of 10 is 5.
    let mut sent = Vec::new();
    for (at, number) in [(200, 2), (201, 4), (202, 6), (203, 8), (204, 10)] {
        sender.handle_segment(ms(at), &ack_with(ms(at), number, EcnFlags::ECHO));
        assert_eq!((sender.phase(), sender.window().ssthresh), (Phase::Reducing, 5), "{at} ms");
        sent.extend(std::iter::from_fn(|| sender.poll(ms(at))).map(|(s, _)| (s.seq, s.ecn)));
    }
    // Half of the ten that arrived are replaced (RFC 6937).
    let flags: Vec<EcnFlags> = sent.iter().map(|(_, flags)| *flags).collect();
    let [told, none] = [EcnFlags::REDUCED, EcnFlags::NONE];
    assert_eq!(flags, [told, none, none, none, none]);
    assert_eq!(sent[0].0, 10);
    // The receiver has heard of it. The next echo is a new mark: a window of 5 that one acknowledgement let grow by none.
    sender.handle_segment(ms(300), &ack_with(ms(300), 11, EcnFlags::NONE));
    assert_eq!((sender.phase(), sender.window().segments), (Phase::Open, 5));
    sender.handle_segment(ms(301), &ack_with(ms(301), 12, EcnFlags::ECHO));
    assert_eq!((sender.phase(), sender.window().ssthresh), (Phase::Reducing, 2));
    assert_eq!(sender.retransmissions(), 0);
}

#[test]
fn a_loss_after_a_mark_in_the_same_round_trip_does_not_reduce_the_window_again() {
    let ms = Time::from_millis;
    let (mut sender, _) = answered(Algorithm::NewReno, true, 0b001);
    while sender.poll(ROUND).is_some() {}
    sender.handle_segment(ms(200), &ack_with(ms(200), 2, EcnFlags::ECHO));
    let mut lost = ack_with(ms(201), 2, EcnFlags::ECHO);
    (lost.sack[0], lost.sack_blocks) = ((3, 8), 1);
    sender.handle_segment(ms(201), &lost);
    assert_eq!((sender.phase(), sender.window().ssthresh), (Phase::Recovery, 5));
    // Only new data are ECN-capable (RFC 3168, 6.1.5).
    let sent: Vec<_> = std::iter::from_fn(|| sender.poll(ms(201))).collect();
    assert_eq!((sent[0].0.seq, sent[0].1), (2, Ecn::NotCapable));
    assert!(sent[1..].iter().all(|(s, codepoint)| s.seq >= 10 && *codepoint == Ecn::Ect0));
}

#[test]
fn with_accurate_ecn_retransmissions_are_ecn_capable_too() {
    for (algorithm, codepoint) in [(Algorithm::Dctcp, Ecn::Ect0), (Algorithm::Prague, Ecn::Ect1)] {
        let (mut sender, _) = answered(algorithm, false, 0b010);
        while sender.poll(ROUND).is_some() {}
        let now = Time::from_millis(200);
        let mut lost = ack_with(now, 0, EcnFlags::ace(0));
        (lost.sack[0], lost.sack_blocks) = ((1, 8), 1);
        sender.handle_segment(now, &lost);
        let (segment, own) = sender.poll(now).expect("a retransmission");
        assert_eq!((segment.seq, own), (0, codepoint), "{algorithm:?}");
    }
}

/// A receiver whose connection was opened with these flags, and its answer.
fn receiver(opening: EcnFlags) -> (TcpReceiver, EcnFlags) {
    let mut receiver = TcpReceiver::new(0);
    let mut syn = Segment::new(0, SegmentKind::Syn, Time::ZERO);
    syn.ecn = opening;
    receiver.handle_segment(Time::ZERO, &syn, Ecn::NotCapable);
    let (answer, codepoint) = receiver.poll(Time::ZERO).expect("an answer");
    assert_eq!(codepoint, Ecn::NotCapable);
    (receiver, answer.ecn)
}

/// The flags and the codepoint with which a receiver acknowledges a segment. One of its first 16 is not delayed.
fn acknowledged(
    receiver: &mut TcpReceiver,
    seq: u32,
    flags: EcnFlags,
    codepoint: Ecn,
) -> (u8, Ecn) {
    let mut segment = Segment::new(0, SegmentKind::Data, Time::ZERO);
    (segment.seq, segment.payload, segment.ecn) = (seq, MAX_SEGMENT_BYTES, flags);
    receiver.handle_segment(Time::ZERO, &segment, codepoint);
    let (ack, codepoint) = receiver.poll(Time::ZERO).expect("an acknowledgement");
    (ack.ecn.bits(), codepoint)
}

/// RFC 3168, 6.1.3.
#[test]
fn a_mark_is_echoed_until_the_sender_says_that_it_has_reduced_its_window() {
    use Ecn::{CongestionExperienced as Ce, Ect0, NotCapable};
    let (mut receiver, answer) = receiver(EcnFlags::ASK_CLASSIC);
    assert_eq!(answer, EcnFlags::ECHO);
    let [told, none] = [EcnFlags::REDUCED, EcnFlags::NONE];
    let arriving = [(none, Ect0), (none, Ce), (none, Ect0), (none, Ce), (told, Ect0), (none, Ect0)];
    let echoes = [0, 1, 1, 1, 0, 0];
    for (seq, ((flags, codepoint), echo)) in (0..).zip(arriving.into_iter().zip(echoes)) {
        let own = acknowledged(&mut receiver, seq, flags, codepoint);
        assert_eq!(own, (echo, NotCapable), "segment {seq}");
    }
    // A segment that says so and is marked itself: the mark is new.
    assert_eq!(acknowledged(&mut receiver, 6, told, Ce).0, 1);
    assert_eq!(acknowledged(&mut receiver, 7, told, Ect0).0, 0);
}

/// RFC 9768, 3.2.1: the counter begins at five and has three bits.
#[test]
fn with_accurate_ecn_acknowledgements_count_marks_and_have_the_codepoint_of_the_data() {
    use Ecn::{CongestionExperienced as Ce, Ect1};
    let (mut receiver, answer) = receiver(EcnFlags::ASK_ACCURATE);
    assert_eq!(answer.bits(), 0b010);
    let counted = [(Ect1, 5), (Ce, 6), (Ce, 7), (Ce, 0), (Ect1, 0), (Ce, 1)];
    for (seq, (codepoint, ace)) in (0..).zip(counted) {
        let own = acknowledged(&mut receiver, seq, EcnFlags::ace(0), codepoint);
        assert_eq!(own, (ace, Ect1), "segment {seq}");
    }
}

#[test]
fn without_agreement_marks_are_not_echoed() {
    for flags in (0..8).map(EcnFlags::from_bits) {
        if flags == EcnFlags::ASK_CLASSIC || flags == EcnFlags::ASK_ACCURATE {
            continue;
        }
        let (mut receiver, answer) = receiver(flags);
        assert_eq!(answer, EcnFlags::NONE);
        let marked = Ecn::CongestionExperienced;
        let own = acknowledged(&mut receiver, 0, EcnFlags::NONE, marked);
        assert_eq!(own, (0, Ecn::NotCapable));
    }
}

/// From its address to the other and back: they have the codepoint of the datagram.
#[test]
fn the_ends_of_cross_traffic_write_and_read_the_codepoint_of_datagrams() {
    let [near, far] = [0, 1].map(|port| Address { node: crate::network::NodeId(port), port });
    let config = TcpClientConfig {
        congestion_control: Algorithm::Cubic,
        ecn: true,
        start: Time::ZERO,
        stop: Time::from_secs(1),
        objects: None,
        seed: 1,
    };
    let (mut client, mut server) = (TcpClient::new(config, far), TcpServer::new(near));
    client.handle_timeout(Time::ZERO);
    let opening = client.poll_transmit(Time::ZERO).expect("an opening").datagram;
    server.handle_datagram(Time::ZERO, near, &opening);
    let answer = server.poll_transmit(Time::ZERO).expect("an answer").datagram;
    client.handle_datagram(ROUND, far, &answer);
    let mut data = client.poll_transmit(ROUND).expect("data").datagram;
    assert_eq!([opening.ecn, answer.ecn, data.ecn], [Ecn::NotCapable, Ecn::NotCapable, Ecn::Ect0]);
    data.ecn = Ecn::CongestionExperienced;
    server.handle_datagram(ROUND, near, &data);
    let ack = server.poll_transmit(ROUND).expect("an acknowledgement").datagram;
    let Content::Tcp(segment) = ack.content else { panic!("not TCP") };
    assert_eq!((segment.ecn, ack.ecn), (EcnFlags::ECHO, Ecn::NotCapable));
}

/// From the first second on, every segment is marked.
#[test]
fn however_many_marks_newreno_halves_and_cubic_takes_seven_tenths_once_per_round_trip() {
    for (algorithm, factor) in [(Algorithm::NewReno, 0.5), (Algorithm::Cubic, 0.7)] {
        let mut pair = unlimited(algorithm);
        let marks = Rc::new(Cell::new(false));
        let own = Rc::clone(&marks);
        pair.remark = marking(move |_| own.get());
        pair.run(Time::from_millis(650));
        marks.set(true);
        let mut last = (pair.now, pair.sender.window());
        let mut reductions = 0;
        while pair.now < Time::from_secs(4) && pair.step() {
            let window = pair.sender.window();
            if window.ssthresh < last.1.ssthresh {
                let from = if reductions == 0 { last.1.segments } else { last.1.ssthresh };
                let whole = ((f64::from(from) * factor) as u32).max(2);
                // Slow start may have grown once more in the same acknowledgement.
                assert!(window.ssthresh.abs_diff(whole) <= 1, "{algorithm:?} {from}: {window:?}");
                let waited = pair.now - last.0;
                // A round trip, and for small windows a delayed acknowledgement.
                let bounds = [ROUND, Time::from_millis(145)];
                let is_first = reductions == 0;
                assert!(is_first || (bounds[0] <= waited && waited <= bounds[1]), "{waited:?}");
                (reductions, last) = (reductions + 1, (pair.now, window));
            }
            if reductions == 0 {
                last.1 = window;
            }
            assert!(window.segments >= 2, "{window:?}");
        }
        // From 320 segments: log(320 / 2) / log(1 / factor) reductions, fewer than 3.3 s have round trips.
        let expected = libm::log(160.0) / -libm::log(factor);
        assert!((expected - 2.0..=expected + 4.0).contains(&reductions.into()), "{reductions}");
        assert_eq!((pair.sender.window().ssthresh, pair.sender.retransmissions()), (2, 0));
        // Two segments per round trip still arrive.
        let before = pair.receiver.next();
        pair.run(Time::from_secs(14));
        assert!((140..=202).contains(&(pair.receiver.next() - before)));
    }
}

/// Every thousandth segment. NewReno counts each acknowledged segment, so delayed acknowledgements do not slow its growth
/// (b = 1 in the usual formula). In a cycle, NewReno grows from w/2 to w in w/2 round trips, which are 3/8 w^2 segments.
/// Then it shrinks for one round trip with 3/4 w. So 3/8 w^2 + 3/4 w = 1000 and w = 50.6, in 26.3 round trips: 38.0 a
/// round trip. That is 1.20/sqrt(p). Delayed acknowledgements lengthen the round trip by up to a 38th.
#[test]
fn newreno_has_the_window_that_follows_from_the_share_of_marks() {
    let mut pair = unlimited(Algorithm::NewReno);
    let mut count = 0;
    pair.remark = marking(move |_| {
        count += 1;
        count % 1000 == 0
    });
    let window = mean_window(&mut pair);
    assert!((36.2..=38.4).contains(&window), "{window}");
    assert_eq!(pair.sender.retransmissions(), 0);
    // Random marks: 1.31/sqrt(p) = 41.4 (Ott, Kemperman and Mathis 1996) with as much less for the round trip without
    // growth. The mean of 360 cycles has a standard deviation of 2 %.
    let mut pair = unlimited(Algorithm::NewReno);
    pair.remark = random(0.001);
    let window = mean_window(&mut pair);
    assert!((37.0..=43.0).contains(&window), "{window}");
}

/// x marks per window of W = x/p. After a reduction by alpha W/2 = x/2 segments, Prague ignores marks for a round trip,
/// and then waits 1/x of one for the next mark; meanwhile it grows by 1 - p segments per round trip. So x/2 = (1 - p)(1 +
/// 1/x): x = c + sqrt(c^2 + 2c) with c = 1 - p. It would be 2 if it reacted to every mark. Bursts and delayed
/// acknowledgements lengthen the round trip by up to two of W segments. The mean has a standard deviation of 0.9 %.
#[test]
fn prague_has_between_two_and_three_marks_per_round_trip_whatever_their_share() {
    for p in [0.02, 0.05] {
        let mut pair = unlimited(Algorithm::Prague);
        pair.remark = random(p);
        let marks = mean_window(&mut pair) * p;
        let expected = 1.0 - p + libm::sqrt((1.0 - p) * (3.0 - p));
        let least = (expected - 2.0 * p) * 0.98;
        assert!((least..=expected * 1.02).contains(&marks), "{p}: {marks}, not {expected}");
        assert_eq!(pair.sender.retransmissions(), 0);
    }
}

/// The window is a whole number of segments, so a mark takes one segment if alpha W/2 is at least one, and mostly none
/// otherwise: alpha of x/W is about normal with a variance of alpha^2 / (31 x). The window grows by the whole number of
/// segments that fit between two reductions, which is 1/(e^x - 1) in the mean, because the rest is forgotten. Both are
/// equal for x = 1.8: 0.20.
#[test]
fn dctcp_has_nearly_two_marks_per_round_trip_whatever_their_share() {
    for p in [0.02, 0.05] {
        let mut pair = unlimited(Algorithm::Dctcp);
        pair.remark = random(p);
        let marks = mean_window(&mut pair) * p;
        assert!((1.7..=1.9).contains(&marks), "{p}: {marks}");
        assert_eq!(pair.sender.retransmissions(), 0);
    }
}

/// One flow alone at a queue that marks all that has waited for more than a threshold of at least two segments.
///
/// If all segments of a round trip are marked or none, alpha = sqrt(2/W) (Alizadeh et al. 2010, section 3.3). If marks
/// are spread evenly, there are two in a round trip: alpha = 2/W, or 1.8/W with DCTCP's whole segments, as above. Here
/// pairs of segments make two steps of one.
#[test]
fn at_a_step_the_share_of_marks_is_between_the_even_one_and_the_one_of_whole_round_trips() {
    // Capacity, round trip, threshold in ms.
    let links = [(10e6, 25.0, 2.4), (50e6, 25.0, 1.0), (2e6, 50.0, 12.0)];
    for algorithm in [Algorithm::Dctcp, Algorithm::Prague] {
        for (bps, rtt_ms, threshold_ms) in links {
            let half = Time::from_secs_f64(rtt_ms / 2000.0);
            let forward = link(Some(bps as u64), 10_000, half);
            let mut pair = Pair::new(algorithm, None, forward, half);
            // Segments, marks, and ms in the queue.
            let seen = Rc::new(Cell::new((0.0, 0.0, 0.0)));
            let own = Rc::clone(&seen);
            pair.remark = marking(move |queued| {
                let (segments, marks, waited) = own.get();
                let queued_ms = queued.as_secs_f64() * 1000.0;
                let marked = queued_ms > threshold_ms;
                own.set((segments + 1.0, marks + f64::from(u8::from(marked)), waited + queued_ms));
                marked
            });
            pair.run(Time::from_secs(10));
            seen.set((0.0, 0.0, 0.0));
            pair.run(Time::from_secs(40));
            let (segments, marks, waited) = seen.get();
            let what = format!("{algorithm:?} {} Mbit/s", bps / 1e6);
            let used = segments * 12_000.0 / 30.0 / bps;
            assert!(waited / segments < threshold_ms, "{what}: {}", waited / segments);
            // A window fills the path and the queue up to the threshold.
            let window = bps / 12_000.0 * (rtt_ms + threshold_ms) / 1000.0;
            let (share, even, whole) = (marks / segments, 1.8 / window, libm::sqrt(2.0 / window));
            // A sawtooth of this depth without any queue would leave half of it unused.
            assert!((1.0 - whole / 4.0..=1.001).contains(&used), "{what}: {used}");
            assert!(even < share && share < whole, "{what}: {even} < {share} < {whole}");
            assert_eq!(pair.sender.retransmissions(), 0, "{what}");
        }
    }
}

/// Not-ECT arrives, and the queue of one bandwidth-delay product drops.
#[test]
fn on_a_path_that_bleaches_losses_alone_limit_the_window() {
    for algorithm in CAPABLE {
        let mut pair = Pair::new(algorithm, None, link(Some(FAST), 100, HALF), HALF);
        pair.remark = Box::new(|_, _| Ecn::NotCapable);
        pair.run(Time::from_secs(10));
        let [before, lost] = [pair.receiver.next(), pair.sender.retransmissions() as u32];
        pair.run(Time::from_secs(70));
        let used = f64::from(pair.receiver.next() - before) / 60_000.0;
        assert!((0.95..=1.001).contains(&used), "{algorithm:?}: {used}");
        // A sawtooth from 100 to 200 segments has a round trip for each, of 150 ms in the mean: one in 15 s. CUBIC's have
        // K = cbrt(200 * 0.3 / 0.4) = 5.3 s, or less as Reno.
        let losses = pair.sender.retransmissions() as u32 - lost;
        assert!((3..=60).contains(&losses), "{algorithm:?}: {losses}");
        assert_eq!(pair.sender.timeouts(), 0, "{algorithm:?}");
    }
}

/// The far end echoes or counts marks that nobody asked it for.
#[test]
fn without_agreement_no_flag_changes_anything() {
    for algorithm in Algorithm::ALL {
        let run = |bits: u8| {
            let mut pair = unlimited(algorithm);
            pair.forge = Box::new(move |segment| {
                let is_answer = segment.kind == SegmentKind::SynAck;
                segment.ecn = EcnFlags::from_bits(if is_answer { 0 } else { bits });
            });
            pair.run(Time::from_secs(1));
            pair.sent
        };
        let honest = run(0);
        assert!(honest.len() > 1_000);
        for bits in 1..8 {
            assert!(run(bits) == honest, "{algorithm:?} {bits:03b}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Counters that go back or jump, and echoes that never end.
    #[test]
    fn a_far_end_that_lies_about_marks_never_makes_the_sender_faster(
        flags in prop::collection::vec(0u8..8, 1..40),
        which in 0..CAPABLE.len(),
        p in 0.0f64..0.1,
    ) {
        let run = |flags: Vec<u8>| {
            let mut pair = unlimited(CAPABLE[which]);
            pair.remark = random(p);
            let mut flags = flags.into_iter().cycle();
            pair.forge = Box::new(move |segment| {
                if segment.kind == SegmentKind::Ack {
                    if let Some(bits) = flags.next() {
                        segment.ecn = EcnFlags::from_bits(bits);
                    }
                }
            });
            while pair.now < Time::from_millis(1_250) && pair.step() {
                assert!(pair.sender.window().segments >= 2);
            }
            pair
        };
        let lied_to = run(flags);
        let fastest = run(vec![match CAPABLE[which].ecn(true) {
            EcnUse::Accurate(_) => EcnFlags::ace(0).bits(),
            _ => EcnFlags::NONE.bits(),
        }]);
        prop_assert!(lied_to.sent.len() <= fastest.sent.len());
        prop_assert_eq!(lied_to.sender.retransmissions(), 0);
    }
}
