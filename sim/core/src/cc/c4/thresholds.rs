//! How sensitive a flow is to congestion, by its rate, and the thresholds that follow (spec, "Variable Sensitivity" and the
//! sections after it).
//!
//! Fast flows react before slow ones do, so that flows at one bottleneck become alike.

use super::Flavour;

/// Points of the curve, bytes per second: 0 up to the first, `knee` at the second, 1 from the third.
const RATES: [f64; 3] = [50_000.0, 1_000_000.0, 10_000_000.0];
/// At the second point; picoquic's is 963/1024 (0.03 / 0.5 below 1).
const KNEE: f64 = 0.92;
const KNEE_PICOQUIC: f64 = 963.0 / 1024.0;
const DELAY_MAX_US: f64 = 25_000.0;

pub fn sensitivity(flavour: Flavour, rate: f64) -> f64 {
    let knee = if flavour == Flavour::Picoquic { KNEE_PICOQUIC } else { KNEE };
    let [low, middle, high] = RATES;
    if rate < low {
        0.0
    } else if rate < middle {
        knee * (rate - low) / (middle - low)
    } else if rate < high {
        knee + (1.0 - knee) * (rate - middle) / (high - middle)
    } else {
        1.0
    }
}

/// By how much an RTT may exceed the max RTT, microseconds.
pub fn delay_us(sensitivity: f64, max_rtt_us: f64) -> f64 {
    ((1.0 + 3.0 * (1.0 - sensitivity)) / 16.0 * max_rtt_us).min(DELAY_MAX_US)
}

/// Share of packets lost.
pub fn loss(sensitivity: f64) -> f64 {
    0.02 + 0.5 * (1.0 - sensitivity)
}

/// Share of packets marked.
pub fn marks(sensitivity: f64) -> f64 {
    (2.0 - sensitivity) * 3.0 / 32.0
}
