//! Copa over whole paths: its short queue, its fairness, and what competitive mode is for.

mod common;

use common::*;

fn share_of_first(flows: &[&str]) -> (f64, Run) {
    let spec = with_noise(dumbbell(100.0, 50.0, bdp_bytes(100.0, 50.0), 90.0, flows), 100.0, 50.0);
    let run = run(&spec);
    let total: f64 = (0..flows.len()).map(|i| run.wire_mbps(i, 30.0, 90.0)).sum();
    (run.wire_mbps(0, 30.0, 90.0) / total, run)
}

#[test]
fn alone_it_fills_the_link_with_a_queue_of_a_few_packets() {
    let run = run(&dumbbell(100.0, 50.0, bdp_bytes(100.0, 50.0), 60.0, &["copa"]));
    assert!(run.wire_mbps(0, 20.0, 60.0) >= 94.0);
    let packets = run.queue(20.0, 60.0) / 1500.0;
    assert!((1.0..40.0).contains(&packets), "1/delta = 2 packets and its swings: {packets}");
}

#[test]
fn two_share_fairly_with_a_short_queue() {
    let (share, run) = share_of_first(&["copa", "copa"]);
    assert!((0.4..=0.6).contains(&share), "{share}");
    assert!(run.queue(30.0, 90.0) <= 0.1 * bdp_bytes(100.0, 50.0) as f64);
}

#[test]
fn competitive_mode_holds_its_own_against_cubic_and_default_mode_does_not() {
    let (competing, _) = share_of_first(&["copa", "cubic"]);
    let (default, _) = share_of_first(&["copa:competitive=off", "cubic"]);
    assert!(competing >= 0.25, "{competing}");
    assert!(default <= 0.15, "{default}");
}

#[test]
fn a_larger_base_rtt_looks_like_a_queue_until_the_minimum_expires() {
    let mut spec = dumbbell(100.0, 40.0, bdp_bytes(100.0, 80.0), 60.0, &["copa:competitive=off"]);
    let steps = delay(&[(0.0, 20.0), (25.0, 40.0)]);
    spec.links[0].forward.delay = steps.clone();
    spec.links[0].reverse.delay = steps;
    let run = run(&spec);
    assert!(run.wire_mbps(0, 28.0, 33.0) < 20.0, "{}", run.wire_mbps(0, 28.0, 33.0));
    assert!(run.wire_mbps(0, 45.0, 60.0) > 90.0, "{}", run.wire_mbps(0, 45.0, 60.0));
}
