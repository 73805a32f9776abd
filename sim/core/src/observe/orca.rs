//! Orca's observation, action and reward (Abbasloo, Yen, Chao: "Classic Meets Modern: a Pragmatic Learning-Based
//! Congestion Control for the Internet", SIGCOMM 2020, and its released code): Cubic acts on every ACK, and the agent
//! multiplies its window every 20 ms. Rates in the features are in bytes per second.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::functions::{Action, Feature, Observation, Payment, Reward, ratio, read, stateless, within};
use super::stats::IntervalStats;

pub(super) fn observation(given: Value) -> Result<(Observation, Value), String> {
    let features = vec![
        ratio("throughput / max throughput", 0.0, 1.0),
        ratio("pacing rate / max throughput", 0.0, 10.0),
        ratio("5 x loss rate / max throughput", 0.0, 10.0),
        ratio("RTT samples / window", 0.0, 10.0),
        Feature { meaning: "time since the last decision".into(), low: 0.0, high: 10.0, unit: "s" },
        ratio("min RTT / smoothed RTT", 0.0, 1.0),
        ratio("delay metric", 0.0, 1.0),
    ];
    stateless(given, features, fill)
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Scaling {
    /// Factor on the window for an action of 1.
    base: f64,
}

impl Default for Scaling {
    fn default() -> Scaling {
        Scaling { base: 4.0 }
    }
}

pub(super) fn action(given: Value) -> Result<(Action, Value), String> {
    let (scaling, all): (Scaling, _) = read(given)?;
    let base = scaling.base;
    within("base", base, 1.0, 100.0)?;
    let action = Action {
        definition: Default::default(),
        meaning: format!("Cubic's window times {base}^a; ignored until Cubic has left its first slow start"),
        controller: Map::from_iter([("over".to_owned(), json!("cubic"))]),
        perform: Arc::new(move |conn, _, action, _| (scaled(conn.cwnd, base, action), None)),
    };
    Ok((action, all))
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Terms {
    /// Weight of the loss rate relative to the throughput.
    loss: f64,
    /// Bound of the reward, which an interval reaches that loses all packets (unbounded in the paper).
    bound: f64,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms { loss: LOSS_WEIGHT, bound: 1.0 }
    }
}

pub(super) fn reward(given: Value) -> Result<(Reward, Value), String> {
    let (terms, all): (Terms, _) = read(given)?;
    within("loss", terms.loss, 0.0, 1e3)?;
    within("bound", terms.bound, 1e-3, 1e6)?;
    let bound = terms.bound;
    let payment = Payment::Own(Arc::new(move |flow| terms.pay(flow.stats)));
    Ok((Reward { definition: Default::default(), low: -bound, high: bound, memory: 1, payment }, all))
}

/// Weight of the loss rate relative to the throughput, as published.
const LOSS_WEIGHT: f64 = 5.0;
/// Queueing delay below 25 % of the minimum RTT has no cost.
const FREE_INFLATION: f64 = 1.25;

fn over_max(bps: f64, stats: &IntervalStats) -> f64 {
    if stats.max_delivery_rate_bps > 0.0 { bps / stats.max_delivery_rate_bps } else { 0.0 }
}

fn loss_bps(stats: &IntervalStats) -> f64 {
    if stats.interval_s > 0.0 { 8.0 * stats.lost_bytes / stats.interval_s } else { 0.0 }
}

/// 1 with a short queue; with a longer queue, inversely proportional to the smoothed RTT.
fn delay_metric(stats: &IntervalStats) -> f64 {
    let free = FREE_INFLATION * stats.min_rtt_s;
    if stats.srtt_s > free { free / stats.srtt_s } else { 1.0 }
}

fn fill(stats: &IntervalStats, out: &mut [f64]) {
    out.copy_from_slice(&[
        over_max(stats.delivery_rate_bps, stats),
        over_max(stats.pacing_rate_bps, stats),
        over_max(LOSS_WEIGHT * loss_bps(stats), stats),
        stats.rtt_samples / stats.cwnd_packets.max(1.0),
        stats.interval_s,
        if stats.srtt_s > 0.0 { stats.min_rtt_s / stats.srtt_s } else { 0.0 },
        delay_metric(stats),
    ]);
}

/// The window in whole segments; 0 leaves it to Cubic.
fn scaled(cwnd: u32, base: f64, action: f64) -> u32 {
    libm::round(f64::from(cwnd) * libm::pow(base, action)) as u32
}

impl Terms {
    fn pay(&self, stats: &IntervalStats) -> f64 {
        let paid = over_max(stats.delivery_rate_bps - self.loss * loss_bps(stats), stats) * delay_metric(stats);
        paid.clamp(-self.bound, self.bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats() -> IntervalStats {
        IntervalStats {
            interval_s: 0.02,
            delivery_rate_bps: 40e6,
            max_delivery_rate_bps: 80e6,
            rtt_samples: 50.0,
            cwnd_packets: 200.0,
            pacing_rate_bps: 48e6,
            srtt_s: 0.05,
            min_rtt_s: 0.02,
            lost_bytes: 2_500.0,
            ..IntervalStats::default()
        }
    }

    #[test]
    fn features_follow_their_formulas() {
        let mut out = [0.0; 7];
        fill(&stats(), &mut out);
        let expected = [0.5, 0.6, 5.0 * 1e6 / 80e6, 0.25, 0.02, 0.4, 0.5];
        for (got, want) in out.iter().zip(expected) {
            assert!((got - want).abs() < 1e-9, "{out:?}");
        }
    }

    #[test]
    fn reward_is_throughput_less_five_times_losses_discounted_by_delay() {
        let got = Terms::default().pay(&stats());
        assert!((got - (40.0 - 5.0) / 80.0 * 0.5).abs() < 1e-9, "{got}");
    }

    #[test]
    fn actions_scale_by_powers_of_four() {
        assert_eq!([-1.0, -0.5, 0.0, 0.5, 1.0].map(|a| scaled(100, 4.0, a)), [25, 50, 100, 200, 400]);
    }
}
