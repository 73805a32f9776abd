//! LeoCC over whole paths: the table of reference runs, and what a reconfiguration does to it.

mod common;

use common::*;
use orbitcc_core::rng::{Purpose, Stream};
use orbitcc_core::spec::{Directions, Flush, HandoverSpec, LossSpec, NetworkSpec, OutageMode, OutageSpec};
use orbitcc_core::time::Nanos;
use orbitcc_core::units::BitRate;

fn network(controller: &str, rate_mbps: f64, rtt_ms: f64, buffer_bdp: f64, seconds: f64) -> NetworkSpec {
    let buffer = (bdp_bytes(rate_mbps, rtt_ms) as f64 * buffer_bdp) as u64;
    dumbbell(rate_mbps, rtt_ms, buffer, seconds, &[controller])
}

#[test]
fn without_reconfigurations_it_is_a_rarely_dipping_bbr() {
    let bdp = bdp_bytes(100.0, 50.0) as f64;
    let s1 = run(&network("leocc", 100.0, 50.0, 1.0, 65.0));
    assert!(s1.wire_mbps(0, 5.0, 65.0) >= 97.0, "{}", s1.wire_mbps(0, 5.0, 65.0));
    assert!(s1.queue(5.0, 65.0) <= 0.15 * bdp);
    assert!((0.25..=0.40).contains(&(s1.queue_peak(5.0, 65.0) / bdp)));
    let product = bdp / 1500.0;
    let dips = s1.dips(0, "cwnd_packets", 0.55 * product, 3.0);
    assert!(dips.len() == 3 && dips.iter().all(|d| (0.15..=0.35).contains(&(d.1 - d.0))), "{dips:?}");
    assert!(dips.windows(2).all(|p| (p[1].0 - p[0].0 - 20.2).abs() < 0.4), "{dips:?}");
    let deep = run(&network("leocc", 100.0, 50.0, 5.0, 65.0));
    assert_eq!(deep.flow_totals[0].retransmitted_packets, 0);
    assert!((deep.wire_mbps(0, 5.0, 65.0) / s1.wire_mbps(0, 5.0, 65.0) - 1.0).abs() < 0.01);
    let shallow = run(&network("leocc", 100.0, 50.0, 0.1, 65.0));
    let loss = shallow.flow_totals[0].lost_packets as f64 / shallow.flow_totals[0].sent_packets as f64;
    assert!((0.015..=0.04).contains(&loss) && shallow.wire_mbps(0, 5.0, 65.0) >= 94.0, "{loss}");
    assert!(run(&network("leocc", 50.0, 20.0, 1.0, 65.0)).wire_mbps(0, 5.0, 65.0) >= 47.0);
    let geo = run(&network("leocc", 140.0, 600.0, 1.0, 180.0)).wire_mbps(0, 60.0, 180.0) / 140.0;
    assert!(geo >= 0.92, "{geo}");
    for p in [0.005, 0.01, 0.02, 0.03] {
        let mut spec = network("leocc", 100.0, 50.0, 1.0, 65.0);
        spec.links[0].forward.loss = vec![(Nanos::ZERO, LossSpec::Bernoulli { p })];
        let share = run(&spec).wire_mbps(0, 5.0, 65.0) / 100.0;
        assert!(share >= 0.9 * (1.0 - p), "{p}: {share}");
    }
}

fn stepped(controller: &str, from_ms: f64, to_ms: f64, at: f64) -> NetworkSpec {
    let mut spec = network(controller, 75.0, (from_ms + to_ms) / 2.0, 1.0, at + 15.0);
    let steps = delay(&[(0.0, from_ms / 2.0), (at, to_ms / 2.0)]);
    spec.links[0].forward.delay = steps.clone();
    spec.links[0].reverse.delay = steps;
    spec.links[0].handovers = vec![HandoverSpec { at: secs(at), duration: Nanos::ZERO }];
    spec
}

#[test]
fn a_larger_base_rtt_costs_seconds_not_ten() {
    for trigger in ["flow", "global", "ping"] {
        for k in 0..4 {
            let at = 30.0 + 1.3 * f64::from(k);
            for (from, to) in [(20.0, 100.0), (50.0, 90.0)] {
                let run = run(&stepped(&format!("leocc:trigger={trigger}"), from, to, at));
                let full = |s: &i32| run.wire_mbps(0, at + f64::from(*s) - 1.0, at + f64::from(*s)) >= 0.9 * 75.0;
                let took = (1..15).find(full).expect("it recovers");
                assert!(took < 3, "{trigger} {from} to {to} ms: {took} s");
            }
        }
    }
}

#[test]
fn a_reconfiguration_halves_the_window_takes_the_new_rtt_and_starts_up() {
    let run = run(&stepped("leocc", 50.0, 90.0, 20.0));
    let product = bdp_bytes(75.0, 50.0) as f64 / 1500.0;
    let at = |t: f64| run.t_s.iter().position(|x| *x >= t).unwrap();
    let cwnd = run.flow(0, "cwnd_packets");
    let low = cwnd[at(20.0)..at(21.0)].iter().cloned().fold(f64::MAX, f64::min);
    assert!((0.45..=0.55).contains(&(low / product)), "{low}");
    let pacing = run.flow(0, "pacing_mbps");
    let high = pacing[at(20.0)..at(22.0)].iter().cloned().fold(0.0, f64::max);
    assert!(high > 2.0 * 75.0, "start-up's gain: {high}");
    assert!(run.flow_totals[0].lost_packets > 0, "and start-up's price");
}

#[test]
fn pings_see_an_outage_and_not_a_smaller_rtt() {
    // After the first seconds (the first reply itself comes after more than 45 ms of silence).
    let dips = |spec: &NetworkSpec| {
        let run = run(spec);
        let product = bdp_bytes(75.0, 60.0) as f64 / 1500.0;
        run.dips(0, "cwnd_packets", 0.55 * product, 5.0).len()
    };
    let mut outage = network("leocc:trigger=ping", 75.0, 60.0, 1.0, 15.0);
    outage.links[0].outages = vec![OutageSpec {
        at: secs(10.0),
        duration: Nanos::from_millis(100),
        mode: OutageMode::Hold,
        flush: Flush::None,
        directions: Directions::Both,
    }];
    assert_eq!(dips(&outage), 1);
    outage.links[0].outages[0].duration = Nanos::from_millis(20);
    assert_eq!(dips(&outage), 0, "shorter than the detector's gap");
}

/// Every 15 s another rate and base RTT after a stall of 45 to 120 ms; the last draw decides nothing about the next.
fn constellation(controller: &str, seed: u64, lossy: bool) -> (NetworkSpec, f64) {
    let mut random = Stream::new(seed, Purpose::Traffic, 77);
    let mut spec = network(controller, 75.0, 55.0, 1.0, 300.0);
    (spec.seed, spec.links[0].forward.rate, spec.links[0].forward.loss) = (seed, Vec::new(), Vec::new());
    let (mut steps, mut capacity) = (Vec::new(), 0.0);
    for k in 0..20 {
        let at = 15.0 * f64::from(k);
        let rate = 50.0 + 50.0 * random.uniform();
        capacity += rate / 20.0;
        spec.links[0].forward.rate.push((secs(at), BitRate((rate * 1e6) as u64)));
        steps.push((at, (10.0 + 90.0 * random.uniform()) / 2.0));
        let p = if lossy { 0.01 * random.uniform() } else { 0.0 };
        spec.links[0].forward.loss.push((secs(at), LossSpec::Bernoulli { p }));
        if k > 0 {
            let duration = secs(0.045 + 0.075 * random.uniform());
            spec.links[0].handovers.push(HandoverSpec { at: secs(at), duration });
            spec.links[0].outages.push(OutageSpec {
                at: secs(at),
                duration,
                mode: OutageMode::Hold,
                flush: Flush::None,
                directions: Directions::Both,
            });
        }
    }
    spec.links[0].forward.delay = delay(&steps);
    spec.links[0].reverse.delay = delay(&steps);
    (spec, capacity)
}

#[test]
fn over_changing_paths_it_beats_bbr3_and_random_loss_costs_it_little() {
    let share = |controller, lossy| {
        let seeds = [1, 2];
        let mean = |seed: u64| {
            let (spec, capacity) = constellation(controller, seed, lossy);
            run(&spec).wire_mbps(0, 0.0, 300.0) / capacity
        };
        seeds.into_iter().map(mean).sum::<f64>() / 2.0
    };
    let (leocc, bbr3) = (share("leocc", false), share("bbr3", false));
    let (leocc_lossy, bbr3_lossy) = (share("leocc", true), share("bbr3", true));
    println!("{leocc} {bbr3} {leocc_lossy} {bbr3_lossy}");
    assert!(leocc > bbr3, "{leocc} {bbr3}");
    assert!(bbr3 - bbr3_lossy >= 0.08 * bbr3, "{bbr3} {bbr3_lossy}");
    assert!(leocc - leocc_lossy <= 0.03 * leocc, "{leocc} {leocc_lossy}");
}

#[test]
fn between_round_trip_times_the_longer_wins() {
    let share = |controller: &str, second_ms: f64| {
        let mut spec = network(controller, 100.0, 20.0, 1.0, 200.0);
        spec.links[0].forward.queue =
            orbitcc_core::spec::QueueSpec::DropTailBytes { limit: bdp_bytes(100.0, second_ms) };
        spec.flows.push(flow(controller));
        spec.flows[1].start = secs(50.0);
        spec.flows[1].uplink_delay = secs((second_ms - 20.0) / 1e3);
        spec.links[0].handovers =
            (1..14).map(|k| HandoverSpec { at: secs(15.0 * f64::from(k)), duration: Nanos::ZERO }).collect();
        let run = run(&with_noise(spec, 100.0, 20.0));
        let (first, second) = (run.wire_mbps(0, 100.0, 200.0), run.wire_mbps(1, 100.0, 200.0));
        second / (first + second)
    };
    for controller in ["bbr", "bbr3", "leocc:trigger=global"] {
        let (equal, longer) = (share(controller, 20.0), share(controller, 100.0));
        println!("{controller}: equal {equal}, longer {longer}");
        let ratio = equal.min(1.0 - equal) / equal.max(1.0 - equal);
        assert!(ratio >= 0.5, "{controller}: {ratio}");
        assert!(longer > 0.6, "{controller}: {longer}");
    }
}
