//! `orbitcc._sim`: the simulator's face towards Python. Conversion and checking only; no simulation happens here.

mod convert;
mod emulator;
#[cfg_attr(not(target_os = "linux"), path = "no_fixed.rs")]
mod fixed;
mod policy;
mod python_policy;
mod simulation;
mod worlds;

use orbitcc_core::cc::REGISTRY;
use orbitcc_core::observe::functions::Payment;
use orbitcc_core::observe::policy::ACTION_DIM;
use orbitcc_core::observe::registry::{self, ACTIONS, OBSERVATIONS, REWARDS};
use orbitcc_core::observe::stats::{STATISTICS, Source};
use orbitcc_core::world::recorder::{FLOW_SERIES, LINK_SERIES};
use orbitcc_core::worlds::{STATUS_ACTIVE, STATUS_IDLE, STATUS_TERMINATED, STATUS_TRUNCATED};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

#[pymodule]
fn _sim(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = m.py();
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add("NetworkError", py.get_type::<convert::NetworkError>())?;
    m.add("STATISTICS", statistics(py)?)?;
    m.add("FLOW_SERIES", PyTuple::new(py, FLOW_SERIES)?)?;
    m.add("LINK_SERIES", PyTuple::new(py, LINK_SERIES)?)?;
    m.add("STATUS_IDLE", STATUS_IDLE)?;
    m.add("STATUS_ACTIVE", STATUS_ACTIVE)?;
    m.add("STATUS_TERMINATED", STATUS_TERMINATED)?;
    m.add("STATUS_TRUNCATED", STATUS_TRUNCATED)?;
    m.add("CONTROLLERS", controllers(py)?)?;
    m.add("FUNCTIONS", names(py)?)?;
    m.add_function(wrap_pyfunction!(function, m)?)?;
    m.add_class::<policy::Policy>()?;
    m.add_class::<fixed::FixedPolicy>()?;
    m.add_class::<python_policy::PythonPolicy>()?;
    m.add_class::<simulation::Simulation>()?;
    m.add_class::<worlds::Worlds>()?;
    m.add_class::<worlds::WorldState>()
}

/// name -> parameter -> default.
fn controllers(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let json = py.import("json")?;
    let table = PyDict::new(py);
    for entry in REGISTRY {
        let params = PyDict::new(py);
        for (name, default) in entry.params {
            params.set_item(name, json.call_method1("loads", (*default,))?)?;
        }
        table.set_item(entry.name, params)?;
    }
    Ok(table)
}

/// The raw statistics in order: (name, unit, low, high, source, meaning).
fn statistics(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
    PyTuple::new(
        py,
        STATISTICS.map(|s| {
            let source = match s.source {
                Source::Kernel => "kernel",
                Source::PerAck => "per-ack",
                Source::Oracle => "oracle",
            };
            (s.name, s.unit, s.low, s.high, source, s.meaning)
        }),
    )
}

/// kind -> the names of its functions.
fn names(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let table = PyDict::new(py);
    table.set_item("observation", PyTuple::new(py, OBSERVATIONS.iter().map(|entry| entry.name))?)?;
    table.set_item("action", PyTuple::new(py, ACTIONS.iter().map(|entry| entry.name))?)?;
    table.set_item("reward", PyTuple::new(py, REWARDS.iter().map(|entry| entry.name))?)?;
    Ok(table)
}

/// All there is to know of a function that is asked for as JSON.
#[pyfunction]
fn function<'py>(py: Python<'py>, kind: &str, request: &str) -> PyResult<Bound<'py, PyDict>> {
    let request = convert::json(request)?;
    let entry = PyDict::new(py);
    let definition = match kind {
        "observation" => {
            let function = registry::observation(&request).map_err(convert::value_error)?;
            entry.set_item("dim", function.dim())?;
            entry.set_item("features", function.features.len())?;
            entry.set_item("history", function.history)?;
            // Before the first interval the rows are zero, which every range admits.
            entry.set_item("low", function.labels().map(|f| f.low.min(0.0)).collect::<Vec<_>>())?;
            entry.set_item("high", function.labels().map(|f| f.high.max(0.0)).collect::<Vec<_>>())?;
            entry.set_item("labels", function.labels().map(|f| f.meaning.clone()).collect::<Vec<_>>())?;
            entry.set_item("units", function.labels().map(|f| f.unit).collect::<Vec<_>>())?;
            function.definition
        }
        "action" => {
            let function = registry::action(&request).map_err(convert::value_error)?;
            entry.set_item("dim", ACTION_DIM)?;
            entry.set_item("choices", function.choices())?;
            entry.set_item("meaning", function.meaning)?;
            function.definition
        }
        "reward" => {
            let function = registry::reward(&request).map_err(convert::value_error)?;
            entry.set_item("low", function.low)?;
            entry.set_item("high", function.high)?;
            entry.set_item("shared", matches!(function.payment, Payment::Shared(_)))?;
            function.definition
        }
        _ => {
            return Err(convert::value_error(format!("kind = {kind:?}: must be one of observation, action, reward")));
        }
    };
    entry.set_item("name", definition.name)?;
    entry.set_item("family", definition.family)?;
    entry.set_item("formula", definition.formula)?;
    let loads = py.import("json")?.getattr("loads")?;
    entry.set_item("parameters", loads.call1((definition.parameters.to_string(),))?)?;
    entry.set_item("changes", loads.call1((definition.changes.to_string(),))?)?;
    Ok(entry)
}
