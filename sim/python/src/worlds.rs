use std::sync::Arc;

use numpy::{IntoPyArray, PyArray1, PyReadonlyArrayDyn, PyReadwriteArrayDyn};
use orbitcc_core::observe::astraea::STATE_DIM;
use orbitcc_core::observe::policy::ACTION_DIM;
use orbitcc_core::observe::preset::Preset;
use orbitcc_core::observe::registry;
use orbitcc_core::observe::stats::STATISTICS;
use orbitcc_core::worlds::{Member, Worlds as Batch};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict};

use crate::convert::{self, readonly, value_error, writable};
use crate::python_policy;
use crate::simulation::{flow_dict, link_dict};

/// An exact copy of one world of a batch.
#[pyclass(module = "orbitcc._sim", frozen)]
pub struct WorldState {
    member: Member,
}

#[pyclass(module = "orbitcc._sim")]
pub struct Worlds {
    batch: Batch,
}

impl Worlds {
    fn index(&self, index: usize) -> PyResult<usize> {
        if index < self.batch.len() {
            Ok(index)
        } else {
            Err(PyIndexError::new_err(format!("index = {index}: there are {} worlds", self.batch.len())))
        }
    }
}

#[pymethods]
impl Worlds {
    #[new]
    #[pyo3(signature = (specs, *, max_agents, interval_ns, interval_rtts=0.0, interval_least_ns=1_000_000, own_clock=false, observation="\"astraea\"",
        action="\"astraea\"", reward="\"astraea\"", safety_filter=None, threads=0, policies=None, emulator=None))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        specs: Vec<String>,
        max_agents: usize,
        interval_ns: u64,
        interval_rtts: f64,
        interval_least_ns: u64,
        own_clock: bool,
        observation: &str,
        action: &str,
        reward: &str,
        safety_filter: Option<&str>,
        threads: usize,
        policies: Option<Bound<'_, PyAny>>,
        emulator: Option<&str>,
    ) -> PyResult<Worlds> {
        let preset = Preset {
            observation: Arc::new(registry::observation(&convert::json(observation)?).map_err(value_error)?),
            action: Arc::new(registry::action(&convert::json(action)?).map_err(value_error)?),
            reward: Arc::new(registry::reward(&convert::json(reward)?).map_err(value_error)?),
            interval: crate::policy::interval(interval_ns, interval_rtts, interval_least_ns)?,
            own_clock,
            safety_filter: safety_filter.map(convert::limits).transpose()?,
        };
        let policies = python_policy::policies(policies.as_ref())?;
        let batch = py
            .detach(|| {
                let specs = specs
                    .iter()
                    .map(|s| orbitcc_core::spec::NetworkSpec::from_json(s))
                    .collect::<Result<Vec<_>, _>>()?;
                Batch::new(&specs, max_agents, preset, threads, policies, Some(crate::emulator::connect(emulator)))
            })
            .map_err(convert::spec_error)?;
        convert::decided(py, batch.failure())?;
        Ok(Worlds { batch })
    }

    #[getter]
    fn num_worlds(&self) -> usize {
        self.batch.len()
    }

    #[getter]
    fn max_agents(&self) -> usize {
        self.batch.max_agents()
    }

    #[getter]
    fn observation_dim(&self) -> usize {
        self.batch.observation_dim()
    }

    #[getter]
    fn action_dim(&self) -> usize {
        ACTION_DIM
    }

    fn reset(&mut self, py: Python<'_>, index: usize, spec: &str) -> PyResult<()> {
        let index = self.index(index)?;
        let batch = &mut self.batch;
        py.detach(|| orbitcc_core::spec::NetworkSpec::from_json(spec).and_then(|s| batch.reset(index, &s)))
            .map_err(convert::spec_error)?;
        convert::decided(py, self.batch.failure())
    }

    fn observe(
        &self,
        mut obs: PyReadwriteArrayDyn<'_, f32>,
        mut reward: PyReadwriteArrayDyn<'_, f32>,
        mut status: PyReadwriteArrayDyn<'_, u8>,
    ) -> PyResult<()> {
        let (n, s, width) = (self.batch.len(), self.batch.max_agents(), self.batch.observation_dim());
        self.batch.observe(
            writable(&mut obs, "obs", &[n, s, width])?,
            writable(&mut reward, "reward", &[n, s])?,
            writable(&mut status, "status", &[n, s])?,
        );
        Ok(())
    }

    fn step(
        &mut self,
        py: Python<'_>,
        actions: Option<PyReadonlyArrayDyn<'_, f32>>,
        mut obs: PyReadwriteArrayDyn<'_, f32>,
        mut reward: PyReadwriteArrayDyn<'_, f32>,
        mut status: PyReadwriteArrayDyn<'_, u8>,
    ) -> PyResult<()> {
        let (n, s, width) = (self.batch.len(), self.batch.max_agents(), self.batch.observation_dim());
        let shape = [n, s, ACTION_DIM];
        let actions = actions.as_ref().map(|given| readonly(given, "actions", &shape)).transpose()?;
        let obs = writable(&mut obs, "obs", &[n, s, width])?;
        let reward = writable(&mut reward, "reward", &[n, s])?;
        let status = writable(&mut status, "status", &[n, s])?;
        let batch = &mut self.batch;
        py.detach(|| batch.step(actions, obs, reward, status)).map_err(convert::spec_error)?;
        convert::decided(py, self.batch.failure())
    }

    fn stats(&self, mut out: PyReadwriteArrayDyn<'_, f64>) -> PyResult<()> {
        let shape = [self.batch.len(), self.batch.max_agents(), STATISTICS.len()];
        self.batch.stats(writable(&mut out, "out", &shape)?);
        Ok(())
    }

    fn step_figures(&self, mut out: PyReadwriteArrayDyn<'_, f64>) -> PyResult<()> {
        self.batch.step_figures(writable(&mut out, "out", &[4, self.batch.len(), self.batch.max_agents()])?);
        Ok(())
    }

    fn global_state(&self, mut out: PyReadwriteArrayDyn<'_, f32>) -> PyResult<()> {
        self.batch.global_state(writable(&mut out, "out", &[self.batch.len(), STATE_DIM])?);
        Ok(())
    }

    fn set_reward(&mut self, reward: &str) -> PyResult<()> {
        self.batch.set_reward(Arc::new(registry::reward(&convert::json(reward)?).map_err(value_error)?));
        Ok(())
    }

    fn flow_of(&self, index: usize, agent: usize) -> PyResult<Option<usize>> {
        Ok(self.batch.flow_of(self.index(index)?, agent))
    }

    fn places(&self, mut out: PyReadwriteArrayDyn<'_, i64>) -> PyResult<()> {
        self.batch.places(writable(&mut out, "out", &[self.batch.len(), self.batch.max_agents()])?);
        Ok(())
    }

    #[pyo3(signature = (index, agent, cwnd_packets, pacing_bps=0.0))]
    fn set_cwnd(&mut self, index: usize, agent: usize, cwnd_packets: f64, pacing_bps: f64) -> PyResult<()> {
        let index = self.index(index)?;
        let (cwnd, pacing) = convert::control(cwnd_packets, pacing_bps)?;
        let Some(flow) = self.batch.flow_of(index, agent) else {
            return Err(PyIndexError::new_err(format!("agent = {agent}: world {index} has no such agent")));
        };
        self.batch.member_mut(index).world.apply_control(flow, cwnd, pacing);
        Ok(())
    }

    fn overruns(&self, index: usize) -> PyResult<u64> {
        Ok(self.batch.member(self.index(index)?).world.overruns())
    }

    fn finished<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<bool>> {
        let flags: Vec<bool> = (0..self.batch.len()).map(|i| self.batch.member(i).world.is_finished()).collect();
        flags.into_pyarray(py)
    }

    fn now_ns<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        let times: Vec<i64> = (0..self.batch.len()).map(|i| self.batch.member(i).world.now().0 as i64).collect();
        times.into_pyarray(py)
    }

    fn flow_totals<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Vec<Bound<'py, PyDict>>> {
        self.batch.member(self.index(index)?).world.flow_totals().iter().map(|t| flow_dict(py, t)).collect()
    }

    fn link_totals<'py>(&mut self, py: Python<'py>, index: usize) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let index = self.index(index)?;
        self.batch.member_mut(index).world.link_totals().iter().map(|t| link_dict(py, t)).collect()
    }

    fn save(&self, index: usize) -> PyResult<WorldState> {
        let member = self.batch.member(self.index(index)?);
        convert::only_simulated(&member.world)?;
        Ok(WorldState { member: member.clone() })
    }

    fn exchange(&mut self, index: usize, other: &Bound<'_, Worlds>, theirs: usize) -> PyResult<()> {
        let (index, mut other) = (self.index(index)?, other.try_borrow_mut().map_err(value_error)?);
        let theirs = other.index(theirs)?;
        std::mem::swap(self.batch.member_mut(index), other.batch.member_mut(theirs));
        Ok(())
    }

    fn restore(&mut self, index: usize, state: &WorldState) -> PyResult<()> {
        let index = self.index(index)?;
        self.batch.set_member(index, state.member.clone());
        Ok(())
    }
}
