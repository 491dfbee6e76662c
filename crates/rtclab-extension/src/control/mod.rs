//! Congestion controls that are Python classes.
//!
//! The instance of a class is made for each sender. Its methods are looked up once. Values are in seconds, bit/s and
//! bytes. The lock of Python is held for the whole run, so runs on several threads need processes of their own
//! (`python/rtclab/own_controls`).

mod values;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use rtclab_core::catalogue::{Algorithm, Catalogue};
use rtclab_core::cc::{
    self, ControlError, Controller, Estimator, FeedbackMeter, Halves, Observation,
};
use rtclab_core::rtp::Unwrapper;
use rtclab_core::units::{Bitrate, Time};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use values::{MAX_RATE, number};

pub(crate) use values::{
    Bounds, Decision, Feedback, Probe, ReceivedPacket, Report, ReportedPacket, Sender, SentPacket,
};

/// Calls of Python methods in this process so far.
static CALLS: AtomicU64 = AtomicU64::new(0);
/// The number of the call that runs now; 0 if none does.
static RUNNING: AtomicU64 = AtomicU64::new(0);
/// What a process says that aborts because a method does not return.
const STUCK: &str = "a method did not return";

/// How often methods of controls were called in this process.
///
/// Who watches a process can tell by it whether one call takes long or many calls are made.
#[pyfunction]
pub(crate) fn control_calls() -> u64 {
    CALLS.load(Ordering::Relaxed)
}

/// Aborts this process when one call of a method takes longer than `limit_s`, even if Python cannot be interrupted.
///
/// It says [`STUCK`] on standard error before. Python's `faulthandler` says where.
#[pyfunction]
pub(crate) fn end_when_stuck(limit_s: u64) {
    std::thread::spawn(move || {
        let (mut seen, mut seconds) = (0, 0);
        loop {
            std::thread::sleep(Duration::from_secs(1));
            let running = RUNNING.load(Ordering::Relaxed);
            seconds = if running != 0 && running == seen { seconds + 1 } else { 0 };
            seen = running;
            if seconds >= limit_s {
                eprintln!("{STUCK}");
                std::process::abort();
            }
        }
    });
}

/// Controls of the caller's: name, stack profile, and what makes an instance from the bounds.
pub(crate) type Controls = Vec<(String, String, Py<PyAny>)>;

/// The controls of this module, and these.
///
/// # Errors
/// A stack profile does not exist, or a name is there twice.
pub(crate) fn catalogue(own: Option<Controls>) -> PyResult<Catalogue> {
    let mut catalogue = crate::catalogue().clone();
    for (name, stack, create) in own.unwrap_or_default() {
        let profile = catalogue.stack(&stack).ok_or_else(|| {
            let known = catalogue.stacks().join(", ");
            PyValueError::new_err(format!(
                "congestion_control.name: the stack of `{name}` is `{stack}`; expected one of {known}"
            ))
        })?;
        let algorithm = Algorithm::new(name, profile, move |bounds, _| halves(&create, bounds));
        catalogue.add(algorithm).map_err(|error| PyValueError::new_err(error.to_string()))?;
    }
    Ok(catalogue)
}

fn halves(create: &Py<PyAny>, bounds: cc::RateBounds) -> Halves {
    let made = Python::attach(|py| {
        let instance = create
            .call1(py, (Bounds::of(&bounds),))
            .map_err(|error| explained(py, &error))?
            .into_bound(py);
        Methods::of(&instance).map_err(|error| explained(py, &error))
    });
    match made {
        Err(error) => (Box::new(Broken(error)), None),
        Ok(methods) if methods.on_packet.is_some() => {
            let remb = FollowsRemb(cc::Decision::at(bounds.start));
            (Box::new(remb), Some(Box::new(PyEstimator::new(methods))))
        }
        Ok(methods) => (Box::new(PyControl::new(methods, bounds)), None),
    }
}

/// The text of a Python error, with its traceback from the file of the control on.
fn explained(py: Python<'_>, error: &PyErr) -> ControlError {
    let text = py
        .import("rtclab.control")
        .and_then(|module| module.call_method1("explain", (error.value(py), error.traceback(py))))
        .and_then(|text| text.extract());
    ControlError(text.unwrap_or_else(|_| error.to_string()))
}

/// The text about a method that returned something wrong, with its place in the file.
fn misused(py: Python<'_>, method: &Py<PyAny>, what: &PyErr) -> ControlError {
    let text = py
        .import("rtclab.control")
        .and_then(|module| module.call_method1("misused", (method, what.value(py))))
        .and_then(|text| text.extract());
    ControlError(text.unwrap_or_else(|_| what.to_string()))
}

/// A control that could not be made. It fails at once.
struct Broken(ControlError);

impl Controller for Broken {
    fn on_feedback(&mut self, _: Time, _: cc::Feedback<'_>) -> Result<(), ControlError> {
        Err(self.0.clone())
    }

    fn on_timeout(&mut self, _: Time, _: &cc::SenderState) -> Result<(), ControlError> {
        Err(self.0.clone())
    }

    fn poll_timeout(&self) -> Option<Time> {
        Some(Time::ZERO)
    }

    fn decision(&self) -> cc::Decision {
        cc::Decision::at(Bitrate::ZERO)
    }
}

/// The bound methods of an instance, as far as it has them.
struct Methods {
    on_feedback: Option<Py<PyAny>>,
    on_report: Option<Py<PyAny>>,
    on_sent: Option<Py<PyAny>>,
    on_timeout: Option<Py<PyAny>>,
    on_packet: Option<Py<PyAny>>,
    observe: Option<Py<PyAny>>,
    interval: Option<Time>,
}

impl Methods {
    fn of(instance: &Bound<'_, PyAny>) -> PyResult<Self> {
        let method = |name: &str| -> PyResult<Option<Py<PyAny>>> {
            Ok(instance.getattr_opt(name)?.map(Bound::unbind))
        };
        let methods = Methods {
            on_feedback: method("on_feedback")?,
            on_report: method("on_report")?,
            on_sent: method("on_sent")?,
            on_timeout: method("on_timeout")?,
            on_packet: method("on_packet")?,
            observe: method("observe")?,
            interval: None,
        };
        let Some(interval) = instance.getattr_opt("interval")? else { return Ok(methods) };
        let seconds = interval.extract().unwrap_or(f64::NAN);
        if !(0.001..=3600.0).contains(&seconds) {
            let text = format!(
                "interval is {}; expected the time between two calls of on_timeout, 0.001 to 3600 s",
                interval.repr()?
            );
            return Err(PyValueError::new_err(text));
        }
        Ok(Methods { interval: Some(Time::from_secs_f64(seconds)), ..methods })
    }

    fn observed(&self, out: &mut Vec<Observation>) -> Result<(), ControlError> {
        let Some(observe) = &self.observe else { return Ok(()) };
        Python::attach(|py| {
            let values = call(py, observe, PyTuple::empty(py))?;
            let wrong = |text: String| misused(py, observe, &PyTypeError::new_err(text));
            let values = values.bind(py).cast::<PyDict>().map_err(|_| {
                wrong("it returned something else; expected a dict from name to number".to_owned())
            })?;
            for (name, value) in values.iter().filter(|(_, value)| !value.is_none()) {
                let (Ok(name), Ok(value)) = (name.extract::<String>(), value.extract()) else {
                    let text = format!("the value of {name} is {value}; expected a number or None");
                    return Err(wrong(text));
                };
                out.push(Observation { name: name.into(), value });
            }
            Ok(())
        })
    }
}

/// Calls a method, and counts the call.
fn call<'py>(
    py: Python<'py>,
    method: &Py<PyAny>,
    arguments: impl pyo3::call::PyCallArgs<'py>,
) -> Result<Py<PyAny>, ControlError> {
    RUNNING.store(CALLS.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
    let returned = method.call1(py, arguments);
    RUNNING.store(0, Ordering::Relaxed);
    returned.map_err(|error| explained(py, &error))
}

/// Calls a method that decides. Without a decision, which only `may_keep` allows, everything stays as it is.
fn decided<'py>(
    py: Python<'py>,
    method: &Py<PyAny>,
    arguments: impl pyo3::call::PyCallArgs<'py>,
    may_keep: bool,
) -> Result<Option<Decision>, ControlError> {
    let returned = call(py, method, arguments)?;
    let returned = returned.bind(py);
    if let Ok(made) = returned.cast::<Decision>() {
        return Ok(Some(made.get().clone()));
    }
    if may_keep && returned.is_none() {
        return Ok(None);
    }
    let target = number(returned, "the rate that it returned", "bit/s", MAX_RATE);
    let target = target.map_err(|error| misused(py, method, &error))?;
    let decision = cc::Decision::at(Bitrate(target as u64));
    Ok(Some(Decision { decision, probes: Vec::new() }))
}

/// The sender half of a Python class.
struct PyControl {
    methods: Methods,
    bounds: cc::RateBounds,
    decision: cc::Decision,
    probes: VecDeque<cc::Probe>,
    probes_made: u32,
    next: Option<Time>,
    meter: FeedbackMeter,
    /// The error of a method that cannot return one.
    failure: std::cell::RefCell<Option<ControlError>>,
}

impl PyControl {
    fn new(methods: Methods, bounds: cc::RateBounds) -> Self {
        PyControl {
            methods,
            bounds,
            decision: cc::Decision::at(bounds.start),
            probes: VecDeque::new(),
            probes_made: 0,
            next: None,
            meter: FeedbackMeter::default(),
            failure: std::cell::RefCell::default(),
        }
    }

    /// Follows a decision, if there is a new one.
    fn follow(&mut self, made: Option<Decision>) {
        let Some(Decision { decision, probes }) = made else { return };
        self.decision = decision;
        for Probe { rate, min_packets, min_bytes } in probes {
            self.probes_made += 1;
            let (id, min_spacing) = (self.probes_made, Time::ZERO);
            self.probes.push_back(cc::Probe { id, rate, min_packets, min_bytes, min_spacing });
        }
    }

    fn failed_before(&mut self) -> Result<(), ControlError> {
        self.failure.get_mut().take().map_or(Ok(()), Err)
    }
}

impl Controller for PyControl {
    fn on_sent(&mut self, packet: &cc::SentPacket) -> Result<(), ControlError> {
        let Some(on_sent) = &self.methods.on_sent else { return Ok(()) };
        let made = Python::attach(|py| {
            let arguments = (packet.at.as_secs_f64(), SentPacket::of(packet));
            decided(py, on_sent, arguments, true)
        })?;
        self.follow(made);
        Ok(())
    }

    fn is_changed_by_sending(&self) -> bool {
        self.methods.on_sent.is_some()
    }

    fn on_feedback(&mut self, now: Time, feedback: cc::Feedback<'_>) -> Result<(), ControlError> {
        self.failed_before()?;
        let report = match feedback {
            cc::Feedback::Packets { reports, in_flight, .. } => {
                let Some(on_feedback) = &self.methods.on_feedback else { return Ok(()) };
                let figures = self.meter.on_reports(now, reports);
                let feedback = Feedback::of(figures, reports, in_flight, &self.bounds);
                let made = Python::attach(|py| {
                    decided(py, on_feedback, (now.as_secs_f64(), feedback), false)
                })?;
                self.follow(made);
                return Ok(());
            }
            cc::Feedback::ReceiverReport { lost, expected, rtt, .. } => Report {
                loss: (expected > 0).then(|| lost as f64 / expected as f64),
                rtt: rtt.map(Time::as_secs_f64),
                remb: None,
            },
            cc::Feedback::Remb(rate) => Report { loss: None, rtt: None, remb: Some(rate.0 as f64) },
        };
        let Some(on_report) = &self.methods.on_report else { return Ok(()) };
        let made = Python::attach(|py| decided(py, on_report, (now.as_secs_f64(), report), true))?;
        self.follow(made);
        Ok(())
    }

    fn on_timeout(&mut self, now: Time, sender: &cc::SenderState) -> Result<(), ControlError> {
        self.failed_before()?;
        let Some(on_timeout) = &self.methods.on_timeout else { return Ok(()) };
        self.next = self.methods.interval.map(|interval| now + interval);
        let made = Python::attach(|py| {
            decided(py, on_timeout, (now.as_secs_f64(), Sender::of(sender)), true)
        })?;
        self.follow(made);
        Ok(())
    }

    fn on_media_limit(&mut self, _now: Time, max: Bitrate) {
        self.bounds.max = max;
    }

    fn poll_timeout(&self) -> Option<Time> {
        if self.failure.borrow().is_some() {
            return Some(Time::ZERO);
        }
        self.next
    }

    fn poll_probe(&mut self) -> Option<cc::Probe> {
        self.probes.pop_front()
    }

    fn decision(&self) -> cc::Decision {
        self.decision
    }

    fn observe(&self, out: &mut Vec<Observation>) {
        out.push(Observation::new("target_bps", self.decision.target.0 as f64));
        if let Err(error) = self.methods.observed(out) {
            self.failure.replace(Some(error));
        }
    }
}

/// Sends as fast as the receiver's last REMB says.
struct FollowsRemb(cc::Decision);

impl Controller for FollowsRemb {
    fn on_feedback(&mut self, _now: Time, feedback: cc::Feedback<'_>) -> Result<(), ControlError> {
        if let cc::Feedback::Remb(rate) = feedback {
            self.0 = cc::Decision::at(rate);
        }
        Ok(())
    }

    fn decision(&self) -> cc::Decision {
        self.0
    }

    fn observe(&self, out: &mut Vec<Observation>) {
        out.push(Observation::new("target_bps", self.0.target.0 as f64));
    }
}

/// The receiver half of a Python class: `on_packet(packet)`, and `on_timeout(now)`, which returns an estimate.
struct PyEstimator {
    methods: Methods,
    /// When the next estimate is due, once a packet has arrived.
    next: Option<Time>,
    remb: Option<Bitrate>,
    send_times: Unwrapper<24>,
}

impl PyEstimator {
    fn new(methods: Methods) -> Self {
        PyEstimator { methods, next: None, remb: None, send_times: Unwrapper::default() }
    }
}

impl Estimator for PyEstimator {
    fn on_packet(&mut self, packet: &cc::ReceivedPacket) -> Result<(), ControlError> {
        if self.next.is_none() {
            self.next = self.methods.interval.map(|interval| packet.at + interval);
        }
        let Some(on_packet) = &self.methods.on_packet else { return Ok(()) };
        Python::attach(|py| {
            let sent = packet
                .abs_send_time
                .map(|time| self.send_times.unwrap(time.bits()) as f64 / f64::from(1 << 18));
            call(py, on_packet, (ReceivedPacket::of(packet, sent),)).map(|_| ())
        })
    }

    fn on_timeout(&mut self, now: Time) -> Result<(), ControlError> {
        self.next = self.methods.interval.map(|interval| now + interval);
        let Some(on_timeout) = &self.methods.on_timeout else { return Ok(()) };
        Python::attach(|py| {
            let returned = call(py, on_timeout, (now.as_secs_f64(),))?;
            let returned = returned.bind(py);
            let rate = number(returned, "the rate that it returned", "bit/s", MAX_RATE);
            let rate = rate.map_err(|error| misused(py, on_timeout, &error))?;
            self.remb = Some(Bitrate(rate as u64));
            Ok(())
        })
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.next
    }

    fn poll_remb(&mut self) -> Option<Bitrate> {
        self.remb.take()
    }
}
