//! `Simulation`: a run that is stepped.

use crate::control::{self, Controls};
use crate::sim::tables;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::PyDict;
use rtclab_core::path::PathConfig;
use rtclab_core::sim::{self, SimConfig};
use rtclab_core::units::Time;
use std::sync::{Mutex, MutexGuard};

/// A run in virtual time that is stepped. Whatever the steps, it ends with the same bytes as `simulate`.
#[pyclass]
pub(crate) struct Simulation {
    run: Mutex<sim::Simulation>,
    /// Its controls are Python classes, which are called all the time.
    calls_python: bool,
}

#[pymethods]
impl Simulation {
    /// Prepares a run. `config` and `controls` are as for `simulate`.
    ///
    /// Raises ValueError when the configuration cannot be run; the message names the field.
    #[new]
    #[pyo3(signature = (config, controls = None))]
    fn new(config: &str, controls: Option<Controls>) -> PyResult<Self> {
        let config: SimConfig = serde_json::from_str(config).map_err(value_error)?;
        let calls_python = controls.is_some();
        let catalogue = control::catalogue(controls)?;
        let run = sim::Simulation::new(&config, &catalogue).map_err(value_error)?;
        Ok(Simulation { run: Mutex::new(run), calls_python })
    }

    /// Up to when it has run, in nanoseconds.
    fn now(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.lock(py)?.now().0)
    }

    /// Runs up to a time in nanoseconds; releases the GIL meanwhile, unless its controls are Python classes.
    ///
    /// Raises ValueError if the time has passed or is after the end, or if a congestion control fails.
    fn advance(&self, py: Python<'_>, until_ns: u64) -> PyResult<()> {
        if self.calls_python {
            return self.lock(py)?.advance(Time(until_ns)).map_err(value_error);
        }
        let advance = || Some(self.run.lock().ok()?.advance(Time(until_ns)));
        py.detach(advance).ok_or_else(broken)?.map_err(value_error)
    }

    /// Replaces the configuration of a path, as in `simulate`'s configuration, from now on.
    ///
    /// Raises ValueError if there is no such path, or if a field breaks a rule.
    fn set_path(&self, py: Python<'_>, config: &str) -> PyResult<()> {
        let config: PathConfig = serde_json::from_str(config).map_err(value_error)?;
        self.lock(py)?.set_path(config).map_err(value_error)
    }

    /// The tables so far, as `simulate` returns them.
    fn tables<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let result = self.lock(py)?.result();
        tables(py, result)
    }
}

impl Simulation {
    fn lock(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, sim::Simulation>> {
        self.run.lock_py_attached(py).map_err(|_| broken())
    }
}

fn broken() -> PyErr {
    PyRuntimeError::new_err("the simulation ended in a panic")
}

fn value_error(error: impl ToString) -> PyErr {
    PyValueError::new_err(error.to_string())
}
