//! Aurora's observation, action and reward (Jay et al.: "A Deep Reinforcement Learning Perspective on Internet Congestion
//! Control", ICML 2019, and its released simulator): the agent moves a sending rate, every half RTT.
//!
//! The rate is limited to what satellite links need (the authors' simulator stopped at 12 Mbit/s), and actions to [-1, 1].

use crate::cc::Conn;

use super::pieces::{Action, Feature, Observation, Payment, Reward, ratio};
use super::stats::IntervalStats;

const FEATURES: [Feature; 3] = [
    ratio("rise of the RTT / interval", -1.0, 10.0),
    ratio("mean RTT / min RTT", 1.0, 10_000.0),
    ratio("send rate / receive rate", 0.0, 1_000.0),
];

pub static OBSERVATION: Observation =
    Observation { name: "aurora", features: &FEATURES, history: 10, fill: |stats, _, out| features(stats, out) };

pub static ACTION: Action = Action {
    name: "aurora",
    meaning: "a >= 0: rate x (1 + 0.025 a); a < 0: rate / (1 - 0.025 a)",
    over: "none",
    apply: |conn, action| {
        let rate = next_rate(conn.pacing_rate as f64, action);
        (window(rate, conn), Some(rate as u64))
    },
};

pub static REWARD: Reward = Reward { name: "aurora", low: -BOUND, high: BOUND, payment: Payment::Own(reward) };

/// Rate change per decision at full action.
const DELTA: f64 = 0.025;
/// Bytes per packet on the wire.
const PACKET_BYTES: f64 = 1500.0;
/// 40 packets a second, as in the authors' simulator, and 100 Gbit/s.
const RATES: (f64, f64) = (40.0 * PACKET_BYTES, 12.5e9);
/// 1.2 Gbit/s earn so much; ours, to keep the reward finite.
const BOUND: f64 = 1_000.0;

fn features(stats: &IntervalStats, out: &mut [f64]) {
    let rtt = stats.latest_rtt_s();
    let (sent, received) = (stats.send_rate_bps, stats.acked_rate_bps);
    out.copy_from_slice(&[
        if stats.interval_s > 0.0 { stats.rtt_rise_s / stats.interval_s } else { 0.0 },
        if stats.min_rtt_s > 0.0 { rtt / stats.min_rtt_s } else { 1.0 },
        if received > 0.0 && sent < 1_000.0 * received { sent / received } else { 1.0 },
    ]);
}

fn next_rate(rate: f64, action: f64) -> f64 {
    let next = if action >= 0.0 { rate * (1.0 + DELTA * action) } else { rate / (1.0 - DELTA * action) };
    next.clamp(RATES.0, RATES.1)
}

/// The rate is what limits: two RTTs' worth, and room for the packets of a low rate.
fn window(rate: f64, conn: &Conn) -> u32 {
    (2.0 * rate / PACKET_BYTES * f64::from(conn.srtt8_us) / 8e6).max(10.0) as u32
}

/// 10 per packet a second, less 1000 per second of latency and 2000 of all that is lost; in thousandths.
fn reward(stats: &IntervalStats) -> f64 {
    let packets_per_s = stats.acked_rate_bps / 8.0 / PACKET_BYTES;
    let known = stats.acked_packets + stats.lost_packets;
    let loss = if known > 0.0 { stats.lost_packets / known } else { 0.0 };
    let paid = 0.001 * (10.0 * packets_per_s - 1_000.0 * stats.latest_rtt_s() - 2_000.0 * loss);
    paid.clamp(-BOUND, BOUND)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats() -> IntervalStats {
        IntervalStats {
            interval_s: 0.05,
            send_rate_bps: 12e6,
            acked_packets: 25.0,
            acked_rate_bps: 6e6,
            rtt_mean_s: 0.1,
            srtt_s: 0.1,
            min_rtt_s: 0.08,
            rtt_rise_s: 0.01,
            ..IntervalStats::default()
        }
    }

    #[test]
    fn features_follow_their_formulas() {
        let mut out = [0.0; 3];
        features(&stats(), &mut out);
        assert_eq!(out.map(|x| (x * 1e6_f64).round() / 1e6), [0.2, 1.25, 2.0]);
        features(&IntervalStats::default(), &mut out);
        assert_eq!(out, [0.0, 1.0, 1.0], "undefined ratios are one");
    }

    #[test]
    fn rates_move_by_a_fortieth_and_stay_in_bounds() {
        assert_eq!([1.0, -1.0, 0.0].map(|a| next_rate(1e6, a).round()), [1_025_000.0, 975_610.0, 1e6]);
        assert_eq!(next_rate(0.0, -1.0), 60_000.0);
        assert_eq!(next_rate(12.5e9, 1.0), 12.5e9);
    }

    #[test]
    fn reward_weighs_packets_latency_and_loss() {
        assert!((reward(&stats()) - 0.001 * (5_000.0 - 100.0)).abs() < 1e-9);
        let lossy = IntervalStats { lost_packets: 25.0, ..stats() };
        assert!((reward(&lossy) - 0.001 * (5_000.0 - 100.0 - 1_000.0)).abs() < 1e-9);
    }
}
