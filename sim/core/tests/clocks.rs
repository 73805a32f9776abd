//! Agents that decide on their own clocks: the same as policies in the world, and as one clock where a flow is alone.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use orbitcc_core::observe::functions::Interval;
use orbitcc_core::observe::policy::{Activation, Layer, Network, Policy, Squash};
use orbitcc_core::observe::preset::Preset;
use orbitcc_core::observe::registry;
use orbitcc_core::observe::stats::STATISTICS;
use orbitcc_core::spec::NetworkSpec;
use orbitcc_core::time::Nanos;
use orbitcc_core::world::{Policies, World};
use orbitcc_core::worlds::{STATUS_ACTIVE, STATUS_IDLE, STATUS_TRUNCATED, Worlds};
use serde_json::json;

const FIXED: Nanos = Nanos::from_millis(30);

fn preset(own_clock: bool) -> Preset {
    Preset {
        observation: registry::observation(&json!("ratios")).unwrap().into(),
        action: registry::action(&json!("log-window")).unwrap().into(),
        interval: Interval::checked(FIXED, 0.25, Nanos::from_millis(5)).unwrap(),
        own_clock,
        ..Preset::astraea(FIXED)
    }
}

/// Any function of the observation, with large actions of both signs.
fn network(inputs: usize) -> Network {
    let weight = (0..inputs).map(|k| ((k * 37 % 11) as f32 - 5.0) / 4.0).collect();
    let layer = Layer { inputs, weight, bias: vec![0.2], norm: None, activation: Activation::Linear };
    Network { layers: vec![layer], gate: None, normaliser: None, clip: 10.0, squash: Squash::Tanh }
}

/// Flows with round trips of 40, 100 and 250 ms that start at 0, 0.777 and 2.001 s; the second leaves after 6 s, and
/// Cubic is beside them.
fn shared(controller: &str) -> NetworkSpec {
    let mut spec = common::dumbbell(20.0, 40.0, 120_000, 9.0, &[controller, controller, controller, "cubic"]);
    for (flow, (uplink_ms, start_ms)) in spec.flows.iter_mut().zip([(0, 0), (60, 777), (210, 2_001), (0, 1_500)]) {
        (flow.uplink_delay, flow.start) = (Nanos::from_millis(uplink_ms), Nanos::from_millis(start_ms));
    }
    spec.flows[1].stop = Some(Nanos::from_millis(6_011));
    common::with_noise(spec, 20.0, 40.0)
}

/// What was seen: the time, the agent, its observation, and its status.
type Seen = (Nanos, usize, Vec<f32>, u8);

/// Play the network through `Worlds::step`; all that was seen and the world's hash.
fn played(spec: &NetworkSpec, own_clock: bool, agents: usize) -> (Vec<Seen>, u64, Worlds) {
    let preset = preset(own_clock);
    let (dim, acts) = (preset.observation.dim(), network(preset.observation.dim()));
    let mut worlds = Worlds::new(std::slice::from_ref(spec), agents, preset, 1, Policies::new(), None).unwrap();
    let (mut obs, mut reward, mut status) = (vec![0.0; agents * dim], vec![0.0; agents], vec![0; agents]);
    worlds.observe(&mut obs, &mut reward, &mut status);
    let mut seen: Vec<Seen> = Vec::new();
    loop {
        let mut actions = vec![f32::NAN; agents]; // those of flows that are not due are not even read
        for (agent, row) in obs.chunks(dim).enumerate() {
            if status[agent] == STATUS_IDLE {
                assert_eq!(reward[agent], 0.0);
                let last = seen.iter().rev().find(|s| s.1 == agent);
                let waits = last.filter(|s| own_clock && s.3 == STATUS_ACTIVE);
                assert_eq!(row, waits.map_or(&vec![0.0; dim][..], |s| &s.2[..]), "what a flow that waits saw last");
                continue;
            }
            seen.push((worlds.member(0).world.now(), agent, row.to_vec(), status[agent]));
            acts.act(row, &mut actions[agent..=agent]);
        }
        if worlds.member(0).world.is_finished() {
            let hash = worlds.member(0).world.event_hash();
            return (seen, hash, worlds);
        }
        worlds.step(Some(&actions), &mut obs, &mut reward, &mut status).unwrap();
    }
}

#[test]
fn a_flow_alone_does_and_sees_the_same_on_either_clock() {
    for start_ms in [0, 30, 777] {
        let mut spec = common::dumbbell(20.0, 80.0, 200_000, 5.0, &["external"]);
        spec.flows[0].start = Nanos::from_millis(start_ms);
        let spec = common::with_noise(spec, 20.0, 80.0);
        let (own, world) = (played(&spec, true, 1), played(&spec, false, 1));
        assert!(own.0.len() > 100 && own.0 == world.0 && own.1 == world.1);
    }
}

#[test]
fn flows_on_their_own_clocks_do_what_policies_in_the_world_do() {
    let preset = preset(true);
    let acts = Arc::new(network(preset.observation.dim()));
    let policy = Policy::native(acts, preset.observation, preset.action, preset.interval, None).unwrap();
    let policies = BTreeMap::from([("any".to_owned(), Arc::new(policy))]);
    let mut native = World::new(&shared("policy:policy=\"any\""), &policies, Nanos::ZERO).unwrap();
    native.run();
    let spec = shared("external");
    let (_, hash, mut worlds) = played(&spec, true, 3);
    assert_eq!(hash, native.event_hash());
    let totals =
        |world: &mut World| world.flow_totals().iter().map(|t| (t.received_bytes, t.lost_packets)).collect::<Vec<_>>();
    assert_eq!(totals(&mut worlds.member_mut(0).world), totals(&mut native));
    assert_ne!(hash, played(&spec, false, 3).1, "one clock for all is something else");
}

#[test]
fn decisions_are_spaced_by_their_own_flow_s_interval() {
    let spec = shared("external");
    let (mut worlds, agents) = (Worlds::new(&[spec], 3, preset(true), 1, Policies::new(), None).unwrap(), 3);
    let (dim, interval) = (worlds.observation_dim(), preset(true).interval);
    let (mut obs, mut reward, mut status) = (vec![0.0; agents * dim], vec![0.0; agents], vec![0; agents]);
    let mut due: [Option<Nanos>; 3] = [None; 3];
    let mut counts = [0; 3];
    worlds.observe(&mut obs, &mut reward, &mut status);
    while !worlds.member(0).world.is_finished() {
        let world = &worlds.member(0).world;
        for agent in (0..agents).filter(|agent| status[*agent] == STATUS_ACTIVE) {
            let (flow, now) = (&world.flows()[agent], world.now());
            let wanted = due[agent].unwrap_or(Nanos((flow.start.0 / FIXED.0 + 1) * FIXED.0));
            assert_eq!(now, wanted, "decision {} of {agent}", counts[agent]);
            let rtt_s = flow.stats.latest_rtt_s();
            let after = if rtt_s > 0.0 { Nanos((0.25 * rtt_s * 1e9) as u64).max(interval.least) } else { FIXED };
            due[agent] = Some(now + after);
            counts[agent] += 1;
        }
        worlds.step(Some(&[0.0; 3]), &mut obs, &mut reward, &mut status).unwrap();
    }
    assert!(counts[0] > 2 * counts[2] && counts[2] > 50, "{counts:?}");
    assert_eq!(status, [STATUS_TRUNCATED, STATUS_IDLE, STATUS_TRUNCATED]);
    let mut stats = vec![0.0; agents * STATISTICS.len()];
    worlds.stats(&mut stats);
    assert!(stats[..STATISTICS.len()].iter().any(|x| *x != 0.0));
}
