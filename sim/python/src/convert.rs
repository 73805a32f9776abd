//! Errors and arrays across the border.

use numpy::{Element, PyReadonlyArrayDyn, PyReadwriteArrayDyn, PyUntypedArrayMethods};
use orbitcc_core::observe::functions::Control;
use orbitcc_core::observe::policy::Failure;
use orbitcc_core::observe::safety_filter::Limits;
use orbitcc_core::spec::{NetworkSpec, SpecError};
use orbitcc_core::world::World;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

pub fn value_error(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// A function as JSON text.
pub fn json(text: &str) -> PyResult<serde_json::Value> {
    serde_json::from_str(text).map_err(|e| value_error(format!("function {text}: must be JSON ({e})")))
}

pub fn network(text: &str) -> PyResult<NetworkSpec> {
    NetworkSpec::from_json(text).map_err(value_error)
}

pyo3::create_exception!(orbitcc._sim, NetworkError, PyValueError, "A network that the simulator cannot play or copy.");

pub fn spec_error(error: SpecError) -> PyErr {
    NetworkError::new_err(error.to_string())
}

/// An error for a world whose hosts are not the simulator's.
pub fn only_simulated(world: &World) -> PyResult<()> {
    match (world.has_kernel_hosts(), world.guests().is_some()) {
        (true, _) => Err(NetworkError::new_err("an emulated network cannot be copied, because its hosts are real")),
        (_, true) => Err(NetworkError::new_err("flows of QUIC cannot be copied: quinn's connections have no copies")),
        _ => Ok(()),
    }
}

/// A window in segments and a pacing rate in bytes per second, from packets and bit/s (0: none).
pub fn control(cwnd_packets: f64, pacing_bps: f64) -> PyResult<Control> {
    for (field, value) in [("cwnd_packets", cwnd_packets), ("pacing_bps", pacing_bps)] {
        if !value.is_finite() || value < 0.0 {
            return Err(value_error(format!("{field} = {value}: must be a number >= 0")));
        }
    }
    Ok((cwnd_packets as u32, (pacing_bps > 0.0).then_some((pacing_bps / 8.0) as u64)))
}

/// An error if a policy could not decide: its own exception, where it came from Python.
pub fn decided(py: Python<'_>, failure: Option<&Failure>) -> PyResult<()> {
    match failure {
        None => Ok(()),
        Some(failure) => Err(match failure.downcast_ref::<PyErr>() {
            Some(exception) => exception.clone_ref(py),
            None => value_error(failure),
        }),
    }
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

/// Checked limits of a safety filter, from JSON.
pub fn limits(text: &str) -> PyResult<Limits> {
    let limits: Limits = serde_json::from_str(text).map_err(|error| value_error(format!("safety filter: {error}")))?;
    limits.validate().map_err(|error| value_error(format!("safety filter.{error}")))?;
    Ok(limits)
}
