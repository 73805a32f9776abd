//! Any two controllers share any path: 70 s on one bottleneck and across a parking lot, in which the RTT grows twentyfold,
//! the link fails for half a second and packets get lost. Nobody panics, starves or loses count.
//!
//! The links have 10 Mbit/s, so that some hundred pairs take seconds. Only the first hop loses packets: over three, one
//! in seven gets lost, and now and then four retransmissions in a row, which is a timeout longer than the stretch at the
//! end. The buffer is a product of the longer path: with a tenth of it Copa, which paces at twice its window per RTT,
//! throws away a third of all packets, with the same effect.

mod common;

use common::*;
use orbitcc_core::cc::REGISTRY;
use orbitcc_core::spec::*;
use orbitcc_core::time::Nanos;
use orbitcc_core::units::BitRate;
use orbitcc_core::world::{Policies, World};
use rayon::prelude::*;

const RATE_MBPS: f64 = 10.0;
/// One way, before and after the step.
const DELAY_MS: f64 = 5.0;
const FACTOR: f64 = 20.0;
const STEP_S: f64 = 15.0;
const OUTAGE_S: (f64, f64) = (25.0, 0.5);
const LOSS_FROM_S: f64 = 35.0;
const LOSS: f64 = 0.05;
const HOPS: usize = 3;
const END_S: u64 = 70;
/// Everybody delivers something in this last stretch.
const LAST_S: u64 = 10;
/// Most wrong pairs listed.
const LISTED: usize = 20;

/// Delay does not matter to it, and it takes a while to mind losses: three of these, each losing up to four packets in
/// ten on its own full queue, leave nothing to who crosses them all.
const DROWNING: &str = "vivace:preset=loss";

/// Parameters under which a controller behaves differently.
const VARIANTS: &[&str] = &[
    "cubic:hystart=off",
    "cubic:hystart=nomax",
    "cubic:hystart=dynamic",
    "cubic:hystart=hystart++",
    "cubic:hystart=search",
    "cubic:kernel=v4_15",
    "bbr:kernel=v4_15",
    "bbr3:draft=06",
    "c4:flavour=picoquic",
    "copa:competitive=off",
    "leocc:trigger=ping",
    "satcp:mode=freeze",
    "vivace:preset=paper",
    DROWNING,
    "vivace:preset=geo",
];

/// Every controller (an agent's window stays where nobody moves it), and the variants.
fn everybody() -> Vec<&'static str> {
    let needs_no_network = |name: &&str| *name != "policy";
    REGISTRY.iter().map(|r| r.name).filter(needs_no_network).chain(VARIANTS.iter().copied()).collect()
}

fn hop(k: usize) -> LinkSpec {
    let way = delay(&[(0.0, DELAY_MS), (STEP_S, FACTOR * DELAY_MS)]);
    let losses = vec![(Nanos::ZERO, LossSpec::None), (secs(LOSS_FROM_S), LossSpec::Bernoulli { p: LOSS })];
    let at = secs(OUTAGE_S.0);
    let duration = secs(OUTAGE_S.1);
    LinkSpec {
        name: format!("hop-{k}"),
        forward: DirectionSpec {
            rate: vec![(Nanos::ZERO, BitRate((RATE_MBPS * 1e6) as u64))],
            delay: way.clone(),
            loss: if k == 0 { losses } else { Vec::new() },
            queue: QueueSpec::DropTailBytes { limit: bdp_bytes(RATE_MBPS, 2.0 * FACTOR * DELAY_MS) },
            ..DirectionSpec::default()
        },
        reverse: DirectionSpec { delay: way, ..DirectionSpec::default() },
        outages: vec![OutageSpec {
            at,
            duration,
            mode: OutageMode::Drop,
            flush: Flush::Queue,
            directions: Directions::Both,
        }],
        handovers: vec![HandoverSpec { at, duration }],
    }
}

/// `long` crosses every hop, one flow of `short` each hop.
fn parking_lot(hops: usize, long: &str, short: &str) -> NetworkSpec {
    let base = dumbbell(RATE_MBPS, 2.0 * DELAY_MS, 30_000, END_S as f64, &[]);
    let mut spec = with_noise(base, RATE_MBPS, 2.0 * DELAY_MS);
    spec.links = (0..hops).map(hop).collect();
    spec.flows = vec![FlowSpec { path: (0..hops).collect(), ..flow(long) }];
    spec.flows.extend((0..hops).map(|k| FlowSpec { path: vec![k], ..flow(short) }));
    spec
}

/// What went wrong.
fn faults(spec: &NetworkSpec) -> Vec<String> {
    let mut world = World::new(spec, &Policies::new(), Nanos::ZERO).unwrap();
    let received = |world: &World| -> Vec<u64> { world.flows().iter().map(|f| f.received_bytes()).collect() };
    let mut found = Vec::new();
    let mut before = Vec::new();
    for s in 1..=END_S {
        world.run_until(Nanos::from_secs(s));
        if let Err(error) = check_conservation(&world) {
            return vec![format!("at {s} s: {error}")];
        }
        if s == END_S - LAST_S {
            before = received(&world);
        }
    }
    for (flow, (was, is)) in spec.flows.iter().zip(before.iter().zip(received(&world))) {
        if is <= *was {
            found.push(format!("{} on {:?} stalls after {was} bytes", flow.name, flow.path));
        }
    }
    found
}

fn check(hops: usize, pairs: Vec<(&str, &str)>) {
    let wrong: Vec<String> = pairs
        .into_par_iter()
        .flat_map_iter(|(long, short)| {
            let named = move |fault| format!("{long} with {short}: {fault}");
            faults(&parking_lot(hops, long, short)).into_iter().map(named)
        })
        .collect();
    let listed = wrong.iter().take(LISTED).cloned().collect::<Vec<_>>().join("\n");
    assert!(wrong.is_empty(), "{} faults, e.g.\n{listed}", wrong.len());
}

#[test]
fn any_two_controllers_share_a_bottleneck() {
    let all = everybody();
    check(1, all.iter().enumerate().flat_map(|(k, a)| all[k..].iter().map(|b| (*a, *b))).collect());
}

#[test]
fn any_two_controllers_share_a_parking_lot() {
    let all = everybody();
    let short = || all.iter().filter(|name| **name != DROWNING);
    check(HOPS, all.iter().flat_map(|a| short().map(|b| (*a, *b))).collect());
}
