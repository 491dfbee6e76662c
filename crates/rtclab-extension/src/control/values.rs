//! What Python congestion controls are given and return. Values are in seconds, bit/s and bytes.

use numpy::IntoPyArray;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};
use rtclab_core::cc;
use rtclab_core::ecn::Ecn;
use rtclab_core::units::{Bitrate, Bytes, RemoteTime, Time};

/// The largest rate that a control may decide on, in bit/s: beyond all links that carry calls.
pub(super) const MAX_RATE: f64 = 1e11;
/// The largest size and window, in bytes.
const MAX_BYTES: f64 = 1e12;
/// A probe takes at least this many packets and bytes, unless the control says otherwise: `goog_cc`'s, libwebrtc
/// f3ae3eb62e, `probe_controller.cc` (5 packets, 15 ms).
const PROBE_PACKETS: u32 = 5;
const PROBE_DURATION_S: f64 = 0.015;

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
    pub(super) fn of(bounds: &cc::RateBounds) -> Self {
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

impl SentPacket {
    pub(super) fn of(packet: &cc::SentPacket) -> Self {
        SentPacket {
            number: packet.transport_seq,
            size: packet.size.0,
            kind: packet.kind.name(),
            probe: packet.probe,
            in_flight: packet.in_flight.0,
        }
    }
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

impl ReceivedPacket {
    /// `sent` is its abs-send-time in s, unwrapped.
    pub(super) fn of(packet: &cc::ReceivedPacket, sent: Option<f64>) -> Self {
        ReceivedPacket {
            sent,
            received: packet.at.as_secs_f64(),
            size: packet.size.0,
            payload: packet.payload.0,
            audio: packet.audio,
            ssrc: packet.ssrc,
            sequence: packet.seq,
            timestamp: packet.rtp_timestamp,
            ecn: name_of(packet.ecn),
        }
    }
}

/// A receiver report (RFC 3550, section 6.4.1) or a REMB. What it does not tell is None.
#[pyclass(frozen, get_all, module = "rtclab.control")]
pub(crate) struct Report {
    /// Share of packets lost since the last report, 0 to 1.
    pub(super) loss: Option<f64>,
    /// Round-trip time in s, from LSR and DLSR.
    pub(super) rtt: Option<f64>,
    /// The receiver's estimate in bit/s.
    pub(super) remb: Option<f64>,
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

impl Sender {
    pub(super) fn of(sender: &cc::SenderState) -> Self {
        Sender {
            queued: sender.queued.0,
            in_flight: sender.in_flight.0,
            media_rate: sender.media_rate.0 as f64,
            application_limited: sender.application_limited,
        }
    }
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

impl Feedback {
    pub(super) fn of(
        figures: cc::FeedbackFigures,
        reports: &[cc::PacketReport],
        in_flight: Bytes,
        bounds: &cc::RateBounds,
    ) -> Self {
        Feedback {
            reports: reports.into(),
            received_rate: figures.received_bps,
            delay: figures.delay_s,
            min_delay: figures.min_delay_s,
            base_delay: figures.base_delay_s,
            queuing_delay: figures.queuing_delay_s,
            loss: figures.loss,
            marked: figures.marked,
            rtt: figures.rtt_s,
            in_flight: in_flight.0,
            min_rate: bounds.min.0 as f64,
            max_rate: bounds.max.0 as f64,
        }
    }
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
    pub(super) rate: Bitrate,
    pub(super) min_packets: u32,
    pub(super) min_bytes: Bytes,
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
    pub(super) decision: cc::Decision,
    pub(super) probes: Vec<Probe>,
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
pub(super) fn number(value: &Bound<'_, PyAny>, name: &str, unit: &str, max: f64) -> PyResult<f64> {
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
