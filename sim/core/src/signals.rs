//! News of handovers: who is told of which, when, and how wrong the time is.
//!
//! Reports come from orbital predictions and are early or late by the error measured for SaTCP (Cao, Zhang: "SaTCP:
//! Link-Layer Informed TCP Adaptation for Highly Dynamic LEO Satellite Networks", INFOCOM 2023): its ephemeris error,
//! either way, on top of half a second of lead. Reconfigurations are noticed after the fact: when the first packet sent
//! after the outage could have come back (Lai et al.: "LeoCC: Making Internet Congestion Control Robust to LEO
//! Satellite Dynamics", SIGCOMM 2025).

use crate::cc::{Signal, Subscription};
use crate::link::piecewise::Delay;
use crate::rng::{Purpose, Stream};
use crate::spec::{FlowSpec, NetworkSpec};
use crate::time::Nanos;

/// Reports aim this long before the handover.
const LEAD: Nanos = Nanos::from_millis(500);
/// Quantiles of the size of the prediction error: (share, seconds), from SaTCP's published distribution.
const ERROR_QUANTILES: [(f64, f64); 5] = [(0.0, 0.0), (0.5, 0.16), (0.9, 0.56), (0.99, 1.34), (1.0, 1.58)];

/// A change of a flow's path: when, for how long it interrupts, and when it was predicted to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathChange {
    pub at: Nanos,
    pub duration: Nanos,
    pub predicted: Nanos,
}

impl PathChange {
    /// Subscribers hear of it now: the prediction less the lead.
    pub fn reported(self) -> Nanos {
        self.predicted.saturating_sub(LEAD)
    }
}

/// What happens to the path of every flow, in order: handovers of the links it crosses then, and its own reroutes.
pub fn path_changes(spec: &NetworkSpec) -> Vec<Vec<PathChange>> {
    let links: Vec<Vec<PathChange>> = spec
        .links
        .iter()
        .enumerate()
        .map(|(l, link)| predict(spec.seed, l, link.handovers.iter().map(|h| (h.at, h.duration))))
        .collect();
    let of_flow = |(i, flow): (usize, &FlowSpec)| {
        let own = flow.reroutes.iter().map(|r| (r.at, Nanos::ZERO));
        let mut changes = predict(spec.seed, links.len() + i, own);
        for (k, way) in flow.ways().enumerate() {
            let until = flow.reroutes.get(k).map_or(Nanos::MAX, |next| next.at);
            let holds = |change: &&PathChange| (way.from..until).contains(&change.at);
            changes.extend(way.links().flat_map(|l| links[l].iter().filter(holds)));
        }
        changes.sort_by_key(|c| c.at);
        changes
    };
    spec.flows.iter().enumerate().map(of_flow).collect()
}

/// The same prediction for every flow that crosses a link.
fn predict(seed: u64, index: usize, changes: impl Iterator<Item = (Nanos, Nanos)>) -> Vec<PathChange> {
    let mut random = Stream::new(seed, Purpose::HandoverReport, index as u64);
    let mut predicted = |at: Nanos| {
        let late = random.uniform() < 0.5;
        let size = Nanos((error_quantile(random.uniform()) * 1e9) as u64);
        if late { at + size } else { at.saturating_sub(size) }
    };
    changes.map(|(at, duration)| PathChange { at, duration, predicted: predicted(at) }).collect()
}

/// Every signal of a network: (time, flow, signal), unordered. `changes`: of each flow's path.
pub fn plan(
    spec: &NetworkSpec,
    subscriptions: &[Subscription],
    changes: &[Vec<PathChange>],
) -> Vec<(Nanos, u32, Signal)> {
    let mut signals = Vec::new();
    let mut shared = Vec::new();
    for (i, subscription) in subscriptions.iter().enumerate() {
        match *subscription {
            Subscription::Nothing | Subscription::Probes { .. } => {}
            Subscription::HandoverReports { hold } => {
                let mut reports: Vec<Nanos> = changes[i].iter().map(|c| c.reported()).collect();
                reports.sort_unstable();
                for (k, at) in reports.iter().enumerate() {
                    signals.push((*at, i as u32, Signal::HandoverReport));
                    // A later report postpones the expiry.
                    if reports.get(k + 1).is_none_or(|next| *next > *at + hold) {
                        signals.push((*at + hold, i as u32, Signal::HandoverExpiry));
                    }
                }
            }
            Subscription::Reconfigurations { shared: all } => {
                for noticed in notice_times(spec, i, &changes[i]) {
                    if all { shared.push(noticed) } else { signals.push((noticed, i as u32, Signal::Reconfiguration)) }
                }
            }
        }
    }
    for (i, subscription) in subscriptions.iter().enumerate() {
        if *subscription == (Subscription::Reconfigurations { shared: true }) {
            signals.extend(shared.iter().map(|at| (*at, i as u32, Signal::Reconfiguration)));
        }
    }
    signals
}

/// When flow `i` notices the changes of its path: their end and one round trip without queues.
fn notice_times(spec: &NetworkSpec, i: usize, changes: &[PathChange]) -> Vec<Nanos> {
    let flow = &spec.flows[i];
    let mut ends: Vec<Nanos> = changes.iter().map(|c| c.at + c.duration).collect();
    ends.sort_unstable();
    let mut delays: Vec<Delay> =
        spec.links.iter().flat_map(|l| [Delay::new(&l.forward.delay), Delay::new(&l.reverse.delay)]).collect();
    let mut rtt = |at| {
        let way = flow.way_at(at);
        way.data().chain(way.acks()).fold(flow.uplink_delay, |sum, i| sum + delays[i].at(at))
    };
    ends.into_iter().map(|end| end + rtt(end)).collect()
}

/// Size of the prediction error, seconds, below which a share `p` of all errors lies.
fn error_quantile(p: f64) -> f64 {
    let k = ERROR_QUANTILES.iter().position(|q| p < q.0).unwrap_or(ERROR_QUANTILES.len() - 1);
    let ((p0, x0), (p1, x1)) = (ERROR_QUANTILES[k - 1], ERROR_QUANTILES[k]);
    x0 + (x1 - x0) * (p - p0) / (p1 - p0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{HandoverSpec, RerouteSpec};

    fn network(handovers: u64) -> NetworkSpec {
        let direction = r#"{"rate": [[0, 100000000]], "delay": {"points": [[0, 25000000]]}}"#;
        let flow = r#"{"name": "f", "path": [0], "controller": {"name": "reno"}}"#;
        let links = format!(r#"[{{"name": "l", "forward": {direction}, "reverse": {direction}}}]"#);
        let text = format!(r#"{{"seed": 1, "duration": 60000000000, "links": {links}, "flows": [{flow}, {flow}]}}"#);
        let mut spec = NetworkSpec::from_json(&text).unwrap();
        spec.links[0].handovers = (1..=handovers)
            .map(|k| HandoverSpec { at: Nanos::from_secs(15 * k), duration: Nanos::from_millis(80) })
            .collect();
        spec
    }

    /// Both flows of `spec` subscribe to the same.
    fn planned(spec: &NetworkSpec, subscription: Subscription) -> Vec<(Nanos, u32, Signal)> {
        plan(spec, &[subscription; 2], &path_changes(spec))
    }

    #[test]
    fn a_reroute_is_a_change_and_links_count_while_they_are_on_the_path() {
        let mut spec = network(3);
        spec.links.push(spec.links[0].clone());
        spec.links[1].handovers = vec![HandoverSpec { at: Nanos::from_secs(40), duration: Nanos::ZERO }];
        spec.flows[1].reroutes = vec![RerouteSpec { at: Nanos::from_secs(20), path: vec![1], return_path: None }];
        let changes = path_changes(&spec);
        let times = |i: usize| changes[i].iter().map(|c| c.at.0 / 1_000_000_000).collect::<Vec<_>>();
        assert_eq!((times(0), times(1)), (vec![15, 30, 45], vec![15, 20, 40]));
        assert_eq!(changes[0][0], changes[1][0], "one link's handover is predicted once for all");
    }

    #[test]
    fn report_errors_have_the_published_quantiles() {
        assert_eq!([0.0, 0.5, 0.9, 0.99].map(error_quantile), [0.0, 0.16, 0.56, 1.34]);
        let spec = network(20_000);
        let mut errors: Vec<f64> = path_changes(&spec)[0]
            .iter()
            .map(|change| change.reported().secs_f64() - change.at.secs_f64() + LEAD.secs_f64())
            .collect();
        assert!(errors.iter().all(|e| e.abs() <= 1.58));
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        assert!(mean.abs() < 0.02, "early and late alike: {mean}");
        errors.iter_mut().for_each(|e| *e = e.abs());
        errors.sort_by(f64::total_cmp);
        assert!((errors[10_000] - 0.16).abs() < 0.02);
        assert!((errors[18_000] - 0.56).abs() < 0.1);
    }

    #[test]
    fn reports_expire_unless_renewed_and_are_the_same_for_all_flows() {
        let hold = Nanos::from_secs(20);
        let signals = planned(&network(4), Subscription::HandoverReports { hold });
        let of = |flow| signals.iter().filter(|s| s.1 == flow).map(|s| (s.0, s.2)).collect::<Vec<_>>();
        assert_eq!(of(0), of(1));
        let expiries = of(0).iter().filter(|s| s.1 == Signal::HandoverExpiry).count();
        assert_eq!(expiries, 1, "each report renews the one before");
    }

    #[test]
    fn reconfigurations_are_noticed_one_round_trip_after_the_interruption() {
        let mut spec = network(1);
        spec.flows[1].uplink_delay = Nanos::from_millis(10);
        // The delay that holds after the handover counts.
        spec.links[0].forward.delay.points.push((Nanos::from_secs(15), Nanos::from_millis(35)));
        let own = planned(&spec, Subscription::Reconfigurations { shared: false });
        let at = |ms: u64| Nanos::from_millis(15_080 + ms);
        assert_eq!(own, [(at(60), 0, Signal::Reconfiguration), (at(70), 1, Signal::Reconfiguration)]);
        let shared = planned(&spec, Subscription::Reconfigurations { shared: true });
        assert_eq!(shared.len(), 4, "every flow hears of every flow's");
    }
}
