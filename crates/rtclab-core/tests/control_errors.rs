//! A caller's congestion control that fails.

use rtclab_core::cc::{
    self, ControlError, Controller, Decision, Estimator, Feedback, Fixed, Halves, Probe,
    ReceivedPacket, SenderState,
};
use rtclab_core::sim::{SimError, simulate, simulate_with};
use rtclab_core::units::{Bitrate, Bytes, Time};
use support::{LINK, call};

mod support;

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

/// Bob's congestion control is named `fixed`; alice's is unchanged.
#[test]
fn a_run_ends_with_the_error_of_a_congestion_control_and_says_whose_it_was_and_when() {
    let mut config = call(LINK, 5, 1);
    config.participants[1].congestion_control.name = "fixed".to_owned();
    let result = simulate_with(&config, &|config, bounds| match config.name.as_str() {
        "fixed" => Ok((Box::new(Failing), None)),
        _ => cc::create(config, bounds),
    });
    let error = result.err().expect("an error");
    assert_eq!(
        error.to_string(),
        "congestion control `fixed` of bob on bob->alice failed at 2.500000 s: division by zero"
    );
    assert_eq!(
        error,
        SimError::Control {
            at: END,
            what: "congestion control `fixed` of bob on bob->alice".to_owned(),
            error: ControlError("division by zero".to_owned()),
        }
    );
}

#[test]
fn a_run_that_ends_before_its_congestion_control_fails_has_no_error() {
    let mut config = call(LINK, 5, 1);
    config.duration_ns = END - Time(1);
    assert!(simulate_with(&config, &|_, _| Ok((Box::new(Failing), None))).is_ok());
    config.duration_ns = END;
    assert!(simulate_with(&config, &|_, _| Ok((Box::new(Failing), None))).is_err());
}

/// The congestion control that the caller creates for a name is the one that runs.
#[test]
fn a_callers_congestion_control_replaces_the_one_in_the_table() {
    let mut config = call(LINK, 5, 1);
    let with = |rate: u64| {
        let create = move |_: &_, _| -> Result<cc::Halves, cc::ConfigError> {
            Ok((Box::new(Fixed::new(Bitrate::from_kbps(rate))), None))
        };
        simulate_with(&config, &create).expect("a run").tables
    };
    // NaN differs from itself, so printed tables are compared.
    let [slow, fast] = [with(300), with(600)].map(|tables| format!("{tables:?}"));
    assert_ne!(slow, fast);
    for participant in &mut config.participants {
        participant.congestion_control.name = "fixed".to_owned();
        participant.stack = Some("chrome-156".to_owned());
        participant.video.as_mut().expect("video").max_bps = Bitrate::from_kbps(600);
    }
    // `fixed` of the table sends at the encoder's maximum.
    let table = simulate(&config).expect("a run").tables;
    let create = |_: &_, _| -> Result<cc::Halves, cc::ConfigError> {
        Ok((Box::new(Fixed::new(Bitrate::from_kbps(600))), None))
    };
    let own = simulate_with(&config, &create).expect("a run").tables;
    assert_eq!(format!("{table:?}"), format!("{own:?}"));
}

/// The error of a call in which bob's congestion control has these halves.
fn error_of(halves: impl Fn() -> Halves) -> String {
    let mut config = call(LINK, 5, 1);
    config.participants[1].congestion_control.name = "fixed".to_owned();
    let result = simulate_with(&config, &|config, bounds| match config.name.as_str() {
        "fixed" => Ok(halves()),
        _ => cc::create(config, bounds),
    });
    result.err().expect("an error").to_string()
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
    let error = error_of(|| (Box::new(Stubborn { timeout, ..CALM }), None));
    assert_eq!(
        error,
        "congestion control `fixed` of bob on bob->alice failed at 2.000000 s: it stands still: called 1000 times \
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
    type Create = Box<dyn Fn() -> Halves>;
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
            who.starts_with("congestion control `fixed` of bob on bob->alice failed at "),
            "{who}"
        );
        assert_eq!(what, expected);
    }
}

#[test]
fn rates_and_bursts_without_limit_are_no_error() {
    for stack in ["chrome-27", "chrome-52", "chrome-156"] {
        let mut config = call(LINK, 3, 1);
        config.participants.iter_mut().for_each(|own| own.stack = Some(stack.to_owned()));
        let decision = Decision {
            target: Bitrate(u64::MAX),
            pacing_rate: Some(Bitrate(u64::MAX)),
            pacing_burst: Some(Time::MAX),
            window: Some(Bytes(u64::MAX)),
            ..CALM.decision
        };
        let run =
            simulate_with(&config, &|_, _| Ok((Box::new(Stubborn { decision, ..CALM }), None)));
        assert!(run.is_ok(), "{stack}");
    }
}

#[test]
fn an_end_that_sends_nothing_is_no_error_with_any_control() {
    for algorithm in &cc::ALGORITHMS {
        let mut config = call(LINK, 3, 1);
        config.participants[1].video = None;
        for participant in &mut config.participants {
            participant.congestion_control.name = algorithm.name.to_owned();
        }
        assert_eq!(simulate(&config).err(), None, "{}", algorithm.name);
    }
}
