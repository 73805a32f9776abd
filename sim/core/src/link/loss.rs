//! Non-congestive loss: independent, in bursts (Gilbert 1960, Elliott 1963) in continuous time, or rising with the load.

use crate::rng::{Purpose, Stream};
use crate::spec::LossSpec;
use crate::time::Nanos;
use crate::units::BitRate;

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
    /// Share of time in which the server was busy, averaged up to the last packet, and when that was.
    load: f64,
    load_at: Nanos,
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
            load: 0.0,
            load_at: Nanos::ZERO,
        }
    }

    /// Is a packet of `size` bytes passing at `now` lost? `rate` is the link's.
    pub fn strikes(&mut self, now: Nanos, size: u32, rate: BitRate) -> bool {
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
            LossSpec::Load { idle, full, tau } => {
                // Where nothing is served, a packet would take forever.
                self.count(now, BitRate(rate.0.max(1)).serialisation(u64::from(size)), tau);
                self.packets.uniform() < idle + (full - idle) * self.load.min(1.0)
            }
        }
    }

    /// The server has been busy for `service` before `now`. The average of a share that is 1 then and 0 before decays as
    /// exp(-t / tau); without a pause it comes to 1. What arrives faster than it is served may take it above.
    fn count(&mut self, now: Nanos, service: Nanos, tau: Nanos) {
        let decay = |span: Nanos| libm::exp(-(span.0 as f64) / tau.0 as f64);
        self.load = self.load * decay(now - self.load_at) + 1.0 - decay(service);
        self.load_at = now;
    }

    /// Expected loss share of the model in force at `now`, at full load.
    pub fn expected(&mut self, now: Nanos) -> f64 {
        match self.schedule.at(now) {
            LossSpec::None => 0.0,
            LossSpec::Bernoulli { p } => p,
            LossSpec::GilbertElliott { good_loss, bad_loss, to_bad_per_s, to_good_per_s } => {
                let total = to_bad_per_s + to_good_per_s;
                let bad = if total > 0.0 { to_bad_per_s / total } else { 0.0 };
                bad * bad_loss + (1.0 - bad) * good_loss
            }
            LossSpec::Load { full, .. } => full,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(model: LossSpec, packets: u64, gap: Nanos) -> f64 {
        let mut loss = Loss::new(&[(Nanos::ZERO, model)], 3, 0);
        (0..packets).filter(|i| loss.strikes(Nanos(i * gap.0), 1_500, BitRate::UNLIMITED)).count() as f64
            / packets as f64
    }

    #[test]
    fn bernoulli_loses_its_share() {
        let p = share(LossSpec::Bernoulli { p: 0.01 }, 200_000, Nanos(1000));
        assert!((p - 0.01).abs() < 0.001, "{p}");
    }

    #[test]
    fn the_load_is_an_exponential_average_of_busy_time() {
        let tau = Nanos::from_millis(100);
        let model = LossSpec::Load { idle: 0.0, full: 1.0, tau };
        let mut loss = Loss::new(&[(Nanos::ZERO, model)], 1, 0);
        let mut load = |now_ms, service_ms| {
            loss.count(Nanos::from_millis(now_ms), Nanos::from_millis(service_ms), tau);
            loss.load
        };
        // 1 - 1/e after 100 ms of service, in one or in two; 1/e of that after as long a pause, and 20 ms of service.
        assert!((load(100, 100) - 0.632_121).abs() < 1e-6);
        assert!((load(150, 50) - 0.776_870).abs() < 1e-6, "1 - exp(-1.5)");
        assert!((load(250, 20) - (0.776_870 * 0.367_879 + 0.181_269)).abs() < 1e-6, "1 - exp(-0.2) is 0.181269");
        // Without a pause it is 1 in the end.
        assert!((251..2_000).map(|ms| load(ms, 1)).last().is_some_and(|share| (share - 1.0).abs() < 1e-6));
    }

    #[test]
    fn loss_rises_with_the_load_from_idle_to_full() {
        // 1,500 bytes at 12 Mbit/s take 1 ms: every 1, 2, 4, 100 ms are loads of 1, 1/2, 1/4, 1/100.
        let model = LossSpec::Load { idle: 0.01, full: 0.05, tau: Nanos::from_millis(1_000) };
        for (gap_ms, expected) in [(1, 0.05), (2, 0.03), (4, 0.02), (100, 0.010_4)] {
            let mut loss = Loss::new(&[(Nanos::ZERO, model)], 3, 0);
            let rate = BitRate(12_000_000);
            let lost = (0..400_000u64).filter(|i| loss.strikes(Nanos::from_millis(i * gap_ms), 1_500, rate)).count();
            let share = lost as f64 / 4e5;
            // Three standard deviations of the largest are 0.0010.
            assert!((share - expected).abs() < 0.001, "{gap_ms} ms: {share}");
        }
        let mut loss = Loss::new(&[(Nanos::ZERO, model)], 3, 0);
        assert_eq!(loss.expected(Nanos::ZERO), 0.05, "at full load");
        // Where nothing is served, the load is full.
        loss.strikes(Nanos::ZERO, 1_500, BitRate(0));
        assert!(loss.load > 0.99);
    }

    #[test]
    fn gilbert_elliott_loses_its_stationary_share() {
        let model = LossSpec::GilbertElliott { good_loss: 0.0, bad_loss: 1.0, to_bad_per_s: 1.0, to_good_per_s: 9.0 };
        let p = share(model, 2_000_000, Nanos::from_millis(1));
        assert!((p - 0.1).abs() < 0.01, "{p}");
        assert!((Loss::new(&[(Nanos::ZERO, model)], 1, 1).expected(Nanos::ZERO) - 0.1).abs() < 1e-12);
    }
}
