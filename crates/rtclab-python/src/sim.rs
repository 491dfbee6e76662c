//! `simulate`: configuration in as JSON, tables out as arrays.

use numpy::IntoPyArray;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use rtclab_core::capture::Captured;
use rtclab_core::record::{Column, Table};
use rtclab_core::sim::{self, SimConfig, SimError, SimResult};

/// Runs a scenario in virtual time; releases the GIL while it runs.
///
/// Returns a dictionary from table to a dictionary from column to values: int64 and float64 arrays,
/// or for text columns a pair of uint32 codes (4294967295 for null) and the list of texts.
///
/// Raises ValueError when the configuration cannot be run; the message names the field.
#[pyfunction]
pub(crate) fn simulate<'py>(py: Python<'py>, config: &str) -> PyResult<Bound<'py, PyDict>> {
    tables(py, run(py, config, sim::simulate)?)
}

/// Runs a scenario as `simulate` does; returns its tables, a pcapng file, and session descriptions for it.
///
/// Raises ValueError when the configuration cannot be run; the message names the field.
#[pyfunction]
pub(crate) fn simulate_captured<'py>(
    py: Python<'py>,
    config: &str,
) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyBytes>, String)> {
    let (result, Captured { pcapng, sdp }) = run(py, config, sim::simulate_captured)?;
    Ok((tables(py, result)?, PyBytes::new(py, &pcapng), sdp))
}

fn run<T: Send>(
    py: Python<'_>,
    config: &str,
    simulate: fn(&SimConfig) -> Result<T, SimError>,
) -> PyResult<T> {
    py.detach(|| {
        let config: SimConfig = serde_json::from_str(config).map_err(|e| e.to_string())?;
        simulate(&config).map_err(|e| e.to_string())
    })
    .map_err(PyValueError::new_err)
}

pub(crate) fn tables<'py>(py: Python<'py>, result: SimResult) -> PyResult<Bound<'py, PyDict>> {
    let SimResult { texts, tables } = result;
    let out = PyDict::new(py);
    for table in tables {
        out.set_item(table.name, table_columns(py, table, &texts)?)?;
    }
    Ok(out)
}

/// A table as a dictionary from column to values.
pub(crate) fn table_columns<'py>(
    py: Python<'py>,
    table: Table,
    texts: &[String],
) -> PyResult<Bound<'py, PyDict>> {
    let columns = PyDict::new(py);
    for (name, column) in table.columns {
        match column {
            Column::Int(values) => columns.set_item(name, values.into_pyarray(py))?,
            Column::Float(values) => columns.set_item(name, values.into_pyarray(py))?,
            Column::Text(codes) => columns.set_item(name, (codes.into_pyarray(py), texts))?,
        }
    }
    Ok(columns)
}
