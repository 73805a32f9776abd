//! `orbitcc._sim`: the simulator's face towards Python. Conversion and checking only; no simulation happens here.

mod convert;
mod emulator;
mod outside;
mod policy;
mod simulation;
mod worlds;

use orbitcc_core::cc::REGISTRY;
use orbitcc_core::observe::pieces::{self, ACTIONS, OBSERVATIONS, Payment, REWARDS};
use orbitcc_core::observe::policy::ACTION_DIM;
use orbitcc_core::observe::stats::STATS_FIELDS;
use orbitcc_core::recorder::{FLOW_SERIES, LINK_SERIES};
use orbitcc_core::worlds::{STATUS_ACTIVE, STATUS_IDLE, STATUS_TERMINATED, STATUS_TRUNCATED};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

#[pymodule]
fn _sim(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = m.py();
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add("STATS_FIELDS", PyTuple::new(py, STATS_FIELDS)?)?;
    m.add("FLOW_SERIES", PyTuple::new(py, FLOW_SERIES)?)?;
    m.add("LINK_SERIES", PyTuple::new(py, LINK_SERIES)?)?;
    m.add("STATUS_IDLE", STATUS_IDLE)?;
    m.add("STATUS_ACTIVE", STATUS_ACTIVE)?;
    m.add("STATUS_TERMINATED", STATUS_TERMINATED)?;
    m.add("STATUS_TRUNCATED", STATUS_TRUNCATED)?;
    m.add("CONTROLLERS", controllers(py)?)?;
    m.add("PIECES", names(py)?)?;
    m.add_function(wrap_pyfunction!(piece, m)?)?;
    m.add_class::<policy::Policy>()?;
    m.add_class::<outside::OutsidePolicy>()?;
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

/// kind -> the names of its pieces.
fn names(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let table = PyDict::new(py);
    table.set_item("observation", PyTuple::new(py, OBSERVATIONS.iter().map(|entry| entry.name))?)?;
    table.set_item("action", PyTuple::new(py, ACTIONS.iter().map(|entry| entry.name))?)?;
    table.set_item("reward", PyTuple::new(py, REWARDS.iter().map(|entry| entry.name))?)?;
    Ok(table)
}

/// All there is to know of a piece that is asked for as JSON.
#[pyfunction]
fn piece<'py>(py: Python<'py>, kind: &str, request: &str) -> PyResult<Bound<'py, PyDict>> {
    let request = convert::json(request)?;
    let entry = PyDict::new(py);
    let definition = match kind {
        "observation" => {
            let piece = pieces::observation(&request).map_err(convert::value_error)?;
            entry.set_item("dim", piece.dim())?;
            entry.set_item("features", piece.features.len())?;
            entry.set_item("history", piece.history)?;
            // Before the first interval the rows are zero, which every range admits.
            entry.set_item("low", piece.labels().map(|f| f.low.min(0.0)).collect::<Vec<_>>())?;
            entry.set_item("high", piece.labels().map(|f| f.high.max(0.0)).collect::<Vec<_>>())?;
            entry.set_item("labels", piece.labels().map(|f| f.meaning.clone()).collect::<Vec<_>>())?;
            entry.set_item("units", piece.labels().map(|f| f.unit).collect::<Vec<_>>())?;
            piece.definition
        }
        "action" => {
            let piece = pieces::action(&request).map_err(convert::value_error)?;
            entry.set_item("dim", ACTION_DIM)?;
            entry.set_item("meaning", piece.meaning)?;
            piece.definition
        }
        "reward" => {
            let piece = pieces::reward(&request).map_err(convert::value_error)?;
            entry.set_item("low", piece.low)?;
            entry.set_item("high", piece.high)?;
            entry.set_item("shared", matches!(piece.payment, Payment::Shared(_)))?;
            piece.definition
        }
        _ => {
            return Err(convert::value_error(format!("kind = {kind:?}: must be one of observation, action, reward")));
        }
    };
    entry.set_item("name", definition.name)?;
    entry.set_item("family", definition.family)?;
    entry.set_item("formula", definition.formula)?;
    let text = definition.parameters.to_string();
    entry.set_item("parameters", py.import("json")?.call_method1("loads", (text,))?)?;
    Ok(entry)
}
