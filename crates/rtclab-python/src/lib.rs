//! Python binding of rtclab: conversions and error mapping, and congestion controls that are Python classes.

use pyo3::prelude::*;
use rtclab_core::catalogue::Catalogue;
use rtclab_core::cc::OptionSpec;
use rtclab_core::environment;

mod control;
#[cfg(target_os = "linux")]
mod emulator;
mod environments;
mod event_log;
#[cfg(target_os = "linux")]
mod live_monitor;
mod monitor;
mod parquet;
mod replay;
mod sim;
mod simulation;
mod statistics;

/// Simulator, monitor and the one quantile that metrics need; on Linux also the emulator.
#[pymodule]
fn _native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(sim::simulate, m)?)?;
    m.add_function(wrap_pyfunction!(sim::simulate_captured, m)?)?;
    m.add_class::<simulation::Simulation>()?;
    m.add_function(wrap_pyfunction!(control::control_calls, m)?)?;
    m.add_function(wrap_pyfunction!(control::end_when_stuck, m)?)?;
    m.add_class::<control::Bounds>()?;
    m.add_class::<control::Decision>()?;
    m.add_class::<control::Feedback>()?;
    m.add_class::<control::Probe>()?;
    m.add_class::<control::ReceivedPacket>()?;
    m.add_class::<control::Report>()?;
    m.add_class::<control::ReportedPacket>()?;
    m.add_class::<control::Sender>()?;
    m.add_class::<control::SentPacket>()?;
    m.add_class::<environments::Environments>()?;
    m.add_class::<environments::ArrivalFeatures>()?;
    m.add("ENVIRONMENT_CONTROL", environment::CONTROL)?;
    m.add("ENVIRONMENT_OUTCOME", environment::OUTCOME)?;
    m.add("ENVIRONMENT_FULL", environment::FULL)?;
    m.add_function(wrap_pyfunction!(parquet::parquet, m)?)?;
    m.add_function(wrap_pyfunction!(monitor::monitor, m)?)?;
    m.add_function(wrap_pyfunction!(monitor::monitor_compare, m)?)?;
    m.add_function(wrap_pyfunction!(event_log::event_log, m)?)?;
    m.add_function(wrap_pyfunction!(replay::replay_log, m)?)?;
    m.add_function(wrap_pyfunction!(replay::replay_arrivals, m)?)?;
    m.add_function(wrap_pyfunction!(statistics::student_t_quantile, m)?)?;
    m.add_function(wrap_pyfunction!(statistics::student_t_p, m)?)?;
    #[cfg(target_os = "linux")]
    {
        m.add_class::<emulator::Emulator>()?;
        m.add_class::<live_monitor::LiveMonitor>()?;
    }
    m.add("CONGESTION_CONTROLS", congestion_controls())?;
    m.add("CONGESTION_CONTROL_SUMMARIES", congestion_control_summaries())?;
    m.add("CONGESTION_CONTROL_OPTIONS", congestion_control_options())?;
    Ok(())
}

/// Names of all algorithms.
fn congestion_controls() -> Vec<&'static str> {
    Catalogue::ours().algorithms().iter().map(|algorithm| &*algorithm.name).collect()
}

/// Algorithm, and what it is in a line.
fn congestion_control_summaries() -> Vec<(&'static str, &'static str)> {
    let algorithms = Catalogue::ours().algorithms().iter();
    algorithms.map(|algorithm| (&*algorithm.name, algorithm.summary)).collect()
}

/// Algorithm, option, meaning, smallest and largest value of every option.
fn congestion_control_options() -> Vec<(&'static str, &'static str, &'static str, f64, f64)> {
    let options = Catalogue::ours().algorithms().iter().flat_map(|algorithm| {
        algorithm.options.iter().map(move |OptionSpec { name, meaning, bounds: (min, max) }| {
            (&*algorithm.name, *name, *meaning, *min, *max)
        })
    });
    options.collect()
}
