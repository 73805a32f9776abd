use orbitcc_core::link::LinkCounters;
use orbitcc_core::time::Nanos;
use orbitcc_core::traffic::{Action, Traffic};
use orbitcc_core::world::{Policies, World};
use serde_json::{Value, json};

use super::*;

fn way(rate: Value, delay: Value, queue: Value, more: Value) -> Value {
    let mut way = json!({"rate": rate, "delay": {"points": delay, "interpolate": true}, "queue": queue});
    way.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    way
}

/// Two links that do everything links can do, and senders that do not listen.
fn network() -> NetworkSpec {
    network_with("drop_tail_bytes")
}

/// The same with another kind of queue before the first link.
fn network_with(kind: &str) -> NetworkSpec {
    let bytes = |limit: u64| json!({"kind": kind, "limit": limit});
    let fq = json!({"kind": "fq_codel", "limit": 50, "memory_limit": 1_000_000, "flows": 16, "quantum": 1514,
        "drop_batch": 4, "target": 5_000_000, "interval": 20_000_000});
    let ms = 1_000_000u64;
    let first = way(
        json!([[0, 20_000_000], [300 * ms, 6_000_000], [900 * ms, 30_000_000]]),
        json!([[0, 10 * ms], [500 * ms, 40 * ms], [800 * ms, 5 * ms]]),
        bytes(40_000),
        json!({"loss": [[0, {"kind": "gilbert_elliott", "good_loss": 0.01, "bad_loss": 0.5, "to_bad_per_s": 5.0,
            "to_good_per_s": 20.0}], [700 * ms, {"kind": "bernoulli", "p": 0.05}]], "loss_at": "ingress",
            "jitter": {"kind": "gamma", "mean": ms, "shape": 3, "tau": 2 * ms}}),
    );
    let second = way(
        json!([[0, 12_000_000]]),
        json!([[0, 20 * ms], [400 * ms, 2 * ms]]),
        fq,
        json!({"ordering": "overtaking", "burst": 6_000, "gate": {"period": 3 * ms}}),
    );
    let outages = json!([{"at": 450 * ms, "duration": 30 * ms, "mode": "hold"},
        {"at": 1_100 * ms, "duration": 20 * ms, "flush": "all"}]);
    let udp = |name: &str, path: Value, rate: u64, uplink: u64| {
        json!({"name": name, "path": path, "controller": {"name": "udp"}, "uplink_delay": uplink,
            "traffic": {"kind": "cbr", "rate": rate}, "reroutes": if name == "a" { json!([{"at": 1_000 * ms, "path": [1, 0]}]) } else { json!([]) }})
    };
    let text = json!({"seed": 7, "duration": 1_500 * ms,
        "links": [{"name": "x", "forward": first, "outages": outages}, {"name": "y", "forward": second}],
        "flows": [udp("a", json!([0, 1]), 11_000_000, 0), udp("b", json!([1]), 7_300_000, 3 * ms),
            udp("c", json!([0]), 5_000_000, 0)]});
    NetworkSpec::from_json(&text.to_string()).unwrap()
}

fn packet(flow: usize) -> Vec<u8> {
    let mut packet = vec![0; 1500];
    packet[0] = 0x45;
    packet[16..20].copy_from_slice(&address(1, flow).octets());
    packet[20] = flow as u8;
    packet
}

#[test]
fn packets_fare_as_in_the_simulator_to_the_nanosecond() {
    for kind in ["drop_tail_bytes", "drop_front_bytes"] {
        carry(&network_with(kind));
    }
}

fn carry(spec: &NetworkSpec) {
    let mut simulated = World::new(spec, &Policies::new(), Nanos::ZERO).unwrap();
    let mut carrier = Carrier::new(spec, Classes::Addresses).unwrap();
    let mut arrivals = Vec::new();
    for (i, flow) in spec.flows.iter().enumerate() {
        let mut traffic = Traffic::new(flow.traffic, Nanos::ZERO, 1514, spec.seed, i as u64);
        traffic.start(Nanos::ZERO);
        while traffic.next_event() < spec.duration {
            let at = traffic.next_event();
            assert_eq!(traffic.on_timer(at), Action::Write);
            arrivals.push((at, i));
        }
    }
    arrivals.sort_unstable();
    let mut arrivals = arrivals.into_iter().peekable();
    let mut received = [0u64; 3];
    let mut last = Nanos::ZERO;
    for check in 1..=300u64 {
        let now = Nanos(check * 5_000_000 - 1);
        while let Some((at, i)) = arrivals.next_if(|next| next.0 <= now) {
            carrier.arrive(at, 0, &packet(i));
        }
        carrier.deliver(now, |at, port, bytes| {
            assert!(port == 1 && bytes.len() == 1500 && at <= now && at >= last, "{at:?}");
            last = at;
            received[bytes[20] as usize] += 1448;
        });
        simulated.run_until(now);
        let links: Vec<_> = (0..2).map(|k| simulated.link(k).reading(now)).collect();
        assert_eq!(carrier.read_links(now), links, "at {now:?}");
        assert_eq!(received, [0, 1, 2].map(|i| simulated.flows()[i].received_bytes()), "at {now:?}");
    }
    let LinkCounters { lost, dropped, .. } = simulated.link(0).counters;
    assert!(
        received.iter().all(|bytes| *bytes > 100_000) && lost > 20 && dropped > 20,
        "{received:?} {lost} {dropped}"
    );
}

#[test]
fn acknowledgements_take_the_way_back_and_strangers_go_nowhere() {
    let spec = network();
    let mut carrier = Carrier::new(&spec, Classes::Addresses).unwrap();
    let mut back = packet(0);
    back[16..20].copy_from_slice(&address(0, 1).octets());
    carrier.arrive(Nanos::ZERO, 1, &back);
    let mut six = packet(0);
    six[0] = 0x60;
    for stranger in [six, packet(3), packet(0)[..10].to_vec(), back.clone()] {
        carrier.arrive(Nanos::ZERO, 0, &stranger);
    }
    let mut out = Vec::new();
    carrier.deliver(Nanos::ZERO, |at, port, bytes| out.push((at, port, bytes.to_vec())));
    assert_eq!(out, [(Nanos::ZERO, 0, back)], "reverse directions of these links have no rate and no delay");
    assert_eq!(carrier.strangers, 4);
}

/// 12 Mbit/s take 1.0093 ms for 1514 bytes; the queue has room for three packets, then 10 ms there and 5 ms back.
#[test]
fn packets_tell_payload_losses_and_the_rtt() {
    let ms = 1_000_000u64;
    let there = way(
        json!([[0, 12_000_000]]),
        json!([[0, 10 * ms]]),
        json!({"kind": "drop_tail_bytes", "limit": 4_600}),
        json!({}),
    );
    let back = json!({"delay": {"points": [[0, 5 * ms]]}});
    let flow = json!({"name": "a", "path": [0], "controller": {"name": "reno"}});
    let link = json!({"name": "x", "forward": there, "reverse": back});
    let text = json!({"seed": 1, "duration": 1_000 * ms, "links": [link], "flows": [flow]}).to_string();
    let mut carrier = Carrier::new(&NetworkSpec::from_json(&text).unwrap(), Classes::Addresses).unwrap();
    let mut tcp = packet(0);
    (tcp[9], tcp[32]) = (6, 8 << 4);
    (0..5).for_each(|_| carrier.arrive(Nanos::ZERO, 0, &tcp));
    carrier.deliver(Nanos(5 * ms), |_, _, _| panic!("nothing comes out before 10 ms"));
    let inside = carrier.crossings()[0];
    assert_eq!((inside.counters.sent, inside.counters.lost, inside.packets_out, inside.srtt_us), (5, 2, 3, 0));
    let mut ack = tcp[..52].to_vec();
    ack[16..20].copy_from_slice(&address(0, 0).octets());
    carrier.deliver(Nanos(20 * ms), |_, _, _| ());
    // Nothing has come back: an answer to each would take 5 ms. Of 16.009, 17.019 and 18.028 ms, smoothed.
    assert_eq!(carrier.crossings()[0].srtt_us, 16_372);
    carrier.arrive(Nanos(20 * ms), 1, &ack);
    carrier.deliver(Nanos(25 * ms), |at, port, _| assert_eq!((at, port), (Nanos(25 * ms), 0)));
    let done = carrier.crossings()[0];
    assert_eq!((done.received_bytes, done.returned_bytes, done.counters.lost, done.packets_out), (3 * 1448, 0, 2, 0));
    assert_eq!(done.srtt_us, (10_000_000 + 3 * 1_009_333 + 5_000_000) / 1000, "the third packet waited for two others");
    let mut udp = vec![0x45; 128];
    udp[9] = 17;
    assert_eq!(payload_bytes(&udp), 100);
    assert_eq!([payload_bytes(&[0x45; 30]), payload_bytes(&[]), payload_bytes(&[0x60; 60])], [0; 3]);
}

#[test]
fn between_ports_everything_passes_and_queues_tell_flows_apart() {
    let spec = NetworkSpec { flows: network().flows[1..2].to_vec(), ..network() };
    let mut carrier = Carrier::new(&spec, Classes::Ports).unwrap();
    carrier.arrive(Nanos::ZERO, 0, &[0x60; 100]);
    carrier.arrive(Nanos::ZERO, 1, &[0x45; 60]);
    let mut out = Vec::new();
    carrier.deliver(Nanos(60_000_000), |_, port, bytes| out.push((port, bytes.len())));
    assert_eq!(out, [(0, 60), (1, 100)]);
    let mut tcp = packet(0);
    tcp[9] = 6;
    let mut other = tcp.clone();
    other[21] = 1;
    assert_ne!(hash(&tcp), hash(&other));
    other[30] = 9;
    other[21] = tcp[21];
    assert_eq!(hash(&tcp), hash(&other), "only addresses, protocol and ports count");
}

/// A path that marks every packet with an ECN field, or clears the field of all.
fn marking(kind: &str) -> Carrier {
    let text = json!({"seed": 1, "duration": 1_000_000_000u64,
        "links": [{"name": "x", "forward": {"delay": {"points": [[0, 0]]}, kind: 1.0}}],
        "flows": [{"name": "a", "path": [0], "controller": {"name": "udp"},
            "traffic": {"kind": "cbr", "rate": 1_000_000}}]});
    Carrier::new(&NetworkSpec::from_json(&text.to_string()).unwrap(), Classes::Ports).unwrap()
}

fn ip(version: u8, ecn: u8) -> Vec<u8> {
    let mut packet = vec![7; 60];
    if version == 6 {
        (packet[0], packet[1]) = (0x6b, 0x85 & !0x30 | ecn << 4);
        return packet;
    }
    (packet[0], packet[1]) = (0x45, 0xb8 | ecn);
    packet[10..12].fill(0);
    let checksum = !ones_complement(&packet[..20]);
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    packet
}

/// RFC 1071, section 4.1.
fn ones_complement(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[test]
fn marks_and_cleared_fields_are_written_into_packets_of_both_versions_of_ip() {
    for (kind, after) in [("marked", [0, 3, 3, 3]), ("bleached", [0; 4])] {
        for version in [4, 6] {
            let mut carrier = marking(kind);
            let mut out = Vec::new();
            for ecn in 0..4 {
                carrier.arrive(Nanos::ZERO, 0, &ip(version, ecn));
            }
            carrier.deliver(Nanos(1), |_, _, bytes| out.push(bytes.to_vec()));
            let wanted: Vec<_> = after.iter().map(|ecn| ip(version, *ecn)).collect();
            assert_eq!(out, wanted, "{kind}, IPv{version}");
            assert_eq!(carrier.marked(), [after.iter().filter(|ecn| **ecn == 3).count() as u64]);
            if version == 4 {
                assert!(out.iter().all(|packet| ones_complement(&packet[..20]) == 0xffff), "checksums hold");
            }
        }
    }
}

#[test]
fn after_the_end_nothing_is_due_and_nothing_is_kept() {
    let spec = network();
    let mut carrier = Carrier::new(&spec, Classes::Addresses).unwrap();
    carrier.arrive(Nanos::ZERO, 0, &packet(0));
    assert!(carrier.due() < spec.duration);
    carrier.deliver(spec.duration, |_, _, _| {});
    assert_eq!(carrier.due(), Nanos::MAX, "whoever waits for it would not sleep");
    let numbers = carrier.world.packet_numbers();
    for k in 0..1_000 {
        carrier.arrive(spec.duration + Nanos(k), 0, &packet(0));
    }
    assert_eq!(carrier.world.packet_numbers(), numbers);
    carrier.deliver(spec.duration + Nanos::from_secs(100), |_, _, _| panic!("it stands still"));
}
