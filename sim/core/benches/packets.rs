//! Cost per delivered packet of whole runs: `cargo bench` in `sim/`. `orbitcc bench` measures the same rows, and
//! environment steps, through Python.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use orbitcc_core::spec::*;
use orbitcc_core::time::Nanos;
use orbitcc_core::units::BitRate;
use orbitcc_core::world::{Policies, World};

/// `flows` bulk flows over a chain of `hops` equal links with a buffer of one bandwidth-delay product each.
fn network(controller: &str, flows: usize, hops: usize, rate_mbps: u64, rtt_ms: u64, duration_s: u64) -> NetworkSpec {
    let rate = BitRate(rate_mbps * 1_000_000);
    let bdp = rate.0 / 8 * rtt_ms / 1_000;
    let delay = |ms: u64| DelaySpec { interpolate: false, points: vec![(Nanos::ZERO, Nanos::from_millis(ms))] };
    let one_way = rtt_ms / 2 / hops as u64;
    let link = |i: usize| LinkSpec {
        name: format!("link-{i}"),
        forward: DirectionSpec {
            rate: vec![(Nanos::ZERO, rate)],
            delay: delay(one_way),
            queue: QueueSpec::DropTailBytes { limit: bdp },
            ..DirectionSpec::default()
        },
        reverse: DirectionSpec { delay: delay(one_way), ..DirectionSpec::default() },
        outages: Vec::new(),
        handovers: Vec::new(),
    };
    let flow = |i: usize| FlowSpec {
        name: format!("flow-{i}"),
        path: (0..hops).collect(),
        reroutes: Vec::new(),
        start: Nanos::ZERO,
        stop: None,
        uplink_delay: Nanos::ZERO,
        controller: ControllerSpec { name: controller.into(), params: Default::default() },
        traffic: TrafficSpec::Bulk,
        follows: None,
    };
    NetworkSpec {
        seed: 1,
        duration: Nanos::from_secs(duration_s),
        tcp: TcpSpec { rmem: [4096, 131_072, 268_435_456], wmem: [4096, 16_384, 268_435_456], ..TcpSpec::default() },
        noise: NoiseSpec { send_jitter: rate.serialisation(1514), start_jitter: Nanos::from_millis(rtt_ms) },
        links: (0..hops).map(link).collect(),
        flows: (0..flows).map(flow).collect(),
    }
}

fn delivered(world: &World) -> u64 {
    world.flows().iter().map(|f| u64::from(f.receiver.rcv_nxt)).sum()
}

fn packets(c: &mut Criterion) {
    let cases = [
        ("cubic_1_flow_100mbps_50ms", network("cubic", 1, 1, 100, 50, 20)),
        ("reno_1_flow_100mbps_50ms", network("reno", 1, 1, 100, 50, 20)),
        ("cubic_10_flows_100mbps_50ms", network("cubic", 10, 1, 100, 50, 20)),
        ("cubic_6_hops_100mbps_50ms", network("cubic", 1, 6, 100, 48, 20)),
        ("cubic_geo_144mbps_600ms", network("cubic", 1, 1, 144, 600, 60)),
    ];
    let mut group = c.benchmark_group("packets");
    group.sample_size(10);
    for (name, spec) in cases {
        let run = || {
            let mut world = World::new(&spec, &Policies::new(), Nanos::ZERO).expect("a valid network");
            world.run();
            delivered(&world)
        };
        group.throughput(Throughput::Elements(run()));
        group.bench_function(name, |b| b.iter(|| black_box(run())));
    }
    group.finish();
}

criterion_group!(benches, packets);
criterion_main!(benches);
