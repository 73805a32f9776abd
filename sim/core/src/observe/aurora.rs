//! Aurora's observation, action and reward (Jay et al.: "A Deep Reinforcement Learning Perspective on Internet
//! Congestion Control", ICML 2019, and its released simulator): the agent changes a sending rate every half RTT.
//!
//! The limit of the rate suits satellite links (the authors' simulator stopped at 12 Mbit/s). Actions are limited to
//! [-1, 1].

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::functions::{Observation, Payment, Reward, ratio, read, stateless, within};
use super::stats::IntervalStats;

pub(super) fn observation(given: Value) -> Result<(Observation, Value), String> {
    let features = vec![
        ratio("RTT rise in the interval / length of the interval", -1.0, 10.0),
        ratio("mean RTT / min RTT", 1.0, 10_000.0),
        ratio("send rate / receive rate", 0.0, 1_000.0),
    ];
    stateless(given, features, fill)
}

/// Weights of the reward, in thousandths, and its bound, which a rate of 1.2 Gbit/s reaches (ours, to keep it finite).
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Terms {
    /// Weight of packets per second; next of the RTT in seconds, and of the share of lost packets.
    throughput: f64,
    latency: f64,
    loss: f64,
    bound: f64,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms { throughput: 10.0, latency: 1_000.0, loss: 2_000.0, bound: 1_000.0 }
    }
}

pub(super) fn reward(given: Value) -> Result<(Reward, Value), String> {
    let (terms, all): (Terms, _) = read(given)?;
    for (field, weight) in [("throughput", terms.throughput), ("latency", terms.latency), ("loss", terms.loss)] {
        within(field, weight, 0.0, 1e6)?;
    }
    within("bound", terms.bound, 1e-3, 1e6)?;
    let bound = terms.bound;
    let payment = Payment::Own(Arc::new(move |flow| terms.pay(flow.stats)));
    Ok((Reward { definition: Default::default(), low: -bound, high: bound, memory: 1, payment }, all))
}

/// Bytes per packet on the wire.
const PACKET_BYTES: f64 = 1500.0;

fn fill(stats: &IntervalStats, out: &mut [f64]) {
    let rtt = stats.latest_rtt_s();
    let (sent, received) = (stats.send_rate_bps, stats.acked_rate_bps);
    out.copy_from_slice(&[
        if stats.interval_s > 0.0 { stats.rtt_rise_s / stats.interval_s } else { 0.0 },
        if stats.min_rtt_s > 0.0 { rtt / stats.min_rtt_s } else { 1.0 },
        if received > 0.0 && sent < 1_000.0 * received { sent / received } else { 1.0 },
    ]);
}

impl Terms {
    /// 10 per packet/s, minus 1000 per second of latency, minus 2000 times the share of lost packets; in thousandths.
    fn pay(&self, stats: &IntervalStats) -> f64 {
        let packets_per_s = stats.acked_rate_bps / 8.0 / PACKET_BYTES;
        let known = stats.acked_packets + stats.lost_packets;
        let loss = if known > 0.0 { stats.lost_packets / known } else { 0.0 };
        let paid = self.throughput * packets_per_s - self.latency * stats.latest_rtt_s() - self.loss * loss;
        (0.001 * paid).clamp(-self.bound, self.bound)
    }
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
        fill(&stats(), &mut out);
        assert_eq!(out.map(|x| (x * 1e6_f64).round() / 1e6), [0.2, 1.25, 2.0]);
        fill(&IntervalStats::default(), &mut out);
        assert_eq!(out, [0.0, 1.0, 1.0], "undefined ratios are one");
    }

    #[test]
    fn reward_weighs_packets_latency_and_loss() {
        assert!((Terms::default().pay(&stats()) - 0.001 * (5_000.0 - 100.0)).abs() < 1e-9);
        let lossy = IntervalStats { lost_packets: 25.0, ..stats() };
        assert!((Terms::default().pay(&lossy) - 0.001 * (5_000.0 - 100.0 - 1_000.0)).abs() < 1e-9);
    }
}
