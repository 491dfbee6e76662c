//! Bursts, debts, padding, probes and the order of packets.

use super::*;
use crate::packet::VideoPart;

/// IP total length of pure padding.
const PADDING: Bytes = Bytes(317);

fn part(bytes: u16, key: bool) -> VideoPart {
    VideoPart { bytes, key, first: true, ..VideoPart::default() }
}

fn packet(kind: Kind, seq: u16, timestamp: u32) -> MediaPacket {
    let part = part(1_000, false);
    MediaPacket { stream: 0, kind, seq, timestamp, marker: false, part }
}

fn video(seq: u16) -> MediaPacket {
    packet(Kind::Video, seq, 0)
}

fn pacer(rate: Bitrate, burst_ms: u64) -> BurstPacer {
    let pacing = Pacing::Burst { factor: 1.0, burst: Time::from_millis(burst_ms) };
    BurstPacer::new(pacing, rate, Padding { overhead: Bytes(62), follows_audio: false })
}

/// Queues video packets of this size.
fn fill(pacer: &mut BurstPacer, at: Time, seqs: std::ops::Range<u16>, size: u64) {
    for seq in seqs {
        pacer.push(at, video(seq), Bytes(size));
    }
}

/// Everything that leaves until then.
fn run(pacer: &mut BurstPacer, until: Time) -> Vec<(Time, Release, Option<u32>)> {
    let (mut out, mut now) = (Vec::new(), Time::ZERO);
    while let Some(at) = pacer.poll_timeout() {
        now = now.max(at);
        if now > until {
            break;
        }
        while let Some((release, probe)) = pacer.poll(now) {
            out.push((now, release, probe));
        }
        assert!(pacer.poll_timeout().is_none_or(|next| next > now), "no progress at {now}");
    }
    out
}

fn millis(out: &[(Time, Release, Option<u32>)]) -> Vec<u64> {
    out.iter().map(|sent| sent.0.as_millis()).collect()
}

fn sequence(out: &[(Time, Release, Option<u32>)]) -> Vec<u16> {
    let seq = |release| match release {
        Release::Media(packet) => packet.seq,
        Release::Repeat | Release::Padding(_) => u16::MAX,
    };
    out.iter().map(|sent| seq(sent.1)).collect()
}

/// 1000 B take 8 ms: after two there are 16 ms of debt, and a third leaves; then 24 ms are paid back.
#[test]
fn bursts_of_20_ms_are_three_packets_every_24_ms() {
    let mut pacer = pacer(Bitrate::from_mbps(1), 20);
    fill(&mut pacer, Time::ZERO, 0..15, 1_000);
    let out = run(&mut pacer, Time::from_millis(95));
    assert_eq!(millis(&out), [0, 0, 0, 24, 24, 24, 48, 48, 48, 72, 72, 72]);
}

/// 63 kB at 10 Mbit/s take 50.4 ms.
#[test]
fn a_burst_is_at_most_63_kilobytes() {
    let mut pacer = pacer(Bitrate::from_mbps(10), 100);
    fill(&mut pacer, Time::ZERO, 0..200, 1_000);
    let out = run(&mut pacer, Time::from_millis(140));
    let count = |at| millis(&out).iter().filter(|ms| (at..at + 7).contains(*ms)).count();
    // Due after 50.4 and 100.8 ms; the timer counts in ms, and 63 packets take the socket 6.3 ms.
    assert_eq!([count(0), count(51), count(101)], [63, 63, 63]);
}

#[test]
fn an_idle_pacer_saves_no_credit() {
    let mut pacer = pacer(Bitrate::from_mbps(1), 20);
    let later = Time::from_secs(3);
    fill(&mut pacer, later, 0..6, 1_000);
    let out = run(&mut pacer, Time::from_secs(4));
    assert_eq!(millis(&out)[..4], [3_000, 3_000, 3_000, 3_024]);
}

/// At 100 kbit/s one packet is 80 ms of debt; audio adds 160 B or 12.8 ms to it.
#[test]
fn audio_is_never_held_back_but_video_pays_for_it() {
    let mut pacer = pacer(Bitrate::from_kbps(100), 40);
    fill(&mut pacer, Time::ZERO, 0..3, 1_000);
    while pacer.poll(Time::ZERO).is_some() {}
    let at = Time::from_millis(10);
    pacer.push(at, packet(Kind::Audio, 100, 0), Bytes(160));
    assert_eq!(pacer.poll_timeout(), Some(at));
    let out = run(&mut pacer, Time::from_millis(200));
    assert_eq!((millis(&out), sequence(&out)), (vec![10, 93, 173], vec![100, 1, 2]));
}

#[test]
fn audio_overtakes_retransmissions_and_these_overtake_video() {
    let mut pacer = pacer(Bitrate::from_kbps(100), 40);
    let order = [Kind::Video, Kind::Fec, Kind::Rtx, Kind::Audio];
    for (seq, kind) in (0..).zip(order) {
        pacer.push(Time::ZERO, packet(kind, seq, 0), Bytes(500));
    }
    let out = run(&mut pacer, Time::from_secs(1));
    assert_eq!(sequence(&out), [3, 2, 0, 1]);
}

/// Queues a frame of one FEC packet and as many video packets, all of 500 bytes, which take 4 ms each at 1 Mbit/s.
fn push_protected(pacer: &mut BurstPacer, seqs: std::ops::Range<u16>, timestamp: u32) {
    for seq in seqs.clone() {
        let marker = seq + 1 == seqs.end;
        let video = MediaPacket { marker, ..packet(Kind::Video, seq, timestamp) };
        pacer.push(Time::ZERO, video, Bytes(500));
    }
    pacer.push(Time::ZERO, packet(Kind::Fec, seqs.end, timestamp), Bytes(500));
}

/// Three packets take 12 ms, so that the pacer sleeps for 5 ms.
#[test]
fn fec_leaves_five_milliseconds_after_its_frame() {
    let mut pacer = pacer(Bitrate::from_mbps(1), 40);
    push_protected(&mut pacer, 0..2, 0);
    let out = run(&mut pacer, Time::from_secs(1));
    assert_eq!((millis(&out), sequence(&out)), (vec![0, 0, 5], vec![0, 1, 2]));
}

#[test]
fn fec_that_waits_leaves_when_the_pacer_has_something_else_to_do() {
    let mut pacer = pacer(Bitrate::from_mbps(1), 40);
    push_protected(&mut pacer, 0..2, 0);
    let at = Time::from_millis(2);
    run(&mut pacer, at);
    pacer.set_rates(at, Bitrate::from_mbps(1), Bitrate::ZERO);
    assert_eq!(pacer.poll_timeout(), Some(at));
    assert_eq!(sequence(&run(&mut pacer, at)), [2]);
}

#[test]
fn fec_follows_at_once_when_another_frame_waits() {
    let mut pacer = pacer(Bitrate::from_mbps(1), 40);
    push_protected(&mut pacer, 0..1, 0);
    fill(&mut pacer, Time::ZERO, 10..11, 500);
    let out = run(&mut pacer, Time::from_secs(1));
    assert_eq!((millis(&out), sequence(&out)), (vec![0, 0, 0], vec![0, 1, 10]));
}

/// Without debt a pacer that may pad is free at once.
#[test]
fn fec_of_a_single_packet_follows_at_once_when_there_is_padding_to_send() {
    let mut pacer = pacer(Bitrate::from_mbps(1), 40);
    pacer.set_rates(Time::ZERO, Bitrate::from_mbps(1), Bitrate::from_kbps(100));
    push_protected(&mut pacer, 0..1, 0);
    let out = run(&mut pacer, Time::from_millis(4));
    assert_eq!((millis(&out), sequence(&out)), (vec![0, 0], vec![0, 1]));
}

#[test]
fn streams_take_turns() {
    let mut pacer = pacer(Bitrate::from_mbps(1), 40);
    for seq in 0..4 {
        pacer.push(Time::ZERO, video(seq), Bytes(500));
    }
    for seq in 10..12 {
        pacer.push(Time::ZERO, MediaPacket { stream: 1, ..video(seq) }, Bytes(500));
    }
    let out = run(&mut pacer, Time::from_secs(1));
    assert_eq!(sequence(&out), [0, 10, 1, 11, 2, 3]);
}

#[test]
fn a_key_frame_drops_what_waits_of_its_stream_unless_that_is_a_key_frame() {
    let mut pacer = pacer(Bitrate::from_kbps(10), 0);
    let push = |pacer: &mut BurstPacer, seq, timestamp, key| {
        let packet = MediaPacket { part: part(1_000, key), ..packet(Kind::Video, seq, timestamp) };
        pacer.push(Time::ZERO, packet, Bytes(1_000))
    };
    pacer.push(Time::ZERO, MediaPacket { stream: 1, ..video(50) }, Bytes(1_000));
    pacer.push(Time::ZERO, packet(Kind::Rtx, 3, 0), Bytes(1_000));
    assert!(!push(&mut pacer, 4, 1, false));
    assert!(push(&mut pacer, 5, 2, true));
    assert_eq!(pacer.queued(), Bytes(2_000));
    assert!(!push(&mut pacer, 6, 2, false));
    assert!(!push(&mut pacer, 7, 3, true), "a key frame waits");
    let out = run(&mut pacer, Time::from_secs(10));
    assert_eq!(sequence(&out), [50, 5, 6, 7]);
}

/// 40 ms at 1 Mbit/s are 5000 B: after five packets there is no room, and each took the socket 100 us.
#[test]
fn packets_of_a_burst_leave_one_after_another() {
    let mut pacer = pacer(Bitrate::from_mbps(1), 40);
    fill(&mut pacer, Time::ZERO, 0..8, 1_000);
    let out = run(&mut pacer, Time::from_millis(10));
    let micros: Vec<u64> = out.iter().map(|sent| sent.0.0 / 1_000).collect();
    assert_eq!(micros, [0, 100, 200, 300, 400]);
}

fn probe_at(kbps: u64) -> Probe {
    let rate = Bitrate::from_kbps(kbps);
    let min_bytes = rate.bytes_in(Time::from_millis(15));
    Probe { id: 3, rate, min_packets: 5, min_bytes, min_spacing: Time::from_millis(2) }
}

/// The first packet has 1125 B or 10 ms at 900 kbit/s. Bursts of 225 B follow: 317 B of padding or 2.82 ms. The
/// timer counts in ms, and may be early by one: due after 10, 12.82, 15.64, 18.46.
#[test]
fn a_first_probe_starts_with_media_and_is_filled_with_padding() {
    let mut pacer = pacer(Bitrate::from_kbps(330), 40);
    pacer.add_probe(Time::ZERO, probe_at(900));
    assert!(run(&mut pacer, Time::from_millis(5)).is_empty());
    pacer.push(Time::from_millis(5), video(0), Bytes(1_125));
    let out = run(&mut pacer, Time::from_secs(1));
    assert_eq!(millis(&out), [5, 14, 17, 20, 23]);
    assert!(out.iter().all(|sent| sent.2 == Some(3)));
    assert_eq!(out.iter().filter(|sent| matches!(sent.1, Release::Padding(_))).count(), 4);
}

#[test]
fn a_later_probe_starts_with_a_small_packet_of_padding() {
    let mut pacer = pacer(Bitrate::from_mbps(1), 40);
    pacer.push(Time::ZERO, video(0), Bytes(1_125));
    run(&mut pacer, Time::from_millis(30));
    let at = Time::from_millis(30);
    pacer.add_probe(at, probe_at(3_600));
    fill(&mut pacer, at, 1..10, 1_125);
    let out = run(&mut pacer, Time::from_millis(60));
    let probe: Vec<_> = out.iter().filter(|sent| sent.2.is_some()).collect();
    assert_eq!(probe[0].1, Release::Padding(255));
    // A burst of 2 ms at 3.6 Mbit/s is 900 B, so 317 + 1125 B leave at once; then one packet a burst.
    assert_eq!(probe.iter().filter(|sent| sent.0 <= at + SOCKET_TIME).count(), 2);
    // 15 ms are 6750 B: the padding and six packets of media.
    assert_eq!(probe.len(), 7);
}

#[test]
fn a_probe_that_is_late_by_more_than_ten_milliseconds_is_dropped() {
    let mut pacer = pacer(Bitrate::from_mbps(1), 40);
    pacer.add_probe(Time::ZERO, probe_at(900));
    pacer.push(Time::ZERO, video(0), Bytes(1_125));
    assert!(pacer.poll(Time::ZERO).is_some_and(|sent| sent.1 == Some(3)));
    assert_eq!(pacer.poll(Time::ZERO), None);
    // The next burst was due after 10 ms.
    pacer.push(Time::from_millis(21), video(1), Bytes(1_125));
    let sent = pacer.poll(Time::from_millis(21));
    assert_eq!(sent, Some((Release::Media(video(1)), None)));
}

#[test]
fn probes_that_have_waited_for_five_seconds_are_dropped_when_another_one_comes() {
    let mut prober = Prober::default();
    prober.add(Time::ZERO, probe_at(900));
    prober.add(Time::from_secs(5) + Time(1), Probe { id: 4, ..probe_at(900) });
    prober.on_packet(1_000);
    assert_eq!(prober.current(Time::from_secs(6)).map(|probe| probe.0), Some(4));
    prober.on_packet(1_000);
    // Up to six wait.
    let mut prober = Prober::default();
    (0..8).for_each(|id| prober.add(Time::ZERO, Probe { id, ..probe_at(900) }));
    prober.on_packet(199);
    assert!(!prober.is_active());
    prober.on_packet(200);
    assert_eq!(prober.current(Time::ZERO).map(|probe| probe.0), Some(2));
}

/// 5 ms at 400 kbit/s are 250 B. A repeated packet may have three times as much payload, so pure padding leaves:
/// 255 B. The debt of 317 B must be paid: 6.34 ms at 400 kbit/s.
#[test]
fn padding_fills_the_padding_rate_when_nothing_waits() {
    let mut pacer = pacer(Bitrate::from_kbps(800), 40);
    pacer.push(Time::ZERO, video(0), Bytes(1_000));
    run(&mut pacer, Time::ZERO);
    pacer.set_rates(Time::ZERO, Bitrate::from_kbps(800), Bitrate::from_kbps(400));
    let out = run(&mut pacer, Time::from_secs(2));
    assert!(out.iter().all(|sent| matches!(sent.1, Release::Padding(_))));
    let bits = out.len() as u64 * PADDING.bits() / 2;
    assert!((380_000..=400_100).contains(&bits), "{bits}");
    // A small packet, which would fit, does not replace a large one.
    let small = MediaPacket { part: part(500, false), ..video(1) };
    pacer.push(Time::from_secs(2), small, Bytes(500));
    let out = run(&mut pacer, Time::from_millis(2_500));
    assert!(out.iter().skip(1).all(|sent| matches!(sent.1, Release::Padding(_))));
    // Above 2.8 times 1000 bits per ms, packets are repeated.
    pacer.set_rates(Time::from_millis(2_500), Bitrate::from_mbps(2), Bitrate::from_mbps(2));
    let out = run(&mut pacer, Time::from_secs(3));
    assert!(out.iter().any(|sent| sent.1 == Release::Repeat));
}

#[test]
fn while_the_window_is_full_only_audio_and_padding_every_half_second_leave() {
    let mut pacer = pacer(Bitrate::from_mbps(1), 40);
    pacer.push(Time::ZERO, video(0), Bytes(1_000));
    assert_eq!(run(&mut pacer, Time::ZERO).len(), 1);
    pacer.set_congested(Time::ZERO, true);
    fill(&mut pacer, Time::ZERO, 1..4, 1_000);
    pacer.push(Time::from_millis(100), packet(Kind::Audio, 100, 0), Bytes(160));
    let out = run(&mut pacer, Time::from_millis(1_300));
    assert_eq!((millis(&out), sequence(&out)), (vec![100, 600, 1_100], vec![100, 65_535, 65_535]));
    pacer.set_congested(Time::from_millis(1_300), false);
    let out = run(&mut pacer, Time::from_millis(1_400));
    assert_eq!(sequence(&out), [1, 2, 3]);
}

/// 500 kB at 1 Mbit/s take 4 s. Halfway through, packets have waited for a second; the last one leaves after 2 s.
#[test]
fn a_queue_of_more_than_two_seconds_raises_the_rate() {
    let mut pacer = pacer(Bitrate::from_mbps(1), 40);
    fill(&mut pacer, Time::ZERO, 0..400, 1_250);
    assert_eq!(pacer.expected_queue(), Time::from_secs(2));
    let last = run(&mut pacer, Time::from_secs(10)).last().map(|sent| sent.0).unwrap_or_default();
    assert!(Time::from_millis(1_900) < last && last < Time::from_millis(2_100), "{last}");
}

#[test]
fn the_queue_is_expected_to_last_as_long_as_its_bytes_take() {
    let mut pacer = pacer(Bitrate::from_kbps(100), 40);
    assert_eq!(pacer.expected_queue(), Time::ZERO);
    fill(&mut pacer, Time::ZERO, 0..10, 1_250);
    assert_eq!(pacer.expected_queue(), Time::from_secs(1));
}

/// Bursts of 32 B are one packet each, and 240 B are wanted. The probe begins with a packet of sound, before which 50 B of
/// padding leave. At 128 kbit/s a packet of padding takes 7 ms and one of sound 9.125 ms, so the last burst is due after
/// 30.125 ms, and leaves up to 1 ms early.
#[test]
fn a_probe_of_a_call_without_video_is_filled_with_small_padding() {
    let pacing = Pacing::Burst { factor: 1.0, burst: Time::from_millis(40) };
    for follows_audio in [true, false] {
        let padding = Padding { overhead: Bytes(62), follows_audio };
        let mut pacer = BurstPacer::new(pacing, Bitrate::from_kbps(300), padding);
        let sound = MediaPacket { part: part(80, false), ..packet(Kind::Audio, 0, 0) };
        pacer.push(Time::ZERO, sound, Bytes(146));
        pacer.add_probe(Time::ZERO, probe_at(128));
        assert_eq!(run(&mut pacer, Time::from_millis(10)).len(), 1);
        let at = Time::from_millis(20);
        pacer.push(at, sound, Bytes(146));
        let out = run(&mut pacer, Time::from_secs(1));
        let expected = [Release::Padding(50), Release::Media(sound)];
        match follows_audio {
            true => {
                assert_eq!([out[0].1, out[1].1], expected);
                assert!(out[2..].iter().all(|sent| sent.1 == expected[0]));
                assert_eq!(out.len(), 5);
                assert!((48..=50).contains(&millis(&out)[4]), "{:?}", millis(&out));
            }
            false => assert_eq!((out.len(), out[0].1), (1, expected[1])),
        }
    }
}

/// 600 kbit/s are 150 B in 2 ms, and 3 Mbit/s are 750 B.
#[test]
fn padding_after_sound_is_what_a_burst_lacks() {
    let pacing = Pacing::Burst { factor: 1.0, burst: Time::from_millis(40) };
    let sizes = |kbps| {
        let padding = Padding { overhead: Bytes(62), follows_audio: true };
        let mut pacer = BurstPacer::new(pacing, Bitrate::from_mbps(3), padding);
        let sound = MediaPacket { part: part(200, false), ..packet(Kind::Audio, 0, 0) };
        pacer.push(Time::ZERO, sound, Bytes(262));
        run(&mut pacer, Time::from_millis(10));
        pacer.add_probe(Time::from_millis(20), probe_at(kbps));
        pacer.push(Time::from_millis(20), sound, Bytes(262));
        let out = run(&mut pacer, Time::from_secs(1));
        let bytes = out.iter().filter_map(|sent| match sent.1 {
            Release::Padding(bytes) => Some(bytes),
            _ => None,
        });
        bytes.skip(1).collect::<Vec<_>>()
    };
    assert_eq!(sizes(600), [150; 4]);
    // The first burst has 112 + 262 B already.
    assert_eq!(sizes(3_000)[..5], [255, 121, 255, 255, 240]);
}
