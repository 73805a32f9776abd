//! Non-congestive loss: independent, or in bursts (Gilbert 1960, Elliott 1963) in continuous time.

use crate::rng::{Purpose, Stream};
use crate::spec::LossSpec;
use crate::time::Nanos;

use super::piecewise::Steps;

#[derive(Clone, Debug)]
pub struct Loss {
    schedule: Steps<LossSpec>,
    /// One draw per packet.
    packets: Stream,
    /// Sojourn times of the two-state chain.
    sojourns: Stream,
    bad: bool,
    state_until: Nanos,
    /// The point of the schedule that the chain's state belongs to.
    state_of: u32,
}

impl Loss {
    pub fn new(points: &[(Nanos, LossSpec)], seed: u64, index: u64) -> Loss {
        let points = if points.is_empty() { vec![(Nanos::ZERO, LossSpec::None)] } else { points.to_vec() };
        Loss {
            schedule: Steps::new(points),
            packets: Stream::new(seed, Purpose::Loss, index),
            sojourns: Stream::new(seed, Purpose::LossState, index),
            bad: true,
            state_until: Nanos::ZERO,
            state_of: 0,
        }
    }

    /// Is a packet passing at `now` lost?
    pub fn strikes(&mut self, now: Nanos) -> bool {
        match self.schedule.at(now) {
            LossSpec::None => false,
            LossSpec::Bernoulli { p } => self.packets.uniform() < p,
            LossSpec::GilbertElliott { good_loss, bad_loss, to_bad_per_s, to_good_per_s } => {
                if self.state_of != self.schedule.index() {
                    self.state_of = self.schedule.index();
                    self.bad = true;
                    self.state_until = now;
                }
                while self.state_until <= now {
                    self.bad = !self.bad;
                    let rate = if self.bad { to_good_per_s } else { to_bad_per_s };
                    let stay = if rate > 0.0 { self.sojourns.exponential(1e9 / rate).min(1e18) } else { 1e18 };
                    self.state_until += Nanos(stay as u64 + 1);
                }
                self.packets.uniform() < if self.bad { bad_loss } else { good_loss }
            }
        }
    }

    /// Expected loss share of the model in force at `now`.
    pub fn expected(&mut self, now: Nanos) -> f64 {
        match self.schedule.at(now) {
            LossSpec::None => 0.0,
            LossSpec::Bernoulli { p } => p,
            LossSpec::GilbertElliott { good_loss, bad_loss, to_bad_per_s, to_good_per_s } => {
                let total = to_bad_per_s + to_good_per_s;
                let bad = if total > 0.0 { to_bad_per_s / total } else { 0.0 };
                bad * bad_loss + (1.0 - bad) * good_loss
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(model: LossSpec, packets: u64, gap: Nanos) -> f64 {
        let mut loss = Loss::new(&[(Nanos::ZERO, model)], 3, 0);
        (0..packets).filter(|i| loss.strikes(Nanos(i * gap.0))).count() as f64 / packets as f64
    }

    #[test]
    fn bernoulli_loses_its_share() {
        let p = share(LossSpec::Bernoulli { p: 0.01 }, 200_000, Nanos(1000));
        assert!((p - 0.01).abs() < 0.001, "{p}");
    }

    #[test]
    fn gilbert_elliott_loses_its_stationary_share() {
        let model = LossSpec::GilbertElliott { good_loss: 0.0, bad_loss: 1.0, to_bad_per_s: 1.0, to_good_per_s: 9.0 };
        let p = share(model, 2_000_000, Nanos::from_millis(1));
        assert!((p - 0.1).abs() < 0.01, "{p}");
        assert!((Loss::new(&[(Nanos::ZERO, model)], 1, 1).expected(Nanos::ZERO) - 0.1).abs() < 1e-12);
    }
}
