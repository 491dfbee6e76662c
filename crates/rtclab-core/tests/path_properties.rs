//! Properties of a path that hold for any configuration and any arrivals.

use proptest::prelude::*;
use rtclab_core::path::{
    Capacity, Clock, Delay, Departure, Jitter, Loss, LossPosition, LossTrace, Packet, Path,
    PathConfig, QueueLimit, Radio, TraceStart, Wifi,
};
use rtclab_core::units::{Bitrate, Bytes, Time};

fn capacity() -> impl Strategy<Value = Option<Capacity>> {
    let rate = (10u64..200_000).prop_map(Bitrate::from_kbps);
    let steps =
        prop::collection::vec((1u64..500, prop_oneof![Just(Bitrate::ZERO), rate.clone()]), 1..5);
    prop_oneof![
        Just(None),
        rate.clone().prop_map(|bps| Some(Capacity::Constant { bps })),
        // The last step is positive, so that every packet leaves in the end.
        (steps, rate).prop_map(|(gaps, last)| {
            let mut at = Time::ZERO;
            let mut steps: Vec<_> = gaps
                .into_iter()
                .map(|(gap, rate)| {
                    let step = (at, rate);
                    at += Time::from_millis(gap);
                    step
                })
                .collect();
            steps.push((at, last));
            Some(Capacity::Steps { steps })
        }),
        prop::collection::vec(1u64..100, 1..20).prop_map(|mut times| {
            times.sort_unstable();
            let times = times.into_iter().map(Time::from_millis).collect();
            Some(Capacity::Opportunities {
                times,
                period: Time::from_millis(100),
                bytes: Bytes(1500),
            })
        }),
    ]
}

fn queue() -> impl Strategy<Value = Option<QueueLimit>> {
    prop_oneof![
        Just(None),
        (0u64..40).prop_map(|n| Some(QueueLimit::Packets(n))),
        (0u64..60_000).prop_map(|n| Some(QueueLimit::Bytes(Bytes(n)))),
        (0u64..500).prop_map(|ms| Some(QueueLimit::Time(Time::from_millis(ms)))),
    ]
}

fn wifi() -> impl Strategy<Value = Option<Wifi>> {
    let radio = || {
        (1u64..54, 0.0..=1.0f64)
            .prop_map(|(mbps, error)| Radio { bps: Bitrate::from_mbps(mbps), error })
    };
    prop::option::weighted(
        0.3,
        (1u8..20, any::<bool>(), radio(), radio(), 0u64..500, 0u64..500).prop_map(
            |(attempts, adaptive, good, fade, mean_good, mean_fade)| Wifi {
                attempts,
                adaptive,
                good,
                fade,
                mean_good_ns: Time::from_millis(mean_good),
                mean_fade_ns: Time::from_millis(mean_fade),
            },
        ),
    )
}

fn loss_trace() -> impl Strategy<Value = LossTrace> {
    let start = prop_oneof![Just(TraceStart::Random), Just(TraceStart::Beginning)];
    let runs = (0u32..50, prop::collection::vec(1u32..50, 1..20));
    (runs, start).prop_map(|((first, later), start)| LossTrace {
        runs: std::iter::once(first).chain(later).collect(),
        start,
    })
}

fn config(reorder: bool) -> impl Strategy<Value = PathConfig> {
    let jitter = prop::option::of(
        (0u64..20).prop_map(move |ms| Jitter { sd_ns: Time::from_millis(ms), reorder }),
    );
    let loss = prop::option::of((0.0..1.0f64, 0.01..1.0f64, 0.0..1.0f64, 0.0..1.0f64))
        .prop_map(|loss| loss.map(|(p, r, h, k)| Loss { p, r, h, k }));
    let delays = prop::collection::vec((1u64..300, 0u64..200), 1..4).prop_map(|steps| {
        let mut at = Time::ZERO;
        let steps = steps
            .into_iter()
            .map(|(gap, delay)| {
                at += Time::from_millis(gap);
                (at, Time::from_millis(delay))
            })
            .collect();
        Delay::Steps { steps }
    });
    let position = prop_oneof![Just(LossPosition::Wire), Just(LossPosition::Queue)];
    let tick = prop::option::of((100u64..10_000).prop_map(Time::from_micros));
    let clock = prop::option::of((0.0..0.2f64, 0u64..500)).prop_map(|clock| {
        let with = |(wander, ms)| Clock { wander, correlation_ns: Time::from_millis(ms) };
        clock.map(with)
    });
    let trace = prop::option::of(loss_trace());
    (capacity(), wifi(), queue(), delays, jitter, (loss, trace, position), tick, clock).prop_map(
        |(capacity, wifi, queue, delay, jitter, (loss, trace, loss_position), tick_ns, clock)| {
            PathConfig {
                name: "path".into(),
                capacity,
                wifi,
                queue,
                delay,
                jitter,
                loss,
                loss_steps: loss
                    .map(|loss| (Time::from_millis(500), Loss { h: 1.0, ..loss }))
                    .into_iter()
                    .collect(),
                loss_trace: trace.filter(|_| loss.is_none()),
                loss_position,
                tick_ns,
                clock,
            }
        },
    )
}

fn arrivals() -> impl Strategy<Value = Vec<(Time, Bytes)>> {
    prop::collection::vec((0u64..20_000, 20u64..1500), 1..200).prop_map(|gaps| {
        let mut at = Time::ZERO;
        gaps.into_iter()
            .map(|(gap, size)| {
                at += Time::from_micros(gap);
                (at, Bytes(size))
            })
            .collect()
    })
}

/// Sends everything, polling at each timeout; returns what came out, in order.
fn run(config: PathConfig, arrivals: &[(Time, Bytes)]) -> Vec<(Time, usize, Bytes, bool)> {
    let mut path = Path::new(config, 1);
    let mut out = Vec::new();
    let mut drain = |path: &mut Path<usize>, until: Time| {
        while let Some(at) = path.poll_timeout().filter(|at| *at <= until) {
            while let Some(departure) = path.poll(at) {
                out.push(match departure {
                    Departure::Delivered { at, packet, .. } => {
                        (at, packet.payload, packet.size, true)
                    }
                    Departure::Dropped { at, packet, .. } => {
                        (at, packet.payload, packet.size, false)
                    }
                });
            }
        }
    };
    for (id, (at, size)) in arrivals.iter().enumerate() {
        drain(&mut path, *at);
        path.handle_packet(*at, Packet::new(*size, id));
    }
    drain(&mut path, Time::MAX);
    assert_eq!(path.pending(), 0);
    out
}

proptest! {
    #[test]
    fn nothing_leaves_before_it_entered_and_departures_come_in_order_of_time(
        config in config(true), arrivals in arrivals()
    ) {
        let out = run(config, &arrivals);
        prop_assert!(out.iter().all(|(at, id, ..)| *at >= arrivals[*id].0));
        prop_assert!(out.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    }

    #[test]
    fn bytes_in_are_bytes_delivered_plus_bytes_dropped(config in config(true), arrivals in arrivals()) {
        let out = run(config, &arrivals);
        let mut ids: Vec<_> = out.iter().map(|o| o.1).collect();
        ids.sort_unstable();
        prop_assert_eq!(ids, (0..arrivals.len()).collect::<Vec<_>>());
        let entered: u64 = arrivals.iter().map(|a| a.1.0).sum();
        prop_assert_eq!(entered, out.iter().map(|o| o.2.0).sum::<u64>());
    }

    #[test]
    fn without_reordering_packets_are_delivered_in_the_order_they_entered(
        config in config(false), arrivals in arrivals()
    ) {
        let delivered: Vec<_> = run(config, &arrivals).into_iter().filter(|o| o.3).map(|o| o.1).collect();
        prop_assert!(delivered.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn a_trace_without_lost_packets_changes_nothing(
        config in config(true), received in 1u32..100, arrivals in arrivals()
    ) {
        let none = PathConfig { loss: None, loss_steps: Vec::new(), loss_trace: None, ..config };
        let trace = LossTrace { runs: vec![received], start: TraceStart::Random };
        let zeros = PathConfig { loss_trace: Some(trace), ..none.clone() };
        prop_assert_eq!(run(none, &arrivals), run(zeros, &arrivals));
    }

    #[test]
    fn over_whole_periods_the_share_of_the_trace_is_lost(
        trace in loss_trace(), periods in 1u64..4, seed in any::<u64>()
    ) {
        let packets = trace.packets();
        let of_trace: u64 = trace.runs.iter().skip(1).step_by(2).map(|run| u64::from(*run)).sum();
        let mut path = Path::new(PathConfig { loss_trace: Some(trace), ..PathConfig::default() }, seed);
        let lost = (0..packets * periods)
            .filter(|id| {
                path.handle_packet(Time(*id), Packet::new(Bytes(100), *id));
                matches!(path.poll(Time(*id)), Some(Departure::Dropped { .. }))
            })
            .count();
        prop_assert_eq!(lost as u64, of_trace * periods);
    }

    #[test]
    fn polling_late_changes_neither_what_comes_out_nor_its_logical_time(
        config in config(false), arrivals in arrivals()
    ) {
        let in_time = run(config.clone(), &arrivals);
        let mut path = Path::new(config, 1);
        for (id, (at, size)) in arrivals.iter().enumerate() {
            path.handle_packet(*at, Packet::new(*size, id));
        }
        let mut late = Vec::new();
        while let Some(departure) = path.poll(Time(u64::MAX / 2)) {
            late.push(match departure {
                Departure::Delivered { at, packet, .. } => (at, packet.payload, packet.size, true),
                Departure::Dropped { at, packet, .. } => (at, packet.payload, packet.size, false),
            });
        }
        let mut expected = in_time;
        expected.sort_by_key(|o| (o.1, o.0));
        late.sort_by_key(|o| (o.1, o.0));
        prop_assert_eq!(expected, late);
    }

    #[test]
    fn in_a_busy_period_a_path_carries_exactly_its_capacity(
        kbps in 10u64..100_000, count in 2usize..100, size in 40u64..1500
    ) {
        let bps = Bitrate::from_kbps(kbps);
        let config = PathConfig { capacity: Some(Capacity::Constant { bps }), ..PathConfig::default() };
        let out = run(config, &vec![(Time::ZERO, Bytes(size)); count]);
        let last = out[count - 1].0;
        // count packets take count serialisation times, each rounded up to a nanosecond
        let exact = (size * 8 * count as u64) as f64 / bps.0 as f64;
        prop_assert!((last.as_secs_f64() - exact).abs() <= count as f64 * 1e-9 + 1e-12);
    }

    #[test]
    fn a_packet_is_queued_for_at_most_the_time_that_it_was_inside(
        config in config(true), arrivals in arrivals()
    ) {
        let mut path = Path::new(config, 1);
        for (id, (at, size)) in arrivals.iter().enumerate() {
            path.handle_packet(*at, Packet::new(*size, id));
        }
        while let Some(departure) = path.poll(Time(u64::MAX / 2)) {
            if let Departure::Delivered { at, queued, packet } = departure {
                prop_assert!(arrivals[packet.payload].0 + queued <= at);
            }
        }
    }

    #[test]
    fn delay_is_queuing_plus_serialisation_plus_propagation(
        kbps in 10u64..200_000, delay_us in 0u64..100_000, arrivals in arrivals()
    ) {
        let (bps, delay) = (Bitrate::from_kbps(kbps), Time::from_micros(delay_us));
        let mut path = Path::new(PathConfig {
            capacity: Some(Capacity::Constant { bps }),
            delay: Delay::Constant { ns: delay },
            ..PathConfig::default()
        }, 1);
        for (id, (at, size)) in arrivals.iter().enumerate() {
            path.handle_packet(*at, Packet::new(*size, id));
        }
        while let Some(departure) = path.poll(Time(u64::MAX / 2)) {
            let Departure::Delivered { at, queued, packet } = departure else { continue };
            let serialisation = bps.time_for(packet.size).expect("a rate");
            prop_assert_eq!(arrivals[packet.payload].0 + queued + serialisation + delay, at);
        }
    }

    #[test]
    fn with_a_tick_packets_leave_at_its_multiples_or_at_once(
        config in config(true), tick_us in 100u64..10_000, arrivals in arrivals()
    ) {
        let tick = Time::from_micros(tick_us);
        let out = run(PathConfig { tick_ns: Some(tick), wifi: None, ..config }, &arrivals);
        for (at, id, ..) in out.into_iter().filter(|o| o.3) {
            prop_assert!(at.0 % tick.0 == 0 || at == arrivals[id].0, "{at}");
        }
    }

    #[test]
    fn a_busy_path_with_a_tick_carries_its_capacity_within_a_tick_and_a_packet(
        kbps in 100u64..100_000, tick_us in 100u64..10_000, count in 2usize..200,
        size in 40u64..1500, from in 0usize..100, arrival_us in 0u64..10_000
    ) {
        let bps = Bitrate::from_kbps(kbps);
        let tick = Time::from_micros(tick_us);
        let capacity = Some(Capacity::Constant { bps });
        let config = PathConfig { capacity, tick_ns: Some(tick), ..PathConfig::default() };
        let arrival = Time::from_micros(arrival_us);
        let out = run(config, &vec![(arrival, Bytes(size)); count]);
        // In any window of a busy period, departures are delayed to the end of their tick, so the time
        // between two of them is off by less than a tick.
        let from = from % (count - 1);
        let window = (out[count - 1].0 - out[from].0).as_secs_f64();
        let bits = (size * 8 * (count - 1 - from) as u64) as f64;
        let off = window - bits / bps.0 as f64;
        prop_assert!(off.abs() <= tick.as_secs_f64() + 1e-6, "{off} s");
        // The whole period starts in the tick of the arrival and ends by the tick after the last bit.
        let exact = arrival.floor_to(tick).as_secs_f64() + (size * 8 * count as u64) as f64 / bps.0 as f64;
        let late = out[count - 1].0.as_secs_f64() - exact;
        prop_assert!((-1e-9..tick.as_secs_f64() + 1e-6).contains(&late) || out[count - 1].0 == arrival, "{late} s");
    }
}
