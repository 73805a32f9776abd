//! What named worlds did, event for event: `event_logs.txt` has a row for each, its totals beside the hash of its log, so
//! that a recording anew shows in the difference of two files what has moved, and where.
//!
//! RECORD=1 writes the file.

mod common;

use orbitcc_core::observe::preset::Preset;
use orbitcc_core::spec::*;
use orbitcc_core::time::Nanos;
use orbitcc_core::world::{Policies, World};
use orbitcc_core::worlds::Worlds;

use common::networks::fixed;
use common::*;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/event_logs.txt");
const RATE_MBPS: f64 = 12.0;
const RTT_MS: f64 = 40.0;
const SECONDS: f64 = 12.0;

/// One bottleneck whose delay rises and falls as at a handover.
fn plain(flows: &[&str]) -> NetworkSpec {
    let base = dumbbell(RATE_MBPS, RTT_MS, bdp_bytes(RATE_MBPS, RTT_MS), SECONDS, flows);
    let mut spec = with_noise(base, RATE_MBPS, RTT_MS);
    let way = delay(&[(0.0, RTT_MS / 2.0), (4.0, RTT_MS), (8.0, RTT_MS / 2.0)]);
    spec.links[0].forward.delay = way.clone();
    spec.links[0].reverse.delay = way;
    spec
}

fn with_loss(flow: &str, loss: LossSpec) -> NetworkSpec {
    let mut spec = plain(&[flow]);
    spec.links[0].forward.loss = vec![(Nanos::ZERO, loss)];
    spec
}

fn with_queue(queue: QueueSpec) -> NetworkSpec {
    let mut spec = plain(&["cubic", "reno"]);
    spec.links[0].forward.queue = queue;
    spec
}

/// Flows with ECN through a queue that marks.
fn with_marks(flows: &[&str], queue: QueueSpec, ecn: EcnMode) -> NetworkSpec {
    let mut spec = plain(flows);
    spec.links[0].forward.queue = queue;
    spec.tcp.ecn = ecn;
    spec
}

fn with_outage(mode: OutageMode, flush: Flush) -> NetworkSpec {
    let mut spec = plain(&["cubic"]);
    let duration = secs(0.3);
    spec.links[0].outages = vec![OutageSpec { at: secs(5.0), duration, mode, flush, directions: Directions::Both }];
    spec
}

fn with_jitter(ordering: Ordering) -> NetworkSpec {
    let mut spec = plain(&["cubic"]);
    spec.links[0].forward.jitter = Some(JitterSpec::Gamma { mean: secs(0.005), shape: 2, tau: secs(0.02) });
    spec.links[0].forward.ordering = ordering;
    spec
}

fn with_receiver(receiver: ReceiverSpec) -> NetworkSpec {
    let mut spec = plain(&["reno"]);
    spec.flows[0].receiver = receiver;
    spec
}

fn named() -> Vec<(String, NetworkSpec)> {
    let ms = |n: u64| Nanos::from_millis(n);
    let controllers = [
        "reno",
        "cubic",
        "cubic:hystart=search",
        "hybla",
        "vegas",
        "westwood",
        "illinois",
        "bbr",
        "bbr3",
        "bbr3:draft=06",
        "leocc",
        "c4",
        "c4:flavour=picoquic",
        "copa",
        "vivace",
        "satcp",
    ];
    let mut worlds: Vec<(String, NetworkSpec)> = controllers.iter().map(|c| ((*c).into(), plain(&[c]))).collect();
    let one_percent = || LossSpec::Bernoulli { p: 0.01 };
    let bursts = LossSpec::GilbertElliott { good_loss: 0.0, bad_loss: 0.8, to_bad_per_s: 1.0, to_good_per_s: 30.0 };
    let codel =
        CodelSpec { limit: 100, target: ms(5), interval: ms(100), ecn: false, ce_threshold: None, front: false };
    let fq = FqCodelSpec {
        limit: 100,
        memory_limit: 400_000,
        flows: 16,
        quantum: 1_500,
        drop_batch: 64,
        target: ms(5),
        interval: ms(100),
        ecn: true,
        ce_threshold: None,
    };
    let pie = PieSpec { limit: 100, target: ms(15), update: ms(15), alpha: 2, beta: 20, ecn: false, front: false };
    let red = RedSpec {
        limit: 150_000,
        min: 12_500,
        max: 37_500,
        max_probability: 0.02,
        weight_log2: 9,
        packet: 1_000,
        adaptive: true,
        ecn: false,
        front: false,
    };
    let dual = DualPi2Spec {
        limit: 1_000,
        target: ms(15),
        update: ms(16),
        alpha: 41,
        beta: 819,
        step: ms(1),
        coupling: 2,
        classic_weight: 10,
        drop_overload: true,
        front: false,
    };
    let step = RedSpec { min: 15_000, max: 15_000, weight_log2: 1, adaptive: false, ecn: true, ..red };
    let more = [
        ("cubic, losses of 1 %", with_loss("cubic", one_percent())),
        ("cubic, losses in bursts", with_loss("cubic", bursts)),
        ("bbr3, losses in bursts", with_loss("bbr3", bursts)),
        ("agent, losses of 1 %", with_loss("external", one_percent())),
        ("codel", with_queue(QueueSpec::Codel(codel))),
        ("fq-codel", with_queue(QueueSpec::FqCodel(fq))),
        ("pie", with_queue(QueueSpec::Pie(pie))),
        ("red", with_queue(QueueSpec::Red(red))),
        ("outage, packets dropped", with_outage(OutageMode::Drop, Flush::All)),
        ("outage, packets held", with_outage(OutageMode::Hold, Flush::None)),
        ("jitter in order", with_jitter(Ordering::Fifo)),
        ("jitter that reorders", with_jitter(Ordering::Overtaking)),
        ("stretched ACKs", with_receiver(ReceiverSpec::Stretch { segments: 8, hold: ms(20) })),
        ("divided ACKs", with_receiver(ReceiverSpec::Divide { parts: 4 })),
        ("cubic beside bbr3", plain(&["cubic", "bbr3"])),
        (
            "codel, marks",
            with_marks(&["cubic", "reno"], QueueSpec::Codel(CodelSpec { ecn: true, ..codel }), EcnMode::Classic),
        ),
        (
            "red, accurate marks",
            with_marks(&["cubic", "bbr"], QueueSpec::Red(RedSpec { ecn: true, ..red }), EcnMode::Accurate),
        ),
        ("c4 marked", with_marks(&["c4"], QueueSpec::DualPi2(dual), EcnMode::Off)),
        ("prague beside cubic", with_marks(&["prague", "cubic"], QueueSpec::DualPi2(dual), EcnMode::Classic)),
        ("dctcp at a step", with_marks(&["dctcp"], QueueSpec::Red(step), EcnMode::Off)),
        ("drops from the front", with_queue(QueueSpec::DropFrontBytes { limit: 60_000 })),
        ("codel, from the front", with_queue(QueueSpec::Codel(CodelSpec { limit: 20, front: true, ..codel }))),
        ("pie, from the front", with_queue(QueueSpec::Pie(PieSpec { front: true, ..pie }))),
        ("red, from the front", with_queue(QueueSpec::Red(RedSpec { front: true, ..red }))),
        ("losses that follow load", with_loss("cubic", LossSpec::Load { idle: 1e-3, full: 0.02, tau: ms(500) })),
    ];
    worlds.extend(more.into_iter().map(|(name, spec)| (name.to_string(), spec)));
    worlds
}

fn row(name: &str, world: &mut World) -> String {
    let (flows, links) = (world.flow_totals(), world.link_totals());
    let sum = |of: fn(&orbitcc_core::world::totals::FlowTotals) -> u64| flows.iter().map(of).sum::<u64>();
    format!(
        "{name:<26} {:016x} {:>9} {:>7} {:>6} {:>6} {:>4} {:>6} {:>7} {:>9.1}\n",
        world.event_hash(),
        sum(|f| f.received_bytes) / 1_000,
        sum(|f| f.sent_packets),
        sum(|f| f.retransmitted_packets),
        sum(|f| f.lost_packets),
        sum(|f| f.rtos),
        sum(|f| f.tail_probes),
        links.iter().map(|l| l.dropped_packets).sum::<u64>(),
        links.iter().map(|l| l.queue_bytes_mean).sum::<f64>() / 1_000.0,
    )
}

/// Random networks of Astraea's agents, stepped with actions that depend on a world's number only.
fn agents() -> Vec<(String, Worlds)> {
    let (agents, features) = (20, 50);
    let one = |(i, spec): (usize, NetworkSpec)| {
        let preset = Preset::astraea(Nanos::from_millis(30));
        let mut worlds = Worlds::new(std::slice::from_ref(&spec), agents, preset, 1, Policies::new(), None).unwrap();
        let (mut obs, mut reward) = (vec![0.0; agents * features], vec![0.0; agents]);
        let mut status = vec![0; agents];
        for step in 0..160u32 {
            let action = ((spec.seed as u32 ^ step) % 7) as f32 / 3.0 - 1.0;
            worlds.step(Some(&vec![action; agents]), &mut obs, &mut reward, &mut status).unwrap();
        }
        (format!("random network {i}"), worlds)
    };
    fixed(6).into_iter().enumerate().map(one).collect()
}

#[test]
fn named_worlds_do_what_they_did() {
    let mut rows = format!(
        "{:<26} {:<16} {:>9} {:>7} {:>6} {:>6} {:>4} {:>6} {:>7} {:>9}\n",
        "world", "log", "received", "sent", "again", "lost", "rtos", "probes", "dropped", "queue"
    );
    for (name, spec) in named() {
        let mut world = World::new(&spec, &Policies::new(), Nanos::ZERO).unwrap();
        world.run();
        rows += &row(&name, &mut world);
    }
    for (name, mut worlds) in agents() {
        rows += &row(&name, &mut worlds.member_mut(0).world);
    }
    rows += "received and queue (mean) in kB; the other columns count packets or times\n";
    if std::env::var_os("RECORD").is_some() {
        std::fs::write(FILE, &rows).unwrap();
    }
    let recorded = std::fs::read_to_string(FILE).unwrap();
    let moved: Vec<String> = recorded
        .lines()
        .zip(rows.lines())
        .filter(|(was, is)| was != is)
        .map(|(was, is)| format!("- {was}\n+ {is}"))
        .collect();
    let as_recorded = recorded == rows;
    assert!(as_recorded, "if this changed on purpose, record it with RECORD=1:\n{}", moved.join("\n"));
}
