//! A policy's networks and action in fixed point.

use super::arithmetic::{ONE20, exp, tanh, within};
use super::drain::Drain;
use super::occupancy::picked;
use super::{EXPERTS, FEATURES, LAYERS, Layers, MOST_UNITS, Parameters, Program, Statistics};

/// Values of units in Q20 are held within 512, weights are below 128: a sum of 64 products fits into 64 bits.
pub const MOST_VALUE: i64 = 1 << 29;
/// Slope of the leaky ReLU below zero, 0.2 in Q20.
const LEAK: i64 = 209_715;
pub const CWND_MAX: u64 = 1 << 20;

pub const LINEAR: u32 = 0;
pub const TANH: u32 = 1;
pub const RELU: u32 = 2;
pub const LEAKY_RELU: u32 = 3;

/// The action in [-1, 1], in Q20, for an observation.
pub fn act(program: &Program, observation: &[i32; FEATURES]) -> i32 {
    let parameters = &program.parameters;
    let action = if parameters.gate.count > 0 {
        let logits = forward(program, &parameters.gate, observation);
        let experts = forward(program, &parameters.network, observation);
        mixed(parameters.gate.units[parameters.gate.count as usize - 1], &logits, &experts)
    } else {
        forward(program, &parameters.network, observation)[0]
    };
    let action = if parameters.squash == TANH { tanh(action) } else { action };
    within(action, -ONE20, ONE20) as i32
}

/// A feature less its mean, in standard deviations.
fn normalised(program: &Program, observation: &[i32; FEATURES], column: usize) -> i64 {
    let clip = i64::from(program.parameters.clip);
    let distance = i64::from(observation[column]) - i64::from(program.weights[column]);
    within((distance * i64::from(program.weights[FEATURES + column])) >> 20, -clip, clip)
}

/// The outputs of layers.
fn forward(program: &Program, layers: &Layers, observation: &[i32; FEATURES]) -> [i64; MOST_UNITS] {
    let weights = &program.weights;
    let mut x = [0_i64; MOST_UNITS];
    let mut inputs = layers.inputs as usize;
    for k in 0..inputs {
        x[k] = normalised(program, observation, layers.columns[k] as usize);
    }
    let mut at = layers.at as usize;
    for layer in 0..LAYERS {
        if layer >= layers.count as usize {
            break;
        }
        let mut out = [0_i64; MOST_UNITS];
        for unit in out.iter_mut().take(layers.units[layer] as usize) {
            let mut sum = i64::from(weights[at + inputs]) << 20; // Q40
            for k in 0..inputs {
                sum += i64::from(weights[at + k]) * x[k];
            }
            at += inputs + 1;
            *unit = activate(layers.activations[layer], within(sum >> 20, -MOST_VALUE, MOST_VALUE));
        }
        x = out;
        inputs = layers.units[layer] as usize;
    }
    x
}

fn activate(activation: u32, x: i64) -> i64 {
    match activation {
        TANH => tanh(x),
        RELU if x < 0 => 0,
        LEAKY_RELU if x < 0 => (x * LEAK) >> 20,
        _ => x,
    }
}

/// The mean of the experts, weighed by the softmax of the gate's outputs.
fn mixed(count: u32, logits: &[i64; MOST_UNITS], experts: &[i64; MOST_UNITS]) -> i64 {
    let mut most = -MOST_VALUE;
    for k in 0..EXPERTS {
        if k < count as usize && most < logits[k] {
            most = logits[k];
        }
    }
    let (mut sum, mut total) = (0, 0);
    for k in 0..EXPERTS {
        if k < count as usize {
            let weight = exp((logits[k] - most) << 4) as i64; // Q24
            sum += weight * experts[k];
            total += weight;
        }
    }
    if total == 0 {
        return 0;
    }
    let mean = (sum.unsigned_abs() / total as u64) as i64;
    if sum < 0 { -mean } else { mean }
}

/// The exact window after an action, in Q16: the window times exp(step ((1 - cubic) a + cubic a^3)), or that of a drain.
/// `exact`: the one after the last action. `share`: the occupancy of the bottleneck, Q24.
pub fn next_window(
    parameters: &Parameters,
    stats: &Statistics,
    exact: u64,
    drain: &mut Drain,
    share: i64,
    action: i32,
) -> u64 {
    let range = parameters.occupancy_range;
    let action = if range > 0 { picked(action, range, share) } else { action };
    let whole = if u64::from(stats.cwnd) < CWND_MAX { u64::from(stats.cwnd) << 16 } else { CWND_MAX << 16 };
    // Something else may have changed the window.
    let start = if exact < whole + (1 << 16) && whole < exact + (1 << 16) { exact } else { whole };
    let (held, start) =
        if parameters.drain_every_ns > 0 { drain.step(parameters, stats, start) } else { (false, start) };
    let next = if held { start } else { (start * factor(parameters, action) + (1 << 23)) >> 24 };
    let floor = u64::from(parameters.floor) << 16;
    if next < floor {
        floor
    } else if next > CWND_MAX << 16 {
        CWND_MAX << 16
    } else {
        next
    }
}

/// What an action multiplies the window by, in Q24.
fn factor(parameters: &Parameters, action: i32) -> u64 {
    let a = within(i64::from(action), -ONE20, ONE20) << 4; // Q24
    let cube = (((a * a) >> 24) * a) >> 24;
    let x = a + ((i64::from(parameters.cubic) * (cube - a)) >> 24);
    exp((i64::from(parameters.step) * x) >> 24)
}

/// The window in segments.
pub fn whole_window(exact: u64) -> u32 {
    ((exact + (1 << 15)) >> 16) as u32
}
