//! How RTT and delivery rate follow the packets in flight: on an idle link both slopes are near (0, 1), on a full one near
//! (1, 0), and beside a flow that fills the queue in between.

use crate::observe::memory::{Past, span_weight};

/// Running means are over so many minimum RTTs.
const MEAN_RTTS: f64 = 8.0;
/// Second moments are over so many minimum RTTs, and over this time at least.
const MOMENT_RTTS: f64 = 12.0;
const MOMENT_S: f64 = 3.0;
/// Largest deviation from a mean that counts.
const MOST: f64 = 0.12;
/// Added to the variance of the packets in flight: without changes of the window, slopes are 0.
const NOISE: f64 = 1.5e-4;

/// Regressions of ln(RTT) and of ln(delivery rate) on ln(packets in flight one RTT earlier).
#[derive(Clone)]
pub struct Slopes {
    flights: Past,
    /// Means of ln(in flight), ln(RTT) and ln(rate).
    means: Option<[f64; 3]>,
    variance: f64,
    covariances: [f64; 2],
}

impl Slopes {
    pub fn new() -> Slopes {
        Slopes { flights: Past::default(), means: None, variance: 0.0, covariances: [0.0; 2] }
    }

    /// The path has changed: deviations are from new means.
    pub fn forget(&mut self) {
        self.means = None;
        self.flights.forget();
    }

    /// Add an interval that ends at `time_s`. Values that are not positive are not known.
    pub fn update(&mut self, time_s: f64, interval_s: f64, in_flight: f64, min_rtt_s: f64, rtt_s: f64, rate: f64) {
        let earlier = self.flights.at(time_s - rtt_s);
        self.flights.push(time_s, in_flight);
        let seen = [earlier, rtt_s, rate];
        if !seen.iter().all(|x| *x > 0.0) {
            return;
        }
        let seen = seen.map(libm::log);
        let means = self.means.get_or_insert(seen);
        let towards_mean = span_weight(interval_s, MEAN_RTTS * min_rtt_s);
        let mut off = [0.0; 3];
        for ((off, mean), x) in off.iter_mut().zip(means).zip(seen) {
            *mean += towards_mean * (x - *mean);
            *off = (x - *mean).clamp(-MOST, MOST);
        }
        let w = span_weight(interval_s, (MOMENT_RTTS * min_rtt_s).max(MOMENT_S));
        self.variance += w * (off[0] * off[0] - self.variance);
        for (covariance, y) in self.covariances.iter_mut().zip(&off[1..]) {
            *covariance += w * (off[0] * y - *covariance);
        }
    }

    /// Of RTT and rate.
    pub fn slopes(&self) -> [f64; 2] {
        self.covariances.map(|covariance| covariance / (self.variance + NOISE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slopes after 60 s of a window that swings by 10 %, on a path of 40 ms where RTT and rate follow it so.
    fn after(rtt: fn(f64) -> f64, rate: fn(f64) -> f64) -> [f64; 2] {
        let mut slopes = Slopes::new();
        let mut flights = vec![100.0; 3];
        for k in 0..2_000 {
            let t = 0.03 * f64::from(k);
            let flight = 100.0 * (1.0 + 0.1 * (t * 4.0).sin());
            // With an RTT of at most 60 ms, the last interval that had ended an RTT ago is the one before the last.
            let earlier = flights[flights.len() - 2];
            slopes.update(t, 0.03, flight, 0.04, rtt(earlier), rate(earlier));
            flights.push(flight);
        }
        slopes.slopes()
    }

    #[test]
    fn a_full_link_raises_the_rtt_and_an_idle_one_the_rate() {
        let [rtt, rate] = after(|flight| 0.0005 * flight, |_| 50e6);
        assert!((rtt - 1.0).abs() < 0.15 && rate.abs() < 1e-9, "{rtt} {rate}");
        let [rtt, rate] = after(|_| 0.045, |flight| 1e6 * flight);
        assert!(rtt.abs() < 1e-9 && (rate - 1.0).abs() < 0.15, "{rtt} {rate}");
    }

    #[test]
    fn without_changes_and_without_values_there_is_no_slope() {
        let mut slopes = Slopes::new();
        for k in 0..500 {
            slopes.update(0.03 * f64::from(k), 0.03, 100.0, 0.04, if k % 2 == 0 { 0.05 } else { f64::NAN }, 50e6);
        }
        assert_eq!(slopes.slopes(), [0.0, 0.0]);
    }
}
