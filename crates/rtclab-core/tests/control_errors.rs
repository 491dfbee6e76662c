//! A caller's congestion control that fails.

use rtclab_core::cc::{self, ControlError, Controller, Decision, Feedback, Fixed, SenderState};
use rtclab_core::sim::{SimError, simulate, simulate_with};
use rtclab_core::units::{Bitrate, Time};
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
