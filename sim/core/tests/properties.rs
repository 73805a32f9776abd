//! Properties of random networks: conservation, causality, determinism, exact clones.

mod common;

use orbitcc_core::observe::pieces::Preset;
use orbitcc_core::spec::*;
use orbitcc_core::time::Nanos;
use orbitcc_core::units::BitRate;
use orbitcc_core::world::{Policies, World};
use orbitcc_core::worlds::Worlds;
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

fn loss() -> impl Strategy<Value = LossSpec> {
    prop_oneof![
        3 => Just(LossSpec::None),
        2 => (0.0..0.05f64).prop_map(|p| LossSpec::Bernoulli { p }),
        1 => (0.0..0.01f64, 0.1..3.0f64).prop_map(|(good_loss, to_bad_per_s)| LossSpec::GilbertElliott {
            good_loss,
            bad_loss: 1.0,
            to_bad_per_s,
            to_good_per_s: 20.0,
        }),
    ]
}

fn queue() -> impl Strategy<Value = QueueSpec> {
    prop_oneof![
        (3_000..400_000u64).prop_map(|limit| QueueSpec::DropTailBytes { limit }),
        (1..300u64).prop_map(|limit| QueueSpec::DropTailPackets { limit }),
        (20_000..400_000u64).prop_map(|limit| QueueSpec::Viasat {
            limit,
            threshold: limit / 2,
            drop_probability: 0.25
        }),
        managed_queue(),
    ]
}

fn managed_queue() -> impl Strategy<Value = QueueSpec> {
    let ms = |most: u64| (1..=most).prop_map(|ms| Nanos(ms * 1_000_000));
    prop_oneof![
        (1..300u64, ms(10), ms(90)).prop_map(|(limit, target, more)| QueueSpec::Codel(CodelSpec {
            limit,
            target,
            interval: target + more
        })),
        ((1..300u64, 4_096..400_000u64), 1..20u32, 100..4_000u32, 1..70u32, ms(10), ms(90)).prop_map(
            |((limit, memory_limit), flows, quantum, drop_batch, target, more)| {
                let interval = target + more;
                QueueSpec::FqCodel(FqCodelSpec { limit, memory_limit, flows, quantum, drop_batch, target, interval })
            }
        ),
        (1..300u64, ms(20), ms(30), 0..=32u32, 0..=32u32).prop_map(|(limit, target, update, alpha, beta)| {
            QueueSpec::Pie(PieSpec { limit, target, update, alpha, beta })
        }),
        ((3_000..400_000u64), 0.0..1.0f64, 1..12u32, any::<bool>()).prop_map(
            |(limit, max_probability, weight_log2, adaptive)| QueueSpec::Red(RedSpec {
                limit,
                min: limit / 12,
                max: limit / 4,
                max_probability,
                weight_log2,
                packet: 1_000,
                adaptive,
            })
        ),
    ]
}

/// Points at increasing times from 0 on.
fn points<T: std::fmt::Debug + Clone>(
    value: impl Strategy<Value = T>,
    most: usize,
) -> impl Strategy<Value = Vec<(Nanos, T)>> {
    prop::collection::vec((1_000_000..SECOND, value), 1..=most).prop_map(|raw| {
        let mut t = 0;
        raw.into_iter()
            .enumerate()
            .map(|(i, (gap, v))| {
                t += if i == 0 { 0 } else { gap };
                (Nanos(t), v)
            })
            .collect()
    })
}

fn jitter() -> impl Strategy<Value = JitterSpec> {
    let time = |most_ms: u64| (100_000..most_ms * 1_000_000).prop_map(Nanos);
    prop_oneof![
        (time(20), 1..4u32, time(100)).prop_map(|(mean, shape, tau)| JitterSpec::Gamma { mean, shape, tau }),
        (time(40), time(20), time(3_000), time(20), time(200)).prop_map(
            |(mean, sine_sd, sine_period, ar_sd, ar_tau)| JitterSpec::SineAr1 {
                mean,
                sine_sd,
                sine_period,
                ar_sd,
                ar_tau
            }
        ),
    ]
}

fn direction(limited: bool) -> impl Strategy<Value = DirectionSpec> {
    (
        points(prop_oneof![9 => 500_000..50_000_000u64, 1 => Just(0u64)].prop_map(BitRate), 4),
        points((0..60_000_000u64).prop_map(Nanos), 4),
        any::<bool>(),
        points(loss(), 3),
        any::<bool>(),
        queue(),
        any::<bool>(),
        prop::option::weighted(0.2, (1..60_000_000u64, 0..60_000_000u64)),
        prop::option::weighted(0.2, jitter()),
        prop::option::weighted(0.3, 1_600..300_000u64),
    )
        .prop_map(move |(rate, delay, interpolate, loss, ingress, queue, overtaking, gate, jitter, burst)| {
            let stops = rate.iter().any(|(_, rate)| rate.0 == 0);
            DirectionSpec {
                rate: if limited { rate } else { Vec::new() },
                burst: burst.filter(|_| limited && !stops).unwrap_or(0),
                delay: DelaySpec { interpolate, points: delay },
                loss,
                loss_at: if ingress { LossPosition::Ingress } else { LossPosition::Egress },
                queue,
                ordering: if overtaking { Ordering::Overtaking } else { Ordering::Fifo },
                jitter,
                gate: gate.map(|(period, phase)| GateSpec { period: Nanos(period), phase: Nanos(phase) }),
            }
        })
}

fn outages() -> impl Strategy<Value = Vec<OutageSpec>> {
    let one = (1..SECOND, 1_000_000..300_000_000u64, any::<bool>(), 0..3u8, 0..3u8);
    prop::collection::vec(one, 0..4).prop_map(|raw| {
        let mut t = 0;
        raw.into_iter()
            .map(|(gap, duration, drop, flush, directions)| {
                t += gap;
                let outage = OutageSpec {
                    at: Nanos(t),
                    duration: Nanos(duration),
                    mode: if drop { OutageMode::Drop } else { OutageMode::Hold },
                    flush: [Flush::None, Flush::Queue, Flush::All][flush as usize],
                    directions: [Directions::Both, Directions::Forward, Directions::Reverse][directions as usize],
                };
                t += duration;
                outage
            })
            .collect()
    })
}

fn link() -> impl Strategy<Value = LinkSpec> {
    (direction(true), any::<bool>().prop_flat_map(direction), outages()).prop_map(|(forward, reverse, outages)| {
        LinkSpec { name: "link".into(), forward, reverse, outages, handovers: Vec::new() }
    })
}

fn traffic() -> impl Strategy<Value = (String, TrafficSpec)> {
    let names = prop::sample::select(vec![
        "reno", "cubic", "external", "hybla", "vegas", "westwood", "illinois", "bbr", "bbr3", "leocc", "copa", "vivace",
    ]);
    let tcp = prop_oneof![
        4 => Just(TrafficSpec::Bulk),
        2 => (1..2_000_000u64).prop_map(|bytes| TrafficSpec::Bytes { bytes }),
        1 => (100_000..20_000_000u64).prop_map(|r| TrafficSpec::Cbr { rate: BitRate(r) }),
        1 => Just(TrafficSpec::OnOff { rate: None, on: Nanos(SECOND / 3), off: Nanos(SECOND / 3) }),
        1 => (1..20u8).prop_map(|n| TrafficSpec::Objects { per_s: f64::from(n), mean_bytes: 30_000.0, sigma: 1.3 }),
    ];
    prop_oneof![
        5 => (names, tcp).prop_map(|(n, t)| (n.to_string(), t)),
        1 => (100_000..20_000_000u64).prop_map(|r| ("udp".to_string(), TrafficSpec::Cbr { rate: BitRate(r) })),
    ]
}

fn network() -> impl Strategy<Value = NetworkSpec> {
    (prop::collection::vec(link(), 1..=8), any::<u64>(), any::<bool>()).prop_flat_map(|(links, seed, noise)| {
        let n = links.len();
        let reroute = (1..4 * SECOND, 0..n, 1..=n);
        let flow = (
            (0..n, 1..=n, prop::option::weighted(0.2, reroute)),
            0..3 * SECOND,
            prop::option::of(SECOND / 10..2 * SECOND),
            traffic(),
            0..2u64,
        );
        prop::collection::vec(flow, 1..=20).prop_map(move |flows| NetworkSpec {
            seed,
            duration: Nanos(5 * SECOND),
            // A third of the worlds has hosts of the older kernel, a quarter cards that merge segments.
            tcp: TcpSpec {
                kernel: if seed % 3 == 0 { Kernel::V4_15 } else { Kernel::V6 },
                gro_segments: if seed % 4 == 0 { 8 } else { 1 },
                ..TcpSpec::default()
            },
            noise: if noise {
                NoiseSpec { send_jitter: Nanos(200_000), start_jitter: Nanos(50_000_000) }
            } else {
                NoiseSpec::default()
            },
            links: links.clone(),
            flows: flows
                .into_iter()
                .enumerate()
                .map(|(i, ((first, len, reroute), start, life, (name, traffic), uplink))| FlowSpec {
                    name: format!("flow-{i}"),
                    path: (first..(first + len).min(n)).collect(),
                    reroutes: reroute
                        .map(|(at, first, len)| (Nanos(at), (first..(first + len).min(n)).collect()))
                        .into_iter()
                        .collect(),
                    start: Nanos(start),
                    stop: life.map(|l| Nanos(start + l)),
                    uplink_delay: Nanos(uplink * 5_000_000),
                    controller: ControllerSpec { name, params: Default::default() },
                    traffic,
                    follows: None,
                })
                .collect(),
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 24 } else { 160 }))]

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

/// A fixed set of networks for tests across threads and builds.
fn fixed(n: u64) -> Vec<NetworkSpec> {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    (0..n).map(|_| network().new_tree(&mut runner).unwrap().current()).collect()
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

/// The same figure in debug and release builds; `make test` runs both.
#[test]
fn event_logs_do_not_depend_on_the_build() {
    let mut folded = 0u64;
    for hash in hashes(&fixed(6), 2) {
        folded = folded.rotate_left(1) ^ hash;
    }
    assert_eq!(folded, EVENT_LOG, "if the simulator's behaviour changed on purpose, record {folded:#x}");
}

const EVENT_LOG: u64 = 0x88de_4879_5f91_ab0d;
