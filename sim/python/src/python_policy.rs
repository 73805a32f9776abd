use std::sync::Arc;

use numpy::PyArray1;
use orbitcc_core::observe::policy::{Answer, Decide, Failure, Policy};
use orbitcc_core::observe::registry;
use orbitcc_core::observe::stats::IntervalStats;
use orbitcc_core::world::Policies;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyTuple};

use crate::convert::{control, json, limits, value_error};
use crate::fixed::FixedPolicy;
use crate::policy;

/// A policy that decides in Python.
#[pyclass(module = "orbitcc._sim", frozen)]
pub struct PythonPolicy {
    pub inner: Arc<Policy>,
}

/// The policy of one world, or the error of creating it, which the first decision returns.
#[derive(Clone)]
struct WorldPolicy(Arc<PyResult<Py<PyAny>>>);

impl WorldPolicy {
    fn ask(&self, py: Python<'_>, flow: usize, observation: &[f32], stats: &IntervalStats) -> PyResult<Answer> {
        let function = self.0.as_ref().as_ref().map_err(|error| error.clone_ref(py))?;
        let seen = PyArray1::from_slice(py, observation);
        let answer = function.bind(py).call1((flow, seen, PyArray1::from_slice(py, &stats.to_array())))?;
        if let Ok(pair) = answer.cast::<PyTuple>() {
            let (cwnd_packets, pacing_bps) = pair.extract()?;
            return Ok(Answer::Control(control(cwnd_packets, pacing_bps)?));
        }
        let action: f32 = answer.extract()?;
        if action.is_nan() {
            return Err(value_error("action = NaN: must be a number in [-1, 1]"));
        }
        Ok(Answer::Action(action.clamp(-1.0, 1.0)))
    }
}

impl Decide for WorldPolicy {
    fn decide(&mut self, flow: usize, observation: &[f32], stats: &IntervalStats) -> Result<Answer, Failure> {
        Python::attach(|py| self.ask(py, flow, observation, stats)).map_err(|error| Arc::new(error) as Failure)
    }

    fn clone_box(&self) -> Box<dyn Decide> {
        Box::new(self.clone())
    }
}

#[pymethods]
impl PythonPolicy {
    #[new]
    #[pyo3(signature = (begin, *, observation, action, interval_ns, interval_rtts=0.0, interval_least_ns=1_000_000,
        safety_filter=None))]
    fn new(
        begin: Py<PyAny>,
        observation: &str,
        action: &str,
        interval_ns: u64,
        interval_rtts: f64,
        interval_least_ns: u64,
        safety_filter: Option<&str>,
    ) -> PyResult<PythonPolicy> {
        let policy = Policy {
            begin: Box::new(move || Box::new(WorldPolicy(Arc::new(Python::attach(|py| begin.call0(py)))))),
            observation: Arc::new(registry::observation(&json(observation)?).map_err(value_error)?),
            action: Arc::new(registry::action(&json(action)?).map_err(value_error)?),
            interval: policy::interval(interval_ns, interval_rtts, interval_least_ns)?,
            safety_filter: safety_filter.map(limits).transpose()?,
        };
        Ok(PythonPolicy { inner: Arc::new(policy) })
    }
}

/// `{name: Policy or PythonPolicy}` -> shared policies.
pub fn policies(map: Option<&Bound<'_, PyAny>>) -> PyResult<Policies> {
    let mut table = Policies::new();
    if let Some(map) = map {
        let dict = PyDict::new(map.py());
        dict.call_method1("update", (map,))?;
        for (name, given) in dict.iter() {
            let shared = if let Ok(outside) = given.cast::<PythonPolicy>() {
                &outside.get().inner
            } else if let Ok(fixed) = given.cast::<FixedPolicy>() {
                &fixed.get().inner
            } else {
                &given.cast::<policy::Policy>()?.get().inner
            };
            table.insert(name.extract()?, Arc::clone(shared));
        }
    }
    Ok(table)
}
