//! Errors and arrays across the border.

use std::sync::Arc;

use numpy::{Element, PyReadonlyArrayDyn, PyReadwriteArrayDyn, PyUntypedArrayMethods};
use orbitcc_core::spec::{NetworkSpec, SpecError};
use orbitcc_core::world::Policies;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

pub fn value_error(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// A piece as JSON text.
pub fn json(text: &str) -> PyResult<serde_json::Value> {
    serde_json::from_str(text).map_err(|e| value_error(format!("piece {text}: must be JSON ({e})")))
}

pub fn network(text: &str) -> PyResult<NetworkSpec> {
    NetworkSpec::from_json(text).map_err(value_error)
}

pub fn spec_error(error: SpecError) -> PyErr {
    value_error(error)
}

/// `{name: Policy}` -> shared networks.
pub fn policies(map: Option<&Bound<'_, PyAny>>) -> PyResult<Policies> {
    let mut table = Policies::new();
    if let Some(map) = map {
        let dict = PyDict::new(map.py());
        dict.call_method1("update", (map,))?;
        for (name, policy) in dict.iter() {
            let policy = policy.extract::<PyRef<'_, crate::policy::Policy>>()?;
            table.insert(name.extract()?, Arc::clone(&policy.inner));
        }
    }
    Ok(table)
}

/// The array's memory, if it has the wanted shape and is C-contiguous.
pub fn readonly<'a, T: Element>(
    array: &'a PyReadonlyArrayDyn<'_, T>,
    name: &str,
    shape: &[usize],
) -> PyResult<&'a [T]> {
    check(name, array.shape(), shape)?;
    array.as_slice().map_err(|_| value_error(format!("{name}: must be C-contiguous")))
}

pub fn writable<'a, T: Element>(
    array: &'a mut PyReadwriteArrayDyn<'_, T>,
    name: &str,
    shape: &[usize],
) -> PyResult<&'a mut [T]> {
    check(name, array.shape(), shape)?;
    array.as_slice_mut().map_err(|_| value_error(format!("{name}: must be C-contiguous")))
}

fn check(name: &str, got: &[usize], wanted: &[usize]) -> PyResult<()> {
    if got == wanted { Ok(()) } else { Err(value_error(format!("{name}: shape {got:?}, must be {wanted:?}"))) }
}
