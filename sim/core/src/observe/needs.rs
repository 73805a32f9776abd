//! Which statistics functions depend on: those that hosts of QUIC do not have must be no input of anything that decides or pays.

use std::sync::Arc;

use crate::cc::Conn;
use crate::spec::TcpSpec;

use super::functions::{Action, ActionMemory, Observation, Observer, Payment, Reward};
use super::history::{History, RewardedFlow};
use super::stats::{IntervalStats, NOT_IN_QUIC, STATISTICS, Source};

/// Intervals of a flow whose statistics all change, with `field`, if given, at other values.
fn intervals(field: Option<usize>) -> impl Iterator<Item = IntervalStats> {
    (0..12).map(move |k| {
        let x = f64::from(k);
        let stats = IntervalStats::from_array(STATISTICS.map(|_| 3.0 + x % 3.0));
        let stats = IntervalStats {
            time_s: 1.0 + 0.03 * x,
            interval_s: 0.03,
            goodput_bps: 4e7 + 1e6 * x,
            delivery_rate_bps: 4e7 + 1e6 * x,
            max_delivery_rate_bps: 5e7,
            acked_rate_bps: 4e7,
            send_rate_bps: 4.2e7,
            rtt_mean_s: 0.05 + 0.001 * x,
            rtt_min_s: 0.05,
            srtt_s: 0.05 + 0.001 * x,
            min_rtt_s: 0.05,
            capacity_bps: 1e8,
            fair_share_bps: 5e7,
            cwnd_packets: 200.0 + x,
            mss_bytes: 1416.0,
            ..stats
        };
        let mut row = stats.to_array();
        if let Some(field) = field {
            row[field] = 40.0 + 7.0 * x;
        }
        IntervalStats::from_array(row)
    })
}

/// Everything that functions say of such a flow.
fn outcome(observation: &Arc<Observation>, action: &Action, reward: Option<&Reward>, field: Option<usize>) -> Vec<u64> {
    let mut observer = Observer::new(observation.clone());
    let (conn, mut memory) = (Conn::new(&TcpSpec::default()), ActionMemory::default());
    let mut history = History::new(reward.map_or(1, |reward| reward.memory));
    let mut said = Vec::new();
    for stats in intervals(field) {
        observer.push(&stats);
        history.push(&stats);
        said.extend(observer.observation().iter().map(|x| u64::from(x.to_bits())));
        for asked in [-0.6, 0.4] {
            let (window, pacing) = (action.perform)(&conn, &stats, asked, &mut memory);
            said.extend([u64::from(window), pacing.unwrap_or(0)]);
        }
        said.extend(reward.map(|reward| match &reward.payment {
            Payment::Own(pay) => pay(&RewardedFlow::new(&stats, &history)).to_bits(),
            Payment::Shared(pay) => pay(&[RewardedFlow::new(&stats, &history)], 0.8).to_bits(),
        }));
    }
    said
}

/// The first statistic that these functions depend on and QUIC's hosts do not have.
pub fn not_in_quic(observation: &Arc<Observation>, action: &Action, reward: Option<&Reward>) -> Option<&'static str> {
    first_of(NOT_IN_QUIC, observation, action, reward)
}

/// The first statistic that these functions depend on and the sender of a real connection of QUIC does not have, either: what
/// only the simulator knows, and what the receiver does.
pub fn not_at_sender(observation: &Arc<Observation>, action: &Action) -> Option<&'static str> {
    let oracles = STATISTICS.iter().filter(|statistic| statistic.source == Source::Oracle);
    let unknown = oracles.map(|statistic| statistic.name).chain(["goodput_bps", "rwnd_packets"]);
    not_in_quic(observation, action, None).or_else(|| first_of(unknown, observation, action, None))
}

fn first_of(
    names: impl IntoIterator<Item = &'static str>,
    observation: &Arc<Observation>,
    action: &Action,
    reward: Option<&Reward>,
) -> Option<&'static str> {
    let usual = outcome(observation, action, reward, None);
    names.into_iter().find(|name| {
        let field = STATISTICS.iter().position(|statistic| statistic.name == *name);
        outcome(observation, action, reward, field) != usual
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::registry;
    use super::*;

    #[test]
    fn functions_that_ask_for_what_quic_lacks_are_found_and_others_are_not() {
        let found = |observation| {
            let observation = Arc::new(registry::observation(&json!(observation)).unwrap());
            let action = registry::action(&json!("log-window")).unwrap();
            not_in_quic(&observation, &action, None)
        };
        assert_eq!(found("astraea"), Some("packets_out"), "a tenth of what it sees is packets_out / cwnd");
        assert_eq!(found("features"), None);
        assert_eq!(found("aurora"), None);
        let unknown = |observation, action| {
            let observation = Arc::new(registry::observation(&json!(observation)).unwrap());
            not_at_sender(&observation, &registry::action(&action).unwrap())
        };
        assert_eq!(unknown("astraea-leo-oracle", json!("log-window")), Some("packets_out"));
        assert_eq!(unknown("ratios-oracle", json!("log-window")), Some("handover_in_s"));
        let capped = json!({"name": "log-window", "cap_bdp": 1.5, "cap_of": "true"});
        assert_eq!(unknown("features", capped), Some("capacity_bps"), "an action on a window reads it, too");
        assert_eq!(unknown("features", json!("log-window")), None);
    }
}
