//! Properties of random networks: conservation, causality, determinism, exact clones.

mod common;

use orbitcc_core::observe::preset::Preset;
use orbitcc_core::spec::{GateSpec, NetworkSpec};
use orbitcc_core::time::Nanos;
use orbitcc_core::world::{Policies, World};
use orbitcc_core::worlds::Worlds;
use proptest::prelude::*;

use common::networks::{SECOND, fixed, network};

proptest! {
    #![proptest_config(common::cases(160))]

    #[test]
    fn packets_are_conserved_and_causal(spec in network()) {
        let mut world = World::new(&spec, &Policies::new(), Nanos::ZERO).unwrap();
        let mut last = Nanos::ZERO;
        for k in 1..=50u64 {
            world.run_until(Nanos(k * SECOND / 10));
            prop_assert!(world.now() >= last);
            last = world.now();
            common::check_conservation(&world).map_err(TestCaseError::fail)?;
        }
        for link in world.link_totals() {
            prop_assert!(link.queue_bytes_mean <= link.queue_bytes_max as f64, "{link:?}");
        }
    }

    /// Also where gates open at the very end, so that many packets arrive at the last instant.
    #[test]
    fn rows_add_up_to_totals(mut spec in network()) {
        for link in &mut spec.links {
            link.forward.gate = Some(GateSpec { period: Nanos::from_millis(50), phase: Nanos::ZERO });
        }
        spec.duration = Nanos::from_millis(spec.duration.0 / 1_000_000 / 50 * 50);
        let run = common::run(&spec);
        let sum = |values: Vec<f64>| values.iter().sum::<f64>();
        for (i, flow) in run.flow_totals.iter().enumerate() {
            prop_assert_eq!(sum(run.flow(i, "sent_packets")), flow.sent_packets as f64);
            prop_assert_eq!(sum(run.flow(i, "lost_packets")), flow.lost_packets as f64);
            prop_assert_eq!(sum(run.flow(i, "marked_packets")), flow.marked_packets as f64);
            let starts = std::iter::once(0.0).chain(run.t_s.iter().copied());
            let spans = run.t_s.iter().zip(starts).map(|(end, start)| end - start);
            let bytes: f64 = run.flow(i, "goodput_mbps").iter().zip(spans).map(|(mbps, s)| mbps * s * 125e3).sum();
            prop_assert!((bytes - flow.received_bytes as f64).abs() < 1.0, "{bytes} of {}", flow.received_bytes);
        }
        for (i, link) in run.link_totals.iter().enumerate() {
            prop_assert_eq!(sum(run.link(i, "dropped_packets")), link.dropped_packets as f64);
            prop_assert_eq!(sum(run.link(i, "lost_packets")), link.lost_packets as f64);
        }
    }

    #[test]
    fn a_clone_continues_identically(spec in network(), at in 0..5 * SECOND) {
        let mut world = World::new(&spec, &Policies::new(), Nanos(SECOND)).unwrap();
        world.run_until(Nanos(at));
        let mut clone = world.clone();
        world.run();
        clone.run();
        prop_assert_eq!(world.event_hash(), clone.event_hash());
        let totals = |w: &World| format!("{:?}", w.flow_totals());
        prop_assert_eq!(totals(&world), totals(&clone));
        let mut whole = World::new(&spec, &Policies::new(), Nanos(SECOND)).unwrap();
        whole.run();
        prop_assert_eq!(world.event_hash(), whole.event_hash(), "pauses do not matter");
    }
}

/// Step a batch with actions that depend on the world's number only; hashes of all worlds.
fn hashes(specs: &[NetworkSpec], threads: usize) -> Vec<u64> {
    let n = specs.len();
    let mut worlds =
        Worlds::new(specs, 20, Preset::astraea(Nanos::from_millis(30)), threads, Policies::new(), None).unwrap();
    let (mut obs, mut reward) = (vec![0.0; n * 20 * 50], vec![0.0; n * 20]);
    let mut status = vec![0; n * 20];
    for step in 0..160u32 {
        let actions: Vec<f32> =
            (0..n * 20).map(|k| ((specs[k / 20].seed as u32 ^ step) % 7) as f32 / 3.0 - 1.0).collect();
        worlds.step(Some(&actions), &mut obs, &mut reward, &mut status).unwrap();
        assert!(obs.iter().chain(&reward).all(|x| x.is_finite()));
    }
    (0..n).map(|i| worlds.member(i).world.event_hash()).collect()
}

#[test]
fn event_logs_do_not_depend_on_threads_or_batch() {
    let specs = fixed(12);
    let reference = hashes(&specs, 1);
    assert_eq!(reference, hashes(&specs, 2));
    assert_eq!(reference, hashes(&specs, 4));
    let alone: Vec<u64> = specs.iter().map(|s| hashes(std::slice::from_ref(s), 1)[0]).collect();
    assert_eq!(reference, alone);
}
