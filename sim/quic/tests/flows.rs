//! Flows of QUIC over the simulator's links.

use orbitcc_core::observe::preset::Preset;
use orbitcc_core::observe::registry;
use orbitcc_core::spec::NetworkSpec;
use orbitcc_core::time::Nanos;
use orbitcc_core::world::recorder::FLOW_SERIES;
use orbitcc_core::world::totals::FlowTotals;
use orbitcc_core::world::{Policies, World};
use serde_json::{Value, json};

const MS: u64 = 1_000_000;

/// A link of 100 Mbit/s and 50 ms with a queue of one bandwidth-delay product; `changes` to it and the network.
fn network(flows: &[Value], seconds: u64, changes: Value) -> NetworkSpec {
    let way = json!({"rate": [[0, 100_000_000]], "delay": {"points": [[0, 25 * MS]]},
                     "queue": {"kind": "drop_tail_bytes", "limit": 625_000}});
    let mut link = json!({"name": "link", "forward": way, "reverse": way, "outages": []});
    for (path, value) in changes.as_object().unwrap() {
        let (parent, field) = path.rsplit_once('/').unwrap();
        link.pointer_mut(parent).unwrap()[field] = value.clone();
    }
    let spec = json!({"seed": 7, "duration": seconds * 1_000 * MS, "flows": flows, "links": [link]});
    NetworkSpec::from_json(&spec.to_string()).unwrap()
}

/// A flow whose windows do not limit it, unless `options` say so.
fn flow(controller: &str, options: Value) -> Value {
    let mut quic = json!({"stream_window": 100_000_000, "send_window": 100_000_000});
    quic.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
    json!({"name": controller, "path": [0], "controller": {"name": controller}, "quic": quic})
}

fn with(mut flow: Value, field: &str, value: Value) -> Value {
    flow[field] = value;
    flow
}

fn preset() -> Preset {
    let preset = Preset::astraea(Nanos::from_millis(30));
    Preset { observation: registry::observation(&json!("ratios")).unwrap().into(), ..preset }
}

fn world(spec: &NetworkSpec) -> World {
    let mut world = World::with_agents(spec, &Policies::new(), Nanos::from_millis(1), &preset()).unwrap();
    orbitcc_quic::host(spec, &mut world);
    world
}

fn run(spec: &NetworkSpec) -> (FlowTotals, World) {
    let mut world = world(spec);
    world.run();
    assert!(world.failure().is_none());
    (world.flow_totals().remove(0), world)
}

fn close(found: f64, wanted: f64, tolerance: f64, what: &str) {
    assert!((found / wanted - 1.0).abs() <= tolerance, "{what}: {found}, not {wanted}");
}

#[test]
fn quinns_controllers_do_what_a_separate_program_measured() {
    // A program of its own over the same links: smoothed RTT and losses in 20 s.
    for (name, srtt_ms, lost) in [("quinn-newreno", 68.6, 866.0), ("quinn-cubic", 85.0, 1_229.0)] {
        let (flow, mut world) = run(&network(&[flow(name, json!({}))], 20, json!({})));
        close(flow.srtt_ms, srtt_ms, 0.02, name);
        close(flow.lost_packets as f64, lost, 0.02, name);
        let link = &world.link_totals()[0];
        assert!(link.utilisation > 0.97, "{name}: {}", link.utilisation);
        assert!(flow.lost_packets.abs_diff(link.dropped_packets) <= 3, "{name}: {}", link.dropped_packets);
    }
}

#[test]
fn runs_repeat_bit_for_bit_also_beside_tcp_and_without_shortcuts() {
    let hard = json!({"/forward/queue": {"kind": "codel", "limit": 1000, "target": 5 * MS, "interval": 100 * MS, "ecn": true},
        "/forward/loss": [[0, {"kind": "bernoulli", "p": 0.01}]],
        "/outages": [{"at": 2_000 * MS, "duration": 300 * MS, "mode": "drop", "flush": "queue", "directions": "both"}]});
    let tcp = json!({"name": "tcp", "path": [0], "controller": {"name": "cubic"}, "start": 500 * MS});
    for name in ["quinn-cubic", "quinn-bbr", "bbr"] {
        let spec = NetworkSpec { exact: false, ..network(&[flow(name, json!({})), tcp.clone()], 6, hard.clone()) };
        let told = |spec: &NetworkSpec| {
            let (_, mut world) = run(spec);
            let recorded = format!("{:?}", world.recorder().unwrap().flows);
            (world.event_hash(), format!("{:?} {:?}", world.flow_totals(), world.link_totals()), recorded)
        };
        let first = told(&spec);
        assert_eq!(first, told(&spec), "{name}");
        assert_eq!(first, told(&NetworkSpec { exact: true, ..spec.clone() }), "{name}, without shortcuts");
        assert_ne!(first.0, told(&NetworkSpec { seed: 8, ..spec }).0, "{name}: another seed is another run");
    }
}

#[test]
fn windows_of_an_agent_make_the_queues_that_arithmetic_says() {
    // In units of 625,000 bytes: the queue holds what is beyond the first.
    for (windows, rtt_ms) in [(0.5, 50.2), (1.5, 75.0), (1.9, 95.0)] {
        let spec = network(&[flow("external", json!({}))], 10, json!({}));
        let mut world = world(&spec);
        for step in 1..=300 {
            world.run_until(Nanos::from_millis(30 * step));
            if step == 1 {
                world.set_window(0, (windows * 625_000.0 / 1_480.0) as u32, None); // before the handshake is over
            }
            world.close_intervals(|_| true);
        }
        let stats = world.flows()[0].stats;
        close(stats.rtt_mean_s * 1e3, rtt_ms, 0.02, &format!("{windows} BDP"));
        assert!(stats.packets_out.is_nan() && stats.ca_state.is_nan(), "what QUIC does not tell is absent");
        close(stats.goodput_bps, f64::min(windows, 1.0) * 1e8 * 1416.0 / 1480.0, 0.04, "goodput");
        close(stats.delivery_rate_bps, stats.goodput_bps, 0.05, "delivery rate");
    }
}

#[test]
fn a_pacing_rate_is_kept() {
    let spec = network(&[flow("external", json!({}))], 6, json!({}));
    let mut world = world(&spec);
    world.run_until(Nanos::from_secs(1));
    for step in 1..=50 {
        world.set_window(0, 1_000, Some(50_000_000 / 8));
        world.run_until(Nanos::from_millis(1_000 + 100 * step));
    }
    let link = &world.link_totals()[0];
    // Of UDP payload; QUIC's own pacer takes a little.
    close(link.delivered_bytes as f64 * 8.0 / 5.0, 50e6 * 1480.0 / 1452.0, 0.07, "rate");
    assert!(link.queue_bytes_max < 60_000, "{}", link.queue_bytes_max);
}

#[test]
fn the_first_byte_takes_a_handshake_or_none() {
    let took = |options: Value| {
        let flow = with(flow("quinn-cubic", options), "traffic", json!({"kind": "bytes", "bytes": 1_000}));
        run(&network(&[flow], 2, json!({}))).0.finished_s.unwrap() * 1e3
    };
    // One way takes 25 ms: there and back for the handshake, and the data's way; or that alone.
    assert!((75.0..76.5).contains(&took(json!({}))), "{}", took(json!({})));
    assert!((25.0..26.0).contains(&took(json!({"resume": true}))), "{}", took(json!({"resume": true})));
}

/// A recorded series of the first flow, by ms.
fn series<'a>(world: &'a World, name: &str) -> &'a [f64] {
    let place = FLOW_SERIES.iter().position(|known| *known == name).unwrap();
    &world.recorder().unwrap().flows[place]
}

/// (ms, packets) at which packets were sent.
fn sent_at(world: &World) -> Vec<(u64, u64)> {
    let rows = series(world, "sent_packets").iter().zip(0..);
    rows.filter(|(packets, _)| **packets > 0.0).map(|(packets, ms)| (ms, *packets as u64)).collect()
}

#[test]
fn acknowledgements_wait_and_probes_go_as_rfc_9002_says() {
    // A packet every 200 ms, which takes exactly 25 ms, each acknowledged alone; from 6 s on nothing arrives.
    let outages = json!([{"at": 6_000 * MS, "duration": 2_000 * MS, "mode": "drop", "directions": "both"}]);
    let changes = json!({"/outages": outages, "/forward/rate": [], "/reverse/rate": []});
    let cbr = with(flow("quinn-newreno", json!({})), "traffic", json!({"kind": "cbr", "rate": 1_480 * 8 * 5}));
    let (_, world) = run(&network(&[cbr], 7, changes));
    // RFC 9000, section 13.2.1: a packet alone waits for max_ack_delay, 25 ms, which the smoothed RTT leaves out.
    close(series(&world, "rtt_ms")[5_900], 75.0, 1e-3, "RTT");
    close(series(&world, "srtt_ms")[5_900], 50.0, 1e-3, "smoothed RTT");
    // Section 6.2.1: the probe timeout is srtt + max(4 rttvar, 1 ms) + max_ack_delay = 50 + 1 + 25.
    let sent = sent_at(&world);
    let first = sent.iter().position(|(ms, _)| *ms >= 6_000).unwrap();
    assert!((76..=77).contains(&(sent[first + 1].0 - sent[first].0)), "{:?}", &sent[first..]);
    assert!(sent[first + 1].1 <= 2, "at most two probes (section 6.2.4)");
}

/// An outage in both directions of a link without rates, from 6 s on.
fn cut(duration_ms: u64) -> Value {
    let outages = json!([{"at": 6_000 * MS, "duration": duration_ms * MS, "mode": "drop", "directions": "both"}]);
    json!({"/outages": outages, "/forward/rate": [], "/reverse/rate": []})
}

#[test]
fn probe_timeouts_double() {
    // Pairs of packets, acknowledged at once: samples of exactly 50 ms. Flow control lets no new data go meanwhile.
    let limited = flow("quinn-newreno", json!({"stream_window": 18_000}));
    let (_, world) = run(&network(&[limited], 8, cut(3_000)));
    let sent: Vec<u64> = sent_at(&world).iter().map(|(ms, _)| *ms).filter(|ms| *ms >= 6_000 - 50).collect();
    let probes: Vec<u64> = sent.windows(2).map(|pair| pair[1] - pair[0]).filter(|gap| *gap > 50).collect();
    // RFC 9002, section 6.2.1: srtt + max(4 rttvar, 1 ms) + max_ack_delay, doubled with each expiry.
    for (found, wanted) in probes.iter().zip([76_u64, 152, 304, 608]) {
        assert!(found.abs_diff(wanted) <= 1, "{probes:?}");
    }
    assert!(probes.len() >= 4, "{probes:?}");
}

#[test]
fn congestion_is_persistent_after_three_probe_timeouts() {
    // A pair of packets every 20 ms. RFC 9002, section 7.6.1: (50 + 1 + 25 ms) x 3 = 228 ms.
    let pairs = with(flow("quinn-newreno", json!({})), "traffic", json!({"kind": "cbr", "rate": 2 * 1_480 * 8 * 50}));
    for (outage_ms, persistent) in [(120, 0), (190, 0), (290, 1), (600, 1)] {
        let (flow, _) = run(&network(std::slice::from_ref(&pairs), 8, cut(outage_ms)));
        assert_eq!(flow.rtos, persistent, "{outage_ms} ms");
    }
}

#[test]
fn a_packet_is_lost_when_one_sent_three_later_is_acknowledged_or_after_nine_eighths_of_the_rtt() {
    // One packet is lost; the others arrive after 25 ms, and what follows a gap is acknowledged at once (RFC 9000,
    // section 13.2.1): 3 intervals and the RTT after it was sent, or an interval and the RTT, if that is beyond 9/8 of it.
    for (apart_ms, wanted) in [(1, 53.0), (2, 56.0), (4, 56.25), (10, 60.0), (20, 70.0)] {
        let rate = 1_480 * 8 * 1_000 / apart_ms;
        let cbr = with(flow("quinn-newreno", json!({})), "traffic", json!({"kind": "cbr", "rate": rate}));
        let (flow, world) = run(&network(&[cbr], 8, cut(apart_ms)));
        assert_eq!(flow.lost_packets, 1, "every {apart_ms} ms");
        let lost = series(&world, "lost_packets").iter().position(|packets| *packets > 0.0).unwrap() as f64;
        let left = sent_at(&world).iter().map(|(ms, _)| *ms).find(|ms| *ms >= 6_000).unwrap() as f64;
        assert!((lost - left - wanted).abs() <= 1.5, "every {apart_ms} ms: after {} ms, not {wanted}", lost - left);
    }
}

#[test]
fn marks_take_the_place_of_losses() {
    let queue = json!({"/forward/queue": {"kind": "codel", "limit": 10_000, "target": 5 * MS, "interval": 100 * MS, "ecn": true}});
    let of = |ecn| {
        let (flow, mut world) = run(&network(&[flow("quinn-cubic", json!({"ecn": ecn}))], 10, queue.clone()));
        (flow.marked_packets, flow.lost_packets, world.link_totals()[0].marked_packets)
    };
    let (marked, lost, by_queue) = of(true);
    assert!(marked > 5 && lost == 0 && marked.abs_diff(by_queue) <= 3, "{marked} {lost} {by_queue}");
    let (marked, lost, _) = of(false);
    assert!(marked == 0 && lost > 5, "{marked} {lost}");
}

#[test]
fn losses_are_those_of_the_link() {
    let outages =
        json!([{"at": 3_000 * MS, "duration": 200 * MS, "mode": "drop", "flush": "queue", "directions": "both"}]);
    let lossy = json!({"/forward/loss": [[0, {"kind": "bernoulli", "p": 0.02}]], "/outages": outages});
    let (flow, mut world) = run(&network(&[flow("quinn-newreno", json!({}))], 10, lossy));
    let link = &world.link_totals()[0];
    let gone = link.dropped_packets + link.lost_packets;
    // Those of the last round trip are not known yet, and a few are declared lost before they arrive.
    assert!(gone.abs_diff(flow.lost_packets) * 50 <= gone + 250, "{} of {gone}", flow.lost_packets);
}

#[test]
fn flow_control_limits_a_long_path() {
    let slow = json!({"/forward/delay/points": [[0, 300 * MS]], "/reverse/delay/points": [[0, 300 * MS]]});
    let (_, world) = run(&network(&[flow("quinn-cubic", json!({"stream_window": 1_250_000}))], 30, slow));
    let last = &series(&world, "goodput_mbps")[20_000..];
    let mbps = last.iter().sum::<f64>() / last.len() as f64;
    // quinn's stream window per round trip of 600 ms; the receiver tells of new room when an eighth of it is free.
    assert!((16.67 * 7.0 / 8.0..16.67).contains(&mbps), "{mbps}");
}

#[test]
fn every_kind_of_traffic_arrives() {
    let over = |traffic: Value| run(&network(&[with(flow("cubic", json!({})), "traffic", traffic)], 10, json!({}))).0;
    let cbr = over(json!({"kind": "cbr", "rate": 10_000_000}));
    close(cbr.goodput_mbps, 10.0 * 1404.0 / 1480.0, 0.015, "cbr");
    let web = over(json!({"kind": "objects", "per_s": 5.0, "mean_bytes": 30_000.0, "sigma": 1.0}));
    assert!(web.objects.len() > 20 && web.objects.iter().filter(|object| object.2.is_none()).count() <= 1);
    assert!(web.objects.iter().all(|object| object.2.is_none_or(|seconds| seconds > 0.025)));
    let bursts = over(json!({"kind": "on_off", "on": 1_000 * MS, "off": 1_000 * MS}));
    assert!(bursts.goodput_mbps > 5.0);
    let object = over(json!({"kind": "bytes", "bytes": 5_000_001}));
    assert_eq!((object.received_bytes, object.finished_s.is_some()), (5_000_001, true));
}

#[test]
fn a_connection_ends_when_nothing_comes_for_half_a_minute() {
    let outage = json!([{"at": 5_000 * MS, "duration": 40_000 * MS, "mode": "drop", "directions": "both"}]);
    let (flow, _) = run(&network(&[flow("quinn-cubic", json!({}))], 60, json!({"/outages": outage})));
    assert!((34.9..37.0).contains(&flow.stop_s.unwrap()), "max_idle_timeout of quinn, 30 s: {:?}", flow.stop_s);
}

#[test]
fn what_quic_cannot_serve_is_refused_by_name() {
    let build = |flow: Value, preset: &Preset| {
        let spec = network(&[flow], 5, json!({}));
        World::with_agents(&spec, &Policies::new(), Nanos::ZERO, preset).err().map(|error| error.0).unwrap_or_default()
    };
    for (refused, says) in [
        (flow("leocc", json!({})), "asks for news of the path"),
        (flow("bbr3", json!({})), "follows single"),
        (flow("prague", json!({})), "counts marks"),
        (flow("udp", json!({})), "must be a controller with acknowledgements"),
        (flow("cubic", json!({"mtu": 100})), "flows[0].quic.mtu = 100"),
        (
            with(flow("cubic", json!({})), "controller", json!({"name": "cubic", "params": {"ecn": "classic"}})),
            "is for TCP",
        ),
        (
            with(flow("cubic", json!({})), "receiver", json!({"kind": "divide", "parts": 4})),
            "QUIC's receivers are honest",
        ),
        (json!({"name": "q", "path": [0], "controller": {"name": "quinn-bbr"}}), "are for flows with transport quic"),
    ] {
        let error = build(refused, &preset());
        assert!(error.contains(says), "{error}");
    }
    let error = build(flow("external", json!({})), &Preset::astraea(Nanos::from_millis(30)));
    assert!(error.contains("needs the statistic packets_out, which QUIC lacks"), "{error}");
    assert_eq!(build(flow("external", json!({})), &preset()), "");
    let mut alone =
        World::new(&network(&[flow("cubic", json!({}))], 5, json!({})), &Policies::new(), Nanos::ZERO).unwrap();
    alone.run();
    assert!(
        alone.failure().is_some_and(|failure| failure.to_string().contains("no hosts")),
        "without hosts it says so"
    );
}
