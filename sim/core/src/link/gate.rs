//! A channel that is sent in frames: what arrives between two of them waits for the next, and arrives with it.

use crate::spec::GateSpec;
use crate::time::Nanos;

#[derive(Clone, Copy, Debug)]
pub struct Gate {
    period: u64,
    /// Less than the period.
    phase: u64,
}

impl Gate {
    pub fn new(spec: GateSpec) -> Gate {
        Gate { period: spec.period.0, phase: spec.phase.0 % spec.period.0 }
    }

    /// The first opening at or after `at`.
    pub fn opening(self, at: Nanos) -> Nanos {
        let frames = at.0.saturating_sub(self.phase).div_ceil(self.period);
        Nanos(self.phase + frames * self.period)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_once_a_period() {
        let gate = |period, phase| Gate::new(GateSpec { period: Nanos(period), phase: Nanos(phase) });
        let openings = |gate: Gate| [0, 1, 9, 10, 11, 20].map(|t| gate.opening(Nanos(t)).0);
        assert_eq!(openings(gate(10, 0)), [0, 10, 10, 10, 20, 20]);
        assert_eq!(openings(gate(10, 3)), [3, 3, 13, 13, 13, 23]);
        assert_eq!(openings(gate(10, 43)), openings(gate(10, 3)));
    }
}
