//! `monitor` and `monitor_compare`: tables from captures, as arrays.

use crate::sim;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rtclab_core::monitor::compare::{CompareError, Points, Side, compare};
use rtclab_core::monitor::{CaptureError, CaptureReader, Monitor, MonitorConfig, Sdp, Tables};
use std::fs::File;
use std::io::Read;

/// Reads a capture (`-` for standard input) and returns the monitor's tables.
///
/// `on_progress` is called regularly with the number of bytes read. If it raises, reading stops.
#[pyfunction]
#[pyo3(signature = (path, *, sdp=None, packets=false, seconds=false, max_streams=10_000, on_progress=None))]
pub(crate) fn monitor<'py>(
    py: Python<'py>,
    path: &str,
    sdp: Option<&str>,
    packets: bool,
    seconds: bool,
    max_streams: usize,
    on_progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let config = MonitorConfig {
        sdp: sdp.map(Sdp::parse).unwrap_or_default(),
        packets,
        seconds,
        max_streams,
    };
    let tables = py.detach(|| {
        let mut reader = open(path)?;
        let mut monitor = Monitor::new(config);
        let mut raised = None;
        let progress =
            |bytes: u64| report(on_progress.as_ref(), bytes).map_err(|e| raised = Some(e)).is_ok();
        monitor.watch(&mut reader, progress).map_err(|error| to_python(path, error))?;
        raised.map_or(Ok(()), Err)?;
        Ok::<_, PyErr>(monitor.tables(reader.interfaces(), &reader.faults()))
    })?;
    to_dict(py, tables)
}

/// Compares two captures, or the two directions in one capture.
#[pyfunction]
#[pyo3(signature = (path_a, path_b=None, *, sdp=None, packets=false, max_streams=10_000, on_progress=None))]
pub(crate) fn monitor_compare<'py>(
    py: Python<'py>,
    path_a: &str,
    path_b: Option<&str>,
    sdp: Option<&str>,
    packets: bool,
    max_streams: usize,
    on_progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let sdp = sdp.map(Sdp::parse).unwrap_or_default();
    let config = MonitorConfig { sdp, packets, seconds: false, max_streams };
    let points = if path_b.is_some() { Points::TwoCaptures } else { Points::Directions };
    let path = |side| if side == Side::A { path_a } else { path_b.unwrap_or(path_a) };
    let tables = py.detach(|| {
        let mut open = |side| CaptureReader::new(File::open(path(side))?);
        let mut raised = None;
        let mut progress =
            |bytes| report(on_progress.as_ref(), bytes).map_err(|e| raised = Some(e)).is_ok();
        let compared = compare(points, &config, &mut open, &mut progress);
        raised.map_or(Ok(()), Err)?;
        compared.map_err(|CompareError(side, error)| to_python(path(side), error))
    })?;
    to_dict(py, tables)
}

/// Opens a capture file, or standard input for `-`.
fn open(path: &str) -> PyResult<CaptureReader<Box<dyn Read>>> {
    let input: Box<dyn Read> = if path == "-" {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(File::open(path).map_err(|error| to_python(path, error.into()))?)
    };
    CaptureReader::new(input).map_err(|error| to_python(path, error))
}

/// Handles pending signals and reports progress.
fn report(on_progress: Option<&Py<PyAny>>, bytes: u64) -> PyResult<()> {
    Python::attach(|py| {
        py.check_signals()?;
        on_progress.map_or(Ok(()), |callback| callback.call1(py, (bytes,)).map(drop))
    })
}

pub(crate) fn to_python(path: &str, error: CaptureError) -> PyErr {
    let text = format!("{path}: {error}");
    match error {
        CaptureError::NotACapture(_) => PyValueError::new_err(text),
        CaptureError::Io(cause) => PyOSError::new_err((cause.raw_os_error(), text)),
    }
}

pub(crate) fn to_dict(py: Python<'_>, tables: Tables) -> PyResult<Bound<'_, PyDict>> {
    sim::to_dict(py, tables.tables, tables.texts)
}
