use super::*;

fn arrival(sent_ms: u64, received_ms: u64, size: u64) -> Arrival {
    let (sent, received) = (Time::from_millis(sent_ms), Time::from_millis(received_ms));
    Arrival { sent, received, size, kind: Kind::Video, lost_before: 0 }
}

/// The ten values of a feature, numbered from 1 as in the challenge.
fn feature(of: &Features, now_ms: u64, number: usize) -> [f32; 10] {
    let mut all = [f32::NAN; BWE2024];
    of.bwe2024(Time::from_millis(now_ms), &mut all);
    all[10 * (number - 1)..][..10].try_into().expect("ten values")
}

/// Three packets in the newest short window, one in the window before. Each number follows from the definition by hand.
#[test]
fn each_feature_is_what_its_definition_says() {
    let mut of = Features::default();
    of.push(Arrival { kind: Kind::Audio, ..arrival(900, 930, 100) }); // 30 ms
    of.push(Arrival { lost_before: 3, ..arrival(910, 950, 1_000) }); // 40 ms
    of.push(Arrival { kind: Kind::Padding, ..arrival(920, 970, 500) }); // 50 ms
    of.push(Arrival { lost_before: 1, ..arrival(940, 1_000, 300) }); // 60 ms
    let newest = |number| feature(&of, 1_000, number)[0];
    assert_eq!(newest(1), 8.0 * 1_800.0 / 0.06);
    assert_eq!((newest(2), newest(3)), (3.0, 1_800.0));
    assert_eq!((newest(4), newest(5), newest(6)), (50.0 - 30.0, 50.0 - 200.0, 30.0));
    assert_eq!((newest(7), newest(8)), (50.0 / 40.0, 50.0 - 40.0));
    assert_eq!((newest(9), newest(10)), (25.0, 5.0)); // gaps of 20 and 30 ms
    assert_eq!((newest(11), newest(12)), (4.0 / 7.0, 2.0));
    assert_eq!((newest(13), newest(14), newest(15)), (2.0 / 3.0, 0.0, 1.0 / 3.0));
    // The audio packet is in the second short window, and in the newest long one.
    assert_eq!(feature(&of, 1_000, 2), [3.0, 1.0, 0.0, 0.0, 0.0, 4.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(feature(&of, 1_000, 14)[1], 1.0);
    // Without packets everything is 0 but the least delay.
    for number in (1..=15).filter(|number| *number != 6) {
        assert_eq!(feature(&of, 1_000, number)[3], 0.0, "{number}");
    }
    assert_eq!(feature(&of, 1_000, 6), [30.0; 10]);
}

#[test]
fn a_packet_leaves_a_window_when_it_is_as_old_as_the_window_is_long() {
    let mut of = Features::default();
    of.push(arrival(0, 10, 100));
    assert_eq!(feature(&of, 69, 2)[..2], [1.0, 0.0]);
    assert_eq!(feature(&of, 70, 2)[..2], [0.0, 1.0]);
    assert_eq!(feature(&of, 3_009, 2)[9], 1.0);
    assert_eq!(feature(&of, 3_010, 2), [0.0; 10]);
}

#[test]
fn a_packet_that_was_overtaken_finds_its_place() {
    let (mut in_order, mut overtaken) = (Features::default(), Features::default());
    let packets = [arrival(0, 10, 100), arrival(20, 25, 200), arrival(15, 40, 300)];
    packets.iter().for_each(|packet| in_order.push(*packet));
    [0, 2, 1].iter().for_each(|index| overtaken.push(packets[*index]));
    assert_eq!(in_order.arrivals, overtaken.arrivals);
}

/// A clock that is a century ahead neither overflows nor changes a difference by more than the resolution of f32.
#[test]
fn clocks_may_differ_by_any_constant() {
    let ahead = Time::from_secs(3_000_000_000);
    let (mut near, mut far) = (Features::default(), Features::default());
    for ms in 0..4_000 {
        let packet = arrival(ms, ms + 20 + ms % 7, 500);
        near.push(packet);
        far.push(Arrival { received: packet.received + ahead, ..packet });
    }
    let mut values = [[0.0f32; BWE2024]; 2];
    near.bwe2024(Time::from_millis(4_019), &mut values[0]);
    far.bwe2024(Time::from_millis(4_019) + ahead, &mut values[1]);
    for feature in [1, 2, 3, 9, 10, 11, 12, 13] {
        let of = 10 * (feature - 1)..10 * feature;
        assert_eq!(values[0][of.clone()], values[1][of], "{feature}");
    }
}

#[test]
fn the_logarithmic_scale_of_rates_has_the_published_ends() {
    assert_eq!(alphartc4(10_000.0, 0.0, 0.0, Bitrate::from_mbps(8)), [0.0, 0.0, 0.0, 1.0]);
    assert_eq!(alphartc4(0.0, 2_500.0, 0.5, Bitrate(0)), [0.0, 1.0, 0.5, 0.0]);
    let middle = alphartc4(282_842.7, 0.0, 0.0, Bitrate(0))[0]; // the geometric mean
    assert!((middle - 0.5).abs() < 1e-6, "{middle}");
}
