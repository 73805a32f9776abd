//! Policies that drive flows inside a world: native networks (dense layers, layer normalisation, tanh, ReLU, leaky
//! ReLU; a mixture of experts), and other implementations of [`Decide`].
//!
//! Sums of a network use eight fixed lanes, and transcendental functions come from `libm`. Results are therefore the
//! same on every machine and for every thread count and position in a batch.

use std::error::Error;
use std::sync::Arc;

use serde::Deserialize;

use super::functions::{Action, Control, Interval, Observation};
use super::lanes::dot;
use super::safety_filter::Limits;
use super::stats::IntervalStats;

/// Number of values in an action.
pub const ACTION_DIM: usize = 1;

/// Slope of the leaky ReLU below zero.
const LEAK: f32 = 0.2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    Linear,
    Tanh,
    Relu,
    LeakyRelu,
}

/// How the last layer's output becomes an action in [-1, 1].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Squash {
    Clip,
    Tanh,
    /// The number of the largest output (the first, of equal ones), from -1 for the first output to 1 for the last.
    Argmax,
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

/// Decides for one flow, and keeps what it needs from one decision to the next.
pub trait Decide: Send + Sync {
    /// The decision for the flow, from its observation and the statistics of the last interval.
    fn decide(&mut self, flow: usize, observation: &[f32], stats: &IntervalStats) -> Result<Answer, Failure>;

    fn clone_box(&self) -> Box<dyn Decide>;
}

impl Clone for Box<dyn Decide> {
    fn clone(&self) -> Box<dyn Decide> {
        self.clone_box()
    }
}

/// Called once per new world; each of its flows gets a copy.
pub type Begin = dyn Fn() -> Box<dyn Decide> + Send + Sync;

/// A policy with its observation, action and decision interval.
pub struct Policy {
    pub begin: Box<Begin>,
    pub observation: Arc<Observation>,
    pub action: Arc<Action>,
    pub interval: Interval,
    /// Bounds that are applied to its decisions.
    pub safety_filter: Option<Limits>,
}

impl Policy {
    /// A policy whose network fits its observation and action; the error names what does not.
    pub fn native(
        network: Arc<Network>,
        observation: Arc<Observation>,
        action: Arc<Action>,
        interval: Interval,
        safety_filter: Option<Limits>,
    ) -> Result<Policy, String> {
        let bounds = observation.features.iter().map(|f| f64::from(f.low.abs().max(f.high.abs())));
        network.validate(observation.dim(), bounds.fold(0.0, f64::max))?;
        let outputs = network.layers.last().map(|layer| layer.bias.len());
        if network.squash == Squash::Argmax && outputs != action.choices() {
            let factors = action.choices().map_or("no list of factors".into(), |n| format!("{n} factors"));
            let outputs = outputs.unwrap_or_default();
            return Err(format!("layers: the last has {outputs} outputs for argmax, the action {factors}"));
        }
        let begin = Box::new(move || Box::new(Arc::clone(&network)) as Box<dyn Decide>);
        Ok(Policy { begin, observation, action, interval, safety_filter })
    }
}

/// Weighs the outputs of a network's last layer, its experts, by the softmax of a second network's outputs: a mixture of
/// experts (Jacobs et al., 1991).
#[derive(Clone)]
pub struct Gate {
    pub layers: Vec<Layer>,
    /// The columns of the observation that the gate observes, and those that the experts observe.
    pub inputs: Vec<usize>,
    pub expert_inputs: Vec<usize>,
}

#[derive(Clone)]
pub struct Network {
    pub layers: Vec<Layer>,
    pub gate: Option<Gate>,
    /// Observation normaliser: (x - mean) / std, clipped.
    pub normaliser: Option<(Vec<f32>, Vec<f32>)>,
    pub clip: f32,
    pub squash: Squash,
}

impl Decide for Arc<Network> {
    fn decide(&mut self, _flow: usize, observation: &[f32], _stats: &IntervalStats) -> Result<Answer, Failure> {
        let mut action = [0.0; ACTION_DIM];
        self.act(observation, &mut action);
        Ok(Answer::Action(action[0]))
    }

    fn clone_box(&self) -> Box<dyn Decide> {
        Box::new(self.clone())
    }
}

/// Of a layer, so that its square is a number, too.
const MOST_OUTPUT: f64 = 1e18;

impl Network {
    /// Check the shapes for observations of this width, and that no output overflows where none of them is above `most`;
    /// the error names the layer.
    pub fn validate(&self, observation_dim: usize, most: f64) -> Result<(), String> {
        let most = if self.normaliser.is_some() { f64::from(self.clip) } else { most };
        let outputs = match &self.gate {
            None => chain("layers", &self.layers, observation_dim, most)?,
            Some(gate) => {
                for (name, columns) in [("gate.inputs", &gate.inputs), ("gate.expert_inputs", &gate.expert_inputs)] {
                    if let Some(column) = columns.iter().find(|column| **column >= observation_dim) {
                        return Err(format!("{name} = {column}: must be a column below {observation_dim}"));
                    }
                }
                let experts = chain("layers", &self.layers, gate.expert_inputs.len(), most)?;
                let weights = chain("gate.layers", &gate.layers, gate.inputs.len(), most)?;
                if experts != weights {
                    return Err(format!("gate.layers: the last has {weights} outputs for {experts} experts"));
                }
                1
            }
        };
        if self.squash == Squash::Argmax {
            if outputs < 2 {
                return Err(format!("layers: the last has {outputs} output, of which argmax cannot choose"));
            }
        } else if outputs != ACTION_DIM {
            return Err(format!("layers: the last has {outputs} outputs, the action has {ACTION_DIM}"));
        }
        if self.clip.is_nan() || self.clip <= 0.0 {
            return Err(format!("clip = {}: must be above 0", self.clip));
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
        let x = match &self.gate {
            None => forward(&self.layers, x),
            Some(gate) => {
                let pick = |columns: &[usize]| columns.iter().map(|column| x[*column]).collect();
                let experts = forward(&self.layers, pick(&gate.expert_inputs));
                vec![mixed(&experts, &forward(&gate.layers, pick(&gate.inputs)))]
            }
        };
        for (a, y) in action.iter_mut().zip(&x) {
            *a = match self.squash {
                Squash::Clip => y.clamp(-1.0, 1.0),
                Squash::Tanh => libm::tanhf(*y),
                Squash::Argmax => {
                    let first = (1..x.len()).fold(0, |best, i| if x[i] > x[best] { i } else { best });
                    2.0 * first as f32 / (x.len() - 1) as f32 - 1.0
                }
            };
        }
    }
}

/// Check that layers fit each other and do not overflow with inputs up to `most`; the width of the last.
fn chain(name: &str, layers: &[Layer], inputs: usize, mut most: f64) -> Result<usize, String> {
    let mut width = inputs;
    if layers.is_empty() {
        return Err(format!("{name}: needs at least one"));
    }
    for (i, layer) in layers.iter().enumerate() {
        let outputs = layer.bias.len();
        if layer.inputs != width || layer.weight.len() != outputs * width || outputs == 0 {
            return Err(format!(
                "{name}[{i}].weight: {} x {} values for {width} inputs and {outputs} biases",
                layer.weight.len().checked_div(layer.inputs).unwrap_or(0),
                layer.inputs
            ));
        }
        if let Some(norm) = &layer.norm
            && (norm.scale.len() != outputs || norm.shift.len() != outputs)
        {
            return Err(format!("{name}[{i}].norm: must have {outputs} scales and shifts"));
        }
        if !layer.weight.iter().chain(&layer.bias).all(|x| x.is_finite()) {
            return Err(format!("{name}[{i}]: weights must be finite"));
        }
        most = layer.bound(most);
        if most > MOST_OUTPUT {
            return Err(format!(
                "{name}[{i}]: weights so large that its outputs can be {most:.0e}, above {MOST_OUTPUT:.0e}"
            ));
        }
        width = outputs;
    }
    Ok(width)
}

fn forward(layers: &[Layer], x: Vec<f32>) -> Vec<f32> {
    layers.iter().fold(x, |x, layer| layer.forward(&x))
}

/// Mean of the experts' outputs, weighted by the softmax of the gate's.
fn mixed(experts: &[f32], gate: &[f32]) -> f32 {
    let most = gate.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let (mut sum, mut total) = (0.0, 0.0);
    for (expert, logit) in experts.iter().zip(gate) {
        let weight = libm::expf(logit - most);
        sum += weight * expert;
        total += weight;
    }
    sum / total
}

impl Layer {
    /// The largest output, and value before the norm, that inputs up to `most` can give.
    fn bound(&self, most: f64) -> f64 {
        let rows = self.weight.chunks_exact(self.inputs).zip(&self.bias);
        let sums =
            rows.map(|(row, bias)| row.iter().map(|w| f64::from(w.abs())).sum::<f64>() * most + f64::from(bias.abs()));
        let sum = sums.fold(0.0, f64::max);
        let normed = self.norm.as_ref().map_or(0.0, |norm| {
            let scales = norm
                .scale
                .iter()
                .zip(&norm.shift)
                .map(|(a, b)| f64::from(a.abs()) * (self.bias.len() as f64).sqrt() + f64::from(b.abs()));
            scales.fold(0.0, f64::max)
        });
        match (self.activation, &self.norm) {
            _ if sum.max(normed) > MOST_OUTPUT => sum.max(normed),
            (Activation::Tanh, _) => 1.0,
            (_, Some(_)) => normed,
            _ => sum,
        }
    }

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
            gate: None,
            normaliser: Some((vec![1.0, 0.0], vec![2.0, 1.0])),
            clip: 10.0,
            squash: Squash::Clip,
        };
        network.validate(2, 1e3).unwrap();
        let mut action = [0.0];
        // x = ((3 - 1) / 2, -1) = (1, -1); hidden = (-1 -> -0.2, -0.5 -> -0.1); out = -0.02 - 0.1 + 0.05.
        network.act(&[3.0, -1.0], &mut action);
        assert!((action[0] + 0.07).abs() < 1e-6, "{action:?}");
        // Inputs up to 10: 30 in the first layer, 3e37 + 3 in the second.
        let mut large = network.clone();
        large.layers[1].weight = vec![1e36, 0.1];
        assert_eq!(
            large.validate(2, 1e3).unwrap_err(),
            "layers[1]: weights so large that its outputs can be 3e37, above 1e18"
        );
        network.layers[0].inputs = 3;
        assert!(network.validate(2, 1e3).unwrap_err().contains("layers[0]"));
    }

    #[test]
    fn the_largest_output_is_the_action() {
        let weight = vec![1.0, 0.0, 0.0, 1.0, -1.0, -1.0];
        let layer = Layer { inputs: 2, weight, bias: vec![0.0, 0.0, 1.0], norm: None, activation: Activation::Linear };
        let mut network =
            Network { layers: vec![layer], gate: None, normaliser: None, clip: 10.0, squash: Squash::Argmax };
        network.validate(2, 1e3).unwrap();
        // Outputs x, y and 1 - x - y; the first of two that are equal.
        for (seen, expected) in [([2.0, 1.0], -1.0), ([1.0, 2.0], 0.0), ([0.0, 0.0], 1.0), ([1.0, 1.0], -1.0)] {
            let mut action = [0.0];
            network.act(&seen, &mut action);
            assert_eq!(action, [expected]);
        }
        network.layers[0] = Layer { weight: vec![1.0, 0.0], bias: vec![0.0], ..network.layers[0].clone() };
        assert!(network.validate(2, 1e3).unwrap_err().starts_with("layers: the last has 1 output"));
    }

    #[test]
    fn a_hand_computed_mixture() {
        let linear = |inputs, weight, bias| Layer { inputs, weight, bias, norm: None, activation: Activation::Linear };
        let mut network = Network {
            layers: vec![linear(1, vec![1.0, -1.0], vec![0.0, 0.1])],
            gate: Some(Gate {
                layers: vec![linear(2, vec![0.0, 0.0, 1.0, 0.5], vec![0.0, 0.0])],
                inputs: vec![0, 2],
                expert_inputs: vec![1],
            }),
            normaliser: None,
            clip: 10.0,
            squash: Squash::Clip,
        };
        network.validate(3, 1e3).unwrap();
        let mut action = [0.0];
        // Experts: 0.5 and -0.4. Gate: logits 0 and ln 2 + 0, so that the weights are 1/3 and 2/3: (0.5 - 0.8) / 3.
        network.act(&[std::f32::consts::LN_2, 0.5, 0.0], &mut action);
        assert!((action[0] + 0.1).abs() < 1e-6, "{action:?}");
        // Logits far apart choose one expert and do not overflow.
        network.act(&[0.0, 0.5, 1e3], &mut action);
        assert_eq!(action, [-0.4]);
        assert_eq!(network.validate(2, 1e3).unwrap_err(), "gate.inputs = 2: must be a column below 2");
        network.gate.as_mut().unwrap().layers[0] = linear(2, vec![1.0, 1.0], vec![0.0]);
        assert_eq!(network.validate(3, 1e3).unwrap_err(), "gate.layers: the last has 1 outputs for 2 experts");
    }
}
