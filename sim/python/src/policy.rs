use std::sync::Arc;

use numpy::{IntoPyArray, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use orbitcc_core::observe::functions::Interval;
use orbitcc_core::observe::policy::{
    ACTION_DIM, Activation, Gate, Layer, LayerNorm, Network, Policy as Shared, Squash,
};
use orbitcc_core::observe::registry;
use orbitcc_core::time::Nanos;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict};

use crate::convert::{limits, value_error};
use crate::fixed::FixedPolicy;

#[pyclass(module = "orbitcc._sim", frozen)]
pub struct Policy {
    pub inner: Arc<Shared>,
    network: Arc<Network>,
}

fn vector(array: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<f32>> {
    let array: PyReadonlyArray1<'_, f32> =
        array.extract().map_err(|_| value_error(format!("{name}: must be a float32 vector")))?;
    Ok(array.as_array().to_vec())
}

fn one_of<T>(field: &str, value: &str, table: &[(&str, T)]) -> PyResult<T>
where
    T: Copy,
{
    table.iter().find(|(name, _)| *name == value).map(|(_, v)| *v).ok_or_else(|| {
        let names: Vec<_> = table.iter().map(|(name, _)| *name).collect();
        value_error(format!("{field} = {value:?}: must be one of {}", names.join(", ")))
    })
}

fn item<'py>(layer: &Bound<'py, PyAny>, i: usize, key: &str) -> PyResult<Bound<'py, PyAny>> {
    layer.get_item(key).map_err(|_| value_error(format!("layers[{i}].{key}: missing")))
}

fn read_layer(i: usize, layer: &Bound<'_, PyAny>) -> PyResult<Layer> {
    let weight = item(layer, i, "weight")?;
    let weight: PyReadonlyArray2<'_, f32> =
        weight.extract().map_err(|_| value_error(format!("layers[{i}].weight: must be a float32 matrix")))?;
    let inputs = weight.shape()[1];
    let norm = layer.get_item("norm").ok().filter(|n| !n.is_none());
    let norm = match norm {
        None => None,
        Some(norm) => {
            let norm = norm.cast_into::<PyDict>().map_err(|_| value_error(format!("layers[{i}].norm: a mapping")))?;
            let kind: String = item(&norm, i, "kind")?.extract()?;
            one_of(&format!("layers[{i}].norm.kind"), &kind, &[("layer", ())])?;
            Some(LayerNorm {
                scale: vector(&item(&norm, i, "scale")?, "norm.scale")?,
                shift: vector(&item(&norm, i, "shift")?, "norm.shift")?,
                eps: item(&norm, i, "eps")?.extract()?,
            })
        }
    };
    let activation: String = item(layer, i, "activation")?.extract()?;
    Ok(Layer {
        inputs,
        weight: weight.as_array().iter().copied().collect(),
        bias: vector(&item(layer, i, "bias")?, &format!("layers[{i}].bias"))?,
        norm,
        activation: one_of(
            &format!("layers[{i}].activation"),
            &activation,
            &[
                ("linear", Activation::Linear),
                ("tanh", Activation::Tanh),
                ("relu", Activation::Relu),
                ("leaky_relu", Activation::LeakyRelu),
            ],
        )?,
    })
}

pub fn interval(interval_ns: u64, rtts: f64, least_ns: u64) -> PyResult<Interval> {
    Interval::checked(Nanos(interval_ns), rtts, Nanos(least_ns)).map_err(value_error)
}

fn layers(given: &[Bound<'_, PyAny>]) -> PyResult<Vec<Layer>> {
    given.iter().enumerate().map(|(i, layer)| read_layer(i, layer)).collect()
}

/// A gate from a mapping: `layers`, `inputs`, `expert_inputs`.
fn gate(given: &Bound<'_, PyAny>) -> PyResult<Gate> {
    let part = |key: &str| given.get_item(key).map_err(|_| value_error(format!("gate.{key}: missing")));
    Ok(Gate {
        layers: layers(&part("layers")?.extract::<Vec<_>>()?)?,
        inputs: part("inputs")?.extract()?,
        expert_inputs: part("expert_inputs")?.extract()?,
    })
}

#[pymethods]
impl Policy {
    #[new]
    #[pyo3(signature = (layers, *, observation, action, interval_ns, interval_rtts=0.0, interval_least_ns=1_000_000, mean=None, std=None, clip=10.0,
        squash="clip", safety_filter=None, gate=None))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        layers: Vec<Bound<'_, PyAny>>,
        observation: &str,
        action: &str,
        interval_ns: u64,
        interval_rtts: f64,
        interval_least_ns: u64,
        mean: Option<Bound<'_, PyAny>>,
        std: Option<Bound<'_, PyAny>>,
        clip: f32,
        squash: &str,
        safety_filter: Option<&str>,
        gate: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Policy> {
        let normaliser = match (mean, std) {
            (Some(mean), Some(std)) => Some((vector(&mean, "mean")?, vector(&std, "std")?)),
            (None, None) => None,
            _ => return Err(value_error("mean, std: give both or neither")),
        };
        let network = Arc::new(Network {
            layers: self::layers(&layers)?,
            gate: gate.as_ref().map(self::gate).transpose()?,
            normaliser,
            clip,
            squash: one_of(
                "squash",
                squash,
                &[("clip", Squash::Clip), ("tanh", Squash::Tanh), ("argmax", Squash::Argmax)],
            )?,
        });
        let shared = Shared::native(
            Arc::clone(&network),
            registry::observation(&crate::convert::json(observation)?).map_err(value_error)?.into(),
            registry::action(&crate::convert::json(action)?).map_err(value_error)?.into(),
            interval(interval_ns, interval_rtts, interval_least_ns)?,
            safety_filter.map(limits).transpose()?,
        );
        Ok(Policy { inner: Arc::new(shared.map_err(value_error)?), network })
    }

    fn act<'py>(&self, py: Python<'py>, obs: PyReadonlyArray2<'py, f32>) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let rows = obs.shape()[0];
        let width = self.inner.observation.dim();
        let flat = crate::convert::readonly(&obs.to_dyn().readonly(), "obs", &[rows, width])?.to_vec();
        let mut actions = vec![0.0; rows * ACTION_DIM];
        for (row, action) in flat.chunks(width).zip(actions.chunks_mut(ACTION_DIM)) {
            self.network.act(row, action);
        }
        actions.into_pyarray(py).reshape([rows, ACTION_DIM])
    }

    fn fixed(&self) -> PyResult<FixedPolicy> {
        FixedPolicy::new(&self.network, &self.inner)
    }
}
