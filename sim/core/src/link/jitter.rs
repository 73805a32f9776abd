//! Delay that wanders: a continuous random process of its own, the same whatever packets meet it.

use std::f64::consts::TAU;

use crate::rng::{Purpose, Stream};
use crate::spec::JitterSpec;
use crate::time::Nanos;

/// Knots per correlation time; between them the process is a straight line.
pub const KNOTS_PER_TAU: f64 = 4.0;

#[derive(Clone, Debug)]
pub struct Jitter {
    spec: JitterSpec,
    random: Stream,
    /// Nanoseconds between knots, and the correlation of the Gaussians over one such step.
    step: u64,
    correlation: f64,
    /// Independent Gaussian AR(1) processes of variance 1, two per shape of a Gamma process.
    states: Vec<f64>,
    /// Radians of the sine at time 0.
    phase: f64,
    /// The knots around the present time: number of the left one, values of both, nanoseconds.
    knot: u64,
    left: f64,
    right: f64,
}

impl Jitter {
    pub fn new(spec: JitterSpec, seed: u64, index: u64) -> Jitter {
        let mut random = Stream::new(seed, Purpose::Jitter, index);
        let (tau, processes, per_step) = match spec {
            // The square of a Gaussian process has its correlation squared.
            JitterSpec::Gamma { shape, tau, .. } => (tau, 2 * shape as usize, 0.5 / KNOTS_PER_TAU),
            JitterSpec::SineAr1 { ar_tau, .. } => (ar_tau, 1, 1.0 / KNOTS_PER_TAU),
        };
        let phase = random.uniform() * TAU;
        let states = (0..processes).map(|_| random.normal()).collect();
        let mut jitter = Jitter {
            spec,
            random,
            step: ((tau.0 as f64 / KNOTS_PER_TAU) as u64).max(1),
            correlation: libm::exp(-per_step),
            states,
            phase,
            knot: 0,
            left: 0.0,
            right: 0.0,
        };
        jitter.left = jitter.value(0);
        jitter.advance_states();
        jitter.right = jitter.value(1);
        jitter
    }

    /// The extra delay at `at`; an earlier time than the knots kept reads the older of them.
    pub fn at(&mut self, at: Nanos) -> Nanos {
        let knot = at.0 / self.step;
        while self.knot < knot {
            self.knot += 1;
            self.left = self.right;
            self.advance_states();
            // Long idle times pass over many knots; their values are not asked for.
            if self.knot + 1 >= knot {
                self.right = self.value(self.knot + 1);
            }
        }
        let into = at.0.saturating_sub(self.knot * self.step) as f64 / self.step as f64;
        Nanos((self.left + (self.right - self.left) * into) as u64)
    }

    fn advance_states(&mut self) {
        let fresh = libm::sqrt(1.0 - self.correlation * self.correlation);
        for state in &mut self.states {
            *state = self.correlation * *state + fresh * self.random.normal();
        }
    }

    /// Nanoseconds at a knot, from the present states.
    fn value(&self, knot: u64) -> f64 {
        match self.spec {
            JitterSpec::Gamma { mean, shape, .. } => {
                // A sum of 2k squared Gaussians is a Gamma variable of shape k and mean 2k.
                mean.0 as f64 / f64::from(2 * shape) * self.states.iter().map(|x| x * x).sum::<f64>()
            }
            JitterSpec::SineAr1 { mean, sine_sd, sine_period, ar_sd, .. } => {
                let turns = (knot * self.step) as f64 / sine_period.0 as f64;
                let sine = libm::sqrt(2.0) * sine_sd.0 as f64 * libm::sin(TAU * turns + self.phase);
                (mean.0 as f64 + sine + ar_sd.0 as f64 * self.states[0]).max(0.0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: f64 = 1e6;

    /// Mean, standard deviation, and correlation over `lag` samples of the process read every `every`.
    fn moments(spec: JitterSpec, every: Nanos, lag: usize) -> (f64, f64, f64) {
        let mut jitter = Jitter::new(spec, 3, 0);
        let x: Vec<f64> = (0..200_000).map(|k| jitter.at(Nanos(k * every.0)).0 as f64 / MS).collect();
        let n = x.len() as f64;
        let mean = x.iter().sum::<f64>() / n;
        let variance = x.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n;
        let covariance = x.windows(lag + 1).map(|w| (w[0] - mean) * (w[lag] - mean)).sum::<f64>() / n;
        (mean, libm::sqrt(variance), covariance / variance)
    }

    #[test]
    fn gamma_has_its_moments_and_correlation() {
        let tau = Nanos::from_millis(40);
        let spec = JitterSpec::Gamma { mean: Nanos::from_millis(4), shape: 2, tau };
        // At the knots: between them a straight line varies less.
        let (mean, sd, correlation) = moments(spec, Nanos::from_millis(10), 4);
        assert!((mean - 4.0).abs() < 0.1, "{mean}");
        assert!((sd - 4.0 / libm::sqrt(2.0)).abs() < 0.1, "{sd}");
        assert!((correlation - libm::exp(-1.0)).abs() < 0.03, "{correlation}");
    }

    #[test]
    fn sine_and_ar1_add_up() {
        let ms = Nanos::from_millis;
        let spec = JitterSpec::SineAr1 {
            mean: Nanos(33_500_000),
            sine_sd: ms(14),
            sine_period: ms(2000),
            ar_sd: Nanos(9_300_000),
            ar_tau: ms(190),
        };
        let (mean, sd, _) = moments(spec, Nanos(47_500_000), 1);
        assert!((mean - 33.6).abs() < 0.5, "{mean}");
        assert!((sd - 16.7).abs() < 0.4, "{sd}");
    }

    #[test]
    fn the_process_does_not_depend_on_who_reads_it() {
        let spec = JitterSpec::Gamma { mean: Nanos::from_millis(4), shape: 2, tau: Nanos::from_millis(40) };
        let (mut often, mut seldom) = (Jitter::new(spec, 1, 2), Jitter::new(spec, 1, 2));
        (0..2_000).for_each(|k| {
            often.at(Nanos::from_millis(k));
        });
        assert_eq!(often.at(Nanos::from_millis(2_007)), seldom.at(Nanos::from_millis(2_007)));
    }
}
