use super::*;
use crate::ecn::Ecn;
use crate::units::Bitrate;
use proptest::prelude::*;

fn path(config: PathConfig) -> Path<u32> {
    Path::new(config, 7)
}

fn constant(mbps: u64) -> Option<Capacity> {
    Some(Capacity::Constant { bps: Bitrate::from_mbps(mbps) })
}

fn packet(id: u32) -> Packet<u32> {
    Packet::new(Bytes(1250), id)
}

fn drain(path: &mut Path<u32>) -> Vec<(Time, u32, Option<DropCause>)> {
    let mut out = Vec::new();
    while let Some(at) = path.poll_timeout() {
        while let Some(departure) = path.poll(at) {
            out.push(match departure {
                Departure::Delivered { at, packet, .. } => (at, packet.payload, None),
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

/// How long each packet that comes out had waited in the queue, by its number.
fn queued(path: &mut Path<u32>) -> Vec<(u32, Time)> {
    let mut out = Vec::new();
    while let Some(at) = path.poll_timeout() {
        while let Some(departure) = path.poll(at) {
            if let Departure::Delivered { queued, packet, .. } = departure {
                out.push((packet.payload, queued));
            }
        }
    }
    out
}

#[test]
fn of_back_to_back_packets_each_waits_for_those_before_it_and_not_for_itself() {
    // 1250 B at 10 Mbit/s = 1 ms; the fourth comes when the link is idle, the fifth 0.4 ms after it
    let mut path = path(PathConfig {
        capacity: constant(10),
        delay: Delay::Constant { ns: Time::from_millis(25) },
        ..PathConfig::default()
    });
    for (id, at_us) in (0..).zip([0, 0, 0, 3_000, 3_400]) {
        path.handle_packet(Time::from_micros(at_us), packet(id));
    }
    let expected = [0, 1_000, 2_000, 0, 600].map(Time::from_micros);
    assert_eq!(queued(&mut path).iter().map(|one| one.1).collect::<Vec<_>>(), expected);
}

#[test]
fn jitter_loss_and_reordering_on_the_wire_change_no_queuing_delay() {
    // One packet every 2 ms on a link that takes 1 ms for each: nothing ever waits.
    for reorder in [false, true] {
        let mut path = path(PathConfig {
            capacity: constant(10),
            delay: Delay::Constant { ns: Time::from_millis(25) },
            jitter: Some(Jitter { sd_ns: Time::from_millis(20), reorder }),
            loss: Some(Loss { p: 0.0, r: 1.0, h: 0.5, k: 0.5 }),
            ..PathConfig::default()
        });
        for id in 0..200 {
            path.handle_packet(Time::from_millis(2 * u64::from(id)), packet(id));
        }
        let waited = queued(&mut path);
        assert!(waited.len() > 50 && waited.iter().all(|(_, queued)| *queued == Time::ZERO));
    }
}

#[test]
fn a_packet_at_the_head_of_the_queue_is_served_while_it_waits_for_a_tick_or_an_opportunity() {
    // Sent at 0.3 ms to an idle box with a tick of 1 ms: 0.1 ms of work, released at the tick at 1 ms, so
    // that the second one waits 0.7 ms behind it.
    let ticking = PathConfig {
        capacity: constant(100),
        tick_ns: Some(Time::from_millis(1)),
        ..PathConfig::default()
    };
    // One opportunity every 10 ms, for one packet.
    let times = vec![Time::from_millis(10)];
    let recorded =
        Capacity::Opportunities { times, period: Time::from_millis(10), bytes: Bytes(1250) };
    let recorded = PathConfig { capacity: Some(recorded), ..PathConfig::default() };
    for (config, second_us) in [(ticking, 700), (recorded, 9_700)] {
        let mut path = path(config);
        for id in 0..2 {
            path.handle_packet(Time::from_micros(300), packet(id));
        }
        let expected = [(0, Time::ZERO), (1, Time::from_micros(second_us))];
        assert_eq!(queued(&mut path), expected);
    }
}

#[test]
fn on_wifi_a_packet_queues_until_all_attempts_of_those_before_it_are_over() {
    let good = Radio { bps: Bitrate::from_mbps(6), error: 0.5 };
    let none = Time::ZERO;
    let (attempts, adaptive, fade) = (7, false, good);
    let wifi = Wifi { attempts, adaptive, good, fade, mean_good_ns: none, mean_fade_ns: none };
    let mut path = path(PathConfig { wifi: Some(wifi), ..PathConfig::default() });
    for id in 0..20 {
        path.handle_packet(Time::ZERO, packet(id));
    }
    // Without propagation, a packet begins to be served when the one before it has arrived or is given up.
    let mut before = Time::ZERO;
    while let Some(at) = path.poll_timeout() {
        while let Some(departure) = path.poll(at) {
            match departure {
                Departure::Delivered { at, queued, .. } => {
                    assert_eq!(queued, before);
                    before = at;
                }
                Departure::Dropped { at, .. } => before = at,
            }
        }
    }
    assert!(before > Time::from_millis(20));
}

#[test]
fn with_a_queue_of_two_packets_three_of_five_sent_at_once_pass() {
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
    // 100 packets are in flight for 100 ms; a queue of one is enough, as they arrive one by one
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
fn a_packet_that_is_being_serialised_gets_the_delay_after_a_change_and_one_in_flight_keeps_its_own()
{
    // 1250 B take 10 ms at 1 Mbit/s. At 15 ms the first is in flight until 110 ms; the second is serialised until
    // 20 ms and would arrive at 120 ms. With a delay of 95 ms it arrives at 115 ms; with 1 ms it waits for the first.
    // With jitter packets stay a serialisation time apart: so it arrives 10 ms after the first.
    let spread = Some(Jitter { sd_ns: Time::ZERO, reorder: false });
    for (ms, jitter, expected) in [(95, None, 115), (1, None, 110), (1, spread, 120)] {
        let delay = |ms| Delay::Constant { ns: Time::from_millis(ms) };
        let before =
            PathConfig { capacity: constant(1), delay: delay(100), ..PathConfig::default() };
        let mut path = path(before.clone());
        (0..2).for_each(|id| path.handle_packet(Time::ZERO, packet(id)));
        path.set_config(Time::from_millis(15), PathConfig { delay: delay(ms), jitter, ..before });
        assert_eq!(path.pending(), 2);
        let at: Vec<_> = drain(&mut path).iter().map(|out| out.0.as_millis()).collect();
        assert_eq!(at, [110, expected]);
    }
}

#[test]
fn steps_and_a_change_of_the_configuration_give_the_same_time() {
    let steps =
        vec![(Time::ZERO, Bitrate::from_mbps(1)), (Time::from_millis(5), Bitrate::from_mbps(2))];
    let mut path =
        path(PathConfig { capacity: Some(Capacity::Steps { steps }), ..PathConfig::default() });
    path.handle_packet(Time::ZERO, packet(0));
    assert_eq!(drain(&mut path)[0].0, Time::from_micros(7_500));
}

#[test]
fn once_a_path_keeps_the_order_no_packet_overtakes_those_on_the_wire() {
    let delay = Delay::Constant { ns: Time::from_millis(20) };
    let jitter = Some(Jitter { sd_ns: Time::from_millis(5), reorder: true });
    let reordering = PathConfig { delay: delay.clone(), jitter, ..PathConfig::default() };
    let mut path = path(reordering);
    (0..100).for_each(|id| path.handle_packet(Time::ZERO, packet(id)));
    path.set_config(Time::ZERO, PathConfig { delay, ..PathConfig::default() });
    (100..200).for_each(|id| path.handle_packet(Time::ZERO, packet(id)));
    let out = drain(&mut path);
    assert!(out.is_sorted_by_key(|out| out.0));
    // Of the first hundred some overtook others; none after them did.
    assert!(!out[..100].is_sorted_by_key(|out| out.1));
    assert!(out[100..].iter().map(|out| out.1).eq(100..200));
}

#[test]
fn a_packet_that_wifi_lost_is_dropped_in_time_even_if_the_path_has_become_another_meanwhile() {
    // A single attempt that always fails.
    let good = Radio { bps: Bitrate::from_mbps(6), error: 1.0 };
    let (none, adaptive) = (Time::ZERO, false);
    let wifi =
        Wifi { attempts: 1, adaptive, good, fade: good, mean_good_ns: none, mean_fade_ns: none };
    let wifi = PathConfig { wifi: Some(wifi), ..PathConfig::default() };
    let drops = [
        wifi.clone(),
        PathConfig { delay: Delay::Constant { ns: Time::from_secs(1) }, ..PathConfig::default() },
    ]
    .map(|later| {
        let mut path = path(wifi.clone());
        path.handle_packet(Time::ZERO, packet(0));
        path.set_config(Time(1), later);
        let due = path.poll_timeout();
        assert_eq!(due, drain(&mut path).first().map(|out| out.0));
        due
    });
    assert_eq!(drops[0], drops[1]);
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
        path.handle_packet(Time::ZERO, Packet::new(Bytes(500), id));
    }
    path.handle_packet(Time::ZERO, Packet::new(Bytes(1500), 4));
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

/// Loses every packet: it starts in the bad state and never leaves it.
const ALWAYS_BAD: Loss = Loss { p: 1.0, r: 0.0, h: 0.0, k: 1.0 };

/// Which of 100 packets are lost after a change from [`ALWAYS_BAD`] to `loss`.
fn lost_after_change_to(loss: Loss, seed: u64) -> Vec<bool> {
    let config = |loss| PathConfig { loss: Some(loss), ..PathConfig::default() };
    let mut path = Path::new(config(ALWAYS_BAD), seed);
    path.handle_packet(Time::ZERO, packet(0));
    assert_eq!(drain(&mut path)[0].2, Some(DropCause::Loss));
    path.set_config(Time::ZERO, config(loss));
    let lost = |id| {
        path.handle_packet(Time::ZERO, packet(id));
        drain(&mut path)[0].2.is_some()
    };
    (0..100).map(lost).collect()
}

#[test]
fn a_chain_that_never_goes_bad_loses_nothing_after_one_that_always_was() {
    for r in [0.0, 0.5, 1.0] {
        let never_bad = Loss { p: 0.0, r, h: 0.0, k: 1.0 };
        assert_eq!((never_bad.ratio(), ALWAYS_BAD.ratio()), (0.0, 1.0));
        assert_eq!(lost_after_change_to(never_bad, 7), [false; 100]);
        let mut path = path(PathConfig {
            loss: Some(ALWAYS_BAD),
            loss_steps: vec![(Time::from_secs(1), never_bad)],
            ..PathConfig::default()
        });
        path.handle_packet(Time::ZERO, packet(0));
        path.handle_packet(Time::from_secs(1), packet(1));
        let lost: Vec<_> = drain(&mut path).iter().map(|departure| departure.2).collect();
        assert_eq!(lost, [Some(DropCause::Loss), None], "r = {r}");
    }
}

#[test]
fn a_changed_chain_starts_in_the_bad_state_with_its_stationary_probability() {
    // p / (p + r) is a quarter: of 1000 seeds 250 start bad, give or take 5 * sqrt(1000 * 0.25 * 0.75) = 68.
    let quarter = Loss { p: 0.001, r: 0.003, h: 0.0, k: 1.0 };
    let bad = (0..1000).filter(|seed| lost_after_change_to(quarter, *seed)[0]).count();
    assert!((182..=318).contains(&bad), "{bad}");
}

#[test]
fn independent_loss_has_bursts_of_one_over_one_minus_q() {
    let (ratio, burst) = observe(Loss::independent(0.1), 1_000_000);
    assert!((0.099..0.101).contains(&ratio), "{ratio}");
    assert!((1.106..1.116).contains(&burst), "{burst}"); // 1/0.9 = 1.111
}

#[test]
fn the_rest_of_a_tick_is_used_by_the_next_packet() {
    // 1250 B at 16 Mbit/s = 0.625 ms, started at 10 ms: exact ends 10.625, 11.25, 11.875, 12.5 ms
    let mut path = path(PathConfig {
        capacity: constant(16),
        tick_ns: Some(Time::from_millis(1)),
        ..PathConfig::default()
    });
    for id in 0..4 {
        path.handle_packet(Time::from_micros(10_900), packet(id));
    }
    let at: Vec<_> = drain(&mut path).iter().map(|d| d.0.as_micros()).collect();
    assert_eq!(at, [11_000, 12_000, 12_000, 13_000]);
}

#[test]
fn with_a_tick_of_10_ms_four_packets_leave_together() {
    // 1250 B at 4 Mbit/s = 2.5 ms: 2.5, 5, 7.5 and 10 ms all leave at 10 ms, the fifth at 20 ms
    let mut path = path(PathConfig {
        capacity: constant(4),
        tick_ns: Some(Time::from_millis(10)),
        ..PathConfig::default()
    });
    for id in 0..5 {
        path.handle_packet(Time::ZERO, packet(id));
    }
    let at: Vec<_> = drain(&mut path).iter().map(|d| d.0.as_millis()).collect();
    assert_eq!(at, [10, 10, 10, 10, 20]);
}

#[test]
fn service_starts_at_the_tick_before_an_arrival_and_the_delay_is_whole_ticks() {
    // arrival 3.9 ms, tick 1 ms: started at 3 ms, out at 4 ms, 25.7 ms of delay are 25 ticks
    let mut path = path(PathConfig {
        capacity: constant(10),
        delay: Delay::Constant { ns: Time::from_micros(25_700) },
        tick_ns: Some(Time::from_millis(1)),
        ..PathConfig::default()
    });
    path.handle_packet(Time::from_micros(3_900), packet(0));
    assert_eq!(drain(&mut path)[0].0, Time::from_millis(29));
}

#[test]
fn after_the_delay_falls_packets_arrive_in_a_burst_behind_the_last_slow_one() {
    // 100 ms of delay until 50 ms, then 10 ms: packets sent at 40, 60 and 120 ms arrive at 140 ms
    let steps =
        vec![(Time::ZERO, Time::from_millis(100)), (Time::from_millis(50), Time::from_millis(10))];
    for tick_ns in [None, Some(Time::from_millis(1))] {
        let mut path = path(PathConfig {
            delay: Delay::Steps { steps: steps.clone() },
            tick_ns,
            ..PathConfig::default()
        });
        for (id, ms) in [40, 60, 120, 150].into_iter().enumerate() {
            path.handle_packet(Time::from_millis(ms), packet(id as u32));
        }
        let at: Vec<_> = drain(&mut path).iter().map(|d| d.0.as_millis()).collect();
        assert_eq!(at, [140, 140, 140, 160]);
    }
}

/// How many of 10 000 packets of 1 ms each, sent at twice the capacity, are lost at random, dropped by a full
/// queue, and delivered.
fn fates(loss_position: LossPosition) -> [usize; 3] {
    let mut path = path(PathConfig {
        capacity: constant(10),
        queue: Some(QueueLimit::Packets(10)),
        loss: Some(Loss::independent(0.5)),
        loss_position,
        ..PathConfig::default()
    });
    for id in 0..10_000 {
        path.handle_packet(Time::from_micros(500 * u64::from(id)), packet(id));
    }
    let out = drain(&mut path);
    [Some(DropCause::Loss), Some(DropCause::Queue), None]
        .map(|fate| out.iter().filter(|d| d.2 == fate).count())
}

#[test]
fn loss_on_the_wire_wastes_capacity_and_loss_before_the_queue_makes_room() {
    // Wire: half of 10 000 pass the serialiser (and 11 at the end), half of these survive.
    let [lost, dropped, delivered] = fates(LossPosition::Wire);
    assert!((2_400..=2_600).contains(&lost), "{lost}");
    assert!((4_980..=5_000).contains(&dropped), "{dropped}");
    assert!((2_400..=2_600).contains(&delivered), "{delivered}");
    // Queue: half are lost before it. The rest just fill the link: a walk of variance 0.5 per ms between
    // 0 and 11 packets, which overflows 0.5 / (2 * 11) times per ms: 114 times in 5 s.
    let [lost, dropped, delivered] = fates(LossPosition::Queue);
    assert!((4_900..=5_100).contains(&lost), "{lost}");
    assert!((60..=200).contains(&dropped), "{dropped}");
    assert_eq!(lost + dropped + delivered, 10_000);
}

#[test]
fn loss_changes_at_its_steps_on_either_side_of_the_queue() {
    // nothing until 1 s, everything until 2 s, then nothing
    for loss_position in [LossPosition::Wire, LossPosition::Queue] {
        let mut path = path(PathConfig {
            capacity: constant(10),
            loss_steps: vec![
                (Time::from_secs(1), Loss::independent(1.0)),
                (Time::from_secs(2), Loss::independent(0.0)),
            ],
            loss_position,
            ..PathConfig::default()
        });
        // each is on the wire 1 ms after it arrived
        for id in 0..30 {
            path.handle_packet(Time::from_millis(100 * u64::from(id)), packet(id));
        }
        let lost: Vec<_> = drain(&mut path).iter().filter(|d| d.2.is_some()).map(|d| d.1).collect();
        assert_eq!(lost, (10..20).collect::<Vec<_>>());
    }
}

/// Loses the third, fourth and seventh of seven packets.
fn recorded() -> Option<LossTrace> {
    Some(LossTrace { runs: vec![2, 2, 2, 1], start: TraceStart::Beginning })
}

#[test]
fn a_trace_counts_the_packets_before_the_queue_or_behind_it() {
    // Seven packets at once, to a link with room for two behind the one in service. Behind the queue, the trace
    // counts only the three that pass it. Before it, the trace counts all seven, and 5 finds the queue full.
    let (loss, full) = (DropCause::Loss, DropCause::Queue);
    let wire = vec![(2, loss), (3, full), (4, full), (5, full), (6, full)];
    let queue = vec![(2, loss), (3, loss), (5, full), (6, loss)];
    for (loss_position, expected) in [(LossPosition::Wire, wire), (LossPosition::Queue, queue)] {
        let mut path = path(PathConfig {
            capacity: constant(10),
            queue: Some(QueueLimit::Packets(2)),
            loss_trace: recorded(),
            loss_position,
            ..PathConfig::default()
        });
        for id in 0..7 {
            path.handle_packet(Time::ZERO, packet(id));
        }
        let mut dropped: Vec<_> =
            drain(&mut path).iter().filter_map(|d| Some((d.1, d.2?))).collect();
        dropped.sort_by_key(|one| one.0);
        assert_eq!(dropped, expected, "{loss_position:?}");
    }
}

#[test]
fn a_trace_goes_on_after_a_change_that_leaves_it_alone_and_begins_again_when_it_changes() {
    let config = |loss_trace, ms| PathConfig {
        loss_trace,
        delay: Delay::Constant { ns: Time::from_millis(ms) },
        ..PathConfig::default()
    };
    let mut path = path(config(recorded(), 0));
    let lost = |path: &mut Path<u32>, ids: std::ops::Range<u32>| {
        ids.filter(|id| {
            path.handle_packet(Time::ZERO, packet(*id));
            drain(path)[0].2.is_some()
        })
        .collect::<Vec<_>>()
    };
    assert_eq!(lost(&mut path, 0..3), [2]);
    path.set_config(Time::ZERO, config(recorded(), 5));
    assert_eq!(lost(&mut path, 3..7), [3, 6]);
    let other = LossTrace { runs: vec![1, 1], start: TraceStart::Beginning };
    path.set_config(Time::ZERO, config(Some(other), 5));
    assert_eq!(lost(&mut path, 7..11), [8, 10]);
}

#[test]
fn total_loss_before_the_queue_leaves_the_link_idle() {
    let loss = Some(Loss::independent(1.0));
    let mut path = path(PathConfig {
        capacity: constant(10),
        loss,
        loss_position: LossPosition::Queue,
        ..PathConfig::default()
    });
    for id in 0..100 {
        path.handle_packet(Time::ZERO, packet(id));
    }
    assert_eq!(path.queued(), Bytes::ZERO);
    let out = drain(&mut path);
    assert!(out.iter().all(|d| d.0 == Time::ZERO && d.2 == Some(DropCause::Loss)));
    assert_eq!(out.len(), 100);
}

/// What happens to a path: packets of these sizes, or another capacity, queue limit, or discipline.
#[derive(Clone, Debug)]
enum Step {
    Packets(u64, usize),
    Change { kbps: u64, later_kbps: Option<u64>, limit: Option<QueueLimit>, codel: bool },
}

fn step() -> impl Strategy<Value = Step> {
    let limit = prop_oneof![
        Just(None),
        (1u64..8).prop_map(|packets| Some(QueueLimit::Packets(packets))),
        (1u64..9_000).prop_map(|bytes| Some(QueueLimit::Bytes(Bytes(bytes)))),
        (1u64..80).prop_map(|ms| Some(QueueLimit::Time(Time::from_millis(ms)))),
    ];
    let packets = (0u64..3_000, 1usize..6).prop_map(|(size, count)| Step::Packets(size, count));
    let change = (0u64..4_000, prop::option::of(0u64..4_000), limit, prop::bool::weighted(0.2));
    let change = change.prop_map(|(kbps, later_kbps, limit, codel)| {
        let kbps = if kbps < 200 { 0 } else { kbps };
        Step::Change { kbps, later_kbps, limit, codel }
    });
    prop_oneof![3 => packets, 1 => change]
}

/// What comes out of a path of 7 ms at which these steps happen.
fn outcome(steps: &[(u64, Step)], jitter: Option<Jitter>) -> Vec<Departure<u32>> {
    let config = |capacity, queue, aqm| PathConfig {
        capacity,
        queue,
        aqm,
        jitter,
        delay: Delay::Constant { ns: Time::from_millis(7) },
        ecn: EcnTreatment::Mangle,
        ..PathConfig::default()
    };
    let mut path = path(config(constant(1), None, None));
    let (mut now, mut id, mut out) = (Time::ZERO, 0, Vec::new());
    for (after, step) in steps {
        let until = now + Time::from_micros(*after);
        while let Some(at) = path.poll_timeout().filter(|at| *at <= until) {
            out.extend(std::iter::from_fn(|| path.poll(at)));
        }
        now = until;
        match step {
            Step::Packets(size, count) => {
                for _ in 0..*count {
                    let packet = Packet { ecn: Ecn::Ect0, ..Packet::new(Bytes(*size), id) };
                    path.handle_packet(now, packet);
                    id += 1;
                }
            }
            Step::Change { kbps, later_kbps, limit, codel } => {
                let bps = Bitrate::from_kbps;
                let capacity = match later_kbps {
                    None => Capacity::Constant { bps: bps(*kbps) },
                    Some(later) => Capacity::Steps {
                        steps: vec![
                            (Time::ZERO, bps(*kbps)),
                            (now + Time::from_millis(20), bps(*later)),
                        ],
                    },
                };
                let aqm = codel.then(|| Aqm::Codel(Codel::default()));
                path.set_config(now, config(Some(capacity), *limit, aqm));
            }
        }
    }
    path.set_config(now, config(constant(1), None, None));
    while let Some(at) = path.poll_timeout() {
        out.extend(std::iter::from_fn(|| path.poll(at)));
    }
    out
}

proptest! {
    /// A path with a jitter of zero is not plain, but does the same.
    #[test]
    fn a_path_that_is_plain_from_time_to_time_does_what_one_does_that_never_is(
        steps in prop::collection::vec((0u64..30_000, step()), 1..40)
    ) {
        let jitter = Jitter { sd_ns: Time::ZERO, reorder: true };
        prop_assert_eq!(outcome(&steps, None), outcome(&steps, Some(jitter)));
    }
}
