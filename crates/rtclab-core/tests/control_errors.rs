//! A caller's congestion control that fails.

use crate::support::{LINK, call, with_own};
use rtclab_core::catalogue::{Algorithm, Catalogue};
use rtclab_core::cc::{
    ControlError, Controller, Decision, Estimator, Feedback, Halves, Observation, Probe,
    ReceivedPacket, SenderState,
};
use rtclab_core::record::Column;
use rtclab_core::sim::{SimConfig, SimError, Simulation, simulate, simulate_with};
use rtclab_core::stack::StackProfile;
use rtclab_core::units::{Bitrate, Bytes, Time};

/// When it fails.
const END: Time = Time::from_millis(2_500);

struct Failing;

impl Controller for Failing {
    fn on_feedback(&mut self, _now: Time, _feedback: Feedback<'_>) -> Result<(), ControlError> {
        Ok(())
    }
    fn on_timeout(&mut self, now: Time, _sender: &SenderState) -> Result<(), ControlError> {
        match now >= END {
            true => Err(ControlError("division by zero".to_owned())),
            false => Ok(()),
        }
    }
    fn poll_timeout(&self) -> Option<Time> {
        Some(END)
    }
    fn decision(&self) -> Decision {
        Decision::at(Bitrate::from_kbps(500))
    }
}

/// A call in which bob's congestion control is the caller's `own`; alice's is unchanged.
fn call_with_own(seconds: u64) -> SimConfig {
    let mut config = call(LINK, seconds, 1);
    config.participants[1].congestion_control.name = "own".to_owned();
    config
}

#[test]
fn a_run_ends_with_the_error_of_a_congestion_control_and_says_whose_it_was_and_when() {
    let catalogue = with_own("chrome-156", |_| (Box::new(Failing), None));
    let error = simulate_with(&call_with_own(5), &catalogue).err().expect("an error");
    assert_eq!(
        error.to_string(),
        "congestion control `own` of bob on bob->alice failed at 2.500000 s: division by zero"
    );
    assert_eq!(
        error,
        SimError::Control {
            at: END,
            what: "congestion control `own` of bob on bob->alice".to_owned(),
            error: ControlError("division by zero".to_owned()),
        }
    );
}

#[test]
fn a_run_that_ends_before_its_congestion_control_fails_has_no_error() {
    let catalogue = with_own("chrome-156", |_| (Box::new(Failing), None));
    let mut config = call_with_own(5);
    config.duration_ns = END - Time(1);
    assert!(simulate_with(&config, &catalogue).is_ok());
    config.duration_ns = END;
    assert!(simulate_with(&config, &catalogue).is_err());
}

/// A second of packets is about 100 rows, and bob's control fails after 2.5 s.
#[test]
fn what_was_recorded_before_a_failure_can_be_read() {
    let catalogue = with_own("chrome-156", |_| (Box::new(Failing), None));
    let mut simulation = Simulation::new(&call_with_own(5), &catalogue).expect("a run");
    let error = simulation.advance(Time::from_secs(5)).expect_err("a failure");
    assert_eq!(simulation.now(), END);
    let tables = simulation.result().tables;
    let packets = tables.iter().find(|table| table.name == "packets").expect("packets");
    let [(_, Column::Int(sent)), ..] = packets.columns.as_slice() else { panic!("times") };
    assert!(sent.len() > 200, "{}", sent.len());
    assert!(sent.iter().all(|at| *at <= END.0 as i64));
    // It has ended: it cannot go on, and says why again.
    assert_eq!(simulation.advance(Time::from_secs(5)), Err(error));
}

/// The error of a call in which bob's congestion control has these halves.
fn error_of(halves: impl Fn() -> Halves + Send + Sync + 'static) -> String {
    let catalogue = with_own("chrome-156", move |_| halves());
    simulate_with(&call_with_own(5), &catalogue).err().expect("an error").to_string()
}

#[test]
fn a_control_that_panics_ends_the_run_by_name() {
    struct Panicking(&'static str);
    impl Controller for Panicking {
        fn on_feedback(&mut self, _now: Time, _feedback: Feedback<'_>) -> Result<(), ControlError> {
            assert!(self.0 != "on_feedback", "of feedback");
            Ok(())
        }
        fn on_media_limit(&mut self, _now: Time, _max: Bitrate) {
            assert!(self.0 != "on_media_limit", "of a limit");
        }
        fn on_timeout(&mut self, now: Time, _sender: &SenderState) -> Result<(), ControlError> {
            assert!(self.0 != "on_timeout" || now < END, "of a timeout");
            Ok(())
        }
        fn poll_timeout(&self) -> Option<Time> {
            (self.0 == "on_timeout").then_some(END)
        }
        fn decision(&self) -> Decision {
            Decision::at(Bitrate::from_kbps(500))
        }
        fn observe(&self, _out: &mut Vec<Observation>) {
            assert!(self.0 != "observe", "of an observation");
        }
    }
    let failure = |method| error_of(move || (Box::new(Panicking(method)), None));
    let who = "congestion control `own` of bob on bob->alice failed at ";
    assert_eq!(failure("on_timeout"), format!("{who}2.500000 s: it panicked: of a timeout"));
    for (method, what) in [("on_feedback", "of feedback"), ("observe", "of an observation")] {
        let error = failure(method);
        assert!(error.starts_with(who), "{error}");
        assert!(error.ends_with(&format!("s: it panicked: {what}")), "{error}");
    }
    let catalogue = with_own("chrome-156", |_| panic!("no memory"));
    let error = simulate_with(&call_with_own(5), &catalogue).err().expect("an error");
    assert_eq!(
        error.to_string(),
        "congestion_control.name: `own` panicked when it was created: no memory"
    );
}

#[test]
fn a_catalogue_has_each_name_once() {
    let stack = StackProfile::named("chrome-156").expect("a profile");
    let mut catalogue = Catalogue::ours().clone();
    let control = |name, stack| Algorithm::new(name, stack, |_, _| (Box::new(Failing), None));
    let twice = catalogue.add(control("goog-cc", stack)).expect_err("an error");
    assert!(twice.to_string().starts_with("the catalogue has a congestion control `goog-cc`"));
    let other = Box::leak(Box::new(StackProfile { plays_audio: false, ..*stack }));
    let twice = catalogue.add(control("own", other)).expect_err("an error");
    assert!(twice.to_string().starts_with("the catalogue has another stack profile `chrome-156`"));
    assert_eq!(catalogue.add(control("own", stack)), Ok(()));
}

/// A control that always decides the same, and wants a call at the same time and these probes for ever.
#[derive(Clone)]
struct Stubborn {
    timeout: Option<Time>,
    decision: Decision,
    probe: Option<Probe>,
}

const CALM: Stubborn =
    Stubborn { timeout: None, decision: Decision::at(Bitrate::from_kbps(500)), probe: None };

impl Controller for Stubborn {
    fn on_feedback(&mut self, _now: Time, _feedback: Feedback<'_>) -> Result<(), ControlError> {
        Ok(())
    }
    fn poll_timeout(&self) -> Option<Time> {
        self.timeout
    }
    fn poll_probe(&mut self) -> Option<Probe> {
        self.probe
    }
    fn decision(&self) -> Decision {
        self.decision
    }
}

#[test]
fn a_control_that_never_advances_ends_the_run_by_name() {
    let timeout = Some(Time::from_secs(2));
    let error = error_of(move || (Box::new(Stubborn { timeout, ..CALM }), None));
    assert_eq!(
        error,
        "congestion control `own` of bob on bob->alice failed at 2.000000 s: it stands still: called 1000 times \
         now, it wants the next call at 2.000000 s"
    );
    // A promise that was never kept: from the beginning of media on.
    let error = error_of(|| (Box::new(Stubborn { timeout: Some(Time::ZERO), ..CALM }), None));
    assert!(error.ends_with("it wants the next call at 0.000000 s"), "{error}");
}

/// Bob's control estimates what alice receives.
#[test]
fn an_estimator_that_never_advances_ends_the_run_by_name() {
    struct Standing;
    impl Estimator for Standing {
        fn on_packet(&mut self, _packet: &ReceivedPacket) -> Result<(), ControlError> {
            Ok(())
        }
        fn poll_timeout(&self) -> Option<Time> {
            Some(Time::from_secs(3))
        }
        fn poll_remb(&mut self) -> Option<Bitrate> {
            None
        }
    }
    let error = error_of(|| (Box::new(CALM), Some(Box::new(Standing))));
    assert!(error.contains("failed at 3.000000 s: it stands still"), "{error}");
}

#[test]
fn a_decision_or_probe_that_no_sender_can_follow_ends_the_run_by_name() {
    let decided = |decision| move || -> Halves { (Box::new(Stubborn { decision, ..CALM }), None) };
    let with_drop = |drop_ratio| Decision { drop_ratio, ..CALM.decision };
    let probe = Probe {
        id: 7,
        rate: Bitrate::from_kbps(900),
        min_packets: 5,
        min_bytes: Bytes(1_687),
        min_spacing: Time::from_millis(2),
    };
    let probing =
        |probe| move || -> Halves { (Box::new(Stubborn { probe: Some(probe), ..CALM }), None) };
    let padding_rate = Bitrate(u64::MAX);
    type Create = Box<dyn Fn() -> Halves + Send + Sync>;
    let cases: [(Create, &str); 6] = [
        (Box::new(decided(with_drop(f64::NAN))), "drop_ratio is NaN; expected 0 to 1"),
        (Box::new(decided(with_drop(1.1))), "drop_ratio is 1.1; expected 0 to 1"),
        (
            Box::new(decided(Decision { padding_rate, ..CALM.decision })),
            "padding_rate is 18446744073709551615 bit/s; expected at most 100000000000 bit/s",
        ),
        (
            Box::new(probing(Probe { rate: Bitrate::ZERO, ..probe })),
            "probe 7 has 0 bit/s; expected 1 to 100000000000",
        ),
        (
            Box::new(probing(Probe { min_spacing: Time::from_secs(1_000), ..probe })),
            "probe 7 has bursts of 112500000 B; expected at most 12500000 B",
        ),
        (Box::new(probing(probe)), "more than 100 probes at once; the last one is 7"),
    ];
    for (halves, expected) in cases {
        let error = error_of(halves);
        let (who, what) = error.split_once(" s: ").expect("a time");
        assert!(
            who.starts_with("congestion control `own` of bob on bob->alice failed at "),
            "{who}"
        );
        assert_eq!(what, expected);
    }
}

#[test]
fn rates_and_bursts_without_limit_are_no_error() {
    for stack in ["chrome-27", "chrome-52", "chrome-156"] {
        let mut config = call_with_own(3);
        config.participants.iter_mut().for_each(|own| own.stack = Some(stack.to_owned()));
        let decision = Decision {
            target: Bitrate(u64::MAX),
            pacing_rate: Some(Bitrate(u64::MAX)),
            pacing_burst: Some(Time::MAX),
            window: Some(Bytes(u64::MAX)),
            ..CALM.decision
        };
        let catalogue = with_own(stack, move |_| (Box::new(Stubborn { decision, ..CALM }), None));
        assert_eq!(simulate_with(&config, &catalogue).err(), None, "{stack}");
    }
}

#[test]
fn an_end_that_sends_nothing_is_no_error_with_any_control() {
    for algorithm in Catalogue::ours().algorithms() {
        let mut config = call(LINK, 3, 1);
        config.participants[1].video = None;
        for participant in &mut config.participants {
            participant.congestion_control.name = algorithm.name.to_string();
        }
        assert_eq!(simulate(&config).err(), None, "{}", algorithm.name);
    }
}
