//! Playout by the rules, with numbers that follow from them.

use super::*;
use proptest::prelude::*;

const FRAME: Time = Time::from_millis(20);

fn neteq() -> NetEq {
    NetEq::new(FRAME)
}

/// Packet `n` is recorded at `20 n` ms and arrives at `20 n + delay` ms; `None` is lost.
fn play(neteq: &mut NetEq, packets: u64, delay_ms: impl Fn(u64) -> Option<u64>) -> NetEqStats {
    let mut arrivals: Vec<(u64, u64)> =
        (0..packets).filter_map(|n| Some((20 * n + delay_ms(n)?, n))).collect();
    arrivals.sort_unstable();
    for (at_ms, n) in arrivals {
        neteq.on_packet(Time::from_millis(at_ms), 960 * n as i64, false);
    }
    neteq.stats(Time::from_millis(20 * packets))
}

/// Mean of a sum over samples, in ms.
fn mean_ms(sum_s: f64, stats: &NetEqStats) -> f64 {
    1e3 * sum_s / stats.jitter_buffer_emitted_count as f64
}

/// Playout starts 5 ms after the first packet and takes 480 samples every 10 ms until the last one arrives.
#[test]
fn on_a_steady_path_everything_is_played_and_nothing_concealed() {
    let mut neteq = neteq();
    let stats = play(&mut neteq, 500, |_| Some(40));
    assert_eq!(stats.total_samples_received, 480 * ((10_020 - 45) / 10 + 1));
    assert_eq!((stats.concealed_samples, stats.concealment_events), (0, 0));
    assert_eq!(neteq.target_ms(), 20);
}

/// The target is 80 ms for the first half second and then 20 ms, which no delay up to 20 + 20 ms exceeds.
/// Playout slows down until then, by 703 + 3 * 120 samples at most, which is what one beep and silence allow.
#[test]
fn the_delay_follows_the_target_and_stays_within_its_limits() {
    let mut neteq = neteq();
    play(&mut neteq, 100, |_| Some(40));
    let before = neteq.stats;
    let after = {
        for n in 100..1_000u64 {
            neteq.on_packet(Time::from_millis(20 * n + 40), 960 * n as i64, false);
        }
        neteq.stats(Time::from_millis(20_000))
    };
    let emitted = after.jitter_buffer_emitted_count - before.jitter_buffer_emitted_count;
    let of = |sum: fn(&NetEqStats) -> f64| 1e3 * (sum(&after) - sum(&before)) / emitted as f64;
    assert!((of(|s| s.jitter_buffer_target_delay) - 20.0).abs() < 1e-6);
    assert!((0.0..40.0).contains(&of(|s| s.jitter_buffer_delay)));
    assert!((120..=1_063).contains(&before.inserted_samples_for_deceleration));
}

/// One packet has 960 samples. Up to 479 of them may be there already, and periods of 120 or 719 fill the rest. Merging
/// takes back 30 samples or, after the next loss, more. Packets around it arrive in time.
#[test]
fn a_lost_packet_is_concealed_for_its_20_ms_or_less() {
    for lost in [[300, 301], [320, 600], [342, 392]].map(|[first, second]| {
        play(&mut neteq(), 800, |n| (n != first && n != second).then_some(40))
    }) {
        assert!((1_000..=2 * 1_470).contains(&lost.concealed_samples), "{lost:?}");
        // A merger shortens the delay by up to 10 ms, so that the buffer may run dry once more.
        assert!((1..=4).contains(&lost.concealment_events), "{lost:?}");
        assert_eq!(lost.jitter_buffer_emitted_count % 960, 0);
    }
}

/// Packet 321 carries a copy of packet 320, and is in the buffer when that is due: the delay is 20 ms and more.
#[test]
fn a_copy_in_the_next_packet_replaces_a_lost_one() {
    let with = |has_fec: bool| {
        let mut neteq = neteq();
        neteq.set_min_delay(Time::ZERO, Time::from_millis(100));
        for n in (0..500u64).filter(|n| *n != 320) {
            neteq.on_packet(Time::from_millis(20 * n + 40), 960 * n as i64, has_fec);
        }
        neteq.stats(Time::from_millis(10_000))
    };
    let (copied, lost) = (with(true), with(false));
    assert_eq!((copied.concealment_events, lost.concealment_events), (0, 1));
    // The copy itself, and at most one packet more that is due at the end.
    let more = copied.jitter_buffer_emitted_count - lost.jitter_buffer_emitted_count;
    assert!([960, 1_920].contains(&more), "{more}");
}

/// 10 packets have 9,600 samples. Up to 479 of them are there already. There is silence before packet 300, so the
/// next one begins at once, with the 30 samples of the overlap.
#[test]
fn a_burst_of_losses_is_one_concealment_of_its_length() {
    let stats = play(&mut neteq(), 500, |n| (!(300..310).contains(&n)).then_some(40));
    assert_eq!(stats.concealment_events, 1);
    assert!((9_570 - 479..=9_570).contains(&stats.concealed_samples), "{stats:?}");
}

/// With a target that is never reached, the end of each beep allows one step of 703 samples, or two, because decoding
/// waits while inserted sound is played; the silence behind it allows two or three of 120. Two beeps are a second.
#[test]
fn playout_slows_down_behind_each_beep() {
    let mut neteq = neteq();
    play(&mut neteq, 100, |_| Some(40));
    neteq.set_min_delay(Time::from_millis(2_000), Time::from_millis(2_000));
    let inserted: Vec<u64> = (2..10u64)
        .map(|second| {
            for n in 50 * second..50 * (second + 1) {
                neteq.on_packet(Time::from_millis(20 * n + 40), 960 * n as i64, false);
            }
            neteq.stats.inserted_samples_for_deceleration
        })
        .collect();
    let per_second: Vec<u64> = inserted.windows(2).map(|two| two[1] - two[0]).collect();
    let (least, most) = (2 * 703 + 4 * 120, 4 * 703 + 6 * 120);
    assert!(per_second.iter().all(|one| (least..=most).contains(one)), "{per_second:?}");
}

/// An outage of 2 s. A beep comes every 25 packets and has a tail of 14. Packet 310 is in one, whose sound fades in 27
/// periods of 719 samples, 404 ms. Before packet 300 there is silence, which fades in 13 periods of 120 samples.
#[test]
fn a_long_outage_ends_in_silence() {
    let outage = |first: u64| {
        play(&mut neteq(), 1_000, |n| (!(first..first + 100).contains(&n)).then_some(40))
    };
    let (beep, silence) = (outage(310), outage(300));
    let silent_ms = beep.silent_concealed_samples as f64 / 48.0;
    assert!((1_560.0..1_640.0).contains(&silent_ms), "{beep:?}");
    assert_eq!(silence.concealed_samples - silence.silent_concealed_samples, 13 * 120);
}

/// Twice a second a queue of 100 ms builds up and empties: bucket 5, so the target is 120 ms.
#[test]
fn with_regular_delays_the_target_covers_them() {
    let mut neteq = neteq();
    let stats = play(&mut neteq, 3_000, |n| Some(40 + 100u64.saturating_sub(20 * (n % 25))));
    assert_eq!(neteq.target_ms(), 120);
    // Concealed only before the delay is known.
    assert!(stats.concealed_samples < 960 * 20, "{stats:?}");
    assert!((90.0..160.0).contains(&mean_ms(stats.jitter_buffer_delay, &stats)), "{stats:?}");
}

/// The path gets 300 ms longer for a moment and then shorter again: what was concealed is too much delay, and
/// is removed, up to 44 ms a second.
#[test]
fn after_an_outage_playout_catches_up() {
    let stats = play(&mut neteq(), 2_000, |n| {
        Some(40 + if (300..315).contains(&n) { 300 - 20 * (n - 300) } else { 0 })
    });
    assert!(stats.concealed_samples > 48 * 200, "{stats:?}");
    assert!(stats.removed_samples_for_acceleration > 48 * 150, "{stats:?}");
}

#[test]
fn a_lower_bound_raises_the_target_but_not_the_minimum_delay() {
    let mut neteq = neteq();
    neteq.set_min_delay(Time::ZERO, Time::from_millis(200));
    let stats = play(&mut neteq, 2_000, |_| Some(40));
    assert!((mean_ms(stats.jitter_buffer_target_delay, &stats) - 200.0).abs() < 1e-6);
    assert!(mean_ms(stats.jitter_buffer_minimum_delay, &stats) < 30.0);
    // 2,126 samples a second are 44 ms, so that 200 ms are reached after some 5 of 40 s.
    assert!((180.0..200.0).contains(&mean_ms(stats.jitter_buffer_delay, &stats)));
    let now = Time::from_millis(40_000);
    assert!((180..240).contains(&neteq.delay_ms(now)), "{}", neteq.delay_ms(now));
}

proptest! {
    /// Whatever arrives, 480 samples are played every 10 ms from the first packet on, and every sample is
    /// decoded, concealed or inserted, except for those removed and those still waiting.
    #[test]
    fn samples_are_accounted_for(
        packets in proptest::collection::vec((0u64..400, proptest::bool::weighted(0.9)), 1..300),
    ) {
        let mut neteq = neteq();
        let end = packets.len() as u64;
        let stats = play(&mut neteq, end, |n| {
            let (delay_ms, arrives) = packets[n as usize];
            arrives.then_some(delay_ms)
        });
        let first = packets.iter().zip(0..).filter(|((_, arrives), _)| *arrives);
        let first_ms = first.map(|((delay_ms, _), n)| 20 * n + delay_ms).min();
        // The last packets may arrive after the end.
        if let Some(first_ms) = first_ms.filter(|first_ms| first_ms + 1_000 < 20 * end) {
            let span_ms = neteq.next.map_or(0, |next| next.as_millis()) - first_ms - 5;
            prop_assert_eq!(stats.total_samples_received, 48 * span_ms);
        }
        prop_assert!(stats.concealed_samples <= stats.total_samples_received);
        prop_assert!(stats.silent_concealed_samples <= stats.concealed_samples);
        let made = stats.jitter_buffer_emitted_count
            + stats.concealed_samples
            + stats.inserted_samples_for_deceleration;
        let used = stats.total_samples_received + stats.removed_samples_for_acceleration;
        prop_assert_eq!(made as i64 - used as i64 - neteq.taken_back, neteq.left);
    }
}

/// The first packet arrives at 100 ms, the sound card's first call comes 5 ms later and plays it at once, 30 samples of
/// crossfading later. The same packets 50 ms later are played 50 ms later.
#[test]
fn transit_is_from_the_timestamp_to_when_sound_is_played() {
    let mean_s = |shift_ms: u64, packets: u64| {
        let mut neteq = NetEq::new(Time::from_millis(20));
        for n in 0..packets {
            neteq.on_packet(Time::from_millis(100 + shift_ms + 20 * n), 960 * n as i64, false);
        }
        let stats = neteq.stats(Time::from_millis(100 + shift_ms + 20 * packets));
        stats.transit / stats.jitter_buffer_emitted_count as f64
    };
    assert!((mean_s(0, 1) - (0.105 + 30.0 / 48_000.0)).abs() < 1e-9);
    assert!((mean_s(50, 500) - mean_s(0, 500) - 0.05).abs() < 1e-9);
}
