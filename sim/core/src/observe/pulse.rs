//! Pulses of a sender's rate, to which elastic cross traffic responds and inelastic traffic does not: Nimbus (Goyal et
//! al., "Elasticity detection: a building block for Internet congestion control", SIGCOMM 2022, section 3.4).
//!
//! A pulse is half a sine wave up over a quarter of its period, and half a sine wave down, a third as high, over the rest:
//! its mean is zero. Rates change at decisions only. Each decision therefore sets the mean of the pulse over the interval
//! that it begins, which is taken to be as long as the last one.

use std::f64::consts::PI;

use super::memory::WindowedMax;
use super::stats::IntervalStats;

/// Share of the period during which the rate is raised (Nimbus).
const UP: f64 = 0.25;
/// The capacity of the path is the largest delivery rate of so many seconds.
const CAPACITY_S: f64 = 10.0;
/// A pulse lowers the rate to this share of it at least.
const LEAST: f64 = 0.5;
/// Decisions per period that a pulse, and the spectrum of the response up to twice its frequency, need at least.
pub const DECISIONS: f64 = 6.0;
/// Lowest and highest frequency.
pub const PULSE_HZ: (f64, f64) = (0.2, 20.0);

/// The pulses of one flow.
#[derive(Clone, Debug)]
pub struct Pulse {
    capacity: WindowedMax,
    /// What the last decision added to the rate (bytes per second) and to the window (bytes).
    pub rate: f64,
    pub window: f64,
}

impl Default for Pulse {
    fn default() -> Pulse {
        Pulse { capacity: WindowedMax::new(CAPACITY_S), rate: 0.0, window: 0.0 }
    }
}

/// Integral of a pulse of height 1 over its phase, from 0 to this one; periods later it is the same.
fn integral(periods: f64) -> f64 {
    let phase = periods - libm::floor(periods);
    if phase < UP {
        (1.0 - libm::cos(PI * phase / UP)) * UP / PI
    } else {
        (1.0 + libm::cos(PI * (phase - UP) / (1.0 - UP))) * UP / PI
    }
}

impl Pulse {
    /// Set `rate` and `window` for the interval that begins. `height`: of the pulse, in shares of the capacity; `base`: the
    /// rate without pulses, bytes per second.
    pub fn step(&mut self, stats: &IntervalStats, height: f64, hz: f64, base: f64) {
        let rate = if stats.delivery_rate_bps > 0.0 { stats.delivery_rate_bps } else { f64::NAN };
        let capacity = self.capacity.update(stats.time_s, rate).unwrap_or(0.0) / 8.0;
        let (begin, end) = (stats.time_s * hz, (stats.time_s + stats.interval_s) * hz);
        let mean = if end > begin { (integral(end) - integral(begin)) / (end - begin) } else { 0.0 };
        self.rate = (height * capacity * mean).max((LEAST - 1.0) * base);
        // By then the pulse has sent so much more than the rate without it.
        self.window = height * capacity * integral(end) / hz;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time_s: f64, interval_s: f64) -> IntervalStats {
        IntervalStats { time_s, interval_s, delivery_rate_bps: 80e6, ..IntervalStats::default() }
    }

    #[test]
    fn a_pulse_goes_up_for_a_quarter_and_down_a_third_as_far() {
        // A quarter of 80 Mbit/s is 2.5 MB/s. Periods of 200 ms; intervals of 1 ms about the middles of 0 to 50 ms and of
        // 50 to 200 ms, where the sine waves are at their ends.
        let mut pulse = Pulse::default();
        let mut rate = |time_s| {
            pulse.step(&at(time_s - 0.0005, 0.001), 0.25, 5.0, 1e7);
            pulse.rate
        };
        assert!((rate(1.025) / 2.5e6 - 1.0).abs() < 1e-3);
        assert!((rate(1.125) / (-2.5e6 / 3.0) - 1.0).abs() < 1e-3);
        // At 50 ms, half a millisecond of each: 15.9 ms (1 - cos(pi / 100)) up, 15.9 ms (1 - cos(pi / 300)) down.
        assert!((rate(1.05) - 17_450.0).abs() < 50.0);
    }

    #[test]
    fn the_window_makes_room_for_what_a_pulse_sends_and_a_period_sends_nothing_more() {
        let mut pulse = Pulse::default();
        let (mut sent, mut most) = (0.0, 0.0f64);
        for k in 0..20 {
            pulse.step(&at(3.0 + 0.03 * f64::from(k), 0.03), 0.25, 5.0, 1e7);
            sent += 0.03 * pulse.rate;
            assert!((sent - pulse.window).abs() < 1e-3, "{sent} {}", pulse.window);
            most = most.max(pulse.window);
        }
        assert!(sent.abs() < 1e-3, "three periods of 200 ms are 20 intervals of 30 ms: {sent}");
        // Half a sine wave of 2.5 MB/s over 50 ms: 2 / pi of 125 kB.
        assert!(most > 0.9 * 79_577.0 && most <= 79_578.0, "{most}");
    }

    #[test]
    fn a_small_flow_keeps_half_its_rate() {
        let mut pulse = Pulse::default();
        pulse.step(&at(1.125 - 0.0005, 0.001), 0.25, 5.0, 1e6);
        assert_eq!(pulse.rate, -5e5);
    }
}
