//! Python binding of rtclab: conversions and error mapping, and congestion controls that are Python classes.
//!
//! [`extension!`] makes rtclab's Python module of a crate, with congestion controls of the crate's own. It has one
//! catalogue, set when the module is made.
//!
//! The module of rtclab itself is in a crate apart, `rtclab-python`, because cargo does not optimize across crates for
//! a library that other crates can use, too.

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use rtclab_core::catalogue::{Algorithm, Catalogue};
use rtclab_core::cc::OptionSpec;
use rtclab_core::environment;
use std::sync::OnceLock;

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

#[doc(hidden)]
pub use pyo3;

/// Makes the Python module `rtclab._native` of a crate, at the root of the crate.
///
/// It has the congestion controls of rtclab and the given ones, which are expressions of type
/// [`Algorithm`]. A unit test of the crate needs no Python: the module is left out of it.
///
/// ```ignore
/// rtclab_extension::extension!(my_control(), another_control());
/// ```
#[macro_export]
macro_rules! extension {
    ($($algorithm:expr),* $(,)?) => {
        #[cfg(not(test))]
        mod __rtclab {
            #[allow(unused_imports)]
            use super::*;
            pub(super) use $crate::pyo3;
            use pyo3::prelude::*;

            /// Simulator, monitor and the one quantile that metrics need; on Linux also the emulator.
            #[pymodule]
            #[pyo3(crate = "crate::__rtclab::pyo3")]
            fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
                $crate::fill(module, [$($algorithm),*])
            }
        }
    };
}

/// The congestion controls of this module.
static CATALOGUE: OnceLock<Catalogue> = OnceLock::new();

/// The congestion controls of rtclab, and those that this module adds.
pub(crate) fn catalogue() -> &'static Catalogue {
    CATALOGUE.get().unwrap_or_else(|| Catalogue::ours())
}

/// Fills the Python module, with these congestion controls beside rtclab's.
///
/// # Errors
/// ImportError if two controls have the same name, or two stack profiles.
#[doc(hidden)]
pub fn fill(m: &Bound<'_, PyModule>, own: impl IntoIterator<Item = Algorithm>) -> PyResult<()> {
    let mut known = Catalogue::ours().clone();
    for algorithm in own {
        known.add(algorithm).map_err(|error| PyImportError::new_err(error.to_string()))?;
    }
    CATALOGUE.get_or_init(|| known);
    m.add("VERSION", env!("CARGO_PKG_VERSION"))?;
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
    catalogue().algorithms().iter().map(|algorithm| &*algorithm.name).collect()
}

/// Algorithm, and what it is in a line.
fn congestion_control_summaries() -> Vec<(&'static str, &'static str)> {
    let algorithms = catalogue().algorithms().iter();
    algorithms.map(|algorithm| (&*algorithm.name, algorithm.summary)).collect()
}

/// Algorithm, option, meaning, smallest and largest value of every option.
fn congestion_control_options() -> Vec<(&'static str, &'static str, &'static str, f64, f64)> {
    let options = catalogue().algorithms().iter().flat_map(|algorithm| {
        algorithm.options.iter().map(move |OptionSpec { name, meaning, bounds: (min, max) }| {
            (&*algorithm.name, *name, *meaning, *min, *max)
        })
    });
    options.collect()
}
