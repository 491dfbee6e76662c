//! Quantiles from the crate `statrs`: importing scipy for one of them takes longer than most commands.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// The value below which Student's t lies with probability `share`, in 0..1.
#[pyfunction]
pub(crate) fn student_t_quantile(share: f64, degrees_of_freedom: f64) -> PyResult<f64> {
    if !(0.0..1.0).contains(&share) {
        return Err(PyValueError::new_err(format!("share is {share}; expected 0 to 1")));
    }
    let distribution = StudentsT::new(0.0, 1.0, degrees_of_freedom).map_err(|error| {
        PyValueError::new_err(format!("degrees_of_freedom is {degrees_of_freedom}: {error}"))
    })?;
    Ok(distribution.inverse_cdf(share))
}
