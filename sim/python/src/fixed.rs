//! Policies in fixed point, by the C code of the BPF programs.

use std::sync::Arc;

use orbitcc_core::observe::policy::{Network, Policy};
use orbitcc_fixed::Flow;
use orbitcc_fixed::layout::{self, Limits, Plain, Statistics};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::convert::value_error;

#[pyclass(module = "orbitcc._sim", frozen)]
pub struct FixedPolicy {
    pub inner: Arc<Policy>,
    compiled: Arc<layout::Policy>,
}

impl FixedPolicy {
    pub fn new(network: &Network, policy: &Policy) -> PyResult<FixedPolicy> {
        let (fixed, compiled) = orbitcc_fixed::policy(network, policy).map_err(value_error)?;
        Ok(FixedPolicy { inner: Arc::new(fixed), compiled })
    }
}

#[pymethods]
impl FixedPolicy {
    #[getter]
    fn program<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.compiled.program.bytes())
    }

    fn decide<'py>(&self, py: Python<'py>, statistics: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let record = size_of::<Statistics>();
        if !statistics.len().is_multiple_of(record) {
            return Err(value_error(format!("statistics: {} bytes, must be records of {record}", statistics.len())));
        }
        let plain = layout::Policy { limits: Limits::default(), ..*self.compiled };
        let mut flow = Flow::new(Arc::new(plain));
        let mut decisions = Vec::new();
        for stats in statistics.chunks_exact(record).filter_map(Statistics::read) {
            decisions.extend_from_slice(flow.take(&stats).0.bytes());
        }
        Ok(PyBytes::new(py, &decisions))
    }
}
