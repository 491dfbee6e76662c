//! Properties of a path that hold for any configuration and any arrivals.

use proptest::prelude::*;
use rtclab_core::ecn::Ecn;
use rtclab_core::path::{
    Aqm, Capacity, Clock, Codel, Delay, Departure, DropCause, DualPi2, EcnTreatment, FqCodel,
    Jitter, Loss, LossPosition, LossTrace, MarkCause, Packet, Path, PathConfig, Pie, QueueLimit,
    Radio, Step, TraceStart, Wifi,
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

/// Disciplines that drop and mark after some milliseconds, and those with default parameters.
fn aqm() -> impl Strategy<Value = Aqm> {
    let ms = |range: std::ops::Range<u64>| range.prop_map(Time::from_millis);
    let threshold = || prop::option::of((0u64..30).prop_map(Time::from_millis));
    let codel = (ms(1..10), ms(10..50), any::<bool>(), threshold()).prop_map(
        |(target_ns, interval_ns, ecn, ce_threshold_ns)| Codel {
            target_ns,
            interval_ns,
            ecn,
            ce_threshold_ns,
        },
    );
    let fq_codel = (codel.clone(), 1u32..20, 256u64..3_000, 1u32..10).prop_map(
        |(codel, flows, quantum, drop_batch)| {
            let Codel { target_ns, interval_ns, ecn, ce_threshold_ns } = codel;
            let quantum = Bytes(quantum);
            FqCodel { flows, quantum, target_ns, interval_ns, ecn, ce_threshold_ns, drop_batch }
        },
    );
    let pie = (ms(1..20), ms(1..20), 0.0..10.0f64, 0.0..10.0f64, ms(0..20), any::<bool>())
        .prop_map(|(target_ns, update_ns, alpha, beta, max_burst_ns, ecn)| Pie {
            target_ns,
            update_ns,
            alpha,
            beta,
            max_burst_ns,
            ecn,
            ..Pie::default()
        });
    let dual = (ms(1..20), ms(1..20), 0.0..10.0f64, 0.0..4.0f64, 0.0..=1.0f64, any::<bool>())
        .prop_map(|(target_ns, update_ns, alpha, coupling, c_share, drop_overload)| DualPi2 {
            target_ns,
            update_ns,
            alpha,
            coupling,
            c_share,
            drop_overload,
            ..DualPi2::default()
        });
    let step = (ms(0..20), any::<bool>())
        .prop_map(|(threshold_ns, only_ect1)| Step { threshold_ns, only_ect1 });
    prop_oneof![
        codel.prop_map(Aqm::Codel),
        fq_codel.prop_map(Aqm::FqCodel),
        pie.prop_map(Aqm::Pie),
        dual.prop_map(Aqm::DualPi2),
        step.prop_map(Aqm::Step),
        Just(Aqm::Codel(Codel::default())),
        Just(Aqm::FqCodel(FqCodel::default())),
        Just(Aqm::Pie(Pie::default())),
        Just(Aqm::DualPi2(DualPi2::default())),
    ]
}

/// Number of flows. Packets of a flow have the same codepoint, so that they are in the same queue.
const FLOWS: usize = 6;

fn packet(id: usize, size: Bytes) -> Packet<usize> {
    let flow = id % FLOWS;
    Packet { ecn: Ecn::from_bits(flow as u8), flow: flow as u32, ..Packet::new(size, id) }
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
    let treatment = prop_oneof![
        Just(EcnTreatment::Keep),
        Just(EcnTreatment::Bleach),
        Just(EcnTreatment::Mangle)
    ];
    let queue = (queue(), prop::option::weighted(0.7, aqm()), treatment);
    (capacity(), wifi(), queue, delays, jitter, (loss, trace, position), tick, clock).prop_map(
        |(capacity, wifi, queue, delay, jitter, (loss, trace, loss_position), tick_ns, clock)| {
            let (queue, aqm, ecn) = queue;
            PathConfig {
                name: "path".into(),
                aqm: aqm.filter(|_| capacity.is_some() || wifi.is_some()),
                ecn,
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

/// What comes out of a path: when, the packet's number and size, and whether it was delivered.
type Out = (Time, usize, Bytes, bool);

fn out(departure: Departure<usize>) -> Out {
    match departure {
        Departure::Delivered { at, packet, .. } => (at, packet.payload, packet.size, true),
        Departure::Dropped { at, packet, .. } => (at, packet.payload, packet.size, false),
    }
}

/// Sends everything, polling at each timeout; returns what came out, in order.
fn run(config: PathConfig, arrivals: &[(Time, Bytes)]) -> Vec<Out> {
    run_with(config, None, arrivals).into_iter().map(out).collect()
}

/// Like [`run`]. The path gets another configuration before the packet of that number.
fn run_with(
    config: PathConfig,
    change: Option<(usize, PathConfig)>,
    arrivals: &[(Time, Bytes)],
) -> Vec<Departure<usize>> {
    let mut path = Path::new(config, 1);
    let mut out = Vec::new();
    let mut drain = |path: &mut Path<usize>, until: Time| {
        while let Some(at) = path.poll_timeout().filter(|at| *at <= until) {
            out.extend(std::iter::from_fn(|| path.poll(at)));
        }
    };
    for (id, (at, size)) in arrivals.iter().enumerate() {
        drain(&mut path, *at);
        if let Some((_, other)) = change.as_ref().filter(|(number, _)| *number == id) {
            path.set_config(*at, other.clone());
        }
        path.handle_packet(*at, packet(id, *size));
    }
    drain(&mut path, Time::MAX);
    assert_eq!(path.pending(), 0);
    out
}

fn constant(bps: Bitrate) -> PathConfig {
    PathConfig { capacity: Some(Capacity::Constant { bps }), ..PathConfig::default() }
}

/// Any parameters that a configuration may have, most of them absurd.
fn extreme_aqm() -> impl Strategy<Value = Aqm> {
    let time =
        || prop_oneof![0u64..3, 0u64..100_000_000, Just(1_000_000_000_000_000_000)].prop_map(Time);
    let gain = || prop_oneof![Just(0.0), 0.0..=1e3f64, 0.0..1e-6f64];
    let times = (time(), time(), time(), prop::option::of(time()));
    let sizes = (0u32..4, prop_oneof![256u64..300, Just(1_000_000_000_000_000)], 1u32..3);
    let gains = (gain(), gain(), prop_oneof![Just(0.0), 0.0..255.0f64], 0.0..=1.0f64);
    let choices = (0..5, any::<bool>());
    (times, sizes, gains, choices).prop_map(|(times, sizes, gains, (kind, flag))| {
        let (target_ns, other, third, ce_threshold_ns) = times;
        let (flows, quantum, drop_batch) = sizes;
        let (alpha, beta, coupling, share) = gains;
        let codel = Codel { target_ns, interval_ns: other, ecn: flag, ce_threshold_ns };
        match kind {
            0 => Aqm::Codel(codel),
            1 => Aqm::FqCodel(FqCodel {
                flows,
                quantum: Bytes(quantum),
                target_ns,
                interval_ns: other,
                ecn: flag,
                ce_threshold_ns,
                drop_batch,
            }),
            2 => Aqm::Pie(Pie {
                target_ns,
                update_ns: other,
                alpha,
                beta,
                max_burst_ns: third,
                ecn: flag,
                mark_below: share,
            }),
            3 => Aqm::Step(Step { threshold_ns: target_ns, only_ect1: flag }),
            _ => Aqm::DualPi2(DualPi2 {
                target_ns,
                update_ns: other,
                alpha,
                beta,
                coupling,
                step_min_ns: third.min(target_ns),
                step_max_ns: third.max(target_ns),
                c_share: share,
                drop_overload: flag,
            }),
        }
    })
}

proptest! {
    #[test]
    fn no_parameters_that_are_accepted_panic_hang_or_lose_a_packet(
        aqms in (extreme_aqm(), extreme_aqm()), mut gaps in prop::collection::vec((
            prop_oneof![8 => 0u64..10_000_000, 1 => 0u64..10_000_000_000_000_000],
            prop_oneof![8 => 1u64..1_500, 1 => Just(1_000_000_000u64)],
        ), 1..100), outage: bool,
    ) {
        let steps = vec![
            (Time::ZERO, Bitrate::from_mbps(1)),
            (Time::from_secs(1), if outage { Bitrate::ZERO } else { Bitrate::from_mbps(2) }),
            (Time::from_secs(100_000_000), Bitrate::from_mbps(1)),
        ];
        let config = |aqm| PathConfig {
            capacity: Some(Capacity::Steps { steps: steps.clone() }),
            aqm: Some(aqm),
            ..PathConfig::default()
        };
        let configs = [aqms.0, aqms.1].map(config);
        prop_assume!(configs.iter().all(|config| config.check().is_ok()));
        let mut at = Time::ZERO;
        let arrivals: Vec<_> = gaps.drain(..).map(|(gap, size)| {
            at += Time(gap);
            (at, Bytes(size))
        }).collect();
        let [first, second] = configs;
        let outs = run_with(first, Some((arrivals.len() / 2, second)), &arrivals);
        prop_assert_eq!(outs.len(), arrivals.len());
    }

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
    fn without_reordering_packets_of_a_flow_are_delivered_in_the_order_they_entered(
        config in config(false), arrivals in arrivals()
    ) {
        let has_queues = matches!(config.aqm, Some(Aqm::FqCodel(_) | Aqm::DualPi2(_)));
        let delivered: Vec<_> = run(config, &arrivals).into_iter().filter(|o| o.3).map(|o| o.1).collect();
        for flow in 0..FLOWS {
            let of_flow = delivered.iter().filter(|id| **id % FLOWS == flow);
            prop_assert!(of_flow.is_sorted());
        }
        prop_assert!(has_queues || delivered.is_sorted());
    }

    #[test]
    fn a_change_of_the_configuration_loses_no_packet_and_keeps_the_order_of_a_flow(
        configs in (config(false), config(false)), number in 0usize..200, arrivals in arrivals()
    ) {
        let departures = run_with(configs.0, Some((number, configs.1)), &arrivals);
        let outs: Vec<_> = departures.into_iter().map(out).collect();
        prop_assert!(outs.is_sorted_by_key(|out| out.0));
        let mut ids: Vec<_> = outs.iter().map(|out| out.1).collect();
        ids.sort_unstable();
        prop_assert_eq!(ids, (0..arrivals.len()).collect::<Vec<_>>());
        for flow in 0..FLOWS {
            let of_flow = outs.iter().filter(|out| out.3 && out.1 % FLOWS == flow);
            prop_assert!(of_flow.map(|out| out.1).is_sorted());
        }
    }

    #[test]
    fn a_change_to_the_same_configuration_changes_nothing(
        config in config(false), number in 0usize..200, arrivals in arrivals()
    ) {
        // A chain of losses begins anew. So does a Wi-Fi hop's share of a tick, and an opportunity in use is lost.
        let steady = matches!(config.capacity, None | Some(Capacity::Constant { .. } | Capacity::Steps { .. }));
        prop_assume!(steady);
        let config =
            PathConfig { loss: None, loss_steps: Vec::new(), wifi: None, tick_ns: None, ..config };
        let config = PathConfig { aqm: config.aqm.filter(|_| config.capacity.is_some()), ..config };
        let changed = run_with(config.clone(), Some((number, config.clone())), &arrivals);
        prop_assert_eq!(changed, run_with(config, None, &arrivals));
    }

    #[test]
    fn only_ecn_capable_packets_are_marked_and_only_by_a_discipline(
        config in config(true), arrivals in arrivals()
    ) {
        let (aqm, treatment) = (config.aqm, config.ecn);
        for departure in run_with(config, None, &arrivals) {
            let (packet, delivered) = match departure {
                Departure::Delivered { packet, .. } => (packet, true),
                Departure::Dropped { packet, cause, .. } => {
                    prop_assert!(cause != DropCause::Aqm || aqm.is_some());
                    (packet, false)
                }
            };
            let sent = Ecn::from_bits((packet.payload % FLOWS) as u8);
            let marked = packet.mark.map(|mark| mark.cause);
            let possible: &[MarkCause] = match (sent, aqm) {
                (Ecn::NotCapable, _) | (_, None) => &[],
                (_, Some(Aqm::Step(_))) => &[MarkCause::Threshold],
                (_, Some(Aqm::Pie(_))) => &[MarkCause::Classic],
                (_, Some(Aqm::Codel(_) | Aqm::FqCodel(_))) => &[MarkCause::Classic, MarkCause::Threshold],
                (Ecn::Ect0, Some(Aqm::DualPi2(_))) => &[MarkCause::Classic],
                (_, Some(Aqm::DualPi2(_))) => &[MarkCause::Threshold, MarkCause::Coupled],
            };
            prop_assert!(marked.is_none_or(|cause| possible.contains(&cause)), "{sent:?} {marked:?}");
            let behind = if marked.is_some() { Ecn::CongestionExperienced } else { sent };
            let expected = match (treatment, behind) {
                _ if !delivered => behind,
                (EcnTreatment::Bleach, _) => Ecn::NotCapable,
                (EcnTreatment::Mangle, Ecn::Ect0) => Ecn::Ect1,
                (EcnTreatment::Mangle, Ecn::Ect1) => Ecn::Ect0,
                _ => behind,
            };
            prop_assert_eq!(packet.ecn, expected);
        }
    }

    #[test]
    fn polls_at_any_times_change_nothing(
        config in config(false), polls in prop::collection::vec(0u64..2_000_000, 0..100), arrivals in arrivals()
    ) {
        let mut expected: Vec<_> = run(config.clone(), &arrivals);
        let mut path = Path::new(config, 1);
        let mut polls: Vec<_> = polls.into_iter().map(Time::from_micros).collect();
        polls.sort_unstable();
        let mut polls = polls.into_iter().peekable();
        let mut found = Vec::new();
        for (id, (at, size)) in arrivals.iter().enumerate() {
            while let Some(poll) = polls.next_if(|poll| poll <= at) {
                found.extend(path.poll(poll).map(out));
            }
            path.handle_packet(*at, packet(id, *size));
        }
        found.extend(std::iter::from_fn(|| path.poll(Time(u64::MAX / 2))).map(out));
        // Of a drop and an arrival at one moment, either may come first.
        found.sort_by_key(|o| (o.0, o.1));
        expected.sort_by_key(|o| (o.0, o.1));
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn more_load_lowers_neither_delay_nor_loss_of_drop_tail(
        kbps in 100u64..10_000, size in 100u64..1500, load in (0.1..3.0f64, 1.0..3.0f64), packets in 0u64..50,
    ) {
        // Packets of one size at equal distances for 2 s. The last ones are measured, when the queue has grown.
        let bps = Bitrate::from_kbps(kbps);
        let service = bps.time_for(Bytes(size)).expect("a rate").as_secs_f64();
        let measure = |load: f64| {
            let count = (2.0 * load / service) as usize;
            let gap = Time::from_secs_f64(service / load);
            let arrivals: Vec<_> = (0..count).map(|id| (gap * id as u64, Bytes(size))).collect();
            let config = PathConfig { queue: Some(QueueLimit::Packets(packets)), ..constant(bps) };
            let out = run(config, &arrivals);
            let lost = out.iter().filter(|o| !o.3).count() as f64 / count.max(1) as f64;
            let delays = out.iter().filter(|o| o.3).map(|o| (o.0 - arrivals[o.1].0).as_secs_f64());
            let longest = delays.fold(0.0, f64::max);
            (lost, longest, 1.0 / count.max(1) as f64)
        };
        let (less, more) = (measure(load.0), measure(load.0 * load.1));
        prop_assert!(more.0 >= less.0 - less.2 - more.2, "{less:?} {more:?}");
        // When a packet leaves and another one comes, a queue that is full most of the time has a place for part of a
        // service more or less.
        prop_assert!(more.1 >= less.1 - service, "{less:?} {more:?}");
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
            path.handle_packet(*at, packet(id, *size));
        }
        let mut late: Vec<_> = std::iter::from_fn(|| path.poll(Time(u64::MAX / 2))).map(out).collect();
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
            path.handle_packet(*at, packet(id, *size));
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
            path.handle_packet(*at, packet(id, *size));
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
