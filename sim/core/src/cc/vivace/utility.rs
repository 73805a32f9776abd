//! What an interval was worth.

/// How the RTT gradient is cleaned of noise.
#[derive(Clone, Copy, Debug)]
pub enum Filter {
    /// What is below this counts as zero, falling RTTs too.
    Ignore(f64),
    /// Multiples of this, towards zero.
    Quantise(f64),
}

impl Filter {
    fn apply(self, gradient: f64) -> f64 {
        match self {
            Filter::Ignore(below) if gradient < below => 0.0,
            Filter::Ignore(_) => gradient,
            Filter::Quantise(step) => libm::trunc(gradient / step) * step,
        }
    }
}

/// u = throughput * x^exponent - latency * g * x - loss * L * x; x in megabits per second, L the share of packets lost,
/// g the RTT gradient.
#[derive(Clone, Copy, Debug)]
pub struct Utility {
    pub exponent: f64,
    pub latency: f64,
    pub loss: f64,
    /// Up to this loss another coefficient holds.
    pub small_loss: f64,
    pub loss_if_small: f64,
    pub gradient: Filter,
    /// Bits.
    pub megabit: f64,
}

impl Utility {
    pub fn of(&self, mbps: f64, loss: f64, gradient: f64) -> f64 {
        let x = mbps * 1e6 / self.megabit;
        let loss_coefficient = if loss <= self.small_loss { self.loss_if_small } else { self.loss };
        libm::pow(x, self.exponent) - x * (self.latency * self.gradient.apply(gradient) + loss_coefficient * loss)
    }
}

#[cfg(test)]
mod tests {
    use super::super::rules::{ARTIFACT, PAPER};

    /// The smallest value of `of` at which sending slightly more no longer pays.
    fn tolerance(of: impl Fn(f64, f64) -> f64, mbps: f64) -> f64 {
        let mut low = 0.0;
        let mut high = 1.0;
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            let pays = of(mbps * (1.0 + 1e-6), middle) > of(mbps, middle);
            if pays { low = middle } else { high = middle }
        }
        low
    }

    #[test]
    fn paper_vectors() {
        let u = PAPER.utility;
        assert!((u.of(100.0, 0.0, 0.0) - 63.10).abs() < 0.005);
        assert!((u.of(105.0, 0.0, 0.05) + 4659.0).abs() < 0.5);
        let loss = |mbps| 100.0 * tolerance(|x, l| u.of(x, l, 0.0), mbps);
        for (mbps, percent) in [(10.0, 6.3), (100.0, 5.0), (140.0, 4.8)] {
            assert!((loss(mbps) - percent).abs() < 0.05, "{mbps}: {}", loss(mbps));
        }
        // Below what the noise filter lets through: any growth of the queue that is seen is punished.
        let mut bare = u;
        bare.gradient = super::Filter::Ignore(0.0);
        let gradient = tolerance(|x, g| bare.of(x, 0.0, g), 100.0);
        assert!((gradient - 6.3e-4).abs() < 0.05e-4, "{gradient}");
        assert_eq!(u.of(100.0, 0.0, 0.0099), u.of(100.0, 0.0, 0.0));
        assert_eq!(u.of(100.0, 0.0, -0.05), u.of(100.0, 0.0, 0.0), "a shrinking queue is no merit");
    }

    #[test]
    fn the_artefact_counts_in_two_to_the_twenty_bits_and_forgives_small_losses() {
        let u = ARTIFACT.utility;
        let x = 100e6 / 1_048_576.0;
        assert!((u.of(100.0, 0.0, 0.0) - libm::pow(x, 0.9)).abs() < 1e-9);
        assert!((u.of(100.0, 0.03, 0.0) - (libm::pow(x, 0.9) - 0.03 * x)).abs() < 1e-9);
        assert!((u.of(100.0, 0.04, 0.0) - (libm::pow(x, 0.9) - 11.35 * 0.04 * x)).abs() < 1e-9);
        for (gradient, counted) in [(0.019, 0.0), (0.021, 0.02), (0.059, 0.04), (-0.019, 0.0), (-0.05, -0.04)] {
            let expected = libm::pow(x, 0.9) - 11_330.0 * counted * x;
            assert!((u.of(100.0, 0.0, gradient) - expected).abs() < 1e-6, "{gradient}");
        }
    }
}
