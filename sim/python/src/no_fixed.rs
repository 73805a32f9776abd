//! Without the C code of the BPF programs.

use std::sync::Arc;

use orbitcc_core::observe::policy::{Network, Policy};
use pyo3::prelude::*;

#[pyclass(module = "orbitcc._sim", frozen)]
pub struct FixedPolicy {
    pub inner: Arc<Policy>,
}

impl FixedPolicy {
    pub fn new(_network: &Network, _policy: &Policy) -> PyResult<FixedPolicy> {
        Err(crate::convert::value_error("fixed point needs Linux: its C code is built there only"))
    }
}
