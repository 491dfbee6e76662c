//! The emulator for Python.

use numpy::{Element, PyArray1};
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use rtclab_core::ecn::Ecn;
use rtclab_core::path::{DropCause, MarkCause, PathConfig};
use rtclab_emu::{
    Counters, EmulatorConfig, EmulatorError, HopLog, Lateness, LoggedProtocol, NodePair, PacketLog,
    PortFailure, Summary, Traffic,
};
use serde::de::DeserializeOwned;

/// A network that runs in real time between interfaces of this network namespace.
#[pyclass(module = "rtclab._native")]
pub(crate) struct Emulator {
    config: EmulatorConfig,
    running: Option<rtclab_emu::Emulator>,
}

#[pymethods]
impl Emulator {
    #[new]
    fn new(config_json: &str) -> PyResult<Self> {
        Ok(Emulator { config: from_json(config_json, "emulator")?, running: None })
    }

    /// Opens the ports and starts to carry packets. Time zero of the run is now.
    fn start(&mut self, py: Python<'_>) -> PyResult<()> {
        if self.running.is_some() {
            return Err(PyRuntimeError::new_err("the emulator is already running"));
        }
        let config = self.config.clone();
        let emulator = py.detach(|| rtclab_emu::Emulator::start(config)).map_err(to_python)?;
        self.running = Some(emulator);
        Ok(())
    }

    /// Time since the start, in nanoseconds.
    fn now_ns(&self) -> PyResult<u64> {
        Ok(self.emulator()?.now().as_nanos())
    }

    /// Replaces the path of the same name from now on.
    fn set_path(&self, path_json: &str) -> PyResult<()> {
        let path: PathConfig = from_json(path_json, "path")?;
        self.emulator()?.set_path(path).map_err(to_python)
    }

    /// Whether packets are being carried. Once this is False, the result of `stop` has the reason.
    fn is_running(&self) -> bool {
        self.running.as_ref().is_some_and(rtclab_emu::Emulator::is_running)
    }

    /// Stops the emulator and returns its packet log, traffic, lateness, counters and failures.
    fn stop<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.emulator()?;
        let running = self.running.take();
        let summary = py.detach(|| running.map(rtclab_emu::Emulator::stop).transpose());
        let Some(summary) = summary.map_err(to_python)? else { return Err(not_running()) };
        let Summary { mut packets, traffic, lateness, counters, .. } = summary;
        let Summary { port_failures, failure, epoch_ns, .. } = summary;
        let result = PyDict::new(py);
        let hops = packets.as_mut().map(|log| std::mem::take(&mut log.hops));
        result.set_item("packets", packets.map(|packets| columns(py, packets)).transpose()?)?;
        result.set_item("hops", hops.map(|hops| hop_columns(py, hops)).transpose()?)?;
        result.set_item("traffic", self.traffic_list(py, &traffic)?)?;
        result.set_item("names", self.names(py)?)?;
        result.set_item("lateness", lateness_dict(py, &lateness)?)?;
        result.set_item("counters", counters_dict(py, counters)?)?;
        result.set_item("port_failures", port_failures_list(py, port_failures)?)?;
        result.set_item("failure", failure.map(|error| to_python(error).into_value(py)))?;
        result.set_item("epoch_ns", epoch_ns)?;
        Ok(result)
    }
}

impl Emulator {
    fn emulator(&self) -> PyResult<&rtclab_emu::Emulator> {
        self.running.as_ref().ok_or_else(not_running)
    }

    /// Names for the codes in the columns.
    fn names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let names = PyDict::new(py);
        names.set_item("nodes", &self.config.nodes)?;
        names.set_item("paths", self.config.paths.iter().map(|p| &p.name).collect::<Vec<_>>())?;
        names.set_item("protocols", LoggedProtocol::ALL.map(LoggedProtocol::name))?;
        names.set_item("drop_causes", DropCause::ALL.map(DropCause::name))?;
        names.set_item("ecn", Ecn::ALL.map(Ecn::name))?;
        names.set_item("mark_causes", MarkCause::ALL.map(MarkCause::name))?;
        Ok(names)
    }

    fn traffic_list<'py>(
        &self,
        py: Python<'py>,
        pairs: &[NodePair],
    ) -> PyResult<Bound<'py, PyList>> {
        let rows = PyList::empty(py);
        for NodePair { from, to, all, protocols } in pairs {
            let row = traffic_dict(py, all)?;
            row.set_item("from", self.config.nodes.get(from.0 as usize))?;
            row.set_item("to", self.config.nodes.get(to.0 as usize))?;
            let by_protocol = PyDict::new(py);
            for (protocol, traffic) in protocols {
                by_protocol.set_item(protocol.name(), traffic_dict(py, traffic)?)?;
            }
            row.set_item("protocols", by_protocol)?;
            rows.append(row)?;
        }
        Ok(rows)
    }
}

fn traffic_dict<'py>(py: Python<'py>, traffic: &Traffic) -> PyResult<Bound<'py, PyDict>> {
    let values = PyDict::new(py);
    values.set_item("packets", traffic.packets)?;
    values.set_item("bytes", traffic.bytes)?;
    values.set_item("delivered", traffic.delivered)?;
    values.set_item("delivered_bytes", traffic.delivered_bytes)?;
    for (cause, packets) in DropCause::ALL.into_iter().zip(traffic.dropped) {
        values.set_item(cause.name(), packets)?;
    }
    values.set_item("ecn_capable", traffic.ecn_capable)?;
    values.set_item("marked", traffic.marked.iter().sum::<u64>())?;
    let marks = PyDict::new(py);
    for (cause, packets) in MarkCause::ALL.into_iter().zip(traffic.marked) {
        marks.set_item(cause.name(), packets)?;
    }
    values.set_item("marks", marks)?;
    values.set_item("on_the_way", traffic.on_the_way())?;
    values.set_item("delivered_bps", traffic.delivered_bps())?;
    for (name, percent) in [("delay_p50_ms", 50), ("delay_p95_ms", 95)] {
        let delay = (traffic.delivered > 0).then(|| traffic.delays.quantile(percent));
        values.set_item(name, delay.map(|delay| delay.as_secs_f64() * 1e3))?;
    }
    Ok(values)
}

fn columns(py: Python<'_>, packets: PacketLog) -> PyResult<Bound<'_, PyDict>> {
    fn set<T: Element>(table: &Bound<'_, PyDict>, name: &str, column: Vec<T>) -> PyResult<()> {
        table.set_item(name, PyArray1::from_vec(table.py(), column))
    }
    let table = PyDict::new(py);
    set(&table, "sent_ns", packets.sent_ns)?;
    set(&table, "delivered_ns", packets.delivered_ns)?;
    set(&table, "queued_ns", packets.queued_ns)?;
    set(&table, "dropped_ns", packets.dropped_ns)?;
    set(&table, "written_ns", packets.written_ns)?;
    set(&table, "drop_cause", packets.drop_cause)?;
    set(&table, "drop_path", packets.drop_path)?;
    set(&table, "ecn", packets.ecn)?;
    set(&table, "mark_path", packets.mark_path)?;
    set(&table, "mark_cause", packets.mark_cause)?;
    set(&table, "from", packets.from)?;
    set(&table, "to", packets.to)?;
    set(&table, "size_bytes", packets.size_bytes)?;
    set(&table, "protocol", packets.protocol)?;
    set(&table, "ssrc", packets.ssrc)?;
    set(&table, "payload_type", packets.payload_type)?;
    set(&table, "seq", packets.seq)?;
    set(&table, "rtp_timestamp", packets.rtp_timestamp)?;
    set(&table, "marker", packets.marker)?;
    Ok(table)
}

fn hop_columns(py: Python<'_>, hops: HopLog) -> PyResult<Bound<'_, PyDict>> {
    let table = PyDict::new(py);
    table.set_item("packet", PyArray1::from_vec(py, hops.packet))?;
    table.set_item("path", PyArray1::from_vec(py, hops.path))?;
    table.set_item("queued_ns", PyArray1::from_vec(py, hops.queued_ns))?;
    Ok(table)
}

fn lateness_dict<'py>(py: Python<'py>, lateness: &Lateness) -> PyResult<Bound<'py, PyDict>> {
    let Lateness { times, over_bound } = lateness;
    let values = PyDict::new(py);
    values.set_item("count", times.count())?;
    values.set_item("p50_ns", times.quantile(50).as_nanos())?;
    values.set_item("p99_ns", times.quantile(99).as_nanos())?;
    values.set_item("max_ns", times.max().as_nanos())?;
    values.set_item("bound_ns", Lateness::BOUND.as_nanos())?;
    values.set_item("over_bound", over_bound)?;
    Ok(values)
}

fn counters_dict(py: Python<'_>, counters: Counters) -> PyResult<Bound<'_, PyDict>> {
    let values = PyDict::new(py);
    values.set_item("arp_answered", counters.arp_answered)?;
    values.set_item("not_ipv4", counters.not_ipv4)?;
    values.set_item("no_route", counters.no_route)?;
    values.set_item("write_failed", counters.write_failed)?;
    values.set_item("receive_overflows", counters.receive_overflows)?;
    values.set_item("capture_dropped", counters.capture_dropped)?;
    Ok(values)
}

fn port_failures_list(py: Python<'_>, failures: Vec<PortFailure>) -> PyResult<Bound<'_, PyList>> {
    let rows = PyList::empty(py);
    for PortFailure { interface, at, error } in failures {
        let row = PyDict::new(py);
        row.set_item("interface", interface)?;
        row.set_item("at_ns", at.as_nanos())?;
        row.set_item("reason", error.to_string())?;
        rows.append(row)?;
    }
    Ok(rows)
}

fn from_json<T: DeserializeOwned>(json: &str, what: &str) -> PyResult<T> {
    serde_json::from_str(json).map_err(|error| PyValueError::new_err(format!("{what}: {error}")))
}

fn not_running() -> PyErr {
    PyRuntimeError::new_err("the emulator is not running; call start() first")
}

fn to_python(error: EmulatorError) -> PyErr {
    let text = error.to_string();
    match error {
        EmulatorError::Config(_) => PyValueError::new_err(text),
        EmulatorError::Port(_, cause)
        | EmulatorError::Capture(_, cause)
        | EmulatorError::Log(cause)
        | EmulatorError::Device(cause) => PyOSError::new_err((cause.raw_os_error(), text)),
        EmulatorError::Panicked => PyRuntimeError::new_err(text),
    }
}
