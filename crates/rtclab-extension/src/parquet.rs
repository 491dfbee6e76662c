//! `parquet`: columns as the content of a Parquet file.

use numpy::PyReadonlyArray1;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::PyBytes;
use rtclab_core::parquet::{Column, Values, file};

/// Returns the content of a Parquet file; releases the GIL while it is made.
///
/// `columns` has for each column its name, its type (`int`, `flag`, `float` or `text`), whether it may have nulls,
/// and its values as `simulate` returns them, or None for a column of nulls.
///
/// Raises TypeError for values of another type, and ValueError when columns do not fit together.
#[pyfunction]
pub(crate) fn parquet<'py>(
    py: Python<'py>,
    columns: Vec<(PyBackedStr, PyBackedStr, bool, Option<Bound<'py, PyAny>>)>,
) -> PyResult<Bound<'py, PyBytes>> {
    let held: Vec<_> = columns
        .iter()
        .map(|(name, kind, _, values)| {
            let named = |error: PyErr| {
                PyTypeError::new_err(format!("`{name}`, {kind}: {}", error.value(py)))
            };
            Held::of(kind, values.as_ref()).map_err(named)
        })
        .collect::<PyResult<_>>()?;
    let texts: Vec<Vec<&str>> = held.iter().map(Held::texts).collect();
    let columns: Vec<_> = columns
        .iter()
        .zip(held.iter().zip(&texts))
        .map(|((name, _, nullable, _), (held, texts))| {
            Ok(Column { name, nullable: *nullable, values: held.values(texts)? })
        })
        .collect::<PyResult<_>>()?;
    let file = py.detach(|| file(&columns)).map_err(PyValueError::new_err)?;
    Ok(PyBytes::new(py, &file))
}

/// The values of a column, held while the file is made.
enum Held<'py> {
    Int(Option<PyReadonlyArray1<'py, i64>>),
    Flag(Option<PyReadonlyArray1<'py, i64>>),
    Float(Option<PyReadonlyArray1<'py, f64>>),
    Text(Option<(PyReadonlyArray1<'py, u32>, Vec<PyBackedStr>)>),
}

impl<'py> Held<'py> {
    fn of(kind: &str, values: Option<&Bound<'py, PyAny>>) -> PyResult<Self> {
        Ok(match kind {
            "int" => Held::Int(extracted(values)?),
            "flag" => Held::Flag(extracted(values)?),
            "float" => Held::Float(extracted(values)?),
            "text" => Held::Text(extracted(values)?),
            _ => return Err(PyValueError::new_err(format!("no type `{kind}`"))),
        })
    }

    fn texts(&self) -> Vec<&str> {
        match self {
            Held::Text(Some((_, texts))) => texts.iter().map(|text| &**text).collect(),
            _ => Vec::new(),
        }
    }

    fn values<'a>(&'a self, texts: &'a [&'a str]) -> PyResult<Values<'a>> {
        Ok(match self {
            Held::Int(values) => Values::Int(slice(values.as_ref())?),
            Held::Flag(values) => Values::Flag(slice(values.as_ref())?),
            Held::Float(values) => Values::Float(slice(values.as_ref())?),
            Held::Text(None) => Values::Text(None),
            Held::Text(Some((codes, _))) => Values::Text(Some((codes.as_slice()?, texts))),
        })
    }
}

fn extracted<'py, T: for<'a> FromPyObject<'a, 'py>>(
    values: Option<&Bound<'py, PyAny>>,
) -> PyResult<Option<T>> {
    values.map(|values| values.extract().map_err(Into::into)).transpose()
}

fn slice<'a, T: numpy::Element>(
    values: Option<&'a PyReadonlyArray1<'_, T>>,
) -> PyResult<Option<&'a [T]>> {
    Ok(values.map(PyReadonlyArray1::as_slice).transpose()?)
}
