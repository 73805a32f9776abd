//! What applications ask for and get: downloads on one connection, flows whose path changes or that stop, datagrams at line
//! rate, receivers with little room.

mod common;

use common::{dumbbell, run, secs};
use orbitcc_core::spec::*;
use orbitcc_core::time::Nanos;
use orbitcc_core::units::BitRate;
use orbitcc_core::world::{Policies, World};

#[test]
fn downloads_arrive_as_asked_and_are_timed() {
    let mut spec = dumbbell(50.0, 40.0, 250_000, 600.0, &["cubic"]);
    spec.flows[0].traffic = TrafficSpec::Objects { per_s: 2.0, mean_bytes: 30_000.0, sigma: 1.3 };
    let mut world = World::new(&spec, &Policies::new(), Nanos::ZERO).unwrap();
    world.run();
    let totals = &world.flow_totals()[0];
    let n = totals.objects.len() as f64;
    // 1,200 expected: within four standard deviations of a Poisson count.
    assert!((n - 1200.0).abs() < 4.0 * 1200f64.sqrt(), "{n}");
    let mean = totals.objects.iter().map(|o| o.1 as f64).sum::<f64>() / n;
    assert!((20_000.0..45_000.0).contains(&mean), "{mean}");
    let unfinished = totals.objects.iter().filter(|o| o.2.is_none()).count();
    assert!(unfinished <= 3, "{unfinished}");
    // An object takes half a round trip and its own transmission at least, and most of these take a few round trips.
    assert!(totals.objects.iter().filter_map(|o| o.2).all(|s| s >= 0.02));
    let done: Vec<f64> = totals.objects.iter().filter_map(|o| o.2).collect();
    let average = done.iter().sum::<f64>() / done.len() as f64;
    assert!((0.02..0.25).contains(&average), "{average}");
    let segments: u64 = totals.objects.iter().filter(|o| o.2.is_some()).map(|o| o.1.div_ceil(1448) * 1448).sum();
    assert!(totals.received_bytes >= segments && totals.received_bytes < segments + 4_000_000);
}

#[test]
fn bursts_have_their_mean_rate_however_short_they_are() {
    // The time of one segment at this rate, 120 ms, is longer than most bursts of 50 ms.
    for (on_s, off_s) in [(0.352, 0.65), (0.05, 0.05)] {
        let mut spec = dumbbell(50.0, 40.0, 250_000, 20_000.0, &["udp"]);
        spec.flows[0].traffic = TrafficSpec::OnOff { rate: Some(BitRate(100_000)), on: secs(on_s), off: secs(off_s) };
        let mut world = World::new(&spec, &Policies::new(), Nanos::ZERO).unwrap();
        world.run();
        let mbps = world.flow_totals()[0].sent_packets as f64 * 1500.0 * 8e-6 / 20_000.0;
        let wanted = 0.1 * on_s / (on_s + off_s);
        assert!((mbps / wanted - 1.0).abs() < 0.03, "{on_s} s on, {off_s} s off: {mbps}, not {wanted}");
    }
}

#[test]
fn after_a_reroute_data_and_acknowledgements_take_the_new_path() {
    let mut spec = dumbbell(50.0, 40.0, 250_000, 20.0, &["cubic"]);
    let mut other = spec.links[0].clone();
    other.name = "other".into();
    other.forward.rate[0].1.0 = 20_000_000;
    spec.links.push(other);
    let reroute = |at, link| RerouteSpec { at: secs(at), path: vec![link], return_path: None };
    spec.flows[0].reroutes = vec![reroute(10.0, 1), reroute(15.0, 0)];
    let mut world = World::new(&spec, &Policies::new(), secs(1.0)).unwrap();
    world.run();
    let rows = &world.recorder().unwrap().links[1];
    let delivered = |link: usize| rows.iter().skip(link).step_by(2).copied().collect::<Vec<f64>>();
    let (first, second) = (delivered(0), delivered(1));
    assert!(second[..9].iter().all(|x| *x == 0.0) && second[11..15].iter().all(|x| *x > 15.0), "{second:?}");
    assert!(first[11..15].iter().all(|x| *x == 0.0) && first[17..].iter().all(|x| *x > 20.0), "{first:?}");
    common::check_conservation(&world).unwrap();
}

/// Two links in opposite directions, as between two satellites: data of each flow meet the other's acknowledgements.
fn two_ways(rates: [u64; 2]) -> NetworkSpec {
    let mut spec = dumbbell(50.0, 40.0, 250_000, 20.0, &["cubic", "cubic"]);
    spec.links.push(spec.links[0].clone());
    for (link, rate) in spec.links.iter_mut().zip(rates) {
        link.forward.rate[0].1.0 = rate;
    }
    spec.flows[0].return_path = Some(vec![1]);
    (spec.flows[1].path, spec.flows[1].return_path) = (vec![1], Some(vec![0]));
    spec
}

#[test]
fn acknowledgements_wait_in_the_queue_of_the_return_path() {
    // 250 kB take 40 ms at 50 Mbit/s and 200 ms at 10 Mbit/s: behind the data of the other flow.
    let mut spec = two_ways([50_000_000, 10_000_000]);
    let alone = {
        let mut alone = spec.clone();
        alone.flows.truncate(1);
        let mut world = World::new(&alone, &Policies::new(), secs(0.1)).unwrap();
        world.run();
        world.flow_totals()[0].srtt_p95_ms
    };
    spec.flows[0].start = secs(5.0);
    let mut world = World::new(&spec, &Policies::new(), secs(0.1)).unwrap();
    world.run();
    let both = world.flow_totals()[0].srtt_p95_ms;
    assert!((60.0..90.0).contains(&alone), "{alone}");
    assert!((140.0..300.0).contains(&both), "{both}");
    common::check_conservation(&world).unwrap();
}

/// Two links of 12 Mbit/s in series, each with a buffer of one packet of 1500 bytes, fed at line rate.
fn chain(changes_of_nothing: u64) -> NetworkSpec {
    let mut spec = dumbbell(12.0, 0.0, 1_500, 5.0, &["udp"]);
    spec.flows[0].traffic = TrafficSpec::Cbr { rate: BitRate(12_000_000), packet: None };
    spec.links.push(spec.links[0].clone());
    spec.flows[0].path = vec![0, 1];
    spec.links[1].forward.loss = (0..changes_of_nothing).map(|k| (Nanos(k * 1_000_000), LossSpec::None)).collect();
    spec
}

#[test]
fn a_departure_that_is_due_comes_before_any_arrival() {
    for exact in [false, true] {
        for changes in [1, 5_000] {
            let found = run(&NetworkSpec { exact, ..chain(changes) });
            let dropped: u64 = found.link_totals.iter().map(|link| link.dropped_packets).sum();
            assert_eq!(dropped, 0, "{exact} {changes}");
            assert!(found.flow_totals[0].sent_packets >= 5_000);
        }
    }
}

#[test]
fn a_closed_window_opens_again_whatever_the_size_of_segments_and_buffers() {
    for mss in [64, 256, 536, 1100, 1448, 9000] {
        for rmem in [20_000, 40_000, 131_072u64] {
            let mut spec = dumbbell(12.0, 20.0, 60_000, 30.0, &["cubic"]);
            spec.tcp = TcpSpec { mss, rmem: [4096, rmem, rmem], ..spec.tcp };
            spec.links[0].forward.queue = QueueSpec::DropTailPackets { limit: 100 };
            if rmem < 4 * (u64::from(mss) + 12) {
                assert!(World::new(&spec, &Policies::new(), Nanos::ZERO).is_err());
                continue;
            }
            for p in [0.0, 0.01, 0.1] {
                spec.links[0].forward.loss = vec![(Nanos::ZERO, LossSpec::Bernoulli { p })];
                let found = run(&spec);
                let late = found.mean(0, "goodput_mbps", 20.0, 30.0);
                assert!(late > 0.0, "mss {mss}, rmem {rmem}, loss {p}: {late} Mbit/s in the end");
            }
        }
    }
}

#[test]
fn a_lost_window_update_is_asked_for() {
    // Whatever is acknowledged from 1 s to 3 s is lost; a buffer of few segments closes its window again and again.
    let mut spec = dumbbell(12.0, 20.0, 60_000, 20.0, &["cubic"]);
    spec.tcp = TcpSpec { mss: 1100, rmem: [4096, 12_000, 12_000], ..spec.tcp };
    spec.links[0].reverse.loss = [(0.0, 0.0), (1.0, 1.0), (3.0, 0.0)]
        .map(|(at, p)| (secs(at), if p > 0.0 { LossSpec::Bernoulli { p } } else { LossSpec::None }))
        .to_vec();
    let found = run(&spec);
    assert!(found.mean(0, "goodput_mbps", 10.0, 20.0) > 0.0);
}

#[test]
fn goodput_counts_what_arrives_while_the_flow_is_active() {
    let mut spec = dumbbell(100.0, 50.0, 625_000, 1.0, &["cubic"]);
    spec.flows[0].stop = Some(Nanos(1));
    let found = run(&spec);
    assert_eq!(found.flow_totals[0].goodput_mbps, 0.0);
    assert_eq!(found.flow_totals[0].received_bytes, 10 * 1448, "the first window arrives later");
    spec.flows[0].stop = Some(secs(0.5));
    let rate = run(&spec).flow_totals[0].goodput_mbps;
    assert!((10.0..=97.0).contains(&rate), "{rate}");
}
