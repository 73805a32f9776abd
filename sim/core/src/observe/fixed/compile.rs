//! From a policy in floating point to one in fixed point, or the reason why it has none.

use serde_json::Value;

use super::arithmetic::ONE20;
use super::network::{LEAKY_RELU, LINEAR, RELU, TANH};
use super::{FEATURES, LAYERS, MOST_UNITS, Parameters, Program, WEIGHTS};
use crate::observe::policy::{Activation, Layer, Network, Policy, Squash};
use crate::observe::registry::Definition;

/// Weights are below 2^7, biases and 1 / standard deviation below 2^9 and 2^11.
const MOST_WEIGHT: f64 = 128.0;
const MOST_BIAS: f64 = 512.0;
const MOST_SCALE: f64 = 2_047.0;
const MOST_CLIP: f64 = 512.0;

/// The program of a policy with this network.
pub fn compile(network: &Network, policy: &Policy) -> Result<Program, String> {
    let mut parameters = Parameters {
        interval_ns: policy.interval.fixed.0,
        interval_rtts: scaled(policy.interval.rtts, 16) as u32,
        clip: scaled(f64::from(network.clip).min(MOST_CLIP), 20),
        squash: if network.squash == Squash::Tanh { TANH } else { LINEAR },
        ..Parameters::default()
    };
    observed(&policy.observation.definition, &mut parameters)?;
    acted(&policy.action.definition, &mut parameters)?;
    let weights = weights(network, &mut parameters)?;
    Ok(Program { parameters, weights })
}

/// To the nearest in units of 2^-bits.
fn scaled(x: f64, bits: u32) -> i32 {
    libm::round(x * f64::from(1 << bits)) as i32
}

/// Refuse all parameters of a function but those with one of these values.
fn only(kind: &str, definition: &Definition, allowed: &[(&str, Value)]) -> Result<(), String> {
    for (name, value) in allowed {
        let given = &definition.parameters[name];
        if given != value {
            return Err(format!("{kind}.{name} = {given} has no fixed-point form, only {value} has"));
        }
    }
    Ok(())
}

fn observed(definition: &Definition, to: &mut Parameters) -> Result<(), String> {
    if definition.family != "ratios" {
        return Err(format!("the observation {} has no fixed-point form, only ratios has", definition.name));
    }
    only("observation", definition, &[("history", 1.into()), ("handovers", "none".into())])?;
    let number = |name: &str| definition.parameters[name].as_f64().expect("a checked number");
    let nanos = |seconds: f64| libm::round(seconds * 1e9) as u64;
    to.min_rtt_bucket_ns = nanos(number("min_rtt_window_s") / 10.0);
    to.short_rtt_bucket_ns = nanos(number("short_window_s") / 10.0);
    to.max_rate_bucket_ns = nanos(number("max_rate_window_s") / 10.0);
    to.gap_ns = nanos(number("gap_s"));
    to.fast_rtts = scaled(number("fast_rtts"), 16) as u32;
    to.slow_rtts = scaled(number("slow_rtts"), 16) as u32;
    to.least_rtt = u32::from(definition.parameters["rtt"] == "least");
    to.own_queue = u32::from(definition.parameters["own_queue"] == true);
    Ok(())
}

fn acted(definition: &Definition, to: &mut Parameters) -> Result<(), String> {
    if definition.family != "steps" {
        return Err(format!("the action {} has no fixed-point form, only log-window has", definition.name));
    }
    let allowed = [
        ("moves", "window".into()),
        ("form", "log".into()),
        ("rounding", "fraction".into()),
        ("cap_bdp", 0.0.into()),
        ("steps_per_rtt", 0.0.into()),
        ("drain_every_s", 0.0.into()),
    ];
    only("action", definition, &allowed)?;
    let number = |name: &str| definition.parameters[name].as_f64().expect("a checked number");
    to.step = scaled(number("step"), 24);
    to.cubic = scaled(number("cubic"), 24);
    to.floor = number("floor_packets") as u32;
    to.pacing_gain = scaled(number("pacing_gain"), 16) as u32;
    to.hold = u32::from(definition.parameters["recovery"] == "hold");
    Ok(())
}

fn weights(network: &Network, to: &mut Parameters) -> Result<[i32; WEIGHTS], String> {
    if network.gate.is_some() {
        return Err("a mixture of experts has no fixed-point form".into());
    }
    if network.layers.len() > LAYERS {
        return Err(format!("{} layers: a network in fixed point has at most {LAYERS}", network.layers.len()));
    }
    let mut all = Vec::with_capacity(WEIGHTS);
    let mut add = |name: &str, x: f64, most: f64| {
        if x.abs() < most {
            all.push(scaled(x, 20));
            Ok(())
        } else {
            Err(format!("{name} = {x}: a network in fixed point has values below {most}"))
        }
    };
    match &network.normaliser {
        Some((mean, std)) => {
            mean.iter().try_for_each(|mean| add("normaliser.mean", f64::from(*mean), MOST_BIAS))?;
            std.iter().try_for_each(|std| add("1 / normaliser.std", 1.0 / f64::from(*std), MOST_SCALE))?;
        }
        None => {
            (0..2 * FEATURES).try_for_each(|k| add("normaliser", if k < FEATURES { 0.0 } else { 1.0 }, 2.0))?;
            to.clip = (MOST_CLIP * ONE20 as f64) as i32;
        }
    }
    to.layers = network.layers.len() as u32;
    for (i, layer) in network.layers.iter().enumerate() {
        let Layer { inputs, weight, bias, norm, activation } = layer;
        if norm.is_some() {
            return Err(format!("layers[{i}]: a layer norm has no fixed-point form"));
        }
        if bias.len() > MOST_UNITS || (i == LAYERS - 1 && bias.len() > 1) {
            return Err(format!("layers[{i}]: {} units; a layer in fixed point has at most {MOST_UNITS}", bias.len()));
        }
        to.units[i] = bias.len() as u32;
        to.activations[i] = match activation {
            Activation::Linear => LINEAR,
            Activation::Tanh => TANH,
            Activation::Relu => RELU,
            Activation::LeakyRelu => LEAKY_RELU,
        };
        for (row, bias) in weight.chunks_exact(*inputs).zip(bias) {
            row.iter().try_for_each(|w| add(&format!("layers[{i}].weight"), f64::from(*w), MOST_WEIGHT))?;
            add(&format!("layers[{i}].bias"), f64::from(*bias), MOST_BIAS)?;
        }
    }
    all.resize(WEIGHTS, 0);
    Ok(all.try_into().expect("resized"))
}
