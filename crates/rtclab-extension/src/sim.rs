//! `simulate`: configuration in as JSON, tables out as arrays.

use crate::control::{self, Controls};
use numpy::IntoPyArray;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use rayon::{ThreadPool, ThreadPoolBuilder};
use rtclab_core::capture::Captured;
use rtclab_core::catalogue::Catalogue;
use rtclab_core::record::{Column, Table};
use rtclab_core::sim::{
    self, Executor, Job, Sequential, SimConfig, SimError, SimResult, Simulation,
};

/// Runs a scenario in virtual time; releases the GIL while it runs, unless controls of the caller's are passed.
///
/// `controls` are Python classes: name, stack profile, and what makes an instance from the bounds. Several threads share the nodes of one run, with the same result. They pay for scenarios with many flows.
///
/// Returns a dictionary from table to a dictionary from column to values: int64 and float64 arrays,
/// or for text columns a pair of uint32 codes (4294967295 for null) and the list of texts.
///
/// Raises ValueError when the configuration cannot be run; the message names the field.
#[pyfunction]
#[pyo3(signature = (config, threads = 1, controls = None))]
pub(crate) fn simulate<'py>(
    py: Python<'py>,
    config: &str,
    threads: usize,
    controls: Option<Controls>,
) -> PyResult<Bound<'py, PyDict>> {
    let simulate = |config: &SimConfig, catalogue: &Catalogue| -> Result<SimResult, SimError> {
        let mut simulation = Simulation::new(config, catalogue)?;
        simulation.advance_with(config.duration_ns, &*executor_of(threads))?;
        Ok(simulation.finish())
    };
    tables(py, run(py, config, controls, simulate)?)
}

/// Runs a scenario as `simulate` does; returns its tables, a pcapng file, and session descriptions for it.
///
/// Raises ValueError when the configuration cannot be run; the message names the field.
#[pyfunction]
#[pyo3(signature = (config, controls = None))]
pub(crate) fn simulate_captured<'py>(
    py: Python<'py>,
    config: &str,
    controls: Option<Controls>,
) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyBytes>, String)> {
    let (result, Captured { pcapng, sdp }) =
        run(py, config, controls, sim::simulate_captured_with)?;
    Ok((tables(py, result)?, PyBytes::new(py, &pcapng), sdp))
}

fn run<T: Send>(
    py: Python<'_>,
    config: &str,
    controls: Option<Controls>,
    simulate: impl FnOnce(&SimConfig, &Catalogue) -> Result<T, SimError> + Send,
) -> PyResult<T> {
    let config: SimConfig =
        serde_json::from_str(config).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let ran = match controls {
        None => py.detach(|| simulate(&config, crate::catalogue())),
        // Its controls are called all the time.
        Some(controls) => simulate(&config, &control::catalogue(Some(controls))?),
    };
    ran.map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Threads that work on one run.
struct Threads(ThreadPool);

impl Executor for Threads {
    fn threads(&self) -> usize {
        self.0.current_num_threads() + 1
    }

    fn run_all(&self, jobs: Vec<Job<'_>>) {
        self.0.in_place_scope(|scope| {
            let mut jobs = jobs.into_iter();
            let own = jobs.next();
            jobs.for_each(|job| scope.spawn(|_| job()));
            own.into_iter().for_each(|job| job());
        });
    }
}

/// This many threads, the calling one included; one if there can be no more.
fn executor_of(threads: usize) -> Box<dyn Executor> {
    if threads > 1 {
        if let Ok(pool) = ThreadPoolBuilder::new().num_threads(threads - 1).build() {
            return Box::new(Threads(pool));
        }
    }
    Box::new(Sequential)
}

pub(crate) fn tables<'py>(py: Python<'py>, result: SimResult) -> PyResult<Bound<'py, PyDict>> {
    to_dict(py, result.tables, result.texts)
}

/// Tables as a dictionary from table to a dictionary from column to values. All columns share the list of texts.
pub(crate) fn to_dict(
    py: Python<'_>,
    tables: Vec<Table>,
    texts: Vec<String>,
) -> PyResult<Bound<'_, PyDict>> {
    let (out, texts) = (PyDict::new(py), PyList::new(py, texts)?);
    for table in tables {
        let columns = PyDict::new(py);
        for (name, column) in table.columns {
            match column {
                Column::Int(values) => columns.set_item(name, values.into_pyarray(py))?,
                Column::Float(values) => columns.set_item(name, values.into_pyarray(py))?,
                Column::Text(codes) => columns.set_item(name, (codes.into_pyarray(py), &texts))?,
            }
        }
        out.set_item(table.name, columns)?;
    }
    Ok(out)
}
