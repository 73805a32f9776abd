//! Networks: the normaliser, the layers, and the gate that weighs their outputs.

use orbitcc_core::observe::policy::{Activation, Layer, Network};

use crate::layout::{
    EXPERTS, FEATURES, LAYERS, LEAKY_RELU, LINEAR, Layers, MOST_UNITS, Parameters, RELU, TANH, WEIGHTS,
};

use super::scaled;

/// Weights are below 2^7, biases and 1 / standard deviation below 2^9 and 2^11.
const MOST_WEIGHT: f64 = 128.0;
const MOST_BIAS: f64 = 512.0;
const MOST_SCALE: f64 = 2_047.0;

/// All numbers of a network in Q20, in their order.
#[derive(Default)]
struct Numbers(Vec<i32>);

impl Numbers {
    fn add(&mut self, name: &str, x: f64, most: f64) -> Result<(), String> {
        if x.abs() >= most {
            return Err(format!("{name} = {x}: a network in fixed point has values below {most}"));
        }
        self.0.push(scaled(x, 20));
        Ok(())
    }
}

pub(super) fn weights(network: &Network, to: &mut Parameters) -> Result<[i32; WEIGHTS], String> {
    let mut all = Numbers::default();
    if let Some((mean, std)) = &network.normaliser {
        mean.iter().try_for_each(|mean| all.add("normaliser.mean", f64::from(*mean), MOST_BIAS))?;
        all.0.resize(FEATURES, 0);
        std.iter().try_for_each(|std| all.add("1 / normaliser.std", 1.0 / f64::from(*std), MOST_SCALE))?;
    } else {
        all.0.resize(FEATURES, 0);
        all.0.resize(2 * FEATURES, 1 << 20);
    }
    all.0.resize(2 * FEATURES, 0);
    let every: Vec<usize> = (0..to.features as usize).collect();
    let columns = network.gate.as_ref().map_or(&every, |gate| &gate.expert_inputs);
    to.network = chain("layers", &network.layers, columns, &mut all)?;
    if let Some(gate) = &network.gate {
        let experts = gate.layers.last().map_or(0, |layer| layer.bias.len());
        if experts > EXPERTS {
            return Err(format!("{experts} experts: a network in fixed point has at most {EXPERTS}"));
        }
        to.gate = chain("gate.layers", &gate.layers, &gate.inputs, &mut all)?;
    }
    if all.0.len() > WEIGHTS {
        let most = WEIGHTS - 2 * FEATURES;
        return Err(format!("{} weights: a network in fixed point has at most {most}", all.0.len() - 2 * FEATURES));
    }
    all.0.resize(WEIGHTS, 0);
    Ok(all.0.try_into().expect("resized"))
}

fn chain(name: &str, layers: &[Layer], columns: &[usize], all: &mut Numbers) -> Result<Layers, String> {
    if layers.len() > LAYERS {
        return Err(format!("{} layers: a network in fixed point has at most {LAYERS}", layers.len()));
    }
    if columns.len() > MOST_UNITS {
        return Err(format!("{} inputs: a network in fixed point has at most {MOST_UNITS}", columns.len()));
    }
    let (inputs, count) = (columns.len() as u32, layers.len() as u32);
    let mut made = Layers { inputs, count, at: all.0.len() as u32, ..Layers::default() };
    for (to, column) in made.columns.iter_mut().zip(columns) {
        *to = *column as u8;
    }
    for (i, layer) in layers.iter().enumerate() {
        let Layer { inputs, weight, bias, norm, activation } = layer;
        if norm.is_some() {
            return Err(format!("{name}[{i}]: a layer norm has no fixed-point form"));
        }
        if bias.len() > MOST_UNITS {
            return Err(format!("{name}[{i}]: {} units; a layer in fixed point has at most {MOST_UNITS}", bias.len()));
        }
        made.units[i] = bias.len() as u32;
        made.activations[i] = match activation {
            Activation::Linear => LINEAR,
            Activation::Tanh => TANH,
            Activation::Relu => RELU,
            Activation::LeakyRelu => LEAKY_RELU,
        };
        for (row, bias) in weight.chunks_exact(*inputs).zip(bias) {
            row.iter().try_for_each(|w| all.add(&format!("{name}[{i}].weight"), f64::from(*w), MOST_WEIGHT))?;
            all.add(&format!("{name}[{i}].bias"), f64::from(*bias), MOST_BIAS)?;
        }
    }
    Ok(made)
}
