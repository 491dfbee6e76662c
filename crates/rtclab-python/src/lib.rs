//! Python binding of rtclab: conversions and error mapping, no logic.

use pyo3::prelude::*;

mod emulator;
mod monitor;
mod sim;
mod statistics;

/// Simulator, emulator, monitor and the one quantile that metrics need.
#[pymodule]
fn _native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(sim::simulate, m)?)?;
    m.add_function(wrap_pyfunction!(sim::simulate_captured, m)?)?;
    m.add_function(wrap_pyfunction!(monitor::monitor, m)?)?;
    m.add_function(wrap_pyfunction!(monitor::monitor_compare, m)?)?;
    m.add_function(wrap_pyfunction!(statistics::student_t_quantile, m)?)?;
    m.add_class::<emulator::Emulator>()?;
    m.add_class::<monitor::LiveMonitor>()?;
    m.add("CONGESTION_CONTROLS", rtclab_core::cc::NAMES.to_vec())?;
    Ok(())
}
