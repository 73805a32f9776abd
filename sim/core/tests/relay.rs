//! A proxy that splits a connection, against times and rates in closed form.

mod common;

use orbitcc_core::spec::RelaySpec;
use orbitcc_core::spec::*;
use orbitcc_core::time::Nanos;
use orbitcc_core::units::BitRate;
use orbitcc_core::world::{Policies, World};

use common::{check_conservation, delay, dumbbell, secs};

const MSS: u64 = 1448;

/// A terrestrial link of 40 ms and a satellite link of 600 ms, both of `rate_mbps` and without loss.
fn links(rate_mbps: [f64; 2]) -> NetworkSpec {
    let mut spec = dumbbell(rate_mbps[0], 40.0, 1 << 30, 30.0, &["reno", "reno"]);
    spec.links.push(spec.links[0].clone());
    let satellite = &mut spec.links[1];
    satellite.name = "satellite".into();
    satellite.forward.rate[0].1 = BitRate((rate_mbps[1] * 1e6) as u64);
    satellite.forward.delay = delay(&[(0.0, 300.0)]);
    satellite.reverse.delay = delay(&[(0.0, 300.0)]);
    spec
}

/// The same traffic from the server through the proxy to the client.
fn split(rate_mbps: [f64; 2], buffer: u64, traffic: TrafficSpec) -> World {
    let mut spec = links(rate_mbps);
    (spec.flows[0].path, spec.flows[1].path) = (vec![0], vec![1]);
    (spec.flows[0].traffic, spec.flows[1].traffic) = (traffic, traffic);
    spec.flows[1].relays = Some(RelaySpec { from: 0, buffer });
    World::new(&spec, &Policies::new(), Nanos::ZERO).unwrap()
}

fn end_to_end(rate_mbps: [f64; 2], traffic: TrafficSpec) -> World {
    let mut spec = links(rate_mbps);
    spec.flows.truncate(1);
    (spec.flows[0].path, spec.flows[0].traffic) = (vec![0, 1], traffic);
    World::new(&spec, &Policies::new(), Nanos::ZERO).unwrap()
}

fn finished_ms(mut world: World, flow: usize) -> f64 {
    world.run();
    check_conservation(&world).unwrap();
    world.flows()[flow].ended_at().expect("delivered").secs_f64() * 1e3
}

/// 70 segments are an initial window of 10 (RFC 6928) and two doublings (RFC 5681): 10 + 20 + 40. The last round arrives
/// two and a half round trips after the first segment was sent; a packet takes 12 us on a link of 1 Gbit/s.
#[test]
fn a_short_transfer_takes_the_round_trips_of_slow_start_on_the_satellite_link_alone() {
    let traffic = TrafficSpec::Bytes { bytes: 70 * MSS };
    let whole = finished_ms(end_to_end([1e3, 1e3], traffic), 0);
    assert!((whole - 2.5 * 640.0).abs() < 1.5, "{whole}");
    // The proxy has the first segments after 20 ms, and all others long before it may send them.
    let halves = finished_ms(split([1e3, 1e3], 1 << 20, traffic), 1);
    assert!((halves - (20.0 + 2.5 * 600.0)).abs() < 1.5, "{halves}");
    let to_proxy = finished_ms(split([1e3, 1e3], 1 << 20, traffic), 0);
    assert!((to_proxy - 2.5 * 40.0).abs() < 1.5, "{to_proxy}");
}

/// The last segment has one byte, and the second connection delivers exactly what the first was given.
#[test]
fn every_byte_goes_through_the_proxy() {
    let mut world = split([50.0, 50.0], 200_000, TrafficSpec::Bytes { bytes: 3_000_001 });
    world.run();
    let totals = world.flow_totals();
    assert_eq!([totals[0].received_bytes, totals[1].received_bytes], [3_000_001; 2]);
}

/// A proxy that holds 100 segments until the client has acknowledged them sends 100 per round trip of 600 ms.
#[test]
fn the_buffer_bounds_the_rate_of_the_second_connection_and_closes_the_window_of_the_first() {
    let mut world = split([100.0, 100.0], 100 * MSS, TrafficSpec::Bulk);
    let mut most = 0;
    for k in 1..=300 {
        world.run_until(secs(0.1 * f64::from(k)));
        let (first, second) = (&world.flows()[0], &world.flows()[1]);
        most = most.max(second.sender.write_seq() - second.sender.conn.snd_una);
        assert!(second.sender.write_seq() <= first.receiver.rcv_nxt, "sent before it came");
    }
    assert_eq!(most, 100, "held by the proxy");
    let rate = world.flow_totals()[1].received_bytes as f64 / 30.0;
    let wanted = 100.0 * MSS as f64 / 0.6;
    // The start, and the last half round trip, which is still under way.
    assert!((0.93..1.001).contains(&(rate / wanted)), "{}", rate / wanted);
    // The first connection is as slow: its receive buffer is full, and nothing was dropped or sent twice.
    let unread = world.flows()[0].receiver.rcv_nxt - world.flows()[1].sender.write_seq();
    let window = world.flows()[0].sender.receive_window() + world.flows()[0].sender.packets_out();
    assert!(unread > 100 && world.flow_totals()[0].retransmitted_packets == 0, "{unread} {window}");
    let received = world.flow_totals()[0].received_bytes / MSS;
    assert_eq!(received, u64::from(unread + world.flows()[1].sender.write_seq()));
    check_conservation(&world).unwrap();
}

/// The slower of the two connections decides: 20 Mbit/s before the proxy, 100 Mbit/s behind it.
#[test]
fn a_slow_first_connection_is_the_bottleneck() {
    let mut world = split([20.0, 100.0], 1 << 25, TrafficSpec::Bulk);
    world.run_until(secs(15.0));
    let before = world.flow_totals()[1].received_bytes;
    world.run_until(secs(25.0));
    let mbps = (world.flow_totals()[1].received_bytes - before) as f64 * 8.0 / 10.0 / 1e6;
    assert!((mbps / (20.0 * 1448.0 / 1500.0) - 1.0).abs() < 0.01, "{mbps}");
}

/// The proxy's second connection opens after three seconds, with as much waiting as its buffer holds.
#[test]
fn what_comes_before_the_second_connection_is_open_waits() {
    let mut spec = links([1e3, 1e3]);
    (spec.flows[0].path, spec.flows[1].path) = (vec![0], vec![1]);
    let traffic = TrafficSpec::Bytes { bytes: 70 * MSS };
    (spec.flows[0].traffic, spec.flows[1].traffic) = (traffic, traffic);
    spec.flows[1].relays = Some(RelaySpec { from: 0, buffer: 1 << 20 });
    spec.flows[1].start = secs(3.0);
    let world = World::new(&spec, &Policies::new(), Nanos::ZERO).unwrap();
    let found = finished_ms(world, 1);
    assert!((found - (3_000.0 + 2.5 * 600.0)).abs() < 1.5, "{found}");
}

#[test]
fn proxies_that_cannot_be_are_refused() {
    let refused = |change: fn(&mut NetworkSpec)| {
        let mut spec = links([10.0, 10.0]);
        spec.flows[1].relays = Some(RelaySpec { from: 0, buffer: 1 << 20 });
        change(&mut spec);
        spec.validate().err().map_or(String::new(), |e| e.0)
    };
    assert_eq!(refused(|_| ()), "");
    assert!(refused(|s| s.flows[1].relays.as_mut().unwrap().from = 1).starts_with("flows[1].relays.from = 1"));
    assert!(refused(|s| s.flows[1].relays.as_mut().unwrap().buffer = 9).starts_with("flows[1].relays.buffer = 9"));
    assert!(refused(|s| s.flows[0].traffic = TrafficSpec::Bytes { bytes: 9 }).contains("the same traffic"));
    assert!(refused(|s| s.flows[0].receiver = ReceiverSpec::Divide { parts: 2 }).contains("an honest receiver"));
    assert!(refused(|s| s.flows.push(s.flows[1].clone())).contains("that no other relays"));
}
