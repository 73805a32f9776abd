//! Policies in fixed point, by the C code of the BPF programs.

use std::sync::Arc;

use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray2, PyUntypedArrayMethods};
use orbitcc_core::observe::policy::{Network, Policy};
use orbitcc_core::observe::stats::{IntervalStats, STATISTICS};
use orbitcc_fixed::Flow;
use orbitcc_fixed::layout::{self, FEATURES, Limits, Plain};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::convert::{limits, readonly, value_error};

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

    /// The same policy under another safety filter, or none.
    fn under(&self, safety_filter: Option<&str>) -> PyResult<layout::Policy> {
        let given = safety_filter.map(limits).transpose()?;
        let limits = given.as_ref().map_or_else(Limits::default, Limits::from);
        Ok(layout::Policy { limits, ..*self.compiled })
    }
}

#[pymethods]
impl FixedPolicy {
    fn data<'py>(&self, py: Python<'py>, safety_filter: Option<&str>) -> PyResult<Bound<'py, PyBytes>> {
        let policy = self.under(safety_filter)?;
        Ok(PyBytes::new(py, &[policy.limits.bytes(), policy.program.bytes()].concat()))
    }

    #[allow(clippy::type_complexity)]
    fn decide<'py>(
        &self,
        py: Python<'py>,
        statistics: PyReadonlyArray2<'py, f64>,
    ) -> PyResult<(Bound<'py, PyArray2<f64>>, Bound<'py, PyArray1<f64>>)> {
        const ONE: f64 = (1 << 20) as f64;
        let rows = statistics.shape()[0];
        let flat = readonly(&statistics.to_dyn().readonly(), "statistics", &[rows, STATISTICS.len()])?.to_vec();
        let mut flow = Flow::new(Arc::new(self.under(None)?));
        let (mut observations, mut actions) = (Vec::new(), Vec::new());
        for row in flat.as_chunks().0 {
            let decision = flow.take(&(&IntervalStats::from_array(*row)).into()).0;
            observations.extend(decision.observation.map(|x| f64::from(x) / ONE));
            actions.push(f64::from(decision.action) / ONE);
        }
        Ok((observations.into_pyarray(py).reshape([rows, FEATURES])?, actions.into_pyarray(py)))
    }
}
