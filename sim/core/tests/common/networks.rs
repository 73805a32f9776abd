//! Random networks of all features for property tests.
#![allow(dead_code)]

use orbitcc_core::spec::*;
use orbitcc_core::time::Nanos;
use orbitcc_core::units::BitRate;
use proptest::prelude::*;

pub const SECOND: u64 = 1_000_000_000;

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

fn queue(wire: u64) -> impl Strategy<Value = QueueSpec> {
    prop_oneof![
        3 => (wire..wire + 400_000u64).prop_map(|limit| QueueSpec::DropTailBytes { limit }),
        3 => prop_oneof![1..300u64, 1..5u64, Just(u64::MAX)].prop_map(|limit| QueueSpec::DropTailPackets { limit }),
        1 => (wire..wire + 400_000u64).prop_map(|limit| QueueSpec::Viasat {
            limit,
            threshold: limit / 2,
            drop_probability: 0.25
        }),
        2 => managed_queue(wire),
    ]
}

fn managed_queue(wire: u64) -> impl Strategy<Value = QueueSpec> {
    let ms = |most: u64| (1..=most).prop_map(|ms| Nanos(ms * 1_000_000));
    let marking = || (any::<bool>(), prop::option::weighted(0.2, ms(10)));
    prop_oneof![
        (1..300u64, ms(10), ms(90), marking()).prop_map(|(limit, target, more, (ecn, ce_threshold))| QueueSpec::Codel(
            CodelSpec { limit, target, interval: target + more, ecn, ce_threshold, front: false }
        )),
        ((1..300u64, 4_096..400_000u64), 1..20u32, 100..4_000u32, 1..70u32, (ms(10), ms(90)), marking()).prop_map(
            |((limit, memory_limit), flows, quantum, drop_batch, (target, more), (ecn, ce_threshold))| {
                let interval = target + more;
                QueueSpec::FqCodel(FqCodelSpec {
                    limit,
                    memory_limit,
                    flows,
                    quantum,
                    drop_batch,
                    target,
                    interval,
                    ecn,
                    ce_threshold,
                })
            }
        ),
        (1..300u64, ms(20), ms(30), 0..=32u32, 0..=32u32, any::<bool>()).prop_map(
            |(limit, target, update, alpha, beta, ecn)| {
                QueueSpec::Pie(PieSpec { limit, target, update, alpha, beta, ecn, front: false })
            }
        ),
        ((1..300u64, ms(20), ms(30), ms(5)), (0..400u32, 0..4_000u32), 1..6u32, 0..=100u32, any::<bool>()).prop_map(
            |((limit, target, update, step), (alpha, beta), coupling, classic_weight, drop_overload)| {
                QueueSpec::DualPi2(DualPi2Spec {
                    limit,
                    target,
                    update,
                    alpha,
                    beta,
                    step,
                    coupling,
                    classic_weight,
                    drop_overload,
                    front: false,
                })
            }
        ),
        ((wire.max(100)..wire + 400_000u64), 0.0..1.0f64, 1..12u32, any::<[bool; 3]>()).prop_map(
            |(limit, max_probability, weight_log2, [adaptive, ecn, step])| QueueSpec::Red(RedSpec {
                limit,
                min: if step { limit / 4 } else { limit / 12 },
                max: limit / 4,
                max_probability,
                weight_log2,
                packet: 1_000,
                adaptive,
                ecn,
                front: false,
            })
        ),
    ]
}

/// Times and sizes that meet: whole milliseconds, and rates at which a packet of 1500 bytes takes some of them.
const MS: u64 = 1_000_000;

fn time(most_ms: u64) -> impl Strategy<Value = u64> {
    prop_oneof![(1..=most_ms).prop_map(|ms| ms * MS), 1..most_ms * MS]
}

fn rate() -> impl Strategy<Value = BitRate> {
    let even = prop::sample::select(vec![1_500_000, 3_000_000, 6_000_000, 12_000_000, 24_000_000]);
    prop_oneof![5 => 500_000..50_000_000u64, 4 => even, 1 => Just(0u64)].prop_map(BitRate)
}

fn delay() -> impl Strategy<Value = Nanos> {
    let even = prop::sample::select(vec![0, 1, 2, 5, 10, 40]).prop_map(|ms| ms * MS);
    prop_oneof![0..60_000_000u64, even].prop_map(Nanos)
}

/// Points at increasing times from 0 on.
fn points<T: std::fmt::Debug + Clone>(
    value: impl Strategy<Value = T>,
    most: usize,
) -> impl Strategy<Value = Vec<(Nanos, T)>> {
    prop::collection::vec((time(1_000), value), 1..=most).prop_map(|raw| {
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

fn receiver() -> impl Strategy<Value = ReceiverSpec> {
    prop_oneof![
        7 => Just(ReceiverSpec::Honest),
        1 => (2..20u32, delay()).prop_map(|(segments, hold)| ReceiverSpec::Stretch { segments, hold }),
        1 => (2..9u32).prop_map(|parts| ReceiverSpec::Divide { parts }),
        1 => (0.0..1.0f64).prop_map(|share| ReceiverSpec::Optimistic { share }),
    ]
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

/// `wire`: bytes of the largest packet.
fn direction(limited: bool, wire: u64) -> impl Strategy<Value = DirectionSpec> {
    (
        points(rate(), 4),
        points(delay(), 4),
        any::<bool>(),
        points(loss(), 3),
        any::<bool>(),
        queue(wire),
        any::<bool>(),
        prop::option::weighted(0.2, (time(60), 0..60 * MS)),
        prop::option::weighted(0.2, jitter()),
        (
            prop::option::weighted(0.3, wire..wire + 300_000u64),
            prop::option::weighted(0.2, (0.0..0.3f64, delay())),
            prop::option::weighted(0.2, (0.0..1.0f64, 0.0..0.1f64)),
        ),
    )
        .prop_map(
            move |(
                rate,
                delay,
                interpolate,
                loss,
                ingress,
                queue,
                overtaking,
                gate,
                jitter,
                (burst, late, marking),
            )| {
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
                    late: late.filter(|_| overtaking).map(|(p, delay)| LateSpec { p, delay }),
                    gate: gate.map(|(period, phase)| GateSpec { period: Nanos(period), phase: Nanos(phase) }),
                    bleached: marking.map_or(0.0, |m| m.0),
                    marked: marking.map_or(0.0, |m| m.1),
                }
            },
        )
}

fn outages() -> impl Strategy<Value = Vec<OutageSpec>> {
    let one = (time(1_000), time(300), any::<bool>(), 0..3u8, 0..3u8);
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

fn link(wire: u64) -> impl Strategy<Value = LinkSpec> {
    let reverse = any::<bool>().prop_flat_map(move |limited| direction(limited, wire));
    (direction(true, wire), reverse, outages()).prop_map(|(forward, reverse, outages)| LinkSpec {
        name: "link".into(),
        forward,
        reverse,
        outages,
        handovers: Vec::new(),
    })
}

fn traffic() -> impl Strategy<Value = (String, TrafficSpec)> {
    let names = prop::sample::select(vec![
        "reno", "cubic", "external", "hybla", "vegas", "westwood", "illinois", "bbr", "bbr3", "leocc", "copa",
        "vivace", "dctcp", "prague", "c4",
    ]);
    let tcp = prop_oneof![
        4 => Just(TrafficSpec::Bulk),
        2 => (1..2_000_000u64).prop_map(|bytes| TrafficSpec::Bytes { bytes }),
        1 => rate().prop_map(|rate| TrafficSpec::Cbr { rate: BitRate(rate.0.max(100_000)), packet: None }),
        1 => Just(TrafficSpec::OnOff { rate: None, on: Nanos(SECOND / 3), off: Nanos(SECOND / 3) }),
        1 => (1..20u8).prop_map(|n| TrafficSpec::Objects { per_s: f64::from(n), mean_bytes: 30_000.0, sigma: 1.3 }),
    ];
    prop_oneof![
        5 => (names, tcp).prop_map(|(n, t)| (n.to_string(), t)),
        1 => rate().prop_map(|rate| ("udp".to_string(), TrafficSpec::Cbr { rate: BitRate(rate.0.max(100_000)), packet: None })),
    ]
}

fn tcp() -> impl Strategy<Value = TcpSpec> {
    let mss = prop_oneof![6 => Just(1448u32), 1 => 64..1448u32, 1 => Just(8948u32)];
    let buffer = || prop_oneof![3 => Just(1u64 << 26), 1 => 40_000..300_000u64];
    let kernel = prop_oneof![2 => Just(Kernel::V6), 1 => Just(Kernel::V4_15)];
    let hz = prop::sample::select(vec![100, 250, 1000]);
    let gro_segments = prop_oneof![3 => Just(1u32), 1 => 2..12u32];
    let ecn = prop::sample::select(vec![EcnMode::Off, EcnMode::Classic, EcnMode::Accurate]);
    let cache = prop::sample::select(vec![None, Some(SsthreshCache::Live), Some(SsthreshCache::Segments(20))]);
    (
        (mss, 40..80u32, 40..80u32, 1..40u32),
        (kernel, hz, gro_segments, cache, ecn),
        (buffer(), buffer()),
        any::<[bool; 2]>(),
    )
        .prop_map(|(sizes, (kernel, hz, gro_segments, ssthresh_cache, ecn), (rmem, wmem), [moderate, restart])| {
            let (mss, header_bytes, ack_bytes, initial_cwnd) = sizes;
            let header_bytes = if mss == 1448 { 52 } else { header_bytes };
            TcpSpec {
                kernel,
                mss,
                header_bytes,
                ack_bytes,
                initial_cwnd,
                hz,
                rmem: [4096, 131_072.min(rmem), rmem],
                wmem: [4096, 16_384.min(wmem), wmem],
                moderate_rcvbuf: moderate,
                slow_start_after_idle: restart,
                gro_segments,
                ssthresh_cache,
                ecn,
            }
        })
}

/// Some queues drop from the front, some losses rise with the load.
pub fn network() -> impl Strategy<Value = NetworkSpec> {
    let direction = (prop::bool::weighted(0.4), prop::option::weighted(0.2, (0.0..0.01f64, 0.0..0.1f64, time(3_000))));
    let choices = prop::collection::vec(direction, 16);
    (earlier(), choices).prop_map(|(mut spec, choices)| {
        let directions = spec.links.iter_mut().flat_map(|l| [&mut l.forward, &mut l.reverse]);
        for (direction, (front, load)) in directions.zip(choices) {
            direction.queue = match direction.queue {
                QueueSpec::DropTailBytes { limit } if front => QueueSpec::DropFrontBytes { limit },
                QueueSpec::DropTailPackets { limit } if front => QueueSpec::DropFrontPackets { limit },
                QueueSpec::Codel(spec) => QueueSpec::Codel(CodelSpec { front, ..spec }),
                QueueSpec::Pie(spec) => QueueSpec::Pie(PieSpec { front, ..spec }),
                QueueSpec::Red(spec) => QueueSpec::Red(RedSpec { front, ..spec }),
                QueueSpec::DualPi2(spec) => QueueSpec::DualPi2(DualPi2Spec { front, ..spec }),
                queue => queue,
            };
            if let Some((idle, full, tau)) = load
                && !direction.rate.is_empty()
            {
                let last = direction.loss.len() - 1;
                direction.loss[last].1 = LossSpec::Load { idle, full, tau: Nanos(tau) };
            }
        }
        spec
    })
}

/// Those of which logs are recorded. Hosts as they are by default half of the time.
fn earlier() -> impl Strategy<Value = NetworkSpec> {
    prop_oneof![Just(TcpSpec { header_bytes: 52, ..TcpSpec::default() }), tcp()].prop_flat_map(network_of)
}

fn network_of(tcp: TcpSpec) -> impl Strategy<Value = NetworkSpec> {
    let wire = u64::from(tcp.mss + tcp.header_bytes);
    let noise = prop_oneof![
        2 => Just(NoiseSpec::default()),
        1 => Just(NoiseSpec { send_jitter: Nanos(200_000), start_jitter: Nanos(50 * MS), queue_run_gap: Nanos(150_000) }),
        1 => Just(NoiseSpec { send_jitter: Nanos(3), start_jitter: Nanos::ZERO, queue_run_gap: Nanos::ZERO }),
    ];
    (prop::collection::vec(link(wire), 1..=8), any::<u64>(), noise).prop_flat_map(move |(links, seed, noise)| {
        let n = links.len();
        let reroute = (time(4_000), 0..n, 1..=n);
        let start = prop_oneof![Just(0u64), time(3_000)];
        let life = prop::option::of(prop_oneof![5 => 100 * MS..2 * SECOND, 1 => 1..10 * MS]);
        let flow = (
            (0..n, 1..=n, prop::option::weighted(0.2, reroute)),
            start,
            life,
            traffic(),
            (prop::sample::select(vec![0, 0, 5]), receiver()),
        );
        prop::collection::vec(flow, 1..=20).prop_map(move |flows| NetworkSpec {
            seed,
            duration: Nanos(5 * SECOND),
            tcp,
            noise,
            exact: false,
            links: links.clone(),
            flows: flows
                .into_iter()
                .enumerate()
                .map(|(i, ((first, len, reroute), start, life, (name, traffic), (uplink_ms, receiver)))| FlowSpec {
                    name: format!("flow-{i}"),
                    path: (first..(first + len).min(n)).collect(),
                    return_path: None,
                    reroutes: reroute
                        .map(|(at, first, len)| RerouteSpec {
                            at: Nanos(at),
                            path: (first..(first + len).min(n)).collect(),
                            return_path: None,
                        })
                        .into_iter()
                        .collect(),
                    start: Nanos(start),
                    stop: life.map(|l| Nanos(start + l)),
                    uplink_delay: Nanos(uplink_ms * MS),
                    controller: ControllerSpec { name, params: Default::default() },
                    traffic,
                    receiver,
                    delay_preference: 0.0,
                    follows: None,
                    watched: false,
                    relays: None,
                    quic: None,
                })
                .collect(),
        })
    })
}

/// A fixed set of networks for tests across threads and builds.
pub fn fixed(n: u64) -> Vec<NetworkSpec> {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    (0..n).map(|_| earlier().new_tree(&mut runner).unwrap().current()).collect()
}
