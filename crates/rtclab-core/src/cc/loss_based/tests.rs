use super::*;
use crate::cc::gcc_2016::SENDER_2016;
use crate::cc::rrtcc_2013::SENDER_2013;

fn sender(config: LossBasedConfig) -> LossBased {
    let kbps = Bitrate::from_kbps;
    let bounds = RateBounds {
        start: kbps(300),
        min: kbps(50),
        max: kbps(2_000),
        audio: Bitrate::ZERO,
        has_video: true,
    };
    LossBased::new(bounds, config)
}

fn report(sender: &mut LossBased, ms: u64, lost: u64, expected: u64) -> u64 {
    let rtt = Some(Time::from_millis(100));
    let fraction = (lost * 255).checked_div(expected).unwrap_or(0) as u8;
    let feedback = Feedback::ReceiverReport { lost, expected, fraction, rtt };
    sender.on_feedback(Time::from_millis(ms), feedback).expect("no error");
    sender.rate.0
}

#[test]
fn without_loss_the_rate_of_2013_grows_by_8_percent_and_1_kbps_once_a_second() {
    let mut sender = sender(SENDER_2013);
    assert_eq!(report(&mut sender, 1_000, 0, 30), 325_000);
    assert_eq!(report(&mut sender, 1_500, 0, 30), 325_000);
    assert_eq!(report(&mut sender, 2_000, 0, 30), 352_000);
}

#[test]
fn growth_from_300_to_2000_kbps_takes_25_seconds() {
    // 300 kbit/s * 1.08^n plus the steps of 1 kbit/s: n = 24 gives 1969, n = 25 the maximum
    let mut sender = sender(SENDER_2013);
    let seconds = (1..).find(|s| report(&mut sender, 1_000 * s, 0, 30) == 2_000_000);
    assert_eq!(seconds, Some(25));
}

#[test]
fn fewer_than_twenty_packets_change_nothing_until_they_add_up() {
    let mut sender = sender(SENDER_2013);
    assert_eq!(report(&mut sender, 1_000, 10, 10), 300_000);
    assert_eq!(report(&mut sender, 2_000, 0, 9), 300_000);
    // 10 of 39 lost = 65/255: 300 * (512 - 65) / 512
    assert_eq!(report(&mut sender, 3_000, 0, 20), 300_000 * 447 / 512);
}

#[test]
fn a_report_that_covers_no_packets_meant_no_loss_in_2013_and_is_ignored_since() {
    // 20 % is lost, and then nothing arrives at all: in 2013 the rate grew.
    for (config, lost) in [(SENDER_2013, 0), (SENDER_2016, 51)] {
        let mut sender = sender(config);
        let reduced = report(&mut sender, 1_000, 51, 255);
        let next = report(&mut sender, 1_350, 0, 0);
        assert_eq!((sender.loss, next > reduced), (lost, lost == 0));
    }
}

#[test]
fn between_2_and_10_percent_loss_the_rate_holds() {
    for lost in [6, 26] {
        let mut sender = sender(SENDER_2013);
        assert_eq!(report(&mut sender, 1_000, lost, 255), 300_000);
    }
}

#[test]
fn above_10_percent_the_rate_falls_once_per_300_ms_and_round_trip_but_not_below_tfrc() {
    // 20 % of 51/255 at 100 ms: TFRC is 44 kbit/s; 300 * 461/512
    let mut sender = sender(SENDER_2013);
    assert_eq!(report(&mut sender, 1_000, 51, 255), 300_000 * 461 / 512);
    assert_eq!(report(&mut sender, 1_399, 51, 255), 300_000 * 461 / 512);
    assert!(report(&mut sender, 1_400, 51, 255) < 300_000 * 461 / 512);
    // At 5 ms TFRC is about 900 kbit/s: the floor even raises the rate.
    let rtt = Some(Time::from_millis(5));
    let feedback = Feedback::ReceiverReport { lost: 51, expected: 255, fraction: 51, rtt };
    sender.on_feedback(Time::from_secs(3), feedback).expect("no error");
    assert!((800_000..1_000_000).contains(&sender.rate.0), "{:?}", sender.rate);
}

#[test]
fn remb_can_only_lower_the_rate_in_2013_and_raises_it_for_two_seconds_in_2016() {
    for (config, expected) in [(SENDER_2013, 300_000), (SENDER_2016, 1_500_000)] {
        let mut sender = sender(config);
        let remb = Feedback::Remb(Bitrate::from_kbps(1_500));
        sender.on_feedback(Time::from_millis(500), remb).expect("no error");
        assert_eq!(sender.rate.0, expected);
        let remb = Feedback::Remb(Bitrate::from_kbps(200));
        sender.on_feedback(Time::from_millis(600), remb).expect("no error");
        assert_eq!(sender.rate.0, 200_000);
    }
}

#[test]
fn in_2016_growth_is_8_percent_of_the_smallest_rate_of_the_last_second() {
    let mut sender = sender(SENDER_2016);
    assert_eq!(report(&mut sender, 1_000, 0, 30), 325_000);
    assert_eq!(report(&mut sender, 1_500, 0, 30), 325_000);
    assert_eq!(report(&mut sender, 2_000, 0, 30), 352_000);
}

/// Time in ms and rate of every change without a report, up to `until`.
fn changes(sender: &mut LossBased, until: u64) -> Vec<(u64, u64)> {
    let mut changes = Vec::new();
    while let Some(at) = sender.poll_timeout().filter(|at| at.as_millis() <= until) {
        sender.on_timeout(at, &SenderState::default()).expect("no error");
        changes.push((at.as_millis(), sender.rate.0));
    }
    changes
}

#[test]
fn in_2016_a_report_without_loss_lets_the_rate_grow_every_second_until_the_next_report() {
    let mut sender = sender(SENDER_2016);
    assert_eq!(report(&mut sender, 1_000, 0, 30), 325_000);
    // 325 * 1.08 + 1, and again
    assert_eq!(changes(&mut sender, 3_500), [(2_000, 352_000), (3_000, 381_160)]);
    assert_eq!(report(&mut sender, 3_600, 20, 255), 381_160);
    assert_eq!(changes(&mut sender, 10_000), []);
}

#[test]
fn in_2016_a_reported_loss_reduces_the_rate_once_and_in_2015_repeatedly() {
    // 20 % is 51/255: * 461/512; once in 300 ms and the round trip of 100 ms
    let once = 300_000 * 461 / 512;
    let mut sender = sender(SENDER_2016);
    assert_eq!(report(&mut sender, 1_000, 51, 255), once);
    assert_eq!(report(&mut sender, 1_300, 51, 255), once);
    assert_eq!(changes(&mut sender, 3_000), [(1_400, once * 461 / 512)]);
    let config = LossBasedConfig { once_per_report: false, ..SENDER_2016 };
    let mut sender = LossBased::new(sender.bounds, config);
    assert_eq!(report(&mut sender, 1_000, 51, 255), once);
    let times: Vec<_> = changes(&mut sender, 2_300).iter().map(|change| change.0).collect();
    assert_eq!(times, [1_400, 1_800, 2_200]);
}

#[test]
fn missing_feedback_halves_the_rate_every_two_seconds_if_enabled() {
    let mut sender = sender(LossBasedConfig { halves_without_feedback: true, ..SENDER_2013 });
    assert_eq!(report(&mut sender, 1_000, 0, 30), 325_000);
    sender.on_timeout(Time::from_millis(2_999), &SenderState::default()).expect("no error");
    assert_eq!(sender.rate.0, 325_000);
    for rate in [162_500, 81_250, 50_000] {
        let at = sender.poll_timeout().expect("a timeout");
        sender.on_timeout(at, &SenderState::default()).expect("no error");
        assert_eq!(sender.rate.0, rate);
    }
    assert_eq!(super::LossBased::new(sender.bounds, SENDER_2013).poll_timeout(), None);
}

#[test]
fn tfrc_as_a_cap_holds_the_rate_at_or_below_it_and_as_a_floor_at_or_above_it() {
    // 6/255 lost at 100 ms: 8000 bit / (0.1 s * 0.1252 + 0.4 s * 0.2818 * 0.0235 * 1.018) = 525 kbit/s
    for (role, start) in [(TfrcRole::Cap, 1_500), (TfrcRole::Floor, 300)] {
        let mut sender = sender(LossBasedConfig { tfrc: role, ..SENDER_2013 });
        sender.rate = Bitrate::from_kbps(start);
        let rate = report(&mut sender, 1_000, 6, 255);
        assert!((525_000..526_000).contains(&rate), "{role:?}: {rate}");
    }
}
