//! A shared reward: the logarithm of each flow's goodput relative to its fair share, minus costs of its queue, of its
//! avoidable losses and of uneven shares.
//!
//! It is averaged over the flows of a world (with `team` off, each flow gets its own), so that equal shares are best.
//! The mean of logarithms is flat near equal shares: two flows with 0.9 and 1.1 of their fair shares have 0.005 less
//! than two with 1. The cost of uneven shares, 0.1 times its weight then, is not.
//! The fair share, the base RTT and the random loss of the links are known from the simulator. Ours, after the
//! proportional fairness of Kelly et al. (J. Oper. Res. Soc., 1998).

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::functions::{Payment, Reward, read, within};
use super::history::{HISTORY, RewardedFlow};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Terms {
    scale: f64,
    /// Lower bound of the goodput relative to the fair share.
    least_share: f64,
    /// Weight of the queueing delay over the base RTT plus `delay_allowance_ms`, a ratio of at most `most_delay`. For a
    /// flow with a `delay_preference`, it is multiplied by that.
    delay: f64,
    delay_allowance_ms: f64,
    most_delay: f64,
    /// Weight of the share of packets lost less the random loss of the links. An interval with fewer losses than expected
    /// gains, so that independent random losses cost nothing on average.
    loss: f64,
    /// Weight of the standard deviation of the shares over their mean, a ratio of at most 1.
    fairness: f64,
    /// Intervals over which shares are averaged for `fairness`.
    memory: usize,
    team: bool,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms {
            scale: 0.1,
            least_share: 0.05,
            delay: 0.5,
            delay_allowance_ms: 0.0,
            most_delay: 2.0,
            loss: 1.0,
            fairness: 0.0,
            memory: HISTORY,
            team: true,
        }
    }
}

pub(super) fn reward(given: Value) -> Result<(Reward, Value), String> {
    let (terms, all): (Terms, _) = read(given)?;
    within("scale", terms.scale, 1e-6, 1e3)?;
    within("least_share", terms.least_share, 1e-4, 0.99)?;
    within("delay", terms.delay, 0.0, 1e3)?;
    within("delay_allowance_ms", terms.delay_allowance_ms, 0.0, 1e4)?;
    within("most_delay", terms.most_delay, 0.0, 1e3)?;
    within("loss", terms.loss, 0.0, 1e3)?;
    within("fairness", terms.fairness, 0.0, 1e3)?;
    within("memory", terms.memory as f64, 1.0, 1e3)?;
    if terms.fairness > 0.0 && !terms.team {
        return Err(format!("fairness = {}: must be 0 where team is false", terms.fairness));
    }
    let worst = libm::log(terms.least_share) - terms.delay * terms.most_delay - terms.loss - terms.fairness;
    let low = terms.scale * worst;
    let high = terms.scale * (libm::log(MOST_SHARE) + terms.loss);
    let memory = if terms.fairness > 0.0 { terms.memory } else { 1 };
    let payment = if terms.team {
        Payment::Shared(Arc::new(move |members, _| {
            let paid: f64 = members.iter().map(|flow| terms.pay(flow)).sum();
            if members.is_empty() { 0.0 } else { paid / members.len() as f64 - terms.unevenness(members) }
        }))
    } else {
        Payment::Own(Arc::new(move |flow| terms.pay(flow)))
    };
    Ok((Reward { definition: Default::default(), low, high, memory, payment }, all))
}

/// Upper bound of the goodput relative to the fair share, for a flow that has the link of many flows.
const MOST_SHARE: f64 = 1_000.0;

impl Terms {
    /// The cost of uneven shares.
    fn unevenness(&self, members: &[RewardedFlow]) -> f64 {
        if self.fairness == 0.0 || members.len() < 2 {
            return 0.0;
        }
        let n = members.len() as f64;
        let (mut sum, mut squares) = (0.0, 0.0);
        for RewardedFlow { stats, history, .. } in members {
            let fair = stats.fair_share_bps;
            let share = if fair > 0.0 && fair.is_finite() { history.mean() * 8.0 / fair } else { 0.0 };
            sum += share;
            squares += share * share;
        }
        let mean = sum / n;
        if mean <= 0.0 {
            return 0.0;
        }
        let variance = (squares / n - mean * mean).max(0.0);
        self.scale * self.fairness * (libm::sqrt(variance) / mean).min(1.0)
    }

    fn pay(&self, flow: &RewardedFlow) -> f64 {
        let stats = flow.stats;
        let fair = stats.fair_share_bps;
        let share = if fair > 0.0 && fair.is_finite() { stats.delivery_rate_bps / fair } else { 0.0 };
        let queueing = if stats.base_rtt_s > 0.0 && !stats.rtt_mean_s.is_nan() {
            let unit = stats.base_rtt_s + self.delay_allowance_ms / 1e3;
            ((stats.rtt_mean_s - stats.base_rtt_s) / unit).clamp(0.0, self.most_delay)
        } else {
            0.0
        };
        let preference = if flow.preference > 0.0 { flow.preference } else { 1.0 };
        let known = stats.acked_packets + stats.lost_packets;
        let needless = if known > 0.0 { stats.lost_packets / known - stats.link_loss } else { 0.0 };
        let share = share.clamp(self.least_share, MOST_SHARE);
        self.scale * (libm::log(share) - self.delay * preference * queueing - self.loss * needless)
    }
}

#[cfg(test)]
mod tests {
    use super::super::history::History;
    use super::super::stats::IntervalStats;
    use super::super::testing::flow;
    use super::*;
    use serde_json::json;

    fn pay(changes: Value, flows: &[IntervalStats]) -> f64 {
        let Payment::Shared(shared) = reward(changes).unwrap().0.payment else { panic!("a team is paid") };
        let history = History::default();
        let members: Vec<_> = flows.iter().map(|stats| RewardedFlow::new(stats, &history)).collect();
        shared(&members, 1.0)
    }

    #[test]
    fn equal_shares_are_worth_most() {
        let half = |share: f64| IntervalStats { fair_share_bps: 50e6, ..flow(share) };
        let equal = pay(json!({}), &[half(0.5), half(0.5)]);
        assert!(equal > pay(json!({}), &[half(0.7), half(0.3)]));
        // Shares of 1, and a queue of 10 % of the RTT at weight 0.5, in tenths.
        assert!((equal - 0.1 * -0.05).abs() < 1e-9, "{equal}");
    }

    #[test]
    fn uneven_shares_cost_in_proportion_to_their_deviation() {
        let pay_of = |weight: f64, shares: [f64; 2]| {
            let flows = shares.map(|share| IntervalStats { fair_share_bps: 50e6, ..flow(share) });
            let histories = flows.each_ref().map(|stats| {
                let mut history = History::default();
                history.push(stats);
                history
            });
            let Payment::Shared(shared) = reward(json!({"fairness": weight})).unwrap().0.payment else {
                panic!("a team is paid")
            };
            shared(&[RewardedFlow::new(&flows[0], &histories[0]), RewardedFlow::new(&flows[1], &histories[1])], 1.0)
        };
        // 0.55 and 0.45 of the link are 1.1 and 0.9 of fair shares: 10 % around their mean, at weight 2 in tenths.
        let cost = pay_of(0.0, [0.55, 0.45]) - pay_of(2.0, [0.55, 0.45]);
        assert!((cost - 0.1 * 2.0 * 0.1).abs() < 1e-9, "{cost}");
        assert_eq!(pay_of(0.0, [0.5, 0.5]), pay_of(2.0, [0.5, 0.5]));
        assert_eq!(
            reward(json!({"fairness": 1.0, "team": false})).err().unwrap(),
            "fairness = 1: must be 0 where team is false"
        );
    }

    #[test]
    fn an_allowance_makes_delays_of_short_paths_cheaper() {
        // A queue of 5 ms over 50 ms, and over 50 ms and 50 ms more, at weight 1 in tenths.
        let late = IntervalStats { rtt_mean_s: 0.055, base_rtt_s: 0.05, ..flow(1.0) };
        let cost = |ms: f64| pay(json!({"delay": 1.0, "delay_allowance_ms": ms}), &[late]);
        assert!((cost(0.0) + 0.01).abs() < 1e-9 && (cost(50.0) + 0.005).abs() < 1e-9, "{} {}", cost(0.0), cost(50.0));
    }

    #[test]
    fn a_preference_scales_the_weight_of_delay() {
        // A queue of 5 ms over 50 ms at weight 1 in tenths, a quarter of it, and all of it where nothing is preferred.
        for (preference, cost) in [(0.25, 0.0025), (1.0, 0.01), (0.0, 0.01)] {
            let late = IntervalStats { rtt_mean_s: 0.055, base_rtt_s: 0.05, delay_preference: preference, ..flow(1.0) };
            let paid = pay(json!({"delay": 1.0}), &[late]);
            assert!((paid + cost).abs() < 1e-9, "{preference}: {paid}");
        }
    }

    #[test]
    fn losses_of_the_link_are_forgiven() {
        let lossy = IntervalStats { acked_packets: 98.0, lost_packets: 2.0, link_loss: 0.01, ..flow(1.0) };
        let clean = IntervalStats { lost_packets: 0.0, ..lossy };
        let paid = |stats: IntervalStats| pay(json!({"loss": 2.0}), &[stats]) - pay(json!({"loss": 0.0}), &[stats]);
        // 2 % are lost instead of 1 %, at weight 2 in tenths; one interval with none and one with twice as many cost nothing.
        assert!((paid(lossy) + 0.1 * 2.0 * 0.01).abs() < 1e-9, "{}", paid(lossy));
        assert!((paid(clean) + paid(lossy)).abs() < 1e-9, "{} {}", paid(clean), paid(lossy));
        let silent = IntervalStats { acked_packets: 0.0, ..clean };
        assert_eq!(paid(silent), 0.0, "nothing is known of an interval without answers");
    }
}
