//! How far the rate moves along the gradient of utility: further the longer the direction stays the same, within a bound
//! that widens while it binds. Rates in Mbit/s.

/// Constants of the bound and the confidence amplifier.
#[derive(Clone, Copy, Debug)]
pub struct Law {
    pub amplifier: Amplifier,
    /// omega_0 and delta: the bound is (omega_0 + k delta) of the rate.
    pub bound: f64,
    pub bound_step: f64,
    /// No step is smaller.
    pub least: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amplifier {
    /// m(tau) for tau steps in the same direction; the bound's k starts over when it does not bind.
    Paper,
    /// The artefact's: another schedule, advanced by halves beyond 4, held back after reversals by the swing buffer; k
    /// shrinks by one when the bound does not bind.
    Artifact,
}

/// Reversals that must be made up for before the amplifier grows again.
const SWING_BUFFER_MAX: u32 = 2;

#[derive(Clone, Copy, Debug)]
pub struct Steps {
    law: Law,
    /// Amplifier's position, bound's k.
    confidence: f64,
    k: f64,
    swings: u32,
    /// The last step; 0: no direction.
    last: f64,
    /// Steps in the same direction (artefact: a trend, probed with one pair).
    pub trend: u32,
}

/// m(tau) of the paper.
fn paper_multiplier(tau: f64) -> f64 {
    if tau <= 3.0 {
        tau
    } else if tau <= 6.0 {
        2.0 * tau - 3.0
    } else if tau <= 9.0 {
        4.0 * tau - 9.0
    } else {
        9.0 * tau - 50.0
    }
}

fn artifact_multiplier(k: f64) -> f64 {
    if k < 3.0 {
        k + 1.0
    } else if k < 6.0 {
        2.0 * k - 2.0
    } else if k < 9.0 {
        4.0 * k - 14.0
    } else {
        8.0 * k - 50.0
    }
}

impl Steps {
    pub fn new(law: Law) -> Steps {
        Steps { law, confidence: 0.0, k: 0.0, swings: 0, last: 0.0, trend: 0 }
    }

    /// Nothing was decided. In the artefact the direction is forgotten, but probing in single pairs goes on; in the paper
    /// the last step stays what the next is compared with.
    pub fn forget_direction(&mut self) {
        if self.law.amplifier == Amplifier::Artifact {
            self.last = 0.0;
            self.trend = 2;
        }
    }

    /// Keep the trend for the next probe.
    pub fn trust(&mut self) {
        self.trend = 2;
    }

    /// The direction was reversed.
    fn start_over(&mut self) {
        (self.confidence, self.k) = (0.0, 0.0);
    }

    /// The change of a rate of `rate` that a gradient of `gamma` calls for. The conversion factor theta_0 is 1.
    pub fn step(&mut self, gamma: f64, rate: f64) -> f64 {
        let reverses = gamma * self.last < 0.0;
        let repeats = gamma * self.last > 0.0;
        if reverses {
            self.start_over();
        }
        let mut change = match self.law.amplifier {
            Amplifier::Paper => {
                self.confidence = if repeats { self.confidence + 1.0 } else { 1.0 };
                gamma * paper_multiplier(self.confidence)
            }
            Amplifier::Artifact => {
                let change = gamma * artifact_multiplier(self.confidence);
                if reverses {
                    self.swings = (self.swings + 1).min(SWING_BUFFER_MAX);
                    self.trend = 0;
                } else if repeats {
                    self.trend += 1;
                    if self.swings == 0 {
                        self.confidence += if self.confidence > 3.0 { 0.5 } else { 1.0 };
                    }
                    self.swings = self.swings.saturating_sub(1);
                }
                change
            }
        };
        let bound = (self.law.bound + self.law.bound_step * self.k) * rate;
        if change.abs() > bound {
            change = bound.copysign(change);
            self.k += 1.0;
        } else if self.law.amplifier == Amplifier::Paper {
            self.k = 0.0;
        } else {
            self.k = (self.k - 1.0).max(0.0);
        }
        if reverses && self.law.amplifier == Amplifier::Artifact {
            self.start_over();
        }
        if change != 0.0 && change.abs() < self.law.least {
            change = self.law.least.copysign(change);
        }
        self.last = change;
        change
    }
}

#[cfg(test)]
mod tests {
    use super::super::rules::{ARTIFACT, PAPER};
    use super::*;

    #[test]
    fn the_paper_s_amplifier_grows_with_every_step_in_the_same_direction() {
        let mut s = Steps::new(PAPER.law);
        let steps: Vec<f64> = (0..11).map(|_| s.step(0.001, 1000.0) / 0.001).map(|x| x.round()).collect();
        assert_eq!(steps, [1.0, 2.0, 3.0, 5.0, 7.0, 9.0, 19.0, 23.0, 27.0, 40.0, 49.0]);
        assert!((s.step(-0.001, 1000.0) + 0.001).abs() < 1e-12, "a reversal starts over");
    }

    #[test]
    fn the_paper_s_bound_widens_while_it_binds() {
        let mut s = Steps::new(PAPER.law);
        let shares: Vec<f64> = (0..4).map(|_| s.step(1e6, 100.0).round()).collect();
        assert_eq!(shares, [5.0, 15.0, 25.0, 35.0]);
        assert_eq!(s.step(-1e6, 100.0).round(), -5.0);
        assert_eq!(s.step(-1e6, 100.0).round(), -15.0);
        s.step(-0.01, 100.0);
        assert_eq!(s.step(-1e6, 100.0).round(), -5.0, "in a row");
    }

    #[test]
    fn in_the_paper_s_form_an_undecided_probe_changes_neither_amplifier_nor_bound() {
        let mut s = Steps::new(PAPER.law);
        let take = |s: &mut Steps, gamma: f64| {
            s.forget_direction();
            s.step(gamma, 100.0).round()
        };
        assert_eq!([1e6, 1e6, 1e6].map(|gamma| take(&mut s, gamma)), [5.0, 15.0, 25.0]);
        assert_eq!(take(&mut s, -1e6), -5.0, "a reversal starts over all the same");
    }

    #[test]
    fn the_artefact_s_amplifier_and_swing_buffer() {
        let mut s = Steps::new(ARTIFACT.law);
        let mut take = |gamma: f64| (s.step(gamma, 1e6) / gamma.abs()).round();
        // k = 0, 0 (no direction yet), 1, 2, 3, 4, 4.5, 5.
        let up: Vec<f64> = (0..8).map(|_| take(10.0)).collect();
        assert_eq!(up, [1.0, 1.0, 2.0, 3.0, 4.0, 6.0, 7.0, 8.0]);
        // One reversal: the first step back repays the swing, only the second one counts.
        assert_eq!([take(-10.0), take(-10.0), take(-10.0), take(-10.0)], [-1.0, -1.0, -1.0, -2.0]);
    }

    #[test]
    fn the_artefact_s_bound_and_least_step() {
        let mut s = Steps::new(ARTIFACT.law);
        let shares: Vec<f64> = (0..4).map(|_| s.step(1e6, 100.0)).collect();
        for (share, expected) in shares.iter().zip([5.0, 11.0, 17.0, 23.0]) {
            assert!((share - expected).abs() < 1e-9, "{shares:?}");
        }
        assert_eq!(s.step(0.01, 100.0), 0.5);
        assert_eq!(s.step(-0.01, 100.0), -0.5);
        assert_eq!(s.step(0.0, 100.0), 0.0);
    }
}
