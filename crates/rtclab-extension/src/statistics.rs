//! Student's t from the crate `statrs`: importing scipy for it takes longer than most commands.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// The value below which Student's t lies with probability `share`, in 0..1.
#[pyfunction]
pub(crate) fn student_t_quantile(share: f64, degrees_of_freedom: f64) -> PyResult<f64> {
    if !(0.0..1.0).contains(&share) {
        return Err(PyValueError::new_err(format!("share is {share}; expected 0 to 1")));
    }
    Ok(student_t(degrees_of_freedom)?.inverse_cdf(share))
}

/// The probability that Student's t is at least as far from 0 as `t`, on either side.
#[pyfunction]
pub(crate) fn student_t_p(t: f64, degrees_of_freedom: f64) -> PyResult<f64> {
    if t.is_nan() {
        return Err(PyValueError::new_err("t is NaN; expected a number"));
    }
    Ok(2.0 * student_t(degrees_of_freedom)?.sf(t.abs()))
}

fn student_t(degrees_of_freedom: f64) -> PyResult<StudentsT> {
    StudentsT::new(0.0, 1.0, degrees_of_freedom).map_err(|error| {
        PyValueError::new_err(format!("degrees_of_freedom is {degrees_of_freedom}: {error}"))
    })
}
