//! Queue disciplines seen from outside: what they do to the delay and to the shares of flows.

mod common;

use common::{Run, dumbbell, flow, run, secs};
use orbitcc_core::spec::*;
use orbitcc_core::time::Nanos;
use orbitcc_core::units::BitRate;

const MS: u64 = 1_000_000;
/// Milliseconds that a byte takes at 100 Mbit/s.
const MS_PER_BYTE: f64 = 8e-5;

const CODEL: CodelSpec = CodelSpec {
    limit: 1_000,
    target: Nanos(5 * MS),
    interval: Nanos(100 * MS),
    ecn: false,
    ce_threshold: None,
    front: false,
};
const FQ_CODEL: FqCodelSpec = FqCodelSpec {
    limit: 10_240,
    memory_limit: 32 << 20,
    flows: 1024,
    quantum: 1514,
    drop_batch: 64,
    target: Nanos(5 * MS),
    interval: Nanos(100 * MS),
    ecn: true,
    ce_threshold: None,
};
const PIE: PieSpec = PieSpec {
    limit: 1_000,
    target: Nanos(15 * MS),
    update: Nanos(15 * MS),
    alpha: 2,
    beta: 20,
    ecn: false,
    front: false,
};
const RED: RedSpec = RedSpec {
    limit: 2_000_000,
    min: 100_000,
    max: 400_000,
    max_probability: 0.02,
    weight_log2: 9,
    packet: 1_500,
    adaptive: false,
    ecn: false,
    front: false,
};

/// Bulk flows over 100 Mbit/s and 50 ms for 60 s.
fn bulk(queue: QueueSpec, controllers: &[&str]) -> NetworkSpec {
    let mut spec = dumbbell(100.0, 50.0, 0, 60.0, controllers);
    spec.links[0].forward.queue = queue;
    spec
}

/// Queueing delay of link 0 in each interval after 10 s, milliseconds, in increasing order.
fn delays_ms(run: &Run) -> Vec<f64> {
    let queue = run.link(0, "queue_bytes");
    let mut delays: Vec<f64> =
        run.t_s.iter().zip(queue).filter(|(t, _)| **t > 10.0).map(|(_, bytes)| bytes * MS_PER_BYTE).collect();
    delays.sort_by(f64::total_cmp);
    delays
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Share of the packets offered to link 0 after 10 s that its queue dropped.
fn drop_share(run: &Run) -> f64 {
    let after = |series: &str| -> f64 {
        run.t_s.iter().zip(run.link(0, series)).filter(|(t, _)| **t > 10.0).map(|x| x.1).sum()
    };
    let dropped = after("dropped_packets");
    let delivered = after("delivered_mbps") * common::INTERVAL_S * 1e6 / 12_000.0;
    dropped / (dropped + delivered)
}

fn goodput(run: &Run, flows: usize) -> f64 {
    (0..flows).map(|i| run.wire_mbps(i, 10.0, 60.0)).sum()
}

#[test]
fn codel_lets_the_delay_stand_at_its_target_only() {
    // One flow: each time the delay has been above 5 ms for an interval one packet is dropped, and the window's cut
    // empties the queue (it held no bandwidth-delay product).
    let one = run(&bulk(QueueSpec::Codel(CODEL), &["cubic"]));
    let delays = delays_ms(&one);
    let peak = delays[delays.len() - 1];
    assert!((5.0..7.0).contains(&peak), "{peak} ms");
    assert!(goodput(&one, 1) > 90.0, "{}", goodput(&one, 1));
    assert_eq!(one.link_totals[0].dropped_packets as usize, one.flow_totals[0].retransmitted_packets as usize);
    // Twenty flows share the drops: the queue never empties, and its delay stays about the target.
    let twenty = run(&bulk(QueueSpec::Codel(CODEL), &["cubic"; 20]));
    let delays = delays_ms(&twenty);
    assert!((4.0..8.0).contains(&mean(&delays)), "{}", mean(&delays));
    assert!(delays[delays.len() / 20] > 3.0 && delays[delays.len() * 19 / 20] < 10.0);
    assert!(goodput(&twenty, 20) > 99.5);
}

#[test]
fn pie_holds_the_delay_at_its_target() {
    for flows in [4, 20] {
        let run = run(&bulk(QueueSpec::Pie(PIE), &vec!["cubic"; flows]));
        let delay = mean(&delays_ms(&run));
        assert!((13.5..16.5).contains(&delay), "{flows} flows: {delay} ms");
        assert!(goodput(&run, flows) > 99.5);
    }
    // One flow: its saw's teeth end about the target.
    let one = run(&bulk(QueueSpec::Pie(PIE), &["cubic"]));
    let delays = delays_ms(&one);
    assert!((15.0..22.0).contains(&delays[delays.len() * 19 / 20]));
    assert!(goodput(&one, 1) > 99.0);
}

#[test]
fn red_keeps_the_average_between_its_thresholds() {
    let run = run(&bulk(QueueSpec::Red(RED), &["cubic"; 40]));
    let delays = delays_ms(&run);
    let (low, high) = (RED.min as f64 * MS_PER_BYTE, RED.max as f64 * MS_PER_BYTE);
    assert!(delays[delays.len() / 20] > low && delays[delays.len() - 1] < high);
    // Probability and average fit: 2 % x (average - min) / (max - min) of what is offered.
    let probability = 0.02 * (mean(&delays) - low) / (high - low);
    let share = drop_share(&run);
    // Gaps uniform in 1 .. 1/p have a mean of half of that.
    assert!((share / (2.0 * probability) - 1.0).abs() < 0.15, "{share} dropped, probability {probability}");
}

#[test]
fn adaptive_red_keeps_the_average_in_the_middle_of_them() {
    let run = run(&bulk(QueueSpec::Red(RedSpec { adaptive: true, ..RED }), &["cubic"; 80]));
    let average = mean(&delays_ms(&run)) / MS_PER_BYTE;
    let share = (average - RED.min as f64) / (RED.max - RED.min) as f64;
    assert!((0.4..0.6).contains(&share), "{share}");
}

/// Mean and largest RTT of a flow of 1 Mbit/s beside four bulk flows, milliseconds.
fn thin_flow_rtt_ms(queue: QueueSpec) -> (f64, f64) {
    let mut spec = bulk(queue, &["cubic"; 5]);
    spec.flows[0].traffic = TrafficSpec::Cbr { rate: BitRate(1_000_000), packet: None };
    let run = run(&spec);
    assert!((run.wire_mbps(0, 10.0, 60.0) - 1.0).abs() < 0.01);
    assert!(goodput(&run, 5) > 97.0);
    let rtts = run.flow(0, "rtt_ms");
    let rtts: Vec<f64> = run.t_s.iter().zip(rtts).filter(|(t, rtt)| **t > 1.0 && *rtt > 0.0).map(|x| x.1).collect();
    (mean(&rtts), rtts.iter().copied().fold(0.0, f64::max))
}

#[test]
fn fq_codel_spares_a_thin_flow_the_queue_of_the_bulk() {
    let (fifo, _) = thin_flow_rtt_ms(QueueSpec::DropTailBytes { limit: 625_000 });
    assert!(fifo > 80.0, "behind the bulk's packets it waits as they do: {fifo} ms");
    let (mean, most) = thin_flow_rtt_ms(QueueSpec::FqCodel(FQ_CODEL));
    assert!(mean < 50.5 && most < 55.0, "mean {mean} ms, most {most} ms");
}

#[test]
fn fq_codel_gives_flows_of_different_kind_equal_shares() {
    let shares = |queue| {
        let mut spec = bulk(queue, &["cubic", "cubic"]);
        // 40 Mbit/s of datagrams beside what two flows of very different RTT can take.
        spec.flows[1].uplink_delay = Nanos(150 * MS);
        let mut datagrams = flow("udp");
        datagrams.traffic = TrafficSpec::Cbr { rate: BitRate(40_000_000), packet: None };
        spec.flows.push(datagrams);
        let run = run(&spec);
        [run.wire_mbps(0, 20.0, 60.0), run.wire_mbps(1, 20.0, 60.0)]
    };
    let [near, far] = shares(QueueSpec::FqCodel(FQ_CODEL));
    assert!((30.0..37.0).contains(&near) && (25.0..37.0).contains(&far), "{near}, {far} Mbit/s");
    let [near, far] = shares(QueueSpec::DropTailBytes { limit: 625_000 });
    assert!(near > 1.5 * far, "a FIFO favours the shorter RTT: {near}, {far} Mbit/s");
}

/// CBR datagrams of `mbps` into 10 Mbit/s for 60 s.
fn overload(queue: QueueSpec, mbps: u64) -> Run {
    let mut spec = dumbbell(10.0, 20.0, 0, 60.0, &["udp"]);
    spec.links[0].forward.queue = queue;
    spec.flows[0].traffic = TrafficSpec::Cbr { rate: BitRate(mbps * 1_000_000), packet: None };
    run(&spec)
}

#[test]
fn pie_drops_the_excess_of_traffic_that_does_not_yield() {
    // 12 into 10: a sixth must go, and the delay comes back to the target.
    let run = overload(QueueSpec::Pie(PIE), 12);
    let share = drop_share(&run);
    assert!((share - 1.0 / 6.0).abs() < 0.01, "{share}");
    let delay = run.queue(30.0, 60.0) * 8e-4;
    assert!((12.0..20.0).contains(&delay), "{delay} ms");
}

#[test]
fn codel_drops_ever_faster_until_the_excess_is_gone() {
    // 12 into 10: 167 packets a second too many. 10 sqrt(count) drops a second make 25 t² drops after t seconds: 50
    // more in each second than in the one before, until the queue is gone. Then it starts again from what its memory
    // says.
    let run = overload(QueueSpec::Codel(CODEL), 12);
    let per_second: Vec<f64> = run.link(0, "dropped_packets").chunks(100).map(|second| second.iter().sum()).collect();
    for second in 1..6 {
        let growth = per_second[second] - per_second[second - 1];
        assert!((48.0..=52.0).contains(&growth), "{per_second:?}");
    }
    let peak_ms = |from, to| run.queue_peak(from, to) * 8e-4;
    assert!((300.0..350.0).contains(&peak_ms(0.0, 10.0)));
    assert!((100.0..200.0).contains(&peak_ms(10.0, 60.0)), "{} ms", peak_ms(10.0, 60.0));
}

#[test]
fn a_held_outage_leaves_managed_queues_in_order() {
    for queue in [QueueSpec::Codel(CODEL), QueueSpec::FqCodel(FQ_CODEL), QueueSpec::Pie(PIE), QueueSpec::Red(RED)] {
        for flush in [Flush::None, Flush::Queue, Flush::All] {
            let mut spec = bulk(queue, &["cubic", "reno"]);
            spec.duration = secs(30.0);
            let at = |s| OutageSpec {
                at: secs(s),
                duration: secs(0.3),
                mode: OutageMode::Hold,
                flush,
                directions: Directions::Both,
            };
            spec.links[0].outages = vec![at(5.0), at(10.0)];
            let run = run(&spec);
            let rate = run.wire_mbps(0, 15.0, 30.0) + run.wire_mbps(1, 15.0, 30.0);
            assert!(rate > 80.0, "{queue:?}, {flush:?}: {rate} Mbit/s");
        }
    }
}

/// What has come by then is met before a link's loss changes, though its pipe is not empty.
#[test]
fn queues_are_counted_right_when_the_loss_changes() {
    let mut spec = common::with_noise(common::dumbbell(10.0, 100.0, 60_000, 5.0, &["cubic", "cubic"]), 10.0, 100.0);
    let loss = |k: u64| LossSpec::Bernoulli { p: if k.is_multiple_of(2) { 1e-4 } else { 1e-3 } };
    spec.links[0].forward.loss = (0..500).map(|k| (Nanos(k * 9_876_543), loss(k))).collect();
    let run = common::run(&spec);
    let queue = &run.link_totals[0];
    assert!(queue.queue_bytes_mean <= 60_000.0 && queue.queue_bytes_max <= 60_000, "{queue:?}");
}
