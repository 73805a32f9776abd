//! Fixed-point policies, fed by hand: to compare the same program elsewhere bit for bit.

use orbitcc_core::observe::fixed::{self, Decision, Program, State, Statistics};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::convert::value_error;

/// Structures of integers in C's layout without padding, which any bytes of their length are.
///
/// # Safety
/// Every pattern of bits is a value, and no byte is padding.
pub unsafe trait Plain: Copy {}
unsafe impl Plain for Program {}
unsafe impl Plain for State {}
unsafe impl Plain for Statistics {}
unsafe impl Plain for Decision {}

pub fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

fn read<T: Plain>(name: &str, bytes: &[u8]) -> PyResult<T> {
    if bytes.len() != size_of::<T>() {
        return Err(value_error(format!("{name}: {} bytes, must be {}", bytes.len(), size_of::<T>())));
    }
    Ok(unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) })
}

/// The decisions of a program for records of statistics, one after another, and the state after them.
#[pyfunction]
pub fn fixed_decide<'py>(
    py: Python<'py>,
    program: &[u8],
    state: &[u8],
    statistics: &[u8],
) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
    let program: Program = read("program", program)?;
    let mut state: State = read("state", state)?;
    let record = size_of::<Statistics>();
    if !statistics.len().is_multiple_of(record) {
        return Err(value_error(format!("statistics: {} bytes, must be records of {record}", statistics.len())));
    }
    if !program.fits() {
        return Err(value_error("program: its layers do not fit into its weights"));
    }
    let mut decisions = Vec::with_capacity(statistics.len() / record * size_of::<Decision>());
    for chunk in statistics.chunks_exact(record) {
        let decision = fixed::decide(&program, &mut state, &read("statistics", chunk)?);
        decisions.extend_from_slice(bytes_of(&decision));
    }
    Ok((PyBytes::new(py, &decisions), PyBytes::new(py, bytes_of(&state))))
}
