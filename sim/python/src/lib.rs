//! `orbitcc._sim`: the simulator's face towards Python. Conversion and checking only; no simulation happens here.

mod convert;
mod policy;
mod simulation;
mod worlds;

use orbitcc_core::cc::REGISTRY;
use orbitcc_core::observe::astraea::{FEATURE_TABLE, FEATURES, HISTORY, OBSERVATION_DIM};
use orbitcc_core::observe::stats::STATS_FIELDS;
use orbitcc_core::recorder::{FLOW_SERIES, LINK_SERIES};
use orbitcc_core::worlds::{ACTION_DIM, STATUS_ACTIVE, STATUS_IDLE, STATUS_TERMINATED, STATUS_TRUNCATED};
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
    m.add("PRESETS", presets(py)?)?;
    m.add_class::<policy::Policy>()?;
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

fn presets(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let observation = PyDict::new(py);
    observation.set_item("dim", OBSERVATION_DIM)?;
    observation.set_item("features", FEATURES)?;
    observation.set_item("history", HISTORY)?;
    let stacked = |pick: fn(&(&'static str, f32, f32)) -> f32| -> Vec<f32> {
        (0..HISTORY).flat_map(|_| FEATURE_TABLE.iter().map(pick)).collect()
    };
    // Before the first interval the rows are zero, which every range admits.
    observation.set_item("low", stacked(|f| f.1.min(0.0)))?;
    observation.set_item("high", stacked(|f| f.2))?;
    let labels: Vec<&str> = (0..HISTORY).flat_map(|_| FEATURE_TABLE.iter().map(|f| f.0)).collect();
    observation.set_item("labels", labels)?;
    observation.set_item("units", vec!["1"; OBSERVATION_DIM])?;
    let action = PyDict::new(py);
    action.set_item("dim", ACTION_DIM)?;
    let table = PyDict::new(py);
    for (kind, piece) in [("observation", observation), ("action", action), ("reward", PyDict::new(py))] {
        let named = PyDict::new(py);
        named.set_item("astraea", piece)?;
        table.set_item(kind, named)?;
    }
    Ok(table)
}
