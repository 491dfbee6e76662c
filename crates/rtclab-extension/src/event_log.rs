//! `event_log`: tables from an RTC event log, as arrays.

use crate::sim::to_dict;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rtclab_core::event_log::EventLog;

/// Reads the bytes of an RTC event log. Returns its tables, and the number of each fault by name.
#[pyfunction]
pub(crate) fn event_log<'py>(
    py: Python<'py>,
    content: &[u8],
) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>)> {
    let log = py.detach(|| EventLog::read(content));
    let log = log.map_err(|error| PyValueError::new_err(error.to_string()))?;
    let faults = PyDict::new(py);
    for (name, count) in log.faults.counts() {
        faults.set_item(name, count)?;
    }
    Ok((to_dict(py, log.tables, log.texts)?, faults))
}
