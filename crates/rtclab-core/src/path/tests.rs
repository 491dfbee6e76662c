use super::*;
use crate::units::Bitrate;

fn path(config: PathConfig) -> Path<u32> {
    Path::new(config, 7)
}

fn constant(mbps: u64) -> Option<Capacity> {
    Some(Capacity::Constant { bps: Bitrate::from_mbps(mbps) })
}

fn packet(id: u32) -> Packet<u32> {
    Packet { size: Bytes(1250), payload: id }
}

fn drain(path: &mut Path<u32>) -> Vec<(Time, u32, Option<DropCause>)> {
    let mut out = Vec::new();
    while let Some(at) = path.poll_timeout() {
        while let Some(departure) = path.poll(at) {
            out.push(match departure {
                Departure::Delivered { at, packet } => (at, packet.payload, None),
                Departure::Dropped { at, cause, packet } => (at, packet.payload, Some(cause)),
            });
        }
    }
    out
}

#[test]
fn back_to_back_packets_leave_one_serialisation_time_apart() {
    // 1250 B at 10 Mbit/s = 1 ms
    let mut path = path(PathConfig {
        capacity: constant(10),
        delay: Delay::Constant { ns: Time::from_millis(25) },
        ..PathConfig::default()
    });
    for id in 0..3 {
        path.handle_packet(Time::ZERO, packet(id));
    }
    let at: Vec<_> = drain(&mut path).iter().map(|d| d.0.as_millis()).collect();
    assert_eq!(at, [26, 27, 28]);
}

#[test]
fn a_queue_of_two_packets_takes_three_of_five_sent_at_once() {
    // one in service, two waiting, two dropped on arrival
    let mut path = path(PathConfig {
        capacity: constant(10),
        queue: Some(QueueLimit::Packets(2)),
        ..PathConfig::default()
    });
    for id in 0..5 {
        path.handle_packet(Time::ZERO, packet(id));
    }
    let out = drain(&mut path);
    let dropped: Vec<_> =
        out.iter().filter(|d| d.2 == Some(DropCause::Queue)).map(|d| d.1).collect();
    assert_eq!(dropped, [3, 4]);
    assert_eq!(out.iter().filter(|d| d.2.is_none()).map(|d| d.1).collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn packets_in_flight_do_not_count_against_the_queue() {
    // 100 ms of flight hold 100 packets; a queue of one is enough as they come one by one
    let mut path = path(PathConfig {
        capacity: constant(10),
        queue: Some(QueueLimit::Packets(1)),
        delay: Delay::Constant { ns: Time::from_millis(100) },
        ..PathConfig::default()
    });
    for id in 0..300 {
        path.handle_packet(Time::from_millis(u64::from(id)), packet(id));
    }
    assert!(drain(&mut path).iter().all(|d| d.2.is_none()));
}

#[test]
fn a_queue_limit_in_time_holds_that_many_bytes() {
    // 8 ms at 10 Mbit/s = 10 000 B = 8 packets, and one in service
    let mut path = path(PathConfig {
        capacity: constant(10),
        queue: Some(QueueLimit::Time(Time::from_millis(8))),
        ..PathConfig::default()
    });
    for id in 0..20 {
        path.handle_packet(Time::ZERO, packet(id));
    }
    assert_eq!(path.queued(), Bytes(10_000));
    assert_eq!(drain(&mut path).iter().filter(|d| d.2.is_none()).count(), 9);
}

#[test]
fn a_change_of_capacity_keeps_the_fraction_already_sent() {
    // half of 10 ms at 1 Mbit/s, the other half at 2 Mbit/s: 5 + 2.5 ms
    let mut path = path(PathConfig { capacity: constant(1), ..PathConfig::default() });
    path.handle_packet(Time::ZERO, packet(0));
    let faster = PathConfig { capacity: constant(2), ..PathConfig::default() };
    path.set_config(Time::from_millis(5), faster);
    assert_eq!(drain(&mut path)[0].0, Time::from_micros(7_500));
}

#[test]
fn steps_and_a_change_by_hand_give_the_same_time() {
    let steps =
        vec![(Time::ZERO, Bitrate::from_mbps(1)), (Time::from_millis(5), Bitrate::from_mbps(2))];
    let mut path =
        path(PathConfig { capacity: Some(Capacity::Steps { steps }), ..PathConfig::default() });
    path.handle_packet(Time::ZERO, packet(0));
    assert_eq!(drain(&mut path)[0].0, Time::from_micros(7_500));
}

#[test]
fn an_outage_holds_packets_until_it_ends() {
    // 5 ms at 1 Mbit/s, 100 ms of nothing, the other 5 ms
    let steps = vec![
        (Time::ZERO, Bitrate::from_mbps(1)),
        (Time::from_millis(5), Bitrate::ZERO),
        (Time::from_millis(105), Bitrate::from_mbps(1)),
    ];
    let mut path =
        path(PathConfig { capacity: Some(Capacity::Steps { steps }), ..PathConfig::default() });
    path.handle_packet(Time::ZERO, packet(0));
    assert_eq!(drain(&mut path)[0].0, Time::from_millis(110));
}

#[test]
fn a_stopped_link_never_wakes() {
    let mut path = path(PathConfig {
        capacity: Some(Capacity::Constant { bps: Bitrate::ZERO }),
        ..PathConfig::default()
    });
    path.handle_packet(Time::ZERO, packet(0));
    assert_eq!(path.poll_timeout(), None);
    assert_eq!(path.pending(), 1);
}

#[test]
fn a_mahimahi_opportunity_carries_the_packets_that_fit() {
    // opportunities of 1500 B at 1, 2, 10 ms, period 10 ms; three packets of 500 B leave at 1 ms
    let mut path = path(PathConfig {
        capacity: Some(Capacity::Opportunities {
            times: vec![Time::from_millis(1), Time::from_millis(2), Time::from_millis(10)],
            period: Time::from_millis(10),
            bytes: Bytes(1500),
        }),
        ..PathConfig::default()
    });
    for id in 0..4 {
        path.handle_packet(Time::ZERO, Packet { size: Bytes(500), payload: id });
    }
    path.handle_packet(Time::ZERO, Packet { size: Bytes(1500), payload: 4 });
    let at: Vec<_> = drain(&mut path).iter().map(|d| d.0.as_millis()).collect();
    // packet 4 starts in the opportunity at 2 ms (1000 B left) and ends in the one at 10 ms
    assert_eq!(at, [1, 1, 1, 2, 10]);
}

#[test]
fn an_idle_mahimahi_link_loses_its_opportunities() {
    let mut path = path(PathConfig {
        capacity: Some(Capacity::Opportunities {
            times: vec![Time::from_millis(4)],
            period: Time::from_millis(10),
            bytes: Bytes(1500),
        }),
        ..PathConfig::default()
    });
    path.handle_packet(Time::from_millis(95), packet(0));
    assert_eq!(drain(&mut path)[0].0, Time::from_millis(104));
}

#[test]
fn ramps_pass_through_their_middle() {
    let ramp = |shape| Delay::Ramp {
        shape,
        start_ns: Time::from_secs(10),
        end_ns: Time::from_secs(20),
        from_ns: Time::from_millis(10),
        to_ns: Time::from_millis(1000),
    };
    let middle = Time::from_secs(15);
    assert_eq!(ramp(RampShape::Linear).at(middle), Time::from_millis(505));
    assert_eq!(ramp(RampShape::Exponential).at(middle), Time::from_millis(100));
    assert_eq!(ramp(RampShape::Linear).at(Time::ZERO), Time::from_millis(10));
    assert_eq!(ramp(RampShape::Linear).at(Time::from_secs(30)), Time::from_millis(1000));
}

/// Loss ratio and mean burst length of `count` packets.
fn observe(loss: Loss, count: u32) -> (f64, f64) {
    let mut path = path(PathConfig { loss: Some(loss), ..PathConfig::default() });
    let (mut lost, mut bursts, mut before) = (0u32, 0u32, false);
    for id in 0..count {
        path.handle_packet(Time(u64::from(id) * 1000), packet(id));
        let is_lost =
            matches!(path.poll(Time(u64::from(id) * 1000)), Some(Departure::Dropped { .. }));
        lost += u32::from(is_lost);
        bursts += u32::from(is_lost && !before);
        before = is_lost;
    }
    (f64::from(lost) / f64::from(count), f64::from(lost) / f64::from(bursts))
}

#[test]
fn gilbert_elliott_loses_its_stationary_ratio_in_bursts_of_its_mean_length() {
    // p=.02 r=.3 h=.4 k=.995: loss 4.22 %, mean burst 1.604 (closed form, 1/(1-c))
    let loss = Loss { p: 0.02, r: 0.3, h: 0.4, k: 0.995 };
    assert!((loss.ratio() - 0.0421875).abs() < 1e-9);
    let (ratio, burst) = observe(loss, 2_000_000);
    assert!((0.0415..0.0429).contains(&ratio), "{ratio}");
    assert!((1.59..1.62).contains(&burst), "{burst}");
}

#[test]
fn independent_loss_has_bursts_of_one_over_one_minus_q() {
    let (ratio, burst) = observe(Loss::independent(0.1), 1_000_000);
    assert!((0.099..0.101).contains(&ratio), "{ratio}");
    assert!((1.106..1.116).contains(&burst), "{burst}"); // 1/0.9 = 1.111
}
