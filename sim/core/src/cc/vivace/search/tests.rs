use super::super::rules::{ARTIFACT, PAPER};
use super::*;
use crate::rng::Purpose;

fn random() -> Stream {
    Stream::new(1, Purpose::Controller, 0)
}

/// The path takes `capacity` Mbit/s: beyond it, the queue grows.
fn result(plan: Plan, id: u64, capacity: f64) -> Report {
    let over = (plan.mbps / capacity - 1.0).max(0.0);
    Report {
        plan,
        id,
        packets_per_s: plan.mbps * 1e6 / super::super::PACKET_BITS,
        packets: 1000.0,
        lost: 0.0,
        gradient: over,
        mean_rtt_s: 0.05,
        void: false,
    }
}

#[test]
fn the_paper_doubles_every_interval_and_returns_to_the_last_good_rate() {
    let (mut s, mut r) = (Search::new(PAPER, 2.0), random());
    let mut plans = vec![s.begin(&mut r)];
    for id in 1..=4 {
        // An interval's result comes an RTT, thus an interval, after its end.
        plans.push(s.begin(&mut r));
        s.finish(&result(plans[id - 1], id as u64, 10.0), id as u64 + 1);
    }
    let rates: Vec<f64> = plans.iter().map(|p| p.mbps).collect();
    assert_eq!(rates, [2.0, 4.0, 8.0, 16.0, 32.0]);
    assert_eq!((s.phase, s.mbps), (Phase::Search, 8.0), "16 of 10 Mbit/s was too much");
    let mut late = Search::new(PAPER, 2.0);
    let rates: Vec<f64> = (0..4).map(|_| late.begin(&mut r).mbps).collect();
    assert_eq!(rates, [2.0, 4.0, 4.0, 4.0], "no more than two doublings without a result");
}

#[test]
fn the_artefact_doubles_once_per_result() {
    let (mut s, mut r) = (Search::new(ARTIFACT, 1.6), random());
    let first = s.begin(&mut r);
    assert_eq!(s.begin(&mut r).role, Role::Waiting);
    s.finish(&result(first, 1, 100.0), 2);
    let second = s.begin(&mut r);
    assert_eq!((second.role, second.mbps), (Role::Doubled, 3.2));
    let mut forgiven = result(second, 3, 100.0);
    (forgiven.lost, forgiven.gradient) = (50.0, 0.19);
    s.finish(&forgiven, 3);
    assert_eq!(s.phase, Phase::Start { awaits: 0 }, "fifty losses and a gradient below 0.2 are forgiven");
    let third = s.begin(&mut r);
    s.finish(&result(third, 4, 5.0), 4);
    assert_eq!((s.phase, s.mbps), (Phase::Search, 3.2), "a gradient of 0.28 is not");
}

fn probe(s: &mut Search, r: &mut Stream, capacity: f64) -> usize {
    let first = s.begin(r);
    let mut plans = vec![first];
    while s.phase != (Phase::Probe { next: s.n_probes }) {
        plans.push(s.begin(r));
    }
    let waiting = s.begin(r);
    assert_eq!((waiting.role, waiting.mbps), (Role::Waiting, s.base));
    for (id, plan) in plans.iter().chain([&waiting]).enumerate() {
        s.finish(&result(*plan, id as u64 + 1, capacity), 9);
    }
    plans.len()
}

#[test]
fn probing_takes_two_pairs_of_five_percent_and_steps_along_the_gradient() {
    let (mut s, mut r) = (Search::new(PAPER, 100.0), random());
    (s.base, s.phase) = (100.0, Phase::Search);
    assert_eq!(probe(&mut s, &mut r, 1000.0), 4);
    let gamma = (PAPER.utility.of(105.0, 0.0, 0.0) - PAPER.utility.of(95.0, 0.0, 0.0)) / 10.0;
    assert!((s.base - 100.0 - gamma).abs() < 1e-9);
    (s.base, s.phase) = (100.0, Phase::Search);
    probe(&mut s, &mut r, 100.0);
    assert!((s.base - 95.0).abs() < 1e-9, "a growing queue costs the bound: {}", s.base);
}

#[test]
fn the_artefact_probes_with_one_pair_on_a_trend_and_moves_on_large_increases() {
    let (mut s, mut r) = (Search::new(ARTIFACT, 100.0), random());
    (s.base, s.phase) = (10.0, Phase::Search);
    let pairs: Vec<usize> = (0..4).map(|_| probe(&mut s, &mut r, 1000.0)).collect();
    assert_eq!(pairs, [4, 4, 2, 2]);
    let Phase::Move { target, change } = s.phase else { panic!("{:?}", s.phase) };
    assert!((change - 0.11 * s.base).abs() < 1e-9 && target == s.base + change, "the bound's second step");
    let plan = s.begin(&mut r);
    assert_eq!((plan.role, plan.mbps), (Role::Moved, target));
    s.finish(&result(plan, 9, 1000.0), 9);
    assert!(matches!(s.phase, Phase::Move { target: next, .. } if next > 1.15 * target), "on, by 17 %");
    let plan = s.begin(&mut r);
    s.finish(&result(plan, 10, plan.mbps / 1.1), 10);
    assert!(s.phase == Phase::Search && s.base < plan.mbps, "until it reverses");
}

#[test]
fn more_than_half_lost_halves_the_artefact_s_rate_once_per_feedback_delay() {
    let (mut s, mut r) = (Search::new(ARTIFACT, 64.0), random());
    let plan = s.begin(&mut r);
    let mut bad = result(plan, 1, 100.0);
    bad.lost = 501.0;
    s.finish(&bad, 3);
    assert_eq!((s.phase, s.mbps), (Phase::Search, 32.0));
    bad.id = 2;
    s.finish(&bad, 4);
    assert_eq!(s.mbps, 32.0);
    bad.id = 3;
    s.finish(&bad, 5);
    assert_eq!(s.mbps, 16.0);
}

#[test]
fn an_emergency_halves_the_base_rate_whichever_probe_is_being_sent() {
    let (mut s, mut r) = (Search::new(ARTIFACT, 64.0), random());
    (s.base, s.phase) = (64.0, Phase::Search);
    let mut plan = s.begin(&mut r);
    while plan.mbps > 64.0 {
        plan = s.begin(&mut r);
    }
    let mut bad = result(plan, 1, 100.0);
    bad.lost = 501.0;
    s.finish(&bad, 3);
    assert_eq!(s.mbps, 32.0);
}
