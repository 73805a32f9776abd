//! Counter-based random numbers: every stream is a pure function of (seed, purpose, index) and a counter, so that
//! results do not depend on the order in which streams are used, on threads, or on other flows.
//!
//! The generator is SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): a counter times an odd constant through a mixer.

use crate::time::Nanos;

/// What a stream is for; part of its key.
#[derive(Clone, Copy, Debug)]
#[repr(u64)]
pub enum Purpose {
    StartJitter = 1,
    SendJitter = 2,
    Loss = 3,
    LossState = 4,
    Queue = 5,
    Traffic = 6,
    Controller = 7,
    HandoverReport = 8,
    Jitter = 9,
    Late = 10,
    Marks = 11,
}

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// One stream of random numbers.
#[derive(Clone, Debug)]
pub struct Stream {
    state: u64,
}

impl Stream {
    pub fn new(seed: u64, purpose: Purpose, index: u64) -> Stream {
        let key = mix(seed ^ mix(purpose as u64 ^ mix(index.wrapping_mul(GOLDEN).wrapping_add(GOLDEN))));
        Stream { state: key }
    }

    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mix(self.state)
    }

    /// Uniform in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform whole nanoseconds in [0, bound); zero for a zero bound. Lemire's multiply-shift.
    pub fn below(&mut self, bound: Nanos) -> Nanos {
        Nanos(((self.next_u64() as u128 * bound.0 as u128) >> 64) as u64)
    }

    /// Gaussian of mean 0 and variance 1 (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(self.exponential(2.0));
        radius * libm::cos(std::f64::consts::TAU * self.uniform())
    }

    /// Exponential with the given mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log(1.0 - self.uniform())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_reproducible_and_distinct() {
        let draw = |seed, index| {
            let mut s = Stream::new(seed, Purpose::Loss, index);
            [s.next_u64(), s.next_u64(), s.next_u64()]
        };
        assert_eq!(draw(1, 0), draw(1, 0));
        assert_ne!(draw(1, 0), draw(1, 1));
        assert_ne!(draw(1, 0), draw(2, 0));
    }

    #[test]
    fn uniform_and_exponential_have_their_means() {
        let mut s = Stream::new(7, Purpose::Traffic, 3);
        let n = 100_000;
        let u: f64 = (0..n).map(|_| s.uniform()).sum::<f64>() / n as f64;
        let e: f64 = (0..n).map(|_| s.exponential(2.0)).sum::<f64>() / n as f64;
        assert!((u - 0.5).abs() < 0.01, "{u}");
        assert!((e - 2.0).abs() < 0.05, "{e}");
    }
}
