//! `orbitcc._sim`: the simulator's face towards Python. Conversion and checking only; no simulation happens here.

mod convert;
mod policy;
mod simulation;
mod worlds;

use orbitcc_core::cc::REGISTRY;
use orbitcc_core::observe::pieces::{ACTIONS, OBSERVATIONS, REWARDS};
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
    let table = PyDict::new(py);
    let (observations, actions, rewards) = (PyDict::new(py), PyDict::new(py), PyDict::new(py));
    for piece in OBSERVATIONS {
        let entry = PyDict::new(py);
        entry.set_item("dim", piece.dim())?;
        entry.set_item("features", piece.features.len())?;
        entry.set_item("history", piece.history)?;
        // Before the first interval the rows are zero, which every range admits.
        entry.set_item("low", piece.labels().map(|f| f.low.min(0.0)).collect::<Vec<_>>())?;
        entry.set_item("high", piece.labels().map(|f| f.high).collect::<Vec<_>>())?;
        entry.set_item("labels", piece.labels().map(|f| f.meaning).collect::<Vec<_>>())?;
        entry.set_item("units", piece.labels().map(|f| f.unit).collect::<Vec<_>>())?;
        observations.set_item(piece.name, entry)?;
    }
    for piece in ACTIONS {
        let entry = PyDict::new(py);
        entry.set_item("dim", ACTION_DIM)?;
        entry.set_item("meaning", piece.meaning)?;
        actions.set_item(piece.name, entry)?;
    }
    for piece in REWARDS {
        let entry = PyDict::new(py);
        entry.set_item("low", piece.low)?;
        entry.set_item("high", piece.high)?;
        rewards.set_item(piece.name, entry)?;
    }
    for (kind, pieces) in [("observation", observations), ("action", actions), ("reward", rewards)] {
        table.set_item(kind, pieces)?;
    }
    Ok(table)
}
