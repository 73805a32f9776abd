//! SaTCP over a path with handovers: it is back sooner than CUBIC.

mod common;

use common::*;
use orbitcc_core::spec::{Directions, Flush, HandoverSpec, NetworkSpec, OutageMode, OutageSpec};
use orbitcc_core::time::Nanos;

const HANDOVERS: usize = 12;

/// Hard handovers every 20 s that lose what is under way for long enough to time out.
fn network(controller: &str, seed: u64) -> NetworkSpec {
    let mut spec = dumbbell(100.0, 80.0, bdp_bytes(100.0, 24.0), 20.0 * (HANDOVERS + 1) as f64, &[controller]);
    spec.seed = seed;
    spec = with_noise(spec, 100.0, 80.0);
    for k in 1..=HANDOVERS {
        let (at, duration) = (secs(20.0 * k as f64), Nanos::from_millis(700));
        spec.links[0].handovers.push(HandoverSpec { at, duration });
        spec.links[0].outages.push(OutageSpec {
            at,
            duration,
            mode: OutageMode::Drop,
            flush: Flush::All,
            directions: Directions::Both,
        });
    }
    spec
}

#[test]
fn it_returns_sooner_than_cubic_after_a_handover() {
    // Mean goodput in the five seconds after each handover.
    let after = |controller| {
        let mut rates: Vec<f64> = (1..=3)
            .flat_map(|seed| {
                let run = run(&network(controller, seed));
                let rate = move |k: usize| run.wire_mbps(0, 20.0 * k as f64 + 0.7, 20.0 * k as f64 + 5.7);
                (1..=HANDOVERS).map(rate).collect::<Vec<_>>()
            })
            .collect();
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    };
    let (satcp, freeze, cubic) = (after("satcp"), after("satcp:mode=freeze"), after("cubic:kernel=v4_15"));
    println!("{satcp} {freeze} {cubic}");
    assert!(satcp > 1.05 * cubic, "{satcp} {cubic}");
    assert!(freeze > 1.05 * cubic, "{freeze} {cubic}");
}

#[test]
fn a_frozen_window_stands_still_through_an_outage() {
    // Reports come half a second early, off by 0.16 s in the median: by 0.1 s before the first handover most are there.
    let stood = (1..=10).filter(|seed| {
        let mut spec = network("satcp:mode=freeze", *seed);
        spec.duration = secs(22.0);
        let run = run(&spec);
        let cwnd = run.flow(0, "cwnd_packets");
        let at = |t: f64| run.t_s.iter().position(|x| *x >= t).unwrap();
        cwnd[at(19.9)..at(21.0)].windows(2).all(|w| w[0] == w[1])
    });
    assert!(stood.count() >= 6);
}

#[test]
fn without_handovers_it_is_cubic() {
    let plain = |controller| {
        let run = run(&dumbbell(100.0, 60.0, bdp_bytes(100.0, 60.0), 30.0, &[controller]));
        (run.flow(0, "cwnd_packets"), run.flow_totals[0].retransmitted_packets)
    };
    // Only the controller's code is of 4.15.
    let (satcp, cubic) =
        (plain("satcp:kernel=v4_15,ssthresh_cache=off"), plain("cubic:kernel=v4_15,ssthresh_cache=off"));
    assert_eq!(satcp, cubic);
}
