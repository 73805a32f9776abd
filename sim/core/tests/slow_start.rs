//! How slow start ends on a geostationary link (144 Mbit/s, about 600 ms, a buffer of 36 MB), with and without the
//! jitter of the measured one.

mod common;

use common::{Run, dumbbell, run, secs};
use orbitcc_core::time::Nanos;

/// Delay of the data direction in steps of 20 ms: 282 ms each way and a varying part of 33.5 ms on average. Its standard
/// deviation is `scale` times that of a Viasat link in 2020, 16.9 ms: a sine of 2 s and first-order noise.
fn jittered(seed: u64, scale: f64) -> Vec<(Nanos, Nanos)> {
    let mut state = seed;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let mut noise = 0.0;
    let at = |i: u32| f64::from(i) * 0.02;
    (0..1_500)
        .map(|i| {
            let normal = (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
            noise = 0.9 * noise + 0.19f64.sqrt() * normal;
            let wave = libm::sin(core::f64::consts::PI * at(i) + seed as f64);
            let offset = 33.5 + scale * (14.0 * 2f64.sqrt() * wave + 9.3 * noise);
            (secs(at(i)), secs((282.0 + offset.max(0.0)) / 1e3))
        })
        .collect()
}

fn geo(controller: &str, seed: u64, scale: f64) -> Run {
    let mut spec = dumbbell(144.0, 564.0, 36_000_000, 30.0, &[controller]);
    spec.tcp.hz = 250;
    spec.tcp.wmem[2] = 1 << 28;
    spec.links[0].forward.delay.points = jittered(seed, scale);
    run(&spec)
}

/// The first threshold, packets.
fn exit(run: &Run) -> f64 {
    run.flow(0, "ssthresh_packets").into_iter().find(|s| s.is_finite()).expect("slow start has ended")
}

/// When so many megabytes have arrived.
fn time_of(run: &Run, megabytes: f64) -> f64 {
    let mut bits = 0.0;
    let rates = run.flow(0, "goodput_mbps");
    let step = run.t_s[1] - run.t_s[0];
    let at = rates.iter().position(|mbps| {
        bits += mbps * step;
        bits >= 8.0 * megabytes
    });
    run.t_s[at.expect("as much has arrived")]
}

fn retransmitted(run: &Run) -> u64 {
    run.flow_totals[0].retransmitted_packets
}

#[test]
fn hystart_leaves_early_only_when_jitter_exceeds_its_threshold() {
    for kernel in ["v6", "v4_15"] {
        let exits = |scale| {
            let mut exits = [1, 2, 3, 4, 5].map(|seed| exit(&geo(&format!("cubic:kernel={kernel}"), seed, scale)));
            exits.sort_by(f64::total_cmp);
            exits
        };
        for scale in [0.0, 4.0 / 16.9] {
            assert!(exits(scale)[0] > 5_000.0, "{kernel} {scale}");
        }
        assert!(exits(1.0)[2] < 200.0, "{kernel}");
    }
}

#[test]
fn on_a_clean_link_hystart_saves_the_overshoot_and_costs_no_time() {
    let (on, off) = (geo("cubic", 1, 0.0), geo("cubic:hystart=off", 1, 0.0));
    assert!(retransmitted(&off) > 30_000);
    assert!(retransmitted(&on) * 10 < retransmitted(&off));
    for megabytes in [1.0, 5.0, 30.0] {
        assert_eq!(time_of(&on, megabytes), time_of(&off, megabytes));
    }
}

#[test]
fn under_jitter_the_alternatives_are_faster_than_hystart_and_save_the_overshoot() {
    for seed in [1, 2, 3] {
        let of = |rule| geo(&format!("cubic:hystart={rule}"), seed, 1.0);
        let (hystart, off) = (of("both"), of("off"));
        let slowest = time_of(&hystart, 30.0);
        assert!(slowest > 1.5 * time_of(&off, 30.0), "HyStart leaves too early: {slowest}");
        // Time of 30 MB against HyStart's, retransmissions against none at all.
        for (rule, time, share) in [("nomax", 0.6, 0.2), ("hystart++", 0.8, 0.5), ("search", 0.6, 0.7)] {
            let run = of(rule);
            assert!(time_of(&run, 30.0) < time * slowest, "{rule}: {} of {slowest} s", time_of(&run, 30.0));
            let (ours, all) = (retransmitted(&run), retransmitted(&off));
            assert!((ours as f64) < share * all as f64, "{rule}: {ours} of {all}");
        }
    }
}

#[test]
fn ack_trains_alone_never_fire_below_capacity_under_jitter() {
    let (train, off) = (geo("cubic:hystart=train", 1, 1.0), geo("cubic:hystart=off", 1, 1.0));
    assert!(exit(&train) > 5_000.0, "the pipe is full");
    let (a, b) = (train.mean(0, "goodput_mbps", 0.0, 30.0), off.mean(0, "goodput_mbps", 0.0, 30.0));
    assert!((a / b - 1.0).abs() < 0.1, "{a} {b}");
}

#[test]
fn hybla_leaps_to_its_cap_and_pays_later() {
    let run = geo("hybla", 1, 0.0);
    let window = run.flow(0, "cwnd_packets");
    let first_ack = run.t_s.iter().position(|t| *t > 0.64).expect("30 s");
    assert_eq!((window[0], window[first_ack]), (23.0, 65_535.0));
    assert!(time_of(&run, 10.0) < 4.5);
    assert!(retransmitted(&run) > 10_000, "{}", retransmitted(&run));
}

/// A clean link of exactly 600 ms, receive windows that grow from their default.
fn clean(controller: &str) -> Run {
    let mut spec = dumbbell(144.0, 600.0, 36_000_000, 30.0, &[controller]);
    spec.tcp.hz = 250;
    spec.tcp.wmem[2] = 1 << 28;
    spec.tcp.rmem = [4_096, 131_072, 1 << 28];
    run(&spec)
}

#[test]
fn on_a_clean_link_cubic_fills_the_pipe_by_the_eighth_second_and_hystart_saves_the_overshoot() {
    for kernel in ["v6", "v4_15"] {
        let (on, off) =
            (clean(&format!("cubic:kernel={kernel}")), clean(&format!("cubic:kernel={kernel},hystart=off")));
        assert!(exit(&on) > 5_000.0, "{}", exit(&on));
        assert!(on.wire_mbps(0, 7.0, 8.0) >= 0.95 * 144.0, "{}", on.wire_mbps(0, 7.0, 8.0));
        assert!(15 * retransmitted(&on) < retransmitted(&off), "{} {}", retransmitted(&on), retransmitted(&off));
    }
}

#[test]
fn hybla_s_start_is_limited_by_the_receive_window_alone() {
    for kernel in ["v6", "v4_15"] {
        let run = clean(&format!("hybla:kernel={kernel}"));
        let window = run.flow(0, "cwnd_packets");
        let second_round = run.t_s.iter().position(|t| *t > 1.3).expect("30 s");
        assert_eq!((window[0], window[second_round]), (24.0, 65_535.0));
        assert!((3.6..=5.4).contains(&time_of(&run, 10.0)), "{}", time_of(&run, 10.0));
        assert!(retransmitted(&run) > 10_000, "{}", retransmitted(&run));
    }
}
