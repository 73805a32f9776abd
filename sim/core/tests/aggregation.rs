//! Acknowledgements in bunches: a return channel sent in frames, and receivers that merge segments.

mod common;

use common::{bdp_bytes, dumbbell, run, secs};
use orbitcc_core::spec::*;
use orbitcc_core::time::Nanos;
use orbitcc_core::world::{Policies, World};

const MS: u64 = 1_000_000;

/// 100 Mbit/s and 50 ms; acknowledgements arrive only every `period_ms` (0: at any time), from `phase_ms` on.
fn gated(period_ms: u64, phase_ms: u64, controller: &str) -> NetworkSpec {
    let mut spec = dumbbell(100.0, 50.0, 2 * bdp_bytes(100.0, 100.0), 20.0, &[controller]);
    spec.links[0].reverse.gate =
        (period_ms > 0).then_some(GateSpec { period: Nanos(period_ms * MS), phase: Nanos(phase_ms * MS) });
    spec
}

#[test]
fn a_gate_lets_acknowledgements_arrive_in_bursts() {
    let mut world = World::new(&gated(40, 7, "cubic"), &Policies::new(), Nanos::ZERO).unwrap();
    let (mut una, mut bursts) = (0, Vec::new());
    for ms in 1..10_000u64 {
        // Just after each whole millisecond, when gates open.
        world.run_until(Nanos(ms * MS + 1));
        let now = world.flows()[0].sender.conn.snd_una;
        if now > una {
            assert_eq!(ms % 40, 7, "an acknowledgement at {ms} ms");
            bursts.push(now - una);
            una = now;
        }
    }
    // 40 ms of 100 Mbit/s are 333 packets.
    let late = &bursts[bursts.len() - 50..];
    assert!(late.iter().all(|n| (325..=342).contains(n)), "{late:?}");
}

#[test]
fn a_gate_adds_up_to_a_period_to_the_round_trip_and_keeps_the_link_full() {
    let frames = run(&gated(40, 7, "cubic"));
    // The handshake of 50 ms from 0 on ends with the frame at 87 ms; so do the first segments. Those sent then come
    // back with the frame at 167 ms.
    let rtts = frames.flow(0, "rtt_ms");
    assert_eq!(frames.flow(0, "srtt_ms")[0], 87.0);
    assert!((rtts[8] - 87.0).abs() < 0.01 && (rtts[16] - 80.0).abs() < 0.01, "{:?}", &rtts[..20]);
    for run in [&frames, &run(&gated(0, 0, "cubic"))] {
        assert!(run.wire_mbps(0, 5.0, 20.0) > 97.0, "{}", run.wire_mbps(0, 5.0, 20.0));
    }
}

#[test]
fn a_gate_is_passed_in_order_and_at_once_when_open() {
    // One segment per 10 ms through a gate of 10 ms that opens just as it comes: nothing is added.
    let rtt = |phase| {
        let mut spec = gated(10, phase, "cubic");
        spec.links[0].forward.rate.clear();
        spec.flows[0].traffic = TrafficSpec::Cbr { rate: orbitcc_core::units::BitRate(1_200_000), packet: None };
        run(&spec).mean(0, "rtt_ms", 1.0, 20.0)
    };
    assert!((rtt(0) - 50.0).abs() < 1e-6, "{}", rtt(0));
    assert!((rtt(4) - 54.0).abs() < 1e-6, "{}", rtt(4));
}

#[test]
fn merged_segments_are_acknowledged_at_once() {
    let acks_per_segment = |gro_segments, rate_mbps| {
        let mut spec = dumbbell(rate_mbps, 20.0, bdp_bytes(rate_mbps, 20.0), 5.0, &["cubic"]);
        spec.tcp.gro_segments = gro_segments;
        let mut world = World::new(&spec, &Policies::new(), Nanos::ZERO).unwrap();
        world.run_until(secs(2.0));
        let read = |world: &World| {
            let [data, acks] = [0, 1].map(|i| world.link_directions()[i].counters.delivered as f64);
            (data, acks)
        };
        let (data, acks) = read(&world);
        world.run();
        let (data_end, acks_end) = read(&world);
        let rate = (data_end - data) * 12_000.0 / 3e6;
        assert!(rate > 0.9 * rate_mbps, "{gro_segments} segments: {rate} Mbit/s");
        (data_end - data) / (acks_end - acks)
    };
    // Without, an ACK for every second segment (and for more while ACKs are compressed in a recovery).
    assert!((1.9..2.4).contains(&acks_per_segment(1, 1_000.0)));
    // 12 us apart at 1 Gbit/s: a poll of 50 us takes five.
    let five = acks_per_segment(16, 1_000.0);
    assert!((4.5..5.5).contains(&five), "{five}");
    let three = acks_per_segment(3, 1_000.0);
    assert!((2.7..3.3).contains(&three), "{three}");
    // 120 us apart at 100 Mbit/s: no poll finds two.
    assert!((1.9..2.4).contains(&acks_per_segment(16, 100.0)));
}

#[test]
fn gates_and_mergers_are_checked() {
    let refused = |change: fn(&mut NetworkSpec)| {
        let mut spec = gated(40, 0, "cubic");
        change(&mut spec);
        spec.validate().unwrap_err().0
    };
    let closed = |s: &mut NetworkSpec| {
        s.links[0].reverse.gate = Some(GateSpec { period: Nanos::ZERO, phase: Nanos::ZERO });
    };
    assert!(refused(closed).contains("links[0].reverse.gate.period = 0"));
    assert!(refused(|s| s.tcp.gro_segments = 0).contains("tcp.gro_segments = 0: must lie in 1 .. 64"));
}
