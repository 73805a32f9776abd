//! A policy's network and action in fixed point.

use super::arithmetic::{ONE20, exp, tanh, within};
use super::{FEATURES, LAYERS, MOST_UNITS, Parameters, WEIGHTS};

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
pub fn act(parameters: &Parameters, weights: &[i32; WEIGHTS], observation: &[i32; FEATURES]) -> i32 {
    let mut x = [0_i64; MOST_UNITS];
    for k in 0..FEATURES {
        let distance = i64::from(observation[k]) - i64::from(weights[k]);
        let scaled = (distance * i64::from(weights[FEATURES + k])) >> 20;
        x[k] = within(scaled, -i64::from(parameters.clip), i64::from(parameters.clip));
    }
    let mut at = 2 * FEATURES;
    let mut inputs = FEATURES;
    for layer in 0..LAYERS {
        if layer >= parameters.layers as usize {
            break;
        }
        let mut out = [0_i64; MOST_UNITS];
        for unit in out.iter_mut().take(parameters.units[layer] as usize) {
            let mut sum = i64::from(weights[at + inputs]) << 20; // Q40
            for k in 0..inputs {
                sum += i64::from(weights[at + k]) * x[k];
            }
            at += inputs + 1;
            *unit = activate(parameters.activations[layer], within(sum >> 20, -MOST_VALUE, MOST_VALUE));
        }
        x = out;
        inputs = parameters.units[layer] as usize;
    }
    let action = if parameters.squash == TANH { tanh(x[0]) } else { x[0] };
    within(action, -ONE20, ONE20) as i32
}

fn activate(activation: u32, x: i64) -> i64 {
    match activation {
        TANH => tanh(x),
        RELU if x < 0 => 0,
        LEAKY_RELU if x < 0 => (x * LEAK) >> 20,
        _ => x,
    }
}

/// The exact window after an action, in Q16: `cwnd` segments times exp(step ((1 - cubic) a + cubic a^3)). `exact`: the
/// one after the last action.
pub fn next_window(parameters: &Parameters, cwnd: u32, exact: u64, action: i32) -> u64 {
    let a = within(i64::from(action), -ONE20, ONE20) << 4; // Q24
    let cube = (((a * a) >> 24) * a) >> 24;
    let x = a + ((i64::from(parameters.cubic) * (cube - a)) >> 24);
    let factor = exp((i64::from(parameters.step) * x) >> 24);
    let whole = if u64::from(cwnd) < CWND_MAX { u64::from(cwnd) << 16 } else { CWND_MAX << 16 };
    // Something else may have changed the window.
    let start = if exact < whole + (1 << 16) && whole < exact + (1 << 16) { exact } else { whole };
    let next = (start * factor + (1 << 23)) >> 24;
    let floor = u64::from(parameters.floor) << 16;
    if next < floor {
        floor
    } else if next > CWND_MAX << 16 {
        CWND_MAX << 16
    } else {
        next
    }
}

/// The window in segments.
pub fn whole_window(exact: u64) -> u32 {
    ((exact + (1 << 15)) >> 16) as u32
}
