//! `Simulation`: a run that is stepped.

use crate::sim::tables;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rtclab_core::catalogue::Catalogue;
use rtclab_core::path::PathConfig;
use rtclab_core::sim::{self, SimConfig};
use rtclab_core::units::Time;
use std::sync::{Mutex, MutexGuard};

/// A run in virtual time that is stepped. Whatever the steps, it ends with the same bytes as `simulate`.
#[pyclass]
pub(crate) struct Simulation(Mutex<sim::Simulation>);

#[pymethods]
impl Simulation {
    /// Prepares a run. `config` is as for `simulate`.
    ///
    /// Raises ValueError when the configuration cannot be run; the message names the field.
    #[new]
    fn new(config: &str) -> PyResult<Self> {
        let config: SimConfig = serde_json::from_str(config).map_err(value_error)?;
        let simulation = sim::Simulation::new(&config, Catalogue::ours()).map_err(value_error)?;
        Ok(Simulation(Mutex::new(simulation)))
    }

    /// Up to when it has run, in nanoseconds.
    fn now(&self) -> PyResult<u64> {
        Ok(self.lock()?.now().0)
    }

    /// Runs up to a time in nanoseconds; releases the GIL meanwhile.
    ///
    /// Raises ValueError if the time has passed or is after the end, or if a congestion control fails.
    fn advance(&self, py: Python<'_>, until_ns: u64) -> PyResult<()> {
        py.detach(|| self.lock()?.advance(Time(until_ns)).map_err(value_error))
    }

    /// Replaces the configuration of a path, as in `simulate`'s configuration, from now on.
    ///
    /// Raises ValueError if there is no such path, or if a field breaks a rule.
    fn set_path(&self, config: &str) -> PyResult<()> {
        let config: PathConfig = serde_json::from_str(config).map_err(value_error)?;
        self.lock()?.set_path(config).map_err(value_error)
    }

    /// The tables so far, as `simulate` returns them.
    fn tables<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let result = self.lock()?.result();
        tables(py, result)
    }
}

impl Simulation {
    fn lock(&self) -> PyResult<MutexGuard<'_, sim::Simulation>> {
        let broken = |_| PyRuntimeError::new_err("the simulation ended in a panic");
        self.0.lock().map_err(broken)
    }
}

fn value_error(error: impl ToString) -> PyErr {
    PyValueError::new_err(error.to_string())
}
