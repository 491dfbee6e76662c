//! `LiveMonitor`: tables from an interface, as arrays.

use crate::monitor::{to_dict, to_python};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rtclab_core::monitor::{CaptureFaults, Interface, Monitor, MonitorConfig, Sdp};
use rtclab_core::pcapng::link_type;
use rtclab_emu::Listener;
use std::time::Duration;

/// The longest time to watch in one call, the longest duration of a scenario.
const LONGEST_POLL_S: f64 = 1e9;
/// How long Ctrl-C may wait while an interface is watched.
const SIGNALS_INTERVAL: Duration = Duration::from_millis(100);

/// A monitor of an interface.
#[pyclass(module = "rtclab._native")]
pub(crate) struct LiveMonitor {
    interface: Interface,
    listener: Listener,
    monitor: Monitor,
}

#[pymethods]
impl LiveMonitor {
    #[new]
    #[pyo3(signature = (interface, *, sdp=None, packets=false, seconds=false, max_streams=10_000))]
    fn new(
        interface: &str,
        sdp: Option<&str>,
        packets: bool,
        seconds: bool,
        max_streams: usize,
    ) -> PyResult<Self> {
        let listener =
            Listener::open(interface).map_err(|error| to_python(interface, error.into()))?;
        let sdp = sdp.map(Sdp::parse).unwrap_or_default();
        let config = MonitorConfig { sdp, packets, seconds, max_streams };
        let interface =
            Interface { link_type: link_type::ETHERNET, name: Some(interface.to_owned()) };
        Ok(LiveMonitor { interface, listener, monitor: Monitor::new(config) })
    }

    /// Watches for `timeout_s` seconds and returns the current tables. The table `packets` only has packets
    /// since the last call.
    #[pyo3(signature = (timeout_s=1.0))]
    fn poll<'py>(&mut self, py: Python<'py>, timeout_s: f64) -> PyResult<Bound<'py, PyDict>> {
        if !(0.0..=LONGEST_POLL_S).contains(&timeout_s) {
            let expected = format!("expected 0 to {LONGEST_POLL_S:e}");
            return Err(PyValueError::new_err(format!("timeout_s: got {timeout_s:e}; {expected}")));
        }
        let mut left = Duration::from_secs_f64(timeout_s);
        while !left.is_zero() {
            let part = left.min(SIGNALS_INTERVAL);
            let heard = py.detach(|| {
                self.listener.listen(part, &mut |frame| self.monitor.handle_frame(frame))
            });
            let name = self.interface.name.as_deref().unwrap_or_default();
            heard.map_err(|error| to_python(name, error.into()))?;
            py.check_signals()?;
            left -= part;
        }
        let tables = py.detach(|| {
            let dropped = self.listener.dropped();
            let faults = CaptureFaults { dropped, ..CaptureFaults::default() };
            self.monitor.tables(std::slice::from_ref(&self.interface), &faults)
        });
        to_dict(py, tables)
    }
}
