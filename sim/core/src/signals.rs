//! News of handovers: who is told of which, when, and how wrong the time is.
//!
//! Reports come from orbital predictions and are early or late by the error measured for SaTCP (Cao, Zhang: "SaTCP:
//! Link-Layer Informed TCP Adaptation for Highly Dynamic LEO Satellite Networks", INFOCOM 2023): its ephemeris error,
//! either way, on top of half a second of lead. Reconfigurations are noticed after the fact: when the first packet sent
//! after the interruption could have come back (Lai et al.: "LeoCC: Making Internet Congestion Control Robust to LEO
//! Satellite Dynamics", SIGCOMM 2025).

use crate::cc::{Signal, Subscription};
use crate::link::piecewise::Delay;
use crate::rng::{Purpose, Stream};
use crate::spec::NetworkSpec;
use crate::time::Nanos;

/// Reports aim this long before the handover.
const LEAD_S: f64 = 0.5;
/// Quantiles of the size of the prediction error: (share, seconds), from SaTCP's published distribution.
const ERROR_QUANTILES: [(f64, f64); 5] = [(0.0, 0.0), (0.5, 0.16), (0.9, 0.56), (0.99, 1.34), (1.0, 1.58)];

/// Every signal of a network: (time, flow, signal), unordered.
pub fn plan(spec: &NetworkSpec, subscriptions: &[Subscription]) -> Vec<(Nanos, u32, Signal)> {
    let mut signals = Vec::new();
    let mut shared = Vec::new();
    for (i, subscription) in subscriptions.iter().enumerate() {
        let links = &spec.flows[i].path;
        match *subscription {
            Subscription::Nothing | Subscription::Probes { .. } => {}
            Subscription::HandoverReports { hold } => {
                let mut reports: Vec<Nanos> = links.iter().flat_map(|l| report_times(spec, *l)).collect();
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
                for noticed in notice_times(spec, i) {
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

/// When flow `i` notices the handovers on its path: their end and one round trip without queues.
fn notice_times(spec: &NetworkSpec, i: usize) -> Vec<Nanos> {
    let flow = &spec.flows[i];
    let links = || flow.path.iter().map(|l| &spec.links[*l]);
    let mut ends: Vec<Nanos> = links().flat_map(|l| &l.handovers).map(|h| h.at + h.duration).collect();
    ends.sort_unstable();
    let mut delays: Vec<Delay> =
        links().flat_map(|l| [Delay::new(&l.forward.delay), Delay::new(&l.reverse.delay)]).collect();
    let mut rtt = |at| delays.iter_mut().fold(flow.uplink_delay, |sum, delay| sum + delay.at(at));
    ends.into_iter().map(|end| end + rtt(end)).collect()
}

/// When the handovers of a link are reported: the same for every flow that crosses it.
fn report_times(spec: &NetworkSpec, link: usize) -> Vec<Nanos> {
    let mut random = Stream::new(spec.seed, Purpose::HandoverReport, link as u64);
    let mut at = |handover: Nanos| {
        let late = random.uniform() < 0.5;
        let size = error_quantile(random.uniform());
        let at = handover.secs_f64() - LEAD_S + if late { size } else { -size };
        Nanos((at.max(0.0) * 1e9) as u64)
    };
    spec.links[link].handovers.iter().map(|h| at(h.at)).collect()
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
    use crate::spec::HandoverSpec;

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

    #[test]
    fn report_errors_have_the_published_quantiles() {
        assert_eq!([0.0, 0.5, 0.9, 0.99].map(error_quantile), [0.0, 0.16, 0.56, 1.34]);
        let spec = network(20_000);
        let mut errors: Vec<f64> = report_times(&spec, 0)
            .iter()
            .zip(&spec.links[0].handovers)
            .map(|(report, h)| report.secs_f64() - h.at.secs_f64() + LEAD_S)
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
        let signals = plan(&network(4), &[Subscription::HandoverReports { hold }; 2]);
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
        let own = plan(&spec, &[Subscription::Reconfigurations { shared: false }; 2]);
        let at = |ms: u64| Nanos::from_millis(15_080 + ms);
        assert_eq!(own, [(at(60), 0, Signal::Reconfiguration), (at(70), 1, Signal::Reconfiguration)]);
        let shared = plan(&spec, &[Subscription::Reconfigurations { shared: true }; 2]);
        assert_eq!(shared.len(), 4, "every flow hears of every flow's");
    }
}
