//! Astraea's reward, which is common to all flows of a world, and the global state for its critics.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::observe::functions::{Payment, Reward, one_of, read, within};
use crate::observe::history::{HISTORY, RewardedFlow};

use super::STATE_DIM;

/// Weights and tolerances of the reward's terms; the defaults are the published values.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Terms {
    throughput: f64,
    latency: f64,
    /// Unit of the queueing delay: half of the flow's `base-rtt`, as published, or `25-ms`, which is equal at a base
    /// RTT of 50 ms. With `25-ms`, flows with different base RTTs that share a queue prefer the same length of it.
    latency_of: String,
    loss: f64,
    fairness: f64,
    /// Unit of the deviation of throughputs: their `sum`, as published, or their `mean`, with which unfairness has the
    /// same cost for many flows as for two.
    fairness_of: String,
    stability: f64,
    /// RTTs up to this multiple of the base RTT have no cost.
    free_inflation: f64,
    /// A queueing delay of up to this many milliseconds has no cost.
    free_queue_ms: f64,
    /// Bounds of the reward.
    floor: f64,
    ceiling: f64,
    /// Unit of the lost bytes: bytes `delivered` by the flow, or the `capacity` of the link.
    loss_of: String,
    /// Intervals over which throughput is averaged for fairness and stability.
    memory: usize,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms {
            throughput: 0.1,
            latency: 0.02,
            latency_of: "base-rtt".into(),
            loss: 1.0,
            fairness: 0.02,
            fairness_of: "sum".into(),
            stability: 0.01,
            free_inflation: 1.15,
            free_queue_ms: 0.0,
            floor: -0.1,
            ceiling: 0.1,
            loss_of: "delivered".into(),
            memory: HISTORY,
        }
    }
}

pub(in crate::observe) fn reward(given: Value) -> Result<(Reward, Value), String> {
    let (terms, all): (Terms, _) = read(given)?;
    for (field, weight) in [
        ("throughput", terms.throughput),
        ("latency", terms.latency),
        ("loss", terms.loss),
        ("fairness", terms.fairness),
        ("stability", terms.stability),
    ] {
        within(field, weight, 0.0, 1e3)?;
    }
    within("free_inflation", terms.free_inflation, 1.0, 100.0)?;
    within("free_queue_ms", terms.free_queue_ms, 0.0, 1e4)?;
    within("floor", terms.floor, -1e6, 0.0)?;
    within("ceiling", terms.ceiling, 1e-6, 1e6)?;
    within("memory", terms.memory as f64, 1.0, 1e3)?;
    one_of("latency_of", &terms.latency_of, &["base-rtt", "25-ms"])?;
    one_of("fairness_of", &terms.fairness_of, &["sum", "mean"])?;
    one_of("loss_of", &terms.loss_of, &["delivered", "capacity"])?;
    let (low, high, memory) = (terms.floor, terms.ceiling, terms.memory);
    let payment = Payment::Shared(Arc::new(move |members, utilisation| terms.pay(members, utilisation)));
    Ok((Reward { definition: Default::default(), low, high, memory, payment }, all))
}

impl Terms {
    /// The global reward for all flows. `utilisation` is the ratio of delivered payload to payload capacity, averaged
    /// over the bottleneck links. The latency term has the dimensionless form of the authors' earlier code: excess over
    /// the free inflation in one-way delays, times the total pacing rate over the capacity, divided by the square root
    /// of the number of flows.
    fn pay(&self, members: &[RewardedFlow], utilisation: f64) -> f64 {
        let n = members.len() as f64;
        if members.is_empty() {
            return 0.0;
        }
        let (fixed_unit, of_capacity) = (self.latency_of == "25-ms", self.loss_of == "capacity");
        let (mut excess, mut load, mut loss, mut total, mut deviation) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for RewardedFlow { stats, history, .. } in members {
            let (rtt, base) = (stats.rtt_mean_s, stats.base_rtt_s);
            if !rtt.is_nan() && base > 0.0 {
                let free = (self.free_inflation * base).max(base + self.free_queue_ms / 1e3);
                excess += (rtt - free).max(0.0) / if fixed_unit { 0.025 } else { base / 2.0 };
            }
            // For controllers without pacing, the send rate counts.
            let rate = if stats.pacing_rate_bps > 0.0 { stats.pacing_rate_bps } else { stats.send_rate_bps };
            if stats.capacity_bps > 0.0 {
                load += rate / stats.capacity_bps;
            }
            let capacity = stats.capacity_bps / 8.0;
            if stats.interval_s > 0.0 && stats.lost_bytes > 0.0 {
                // A thousandth of the capacity keeps the ratio finite for a stalled flow.
                let floor = (capacity / 1e3).max(1.0);
                let most = if of_capacity { capacity.max(1.0) } else { (stats.delivery_rate_bps / 8.0).max(floor) };
                loss += stats.lost_bytes / stats.interval_s / most;
            }
            total += history.mean();
            deviation += history.relative_deviation();
        }
        let latency = excess / n * load / libm::sqrt(n);
        let fairness = if total > 0.0 {
            let centre = total / n;
            let square = |m: &RewardedFlow| (m.history.mean() - centre) * (m.history.mean() - centre);
            let variance = members.iter().map(square).sum::<f64>() / n;
            libm::sqrt(variance) / if self.fairness_of == "mean" { centre } else { total }
        } else {
            0.0
        };
        let sum = self.throughput * utilisation.min(1.0)
            - self.latency * latency
            - self.loss * (loss / n).min(1.0)
            - self.fairness * fairness
            - self.stability * deviation / n;
        sum.clamp(self.floor, self.ceiling)
    }
}

/// The global state for the critic, over the active flows (twelve values).
pub fn global_state(members: &[RewardedFlow]) -> [f32; STATE_DIM] {
    if members.is_empty() {
        return [0.0; STATE_DIM];
    }
    let n = members.len() as f64;
    let fold = |f: &dyn Fn(&RewardedFlow) -> f64| {
        let mut acc = (0.0, f64::INFINITY, f64::NEG_INFINITY);
        for m in members {
            let x = f(m);
            acc = (acc.0 + x, acc.1.min(x), acc.2.max(x));
        }
        acc
    };
    let throughput = fold(&|m| m.stats.delivery_rate_bps / 8.0 / 5e7);
    let rtt = fold(&|m| if m.stats.rtt_mean_s.is_nan() { m.stats.srtt_s } else { m.stats.rtt_mean_s } * 1e6 / 5e5);
    let cwnd = fold(&|m| m.stats.cwnd_packets / 1000.0);
    let loss = fold(&|m| {
        if m.stats.interval_s > 0.0 { m.stats.lost_bytes / m.stats.interval_s / 1e6 } else { 0.0 }
    });
    let base = fold(&|m| m.stats.base_rtt_s).0 / n;
    let capacity = fold(&|m| m.stats.capacity_bps).1;
    let buffer = fold(&|m| m.stats.buffer_bytes).1;
    let bdp = capacity / 8.0 * base;
    let buffer_bdp = if bdp > 0.0 && buffer.is_finite() { buffer / bdp } else { 0.0 };
    [
        throughput.0,
        throughput.1,
        throughput.2,
        rtt.0 / n,
        cwnd.1,
        cwnd.2,
        cwnd.0 / n,
        loss.0 / n,
        n / 10.0,
        base / 2.0 * 1e3 / 500.0,
        buffer_bdp / 10.0,
        if capacity.is_finite() { capacity / 5e8 } else { 0.0 },
    ]
    .map(|x| x as f32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::history::History;
    use crate::observe::stats::IntervalStats;
    use crate::observe::testing::flow;

    fn reward_of(shares: &[f64]) -> f64 {
        reward_of_terms(&Terms::default(), shares)
    }

    fn reward_of_terms(terms: &Terms, shares: &[f64]) -> f64 {
        let stats: Vec<_> = shares.iter().map(|s| flow(*s)).collect();
        let histories: Vec<_> = stats
            .iter()
            .map(|s| {
                let mut h = History::default();
                (0..5).for_each(|_| h.push(s));
                h
            })
            .collect();
        let members: Vec<_> =
            stats.iter().zip(&histories).map(|(stats, history)| RewardedFlow::new(stats, history)).collect();
        terms.pay(&members, shares.iter().sum())
    }

    #[test]
    fn reward_grows_with_throughput_and_fairness_and_is_bounded() {
        assert!(reward_of(&[0.9]) > reward_of(&[0.5]));
        assert!(reward_of(&[0.5, 0.5]) > reward_of(&[0.9, 0.1]));
        let of_mean = Terms { fairness_of: "mean".into(), fairness: 0.01, ..Terms::default() };
        assert!((reward_of_terms(&of_mean, &[0.9, 0.1]) - reward_of(&[0.9, 0.1])).abs() < 1e-12, "two of them: half");
        assert_eq!(Terms::default().pay(&[], 0.0), 0.0);
        let mut bad = flow(0.0);
        bad.rtt_mean_s = 5.0;
        bad.lost_bytes = 1e9;
        let history = History::default();
        assert_eq!(Terms::default().pay(&[RewardedFlow::new(&bad, &history)], 0.0), -0.1);
        let queue = |base_rtt_s: f64, free_queue_ms: f64, latency_of: &str| {
            let stats = IntervalStats { rtt_mean_s: base_rtt_s + 0.02, base_rtt_s, ..flow(0.9) };
            let latency_of = latency_of.into();
            let terms = Terms { free_inflation: 1.0, free_queue_ms, latency_of, ..Terms::default() };
            terms.pay(&[RewardedFlow::new(&stats, &history)], 0.9)
        };
        // 20 ms of queue, 10 of them free: 10 ms in one-way delays of 25 ms, at 90 % of the link and a weight of 0.02.
        for (base_rtt_s, latency_of, delays) in
            [(0.05, "base-rtt", 0.4), (0.1, "base-rtt", 0.2), (0.05, "25-ms", 0.4), (0.1, "25-ms", 0.4)]
        {
            let cost = queue(base_rtt_s, 20.0, latency_of) - queue(base_rtt_s, 10.0, latency_of);
            assert!((cost - 0.02 * delays * 0.9).abs() < 1e-9, "{latency_of} at {base_rtt_s} s: {cost}");
        }
        let deep = Terms { floor: -0.5, ..Terms::default() };
        assert_eq!(deep.pay(&[RewardedFlow::new(&bad, &history)], 0.0), -0.5);
    }
}
