//! Flows of QUIC over the simulator's links.

use orbitcc_core::observe::functions::Preset;
use orbitcc_core::spec::NetworkSpec;
use orbitcc_core::time::Nanos;
use orbitcc_core::world::{Policies, World};
use serde_json::{Value, json};

fn network(flows: Value, seconds: u64) -> NetworkSpec {
    let way = |loss: f64| {
        json!({"rate": [[0, 100_000_000]], "delay": {"points": [[0, 25_000_000]]}, "loss": [[0, {"kind": "bernoulli", "p": loss}]],
               "queue": {"kind": "drop_tail_bytes", "limit": 625_000}})
    };
    let spec = json!({"seed": 7, "duration": seconds * 1_000_000_000, "flows": flows,
                      "links": [{"name": "link", "forward": way(0.0), "reverse": way(0.0), "outages": []}]});
    NetworkSpec::from_json(&spec.to_string()).unwrap()
}

fn quic(controller: &str) -> Value {
    json!({"name": controller, "path": [0], "controller": {"name": controller}, "quic": {"stream_window": 100_000_000, "send_window": 100_000_000}})
}

fn world(spec: &NetworkSpec) -> World {
    let preset = Preset::astraea(Nanos::from_millis(30));
    let mut world = World::with_agents(spec, &Policies::new(), Nanos::from_millis(100), &preset).unwrap();
    orbitcc_quic::host(spec, &mut world);
    world
}

#[test]
fn quinns_controllers_fill_a_link() {
    for name in ["quinn-newreno", "quinn-cubic", "quinn-bbr", "reno", "cubic", "vegas", "bbr"] {
        let spec = network(json!([quic(name)]), 20);
        let mut world = world(&spec);
        let began = std::time::Instant::now();
        world.run();
        let took = began.elapsed();
        assert!(world.failure().is_none());
        let flow = &world.flow_totals()[0];
        let link = &world.link_totals()[0];
        println!(
            "{name}: {:.1} Mbit/s {:.1} ms sent {} lost {} drops {} {:.2} us/packet, failure {:?}",
            flow.goodput_mbps, flow.srtt_ms, flow.sent_packets, flow.lost_packets, link.dropped_packets,
            took.as_secs_f64() * 1e6 / flow.sent_packets as f64, world.failure()
        );
    }
}
