//! Congestion controls that are Python classes.
//!
//! The instance of a class is made for each sender. Its methods are looked up once. Values are in seconds, bit/s and
//! bytes.

use numpy::IntoPyArray;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyTuple};
use rtclab_core::catalogue::{Algorithm, Catalogue};
use rtclab_core::cc::{self, ControlError, Controller, Estimator, Halves, Observation};
use rtclab_core::ecn::Ecn;
use rtclab_core::rtp::Unwrapper;
use rtclab_core::units::{Bitrate, Bytes, RemoteTime, Time};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The largest rate that a control may decide on, in bit/s: beyond all links that carry calls.
const MAX_RATE: f64 = 1e11;
/// The largest size and window, in bytes.
const MAX_BYTES: f64 = 1e12;
/// `Feedback.received_rate` is over this time.
const RATE_WINDOW: Time = Time::from_millis(500);
/// A probe takes at least this many packets and bytes, unless the control says otherwise: `goog_cc`'s, libwebrtc
/// f3ae3eb62e, `probe_controller.cc` (5 packets, 15 ms).
const PROBE_PACKETS: u32 = 5;
const PROBE_DURATION_S: f64 = 0.015;

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

/// Bounds on the rate, set by the encoders, in bit/s.
#[pyclass(frozen, get_all, module = "rtclab.control")]
pub(crate) struct Bounds {
    /// Rate before any feedback.
    start: f64,
    /// Lower bound.
    min: f64,
    /// The most that the encoders can use.
    max: f64,
    /// Rate on the wire of audio that is sent beside video.
    audio: f64,
    /// Whether a camera's video is sent. Without it, the other rates are those of audio.
    has_video: bool,
}

impl Bounds {
    fn of(bounds: &cc::RateBounds) -> Self {
        Bounds {
            start: bounds.start.0 as f64,
            min: bounds.min.0 as f64,
            max: bounds.max.0 as f64,
            audio: bounds.audio.0 as f64,
            has_video: bounds.has_video,
        }
    }
}

#[pymethods]
impl Bounds {
    #[new]
    #[pyo3(signature = (*, start = 300e3, min = 30e3, max = 2.5e6, audio = 0.0, has_video = true))]
    fn new(start: f64, min: f64, max: f64, audio: f64, has_video: bool) -> Self {
        Bounds { start, min, max, audio, has_video }
    }

    fn __repr__(&self) -> String {
        let Bounds { start, min, max, audio, has_video } = self;
        let has_video = if *has_video { "True" } else { "False" };
        format!("Bounds(start={start}, min={min}, max={max}, audio={audio}, has_video={has_video})")
    }
}

/// What the far end reports about a packet.
#[pyclass(frozen, get_all, module = "rtclab.control")]
pub(crate) struct ReportedPacket {
    /// Counts the packets of the sender.
    number: i64,
    /// When it left, in s.
    sent: f64,
    /// When it arrived in s, on a clock that differs by a constant; None if it had not arrived.
    received: Option<f64>,
    /// IP total length in bytes.
    size: u64,
    /// `video`, `audio`, `rtx`, `padding` or `fec`.
    kind: &'static str,
    /// Codepoint on arrival: `not_ect`, `ect0`, `ect1` or `ce`; None if it is not told.
    ecn: Option<&'static str>,
    /// Number of the probe that it belongs to.
    probe: Option<u32>,
    /// Whether earlier feedback said that it had not arrived. If it has arrived now, it was late.
    lost_before: bool,
}

/// A packet that left.
#[pyclass(frozen, get_all, module = "rtclab.control")]
pub(crate) struct SentPacket {
    /// Counts the packets of the sender.
    number: i64,
    /// IP total length in bytes.
    size: u64,
    /// `video`, `audio`, `rtx`, `padding` or `fec`.
    kind: &'static str,
    /// Number of the probe that it belongs to.
    probe: Option<u32>,
    /// Bytes sent and not yet reported on, this packet included.
    in_flight: u64,
}

/// A packet that arrived, as its receiver sees it.
#[pyclass(frozen, get_all, module = "rtclab.control")]
pub(crate) struct ReceivedPacket {
    /// When it left in s, from the header extension abs-send-time; None if it has none.
    sent: Option<f64>,
    /// When it arrived, in s.
    received: f64,
    /// IP total length in bytes.
    size: u64,
    /// RTP payload and padding in bytes, without headers.
    payload: u64,
    /// Whether it is of an audio stream.
    audio: bool,
    /// SSRC of its stream.
    ssrc: u32,
    /// RTP sequence number.
    sequence: u16,
    /// RTP timestamp.
    timestamp: u32,
    /// Codepoint on arrival: `not_ect`, `ect0`, `ect1` or `ce`.
    ecn: &'static str,
}

/// A receiver report (RFC 3550, section 6.4.1) or a REMB. What it does not tell is None.
#[pyclass(frozen, get_all, module = "rtclab.control")]
pub(crate) struct Report {
    /// Share of packets lost since the last report, 0 to 1.
    loss: Option<f64>,
    /// Round-trip time in s, from LSR and DLSR.
    rtt: Option<f64>,
    /// The receiver's estimate in bit/s.
    remb: Option<f64>,
}

/// State of the sender.
#[pyclass(frozen, get_all, module = "rtclab.control")]
pub(crate) struct Sender {
    /// Bytes waiting in the pacer.
    queued: u64,
    /// Bytes sent and not yet reported on.
    in_flight: u64,
    /// Rate last requested from the encoders of all streams together, in bit/s.
    media_rate: f64,
    /// Whether nothing has waited in the pacer since the last timeout, so that media limited the rate.
    application_limited: bool,
}

/// Feedback on packets (transport-wide feedback or RFC 8888). What is not known is None.
#[pyclass(frozen, module = "rtclab.control")]
pub(crate) struct Feedback {
    reports: Box<[cc::PacketReport]>,
    /// Rate of what arrived in the last 500 ms of arrivals, in bit/s.
    #[pyo3(get)]
    received_rate: Option<f64>,
    /// Mean one-way delay of the packets in this feedback, in s. Clocks may differ by a constant.
    #[pyo3(get)]
    delay: Option<f64>,
    /// Least one-way delay of these packets, in s.
    #[pyo3(get)]
    min_delay: Option<f64>,
    /// Least one-way delay of all packets so far, in s.
    #[pyo3(get)]
    base_delay: Option<f64>,
    /// `delay` above `base_delay`, in s.
    #[pyo3(get)]
    queuing_delay: Option<f64>,
    /// Share of these packets that have not arrived, 0 to 1. Packets reported lost before do not count.
    #[pyo3(get)]
    loss: Option<f64>,
    /// Share of the packets that arrived with CE, 0 to 1; None if the feedback does not tell it.
    #[pyo3(get)]
    marked: Option<f64>,
    /// Least time since one of these packets left, in s, without the time that the far end held it.
    #[pyo3(get)]
    rtt: Option<f64>,
    /// Bytes sent and not yet reported on.
    #[pyo3(get)]
    in_flight: u64,
    /// Lower bound of the rate, in bit/s.
    #[pyo3(get)]
    min_rate: f64,
    /// The most that the encoders can use now, in bit/s. It follows the resolution.
    #[pyo3(get)]
    max_rate: f64,
}

#[pymethods]
impl Feedback {
    /// One entry for each packet, in sending order. The list is made when it is asked for.
    #[getter]
    fn packets(&self) -> Vec<ReportedPacket> {
        let packets = self.reports.iter().map(|report| ReportedPacket {
            number: report.sent.transport_seq,
            sent: report.sent.at.as_secs_f64(),
            received: report.received.map(|RemoteTime(at)| at.as_secs_f64()),
            size: report.sent.size.0,
            kind: report.sent.kind.name(),
            ecn: report.ecn.map(name_of),
            probe: report.sent.probe,
            lost_before: report.lost_before,
        });
        packets.collect()
    }

    /// The same as numpy arrays: `number`, `sent`, `received` (NaN if it had not arrived), `size` and `ecn` (the
    /// two bits of the IP header; -1 if they are not told).
    #[getter]
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let reports = || self.reports.iter();
        let numbers: Vec<i64> = reports().map(|report| report.sent.transport_seq).collect();
        let sent: Vec<f64> = reports().map(|report| report.sent.at.as_secs_f64()).collect();
        let arrival = |report: &cc::PacketReport| {
            report.received.map_or(f64::NAN, |RemoteTime(at)| at.as_secs_f64())
        };
        let received: Vec<f64> = reports().map(arrival).collect();
        let sizes: Vec<i64> = reports().map(|report| report.sent.size.0 as i64).collect();
        let bits = |report: &cc::PacketReport| report.ecn.map_or(-1, |ecn| i64::from(ecn.bits()));
        let ecn: Vec<i64> = reports().map(bits).collect();
        let columns = PyDict::new(py);
        columns.set_item("number", numbers.into_pyarray(py))?;
        columns.set_item("sent", sent.into_pyarray(py))?;
        columns.set_item("received", received.into_pyarray(py))?;
        columns.set_item("size", sizes.into_pyarray(py))?;
        columns.set_item("ecn", ecn.into_pyarray(py))?;
        Ok(columns)
    }
}

/// A burst at a given rate, in bit/s, which measures capacity.
///
/// It has at least `packets` packets and lasts for at least `duration` s; the defaults are libwebrtc's (f3ae3eb62e,
/// `probe_controller.cc`).
#[pyclass(frozen, module = "rtclab.control")]
#[derive(Clone)]
pub(crate) struct Probe {
    rate: Bitrate,
    min_packets: u32,
    min_bytes: Bytes,
}

#[pymethods]
impl Probe {
    #[new]
    #[pyo3(signature = (rate, *, packets = PROBE_PACKETS, duration = PROBE_DURATION_S))]
    fn new(rate: &Bound<'_, PyAny>, packets: u32, duration: f64) -> PyResult<Self> {
        let rate = Bitrate(number(rate, "rate", "bit/s", MAX_RATE)? as u64);
        if !(0.0..=1.0).contains(&duration) {
            return Err(PyValueError::new_err(format!(
                "duration is {duration}; expected 0 to 1 s"
            )));
        }
        let min_bytes = rate.bytes_in(Time::from_secs_f64(duration));
        Ok(Probe { rate, min_packets: packets, min_bytes })
    }
}

/// What the sender does until the next decision. Everything but the target is optional.
///
/// Args:
///     target: rate available to media, in bit/s. The stack profile says which bytes count.
///     window: media waits in the pacer while this many bytes are in flight; audio never waits.
///     pacing_rate: rate in bit/s at which the pacer empties its queue, by default the stack profile's.
///     pacing_burst: how far packets may leave ahead of the pacing rate in s, by default the profile's.
///     padding_rate: padding fills the rate up to this, in bit/s, when media alone sends less.
///     drop_ratio: fraction of frames that the encoder drops, 0 to 1.
///     ecn: codepoint of RTP packets: `not_ect`, `ect0` or `ect1`. It promises to answer marks.
///     probes: probes to send now.
///
/// Raises:
///     TypeError: a value is no number.
///     ValueError: a value is NaN, negative or too large.
#[pyclass(frozen, module = "rtclab.control")]
#[derive(Clone)]
pub(crate) struct Decision {
    decision: cc::Decision,
    probes: Vec<Probe>,
}

#[pymethods]
impl Decision {
    #[new]
    #[pyo3(signature = (target, **more))]
    fn new(target: &Bound<'_, PyAny>, more: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let rate = |value: &Bound<'_, PyAny>, name: &str| -> PyResult<Bitrate> {
            Ok(Bitrate(number(value, name, "bit/s", MAX_RATE)? as u64))
        };
        let mut decision = cc::Decision::at(rate(target, "target")?);
        let mut probes = Vec::new();
        for (name, value) in more.into_iter().flatten().filter(|(_, value)| !value.is_none()) {
            match name.extract::<&str>()? {
                "window" => {
                    let bytes = number(&value, "window", "bytes", MAX_BYTES)?;
                    decision.window = Some(Bytes(bytes as u64));
                }
                "pacing_rate" => decision.pacing_rate = Some(rate(&value, "pacing_rate")?),
                "pacing_burst" => {
                    let seconds = number(&value, "pacing_burst", "s", 1.0)?;
                    decision.pacing_burst = Some(Time::from_secs_f64(seconds));
                }
                "padding_rate" => decision.padding_rate = rate(&value, "padding_rate")?,
                "drop_ratio" => decision.drop_ratio = number(&value, "drop_ratio", "", 1.0)?,
                "ecn" => decision.ecn = codepoint(&value)?,
                "probes" => {
                    let wanted: Vec<PyRef<'_, Probe>> = value.extract()?;
                    probes = wanted.iter().map(|probe| Probe::clone(probe)).collect();
                }
                other => {
                    let text = format!(
                        "Decision has no `{other}`; expected window, pacing_rate, pacing_burst, padding_rate, \
                         drop_ratio, ecn or probes"
                    );
                    return Err(PyTypeError::new_err(text));
                }
            }
        }
        Ok(Decision { decision, probes })
    }

    /// Rate available to media, in bit/s.
    #[getter]
    fn target(&self) -> f64 {
        self.decision.target.0 as f64
    }
}

/// The codepoint with which packets may leave.
fn codepoint(name: &Bound<'_, PyAny>) -> PyResult<Ecn> {
    match name.extract().unwrap_or_default() {
        "not_ect" => Ok(Ecn::NotCapable),
        "ect0" => Ok(Ecn::Ect0),
        "ect1" => Ok(Ecn::Ect1),
        _ => {
            let text = format!("ecn is {}; expected not_ect, ect0 or ect1", name.repr()?);
            Err(PyValueError::new_err(text))
        }
    }
}

fn name_of(ecn: Ecn) -> &'static str {
    match ecn {
        Ecn::NotCapable => "not_ect",
        Ecn::Ect1 => "ect1",
        Ecn::Ect0 => "ect0",
        Ecn::CongestionExperienced => "ce",
    }
}

/// A number of 0 to `max`.
fn number(value: &Bound<'_, PyAny>, name: &str, unit: &str, max: f64) -> PyResult<f64> {
    let expected = || match max < 1e6 {
        true => format!("expected a number of 0 to {max} {unit}"),
        false => format!("expected a number of 0 to {max:e} {unit}"),
    };
    let found: Option<f64> =
        if value.is_instance_of::<PyBool>() { None } else { value.extract().ok() };
    let Some(found) = found else {
        let text = format!("{name} is {}; {}", value.repr()?, expected());
        return Err(PyTypeError::new_err(text));
    };
    if !(0.0..=max).contains(&found) {
        return Err(PyValueError::new_err(format!("{name} is {found}; {}", expected())));
    }
    Ok(found)
}

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
    arrivals: Arrivals,
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
            arrivals: Arrivals::default(),
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
            let sent = SentPacket {
                number: packet.transport_seq,
                size: packet.size.0,
                kind: packet.kind.name(),
                probe: packet.probe,
                in_flight: packet.in_flight.0,
            };
            decided(py, on_sent, (packet.at.as_secs_f64(), sent), true)
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
                let feedback = self.arrivals.feedback(now, reports, in_flight, &self.bounds);
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
            let sender = Sender {
                queued: sender.queued.0,
                in_flight: sender.in_flight.0,
                media_rate: sender.media_rate.0 as f64,
                application_limited: sender.application_limited,
            };
            decided(py, on_timeout, (now.as_secs_f64(), sender), true)
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

/// What the reports of a sender tell about the path.
#[derive(Default)]
struct Arrivals {
    /// Arrival and size of packets within [`RATE_WINDOW`], in the order of their reports.
    recent: VecDeque<(Time, u64)>,
    bytes: u64,
    /// Arrival and size of the first packet.
    first: Option<(Time, u64)>,
    last: Time,
    base_delay: Option<f64>,
}

impl Arrivals {
    fn feedback(
        &mut self,
        now: Time,
        reports: &[cc::PacketReport],
        in_flight: Bytes,
        bounds: &cc::RateBounds,
    ) -> Feedback {
        let (mut arrived, mut delay_sum, mut min_delay) = (0u32, 0.0, f64::INFINITY);
        let (mut new, mut lost, mut told, mut marked) = (0u32, 0u32, 0u32, 0u32);
        let mut rtt: Option<Time> = None;
        for report in reports {
            let is_new = !report.lost_before;
            new += u32::from(is_new);
            let Some(RemoteTime(at)) = report.received else {
                lost += u32::from(is_new);
                continue;
            };
            arrived += 1;
            let delay = at.as_secs_f64() - report.sent.at.as_secs_f64();
            delay_sum += delay;
            min_delay = min_delay.min(delay);
            told += u32::from(report.ecn.is_some());
            marked += u32::from(report.ecn == Some(Ecn::CongestionExperienced));
            let held = report.held.unwrap_or(Time::ZERO);
            let round = now.saturating_sub(report.sent.at).saturating_sub(held);
            rtt = Some(rtt.map_or(round, |least| least.min(round)));
            self.first.get_or_insert((at, report.sent.size.0));
            self.last = self.last.max(at);
            self.bytes += report.sent.size.0;
            self.recent.push_back((at, report.sent.size.0));
        }
        while let Some(&(_, size)) =
            self.recent.front().filter(|(at, _)| *at + RATE_WINDOW <= self.last)
        {
            self.bytes -= size;
            self.recent.pop_front();
        }
        // A packet takes the time before its arrival, so the first one does not count in a shorter time.
        let received_rate = self.first.and_then(|(first, size)| {
            let since = self.last.saturating_sub(first);
            let (bytes, span) = match since < RATE_WINDOW {
                true => (self.bytes - size, since),
                false => (self.bytes, RATE_WINDOW),
            };
            (span > Time::ZERO).then(|| bytes as f64 * 8.0 / span.as_secs_f64())
        });
        let share = |part: u32, whole: u32| (whole > 0).then(|| f64::from(part) / f64::from(whole));
        let any = arrived > 0;
        if any {
            self.base_delay = Some(self.base_delay.map_or(min_delay, |base| base.min(min_delay)));
        }
        let delay = any.then(|| delay_sum / f64::from(arrived));
        Feedback {
            reports: reports.into(),
            received_rate,
            delay,
            min_delay: any.then_some(min_delay),
            base_delay: self.base_delay,
            queuing_delay: delay.zip(self.base_delay).map(|(delay, base)| delay - base),
            loss: share(lost, new),
            marked: share(marked, told),
            rtt: rtt.map(Time::as_secs_f64),
            in_flight: in_flight.0,
            min_rate: bounds.min.0 as f64,
            max_rate: bounds.max.0 as f64,
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
            let received = ReceivedPacket {
                sent: packet
                    .abs_send_time
                    .map(|time| self.send_times.unwrap(time.bits()) as f64 / f64::from(1 << 18)),
                received: packet.at.as_secs_f64(),
                size: packet.size.0,
                payload: packet.payload.0,
                audio: packet.audio,
                ssrc: packet.ssrc,
                sequence: packet.seq,
                timestamp: packet.rtp_timestamp,
                ecn: name_of(packet.ecn),
            };
            call(py, on_packet, (received,)).map(|_| ())
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
