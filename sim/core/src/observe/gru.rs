//! A gated recurrent unit (Cho et al., EMNLP 2014) in the form of PyTorch's `GRUCell`, whose state the layers of a
//! network read beside the observation.

use super::lanes::dot;

/// Gates of a unit, in the order of their rows: reset, update, candidate.
const GATES: usize = 3;

#[derive(Clone)]
pub struct Gru {
    pub units: usize,
    /// The columns of the observation that the cell observes, and those that the layers observe before the state.
    pub inputs: Vec<usize>,
    pub head_inputs: Vec<usize>,
    /// Decisions from one update of the state to the next; the first decision of a flow updates it.
    pub every: u32,
    /// Row-major, 3 units x inputs and 3 units x units.
    pub weight_ih: Vec<f32>,
    pub weight_hh: Vec<f32>,
    pub bias_ih: Vec<f32>,
    pub bias_hh: Vec<f32>,
}

impl Gru {
    /// Check the shapes for observations of this width; the error names the tensor.
    pub fn validate(&self, observation_dim: usize) -> Result<(), String> {
        for (name, columns) in [("gru.inputs", &self.inputs), ("gru.head_inputs", &self.head_inputs)] {
            if let Some(column) = columns.iter().find(|column| **column >= observation_dim) {
                return Err(format!("{name} = {column}: must be a column below {observation_dim}"));
            }
        }
        if self.units == 0 || self.inputs.is_empty() || self.every == 0 {
            return Err("gru: needs at least one unit, one input and one decision between updates".to_owned());
        }
        let rows = GATES * self.units;
        for (name, values, numbers) in [
            ("weight_ih", &self.weight_ih, rows * self.inputs.len()),
            ("weight_hh", &self.weight_hh, rows * self.units),
            ("bias_ih", &self.bias_ih, rows),
            ("bias_hh", &self.bias_hh, rows),
        ] {
            if values.len() != numbers {
                return Err(format!("gru.{name}: {} values, needs {numbers}", values.len()));
            }
            if !values.iter().all(|x| x.is_finite()) {
                return Err(format!("gru.{name}: weights must be finite"));
            }
        }
        Ok(())
    }

    /// Numbers that a flow keeps: the state, then the decisions since its last update.
    pub fn state_size(&self) -> usize {
        self.units + 1
    }

    /// Update the state before a decision, if it is due, by the normalised observation.
    pub fn update(&self, observation: &[f32], state: &mut [f32]) {
        let (hidden, count) = state.split_at_mut(self.units);
        if count[0] == 0.0 {
            let x: Vec<f32> = self.inputs.iter().map(|column| observation[*column]).collect();
            let from_input = affine(&self.weight_ih, &self.bias_ih, &x);
            let from_state = affine(&self.weight_hh, &self.bias_hh, hidden);
            for (k, h) in hidden.iter_mut().enumerate() {
                let (update, candidate) = (k + self.units, k + 2 * self.units);
                let reset = sigmoid(from_input[k] + from_state[k]);
                let update = sigmoid(from_input[update] + from_state[update]);
                let candidate = libm::tanhf(from_input[candidate] + reset * from_state[candidate]);
                *h = (1.0 - update) * candidate + update * *h;
            }
        }
        count[0] = if count[0] + 1.0 < self.every as f32 { count[0] + 1.0 } else { 0.0 };
    }

    /// What the layers observe: columns of the observation, then the state.
    pub fn seen(&self, observation: &[f32], state: &[f32]) -> Vec<f32> {
        let columns = self.head_inputs.iter().map(|column| observation[*column]);
        columns.chain(state[..self.units].iter().copied()).collect()
    }
}

fn affine(weight: &[f32], bias: &[f32], x: &[f32]) -> Vec<f32> {
    weight.chunks_exact(x.len()).zip(bias).map(|(row, bias)| dot(row, x) + bias).collect()
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + libm::expf(-x))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ln(x: f32) -> f32 {
        libm::logf(x)
    }

    /// One unit, whose reset gate is 1/2, whose update gate is 1/4, and whose candidate is tanh(x + r (h + 2 ln 2)).
    fn unit() -> Gru {
        Gru {
            units: 1,
            inputs: vec![1],
            head_inputs: vec![0],
            every: 1,
            weight_ih: vec![0.0, 0.0, 1.0],
            weight_hh: vec![0.0, 0.0, 1.0],
            bias_ih: vec![0.0, -ln(3.0), 0.0],
            bias_hh: vec![0.0, 0.0, 2.0 * ln(2.0)],
        }
    }

    #[test]
    fn a_state_computed_by_hand() {
        let gru = unit();
        gru.validate(2).unwrap();
        let mut state = [0.0; 2];
        // The candidate is tanh(ln 2) = (2 - 1/2) / (2 + 1/2) = 0.6, of which the state gets 3/4.
        gru.update(&[9.0, 0.0], &mut state);
        assert!((state[0] - 0.45).abs() < 1e-6, "{state:?}");
        assert_eq!(gru.seen(&[9.0, 0.0], &state), [9.0, state[0]]);
        // tanh(ln 3 + 0) = 0.8 where the input makes up for the state: -0.45 / 2 + ln 3 - ln 2.
        gru.update(&[9.0, ln(1.5) - 0.225], &mut state);
        assert!((state[0] - (0.75 * 0.8 + 0.25 * 0.45)).abs() < 1e-6, "{state:?}");
    }

    #[test]
    fn the_state_is_updated_with_every_kth_decision_beginning_with_the_first() {
        let gru = Gru { every: 3, ..unit() };
        let mut state = [0.0; 2];
        let mut states = Vec::new();
        for _ in 0..7 {
            gru.update(&[0.0, 0.0], &mut state);
            states.push(state[0]);
        }
        assert!((states[0] - 0.45).abs() < 1e-6);
        let changes: Vec<_> = (1..7).filter(|i| states[*i] != states[i - 1]).collect();
        assert_eq!(changes, [3, 6]);
    }

    #[test]
    fn errors_name_the_tensor() {
        let refused = |gru: Gru| gru.validate(2).unwrap_err();
        assert_eq!(refused(Gru { weight_hh: vec![0.0; 4], ..unit() }), "gru.weight_hh: 4 values, needs 3");
        assert_eq!(refused(Gru { bias_ih: vec![0.0, f32::NAN, 0.0], ..unit() }), "gru.bias_ih: weights must be finite");
        assert_eq!(refused(Gru { inputs: vec![2], ..unit() }), "gru.inputs = 2: must be a column below 2");
        assert!(refused(Gru { every: 0, ..unit() }).contains("one decision between updates"));
    }
}
