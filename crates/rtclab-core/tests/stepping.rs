//! Runs that are stepped, changed in the middle, and decided from outside.

use crate::support::{LINK, Two, call, with_own};
use proptest::prelude::*;
use rtclab_core::catalogue::{Algorithm, Catalogue};
use rtclab_core::cc::{Decision, External, Fixed};
use rtclab_core::path::{Capacity, Delay, PathConfig};
use rtclab_core::record::{Column, Table};
use rtclab_core::sim::{
    Executor, Job, Sequential, SimConfig, SimError, SimResult, Simulation, simulate,
    simulate_captured, simulate_with,
};
use rtclab_core::stack::StackProfile;
use rtclab_core::units::{Bitrate, Time};
use std::cell::Cell;

/// NaN differs from itself, so printed tables are compared.
fn printed(result: &SimResult) -> String {
    format!("{:?}", result.tables)
}

fn table<'a>(result: &'a SimResult, name: &str) -> &'a Table {
    result.tables.iter().find(|table| table.name == name).expect("the table")
}

fn rows(result: &SimResult, name: &str) -> usize {
    match &table(result, name).columns[0].1 {
        Column::Int(values) => values.len(),
        Column::Float(values) => values.len(),
        Column::Text(codes) => codes.len(),
    }
}

/// A call of 4 s with loss, so that packets are sent again.
fn lossy() -> SimConfig {
    let up = format!(r#"{LINK}, "loss": {{"p": 0.02, "r": 0.5, "h": 0.0, "k": 1.0}}"#);
    call(&up, 4, 1)
}

/// A call of 4 s with delays on all paths, so that deliveries are known ahead. Ties between packets of both sides are
/// frequent: `chrome-27` sends without pacing, and both sides begin at the same time.
fn delayed(stack: &str, seed: u64) -> SimConfig {
    let mut config = call(LINK, 4, seed);
    for path in &mut config.network.paths {
        path.delay = Delay::Constant { ns: Time::from_millis(10) };
    }
    config.participants.iter_mut().for_each(|own| own.stack = Some(stack.to_owned()));
    config
}

/// With a capture, a run goes event after event.
#[test]
fn two_threads_have_the_same_bytes_as_one_and_as_a_run_event_after_event() {
    for (stack, seed) in [("chrome-27", 1), ("chrome-52", 2), ("chrome-156", 3)] {
        let config = delayed(stack, seed);
        let (event_after_event, _) = simulate_captured(&config).expect("a run");
        let mut simulation = Simulation::new(&config, Catalogue::ours()).expect("a run");
        simulation.advance_with(config.duration_ns, &Two).expect("a run");
        assert!(printed(&simulation.finish()) == printed(&event_after_event), "{stack}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Steps of any length, some of them on two threads.
    #[test]
    fn a_run_has_the_same_bytes_whatever_the_threads_of_its_steps(
        mut steps in prop::collection::vec((0u64..4_000_000_000, any::<bool>()), 0..20)
    ) {
        let config = delayed("chrome-156", 1);
        let whole = printed(&simulate(&config).expect("a run"));
        let mut simulation = Simulation::new(&config, Catalogue::ours()).expect("a run");
        steps.sort_unstable();
        for (time, on_two) in steps {
            let executor: &dyn Executor = if on_two { &Two } else { &Sequential };
            simulation.advance_with(Time(time), executor).expect("a step");
        }
        simulation.advance_with(config.duration_ns, &Two).expect("the last step");
        prop_assert!(printed(&simulation.finish()) == whole);
    }

    /// Steps of any length, each with or without a delay on some paths, in windows where that is possible.
    #[test]
    fn a_run_has_the_same_bytes_whatever_delays_come_and_go(
        mut steps in prop::collection::vec((0u64..4_000, 0usize..4), 1..8)
    ) {
        let config = delayed("chrome-27", 1);
        steps.sort_unstable();
        let without = [None, Some("bob.down"), Some("alice"), Some("")];
        let mut steps: Vec<_> = steps.into_iter().map(|(ms, which)| (ms, without[which])).collect();
        steps.push((4_000, None));
        let counted = Counted::default();
        let (tables, windows) = with_and_without_delay(&config, &steps, &counted, false);
        let (one_by_one, _) = with_and_without_delay(&config, &steps, &counted, true);
        prop_assert!(tables == one_by_one);
        prop_assert!(windows.iter().zip(&steps).all(|(many, (_, none))| none.is_none() || *many == 0));
    }

    /// Steps of any length, zero included, and looks at the tables in between.
    #[test]
    fn a_run_has_the_same_bytes_whatever_its_steps(
        mut times in prop::collection::vec(0u64..4_000_000_000, 0..40)
    ) {
        let config = lossy();
        let whole = printed(&simulate(&config).expect("a run"));
        let mut simulation = Simulation::new(&config, Catalogue::ours()).expect("a run");
        times.sort_unstable();
        for time in times {
            simulation.advance(Time(time)).expect("a step");
            prop_assert_eq!(simulation.now(), Time(time));
            simulation.result();
        }
        simulation.advance(config.duration_ns).expect("the last step");
        prop_assert!(printed(&simulation.result()) == whole);
        prop_assert!(printed(&simulation.finish()) == whole);
    }
}

#[test]
fn the_tables_of_a_step_are_those_of_a_shorter_run() {
    let config = lossy();
    let mut simulation = Simulation::new(&config, Catalogue::ours()).expect("a run");
    simulation.advance(Time::from_secs(2)).expect("a step");
    let shorter = SimConfig { duration_ns: Time::from_secs(2), ..config };
    assert_eq!(printed(&simulation.result()), printed(&simulate(&shorter).expect("a run")));
}

#[test]
fn a_run_advances_neither_into_the_past_nor_beyond_its_end() {
    let mut simulation = Simulation::new(&lossy(), Catalogue::ours()).expect("a run");
    simulation.advance(Time::from_secs(3)).expect("a step");
    let before = printed(&simulation.result());
    for (until, text) in [
        (2, "the run cannot advance to 2.000000 s; expected 3.000000 s to its end at 4.000000 s"),
        (5, "the run cannot advance to 5.000000 s; expected 3.000000 s to its end at 4.000000 s"),
    ] {
        let error = simulation.advance(Time::from_secs(until)).expect_err("an error");
        assert_eq!(error.to_string(), text);
    }
    // It goes on as if nobody had asked.
    assert_eq!(printed(&simulation.result()), before);
    simulation.advance(Time::from_secs(4)).expect("the last step");
}

/// A change in the middle of a run is the same as one that the scenario foresees.
#[test]
fn a_path_that_is_changed_at_two_seconds_acts_as_one_that_changes_by_itself() {
    let constant = |bps| Capacity::Constant { bps: Bitrate(bps) };
    let mut config = call(LINK, 4, 1);
    let mut simulation = Simulation::new(&config, Catalogue::ours()).expect("a run");
    simulation.advance(Time::from_secs(2)).expect("a step");
    let path = simulation.path("alice.up").expect("a path").clone();
    assert_eq!(path.capacity, Some(constant(1_000_000)));
    simulation
        .set_path(PathConfig { capacity: Some(constant(400_000)), ..path })
        .expect("a change");
    simulation.advance(Time::from_secs(4)).expect("a step");
    let at_zero = printed(&simulate(&config).expect("a run"));
    let steps = vec![(Time::ZERO, Bitrate(1_000_000)), (Time::from_secs(2), Bitrate(400_000))];
    let up = config.network.paths.iter_mut().find(|path| path.name == "alice.up");
    up.expect("a path").capacity = Some(Capacity::Steps { steps });
    let foreseen = printed(&simulate(&config).expect("a run"));
    assert_eq!(printed(&simulation.finish()), foreseen);
    assert_ne!(foreseen, at_zero);
}

/// Two threads that count how often they are given jobs: once a window.
#[derive(Default)]
struct Counted(Cell<usize>);

impl Executor for Counted {
    fn threads(&self) -> usize {
        2
    }

    fn run_all(&self, jobs: Vec<Job<'_>>) {
        self.0.set(self.0.get() + 1);
        Two.run_all(jobs);
    }
}

/// A run of which some steps have no delay on one path or on all; returns its tables and the windows of each step.
fn with_and_without_delay(
    config: &SimConfig,
    steps: &[(u64, Option<&str>)],
    executor: &Counted,
    sequential: bool,
) -> (String, Vec<usize>) {
    let mut simulation = Simulation::new(config, Catalogue::ours()).expect("a run");
    let mut windows = Vec::new();
    for (until_ms, without_delay) in steps {
        for path in &config.network.paths {
            let none = without_delay.is_some_and(|name| path.name.starts_with(name));
            let ns = if none { Time::ZERO } else { Time::from_millis(10) };
            let path = PathConfig { delay: Delay::Constant { ns }, ..path.clone() };
            simulation.set_path(path).expect("a change");
        }
        let before = executor.0.get();
        let with: &dyn Executor = if sequential { &Sequential } else { executor };
        simulation.advance_with(Time::from_millis(*until_ms), with).expect("a step");
        windows.push(executor.0.get() - before);
    }
    (printed(&simulation.finish()), windows)
}

/// Four seconds of windows of 5 ms, of which one second has no delay on a path, or on all.
#[test]
fn windows_are_taken_up_again_when_the_delay_of_a_path_returns_with_the_same_bytes() {
    for (stack, seed) in [("chrome-27", 1), ("chrome-52", 2), ("chrome-156", 3)] {
        let config = delayed(stack, seed);
        for without in ["bob.down", "alice", ""] {
            let steps = [(1_003, None), (2_011, Some(without)), (3_100, None), (4_000, None)];
            let counted = Counted::default();
            let (tables, windows) = with_and_without_delay(&config, &steps, &counted, false);
            let (one_by_one, none) = with_and_without_delay(&config, &steps, &counted, true);
            assert!(tables == one_by_one, "{stack} {without}");
            assert_eq!((windows[1], none), (0, vec![0; 4]), "{stack} {without}");
            let [first, _, third, fourth] = windows[..] else { panic!("{windows:?}") };
            assert_eq!([first, third, fourth], [201, 218, 180], "{stack} {without}");
        }
    }
}

#[test]
fn a_change_that_is_impossible_changes_nothing() {
    let mut simulation = Simulation::new(&lossy(), Catalogue::ours()).expect("a run");
    let unknown = PathConfig { name: "carol.up".to_owned(), ..PathConfig::default() };
    let error = simulation.set_path(unknown).expect_err("an error").to_string();
    assert!(error.starts_with("no path `carol.up`; expected one of `alice.up`, "), "{error}");
    let path = simulation.path("alice.up").expect("a path").clone();
    let wrong = PathConfig { tick_ns: Some(Time::ZERO), ..path.clone() };
    let error = simulation.set_path(wrong).expect_err("an error").to_string();
    assert!(error.starts_with("alice.up.tick_ns: "), "{error}");
    assert_eq!(simulation.path("alice.up").map(|path| path.tick_ns), Some(path.tick_ns));
}

/// A call of 4 s in which both participants' controls ask for decisions.
fn external(interval: Time, seed: u64) -> (SimConfig, Catalogue) {
    let mut config = call(LINK, 4, seed);
    config.participants.iter_mut().for_each(|own| own.congestion_control.name = "own".to_owned());
    let create = move |bounds| -> rtclab_core::cc::Halves {
        (Box::new(External::new(bounds, interval)), None)
    };
    (config, with_own("chrome-156", create))
}

/// Runs to the end and answers every request; returns how many there were.
fn answer_all(simulation: &mut Simulation, decide: impl Fn(Time) -> Decision) -> usize {
    let mut count = 0;
    while simulation.now() < simulation.duration() || !simulation.requests().is_empty() {
        simulation.advance(simulation.duration()).expect("a step");
        let now = simulation.now();
        let ends: Vec<u32> = simulation.requests().iter().map(|request| request.end).collect();
        count += ends.len();
        ends.into_iter().for_each(|end| simulation.decide(end, decide(now)).expect("an answer"));
    }
    count
}

/// The rate is the start rate, which is what the control sends at until it is answered.
#[test]
fn a_control_outside_that_always_answers_the_same_sends_what_a_fixed_control_sends() {
    let rate = Bitrate::from_kbps(300);
    let (config, catalogue) = external(Time::ZERO, 1);
    let mut simulation = Simulation::new(&config, &catalogue).expect("a run");
    let count = answer_all(&mut simulation, |_| Decision::at(rate));
    // Feedback comes at most every 50 ms in each direction of some 3.5 s, and once at the beginning of media.
    assert!((60..=2 * 72).contains(&count), "{count}");
    let fixed = with_own("chrome-156", move |_| (Box::new(Fixed::new(rate)), None));
    let fixed = simulate_with(&config, &fixed).expect("a run");
    let outside = simulation.finish();
    for name in ["packets", "frames", "inbound_rtp"] {
        let [a, b] = [&outside, &fixed].map(|result| format!("{:?}", table(result, name)));
        assert!(a == b, "{name}");
    }
}

#[test]
fn a_request_has_what_the_sender_has_seen_since_the_last_one() {
    let (config, catalogue) = external(Time::from_millis(100), 1);
    let mut simulation = Simulation::new(&config, &catalogue).expect("a run");
    let (mut sent, mut reported, mut last) = (Vec::new(), Vec::new(), Time::ZERO);
    while simulation.now() < simulation.duration() || !simulation.requests().is_empty() {
        simulation.advance(simulation.duration()).expect("a step");
        for pending in simulation.requests().to_vec() {
            let request = pending.request;
            assert_eq!(request.at, simulation.now());
            if pending.participant == "alice" {
                assert_eq!(pending.flow, "alice->bob");
                assert!(last == Time::ZERO || request.at - last == Time::from_millis(100));
                last = request.at;
                let column =
                    |table: usize, column: usize| match &request.tables[table].columns[column] {
                        (_, Column::Int(values)) => values.clone(),
                        other => panic!("{other:?}"),
                    };
                sent.extend(column(0, 1));
                reported.extend(column(1, 1));
            }
            simulation.decide(pending.end, request.decision).expect("an answer");
        }
    }
    // Every packet once, in order, numbered from 0; reports are on packets that were sent.
    assert!(sent.len() > 100, "{}", sent.len());
    assert_eq!(sent, (0..sent.len() as i64).collect::<Vec<_>>());
    assert!(reported.len() > sent.len() / 2, "{}", reported.len());
    assert!(reported.iter().all(|seq| *seq < sent.len() as i64));
    let result = simulation.finish();
    assert!(rows(&result, "packets") > 2 * 100);
}

#[test]
fn many_runs_in_lockstep_are_what_each_is_alone() {
    let decide = |at: Time| Decision::at(Bitrate::from_kbps(300 + at.as_millis() / 10));
    let alone = |seed| {
        let (config, catalogue) = external(Time::from_millis(50), seed);
        let mut simulation = Simulation::new(&config, &catalogue).expect("a run");
        answer_all(&mut simulation, decide);
        printed(&simulation.finish())
    };
    let mut runs: Vec<Simulation> = (1..=4)
        .map(|seed| {
            let (config, catalogue) = external(Time::from_millis(50), seed);
            Simulation::new(&config, &catalogue).expect("a run")
        })
        .collect();
    let end = runs[0].duration();
    while runs.iter().any(|run| run.now() < end || !run.requests().is_empty()) {
        for run in &mut runs {
            run.advance(end).expect("a step");
        }
        // One call outside would decide for all of these at once.
        for run in &mut runs {
            let now = run.now();
            for pending in run.requests().to_vec() {
                run.decide(pending.end, decide(now)).expect("an answer");
            }
        }
    }
    for (seed, run) in (1..).zip(runs) {
        assert!(printed(&run.finish()) == alone(seed), "{seed}");
    }
}

#[test]
fn a_request_is_answered_once_and_before_the_run_goes_on() {
    let (config, catalogue) = external(Time::from_millis(50), 1);
    let mut simulation = Simulation::new(&config, &catalogue).expect("a run");
    simulation.advance(config.duration_ns).expect("a step");
    let ends: Vec<u32> = simulation.requests().iter().map(|request| request.end).collect();
    let error = simulation.advance(config.duration_ns).expect_err("an error");
    assert!(matches!(error, SimError::Undecided { .. }));
    assert!(error.to_string().starts_with("congestion control `own` of "), "{error}");
    let decision = Decision::at(Bitrate::from_kbps(500));
    simulation.decide(ends[0], decision).expect("an answer");
    let error = simulation.decide(ends[0], decision).expect_err("an error").to_string();
    assert!(error.starts_with(&format!("end {} has not asked for a decision", ends[0])), "{error}");
    // Nobody answers in a run in one go.
    let error = simulate_with(&config, &catalogue).err().expect("an error");
    assert!(matches!(error, SimError::Undecided { .. }), "{error}");
}

#[test]
fn an_answer_that_no_sender_can_follow_ends_the_run_by_name() {
    let (config, catalogue) = external(Time::from_millis(50), 1);
    let mut simulation = Simulation::new(&config, &catalogue).expect("a run");
    simulation.advance(config.duration_ns).expect("a step");
    let end = simulation.requests()[0].end;
    let decision = Decision { drop_ratio: f64::NAN, ..Decision::at(Bitrate::from_kbps(500)) };
    let error = simulation.decide(end, decision).expect_err("an error").to_string();
    assert!(error.ends_with("s: drop_ratio is NaN; expected 0 to 1"), "{error}");
    assert_eq!(simulation.advance(config.duration_ns).expect_err("again").to_string(), error);
}

/// A control that never asks is never given a decision.
#[test]
fn only_controls_that_ask_are_answered() {
    let mut catalogue = Catalogue::ours().clone();
    let stack = StackProfile::named("chrome-156").expect("a profile");
    let quiet = Algorithm::new("own", stack, |bounds, _| (Box::new(Fixed::new(bounds.max)), None));
    catalogue.add(quiet).expect("a new name");
    let mut simulation = Simulation::new(&lossy(), &catalogue).expect("a run");
    simulation.advance(Time::from_secs(1)).expect("a step");
    let error = simulation.decide(0, Decision::at(Bitrate(1))).expect_err("an error").to_string();
    assert_eq!(error, "end 0 has not asked for a decision; expected one of []");
}
