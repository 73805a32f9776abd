//! Policies that drive flows inside a world: native feed-forward networks (dense layers, layer normalisation, tanh,
//! ReLU, leaky ReLU), and other implementations of [`Decide`].
//!
//! Sums of a network use eight fixed lanes, and transcendental functions come from `libm`. Results are therefore the
//! same on every machine and for every thread count and position in a batch.

use std::error::Error;
use std::sync::Arc;

use super::registry::{Action, Control, Interval, Observation};
use super::safety_filter::Limits;
use super::stats::IntervalStats;

/// Number of values in an action.
pub const ACTION_DIM: usize = 1;

/// Slope of the leaky ReLU below zero.
const LEAK: f32 = 0.2;
const LANES: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    Linear,
    Tanh,
    Relu,
    LeakyRelu,
}

/// How the last layer's output becomes an action in [-1, 1].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Squash {
    Clip,
    Tanh,
}

#[derive(Clone, Debug)]
pub struct LayerNorm {
    pub scale: Vec<f32>,
    pub shift: Vec<f32>,
    pub eps: f32,
}

#[derive(Clone, Debug)]
pub struct Layer {
    pub inputs: usize,
    /// Row-major, outputs x inputs.
    pub weight: Vec<f32>,
    pub bias: Vec<f32>,
    pub norm: Option<LayerNorm>,
    pub activation: Activation,
}

/// The decision of a policy.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// An action in [-1, 1], which the policy's action function performs.
    Action(f32),
    /// The window and the pacing rate.
    Control(Control),
}

/// The reason why a policy could not decide; its world stops.
pub type Failure = Arc<dyn Error + Send + Sync>;

/// Decides for the flows of one world.
pub trait Decide: Send + Sync {
    /// The decision for a flow, from its observation and the statistics of the last interval.
    fn decide(&self, flow: usize, observation: &[f32], stats: &IntervalStats) -> Result<Answer, Failure>;
}

/// Called once per new world.
pub type Begin = dyn Fn() -> Arc<dyn Decide> + Send + Sync;

/// A policy with its observation, action and decision interval.
pub struct Policy {
    pub begin: Box<Begin>,
    pub observation: Arc<Observation>,
    pub action: Arc<Action>,
    pub interval: Interval,
    /// Bounds that are applied to its decisions.
    pub safety_filter: Option<Limits>,
}

#[derive(Clone)]
pub struct Network {
    pub layers: Vec<Layer>,
    /// Observation normaliser: (x - mean) / std, clipped.
    pub normaliser: Option<(Vec<f32>, Vec<f32>)>,
    pub clip: f32,
    pub squash: Squash,
}

impl Decide for Network {
    fn decide(&self, _flow: usize, observation: &[f32], _stats: &IntervalStats) -> Result<Answer, Failure> {
        let mut action = [0.0; ACTION_DIM];
        self.act(observation, &mut action);
        Ok(Answer::Action(action[0]))
    }
}

impl Network {
    /// Check the shapes for observations of this width; the error names the layer.
    pub fn validate(&self, observation_dim: usize) -> Result<(), String> {
        let mut width = observation_dim;
        if self.layers.is_empty() {
            return Err("layers: needs at least one".into());
        }
        for (i, layer) in self.layers.iter().enumerate() {
            let outputs = layer.bias.len();
            if layer.inputs != width || layer.weight.len() != outputs * width || outputs == 0 {
                return Err(format!(
                    "layers[{i}].weight: {} x {} values for {width} inputs and {outputs} biases",
                    layer.weight.len().checked_div(layer.inputs).unwrap_or(0),
                    layer.inputs
                ));
            }
            if let Some(norm) = &layer.norm
                && (norm.scale.len() != outputs || norm.shift.len() != outputs)
            {
                return Err(format!("layers[{i}].norm: must have {outputs} scales and shifts"));
            }
            let finite = layer.weight.iter().chain(&layer.bias).all(|x| x.is_finite());
            if !finite {
                return Err(format!("layers[{i}]: weights must be finite"));
            }
            width = outputs;
        }
        if width != ACTION_DIM {
            return Err(format!("layers: the last has {width} outputs, the action has {ACTION_DIM}"));
        }
        if let Some((mean, std)) = &self.normaliser
            && (mean.len() != observation_dim || std.len() != observation_dim || std.iter().any(|s| *s <= 0.0))
        {
            return Err(format!("mean, std: must have {observation_dim} values, std positive"));
        }
        Ok(())
    }

    /// Compute the action, each value in [-1, 1], for an observation.
    pub fn act(&self, observation: &[f32], action: &mut [f32]) {
        let mut x: Vec<f32> = observation.to_vec();
        if let Some((mean, std)) = &self.normaliser {
            for ((x, m), s) in x.iter_mut().zip(mean).zip(std) {
                *x = ((*x - m) / s).clamp(-self.clip, self.clip);
            }
        }
        for layer in &self.layers {
            x = layer.forward(&x);
        }
        for (a, x) in action.iter_mut().zip(&x) {
            *a = match self.squash {
                Squash::Clip => x.clamp(-1.0, 1.0),
                Squash::Tanh => libm::tanhf(*x),
            };
        }
    }
}

impl Layer {
    fn forward(&self, x: &[f32]) -> Vec<f32> {
        let mut out: Vec<f32> =
            self.weight.chunks_exact(self.inputs).zip(&self.bias).map(|(row, bias)| dot(row, x) + bias).collect();
        if let Some(norm) = &self.norm {
            let n = out.len() as f32;
            let mean = out.iter().sum::<f32>() / n;
            let variance = out.iter().map(|v| (v - mean) * (v - mean)).sum::<f32>() / n;
            let inverse = 1.0 / libm::sqrtf(variance + norm.eps);
            for ((v, scale), shift) in out.iter_mut().zip(&norm.scale).zip(&norm.shift) {
                *v = (*v - mean) * inverse * scale + shift;
            }
        }
        for v in &mut out {
            *v = match self.activation {
                Activation::Linear => *v,
                Activation::Tanh => libm::tanhf(*v),
                Activation::Relu => v.max(0.0),
                Activation::LeakyRelu => {
                    if *v >= 0.0 {
                        *v
                    } else {
                        LEAK * *v
                    }
                }
            };
        }
        out
    }
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0f32; LANES];
    let (a_chunks, b_chunks) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let tail: f32 = a_chunks.remainder().iter().zip(b_chunks.remainder()).map(|(x, y)| x * y).sum();
    for (x, y) in a_chunks.zip(b_chunks) {
        for i in 0..LANES {
            lanes[i] += x[i] * y[i];
        }
    }
    lanes.iter().sum::<f32>() + tail
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hand_computed_network() {
        let mut network = Network {
            layers: vec![
                Layer {
                    inputs: 2,
                    weight: vec![1.0, 2.0, -1.0, 0.5],
                    bias: vec![0.0, 1.0],
                    norm: None,
                    activation: Activation::LeakyRelu,
                },
                Layer {
                    inputs: 2,
                    weight: vec![0.1, 1.0],
                    bias: vec![0.05],
                    norm: None,
                    activation: Activation::Linear,
                },
            ],
            normaliser: Some((vec![1.0, 0.0], vec![2.0, 1.0])),
            clip: 10.0,
            squash: Squash::Clip,
        };
        network.validate(2).unwrap();
        let mut action = [0.0];
        // x = ((3 - 1) / 2, -1) = (1, -1); hidden = (-1 -> -0.2, -0.5 -> -0.1); out = -0.02 - 0.1 + 0.05.
        network.act(&[3.0, -1.0], &mut action);
        assert!((action[0] + 0.07).abs() < 1e-6, "{action:?}");
        network.layers[0].inputs = 3;
        assert!(network.validate(2).unwrap_err().contains("layers[0]"));
    }
}
