//! The simulator's shortcuts change nothing: a world that takes them and one that takes none agree, bit for bit.
//! `PROPTEST_CASES=100000 cargo test --profile tested --package orbitcc-core --test exact` compares so many worlds.

mod common;

use orbitcc_core::spec::RelaySpec;
use orbitcc_core::spec::{FlowSpec, NetworkSpec, ReceiverSpec, TrafficSpec};
use orbitcc_core::time::Nanos;
use orbitcc_core::world::{Policies, World};
use proptest::prelude::*;

use common::networks::network;

/// Worlds are compared so often.
const PAUSES: u64 = 50;

/// Everything that can be read of a world at its present time.
fn read(world: &mut World) -> String {
    let now = world.now();
    let queues: Vec<_> = (0..world.link_names().len()).map(|i| world.link(i).backlog_integral(now)).collect();
    let flows: Vec<_> = world
        .flows()
        .iter()
        .map(|f| (f.stats.to_array(), f.sender.conn.cwnd, f.sender.conn.srtt8_us, f.sender.in_flight(), &f.objects))
        .collect();
    let flows = format!("{flows:?} {:x}", world.event_hash());
    format!("{flows} {queues:?} {:?} {:?}", world.flow_totals(), world.link_totals())
}

/// Series of its recording, as bits.
fn series(world: &World) -> Vec<Vec<u64>> {
    let recorder = world.recorder().expect("recorded");
    recorder.flows.iter().chain(&recorder.links).map(|s| s.iter().map(|x| x.to_bits()).collect()).collect()
}

fn agree(spec: &NetworkSpec) -> Result<(), TestCaseError> {
    let exact = NetworkSpec { exact: true, ..spec.clone() };
    let [mut fast, mut slow] = [spec, &exact]
        .map(|spec| World::new(spec, &Policies::new(), Nanos(spec.duration.0 / 40 + 7)).expect("a valid network"));
    for k in 1..=PAUSES {
        let now = Nanos(spec.duration.0 * k / PAUSES);
        for world in [&mut fast, &mut slow] {
            world.run_until(now);
            world.close_intervals(|_| true);
            common::check_conservation(world).map_err(TestCaseError::fail)?;
        }
        let (fast, slow) = (read(&mut fast), read(&mut slow));
        if fast != slow {
            let spec = serde_json::to_string(spec).expect("plain data");
            return Err(TestCaseError::fail(format!("different by {} s:\n{fast}\n{slow}\n{spec}", now.secs_f64())));
        }
    }
    prop_assert_eq!(series(&fast), series(&slow));
    Ok(())
}

/// The first flow ends at a proxy, and one more flow takes its path from there.
fn with_proxy(mut spec: NetworkSpec, buffer: u64) -> NetworkSpec {
    let first = &mut spec.flows[0];
    (first.controller, first.receiver) = (common::controller("cubic"), ReceiverSpec::Honest);
    if !matches!(first.traffic, TrafficSpec::Bytes { .. }) {
        first.traffic = TrafficSpec::Bulk;
    }
    let second = FlowSpec {
        name: "proxy".into(),
        relays: Some(RelaySpec { from: 0, buffer: buffer.max(2 * u64::from(spec.tcp.mss)) }),
        ..first.clone()
    };
    spec.flows.push(second);
    spec
}

/// Acknowledgements of every second flow pass the links of the flow before it, where they meet its data.
fn with_return_paths(mut spec: NetworkSpec) -> NetworkSpec {
    for i in (1..spec.flows.len()).step_by(2) {
        let path = spec.flows[i - 1].path.clone();
        for reroute in &mut spec.flows[i].reroutes {
            reroute.return_path = Some(path.clone());
        }
        spec.flows[i].return_path = Some(path);
    }
    spec
}

proptest! {
    #![proptest_config(common::cases(500))]

    #[test]
    fn shortcuts_change_nothing(spec in network()) {
        agree(&spec)?;
    }

    #[test]
    fn nor_with_return_paths(spec in network()) {
        agree(&with_return_paths(spec))?;
    }

    #[test]
    fn nor_with_a_proxy(spec in network(), buffer in 3_000..1_000_000u64) {
        agree(&with_proxy(spec, buffer))?;
    }
}

#[test]
fn nor_in_worlds_where_they_once_did() {
    for (name, text) in common::corpus() {
        if let Ok(spec) = NetworkSpec::from_json(&text)
            && World::new(&spec, &Policies::new(), Nanos::ZERO).is_ok()
        {
            agree(&spec).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
}
