//! `Environments`: many calls. In each of them, the rate of one sender is decided step by step.

use crate::sim::tables;
use numpy::ndarray::{Array1, Array2};
use numpy::{IntoPyArray, PyArray1, PyArray2, PyReadonlyArray1};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use rtclab_core::catalogue::Catalogue;
use rtclab_core::cc::features::{Arrival, BWE2024, Features};
use rtclab_core::environment::{self, Environment, OUTCOME, Observed, Reward};
use rtclab_core::packet::Kind;
use rtclab_core::sim::SimConfig;
use rtclab_core::units::{Bitrate, Time};
use std::sync::{LazyLock, Mutex, MutexGuard};

/// The congestion controls of this module, and the one whose rate is decided here.
static CATALOGUE: LazyLock<Catalogue> =
    LazyLock::new(|| environment::with_control(crate::catalogue()));

/// What a step returns: observations (float32, a row for each call), rewards, which calls are over, and outcomes
/// (float64, a row for each call).
type Stepped<'py> = (
    Bound<'py, PyArray2<f32>>,
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<bool>>,
    Bound<'py, PyArray2<f64>>,
);

/// Many calls that are stepped together, on several threads. The threads do not change the results.
#[pyclass]
pub(crate) struct Environments(Mutex<Calls>);

struct Calls {
    calls: Vec<Option<Environment>>,
    observed: Observed,
    /// `None`: rewards are computed elsewhere, and 0 here.
    reward: Option<Reward>,
    /// `None`: the calling thread steps all calls.
    pool: Option<ThreadPool>,
}

#[pymethods]
impl Environments {
    /// Makes room for `count` calls.
    ///
    /// Raises ValueError if there is no such observation or reward.
    #[new]
    fn new(count: usize, observed: &str, reward: Option<&str>, threads: usize) -> PyResult<Self> {
        let unknown = |what, name| PyValueError::new_err(format!("no {what} `{name}`"));
        let observed = Observed::named(observed).ok_or_else(|| unknown("observation", observed))?;
        let named = |name| Reward::named(name).ok_or_else(|| unknown("reward", name));
        let reward = reward.map(named).transpose()?;
        let pool = (threads > 1).then(|| ThreadPoolBuilder::new().num_threads(threads).build());
        let pool = pool.transpose().map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        let calls = (0..count).map(|_| None).collect();
        Ok(Environments(Mutex::new(Calls { calls, observed, reward, pool })))
    }

    /// Begins some calls anew, without the GIL: each with its index, configuration and the flow of its sender.
    ///
    /// Raises ValueError if a configuration cannot be run, or the sender never asks; the message names the call.
    fn begin(&self, py: Python<'_>, calls: Vec<(usize, String, String)>) -> PyResult<()> {
        py.detach(|| self.lock()?.begin(calls).map_err(PyValueError::new_err))
    }

    /// Decides on the rate in bit/s of each call for which `active` is true, and runs it until the next decision,
    /// without the GIL.
    ///
    /// Raises ValueError if a run fails or a call is over; the message names the call.
    fn step<'py>(
        &self,
        py: Python<'py>,
        rates: PyReadonlyArray1<'py, f64>,
        active: PyReadonlyArray1<'py, bool>,
    ) -> PyResult<Stepped<'py>> {
        let (rates, active) = (rates.as_array().to_vec(), active.as_array().to_vec());
        py.detach(|| self.lock()?.step(&rates, &active).map_err(PyValueError::new_err))?;
        self.look(py)
    }

    /// Observations, rewards, which calls are over, and outcomes, of the last step.
    fn look<'py>(&self, py: Python<'py>) -> PyResult<Stepped<'py>> {
        let (observations, rewards, over, outcomes) =
            py.detach(|| Ok::<_, PyErr>(self.lock()?.look()))?;
        Ok((
            observations.into_pyarray(py),
            rewards.into_pyarray(py),
            over.into_pyarray(py),
            outcomes.into_pyarray(py),
        ))
    }

    /// The tables of a call so far, as `simulate` returns them.
    ///
    /// Raises ValueError if it has not begun.
    fn tables<'py>(&self, py: Python<'py>, call: usize) -> PyResult<Bound<'py, PyDict>> {
        let result = self.lock()?.calls.get(call).and_then(|call| Some(call.as_ref()?.result()));
        tables(
            py,
            result.ok_or_else(|| PyValueError::new_err(format!("call {call} has not begun")))?,
        )
    }
}

impl Environments {
    fn lock(&self) -> PyResult<MutexGuard<'_, Calls>> {
        self.0.lock().map_err(|_| PyRuntimeError::new_err("a simulation ended in a panic"))
    }
}

impl Calls {
    fn begin(&mut self, begun: Vec<(usize, String, String)>) -> Result<(), String> {
        let make = |(index, config, flow): (usize, String, String)| {
            let config: SimConfig =
                serde_json::from_str(&config).map_err(|error| of_call(index, error))?;
            let call = Environment::new(&config, &flow, &CATALOGUE);
            Ok((index, call.map_err(|error| of_call(index, error))?))
        };
        let made: Vec<Result<_, String>> = match &self.pool {
            Some(pool) => pool.install(|| begun.into_par_iter().map(make).collect()),
            None => begun.into_iter().map(make).collect(),
        };
        for one in made {
            let (index, call) = one?;
            let count = self.calls.len();
            let place = self.calls.get_mut(index);
            *place.ok_or_else(|| format!("call {index}; expected 0 to {}", count - 1))? =
                Some(call);
        }
        Ok(())
    }

    fn step(&mut self, rates: &[f64], active: &[bool]) -> Result<(), String> {
        let count = self.calls.len();
        if rates.len() != count || active.len() != count {
            return Err(format!("{} rates, {} flags; expected {count}", rates.len(), active.len()));
        }
        let step = |(index, call): (usize, &mut Option<Environment>)| match call {
            Some(call) if active[index] => {
                call.step(Bitrate(rates[index] as u64)).map_err(|error| of_call(index, error))
            }
            None if active[index] => Err(of_call(index, "it has not begun")),
            _ => Ok(()),
        };
        let stepped: Vec<Result<(), String>> = match &self.pool {
            Some(pool) => {
                pool.install(|| self.calls.par_iter_mut().enumerate().map(step).collect())
            }
            None => self.calls.iter_mut().enumerate().map(step).collect(),
        };
        stepped.into_iter().collect()
    }

    fn look(&self) -> (Array2<f32>, Array1<f64>, Array1<bool>, Array2<f64>) {
        let (count, length) = (self.calls.len(), self.observed.length());
        let mut observations = Array2::zeros((count, length));
        let mut rewards = Array1::zeros(count);
        let mut over = Array1::from_elem(count, true);
        let mut outcomes = Array2::zeros((count, OUTCOME.len()));
        for (index, call) in self.calls.iter().enumerate() {
            let Some(call) = call else { continue };
            if let Some(row) = observations.row_mut(index).as_slice_mut() {
                call.observe(self.observed, row);
            }
            rewards[index] = self.reward.map_or(0.0, |reward| reward.of(call.outcome()));
            over[index] = call.is_over();
            outcomes.row_mut(index).assign(&Array1::from_iter(call.outcome().values()));
        }
        (observations, rewards, over, outcomes)
    }
}

fn of_call(index: usize, error: impl ToString) -> String {
    format!("call {index}: {}", error.to_string())
}

/// The features of arriving packets that learned congestion controls see.
#[pyclass]
#[derive(Default)]
pub(crate) struct ArrivalFeatures(Features);

#[pymethods]
impl ArrivalFeatures {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Adds a packet: when it left and arrived in ns, its size in bytes, its kind, and how many were missing before it.
    ///
    /// Raises ValueError if there is no such kind.
    fn push(
        &mut self,
        sent_ns: u64,
        received_ns: u64,
        size: u32,
        kind: &str,
        lost_before: u32,
    ) -> PyResult<()> {
        let known = Kind::ALL.into_iter().find(|known| known.name() == kind);
        let kind = known.ok_or_else(|| PyValueError::new_err(format!("no kind `{kind}`")))?;
        let (sent, received, size) = (Time(sent_ns), Time(received_ns), size.into());
        self.0.push(Arrival { sent, received, size, kind, lost_before });
        Ok(())
    }

    /// The 150 features of the challenge of 2024 at a time in ns of the receiver's clock.
    fn bwe2024<'py>(&self, py: Python<'py>, now_ns: u64) -> Bound<'py, PyArray1<f32>> {
        let mut out = vec![0.0; BWE2024];
        self.0.bwe2024(Time(now_ns), &mut out);
        out.into_pyarray(py)
    }
}
