//! Loss recovery seen from outside: tail probes, timeouts, blackouts, undo. Losses are made by outages at known times.

use orbitcc_core::cc::CaState;
use orbitcc_core::spec::*;
use orbitcc_core::time::Nanos;
use orbitcc_core::units::BitRate;
use orbitcc_core::world::{Policies, World};

const MS: u64 = 1_000_000;

/// 100 Mbit/s and 50 ms: a shaper, then a link that carries the delay and the outages.
fn network(traffic: TrafficSpec, outages: Vec<OutageSpec>, delay: Vec<(Nanos, Nanos)>) -> NetworkSpec {
    let shaper = LinkSpec {
        name: "shaper".into(),
        forward: DirectionSpec {
            rate: vec![(Nanos::ZERO, BitRate(100_000_000))],
            queue: QueueSpec::DropTailBytes { limit: 625_000 },
            ..DirectionSpec::default()
        },
        reverse: DirectionSpec::default(),
        outages: Vec::new(),
        handovers: Vec::new(),
    };
    let steady = DelaySpec { interpolate: false, points: vec![(Nanos::ZERO, Nanos(25 * MS))] };
    let path = LinkSpec {
        name: "path".into(),
        forward: DirectionSpec { delay: DelaySpec { interpolate: false, points: delay }, ..DirectionSpec::default() },
        reverse: DirectionSpec { delay: steady, ..DirectionSpec::default() },
        outages,
        handovers: Vec::new(),
    };
    NetworkSpec {
        seed: 1,
        duration: Nanos(20_000 * MS),
        tcp: TcpSpec { header_bytes: 52, ack_bytes: 52, rmem: [4096, 1 << 26, 1 << 28], ..TcpSpec::default() },
        noise: NoiseSpec::default(),
        exact: false,
        links: vec![shaper, path],
        flows: vec![FlowSpec {
            name: "flow".into(),
            path: vec![0, 1],
            return_path: None,
            reroutes: Vec::new(),
            start: Nanos::ZERO,
            stop: None,
            uplink_delay: Nanos::ZERO,
            controller: ControllerSpec { name: "cubic".into(), params: Default::default() },
            traffic,
            receiver: ReceiverSpec::default(),
            delay_preference: 0.0,
            follows: None,
            watched: false,
            relays: None,
            quic: None,
        }],
    }
}

fn steady() -> Vec<(Nanos, Nanos)> {
    vec![(Nanos::ZERO, Nanos(25 * MS))]
}

/// Forward packets that reach the path between `from` and `to` (microseconds) are lost.
fn lose(from_us: u64, to_us: u64) -> OutageSpec {
    OutageSpec {
        at: Nanos::from_micros(from_us),
        duration: Nanos::from_micros(to_us - from_us),
        mode: OutageMode::Drop,
        flush: Flush::None,
        directions: Directions::Forward,
    }
}

fn build(spec: &NetworkSpec) -> World {
    World::new(spec, &Policies::new(), Nanos(100 * MS)).unwrap()
}

/// A transfer of ten segments (one leaves every 0.12 ms); segments from `first` (counted from 0) to the end are lost.
fn ten_segments_losing_from(first: u64) -> World {
    let spec = network(TrafficSpec::Bytes { bytes: 10 * 1448 }, vec![lose(120 * first + 60, 5_000)], steady());
    let mut world = build(&spec);
    world.run();
    world
}

#[test]
fn a_tail_probe_repairs_one_lost_segment_without_a_timeout() {
    let world = ten_segments_losing_from(9);
    let totals = &world.flow_totals()[0];
    assert_eq!((totals.rtos, totals.tail_probes, totals.retransmitted_packets), (0, 1, 1));
    // With one segment out the probe allows for a delayed ACK: it leaves a full timeout (250 ms) after the last ACK.
    let done = totals.finished_s.unwrap();
    assert!((0.28..0.36).contains(&done), "{done}");
}

#[test]
fn a_tail_probe_starts_recovery_of_several_lost_segments() {
    for first in [6, 8] {
        let world = ten_segments_losing_from(first);
        let totals = &world.flow_totals()[0];
        assert_eq!((totals.rtos, totals.tail_probes), (0, 1), "from {first}");
        assert!(totals.finished_s.unwrap() < 0.3, "from {first}: {totals:?}");
    }
}

#[test]
fn a_tail_probe_even_starts_recovery_when_all_is_lost() {
    let world = ten_segments_losing_from(0);
    let totals = &world.flow_totals()[0];
    assert_eq!((totals.rtos, totals.tail_probes), (0, 1));
    assert!(totals.finished_s.unwrap() < 0.4, "{totals:?}");
}

#[test]
fn a_probe_lost_in_a_blackout_leaves_the_restart_to_a_full_timeout_later() {
    // Bulk in steady state; nothing passes from 5.000 s for 150 ms, long enough to swallow the probe.
    let spec = network(TrafficSpec::Bulk, vec![lose(5_000_000, 5_150_000)], steady());
    let mut world = build(&spec);
    world.run_until(Nanos(5_000 * MS));
    let before = world.flow_totals()[0].clone();
    let una = world.flows()[0].sender.conn.snd_una;
    let mut restart = None;
    for t in 5_050..8_000 {
        world.run_until(Nanos(t * MS));
        let sender = &world.flows()[0].sender;
        if restart.is_none() && sender.counters.rtos > before.rtos {
            restart = Some(t - 5_000);
        }
    }
    assert!(world.flows()[0].sender.conn.snd_una > una + 10_000, "the flow goes on");
    if let Some(after_ms) = restart {
        assert!(after_ms > 250, "a timeout counts from the probe: {after_ms} ms");
    }
}

#[test]
fn a_long_blackout_backs_off_and_recovers() {
    let spec = network(TrafficSpec::Bulk, vec![lose(5_000_000, 8_000_000)], steady());
    let mut world = build(&spec);
    world.run_until(Nanos(8_000 * MS));
    let rtos = world.flow_totals()[0].rtos;
    assert!((2..=5).contains(&rtos), "doubling timeouts in 3 s: {rtos}");
    let sender = &world.flows()[0].sender;
    assert_eq!((sender.conn.state, sender.conn.cwnd), (CaState::Loss, 1));
    let received = world.flows()[0].received_bytes();
    world.run_until(Nanos(20_000 * MS));
    let gained = (world.flows()[0].received_bytes() - received) as f64 * 8e-6 / 12.0;
    assert!(gained > 60.0, "{gained} Mbit/s after the blackout");
}

#[test]
fn a_delay_jump_times_out_spuriously_and_is_undone() {
    // 25 -> 925 ms one way at 5 s: ACKs come later than the tail probe and the timeout after it, but nothing is lost.
    let delay = vec![(Nanos::ZERO, Nanos(25 * MS)), (Nanos(5_000 * MS), Nanos(925 * MS))];
    let mut world = build(&network(TrafficSpec::Bulk, Vec::new(), delay));
    world.run_until(Nanos(5_000 * MS));
    let before = world.flows()[0].sender.conn.cwnd;
    let lost = world.link(0).counters.dropped;
    let mut lowest = before;
    for t in 5_001..7_500 {
        world.run_until(Nanos(t * MS));
        lowest = lowest.min(world.flows()[0].sender.conn.cwnd);
    }
    let sender = &world.flows()[0].sender;
    assert!(sender.counters.rtos >= 1, "the jump must look like a loss");
    assert!(lowest < before / 2, "and cut the window: {lowest} of {before}");
    assert!(sender.conn.cwnd >= before, "until it is undone: {} of {before}", sender.conn.cwnd);
    assert_eq!(world.link(0).counters.dropped, lost);
}

#[test]
fn reordering_widens_the_window_but_loses_nothing() {
    // The pipe lets later packets overtake each time the delay falls.
    let delay: Vec<_> = (0..100u64).map(|k| (Nanos(k * 100 * MS), Nanos((20 + 10 * (k % 2)) * MS))).collect();
    let mut spec = network(TrafficSpec::Bulk, Vec::new(), delay);
    spec.links[1].forward.ordering = Ordering::Overtaking;
    spec.duration = Nanos(10_000 * MS);
    let mut world = build(&spec);
    world.run();
    let totals = &world.flow_totals()[0];
    let dropped = world.link_totals().iter().map(|l| l.dropped_packets).sum::<u64>();
    assert_eq!(totals.rtos, 0);
    // Few retransmissions remain once the reordering is known.
    assert!(totals.retransmitted_packets < dropped + 200, "{totals:?}, {dropped} dropped");
    assert!(totals.goodput_mbps > 30.0, "{totals:?}");
}

#[test]
fn impossible_networks_are_refused() {
    let refused = |change: fn(&mut NetworkSpec)| {
        let mut spec = network(TrafficSpec::Bulk, Vec::new(), steady());
        change(&mut spec);
        spec.validate().unwrap_err().0
    };
    assert!(refused(|s| s.flows[0].path = vec![2]).contains("no such link"));
    assert!(refused(|s| s.tcp.rmem[1] = 2048).contains("tcp.rmem"));
    assert!(refused(|s| s.tcp.hz = 300).contains("tcp.hz"));
    assert!(refused(|s| s.links[0].forward.queue = QueueSpec::DropTailBytes { limit: 100 }).contains("queue.limit"));
    assert!(refused(|s| s.duration = Nanos::from_secs(1_000_000)).contains("duration"));
    let repeat = |s: &mut NetworkSpec| {
        s.links[1].handovers = vec![HandoverSpec { at: Nanos(5), duration: Nanos::ZERO }; 2];
    };
    assert!(refused(repeat).contains("links[1].handovers[1].at = 5"));
    assert!(refused(|s| s.flows[0].controller.name = "cubik".into()).contains("must be one of"));
    let instant = |s: &mut NetworkSpec| {
        s.links[0].forward = DirectionSpec::default();
        s.links[1].forward = DirectionSpec::default();
        s.links[1].reverse = DirectionSpec::default();
    };
    assert!(refused(instant).contains("a rate, or a delay"));
}

/// A flow of 20 s, then another: the threshold the first ends with, and the one the second starts with.
fn thresholds(kernel: Kernel, cache: Option<SsthreshCache>, path: [usize; 2]) -> [u32; 2] {
    let mut spec = network(TrafficSpec::Bulk, Vec::new(), steady());
    spec.tcp = TcpSpec { kernel, ssthresh_cache: cache, ..spec.tcp };
    spec.duration = Nanos(60_000 * MS);
    let mut other = spec.links[1].clone();
    other.name = "other".into();
    spec.links.push(other);
    spec.flows[0].stop = Some(Nanos(20_000 * MS));
    let mut second = spec.flows[0].clone();
    second.name = "second".into();
    second.path = path.to_vec();
    (second.start, second.stop) = (Nanos(21_000 * MS), None);
    spec.flows.push(second);
    let mut world = build(&spec);

    world.run_until(Nanos(19_999 * MS));
    let first = world.flows()[0].sender.conn.clone();
    assert!(first.ssthresh < 1 << 20 && first.cwnd >= first.ssthresh, "{first:?}");
    world.run_until(Nanos(21_001 * MS));
    [first.ssthresh.max(first.cwnd >> 1), world.flows()[1].sender.conn.ssthresh]
}

#[test]
fn linux_4_15_starts_with_the_threshold_its_path_left() {
    let infinite = orbitcc_core::cc::SSTHRESH_INFINITE;
    let got = thresholds(Kernel::V4_15, None, [0, 1]);
    assert_eq!(got[0], got[1]);
    assert_eq!(thresholds(Kernel::V4_15, None, [0, 2])[1], infinite, "another destination");
    assert_eq!(thresholds(Kernel::V4_15, Some(SsthreshCache::Off), [0, 1])[1], infinite);
    assert_eq!(thresholds(Kernel::V6, None, [0, 1])[1], infinite);
    assert_eq!(thresholds(Kernel::V6, Some(SsthreshCache::Segments(77)), [0, 2])[1], 77);
}
